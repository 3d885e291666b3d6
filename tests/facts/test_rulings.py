"""The last rulings on one page, and the undoing of one: the ended fact is exactly as before."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest
from tests.doors.rest_door import open_door
from tests.working import settled

from recordari.app import Memory
from recordari.core.identity import Identity
from recordari.core.items import Kind
from recordari.errors import Conflict, Forbidden, NotFound
from recordari.kit.resources import Resources

JANUARY = datetime(2026, 1, 10, tzinfo=UTC)


@pytest.fixture
def ana(memory: Memory) -> Memory:
    return memory.acting_as(user="ana")


async def fact(memory: Memory, content: str, *, day: int = 0, **more: Any) -> UUID:
    return (await memory.remember_fact(content, event_time=JANUARY + timedelta(days=day), **more)).id


async def live(memory: Memory, kind: Kind = Kind.FACT) -> set[str]:
    return {item.content for item in (await memory.list_items(kinds=[kind], limit=200)).items}


async def test_a_ruling_tells_both_texts_its_rule_and_its_judge(memory: Memory, ana: Memory) -> None:
    old, new = (
        await fact(ana, "The family pass costs 60 pounds"),
        await fact(ana, "The family pass costs 72 pounds", day=1),
    )
    await settled(ana)
    (ruling,) = await memory.list_rulings()
    assert (ruling.content, ruling.successor) == ("The family pass costs 60 pounds", "The family pass costs 72 pounds")
    assert (ruling.item_id, ruling.superseded_by) == (str(old), str(new))
    assert (ruling.rule, ruling.judge, ruling.is_undone) == ("other_value", "offline", False)


async def test_an_undone_ruling_leaves_the_fact_exactly_as_it_was(memory: Memory, ana: Memory) -> None:
    old = await fact(ana, "Ana lives in Berlin")
    await settled(ana)
    before = await ana.get_item(old)
    await fact(ana, "Ana lives in Lisbon", day=1)
    await settled(ana)
    assert await live(ana) == {"Ana lives in Lisbon"}
    (ruling,) = await memory.list_rulings()
    await memory.undo_ruling(ruling.ruling_id, reason="she has two homes")
    assert await ana.get_item(old) == before
    assert await live(ana) == {"Ana lives in Berlin", "Ana lives in Lisbon"}
    assert "Ana lives in Berlin" in {
        item.content for item in (await ana.recall("where does Ana live", scope="user")).items
    }
    (ruling,) = await memory.list_rulings()
    assert ruling.is_undone
    await memory.undo_ruling(ruling.ruling_id)
    entries = await memory.list_audit(subject_kind="item", subject_id=str(old))
    assert [(entry.action, entry.reason) for entry in entries] == [
        ("ruling.undo", "she has two homes"),
        ("fact.supersede", None),
    ]


async def test_a_fact_that_came_late_is_taken_out_of_the_line_again(memory: Memory, ana: Memory) -> None:
    first = await fact(ana, "Ana lives in Berlin")
    last = await fact(ana, "Ana lives in Lund", day=20)
    await settled(ana)
    before = (await memory.item_history(first))[0]
    await fact(ana, "Ana lives in Lisbon", day=10)
    await settled(ana)
    late = next(
        one for one in await memory.list_rulings() if one.item_id == str(first) and one.superseded_by != str(last)
    )
    await memory.undo_ruling(late.ruling_id)
    assert (await memory.item_history(first))[0] == before
    assert before.superseded_by == last


async def test_only_an_administrator_reads_and_undoes_rulings(memory: Memory, ana: Memory) -> None:
    agent = memory.bound(Identity(tenant_id=memory.identity.tenant_id)).acting_as(user="ana")
    with pytest.raises(Forbidden):
        await agent.list_rulings()
    with pytest.raises(Forbidden):
        await agent.undo_ruling(uuid4())
    with pytest.raises(NotFound):
        await memory.undo_ruling(uuid4())


async def test_a_fact_that_changed_since_is_not_undone_blindly(memory: Memory, ana: Memory) -> None:
    old = await fact(ana, "Ana lives in Berlin")
    new = await fact(ana, "Ana lives in Lisbon", day=1)
    await settled(ana)
    (ruling,) = await memory.list_rulings()
    await ana.invalidate_item(new)
    await ana.restore_item(old)
    with pytest.raises(Conflict):
        await memory.undo_ruling(ruling.ruling_id)
    assert await live(ana) == {"Ana lives in Berlin"}


@pytest.mark.parametrize(
    ("older", "newer"),
    [
        ("Answer in English", "Answer in Swedish"),
        ("Call me Pat", "Call me Patricia"),
        ("Antworte bitte auf Deutsch", "Antworte ab jetzt auf Englisch"),
        ("Cite sources in APA style", "Cite sources in Chicago style from now on"),
        ("Give temperatures in Fahrenheit", "Give temperatures in Celsius"),
        ("Appelle-moi Monsieur Garnier", "Appelle-moi simplement Luc"),
    ],
)
@pytest.mark.parametrize("kind", [Kind.FACT, Kind.PROCEDURE])
async def test_wishes_do_not_pile_up(ana: Memory, kind: Kind, older: str, newer: str) -> None:
    for day, wish in enumerate((older, newer)):
        await ana.remember(wish, kind=kind, scope="user", event_time=JANUARY + timedelta(days=day))
    await settled(ana)
    assert await live(ana, kind) == {newer}


@pytest.mark.parametrize(("was", "becomes"), [(Kind.FACT, Kind.PROCEDURE), (Kind.PROCEDURE, Kind.FACT)])
async def test_a_wish_ends_an_earlier_one_whether_it_was_stated_or_learnt(
    ana: Memory, was: Kind, becomes: Kind
) -> None:
    await ana.remember("Quote prices in dollars", kind=was, scope="user", event_time=JANUARY)
    await ana.remember(
        "Quote prices in euros from now on", kind=becomes, scope="user", event_time=JANUARY + timedelta(days=1)
    )
    await settled(ana)
    assert (await live(ana, was), await live(ana, becomes)) == (set(), {"Quote prices in euros from now on"})


async def test_rulings_are_listed_and_undone_over_rest(resources: Resources) -> None:
    async with open_door(resources) as door:
        ana = door.memory.acting_as(user="ana")
        await fact(ana, "The northern depot opens at 6 am")
        await fact(ana, "The southern depot now opens at 7 am", day=1)
        await fact(ana, "The northern depot opens at 8 am", day=2)
        await settled(ana)
        page = (await door.request("GET", "/v1/rulings")).json()
        (ruling,) = page["items"]
        assert ruling["content"] == "The northern depot opens at 6 am"
        assert (await door.request("GET", "/v1/rulings", key="agent")).status_code == 403
        hers, anothers = {"Recordari-User": "ana"}, {"Recordari-User": "bob"}
        assert (await door.request("GET", "/v1/rulings", headers=hers)).json() == page
        assert (await door.request("GET", "/v1/rulings", headers=anothers)).json()["items"] == []
        path = f"/v1/rulings/{ruling['ruling_id']}/undo"
        assert (await door.request("POST", path, headers=anothers)).status_code == 404
        assert (await door.request("POST", path, json={"reason": "two gates"})).status_code == 204
        assert len(await live(ana)) == 3
