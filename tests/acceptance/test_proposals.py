"""What consolidation proposes and who decides (X5), and the review of what does not last by itself (F6, T2)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from tests.doors.rest_door import open_door
from tests.working import at, run_job, work_off

from recordari.app import Memory
from recordari.core.identity import Identity
from recordari.core.items import Kind
from recordari.errors import Conflict, Forbidden, InvalidInput, NotFound
from recordari.facts import storage as facts_storage
from recordari.facts.storage import Link
from recordari.kit.resources import Resources
from recordari.learning.rules.proposals import Proposal
from recordari.recall.accesses import AccessCounts

TWICE = ("Ana prefers tea without sugar in the morning", "In the morning Ana prefers tea without any sugar")


@pytest.fixture
def ana(memory: Memory) -> Memory:
    return memory.bound(Identity(tenant_id=memory.identity.tenant_id)).acting_as(user="ana", agent="helper")


async def known(ana: Memory, memory: Memory, *texts: str, **more: Any) -> list[UUID]:
    """Facts that are embedded, and that no judge has looked at."""
    ids = [(await ana.remember_fact(text, **more)).id for text in texts]
    await work_off(memory, "embed")
    return ids


async def live(memory: Memory) -> set[str]:
    return {item.content for item in (await memory.list_items(kinds=[Kind.FACT])).items}


async def only(memory: Memory, **more: Any) -> Proposal:
    (proposal,) = await memory.list_proposals(**more)
    return proposal


# Seed 002: "Consolidation: daily job merges related memories, flags stale ones"; proposed first, never done unasked (X5).


async def test_near_same_facts_are_proposed_for_merging_and_stand_until_then(memory: Memory, ana: Memory) -> None:
    first, second = await known(ana, memory, *TWICE)
    source = await ana.remember("I like my tea without sugar", session_id="s1", source_ref="m1")
    async with memory.resources.database.transaction(memory.identity) as tx:
        await facts_storage.insert_links(
            tx, [Link(item_id=first, source_item_id=source.id, event_time=datetime.now(UTC))]
        )
    review = await memory.review_memory()
    assert (review.proposed, review.accepted) == (1, 0)
    proposal = await only(memory)
    assert (proposal.kind, proposal.rule, proposal.successor_id) == ("merge", "same", first), "the best borne out stays"
    assert proposal.item_ids == (second,)
    assert await live(memory) == set(TWICE), "inputs are never changed before acceptance"
    accepted = await memory.accept_proposal(proposal.proposal_id, reason="the same")
    assert (accepted.status, accepted.decided_by, accepted.reason) == ("accepted", "library", "the same")
    assert await live(memory) == {TWICE[0]}
    (entry,) = [one for one in await memory.list_audit(limit=10) if one.action == "proposal.accept"]
    assert entry.details["item_ids"] == [str(second)] and TWICE[0] not in str(entry.details)


async def test_a_proposal_shows_the_texts_their_sources_and_why_until_they_are_erased(
    memory: Memory, ana: Memory
) -> None:
    first, second = await known(ana, memory, *TWICE)
    said = await ana.remember("I like my tea without sugar", session_id="s1", source_ref="m1")
    async with memory.resources.database.transaction(memory.identity) as tx:
        await facts_storage.insert_links(
            tx, [Link(item_id=first, source_item_id=said.id, event_time=datetime.now(UTC))]
        )
    await memory.review_memory()
    proposal = await only(memory)
    assert [(item.item_id, item.content, item.ends) for item in proposal.items] == [
        (second, TWICE[1], True),
        (first, TWICE[0], False),
    ]
    assert "say the same" in proposal.explanation
    (source,) = proposal.items[1].sources
    assert (source.item_id, source.content, source.session_id) == (said.id, "I like my tea without sugar", "s1")
    assert [proposal] == await memory.acting_as(user="eve").list_proposals(), "an administrator decides for all users"
    await memory.forget(second)
    shown = await memory.list_proposals(status=None)
    assert TWICE[1] not in str(shown)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Lea has a peanut allergy", "Lea is allergic to peanuts"),
        ("Tom's flat is in Leeds", "Tom's apartment is in Leeds"),
        ("The backup runs nightly at 2", "The nightly backup runs at 2"),
    ],
)
async def test_the_same_in_other_words_is_found(memory: Memory, ana: Memory, one: str, other: str) -> None:
    await known(ana, memory, one, other)
    await memory.review_memory()
    assert {item.content for item in (await only(memory, kind="merge")).items} == {one, other}


async def test_merging_moves_the_evidence_and_undoing_moves_it_back(memory: Memory, ana: Memory) -> None:
    first, second = await known(ana, memory, *TWICE)
    sources = {}
    for item_id, number in ((first, 2), (second, 1)):
        for place in range(number):
            ref = f"{item_id}-{place}"
            sources[ref] = (await ana.remember(ref, session_id="s1", source_ref=ref)).id
            async with memory.resources.database.transaction(memory.identity) as tx:
                link = Link(item_id=item_id, source_item_id=sources[ref], event_time=datetime.now(UTC))
                await facts_storage.insert_links(tx, [link])
    await memory.review_memory()
    proposal = await only(memory)
    await memory.accept_proposal(proposal.proposal_id)
    assert len((await memory.item_provenance(first)).sources) == 3
    undone = await memory.undo_proposal(proposal.proposal_id)
    assert undone.status == "undone" and await live(memory) == set(TWICE)
    assert len((await memory.item_provenance(first)).sources) == 2
    assert (await memory.review_memory()).proposed == 0, "what was undone is not proposed again"
    with pytest.raises(Conflict, match="only an accepted proposal"):
        await memory.undo_proposal(proposal.proposal_id)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Ana has 2 cats at home in Lund", "Ana has 3 cats at home in Lund"),
        ("Ana does not eat fish on Fridays", "Ana does eat fish on Fridays"),
        ("Ana has a meeting with Erik in Lund", "Ana has a meeting with Maria in Malmö"),
        ("The northern depot opens at six", "The southern depot opens at six"),
        ("The northern depot opens at six", "The depot opens at six"),
        ("Erik is Maria's boss at the bank", "Maria is Erik's boss at the bank"),
        ("Ana likes jazz at breakfast", "Ana hates jazz at breakfast"),
        ("The train to Oslo leaves at eight", "The train from Oslo leaves at eight"),
    ],
)
async def test_what_differs_in_a_number_a_negation_or_a_name_is_never_merged(
    memory: Memory, ana: Memory, one: str, other: str
) -> None:
    await known(ana, memory, one, other)
    await memory.review_memory()
    assert await memory.list_proposals(kind="merge") == []


async def test_facts_of_two_owners_are_never_merged(memory: Memory, ana: Memory) -> None:
    await known(ana, memory, TWICE[0])
    await known(ana.acting_as(user="eve"), memory, TWICE[1])
    assert (await memory.review_memory()).proposed == 0


async def test_what_people_found_wrong_and_what_nobody_asks_for_is_proposed_to_retire(
    memory: Memory, ana: Memory
) -> None:
    wrong, idle, used = await known(ana, memory, "The office is in Oslo", "The printer is blue", "Soup is at noon")
    await memory.give_feedback(wrong, "wrong")
    later = at(memory, timedelta(days=200))
    later.resources.get(AccessCounts).note(memory.identity, [used], now=later.resources.clock())
    await later.review_memory()
    found = {proposal.item_ids: proposal.rule for proposal in await memory.list_proposals(kind="retire")}
    assert found == {(wrong,): "doubted", (idle,): "unused"}
    (idle_one,) = [one for one in await memory.list_proposals() if one.rule == "unused"]
    await later.accept_proposal(idle_one.proposal_id)
    assert await live(memory) == {"The office is in Oslo", "Soup is at noon"}
    await later.undo_proposal(idle_one.proposal_id)
    assert "The printer is blue" in await live(memory)


async def test_pinned_facts_and_those_that_an_action_rests_on_are_left_alone(memory: Memory, ana: Memory) -> None:
    pinned, held = await known(ana, memory, "The office is in Oslo", "The printer is blue")
    await memory.pin_item(pinned)
    await memory.hold(held, "change-1")
    assert (await at(memory, timedelta(days=400)).review_memory()).proposed == 0


async def test_a_contradiction_by_an_untrusted_carrier_waits_for_a_person_whatever_the_policy(
    memory: Memory, ana: Memory
) -> None:
    await memory.set_proposal_policy(["merge", "retire"])
    said = (await ana.remember_fact("I live in Lund", event_time=datetime(2026, 1, 1, tzinfo=UTC))).id
    read = (await ana.remember_fact("I live in Malmö", trust="tool", event_time=datetime(2026, 2, 1, tzinfo=UTC))).id
    await work_off(memory)
    assert await live(memory) == {"I live in Lund", "I live in Malmö"}, "the judge lets no tool end what a person said"
    await memory.review_memory()
    proposal = await only(memory)
    assert (proposal.rule, proposal.item_ids, proposal.successor_id) == ("contradicted", (said,), read)
    await memory.accept_proposal(proposal.proposal_id)
    assert await live(memory) == {"I live in Malmö"}


async def test_a_policy_accepts_by_itself(memory: Memory, ana: Memory) -> None:
    assert (await memory.set_proposal_policy(["merge"])).accept == ("merge",)
    await known(ana, memory, *TWICE)
    await run_job(memory, "review_memory")
    assert len(await live(memory)) == 1
    proposal = await only(memory, status="accepted")
    assert proposal.reason == "policy"
    with pytest.raises(InvalidInput, match="a person promotes"):
        await memory.set_proposal_policy(["promote"])


async def test_a_rejected_proposal_is_not_made_again(memory: Memory, ana: Memory) -> None:
    (wrong,) = await known(ana, memory, "The office is in Oslo")
    await memory.give_feedback(wrong, "wrong")
    await memory.review_memory()
    proposal = await only(memory)
    assert (await memory.reject_proposal(proposal.proposal_id)).status == "rejected"
    assert (await memory.review_memory()).proposed == 0
    assert await live(memory) == {"The office is in Oslo"}
    with pytest.raises(Conflict, match="rejected already"):
        await memory.accept_proposal(proposal.proposal_id)


@pytest.mark.parametrize("change", ["forgotten", "invalidated", "pinned", "said again", "spoken of"])
async def test_a_proposal_is_void_once_its_inputs_changed_and_says_so(memory: Memory, ana: Memory, change: str) -> None:
    (wrong,) = await known(ana, memory, "The office is in Oslo")
    await memory.give_feedback(wrong, "wrong")
    await memory.review_memory()
    proposal = await only(memory)
    match change:
        case "forgotten":
            await memory.forget(wrong)
        case "invalidated":
            await memory.invalidate_item(wrong)
        case "pinned":
            await memory.pin_item(wrong)
        case "spoken of":
            await ana.give_feedback(wrong, "useful")
        case _:
            source = await ana.remember("the office is in Oslo", session_id="s1")
            async with memory.resources.database.transaction(memory.identity) as tx:
                link = Link(item_id=wrong, source_item_id=source.id, event_time=datetime.now(UTC))
                await facts_storage.insert_links(tx, [link])
    before = await live(memory)
    with pytest.raises(Conflict, match="the proposal is void"):
        await memory.accept_proposal(proposal.proposal_id)
    void = await memory.get_proposal(proposal.proposal_id)
    assert void.status == "void" and (void.reason or "").startswith("void: ")
    assert await live(memory) == before


async def test_the_next_review_lets_void_proposals_fall(memory: Memory, ana: Memory) -> None:
    (wrong,) = await known(ana, memory, "The office is in Oslo")
    await memory.give_feedback(wrong, "wrong")
    await memory.review_memory()
    await memory.forget(wrong)
    assert (await memory.review_memory()).voided == 1
    assert await memory.list_proposals() == []


async def test_a_merge_is_not_undone_after_something_else_was_done_to_its_items(memory: Memory, ana: Memory) -> None:
    await known(ana, memory, *TWICE)
    await memory.review_memory()
    proposal = await only(memory)
    await memory.accept_proposal(proposal.proposal_id)
    await memory.forget(proposal.item_ids[0])
    with pytest.raises(Conflict, match="one by one"):
        await memory.undo_proposal(proposal.proposal_id)


# Seed 003 D7: "Semantic: corroboration-gated promotion"; text from untrusted carriers is never promoted without review.


async def test_what_matters_but_is_not_vouched_for_waits_for_review(memory: Memory, ana: Memory) -> None:
    said = "Ana Lindqvist from Malmö leads the Harbour Project with Erik Berg and reports to Maria Holm every Friday"
    ids = {}
    for name, trust in (("read", "tool"), ("alone", "user")):
        (ids[name],) = await known(ana, memory, f"{said} ({name})", tier="recent", trust=trust)
    for _ in range(40):
        memory.resources.get(AccessCounts).note(memory.identity, list(ids.values()), now=datetime.now(UTC))
    faded = await memory.decay()
    assert (faded.promoted, faded.reviews) == (0, 2)
    assert (await memory.decay()).reviews == 0, "once is enough"
    waiting = {proposal.item_ids[0]: proposal for proposal in await memory.list_proposals(kind="promote")}
    assert {item_id: one.rule for item_id, one in waiting.items()} == {
        ids["read"]: "carrier",
        ids["alone"]: "uncorroborated",
    }
    accepted = await memory.accept_proposal(waiting[ids["read"]].proposal_id)
    assert (await memory.get_item(ids["read"])).tier == "persistent"
    await memory.undo_proposal(accepted.proposal_id)
    assert (await memory.get_item(ids["read"])).tier == "recent"


async def test_only_an_administrator_decides(memory: Memory, ana: Memory) -> None:
    (wrong,) = await known(ana, memory, "The office is in Oslo")
    await memory.give_feedback(wrong, "wrong")
    await memory.review_memory()
    proposal = await only(memory)
    for verb in (ana.accept_proposal, ana.reject_proposal, ana.undo_proposal, ana.get_proposal):
        with pytest.raises(Forbidden):
            await verb(proposal.proposal_id)
    with pytest.raises(Forbidden):
        await ana.review_memory()
    with pytest.raises(NotFound):
        await memory.accept_proposal(UUID(int=7))


async def test_proposals_are_decided_over_rest(resources: Resources) -> None:
    async with open_door(resources) as door:
        ana = door.memory.acting_as(user="ana")
        await known(ana, door.memory, *TWICE)
        assert (await door.request("POST", "/v1/proposals/review")).json()["proposed"] == 1
        (proposal,) = (await door.request("GET", "/v1/proposals?status=open")).json()["items"]
        assert (proposal["kind"], proposal["rule"]) == ("merge", "same")
        assert "say the same" in proposal["explanation"]
        assert {item["content"] for item in proposal["items"]} == set(TWICE)
        assert [item["ends"] for item in proposal["items"]] == [True, False]
        path = f"/v1/proposals/{proposal['proposal_id']}"
        accepted = await door.request("POST", f"{path}/accept", json={"reason": "same"})
        assert accepted.json()["status"] == "accepted"
        again = await door.request("POST", f"{path}/accept", json={})
        assert again.status_code == 409
        assert (await door.request("POST", f"{path}/undo", json={})).json()["status"] == "undone"
        policy = await door.request("PUT", "/v1/proposals/policy", json={"accept": ["merge"]})
        assert policy.json() == {"accept": ["merge"]}
        assert (await door.request("PUT", "/v1/proposals/policy", json={"accept": ["promote"]})).status_code == 422
