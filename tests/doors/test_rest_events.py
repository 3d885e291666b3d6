"""The feed of changes page by page and as server-sent events, job progress, and signed webhooks to a real server."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import json
import socket
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, aclosing, asynccontextmanager, contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import httpx2
import pytest
import uvicorn
from tests.doors.rest_door import Door, open_door
from tests.patience import PATIENCE, until

from recordari.app import Memory
from recordari.core.items import NewItem
from recordari.db import outbox
from recordari.db.queries import Query
from recordari.errors import InvalidInput
from recordari.events import follow, webhooks
from recordari.kit.resources import Resources
from recordari.memory import remember
from recordari.runner import background_worker
from recordari.worker.dispatch import Pace

# -- The feed


async def feed(door: Door, **query: Any) -> list[tuple[str, str]]:
    answer = await door.request("GET", "/v1/events", params=query)
    assert answer.status_code == 200, answer.text
    return [(event["type"], event["subject_id"]) for event in answer.json()["items"]]


async def test_the_feed_tells_by_id_and_type_what_happened_to_items(resources: Resources) -> None:
    async with open_door(resources) as door:
        chat = door.memory.acting_as(user="ana", agent="helper", session="chat-1")
        fact = await chat.remember_fact("Ana keeps zebrafinches")
        edited = await chat.edit_item(fact.id, "Ana keeps canaries")
        await chat.invalidate_item(edited.id)
        await chat.restore_item(edited.id)
        await chat.forget(edited.id)
        await door.memory.erase_user("ana")
        answer = await door.request("GET", "/v1/events")
        assert "zebrafinches" not in answer.text and "ana" not in answer.text
        told = [(event["type"], event["subject_id"]) for event in answer.json()["items"]]
        old, new = str(fact.id), str(edited.id)
        assert told[:6] == [
            ("item.created", old),
            ("item.created", new),
            ("item.superseded", old),
            ("item.invalidated", new),
            ("item.restored", new),
            ("item.forgotten", new),
        ]
        assert [kind for kind, _ in told[6:]] == ["item.forgotten", "user.erased"]
        assert await feed(door, types="user.erased") == told[-1:]
        assert [event["position"] for event in answer.json()["items"]] == list(range(1, 9))


async def test_the_feed_is_read_page_by_page_and_taken_up_again(resources: Resources) -> None:
    async with open_door(resources) as door:
        chat = door.memory.acting_as(session="chat-1")
        made = [str((await chat.remember(f"note {number}")).id) for number in range(5)]
        seen: list[str] = []
        cursor = None
        while True:
            page = (
                await door.request("GET", "/v1/events", params={"limit": 2, **({"cursor": cursor} if cursor else {})})
            ).json()
            seen += [event["subject_id"] for event in page["items"]]
            cursor = page["next_cursor"]
            if cursor is None:
                break
        assert seen == made
        more = str((await chat.remember("one more")).id)
        assert await feed(door, after=5) == [("item.created", more)]


async def test_the_feed_belongs_to_its_tenant_and_to_administrators(resources: Resources) -> None:
    async with open_door(resources) as door:
        await door.memory.acting_as(session="chat-1").remember("a note")
        assert (await door.request("GET", "/v1/events", key="other")).json()["items"] == []
        assert (await door.request("GET", "/v1/events", key="agent")).status_code == 403
        acting = {"Recordari-User": "ana"}
        assert (await door.request("GET", "/v1/events", headers=acting)).status_code == 422
        for bad in ("x", "-1", "1" * 30):
            headers = {"Accept": "text/event-stream", "Last-Event-ID": bad}
            assert (await door.request("GET", "/v1/events", headers=headers)).status_code == 422


async def test_what_commits_late_comes_later_and_no_reader_misses_it(memory: Memory) -> None:
    resources, identity = memory.resources, memory.identity
    chat = memory.acting_as(session="chat-1")
    ready = await remember.make_ready(resources, chat.identity, [NewItem(content="begun first")])
    async with resources.database.transaction(chat.identity) as tx:
        (late,), _ = await remember.save_ready(tx, ready)
        # In another session: who writes to the same one waits until the first has committed.
        early = await memory.acting_as(session="chat-2").remember("committed first")
        (first,) = await follow.list_events(resources, identity)
        assert first.subject_id == early.id
    (second,) = await follow.list_events(resources, identity, after=first.position)
    assert second.subject_id == late.id


async def test_events_go_after_some_days_and_positions_go_on(memory: Memory) -> None:
    chat = memory.acting_as(session="chat-1")
    await chat.remember("one")
    (one,) = await memory.list_events()
    later = replace(memory.resources, clock=lambda: datetime.now(UTC) + timedelta(days=8))
    assert await follow.trim_events(later, memory.identity) == 1
    await chat.remember("two")
    (two,) = await memory.list_events(after=one.position)
    assert two.position == one.position + 1


# -- Streams, over a real socket


@asynccontextmanager
async def served(door: Door) -> AsyncIterator[str]:
    listening = socket.create_server(("127.0.0.1", 0))  # whoever comes early waits
    server = uvicorn.Server(uvicorn.Config(door.app, lifespan="off", log_config=None, timeout_graceful_shutdown=1))
    serving = asyncio.create_task(server.serve(sockets=[listening]))
    try:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    finally:
        server.should_exit = True
        await serving


@asynccontextmanager
async def stream(url: str, path: str, key: str, **headers: str) -> AsyncIterator[AsyncIterator[dict[str, str]]]:
    sent = {"Authorization": f"Bearer {key}", "Accept": "text/event-stream", **headers}
    async with (
        httpx2.AsyncClient(timeout=PATIENCE) as client,
        client.stream("GET", f"{url}{path}", headers=sent) as answer,
    ):
        assert answer.status_code == 200
        assert answer.headers["content-type"].startswith("text/event-stream")

        async def events() -> AsyncIterator[dict[str, str]]:
            event: dict[str, str] = {}
            async for line in answer.aiter_lines():
                name, _, value = line.partition(": ")
                if not line and event:
                    yield event
                    event = {}
                elif name:
                    event[name] = value

        yield events()


async def test_a_stream_tells_what_happens_and_is_taken_up_by_its_last_id(resources: Resources) -> None:
    async with open_door(resources) as door, served(door) as url:
        chat = door.memory.acting_as(session="chat-1")
        await chat.remember("before anybody listened")
        async with stream(url, "/v1/events", door.keys["admin"]) as told:
            first = await chat.remember("heard")
            heard = await anext(told)
            assert (heard["event"], json.loads(heard["data"])["subject_id"]) == ("item.created", str(first.id))
        missed = await chat.remember("said while nobody listened")
        last = {"Last-Event-ID": heard["id"]}
        async with stream(url, "/v1/events", door.keys["admin"], **last) as told:
            assert json.loads((await anext(told))["data"])["subject_id"] == str(missed.id)


async def test_a_job_is_followed_until_it_is_over(resources: Resources) -> None:
    async with open_door(resources) as door, served(door) as url:
        started = (await door.request("POST", "/v1/jobs", json={"job": "measure_usage"})).json()
        assert (await door.request("GET", f"/v1/jobs/{started['job_id']}")).json()["status"] == "todo"
        async with stream(url, f"/v1/jobs/{started['job_id']}", door.keys["admin"]) as told:
            states = [json.loads((await anext(told))["data"])["status"]]
            async with background_worker(resources):
                states += [json.loads(event["data"])["status"] async for event in told]
        assert states[0] == "todo" and states[-1] == "succeeded"


async def test_one_reader_feeds_every_listener_and_each_hears_what_it_asked_for(resources: Resources) -> None:
    listeners = 240
    async with open_door(resources, rate_limit="") as door, served(door) as url, AsyncExitStack() as stack:
        followed = [
            await stack.enter_async_context(stream(url, f"/v1/events{query}", door.keys["admin"]))
            for query in ("", "?types=item.forgotten") * (listeners // 2)
        ]
        foreign = await stack.enter_async_context(stream(url, "/v1/events", door.keys["other"]))
        figures = (await door.request("GET", "/metrics", key=None)).text
        assert 'recordari_feed{state="readers"} 2.0' in figures
        assert f'recordari_feed{{state="listeners"}} {listeners + 1}.0' in figures
        chat = door.memory.acting_as(session="chat-1")
        note = await chat.remember("heard")
        await chat.forget(note.id)
        heard = [json.loads((await anext(told))["data"])["type"] for told in followed]
        assert heard == ["item.created", "item.forgotten"] * (listeners // 2)
        theirs = await door.other.acting_as(session="chat-1").remember("of another tenant")
        assert json.loads((await anext(foreign))["data"])["subject_id"] == str(theirs.id)


async def test_the_reader_ends_with_its_last_listener_and_begins_again(memory: Memory) -> None:
    feeds = memory.resources.get(follow.Feeds)
    chat = memory.acting_as(session="chat-1")
    for number in range(2):
        async with aclosing(memory.follow_events()) as events:
            assert await anext(events) is None
            note = await chat.remember(f"note {number}")
            told = await anext(event async for event in events if event is not None)
            assert told.subject_id == note.id
        await until(lambda: feeds.figures() == {"readers": 0, "listeners": 0})


async def test_a_follower_from_a_position_misses_nothing_and_hears_nothing_twice(memory: Memory) -> None:
    chat = memory.acting_as(session="chat-1")
    before = [await chat.remember(f"before {number}") for number in range(5)]
    async with aclosing(memory.follow_events()) as first, aclosing(memory.follow_events(after=2)) as second:
        await anext(first)
        await anext(second)
        after = [await chat.remember(f"after {number}") for number in range(3)]
        heard = []
        async for event in second:
            heard += [event.subject_id] if event is not None else []
            if len(heard) == 6:
                break
        assert heard == [note.id for note in [*before[2:], *after]]


async def test_a_slow_listener_is_ended_with_a_word_and_a_fast_one_is_not(
    resources: Resources, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(follow, "MOST_UNREAD", 5)
    async with open_door(resources) as door, aclosing(door.memory.follow_events()) as fast:
        reads, sent = asyncio.Event(), []
        reads.set()

        async def send(message: Any) -> None:
            sent.append(message.get("body", b"").decode())
            await reads.wait()  # as a connection does whose client reads nothing

        request = iter([{"type": "http.request", "body": b"", "more_body": False}])

        async def receive() -> Any:
            return next(request, None) or await asyncio.Event().wait()

        headers = {"host": "localhost", "authorization": f"Bearer {door.keys['admin']}", "accept": "text/event-stream"}
        scope = {
            "type": "http",
            "method": "GET",
            "path": "/v1/events",
            "raw_path": b"/v1/events",
            "query_string": b"",
            "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
            "asgi": {"version": "3.0", "spec_version": "2.4"},
        }
        slow = asyncio.create_task(door.app(scope, receive, send))
        await until(lambda: ": recordari" in "".join(sent))
        await anext(fast)
        reads.clear()
        chat = door.memory.acting_as(session="chat-1")
        told = []
        for number in range(12):
            note = await chat.remember(f"note {number}")
            told.append(await anext(event.subject_id async for event in fast if event is not None))
            assert told[-1] == note.id, "the fast one hears everything"
        reads.set()
        await slow
        heard, _, last = "".join(sent).partition("event: end\n")
        assert heard.count("event: item.created") < 12
        assert "follow it again after the last position" in last
        position = int(heard.rpartition("id: ")[2].partition("\n")[0])
        missed = await feed(door, after=position)
        assert [one for _, one in missed] == [str(one) for one in told[position:]], "and nothing is lost"


# -- Webhooks


@dataclass(kw_only=True)
class Receiver:
    """A server that takes deliveries, and answers as it is told."""

    url: str
    status: int = 200
    location: str | None = None
    requests: list[tuple[dict[str, str], bytes]] = field(default_factory=list)

    def events(self) -> list[dict[str, Any]]:
        return [event for _, body in self.requests for event in json.loads(body)["events"]]


@contextmanager
def receiver() -> Iterator[Receiver]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            taken.requests.append(({name.lower(): value for name, value in self.headers.items()}, body))
            self.send_response(taken.status)
            if taken.location:
                self.send_header("Location", taken.location)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name of the base class
            """Keep quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    taken = Receiver(url=f"http://127.0.0.1:{server.server_port}/hook")
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield taken
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def allowing(memory: Memory, pace: Pace | None = None, *, private: bool = True) -> Memory:
    settings = memory.resources.settings.model_copy(update={"allow_private_addresses": ["webhooks"] if private else []})
    resources = replace(memory.resources, settings=settings)
    return Memory(resources.replacing(Pace, pace or Pace()), memory.identity)


