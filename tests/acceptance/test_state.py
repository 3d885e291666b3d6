"""Working memory by key (W1) and what a task hands to its run (W6).

"agent_working:{tenant_id}:{instance_id}:{key} → arbitrary JSON, 1h TTL. Used for lightweight cross-step state
that doesn't need SQL." "Per-instance budget: <128KB total across all KV keys."
"Delegated Context (per-task) … ephemeral with the run."
"""

from __future__ import annotations

import asyncio
import json
import math
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recordari.app import Memory
from recordari.core.checks import json_text
from recordari.core.identity import RunId
from recordari.db.queries import Query
from recordari.errors import Conflict, InvalidInput, NotFound, PreconditionFailed, QuotaExceeded
from recordari.sessions import state as state_verbs
from recordari.sessions.rules.state import BUDGET_BYTES, MAX_KEYS
from recordari.tenants.tenants import ensure_tenant

COUNT = Query("tests.count_state", "How many keys are stored.", "SELECT count(*) FROM state")
COUNT_OWNERS = Query("tests.count_owners", "How many owners.", "SELECT count(*) FROM state_owners")


class Clock:
    """Time that passes when a test says so."""

    def __init__(self) -> None:
        self.now = datetime(2026, 5, 7, 12, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.now

    def passes(self, **time: float) -> None:
        self.now += timedelta(**time)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def agent(memory: Memory, clock: Clock) -> Memory:
    """An agent instance at work in a session and a run."""
    timed = Memory(replace(memory.resources, clock=clock), memory.identity)
    return timed.acting_as(agent="sdr", session="instance-1", run="run-1")


async def stored(memory: Memory, query: Query = COUNT) -> int:
    async with memory.resources.database.transaction(memory.identity) as tx:
        return int(await tx.value(query))


JSON: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**200), 2**200)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=20),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=8),
            inner,
            max_size=4,
        )
    ),
    max_leaves=8,
)


@given(value=JSON)
def test_arbitrary_json_is_written_exactly(value: Any) -> None:
    """The type of each number and the order of keys too."""
    assert repr(json.loads(json_text(value, field="value"))) == repr(value)


async def test_keys_are_set_read_listed_and_deleted(agent: Memory) -> None:
    """The design: “lightweight cross-step state … (e.g., "current_contact_id", "email_draft_v2")”."""
    draft = {"to": "Ada", "lines": ["Hello", "…"], "score": 1e300, "n": 1.0, "none": None}
    await agent.set_state("email_draft_v2", draft)
    await agent.set_state("current_contact_id", 123456)
    found = (await agent.get_state("email_draft_v2")).value
    assert found == draft and list(found) == list(draft) and repr(found) == repr(draft)
    assert [entry.key for entry in await agent.list_state()] == ["current_contact_id", "email_draft_v2"]
    assert [entry.key for entry in await agent.list_state(prefix="email")] == ["email_draft_v2"]
    await agent.delete_state("email_draft_v2")
    with pytest.raises(NotFound):
        await agent.get_state("email_draft_v2")
    with pytest.raises(NotFound):
        await agent.delete_state("email_draft_v2")


async def test_a_key_lives_for_an_hour_unless_said_otherwise(agent: Memory, clock: Clock) -> None:
    """The design: “KV with TTL … 1h TTL”."""
    await agent.set_state("default", 1)
    await agent.set_state("short", 2, ttl=timedelta(seconds=30))
    await agent.set_state("long", 3, ttl=timedelta(days=2))
    clock.passes(seconds=30)
    with pytest.raises(NotFound):
        await agent.get_state("short")
    clock.passes(minutes=59, seconds=29)
    assert (await agent.get_state("default")).value == 1
    clock.passes(seconds=1)
    with pytest.raises(NotFound):
        await agent.get_state("default")
    assert [entry.key for entry in await agent.list_state()] == ["long"]
    with pytest.raises(NotFound):
        await agent.delete_state("default")


async def test_setting_a_key_again_begins_its_time_anew(agent: Memory, clock: Clock) -> None:
    await agent.set_state("key", 1)
    clock.passes(minutes=50)
    await agent.set_state("key", 2)
    clock.passes(minutes=50)
    assert (await agent.get_state("key")).value == 2


@pytest.mark.parametrize("ttl", [timedelta(0), timedelta(seconds=-1), timedelta(days=31)])
async def test_a_lifetime_must_be_one(agent: Memory, ttl: timedelta) -> None:
    with pytest.raises(InvalidInput, match="ttl"):
        await agent.set_state("key", 1, ttl=ttl)


