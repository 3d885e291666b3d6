"""What the tenant's policy takes out never reaches the database, the object store or a log."""

from __future__ import annotations

import io
import json
import logging
import re
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from psycopg import sql
from tests.doors.rest_door import open_door

from recordari.app import Memory
from recordari.config import Settings
from recordari.core.identity import Identity, Role
from recordari.core.items import Item, Kind, NewItem
from recordari.core.telemetry import configure_logging
from recordari.core.text import terms
from recordari.errors import InvalidInput
from recordari.kit.resources import Resources
from recordari.memory.index import EMBED_TOPIC, embed
from recordari.sessions.rules.runs import NewToolCall
from recordari.tenants import tenants
from recordari.worker import dispatch

# Put together here, so that no scanner takes this file for a leak.
TOKEN = "ghp_" + "C4naryT0ken" * 4
PASSWORD = "C4nary!Passw0rd"
MAIL = "canary.person@example.com"
CARD = "4012 8888 8888 1881"
CANARIES = (TOKEN, PASSWORD, MAIL, CARD, CARD.replace(" ", ""))


@pytest.fixture
def chat(memory: Memory) -> Memory:
    return memory.acting_as(user="ana", agent="helper", session="s1")


@pytest.fixture
def log() -> Iterator[io.StringIO]:
    """What every logger of the process writes during the test."""
    root, stream = logging.getLogger(), io.StringIO()
    handlers, level = root.handlers[:], root.level
    configure_logging(form="json", level="debug", stream=stream)
    yield stream
    root.handlers[:] = handlers
    root.setLevel(level)


def rows(settings: Settings, query: sql.SQL | sql.Composed) -> list[Any]:
    assert settings.database_owner_url is not None
    with psycopg.connect(settings.database_owner_url.get_secret_value()) as connection:
        return [row[0] for row in connection.execute(query).fetchall()]


def stored_text(settings: Settings) -> str:
    """Every row of every table as text, and every body and file as it can be read again."""
    tables = rows(
        settings,
        sql.SQL(
            """SELECT ARRAY[n.nspname, c.relname] FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
               WHERE c.relkind IN ('r', 'p') AND n.nspname LIKE 'recordari%'"""
        ),
    )
    kept = [
        text
        for name in tables
        for text in rows(settings, sql.SQL("SELECT t::text FROM {} t").format(sql.Identifier(*name)))
    ]
    kept += rows(settings, sql.SQL("SELECT convert_from(body, 'UTF8') FROM recordari.payloads WHERE body IS NOT NULL"))
    kept += [file.read_bytes().decode(errors="replace") for file in settings.home.rglob("*") if file.is_file()]
    return "\n".join(kept)


def untagged(item: Item) -> str:
    """The content of an item with masks that do not tell values apart."""
    return re.sub(r"(\[[A-Z_]+) [a-z]{5}\]", r"\1]", item.content)


def masked_column(settings: Settings) -> list[Any]:
    return rows(settings, sql.SQL("SELECT masked FROM recordari.items ORDER BY item_id"))


async def index_all(resources: Resources) -> None:
    """Do the background work on everything that was written."""
    for batch in await dispatch.claim_fresh(resources, EMBED_TOPIC, dispatch.Round(), batches=10, size=100):
        assert await dispatch.handle(resources, embed, batch, seconds=60) is dispatch.BatchOutcome.DONE


