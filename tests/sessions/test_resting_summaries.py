"""A rolling summary is embedded once its session rests, and not every five messages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

import numpy as np
import pytest
from tests.working import at, run_job, work_off

from recordari.app import Memory
from recordari.core.items import Kind
from recordari.models.embedding import Embedders
from recordari.sessions.rules.window import NewMessage

HOUR = timedelta(hours=1)


class Slow:
    """An embedder that takes too long to embed inside a write, as a transformer does; it notes what it embeds."""

    model_id = "slow"
    dimensions = 8

    def __init__(self) -> None:
        self.texts: list[str] = []

    async def embed_query(self, text: str) -> np.ndarray:
        return np.full(self.dimensions, self.dimensions**-0.5, dtype=np.float32)

    async def embed_passages(self, texts: Sequence[str]) -> np.ndarray:
        self.texts += texts
        return np.full((len(texts), self.dimensions), self.dimensions**-0.5, dtype=np.float32)

    async def close(self) -> None:
        pass

    def summaries(self) -> list[str]:
        """The summaries that were embedded since the last look; their lines begin with a dash."""
        found = [text for text in self.texts if "\n- " in text or "] - " in text]
        self.texts.clear()
        return found


@pytest.fixture
def slow() -> Slow:
    return Slow()


@pytest.fixture
def chat(memory: Memory, slow: Slow) -> Memory:
    return Memory(replace(memory.resources, embedders=Embedders(slow, lambda _: None)), memory.identity)


async def speak(chat: Memory, first: int, past: int) -> None:
    for number in range(first, past):
        said = [NewMessage(content=f"Lamp {number} costs {number + 20} euros in Turin.", message_id=f"m{number}")]
        await chat.acting_as(user="ana").add_messages(said, session_id="chat")
    for _ in range(2):  # facts of the messages are embedded too
        await work_off(chat)


async def test_a_summary_is_embedded_when_its_session_rests(chat: Memory, slow: Slow) -> None:
    await speak(chat, 0, 20)
    summary = (await chat.acting_as(user="ana").resume_session("chat")).summary
    assert "Lamp 19" in summary and slow.summaries() == []
    await run_job(chat, "embed_summaries")  # somebody spoke a moment ago
    await work_off(chat)
    assert slow.summaries() == []
    for _ in range(2):  # the second time there is nothing left to do
        await run_job(at(chat, HOUR), "embed_summaries")
        await work_off(chat)
    (embedded,) = slow.summaries()
    assert embedded.endswith(summary)


async def test_a_session_that_goes_on_gets_a_new_vector_when_it_rests_again(chat: Memory, slow: Slow) -> None:
    await speak(chat, 0, 10)
    await run_job(at(chat, HOUR), "embed_summaries")
    await work_off(chat)
    assert len(slow.summaries()) == 1
    await speak(chat, 10, 20)
    assert slow.summaries() == []
    await run_job(at(chat, HOUR), "embed_summaries")
    await work_off(chat)
    (embedded,) = slow.summaries()
    assert "Lamp 19" in embedded


async def test_a_summary_is_found_by_its_words_before_it_is_embedded(chat: Memory) -> None:
    await speak(chat, 0, 10)
    answer = await chat.acting_as(user="ana", session="chat").recall(
        "Which lamp costs 29 euros?", source_kinds=[Kind.SESSION_SUMMARY]
    )
    assert [item.source_kind for item in answer.items] == [Kind.SESSION_SUMMARY] and not answer.degraded