async def test_a_write_past_the_budget_is_refused_and_changes_nothing(agent: Memory) -> None:
    """The design: “Per-instance budget: <128KB total across all KV keys”."""
    await agent.set_state("a", "x" * (BUDGET_BYTES // 2))
    await agent.set_state("b", "kept")
    with pytest.raises(QuotaExceeded, match="128 KiB") as refused:
        await agent.set_state("b", "y" * (BUDGET_BYTES // 2))
    assert refused.value.details["budget"] == BUDGET_BYTES == 131_072
    entry = await agent.get_state("b")
    assert (entry.value, entry.version) == ("kept", 2)
    with pytest.raises(QuotaExceeded):
        await agent.set_state("c", "y" * (BUDGET_BYTES // 2))
    assert len(await agent.list_state()) == 2
    # Another instance has a budget of its own, and a smaller value fits again.
    await agent.acting_as(session="instance-2").set_state("c", "y" * (BUDGET_BYTES // 2))
    await agent.set_state("a", "x")
    await agent.set_state("b", "y" * (BUDGET_BYTES // 2))


async def test_the_budget_is_exact_and_counts_bytes_of_keys_and_values(agent: Memory) -> None:
    await agent.set_state("ключ", "x" * (BUDGET_BYTES - len("ключ".encode()) - 2))
    with pytest.raises(QuotaExceeded):
        await agent.set_state("k", 0)
    await agent.delete_state("ключ")
    with pytest.raises(QuotaExceeded):
        await agent.set_state("ключ", "x" * (BUDGET_BYTES - len("ключ".encode()) - 1))


async def test_what_has_expired_takes_nothing_of_the_budget(agent: Memory, clock: Clock) -> None:
    await agent.set_state("large", "x" * (BUDGET_BYTES - 100))
    clock.passes(hours=1)
    kept = await agent.set_state("next", "x" * (BUDGET_BYTES - 100))
    assert await agent.get_state("next") == kept
    with pytest.raises(NotFound):
        await agent.get_state("large")


async def test_writes_at_the_same_moment_cannot_pass_the_budget_together(agent: Memory) -> None:
    third = "x" * (BUDGET_BYTES // 3)

    async def write(number: int) -> bool:
        try:
            await agent.set_state(f"key-{number}", third)
        except QuotaExceeded:
            return False
        return True

    done = await asyncio.gather(*(write(number) for number in range(12)))
    assert sum(done) == 2
    assert len(await agent.list_state()) == 2


async def test_the_number_of_keys_is_bounded(agent: Memory) -> None:
    async with agent.resources.database.transaction(agent.identity) as tx:
        await tx.run(
            Query(
                "tests.many",
                "Many keys at once.",
                """WITH owner AS (INSERT INTO state_owners (tenant_id, owner_kind, owner_id, owned_by, version, written_at)
                       VALUES (%(tenant_id)s, 'session', 'instance-1', %(owner)s, 1, now()))
                   INSERT INTO state (tenant_id, owner_kind, owner_id, owned_by, key, value, bytes, version, updated_at)
                   SELECT %(tenant_id)s, 'session', 'instance-1', %(owner)s, 'k' || n, '1', 1, 1, now()
                   FROM generate_series(1, %(keys)s) n RETURNING 1""",
            ),
            keys=MAX_KEYS,
            owner=agent.identity.owned_by,
        )
    with pytest.raises(QuotaExceeded, match="keys"):
        await agent.set_state("one more", 1)
    await agent.set_state("k1", 2)


async def test_compare_and_set_lets_one_of_many_writers_through(agent: Memory) -> None:
    first = await agent.set_state("counter", 0, if_version=0)
    with pytest.raises(PreconditionFailed) as failed:
        await agent.set_state("counter", 0, if_version=0)
    assert failed.value.details["version"] == first.version

    async def add(_: int) -> None:
        while True:
            entry = await agent.get_state("counter")
            try:
                await agent.set_state("counter", entry.value + 1, if_version=entry.version)
            except PreconditionFailed:
                continue
            return

    await asyncio.gather(*map(add, range(8)))
    assert (await agent.get_state("counter")).value == 8
    with pytest.raises(PreconditionFailed):
        await agent.delete_state("counter", if_version=first.version)


async def test_a_version_never_fits_a_key_that_was_made_again(agent: Memory, clock: Clock) -> None:
    old = await agent.set_state("key", "old")
    await agent.delete_state("key")
    new = await agent.set_state("key", "new")
    assert new.version > old.version
    clock.passes(hours=2)
    await state_verbs.sweep(agent.resources, agent.identity)
    assert (await agent.set_state("key", "newer")).version > new.version


@pytest.mark.parametrize(
    "value",
    [
        math.nan,
        [1, math.inf],
        "a\x00b",
        {"a\x00": 1},
        "\ud800",
        {1: "a"},
        (1, 2),
        {"set": {1}},
        10**400,
        1j,
        b"bytes",
    ],
    ids=repr,
)
async def test_what_is_not_json_is_refused(agent: Memory, value: object) -> None:
    with pytest.raises(InvalidInput, match="value"):
        await agent.set_state("key", value)
    assert await agent.list_state() == []


async def test_json_that_is_nested_too_deep_is_refused(agent: Memory) -> None:
    def nested(levels: int) -> Any:
        return [nested(levels - 1)] if levels else 1

    await agent.set_state("key", nested(32))
    with pytest.raises(InvalidInput, match="32 levels"):
        await agent.set_state("key", nested(33))
    endless: list[Any] = []
    endless.append(endless)
    with pytest.raises(InvalidInput, match="32 levels"):
        await agent.set_state("key", endless)


@pytest.mark.parametrize("key", ["", " a", "a\n", "x" * 201, "delegated/x"])
async def test_a_key_must_be_one(agent: Memory, key: str) -> None:
    with pytest.raises(InvalidInput):
        await agent.set_state(key, 1)


async def test_state_needs_something_that_owns_it(memory: Memory) -> None:
    with pytest.raises(InvalidInput, match="owner_id"):
        await memory.set_state("key", 1)
    await memory.set_state("key", 1, owner="run", owner_id="r")
    assert (await memory.get_state("key", owner="run", owner_id="r")).value == 1
    with pytest.raises(NotFound):
        await memory.get_state("key", owner="session", owner_id="r")


async def test_another_tenant_and_another_user_find_nothing(agent: Memory) -> None:
    await ensure_tenant(agent.resources, "others")
    other_tenant = agent.bound(
        replace(agent.identity, tenant_id=(await ensure_tenant(agent.resources, "others")).tenant_id)
    )
    ada, bob = agent.acting_as(user="ada", session="s"), agent.acting_as(user="bob", session="s")
    await ada.set_state("key", "Ada's")
    for stranger in (other_tenant.acting_as(session="s"), bob):
        with pytest.raises(NotFound):
            await stranger.get_state("key")
        assert await stranger.list_state() == []
        with pytest.raises(NotFound):
            await stranger.delete_state("key")
    nobody = agent.acting_as(session="s")
    assert (await nobody.get_state("key")).value == "Ada's", "an administrator finds the only one"
    await bob.set_state("key", "Bob's", if_version=0)
    assert (await ada.get_state("key")).value == "Ada's"
    assert (await bob.get_state("key")).value == "Bob's"
    with pytest.raises(Conflict, match="name the one you mean"):
        await nobody.get_state("key")


async def test_what_has_expired_is_swept_in_the_background(agent: Memory, clock: Clock) -> None:
    await agent.set_state("short", 1)
    await agent.set_state("long", 1, ttl=timedelta(days=3))
    await agent.acting_as(session="instance-2").set_state("short", 1)
    clock.passes(hours=2)
    assert await stored(agent) == 3
    await state_verbs.sweep(agent.resources, agent.identity)
    assert await stored(agent) == 1 and await stored(agent, COUNT_OWNERS) == 2
    clock.passes(days=8)
    await state_verbs.sweep(agent.resources, agent.identity)
    assert await stored(agent) == 0 and await stored(agent, COUNT_OWNERS) == 0


async def test_delegated_context_lives_and_dies_with_its_run(agent: Memory, clock: Clock) -> None:
    """The design: “Delegated Context (per-task) … Lives inside the AGENT_JOB DO that owns the task; ephemeral with the run”."""
    await agent.delegate("goal", {"lead": 42})
    await agent.delegate("tone", "friendly")
    await agent.set_state("scratch", 1, owner="run")
    clock.passes(days=40)
    await state_verbs.sweep(agent.resources, agent.identity)
    assert await agent.delegated() == {"goal": {"lead": 42}, "tone": "friendly"}
    assert await agent.delegated(run_id="another") == {}
    async with agent.resources.database.transaction(agent.identity) as tx:
        await state_verbs.drop_state_of_run(tx, agent.resources, agent.identity.owned_by, RunId("run-1"))
    assert await agent.delegated() == {} and await agent.list_state(owner="run") == []
    for late in (agent.delegate("late", 1), agent.set_state("late", 1, owner="run")):
        with pytest.raises(Conflict, match="ended"):
            await late


async def test_a_run_that_closes_while_its_state_is_written_leaves_nothing(agent: Memory) -> None:
    async def close() -> None:
        async with agent.resources.database.transaction(agent.identity) as tx:
            await state_verbs.drop_state_of_run(tx, agent.resources, agent.identity.owned_by, RunId("run-1"))

    async def write(number: int) -> None:
        with suppress(Conflict):
            await agent.delegate(f"part-{number}", number)

    await asyncio.gather(*map(write, range(6)), close(), *map(write, range(6, 12)))
    assert await agent.delegated() == {}
