"""A circuit breaker: after several failures in a row a provider is left alone for a while."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from enum import StrEnum

from recordari.errors import ProviderError


class BreakerState(StrEnum):
    """What a breaker does with the next call."""

    CLOSED = "closed"  # calls go through
    OPEN = "open"  # calls are refused at once
    HALF_OPEN = "half_open"  # one probe is under way; its outcome decides


class CircuitBreaker:
    """Refuses calls to a provider that keeps failing, and lets one probe through after the cool-down.

    One instance belongs to one provider and is shared by all its callers, so that the first few who meet the
    failure pay for it and the others do not wait. It may be used from several threads.
    """

    def __init__(
        self,
        name: str,
        *,
        failures: int = 5,
        cool_down: float = 30.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.name = name
        self._limit = failures
        self._cool_down = cool_down
        self._clock = clock
        self._lock = threading.Lock()
        self._failed = 0
        self._opened_at: float | None = None
        self._probe_at: float | None = None

    @property
    def state(self) -> BreakerState:
        """What the breaker does now."""
        if self._opened_at is None:
            return BreakerState.CLOSED
        return BreakerState.OPEN if self._probe_at is None else BreakerState.HALF_OPEN

    def check(self) -> None:
        """Let the call pass, or raise `ProviderError`; whoever passes reports `succeeded()` or `failed()`."""
        with self._lock:
            if self._opened_at is None:
                return
            now = self._clock()
            # A probe whose caller never reported back must not keep the provider shut for ever.
            waited_since = self._opened_at if self._probe_at is None else self._probe_at
            remaining = self._cool_down - (now - waited_since)
            if remaining > 0:
                raise ProviderError(
                    f"{self.name} failed {self._failed} times in a row and is left alone; "
                    f"the next attempt is in {remaining:.0f} s.",
                    retry_after=remaining,
                )
            self._probe_at = now

    def succeeded(self) -> None:
        """Note that a call worked: the breaker closes."""
        with self._lock:
            self._failed = 0
            self._opened_at = self._probe_at = None

    def failed(self) -> None:
        """Note that a call failed: past the limit, or after a failed probe, the breaker opens."""
        with self._lock:
            self._failed += 1
            if self._opened_at is not None or self._failed >= self._limit:
                self._opened_at = self._clock()
                self._probe_at = None
