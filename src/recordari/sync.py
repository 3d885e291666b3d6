"""The sync API: every verb of the async `Memory` and `Client`, as a method that waits for its answer.

Only the async API is written. Its verbs run on an event loop in a thread of its own, so that code with and without an event
loop can call them.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager, AbstractContextManager, AsyncExitStack, contextmanager
from typing import TYPE_CHECKING, Any, Self, TypeVar

from recordari.app import Memory as AsyncMemory
from recordari.client import Client as AsyncClient
from recordari.config import Settings

T = TypeVar("T")


class _Loop:
    """An event loop in a thread."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="recordari", daemon=True)
        self._thread.start()

    def wait(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine and wait for its result; an interrupt of the waiting thread cancels it."""
        future = self.start(coroutine)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def start(self, coroutine: Coroutine[Any, Any, T]) -> Future[T]:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop)

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


class Facade:
    """The verbs of an async memory or client, as methods that wait."""

    def __init__(self, memory: AsyncMemory, loop: _Loop) -> None:
        self._memory = memory
        self._loop = loop

    @property
    def asynchronous(self) -> AsyncMemory:
        """The async memory, for code that calls `wait` itself."""
        return self._memory

    def wait(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the facade's own event loop, and wait for its result."""
        return self._loop.wait(coroutine)

    async def elsewhere(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the facade's own event loop from another one."""
        return await asyncio.wrap_future(self._loop.start(coroutine))

    @classmethod
    @contextmanager
    def _opened(cls, opening: Callable[[], AbstractAsyncContextManager[AsyncMemory]]) -> Iterator[Self]:
        loop = _Loop()
        try:
            stack = AsyncExitStack()
            memory = loop.wait(stack.enter_async_context(opening()))
            try:
                yield cls(memory, loop)
            finally:
                loop.wait(stack.aclose())
        finally:
            loop.close()

    def acting_as(
        self,
        *,
        user: str | None = None,
        agent: str | None = None,
        session: str | None = None,
        run: str | None = None,
    ) -> Self:
        """The same memory for a narrower identity."""
        return type(self)(self._memory.acting_as(user=user, agent=agent, session=session, run=run), self._loop)

    if TYPE_CHECKING:  # the verbs are made below, with the signatures of the async ones

        def __getattr__(self, name: str) -> Callable[..., Any]: ...

    def _iterate(self, answers: AsyncIterator[T]) -> Iterator[T]:
        end = object()

        async def following() -> Any:
            return await anext(answers, end)

        while (answer := self._loop.wait(following())) is not end:
            yield answer


class Memory(Facade):
    """The verbs of Recordari for code without an event loop; see `recordari.app.Memory` for each of them."""

    @classmethod
    def open(
        cls,
        *,
        tenant: str = "default",
        user: str | None = None,
        agent: str | None = None,
        session: str | None = None,
        settings: Settings | None = None,
        worker: bool = True,
    ) -> AbstractContextManager[Self]:
        """Open the memory of a tenant, starting the embedded database if none is configured."""
        return cls._opened(
            lambda: AsyncMemory.open(
                tenant=tenant, user=user, agent=agent, session=session, settings=settings, worker=worker
            )
        )


class Client(Facade):
    """The verbs of a Recordari server for code without an event loop; see `recordari.client.Client`."""

    @classmethod
    def open(
        cls,
        url: str,
        *,
        key: str,
        user: str | None = None,
        agent: str | None = None,
        session: str | None = None,
        run: str | None = None,
        **connection: Any,
    ) -> AbstractContextManager[Self]:
        """Connect to a server; `connection` are the `timeout`, `retries` and `transport` of the async `Client`."""
        return cls._opened(
            lambda: AsyncClient(url, key=key, user=user, agent=agent, session=session, run=run, **connection)
        )


def _waiting(name: str, verb: Callable[..., Any]) -> Callable[..., Any]:
    """The verb as a method that waits, with the same signature and docstring."""

    @functools.wraps(verb)
    def method(self: Facade, *arguments: Any, **named: Any) -> Any:
        answer = getattr(self._memory, name)(*arguments, **named)
        if inspect.isasyncgen(answer):
            return self._iterate(answer)
        return self._loop.wait(answer) if inspect.iscoroutine(answer) else answer

    return method


_NOT_VERBS = {"bound", "close"}

for _facade, _async in ((Memory, AsyncMemory), (Client, AsyncClient)):
    for _name, _verb in inspect.getmembers(_async, inspect.isfunction):
        if not _name.startswith("_") and _name not in _NOT_VERBS and not hasattr(_facade, _name):
            setattr(_facade, _name, _waiting(_name, _verb))
