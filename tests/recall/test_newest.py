"""A message whose fact has ended is below the one that ended it, where the question asks for the present."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from uuid import UUID

from tests.working import settled, work_off

from recordari.app import Memory
from recordari.core.identity import Identity
from recordari.facts.storage import Link, insert_links
from recordari.memory import storage
from recordari.memory.rules import Retirement

JUNE = datetime(2026, 6, 1, 9, tzinfo=UTC)
OLD = "Where do I keep the spare key of the boat? I keep the spare key of the boat under the anchor box."
NEW = "Pedro has it in his drawer from today on, for safety."


async def stated(memory: Memory, content: str, source: UUID, moment: datetime) -> UUID:
    fact = await memory.remember_fact(content, event_time=moment)
    async with memory.resources.database.transaction(memory.identity) as tx:
        await insert_links(tx, [Link(item_id=fact.id, source_item_id=source, event_time=moment)])
    return fact.id


async def test_what_ended_a_fact_comes_above_the_message_of_that_fact(memory: Memory) -> None:
    await memory.update_tenant(settings={"extraction": "off"})
    chat = memory.bound(Identity(tenant_id=memory.identity.tenant_id)).acting_as(user="ines", agent="helper")
    monday, friday = chat.acting_as(session="monday"), chat.acting_as(session="friday")
    old = await monday.remember(OLD, speaker="Ines", event_time=JUNE, scope="user")
    new = await friday.remember(NEW, speaker="Ines", event_time=JUNE + timedelta(days=4), scope="user")
    before = await stated(chat, "The key is under the anchor box", old.id, JUNE)
    after = await stated(chat, "Pedro has the key", new.id, JUNE + timedelta(days=4))
    await work_off(chat, "embed")
    chat.resources.forget_tenant(chat.identity.tenant_id)  # whether there are facts is known for a moment
    question = "Where do I keep the spare key of the boat now?"

    async def order(text: str, **options: object) -> list[UUID]:
        answer = await chat.recall(text, source_kinds=["chat_message"], **options)  # type: ignore[arg-type]
        return [item.id for item in answer.items]

    assert (await order(question)).index(old.id) < (await order(question)).index(new.id)
    async with chat.resources.database.transaction(chat.identity) as tx:
        moment = JUNE + timedelta(days=4)
        ended = Retirement(item_id=before, superseded_by=after, invalid_at=moment, rule="test")
        await storage.end_items(tx, [ended])
    assert (await order(question))[:2] == [new.id, old.id]
    assert (await order("Where did I keep the spare key of the boat before?"))[0] == old.id
    await settled(chat)


async def test_words_that_ask_for_the_present_are_not_what_a_question_is_about(memory: Memory) -> None:
    await memory.update_tenant(settings={"extraction": "off"})
    chat = memory.acting_as(user="ines")
    for content in (
        "Now we sing on the old pier.",
        "The workshop is closed, still.",
        "I repair violins in Rua da Rosa.",
    ):
        await chat.remember(content, speaker="Ines", event_time=JUNE, scope="user")
    await work_off(chat, "embed")
    trace = (await chat.recall("Which violins do I repair now, or still?", explain=True)).trace
    assert trace is not None
    assert max(trace["terms"]["now"], trace["terms"]["still"]) < trace["terms"]["violin"] / 2
