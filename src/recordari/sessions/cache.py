"""A cache in front of the database: one Redis hash for each session, or nothing at all.

The database is the truth. The cache holds copies of what was read from it, and three rules keep a copy from ever
being older than a write that was acknowledged, whatever Redis does:

1. **Writers only remove.** After its commit a writer deletes the session's hash. A deletion can come late, twice
   or in any order and does no harm, so that no versions need to be compared.
2. **Readers fill by lease.** A miss leaves a random token in the hash before the database is read; what was read is
   stored only while that very token is still there. A writer in between has removed it, and so has an eviction.
3. **Copies carry a tag**: the generation (which the database hands out, see `recordari.sessions.cache`) and
   the id of the running Redis process. A copy with another tag is no copy. A Redis that comes back from an old
   snapshot, a command that lay in the socket of a stopped Redis, and a second database that shares this Redis all
   show up as misses.

When a removal fails, its writer has the database end the generation before the write is acknowledged. So Redis that
is down, hangs or comes and goes changes speed only.

Every call has a time limit and goes through one breaker; `None` and `False` mean that the cache could not be
asked. What Redis keeps ends by itself after `ttl`, also when nobody can remove it. All processes of a deployment
must use the same Redis, and it must be one server: a replica that takes over while the old primary still takes
commands would break rule 1.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import structlog

from recordari.core.identity import SessionId, TenantId
from recordari.db.database import Database
from recordari.errors import ConfigurationError, ProviderError
from recordari.models.http import CircuitBreaker
from recordari.sessions import storage
from recordari.sessions.storage import TermRow

log = structlog.get_logger(__name__)

MOST_LINKS = 8
MOST_FAILURES = 3
COOL_DOWN = 5.0
CONNECT_FACTOR = 4
"""To connect takes several exchanges, each of which may take as long as a command."""

_FIND = """
local held = redis.call('HGET', KEYS[1], ARGV[1])
if held then
    if string.sub(held, 1, #ARGV[2]) == ARGV[2] then return string.sub(held, #ARGV[2] + 1) end
    redis.call('DEL', KEYS[1])
end
redis.call('HSET', KEYS[1], 'lease:' .. ARGV[1], ARGV[3])
redis.call('PEXPIRE', KEYS[1], ARGV[4])
return false
"""
_FILL = """
if redis.call('HGET', KEYS[1], 'lease:' .. ARGV[1]) ~= ARGV[3] then return 0 end
redis.call('HDEL', KEYS[1], 'lease:' .. ARGV[1])
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2] .. ARGV[4])
redis.call('PEXPIRE', KEYS[1], ARGV[5])
return 1
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What the cache answered: the copy, or the right to store one."""

    text: str | None
    tag: str
    lease: str


@runtime_checkable
class Cache(Protocol):
    """Copies of what was read for a session, by field."""

    @property
    def is_on(self) -> bool:
        """Whether there is a cache at all."""

    async def find(self, key: str, field: str, *, generation: str) -> Found | None:
        """The copy, or on a miss a lease to store one; None when the cache cannot be asked."""

    async def fill(self, key: str, field: str, text: str, *, found: Found) -> bool:
        """Store what was read after the miss `found`; False when that right is gone."""

    async def drop(self, key: str) -> bool:
        """Remove every copy of the key; False when that is not certain."""

    async def close(self) -> None:
        """Give back connections."""


def session_key(tenant_id: TenantId, session_id: SessionId) -> str:
    """The name of a session's hash (W7). A tenant id has no colon, so that no two sessions share a name."""
    return f"mem:session:{tenant_id}:{session_id}"


class NoCache:
    """Where no Redis is configured: nothing is kept, so that nothing needs to be removed."""

    is_on = False

    async def find(self, key: str, field: str, *, generation: str) -> Found | None:
        """Nothing is ever here."""
        return None

    async def fill(self, key: str, field: str, text: str, *, found: Found) -> bool:
        """Nothing is ever kept."""
        return False

    async def drop(self, key: str) -> bool:
        """There is nothing that could be old."""
        return True

    async def close(self) -> None:
        """There is nothing to give back."""


@dataclass(frozen=True, slots=True)
class _Link:
    """One connection, and the id of the Redis process at its other end. It is never used again after an error."""

    client: Any  # redis.asyncio.Redis, whose general commands carry no types
    server_id: str


