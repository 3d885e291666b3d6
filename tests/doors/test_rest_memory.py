"""Remembering, importing, recalling and background work through REST."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any
from uuid import uuid4

import httpx2
from tests.doors.rest_door import Door, open_door
from tests.patience import PATIENCE

from recordari.config import Settings
from recordari.core.items import MAX_CONTENT_BYTES, Kind
from recordari.doors.rest.app import create_app
from recordari.kit.resources import Resources
from recordari.runner import background_worker
from recordari.worker.dispatch import Pace

CHAT = {"Recordari-User": "ana", "Recordari-Agent": "helper", "Recordari-Session": "chat-1"}


async def remember(door: Door, content: str, *, key: str = "agent", **more: Any) -> httpx2.Response:
    return await door.request("POST", "/v1/items", key=key, headers=CHAT, json={"content": content, **more})


async def recall(door: Door, query: str, *, key: str = "agent", **more: Any) -> httpx2.Response:
    return await door.request("POST", "/v1/recall", key=key, headers=CHAT, json={"query": query, **more})


def lines(*items: dict[str, Any]) -> str:
    return "\n".join(json.dumps(item) for item in items)


def message(number: int, **more: Any) -> dict[str, Any]:
    return {"content": f"message {number}", "source_ref": f"m{number}", "session_id": "chat-1", **more}


async def send(door: Door, body: Any) -> httpx2.Response:
    headers = {**CHAT, "Content-Type": "application/x-ndjson"}
    return await door.request("POST", "/v1/import", key="agent", headers=headers, content=body)


# -- Items


async def test_an_item_is_made_once_and_found_again(resources: Resources) -> None:
    async with open_door(resources) as door:
        body = {"kind": "tool_output", "source_ref": "call-1", "event_time": "2026-05-02T14:23:01+02:00"}
        first = await remember(door, "42 orders", **body)
        again = await remember(door, "42 orders", **body)
        assert (first.status_code, again.status_code) == (201, 200)
        assert first.json()["was_new"] is True
        assert again.json() == {**first.json(), "was_new": False}
        other_text = await remember(door, "43 orders", **body)
        assert (other_text.status_code, other_text.json()["code"]) == (409, "conflict")
        found = await door.request("GET", f"/v1/items/{first.json()['id']}", key="agent", headers=CHAT)
        assert (found.json()["content"], found.json()["kind"]) == ("42 orders", "tool_output")
        assert found.json()["event_time"] == "2026-05-02T12:23:01Z"


async def test_an_entry_is_written_under_its_key_only(resources: Resources) -> None:
    async with open_door(resources) as door:
        refused = await remember(door, "a plan", kind="entry")
        assert (refused.status_code, refused.json()["detail"]) == (422, "an item of kind entry is written by put_entry")
        listed = await door.request("GET", "/v1/items", key="admin", headers=CHAT)
        assert listed.json()["items"] == []


async def test_an_item_of_another_session_user_or_tenant_is_missing(resources: Resources) -> None:
    async with open_door(resources) as door:
        path = f"/v1/items/{(await remember(door, 'between us')).json()['id']}"
        elsewhere = await door.request("GET", path, key="agent", headers={"Recordari-Session": "chat-2"})
        foreign = await door.request("GET", path, key="other", headers=CHAT)
        absent = await door.request("GET", f"/v1/items/{uuid4()}", key="other", headers=CHAT)
        assert elsewhere.status_code == 404
        assert foreign.content == absent.content


async def test_a_batch_is_kept_whole_or_not_at_all_and_the_error_names_its_item(resources: Resources) -> None:
    async with open_door(resources) as door:
        path = "/v1/items/batch"
        good = [{"content": f"entry {number}"} for number in range(3)]
        kept = await door.request("POST", path, key="agent", headers=CHAT, json={"items": good})
        assert [entry["was_new"] for entry in kept.json()["items"]] == [True, True, True]
        bad = [{"content": "penguin"}, {"content": "walrus", "scope": "tenant"}]
        refused = await door.request("POST", path, key="agent", headers=CHAT, json={"items": bad})
        assert refused.status_code == 422
        assert refused.json()["errors"][0]["field"] == "items.1.scope"
        assert (await recall(door, "penguin")).json()["items"] == []
        many = [{"content": "x"}] * 1001
        assert (await door.request("POST", path, key="agent", json={"items": many})).status_code == 422


async def test_bodies_are_taken_strictly(resources: Resources) -> None:
    async with open_door(resources) as door:
        wrong_items: list[dict[str, Any]] = [
            {"content": ""},
            {"content": "   "},
            {"kind": "rumour"},
            {"scope": "any"},
            {"event_time": "2026-05-02T14:23:01"},
            {"event_time": 1777732981},
            {"confidence": "high"},
            {"confidence": 1.5},
            {"tenant_id": "other"},
            {"user_id": "bob"},
            {"session_id": "a\u0007b"},
            {"source_ref": "x" * 501},
            {"metadata": [1]},
        ]
        for wrong in wrong_items:
            answer = await remember(door, **{"content": "text", **wrong})
            assert answer.status_code == 422, wrong
        wrong_questions: list[dict[str, Any]] = [
            {"query": ""},
            {"top_k": 51},
            {"top_k": "5"},
            {"scope": "all"},
            {"source_kinds": ["rumour"]},
        ]
        for wrong in wrong_questions:
            assert (await recall(door, **{"query": "text", **wrong})).status_code == 422, wrong
        named = (await recall(door, "text", scope="all")).json()["errors"][0]["message"]
        assert all(scope in named for scope in ("session", "user", "agent", "tenant", "any"))


async def test_null_is_the_same_as_leaving_a_field_out(resources: Resources) -> None:
    async with open_door(resources) as door:
        kept = await remember(door, "the launch", kind=None, scope=None, metadata=None, source_ref="m1")
        again = await remember(door, "the launch", source_ref="m1")
        assert (kept.status_code, again.status_code) == (201, 200)
        asked = await recall(door, "launch", top_k=None, scope=None, explain=None, since=None, source_kinds=None)
        assert [item["source_ref"] for item in asked.json()["items"]] == ["m1"]
        assert (
            await door.request("POST", "/v1/items", key="agent", headers=CHAT, json={"content": None})
        ).status_code == 422
        assert (await recall(door, "launch", colour=None)).status_code == 422, "nor is what nobody knows"


async def test_a_fact_is_stated_once_whoever_repeats_it(resources: Resources) -> None:
    async with open_door(resources) as door:
        answers = [
            await door.request("POST", "/v1/remember_fact", key="agent", headers=CHAT, json={"content": text})
            for text in ("Ana prefers tea", "ana prefers  tea.")
        ]
        assert [answer.status_code for answer in answers] == [201, 200]
        assert [answer.json()["was_new"] for answer in answers] == [True, False]
        assert answers[0].json()["id"] == answers[1].json()["id"]
        assert answers[0].json()["source_ref"].startswith("fact:user:ana:")
        nobody = await door.request("POST", "/v1/remember_fact", key="agent", json={"content": "whose?"})
        assert nobody.status_code == 401


# -- Recall


async def test_the_answer_has_the_documented_form_and_a_trace_only_when_asked(resources: Resources) -> None:
    async with open_door(resources) as door:
        await remember(door, "ANCHOR_TOKEN_7a3f9 is the order count query", kind="tool_output", speaker="metabase")
        await remember(door, "we talked about orders")
        answer = (await recall(door, "ANCHOR_TOKEN_7a3f9 order count", source_kinds=["tool_output"])).json()
        assert set(answer) - {"hint"} == {"items", "total", "degraded", "rerank_used", "confidence"}
        assert (answer["total"], answer["degraded"], answer["rerank_used"]) == (1, True, False)
        (item,) = answer["items"]
        assert {"id", "source_kind", "source_ref", "content", "event_time", "score"} <= set(item)
        assert (item["source_kind"], item["speaker"], item["trust"]) == ("tool_output", "metabase", "tool")
        assert item["event_time"].endswith("Z")
        explained = (await recall(door, "order count", explain=True)).json()
        assert explained["trace"]["items"][0]["ranks"]["text"] == 1


async def test_scopes_need_their_owner_and_retired_facts_an_administrator(resources: Resources) -> None:
    async with open_door(resources) as door:
        for scope, status in {"user": 401, "agent": 401, "session": 422, "tenant": 200, "any": 200}.items():
            asked = {"query": "anything", "scope": scope}
            answer = await door.request("POST", "/v1/recall", key="agent", json=asked)
            assert answer.status_code == status, scope
        superseded = {"query": "anything", "include_superseded": True}
        assert (await door.request("POST", "/v1/recall", key="agent", json=superseded)).status_code == 403
        assert (await door.request("POST", "/v1/recall", key="admin", json=superseded)).status_code == 200


async def test_moments_bound_what_is_recalled(resources: Resources) -> None:
    async with open_door(resources) as door:
        for day in (1, 2, 3):
            await remember(door, f"standup number {day}", event_time=f"2026-05-0{day}T09:00:00Z")
        asked = {"since": "2026-05-02T00:00:00+02:00", "until": "2026-05-03T00:00:00Z"}
        found = (await recall(door, "standup", **asked)).json()["items"]
        assert [item["content"] for item in found] == ["standup number 2"]


async def test_knowledge_is_searched_apart_from_talk(resources: Resources) -> None:
    async with open_door(resources) as door:
        await remember(door, "parcels go back within 30 days", key="admin", kind="document_chunk")
        await remember(door, "my parcels are late")
        answer = await door.request("POST", "/v1/search_knowledge", key="agent", json={"query": "parcels"})
        assert [item["content"] for item in answer.json()["items"]] == ["parcels go back within 30 days"]


async def test_a_large_output_is_a_preview_and_can_be_read_whole_or_in_part(resources: Resources) -> None:
    async with open_door(resources) as door:
        body = "row;" * MAX_CONTENT_BYTES
        made = (await remember(door, body, kind="tool_output")).json()
        path = f"/v1/tool_outputs/{made['payload_key']}"
        whole = (await door.request("GET", path, key="agent", headers=CHAT)).json()
        assert (whole["content"], whole["is_whole"]) == (body, True)
        part = (await door.request("GET", f"{path}?start=4&length=7", key="agent", headers=CHAT)).json()
        assert (part["content"], part["start"], part["is_whole"]) == ("row;row", 4, False)
        assert part["total_bytes"] == len(body)
        assert (await door.request("GET", path, key="agent")).status_code == 404
        assert (await door.request("GET", f"{path}?start=-1", key="agent", headers=CHAT)).status_code == 422


# -- Import


async def test_an_import_is_kept_line_by_line_and_can_be_sent_again(resources: Resources) -> None:
    async with open_door(resources) as door:
        body = lines(*(message(number) for number in range(3)))
        assert (await send(door, body)).json() == {"read": 3, "new": 3, "existing": 0}
        longer = f"{body}\n\n{lines(message(3), message(4))}\n"
        assert (await send(door, longer)).json() == {"read": 5, "new": 2, "existing": 3}
        assert (await send(door, "")).json() == {"read": 0, "new": 0, "existing": 0}


async def test_a_bad_line_is_named_and_what_stands_before_it_stays(resources: Resources) -> None:
    async with open_door(resources) as door:
        start = lines(message(1), message(2))
        for bad in (
            "{not json",
            '"text"',
            json.dumps({"content": "without a key", "session_id": "chat-1"}),
            json.dumps(message(3, kind="rumour")),
            json.dumps(message(3, scope="tenant")),
            json.dumps(message(2, content="another text for a key that is taken")),
            '{"content": "\\u0000", "source_ref": "nul"}',
        ):
            answer = await send(door, f"{start}\n\n{bad}\n{lines(message(9))}")
            assert answer.status_code in {409, 422}, bad
            assert answer.json()["errors"][0]["field"] == "line 4", bad
        assert (await send(door, start)).json() == {"read": 2, "new": 0, "existing": 2}
        assert (await send(door, lines(message(9)))).json()["new"] == 1


async def test_an_import_may_be_larger_than_a_body_and_its_lines_may_not(resources: Resources) -> None:
    async with open_door(resources, max_body_bytes=4096) as door:

        async def pieces() -> AsyncIterator[bytes]:
            text = lines(*(message(number) for number in range(300))).encode()
            for start in range(0, len(text), 100):
                yield text[start : start + 100]

        assert (await send(door, pieces())).json() == {"read": 300, "new": 300, "existing": 0}
        long = f"{lines(message(1))}\n{json.dumps(message(2, content='x' * 5000))}"
        refused = await send(door, long)
        assert (refused.status_code, refused.json()["errors"][0]["field"]) == (413, "line 2")


# -- Background work


async def test_reindex_and_reembed_run_in_the_background(resources: Resources) -> None:
    async with open_door(resources) as door:
        await remember(door, "The puppy chewed my slippers")
        for path, body in (("/v1/reindex", None), ("/v1/reembed", {"model_id": "potion-base-8M"})):
            started = await door.request("POST", path, json=body)
            assert started.status_code == 202
            assert started.json()["job_id"] is not None
        assert (await door.request("POST", "/v1/reindex")).json() == {"job": "reindex", "job_id": None}
        assert (await door.request("POST", "/v1/reembed", json={"model_id": "no-such"})).status_code == 422
        async with background_worker(door.memory.resources), asyncio.timeout(PATIENCE):
            while True:
                jobs = (await door.request("GET", "/v1/jobs?status=succeeded")).json()["items"]
                if {job["job"] for job in jobs} >= {"reindex", "reembed"}:
                    break
                await asyncio.sleep(0.05)
            while (await recall(door, "dog")).json()["degraded"]:
                await asyncio.sleep(0.05)
        assert [item["content"] for item in (await recall(door, "dog")).json()["items"]]


async def test_a_job_that_failed_can_be_seen_replayed_and_discarded(resources: Resources) -> None:
    async with open_door(resources.replacing(Pace, Pace(max_attempts=1))) as door:

        async def dead_letters() -> list[dict[str, Any]]:
            found: list[dict[str, Any]] = (await door.request("GET", "/v1/jobs/dead_letters")).json()["items"]
            return found

        async def fail() -> dict[str, Any]:
            async with background_worker(door.memory.resources), asyncio.timeout(PATIENCE):
                while not (letters := await dead_letters()):
                    await asyncio.sleep(0.05)
            return letters[0]

        await door.memory.enqueue_job("reembed", model_id="no-such-model")
        letter = await fail()
        assert (letter["name"], letter["last_error"]) == ("reembed", "InvalidInput")
        path = f"/v1/jobs/dead_letters/{letter['dead_letter_id']}"
        assert (await door.request("POST", f"{path}/replay", key="other")).status_code == 404
        assert (await door.request("POST", f"{path}/replay")).status_code == 204
        assert await dead_letters() == []
        assert (await fail())["dead_letter_id"] == letter["dead_letter_id"]
        assert (await door.request("DELETE", path)).status_code == 204
        assert await dead_letters() == []
        assert (await door.request("DELETE", path)).status_code == 404


async def test_the_schema_names_kinds_scopes_and_examples(resources: Resources) -> None:
    async with open_door(resources) as door:
        schema = door.app.openapi()
        models = schema["components"]["schemas"]
        assert models["Kind"]["enum"] == list(Kind)
        assert models["AskedScope"]["enum"] == ["session", "user", "agent", "tenant", "history", "any"]
        for name in ("ItemRequest", "ItemBatch", "FactRequest", "RecallRequestBody", "ReembedRequest"):
            assert models[name]["examples"], name
        line = schema["paths"]["/v1/import"]["post"]["requestBody"]["content"]["application/x-ndjson"]["schema"]
        assert "source_ref" in line["required"]
        assert models["RecalledItem"]["properties"]["score"]["description"], "the text below a field describes it"
        assert "folder" not in models["Source"]["properties"], "where an operator keeps files is nobody's business"


def test_no_name_in_the_schema_carries_the_path_of_a_module() -> None:
    names = create_app(Settings()).openapi()["components"]["schemas"]
    assert [name for name in names if not name.isalnum()] == [], "two classes that doors show have the same name"
