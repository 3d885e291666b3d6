"""Run models that block: one thread for each model, questions before passages, never the event loop."""

from __future__ import annotations

import asyncio
import itertools
import queue
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from enum import IntEnum
from operator import methodcaller
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from recordari.errors import ConfigurationError, ProviderError
from recordari.models.base import Matrix, QueryCache, Vector, unit_rows
from recordari.models.http import CircuitBreaker
from recordari.models.registry import ModelFiles, Pooling

T = TypeVar("T")
M = TypeVar("M")

JOIN_SECONDS = 5.0  # a closing process does not wait for a download that is under way
LOAD_COOL_DOWN = 60.0  # after a failed load, recalls do not try again before


class Urgency(IntEnum):
    """The order of waiting jobs; the smaller number goes first."""

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
    """One worker thread with a priority queue; jobs of the same urgency run in the order of their arrival.

    A cancelled caller removes its job if it still waits; a running job is finished and its result dropped. The
    thread starts with the first job and may serve several event loops.
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
                raise ProviderError(f"{self._name} is closed.", service=self._name)
            if self._thread is None:
                self._thread = threading.Thread(target=_work, args=(self._jobs,), name=self._name, daemon=True)
                self._thread.start()
            self._jobs.put(job)
        result: T = await asyncio.wrap_future(job.future)
        return result

    async def close(self) -> None:
        """End the thread after the running job; jobs that still wait fail with `ProviderError`."""
        with self._lock:
            thread, was_closed, self._closed = self._thread, self._closed, True
        if thread is None or was_closed:
            return
        self._jobs.put(_Job(urgency=Urgency.CLOSE, number=next(self._numbers), call=None))
        await asyncio.to_thread(thread.join, JOIN_SECONDS)
        while not self._jobs.empty():
            waiting = self._jobs.get_nowait().future
            if waiting.set_running_or_notify_cancel():
                waiting.set_exception(ProviderError(f"{self._name} is closed.", service=self._name))


def _work(jobs: queue.PriorityQueue[_Job]) -> None:
    while (job := jobs.get()).call is not None:
        if not job.future.set_running_or_notify_cancel():
            continue
        try:
            result = job.call()
        except Exception as error:  # noqa: BLE001 - passed on to the waiting caller; the thread continues
            job.future.set_exception(error)
        else:
            job.future.set_result(result)
        del job  # else the last result stays in memory until the next job


def cut_batches(lengths: Sequence[int], *, texts: int, characters: int) -> list[list[int]]:
    """Group positions of similar length, at most `texts` a group and about `characters` with padding.

    Short groups keep the wait of a question short, and similar lengths waste little on padding.
    """
    batches: list[list[int]] = []
    for position in sorted(range(len(lengths)), key=lengths.__getitem__):
        # Sorted by length: the newest member is the longest, and all others are padded to it.
        if batches and len(batches[-1]) < texts and (len(batches[-1]) + 1) * lengths[position] <= characters:
            batches[-1].append(position)
        else:
            batches.append([position])
    return batches


class LazyModel(Generic[M]):
    """A model that is loaded at first use and runs on its own thread.

    Every error of the runtime becomes a `ProviderError`. After a failed load callers get the error at once for a
    minute, instead of each waiting for another attempt.
    """

    def __init__(self, model_id: str, load: Callable[[], M]) -> None:
        self._model_id = model_id
        self._load = load
        self._model: M | None = None
        self._thread = InferenceThread(f"model {model_id}")
        self._loading = CircuitBreaker(f"Loading {model_id}", failures=1, cool_down=LOAD_COOL_DOWN)

    async def use(self, urgency: Urgency, call: Callable[[M], T]) -> T:
        return await self._thread.run(urgency, lambda: self._guarded(call))

    def use_now(self, call: Callable[[M], T]) -> T | None:
        """Run `call` in this thread, for a model that is fast and thread-safe; None before it is loaded."""
        return self._guarded(call) if self._model is not None else None

    async def close(self) -> None:
        await self._thread.close()
        self._model = None

    def _guarded(self, call: Callable[[M], T]) -> T:
        model = self._loaded()
        try:
            return call(model)
        except ProviderError:
            raise
        except Exception as error:  # the classes that runtimes raise have no root in common
            raise _model_error(self._model_id, f"failed ({type(error).__name__})") from error

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
                problem = f"could not be loaded ({type(error).__name__}); `recordari models verify` checks its files"
                raise _model_error(self._model_id, problem) from error
            self._loading.succeeded()
        return self._model


def _model_error(model_id: str, problem: str) -> ProviderError:
    return ProviderError(f"The model {model_id} {problem}.", service=f"the model {model_id}")


class Encoder(Protocol):
    """A loaded embedding model that gives unit vectors; used by one thread only."""

    @property
    def dimensions(self) -> int: ...

    def query(self, text: str) -> Vector: ...

    def passages(self, texts: Sequence[str]) -> Matrix: ...


class ThreadedEmbedder:
    """An `Embedder` over a blocking model, loaded at first use, on its own thread.

    A question waits for at most one sub-batch of passages.
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
        self.model_id = model_id
        self._model = LazyModel(model_id, load)
        self._dimensions = dimensions
        self._questions = QueryCache(query_cache_size)

    @property
    def dimensions(self) -> int:
        if self._dimensions is None:
            raise _model_error(self.model_id, "has not been used yet, so its dimensions are not known")
        return self._dimensions

    async def ready(self) -> None:
        self._dimensions = await self._model.use(Urgency.QUESTION, lambda encoder: encoder.dimensions)

    async def embed_query(self, text: str) -> Vector:
        if (vector := self._questions.get(text)) is not None:
            return vector
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
            part = [texts[position] for position in batch]
            rows[batch] = await self._model.use(Urgency.PASSAGES, methodcaller("passages", part))
        return rows

    async def close(self) -> None:
        await self._model.close()
        self._questions.clear()


