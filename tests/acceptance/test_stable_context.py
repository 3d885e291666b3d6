"""The profile `stable`, byte for byte: within an epoch its text only grows at its end (W5), at any size of message."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby, pairwise

import pytest
from tests.doors.rest_door import open_door

from recordari.app import Memory
from recordari.config import Settings
from recordari.context.assemble import Context
from recordari.context.rules.context import Rendering
from recordari.kit.resources import Resources
from recordari.sessions.rules.window import HINT, MessageRole, NewMessage
from recordari.tenants.rules import AgentDefinition

MODEL = 20_000
BELOW, ABOVE = int(MODEL * 0.7), int(MODEL * 0.9)
REPORTS = {**dict.fromkeys(range(60), BELOW), **dict.fromkeys(range(30, 36), ABOVE), 45: ABOVE}


@pytest.fixture
def settings(settings: Settings) -> Settings:
    return settings.model_copy(update={"embedding_provider": "none"})


def turn(number: int, length: int) -> list[NewMessage]:
    """A question and its answer, of so many characters each."""
    words = f"Crate {number} of the morning ship was weighed again and goes to hall {number % 7} before noon. "
    text = (words * (length // len(words) + 1))[: length - 1].rstrip() + "."
    return [
        NewMessage(content=text, message_id=f"q{number}"),
        NewMessage(content=f"Noted: {text}"[:length], role=MessageRole.ASSISTANT, message_id=f"a{number}"),
    ]


def shown(context: Context) -> list[str]:
    return [kept.source_ref for section in context.sections if section.name == "window" for kept in section.items]


async def prepared(memory: Memory, *, model: int = MODEL) -> Memory:
    await memory.save_agent("clerk", AgentDefinition(core="You are a clerk of the harbour.", window_tokens=model))
    await memory.remember_fact("The gate closes at 18:00.", scope="tenant")
    return memory.acting_as(user="ana", agent="clerk", session="chat")


def epochs(contexts: list[Context], *, most: int = 40) -> Iterator[list[Context]]:
    """The contexts of each epoch. No epoch comes back, and there are not so many that none grows."""
    for _, group in groupby(contexts, key=lambda context: context.epoch):
        yield list(group)
    numbers = [context.epoch for context in contexts]
    assert numbers == sorted(numbers)
    assert len(set(numbers)) <= most


@pytest.mark.parametrize("budget", [1_000, 4_000, 32_000])
@pytest.mark.parametrize("length", [50, 1_500])
async def test_within_an_epoch_the_text_only_grows_at_its_end(memory: Memory, length: int, budget: int) -> None:
    clerk = await prepared(memory)
    texts: list[Context] = []
    for number in range(60):
        await clerk.add_messages(turn(number, length), prompt_tokens=REPORTS[number])
        texts.append(await clerk.get_context("What now?", profile="stable", budget=budget))
        assert texts[-1].tokens <= budget
        assert shown(texts[-1])[-1] == f"a{number}"
    # A budget with room for one long turn begins anew with each.
    for epoch in epochs(texts, most=60 if budget < length else 40):
        for earlier, later in pairwise(epoch):
            assert later.text is not None and earlier.text is not None
            assert later.text.startswith(earlier.text) and len(later.text) > len(earlier.text)
    assert [HINT in (context.text or "") for context in texts] == [False] * 30 + [True] * 30


@pytest.mark.parametrize("length", [50, 1_500])
async def test_within_an_epoch_the_messages_only_grow_at_their_end(memory: Memory, length: int) -> None:
    clerk = await prepared(memory)
    contexts: list[Context] = []
    for number in range(60):
        await clerk.add_messages(turn(number, length), prompt_tokens=REPORTS[number])
        contexts.append(await clerk.get_context(profile="stable", budget=16_000, render=Rendering.MESSAGES))
    for epoch in epochs(contexts):
        for earlier, later in pairwise(epoch):
            assert later.messages is not None and earlier.messages is not None
            assert later.messages[: len(earlier.messages)] == earlier.messages


@pytest.mark.parametrize("length", [50, 1_500])
async def test_below_the_threshold_the_last_twenty_messages_are_there_whatever_their_size(
    memory: Memory, length: int
) -> None:
    clerk = await prepared(memory, model=1_000_000)
    changes = 0
    before: Context | None = None
    for number in range(60):
        await clerk.add_messages(turn(number, length), prompt_tokens=BELOW)
        context = await clerk.get_context(profile="stable", budget=60_000)
        said = [f"{kind}{each}" for each in range(number + 1) for kind in "qa"]
        assert shown(context)[-20:] == said[-20:] and len(shown(context)) <= 42
        changes += before is not None and context.epoch != before.epoch
        before = context
    assert changes <= 6, "the beginning moves once in twenty messages"


async def test_reports_above_the_threshold_open_one_epoch_and_not_one_each_turn(memory: Memory) -> None:
    clerk = await prepared(memory)
    opened = []
    for number in range(60):
        added = await clerk.add_messages(turn(number, 50), prompt_tokens=REPORTS[number])
        opened.append(added.window.epoch)
    assert opened == [0] * 30 + [1] * 15 + [2] * 15
    for number in range(60, 80):  # usage never falls: the tail is shortened again once it is long
        added = await clerk.add_messages(turn(number, 50), prompt_tokens=ABOVE)
    assert 3 <= added.window.epoch <= 6


async def test_a_small_model_whose_window_slides_keeps_the_prefix_too(memory: Memory) -> None:
    clerk = await prepared(memory, model=4_000)
    contexts = []
    for number in range(40):
        await clerk.add_messages(turn(number, 400), prompt_tokens=2_000)
        contexts.append(await clerk.get_context(profile="stable"))
    for epoch in epochs(contexts):
        assert all((later.text or "").startswith(earlier.text or "-") for earlier, later in pairwise(epoch))
    assert contexts[-1].epoch > 0


async def test_window_and_resume_return_the_compressed_tail_and_say_so(resources: Resources) -> None:
    async with open_door(resources, rate_limit="") as door:
        messages = [{"content": f"message number {number}", "message_id": f"m-{number}"} for number in range(30)]
        await door.request("POST", "/v1/sessions", json={"session_id": "chat"})
        await door.request("POST", "/v1/sessions/chat/messages", json={"messages": messages})
        whole = (await door.request("GET", "/v1/sessions/chat/window")).json()
        assert len(whole["messages"]) == 30 and not whole["state"]["compressed"]
        await door.request("POST", "/v1/sessions/chat/usage", json={"prompt_tokens": 120_000})
        window = (await door.request("GET", "/v1/sessions/chat/window")).json()
        resumed = (await door.request("GET", "/v1/sessions/chat/resume")).json()
    for each in (window, resumed["window"]):
        assert [one["message_id"] for one in each["messages"]] == ["m-26", "m-27", "m-28", "m-29"]
        assert each["active"] == each["messages"] and each["state"]["compressed"] and each["state"]["hint"] == HINT
        assert each["state"]["first"] == 27
    summarised = resumed["session"]["summarised_to"]
    covered = [one["message_id"] for one in resumed["unsummarised"]]
    assert covered == [f"m-{number}" for number in range(summarised, 26)]
