"""An optional Redis cache in front of the database: one hash of copies for each session.

The database is the truth. Every read first asks it for the current version, which is one row by its key. A copy
contains the version it was read at and is used only while the two are equal, so that a copy can never hide an
acknowledged write. Redis may lose copies, restore old ones, mix up two databases or run a command late: all of that
is a miss. Correctness needs no removal from Redis; deleted data is removed so that it does not stay until it expires.

A version is read before the copy's text. A write between the two makes the text newer than its version, and no reader
uses that version any more.

Every call has a time limit and goes through one circuit breaker. A Redis that is down or hangs changes only the speed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import structlog

from recordari.core.identity import Owner, SessionId, TenantId
from recordari.errors import ProviderError
from recordari.kit.redis import CONNECT_FACTOR, connect_redis, is_refusal
from recordari.models.http import CircuitBreaker

log = structlog.get_logger(__name__)

TIMEOUT = 0.05
"""Seconds that Redis may take for an answer."""
LIFETIME = 300
"""Seconds for which Redis keeps a copy."""
MOST_FAILURES = 3
COOL_DOWN = 5.0


def session_key(tenant_id: TenantId, session_id: SessionId) -> str:
    """The key of a hash (W7), in which each owner of a session with this id has a field. A tenant id has no colon."""
    return f"mem:session:{tenant_id}:{session_id}"


class SessionCache:
    """Copies of session data; without an address it caches nothing and does not import the package."""

    def __init__(
        self, url: str | None = None, *, timeout: float = TIMEOUT, breaker: CircuitBreaker | None = None
    ) -> None:
        self.is_on = url is not None
        self.breaker = breaker or CircuitBreaker("Redis", failures=MOST_FAILURES, cool_down=COOL_DOWN)
        self._timeout = timeout
        self._counts = dict.fromkeys(("hits", "misses", "failures", "drops"), 0)
        if url is not None:
            self._client, self._errors = connect_redis(url, timeout=timeout)

    async def read(
        self,
        tenant_id: TenantId,
        owner: Owner,
        session_id: SessionId,
        *,
        version: str,
        load: Callable[[], Awaitable[str]],
    ) -> str:
        """The copy of this version of an owner's session, or else the text that `load` reads from the database.

        `version` comes from the database, before this call.
        """
        key, head = session_key(tenant_id, session_id), f"{version}\n".encode()
        try:
            copy = await self._ask("find", lambda: self._client.hget(key, owner))
        except ProviderError:
            return await load()
        if copy is not None and copy.startswith(head):
            self._counts["hits"] += 1
            return str(copy[len(head) :], "utf-8")
        self._counts["misses"] += 1
        text = await load()
        copies = self._client.pipeline(transaction=True)
        copies.hset(key, owner, head + text.encode())
        copies.expire(key, LIFETIME)
        await self._try("fill", copies.execute)
        return text

    async def drop(self, tenant_id: TenantId, owner: Owner, session_id: SessionId) -> None:
        """Remove the copy of a session after its data was deleted; if Redis fails, the copy expires."""
        if self.is_on:
            self._counts["drops"] += 1
            key = session_key(tenant_id, session_id)
            await self._try("drop", lambda: self._client.hdel(key, owner))

    def statistics(self) -> dict[str, int]:
        return dict(self._counts)

    async def close(self) -> None:
        if self.is_on:
            await self._client.aclose()

    async def _try(self, operation: str, call: Callable[[], Awaitable[Any]]) -> None:
        with suppress(ProviderError):
            await self._ask(operation, call)

    async def _ask(self, operation: str, call: Callable[[], Awaitable[Any]]) -> Any:
        """The answer of Redis; `ProviderError`, counted by the breaker, if it fails or is late."""
        self.breaker.check()
        try:
            async with asyncio.timeout(self._timeout * (1 + CONNECT_FACTOR)):
                answer = await call()
        except self._errors as error:
            self._counts["failures"] += 1
            # A refusal is an answer too.
            (self.breaker.succeeded if is_refusal(error) else self.breaker.failed)()
            log.warning("cache_failed", operation=operation, error=type(error).__name__)
            raise ProviderError("Redis failed or did not answer in time", service="Redis") from error
        self.breaker.succeeded()
        return answer
