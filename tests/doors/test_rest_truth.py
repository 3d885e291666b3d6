"""What the designs say of truth, time and forgetting, through REST alone: conflicts, retention, leak guard, decay."""

from __future__ import annotations

import asyncio
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import httpx2
import psycopg
import pytest
from tests import working
from tests.doors.rest_door import Door, open_door
from tests.patience import PATIENCE

from recordari.config import Settings
from recordari.kit.resources import Resources
from recordari.runner import background_worker
from recordari.transfer.export import VERSION

ANA = {"Recordari-User": "ana", "Recordari-Agent": "helper", "Recordari-Session": "chat-1"}
BOB = {**ANA, "Recordari-User": "bob"}
JANUARY = "2026-01-10T00:00:00Z"
FEBRUARY = "2026-02-10T00:00:00Z"
RULE = (
    "The conformity gate refuses every candidate whose evidence is older than thirty days, unless an operator has "
    "confirmed it by hand within the last week."
)


async def ok(asked: Any) -> Any:
    answer: httpx2.Response = await asked
    assert answer.status_code < 300, answer.text
    return answer.json() if answer.content else None


async def say(door: Door, content: str, **more: Any) -> str:
    """Keep an item as the agent that talks with Ana; its id."""
    headers = more.pop("headers", ANA)
    made = await ok(door.request("POST", "/v1/items", key="agent", json={"content": content, **more}, headers=headers))
    return str(made["id"])


async def fact(door: Door, content: str, **more: Any) -> str:
    return await say(door, content, kind="fact", **{"scope": "user", **more})


async def recalled(
    door: Door, query: str, *, key: str = "agent", headers: dict[str, str] = ANA, **more: Any
) -> list[str]:
    body = {"query": query, "top_k": 20, **more}
    return [
        item["content"]
        for item in (await ok(door.request("POST", "/v1/recall", key=key, json=body, headers=headers)))["items"]
    ]


async def settled(door: Door) -> None:
    await working.settled(door.memory)
    assert not (await ok(door.request("GET", "/v1/jobs/counts")))["outbox_pending"]


def door_in(resources: Resources, days: float) -> AbstractAsyncContextManager[Door]:
    """The same service, so many days from now."""
    return open_door(replace(resources, clock=lambda: datetime.now(UTC) + timedelta(days=days)))


# "When the agent calls remember_fact with content that contradicts an earlier user-scope or agent-scope fact, the platform
# retires the older fact in the background. The retired fact is invisible to default recall"; "never across tenants, never
# across users, never across agents"; "an immutable execution_audit_log entry records the decision (IDs only, never content)"


async def test_a_contradicted_fact_leaves_recall_for_its_owner_only(resources: Resources) -> None:
    async with open_door(resources) as door:
        old = await fact(door, "Ana lives in Berlin", event_time=JANUARY)
        await fact(door, "Ana lives in Berlin", event_time=JANUARY, headers=BOB)
        await settled(door)
        new = await ok(
            door.request("POST", "/v1/remember_fact", key="agent", json={"content": "Ana lives in Lisbon"}, headers=ANA)
        )
        assert set(new) == {"id", "was_new", "source_ref"}
        await settled(door)
        assert await recalled(door, "where does Ana live", scope="user") == ["Ana lives in Lisbon"]
        assert await recalled(door, "where does Ana live", scope="user", headers=BOB) == ["Ana lives in Berlin"]
        # "reachable only via … admin UIs, audit jobs, dashboards"
        asked = {"query": "where does Ana live", "include_superseded": True}
        assert (await door.request("POST", "/v1/recall", key="agent", json=asked, headers=ANA)).status_code == 403
        everything = await recalled(door, "where does Ana live", key="admin", scope="user", include_superseded=True)
        assert "Ana lives in Berlin" in everything
        assert (await door.request("GET", f"/v1/items/{old}", key="agent", headers=ANA)).status_code == 404
        assert (await door.request("GET", f"/v1/items/{old}/history", key="agent", headers=ANA)).status_code == 403
        versions = await ok(door.request("GET", f"/v1/items/{old}/history"))
        assert [version["superseded_by"] for version in versions] == [new["id"], None]
        audited = await ok(door.request("GET", "/v1/audit", params={"subject_kind": "item", "subject_id": old}))
        assert [entry["action"] for entry in audited["items"]] == ["fact.supersede"]
        assert "Berlin" not in str(audited)


