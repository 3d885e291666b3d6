"""Standing wishes are found by what they are about, though they share no word with the question."""

from __future__ import annotations

import pytest
from tests.working import work_off

from recordari.app import Memory
from recordari.core.identity import Identity
from recordari.memory.rules import Trait, traits_of

CHATTER = (
    "The train to the coast was late again and I read two chapters on the platform.",
    "My sister moved into a flat near the harbour last week.",
    "I bought new shoes for the run in October.",
    "We painted the kitchen door green on Sunday.",
    "The parents' meeting is on Thursday at seven.",
    "On Sunday my parents were here and we looked at old photos.",
    "I always take the stairs at work.",
    "We have never been to Norway.",
)
WISH = "Always give me vegetarian options when I ask about recipes."


async def test_a_wish_comes_first_where_the_question_is_of_its_kind(memory: Memory) -> None:
    await memory.update_tenant(settings={"extraction": "off"})
    chat = memory.bound(Identity(tenant_id=memory.identity.tenant_id)).acting_as(user="ines", agent="helper")
    for number, said in enumerate((*CHATTER, WISH)):
        await chat.acting_as(session=f"day-{number}").remember(said, speaker="Ines", scope="user")
    await work_off(chat, "embed")
    answer = await chat.recall("What could I cook for my parents on Sunday?", explain=True)
    assert answer.items[0].content == WISH
    assert answer.trace is not None
    assert answer.trace["items"][0]["parts"]["wished"] > 0
    other = await chat.recall("Where did my sister move?")
    assert other.items[0].content == CHATTER[1]


@pytest.mark.parametrize(
    ("said", "is_wish"),
    [
        (WISH, True),
        ("From now on use euros, please.", True),
        ("Whenever I ask for code, leave out the comments.", True),
        ("Please never use abbreviations.", True),
        ("I'd prefer a lightweight moisturizer.", False),
        ("I always take the stairs at work.", False),
        ("We have never been to Norway.", False),
        ("I'll make sure to water the plants.", False),
    ],
)
def test_what_is_a_standing_wish(said: str, is_wish: bool) -> None:
    assert bool(traits_of(said) & Trait.WISHES) is is_wish
