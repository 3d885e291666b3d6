"""Sharing between tenants of one organisation, and agents made from a template (S7)."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from uuid import UUID

import pytest
from tests.doors.rest_door import open_door
from tests.stored import rows
from tests.working import at, run_job, work_off

import recordari
from recordari.app import Memory
from recordari.config import Settings
from recordari.core.identity import Identity, Role
from recordari.db.queries import Query
from recordari.errors import Conflict, Forbidden, InvalidInput, NotFound
from recordari.kit.resources import Resources
from recordari.memory import storage as memory_storage
from recordari.recall.request import Arm
from recordari.sharing import share
from recordari.tenants import tenants
from recordari.tenants.rules import AgentDefinition

FACT = "The Harbour Project ships on 14 May"


async def tenant(resources: Resources, name: str, organisation: str | None = "acme") -> Memory:
    made = await tenants.ensure_tenant(resources, name)
    if organisation is not None:
        await share.add_member(resources, organisation, name)
    return Memory(resources, Identity(tenant_id=made.tenant_id, role=Role.ADMIN))


@pytest.fixture
async def sales(resources: Resources) -> Memory:
    return await tenant(resources, "sales")


@pytest.fixture
async def support(resources: Resources, sales: Memory) -> AsyncIterator[Memory]:
    """A tenant that takes what `sales` shares."""
    made = await tenant(resources, "support")
    yield made


async def fact(owner: Memory, text: str = FACT, *, scope: str = "tenant") -> UUID:
    who = owner if scope == "tenant" else owner.acting_as(user="ana", agent="helper")
    return (await who.remember_fact(text, scope=scope)).id


async def linked(sales: Memory, support: Memory, *item_ids: UUID) -> None:
    """Share items, and have the link accepted."""
    await sales.share(item_ids, ["support"])
    await support.accept_share_link("sales")


def agent_of(memory: Memory) -> Memory:
    return memory.bound(Identity(tenant_id=memory.identity.tenant_id)).acting_as(user="eve")


async def recalled(memory: Memory, query: str = "when does Harbour ship") -> list[str]:
    return [item.content for item in (await agent_of(memory).recall(query)).items]


# Seed 002, open question 3: "Cross-workspace memory — should an enterprise org share certain memories across workspaces?"


async def test_a_shared_memory_reaches_the_named_tenant_once_it_accepts(
    resources: Resources, sales: Memory, support: Memory
) -> None:
    legal = await tenant(resources, "legal")
    shared = await fact(sales)
    await fact(sales, "The margin of Harbour is secret")
    (answer,) = await sales.share([shared], ["support"])
    assert answer.was_new and not answer.delivered
    assert await recalled(support) == [], "nothing arrives before the receiver accepts"
    (link,) = await support.list_share_links()
    assert (link.tenant, link.status, link.items) == ("sales", "offered", 0)
    assert (await support.accept_share_link("sales")).items == 1
    (found,) = (await agent_of(support).recall("when does Harbour ship")).items
    assert (found.content, found.shared_from, found.trust) == (FACT, "sales", "external")
    assert await recalled(support, "secret margin of Harbour") == [FACT], "only what was marked"
    assert await recalled(legal) == [], "only who was named"
    assert (await sales.share([shared], ["support"]))[0].was_new is False
    (mine,) = await sales.list_shares()
    assert (mine.item_id, mine.tenant) == (shared, "support")


async def test_a_shared_memory_is_found_by_meaning_too(sales: Memory, support: Memory) -> None:
    await linked(sales, support, await fact(sales))
    await work_off(support, "embed")
    answer = await agent_of(support).recall("Harbour", arms=frozenset({Arm.VECTOR}))
    assert [item.content for item in answer.items] == [FACT]
    assert not answer.degraded


async def test_a_shared_copy_of_the_receivers_protected_document_is_left_out(sales: Memory, support: Memory) -> None:
    rule = "Refunds above two hundred crowns need the consent of a second agent, who signs before the money leaves the till."
    added = await support.add_document("rules.md", text=f"# Refunds\n\nAsk kindly.\n\n{rule}\n\nSay thank you.")
    await support.protect_source(added.document.source_id)
    await linked(sales, support, await fact(sales, rule), await fact(sales))
    assert [item.content for item in (await support.list_items(kinds=["fact"])).items] == [FACT]


# "read-only"


async def test_the_receiver_cannot_change_what_is_shared(sales: Memory, support: Memory, resources: Resources) -> None:
    await linked(sales, support, await fact(sales))
    (copy,) = (await support.list_items()).items
    assert copy.shared_from == "sales"
    refused = {
        "edit": support.edit_item(copy.item_id, "The Harbour Project is off"),
        "invalidate": support.invalidate_item(copy.item_id),
        "pin": support.pin_item(copy.item_id, pinned=False),
        "feedback": support.give_feedback(copy.item_id, "wrong"),
        "forget": support.forget(copy.item_id),
        "hold": support.hold(copy.item_id, "change-1"),
    }
    for name, change in refused.items():
        with pytest.raises(Conflict, match="read-only"):
            await change
        assert await recalled(support) == [FACT], name
    with pytest.raises(InvalidInput, match="only its owner"):
        await support.share([copy.item_id], ["sales"])
    update = Query("tests.update", "Whoever tries.", "UPDATE items SET content = 'x' WHERE tenant_id = %(tenant_id)s")
    with pytest.raises(Conflict, match="read-only"):
        async with resources.database.transaction(support.identity) as tx:
            await tx.run(update)


async def test_no_judge_no_decay_and_no_policy_touches_what_is_shared(sales: Memory, support: Memory) -> None:
    await linked(sales, support, await fact(sales, "My home address is Dock 1"))
    await fact(support, "My home address is Dock 2")
    later = at(support, timedelta(days=400))
    for _ in range(2):
        await work_off(support)
        await run_job(later, "decay")
        await run_job(later, "review_memory")
        await run_job(later, "retain")
    assert set(await recalled(support, "home address Dock")) == {
        "My home address is Dock 1",
        "My home address is Dock 2",
    }
    assert (await support.reindex()) == 2, "what is derived from a copy can be made again"


# "can be withdrawn"


async def test_a_withdrawn_memory_is_gone_at_once_with_everything_derived_from_it(
    sales: Memory, support: Memory, settings: Settings
) -> None:
    shared = await fact(sales, "Erik Lindqvist runs the Harbour Project")
    await linked(sales, support, shared)
    await work_off(support)
    assert await recalled(support) != []
    assert await sales.withdraw(shared) == 1
    assert await recalled(support) == []
    for table in ("items", "vectors", "mentions", "entities"):
        left = rows(settings, f"SELECT * FROM {table} WHERE tenant_id = %s", support.identity.tenant_id)
        assert left == [], table
    assert (await sales.get_item(shared)).content == "Erik Lindqvist runs the Harbour Project"
    with pytest.raises(NotFound):
        await sales.withdraw(shared)


async def test_a_memory_is_withdrawn_from_one_tenant_and_stays_with_another(
    resources: Resources, sales: Memory, support: Memory
) -> None:
    legal = await tenant(resources, "legal")
    shared = await fact(sales)
    await sales.share([shared], ["support", "legal"])
    for receiver in (support, legal):
        await receiver.accept_share_link("sales")
    await sales.withdraw(shared, tenant="support")
    assert await recalled(support) == [] and await recalled(legal) == [FACT]


async def test_declining_a_link_removes_what_came_by_it_and_accepting_brings_it_back(
    sales: Memory, support: Memory
) -> None:
    await linked(sales, support, await fact(sales))
    assert (await support.decline_share_link("sales")).items == 0
    assert await recalled(support) == []
    (again,) = await sales.share([await fact(sales, "Harbour has a crane")], ["support"])
    assert not again.delivered
    assert (await support.accept_share_link("sales")).items == 2
    with pytest.raises(NotFound):
        await support.accept_share_link("nobody")


@pytest.mark.parametrize("ending", ["forgotten", "erased", "superseded", "invalidated"])
async def test_what_ends_at_the_owner_ends_at_the_receivers(sales: Memory, support: Memory, ending: str) -> None:
    shared = await fact(sales, scope="user")
    await linked(sales, support, shared)
    assert await recalled(support) == [FACT]
    match ending:
        case "forgotten":
            await sales.forget(shared)
        case "erased":
            await sales.erase_user("ana")
        case "superseded":
            await sales.edit_item(shared, "The Harbour Project ships on 21 May")
        case _:
            await sales.invalidate_item(shared)
    if ending in {"superseded", "invalidated"}:
        await work_off(sales, "share")
    assert await recalled(support) == [], (
        "with the commit of the forgetting, or by the entry that commits with the change"
    )


async def test_a_restored_memory_arrives_again(sales: Memory, support: Memory) -> None:
    shared = await fact(sales)
    await linked(sales, support, shared)
    await sales.invalidate_item(shared)
    await work_off(sales, "share")
    await sales.restore_item(shared)
    await work_off(sales, "share")
    assert await recalled(support) == [FACT]


# "tenants of one organisation"


async def test_sharing_ends_at_the_border_of_the_organisation(resources: Resources, sales: Memory) -> None:
    await tenant(resources, "stranger", organisation="other")
    await tenant(resources, "alone", organisation=None)
    shared = await fact(sales)
    answers = set()
    for name in ("stranger", "alone", "missing"):
        with pytest.raises(NotFound) as refused:
            await sales.share([shared], [name])
        answers.add(refused.value.message)
    assert len(answers) == 1, "whether there is such a tenant is not told"
    assert await sales.list_shares() == []
    with pytest.raises(InvalidInput, match="with itself"):
        await sales.share([shared], ["sales"])


async def test_leaving_the_organisation_ends_everything_on_both_sides(
    resources: Resources, sales: Memory, support: Memory
) -> None:
    await linked(sales, support, await fact(sales))
    back = await fact(support, "Support closes at noon")
    await support.share([back], ["sales"])
    await sales.accept_share_link("support")
    await share.remove_member(resources, "support")
    assert FACT not in await recalled(support)
    assert "Support closes at noon" not in await recalled(sales, "when does Support close")
    assert await sales.list_shares() == [] and await support.list_shares() == []
    assert await sales.list_share_links() == [] and await support.list_share_links() == []
    with pytest.raises(NotFound):
        await support.get_organisation()
    with pytest.raises(NotFound):
        await share.remove_member(resources, "support")


async def test_a_tenant_belongs_to_one_organisation(resources: Resources, sales: Memory) -> None:
    assert (await sales.get_organisation()).organisation == "acme"
    assert (await share.add_member(resources, "acme", "sales")).organisation == "acme"
    with pytest.raises(Conflict, match="acme"):
        await share.add_member(resources, "other", "sales")
    with pytest.raises(NotFound):
        await share.add_member(resources, "acme", "missing")


async def test_only_administrators_share_and_only_what_is_known(sales: Memory, support: Memory) -> None:
    shared = await fact(sales)
    for verb in (
        agent_of(sales).share([shared], ["support"]),
        agent_of(sales).withdraw(shared),
        agent_of(support).accept_share_link("sales"),
    ):
        with pytest.raises(Forbidden):
            await verb
    message = await sales.remember("what was said", session_id="s1")
    with pytest.raises(InvalidInput, match="never messages"):
        await sales.share([message.id], ["support"])
    with pytest.raises(NotFound):
        await sales.share([await fact(support, "of another tenant")], ["support"])


async def test_both_sides_have_it_in_their_audit(sales: Memory, support: Memory) -> None:
    shared = await fact(sales)
    await linked(sales, support, shared)
    await sales.withdraw(shared)
    ours = [entry.action for entry in await sales.list_audit(limit=20)]
    theirs = {entry.action: entry for entry in await support.list_audit(limit=20)}
    assert [one for one in ours if one.startswith("share.")] == ["share.withdraw", "share.accepted", "share.give"]
    assert {"share.offer", "share.accept", "share.receive", "share.remove"} <= theirs.keys()
    assert theirs["share.remove"].actor == "tenant:sales" and theirs["share.remove"].reason == "withdrawn"
    assert FACT not in str(theirs)


# Isolation stays provable: one transaction is never of two tenants at a time.


async def test_in_a_crossing_each_statement_sees_one_tenant_only(
    resources: Resources, sales: Memory, support: Memory
) -> None:
    mine, theirs = await fact(sales), await fact(support, "of support")
    everything = Query("tests.all", "Every row that shows.", "SELECT item_id FROM items")
    async with resources.database.transaction(sales.identity) as tx:
        async with tx.crossed(support.identity) as there:
            assert {row["item_id"] for row in await there.dicts(everything)} == {theirs}
            assert await memory_storage.find_item(tx, mine) is None, "the wrong side of the crossing finds nothing"
            assert await memory_storage.find_item(there, mine) is None
        assert {row["item_id"] for row in await tx.dicts(everything)} == {mine}


def test_only_sharing_crosses_from_one_tenant_to_another() -> None:
    package = Path(recordari.__file__).parent
    crossing = {
        str(path.relative_to(package)) for path in package.rglob("*.py") if re.search(r"\.crossed\(", path.read_text())
    }
    assert crossing == {"sharing/share.py"}


async def test_what_a_restored_backup_brought_back_is_taken_away_by_the_daily_job(
    sales: Memory, support: Memory, settings: Settings
) -> None:
    shared = await fact(sales)
    await linked(sales, support, shared)
    rows(settings, "DELETE FROM shares RETURNING item_id")
    await run_job(support, "reconcile_shares")
    assert await recalled(support) == []


async def test_an_export_leaves_out_what_belongs_to_another_tenant(sales: Memory, support: Memory) -> None:
    await linked(sales, support, await fact(sales))
    assert not any(FACT in line for line in [line async for line in support.export()])


async def test_memories_are_shared_over_rest(resources: Resources) -> None:
    async with open_door(resources) as door:
        for name in ("test", "other"):
            await share.add_member(resources, "acme", name)
        shared = str(await fact(door.memory))
        body = {"item_ids": [shared], "tenants": ["other"]}
        assert (await door.request("GET", "/v1/shares/organisation")).json()["organisation"] == "acme"
        (given,) = (await door.request("POST", "/v1/shares", json=body)).json()
        assert (given["tenant"], given["delivered"]) == ("other", False)
        (link,) = (await door.request("GET", "/v1/share_links", key="other")).json()
        assert (link["tenant"], link["status"]) == ("test", "offered")
        accepted = await door.request("POST", "/v1/share_links/test/accept", key="other")
        assert accepted.json()["items"] == 1
        ask = {"query": "when does Harbour ship"}
        (found,) = (await door.request("POST", "/v1/recall", key="other", json=ask)).json()["items"]
        assert (found["content"], found["shared_from"]) == (FACT, "test")
        page = (await door.request("GET", "/v1/shares")).json()
        assert [one["tenant"] for one in page["items"]] == ["other"] and page["next_cursor"] is None
        assert (await door.request("DELETE", f"/v1/shares/{shared}")).json() == {"tenants": 1}
        assert (await door.request("POST", "/v1/recall", key="other", json=ask)).json()["items"] == []
        declined = await door.request("POST", "/v1/share_links/test/decline", key="other")
        assert declined.json()["status"] == "declined"


# Seed 002, open question 5: "when Agent B is created from Agent A's template, copy memories?"


async def test_a_new_agent_starts_with_a_copy_of_its_templates_memories(memory: Memory, settings: Settings) -> None:
    await memory.save_agent("template", AgentDefinition(core="You help."))
    template = memory.acting_as(agent="template", user="ana")
    original = await template.remember_fact("Invoices are in the blue folder", scope="agent")
    await template.remember("Ask for the order number first", kind="procedure", scope="agent")
    await template.remember_fact("Ana prefers tea", scope="user")
    await template.remember("What happened once", kind="episode", scope="agent")
    await memory.save_workflow("refund", {"steps": ["ask"]}, agent_type="template", task_type="refund")
    await work_off(memory)
    before = len(rows(settings, "SELECT FROM vectors"))
    await memory.save_agent("copy", AgentDefinition(core="You help too."), template="template")
    copy = memory.bound(Identity(tenant_id=memory.identity.tenant_id)).acting_as(agent="copy")
    found = await copy.recall("invoices folder order number", scope="agent")
    assert {item.content for item in found.items} == {
        "Invoices are in the blue folder",
        "Ask for the order number first",
    }
    assert len(rows(settings, "SELECT FROM vectors")) == before + 2, "vectors are copied"
    assert rows(settings, "SELECT FROM outbox WHERE topic = 'embed'") == [], "and nothing is embedded again"
    copied = next(item for item in found.items if item.content.startswith("Invoices"))
    assert copied.metadata["template"] == "template"
    assert [one.item_id for one in (await memory.item_provenance(copied.id)).sources] == [original.id]
    assert not (await copy.remember_fact("Invoices are in the blue folder", scope="agent")).was_new
    assert [one.name for one in await memory.active_workflows("copy", "refund")] == ["refund"]
    assert (await memory.copy_memories("template", "copy")).items == 0, "done again it copies nothing twice"
    await memory.forget(original.id)
    left = await copy.recall("invoices folder order number", scope="agent")
    assert [item.content for item in left.items] == ["Ask for the order number first"]


async def test_a_template_must_be_there_and_be_another(memory: Memory) -> None:
    with pytest.raises(NotFound):
        await memory.save_agent("copy", AgentDefinition(), template="missing")
    with pytest.raises(NotFound):
        await memory.get_agent("copy")
    await memory.save_agent("template", AgentDefinition())
    with pytest.raises(InvalidInput, match="its own template"):
        await memory.copy_memories("template", "template")


async def test_an_agent_is_made_from_a_template_over_rest(resources: Resources) -> None:
    async with open_door(resources) as door:
        await door.memory.save_agent("template", AgentDefinition())
        await door.memory.acting_as(agent="template").remember_fact("Invoices are blue", scope="agent")
        made = await door.request("PUT", "/v1/agents/copy", json={"core": "You help.", "template": "template"})
        assert made.status_code == 200
        acting = {"Recordari-Agent": "copy"}
        answer = await door.request("POST", "/v1/recall", json={"query": "invoices", "scope": "agent"}, headers=acting)
        assert [item["content"] for item in answer.json()["items"]] == ["Invoices are blue"]
