"""Waiting for what happens in the background: for as long as a starved machine may take, and no longer than needed."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import psycopg

PATIENCE = 240.0
"""Seconds. It only bounds a failure, so that it is long: no test shows how quick anything is."""
PATIENT: Mapping[str, Any] = {
    "pool_timeout": 60.0,
    "statement_timeout": 60.0,
    "request_timeout": 120.0,
}
"""Limits that a starved machine does not reach; the tests that are about one of them set it themselves."""
PATIENT_ENVIRONMENT = {f"RECORDARI_{name.upper()}": str(value) for name, value in PATIENT.items()}
"""The same for processes of their own."""


async def until(reached: Callable[[], object | Awaitable[object]], *, pause: float = 0.02) -> None:
    """Look again and again until it is so."""
    async with asyncio.timeout(PATIENCE):
        while True:
            found = reached()
            if await found if inspect.isawaitable(found) else found:
                return
            await asyncio.sleep(pause)


def wait_for_statement(dsn: str, backend: int) -> None:
    """Look again and again until a backend is at work on a statement."""
    ends = time.monotonic() + PATIENCE
    with psycopg.connect(dsn, autocommit=True) as other:
        while not other.execute("SELECT FROM pg_stat_activity WHERE pid = %s AND state = 'active'", [backend]).rowcount:
            assert time.monotonic() < ends, "the statement does not begin"
            time.sleep(0.02)
