"""Admission control (X9): a bounded number of places, some of them always kept for others, and refusals that cost little.

A request runs in a place. If there is none for its tenant it waits in that tenant's queue. If that queue is full too, its
connection is held: nothing of the request is parsed, no task exists for it, and the kernel slows the client down. A held
request goes on when there is room in the queue, or is refused after a while. Refusals have a pace of their own, so that
clients who ignore `Retry-After` do not turn the whole server into one that only refuses.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Self

from recordari.core.identity import TenantId
from recordari.errors import Overloaded

RESERVED = 0.25  # of all places, for tenants other than the busiest
CROWDED = 0.125  # of all places, for one tenant while others work too: more would slow their requests down
COMPANY_SECONDS = 10.0  # a tenant counts as working for so long after a request
REFUSALS_A_SECOND = 100
TICK_SECONDS = 0.05

Answered = Callable[[Overloaded | None], None]
"""What a held connection is told: the refusal, or None to go on."""


@dataclass(frozen=True, slots=True, eq=False)
class Held:
    """A connection whose request waits unread."""

    tenant_id: TenantId
    until: float
    answer: Answered
    refusal: Callable[[], Overloaded] | None


class HeldPlace:
    """A place of a tenant, while a block runs."""

    __slots__ = ("_admission", "_is_held", "_tenant_id")

    def __init__(self, admission: Admission, tenant_id: TenantId) -> None:
        self._admission = admission
        self._tenant_id = tenant_id
        self._is_held = False

    async def __aenter__(self) -> Self:
        await self._admission.enter(self._tenant_id)
        self._is_held = True
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        if self._is_held:
            self._is_held = False
            self._admission.release(self._tenant_id)


class Admission:
    """Places, a queue before them for each tenant, and held connections before those.

    A free place goes to the oldest waiting request of the tenant that runs fewest. One tenant alone gets every place but
    the reserved ones; while others work too it gets `CROWDED` of them. A full queue makes room for a tenant that has
    less than its share of it by refusing the newest request of the tenant that holds most.
    """

    def __init__(
        self,
        *,
        places: int = 16,
        queue: int = 256,
        tenant_queue: int = 64,
        wait_seconds: float = 1.0,
        hold_seconds: float = 5.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._places = places
        self._alone = max(1, places - max(1, int(places * RESERVED)))
        self._in_company = max(1, int(places * CROWDED))
        self._queue = queue
        self._tenant_queue = tenant_queue
        self._wait_seconds = wait_seconds
        self._hold_seconds = hold_seconds
        self._clock = clock
        self._running: Counter[TenantId] = Counter()
        self._waiting: dict[asyncio.Future[None], TenantId] = {}  # oldest first; a result grants a place
        self._queued: Counter[TenantId] = Counter()
        self._seen_at: dict[TenantId, float] = {}  # the latest last
        self._held: dict[TenantId, deque[Held]] = {}
        self._ticking: asyncio.TimerHandle | None = None
        self._refusals_due = 0.0
        self._refused = 0

    def figures(self) -> dict[str, float]:
        """Places in use, requests waiting, connections held, and requests refused so far."""
        return {
            "running": self._running.total(),
            "waiting": len(self._waiting),
            "held": sum(map(len, self._held.values())),
            "refused": self._refused,
        }

    def has_waiting(self) -> bool:
        """Whether a request waits for a place."""
        return bool(self._waiting)

    # Places

    def place(self, tenant_id: TenantId) -> HeldPlace:
        """A place for a block, which raises `Overloaded` if none becomes free in time; `close()` gives it back early."""
        return HeldPlace(self, tenant_id)

    async def enter(self, tenant_id: TenantId) -> None:
        self._note(tenant_id)
        if self._has_place(tenant_id) and not self._queued[tenant_id]:
            self._running[tenant_id] += 1
        else:
            await self._wait(tenant_id)

    def _has_place(self, tenant_id: TenantId) -> bool:
        others = len(self._seen_at) - (tenant_id in self._seen_at)
        most = self._in_company if others else self._alone
        return self._running.total() < self._places and self._running[tenant_id] < most

    def _note(self, tenant_id: TenantId) -> None:
        now = self._clock()
        self._seen_at.pop(tenant_id, None)
        self._seen_at[tenant_id] = now
        while (oldest := next(iter(self._seen_at))) != tenant_id and now - self._seen_at[oldest] > COMPANY_SECONDS:
            del self._seen_at[oldest]

    def release(self, tenant_id: TenantId) -> None:
        self._running[tenant_id] -= 1
        if not self._running[tenant_id]:
            del self._running[tenant_id]
        self._hand_on()

    async def _wait(self, tenant_id: TenantId) -> None:
        if self.is_full(tenant_id) or (len(self._waiting) >= self._queue and not self._make_room(tenant_id)):
            raise self._refusal(tenant_id)
        granted: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting[granted] = tenant_id
        self._queued[tenant_id] += 1
        try:
            async with asyncio.timeout(self._wait_seconds):
                await granted
        except BaseException as error:
            is_waiting = self._leave_queue(granted) is not None
            if not is_waiting and granted.done() and not granted.cancelled() and granted.exception() is None:
                self.release(tenant_id)  # granted at the moment of giving up
            if isinstance(error, TimeoutError):
                raise self._refusal(tenant_id) from None
            raise

    def _leave_queue(self, granted: asyncio.Future[None]) -> TenantId | None:
        tenant_id = self._waiting.pop(granted, None)
        if tenant_id is not None:
            self._queued[tenant_id] -= 1
            if not self._queued[tenant_id]:
                del self._queued[tenant_id]
        return tenant_id

    def _hand_on(self) -> None:
        while (granted := self._next_waiting()) is not None:
            tenant_id = self._waiting[granted]
            self._leave_queue(granted)
            self._let_go(tenant_id)
            if not granted.done():
                self._running[tenant_id] += 1
                granted.set_result(None)

    def _next_waiting(self) -> asyncio.Future[None] | None:
        chosen = min((one for one in self._queued if self._has_place(one)), key=self._running.__getitem__, default=None)
        return next((granted for granted, tenant_id in self._waiting.items() if tenant_id == chosen), None)

    def _make_room(self, tenant_id: TenantId) -> bool:
        if not self._queued:
            return False
        busiest, most = self._queued.most_common(1)[0]
        if busiest == tenant_id or most <= self._queued[tenant_id] + 1:
            return False
        newest = next(granted for granted, waiting in reversed(self._waiting.items()) if waiting == busiest)
        self._leave_queue(newest)
        if not newest.done():
            newest.set_exception(self._refusal(busiest))
        return True

    def _refusal(self, tenant_id: TenantId) -> Overloaded:
        self._refused += 1
        return Overloaded(retry_after=max(1.0, self._wait_seconds), tenant_id=tenant_id)

    # Held connections

    def is_full(self, tenant_id: TenantId) -> bool:
        """Whether the tenant's queue has no room for a request."""
        return self._queued[tenant_id] >= self._tenant_queue and not self._has_place(tenant_id)

    def hold(
        self, tenant_id: TenantId, answer: Answered, *, refusal: Callable[[], Overloaded] | None = None
    ) -> Callable[[], None]:
        """Hold a request until there is room for it, or until it is refused; with `refusal` it only waits for that.

        The function returned gives it up.
        """
        self._note(tenant_id)
        held = Held(tenant_id, self._clock() + (0.0 if refusal else self._hold_seconds), answer, refusal)
        self._held.setdefault(tenant_id, deque()).append(held)
        if self._ticking is None:
            self._ticking = asyncio.get_running_loop().call_later(TICK_SECONDS, self._tick)
        return lambda: self._give_up(held)

    def _give_up(self, held: Held) -> None:
        line = self._held.get(held.tenant_id, deque())
        if held in line:
            line.remove(held)
            if not line:
                del self._held[held.tenant_id]

    def _let_go(self, tenant_id: TenantId) -> None:
        """Let one held request of the tenant go on: there is room in its queue."""
        line = self._held.get(tenant_id)
        going = next((held for held in line or () if held.refusal is None), None)
        if going is not None:
            self._give_up(going)
            going.answer(None)

    def _tick(self) -> None:
        self._ticking = None
        for tenant_id in list(self._held):
            # Room without a request that left the queue: one was granted a place at once, or a request was not valid.
            for _ in range(max(0, self._tenant_queue - self._queued[tenant_id])):
                self._let_go(tenant_id)
        self._refuse_overdue()
        if self._held:
            self._ticking = asyncio.get_running_loop().call_later(TICK_SECONDS, self._tick)

    def _refuse_overdue(self) -> None:
        """Refuse in turns those held for long enough, as many as the pace allows."""
        self._refusals_due = min(self._refusals_due + REFUSALS_A_SECOND * TICK_SECONDS, REFUSALS_A_SECOND / 2)
        now = self._clock()
        overdue = deque(tenant_id for tenant_id, line in self._held.items() if line[0].until <= now)
        while overdue and self._refusals_due >= 1:
            tenant_id = overdue.popleft()
            line = self._held[tenant_id]
            held = line.popleft()
            if not line:
                del self._held[tenant_id]
            elif line[0].until <= now:
                overdue.append(tenant_id)
            self._refusals_due -= 1
            held.answer(held.refusal() if held.refusal else self._refusal(tenant_id))