# D8 "Semantic: UPDATE with temporal validity … both retained"; "Episodic: NOOP — episodes accumulate"; "Procedural: UPDATE
# with supersession … active set query WHERE superseded_at IS NULL"


async def test_each_kind_resolves_conflicts_in_its_way(resources: Resources) -> None:
    async with open_door(resources) as door:
        await say(door, "tea for me", source_ref="m1")
        await say(door, "no tea for me", source_ref="m2")
        for number, style in enumerate(["detailed", "concise"]):
            await say(
                door,
                f"Ana prefers {style} reports",
                kind="procedure",
                scope="agent",
                source_ref=f"style-{number}",
                event_time=[JANUARY, FEBRUARY][number],
            )
            await settled(door)
        assert len(await recalled(door, "tea", source_kinds=["chat_message"])) == 2
        active = await ok(door.request("GET", "/v1/items", key="agent", headers=ANA, params={"kind": "procedure"}))
        assert [item["content"] for item in active["items"]] == ["Ana prefers concise reports"]
        await fact(door, "Ana works at Acme", event_time=JANUARY)
        await settled(door)
        then = datetime.now(UTC).isoformat()
        await fact(door, "Ana works at Globex")
        await settled(door)
        assert await recalled(door, "where does Ana work", scope="user", as_of=then) == ["Ana works at Acme"]
        assert await recalled(door, "where does Ana work", scope="user") == ["Ana works at Globex"]


# X3 "Curation: list, edit, invalidate, restore, pin, give feedback (useful, wrong)"


async def test_a_person_corrects_ends_and_restores_what_is_known(resources: Resources) -> None:
    async with open_door(resources) as door:
        first = await fact(door, "Ana prefers window seats", confidence=0.6)
        for number in range(3):
            await fact(door, f"note number {number}", headers=BOB)
        shown = await door.request("GET", f"/v1/items/{first}", key="agent", headers=ANA)
        edit = {"content": "Ana prefers aisle seats", "reason": "misheard"}
        path = f"/v1/items/{first}"
        stale = {**ANA, "If-Match": '"another"'}
        assert (await door.request("PATCH", path, key="agent", json=edit, headers=stale)).status_code == 412
        fresh = {**ANA, "If-Match": shown.headers["etag"]}
        edited = (await ok(door.request("PATCH", path, key="agent", json=edit, headers=fresh)))["id"]
        assert (await door.request("PATCH", path, key="agent", json=edit, headers=ANA)).status_code == 409
        assert (await door.request("PATCH", path, key="agent", json=edit, headers=fresh)).status_code == 412
        await ok(door.request("PUT", f"/v1/items/{edited}/pin", key="agent", headers=ANA))
        only_pinned = {"kind": "fact", "pinned": True}
        pinned = await ok(door.request("GET", "/v1/items", params=only_pinned))
        assert [item["item_id"] for item in pinned["items"]] == [edited]
        await ok(door.request("PUT", f"/v1/items/{edited}/pin", key="agent", headers=ANA, json={"pinned": False}))
        assert (await ok(door.request("GET", "/v1/items", params=only_pinned)))["items"] == []
        useful = await ok(
            door.request("POST", f"/v1/items/{edited}/feedback", key="agent", json={"opinion": "useful"}, headers=ANA)
        )
        assert useful["confidence"] > 0.6
        standing = await ok(door.request("GET", f"/v1/items/{edited}/provenance", key="agent", headers=ANA))
        assert (standing["useful"], standing["wrong"]) == (1, 0)
        await ok(door.request("POST", f"/v1/items/{edited}/invalidate", key="agent", headers=ANA))
        assert await recalled(door, "which seats", scope="user") == []
        assert (await door.request("POST", f"/v1/items/{edited}/restore", key="agent", headers=ANA)).status_code == 403
        await ok(door.request("POST", f"/v1/items/{edited}/restore"))
        assert await recalled(door, "which seats", scope="user") == ["Ana prefers aisle seats"]
        listed, cursor = [], ""
        while True:
            more = {"cursor": cursor} if cursor else {}
            page = await ok(door.request("GET", "/v1/items", params={"kind": "fact", "limit": 2, **more}))
            listed += [item["content"] for item in page["items"]]
            if not (cursor := page["next_cursor"]):
                break
        assert listed == ["Ana prefers aisle seats", *(f"note number {number}" for number in (2, 1, 0))]
        ended = {"kind": "fact", "state": "superseded"}
        assert (await door.request("GET", "/v1/items", key="agent", params=ended, headers=ANA)).status_code == 403
        old = await ok(door.request("GET", "/v1/items", params=ended))
        assert [item["item_id"] for item in old["items"]] == [first]


