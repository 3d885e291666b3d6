"""Two things that happen to the same memory at once, really interleaved: both are under way before either may go on.

A third connection holds the row. Each verb is started and seen to wait inside the database, in a known order; then the
row is let go. PostgreSQL serves those who wait in the order they came, so that each test runs in both orders.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import psycopg
import pytest
from tests.external_server import CITUS
from tests.patience import PATIENCE
from tests.working import at, settled, work_off

from recordari.app import Memory
from recordari.config import Settings
from recordari.core.identity import Identity
from recordari.core.items import REDACTED, Kind, NewItem, Tier
from recordari.db.database import BatchedQuery, Database
from recordari.db.queries import Query
from recordari.errors import NotFound
from recordari.facts.language import LLM, OfflineRules
from recordari.facts.rules.extraction import ExtractedFact
from recordari.facts.rules.learning import Learning
from recordari.kit.resources import Resources
from recordari.memory import storage as memory_storage
from recordari.memory import vector_storage
from recordari.memory.rules import Entity, EntityKind, Retirement
from recordari.memory.versions import retire
from recordari.sessions.rules.sessions import SessionStatus
from recordari.sessions.rules.window import NewMessage
from recordari.worker.dispatch import Pace

BOTH_ORDERS = pytest.mark.parametrize("swapped", [False, True], ids=["as named", "the other first"])
# On a cluster it is a process of the node that waits.
ACTIVITY = "citus_stat_activity" if os.environ.get(CITUS) else "pg_stat_activity"
AT_THE_ROW = f"SELECT count(*) FROM {ACTIVITY} WHERE datname = current_database() AND wait_event_type = 'Lock'"
FOR_WRITERS = "SELECT count(*) FROM erasures"  # an erasure that has begun waits for all who began to write before it

Verb = Callable[[], Awaitable[Any]]


@pytest.fixture
def settings(settings: Settings) -> Settings:
    return settings.model_copy(update={"embedding_provider": "none"})


@pytest.fixture
async def resources(resources: Resources) -> Resources:
    return resources.replacing(Pace, Pace(retry_seconds=0.05, tick=0.2))


@pytest.fixture
def chat(memory: Memory) -> Memory:
    agent = Identity(tenant_id=memory.identity.tenant_id)
    return memory.bound(agent).acting_as(user="ana", agent="helper", session="chat-1")


@asynccontextmanager
async def owner(settings: Settings) -> AsyncIterator[psycopg.AsyncConnection[Any]]:
    assert settings.database_owner_url is not None
    dsn = settings.database_owner_url.get_secret_value()
    async with await psycopg.AsyncConnection.connect(dsn, autocommit=True) as connection:
        await connection.execute("SET search_path = recordari, public")
        yield connection


async def interleaved(
    settings: Settings, held: tuple[str, Sequence[Any]], verbs: Sequence[Verb | tuple[Verb, str]]
) -> list[Any]:
    """Run verbs that all wait for the row of a query before any of them goes on; what came of each.

    A verb may say by which query it is seen to wait, where that is not at the row itself.
    """
    async with owner(settings) as holder, owner(settings) as watcher:

        async def number(query: str) -> int:
            found = await (await watcher.execute(query)).fetchone()
            return int(found[0]) if found is not None else 0

        await holder.execute("BEGIN")
        statement, parameters = held
        ((tenant_id,),) = await (await holder.execute("SELECT tenant_id FROM tenants")).fetchall()
        locked = await holder.execute(f"{statement} AND tenant_id = %s FOR UPDATE", [*parameters, tenant_id])
        assert locked.rowcount, "there is nothing to wait for"
        tasks: list[asyncio.Future[Any]] = []
        async with asyncio.timeout(PATIENCE):
            for given in verbs:
                verb, waits = given if isinstance(given, tuple) else (given, AT_THE_ROW)
                before = await number(waits)
                tasks.append(asyncio.ensure_future(verb()))
                while await number(waits) == before:
                    assert not tasks[-1].done(), f"it never waited: {tasks[-1]}"
                    await asyncio.sleep(0.01)
            await holder.execute("COMMIT")
            return await asyncio.gather(*tasks, return_exceptions=True)


def item(item_id: UUID) -> tuple[str, Sequence[Any]]:
    return "SELECT 1 FROM items WHERE item_id = %s", [item_id]


async def row(settings: Settings, item_id: UUID) -> dict[str, Any]:
    async with owner(settings) as connection:
        found = await connection.execute("SELECT * FROM items WHERE item_id = %s", [item_id])
        values = await found.fetchone()
        assert values is not None and found.description is not None
        return {column.name: value for column, value in zip(found.description, values, strict=True)}


def ordered(
    swapped: bool, one: Verb | tuple[Verb, str], other: Verb | tuple[Verb, str]
) -> list[Verb | tuple[Verb, str]]:
    return [other, one] if swapped else [one, other]


@BOTH_ORDERS
async def test_forget_and_decay(memory: Memory, chat: Memory, settings: Settings, swapped: bool) -> None:
    kept = await chat.remember("the vault code is 8841", source_ref="m1")
    later = at(memory, timedelta(days=40))
    outcomes = await interleaved(settings, item(kept.id), ordered(swapped, lambda: chat.forget(kept.id), later.decay))
    assert not [one for one in outcomes if isinstance(one, Exception)]
    found = await row(settings, kept.id)
    assert found["content"] == REDACTED and found["anonymized_at"] is not None
    assert (await chat.recall("vault code")).items == ()


@BOTH_ORDERS
async def test_forget_and_supersede(memory: Memory, chat: Memory, settings: Settings, swapped: bool) -> None:
    old, new = await chat.remember_fact("Ana lives in Berlin"), await chat.remember_fact("Ana lives in Lisbon")
    outcomes = await interleaved(
        settings,
        item(old.id),
        ordered(swapped, lambda: chat.forget(old.id), lambda: retired(memory, old.id, new.id)),
    )
    assert not [one for one in outcomes if isinstance(one, Exception)]
    assert (await row(settings, old.id))["content"] == REDACTED
    assert [one.content for one in (await chat.list_items(kinds=[Kind.FACT])).items] == ["Ana lives in Lisbon"]


async def retired(memory: Memory, old: UUID, new: UUID) -> int:
    async with memory.resources.database.transaction(memory.identity) as tx:
        ended = Retirement(item_id=old, superseded_by=new, invalid_at=datetime.now(UTC), rule="test")
        return len(await retire(tx, [ended], judge="test"))


@BOTH_ORDERS
async def test_supersede_and_erase(memory: Memory, chat: Memory, settings: Settings, swapped: bool) -> None:
    old, new = await chat.remember_fact("Ana lives in Berlin"), await chat.remember_fact("Ana lives in Lisbon")
    outcomes = await interleaved(
        settings,
        item(old.id),
        ordered(swapped, lambda: retired(memory, old.id, new.id), (lambda: memory.erase_user("ana"), FOR_WRITERS)),
    )
    assert not [one for one in outcomes if isinstance(one, Exception)]
    for item_id in (old.id, new.id):
        found = await row(settings, item_id)
        assert (found["content"], found["user_id"]) == (REDACTED, None)


@BOTH_ORDERS
async def test_a_fact_that_is_said_again_while_it_fades_lasts(
    memory: Memory, chat: Memory, settings: Settings, swapped: bool
) -> None:
    await chat.remember("I live in Lisbon with two cats.", speaker="Ana")
    await work_off(memory)
    (fact,) = (await chat.list_items(kinds=[Kind.FACT])).items
    await chat.acting_as(session="chat-2").remember("I live in Lisbon with two cats.", speaker="Ana")
    later = at(memory, timedelta(days=40))
    outcomes = await interleaved(settings, item(fact.item_id), ordered(swapped, lambda: work_off(memory), later.decay))
    assert not [one for one in outcomes if isinstance(one, Exception)]
    (found,) = (await chat.list_items(kinds=[Kind.FACT])).items
    assert (found.item_id, found.tier) == (fact.item_id, Tier.PERSISTENT)


@BOTH_ORDERS
async def test_close_and_write(memory: Memory, chat: Memory, settings: Settings, swapped: bool) -> None:
    await chat.add_messages([NewMessage(content="the parcel left Lund")])
    outcomes = await interleaved(
        settings,
        ("SELECT 1 FROM sessions WHERE session_id = %s", ["chat-1"]),
        ordered(
            swapped,
            lambda: chat.close_session("chat-1"),
            lambda: chat.add_messages([NewMessage(content="the parcel reached Malmö")]),
        ),
    )
    assert not [one for one in outcomes if isinstance(one, Exception)]
    closed = await chat.get_session("chat-1")
    assert closed.status is SessionStatus.CLOSED
    found = {one.content: one.session_id for one in (await chat.recall("parcel", scope="session")).items}
    assert set(found) == {"the parcel left Lund", "the parcel reached Malmö"}, "nothing said is lost"
    landed = await chat.get_session(str(found["the parcel reached Malmö"]))
    # Either it was said before the end, or in the successor: never into a session that was closed already.
    assert landed.messages == (2 if landed.session_id == "chat-1" else 1)
    assert landed.session_id == "chat-1" or landed.continues == "chat-1"


@BOTH_ORDERS
async def test_a_retired_fact_is_stated_again_while_it_is_forgotten(
    memory: Memory, chat: Memory, settings: Settings, swapped: bool
) -> None:
    first = await chat.remember_fact("Ana lives in Berlin")
    await chat.invalidate_item(first.id)
    outcomes = await interleaved(
        settings,
        item(first.id),
        ordered(swapped, lambda: chat.forget(first.id), lambda: chat.remember_fact("Ana lives in Berlin")),
    )
    assert not [one for one in outcomes if isinstance(one, Exception)]
    assert (await row(settings, first.id))["content"] == REDACTED
    left = (await memory.list_items(kinds=[Kind.FACT], state="any")).items
    assert len(left) <= 1 and all(one.invalid_at is None for one in left), "what is left was stated anew"


async def test_two_rewards_for_one_outcome(memory: Memory, settings: Settings) -> None:
    saved = await memory.save_workflow("a", {"text": "x"}, agent_type="sdr", task_type="mail")
    workflow_id = saved.workflow.workflow_id
    outcomes = await interleaved(
        settings,
        ("SELECT 1 FROM workflows WHERE workflow_id = %s", [workflow_id]),
        [lambda: memory.reward(workflow_id, 1.0, outcome_id="deal-17")] * 2,
    )
    assert sorted(one.was_new for one in outcomes) == [False, True]
    assert (await memory.get_workflow(workflow_id)).alpha == 2.0


@pytest.mark.parametrize("ending", ["forgotten", "swept"])
async def test_retention_between_finding_and_reading(
    memory: Memory, chat: Memory, settings: Settings, ending: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A recall that has found its candidates when one of them is redacted must not show what is left of it."""
    kept = await chat.remember_fact("the vault code is 8841")
    other = await chat.remember_fact("the vault stands in Lund")
    send, redacted = Database.read_batch, asyncio.Event()

    async def redacted_meanwhile(database: Database, identity: Identity, asked: Sequence[BatchedQuery[Any]]) -> None:
        if any(one.query is memory_storage.queries.find_items for one in asked) and not redacted.is_set():
            redacted.set()
            if ending == "forgotten":
                await chat.forget(kept.id)
            else:
                async with owner(settings) as connection:
                    await connection.execute("UPDATE items SET deleted_at = now() WHERE item_id = %s", [kept.id])
                await at(memory, timedelta(days=31)).sweep(force=True)
        await send(database, identity, asked)

    monkeypatch.setattr(Database, "read_batch", redacted_meanwhile)
    answer = await chat.recall("vault", scope="user", explain=True)
    assert redacted.is_set()
    assert [one.id for one in answer.items] == [other.id]
    assert REDACTED not in str(answer)