async def test_canaries_reach_no_table_index_object_or_log(
    chat: Memory, resources: Resources, settings: Settings, log: io.StringIO
) -> None:
    said = f"my password is {PASSWORD}, mail {MAIL}, card {CARD}, token {TOKEN}"
    await chat.remember(
        said, speaker=MAIL, metadata={"note": said, "password": PASSWORD, TOKEN: [{"to": MAIL}], "title": MAIL}
    )
    await chat.remember_fact(said, subject=MAIL, predicate="owns", object=f"card {CARD}", category=MAIL)
    for size in (20_000, 200_000):  # kept in a row of its own, and in the object store
        filler = "all is well. " * (size // 26)
        await chat.remember(f"{filler}{said} {filler}", kind=Kind.TOOL_OUTPUT)
    with pytest.raises(InvalidInput) as refused:
        await chat.remember("x", source_ref=f"import:{TOKEN}")
    await index_all(resources)
    kept = stored_text(settings) + log.getvalue() + str(refused.value)
    assert "all is well" in kept and "[SECRET]" in kept and "'password'" in kept
    words = {term for canary in CANARIES for term in terms(canary) if "c4nary" in term or len(term) > 12}
    for trace in (*CANARIES, *words):
        assert trace.casefold() not in kept.casefold()


async def test_tool_calls_are_sanitised_in_arguments_results_and_errors(chat: Memory, settings: Settings) -> None:
    await chat.start_run(run_id="r1")
    calls = [
        NewToolCall(
            name="login", arguments={"password": PASSWORD, "n": 1}, result=f"token {TOKEN}", error=f"for {MAIL}"
        ),
        NewToolCall(name="pay", arguments=f'{{"card": "{CARD}", "n": 2}}', result="ok"),
    ]
    await chat.record_tool_calls("r1", calls)
    kept = stored_text(settings)
    assert not [canary for canary in CANARIES if canary in kept]
    assert "[CREDIT_CARD " in kept


async def test_reasons_for_a_change_are_sanitised(chat: Memory, settings: Settings) -> None:
    why = f"she wrote token {TOKEN} to {MAIL}"
    fact = await chat.remember_fact("The harbour opens at nine")
    fact = await chat.edit_item(fact.id, "The harbour opens at ten", reason=why)
    await chat.give_feedback(fact.id, "wrong", reason=why)
    await chat.invalidate_item(fact.id, reason=why)
    await chat.restore_item(fact.id, reason=why)
    with pytest.raises(InvalidInput, match="at most 500"):
        await chat.forget(fact.id, reason="x" * 501)
    reasons = rows(settings, sql.SQL("SELECT reason FROM recordari.audit WHERE reason IS NOT NULL"))
    assert [reason for reason in reasons if "[SECRET]" not in reason] == [] and len(reasons) == 4
    await chat.forget(fact.id, reason=why)
    kept = stored_text(settings)
    assert not [canary for canary in CANARIES if canary in kept]


async def test_no_answer_of_mem0s_routes_shows_what_was_masked(resources: Resources, settings: Settings) -> None:
    async with open_door(resources) as door:
        said = {
            "messages": [{"role": "user", "content": f"I live in Lisbon. My token {TOKEN} is new."}],
            "user_id": "ana",
        }
        for path, infer in (("/v1/memories/", True), ("/v3/memories/add/", False)):
            once = {"Idempotency-Key": f"k-{infer}"}
            added = await door.request("POST", path, json={**said, "infer": infer}, headers=once)
            assert added.status_code == 200 and added.json()["results"] and TOKEN not in added.text
        memory_id = added.json()["results"][0]["id"]
        why = {"memory_id": memory_id, "feedback": "NEGATIVE", "feedback_reason": f"token {TOKEN}"}
        rated = await door.request("POST", "/v1/feedback/", json=why, headers={"Idempotency-Key": "k-2"})
        assert rated.status_code == 200 and "[SECRET]" in rated.json()["feedback_reason"]
    assert TOKEN not in stored_text(settings)


async def test_numbers_in_the_arguments_of_a_tool_are_masked_by_their_names(chat: Memory) -> None:
    await chat.start_run(run_id="r1")
    arguments = {
        "phone": 4155550132,
        "card": 4012888888881881,
        "nino": "QQ123456C",
        "order": 4155550132,
        "at": 1700000000,
    }
    (call,) = await chat.record_tool_calls("r1", [NewToolCall(name="pay", arguments=arguments)])
    kept = json.loads(call.arguments)
    assert (kept["order"], kept["at"]) == (4155550132, 1700000000)
    masks = [str(kept[name]).partition(" ")[0] for name in ("phone", "card", "nino")]
    assert masks == ["[PHONE", "[CREDIT_CARD", "[NATIONAL_ID"]


async def test_notes_turn_states_workflows_and_metadata_are_sanitised(
    chat: Memory, memory: Memory, settings: Settings
) -> None:
    said = f"my password is {PASSWORD}, mail {MAIL}, card {CARD}, token {TOKEN}"
    await chat.open_session("s1", metadata={"contact": MAIL})
    note = await chat.add_note("s1", said)
    assert note.content == (await chat.list_notes("s1"))[0].content and "[SECRET]" in note.content
    await chat.start_run(run_id="r1", session_id="s1")
    await chat.end_turn("r1", state={"step": 2, "said": said, "password": PASSWORD}, error=f"{MAIL} was refused")
    assert (await chat.get_turn_state("s1")).data["step"] == 2
    saved = await memory.save_workflow(
        "pay", {"steps": [said], "password": PASSWORD}, agent_type="helper", task_type="pay"
    )
    again = await memory.save_workflow(
        "pay", {"steps": [said], "password": PASSWORD}, agent_type="helper", task_type="pay"
    )
    assert saved.was_new and not again.was_new
    kept = stored_text(settings)
    assert not [canary for canary in CANARIES if canary in kept]


async def test_two_addresses_stay_two_facts_and_neither_is_told(
    chat: Memory, memory: Memory, settings: Settings
) -> None:
    first = await chat.remember_fact(f"The user's e-mail is {MAIL}", scope="user")
    second = await chat.remember_fact("The user's e-mail is other.person@example.com", scope="user")
    again = await chat.remember_fact(f"The user's e-mail is {MAIL.title()}", scope="user")
    assert first.was_new and second.was_new and first.id != second.id
    assert (again.id, again.was_new) == (first.id, False)
    contents = [(await chat.get_item(fact.id)).content for fact in (first, second)]
    assert all(re.fullmatch(r"The user's e-mail is \[EMAIL [a-z]{5}\]", content) for content in contents)
    assert "person@example.com" not in stored_text(settings).casefold()


async def test_one_value_has_one_mask_in_a_tenant_and_another_elsewhere(
    chat: Memory, memory: Memory, resources: Resources
) -> None:
    other = await tenants.ensure_tenant(resources, "other")
    elsewhere = memory.bound(Identity(tenant_id=other.tenant_id, role=Role.ADMIN)).acting_as(user="ana", session="s1")
    said = ["+33 1 42 68 53 00", "0033 1 42.68.53.00", "ring +33142685300"]
    masks = {(await chat.get_item((await chat.remember(text)).id)).content.removeprefix("ring ") for text in said}
    assert len(masks) == 1
    there = await elsewhere.get_item((await elsewhere.remember(said[0])).id)
    assert there.content not in masks and there.content.startswith("[PHONE ")


async def test_the_answer_row_and_metrics_count_what_was_masked(
    chat: Memory, resources: Resources, settings: Settings
) -> None:
    plain = await chat.remember("nothing to see here")
    remembered = await chat.remember(f"{MAIL} and {MAIL}, token {TOKEN}")
    assert plain.masked == {} and remembered.masked == {"email": 2, "secret": 1}
    assert masked_column(settings) == [None, {"email": 2, "secret": 1}]
    assert untagged(await chat.get_item(remembered.id)) == "[EMAIL] and [EMAIL], token [SECRET]"
    assert b'recordari_masked_total{type="email"} 2.0' in await resources.telemetry.render()


async def test_a_tenant_decides_what_is_kept(chat: Memory, memory: Memory, resources: Resources) -> None:
    await memory.update_tenant(settings={"privacy": {"email": "keep", "credit_card": "drop"}})
    other = await tenants.ensure_tenant(resources, "other")
    elsewhere = memory.bound(Identity(tenant_id=other.tenant_id, role=Role.ADMIN)).acting_as(user="ana", session="s1")
    said = f"{MAIL} / {CARD} / {TOKEN}"
    assert (await chat.get_item((await chat.remember(said)).id)).content == f"{MAIL} /  / [SECRET]"
    there = await elsewhere.get_item((await elsewhere.remember(said)).id)
    assert untagged(there) == "[EMAIL] / [CREDIT_CARD] / [SECRET]"


async def test_an_address_that_a_tenant_keeps_is_found_again_exactly(chat: Memory, memory: Memory) -> None:
    await memory.update_tenant(settings={"privacy": {"email": "keep"}})
    for said in ("nothing of note here", f"write to {MAIL} please", "we talked about the weather"):
        await chat.remember(said)
    answer = await chat.recall(MAIL, top_k=1)
    assert [item.content for item in answer.items] == [f"write to {MAIL} please"]


async def test_a_tenant_may_switch_it_off_and_on_again(chat: Memory, memory: Memory) -> None:
    await memory.update_tenant(settings={"privacy": {"enabled": False}})
    assert (await chat.get_item((await chat.remember(f"one {MAIL}")).id)).content == f"one {MAIL}"
    await memory.update_tenant(settings={"privacy": None})
    assert untagged(await chat.get_item((await chat.remember(f"two {MAIL}")).id)) == "two [EMAIL]"


async def test_a_policy_that_cannot_be_read_is_refused_and_changes_nothing(chat: Memory, memory: Memory) -> None:
    with pytest.raises(InvalidInput, match="privacy"):
        await memory.update_tenant(settings={"privacy": {"email": "hide"}})
    assert untagged(await chat.get_item((await chat.remember(MAIL)).id)) == "[EMAIL]"


async def test_an_item_of_which_nothing_is_left_is_refused_with_its_place(chat: Memory, memory: Memory) -> None:
    await memory.update_tenant(settings={"privacy": {"default": "drop"}})
    with pytest.raises(InvalidInput, match="nothing is left") as refused:
        await chat.remember_many([NewItem(content="fine"), NewItem(content=MAIL)])
    assert refused.value.details["index"] == 1


async def test_a_label_of_which_nothing_is_left_is_left_out(chat: Memory, memory: Memory) -> None:
    await memory.update_tenant(settings={"privacy": {"default": "drop"}})
    remembered = await chat.remember("good morning", speaker=MAIL)
    assert (await chat.get_item(remembered.id)).speaker is None


async def test_the_same_words_are_the_same_fact_whatever_secret_stands_in_them(chat: Memory) -> None:
    first = await chat.remember_fact(f"the key is {TOKEN}")
    again = await chat.remember_fact(f"the key is {TOKEN[:-1]}Z")
    assert (again.id, again.was_new) == (first.id, False)