# "The retention worker replaces content with [REDACTED] … Rows stay … so superseded_by chains remain intact"; "admin/audit
# callers may include superseded rows, but anonymized rows never re-enter recall"; "SOFT_TTL_DAYS=30", "SUP_TTL_DAYS=90";
# "runs in dry-run mode … and refuses large tenant sweeps via the safety floor"


async def test_retention_redacts_by_policy_and_says_so_before(resources: Resources) -> None:
    async with open_door(resources) as door:
        policy = await door.request("GET", "/v1/retention")
        assert (policy.json()["deleted_days"], policy.json()["superseded_days"]) == (30, 90)
        old = await fact(door, "Ana likes coffee")
        new = (
            await ok(
                door.request("PATCH", f"/v1/items/{old}", key="agent", json={"content": "Ana likes tea"}, headers=ANA)
            )
        )["id"]
        for wrong in ({"deleted_days": "7"}, {"deleted_days": -1}, {"unknown": 1}, {"safety_share": 0}):
            assert (await door.request("PATCH", "/v1/retention", json=wrong)).status_code == 422
        stale = {"If-Match": '"0"'}
        assert (
            await door.request("PATCH", "/v1/retention", json={"superseded_days": 60}, headers=stale)
        ).status_code == 412
        tagged = {"If-Match": policy.headers["etag"]}
        changed = await door.request("PATCH", "/v1/retention", json={"superseded_days": 60}, headers=tagged)
        assert changed.json()["superseded_days"] == 60 and changed.json()["deleted_days"] == 30
    async with door_in(resources, 59) as door:
        assert (await ok(door.request("POST", "/v1/retention/sweep")))["counts"]["anonymize"] == 0
    async with door_in(resources, 61) as door:
        planned = await ok(door.request("POST", "/v1/retention/sweep", json={"dry_run": True}))
        assert (planned["dry_run"], planned["item_ids"]["anonymize"]) == (True, [old])
        assert (await ok(door.request("GET", f"/v1/items/{old}")))["content"] == "Ana likes coffee"
        swept = await ok(door.request("POST", "/v1/retention/sweep", json={"dry_run": False, "force": True}))
        assert swept["item_ids"]["anonymize"] == [old]
        assert (await door.request("GET", f"/v1/items/{old}")).status_code == 404
        versions = await ok(door.request("GET", f"/v1/items/{new}/history"))
        assert [(one["content"], one["superseded_by"]) for one in versions] == [
            ("[REDACTED]", new),
            ("Ana likes tea", None),
        ]
        assert "Ana likes coffee" not in await recalled(door, "Ana likes", key="admin", include_superseded=True)
        audited = await ok(door.request("GET", "/v1/audit", params={"subject_kind": "item", "subject_id": old}))
        assert audited["items"][0]["action"] == "memory.anonymize"


