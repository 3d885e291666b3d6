"""One JSON service over HTTP: retries with a cap, a circuit breaker, and errors that carry no content."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from recordari.errors import ConfigurationError, ProviderError

if TYPE_CHECKING:
    import httpx2

RETRY_AFTER_LIMIT = 5.0  # a service that asks for a longer pause is treated as failed
CONNECT_SECONDS = 3.0
HANG_SECONDS = 1.0  # who waited so long for nothing has waited for all: the next callers do not wait
REFUSED_CONTENT = frozenset({400, 413, 422})  # the service works; it does not take this request


class _Temporary(ProviderError):
    """An error after which another try may work."""

    def __init__(self, message: str, *, service: str, wait: float | None = None) -> None:
        super().__init__(message, service=service)
        self.wait = wait


def _retry(error: Exception) -> bool | float:
    if not isinstance(error, _Temporary) or (error.wait or 0) > RETRY_AFTER_LIMIT:
        return False
    return True if error.wait is None else error.wait


class JsonService:
    """Posts JSON to one service and returns the decoded answer, or raises `ProviderError`.

    Retries after time-outs, broken connections, 408, 429 and 5xx, up to `attempts` tries in all. A caller that
    cancels counts as a failure for the breaker, and one that waited in vain opens it: a service that hangs must not
    cost more than one recall its time budget.
    """

    def __init__(
        self,
        name: str,
        *,
        base_url: str,
        api_key: str | None = None,
        timeout: float = 10.0,
        attempts: int = 3,
        breaker: CircuitBreaker | None = None,
    ) -> None:
        import httpx2  # lazy, as below: local models do not need it

        if not base_url.startswith(("http://", "https://")):
            raise ConfigurationError(f"{name} needs a base URL that starts with http:// or https://.")
        self.name = name
        self.breaker = breaker or CircuitBreaker(name)
        self._base_url = base_url.rstrip("/")
        self._attempts = attempts
        self._timeout = timeout
        # Redirects are not followed: they would carry texts, and perhaps the key, to another host.
        self._client = httpx2.AsyncClient(
            timeout=httpx2.Timeout(timeout, connect=min(CONNECT_SECONDS, timeout)),
            headers={"Authorization": f"Bearer {api_key}"} if api_key else {},
        )

    def address(self, path: str) -> str:
        """Join the base URL and a path; either may already hold the part they share (`/v1`, or all of it)."""
        parts = path.split("/")[1:]
        for count in range(len(parts), 0, -1):
            shared = "/" + "/".join(parts[:count])
            if self._base_url.endswith(shared):
                return self._base_url + path.removeprefix(shared)
        return self._base_url + path

    async def post(self, path: str, body: dict[str, Any]) -> Any:
        import stamina

        self.breaker.check()
        began = time.monotonic()
        try:
            async for attempt in stamina.retry_context(
                on=_retry,
                attempts=self._attempts,
                timeout=self._timeout * self._attempts,
                wait_initial=0.1,
                wait_max=2.0,
                wait_jitter=0.1,
            ):
                with attempt:
                    answer = await self._post_once(path, body)
        except (ProviderError, asyncio.CancelledError) as error:
            refused = isinstance(error, ProviderError) and error.details.get("status") in REFUSED_CONTENT
            if refused:
                self.breaker.succeeded()
            else:
                self.breaker.failed(hung=time.monotonic() - began >= min(HANG_SECONDS, 0.9 * self._timeout))
            raise
        self.breaker.succeeded()
        return answer

    async def close(self) -> None:
        await self._client.aclose()

    async def _post_once(self, path: str, body: dict[str, Any]) -> Any:
        import httpx2

        try:
            response = await self._client.post(self.address(path), json=body)
        except httpx2.HTTPError as error:
            raise _Temporary(f"{self.name} cannot be reached ({type(error).__name__}).", service=self.name) from error
        status = response.status_code
        if status in {408, 429} or status >= 500:
            raise _Temporary(f"{self.name} answered HTTP {status}.", service=self.name, wait=_retry_after(response))
        if status != 200:
            hint = " Check the API key." if status in {401, 403} else ""
            raise ProviderError(f"{self.name} answered HTTP {status}.{hint}", status=status, service=self.name)
        try:
            return response.json()
        except ValueError as error:
            raise ProviderError(f"{self.name} answered something that is not JSON.", service=self.name) from error


def _retry_after(response: httpx2.Response) -> float | None:
    try:
        return max(0.0, float(response.headers["retry-after"]))
    except (KeyError, ValueError):  # absent, or a date: then the usual back-off serves
        return None


class BreakerState(StrEnum):
    CLOSED = "closed"  # calls go through
    OPEN = "open"  # calls are refused at once
    HALF_OPEN = "half_open"  # one probe is under way; its outcome decides


class CircuitBreaker:
    """Refuses calls to a provider that keeps failing, and lets one probe through after the cool-down.

    All callers of a provider share one breaker, so that only the first few wait for the failure. Thread-safe.
    """

    def __init__(
        self, name: str, *, failures: int = 5, cool_down: float = 30.0, clock: Callable[[], float] = time.monotonic
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
        if self._opened_at is None:
            return BreakerState.CLOSED
        return BreakerState.OPEN if self._probe_at is None else BreakerState.HALF_OPEN

    def check(self) -> None:
        """Let the call pass, or raise `ProviderError`; after the call report `succeeded()` or `failed()`."""
        with self._lock:
            if self._opened_at is None:
                return
            now = self._clock()
            # A probe whose caller never reported back must not block the provider for ever.
            waits_since = self._opened_at if self._probe_at is None else self._probe_at
            remaining = self._cool_down - (now - waits_since)
            if remaining > 0:
                has_failed = self._failed >= self._limit
                what = f"failed {self._failed} times in a row" if has_failed else "did not answer in time"
                raise ProviderError(
                    f"{self.name} {what} and is left alone; the next attempt is in {remaining:.0f} s.",
                    retry_after=remaining,
                    service=self.name,
                )
            self._probe_at = now

    def succeeded(self) -> None:
        """A call worked: the breaker closes."""
        with self._lock:
            self._failed = 0
            self._opened_at = self._probe_at = None

    def failed(self, *, hung: bool = False) -> None:
        """A call failed: past the limit, after a failed probe, or if it waited in vain, the breaker opens."""
        with self._lock:
            self._failed += 1
            if hung or self._opened_at is not None or self._failed >= self._limit:
                self._opened_at = self._clock()
                self._probe_at = None
