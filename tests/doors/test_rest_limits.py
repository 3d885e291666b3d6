"""What a request may not do: be too large, too deep, too many, too slow, or unreadable."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from starlette.responses import StreamingResponse
from tests.doors.rest_door import Door, open_door
from tests.patience import until

from recordari.core.identity import tenant_id_of
from recordari.doors.rest.admission import REFUSALS_A_SECOND, Admission
from recordari.doors.rest.limits import MAX_JSON_DEPTH, RateLimit
from recordari.errors import ConfigurationError, Overloaded
from recordari.kit.resources import Resources
from recordari.kit.rest import AgentCaller

JSON = {"Content-Type": "application/json"}
A, B, C = tenant_id_of("a"), tenant_id_of("b"), tenant_id_of("c")


async def settle() -> None:
    """Let every task run until it waits for something."""
    for _ in range(20):
        await asyncio.sleep(0)


async def put_user(door: Door, content: Any, **headers: str) -> tuple[int, str]:
    answer = await door.request("PUT", "/v1/users/ann", content=content, headers=JSON | headers)
    assert answer.headers["content-type"].startswith(("application/json", "application/problem+json"))
    return answer.status_code, answer.json().get("code", "ok")


async def test_a_body_over_the_limit_is_refused_declared_or_streamed(resources: Resources) -> None:
    async with open_door(resources, max_body_bytes=2048) as door:
        fitting = b'{"display_name":"' + b"x" * 100 + b'"}'
        assert await put_user(door, fitting) == (200, "ok")
        assert await put_user(door, b" " * 2049) == (413, "too_large")

        async def streamed() -> AsyncIterator[bytes]:
            for _ in range(5):
                yield b" " * 500

        assert await put_user(door, streamed()) == (413, "too_large")
        assert await put_user(door, b"", **{"Content-Length": "9" * 40}) == (413, "too_large")


async def test_deep_json_is_refused_and_brackets_in_text_do_not_count(resources: Resources) -> None:
    async with open_door(resources) as door:
        deep = '{"settings":{"a":' + "[" * (MAX_JSON_DEPTH - 1) + "]" * (MAX_JSON_DEPTH - 1) + "}}"
        shallow = '{"settings":{"a":' + "[" * (MAX_JSON_DEPTH - 2) + "]" * (MAX_JSON_DEPTH - 2) + "}}"
        text = '{"settings":{"a":"' + "[" * 5000 + '\\"' + "{" * 5000 + '"}}'
        for content, status in (
            (deep, 422),
            (shallow, 200),
            (text, 200),
            ("[" * 100_000, 422),
            ("]" * 99, 422),
        ):
            answer = await door.request("PATCH", "/v1/tenant", content=content.encode(), headers=JSON)
            assert answer.status_code == status, content[:40]


@pytest.mark.parametrize(
    "content",
    [
        b"{",
        b"nonsense",
        b'{"display_name": "\xff\xfe"}',
        '{"display_name": "x"}'.encode("utf-16"),
        b'{"display_name": "a\\u0000b"}',
        b'{"display_name": "a\x00b"}',
        b'{"display_name": "\\ud800"}',
        b'{"display_name": "\\udc00\\ud800"}',
        b'{"display_name": "\\u12"}',
        b'{"display_name": NaN}',
        b'{"display_name": ' + b"9" * 5000 + b"}",
        b"[]",
        b"null",
        b'"text"',
        b"",
    ],
    ids=lambda content: repr(content[:28]),
)
async def test_a_body_that_cannot_be_read_is_a_422(resources: Resources, content: bytes) -> None:
    async with open_door(resources) as door:
        assert await put_user(door, content) == (422, "invalid_input")


@pytest.mark.parametrize(
    "value", ["NaN", "Infinity", "-Infinity", "1e999", "-1E+400", "9" * 500, '"\\u0000"', '"\\uDfff"']
)
async def test_values_that_the_database_cannot_hold_are_refused_at_any_depth(resources: Resources, value: str) -> None:
    async with open_door(resources) as door:
        content = '{"settings":{"a":[{"b":' + value + "}]}}"
        answer = await door.request("PATCH", "/v1/tenant", content=content.encode(), headers=JSON)
        assert (answer.status_code, answer.json()["code"]) == (422, "invalid_input")


async def test_odd_but_valid_text_and_numbers_come_back_as_sent(resources: Resources) -> None:
    async with open_door(resources) as door:
        content = rb'{"settings":{"a":["\\u0000 NaN 1e999 \ud83d\ude00","\u00e9",1e-7,2.5e3,9007199254740993,[]]}}'
        answer = await door.request("PATCH", "/v1/tenant", content=content, headers=JSON)
        expected = ["\\u0000 NaN 1e999 \U0001f600", "é", 1e-7, 2500, 9007199254740993, []]
        assert answer.json()["settings"]["a"] == expected


async def test_a_second_content_type_does_not_get_a_body_past_the_checks(resources: Resources) -> None:
    async with open_door(resources) as door:
        headers = [
            ("Authorization", f"Bearer {door.keys['admin']}"),
            ("Content-Type", "application/json"),
            ("Content-Type", "text/plain"),
        ]
        answer = await door.client.put("/v1/users/ann", content=b'{"display_name":"\\ud800"}', headers=headers)
        assert answer.status_code == 422


@pytest.mark.parametrize("path", ["/v1/users/a%00b", "/v1/users/%ff", "/v1/users/%ED%A0%80", "/v1/users/" + "x" * 5000])
async def test_odd_ids_in_a_path_are_refused_or_missing(resources: Resources, path: str) -> None:
    async with open_door(resources) as door:
        assert (await door.request("GET", path)).status_code in {404, 422}
        assert (await door.request("PUT", path, json={})).status_code in {200, 422}


async def test_a_key_over_its_rate_is_told_when_to_come_back_and_others_are_not(resources: Resources) -> None:
    async with open_door(resources, rate_limit="3/hour") as door:
        statuses = [(await door.request("GET", "/v1/whoami", key="agent")).status_code for _ in range(5)]
        assert statuses == [200, 200, 200, 429, 429]
        refused = await door.request("GET", "/v1/whoami", key="agent")
        assert refused.json()["code"] == "rate_limited"
        assert int(refused.headers["retry-after"]) >= 1
        assert (await door.request("GET", "/v1/whoami", key="admin")).status_code == 200
        assert (await door.request("GET", "/healthz", key=None)).status_code == 200


def test_a_rate_that_cannot_be_read_stops_the_start() -> None:
    with pytest.raises(ConfigurationError, match="RECORDARI_RATE_LIMIT"):
        RateLimit("often")


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost:8765", 200),
        ("[::1]:80", 200),
        ("LOCALHOST", 200),
        ("a.example.org", 200),
        ("evil.example", 403),
        ("", 403),
    ],
)
async def test_only_known_host_names_are_answered(resources: Resources, host: str, status: int) -> None:
    hosts = [*resources.settings.allowed_hosts, "*.example.org"]
    async with open_door(resources, allowed_hosts=hosts) as door:
        assert (await door.request("GET", "/v1/whoami", headers={"Host": host})).status_code == status


async def test_a_request_that_takes_too_long_is_stopped(resources: Resources) -> None:
    async with open_door(resources, request_timeout=0.2) as door:
        started, stopped = asyncio.Event(), asyncio.Event()

        async def endless(caller: AgentCaller) -> None:
            started.set()
            try:
                await asyncio.Event().wait()
            finally:
                stopped.set()

        door.app.add_api_route("/v1/endless", endless)
        while not started.is_set():  # on a starved machine the look-up of the key alone may take too long
            answer = await door.request("GET", "/v1/endless")
            assert (answer.status_code, answer.json()["code"]) == (504, "timed_out")
        assert stopped.is_set()


async def test_an_open_stream_of_events_holds_no_place_and_has_no_deadline(resources: Resources) -> None:
    async with open_door(resources, request_timeout=0.5) as door:
        started = asyncio.Event()

        async def running() -> str:
            metrics = await door.request("GET", "/metrics", key=None)
            return next((line for line in metrics.text.splitlines() if 'n{state="running"}' in line), "")

        async def events(caller: AgentCaller) -> StreamingResponse:
            async def some() -> AsyncIterator[str]:
                started.set()
                await asyncio.sleep(0.6)
                while not (told := await running()):  # that is a request too, with a deadline of its own
                    pass
                yield f"data: {told}\n\n"

            return StreamingResponse(some(), media_type="text/event-stream")

        door.app.add_api_route("/v1/some_events", events)
        while not started.is_set():  # on a starved machine the look-up of the key alone may take too long
            answer = await door.request("GET", "/v1/some_events")
        assert answer.text == 'data: recordari_admission{state="running"} 0.0\n\n'


async def test_past_capacity_a_request_is_turned_away_at_once(resources: Resources) -> None:
    admission = Admission(places=3, queue=1, wait_seconds=60.0)
    async with open_door(resources, admission=admission) as door:
        gate, inside = asyncio.Event(), 0

        async def blocked(caller: AgentCaller) -> str:
            nonlocal inside
            inside += 1
            await gate.wait()
            return "done"

        door.app.add_api_route("/v1/blocked", blocked)
        first = [asyncio.create_task(door.request("GET", "/v1/blocked")) for _ in range(3)]
        await until(lambda: inside == 2 and admission.figures()["waiting"] == 1)
        refused = await door.request("GET", "/v1/whoami")
        assert (refused.status_code, refused.json()["code"]) == (503, "overloaded")
        assert int(refused.headers["retry-after"]) >= 1
        assert (await door.request("GET", "/healthz", key=None)).status_code == 200
        metrics = await door.request("GET", "/metrics", key=None)
        assert 'recordari_admission{state="waiting"} 1.0' in metrics.text
        gate.set()
        assert [(await task).status_code for task in first] == [200, 200, 200]
        assert (await door.request("GET", "/v1/whoami")).status_code == 200


class Holders:
    """Requests that hold or await a place until told to leave."""

    def __init__(self, admission: Admission) -> None:
        self.admission = admission
        self.order: list[Any] = []
        self.leave: list[asyncio.Event] = []

    async def hold(self, tenant_id: Any, leave: asyncio.Event) -> None:
        async with self.admission.place(tenant_id):
            self.order.append(tenant_id)
            await leave.wait()

    async def arrive(self, *tenant_ids: Any) -> list[asyncio.Task[None]]:
        tasks = []
        for tenant_id in tenant_ids:
            self.leave.append(asyncio.Event())
            tasks.append(asyncio.create_task(self.hold(tenant_id, self.leave[-1])))
        await settle()
        return tasks

    async def depart(self, index: int) -> None:
        self.leave[index].set()
        await settle()

    async def clear(self, tasks: list[asyncio.Task[None]]) -> None:
        for event in self.leave:
            event.set()
        await asyncio.gather(*tasks, return_exceptions=True)


async def test_some_places_are_always_kept_for_other_tenants() -> None:
    holders = Holders(Admission(places=4, wait_seconds=60))
    tasks = await holders.arrive(*[A] * 10)
    assert holders.order == [A] * 3, "alone it gets all but the reserved place"
    tasks += await holders.arrive(B)
    assert holders.order == [A, A, A, B], "who comes later does not wait behind it"
    await holders.clear(tasks)
    assert holders.admission.figures()["running"] == 0


async def test_a_busy_tenant_yields_its_places_while_others_work() -> None:
    holders = Holders(Admission(places=4, wait_seconds=60))
    tasks = await holders.arrive(A, A, A, A, A, B, C)
    assert holders.order == [A, A, A, B]
    await holders.depart(0)
    assert holders.order[4:] == [C], "A has more than its share, so that a later arrival goes first"
    await holders.depart(1)
    await holders.depart(2)
    assert holders.order[5:] == [A], "A goes on with its share"
    await holders.clear(tasks)
    assert holders.admission.figures()["running"] == 0


async def test_a_tenant_that_stops_working_no_longer_keeps_another_back() -> None:
    now = 0.0
    holders = Holders(Admission(places=16, wait_seconds=60, clock=lambda: now))
    tasks = await holders.arrive(B)
    await holders.depart(0)
    tasks += await holders.arrive(A, A, A, A)
    assert holders.order.count(A) == 2
    now = 60.0
    tasks += await holders.arrive(A)
    await holders.depart(1)
    assert holders.admission.figures()["running"] == 4
    await holders.clear(tasks)


async def test_a_full_queue_of_one_tenant_makes_room_for_another() -> None:
    holders = Holders(Admission(places=1, queue=4, tenant_queue=4, wait_seconds=60))
    tasks = await holders.arrive(A, A, A, A, A)
    newest = tasks[-1]
    tasks += await holders.arrive(B)
    with pytest.raises(Overloaded):
        await newest
    with pytest.raises(Overloaded):
        async with holders.admission.place(A):
            pass
    await holders.depart(0)
    assert holders.order == [A, A]
    await holders.clear(tasks)


async def test_a_held_request_goes_on_when_its_queue_has_room() -> None:
    holders = Holders(Admission(places=1, tenant_queue=1, wait_seconds=60))
    answers: list[Overloaded | None] = []
    tasks = await holders.arrive(A, A)
    assert holders.admission.is_full(A) and not holders.admission.is_full(B)
    holders.admission.hold(A, answers.append)
    give_up = holders.admission.hold(A, answers.append)
    give_up()
    assert holders.admission.figures()["held"] == 1
    await holders.depart(0)
    assert answers == [None]
    assert holders.admission.figures()["held"] == 0
    await holders.clear(tasks)


async def test_held_requests_are_refused_at_a_pace_and_in_turns() -> None:
    admission = Admission(places=1, tenant_queue=0, hold_seconds=0.0)
    answered: list[Any] = []

    def hold(tenant_id: Any) -> None:
        def note(refusal: Overloaded | None) -> None:
            assert refusal is not None
            answered.append(tenant_id)

        admission.hold(tenant_id, note)

    for tenant_id in [A] * 1000 + [B]:
        hold(tenant_id)
    await until(lambda: answered)
    assert B in answered[:2], "one tenant's crowd does not delay another's answer"
    assert len(answered) <= REFUSALS_A_SECOND, "those who do not wait are answered slowly"
    assert admission.figures()["refused"] == len(answered)


async def test_one_who_waits_too_long_or_leaves_holds_no_place() -> None:
    admission = Admission(places=1, queue=4, wait_seconds=0.01)
    async with admission.place(A):
        with pytest.raises(Overloaded):
            async with admission.place(B):
                pass
        waiting = asyncio.create_task(Holders(admission).hold(B, asyncio.Event()))
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
    assert admission.figures()["running"] == 0
    assert admission.figures()["waiting"] == 0


async def test_a_place_granted_to_one_who_just_left_is_handed_on() -> None:
    admission = Admission(places=1, queue=4, wait_seconds=60)
    holders = Holders(admission)
    tasks = await holders.arrive(A, B, C)
    holders.leave[0].set()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    tasks[1].cancel()
    await settle()
    assert admission.figures()["running"] == 1
    await holders.clear(tasks)
    assert admission.figures() == {"running": 0, "waiting": 0, "held": 0, "refused": 0}
