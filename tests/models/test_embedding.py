"""Embedders as their callers meet them: real models on this machine, real servers on loopback."""

from __future__ import annotations

import asyncio
import importlib.util
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, aclosing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.json_server import Answer, JsonServer, Reply, Request, json_server
from tests.local_models import require_model

from recordari.config import EmbeddingPrefixes, Settings
from recordari.errors import ConfigurationError, ProviderError
from recordari.models.base import Embedder
from recordari.models.embedding import (
    EmbeddingProvider,
    EmbeddingSpec,
    LocalEmbedder,
    OpenAIEmbedder,
    RemoteEmbedder,
    StaticEmbedder,
    TEIEmbedder,
    make_embedder,
)
from recordari.models.inference import InferenceThread, Urgency, cut_batches
from recordari.models.static import StaticTokens
from recordari.wiring import make_embedders

LOCAL_MODELS = ["memory-embedder", "e5-small-v2", "arctic-embed-s", "potion-base-8M"]
PASSAGES = [
    "Ana: my sister moved to Lisbon in March and works as a nurse there.",
    "The invoice of order 4711 was paid by bank transfer.",
    "Ben: I have been allergic to peanuts since I was a child.",
]
QUESTION = "Which food must Ben avoid?"

Start = Callable[[Any], Any]


@pytest.fixture
async def start() -> AsyncIterator[Start]:
    """Close whatever the test started."""
    async with AsyncExitStack() as stack:

        def begin(thing: Any) -> Any:
            stack.push_async_callback(thing.close)
            return thing

        yield begin


# --- local models ---


@pytest.mark.parametrize("model", LOCAL_MODELS)
async def test_a_local_model_puts_the_right_passage_first(model: str, start: Start) -> None:
    spec = require_model(model).spec
    embedder = start(make_embedder(EmbeddingSpec(model=model, offline=True)))
    assert isinstance(embedder, Embedder)
    question = await embedder.embed_query(QUESTION)
    passages = await embedder.embed_passages(PASSAGES)
    assert int(np.argmax(passages @ question)) == 2
    assert embedder.dimensions == spec.dimensions == passages.shape[1] == len(question)
    assert embedder.model_id == spec.model_id
    assert passages.dtype == question.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(passages, axis=1), 1, atol=1e-5)


@pytest.mark.parametrize("model", ["memory-embedder", "potion-base-8M"])
async def test_rows_come_back_in_the_order_given_whatever_their_lengths(model: str, start: Start) -> None:
    require_model(model)
    embedder = start(make_embedder(EmbeddingSpec(model=model, offline=True)))
    texts = [f"{'very ' * (7 * number % 11)}different text number {number}" for number in range(11)]
    together = await embedder.embed_passages(texts)
    alone = np.concatenate([await embedder.embed_passages([text]) for text in texts])
    # Not equal: dynamic quantisation makes a vector depend a little on the texts beside it.
    assert (np.sum(together * alone, axis=1) > 0.98).all()


@pytest.mark.parametrize("text", ["", " \n\t ", "🜏🜏", "word " * 50_000, "x" * 100_000, "\x00 \ud7ff"])
@pytest.mark.parametrize("model", ["memory-embedder", "potion-base-8M"])
async def test_any_text_gets_a_unit_vector(model: str, text: str, start: Start) -> None:
    require_model(model)
    embedder = start(make_embedder(EmbeddingSpec(model=model, offline=True)))
    assert np.linalg.norm(await embedder.embed_query(text)) == pytest.approx(1, abs=1e-5)


async def test_no_passages_give_no_rows(start: Start) -> None:
    embedder = start(LocalEmbedder(EmbeddingSpec(offline=True)))
    assert (await embedder.embed_passages([])).shape == (0, 384)


async def test_the_event_loop_goes_on_while_passages_are_embedded(start: Start) -> None:
    require_model("memory-embedder")
    embedder = start(LocalEmbedder(EmbeddingSpec(offline=True)))
    embedding = asyncio.create_task(embedder.embed_passages(PASSAGES * 3))
    turns = 0
    while not embedding.done():
        await asyncio.sleep(0.001)
        turns += 1
    assert turns > 3


