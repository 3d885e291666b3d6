"""Where the database is: the configured server, or the embedded one, started and released here."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass

from recordari.config import Settings
from recordari.core.telemetry import get_log
from recordari.db import cluster, migrate
from recordari.db.database import Database
from recordari.db.embedded.server import EmbeddedServer
from recordari.errors import ConfigurationError, DatabaseUnavailable

log = get_log(__name__)

DATABASE_NAME = "recordari"
APP_LOGIN = "recordari"
LOOK_SECONDS = 0.25
"""A look reads two small files."""
FIRST_PAUSE, LONGEST_PAUSE = 0.5, 30.0
"""Between tries to start a server that does not start, growing: its disk may be full, or its settings wrong."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """The address of the database for the application, and for the owner where that is set."""

    dsn: str
    owner_dsn: str | None
    login: str
    password: str | None = None


def embedded_server(settings: Settings) -> EmbeddedServer:
    return EmbeddedServer(settings.home / "postgres", bin_dir=settings.postgres_bin_dir)


@asynccontextmanager
async def open_address(settings: Settings) -> AsyncIterator[Address]:
    if settings.database_url is not None:
        dsn = settings.database_url.get_secret_value()
        login, password = migrate.login_of(dsn)
        owner_dsn = settings.database_owner_url.get_secret_value() if settings.database_owner_url else None
        yield Address(dsn=dsn, owner_dsn=owner_dsn, login=login, password=password)
        return
    server = embedded_server(settings)
    await asyncio.to_thread(server.acquire)
    try:
        await migrate.ensure_database(server.dsn(), DATABASE_NAME)
        async with looked_after(server):
            yield Address(
                dsn=server.dsn(user=APP_LOGIN, database=DATABASE_NAME),
                owner_dsn=server.dsn(database=DATABASE_NAME),
                login=APP_LOGIN,
            )
    finally:
        await asyncio.to_thread(server.release)


@asynccontextmanager
async def looked_after(server: EmbeddedServer) -> AsyncIterator[None]:
    """Start the server again when it was killed, for as long as the block lasts.

    Every process that uses it does so; the start lock lets one of them start it. A server that was stopped
    (`recordari db stop`) stays stopped, and a data folder that is gone is not made again.
    """
    looking = asyncio.create_task(_look_after(server), name="embedded database")
    try:
        yield
    finally:
        looking.cancel()
        with suppress(asyncio.CancelledError):
            await looking


async def _look_after(server: EmbeddedServer) -> None:
    pause, failures = LOOK_SECONDS, 0
    while True:
        await asyncio.sleep(pause)
        try:
            is_gone = await _looked(server)
        except (ConfigurationError, DatabaseUnavailable, OSError) as error:
            # An `OSError` is no reason to give up either: out of file descriptors, not even a look is possible.
            pause, failures = min(FIRST_PAUSE * 2**failures, LONGEST_PAUSE), failures + 1
            log.error("postgres_not_revived", error=error, next_try_in=pause)  # noqa: TRY400 - no trace for an operator
        else:
            pause, failures = LONGEST_PAUSE if is_gone else LOOK_SECONDS, 0


async def _looked(server: EmbeddedServer) -> bool:
    """Look once, and revive the server if it is gone; True if it is still not to be seen."""
    if not await asyncio.to_thread(server.needs_revival):
        return False
    await asyncio.to_thread(server.revive)
    # It may run in another container, or its data folder is gone.
    is_gone = await asyncio.to_thread(server.needs_revival)
    log.warning("postgres_is_not_here" if is_gone else "postgres_revived")
    return is_gone


async def bring_up_to_date(settings: Settings, address: Address) -> list[str]:
    """Migrate if the settings allow it, else raise `ConfigurationError` when steps are missing."""
    if settings.auto_migrate and address.owner_dsn is not None:
        steps = await migrate.prepare(address.owner_dsn, login=address.login, password=address.password)
        if settings.database_url is not None:
            await cluster.complete_migration(address.owner_dsn, has_steps=bool(steps))
        elif steps:
            await migrate.request_checkpoint(address.owner_dsn)
        return steps
    missing = await migrate.pending(address.dsn)
    if missing:
        raise ConfigurationError(
            f"the database lacks {len(missing)} migrations; set RECORDARI_DATABASE_OWNER_URL and run `recordari db init`"
        )
    return []


async def check_ready(database: Database) -> None:
    """Raise unless the database answers and has every migration."""
    await database.ping()
    if await migrate.pending(database.dsn):
        raise ConfigurationError("the database lacks migrations; run `recordari db migrate`")


def owner_of(address: Address) -> str:
    """The owner's address; raises `ConfigurationError` where only the application's is set."""
    if address.owner_dsn is None:
        raise ConfigurationError(
            "this needs the owner's connection to your PostgreSQL; set RECORDARI_DATABASE_OWNER_URL"
        )
    return address.owner_dsn


def setup_script(settings: Settings) -> str:
    """The SQL with which an administrator prepares the configured database."""
    if settings.database_url is None:
        raise ConfigurationError("the embedded database needs no script; set RECORDARI_DATABASE_URL first")
    login, _ = migrate.login_of(settings.database_url.get_secret_value())
    owner = settings.database_owner_url
    return migrate.setup_script(login, migrate.login_of(owner.get_secret_value())[0] if owner else None)