async def test_a_sweep_of_too_much_is_refused_unless_forced(resources: Resources) -> None:
    async with open_door(resources) as door:
        notes = [{"content": f"note {number}", "kind": "fact", "scope": "user"} for number in range(120)]
        made = await ok(door.request("POST", "/v1/items/batch", key="agent", json={"items": notes}, headers=ANA))
        for item in made["items"]:
            await ok(door.request("POST", f"/v1/items/{item['id']}/invalidate", key="agent", headers=ANA))
    async with door_in(resources, 91) as door:
        refused = await door.request("POST", "/v1/retention/sweep", json={})
        assert refused.status_code == 409 and "120 of 120" in refused.json()["detail"]
        assert (await ok(door.request("POST", "/v1/retention/sweep", json={"force": True})))["counts"][
            "anonymize"
        ] == 120


# D9 "action-linkage holds rows for audit per the universal audit posture"; X3 "everything derived from a removed item goes
# with it"


async def test_forgetting_is_foreseen_held_and_final(resources: Resources) -> None:
    async with open_door(resources) as door:
        said = await say(door, "I prefer window seats on trains.", speaker="Ana", source_ref="m1")
        await settled(door)
        (derived,) = (await ok(door.request("GET", "/v1/items", params={"kind": "fact"})))["items"]
        both = {said, derived["item_id"]}
        assert (
            await door.request(
                "POST", f"/v1/items/{said}/forget", key="agent", headers=BOB | {"Recordari-Session": "x"}
            )
        ).status_code == 404
        foreseen = await ok(
            door.request("POST", f"/v1/items/{said}/forget", key="agent", json={"dry_run": True}, headers=ANA)
        )
        assert set(foreseen["item_ids"]) == both
        assert (await ok(door.request("GET", f"/v1/items/{said}")))["content"].startswith("I prefer")
        hold = f"/v1/items/{derived['item_id']}/holds/release-7"
        statuses = [(await door.request("PUT", hold, key="agent", headers=ANA)).status_code for _ in range(2)]
        assert statuses == [201, 200]
        for dry_run in (True, False):
            answer = await door.request(
                "POST", f"/v1/items/{said}/forget", key="agent", json={"dry_run": dry_run}, headers=ANA
            )
            assert answer.status_code == 409
        assert (await door.request("DELETE", hold, key="agent", headers=ANA)).status_code == 403
        await ok(door.request("DELETE", hold))
        gone = await ok(
            door.request("POST", f"/v1/items/{said}/forget", key="agent", json={"reason": "asked"}, headers=ANA)
        )
        assert set(gone["item_ids"]) == both
        for item_id in both:
            assert (await door.request("GET", f"/v1/items/{item_id}")).status_code == 404
        assert await recalled(door, "window seats") == []
        again = await door.request(
            "POST",
            "/v1/items",
            key="agent",
            json={"content": "I prefer window seats on trains.", "source_ref": "m1"},
            headers=ANA,
        )
        assert (again.status_code, again.json()["was_new"]) == (200, False)


# T6 "export everything, import it elsewhere, erase a user (rows, vectors, caches, artifacts, queue), each audited"


