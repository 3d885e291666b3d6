"""Odd texts in every text field of REST: kept as they are, or refused with a reason; never an error of ours.

`RECORDARI_TEST_WEIRD=<file of JSON Lines>` adds a collection of such texts to the few that stand here.
"""

from __future__ import annotations

import json
import math
import os
import re
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote
from uuid import uuid4

import httpx2
import pytest
from tests.doors.rest_door import Door, furnish, open_door

from recordari.kit.resources import Resources
from recordari.privacy.rules.masking import PrivacyPolicy, sanitise

WEIRD = [
    "a\u0000b",
    "\ud83e\udd16".encode("utf-16", "surrogatepass").decode("utf-16") * 3 + "\u200d\ufe0f\u202e\u2066x",
    "'; DROP TABLE items; -- \\' \" %s %(tenant_id)s {} $1 ${x}",
    "\u3164\u2800\u180e \u200b\ufeff",
    "(" * 300 + "a" * 300 + "!" * 300,
    "../../etc/passwd%00\r\nX-Injected: yes",
]
ACTING = {"Recordari-User": "ana", "Recordari-Agent": "helper", "Recordari-Session": "chat-1"}
SLOWEST = 2.0  # seconds, for the collection: it is run by hand, on a machine that is otherwise idle
LONGEST_IN_ADDRESS = 2_000
SKIPPED = {"/v1/import", "/v1/import_export"}  # no JSON bodies; their own tests feed them broken lines


@dataclass(frozen=True, kw_only=True)
class Place:
    """A text field: of the body, the path or the query of one operation."""

    method: str
    path: str
    where: str
    name: str
    body: dict[str, Any]


