"""Running models that block: one thread for each model, questions before passages, never the event loop."""

from __future__ import annotations

import asyncio
import itertools
import queue
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, Generic, Protocol, TypeVar

import numpy as np

from recordari.errors import ConfigurationError, ProviderError
from recordari.providers.base import Matrix, Vector
from recordari.providers.breaker import CircuitBreaker
from recordari.providers.vectors import QueryCache

T = TypeVar("T")
M = TypeVar("M")

JOIN_SECONDS = 5.0  # a closing process does not wait for a download that is under way
LOAD_COOL_DOWN = 60.0  # a model that could not be had is not asked for again at every recall


class Urgency(IntEnum):
    """Which waiting job goes first; the smaller number wins."""

    CLOSE = 0
    QUESTION = 1
    PASSAGES = 2


@dataclass(order=True, slots=True, kw_only=True)
class _Job:
    urgency: Urgency
    number: int
    call: Callable[[], Any] | None = field(compare=False)
    future: Future[Any] = field(compare=False, default_factory=Future)


class InferenceThread:
    """One worker thread with a priority queue; jobs of the same urgency run in the order they came.

    A caller that is cancelled while its job waits takes the job with it; a job that runs is finished and its
    result dropped. The thread starts with the first job and may serve several event loops.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._jobs: queue.PriorityQueue[_Job] = queue.PriorityQueue()
        self._numbers = itertools.count()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._closed = False

    async def run(self, urgency: Urgency, call: Callable[[], T]) -> T:
        """Run `call` on the thread and wait for its result without blocking the event loop."""
        job = _Job(urgency=urgency, number=next(self._numbers), call=call)
        with self._lock:
            if self._closed:
                raise ProviderError(f"{self._name} is closed.")
            if self._thread is None:
                self._thread = threading.Thread(target=_work, args=(self._jobs,), name=self._name, daemon=True)
                self._thread.start()
            self._jobs.put(job)
        result: T = await asyncio.wrap_future(job.future)
        return result

    async def close(self) -> None:
        """End the thread after the running job; jobs that still wait fail with `ProviderError`."""
        with self._lock:
            thread, already, self._closed = self._thread, self._closed, True
        if thread is None or already:
            return
        self._jobs.put(_Job(urgency=Urgency.CLOSE, number=next(self._numbers), call=None))
        await asyncio.to_thread(thread.join, JOIN_SECONDS)
        while not self._jobs.empty():
            waiting = self._jobs.get_nowait().future
            if waiting.set_running_or_notify_cancel():
                waiting.set_exception(ProviderError(f"{self._name} is closed."))


def _work(jobs: queue.PriorityQueue[_Job]) -> None:
    while (job := jobs.get()).call is not None:
        if not job.future.set_running_or_notify_cancel():
            continue
        try:
            result = job.call()
        except Exception as error:  # noqa: BLE001 - relayed to the caller, who waits for it; the thread lives on
            job.future.set_exception(error)
        else:
            job.future.set_result(result)
        del job  # or the last result would stay in memory until the next job comes


def cut_batches(lengths: Sequence[int], *, texts: int, characters: int) -> list[list[int]]:
    """Group positions of similar length, at most `texts` a group and about `characters` with padding.

    Short groups keep the wait of a question short, and similar lengths waste little on padding.
    """
    batches: list[list[int]] = []
    for position in sorted(range(len(lengths)), key=lengths.__getitem__):
        # Sorted by length, so the newest member is the longest and all others are padded to it.
        batch = batches[-1] if batches else None
        if batch is None or len(batch) >= texts or (len(batch) + 1) * lengths[position] > characters:
            batches.append([position])
        else:
            batch.append(position)
    return batches


class LazyModel(Generic[M]):
    """A model that is loaded at first use and runs on its own thread.

    Whatever the runtime raises becomes a `ProviderError`. A failed load is remembered for a minute: until
    then callers get the error at once instead of each waiting for another attempt.
    """

    def __init__(self, model_id: str, load: Callable[[], M]) -> None:
        self._model_id = model_id
        self._load = load
        self._model: M | None = None
        self._thread = InferenceThread(f"model {model_id}")
        self._loading = CircuitBreaker(f"Loading {model_id}", failures=1, cool_down=LOAD_COOL_DOWN)

    async def use(self, urgency: Urgency, call: Callable[[M], T]) -> T:
        """Run `call` with the loaded model on its thread."""
        return await self._thread.run(urgency, lambda: self._guarded(call))

    def use_now(self, call: Callable[[M], T]) -> T | None:
        """Run `call` in this thread, for a model that is quick and may be used by several; None while it is not loaded."""
        return self._guarded(call) if self._model is not None else None

    async def close(self) -> None:
        """End the thread and forget the model."""
        await self._thread.close()
        self._model = None

    def _guarded(self, call: Callable[[M], T]) -> T:
        model = self._loaded()
        try:
            return call(model)
        except ProviderError:
            raise
        except Exception as error:  # the classes that runtimes raise have no root in common
            raise ProviderError(f"The model {self._model_id} failed ({type(error).__name__}).") from error

    def _loaded(self) -> M:
        if self._model is None:
            self._loading.check()
            try:
                self._model = self._load()
            except (ProviderError, ConfigurationError):
                self._loading.failed()
                raise
            except Exception as error:  # as above, for a file that the runtime cannot read
                self._loading.failed()
                raise ProviderError(
                    f"The model {self._model_id} could not be loaded ({type(error).__name__}); "
                    f"`recordari models verify` checks its files."
                ) from error
            self._loading.succeeded()
        return self._model


class Encoder(Protocol):
    """A loaded embedding model; used by one thread only."""

    @property
    def dimensions(self) -> int:
        """Length of each vector."""

    def query(self, text: str) -> Vector:
        """Embed a question as a unit vector."""

    def passages(self, texts: Sequence[str]) -> Matrix:
        """Embed passages as unit rows."""


class ThreadedEmbedder:
    """An `Embedder` over a blocking model, loaded at first use, on its own thread.

    A question waits for at most one sub-batch of passages. The answers to the last questions are kept, as
    read-only arrays.
    """

    batch_texts = 4
    batch_characters = 800

    def __init__(
        self,
        *,
        model_id: str,
        load: Callable[[], Encoder],
        dimensions: int | None = None,
        query_cache_size: int = 1024,
    ) -> None:
        self._model_id = model_id
        self._model = LazyModel(model_id, load)
        self._dimensions = dimensions
        self._questions = QueryCache(query_cache_size)

    @property
    def model_id(self) -> str:
        """The name stored beside each vector."""
        return self._model_id

    @property
    def dimensions(self) -> int:
        """Length of each vector; known for every model after `ready()`."""
        if self._dimensions is None:
            raise ProviderError(f"The dimensions of {self._model_id} are known only once it has been used.")
        return self._dimensions

    async def ready(self) -> None:
        """Fetch and load the model now instead of at the first use."""
        self._dimensions = await self._model.use(Urgency.QUESTION, lambda encoder: encoder.dimensions)

    async def embed_query(self, text: str) -> Vector:
        """Embed one question, before any waiting passage."""
        if (known := self._questions.get(text)) is not None:
            return known
        if self._dimensions is None:
            await self.ready()
        return self._questions.put(text, await self._model.use(Urgency.QUESTION, lambda encoder: encoder.query(text)))

    async def embed_passages(self, texts: Sequence[str]) -> Matrix:
        """Embed passages, one row each, in the order given; cut into sub-batches of similar length."""
        if self._dimensions is None:
            await self.ready()
        rows = np.empty((len(texts), self.dimensions), dtype=np.float32)
        lengths = [len(text) for text in texts]
        # One sub-batch at a time: several callers take turns, and a cancelled one leaves nothing behind.
        for batch in cut_batches(lengths, texts=self.batch_texts, characters=self.batch_characters):
            rows[batch] = await self._embed_batch([texts[position] for position in batch])
        return rows

    async def close(self) -> None:
        """End the thread and forget the model."""
        await self._model.close()
        self._questions.clear()

    async def _embed_batch(self, texts: list[str]) -> Matrix:
        return await self._model.use(Urgency.PASSAGES, lambda encoder: encoder.passages(texts))
