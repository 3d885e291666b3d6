"""Bring a database to the schema of this version: roles and extensions, then numbered migrations.

Each migration is one transaction under an advisory lock and is recorded with its checksum. So two processes that start
do not collide, and a killed one leaves nothing half done.
"""

from __future__ import annotations

import asyncio
import hashlib
import itertools
import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from importlib import resources
from typing import Any, cast

import psycopg
from procrastinate.schema import SchemaManager
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict
from psycopg.rows import tuple_row

from recordari.db.pool import refuse_pooler
from recordari.db.queries import Queries, Query
from recordari.errors import ConfigurationError, DatabaseUnavailable

# Any fixed number: the id of our lock among the advisory locks of the database.
MIGRATION_LOCK = 7_265_636_863
BOOTSTRAP_TRIES = 20
_FILE = re.compile(r"(\d{4})_[a-z0-9_]+\.sql")
_NEW_TABLE = re.compile(r"CREATE TABLE (\w+)")
_LEADING = re.compile(r"\A(?:\s+|--[^\n]*|/\*.*?\*/)*", re.DOTALL)
# What may hold a semicolon that ends no statement, or one that does.
_PIECES = re.compile(r"--[^\n]*|/\*.*?\*/|'(?:[^']|'')*'|(?P<tag>\$\w*\$).*?(?P=tag)|(?P<end>;)", re.DOTALL)
_QUEUE_FILE = re.compile(r"\d\d\.\d\d\.\d\d_\d\d_\w+\.sql")

Connection = psycopg.AsyncConnection[Any]

queries = Queries(__name__)

CHECKPOINT_SECONDS = 0.2  # enough to ask for one


@dataclass(frozen=True, slots=True, kw_only=True)
class Migration:
    name: str
    sql: str
    schema: str = "recordari"
    includes: tuple[str, ...] = ()
    """Names of steps that this one replaces."""

    @property
    def statements(self) -> list[str]:
        """Its statements one by one, without the comments before them."""
        ends = [0, *(piece.end() for piece in _PIECES.finditer(self.sql) if piece["end"]), len(self.sql)]
        parts = (_LEADING.sub("", self.sql[start:end]) for start, end in itertools.pairwise(ends))
        return [part for part in parts if part]

    @property
    def checksum(self) -> str:
        """SHA-256 of the text; a step that was applied must never change."""
        return hashlib.sha256(self.sql.encode()).hexdigest()


def migrations() -> list[Migration]:
    folder = resources.files(__package__).joinpath("migrations")
    files = sorted((file for file in folder.iterdir() if _FILE.fullmatch(file.name)), key=lambda file: file.name)
    return [Migration(name=file.name.removesuffix(".sql"), sql=file.read_text("utf-8")) for file in files]


def bootstrap_script() -> str:
    """SQL that an administrator can run where `recordari db init` may not."""
    return resources.files(__package__).joinpath("bootstrap.sql").read_text("utf-8")


def login_script(login: str) -> str:
    """SQL that lets the login role `login` act as the application."""
    grants = sql.SQL(
        "GRANT recordari_app TO {login};\n"
        "GRANT recordari_tenant, recordari_retention, recordari_readonly TO {login} WITH INHERIT FALSE, SET TRUE;"
    )
    return grants.format(login=sql.Identifier(login)).as_string(None)


def ensure_login(login: str) -> str:
    """SQL that makes the login role where it is missing, and lets it act as the application."""
    create = sql.SQL(
        "DO $login$\nBEGIN\n"
        "    IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = {name}) THEN\n"
        "        CREATE ROLE {login} LOGIN NOBYPASSRLS;\n"
        "    END IF;\nEND $login$;"
    ).format(name=sql.Literal(login), login=sql.Identifier(login))
    return f"{create.as_string(None)}\n{login_script(login)}"