async def test_a_user_is_exported_erased_and_stays_erased(resources: Resources) -> None:
    async with open_door(resources) as door:
        await fact(door, "Ana Quillfeather likes tea")
        await fact(door, "Bob likes coffee", headers=BOB)
        mine = await door.request("GET", "/v1/export?user_id=alice", key="alice")
        assert mine.status_code == 200
        assert (await door.request("GET", "/v1/export?user_id=ana", key="alice")).status_code == 403
        assert (await door.request("GET", "/v1/export", key="agent")).status_code == 403
        exported = await door.request("GET", "/v1/export?user_id=ana")
        assert exported.headers["content-type"].startswith("application/x-ndjson")
        assert "Quillfeather" in exported.text and "Bob" not in exported.text
        assert (await door.request("POST", "/v1/erasures", key="agent", json={"user_id": "ana"})).status_code == 403
        started = await ok(door.request("POST", "/v1/erasures", json={"user_id": "ana"}))
        assert started["finished_at"] is None
        async with background_worker(door.memory.resources), asyncio.timeout(PATIENCE):
            while (done := await ok(door.request("GET", f"/v1/erasures/{started['erasure_id']}")))[
                "finished_at"
            ] is None:
                await asyncio.sleep(0.05)
        assert (done["user_id"], done["items"]) == (None, 1)
        assert "Quillfeather" not in (await door.request("GET", "/v1/export")).text
        back = await ok(door.request("POST", "/v1/import_export", content=exported.content))
        assert back["forgotten_items"] == 1 and "Quillfeather" not in (await door.request("GET", "/v1/export")).text
        elsewhere = await ok(door.request("POST", "/v1/import_export", content=exported.content, key="other"))
        assert elsewhere["written"]["item"] == 1
        assert "Quillfeather" in (await door.request("GET", "/v1/export", key="other")).text
        actions = {entry["action"] for entry in (await ok(door.request("GET", "/v1/audit")))["items"]}
        assert {"export", "import", "user.erase"} <= actions


async def test_a_broken_export_is_refused_with_its_line(resources: Resources) -> None:
    header = f'{{"format": "recordari-export", "version": {VERSION}}}\n'.encode()
    async with open_door(resources) as door:
        for content, line in (
            (b"", None),
            (b"nonsense\n", 1),
            (b'{"format": "other"}\n', 1),
            (header + b"[1]\n", 2),
            (header + b'{"type": "item", "row": {}}\n', None),
            (header + b'{"type": "user", "row": {"user_id": 5, "time_zone": []}}\n', None),
            (header + b'{"type": "user", "row": {"user_id": "\\ud800"}}\n', 2),
            (header + b"\xff\n", 2),
        ):
            answer = await door.request("POST", "/v1/import_export", content=content)
            assert answer.status_code == 422, content
            assert line is None or f"line {line}" in answer.json()["detail"], answer.text


# D4 "skip if length(body_text) < 100 … reject if max similarity > 0.85 … contracts, not config"


async def test_a_fact_that_copies_a_protected_source_is_refused(resources: Resources, settings: Settings) -> None:
    async with open_door(resources) as door:
        source_id = str(uuid4())
        chunk = await ok(
            door.request("POST", "/v1/items", json={"content": RULE, "kind": "document_chunk", "source_ref": "d#1"})
        )
        assert settings.database_owner_url is not None
        with psycopg.connect(settings.database_owner_url.get_secret_value(), autocommit=True) as connection:
            connection.execute("SET search_path = recordari, public")
            connection.execute("UPDATE items SET source_id = %s WHERE item_id = %s", [source_id, chunk["id"]])
        assert (await door.request("PUT", f"/v1/protected_sources/{source_id}", key="agent")).status_code == 403
        assert (await ok(door.request("PUT", f"/v1/protected_sources/{source_id}")))["texts"] == 1
        (listed,) = await ok(door.request("GET", "/v1/protected_sources"))
        assert (listed["source_id"], listed["texts"]) == (source_id, 1)
        copy = {"content": RULE.replace("thirty", "forty")}
        refused = await door.request("POST", "/v1/remember_fact", key="agent", json=copy, headers=ANA)
        assert refused.status_code == 422 and "copies a protected document" in refused.json()["detail"]
        await fact(door, RULE[:99])
        await say(door, RULE, source_ref="said")
        await ok(door.request("DELETE", f"/v1/protected_sources/{source_id}"))
        await ok(door.request("POST", "/v1/remember_fact", key="agent", json=copy, headers=ANA))
        assert (await door.request("DELETE", f"/v1/protected_sources/{source_id}")).status_code == 404


# "customer PII (sanitization at write)"


