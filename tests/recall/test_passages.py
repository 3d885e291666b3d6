"""Long texts are found by what is said anywhere in them, and have one place in the answer."""

from __future__ import annotations

import random
from uuid import UUID

import pytest
from tests.stored import rows
from tests.working import settled

from recordari.app import Memory
from recordari.core.identity import Identity
from recordari.errors import Conflict
from recordari.memory.rules import LONG_TEXT, LONGEST_PASSAGE, passages_of

WORDS = "ledger invoice column total region quarter margin vendor freight pallet tariff customs harbour crate".split()
NEEDLE = "The veterinarian vaccinated the kitten against rabies under reference QX-7714."


def report(size: int, needle: str = NEEDLE, *, seed: int = 1) -> str:
    """A text of that many characters about freight, with another sentence in its middle."""
    chance = random.Random(seed)
    lines: list[str] = []
    length = 0
    while length < size:
        lines.append(" ".join(chance.choices(WORDS, k=12)) + ".")
        length += len(lines[-1]) + 1
    lines.insert(len(lines) // 2, needle)
    return "\n".join(lines)


@pytest.fixture
def chat(memory: Memory) -> Memory:
    agent = Identity(tenant_id=memory.identity.tenant_id)
    return memory.bound(agent).acting_as(user="ana", agent="helper", session="monday")


def passages_in(memory: Memory, item_id: UUID) -> int:
    (row,) = rows(memory.resources.settings, "SELECT count(*) AS n FROM recordari.passages WHERE item_id = %s", item_id)
    return int(row["n"])


async def test_the_middle_of_a_long_text_is_found_by_word_and_by_meaning(chat: Memory) -> None:
    whole = report(200_000)
    output = await chat.remember(whole, kind="tool_output", speaker="warehouse")
    message = await chat.remember(report(9_000, "My sister plays the cello in Tromsø.", seed=2), speaker="Ana")
    short = await chat.remember("The pallet of crates is in the harbour.", speaker="Ana")
    await settled(chat)
    for question in ("QX-7714", "which baby cat got its shot from the animal doctor?"):
        answer = await chat.recall(question)
        first = answer.items[0]
        assert first.id == output.id and not answer.degraded
        assert first.passage is not None and NEEDLE in first.passage.content
        assert [item.id for item in answer.items].count(output.id) == 1
        part = whole.encode()[first.passage.start : first.passage.past].decode()
        assert part == first.passage.content
        read = await chat.read_tool_output(output.payload_key or "", start=first.passage.start, length=400)
        assert read.content and first.passage.content.startswith(read.content[:300])
    found = (await chat.recall("a relative who makes music")).items[0]
    assert found.id == message.id and found.passage is not None and "cello" in found.passage.content
    assert passages_in(chat, short.id) == 0, "a short text costs nothing more"


async def test_passages_are_seen_by_those_who_see_their_item_and_go_with_it(chat: Memory, memory: Memory) -> None:
    kept = await chat.remember(report(20_000), kind="tool_output")
    await settled(chat)
    other = chat.acting_as(user="bob", session="tuesday")
    await other.remember("The freight vendor called.", speaker="Bob")
    await settled(chat)
    assert all(item.id != kept.id for item in (await other.recall("QX-7714 kitten rabies", top_k=20)).items)
    later = chat.acting_as(session="friday")
    assert (await later.recall("QX-7714", scope="history")).items[0].id == kept.id
    assert passages_in(memory, kept.id) > 5
    await memory.forget(kept.id)
    assert passages_in(memory, kept.id) == 0
    assert all(item.passage is None for item in (await chat.recall("QX-7714 kitten rabies")).items)


async def test_a_text_with_another_version_has_its_new_passages_only(chat: Memory) -> None:
    first = await chat.put_entry(["plans"], "move", {"text": report(9_000)})
    assert first.item_id is not None
    await settled(chat)
    assert passages_in(chat, first.item_id) > 0
    again = await chat.put_entry(["plans"], "move", {"text": "The plan is short now."})
    assert again.item_id == first.item_id
    await settled(chat)
    assert passages_in(chat, first.item_id) == 0
    await chat.hold(first.item_id, "an-audit")
    with pytest.raises(Conflict, match="release the hold first"):
        await chat.put_entry(["plans"], "move", {"text": "Nothing of it is found."}, index=False)
    assert (await chat.get_entry(["plans"], "move")).value == {"text": "The plan is short now."}


def test_a_long_text_is_cut_between_sentences_and_nothing_is_lost() -> None:
    for whole in (report(40_000), "x" * 9_000, "这是一个很长的句子。" * 900, "åé " * 4_000, " \n\n" * 3_000):
        cuts = passages_of(whole)
        encoded = whole.encode()
        assert all(encoded[cut.start :].startswith(cut.content.encode()) for cut in cuts)
        assert all(0 < len(cut.content) <= LONGEST_PASSAGE for cut in cuts)
        assert "".join("".join(cut.content.split()) for cut in cuts) == "".join(whole.split())
    assert all(cut.content.endswith(".") for cut in passages_of(report(40_000)))
    assert LONG_TEXT > LONGEST_PASSAGE
