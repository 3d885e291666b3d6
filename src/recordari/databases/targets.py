"""Reads the DSN of a connected database, and checks its address before a connection."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import psycopg
from psycopg.conninfo import conninfo_to_dict

from recordari.core.addresses import outgoing_address
from recordari.databases.rules.databases import Engine
from recordari.errors import Forbidden, InvalidInput

_SCHEMES = {
    "postgresql": Engine.POSTGRES,
    "postgres": Engine.POSTGRES,
    "mysql": Engine.MYSQL,
    "mariadb": Engine.MYSQL,
    "sqlite": Engine.SQLITE,
    "duckdb": Engine.DUCKDB,
}
# Other parameters of libpq read local files, name other hosts, or change our settings.
_POSTGRES_PARTS = frozenset(["host", "port", "user", "password", "dbname", "sslmode", "channel_binding"])
_FORMS = "postgresql://, mysql://, mariadb://, sqlite:/// or duckdb:///"


@dataclass(frozen=True, slots=True, kw_only=True)
class AllowedTargets:
    """The addresses and files that the settings allow."""

    allow_private: bool = False
    files: Path | None = None


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Target:
    """The parameters of a driver's connection; without a repr, because they include the password."""

    engine: Engine
    connection: dict[str, Any] = field(default_factory=dict)


def read_target(dsn: str) -> Target:
    """Read a DSN; `InvalidInput` never repeats any of it."""
    scheme, separator, _ = dsn.partition("://")
    engine = _SCHEMES.get(scheme.lower()) if separator else Engine.POSTGRES if "dbname=" in dsn else None
    if engine is None or not dsn.isprintable() or len(dsn) > 2000:
        raise InvalidInput(f"the DSN must be a text that begins with {_FORMS}", field="dsn")
    if engine is Engine.POSTGRES:
        return Target(engine=engine, connection=_postgres(dsn))
    try:
        parts = urlsplit(dsn)
        if engine.is_file:
            return Target(engine=engine, connection={"path": _path(parts.netloc, parts.path, parts.query)})
        return Target(engine=engine, connection=_mysql(parts))
    except ValueError:
        raise InvalidInput(
            "the DSN cannot be read; check its port and how special characters are written", field="dsn"
        ) from None


def _postgres(dsn: str) -> dict[str, Any]:
    try:
        parts = {name: value for name, value in conninfo_to_dict(dsn).items() if value is not None}
    except psycopg.ProgrammingError:
        raise InvalidInput("the DSN cannot be read; check how special characters are written", field="dsn") from None
    if unknown := sorted(parts.keys() - _POSTGRES_PARTS):
        raise InvalidInput(f"the DSN may not have the part {unknown[0]!r}; leave it out", field="dsn")
    if not str(parts.get("port", "5432")).isdigit():
        raise InvalidInput("the port of the DSN must be a number", field="dsn")
    if not parts.get("user") or not parts.get("dbname") or "," in str(parts.get("host", "")):
        raise InvalidInput("the DSN must name one host, a user and a database", field="dsn")
    return parts


def _mysql(parts: Any) -> dict[str, Any]:
    options = parse_qs(parts.query, strict_parsing=True) if parts.query else {}
    if unknown := sorted(options.keys() - {"tls"}):
        raise InvalidInput(f"the DSN may not have the part {unknown[0]!r}; leave it out", field="dsn")
    if not parts.hostname or not parts.username or len(parts.path) < 2:
        raise InvalidInput("the DSN must name a host, a user and a database", field="dsn")
    return {
        "host": parts.hostname,
        "port": parts.port or 3306,
        "user": unquote(parts.username),
        "password": unquote(parts.password or ""),
        "database": unquote(parts.path[1:]),
        "tls": options.get("tls", ["false"])[0].lower() in {"1", "true", "yes"},
    }


def _path(host: str, path: str, query: str) -> str:
    if host or query or len(path) < 2:
        raise InvalidInput("write the file's path after three slashes: sqlite:///sales.db", field="dsn")
    return unquote(path[1:])


async def checked(target: Target, allowed: AllowedTargets) -> Target:
    """The target with its allowed address, so that its name cannot resolve to another one a moment later."""
    if target.engine.is_file:
        path = await asyncio.to_thread(_checked_file, target.connection["path"], allowed)
        return Target(engine=target.engine, connection={"path": path})
    host = str(target.connection.get("host") or "")
    if host.startswith(("/", "@")) or not host:
        if not allowed.allow_private or not host:
            raise _private()
        return Target(engine=target.engine, connection=_at(target, host))
    port = int(target.connection.get("port") or 5432)
    try:
        address = await outgoing_address(host, port, allow_private=allowed.allow_private)
    except LookupError:
        raise InvalidInput("the host of the DSN is not known", field="dsn") from None
    except PermissionError:
        raise _private() from None
    return Target(engine=target.engine, connection=_at(target, address))


def _private() -> Forbidden:
    return Forbidden(
        "this database is at a private address; the operator of Recordari can allow that with "
        "RECORDARI_ALLOW_PRIVATE_ADDRESSES='[\"databases\"]'"
    )


def _at(target: Target, address: str) -> dict[str, Any]:
    if target.engine is Engine.MYSQL:
        return {**target.connection, "address": address}
    return target.connection if address.startswith(("/", "@")) else {**target.connection, "hostaddr": address}


def _checked_file(path: str, allowed: AllowedTargets) -> str:
    if allowed.files is None:
        raise Forbidden(
            "files are closed here; the operator of Recordari names the folder of databases with RECORDARI_DATABASE_FILES"
        )
    folder = allowed.files.resolve()
    file = (folder / path).resolve()
    if not file.is_relative_to(folder) or not file.is_file():
        raise InvalidInput("there is no such file in the folder of databases", field="dsn")
    return str(file)
