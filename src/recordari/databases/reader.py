"""Runs statements on a connected database in a child process, within limits of time and size."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from recordari.databases.targets import Target
from recordari.db.queries import Queries
from recordari.errors import ConfigurationError, DatabaseUnavailable, InvalidInput, TimedOut

_postgres = Queries(f"{__package__}.postgres")

CHILD = Path(__file__).with_name("child.py")
GRACE_SECONDS = 0.6
START_SECONDS = 10.0  # of the process, on a busy machine


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    seconds: float = 5.0  # seed 002 §8.2: "Per-query timeout (5 seconds)"
    rows: int = 1000  # seed 002 §8.2: "Row limit (1000 rows max)"
    bytes: int = 8 << 20
    connect_seconds: int = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryRows:
    columns: list[str] = field(default_factory=list)
    rows: list[list[Any]] = field(default_factory=list)
    truncated: bool = False
    failed: str | None = None
    """Why this statement failed, with `describe`."""


async def read(
    target: Target,
    statements: Sequence[str],
    *,
    limits: Limits | None = None,
    tables: Sequence[str] = (),
    describe: bool = False,
) -> list[QueryRows]:
    """Run statements on one connection, which is destroyed afterwards.

    This is the second check: it must hold for any text. `tables` are the tables that SQLite allows. `describe` is for
    our own statements about a schema: each succeeds or fails on its own.
    """
    limits = limits or Limits()
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-I",
        str(CHILD),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,  # a driver's complaints can name hosts and users
        limit=limits.bytes + (64 << 10),
        env=_environment(),
        start_new_session=True,
    )
    request = {
        "engine": target.engine.value,
        "connection": target.connection,
        "statements": list(statements),
        "tables": list(tables),
        "describe": describe,
        "seconds": limits.seconds,
        "connect_seconds": limits.connect_seconds,
        "rows": limits.rows,
        "bytes": limits.bytes,
        "find_extensions": _postgres.find_extensions.sql,
    }
    try:
        assert process.stdin is not None
        process.stdin.write(json.dumps(request).encode())
        process.stdin.write_eof()
        return await _answers(process, len(statements), limits)
    finally:
        if process.returncode is None:
            process.kill()
        await asyncio.shield(process.wait())


def _environment() -> dict[str, str]:
    """Almost nothing: drivers read passwords, hosts and options from the environment and from the home folder."""
    names = ("PATH", "SYSTEMROOT", "LD_LIBRARY_PATH", "SSL_CERT_FILE")
    needed = {name: os.environ[name] for name in names if name in os.environ}
    return {**needed, "PGPASSFILE": os.devnull, "PGSYSCONFDIR": os.devnull, "HOME": os.devnull}


async def _answers(process: asyncio.subprocess.Process, count: int, limits: Limits) -> list[QueryRows]:
    lines = _lines(process)
    try:
        async with asyncio.timeout(START_SECONDS + limits.connect_seconds):
            await anext(lines)
    except TimeoutError:
        raise DatabaseUnavailable("the database does not answer") from None
    except StopAsyncIteration:
        raise DatabaseUnavailable("the database could not be opened") from None
    answers = []
    for _ in range(count):
        try:
            async with asyncio.timeout(limits.seconds + GRACE_SECONDS):
                answers.append(await _answer(lines, limits))
        except TimeoutError:
            raise _too_long(limits) from None
    return answers


async def _answer(lines: AsyncIterator[dict[str, Any]], limits: Limits) -> QueryRows:
    columns: list[str] = []
    rows: list[list[Any]] = []
    async for line in lines:
        if "row" in line:
            rows.append(line["row"])
            if len(rows) > limits.rows:
                return QueryRows(columns=columns, rows=rows[: limits.rows], truncated=True)
        elif "columns" in line:
            columns = line["columns"]
        else:
            return QueryRows(
                columns=columns, rows=rows, truncated=bool(line.get("truncated")), failed=line.get("failed")
            )
    # The process ended without an answer: over its limit of memory or time.
    raise InvalidInput("the answer needs too much memory; select fewer or shorter columns, or aggregate", field="sql")


async def _lines(process: asyncio.subprocess.Process) -> AsyncIterator[dict[str, Any]]:
    assert process.stdout is not None
    while True:
        try:
            raw = await process.stdout.readline()
        except ValueError:  # a line above the limit
            raise InvalidInput(
                "one row is larger than 8 MB; select fewer or shorter columns, or aggregate", field="sql"
            ) from None
        if not raw.endswith(b"\n"):
            return
        line = json.loads(raw)
        if "error" in line:
            raise _error(line["error"], line["message"])
        yield line


def _error(kind: str, message: str) -> Exception:
    match kind:
        case "unreachable":
            return DatabaseUnavailable(f"the database cannot be reached: {message}")
        case "missing":
            return ConfigurationError(f"the package {message} is missing; install `recordari[nl2sql]`")
        case "time":
            return _too_long(Limits())
        case "size":
            return InvalidInput(
                f"the answer is too large: {message}; select fewer or shorter columns, or aggregate", field="sql"
            )
        case _:
            return InvalidInput(f"the database refused it: {message}", field="sql")


def _too_long(limits: Limits) -> TimedOut:
    return TimedOut(
        f"the database took longer than {limits.seconds:g} seconds; ask for less, such as a shorter time span"
    )
