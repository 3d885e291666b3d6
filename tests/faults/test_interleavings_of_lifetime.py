"""Forgetting, closing, sharing and withdrawing at the same time as what they race with: whoever is first, the end is right."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any
from uuid import UUID

import pytest
from tests.stored import rows
from tests.working import at, run_job, work_off

from recordari.app import Memory
from recordari.config import Settings
from recordari.core.identity import Identity, Role
from recordari.core.items import Kind
from recordari.errors import Conflict, NotFound
from recordari.kit.resources import Resources
from recordari.learning.consolidate import ENDED_FOR, Distiller
from recordari.learning.rules.patterns import Observed, Pattern, patterns_in
from recordari.sessions.rules.window import NewMessage
from recordari.sharing import share
from recordari.tenants import tenants

WISH = "From now on, please answer me in Swedish."
FACT = "The Harbour Project ships on 14 May"
ROUNDS = 8


class Interrupted:
    """Offline rules, with something else happening while they read."""

    name = "interrupted"

    def __init__(self, meanwhile: Callable[[], Awaitable[Any]]) -> None:
        self.meanwhile: Callable[[], Awaitable[Any]] | None = meanwhile

    async def distil(self, observed: Sequence[Observed], earlier: Sequence[Observed]) -> Sequence[Pattern]:
        found = patterns_in(observed, earlier)
        meanwhile, self.meanwhile = self.meanwhile, None
        if meanwhile is not None:
            await meanwhile()
        return found


def interrupted(memory: Memory, meanwhile: Callable[[], Awaitable[Any]]) -> Memory:
    return Memory(memory.resources.replacing(Distiller, Interrupted(meanwhile)), memory.identity)


@pytest.fixture
def chat(memory: Memory) -> Memory:
    return memory.bound(Identity(tenant_id=memory.identity.tenant_id)).acting_as(user="ana", agent="ops")


async def quietly(work: Awaitable[Any]) -> Any:
    """What work says, or the refusal that a caller would repeat after."""
    try:
        return await work
    except (Conflict, NotFound) as refusal:
        return refusal


async def test_a_message_forgotten_while_its_session_is_read_leaves_no_pattern(
    memory: Memory, chat: Memory, settings: Settings
) -> None:
    await chat.add_messages([NewMessage(content=WISH), NewMessage(content="I prefer metric units.")], session_id="s1")
    await chat.close_session("s1")
    first, _ = await memory.list_messages("s1")
    reading = interrupted(memory, lambda: memory.forget(first.item_id))
    consolidated = await reading.consolidate_session("s1")
    kept = [(await memory.get_item(item_id)).content for item_id in consolidated.patterns]
    assert kept == ["I prefer metric units."], "the rest is learned again without it"
    assert rows(settings, "SELECT FROM items WHERE content LIKE '%%Swedish%%'") == []


async def test_forgetting_and_consolidating_at_once_never_keep_what_was_forgotten(
    memory: Memory, chat: Memory, settings: Settings
) -> None:
    for number in range(ROUNDS):
        name = f"s{number}"
        await chat.add_messages([NewMessage(content=f"Please always sort the list of ward {number}.")], session_id=name)
        await chat.close_session(name)
        (message,) = await memory.list_messages(name)
        await asyncio.gather(quietly(memory.forget(message.item_id)), quietly(memory.consolidate_session(name)))
    await work_off(memory, "summarise")
    assert rows(settings, "SELECT content FROM items WHERE content LIKE '%%ward%%'") == []


async def test_two_workers_consolidate_a_session_once(memory: Memory, chat: Memory) -> None:
    await chat.add_messages([NewMessage(content=WISH)], session_id="s1")
    await chat.close_session("s1")
    second = interrupted(memory, lambda: memory.consolidate_session("s1"))
    assert (await second.consolidate_session("s1")).was_new is False
    assert len((await memory.list_items(kinds=[Kind.PROCEDURE])).items) == 1


async def test_a_worker_stopped_in_the_middle_leaves_the_session_to_the_next_one(memory: Memory, chat: Memory) -> None:
    await chat.add_messages([NewMessage(content=WISH)], session_id="s1")
    await chat.close_session("s1")

    async def stop() -> None:
        raise asyncio.CancelledError

    later = at(memory, 2 * ENDED_FOR)
    with pytest.raises(asyncio.CancelledError):
        await run_job(interrupted(later, stop), "consolidate_sessions")
    assert (await memory.list_items(kinds=[Kind.PROCEDURE])).items == ()
    await run_job(later, "consolidate_sessions")
    assert len((await memory.list_items(kinds=[Kind.PROCEDURE])).items) == 1


async def test_what_is_written_while_a_session_closes_is_in_it_or_in_its_successor(
    memory: Memory, chat: Memory
) -> None:
    for number in range(ROUNDS):
        name = f"s{number}"
        await chat.open_session(name)
        said = NewMessage(content=f"Please always sort the list of ward {number}.")
        added, *_ = await asyncio.gather(chat.add_messages([said], session_id=name), chat.close_session(name))
        if added.session_id != name:
            await chat.close_session(added.session_id)
        for session_id in {name, added.session_id}:
            assert (await memory.consolidate_session(session_id)).was_new
    found = (await memory.list_items(kinds=[Kind.PROCEDURE])).items
    assert len(found) == ROUNDS, "each is learned from once, wherever it stands"


async def two_tenants(resources: Resources) -> tuple[Memory, Memory]:
    made = []
    for name in ("sales", "support"):
        found = await tenants.ensure_tenant(resources, name)
        await share.add_member(resources, "acme", name)
        made.append(Memory(resources, Identity(tenant_id=found.tenant_id, role=Role.ADMIN)))
    return made[0], made[1]


async def test_a_recall_that_begins_after_a_withdrawal_never_finds_what_was_withdrawn(resources: Resources) -> None:
    sales, support = await two_tenants(resources)
    for number in range(ROUNDS):
        shared = (await sales.remember_fact(f"{FACT} ({number})", scope="tenant")).id
        await sales.share([shared], ["support"])
        await support.accept_share_link("sales")
        withdrawn = asyncio.Event()

        async def withdraw(item_id: UUID = shared, done: asyncio.Event = withdrawn) -> None:
            await sales.withdraw(item_id)
            done.set()

        async def ask(done: asyncio.Event = withdrawn) -> list[tuple[bool, int]]:
            seen = []
            for _ in range(6):
                after = done.is_set()
                seen.append((after, (await support.recall("Harbour Project ships")).total))
            return seen

        _, seen = await asyncio.gather(withdraw(), ask())
        assert all(total == 0 for after, total in seen if after)
        assert (await support.recall("Harbour Project ships")).total == 0


@pytest.mark.parametrize("ending", ["withdraw", "forget", "decline", "leave"])
async def test_sharing_and_its_end_at_once_leave_no_copy_behind(
    resources: Resources, settings: Settings, ending: str
) -> None:
    sales, support = await two_tenants(resources)
    for number in range(ROUNDS):
        shared = (await sales.remember_fact(f"{FACT} ({number})", scope="tenant")).id
        await sales.share([shared], ["support"])
        end: dict[str, Callable[[UUID], Awaitable[Any]]] = {
            "withdraw": sales.withdraw,
            "forget": sales.forget,
            "decline": lambda _: support.decline_share_link("sales"),
            "leave": lambda _: share.remove_member(resources, "support"),
        }
        await asyncio.gather(
            quietly(support.accept_share_link("sales")),
            quietly(sales.share([shared], ["support"])),
            quietly(end[ending](shared)),
        )
        await quietly(end[ending](shared))
        await work_off(sales, "share")
        left = rows(settings, "SELECT content FROM items WHERE shared_from IS NOT NULL")
        assert left == [], number
        if ending == "leave":
            await share.add_member(resources, "acme", "support")
        if ending == "decline":
            await sales.withdraw(shared)
