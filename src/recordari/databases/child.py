"""Reads one database and exits: the process behind `reader.py`, started by its path, without any import of Recordari.

It reads one JSON object from standard input and writes lines of JSON to standard output. It is a process of its own,
because SQLite and DuckDB run inside the program that opens them, and because a driver loads a row of a gigabyte before its
size is known. Limits of memory and time end this process and nothing else, and with it the session of the statement.
"""

from __future__ import annotations

import datetime
import decimal
import json
import math
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

MEMORY = {"duckdb": 4 << 30}  # address space, most of which DuckDB only reserves; its own limit is below
MEMORY_OTHERS = 1 << 30
DUCKDB_MEMORY = "256MB"
SQLITE_HEAP = 128 << 20
# Read as text: Python has no date before year 1 and no infinite one.
POSTGRES_TEXT_TYPES = "date time timetz timestamp timestamptz interval numeric money inet cidr".split()
SQLITE_TABLE_FUNCTIONS = frozenset(["json_each", "json_tree", "generate_series"])
BATCH_BYTES = 256 << 10
MAX_MESSAGE = 500

Batch = tuple[list[str], Iterator[Sequence[Any]]]


class Refused(Exception):
    """The database cannot be read in this way, or must not be."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


def limit_process(engine: str, seconds: float) -> None:
    """Let the system end this process if it takes too much memory or time, even inside native code."""
    import signal

    try:
        import resource
    except ImportError:  # not on Windows
        return
    memory = MEMORY.get(engine, MEMORY_OTHERS)
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))  # nothing here writes a file
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_REAL, seconds)


def encoded(value: Any) -> Any:
    """The value in JSON: exact numbers and times as text."""
    match value:
        case None | bool() | int() | str():
            return value
        case float():
            return value if math.isfinite(value) else str(value)
        case decimal.Decimal():
            return f"{value:f}"
        case uuid.UUID():
            return str(value)
        case datetime.datetime() | datetime.date() | datetime.time():
            return value.isoformat()
        case bytes() | bytearray() | memoryview():
            return "\\x" + bytes(value).hex()
        case list() | tuple() | set() | frozenset():
            return [encoded(each) for each in value]
        case Mapping():
            return {str(key): encoded(each) for key, each in value.items()}
        case _:
            return str(value)


class Postgres:
    """One read-only transaction, ended by closing."""

    def __init__(self, request: Mapping[str, Any]) -> None:
        import psycopg
        from psycopg.types.string import TextLoader

        self._errors = psycopg
        self._cursors = 0
        seconds = float(request["seconds"])
        try:
            self._connection = psycopg.connect(
                **request["connection"],
                autocommit=True,
                connect_timeout=int(request["connect_seconds"]),
                application_name="recordari query_data",
                client_encoding="utf8",
            )
        except psycopg.Error as error:
            raise Refused("unreachable", reason_of(str(error))) from error
        for name in POSTGRES_TEXT_TYPES:
            self._connection.adapters.register_loader(name, TextLoader)
        milliseconds = int(seconds * 1000)
        run = self._connection.execute
        run("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        run(
            f"SET LOCAL statement_timeout = {milliseconds}; SET LOCAL lock_timeout = 1000;"
            f"SET LOCAL idle_in_transaction_session_timeout = {2 * milliseconds};"
            "SET LOCAL default_transaction_read_only = on; SET LOCAL search_path = pg_catalog;"
            "SET LOCAL standard_conforming_strings = on; SET LOCAL DateStyle = 'ISO, YMD';"
            "SET LOCAL IntervalStyle = 'postgres'; SET LOCAL max_parallel_workers_per_gather = 0; SET LOCAL jit = off;"
            "SET LOCAL work_mem = '32MB'"
        )
        run(request["find_extensions"])
        if self._connection.info.server_version >= 170000:
            run(f"SET LOCAL transaction_timeout = {2 * milliseconds}")
        try:  # only a role with the right to set it may
            with self._connection.transaction():
                run("SET LOCAL temp_file_limit = '256MB'")
        except psycopg.Error:
            pass

    def run(self, sql: str) -> Batch:
        """Run a statement through a cursor, which accepts one SELECT and nothing else."""
        from psycopg import errors
        from psycopg.pq import DiagnosticField, ExecStatus

        self._cursors += 1
        # The extended protocol accepts one statement only.
        statement = f"DECLARE answer_{self._cursors} NO SCROLL CURSOR FOR {sql}".encode()
        declared = self._connection.pgconn.exec_params(statement, [])
        if declared.status != ExecStatus.COMMAND_OK:
            if declared.error_field(DiagnosticField.SQLSTATE) == b"57014":
                raise Refused("time", "it took too long")
            message = declared.error_field(DiagnosticField.MESSAGE_PRIMARY) or b"it gave no reason"
            raise Refused("statement", message.decode("utf-8", "replace"))
        cursor = self._connection.cursor()
        try:
            cursor.execute(f"FETCH FORWARD 0 FROM answer_{self._cursors}")
        except errors.Error as error:
            raise self.refused(error) from error
        return [column.name for column in cursor.description or ()], self._rows(cursor)

    def _rows(self, cursor: Any) -> Iterator[Sequence[Any]]:
        count = 1  # the first row shows how large rows are
        while True:
            try:
                cursor.execute(f"FETCH FORWARD {count} FROM answer_{self._cursors}")
            except self._errors.Error as error:
                raise self.refused(error) from error
            rows = cursor.fetchall()
            yield from rows
            if len(rows) < count:
                return
            size = max(1, len(json.dumps([encoded(value) for value in rows[-1]])))
            count = max(1, min(200, BATCH_BYTES // size))

    def mark(self, *, failed: bool) -> None:
        self._connection.execute("ROLLBACK TO SAVEPOINT next_one" if failed else "SAVEPOINT next_one")

    def refused(self, error: Exception) -> Refused:
        if isinstance(error, self._errors.errors.QueryCanceled):
            return Refused("time", "it took too long")
        if isinstance(error, self._errors.OperationalError) and self._connection.closed:
            return Refused("size", "the connection broke, perhaps over an answer that is too large")
        diagnosis = getattr(error, "diag", None)
        return Refused("statement", (diagnosis.message_primary if diagnosis else None) or type(error).__name__)


class MySql:
    """One read-only transaction, ended by closing; a second connection kills it if it takes too long."""

    def __init__(self, request: Mapping[str, Any]) -> None:
        import pymysql
        from pymysql.cursors import SSCursor

        self._module = pymysql
        self._parameters = dict(request["connection"])
        self._seconds = float(request["seconds"])
        self._connect_seconds = int(request["connect_seconds"])
        try:
            self._connection = self._connect()
        except (pymysql.err.MySQLError, OSError) as error:
            raise Refused("unreachable", reason_of(str(error))) from error
        self._cursor = self._connection.cursor(SSCursor)
        run = self._cursor.execute
        run("SELECT VERSION()")
        (version,) = self._cursor.fetchall()[0]
        if "MariaDB" in str(version):
            run(f"SET SESSION max_statement_time = {self._seconds}")
        else:
            run(f"SET SESSION max_execution_time = {int(self._seconds * 1000)}")
        run("SET SESSION sql_mode = 'NO_ENGINE_SUBSTITUTION', SESSION lock_wait_timeout = 1")
        run("SET SESSION TRANSACTION READ ONLY")
        run("START TRANSACTION READ ONLY")

    def _connect(self) -> Any:
        """Connect to the checked address, with the name in its certificate."""
        import socket

        parameters = dict(self._parameters)
        address = parameters.pop("address")
        if parameters.pop("tls", False):
            import ssl

            parameters["ssl"] = ssl.create_default_context()
        connection = self._module.connect(
            **parameters, charset="utf8mb4", local_infile=False, autocommit=False, defer_connect=True
        )
        if parameters["host"].startswith("/"):
            connection.unix_socket = parameters["host"]
            connection.connect()
        else:
            connection.connect(socket.create_connection((address, parameters["port"]), timeout=self._connect_seconds))
        return connection

    def run(self, sql: str) -> Batch:
        timer = threading.Timer(self._seconds, self._kill, args=[self._connection.thread_id()])
        timer.daemon = True
        timer.start()
        try:
            self._cursor.execute(sql)
        except (self._module.err.MySQLError, OSError) as error:
            timer.cancel()
            raise self.refused(error) from error
        return [column[0] for column in self._cursor.description or ()], self._rows(timer)

    def _rows(self, timer: threading.Timer) -> Iterator[Sequence[Any]]:
        try:
            while (row := self._cursor.fetchone()) is not None:
                yield row
        except (self._module.err.MySQLError, OSError) as error:
            raise self.refused(error) from error
        finally:
            timer.cancel()

    def _kill(self, thread: int) -> None:
        try:
            with self._connect() as connection, connection.cursor() as cursor:
                cursor.execute("KILL %s", (int(thread),))
        except (self._module.err.MySQLError, OSError):
            pass  # it has ended, or the server's own limit ends it

    def refused(self, error: Exception) -> Refused:
        number = error.args[0] if error.args else 0
        if number in {1969, 3024, 1317, 2013, 2006, 0}:  # over time, interrupted, killed
            return Refused("time", "it took too long")
        return Refused("statement", str(error.args[1]) if len(error.args) > 1 else type(error).__name__)


class Sqlite:
    """A file opened for reading, with an authorizer that allows only reading."""

    def __init__(self, request: Mapping[str, Any]) -> None:
        import sqlite3
        from urllib.parse import quote

        self._module = sqlite3
        self._tables = {str(name).lower() for name in request.get("tables") or ()}
        self._may_describe = bool(request.get("describe"))
        self._seconds = float(request["seconds"])
        self._ends = math.inf
        try:
            self._connection = sqlite3.connect(
                f"file:{quote(request['connection']['path'])}?mode=ro",
                uri=True,
                isolation_level=None,
                cached_statements=0,
            )
            self._connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
        except sqlite3.Error as error:
            raise Refused("unreachable", "the file cannot be opened as a SQLite database") from error
        self._connection.text_factory = lambda raw: raw.decode("utf-8", "replace")
        for pragma in (
            "query_only = ON", "trusted_schema = OFF", "temp_store = MEMORY", "mmap_size = 0",
            f"hard_heap_limit = {SQLITE_HEAP}",
        ):  # fmt: skip
            self._connection.execute(f"PRAGMA {pragma}")
        limits = {
            sqlite3.SQLITE_LIMIT_LENGTH: int(request["bytes"]),
            sqlite3.SQLITE_LIMIT_ATTACHED: 0,
            sqlite3.SQLITE_LIMIT_LIKE_PATTERN_LENGTH: 200,
            sqlite3.SQLITE_LIMIT_EXPR_DEPTH: 300,
            sqlite3.SQLITE_LIMIT_WORKER_THREADS: 0,
        }
        for limit, value in limits.items():
            self._connection.setlimit(limit, value)
        self._connection.set_progress_handler(lambda: time.monotonic() > self._ends, 10_000)
        self._connection.set_authorizer(self._authorize)

    def _authorize(self, action: int, one: str | None, two: str | None, _: str | None, within: str | None) -> int:
        """Allow SELECT, columns of allowed tables (also through an allowed view) and functions."""
        sqlite = self._module
        if action in {sqlite.SQLITE_SELECT, sqlite.SQLITE_RECURSIVE}:
            return int(sqlite.SQLITE_OK)
        if action == sqlite.SQLITE_FUNCTION:
            return int(sqlite.SQLITE_DENY if two in {"load_extension", "fts3_tokenizer"} else sqlite.SQLITE_OK)
        if one == "sqlite_master" and (action == sqlite.SQLITE_UPDATE or two == "ROWID"):
            return int(sqlite.SQLITE_OK)  # so SQLite declares table functions; the file is read-only anyway
        if action == sqlite.SQLITE_READ:
            names = {str(one).lower(), str(within).lower()}
            # Without a column it may be a WITH query of any name, of which only rows are counted.
            is_allowed = not self._tables or names & self._tables or one in SQLITE_TABLE_FUNCTIONS or not two
            return int(sqlite.SQLITE_OK if is_allowed or self._may_describe else sqlite.SQLITE_DENY)
        if self._may_describe and action == sqlite.SQLITE_PRAGMA and one in {"table_info", "foreign_key_list"}:
            return int(sqlite.SQLITE_OK)
        return int(sqlite.SQLITE_DENY)

    def run(self, sql: str) -> Batch:
        self._ends = time.monotonic() + self._seconds
        try:
            cursor = self._connection.execute(sql)
        except (self._module.Error, self._module.Warning) as error:
            raise self.refused(error) from error
        return [column[0] for column in cursor.description or ()], self._rows(cursor)

    def _rows(self, cursor: Any) -> Iterator[Sequence[Any]]:
        try:
            yield from cursor
        except self._module.Error as error:
            raise self.refused(error) from error

    def refused(self, error: Exception) -> Refused:
        name = getattr(error, "sqlite_errorname", "")
        if name == "SQLITE_INTERRUPT":
            return Refused("time", "it took too long")
        if name in {"SQLITE_TOOBIG", "SQLITE_NOMEM"}:
            return Refused("size", "a value is too large")
        return Refused("statement", str(error))


class DuckDb:
    """A file opened for reading, without access to other files, the network or its own settings."""

    def __init__(self, request: Mapping[str, Any]) -> None:
        import duckdb

        self._module = duckdb
        self._seconds = float(request["seconds"])
        settings: dict[str, Any] = {
            "enable_external_access": "false",
            "autoinstall_known_extensions": "false",
            "autoload_known_extensions": "false",
            "allow_community_extensions": "false",
            "threads": "1",
            "memory_limit": DUCKDB_MEMORY,
            "temp_directory": "",
            "lock_configuration": "true",
        }
        try:
            self._connection = duckdb.connect(request["connection"]["path"], read_only=True, config=settings)
        except duckdb.Error as error:
            raise Refused("unreachable", "the file cannot be opened as a DuckDB database") from error

    def run(self, sql: str) -> Batch:
        timer = threading.Timer(self._seconds, self._interrupt)
        timer.daemon = True
        self._late = False
        timer.start()
        try:
            cursor = self._connection.execute(self._one_select(sql))
        except self._module.Error as error:
            timer.cancel()
            raise self.refused(error) from error
        return [column[0] for column in cursor.description or ()], self._rows(cursor, timer)

    def _one_select(self, sql: str) -> Any:
        statements = self._connection.extract_statements(sql)
        if len(statements) != 1 or statements[0].type != self._module.StatementType.SELECT:
            raise Refused("statement", "only one SELECT is read")
        return statements[0]

    def _interrupt(self) -> None:
        self._late = True
        self._connection.interrupt()

    def _rows(self, cursor: Any, timer: threading.Timer) -> Iterator[Sequence[Any]]:
        try:
            while rows := cursor.fetchmany(50):
                yield from rows
        except self._module.Error as error:
            raise self.refused(error) from error
        finally:
            timer.cancel()

    def refused(self, error: Exception) -> Refused:
        if self._late:
            return Refused("time", "it took too long")
        if isinstance(error, self._module.OutOfMemoryException):
            return Refused("size", "it needs too much memory")
        return Refused("statement", str(error))


ENGINES: dict[str, Callable[[Mapping[str, Any]], Any]] = {
    "postgres": Postgres,
    "mysql": MySql,
    "sqlite": Sqlite,
    "duckdb": DuckDb,
}


def reason_of(message: str) -> str:
    """Why a connection failed, in our own words: a driver's message names the host and the user."""
    lowered = message.lower()
    for reason, signs in {
        "the user name or password is wrong": ("password", "access denied", "authentication"),
        "there is no such user": ("role",),
        "there is no such database": ("does not exist", "unknown database"),
        "it does not answer": ("timeout", "timed out"),
        "nothing listens there": ("refused",),
        "its certificate is not trusted": ("certificate",),
        "it does not speak TLS as asked": ("ssl",),
    }.items():
        if any(sign in lowered for sign in signs):
            return reason
    return "the connection failed"