def setup_script(login: str, owner: str | None) -> str:
    """The whole script for an administrator: roles, extensions, schemas, and the grants on them."""
    parts = [
        bootstrap_script(),
        "-- The application's login. Give it the password of its address: ALTER ROLE … PASSWORD '…'.",
        ensure_login(login),
    ]
    if owner is not None:
        grant = sql.SQL("GRANT recordari_owner, recordari_search TO {};").format(sql.Identifier(owner))
        parts += ["-- The login that migrates (`recordari db init`, `recordari db migrate`).", grant.as_string(None)]
    return "\n".join(parts) + "\n"


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
    async with await _connect(admin_dsn) as connection, exclusive(connection):
        if not await _value(connection, queries.has_database, name=name):
            await connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))


async def prepare(owner_dsn: str, *, login: str, password: str | None = None) -> list[str]:
    """Create missing roles, extensions and schemas, grant `login` access, and migrate; returns the steps applied."""
    async with await _connect(owner_dsn) as connection:
        await refuse_pooler(connection, owner_dsn)
        async with exclusive(connection):
            is_divided = await division(connection)
            if is_divided is False:
                # Nothing is on the other nodes before `db distribute`, which brings all of it there.
                await connection.execute(queries.stay_here.sql)
            await _bootstrap(connection, login, password)
            return await _migrate(connection, is_divided=bool(is_divided))


async def division(connection: Connection) -> bool | None:
    """Whether the tables are divided among the nodes of a cluster; None where the database has no Citus."""
    return cast("bool | None", await _value(connection, queries.division))


async def request_checkpoint(owner_dsn: str) -> None:
    """Let the server write all that it holds in memory to its files, without waiting for it.

    A new schema is hundreds of files. While they are not on the disk, a start after a crash writes them first.
    """
    async with await _connect(owner_dsn) as connection:
        with suppress(TimeoutError, psycopg.Error):  # the server goes on by itself
            async with asyncio.timeout(CHECKPOINT_SECONDS):
                await connection.execute(queries.checkpoint.sql)


@asynccontextmanager
async def exclusive(connection: Connection) -> AsyncIterator[None]:
    """Hold the lock of this database's migrations; it also ends with the connection."""
    await connection.execute(queries.lock.sql, {"key": MIGRATION_LOCK})
    try:
        yield
    finally:
        if not connection.closed:
            await connection.execute(queries.unlock.sql, {"key": MIGRATION_LOCK})


async def _value(connection: Connection, query: Query, **parameters: Any) -> Any:
    async with connection.cursor(row_factory=tuple_row) as cursor:
        row = await (await cursor.execute(query.sql, parameters)).fetchone()
        return row[0] if row else None


async def pending(dsn: str) -> list[str]:
    """The names of steps that the database still lacks."""
    async with await _connect(dsn) as connection:
        applied = await _applied(connection)
        return [step.name for step in [*migrations(), *_queue_steps(applied)] if step.name not in applied]


async def _connect(dsn: str) -> Connection:
    try:
        return await psycopg.AsyncConnection.connect(dsn, autocommit=True, connect_timeout=5)
    except psycopg.OperationalError as error:
        raise DatabaseUnavailable(
            "the database cannot be reached; check its address and that the server is up"
        ) from error


async def _bootstrap(connection: Connection, login: str, password: str | None) -> None:
    for _ in range(BOOTSTRAP_TRIES):
        if await _value(connection, queries.is_bootstrapped, login=login):
            return
        try:
            async with connection.transaction():
                await _create_roles(connection, login, password)
        except (psycopg.errors.UniqueViolation, psycopg.errors.DuplicateObject, psycopg.errors.InternalError_):
            # Roles are shared by all databases of a server, and another process prepares one at this moment.
            await asyncio.sleep(0.1)
        except psycopg.errors.InsufficientPrivilege as error:
            raise ConfigurationError(
                "this role may not create roles or extensions; ask an administrator to run the output of "
                "`recordari db init --print-sql`, then run `recordari db init` again"
            ) from error
        else:
            return
    raise ConfigurationError("roles could not be created because other processes keep changing them; try again")


async def _create_roles(connection: Connection, login: str, password: str | None) -> None:
    await connection.execute(bootstrap_script())
    if not await _value(connection, queries.has_role, name=login):
        create = sql.SQL("CREATE ROLE {} LOGIN NOBYPASSRLS").format(sql.Identifier(login))
        if password:
            create += sql.SQL(" PASSWORD {}").format(sql.Literal(password))
        await connection.execute(create)
    await connection.execute(login_script(login))