async def test_personal_data_is_masked_by_the_policy_of_the_tenant(resources: Resources) -> None:
    async with open_door(resources) as door:
        mail = "my address is jane.doe@example.org"
        await say(door, mail, source_ref="m1")
        policy = {"default": "mask", "actions": {"email": "keep"}}
        for wrong in ({"actions": {"email": "shred"}}, {"actions": {"colour": "mask"}}, {"enabled": "yes"}, {"x": 1}):
            assert (await door.request("PUT", "/v1/privacy", json=wrong)).status_code == 422
        assert (await door.request("PUT", "/v1/privacy", key="agent", json=policy)).status_code == 403
        assert (await ok(door.request("PUT", "/v1/privacy", json=policy)))["actions"]["email"] == "keep"
        assert (await ok(door.request("GET", "/v1/privacy")))["actions"]["phone"] == "mask"
        await say(door, mail, source_ref="m2")
        kept = {item["source_ref"]: item["content"] for item in (await ok(door.request("GET", "/v1/items")))["items"]}
        assert "jane.doe" not in kept["m1"] and kept["m2"] == mail


# L2 "7-30 days (Ebbinghaus decay curve)"; "Items below 0.3 retention score are archived"; L3 stays


@pytest.mark.parametrize(("days", "archived"), [(6, 0), (31, 1)])
async def test_recent_memory_fades_and_lasting_memory_does_not(resources: Resources, days: int, archived: int) -> None:
    async with open_door(resources) as door:
        await say(door, "it rains in Lund", source_ref="m1")
        await fact(door, "Ana lives in Lund")
    async with door_in(resources, days) as door:
        assert (await door.request("POST", "/v1/decay", key="agent")).status_code == 403
        assert (await ok(door.request("POST", "/v1/decay")))["archived"] == archived
        found = await ok(door.request("POST", "/v1/recall", key="agent", json={"query": "Lund"}, headers=ANA))
        assert {item["content"]: item["archived"] for item in found["items"]} == {
            "Ana lives in Lund": False,
            "it rains in Lund": bool(archived),
        }


# S6 "Admin view of memory health"; T7 "Quotas per tenant and plan; near the limit a warning, past it a clear refusal"


async def test_an_operator_sees_how_memory_fares(resources: Resources) -> None:
    async with open_door(resources) as door:
        await say(door, "it rains in Lund", source_ref="m1")
        kept = await fact(door, "Ana lives in Lund")
        gone = await fact(door, "Ana lives in Malmö")
        await ok(door.request("POST", f"/v1/items/{gone}/forget", key="agent", headers=ANA))
        await ok(door.request("PUT", f"/v1/items/{kept}/holds/a", key="agent", headers=ANA))
        assert (await door.request("GET", "/v1/stats", key="agent")).status_code == 403
        stats = await ok(door.request("GET", "/v1/stats"))
        assert stats["by_state"] == {"live": 2, "forgotten": 1}
        assert stats["by_kind"] == {"chat_message": 1, "fact": 1}
        assert stats["by_scope"] == {"session": 1, "user": 1}
        assert stats["pending_embeddings"] == 2 and stats["dead_letters"] == 0 and stats["others"]["holds"] == 1
        await settled(door)
        stats = await ok(door.request("GET", "/v1/stats"))
        assert (stats["pending_embeddings"], stats["others"]["vectors"]) == (0, 2)
        assert stats["quota"] == await ok(door.request("GET", "/v1/quota"))
        await door.memory.update_tenant(settings={"quotas": {"items": 3}})
        quota = await ok(door.request("GET", "/v1/quota"))
        assert quota["usage"]["items"] == 2
        await say(door, "one more", source_ref="m2")
        full = await door.request("POST", "/v1/items", key="agent", json={"content": "too many"}, headers=ANA)
        assert full.status_code == 429 and full.json()["code"] == "quota_exceeded"