async def test_a_question_asked_again_is_answered_from_memory(start: Start) -> None:
    require_model("potion-base-8M")
    embedder = start(StaticEmbedder(EmbeddingSpec(model="potion-base-8M", query_cache_size=2, offline=True)))
    first = await embedder.embed_query("one")
    assert await embedder.embed_query("one") is first
    assert not first.flags.writeable, "every caller shares it"
    await embedder.embed_query("two")
    await embedder.embed_query("three")
    assert await embedder.embed_query("one") is not first, "the cache keeps the last two"


async def test_a_closed_embedder_refuses_and_leaves_no_thread(start: Start) -> None:
    require_model("potion-base-8M")
    before = set(threading.enumerate())
    embedder = StaticEmbedder(EmbeddingSpec(model="potion-base-8M", offline=True))
    await embedder.embed_query("one")
    assert set(threading.enumerate()) - before
    await embedder.close()
    await embedder.close()
    assert not {thread for thread in set(threading.enumerate()) - before if "model" in thread.name}
    with pytest.raises(ProviderError, match="closed"):
        await embedder.embed_query("two")


async def test_a_model_that_cannot_be_had_says_what_to_do_and_is_not_asked_for_at_every_call(
    tmp_path: Path, start: Start
) -> None:
    embedder = start(LocalEmbedder(EmbeddingSpec(cache_dir=tmp_path, offline=True)))
    with pytest.raises(ProviderError, match="recordari models pull memory-embedder"):
        await embedder.embed_query("anything")
    with pytest.raises(ProviderError, match="left alone"):
        await embedder.embed_passages(["anything"])


def test_switched_off_means_no_embedder() -> None:
    assert make_embedder(EmbeddingSpec(provider=EmbeddingProvider.NONE)) is None


def test_a_cross_encoder_is_refused_as_an_embedder() -> None:
    with pytest.raises(ConfigurationError, match="cannot embed"):
        make_embedder(EmbeddingSpec(model="ms-marco-MiniLM-L-12"))


@pytest.mark.parametrize("provider", [EmbeddingProvider.OPENAI, EmbeddingProvider.TEI])
def test_a_service_needs_an_address(provider: EmbeddingProvider) -> None:
    with pytest.raises(ConfigurationError, match="base URL"):
        make_embedder(EmbeddingSpec(provider=provider, model="m"))


def test_an_address_that_is_none_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="http://"):
        make_embedder(EmbeddingSpec(provider=EmbeddingProvider.TEI, model="m", base_url="localhost:8080"))


def test_the_api_key_never_shows_in_a_representation() -> None:
    assert "s3cret" not in repr(EmbeddingSpec(api_key="s3cret"))


@pytest.mark.parametrize(
    ("provider", "module"),
    [
        (EmbeddingProvider.FASTEMBED, "fastembed"),
        (EmbeddingProvider.SENTENCE_TRANSFORMERS, "sentence_transformers"),
    ],
)
async def test_a_package_that_is_not_installed_is_named(provider: EmbeddingProvider, module: str, start: Start) -> None:
    if importlib.util.find_spec(module):
        pytest.skip(f"{provider} is installed here")
    embedder = start(make_embedder(EmbeddingSpec(provider=provider, model="some-model")))
    with pytest.raises(ConfigurationError, match=f"pip install {provider}"):
        await embedder.embed_query("anything")


# --- the thread behind local models ---


async def occupy(thread: InferenceThread, gate: threading.Event) -> asyncio.Task[bool]:
    """Keep the thread busy until the gate opens; returns once the job runs."""
    started = asyncio.Event()
    loop = asyncio.get_running_loop()

    def wait() -> bool:
        loop.call_soon_threadsafe(started.set)
        return gate.wait(60)

    running = asyncio.create_task(thread.run(Urgency.PASSAGES, wait))
    await started.wait()
    return running


async def test_waiting_questions_go_before_waiting_passages(start: Start) -> None:
    thread = start(InferenceThread("test"))
    gate = threading.Event()
    order: list[str] = []
    running = await occupy(thread, gate)
    jobs = [
        asyncio.create_task(thread.run(urgency, lambda name=name: order.append(name)))
        for urgency, name in [
            (Urgency.PASSAGES, "passages 1"),
            (Urgency.PASSAGES, "passages 2"),
            (Urgency.QUESTION, "question 1"),
            (Urgency.QUESTION, "question 2"),
        ]
    ]
    await asyncio.sleep(0)
    gate.set()
    await asyncio.gather(running, *jobs)
    assert order == ["question 1", "question 2", "passages 1", "passages 2"]