async def test_a_webhook_is_told_in_order_and_can_prove_who_speaks(memory: Memory) -> None:
    memory = allowing(memory)
    chat = memory.acting_as(session="chat-1")
    await chat.remember("before there was a webhook")
    with receiver() as taken:
        made = await memory.create_webhook(taken.url, types=["item.created", "item.forgotten"])
        async with background_worker(memory.resources):
            notes = [await chat.remember(f"note {number}") for number in range(3)]
            await chat.invalidate_item(notes[0].id)
            await chat.forget(notes[1].id)
            await until(lambda: len(taken.events()) >= 4)
        told = [(event["type"], event["subject_id"]) for event in taken.events()]
        assert told == [*(("item.created", str(note.id)) for note in notes), ("item.forgotten", str(notes[1].id))]
        headers, body = taken.requests[0]
        signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
        key = base64.b64decode(made.secret.removeprefix("whsec_"))
        expected = base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
        assert headers["webhook-signature"] == f"v1,{expected}"
        assert headers["host"] == taken.url.split("/")[2]
        assert b"note" not in body
        assert len({each["webhook-id"] for each, _ in taken.requests}) == len(taken.requests)


async def test_what_changes_many_items_at_once_wakes_a_webhook_once_and_it_hears_of_each(memory: Memory) -> None:
    memory = allowing(memory)
    chat = memory.acting_as(user="ana", session="chat-1")
    notes = [await chat.remember(f"note {number}") for number in range(20)]
    with receiver() as taken:
        await memory.create_webhook(taken.url, types=["item.forgotten"])
        await memory.create_webhook(taken.url, types=["user.erased"])
        await memory.erase_user("ana")
        async with memory.resources.database.transaction(memory.identity) as tx:
            assert await outbox.pending(tx, "webhook") == 2
        async with background_worker(memory.resources):
            await until(lambda: len(taken.events()) > len(notes))
    assert sorted(event["type"] for event in taken.events()) == ["item.forgotten"] * len(notes) + ["user.erased"]