def send(message: Mapping[str, Any]) -> int:
    line = json.dumps(message, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace") + b"\n"
    sys.stdout.buffer.write(line)
    sys.stdout.buffer.flush()
    return len(line)


def answer(engine: Any, sql: str, *, most_rows: int, most_bytes: int) -> None:
    """Send the columns and rows of one statement, up to the limits."""
    if "\0" in sql:
        raise Refused("statement", "a NUL is no part of a statement")  # drivers would cut it there
    columns, rows = engine.run(sql)
    sent = send({"columns": columns})
    for count, row in enumerate(rows):
        values = [encoded(value) for value in row]
        size = sum(len(value) for value in values if isinstance(value, str))
        if count == 0 and size > most_bytes:
            raise Refused("size", "one row is too large")
        if count == most_rows or sent + size > most_bytes:
            send({"end": True, "truncated": True})
            return
        sent += send({"row": values})
    send({"end": True, "truncated": False})


def mark(engine: Any, *, failed: bool = False) -> None:
    """Set or return to a savepoint, for an engine whose transaction ends with an error."""
    if isinstance(engine, Postgres):
        engine.mark(failed=failed)


def main() -> None:
    """Answer the request on standard input, then exit without cleaning up: the connection is not used again."""
    request = json.loads(sys.stdin.buffer.read())
    statements = request["statements"]
    limit_process(request["engine"], request["connect_seconds"] + (request["seconds"] + 1) * len(statements))
    try:
        engine = ENGINES[request["engine"]](request)
        send({"ready": True})
        for sql in statements:
            if not request.get("describe"):
                answer(engine, sql, most_rows=request["rows"], most_bytes=request["bytes"])
                continue
            try:  # a table that cannot be read does not stop the description of the others
                mark(engine)
                answer(engine, sql, most_rows=request["rows"], most_bytes=request["bytes"])
            except Refused as refused:
                mark(engine, failed=True)
                send({"end": True, "failed": str(refused)[:MAX_MESSAGE]})
    except Refused as refused:
        send({"error": refused.kind, "message": str(refused)[:MAX_MESSAGE]})
    except ModuleNotFoundError as error:
        send({"error": "missing", "message": str(error.name)})
    except MemoryError:
        send({"error": "size", "message": "it needs too much memory"})


if __name__ == "__main__":
    main()
