"""Dump and restore the whole database with PostgreSQL's own programs.

A dump holds the two schemas of Recordari. Roles and extensions belong to the server: a restore creates them first.
A restore is one transaction, so that a dump that cannot be restored changes nothing.
"""

from __future__ import annotations

import itertools
import os
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import IO, Any, TypeVar

import psycopg
from psycopg import pq, sql
from psycopg.conninfo import make_conninfo
from psycopg.rows import class_row

from recordari.db.pool import refuse_pooler
from recordari.db.queries import Queries, Query
from recordari.errors import ConfigurationError, DatabaseUnavailable, InvalidInput

queries = Queries(__name__)

SCHEMAS = ("recordari", "recordari_queue")
MAGIC = b"PGDMP"  # the first bytes of a dump in PostgreSQL's custom format


@dataclass(frozen=True, slots=True, kw_only=True)
class Reader:
    """The role that would read a dump; `rows_hidden` when row-level security would leave rows out of it."""

    role: str
    rows_hidden: bool


async def find_reader(owner_dsn: str) -> Reader:
    """The role that dumps, and whether it sees every row."""
    async with await _connect(owner_dsn) as connection, connection.cursor(row_factory=class_row(Reader)) as cursor:
        reader = await (await cursor.execute(queries.reader.sql)).fetchone()
        assert reader is not None
        return reader


async def has_schema(owner_dsn: str) -> bool:
    """Whether the database has been migrated at all."""
    async with await _connect(owner_dsn) as connection:
        row = await (await connection.execute(queries.has_tenants_table.sql)).fetchone()
        return bool(row and row[0])


async def count_rows(owner_dsn: str) -> dict[str, int]:
    """Count the rows of each table that has any, for a role that sees them all."""
    counts = {}
    # Without row security the server raises an error rather than count only the rows that a policy shows.
    async with await _connect(make_conninfo(owner_dsn, options="-c row_security=off")) as connection:
        for schema, table in await (await connection.execute(queries.list_tables.sql)).fetchall():
            count = sql.SQL("SELECT count(*) FROM {}").format(sql.Identifier(schema, table))
            row = await (await connection.execute(count)).fetchone()
            if row and row[0]:
                counts[str(table)] = int(row[0])
    return counts


def dump(owner_dsn: str, programs: Path, file: Path) -> int:
    """Write a dump under a temporary name, then rename it; returns the size in bytes. Blocking."""
    environment = _child_environment(owner_dsn)
    command = [
        str(programs / "pg_dump"), "--format=custom", "--no-password",
        *(f"--schema={name}" for name in SCHEMAS),
    ]  # fmt: skip
    try:
        # Made private by mkstemp: the dump holds the memory of every tenant.
        fd, name = tempfile.mkstemp(prefix=f".{file.name}.", suffix=".partial", dir=file.parent)
    except OSError as error:
        raise ConfigurationError(f"{file.parent} cannot be written: {error.strerror}; choose another file") from error
    partial = Path(name)
    try:
        with os.fdopen(fd, "wb") as target:
            _run(command, environment, stdout=target)
            target.flush()
            os.fsync(target.fileno())
        written = partial.stat().st_size
        partial.replace(file)
    finally:
        partial.unlink(missing_ok=True)
    return written


def restore(owner_dsn: str, programs: Path, file: Path) -> None:
    """Replace the two schemas by those of a dump, in one transaction. Blocking."""
    environment = _child_environment(owner_dsn)
    with tempfile.TemporaryFile() as script:
        script.write(resources.files(__package__).joinpath("restore.sql").read_bytes())
        script.flush()
        _run([str(programs / "pg_restore"), "--file=-", str(file)], environment, stdout=script)
        script.seek(0)
        command = [
            str(programs / "psql"), "--no-psqlrc", "--quiet", "--no-password", "--single-transaction",
            "--set=ON_ERROR_STOP=1", "--output=/dev/null", "--file=-",
        ]  # fmt: skip
        _run(command, environment, stdin=script)


