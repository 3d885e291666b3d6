"""Starts the embedded database again when it was killed, for as long as this process uses it.

Every process that uses the server looks after it; the start lock lets one of them start it. A server that was stopped
(`recordari db stop`) stays stopped, and a data folder that is gone is not made again.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from recordari.core.telemetry import get_log
from recordari.db.embedded.server import EmbeddedServer
from recordari.errors import ConfigurationError, DatabaseUnavailable

log = get_log(__name__)

LOOK_SECONDS = 0.25
"""A look reads two small files."""
FIRST_PAUSE, LONGEST_PAUSE = 0.5, 30.0
"""Between tries to start a server that does not start, growing: its disk may be full, or its settings wrong."""


@asynccontextmanager
async def looked_after(server: EmbeddedServer) -> AsyncIterator[None]:
    """Keep the server running for as long as the block lasts."""
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
