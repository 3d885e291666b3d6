"""A tenant that has been used: its user Ana has something in every table."""

from __future__ import annotations

from recordari.app import Memory
from recordari.recall.accesses import AccessCounts
from recordari.sessions.rules.runs import NewToolCall
from recordari.sessions.rules.window import NewMessage
from recordari.tenants.sign_ins import sign_in
from tests.stored import rows
from tests.working import work_off

ANA = "ana"


async def live_in(memory: Memory) -> None:
    """Let Ana use the product."""
    await memory.save_user(ANA, display_name="Ana")
    await memory.create_key("hers", user_id=ANA)
    await sign_in(memory.resources, memory.acting_as(user=ANA).identity)
    ana = memory.acting_as(user=ANA, agent="support", session="monday")
    await ana.remember("A long report of Ana. " * 2000, kind="tool_output", session_id="monday")
    await ana.add_messages([NewMessage(content="I live in Kendwa."), NewMessage(content="I love Kendwa and Paje.")])
    await ana.add_note("monday", "Ana wants a ferry")
    await ana.set_state("draft", {"text": "for Ana"})
    await ana.put_entry(["recipes"], "pilau", {"rice": 2}, scope="user")
    await ana.start_run(run_id="nightly", input={"goal": "ferries"})
    await ana.record_tool_calls("nightly", [NewToolCall(name="look", arguments="{}", result="nine", number=1)])
    fact = await ana.remember_fact("Ana's ferry leaves Kendwa at nine.", scope="user")
    await ana.edit_item(fact.id, "Ana's ferry leaves Kendwa at ten.")
    kept = (await ana.list_items(kinds=["fact"])).items[0].item_id
    await ana.give_feedback(kept, "useful")
    await memory.hold(kept, "an-action")
    await memory.save_workflow("fast", {"steps": []}, agent_type="support", task_type="reply")
    choice = await ana.choose("support", "reply", seed=1)
    await ana.reward(choice.choice_id, 1.0, outcome_id="done")
    await ana.profile()
    await memory.save_question("ferries", "When does the ferry leave Kendwa?")
    await work_off(memory)
    assert (await ana.standing_answer("ferries")).sources
    await ana.recall("When does the ferry leave Kendwa?")
    await memory.resources.get(AccessCounts).flush()
    await ana.remember_fact("Ana takes the bus to Paje.", scope="user")  # her profile is stale now
    _put_by_hand(memory, kept)


def _put_by_hand(memory: Memory, item_id: object) -> None:
    """What only a job makes, at a moment that no test can wait for."""
    settings, tenant = memory.resources.settings, memory.identity.tenant_id
    rows(
        settings,
        """WITH made AS (
               INSERT INTO proposals (tenant_id, proposal_id, kind, rule, key, inputs, proposed_at)
               VALUES (%s, gen_random_uuid(), 'retire', 'by hand', '', 1, now()) RETURNING tenant_id, proposal_id)
           INSERT INTO proposal_inputs (tenant_id, proposal_id, item_id, tier, sources)
           SELECT tenant_id, proposal_id, %s, 'persistent', 1 FROM made RETURNING 1""",
        tenant,
        item_id,
    )
    rows(
        settings,
        """INSERT INTO erasures (tenant_id, erasure_id, user_hash, user_id, requested_at, start_xid)
           VALUES (%s, gen_random_uuid(), '', 'ana', now(), pg_current_xact_id()) RETURNING 1""",
        tenant,
    )
