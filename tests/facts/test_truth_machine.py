"""Whatever is done to facts, in any order, the real database and a plain Python model agree about what is true and was.

`RECORDARI_TEST_EXAMPLES` sets how many histories are tried; by default a few, the same ones in every run.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest
from hypothesis import HealthCheck
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from recordari.app import Memory
from recordari.config import Settings
from recordari.core.identity import Identity, Role
from recordari.core.items import Kind
from recordari.errors import Conflict, InvalidInput, NotFound
from recordari.kit.resources import Resources
from recordari.memory.rules import Retirement
from recordari.memory.versions import retire
from recordari.tenants import tenants
from recordari.wiring import open_resources

EXAMPLES = os.environ.get("RECORDARI_TEST_EXAMPLES")
TEXTS = tuple(f"note about {word}" for word in ("tea", "rain", "trains", "maps", "bread"))

texts = st.sampled_from(TEXTS)
places = st.integers(min_value=0, max_value=50)


@dataclass(slots=True, kw_only=True)
class Version:
    """One row as the model has it."""

    item_id: UUID
    text: str
    created_at: datetime
    valid_at: datetime
    invalid_at: datetime | None = None
    superseded_by: UUID | None = None
    is_pinned: bool = False

    @property
    def live(self) -> bool:
        return self.invalid_at is None and self.superseded_by is None

    def held_at(self, moment: datetime) -> bool:
        known = self.created_at <= moment and self.valid_at <= moment
        return known and (self.invalid_at is None or self.invalid_at > moment)


class World:
    """The opened database, and a way to call it from rules that are not asynchronous."""

    def __init__(self, runner: asyncio.Runner, resources: Resources) -> None:
        self.run: Callable[[Any], Any] = runner.run
        self.resources = resources
        self.examples = 0


def machine_of(world: World) -> type[RuleBasedStateMachine]:
    """The machine on a database; each history has a tenant of its own."""

    class Truth(RuleBasedStateMachine):
        def __init__(self) -> None:
            super().__init__()
            self.rows: dict[UUID, Version] = {}
            self.found: dict[str, Version] = {}
            """The version that is found by its words: the current one, or the one that was it last."""
            self.forgotten_at: dict[str, datetime] = {}
            self.moments: list[datetime] = []
            self.now = datetime.now(UTC)

        @initialize()
        def open_tenant(self) -> None:
            world.examples += 1
            tenant = world.run(tenants.ensure_tenant(world.resources, f"history-{world.examples}"))
            resources = replace(world.resources, clock=lambda: self.now)
            identity = Identity(tenant_id=tenant.tenant_id, role=Role.ADMIN)
            self.memory = Memory(resources, identity).acting_as(user="ana")

        def call(self, verb: Any) -> Any:
            """Do something now; the moment after it can be asked about later."""
            self.now = datetime.now(UTC)
            try:
                return world.run(verb)
            finally:
                self.moments.append(datetime.now(UTC))

        def pick(self, place: int) -> Version:
            rows = list(self.rows.values())
            return rows[place % len(rows)]

        def live_version(self, text: str) -> Version | None:
            return next((row for row in self.rows.values() if row.text == text and row.live), None)

        def note(self, item_id: UUID, text: str) -> Version:
            item = world.run(self.memory.get_item(item_id))
            row = Version(item_id=item_id, text=text, created_at=item.created_at, valid_at=item.valid_at)
            self.rows[item_id] = self.found[text] = row
            return row

        @rule(text=texts)
        def state(self, text: str) -> None:
            known, ended = self.live_version(text), self.found.get(text)
            stated = self.call(self.memory.remember_fact(text))
            if known is not None:
                assert (stated.id, stated.was_new) == (known.item_id, False)
                return
            assert stated.was_new and stated.id not in self.rows
            self.note(stated.id, text)
            if ended is not None and ended.superseded_by is None:
                ended.superseded_by = stated.id

        @precondition(lambda self: len(self.rows) > 1)
        @rule(old=places, new=places)
        def supersede(self, old: int, new: int) -> None:
            one, other = self.pick(old), self.pick(new)
            if one is other or not other.live:
                return
            ended = Retirement(
                item_id=one.item_id, superseded_by=other.item_id, invalid_at=datetime.now(UTC), rule="test"
            )

            async def retired() -> int:
                async with self.memory.resources.database.transaction(self.memory.identity) as tx:
                    return len(await retire(tx, [ended], judge="test"))

            happens = one.live and not one.is_pinned
            assert self.call(retired()) == happens
            if happens:
                one.invalid_at, one.superseded_by = ended.invalid_at, other.item_id

        @precondition(lambda self: self.rows)
        @rule(place=places)
        def invalidate(self, place: int) -> None:
            row = self.pick(place)
            self.call(self.memory.invalidate_item(row.item_id))
            if row.invalid_at is None:
                row.invalid_at = self.now

        @precondition(lambda self: self.rows)
        @rule(place=places)
        def restore(self, place: int) -> None:
            row = self.pick(place)
            successor = self.rows.get(row.superseded_by) if row.superseded_by is not None else None
            contradicted = (successor is not None and successor.live) or self.live_version(row.text) is not None
            if row.live or not contradicted:
                self.call(self.memory.restore_item(row.item_id))
                if not row.live:
                    row.invalid_at = row.superseded_by = None
                    self.found[row.text] = row
            else:
                with pytest.raises(Conflict):
                    self.call(self.memory.restore_item(row.item_id))

        @precondition(lambda self: self.rows)
        @rule(place=places, text=texts)
        def edit(self, place: int, text: str) -> None:
            row = self.pick(place)
            verb = self.memory.edit_item(row.item_id, text)
            known, buried = self.live_version(text), self.forgotten_at.get(text)
            if not row.live:
                with pytest.raises(Conflict):
                    self.call(verb)
            elif text == row.text:
                with pytest.raises(InvalidInput):
                    self.call(verb)
            elif known is None and buried is not None and row.valid_at <= buried:
                with pytest.raises(Conflict):  # what an old event is said to have been must not be what was forgotten
                    self.call(verb)
            else:
                edited = self.call(verb)
                successor = known or self.note(edited.id, text)
                assert edited.id == successor.item_id and edited.was_new == (known is None)
                successor.is_pinned, row.is_pinned = successor.is_pinned or row.is_pinned, False
                row.invalid_at, row.superseded_by = self.now, successor.item_id

        @precondition(lambda self: self.rows)
        @rule(place=places, pinned=st.booleans())
        def pin(self, place: int, pinned: bool) -> None:
            row = self.pick(place)
            self.call(self.memory.pin_item(row.item_id, pinned=pinned))
            row.is_pinned = pinned

        @precondition(lambda self: self.rows)
        @rule(place=places)
        def forget(self, place: int) -> None:
            row = self.pick(place)
            gone = {one.item_id for one in self.rows.values() if one.text == row.text}
            assert set(self.call(self.memory.forget(row.item_id)).item_ids) == gone
            self.forgotten_at[row.text] = self.now
            del self.found[row.text]
            for item_id in gone:
                del self.rows[item_id]
                with pytest.raises(NotFound):
                    world.run(self.memory.get_item(item_id))

        @precondition(lambda self: self.moments)
        @rule(place=places)
        def ask_about_then(self, place: int) -> None:
            moment = self.moments[place % len(self.moments)]
            answer = world.run(self.memory.recall("note about", scope="user", top_k=20, as_of=moment))
            assert {item.content for item in answer.items} == {
                row.text for row in self.rows.values() if row.held_at(moment)
            }

        @invariant()
        def agrees(self) -> None:
            if not hasattr(self, "memory"):
                return
            now = world.run(self.memory.recall("note about", scope="user", top_k=20))
            assert sorted(item.content for item in now.items) == sorted(
                row.text for row in self.rows.values() if row.live
            )
            page = world.run(self.memory.list_items(kinds=[Kind.FACT], state="any", limit=200))
            assert {item.item_id: (item.content, item.invalid_at, item.superseded_by) for item in page.items} == {
                row.item_id: (row.text, row.invalid_at, row.superseded_by) for row in self.rows.values()
            }
            pinned = world.run(self.memory.list_items(kinds=[Kind.FACT], state="any", pinned=True, limit=200))
            assert {item.item_id for item in pinned.items} == {
                row.item_id for row in self.rows.values() if row.is_pinned
            }

    return Truth


@pytest.fixture
def world(settings: Settings) -> Iterator[World]:
    async def opened() -> tuple[Any, Resources]:
        context = open_resources(settings.model_copy(update={"embedding_provider": "none"}))
        return context, await context.__aenter__()

    with asyncio.Runner() as runner:
        context, resources = runner.run(opened())
        yield World(runner, resources)
        runner.run(context.__aexit__(None, None, None))


def test_any_history_of_facts_agrees_with_the_model(world: World) -> None:
    run_state_machine_as_test(
        machine_of(world),
        settings=hypothesis_settings(
            max_examples=int(EXAMPLES or 8),
            stateful_step_count=14,
            derandomize=EXAMPLES is None,
            database=None,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
    assert world.examples > 1
