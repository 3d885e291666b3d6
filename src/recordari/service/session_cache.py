"""Reads of a session through the cache, such that no read misses a write that was acknowledged.

`recordari.providers.cache` keeps copies right as long as writers can remove them. This module is for the time when a
writer cannot: Redis is down, hangs, or answers others but not this process. The writer has committed and must not
acknowledge while any process may still find the old copy. So:

- One row of the database, the *term*, says which generation of copies counts and whether the cache is suspended.
- A process believes what it read there for a *lease* of a second, then reads it again (one small query a second while there
  are reads); with no term it believes, it goes to the database.
- A writer that cannot remove a copy ends the generation, suspends the cache for everybody and waits that long
  once: by then nobody uses what was cached before. While the cache is suspended, no writer needs to remove anything.
- Whoever finds the cache suspended for a while and Redis answering has it resumed with some seconds' notice, which
  is longer than anybody still believes in the suspension.

An outage therefore costs the first writer about a second and everybody the speed of the cache, and nothing else.
A writer that is killed between its commit and the removal was not acknowledged; its copy ends with the cache's `ttl`.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import structlog

from recordari.core.identity import SessionId, TenantId
from recordari.db.database import Database
from recordari.providers.cache import Cache, session_key
from recordari.storage import cache_term
from recordari.storage.cache_term import TermRow

log = structlog.get_logger(__name__)

_PROBE = "mem:probe"


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """The same for all processes of a deployment."""

    lease: float = 1.0
    """Seconds for which a process believes what it read of the term."""
    notice: float = 5.0
    """Seconds from the decision to use the cache until it is used; longer than `lease` by more than a commit takes."""
    suspension: float = 5.0
    """Seconds for which a suspension lasts at least."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Term:
    """What this process knows of the cache, and since when."""

    row: TermRow
    asked_at: float
    answered_at: float
    timing: Timing

    def is_known(self, now: float) -> bool:
        """Whether it may still be believed."""
        return now - self.asked_at < self.timing.lease

    def is_active(self, now: float) -> bool:
        """Whether copies of this generation may be used."""
        return self.is_known(now) and self.row.resumes_in <= 0

    def is_suspended(self, now: float) -> bool:
        """Whether it is certain that nobody uses copies until everybody had time to learn otherwise."""
        return self.is_known(now) and self.row.resumes_in - (now - self.asked_at) > 0

    def unsettled_for(self, now: float) -> float:
        """Seconds for which somebody may still believe in the time before the suspension."""
        if self.row.suspended_for >= self.timing.suspension:
            return 0.0
        return max(0.0, self.timing.lease - (now - self.answered_at))


class SessionCache:
    """The cache of sessions, as far as it can be trusted now."""

    def __init__(self, cache: Cache, database: Database, timing: Timing | None = None) -> None:
        self.cache = cache
        self._database = database
        self._timing = timing or Timing()
        self._term: Term | None = None
        self._asking = asyncio.Lock()
        self._counts = dict.fromkeys(("hits", "misses", "bypassed", "drops", "suspensions"), 0)

    async def read(
        self, tenant_id: TenantId, session_id: SessionId, field: str, load: Callable[[], Awaitable[str]]
    ) -> str:
        """What `load` reads from the database, or an equal copy of it.

        `field` must name everything that the text depends on besides the session: two readers who may see
        different things must not use the same field.
        """
        if not self.cache.is_on:
            return await load()
        term, found, key = await self._known_term(), None, session_key(tenant_id, session_id)
        if term.is_active(time.monotonic()):
            found = await self.cache.find(key, field, generation=term.row.generation)
        if found is None:
            self._counts["bypassed"] += 1
            return await load()
        if found.text is not None:
            self._counts["hits"] += 1
            return found.text
        self._counts["misses"] += 1
        text = await load()
        await self.cache.fill(key, field, text, found=found)
        return text

    async def drop(self, tenant_id: TenantId, session_id: SessionId) -> None:
        """Make sure that nobody finds what was read of the session before; call it after the commit.

        It goes on when the caller is cancelled: the commit has happened.
        """
        if self.cache.is_on:
            await asyncio.shield(asyncio.ensure_future(self._drop(session_key(tenant_id, session_id))))

    def statistics(self) -> dict[str, int]:
        """How often a copy was found, missing or not asked for, how often copies were dropped, and suspensions."""
        return dict(self._counts)

    async def _drop(self, key: str) -> None:
        self._counts["drops"] += 1
        if await self.cache.drop(key):
            return
        term = await self._known_term()
        if not term.is_suspended(time.monotonic()):
            self._counts["suspensions"] += 1
            log.warning("cache_suspended")
            async with self._database.queue() as rows:
                await cache_term.begin_term(rows, seconds=self._timing.notice)
                await cache_term.suspend(rows)
            term = await self._ask()
        await asyncio.sleep(term.unsettled_for(time.monotonic()))

    async def _known_term(self) -> Term:
        """The term, asked for again when it is older than may be believed."""
        if self._term is not None and self._term.is_known(time.monotonic()):
            return self._term
        async with self._asking:
            if self._term is not None and self._term.is_known(time.monotonic()):
                return self._term
            term = await self._ask()
            if await self._may_resume(term.row):
                async with self._database.queue() as rows:
                    await cache_term.resume(rows, term.row.generation, seconds=self._timing.notice)
            return term

    async def _ask(self) -> Term:
        asked_at = time.monotonic()
        async with self._database.queue() as rows:
            row = await cache_term.read_term(rows)
            if row is None:
                await cache_term.begin_term(rows, seconds=self._timing.notice)
                row = await cache_term.read_term(rows)
        assert row is not None
        self._term = Term(row=row, asked_at=asked_at, answered_at=time.monotonic(), timing=self._timing)
        return self._term

    async def _may_resume(self, row: TermRow) -> bool:
        """Whether the cache was suspended for long enough and Redis does again what it is asked."""
        if row.resumes_in != float("inf") or row.suspended_for < self._timing.suspension:
            return False
        return await self.cache.drop(_PROBE)
