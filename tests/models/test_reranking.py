"""Rerankers: the real cross-encoder on this machine, and services on the loopback interface (R4)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from tests.json_server import Reply, Request, json_server
from tests.local_models import require_model

from recordari.errors import ConfigurationError, InvalidInput, ProviderError
from recordari.models.base import Reranker, fail_open
from recordari.models.inference import CrossEncoder
from recordari.models.pull import RERANKER
from recordari.models.reranking import HttpReranker, LocalCrossEncoder, RerankProvider, RerankSpec, make_reranker

PASSAGES = ["The bill was paid in March.", "Ben is allergic to peanuts.", "Lisbon lies on the Tagus."]
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


async def test_the_local_cross_encoder_prefers_the_passage_that_answers(start: Start) -> None:
    require_model(RERANKER)
    reranker = start(make_reranker(RerankSpec(provider=RerankProvider.LOCAL, offline=True)))
    assert isinstance(reranker, Reranker)
    scores = await reranker.rerank(QUESTION, PASSAGES)
    assert len(scores) == 3
    assert all(0 <= score <= 1 for score in scores)
    assert max(scores) == scores[1]


async def test_scores_come_back_in_the_order_given_whatever_the_lengths(start: Start) -> None:
    require_model(RERANKER)
    reranker = start(LocalCrossEncoder(RerankSpec(offline=True)))
    passages = ["filler " * (30 - number) for number in range(19)]
    passages.insert(7, "Ben must avoid peanuts, a food he is allergic to.")
    scores = await reranker.rerank(QUESTION, passages)
    assert len(scores) == 20
    assert scores.index(max(scores)) == 7


async def test_a_pair_that_was_scored_is_not_scored_again(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    require_model(RERANKER)
    reranker = start(LocalCrossEncoder(RerankSpec(offline=True)))
    first = await reranker.rerank(QUESTION, PASSAGES)
    read: list[str] = []

    def score(_encoder: CrossEncoder, query: str, passages: list[str]) -> list[float]:
        read.extend(passages)
        return [0.5] * len(passages)

    monkeypatch.setattr(CrossEncoder, "scores", score)
    again = await reranker.rerank(QUESTION, [PASSAGES[2], "Ben likes tea.", PASSAGES[0]])
    assert again == [first[2], 0.5, first[0]]
    assert read == ["Ben likes tea."]
    assert await reranker.rerank("Another question?", PASSAGES) == [0.5] * 3


async def test_more_passages_than_are_read_are_refused(start: Start) -> None:
    local = start(LocalCrossEncoder(RerankSpec(offline=True)))
    remote = start(HttpReranker(RerankSpec(provider=RerankProvider.TEI, model="m", base_url="http://127.0.0.1:9")))
    assert (local.most_passages, remote.most_passages) == (40, 20)
    for reranker in (local, remote):
        with pytest.raises(InvalidInput, match=f"At most {reranker.most_passages}"):
            await reranker.rerank(QUESTION, ["text"] * (reranker.most_passages + 1))


async def test_no_passages_need_no_model(start: Start, tmp_path: Path) -> None:
    assert await start(LocalCrossEncoder(RerankSpec(cache_dir=tmp_path, offline=True))).rerank(QUESTION, []) == []


async def test_a_missing_model_fails_open_with_the_merge_order(start: Start, tmp_path: Path) -> None:
    reranker = start(LocalCrossEncoder(RerankSpec(cache_dir=tmp_path, offline=True)))
    with pytest.raises(ProviderError, match="recordari models pull memory-reader"):
        await reranker.rerank(QUESTION, PASSAGES)
    scores, ran = await fail_open(
        "rerank", lambda: reranker.rerank(QUESTION, PASSAGES), fallback=[3.0, 2.0, 1.0], seconds=1
    )
    assert (scores, ran) == ([3.0, 2.0, 1.0], False)


def test_switched_off_means_no_reranker() -> None:
    assert make_reranker(RerankSpec()) is None


def test_settings_that_cannot_work_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="base URL"):
        make_reranker(RerankSpec(provider=RerankProvider.COHERE, model="rerank"))
    with pytest.raises(ConfigurationError, match="cannot score pairs"):
        make_reranker(RerankSpec(provider=RerankProvider.LOCAL, model="e5-small-v2"))


# --- services ---


def dialect_answer(request: Request, score: Callable[[int, str], float]) -> Reply:
    """Answer as each service does, best first, from what the request looks like."""
    if request.path == "/rerank":
        rows = [{"index": n, "score": score(n, text)} for n, text in enumerate(request.body["texts"])]
        return Reply(body=sorted(rows, key=lambda row: -row["score"]))
    assert request.path == "/v1/rerank"
    assert request.body["model"] == "m"
    assert request.body["top_n"] == len(request.body["documents"])
    results = [{"index": n, "relevance_score": score(n, text)} for n, text in enumerate(request.body["documents"])]
    return Reply(body={"id": "1", "results": sorted(results, key=lambda row: -row["relevance_score"])})


def peanuts(_number: int, text: str) -> float:
    return 0.9 if "peanuts" in text else 0.1


DIALECTS = pytest.mark.parametrize("dialect", [RerankProvider.TEI, RerankProvider.COHERE, RerankProvider.JINA])


async def rerank(url: str, dialect: RerankProvider, **options: Any) -> list[float]:
    reranker = HttpReranker(RerankSpec(provider=dialect, model="m", base_url=url, **options))
    try:
        return await reranker.rerank(QUESTION, PASSAGES)
    finally:
        await reranker.close()


@DIALECTS
async def test_each_dialect_gives_scores_in_the_order_of_the_passages(dialect: RerankProvider) -> None:
    with json_server(lambda request: dialect_answer(request, peanuts)) as server:
        assert await rerank(server.url, dialect, api_key="k3y") == [0.1, 0.9, 0.1]
    assert server.requests[0].headers["authorization"] == "Bearer k3y"
    assert server.requests[0].body["query"] == QUESTION


@pytest.mark.parametrize("suffix", ["", "/", "/v1", "/v1/rerank"])
async def test_the_address_may_already_hold_part_of_the_path(suffix: str) -> None:
    with json_server(lambda request: dialect_answer(request, peanuts)) as server:
        assert await rerank(server.url + suffix, RerankProvider.JINA) == [0.1, 0.9, 0.1]


@DIALECTS
async def test_raw_logits_are_brought_to_the_scale_in_the_same_order(dialect: RerankProvider) -> None:
    logits = [-1000.0, 7.5, -3.0]
    with json_server(lambda request: dialect_answer(request, lambda n, _text: logits[n])) as server:
        low, high, middle = await rerank(server.url, dialect)
    assert 0 <= low < middle < high <= 1


@DIALECTS
@pytest.mark.parametrize(
    "rows",
    [
        [],
        [(0, 0.5), (1, 0.5)],
        [(0, 0.5), (1, 0.5), (1, 0.5)],
        [(0, 0.5), (1, 0.5), (3, 0.5)],
        [(-1, 0.5), (0, 0.5), (1, 0.5)],
        [(0, 0.5), (1, 0.5), (2, float("nan"))],
        [(0, 0.5), (1, 0.5), (2, float("inf"))],
        [(0, 0.5), (1, 0.5), (2, "high")],
        [(0, 0.5), (1, 0.5), (2, None)],
        [(0, 0.5), (1, 0.5), (2, 0.5), (3, 0.5)],
    ],
)
async def test_a_malformed_answer_is_an_error(dialect: RerankProvider, rows: list[tuple[int, Any]]) -> None:
    name = "score" if dialect is RerankProvider.TEI else "relevance_score"
    entries = [{"index": index, name: score} for index, score in rows]
    body = entries if dialect is RerankProvider.TEI else {"results": entries}
    with json_server(lambda _request: Reply(body=body)) as server, pytest.raises(ProviderError):
        await rerank(server.url, dialect)


@DIALECTS
@pytest.mark.parametrize("body", [None, 7, "text", {"error": "no"}, [1, 2, 3], {"results": None}, b"<html>"])
async def test_an_answer_of_another_shape_is_an_error(dialect: RerankProvider, body: Any) -> None:
    with json_server(lambda _request: Reply(body=body)) as server, pytest.raises(ProviderError):
        await rerank(server.url, dialect)


@DIALECTS
async def test_a_service_that_fails_is_asked_once_more_and_then_given_up(dialect: RerankProvider) -> None:
    with json_server(lambda _request: Reply(status=500)) as server:
        with pytest.raises(ProviderError, match="HTTP 500"):
            await rerank(server.url, dialect)
        assert len(server.requests) == 2


async def test_a_service_that_hangs_costs_no_more_than_the_time_budget_and_is_then_left_alone(
    start: Start,
) -> None:
    with json_server(lambda _request: Reply(hang=True)) as server:
        reranker = start(HttpReranker(RerankSpec(provider=RerankProvider.TEI, model="m", base_url=server.url)))
        for _ in range(5):
            scores, ran = await fail_open(
                "rerank", lambda: reranker.rerank(QUESTION, PASSAGES), fallback=[1.0], seconds=0.05
            )
            assert (scores, ran) == ([1.0], False)
        with pytest.raises(ProviderError, match="left alone"):
            await reranker.rerank(QUESTION, PASSAGES)


async def test_one_breaker_serves_all_callers_at_once(start: Start) -> None:
    with json_server(lambda _request: Reply(status=500)) as server:
        reranker = start(
            HttpReranker(RerankSpec(provider=RerankProvider.TEI, model="m", base_url=server.url, attempts=1))
        )
        await asyncio.gather(*(reranker.rerank(QUESTION, PASSAGES) for _ in range(8)), return_exceptions=True)
        asked = len(server.requests)
        with pytest.raises(ProviderError, match="left alone"):
            await reranker.rerank(QUESTION, PASSAGES)
        assert len(server.requests) == asked