class RedisCache:
    """Copies in Redis, through a few connections and one breaker."""

    is_on = True

    def __init__(
        self, url: str, *, timeout: float = 0.05, ttl: float = 300.0, breaker: CircuitBreaker | None = None
    ) -> None:
        try:
            import redis.asyncio as library
            from redis.backoff import NoBackoff
        except ImportError as error:
            raise ConfigurationError("RECORDARI_REDIS_URL needs the extra: pip install 'recordari[redis]'") from error
        self.breaker = breaker or CircuitBreaker("Redis", failures=MOST_FAILURES, cool_down=COOL_DOWN)
        self._library = library
        self._errors = (library.RedisError, OSError, TimeoutError)
        self._url = url
        self._no_retry = library.retry.Retry(NoBackoff(), 0)
        self._timeout = timeout
        self._ttl = str(int(ttl * 1000))
        self._idle: list[_Link] = []
        self._places = asyncio.Semaphore(MOST_LINKS)
        try:
            self._client()
        except ValueError as error:
            raise ConfigurationError(
                "RECORDARI_REDIS_URL is not an address of Redis, as in redis://127.0.0.1:6379/0"
            ) from error

    async def find(self, key: str, field: str, *, generation: str) -> Found | None:
        """The copy, or on a miss a lease to store one; None when Redis cannot be asked."""
        try:
            async with self._call("find") as link:
                tag, lease = f"{generation}:{link.server_id}:", secrets.token_hex(8)
                held = await link.client.execute_command("EVAL", _FIND, 1, key, field, tag, lease, self._ttl)
        except ProviderError:
            return None
        return Found(text=held.decode() if held is not None else None, tag=tag, lease=lease)

    async def fill(self, key: str, field: str, text: str, *, found: Found) -> bool:
        """Store a copy if the lease still stands."""
        try:
            async with self._call("fill") as link:
                stored = await link.client.execute_command(
                    "EVAL", _FILL, 1, key, field, found.tag, found.lease, text.encode(), self._ttl
                )
        except ProviderError:
            return False
        return bool(stored)

    async def drop(self, key: str) -> bool:
        """Remove every copy of the key. A connection that died unnoticed is not held against Redis."""
        for _ in range(2):
            try:
                async with self._call("drop") as link:
                    await link.client.execute_command("DEL", key)
            except ProviderError as error:
                if isinstance(error.__cause__, self._library.ConnectionError):
                    continue
                return False
            return True
        return False

    async def close(self) -> None:
        """Close the connections."""
        while self._idle:
            await _closed(self._idle.pop())

    @asynccontextmanager
    async def _call(self, operation: str) -> AsyncIterator[_Link]:
        """A link for one command, within the time limit; any failure is a `ProviderError` and the breaker's."""
        self.breaker.check()
        link: _Link | None = None
        is_good = False
        try:
            async with asyncio.timeout(self._timeout * (1 + CONNECT_FACTOR)), self._places:
                link = await self._linked()
                async with asyncio.timeout(self._timeout):
                    yield link
            is_good = True
        except self._errors as error:
            if not isinstance(error, self._library.ResponseError):  # it did answer: full, or read-only
                self.breaker.failed()
            log.warning("cache_failed", operation=operation, error=type(error).__name__)
            raise ProviderError("Redis did not do as asked in time", service="Redis") from error
        finally:
            if link is not None and is_good:
                self._idle.append(link)
            elif link is not None:
                # Also when the caller was cancelled: an answer may still be on its way to this connection.
                await asyncio.shield(_closed(link))
        self.breaker.succeeded()

    async def _linked(self) -> _Link:
        if self._idle:
            return self._idle.pop()
        client = self._client()
        try:
            async with asyncio.timeout(self._timeout * CONNECT_FACTOR):
                server = await client.execute_command("INFO", "server")
        except BaseException:
            await asyncio.shield(client.aclose())
            raise
        return _Link(client, str(server["run_id"]))

    def _client(self) -> Any:
        return self._library.Redis.from_url(self._url, single_connection_client=True, retry=self._no_retry, protocol=2)


async def _closed(link: _Link) -> None:
    try:
        await link.client.aclose()
    except Exception as error:  # noqa: BLE001 - the connection is given up either way
        log.debug("cache_close_failed", error=type(error).__name__)


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
                await storage.begin_term(rows, seconds=self._timing.notice)
                await storage.suspend(rows)
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
                    await storage.resume(rows, term.row.generation, seconds=self._timing.notice)
            return term

    async def _ask(self) -> Term:
        asked_at = time.monotonic()
        async with self._database.queue() as rows:
            row = await storage.read_term(rows)
            if row is None:
                await storage.begin_term(rows, seconds=self._timing.notice)
                row = await storage.read_term(rows)
        assert row is not None
        self._term = Term(row=row, asked_at=asked_at, answered_at=time.monotonic(), timing=self._timing)
        return self._term

    async def _may_resume(self, row: TermRow) -> bool:
        """Whether the cache was suspended for long enough and Redis does again what it is asked."""
        if row.resumes_in != float("inf") or row.suspended_for < self._timing.suspension:
            return False
        return await self.cache.drop(_PROBE)
