"""`Idempotency-Key`: a request that is sent again, even many times at once, is done once and answered alike."""

from __future__ import annotations

import asyncio
import json
import os
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx2
from tests.doors.rest_door import client_of, open_door
from tests.stored import rows

from recordari.config import Settings
from recordari.doors.rest.admission import Admission
from recordari.doors.rest.app import create_app
from recordari.kit.resources import Resources
from recordari.operations import answers

SECRET = "zebrafinches"
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


async def test_a_request_whose_server_died_is_done_by_the_next_one(resources: Resources, settings: Settings) -> None:
    async with open_door(resources) as door:
        sent: dict[str, Any] = {"json": said("42 orders"), "headers": {"Idempotency-Key": "k"}}
        await door.request("POST", "/v1/items", **sent)
        rows(
            settings,
            "UPDATE recordari.answers SET sealed = NULL, claimed_at = now() - interval '2 minutes' RETURNING 1",
        )
        again = await door.request("POST", "/v1/items", **sent)
        assert again.status_code == 201 and "idempotency-replayed" not in again.headers


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