async def test_a_tenants_own_key_lifts_no_limit(resources: Resources) -> None:
    async with open_door(resources) as door:
        await door.memory.update_tenant(plan="free", settings={"quotas": {"items": 3}})
        before = await ok(door.request("GET", "/v1/tenant"))
        for change in ({"items": 10**9}, {"items": None}, {}, None, "none"):
            body = {"language": "german", "settings": {"quotas": change, "retention": 30}}
            refused = await door.request("PATCH", "/v1/tenant", json=body)
            assert refused.status_code == 403 and "operator" in refused.json()["detail"]
        assert (await door.request("PATCH", "/v1/tenant", json={"plan": "unlimited"})).status_code == 422
        assert await ok(door.request("GET", "/v1/tenant")) == before, "nothing of a refused change is done"
        await ok(door.request("PATCH", "/v1/tenant", json={"settings": {"retention": 30}}))
        assert (await ok(door.request("GET", "/v1/quota")))["quota"]["items"] == 3


async def test_a_daily_quota_says_when_the_day_ends_and_the_brief_warns_before(resources: Resources) -> None:
    at = datetime(2026, 6, 1, 18, 30, tzinfo=UTC)
    async with open_door(replace(resources, clock=lambda: at)) as door:
        await door.memory.update_tenant(settings={"quotas": {"writes_per_day": 10}})
        await ok(door.request("POST", "/v1/reports/daily_brief", json={}))
        for number in range(8):
            await say(door, f"note {number}", source_ref=f"m{number}")
        brief = await ok(door.request("POST", "/v1/reports/daily_brief", json={}))
        (warning,) = brief["warnings"]
        assert warning.startswith("80% of the quota of writes per day is used") and warning in brief["body"]
        for number in (8, 9):
            await say(door, f"note {number}", source_ref=f"m{number}")
        full = await door.request("POST", "/v1/items", key="agent", json={"content": "too many"}, headers=ANA)
        assert full.status_code == 429 and full.json()["code"] == "quota_exceeded"
        assert full.headers["retry-after"] == str(5 * 3600 + 1800), "the day ends at midnight in UTC"
        await door.memory.update_tenant(settings={"quotas": {"items": 10}})
        full = await door.request("POST", "/v1/items", key="agent", json={"content": "too many"}, headers=ANA)
        assert full.status_code == 429 and "retry-after" not in full.headers, "waiting does not help"


# "boosted by importance and access count"


async def test_what_is_recalled_fades_later(resources: Resources) -> None:
    async with open_door(resources) as door:
        await say(door, "the printer is on the third floor", source_ref="m1")
        await say(door, "the canteen serves soup", source_ref="m2")
    async with door_in(resources, 9) as door:
        for _ in range(3):
            assert (await recalled(door, "where is the printer", top_k=1)) == ["the printer is on the third floor"]
    async with door_in(resources, 13) as door:
        assert (await ok(door.request("POST", "/v1/decay")))["archived"] == 1
        archived = await ok(door.request("GET", "/v1/items?state=archived"))
        assert [item["content"] for item in archived["items"]] == ["the canteen serves soup"]


# D3 "Interaction: episodic · Session: episodic-dominant + procedural permitted · Persistent: procedural-dominant + semantic
# permitted · No persistent-episodic produced"


async def test_each_tier_takes_its_kinds_of_memory_only(resources: Resources) -> None:
    async with open_door(resources) as door:
        for kind, tier in (("episode", "persistent"), ("chat_message", "persistent"), ("document_chunk", "recent")):
            body = {"content": "an odd pair", "kind": kind, "tier": tier}
            refused = await door.request("POST", "/v1/items", json=body, headers=ANA)
            assert (refused.status_code, "tier" in refused.text) == (422, True), refused.text
        await say(door, "looked at the logs", kind="episode", tier="session")
        await say(door, "draft: answer in Dutch", kind="procedure", tier="session")
        await say(door, "asks for the digest of signals on Mondays", kind="procedure", tier="persistent", scope="user")
        await fact(door, "the gateway belongs to the platform team", tier="persistent")
        kept = (await ok(door.request("GET", "/v1/items")))["items"]
        assert sorted((item["kind"], item["tier"]) for item in kept) == [
            ("episode", "session"),
            ("fact", "persistent"),
            ("procedure", "persistent"),
            ("procedure", "session"),
        ]


# D5 "No inter-context role grants"; D6 "Session vars name identity, not capability"; "App-layer enforcement primary …; RLS
# backstop …, applied consistently"