async def test_a_cancelled_caller_takes_its_waiting_job_with_it(start: Start) -> None:
    thread = start(InferenceThread("test"))
    gate = threading.Event()
    ran: list[str] = []
    running = await occupy(thread, gate)
    waiting = asyncio.create_task(thread.run(Urgency.QUESTION, lambda: ran.append("cancelled")))
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    gate.set()
    await running
    await thread.run(Urgency.PASSAGES, lambda: ran.append("later"))
    assert ran == ["later"]


async def test_jobs_that_wait_at_the_close_fail_instead_of_hanging() -> None:
    thread = InferenceThread("test")
    gate = threading.Event()
    running = await occupy(thread, gate)
    waiting = asyncio.create_task(thread.run(Urgency.PASSAGES, lambda: None))
    await asyncio.sleep(0)
    closing = asyncio.create_task(thread.close())
    await asyncio.sleep(0)
    gate.set()
    await closing
    await running
    with pytest.raises(ProviderError, match="closed"):
        await waiting


def test_batches_hold_every_position_once_and_keep_to_their_limits() -> None:
    lengths = [5, 900, 7, 6, 300, 300, 300, 8, 9]
    batches = cut_batches(lengths, texts=4, characters=800)
    assert sorted(position for batch in batches for position in batch) == list(range(9))
    for batch in batches:
        longest = max(lengths[position] for position in batch)
        assert len(batch) <= 4
        assert len(batch) == 1 or len(batch) * longest <= 800


# --- static tokens, for late interaction ---


def test_token_ids_find_the_vectors_of_the_words() -> None:
    tokens = StaticTokens(require_model("potion-base-8M"))
    dog, both, nothing = tokens.token_ids(["dog", "the dog barks", ""])
    assert dog.dtype == np.uint16
    assert len(dog) == 1
    assert dog[0] in both
    assert len(nothing) == 0
    assert tokens.vectors[both].shape == (len(both), 256)
    puppy, tax = (tokens.vectors[ids[0]] for ids in tokens.token_ids(["puppy", "tax"]))
    assert tokens.vectors[dog[0]] @ puppy > tokens.vectors[dog[0]] @ tax


def test_the_table_of_vectors_cannot_be_changed() -> None:
    tokens = StaticTokens(require_model("potion-base-8M"))
    with pytest.raises(ValueError, match="read-only"):
        tokens.vectors[0, 0] = 1.0


# --- services over HTTP ---


def openai_answer(request: Request) -> Reply:
    texts = request.body["input"]
    rows = [{"index": number, "embedding": [3.0, float(len(text)), 0.0]} for number, text in enumerate(texts)]
    return Reply(body={"data": rows[::-1]})  # the order of the answer is not promised


def tei_answer(request: Request) -> Reply:
    return Reply(body=[[3.0, float(len(text)), 0.0] for text in request.body["inputs"]])


SERVICES = pytest.mark.parametrize(
    ("make", "answer"), [(OpenAIEmbedder, openai_answer), (TEIEmbedder, tei_answer)], ids=["openai", "tei"]
)
Make = type[OpenAIEmbedder] | type[TEIEmbedder]


async def ask(make: Make, server: JsonServer, texts: list[str], **options: Any) -> np.ndarray:
    options = {"attempts": 3, "timeout": 60.0} | options
    async with aclosing(Closing(make(EmbeddingSpec(model="m", base_url=server.url, **options)))) as held:
        return await held.embedder.embed_passages(texts)


class Closing:
    def __init__(self, embedder: RemoteEmbedder) -> None:
        self.embedder = embedder

    async def aclose(self) -> None:
        await self.embedder.close()


