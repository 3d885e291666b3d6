"""Standing questions: asked once by a tenant, answered for every user from that user's memory, with sources."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from uuid import UUID

import pytest
from tests.stored import rows
from tests.working import work_off

from recordari.app import Memory
from recordari.context.questions import Answerer
from recordari.context.rules.questions import MOST_QUESTIONS, Evidence
from recordari.core.identity import Role
from recordari.core.tokens import estimated_tokens
from recordari.errors import Conflict, Forbidden, InvalidInput, NotFound, ProviderError, Unauthenticated
from recordari.sessions.rules.window import NewMessage
from recordari.tenants.rules import AgentDefinition

CARE = "What does this customer want for deliveries?"
KEPT = "SELECT content, sources, writer FROM question_answers"


@pytest.fixture
def ana(memory: Memory) -> Memory:
    return memory.acting_as(user="ana", agent="shop", session="chat-1")


async def test_an_answer_names_its_sources_and_follows_the_memory_of_its_user(memory: Memory, ana: Memory) -> None:
    await memory.save_question("delivery", CARE)
    assert (await ana.standing_answer("delivery")).content == "" and rows(memory.resources.settings, KEPT) == []
    door = await ana.remember_fact("Ana wants deliveries at the door of number 9.")
    await ana.remember_fact("Ana cares about deliveries before noon.")
    await memory.acting_as(user="bob").remember_fact("Bob wants his deliveries at the back door.")
    await memory.remember_fact("Deliveries are free above 50 crowns.", scope="tenant")
    said = "Good morning! Deliveries must never be left in the rain. What a day, right?"
    await ana.add_messages([NewMessage(content=said, message_id="m1")])
    found = await ana.standing_answer("delivery")
    assert set(found.content.splitlines()) == {
        "Ana wants deliveries at the door of number 9.",
        "Ana cares about deliveries before noon.",
        "Deliveries must never be left in the rain.",
    }
    sources = [(await ana.get_item(source)).content for source in found.sources]
    assert len(sources) == 3 and all(
        line in text for line, text in zip(found.content.splitlines(), sources, strict=True)
    )
    assert found.writer == "offline" and await memory.standing_answer("delivery", user="ana") == found
    assert (await memory.standing_answer("delivery", user="bob")).content == (
        "Bob wants his deliveries at the back door."
    )
    # A change shows at once, whether or not a worker runs; a worker writes it without being asked.
    await ana.edit_item(door.id, "Ana wants deliveries at the bakery.")
    await work_off(memory, "question")
    ((content,),) = [(row["content"],) for row in rows(memory.resources.settings, KEPT) if "Ana" in row["content"]]
    assert "bakery" in content and "number 9" not in content
    await ana.remember_fact("Ana has the deliveries of May sent to Porto.")
    assert "Porto" in (await ana.standing_answer("delivery")).content


async def test_a_context_shows_the_answers_and_nothing_twice(memory: Memory, ana: Memory) -> None:
    async def shown(who: Memory, question: str | None = None) -> list[str]:
        context = await who.get_context(question)
        return [item.content for section in context.sections if section.name == "answers" for item in section.items]

    await memory.save_question("delivery", CARE)
    assert await shown(ana) == []
    fact = "Ana wants deliveries at the door of number 9."
    kept = await ana.remember_fact(fact)
    await work_off(memory, "question")
    assert await shown(ana) == [f"{CARE}\n{fact}"]
    whole = await ana.get_context()
    assert whole.text is not None and whole.text.count(fact) == 1, "it is not in the profile too"
    asked = await ana.get_context("Where are deliveries left?")
    assert asked.text is not None and asked.text.count(fact) == 1
    assert await shown(memory.acting_as(user="bob", agent="shop")) == []
    await ana.edit_item(kept.id, "Ana wants deliveries at the bakery.")
    assert await shown(ana) == [f"{CARE}\nAna wants deliveries at the bakery."], "before any worker ran"
    await memory.save_question("delivery", "Which deliveries go to this agent's shop?", agent="shop")
    assert all(CARE not in text for text in await shown(ana)), "the agent's own question comes first"


async def test_nothing_of_an_answer_outlives_what_it_rests_on(memory: Memory, ana: Memory) -> None:
    settings = memory.resources.settings
    await memory.save_question("delivery", CARE)
    secret = await ana.remember_fact("Ana wants deliveries hidden from her sister.")
    assert "sister" in (await ana.standing_answer("delivery")).content
    await ana.forget(secret.id)
    assert [row["content"] for row in rows(settings, KEPT)] == [""]
    assert (await ana.standing_answer("delivery")).content == ""
    said = NewMessage(content="Deliveries go to my lawyer.", message_id="m1")
    (message,) = (await ana.add_messages([said])).messages
    assert "lawyer" in (await ana.standing_answer("delivery")).content
    await ana.forget(message.id)
    assert "lawyer" not in str(rows(settings, KEPT))
    await ana.remember_fact("Ana wants deliveries on Mondays.")
    assert "Mondays" in (await ana.standing_answer("delivery")).content
    await memory.erase_user("ana")
    assert rows(settings, KEPT) == [] and (await memory.standing_answer("delivery", user="ana")).content == ""


async def test_a_tenant_governs_its_questions_and_an_agent_may_have_its_own(memory: Memory, ana: Memory) -> None:
    assert (await memory.save_question("care", "What does Ana drink?")).agent_id is None
    await memory.save_question("care", "Which bicycle does Ana ride?", agent="workshop")
    await ana.remember_fact("Ana drinks green tea.")
    await ana.remember_fact("Ana rides a red bicycle.")
    assert (await ana.standing_answer("care")).content.startswith("Ana drinks")
    workshop = memory.acting_as(user="ana", agent="workshop")
    assert (await workshop.standing_answer("care")).content.startswith("Ana rides")
    await memory.save_question("care", "Which bicycle does Ana ride?")
    assert (await ana.standing_answer("care")).content.startswith("Ana rides"), "another question, another answer"
    assert [(each.name, each.agent_id) for each in await memory.list_questions()] == [
        ("care", None), ("care", "workshop")
    ]  # fmt: skip
    user = memory.bound(replace(memory.identity, role=Role.AGENT)).acting_as(user="bob")
    assert (await user.standing_answer("care", user="ana")).content == "", "another user's answer is empty"
    for refused in (user.save_question("x", "What?"), user.delete_question("care")):
        with pytest.raises(Forbidden):
            await refused
    with pytest.raises(InvalidInput):
        await memory.save_question("x", " ")
    with pytest.raises(Unauthenticated):
        await memory.standing_answer("care")
    await memory.delete_question("care")
    with pytest.raises(NotFound):
        await ana.standing_answer("care")
    assert (await workshop.standing_answer("care")).content, "the agent's own stays"
    await memory.save_agent("workshop", AgentDefinition(core="You mend bicycles."))
    await memory.delete_agent("workshop", memories=True)
    assert await memory.list_questions() == [] and rows(memory.resources.settings, KEPT) == []
    for number in range(MOST_QUESTIONS):
        await memory.save_question(f"q{number}", "What?")
    with pytest.raises(Conflict):
        await memory.save_question("one more", "What?")


class Model:
    """A model that answers in one sentence, or fails."""

    name = "a model"
    fails = False

    async def answer(self, question: str, statements: Sequence[Evidence]) -> tuple[str, list[UUID]]:
        if self.fails:
            raise ProviderError("it is away", service="the language model")
        return f"{len(statements)} wishes.", [statements[0].item_id]


async def test_a_model_writes_the_answer_in_the_background_and_the_rules_where_it_fails(memory: Memory) -> None:
    model = Model()
    memory = Memory(memory.resources.replacing(Answerer, model), memory.identity)
    ana = memory.acting_as(user="ana")
    await memory.save_question("delivery", CARE)
    await ana.remember_fact("Ana wants deliveries on Mondays.")
    assert (await ana.standing_answer("delivery")).writer == "offline", "a reader does not wait for a model"
    await work_off(memory, "question")
    found = await ana.standing_answer("delivery")
    assert (found.content, found.writer, len(found.sources)) == ("1 wishes.", "a model", 1)
    model.fails = True
    await ana.remember_fact("Ana wants deliveries before noon.")
    await work_off(memory, "question")
    assert (await ana.standing_answer("delivery")).writer == "offline"


async def test_an_answer_stays_short_however_much_is_known(memory: Memory, ana: Memory) -> None:
    await memory.save_question("delivery", CARE)
    for number in range(40):
        await ana.remember_fact(f"Ana wants deliveries of order number {number} on day {number + 1}.")
    assert 50 < estimated_tokens((await ana.standing_answer("delivery")).content) <= 300