async def test_two_workers_meet_a_name_at_once(memory: Memory, chat: Memory, settings: Settings) -> None:
    said = [(await chat.remember(f"Xenia came {when}", scope="user")).id for when in ("early", "late")]
    xenia = Entity(EntityKind.NAME, "Xenia")
    database = memory.resources.database
    async with owner(settings) as watcher, asyncio.timeout(PATIENCE):
        async with database.transaction(memory.identity) as other:
            async with database.transaction(memory.identity) as one:
                await vector_storage.save_entities(one, [(said[0], xenia)])
                second = asyncio.ensure_future(vector_storage.save_entities(other, [(said[1], xenia)]))
                while (await (await watcher.execute(AT_THE_ROW)).fetchone()) == (0,):
                    await asyncio.sleep(0.01)
            await second
        found = await watcher.execute("SELECT item_id, entity_id FROM mentions")
        rows = await found.fetchall()
    assert {row[0] for row in rows} == set(said) and len({row[1] for row in rows}) == 1


async def test_forget_between_reading_a_message_and_writing_its_facts(memory: Memory, chat: Memory) -> None:
    said = await chat.remember("I live in Quillfeather with two cats.", speaker="Ana")

    class Hesitating(OfflineRules):
        async def extract(
            self, text: str, *, speaker: str | None, at: datetime | None, learning: Learning
        ) -> Sequence[ExtractedFact]:
            found = await super().extract(text, speaker=speaker, at=at, learning=learning)
            with suppress(NotFound):  # when the work is taken up again
                await chat.forget(said.id)
            return found

    hesitating = memory.resources.replacing(LLM, Hesitating())
    await settled(Memory(hesitating, memory.identity))
    with pytest.raises(NotFound):
        await chat.get_item(said.id)
    assert (await memory.list_items(kinds=[Kind.FACT], state="any")).items == ()


async def test_what_is_said_at_once_in_one_session_stands_in_places_of_its_own(memory: Memory) -> None:
    chat = memory.acting_as(user="ana", session="talk")
    said = [NewItem(content=f"many {number}", session_id=f"talk-{number % 3}") for number in range(12)]
    await asyncio.gather(
        *(chat.remember(f"alone {number}") for number in range(12)),
        *(chat.remember_many(said[start : start + 4]) for start in range(0, 12, 4)),
        chat.remember_many([NewItem(content=f"also here {number}") for number in range(4)]),
    )
    async with memory.resources.database.transaction(memory.identity) as tx:
        rows = await tx.dicts(
            Query(
                "tests.places",
                "Who stands where.",
                "SELECT thread, array_agg(position ORDER BY position) AS places FROM items GROUP BY 1",
            )
        )
    assert {row["thread"]: row["places"] for row in rows} == {
        "session:user:ana\x1ftalk": list(range(1, 17)),
        **{f"session:user:ana\x1ftalk-{number}": [1, 2, 3, 4] for number in range(3)},
    }
