"""Answers that quote memory, say how sure they are, and are silent about what is not known."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime

import pytest
from tests.working import settled

from recordari.app import Memory
from recordari.core.identity import Identity
from recordari.errors import InvalidInput, ProviderError
from recordari.recall.ask import CitedStatement, CitingAnswerer
from recordari.sessions.rules.window import NewMessage

SAID = (
    ("Ruth", "We adopted a greyhound called Pepper last spring. She sleeps most of the day.", 3),
    ("Ruth", "My bus to work is the number 14. It takes forty minutes.", 5),
    ("Omar", "I planted tomatoes and basil on the balcony.", 7),
    ("Ruth", "The dentist moved my appointment to Thursday at nine.", 9),
    ("Omar", "The library closes at six on Fridays.", 11),
    ("Ruth", "I take the number 22 bus to work now, the 14 was cancelled.", 60),
    ("Omar", "I bought a cello from a neighbour for 300 euros.", 62),
    ("Ruth", "The roof of the shed leaks again.", 64),
)


@pytest.fixture
async def home(memory: Memory) -> AsyncIterator[Memory]:
    chat = memory.bound(Identity(tenant_id=memory.identity.tenant_id)).acting_as(user="ruth", agent="helper")
    for number, (speaker, text, day) in enumerate(SAID):
        moment = datetime.fromordinal(datetime(2026, 1, 1).toordinal() + day).replace(tzinfo=UTC)
        session = chat.acting_as(session=f"chat-{number}")
        await session.remember(text, speaker=speaker, event_time=moment, scope="user")
    await settled(chat)
    yield chat


async def test_the_answer_quotes_the_sentence_with_its_source(home: Memory) -> None:
    answer = await home.ask("What is the name of Ruth's greyhound?")
    assert answer.answer is not None and "Pepper" in answer.answer and "Ruth, 4 January 2026" in answer.answer
    assert answer.writer == "extract" and answer.confidence >= 0.2 and answer.count is None
    first = answer.quotes[0]
    item = await home.get_item(first.id)
    assert first.text in item.content and first.source_ref == item.source_ref
    newest = await home.ask("Which number is the bus that I take to work now?")
    assert "22" in newest.quotes[0].text
    several = await home.ask("Which buses did Ruth take to work?")
    assert several.count == len(several.quotes) >= 2
    told = " ".join(quote.text for quote in several.quotes)
    assert "number 14" in told and "number 22" in told


async def test_what_is_not_known_is_not_answered(home: Memory) -> None:
    for question in ("What is the wingspan of an albatross?", "Who won the chess championship in Reykjavik?"):
        answer = await home.ask(question)
        assert answer.answer is None and not answer.quotes and answer.hint == "Nothing relevant is known about this."
        found = await home.recall(question)
        known = await home.recall("greyhound called Pepper")
        assert found.items and found.hint is not None and known.hint is None
        assert found.confidence < 0.2 < known.confidence
        silent = await home.recall(question, min_confidence=0.2)
        assert silent.items == () and silent.hint == "Nothing relevant is known about this."
    for wrong in (-0.1, 1.1):
        with pytest.raises(InvalidInput, match="min_confidence"):
            await home.recall("anything", min_confidence=wrong)


async def test_words_that_every_sentence_may_have_are_no_evidence(memory: Memory) -> None:
    ana = memory.bound(Identity(tenant_id=memory.identity.tenant_id)).acting_as(user="ana")
    for said in ("I am allergic to walnuts.", "We should paint the fence.", "Some of the lamps are broken."):
        await ana.remember(said, scope="user", speaker="user")
    await settled(ana)
    for question in ("How tall am I?", "Which shoes should I wear?", "Did some of the guests leave?"):
        answer = await ana.ask(question)
        assert answer.answer is None, question
    known = await ana.ask("What am I allergic to?")
    assert known.answer is not None and "walnuts" in known.answer


async def test_a_memory_of_one_fact_is_sure_of_it_and_of_nothing_before_it_is_embedded(memory: Memory) -> None:
    ana = memory.bound(Identity(tenant_id=memory.identity.tenant_id)).acting_as(user="ana")
    await ana.remember_fact("Ana prefers tea, and no sugar")
    await settled(ana)
    known = await ana.recall("What does Ana like to drink?")
    assert known.confidence > 0.3 and known.hint is None
    unknown = await ana.recall("When is the dentist appointment?")
    assert unknown.confidence < 0.2 and unknown.hint is not None
    waiting = memory.bound(Identity(tenant_id=memory.identity.tenant_id)).acting_as(user="ben")
    long = "x" * 5_000 + " The plumber comes on Monday."  # it is embedded later, in passages
    await waiting.remember(long, scope="user")
    asked = await waiting.recall("dentist")
    assert asked.degraded and asked.hint == "Search by meaning was not complete: more may be known about this."


async def test_a_user_who_says_i_is_found_by_name(memory: Memory) -> None:
    ana = memory.bound(Identity(tenant_id=memory.identity.tenant_id)).acting_as(user="ana.lopez@example.org")
    mine = await ana.remember("I am allergic to penicillin.", scope="user", speaker="user")
    await ana.remember("Penicillin allergies can be serious.", scope="user", speaker="assistant", trust="agent")
    await settled(ana)
    named, other = await ana.recall("Is Ana allergic?"), await ana.recall("Is Otto allergic?")
    assert named.items[0].id == other.items[0].id == mine.id
    assert named.confidence > other.confidence + 0.1


async def test_a_statement_of_a_model_must_cite_what_it_was_shown(home: Memory) -> None:
    class Model:
        name = "test-model"
        says: Sequence[CitedStatement] = ()

        async def answer(self, question: str, items: Sequence[str]) -> Sequence[CitedStatement]:
            assert any("Pepper" in item for item in items)
            if not self.says:
                raise ProviderError("down", service="the language model")
            return self.says

    model = Model()
    asked = type(home)(home.resources.replacing(CitingAnswerer, model), home.identity)
    model.says = [CitedStatement(text="The dog is called Pepper.", items=(1,))]
    cited = await asked.ask("What is the name of Ruth's greyhound?")
    assert cited.writer == "test-model" and cited.answer == "The dog is called Pepper. [1]"
    assert len(cited.quotes) == 1 and "Pepper" in cited.quotes[0].text
    invented = CitedStatement(text="The dog is called Rex.", items=())
    for says in ([], [invented], [CitedStatement(text="Rex.", items=(99,))], [CitedStatement(text=" ", items=(1,))]):
        model.says = says
        answer = await asked.ask("What is the name of Ruth's greyhound?")
        assert answer.writer == "extract" and "Pepper" in (answer.answer or "")


async def test_a_message_is_quoted_before_the_summary_that_repeats_it(memory: Memory) -> None:
    chat = memory.bound(Identity(tenant_id=memory.identity.tenant_id)).acting_as(
        user="maria", agent="helper", session="one"
    )
    said = [
        "I run a small bakery in Trieste.",
        "We open at half past six and close at two. My supplier for flour is Molino Rossi, contact Gianni.",
        "Please answer in short bullet points.",
        "My daughter Lea plays the trumpet.",
        "The oven is repaired by Mr. Novak.",
    ]
    await chat.add_messages([NewMessage(content=text) for text in said])
    await settled(memory)
    answer = await chat.acting_as(session="two").ask("Who is the flour supplier?")
    assert "Molino Rossi" in answer.quotes[0].text
    assert (await chat.get_item(answer.quotes[0].id)).kind == "chat_message"
    assert "\n" not in "".join(quote.text for quote in answer.quotes)


@pytest.mark.parametrize(
    ("question", "right", "wrong"),
    [
        ("Which car do I drive?", "I drive my dad's old Volvo to work.", "I play the Caro-Kann as black, it suits me."),
        ("Do I have a cat?", "Our kitten is called Olive.", "On Fridays I play Catan."),
    ],
)
async def test_a_word_is_not_found_in_the_beginning_of_a_longer_one(
    memory: Memory, question: str, right: str, wrong: str
) -> None:
    """Rare words are read in pieces, of which the first may be a word of its own."""
    ana = memory.bound(Identity(tenant_id=memory.identity.tenant_id)).acting_as(user="ana")
    for text in (right, wrong, "We moved to Ghent last spring.", "I switched from coffee to matcha in January."):
        await ana.remember(text, speaker="user", scope="user")
    await settled(ana)
    found = await ana.recall(question, explain=True)
    assert found.items[0].content == right, [(one.content, one.score) for one in found.items]
