"""What a person looks at: the graph of entities, who saw an item, the schedule, choices, the audit, the server."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest
from tests.working import work_off

from recordari.app import Memory
from recordari.core.identity import Identity, Role, UserId
from recordari.errors import Forbidden, InvalidInput, NotFound
from recordari.tenants import tenants


def user_of(memory: Memory, user: str) -> Memory:
    """The memory as a person of the tenant has it, who is no administrator."""
    return memory.bound(Identity(tenant_id=memory.identity.tenant_id, user_id=UserId(user), role=Role.AGENT))


async def test_the_graph_shows_names_and_the_items_that_link_them_to_whom_they_belong(memory: Memory) -> None:
    ana, bob = user_of(memory, "ana"), user_of(memory, "bob")
    first = await ana.remember_fact("My sister Ilse Brandt moved to Bergen.", scope="user")
    second = await ana.remember_fact("In Bergen my sister Ilse Brandt repairs boats.", scope="user")
    await bob.remember_fact("My landlord Otto Krall lives in Bergen.", scope="user")
    await memory.remember_fact("Our branch in Bergen opens at eight.", scope="tenant")
    await work_off(memory)
    graph = await ana.entity_graph()
    nodes = {node.name: node for node in graph.nodes}
    assert "Otto Krall" not in nodes, "bob's"
    assert nodes["Bergen"].items == 3 and nodes["Ilse Brandt"].items == 2
    pair = {nodes["Bergen"].entity_id, nodes["Ilse Brandt"].entity_id}
    (link,) = [link for link in graph.links if {link.one_id, link.other_id} == pair]
    assert link.items == 2 and set(link.item_ids) == {first.id, second.id}
    shared = await ana.entity_items(link.one_id, other_id=link.other_id)
    assert [item.item_id for item in shared] == [second.id, first.id]
    assert [item.item_id for item in await ana.entity_items(link.one_id, other_id=link.other_id, before=second.id)] == [
        first.id
    ]
    assert len(await bob.entity_items(nodes["Bergen"].entity_id)) == 2, "his own and the tenant's"
    around = await bob.entity_graph(around=nodes["Ilse Brandt"].entity_id)
    assert (around.nodes, around.links, around.looked_at) == ((), (), 0), "not his to see"
    everybody = {node.name for node in (await memory.entity_graph()).nodes}
    assert {"Ilse Brandt", "Otto Krall"} <= everybody
    assert len((await memory.entity_graph(limit=1)).nodes) == 1
    with pytest.raises(InvalidInput, match="limit"):
        await memory.entity_graph(limit=0)
    await memory.forget(first.id)
    await memory.invalidate_item(second.id)
    assert "Ilse Brandt" not in {node.name for node in (await memory.entity_graph()).nodes}
    other = await tenants.ensure_tenant(memory.resources, "elsewhere")
    there = memory.bound(Identity(tenant_id=other.tenant_id, role=Role.ADMIN))
    assert (await there.entity_graph()).nodes == ()
    assert await there.entity_items(nodes["Bergen"].entity_id) == []


async def test_an_item_says_who_saw_it_and_where(memory: Memory) -> None:
    fact = await memory.remember_fact("The warehouse alarm code changes on Fridays.", scope="tenant")
    await memory.acting_as(user="ana", agent="support", session="s-1").recall("When does the alarm code change?")
    bob = memory.acting_as(user="bob", agent="support")
    own = await bob.remember_fact("The alarm code of my locker is in the red folder.", scope="user")
    await bob.acting_as(session="s-2").get_context("When does the alarm code change, and where is it?")
    await bob.recall("When does the alarm code change?")
    seen = [(use.user_id, use.agent_id, use.session_id, use.via) for use in await memory.item_uses(fact.id)]
    assert seen == [("bob", "support", None, "recall"), ("ana", "support", "s-1", "recall")]
    assert ("s-2", "context") in {(use.session_id, use.via) for use in await memory.item_uses(own.id)}
    hers = await user_of(memory, "ana").item_uses(fact.id)
    assert [use.user_id for use in hers] == ["ana"], "she does not see who else saw it"
    await memory.erase_user("bob")
    assert {use.user_id for use in await memory.item_uses(fact.id)} == {"ana"}
    for number in range(24):
        await memory.acting_as(user="ana", session=f"later-{number}").recall("alarm code")
        await memory.item_uses(fact.id)  # writes what was noted
    uses = await memory.item_uses(fact.id)
    assert len(uses) <= 16 and uses[0].session_id == "later-23"
    (erased,) = await memory.list_erasures()
    assert erased.user_id is None and erased.finished_at is not None
    private = await user_of(memory, "ana").remember_fact("Ana keeps bees.", scope="user")
    with pytest.raises(NotFound):
        await user_of(memory, "carl").item_uses(private.id)


async def test_choices_schedule_audit_and_server(memory: Memory) -> None:
    began = datetime.now(UTC) - timedelta(minutes=1)
    saved = await memory.save_workflow("fast", {"steps": ["ask"]}, agent_type="support", task_type="refund")
    choices = [await memory.choose("support", "refund", seed=number) for number in range(3)]
    await memory.reward(choices[1], 0.5)
    listed = await memory.list_choices(saved.workflow.workflow_id)
    assert [(choice.choice_id, choice.score) for choice in listed] == [
        (choices[2].choice_id, None),
        (choices[1].choice_id, 0.5),
        (choices[0].choice_id, None),
    ]
    assert await user_of(memory, "ana").list_choices(saved.workflow.workflow_id) == [], "not hers"
    planned = await memory.job_schedule()
    assert {"decay", "retain", "daily_brief"} <= {job.job for job in planned}
    assert [job.next_at for job in planned] == sorted(job.next_at for job in planned)
    await memory.create_key("a key")
    assert {entry.action for entry in await memory.list_audit(action="workflow")} == {"workflow.save"}
    assert [entry.action for entry in await memory.list_audit(action="key.create", since=began)] == ["key.create"]
    assert await memory.list_audit(until=began) == []
    assert await memory.list_audit(actor="job:nobody") == []
    checks = {check.name: check for check in await memory.server_health()}
    assert checks["database"].state == "ok" and "PostgreSQL" in checks["database"].found
    settings = {setting.name: setting for setting in await memory.settings_in_force()}
    assert settings["database_url"].value == "set" and not settings["database_url"].is_default
    assert settings["judge_candidates"].value == 5 and settings["judge_candidates"].is_default
    shown = str([setting.value for setting in settings.values()])
    assert str(memory.resources.settings.home) not in shown and "postgres" not in shown
    for refused in (memory.server_health, memory.settings_in_force, memory.job_schedule, memory.list_erasures):
        with pytest.raises(Forbidden):
            await getattr(user_of(memory, "ana"), refused.__name__)()
    with pytest.raises(NotFound):
        await memory.item_uses(uuid4())