async def test_an_outage_loses_nothing_and_is_visible(memory: Memory) -> None:
    memory = allowing(memory, Pace(retry_seconds=0.05, tick=0.1))
    chat = memory.acting_as(session="chat-1")
    with receiver() as taken:
        taken.status = 503
        made = await memory.create_webhook(taken.url)
        async with background_worker(memory.resources):
            first = await chat.remember("one")
            await until(lambda: len(taken.requests) >= 2)
            failing = await memory.get_webhook(made.webhook.webhook_id)
            assert failing.failures >= 1 and failing.failing_since is not None
            assert failing.last_error == "the webhook answered HTTP 503"
            second = await chat.remember("two")
            taken.requests.clear()
            taken.status = 204

            async def is_fine() -> bool:
                return (await memory.get_webhook(made.webhook.webhook_id)).failures == 0

            await until(lambda: str(second.id) in str(taken.events()))
            await until(is_fine)
        assert [event["subject_id"] for event in taken.events()][-2:] == [str(first.id), str(second.id)]
        fine = await memory.get_webhook(made.webhook.webhook_id)
        assert (fine.failing_since, fine.last_error) == (None, None)


async def test_a_webhook_that_is_given_up_is_a_dead_letter_and_can_be_replayed(memory: Memory) -> None:
    once = Pace(retry_seconds=0.01, max_attempts=1)
    allowed, refused = allowing(memory, once), allowing(memory, once, private=False)
    chat = memory.acting_as(session="chat-1")
    with receiver() as taken:
        await allowed.create_webhook(taken.url)
        async with background_worker(refused.resources):
            kept = await chat.remember("one")
            await until(memory.list_dead_letters)
        letters = await memory.list_dead_letters()
        assert [letter.name for letter in letters] == ["webhook"] and taken.requests == []
        await memory.replay_dead_letter(letters[0].dead_letter_id)
        async with background_worker(allowed.resources):
            await until(lambda: taken.requests)
        assert [event["subject_id"] for event in taken.events()] == [str(kept.id)]


