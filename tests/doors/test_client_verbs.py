"""The client's later verbs, each called through the application and held against what the library says."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from uuid import uuid4

import httpx2
import pytest
from tests.connected import sqlite_of_a_user
from tests.doors.rest_door import Door, open_door
from tests.doors.test_rest_events import served
from tests.patience import PATIENCE

from recordari import NewItem
from recordari.client import Client
from recordari.context.rules.context import SectionName
from recordari.core.identity import tenant_id_of
from recordari.errors import (
    Conflict,
    Forbidden,
    InvalidInput,
    NotFound,
    Overloaded,
    ProviderError,
    TooLarge,
    Unauthenticated,
)
from recordari.events import follow
from recordari.events.rules import Event, EventType
from recordari.kit.resources import Resources
from recordari.lifetime.erase import Reapplied
from recordari.privacy.rules.findings import DataType
from recordari.privacy.rules.masking import Action
from recordari.sessions.rules.window import NewMessage
from recordari.sharing import share
from recordari.sharing.rules import LinkStatus
from recordari.tenants.rules import AgentDefinition

SEPARATORS = "one\u2028two\x85three\x0bfour 😀"  # ends of lines to some, and not to JSON Lines


@asynccontextmanager
async def client_to(door: Door, key: str = "admin") -> AsyncIterator[Client]:
    """A client in this process."""
    transport = httpx2.ASGITransport(app=door.app)
    async with Client("http://127.0.0.1", key=door.keys[key], transport=transport) as client:
        yield client


async def test_a_context_is_the_same_through_both(resources: Resources) -> None:
    async with open_door(resources, rate_limit="") as door, client_to(door) as client:
        await client.save_agent("support", AgentDefinition(core="Be kind"))
        who = {"user": "ana", "agent": "support", "session": "s1"}
        memory, remote = door.memory.acting_as(**who), client.acting_as(**who)
        await remote.remember_fact("Ana prefers tea")
        await remote.add_messages(
            [NewMessage(content=f"Message {number}. " * 30, message_id=f"m{number}") for number in range(20)]
        )
        # How rare words are is counted anew some time after a write: both shall ask after that.
        resources.forget_tenant(memory.identity.tenant_id)
        for render in ("text", "messages", "sections"):
            ours = await remote.get_context("What does Ana drink?", render=render, budget=1500)
            theirs = await memory.get_context("What does Ana drink?", render=render, budget=1500)
            assert ours == theirs
        window = next(one for one in ours.sections if one.name is SectionName.WINDOW)
        assert window.items[-1].ref == "W20", "a message is called after its place in the session"
        assert (await remote.get_context(iterate="never", explain=True)).trace is not None
        with pytest.raises(InvalidInput):
            await remote.get_context("tea", budget=1)


async def test_documents_and_sources_are_the_same_through_both(resources: Resources) -> None:
    async with open_door(resources, rate_limit="", document_max_bytes=50_000) as door, client_to(door) as client:
        memory = door.memory
        source = await client.add_source("handbook", description="How we work")
        assert source == await memory.get_source(source.source_id) == await client.get_source(source.source_id)
        steps: list[tuple[int, int]] = []
        added = await client.add_document(
            "Größe & more.md",
            b"# Returns\n\nParcels come back within 30 days.",
            source=source.source_id,
            metadata={"title": "Returns", "tags": ["é", 1]},
            progress=lambda done, total: steps.append((done, total)),
        )
        assert (added.was_new, added.changed, added.document.name) == (True, True, "Größe & more.md")
        assert steps == [(1, 1)]
        document_id = added.document.document_id
        assert added.document == await memory.get_document(document_id) == await client.get_document(document_id)
        assert await client.read_original(document_id) == await memory.read_original(document_id)
        assert await client.read_document(document_id) == await memory.read_document(document_id)
        again = await memory.add_document(
            "Größe & more.md",
            b"# Returns\n\nParcels come back within 30 days.",
            source="handbook",
            metadata={"title": "Returns", "tags": ["é", 1]},
        )
        assert not again.changed, "the file, its type and its metadata came through as they were"
        plain = await client.add_document("note", text="%PDF- is how such a file begins. " + SEPARATORS)
        assert (plain.document.media_type, plain.document.source) == ("text/plain", "documents")
        assert (await client.add_document("note", text="Another text")).document.revision == 2
        for named in ("handbook", source.source_id):
            assert await client.list_documents(source=named) == [added.document]
            found = await client.search_knowledge("When do parcels come back?", source=named)
            assert found.items == (await memory.search_knowledge("When do parcels come back?", source=named)).items
            assert found.items
        listed = await client.list_documents(limit=1)
        assert listed + await client.list_documents(after=listed[0].document_id) == await memory.list_documents()
        await client.delete_document(plain.document.document_id)

        with pytest.raises(NotFound):
            await client.add_document("a.md", text="text", source=uuid4())
        with pytest.raises(TooLarge):
            await client.add_document("a.md", text="x" * 60_000)
        for bad in ({}, {"text": "a", "data": b"a"}, {"data": b"\x00\x01"}, {"text": " "}, {"text": "a", "source": ""}):
            with pytest.raises(InvalidInput):
                await client.add_document("a", **bad)
        with pytest.raises(InvalidInput):
            await client.add_document("", text="a")
        with pytest.raises(TypeError):
            await client.add_document("a", text="a", titel="misspelt")

        assert await client.protect_source(source.source_id) == 1
        assert await client.list_protected_sources() == await memory.list_protected_sources()
        await client.unprotect_source(source.source_id)
        changed = await client.update_source(source.source_id, description="How we all work")
        assert changed.description == "How we all work"
        assert await client.list_sources() == await memory.list_sources()
        assert await client.list_sources(after="documents") == [changed]
        with pytest.raises(InvalidInput, match="no folder"):
            await client.start_sync(source.source_id)
        assert await client.remove_source(source.source_id) == 1
        with pytest.raises(NotFound):
            await client.remove_source(source.source_id)
        with pytest.raises(NotFound):
            await client.read_original(document_id)


async def test_a_folder_is_synchronised_on_request_though_its_place_stays_hidden(
    resources: Resources, tmp_path: Path
) -> None:
    folder = tmp_path / "docs"
    folder.mkdir()
    async with (
        open_door(resources, rate_limit="", document_folders=[folder]) as door,
        client_to(door) as client,
        client_to(door, "agent") as agent,
    ):
        made = await door.memory.add_source("files", folder=folder)
        job_id = await client.start_sync(made.source_id)
        assert job_id is not None
        assert (await client.get_job(job_id)).job == "sync_source"
        assert await client.start_sync(made.source_id) is None
        assert (await client.get_source(made.source_id)).folder is None
        with pytest.raises(Forbidden):
            await agent.start_sync(made.source_id)
        with pytest.raises(InvalidInput):
            await client.add_source("more", folder=folder)


async def test_an_export_streams_out_of_one_tenant_and_into_another(resources: Resources) -> None:
    async with (
        open_door(resources, rate_limit="") as door,
        client_to(door) as client,
        client_to(door, "other") as other,
        client_to(door, "alice") as alice,
    ):
        chat = client.acting_as(user="alice", session="s1")
        items = [NewItem(content=f"{SEPARATORS} {number}", source_ref=f"m{number}") for number in range(1200)]
        assert sum([len(batch) async for batch in chat.import_items(items)]) == 1200
        lines = [line async for line in client.export()]
        theirs = [line async for line in door.memory.export()]
        assert lines[1:] == theirs[1:]
        assert json.loads(lines[0]).keys() == json.loads(theirs[0]).keys()
        own = [line async for line in alice.export(user_id="alice")]
        assert len(own) > 1200 and json.loads(own[0])["user_id"] == "alice"
        with pytest.raises(Forbidden):
            await anext(alice.export())
        stopped = client.export()
        assert json.loads(await anext(stopped))["format"] == "recordari-export"
        await stopped.aclose()  # type: ignore[attr-defined]  # the library's is an iterator to a type checker

        imported = await other.import_export(f"{line}\n" for line in lines)  # as an open file gives them
        assert imported.written["item"] == 1200
        page = await other.acting_as(user="alice").list_items(limit=1)
        assert page.items[0].content.startswith(SEPARATORS)
        assert (await other.import_export(client.export())).known_items == 1200, "done again it changes nothing"
        with pytest.raises(InvalidInput, match="empty"):
            await other.import_export([])
        broken = [*lines[:3], json.dumps({"type": "item"}), *lines[3:]]
        said = []
        for memory in (door.other, other):
            with pytest.raises(InvalidInput) as refused:
                await memory.import_export(broken)
            said.append(refused.value.details["line"])
        assert said == [4, 4]
        with pytest.raises(Forbidden):
            await alice.import_export(lines)


async def test_an_export_that_breaks_off_is_no_whole_one_and_an_import_is_sent_once() -> None:
    seen = 0

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal seen
        seen += 1
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n7\r\n{"a":1\n\r\n')
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server, Client(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", key="k") as client:
        lines = client.export()
        assert await anext(lines) == '{"a":1'
        with pytest.raises(ProviderError, match="broke"):
            await anext(lines)
        assert seen == 1
        with pytest.raises(ProviderError):
            await client.import_export(["{}"])
        assert seen == 2, "the lines are gone once they are sent"


async def test_over_a_socket_a_refusal_is_told_while_lines_are_still_sent(resources: Resources) -> None:
    async with open_door(resources, rate_limit="") as door, served(door) as address:
        admin, agent = [Client(address, key=door.keys[key]) for key in ("admin", "agent")]
        lines = [json.dumps({"format": "no export of ours", "filling": "x" * 1000})] * 20_000
        async with admin, agent:
            with pytest.raises(Forbidden):
                await agent.import_export(lines)
            with pytest.raises(InvalidInput) as refused:
                await admin.import_export(lines)
            assert refused.value.details["line"] == 1
            await admin.acting_as(session="s1").remember(SEPARATORS)
            first = [line async for line in admin.export()]
            assert first[1:] == [line async for line in door.memory.export()][1:]


async def test_events_are_read_by_the_page_and_followed_as_they_happen(resources: Resources) -> None:
    async with open_door(resources, rate_limit="") as door, served(door) as address:
        client, agent = [Client(address, key=door.keys[key]) for key in ("admin", "agent")]
        async with client, agent:
            chat = client.acting_as(session="s1")
            for number in range(3):
                await chat.remember(f"note {number}")
            await client.acting_as(user="ana").remember_fact("Ana prefers tea")
            told = await client.list_events()
            assert told == await door.memory.list_events() and len(told) == 4
            assert await client.list_events(after=told[1].position, limit=1) == told[2:3]
            assert await client.list_events(types=["item.forgotten"]) == []
            assert await client.list_events(types=["item.forgotten", "item.created"]) == told

            async with aclosing(client.follow_events(after=told[2].position, types=["item.created"])) as events:
                seen: list[Event] = []
                async with asyncio.timeout(PATIENCE):
                    async for event in events:
                        if event is not None:
                            seen.append(event)
                        if len(seen) == 1 and event is not None:
                            added = await chat.remember("one more")
                        if len(seen) == 2:
                            break
            assert seen[0] == told[3]
            assert seen[1].subject_id == added.id
            with pytest.raises(Forbidden):
                await anext(agent.follow_events())
            with pytest.raises(InvalidInput):
                await anext(client.follow_events(types=["no such"]))


async def test_a_follower_that_falls_behind_is_told_so_through_both(
    resources: Resources, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(follow, "MOST_UNREAD", 0)  # whoever does not take an event at once is behind
    async with (
        open_door(resources) as door,
        served(door) as address,
        Client(address, key=door.keys["admin"]) as client,
        aclosing(client.follow_events()) as far,
        aclosing(door.memory.follow_events()) as near,
    ):
        for events in (far, near):
            assert await anext(events) is None
        await door.memory.acting_as(session="s1").remember("one event")
        for events in (far, near):
            with pytest.raises(Overloaded, match="too slowly"):
                async for _ in events:
                    pass


async def test_webhooks_are_the_same_through_both(resources: Resources) -> None:
    async with open_door(resources, rate_limit="") as door, client_to(door) as client:
        made = await client.create_webhook("https://192.0.0.9/hook", types=["item.forgotten"])
        assert made.secret.startswith("whsec_")
        webhook_id = made.webhook.webhook_id
        stands = await door.memory.get_webhook(webhook_id)
        stands = replace(stands, types=tuple(EventType(one) for one in stands.types), secret="")
        assert made.webhook == stands == await client.get_webhook(webhook_id)
        assert [stands] == await client.list_webhooks()
        assert not (await client.set_webhook_active(webhook_id, is_active=False)).is_active
        await client.delete_webhook(webhook_id)
        assert await door.memory.list_webhooks() == []
        with pytest.raises(InvalidInput):
            await client.create_webhook("ftp://192.0.0.9/hook")


async def test_sharing_is_the_same_through_both(resources: Resources) -> None:
    async with (
        open_door(resources, rate_limit="") as door,
        client_to(door) as giver,
        client_to(door, "other") as receiver,
    ):
        for name in ("test", "other"):
            await share.add_member(resources, "acme", name)
        assert await giver.get_organisation() == await door.memory.get_organisation()
        facts = [await giver.remember_fact(f"Project {number} ships in May", scope="tenant") for number in range(3)]
        ids = [fact.id for fact in facts]
        given = await giver.share(ids, ["other"])
        assert [(one.was_new, one.delivered) for one in given] == [(True, False)] * 3
        shares = await giver.list_shares()
        assert shares == await door.memory.list_shares()
        assert shares[0].to_tenant_id == tenant_id_of("other")
        after = (shares[0].item_id, shares[0].to_tenant_id)
        assert await giver.list_shares(before=after, limit=1) == shares[1:2]
        (link,) = await receiver.list_share_links()
        assert [link] == await door.other.list_share_links()
        assert (link.tenant, link.status, link.items) == ("test", LinkStatus.OFFERED, 0)
        accepted = await receiver.accept_share_link("test")
        assert [accepted] == await door.other.list_share_links()
        assert accepted.status is LinkStatus.ACCEPTED
        assert await giver.withdraw(ids[0]) == 1
        declined = await receiver.decline_share_link("test")
        assert (declined.status, declined.from_tenant_id) == (LinkStatus.DECLINED, tenant_id_of("test"))
        with pytest.raises(NotFound):
            await receiver.accept_share_link("no such tenant")


async def test_profiles_are_of_whom_is_named_or_of_who_asks(resources: Resources) -> None:
    async with (
        open_door(resources, rate_limit="") as door,
        client_to(door) as client,
        client_to(door, "alice") as alice,
    ):
        await client.acting_as(user="Ελένη").remember_fact("Eleni plays chess")
        await client.acting_as(agent="support").remember_fact("Refunds need a number", scope="agent")
        await alice.remember_fact("Alice prefers tea")
        known = await client.profile(user="Ελένη")
        assert known == await door.memory.profile(user="Ελένη") == await client.acting_as(user="Ελένη").profile()
        assert known.facts == 1
        support = await client.profile(agent="support")
        assert support == await client.acting_as(agent="support").profile()
        assert "Refunds" in support.content
        assert "tea" in (await alice.profile()).content, "a key of a user says who asks"
        assert (await alice.profile(user="Ελένη")).facts == 0
        with pytest.raises(InvalidInput):
            await client.profile(user="a", agent="b")
        with pytest.raises(InvalidInput):
            await client.profile(user="")
        with pytest.raises(Unauthenticated):
            await client.profile()


async def test_standing_questions_are_the_same_through_both(resources: Resources) -> None:
    async with (
        open_door(resources, rate_limit="") as door,
        client_to(door) as client,
        client_to(door, "alice") as alice,
    ):
        saved = await client.save_question("games", "Which games does this customer play?", agent="club")
        assert [saved] == await door.memory.list_questions() == await client.list_questions()
        await client.delete_question("games", agent="club")
        await client.save_question("games", "Which games does this customer play?")
        await alice.remember_fact("Alice plays chess")
        answer = await alice.standing_answer("games")
        assert answer == await door.memory.standing_answer("games", user="alice")
        assert answer == await client.acting_as(user="alice").standing_answer("games")
        assert answer.content == "Alice plays chess" and len(answer.sources) == 1
        for refused in (alice.save_question("x", "What?"), alice.delete_question("games")):
            with pytest.raises(Forbidden):
                await refused
        with pytest.raises(InvalidInput):
            await client.save_question("x", " ")
        with pytest.raises(NotFound):
            await client.delete_question("x")


async def test_policies_holds_and_erasures_are_the_same_through_both(resources: Resources) -> None:
    async with open_door(resources, rate_limit="") as door, client_to(door) as client:
        memory = door.memory
        assert await client.get_privacy_policy() == await memory.get_privacy_policy()
        policy = await client.set_privacy_policy({"default": "drop", "email": "keep"})
        assert policy == await memory.get_privacy_policy()
        assert (policy.actions[DataType.EMAIL], policy.actions[DataType.PHONE]) == (Action.KEEP, Action.DROP)
        assert not (await client.set_privacy_policy({"enabled": False})).enabled
        for bad in ({"no such": "keep"}, {"email": "burn"}, "keep"):
            with pytest.raises(InvalidInput):
                await client.set_privacy_policy(bad)  # type: ignore[arg-type]  # one is no mapping
        changed = await client.set_retention_policy(deleted_days=7)
        assert changed == await memory.get_retention_policy()
        assert await client.sweep(dry_run=True) == await memory.sweep(dry_run=True)
        assert await client.decay() == await memory.decay()

        kept = await client.acting_as(user="ana").remember_fact("Ana prefers tea")
        there, here = await client.item_forecast(kept.id), await memory.item_forecast(kept.id)
        assert (there.tier, there.accesses, there.retention) == (here.tier, here.accesses, here.retention)
        assert await client.hold(kept.id, "order 7 ä") is True
        assert await client.hold(kept.id, "order 7 ä") is False
        assert await client.list_holds(kept.id) == await memory.list_holds(kept.id)
        with pytest.raises(Conflict):
            await client.forget(kept.id)
        await client.release(kept.id, "order 7 ä")
        assert await client.list_holds(kept.id) == []
        erasure = await client.start_erasing_user("ana")
        assert erasure == replace(await memory.get_erasure(erasure.erasure_id), user_hash=erasure.user_hash)
        assert await client.reapply_erasures() == Reapplied(tombstones=0, items=0, users=1)
        with pytest.raises(InvalidInput):
            await client.reapply_erasures(file=Path("journal"))


async def test_databases_are_the_same_through_both(resources: Resources, tmp_path: Path) -> None:
    sqlite_of_a_user(tmp_path / "shop.db")
    async with open_door(resources, rate_limit="", database_files=tmp_path) as door, client_to(door) as client:
        added = await client.add_database("shop", "sqlite:///shop.db", tables=["orders", "customers"])
        assert added == await door.memory.get_database(added.database_id)
        assert [added] == await client.list_databases() == [await client.get_database(added.database_id)]
        sql = "SELECT status, count(*) AS n FROM orders GROUP BY status ORDER BY status"
        for named in (None, "shop", added.database_id):
            ours = await client.query_data(sql=sql, database=named)
            theirs = await door.memory.query_data(sql=sql, database=named)
            assert (ours.columns, ours.rows, ours.sql) == (theirs.columns, theirs.rows, theirs.sql)
        with pytest.raises(InvalidInput):
            await client.query_data(sql="DROP TABLE orders")
        changed = await client.update_database(added.database_id, tables={"orders": ["id", "status"]})
        assert changed == await door.memory.get_database(added.database_id)
        assert await client.refresh_database(added.database_id) == await door.memory.get_database(added.database_id)
        await client.remove_database(added.database_id)
        with pytest.raises(NotFound):
            await client.query_data(sql=sql, database=added.database_id)


async def test_proposals_are_the_same_through_both(resources: Resources) -> None:
    async with open_door(resources, rate_limit="") as door, client_to(door) as client:
        memory = door.memory
        doubted = await client.acting_as(user="ana").remember_fact("Ana lives in Porto")
        await client.give_feedback(doubted.id, "wrong")
        review = await client.review_memory()
        (proposal,) = await client.list_proposals()
        assert [proposal] == await memory.list_proposals() == [await client.get_proposal(proposal.proposal_id)]
        assert review.proposed == 1
        accepted = await client.accept_proposal(proposal.proposal_id, reason="she moved")
        assert accepted == await memory.get_proposal(proposal.proposal_id)
        undone = await client.undo_proposal(proposal.proposal_id)
        assert undone == await memory.get_proposal(proposal.proposal_id)
        with pytest.raises(Conflict):
            await client.reject_proposal(proposal.proposal_id)
        policy = await client.set_proposal_policy(["merge"])
        assert policy == await memory.get_proposal_policy() == await client.get_proposal_policy()


async def test_what_remains_of_jobs_entries_and_agents_is_the_same_through_both(resources: Resources) -> None:
    async with open_door(resources, rate_limit="") as door, client_to(door) as client:
        memory = door.memory
        place = ("notes", "ana"), "k 1"
        job_id = await client.enqueue_job("measure_usage")
        assert job_id is not None
        assert await client.get_job(job_id) == await memory.get_job(job_id)
        assert await client.memory_stats() == await memory.memory_stats()
        await client.acting_as(user="ana").remember_fact("Ana rows")
        await client.acting_as(user="ana").recall("rows")
        activity = await client.memory_activity(days=1)
        assert activity.days == (await memory.memory_activity(days=1)).days
        assert activity.days[-1].new == {"fact": 1}
        assert activity.recall is not None and activity.recall.p50_ms <= activity.recall.p95_ms
        with pytest.raises(InvalidInput):
            await client.memory_activity(days=0)
        stored = await client.put_entry(*place, {"text": "tea"}, scope="tenant")
        assert (
            stored == await memory.get_entry(*place, scope="tenant") == await client.get_entry(*place, scope="tenant")
        )
        assert await client.list_namespaces(scope="tenant") == await memory.list_namespaces(scope="tenant")
        await client.delete_entry(*place, scope="tenant")
        await client.acting_as(agent="old").remember_fact("Refunds need a number", scope="agent")
        for agent in ("old", "new"):
            await client.save_agent(agent, AgentDefinition())
        assert (await client.copy_memories("old", "new")).items == 1
