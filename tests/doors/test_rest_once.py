"""`Idempotency-Key`: a request that is sent again, even many times at once, is done once and answered alike."""

from __future__ import annotations

import asyncio
import json
import os
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx2
import pytest
from tests.doors.rest_door import client_of, open_door
from tests.stored import rows

from recordari.config import Settings
from recordari.db.held import HeldWrites
from recordari.doors.rest.admission import Admission
from recordari.doors.rest.app import create_app
from recordari.errors import DatabaseUnavailable
from recordari.kit.resources import Resources
from recordari.lifetime.erase import run_erasure
from recordari.operations import answers

SECRET = "zebrafinches"
ANA = {"Recordari-User": "ana"}
KEYS = int(os.environ.get("RECORDARI_TEST_KEYS", "30"))  # more, when asked for


def said(content: str) -> dict[str, Any]:
    return {"content": content, "session_id": "chat-1"}


async def test_the_same_request_again_gets_the_same_answer_and_does_nothing(
    resources: Resources, settings: Settings
) -> None:
    async with open_door(resources) as door:
        keyed = {"Idempotency-Key": "order-17"}
        first = await door.request("POST", "/v1/items", json=said("42 orders"), headers=keyed)
        again = await door.request("POST", "/v1/items", json=said("42 orders"), headers=keyed)
        assert (first.status_code, again.status_code) == (201, 201)
        assert first.json() == again.json()
        assert "idempotency-replayed" not in first.headers
        assert again.headers["idempotency-replayed"] == "true"
        assert again.headers["content-type"] == first.headers["content-type"]
        other = await door.request("POST", "/v1/items", json=said("43 orders"), headers=keyed)
        assert (other.status_code, other.json()["code"]) == (409, "conflict")
        elsewhere = await door.request("POST", "/v1/recall", json={"query": "orders"}, headers=keyed)
        assert elsewhere.status_code == 409
        as_another = await door.request("POST", "/v1/items", json=said("42 orders"), headers=keyed, key="agent")
        assert as_another.json()["id"] != first.json()["id"], "a key belongs to the credential that sent it"
        assert rows(settings, "SELECT count(*) AS n FROM recordari.items") == [{"n": 2}]


async def test_what_failed_may_be_sent_again_under_its_key(resources: Resources) -> None:
    async with open_door(resources) as door:
        keyed = {"Idempotency-Key": "k"}
        assert (await door.request("POST", "/v1/items", json={}, headers=keyed)).status_code == 422
        assert (await door.request("POST", "/v1/items", json=said("now right"), headers=keyed)).status_code == 201


async def test_a_key_must_be_one_visible_text(resources: Resources) -> None:
    async with open_door(resources) as door:
        for bad in ("", "x" * 201, "two words"):
            answer = await door.request("POST", "/v1/items", json=said("x"), headers={"Idempotency-Key": bad})
            assert answer.status_code == 422, bad


async def test_many_copies_of_many_requests_at_once_make_one_row_each(resources: Resources, settings: Settings) -> None:
    """Through two applications, as behind a balancer, in an order in which copies of one request meet."""

    def wide() -> Admission:
        return Admission(places=600, queue=400)

    async with open_door(resources, admission=wide(), rate_limit="") as door:
        second = create_app(resources=replace(door.memory.resources), admission=wide())
        async with second.router.lifespan_context(second), client_of(second) as other:
            clients = [door.client, other]
            gate = asyncio.Semaphore(100)

            async def send(number: int, copy: int) -> tuple[int, int, str]:
                async with gate:
                    answer = await clients[copy % 2].post(
                        "/v1/items",
                        json=said(f"order {number}"),
                        headers={
                            "Authorization": f"Bearer {door.keys['admin']}",
                            "Idempotency-Key": f"key-{number}",
                        },
                    )
                    return number, answer.status_code, json.dumps(answer.json(), sort_keys=True)

            done = await asyncio.gather(*(send(number, copy) for number in range(KEYS) for copy in range(50)))
    assert {status for _, status, _ in done} == {201}
    answers: dict[int, set[str]] = {}
    for number, _, answer in done:
        answers.setdefault(number, set()).add(answer)
    assert {len(given) for given in answers.values()} == {1}
    assert rows(settings, "SELECT count(*) AS n FROM recordari.items") == [{"n": KEYS}]