# A text is cut before it is tokenised, generously (a token has four characters on average): one huge text must not
# occupy the tokenizer for seconds only to be truncated.
CHARACTERS_PER_TOKEN = 16


class OnnxModel:
    """A tokenizer and an inference session; blocking, used by one thread."""

    def __init__(self, files: ModelFiles, *, threads: int = 1) -> None:
        # Lazy: both take a fifth of a second to import.
        import onnxruntime
        from tokenizers import Tokenizer

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        # Waiting threads would otherwise spin and slow down the event loop and the database.
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        options.log_severity_level = 3
        self._session = onnxruntime.InferenceSession(str(files.weights), options, providers=["CPUExecutionProvider"])
        self._inputs = {entry.name for entry in self._session.get_inputs()}
        self._output = self._session.get_outputs()[0].name
        self._tokenizer = Tokenizer.from_file(str(files.tokenizer))
        self._tokenizer.no_padding()
        self._tokenizer.enable_truncation(files.spec.max_tokens)
        self._limit = files.spec.max_tokens * CHARACTERS_PER_TOKEN

    def run(self, texts: Sequence[str | tuple[str, str]]) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        """Run texts (or pairs of texts) as one batch; returns the model's first output and the mask."""
        # Not encode_batch: its thread pool would use more cores than configured.
        pairs = ((text, None) if isinstance(text, str) else (text[0], text[1][: self._limit]) for text in texts)
        encodings = [self._tokenizer.encode(first[: self._limit], second) for first, second in pairs]
        width = max(len(encoding.ids) for encoding in encodings)
        feed = {
            name: np.zeros((len(texts), width), dtype=np.int64)
            for name in ("input_ids", "attention_mask", "token_type_ids")
        }
        for row, encoding in enumerate(encodings):
            size = len(encoding.ids)
            feed["input_ids"][row, :size] = encoding.ids
            feed["attention_mask"][row, :size] = 1
            feed["token_type_ids"][row, :size] = encoding.type_ids
        inputs = {name: array for name, array in feed.items() if name in self._inputs}
        output: NDArray[np.float32] = self._session.run([self._output], inputs)[0]
        return output, feed["attention_mask"]


class DenseEncoder:
    """A transformer that gives one unit vector for a text."""

    def __init__(self, files: ModelFiles, *, threads: int = 1) -> None:
        self._spec = files.spec
        self._model = OnnxModel(files, threads=threads)
        self.dimensions = files.spec.dimensions

    def query(self, text: str) -> Vector:
        vector: Vector = self._embed([self._spec.query_prefix + text])[0]
        return vector

    def passages(self, texts: Sequence[str]) -> Matrix:
        return self._embed([self._spec.passage_prefix + text for text in texts])

    def _embed(self, texts: Sequence[str]) -> Matrix:
        tokens, mask = self._model.run(texts)
        is_first = self._spec.pooling is Pooling.CLS
        # A sum is enough for the mean: unit_rows divides by the length.
        pooled = tokens[:, 0] if is_first else np.einsum("btd,bt->bd", tokens, mask.astype(np.float32))
        return unit_rows(pooled, model_id=self._spec.model_id)


class CrossEncoder:
    """A transformer that reads a question and a passage together and scores the pair between 0 and 1."""

    def __init__(self, files: ModelFiles, *, threads: int = 1) -> None:
        self._model = OnnxModel(files, threads=threads)

    def scores(self, query: str, passages: Sequence[str]) -> list[float]:
        logits, _ = self._model.run([(query, passage) for passage in passages])
        scores: list[float] = (1.0 / (1.0 + np.exp(-logits[:, 0].astype(np.float64)))).tolist()
        return scores