@SERVICES
async def test_a_service_gives_unit_rows_in_the_order_of_the_texts(make: Make, answer: Answer, start: Start) -> None:
    with json_server(answer) as server:
        embedder = start(make(EmbeddingSpec(model="m", base_url=server.url, api_key="k3y", passage_prefix="p: ")))
        with pytest.raises(ProviderError, match="known only once"):
            _ = embedder.dimensions
        rows = await embedder.embed_passages(["a", "bbbb"])
        assert rows.dtype == np.float32
        np.testing.assert_allclose(rows[0], np.array([3, 4, 0]) / 5, atol=1e-6)
        np.testing.assert_allclose(rows[1], np.array([3, 7, 0]) / np.sqrt(58), atol=1e-6)
        assert embedder.dimensions == 3
    assert server.requests[0].headers["authorization"] == "Bearer k3y"


@SERVICES
async def test_a_question_is_asked_once_with_its_prefix(make: Make, answer: Answer, start: Start) -> None:
    with json_server(answer) as server:
        embedder = start(make(EmbeddingSpec(model="m", base_url=server.url, query_prefix="q: ")))
        await embedder.embed_query("a")
        await embedder.embed_query("a")
        (request,) = server.requests
    assert request.body.get("input", request.body.get("inputs")) == ["q: a"]


@SERVICES
async def test_many_texts_go_in_batches(make: Make, answer: Answer) -> None:
    with json_server(answer) as server:
        assert (await ask(make, server, ["text"] * 70)).shape == (70, 3)
        assert len(server.requests) == 3


@SERVICES
@pytest.mark.parametrize(
    "trouble",
    [
        Reply(status=500),
        Reply(status=503),
        Reply(status=429, headers={"retry-after": "0.01"}),
        Reply(status=408),
    ],
    ids=lambda reply: str(reply.status),
)
async def test_passing_trouble_is_ridden_out(make: Make, answer: Answer, trouble: Reply) -> None:
    with json_server(lambda request: trouble if len(server.requests) < 3 else answer(request)) as server:
        assert (await ask(make, server, ["text"])).shape == (1, 3)
        assert len(server.requests) == 3


@SERVICES
async def test_lasting_trouble_is_an_error_after_a_few_attempts(make: Make, answer: Answer) -> None:
    with json_server(lambda _request: Reply(status=500)) as server:
        with pytest.raises(ProviderError, match="HTTP 500"):
            await ask(make, server, ["text"], attempts=2)
        assert len(server.requests) == 2


@SERVICES
@pytest.mark.parametrize("status", [400, 401, 404, 302])
async def test_a_refusal_is_not_asked_again(make: Make, answer: Answer, status: int) -> None:
    with json_server(lambda _request: Reply(status=status, body={"error": "private text"})) as server:
        with pytest.raises(ProviderError, match=f"HTTP {status}") as refused:
            await ask(make, server, ["text"])
        assert len(server.requests) == 1
    assert "private text" not in refused.value.message


@SERVICES
async def test_a_long_retry_after_is_a_failure_not_a_wait(make: Make, answer: Answer) -> None:
    with json_server(lambda _request: Reply(status=429, headers={"retry-after": "3600"})) as server:
        with pytest.raises(ProviderError, match="HTTP 429"):
            await ask(make, server, ["text"])
        assert len(server.requests) == 1


@SERVICES
async def test_a_service_that_hangs_is_an_error(make: Make, answer: Answer) -> None:
    hang = Reply(hang=True)
    with json_server(lambda _request: hang) as server, pytest.raises(ProviderError, match="Timeout"):
        await ask(make, server, ["text"], timeout=0.2, attempts=1)


@SERVICES
async def test_a_service_that_is_not_there_is_an_error(make: Make, answer: Answer) -> None:
    with json_server(answer) as server:
        pass
    with pytest.raises(ProviderError, match="cannot be reached"):
        await ask(make, server, ["text"], attempts=1)


@SERVICES
@pytest.mark.parametrize(
    "rows",
    [
        [],
        [[1.0, 2.0]],
        [[1.0, 2.0], [1.0]],
        [[1.0, float("nan")]] * 2,
        [[0.0, 0.0]] * 2,
        [[], []],
        ["x", "y"],
        7,
        None,
    ],
)
async def test_a_malformed_answer_is_an_error(make: Make, answer: Answer, rows: Any) -> None:
    """Too few rows, ragged rows, not finite, no direction, no numbers, no rows at all."""
    body = rows
    if make is OpenAIEmbedder and isinstance(rows, list):
        body = {"data": [{"index": number, "embedding": row} for number, row in enumerate(rows)]}
    with json_server(lambda _request: Reply(body=body)) as server, pytest.raises(ProviderError):
        await ask(make, server, ["one", "two"])