async def test_a_request_that_was_cut_off_left_nothing_and_is_done_by_the_next_one(
    resources: Resources, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It stops between its writes and the commit with the answer, where the server may die."""
    async with open_door(resources) as door:
        sent: dict[str, Any] = {"json": said("42 orders"), "headers": {"Idempotency-Key": "k"}}
        with monkeypatch.context() as patched:
            patched.setattr(HeldWrites, "keep", _cut_off)
            assert (await door.request("POST", "/v1/items", **sent)).status_code == 503
        assert rows(settings, "SELECT 1 AS n FROM recordari.items") == []
        again = await door.request("POST", "/v1/items", **sent)
        assert again.status_code == 201 and "idempotency-replayed" not in again.headers


async def test_a_commit_whose_end_was_not_seen_is_answered_from_what_was_kept(
    resources: Resources, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_door(resources) as door:
        keep = HeldWrites.keep

        async def lost(self: HeldWrites, *arguments: Any) -> bool:
            await keep(self, *arguments)
            raise DatabaseUnavailable

        monkeypatch.setattr(HeldWrites, "keep", lost)
        answer = await door.request("POST", "/v1/items", json=said("42 orders"), headers={"Idempotency-Key": "k"})
        assert answer.status_code == 201
        assert rows(settings, "SELECT count(*) AS n FROM recordari.items") == [{"n": 1}]


async def _cut_off(*_: object) -> bool:
    raise DatabaseUnavailable


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/items", {"content": "a small note", "session_id": "s"}),
        ("/v1/items/batch", {"items": [{"content": f"note {n}", "session_id": "s"} for n in range(3)]}),
        ("/v1/remember_fact", {"content": "Ana lives in Porto"}),
        ("/v1/sessions/s/messages", {"messages": [{"content": "hello"}, {"content": "again"}]}),
        ("/v1/sessions/s/notes", {"content": "remember this"}),
        ("/v1/runs", {"session_id": "s"}),
        ("/v1/keys", {"name": "laptop", "role": "agent"}),
        ("/v1/sources", {"name": "handbook"}),
    ],
)
async def test_every_kind_of_write_is_undone_when_its_answer_cannot_be_kept(
    resources: Resources, settings: Settings, monkeypatch: pytest.MonkeyPatch, path: str, body: dict[str, Any]
) -> None:
    """A row without its answer would be written twice by the next try."""
    async with open_door(resources) as door:
        headers = {"Idempotency-Key": "k", "Recordari-Agent": "helper", "Recordari-User": "ana"}
        await door.request("POST", "/v1/sessions", json={"session_id": "s"}, headers=headers | {"Idempotency-Key": "0"})
        before = _counts(settings)
        with monkeypatch.context() as patched:
            patched.setattr(HeldWrites, "keep", _cut_off)
            assert (await door.request("POST", path, json=body, headers=headers)).status_code == 503
        assert _counts(settings) == before
        first = await door.request("POST", path, json=body, headers=headers)
        after = _counts(settings)
        again = await door.request("POST", path, json=body, headers=headers)
        assert first.is_success and again.json() == first.json() and after != before
        assert again.headers["idempotency-replayed"] == "true" and _counts(settings) == after


def _counts(settings: Settings) -> dict[str, int]:
    names = ("items", "sessions", "notes", "runs", "api_keys", "sources", "outbox", "audit")
    tables = {name: "recordari_queue" if name == "outbox" else "recordari" for name in names}
    counts = ", ".join(f"(SELECT count(*) FROM {schema}.{name}) AS {name}" for name, schema in tables.items())
    (row,) = rows(settings, f"SELECT {counts}")
    return row


async def test_what_only_reads_keeps_no_answer(resources: Resources, settings: Settings) -> None:
    async with open_door(resources) as door:
        fact = {"content": f"Ana keeps {SECRET}"}
        item = (await door.request("POST", "/v1/remember_fact", json=fact, headers=ANA)).json()
        asked: dict[str, Any] = {
            "json": {"query": f"What is with {SECRET}?"},
            "headers": {"Idempotency-Key": "k", **ANA},
        }
        assert item["id"] in (await door.request("POST", "/v1/recall", **asked)).text
        assert rows(settings, "SELECT 1 AS n FROM recordari.answers") == []
        await door.request("POST", f"/v1/items/{item['id']}/forget", headers=ANA)
        assert item["id"] not in (await door.request("POST", "/v1/recall", **asked)).text


async def test_an_answer_goes_with_what_it_shows_and_its_request_is_not_done_again(
    resources: Resources, settings: Settings
) -> None:
    async with open_door(resources) as door:
        edit: dict[str, Any] = {
            "json": {"content": f"Ana keeps {SECRET}"},
            "headers": {"Idempotency-Key": "fact", **ANA},
        }
        fact = (await door.request("POST", "/v1/remember_fact", **edit)).json()
        other: dict[str, Any] = {"json": said("42 orders"), "headers": {"Idempotency-Key": "other"}}
        await door.request("POST", "/v1/items", **other)
        await door.request("POST", f"/v1/items/{fact['id']}/forget", headers={"Idempotency-Key": "forget", **ANA})
        again = await door.request("POST", "/v1/remember_fact", **edit)
        assert again.status_code == 409 and "forgotten" in again.text and SECRET not in again.text
        assert rows(settings, "SELECT shows FROM recordari.answers WHERE sealed IS NULL") == [{"shows": []}]
        assert (await door.request("POST", "/v1/items", **other)).status_code == 201, "others keep their answers"


async def test_the_answer_that_shows_a_note_goes_with_the_note(resources: Resources) -> None:
    async with open_door(resources) as door:
        await door.request("POST", "/v1/sessions", json={"session_id": "s1"}, headers=ANA)
        notes = "/v1/sessions/s1/notes"
        keyed: dict[str, Any] = {"json": {"content": f"call {SECRET}"}, "headers": {"Idempotency-Key": "note", **ANA}}
        note = (await door.request("POST", notes, **keyed)).json()
        assert SECRET in (await door.request("POST", notes, **keyed)).text
        assert (await door.request("DELETE", f"{notes}/{note['note_id']}", headers=ANA)).status_code == 204
        again = await door.request("POST", notes, **keyed)
        assert again.status_code == 409 and SECRET not in again.text
        assert (await door.request("GET", notes, headers=ANA)).json()["items"] == []


async def test_the_answers_of_an_erased_user_are_gone(resources: Resources, settings: Settings) -> None:
    async with open_door(resources) as door:
        run = {"run_id": "r1", "session_id": "s1", "input": {"goal": SECRET}}
        for user in ("ana", "ben"):
            keyed = {"Idempotency-Key": user, "Recordari-Agent": "helper", "Recordari-User": user}
            made = run | {"run_id": f"r-{user}", "session_id": f"s-{user}"}
            assert (await door.request("POST", "/v1/runs", json=made, headers=keyed)).is_success
        erasing = await door.request("POST", "/v1/erasures", json={"user_id": "ana"})
        await run_erasure(resources, door.memory.identity, erasure_id=erasing.json()["erasure_id"])
        keyed = {"Idempotency-Key": "ana", "Recordari-Agent": "helper", "Recordari-User": "ana"}
        made = run | {"run_id": "r-ana", "session_id": "s-ana"}
        again = await door.request("POST", "/v1/runs", json=made, headers=keyed)
        assert again.status_code == 409 and SECRET not in again.text
        kept = rows(settings, "SELECT shows FROM recordari.answers WHERE sealed IS NOT NULL")
        assert len(kept) == 1 and "ana" not in kept[0]["shows"]


async def test_answers_stand_encrypted_and_go_after_a_day(resources: Resources, settings: Settings) -> None:
    async with open_door(resources) as door:
        run = {"run_id": "r1", "session_id": "s1", "input": {"goal": SECRET}}
        keyed = {"Idempotency-Key": "k", "Recordari-Agent": "helper"}
        answer = await door.request("POST", "/v1/runs", json=run, headers=keyed)
        assert SECRET in answer.text
        (stored,) = rows(settings, "SELECT * FROM recordari.answers")
        assert SECRET.encode() not in stored["sealed"] and stored["sealed"]
        identity = door.memory.identity
        assert await answers.sweep_answers(resources, identity) == 0
        later = replace(resources, clock=lambda: datetime.now(UTC) + timedelta(hours=24, seconds=1))
        assert await answers.sweep_answers(later, identity) == 1


async def test_an_answer_without_a_body_is_given_again_too(resources: Resources) -> None:
    async with open_door(resources) as door:
        item = (await door.request("POST", "/v1/items", json=said("42 orders"))).json()
        path = f"/v1/items/{item['id']}/invalidate"
        answers: list[httpx2.Response] = [
            await door.request("POST", path, headers={"Idempotency-Key": "k"}) for _ in range(2)
        ]
        assert [answer.status_code for answer in answers] == [204, 204]
        assert answers[1].headers["idempotency-replayed"] == "true"
