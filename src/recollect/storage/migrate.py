"""Bringing a database to the schema this version expects: roles and extensions, then numbered migrations.

Each migration is one transaction under an advisory lock and is recorded with its checksum, so that two starters do not
collide and a killed one leaves nothing half done.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from importlib import resources
from typing import Any

import psycopg
from procrastinate.schema import SchemaManager
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict

from recollect.errors import ConfigurationError, DatabaseUnavailable

# Any fixed number: it names our lock among the advisory locks of the database.
MIGRATION_LOCK = 7_265_636_863
_FILE = re.compile(r"(\d{4})_[a-z0-9_]+\.sql")
_QUEUE_FILE = re.compile(r"\d\d\.\d\d\.\d\d_\d\d_\w+\.sql")

Connection = psycopg.AsyncConnection[Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Migration:
    """One step of the schema."""

    name: str
    sql: str
    schema: str = "recollect"

    @property
    def checksum(self) -> str:
        """SHA-256 of the text; a step that was applied must never change."""
        return hashlib.sha256(self.sql.encode()).hexdigest()


def migrations() -> list[Migration]:
    """Our numbered steps, in order."""
    folder = resources.files("recollect.storage").joinpath("migrations")
    files = sorted((file for file in folder.iterdir() if _FILE.fullmatch(file.name)), key=lambda file: file.name)
    return [Migration(name=file.name.removesuffix(".sql"), sql=file.read_text("utf-8")) for file in files]


def bootstrap_script() -> str:
    """SQL that an administrator can run where `recollect db init` may not."""
    return resources.files("recollect.storage").joinpath("bootstrap.sql").read_text("utf-8")


def login_script(login: str) -> str:
    """SQL that lets the login role `login` act as the application, for an administrator to run."""
    return _login_grants(login).as_string(None)


def setup_script(login: str, owner: str | None) -> str:
    """The whole script for an administrator: roles, extensions and schemas, then who may use them."""
    parts = [
        bootstrap_script(),
        f"-- The application's login. Unless it exists: CREATE ROLE {sql.Identifier(login).as_string(None)} "
        "LOGIN NOBYPASSRLS PASSWORD '…';",
        login_script(login),
    ]
    if owner is not None:
        grant = sql.SQL("GRANT recollect_owner, recollect_search TO {};").format(sql.Identifier(owner))
        parts += ["-- The login that migrates (`recollect db init`, `recollect db migrate`).", grant.as_string(None)]
    return "\n".join(parts) + "\n"


def _login_grants(login: str) -> sql.Composed:
    return sql.SQL(
        "GRANT recollect_app TO {login};\n"
        "GRANT recollect_retention, recollect_readonly TO {login} WITH INHERIT FALSE, SET TRUE;"
    ).format(login=sql.Identifier(login))


def login_of(dsn: str) -> tuple[str, str | None]:
    """User and password of a connection string."""
    try:
        parts = conninfo_to_dict(dsn)
    except psycopg.ProgrammingError as error:
        raise ConfigurationError("the database address is not a PostgreSQL connection string") from error
    if not parts.get("user"):
        raise ConfigurationError("the database address must name a user, as in postgresql://user@host/database")
    return str(parts["user"]), str(parts["password"]) if parts.get("password") else None


async def ensure_database(admin_dsn: str, name: str) -> None:
    """Create the database `name` if it is missing (embedded server only)."""
    async with await _connect(admin_dsn) as connection:
        await connection.execute("SELECT pg_advisory_lock(%s)", [MIGRATION_LOCK])
        found = await connection.execute("SELECT FROM pg_database WHERE datname = %s", [name])
        if not found.rowcount:
            await connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))


async def prepare(owner_dsn: str, *, login: str, password: str | None = None) -> list[str]:
    """Create roles, extensions and schemas where missing, let `login` in, and migrate; the steps applied."""
    async with await _connect(owner_dsn) as connection:
        await connection.execute("SELECT pg_advisory_lock(%s)", [MIGRATION_LOCK])
        try:
            await _bootstrap(connection, login, password)
            return await _migrate(connection)
        finally:
            if not connection.closed:
                await connection.execute("SELECT pg_advisory_unlock(%s)", [MIGRATION_LOCK])


async def pending(dsn: str) -> list[str]:
    """The names of steps that the database still lacks; every name on an empty database."""
    async with await _connect(dsn) as connection:
        applied = await _applied(connection)
        return [step.name for step in [*migrations(), *_queue_steps()] if step.name not in applied]


async def _connect(dsn: str) -> Connection:
    try:
        return await psycopg.AsyncConnection.connect(dsn, autocommit=True, connect_timeout=5)
    except psycopg.OperationalError as error:
        raise DatabaseUnavailable(
            "the database cannot be reached; check its address and that the server is up"
        ) from error


async def _bootstrap(connection: Connection, login: str, password: str | None) -> None:
    if await _is_bootstrapped(connection, login):
        return
    try:
        async with connection.transaction():
            await connection.execute(bootstrap_script())
            exists = await connection.execute("SELECT FROM pg_roles WHERE rolname = %s", [login])
            if not exists.rowcount:
                create = sql.SQL("CREATE ROLE {} LOGIN NOBYPASSRLS").format(sql.Identifier(login))
                if password:
                    create += sql.SQL(" PASSWORD {}").format(sql.Literal(password))
                await connection.execute(create)
            await connection.execute(_login_grants(login))
    except psycopg.errors.InsufficientPrivilege as error:
        raise ConfigurationError(
            "this role may not create roles or extensions; ask an administrator to run what "
            "`recollect db init --print-sql` prints, then run `recollect db init` again"
        ) from error


async def _is_bootstrapped(connection: Connection, login: str) -> bool:
    found = await connection.execute(
        """SELECT to_regnamespace('recollect') IS NOT NULL AND to_regnamespace('recollect_queue') IS NOT NULL
               AND (SELECT count(*) FROM pg_extension WHERE extname IN ('vector', 'pg_trgm', 'btree_gin')) = 3
               AND EXISTS (SELECT FROM pg_auth_members m JOIN pg_roles g ON g.oid = m.roleid
                           JOIN pg_roles u ON u.oid = m.member
                           WHERE g.rolname = 'recollect_retention' AND u.rolname = %s)""",
        [login],
    )
    row = await found.fetchone()
    return bool(row and row[0])


async def _migrate(connection: Connection) -> list[str]:
    await connection.execute("SET search_path = recollect, public")
    async with connection.transaction():
        await connection.execute("SET LOCAL ROLE recollect_owner")
        await connection.execute(
            """CREATE TABLE IF NOT EXISTS schema_migrations (
                   name text PRIMARY KEY, checksum text NOT NULL, applied_at timestamptz NOT NULL DEFAULT now())"""
        )
        await connection.execute("GRANT SELECT ON schema_migrations TO recollect_app")
    applied = await _applied(connection)
    done = []
    for step in [*migrations(), *_queue_steps(fresh=not any(name.startswith("queue:") for name in applied))]:
        if step.name not in applied:
            await _apply(connection, step)
            done.append(step.name)
        elif applied[step.name] != step.checksum and step.schema == "recollect":
            raise ConfigurationError(
                f"migration {step.name} was changed after it was applied; install the version of Recollect that "
                "made this database, or restore a backup"
            )
    return done


async def _apply(connection: Connection, step: Migration) -> None:
    async with connection.transaction():
        await connection.execute("SET LOCAL ROLE recollect_owner")
        await connection.execute(
            sql.SQL("SET LOCAL search_path = {}, public").format(sql.Identifier(step.schema))
        )
        await connection.execute(step.sql)
        await connection.execute(
            "INSERT INTO recollect.schema_migrations (name, checksum) VALUES (%s, %s)", [step.name, step.checksum]
        )


async def _applied(connection: Connection) -> dict[str, str]:
    exists = await (await connection.execute("SELECT to_regclass('recollect.schema_migrations')")).fetchone()
    if not exists or exists[0] is None:
        return {}
    rows = await connection.execute("SELECT name, checksum FROM recollect.schema_migrations")
    return dict(await rows.fetchall())


def _queue_steps(*, fresh: bool = False) -> list[Migration]:
    """The steps of the job queue's own schema, which its package numbers by version.

    An empty database gets the whole schema at once, and the numbered steps are recorded as done.
    """
    folder = resources.files("procrastinate.sql").joinpath("migrations")
    names = sorted(file.name for file in folder.iterdir() if _QUEUE_FILE.fullmatch(file.name))
    steps = [
        Migration(
            name=f"queue:{name.removesuffix('.sql')}",
            sql="" if fresh else folder.joinpath(name).read_text("utf-8"),
            schema="recollect_queue",
        )
        for name in names
    ]
    grants = resources.files("recollect.storage").joinpath("queue_grants.sql").read_text("utf-8")
    whole = [Migration(name="queue:schema", sql=SchemaManager.get_schema(), schema="recollect_queue")]
    closing = Migration(name=f"queue:grants:{names[-1].removesuffix('.sql')}", sql=grants, schema="recollect_queue")
    return [*whole, *steps, closing]