@SERVICES
async def test_an_answer_that_is_not_json_is_an_error(make: Make, answer: Answer) -> None:
    page = Reply(body=b"<html>")
    with json_server(lambda _request: page) as server, pytest.raises(ProviderError, match="not JSON"):
        await ask(make, server, ["text"])


@pytest.mark.parametrize("indexes", [[0, 0], [0, 2], [1, 2]])
async def test_repeated_or_missing_indexes_are_an_error(indexes: list[int]) -> None:
    reply = Reply(body={"data": [{"index": index, "embedding": [1.0, 2.0]} for index in indexes]})
    with json_server(lambda _request: reply) as server, pytest.raises(ProviderError):
        await ask(OpenAIEmbedder, server, ["one", "two"])


@SERVICES
async def test_a_model_that_changes_its_dimensions_is_an_error(make: Make, answer: Answer, start: Start) -> None:
    with json_server(answer) as server:
        embedder = start(make(EmbeddingSpec(model="m", base_url=server.url, dimensions=4)))
        with pytest.raises(ProviderError, match="length 3 instead of 4"):
            await embedder.embed_query("text")


async def test_wanted_dimensions_are_asked_for_and_are_another_model(start: Start) -> None:
    with json_server(openai_answer) as server:
        embedder = start(OpenAIEmbedder(EmbeddingSpec(model="m", base_url=server.url, dimensions=3)))
        await embedder.ready()
        assert server.requests[0].body["dimensions"] == 3
        assert embedder.model_id == "openai/m#3"


async def test_settings_reach_the_service() -> None:
    with json_server(openai_answer) as server:
        settings = Settings(
            embedding_provider="openai",
            embedding_url=server.url,
            embedding_model="m",
            embedding_dimensions=3,
            embedding_prefixes=EmbeddingPrefixes(query="query: ", passage="passage: "),
        )
        embedders = make_embedders(settings)
        embedder = embedders.primary
        assert embedder is not None
        await embedder.embed_query("tea")
        await embedder.embed_passages(["Ana prefers tea"])
        await embedders.close()
        assert [request.body["input"] for request in server.requests] == [["query: tea"], ["passage: Ana prefers tea"]]
        assert server.requests[0].body["dimensions"] == 3


@SERVICES
async def test_a_service_that_keeps_failing_is_left_alone(make: Make, answer: Answer, start: Start) -> None:
    with json_server(lambda _request: Reply(status=500)) as server:
        embedder = start(make(EmbeddingSpec(model="m", base_url=server.url, attempts=1)))
        for number in range(5):
            with pytest.raises(ProviderError, match="HTTP 500"):
                await embedder.embed_query(f"question {number}")
        with pytest.raises(ProviderError, match="left alone"):
            await embedder.embed_query("one more")
        assert len(server.requests) == 5


async def test_callers_that_give_up_on_a_hanging_service_open_the_breaker(start: Start) -> None:
    with json_server(lambda _request: Reply(hang=True)) as server:
        embedder = start(TEIEmbedder(EmbeddingSpec(model="m", base_url=server.url)))
        for _ in range(5):
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.05):
                    await embedder.embed_query("text")
        with pytest.raises(ProviderError, match="left alone"):
            await embedder.embed_query("text")


@SERVICES
async def test_one_caller_that_waited_in_vain_is_enough(make: Make, answer: Answer, start: Start) -> None:
    with json_server(lambda _request: Reply(hang=True)) as server:
        embedder = start(make(EmbeddingSpec(model="m", base_url=server.url, timeout=0.2, attempts=1)))
        with pytest.raises(ProviderError, match="Timeout"):
            await embedder.embed_query("first")
        with pytest.raises(ProviderError, match="did not answer in time and is left alone"):
            await embedder.embed_query("second")
        assert len(server.requests) == 1