def places(description: Mapping[str, Any]) -> Iterator[Place]:
    """Every text field that the description of the API names."""

    def resolved(schema: Mapping[str, Any]) -> Mapping[str, Any]:
        while "$ref" in schema:
            schema = description["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
        return schema

    def options(schema: Mapping[str, Any]) -> list[Mapping[str, Any]]:
        found = resolved(schema)
        return [resolved(each) for each in found.get("anyOf", [found])]

    def is_text(schema: Mapping[str, Any]) -> bool:
        return any(
            each.get("type") == "string" and each.get("format") not in {"uuid", "date-time"} and "enum" not in each
            for each in options(schema)
        )

    def least(schema: Mapping[str, Any]) -> Any:
        found = options(schema)[0]
        if "enum" in found:
            return found["enum"][0]
        match found.get("type"):
            case "string":
                return str(uuid4()) if found.get("format") == "uuid" else "x"
            case "integer" | "number":
                return 1
            case "boolean":
                return False
            case "array":
                return [least(found["items"])]
            case _:
                needed = found.get("required", ())
                return {name: least(found["properties"][name]) for name in needed}

    for path, methods in description["paths"].items():
        for method, operation in methods.items():
            content = operation.get("requestBody", {}).get("content", {}).get("application/json")
            body = least(content["schema"]) if content and path not in SKIPPED else {}
            for parameter in operation.get("parameters", ()):
                if parameter["in"] in {"path", "query"} and is_text(parameter["schema"]):
                    yield Place(method=method, path=path, where=parameter["in"], name=parameter["name"], body=body)
            if not content or path in SKIPPED:
                continue
            for shape in options(content["schema"]):
                for name, schema in shape.get("properties", {}).items():
                    if is_text(schema) or name in {"metadata", "value", "input", "settings", "spec"}:
                        yield Place(method=method, path=path, where="body", name=name, body=body)


async def send(door: Door, place: Place, text: str, ids: Mapping[str, str]) -> httpx2.Response:
    """Put the text where the place says."""

    def filled(match: re.Match[str]) -> str:
        in_path = place.where == "path" and match[1] == place.name
        return quote(text, safe="", errors="replace") if in_path else ids.get(match[1], str(uuid4()))

    body = dict(place.body)
    if place.where == "body":
        is_object = place.name in {"metadata", "input", "settings", "spec"}
        body[place.name] = {"text": text, text: 1} if is_object else text
    return await door.client.request(
        place.method.upper(),
        re.sub(r"{(\w+)}", filled, place.path),
        content=json.dumps(body).encode() if place.method in {"post", "put", "patch"} else None,
        params={place.name: text.encode("utf-8", "replace")} if place.where == "query" else None,
        headers={
            **ACTING,
            "Authorization": f"Bearer {door.keys['admin']}",
            "Content-Type": "application/json",
        },
    )


async def feed(door: Door, texts: list[str], *, slowest: float = math.inf) -> list[str]:
    """Put each text into each place; what went wrong."""
    ids = await furnish(door, "some text or other")
    wrong = []
    for place in places(door.app.openapi()):
        for number, text in enumerate(texts):
            start = time.perf_counter()
            # An address is bounded by clients and servers long before it reaches us.
            fitting = text if place.where == "body" else text[:LONGEST_IN_ADDRESS]
            answer = await send(door, place, fitting, ids)
            if answer.status_code >= 500:
                wrong.append(f"{place.method} {place.path} {place.name}: text {number} → {answer.status_code}")
            if time.perf_counter() - start > slowest:
                wrong.append(f"{place.method} {place.path} {place.name}: text {number} took too long")
    return wrong


async def kept_or_refused(door: Door, text: str) -> bool:
    """Whether a text comes back as it was said, without what hides words from a reader, or is refused."""
    said = {"content": text, "session_id": "weird"}
    made = await door.client.post(
        "/v1/items",
        content=json.dumps(said).encode(),
        headers={"Authorization": f"Bearer {door.keys['admin']}", "Content-Type": "application/json"},
    )
    if made.status_code == 422:
        return bool(made.json()["detail"])
    assert made.status_code in {200, 201}, made.text
    key = made.json().get("payload_key")
    path = f"/v1/tool_outputs/{key}" if key else f"/v1/items/{made.json()['id']}"
    shown = (await door.request("GET", path)).json()["content"]
    return shown in {text, sanitise(text, policy=PrivacyPolicy()).text}


async def test_odd_texts_in_every_field_are_no_error_of_ours(resources: Resources) -> None:
    async with open_door(resources, rate_limit="") as door:
        found = list(places(door.app.openapi()))
        assert len(found) > 100 and {place.where for place in found} == {"body", "path", "query"}
        wrong = await feed(door, WEIRD[:3])
        assert wrong == []
        for text in WEIRD:
            assert await kept_or_refused(door, text), text[:80]


async def test_a_time_that_the_database_does_not_know_is_refused(resources: Resources) -> None:
    async with open_door(resources) as door:
        for moment in ("4218-09-14T23:35:53+21:26", "9999-12-31T23:59:59-15:00", "0001-01-01T00:00:00+15:00"):
            said = {"content": "x", "session_id": "s", "event_time": moment}
            answer = await door.request("POST", "/v1/items", json=said)
            assert answer.status_code in {201, 422}, answer.text
            listed = await door.request("GET", "/v1/items", params={"since": moment})
            assert listed.status_code in {200, 422}, listed.text


async def test_a_collection_of_odd_texts_is_no_error_of_ours(resources: Resources) -> None:
    rows, texts = collected(), collection()
    async with open_door(resources, rate_limit="") as door:
        for row in rows:
            if (body := raw_body(row)) is not None:
                for path in ("/v1/items", "/v1/recall", "/v1/remember_fact"):
                    answer = await door.request(
                        "POST", path, content=body, headers={"Content-Type": "application/json"}
                    )
                    assert 400 <= answer.status_code < 500, row["id"]
        for text in texts:
            assert await kept_or_refused(door, text), text[:80]
        assert await feed(door, texts, slowest=SLOWEST) == []


def collected() -> list[dict[str, Any]]:
    """The rows of the collection; the test is skipped where there is none."""
    file = os.environ.get("RECORDARI_TEST_WEIRD")
    if not file:
        pytest.skip("set RECORDARI_TEST_WEIRD to a file of odd texts (JSON Lines)")
    return [json.loads(line) for line in Path(file).read_text(encoding="utf-8").splitlines()]


def collection() -> list[str]:
    """The texts of the collection."""
    return [text for row in collected() if (text := written(row)) is not None]


def written(row: Mapping[str, Any]) -> str | None:
    """The text of a row; None when it is a whole body."""
    if "text" in row:
        return str(row["text"])
    made = row.get("gen", {})
    if "words" in made:
        return " ".join(f"w{number}" for number in range(made["words"]))
    if "repeat" in made:
        return str(made.get("prefix", "") + made["repeat"] * made["n"] + made.get("suffix", ""))
    return None


def raw_body(row: Mapping[str, Any]) -> bytes | None:
    """The body of a row that is one."""
    if "raw_json" in row:
        return str(row["raw_json"]).encode("utf-8", "surrogatepass")
    made = row.get("gen", {})
    if "hex" in made:
        return bytes.fromhex(made["hex"])
    if "nested_array" in made:
        depth = int(made["nested_array"])
        return b"[" * depth + b"]" * depth
    if "nested_json" in made:
        depth = int(made["nested_json"])
        return b'{"content": "x", "metadata": ' + b'{"a":' * depth + b"1" + b"}" * depth + b"}"
    return None