async def _migrate(connection: Connection, *, is_divided: bool) -> list[str]:
    async with as_owner(connection):
        for query in (queries.create_record, queries.show_record):
            await connection.execute(query.sql)
    applied = await _applied(connection)
    done: list[str] = []
    for step in [*migrations(), *_queue_steps(applied)]:
        if step.name not in applied:
            await (_apply_divided if is_divided else _apply)(connection, step)
            done.append(step.name)
        elif applied[step.name] != step.checksum and step.schema == "recordari":
            raise ConfigurationError(
                f"migration {step.name} was changed after it was applied to the database {connection.info.dbname} at "
                f"{connection.info.host}; install the version of Recordari that made it, or restore a backup"
            )
    if done:
        async with as_owner(connection, on_one_node=is_divided):
            found = await (await connection.execute(queries.has_full_tenants.sql)).fetchone()
            if found == (True,):
                await connection.execute(queries.expect_full_tenants.sql)
    return done


@asynccontextmanager
async def as_owner(connection: Connection, *, on_one_node: bool = False) -> AsyncIterator[None]:
    """One transaction of the owner of the schema; on a cluster it may hand on nothing to other nodes."""
    async with connection.transaction():
        await connection.execute(queries.become_owner.sql)
        if on_one_node:
            await connection.execute(queries.make_here.sql)
        yield


async def _apply(connection: Connection, step: Migration) -> None:
    async with _recorded(connection, step):
        await connection.execute(step.sql)


@asynccontextmanager
async def _recorded(connection: Connection, step: Migration) -> AsyncIterator[None]:
    """One transaction of the owner that applies a step."""
    async with as_owner(connection):
        await connection.execute(sql.SQL("SET LOCAL search_path = {}, public").format(sql.Identifier(step.schema)))
        yield
        names = [step.name, *step.includes]
        await connection.execute(queries.record.sql, {"names": names, "checksums": [step.checksum] * len(names)})


async def _apply_divided(connection: Connection, step: Migration) -> None:
    """Apply a step on all nodes: a cluster takes the statements one by one, and a new table is divided at once."""
    try:
        async with _recorded(connection, step):
            await connection.execute(queries.one_by_one.sql)
            for statement in step.statements:
                new = _NEW_TABLE.match(statement) if step.schema == "recordari" else None
                if new:
                    await connection.execute(queries.make_here.sql)
                await connection.execute(statement)
                if new:
                    await connection.execute(queries.hand_on.sql)
                    await connection.execute(queries.divide_new.sql, {"name": new[1]})
    except psycopg.Error as error:
        raise ConfigurationError(
            f"migration {step.name} cannot run on a divided database ({error.diag.message_primary or error}); it changed "
            "nothing. Stop servers and workers, then run `recordari db undistribute`, `db migrate` and `db distribute`"
        ) from error


async def _applied(connection: Connection) -> dict[str, str]:
    if not await _value(connection, queries.has_record):
        return {}
    return dict(await (await connection.execute(queries.applied.sql)).fetchall())


def _queue_steps(applied: Mapping[str, str]) -> list[Migration]:
    """The steps of the job queue's own schema, which its package numbers by version.

    A new database gets the whole schema at once, and in the same transaction the record that it includes every step.
    """
    folder = resources.files("procrastinate.sql").joinpath("migrations")
    schema = "recordari_queue"
    texts = {
        file.name.removesuffix(".sql"): file.read_text("utf-8")
        for file in sorted(folder.iterdir(), key=lambda file: file.name)
        if _QUEUE_FILE.fullmatch(file.name)
    }
    steps = [Migration(name=f"queue:{name}", sql=text, schema=schema) for name, text in texts.items()]
    includes = tuple(step.name for step in steps)
    whole = Migration(name="queue:schema", sql=SchemaManager.get_schema(), schema=schema, includes=includes)
    grants = resources.files(__package__).joinpath("queue_grants.sql").read_text("utf-8")
    closing = Migration(name=f"queue:grants:{max(texts)}", sql=grants, schema=schema)
    return [whole, *(steps if whole.name in applied else []), closing]
