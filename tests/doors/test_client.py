"""The client: every verb that REST serves, with the library's names, results and errors."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any, get_args, get_type_hints
from uuid import uuid4

import httpx2
import pytest
from fastapi.routing import APIRoute
from pydantic import BaseModel, TypeAdapter
from tests.doors.rest_door import open_door
from tests.json_server import Reply, Request, json_server
from tools.routes import TABLE, written

from recordari import Kind, NewItem
from recordari import errors as all_errors
from recordari.app import Memory
from recordari.client import Client
from recordari.client.routes import OPERATIONS
from recordari.errors import (
    Conflict,
    Forbidden,
    InvalidInput,
    NotFound,
    Overloaded,
    PreconditionFailed,
    ProviderError,
    QuotaExceeded,
    RecordariError,
    TimedOut,
    Unauthenticated,
)
from recordari.kit.resources import Resources
from recordari.learning.rules.workflows import Posterior
from recordari.routes import ROUTERS
from recordari.sessions.rules.runs import NewToolCall, RunUsage
from recordari.sessions.rules.window import NewMessage
from recordari.sync import Client as SyncClient
from recordari.tenants.rules import AgentDefinition

# Routes that are no verb of the library, or another form of one that the client has.
NO_VERB = {
    "health": "for machines",
    "ready": "for machines",
    "version": "for machines",
    "metrics": "for machines",
    "agent_profile": "the verb is profile(agent=…)",
    "user_profile": "the verb is profile(user=…)",
}
# Verbs of the library that no route serves.
NO_ROUTE = {
    "bound": "a credential says who asks",
    "erase_user": "a request does not wait for it: start_erasing_user",
    "reindex": "a request does not wait for it: start_reindex",
    "reembed": "a request does not wait for it: start_reembed",
    "sync_source": "a request does not wait for it: start_sync",
    "import_foreign": "the command line reads the file: recordari import --from",
    "collect_objects": "a job: enqueue_job",
}
# What of a result a route calls otherwise or does not show: the fields of the library, and those of the route.
SHOWN_OTHERWISE: dict[str, tuple[set[str], set[str]]] = {
    "ToolCall": ({"result_sha256"}, set()),
    "ApiKey": ({"key_hash"}, set()),
    "NewKey": ({"key_hash"}, set()),
    "DeadLetter": (set(), {"dead_letter_id"}),  # follows from the rest
    "Erasure": ({"user_hash"}, set()),
    "Webhook": ({"secret"}, set()),
    "Source": ({"folder"}, set()),
    # The client makes these from what is shown.
    "ItemPage": ({"next_before"}, {"next_cursor"}),
}
READ_BY_HAND = {"follow_events", "export", "import_items"}
MODELS = {
    (method, route.path.replace(":path", "")): route.response_model
    for router in ROUTERS
    for route in router.routes
    if isinstance(route, APIRoute)
    for method in sorted(route.methods or ())
}
SERVED = {
    (method, route.path.replace(":path", "")): str(route.operation_id)
    for router in ROUTERS
    for route in router.routes
    if isinstance(route, APIRoute) and "mem0" not in route.tags  # they serve another product's client
    for method in sorted(route.methods or ())
}


def verbs_of(kind: type) -> set[str]:
    return {name for name, member in inspect.getmembers(kind, inspect.isfunction) if not name.startswith("_")}


def test_the_table_of_operations_is_what_the_routes_declare() -> None:
    assert TABLE.read_text("utf-8") == written(), "run `make routes`"


def test_every_verb_that_rest_serves_is_a_verb_of_the_client() -> None:
    left_out = {name for name in SERVED.values() if not hasattr(Client, name)}
    assert left_out == set(NO_VERB), "a route has the name of a verb as its operation_id"
    assert verbs_of(Memory) - verbs_of(Client) == set(NO_ROUTE), "declare a route for each"


def test_no_field_of_a_result_is_lost_unseen() -> None:
    seen: dict[str, tuple[set[str], set[str]]] = {}
    for name in verbs_of(Client) & verbs_of(Memory) & OPERATIONS.keys() - READ_BY_HAND:
        route = OPERATIONS[name]
        shown = MODELS[route.method, route.path]
        if shown is not None and route.part is not None:
            shown = shown.model_fields[route.part].annotation
        compare(get_type_hints(getattr(Memory, name))["return"], shown, seen)
    assert seen == SHOWN_OTHERWISE


def compare(told: Any, shown: Any, seen: dict[str, tuple[set[str], set[str]]]) -> None:
    """Note which fields a result of the library has and its model does not, and the other way round, all the way down."""
    ours, theirs = made_of(told), made_of(shown)
    if ours is None or theirs is None:
        return
    have = {field.name for field in dataclasses.fields(ours)}
    less, more = seen.get(ours.__name__, (set(), set()))
    sent = TypeAdapter(theirs).json_schema(mode="serialization")["properties"].keys()
    less, more = less | (have - sent), more | (sent - have)
    if less or more:
        seen[ours.__name__] = less, more
    for name in have & sent:
        compare(get_type_hints(ours)[name], get_type_hints(theirs)[name], seen)


def made_of(kind: Any) -> Any:
    """The class of things that a type holds one or many of."""
    if isinstance(kind, type) and (dataclasses.is_dataclass(kind) or issubclass(kind, BaseModel)):
        return kind
    return next((found for part in get_args(kind) if (found := made_of(part)) is not None), None)


def test_a_verb_has_the_parameters_and_the_words_of_the_librarys() -> None:
    both = verbs_of(Client) & verbs_of(Memory)
    assert len(both) > 100
    for name in both:
        ours, theirs = getattr(Client, name), getattr(Memory, name)
        assert inspect.signature(ours) == inspect.signature(theirs), name
        assert ours.__doc__ == theirs.__doc__, name


@asynccontextmanager
async def connected(resources: Resources, *, key: str = "admin") -> AsyncIterator[tuple[Memory, Client]]:
    """The library and a client for the same tenant, through the application and all its layers."""
    async with open_door(resources, rate_limit="") as door:
        transport = httpx2.ASGITransport(app=door.app)
        async with Client("http://127.0.0.1", key=door.keys[key], transport=transport) as client:
            yield door.memory, client


async def test_working_memory_is_the_same_through_both(resources: Resources) -> None:
    async with connected(resources) as (library, client):
        memory, remote = [one.acting_as(user="Ελένη", agent="support", session="s 1") for one in (library, client)]
        opened = await remote.open_session("s 1", idle=timedelta(hours=2), metadata={"channel": "web"})
        assert opened.was_new
        assert opened.session == await memory.get_session("s 1")
        added = await remote.add_messages([NewMessage(content="Where is my parcel?", message_id="m1")])
        assert (await memory.add_messages([NewMessage(content="Where is my parcel?", message_id="m1")])).messages[
            0
        ].id == added.messages[0].id
        assert await remote.list_messages("s 1") == await memory.list_messages("s 1")
        assert await remote.get_window("s 1") == await memory.get_window("s 1")
        note = await remote.add_note("s 1", "Ship it again", kind="decision", importance=0.9)
        assert [note] == await memory.list_notes("s 1") == await remote.list_notes("s 1")
        await remote.delete_note("s 1", note.note_id)
        assert await memory.list_notes("s 1") == []
        assert (await remote.report_usage("s 1", 120_000)) == (await memory.get_window("s 1")).state
        entry = await remote.set_state("draft/1", None, ttl=timedelta(minutes=5))
        assert entry.value is None
        assert entry == await memory.get_state("draft/1") == (await remote.list_state(prefix="draft"))[0]
        await remote.delete_state("draft/1", if_version=entry.version)
        with pytest.raises(NotFound):
            await remote.get_state("draft/1")

        started = await remote.start_run(run_id="r1", input={"goal": "find it"})
        assert started.run == await memory.get_run("r1")
        handed = await remote.acting_as(run="r1").delegate("order", {"id": 7})
        assert handed.value == {"id": 7}
        assert await remote.delegated(run_id="r1") == {"order": {"id": 7}}
        calls = await remote.record_tool_calls(
            "r1", [NewToolCall(name="track", arguments={"id": 7}, result=b"\xff\x00")]
        )
        recorded = (await memory.replay_run("r1", results=False)).calls
        assert [dataclasses.replace(one, result_sha256=None) for one in recorded] == calls
        await remote.end_turn("r1", usage=RunUsage(tokens_in=7), state={"step": 1})
        assert await remote.get_turn_state("s 1") == await memory.get_turn_state("s 1")
        await remote.start_turn("r1", episodes=0)
        done = await remote.complete_run("r1", output={"found": True}, usage=RunUsage(tokens_out=3))
        assert [done] == await memory.list_runs() == await remote.list_runs(agent_id="support")
        assert (await remote.replay_run("r1")).turns == (await memory.replay_run("r1")).turns
        episode = await remote.append_episode("Found the parcel", run_id="r1")
        assert [one.item_id for one in await remote.last_episodes(limit=3)] == [episode.id]
        resumed, again = await remote.resume_session("s 1"), await memory.resume_session("s 1")
        active_at = again.session.active_at  # resuming is activity
        assert dataclasses.replace(resumed, session=dataclasses.replace(resumed.session, active_at=active_at)) == again
        closed = await remote.close_session("s 1")
        assert [closed] == await remote.list_sessions(status="closed")
        assert await remote.list_sessions(before=closed.session_ref) == []


async def test_items_and_recall_are_the_same_through_both(resources: Resources) -> None:
    async with connected(resources) as (library, client):
        who = {"user": "ana", "session": "chat"}
        memory, remote = library.acting_as(**who), client.acting_as(**who)
        kept = await remote.remember("The launch is on 14 May", speaker="Ana", source_ref="m1", metadata={"a": [1]})
        assert await remote.get_item(kept.id) == await memory.get_item(kept.id)
        again = await remote.remember_many([NewItem(content="The launch is on 14 May", source_ref="m1")])
        assert [(one.id, one.was_new) for one in again] == [(kept.id, False)]
        assert (await remote.remember_fact("Ana prefers tea", metadata={"from": "chat"})).was_new
        long = await remote.remember("order shipped\n" * 3000, kind=Kind.TOOL_OUTPUT)
        assert long.payload_key is not None
        part = await remote.read_tool_output(long.payload_key, start=6, length=7)
        assert (part.content, part.is_whole) == ("shipped", False)
        answer = await remote.recall("When is the launch?", top_k=2, source_kinds=["chat_message"], explain=True)
        assert (
            answer.items == (await memory.recall("When is the launch?", top_k=2, source_kinds=["chat_message"])).items
        )
        assert answer.trace is not None
        assert (await remote.search_knowledge("parcels")).items == ()
        assert (await remote.whoami()).user_id == "ana"


async def test_governing_is_the_same_through_both(resources: Resources) -> None:
    async with connected(resources) as (memory, client):
        user = await client.save_user("ana", display_name="Ana", time_zone="Europe/Lisbon")
        assert user == await memory.get_user("ana") == await client.get_user("ana")
        await client.save_user("bo")
        assert [one.user_id for one in await client.list_users(after="ana")] == ["bo"]
        agent = await client.save_agent("support", AgentDefinition(core="Be kind"), expected_version=0)
        assert agent == await memory.get_agent("support") == (await client.list_agents())[0]
        with pytest.raises(PreconditionFailed):
            await client.save_agent("support", AgentDefinition(), expected_version=7)
        saved = await client.save_workflow(
            "call back", {"steps": ["call"]}, agent_type="support", task_type="reply", prior=Posterior(alpha=3, beta=2)
        )
        assert (saved.workflow.alpha, saved.workflow.beta) == (3, 2)
        choice = await client.choose("support", "reply", seed=1)
        rewarded = await client.reward(choice, 1.0, outcome_id="o1")
        assert [rewarded.workflow] == await memory.active_workflows("support", "reply")
        assert await client.list_outcomes(choice.workflow.workflow_id) == await memory.list_outcomes(
            choice.workflow.workflow_id
        )
        retired = await client.retire_workflow(choice.workflow.workflow_id, reason="too slow")
        assert [retired] == await client.workflow_history("support", "reply", "call back")
        assert await client.list_workflows() == []
        assert await client.get_workflow(retired.workflow_id) == retired
        await client.acting_as(agent="support").remember_fact("Parcels go out at noon", scope="agent")
        deleted = await client.delete_agent("support", memories=True)
        assert (deleted.items, deleted.sessions) == (1, 0)
        tenant = await client.update_tenant(language="german", settings={"a": 1})
        assert tenant == await memory.get_tenant() == await client.get_tenant()
        made = await client.create_key("second", user_id="ana")
        assert made.key.startswith("rcd_")
        assert (await client.revoke_key(made.key_id)).revoked_at is not None
        assert {key.name for key in await client.list_keys()} >= {"admin", "second"}
        assert await client.list_audit() == await memory.list_audit()
        job_id = await client.start_reindex()
        assert [job.job_id for job in await client.list_jobs()] == [job_id]
        assert await client.list_dead_letters() == []
        report = await client.make_daily_brief()
        assert [report] == await client.list_reports() == [await client.get_report(report.report_id)]


async def test_curating_and_forgetting_are_the_same_through_both(resources: Resources) -> None:
    async with connected(resources) as (library, client):
        who = {"user": "ana"}
        memory, remote = library.acting_as(**who), client.acting_as(**who)
        kept = await remote.remember_fact("Ana lives in Porto")
        edited = await remote.edit_item(kept.id, "Ana lives in Lisbon", reason="moved")
        assert await remote.item_history(edited.id) == await memory.item_history(edited.id)
        page = await remote.list_items(kinds=["fact"], limit=1)
        assert page == await memory.list_items(kinds=["fact"], limit=1)
        await remote.pin_item(edited.id)
        assert (await memory.list_items(pinned=True)).items
        await remote.pin_item(edited.id, pinned=False)
        assert not (await memory.list_items(pinned=True)).items
        assert await remote.give_feedback(edited.id, "useful") > 0
        await remote.invalidate_item(edited.id)
        assert await remote.item_provenance(edited.id) == await memory.item_provenance(edited.id)
        assert (await remote.forget(edited.id, reason="asked")).item_ids
        with pytest.raises(NotFound):
            await remote.forget(uuid4())
        assert (await client.get_retention_policy()) == (await library.get_retention_policy())
        assert (await client.quota_usage()) == (await library.quota_usage())
        assert (await client.job_counts()) == (await library.job_counts())
        assert await client.knowledge_map() == await library.knowledge_map()
        assert await client.replay_dead_letters() == 0


async def test_an_import_keeps_what_stands_before_a_fault_and_names_its_place(resources: Resources) -> None:
    async with connected(resources) as (_, client):
        remote = client.acting_as(user="ana", session="chat")
        items = [NewItem(content=f"message {number}", source_ref=f"m{number}") for number in range(400)]
        assert sum([len(batch) async for batch in remote.import_items(items)]) == 400
        broken = [*items, NewItem(content="new", source_ref="m400"), NewItem(content=" ", source_ref="m401")]
        with pytest.raises(InvalidInput) as refused:
            async for _ in remote.import_items(broken):
                pass
        assert refused.value.details["index"] == 401
        assert (await remote.remember("new", source_ref="m400")).was_new is False


async def test_problems_come_back_as_the_exceptions_they_were(resources: Resources) -> None:
    async with connected(resources) as (library, client):
        missing = uuid4()
        calls: tuple[tuple[type[RecordariError], Callable[[Memory], Awaitable[object]]], ...] = (
            (NotFound, lambda memory: memory.get_item(missing)),
            (InvalidInput, lambda memory: memory.acting_as(session="s").recall("   ")),
            (InvalidInput, lambda memory: memory.recall("tea", top_k=99)),
            (Unauthenticated, lambda memory: memory.recall("tea", scope="user")),
            (InvalidInput, lambda memory: memory.set_state("k", 1)),
            (QuotaExceeded, lambda memory: memory.set_state("k", "x" * 200_000, owner_id="s")),
        )
        for error, call in calls:
            said = []
            memories: tuple[Memory, Memory] = (library, client)
            for memory in memories:
                with pytest.raises(error) as refused:
                    await call(memory)
                said.append(refused.value)
            if error is not InvalidInput:
                assert said[0].message == said[1].message
            assert said[0].details.get("field") == said[1].details.get("field")
        await client.acting_as(session="s").remember("one", source_ref="m")
        with pytest.raises(Conflict):
            await client.acting_as(session="s").remember("two", source_ref="m")
    async with connected(resources, key="agent") as (_, client):
        with pytest.raises(Forbidden):
            await client.list_keys()


def answered(*replies: Reply) -> tuple[list[Request], Any]:
    """A server that answers with these in turn, and what it was asked."""
    asked: list[Request] = []

    def answer(request: Request) -> Reply:
        asked.append(request)
        return replies[min(len(asked), len(replies)) - 1]

    return asked, json_server(answer)


def problem(error: type[RecordariError], **headers: str) -> Reply:
    return Reply(status=error.status, body={"code": error.code, "detail": "said", "instance": "r1"}, headers=headers)


TENANT = Reply(
    body={
        "tenant_id": str(uuid4()),
        "name": "test",
        "language": "english",
        "plan": "standard",
        "settings": {},
        "created_at": "2026-05-02T14:23:01Z",
    }
)


async def test_a_request_that_was_turned_away_is_sent_again_after_the_time_given() -> None:
    for refused in (all_errors.RateLimited, Overloaded):
        asked, server = answered(problem(refused, **{"Retry-After": "0"}), TENANT)
        with server as at:
            async with Client(at.url, key="k") as client:
                assert (await client.update_tenant(language="german")).name == "test"
        assert [request.method for request in asked] == ["PATCH", "PATCH"]
        assert asked[0].headers["authorization"] == "Bearer k"


async def test_only_what_does_no_harm_twice_is_sent_twice() -> None:
    broken = problem(all_errors.DatabaseUnavailable, **{"Retry-After": "0"})
    verbs: tuple[tuple[Callable[[Client], Awaitable[object]], int], ...] = (
        (lambda client: client.get_tenant(), 3),
        (lambda client: client.make_daily_brief(), 3),
        (lambda client: client.update_tenant(language="german"), 1),
    )
    for verb, times in verbs:
        asked, server = answered(broken)
        with server as at:
            async with Client(at.url, key="k") as client:
                with pytest.raises(all_errors.DatabaseUnavailable):
                    await verb(client)
        assert len(asked) == times
        keys = {request.headers.get("idempotency-key") for request in asked}
        assert len(keys) == 1, "a request sent again is the same request"
        assert (None in keys) == (asked[0].method != "POST")


async def test_a_wait_that_is_too_long_a_used_up_quota_and_a_strangers_answer_are_told_at_once() -> None:
    for reply, error in (
        (problem(Overloaded, **{"Retry-After": "3600"}), Overloaded),
        (problem(QuotaExceeded, **{"Retry-After": "60"}), QuotaExceeded),
        (Reply(status=404, body=b"<html>no such page</html>"), NotFound),
        (Reply(status=418, body=b"teapot"), ProviderError),
    ):
        asked, server = answered(reply)
        with server as at:
            async with Client(at.url, key="k") as client:
                with pytest.raises(error):
                    await client.get_tenant()
        assert len(asked) == 1


async def test_a_server_that_is_silent_or_away_is_told_apart() -> None:
    _, server = answered(Reply(hang=True))
    with server as at:
        async with Client(at.url, key="k", timeout=0.2, retries=0) as client:
            with pytest.raises(TimedOut):
                await client.get_tenant()
    async with Client(at.url, key="k", retries=1) as client:
        with pytest.raises(ProviderError, match="cannot be reached"):
            await client.get_tenant()


def test_the_same_verbs_wait_for_their_answer_without_an_event_loop() -> None:
    _, server = answered(TENANT)
    with server as at, SyncClient.open(at.url, key="k", user="ana") as client:
        assert client.acting_as(session="s").get_tenant().name == "test"
        with pytest.raises(AttributeError):
            client.no_such_verb()
    _, server = answered(Reply(body='{"a": 1}\n{"b": "\u2028"}\n'.encode()))
    with server as at, SyncClient.open(at.url, key="k") as client:
        assert list(client.export()) == ['{"a": 1}', '{"b": "\u2028"}']