async def test_memory_of_a_person_is_reached_by_that_person_only(resources: Resources) -> None:
    async with open_door(resources) as door:
        mine = await fact(door, "Ana triages the queue at nine")
        assert await recalled(door, "triages the queue", headers=BOB) == []
        assert await recalled(door, "triages the queue", key="other", headers=ANA) == []
        for key, headers in (("agent", BOB), ("other", ANA)):
            foreign = await door.request("GET", f"/v1/items/{mine}", key=key, headers=headers)
            missing = await door.request("GET", f"/v1/items/{uuid4()}", key=key, headers=headers)
            assert (foreign.status_code, foreign.content) == (404, missing.content)
        # Whose memory it is comes from the identity: no role of a credential opens another person's.
        claimed = {**BOB, "Recordari-Role": "admin"}
        assert await recalled(door, "triages the queue", headers=claimed) == []


# D7 "Episodic at session-close: compounding pass extracts procedural patterns to persistent (typology promotion), archives
# source episodes per the universal audit posture"; D9 "action-linkage holds rows for audit"


async def test_a_closed_session_leaves_patterns_and_archives_its_episodes(resources: Resources) -> None:
    async with open_door(resources) as door:
        await ok(door.request("POST", "/v1/sessions", key="agent", json={"session_id": "chat-1"}, headers=ANA))
        messages = {"messages": [{"content": "Please always answer me in Dutch."}]}
        await ok(door.request("POST", "/v1/sessions/chat-1/messages", key="agent", json=messages, headers=ANA))
        done = [f"Checked the invoice before refunding order {number}" for number in (17, 23)]
        for content in done:
            episode = {"content": content, "session_id": "chat-1"}
            await ok(door.request("POST", "/v1/episodes", key="agent", json=episode, headers=ANA))
        await ok(door.request("POST", "/v1/sessions/chat-1/close", key="agent", headers=ANA))
        consolidated = await ok(door.request("POST", "/v1/sessions/chat-1/consolidate"))
        assert consolidated["archived"] == 2
        listed = await ok(door.request("GET", "/v1/items?kind=procedure"))
        assert {item["tier"] for item in listed["items"]} == {"persistent"}
        contents = sorted(item["content"] for item in listed["items"])
        assert contents == ["Checked the invoice before refunding order …", "Please always answer me in Dutch."]
        archived = await ok(door.request("GET", "/v1/items?kind=episode&state=archived"))
        assert sorted(item["content"] for item in archived["items"]) == done
        held = await say(door, "refund 17 was granted", kind="episode")
        await ok(door.request("PUT", f"/v1/items/{held}/holds/refund-17"))
        assert (await door.request("POST", f"/v1/items/{held}/forget", json={})).status_code == 409


# D9 "30 days rolling from last activity"; "session-close detection is application-side (lazy on next-activity check …)"; D2
# "new session allocated on first activity after 30-day idle"


async def test_an_operators_session_ends_thirty_days_after_its_last_activity(resources: Resources) -> None:
    async def add(door: Door, content: str) -> str:
        body = {"messages": [{"content": content}]}
        path = "/v1/sessions/chat-1/messages"
        return str((await ok(door.request("POST", path, key="agent", json=body, headers=ANA)))["session_id"])

    async with open_door(resources) as door:
        await ok(door.request("PATCH", "/v1/tenant", json={"settings": {"sessions": {"operators": ["ana"]}}}))
        await ok(door.request("POST", "/v1/sessions", key="agent", json={"session_id": "chat-1"}, headers=ANA))
        assert await add(door, "the queue is empty") == "chat-1"
    async with door_in(resources, 29) as door:
        assert await add(door, "still empty") == "chat-1"
    async with door_in(resources, 60) as door:
        successor = await add(door, "a month later")
        assert successor != "chat-1"
        assert (await ok(door.request("GET", "/v1/sessions/chat-1", key="agent", headers=ANA)))["status"] == "closed"