def run_psql(owner_dsn: str, programs: Path, arguments: Sequence[str]) -> int:
    """Run psql on this terminal until it ends; returns its exit code. Blocking."""
    environment = _child_environment(owner_dsn)
    command = [str(programs / "psql"), *arguments]
    return subprocess.run(command, env=environment, check=False).returncode  # noqa: S603 - the operator's own words


def dumped_migrations(programs: Path, file: Path) -> dict[str, str]:
    """Read the migrations of a dump and their checksums; raise `InvalidInput` when it is not one of ours."""
    _check_format(file)
    command = [
        str(programs / "pg_restore"), "--file=-", "--data-only", "--schema=recordari",
        "--table=schema_migrations", str(file),
    ]  # fmt: skip
    with tempfile.TemporaryFile() as script:
        _run(command, {**os.environ, "LC_ALL": "C"}, stdout=script)
        script.seek(0)
        lines = script.read().decode("utf-8", "replace").splitlines()
    table = itertools.dropwhile(lambda line: not line.startswith("COPY recordari.schema_migrations (name,"), lines)
    rows = itertools.takewhile(lambda line: line != "\\.", itertools.islice(table, 1, None))
    checksums = {name: checksum for name, checksum, *_ in (line.split("\t") for line in rows)}
    if not checksums:
        raise InvalidInput(f"{file} is a dump of some other database, not one made by `recordari db backup`")
    return checksums


def _check_format(file: Path) -> None:
    try:
        with file.open("rb") as opened:
            start = opened.read(len(MAGIC))
    except OSError as error:
        raise InvalidInput(f"{file} cannot be read: {error.strerror}") from error
    if start != MAGIC:
        raise InvalidInput(f"{file} is not a backup made by `recordari db backup`")


def _child_environment(dsn: str) -> dict[str, str]:
    """The address as environment of a child process, so that no password is in a command line."""
    try:
        options = pq.Conninfo.parse(dsn.encode())
    except psycopg.OperationalError as error:
        raise ConfigurationError("the database address is not a PostgreSQL connection string") from error
    address = {option.envvar.decode(): option.val.decode() for option in options if option.envvar and option.val}
    return {**os.environ, "LC_ALL": "C.UTF-8", **address}


def _run(
    command: list[str],
    environment: dict[str, str],
    *,
    stdin: IO[bytes] | int = subprocess.DEVNULL,
    stdout: IO[bytes] | int = subprocess.DEVNULL,
) -> None:
    program = Path(command[0]).name
    try:
        result = subprocess.run(  # noqa: S603 - the program is PostgreSQL's, every argument is made here
            command, env=environment, stdin=stdin, stdout=stdout, stderr=subprocess.PIPE, check=False
        )
    except FileNotFoundError as error:
        raise ConfigurationError(
            f"there is no {program}; install PostgreSQL's client programs or set RECORDARI_POSTGRES_BIN_DIR"
        ) from error
    if result.returncode:
        lines = result.stderr.decode("utf-8", "replace").splitlines()
        # Only lines of the programs about themselves: a detail line may quote a row.
        reasons = (line for line in lines if "error" in line.lower() or "mismatch" in line)
        reason = next(reasons, f"code {result.returncode}")
        raise DatabaseUnavailable(f"{program} failed: {reason}; nothing was changed")


async def _connect(dsn: str) -> psycopg.AsyncConnection[Any]:
    try:
        connection = await psycopg.AsyncConnection.connect(dsn, autocommit=True, connect_timeout=5)
    except psycopg.OperationalError as error:
        raise DatabaseUnavailable from error
    try:
        await refuse_pooler(connection, dsn)
    except BaseException:
        await connection.close()
        raise
    return connection


T = TypeVar("T")


async def list_as_owner(owner_dsn: str, query: Query, row: type[T]) -> list[T]:
    """The rows of a query over all tenants, read as the owner of the schema."""
    async with await _connect(owner_dsn) as connection, connection.cursor(row_factory=class_row(row)) as cursor:
        await cursor.execute(queries.become_owner.sql)
        await cursor.execute(query.sql)
        return await cursor.fetchall()