async def test_a_redirect_is_not_followed(memory: Memory) -> None:
    memory = allowing(memory, Pace(retry_seconds=0.05, tick=0.1))
    with receiver() as trap, receiver() as taken:
        taken.status, taken.location = 307, trap.url
        await memory.create_webhook(taken.url)
        async with background_worker(memory.resources):
            await memory.acting_as(session="chat-1").remember("one")
            await until(lambda: len(taken.requests) >= 2)
        assert trap.requests == []


async def test_a_webhook_is_switched_off_and_hears_of_everything_when_it_is_on_again(memory: Memory) -> None:
    memory = allowing(memory)
    chat = memory.acting_as(session="chat-1")
    with receiver() as taken:
        webhook_id = (await memory.create_webhook(taken.url)).webhook.webhook_id
        await memory.set_webhook_active(webhook_id, is_active=False)
        kept = [await chat.remember(f"note {number}") for number in range(130)]
        async with background_worker(memory.resources):
            await memory.set_webhook_active(webhook_id, is_active=True)
            await until(lambda: len(taken.events()) >= 130)
        assert [event["subject_id"] for event in taken.events()] == [str(note.id) for note in kept]
        assert len(taken.requests) == 2
        await memory.delete_webhook(webhook_id)
        assert await memory.list_webhooks() == []


async def test_a_webhook_that_a_crash_left_behind_is_woken_by_the_hourly_job(memory: Memory) -> None:
    memory = allowing(memory)
    with receiver() as taken:
        await memory.create_webhook(taken.url)
        await memory.acting_as(session="chat-1").remember("one")
        lose = Query("tests.lose", "What a crash does.", "DELETE FROM outbox WHERE topic = 'webhook'")
        async with memory.resources.database.queue() as rows:
            assert await rows.run(lose) == 1
        await webhooks.resume_webhooks(memory.resources, memory.identity)
        async with background_worker(memory.resources):
            await until(lambda: taken.requests)


async def test_the_secret_is_shown_once_and_stands_encrypted(resources: Resources) -> None:
    async with open_door(resources, allow_private_addresses=["webhooks"]) as door:
        made = await door.request("POST", "/v1/webhooks", json={"url": "http://127.0.0.1:9/x"})
        assert made.status_code == 201
        secret, webhook_id = made.json()["secret"], made.json()["webhook"]["webhook_id"]
        for path in ("/v1/webhooks", f"/v1/webhooks/{webhook_id}", "/v1/audit"):
            assert secret not in (await door.request("GET", path)).text
        (kept,) = await door.memory.list_webhooks()
        assert secret not in kept.secret and kept.secret.startswith("v1:")
        assert (
            await door.request("POST", "/v1/webhooks", json={"url": "http://127.0.0.1:9/x"}, key="agent")
        ).status_code == 403
        key = resources.settings.home / "secret.key"
        assert key.stat().st_mode & 0o777 == 0o600


INSIDE_OR_BROKEN = [
    "http://127.0.0.1/x",
    "http://localhost:8080/x",
    "http://[::1]/x",
    "http://10.0.0.7/x",
    "http://192.168.1.1/x",
    "http://169.254.169.254/latest/meta-data",
    "http://[::ffff:127.0.0.1]/x",
    "http://[fe80::1]/x",
    "http://[fd00::1]/x",
    "http://0.0.0.0/x",
    "http://2130706433/x",
    "http://0x7f.1/x",
    "http://100.64.0.1/x",
    "http://224.0.0.1/x",
    "http://[64:ff9b::7f00:1]/x",
    "http://[2002:7f00:1::]/x",
    "ftp://example.org/x",
    "file:///etc/passwd",
    "http://user:password@192.0.0.9/x",
    "http://192.0.0.9:99999/x",
    "http://",
    "nonsense",
    "http://192.0.0.9/\r\nX: y",
]


async def test_an_address_inside_or_a_broken_one_is_refused(memory: Memory) -> None:
    for url in INSIDE_OR_BROKEN:
        with pytest.raises(InvalidInput):
            await memory.create_webhook(url)
    assert await memory.list_webhooks() == []


async def test_the_address_is_looked_up_again_and_checked_at_each_delivery(
    memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A name that is public when it is registered and private later (DNS rebinding) is not posted to."""
    loop = asyncio.get_running_loop()
    answers = iter(["192.0.0.9", "127.0.0.1"])

    async def lookup(*_: Any, **__: Any) -> list[Any]:
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (next(answers), 80))]

    with receiver() as taken:
        url = taken.url.replace("127.0.0.1", "rebinding.example")
        monkeypatch.setattr(loop, "getaddrinfo", lookup)
        await memory.create_webhook(url)
        with pytest.raises(InvalidInput):
            await webhooks.post(url, b"{}", {}, allow_private=False)
        assert taken.requests == []
