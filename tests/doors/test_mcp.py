"""The MCP door, asked by the SDK's own client as an agent would, in the present protocol and in the old one."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

import httpx2
import mcp_types as types
import pytest
from mcp import Client
from mcp.client.session import ElicitationFnT
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError
from tests.doors.rest_door import Door, client_of, logs, open_door
from tests.patience import PATIENCE

from recordari.kit.resources import Resources

MODES = ("auto", "legacy")
CHAT = {"Recordari-User": "ana", "Recordari-Agent": "helper", "Recordari-Session": "chat-1"}
INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    },
}
ACCEPT = {"Accept": "application/json, text/event-stream"}


@asynccontextmanager
async def connected(
    door: Door,
    *,
    mode: str = "auto",
    key: str = "agent",
    headers: dict[str, str] | None = None,
    path: str = "/mcp",
    asks: ElicitationFnT | None = None,
) -> AsyncIterator[Client]:
    """A client of the door in this process, with the key of that kind; `asks` asks its user."""
    async with client_of(door.app) as http:
        http.headers.update({"Authorization": f"Bearer {door.keys[key]}", **(CHAT if headers is None else headers)})
        transport = streamable_http_client(f"http://127.0.0.1{path}", http_client=http)
        async with Client(transport, mode=mode, elicitation_callback=asks) as client:
            yield client


class Person:
    """A user whom the host asks: the questions, and the same answer to each."""

    def __init__(self, action: Literal["accept", "decline", "cancel"]) -> None:
        self.action: Literal["accept", "decline", "cancel"] = action
        self.questions: list[str] = []

    async def ask(self, _: object, question: types.ElicitRequestParams) -> types.ElicitResult:
        self.questions.append(question.message)
        return types.ElicitResult(action=self.action, content={} if self.action == "accept" else None)


async def called(client: Client, tool: str, **arguments: Any) -> dict[str, Any]:
    """The structured answer of a tool that must not fail; its text says the same."""
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, result.content
    assert isinstance(result.structured_content, dict)
    assert json.loads(result.content[0].text) == result.structured_content  # type: ignore[union-attr]
    return result.structured_content


async def refused(client: Client, tool: str, **arguments: Any) -> str:
    """The text of a tool that must fail."""
    result = await client.call_tool(tool, arguments)
    assert result.is_error
    text: str = result.content[0].text  # type: ignore[union-attr]
    return text


@pytest.mark.parametrize("mode", MODES)
async def test_a_fact_is_remembered_recalled_and_stated_once(resources: Resources, mode: str) -> None:
    async with open_door(resources) as door, connected(door, mode=mode) as client:
        first = await called(client, "remember_fact", content="Ana prefers tea, and no sugar")
        again = await called(client, "remember_fact", content="Ana prefers tea, and no sugar")
        assert (first["was_new"], again["was_new"]) == (True, False)
        assert again["id"] == first["id"]
        answer = await called(client, "recall", query="tea or sugar?")
        assert set(answer) - {"hint"} == {"items", "total", "degraded", "rerank_used", "confidence"}
        assert [(item["id"], item["scope"]) for item in answer["items"]] == [(first["id"], "user")]
        assert answer["degraded"] is True


@pytest.mark.parametrize("mode", MODES)
async def test_a_preview_is_read_in_parts_to_its_end(resources: Resources, mode: str) -> None:
    async with open_door(resources) as door, connected(door, mode=mode) as client:
        body = "".join(f"row {number}\n" for number in range(15_000))
        chat = door.memory.acting_as(user="ana", agent="helper", session="chat-1")
        await chat.remember(body, kind="tool_output")
        (item,) = (await called(client, "recall", query="row 14999", source_kinds=["tool_output"]))["items"]
        assert len(item["content"]) < 4096
        read = ""
        start: int | None = 0
        while start is not None:
            part = await called(client, "read_tool_output", key=item["payload_key"], start=start)
            read, start = read + part["content"], part["next_start"]
        assert read == body


async def test_a_model_can_ask_for_a_time_and_for_one_source(resources: Resources) -> None:
    async with open_door(resources) as door, connected(door) as client:
        chat = door.memory.acting_as(user="ana", agent="helper", session="chat-1")
        for day in (1, 2):
            await chat.remember(f"standup of day {day}", event_time=datetime(2026, 3, day, 9, tzinfo=UTC))
        asked = {"since": "2026-03-02T00:00:00Z", "until": "2026-03-03T00:00:00Z"}
        (item,) = (await called(client, "recall", query="standup", **asked))["items"]
        assert item["content"] == "standup of day 2"
        then = "2026-03-01T12:00:00Z"
        (item,) = (await called(client, "recall", query="standup", as_of=then))["items"]
        assert item["content"] == "standup of day 1"
        assert (await called(client, "recall", query="standup", known_at=then))["items"] == []
        assert "since" in await refused(client, "recall", query="standup", since="yesterday")
        for source, month in (("rules", "May"), ("notes", "June")):
            await door.memory.add_source(source)
            await door.memory.add_document(f"{month}.md", text=f"Parcels go back in {month}", source=source)
        (hit,) = (await called(client, "search_knowledge", query="parcels", source="notes"))["items"]
        assert hit["citation"]["document"] == "June.md"
        assert "no such source" in await refused(client, "search_knowledge", query="parcels", source="nowhere")


async def test_the_tools_say_what_they_do_and_when_to_use_them(resources: Resources) -> None:
    async with open_door(resources) as door, connected(door) as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert set(tools) == {
            "recall",
            "remember_fact",
            "forget",
            "get_context",
            "read_tool_output",
            "search_knowledge",
            "query_data",
            "list_memories",
        }
        description = tools["recall"].description or ""
        assert "trimmed for length, call recall before answering; do not guess" in description
        for tool in tools.values():
            assert tool.annotations is not None
            assert tool.annotations.read_only_hint is (tool.name not in {"remember_fact", "forget"})
            assert tool.annotations.destructive_hint is (tool.name == "forget")
            assert tool.annotations.open_world_hint is False
            assert tool.output_schema is not None
            # Who asks is no argument, and neither is what only an administrator may see.
            taken = set(tool.input_schema["properties"])
            assert not taken & {"tenant_id", "tenant", "user_id", "agent_id", "session_id", "include_superseded"}
        assert client.instructions
        assert "recall" in client.instructions


async def test_errors_help_the_model_and_show_nothing_of_the_inside(resources: Resources) -> None:
    async with open_door(resources) as door, connected(door) as client:
        assert "top_k: Input should be less than or equal to 20" in await refused(
            client, "recall", query="tea", top_k=99
        )
        assert "'session', 'user', 'agent', 'tenant', 'history' or 'any'" in await refused(
            client, "recall", query="tea", scope="world"
        )
        assert "tenant_id: is not a known field" in await refused(client, "recall", query="tea", tenant_id="other")
        assert "get_context takes question, budget" in await refused(client, "get_context", query="tea")
        assert (await refused(client, "recall")).startswith("invalid_input: query: ")
        assert await refused(client, "recall", query="  ") == "invalid_input: query must not be empty"
        missing = await refused(client, "read_tool_output", key="tout_nothing")
        assert missing.startswith("not_found: there is no such tool output; its key is the payload_key")
        assert "there are recall, remember_fact, read_tool_output" in await refused(client, "forget_everything")
        async with connected(door, headers={}) as nobody:
            assert (await refused(nobody, "recall", query="tea", scope="user")).startswith("unauthenticated: ")
        await resources.database.close()
        away = await refused(client, "recall", query="tea")
        assert away == "database_unavailable: The database cannot be reached; `recordari doctor` tells why."


async def test_a_list_sent_as_text_is_understood(resources: Resources) -> None:
    async with open_door(resources) as door, connected(door) as client:
        kept = await called(client, "remember_fact", content="Ana is 40", metadata='{"from": "form"}')
        answer = await called(client, "recall", query="Ana", source_kinds='["fact"]')
        assert [(item["id"], item["metadata"]) for item in answer["items"]] == [(kept["id"], {"from": "form"})]


@pytest.mark.parametrize("mode", MODES)
async def test_memories_are_listed_and_forgotten_for_good(resources: Resources, mode: str) -> None:
    async with open_door(resources) as door, connected(door, mode=mode) as client:
        for number in range(3):
            await called(client, "remember_fact", content=f"Ana has a cat named Mia {number}")
        first = await called(client, "list_memories", limit=2)
        rest = await called(client, "list_memories", limit=2, before=first["next_before"])
        assert [item["content"][-1] for item in first["items"] + rest["items"]] == ["2", "1", "0"]
        assert rest["next_before"] is None
        gone = first["items"][0]["id"]
        assert (await called(client, "forget", id=gone, reason="asked"))["item_ids"] == [gone]
        assert gone not in [item["id"] for item in (await called(client, "recall", query="cat named Mia"))["items"]]
        assert (await refused(client, "forget", id=gone)).startswith("not_found: ")
        async with connected(door, headers={"Recordari-User": "bob"}) as bob:
            assert (await called(bob, "list_memories"))["items"] == []
            assert await refused(bob, "forget", id=first["items"][1]["id"]) == await refused(
                bob, "forget", id="018f0000-0000-7000-8000-000000000000"
            )


async def test_a_host_that_can_ask_asks_its_user_before_anything_is_forgotten(resources: Resources) -> None:
    async with open_door(resources) as door:
        for path, tool in (("/mcp", "forget"), ("/mcp/mem0", "delete_memory")):
            kept = await door.memory.acting_as(user="ana").remember_fact(f"Ana keeps bees behind {path}")
            for action in ("decline", "cancel"):
                person = Person(action)  # type: ignore[arg-type]
                async with connected(door, path=path, asks=person.ask) as client:
                    assert (await refused(client, tool, id=str(kept.id))).startswith("declined: the user did not agree")
                    assert (await refused(client, tool, id="nonsense")).startswith("invalid_input: ")
                (question,) = person.questions
                assert "for good" in question and question.endswith(f"Ana keeps bees behind {path}")
            person = Person("accept")
            async with connected(door, path=path, asks=person.ask) as client:
                assert (await called(client, tool, id=str(kept.id)))["item_ids"] == [str(kept.id)]
                assert (await refused(client, tool, id=str(kept.id))).startswith("not_found: ")
            assert len(person.questions) == 1, "there is nothing to ask about what is not there"


async def test_an_answer_to_another_question_forgets_nothing(resources: Resources) -> None:
    async with open_door(resources) as door, connected(door, asks=Person("decline").ask) as client:
        kept, other = [
            str((await door.memory.acting_as(user="ana").remember_fact(f"Ana rows boat {number}")).id)
            for number in (1, 2)
        ]
        asked = await client.session.call_tool("forget", {"id": kept}, allow_input_required=True)
        assert isinstance(asked, types.InputRequiredResult) and asked.input_requests
        agreed = {name: types.ElicitResult(action="accept", content={}) for name in asked.input_requests}
        replayed = await client.call_tool("forget", {"id": other}, input_responses=agreed)
        assert replayed.is_error, "the user declines the other question"
        done = await client.call_tool("forget", {"id": kept}, input_responses=agreed)
        assert not done.is_error
        assert [item["id"] for item in (await called(client, "list_memories"))["items"]] == [other]


@pytest.mark.parametrize("mode", MODES)
async def test_a_memory_is_read_by_its_address(resources: Resources, mode: str) -> None:
    async with open_door(resources) as door, connected(door, mode=mode) as client:
        kept = await called(client, "remember_fact", content="Ana plays chess")
        listed = {one.uri for one in (await client.list_resources()).resources}
        assert listed == {"recordari://facts", "recordari://profile"}
        (template,) = (await client.list_resource_templates()).resource_templates
        address = template.uri_template.replace("{id}", kept["id"])
        (shown,) = (await client.read_resource(address)).contents
        assert json.loads(shown.text)["content"] == "Ana plays chess"  # type: ignore[union-attr]
        (facts,) = (await client.read_resource("recordari://facts")).contents
        assert [fact["item_id"] for fact in json.loads(facts.text)] == [kept["id"]]  # type: ignore[union-attr]
        async with connected(door, headers={"Recordari-User": "bob"}, mode=mode) as bob:
            for missing in (address, "recordari://memories/nonsense", "file:///etc/passwd"):
                with pytest.raises(MCPError, match="not_found: "):
                    await bob.read_resource(missing)


@pytest.mark.parametrize("mode", MODES)
async def test_documents_are_found_with_where_they_say_it(resources: Resources, mode: str) -> None:
    async with open_door(resources) as door, connected(door, mode=mode) as client:
        await door.memory.add_document("leave.md", text="# Leave\n\nParental leave is sixteen weeks.")
        (hit,) = (await called(client, "search_knowledge", query="parental leave"))["items"]
        assert (hit["citation"]["document"], hit["citation"]["heading"]) == ("leave.md", ["Leave"])


@pytest.mark.parametrize("mode", MODES)
async def test_the_context_is_one_text_within_its_budget(resources: Resources, mode: str) -> None:
    async with open_door(resources) as door, connected(door, mode=mode) as client:
        await called(client, "remember_fact", content="Ana is allergic to peanuts")
        given = await called(client, "get_context", question="What must Ana not eat: peanuts?", budget=1_000)
        assert "allergic to peanuts" in given["text"] and given["tokens"] <= 1_000
        assert "budget: " in await refused(client, "get_context", budget=1)


@pytest.mark.parametrize("mode", MODES)
async def test_a_database_is_asked_by_a_select_of_ones_own(resources: Resources, tmp_path: Path, mode: str) -> None:
    with sqlite3.connect(tmp_path / "shop.db") as shop:
        shop.execute("CREATE TABLE orders (id integer, total real)")
        shop.executemany("INSERT INTO orders VALUES (?, ?)", [(1, 10.5), (2, 20.0)])
    shop.close()
    async with open_door(resources, database_files=tmp_path) as door, connected(door, mode=mode) as client:
        missing = await refused(client, "query_data", sql="SELECT 1")
        assert "database" in missing
        await door.memory.add_database("shop", f"sqlite:///{tmp_path}/shop.db", tables=["orders"])
        given = await called(client, "query_data", sql="SELECT sum(total) AS total FROM orders")
        assert (given["columns"], given["rows"]) == (["total"], [[30.5]])
        assert (await refused(client, "query_data", sql="DELETE FROM orders")).startswith("invalid_input: ")
        assert "RECORDARI_LLM" in await refused(client, "query_data", question="How much was sold?")


async def test_the_profile_of_another_memory_server_has_its_names(resources: Resources) -> None:
    async with open_door(resources) as door, connected(door, path="/mcp/mem0") as client:
        assert {tool.name for tool in (await client.list_tools()).tools} == {
            "add_memory",
            "search_memories",
            "get_memories",
            "get_memory",
            "update_memory",
            "delete_memory",
        }
        kept = await called(client, "add_memory", text="Ana lives in Oslo")
        new = await called(client, "update_memory", id=kept["id"], text="Ana lives in Bergen")
        found = await called(client, "search_memories", query="Where does Ana live?")
        assert [item["content"] for item in found["items"]] == ["Ana lives in Bergen"]
        assert (await called(client, "get_memory", id=new["id"]))["content"] == "Ana lives in Bergen"
        await called(client, "delete_memory", id=new["id"])
        assert (await called(client, "get_memories"))["items"] == []


async def test_the_tools_of_an_administrator_need_an_administrators_key(resources: Resources) -> None:
    async with open_door(resources) as door:
        refusal = await door.request("POST", "/mcp/admin", key="agent", headers=ACCEPT, json=INITIALIZE)
        assert (refusal.status_code, refusal.json()["code"]) == (403, "forbidden")
        async with connected(door, key="admin", path="/mcp/admin") as client:
            kept = await called(client, "remember_fact", content="Ana lives in Oslo")
            new = await called(client, "edit_memory", id=kept["id"], content="Ana lives in Bergen", reason="moved")
            history = await called(client, "memory_history", id=new["id"])
            assert [item["content"] for item in history["items"]] == ["Ana lives in Oslo", "Ana lives in Bergen"]
            await called(client, "pin_memory", id=new["id"])
            await called(client, "invalidate_memory", id=new["id"])
            assert (await called(client, "recall", query="Bergen"))["items"] == []
            await called(client, "restore_memory", id=new["id"])
            assert (await called(client, "recall", query="Bergen"))["total"] == 1


async def test_headers_narrow_the_key_and_cannot_widen_it(resources: Resources) -> None:
    async with open_door(resources) as door:
        async with connected(door, key="alice", headers={}) as alice:
            await called(alice, "remember_fact", content="Alice likes jazz")
        async with connected(door, key="agent", headers={"Recordari-User": "bob"}) as bob:
            assert (await called(bob, "recall", query="jazz"))["items"] == []
        async with connected(door, key="agent", headers={"Recordari-User": "alice"}) as for_alice:
            assert (await called(for_alice, "recall", query="jazz"))["total"] == 1
        async with connected(door, key="other", headers={"Recordari-User": "alice"}) as elsewhere:
            assert (await called(elsewhere, "recall", query="jazz"))["items"] == []
        widened = {"Recordari-User": "bob", **ACCEPT}
        answer = await door.request("POST", "/mcp", key="alice", headers=widened, json=INITIALIZE)
        assert (answer.status_code, answer.json()["code"]) == (403, "forbidden")


async def test_without_a_key_or_from_a_foreign_page_nothing_is_answered(resources: Resources) -> None:
    async with open_door(resources) as door:

        async def initialize(key: str | None = "agent", **headers: str) -> httpx2.Response:
            return await door.request("POST", "/mcp", key=key, headers={**ACCEPT, **headers}, json=INITIALIZE)

        assert (await initialize()).status_code == 200
        assert (await initialize(Origin="http://localhost:6274")).status_code == 200
        for key in (None, "nonsense"):
            answer = await initialize(key)
            assert (answer.status_code, answer.headers["www-authenticate"]) == (401, "Bearer")
        for origin in ("https://evil.example", "null", "http://127.0.0.1.evil.example"):
            assert (await initialize(Origin=origin)).status_code == 403, origin
        assert (await initialize(Host="evil.example")).status_code == 403
        for method in ("GET", "DELETE"):
            assert (await door.request(method, "/mcp", headers=ACCEPT)).status_code == 405
        assert (await door.request("POST", "/mcp", headers=ACCEPT, content=b"{")).status_code < 500


async def test_what_is_said_stays_out_of_the_log(resources: Resources) -> None:
    canary = "CANARY-in-mcp"
    with logs() as log:
        async with open_door(resources) as door, connected(door) as client:
            await called(client, "remember_fact", content=canary)
            await called(client, "recall", query=canary)
            await refused(client, "recall", query=canary, top_k=canary)
            await refused(client, "read_tool_output", key=canary)
        assert 'route": "/mcp"' in log.getvalue()
    assert canary not in log.getvalue()


def test_without_the_extra_there_is_no_door_and_the_command_says_what_to_install() -> None:
    script = """
import sys
sys.modules["mcp"] = sys.modules["mcp_types"] = None
from recordari.config import Settings
from recordari.doors.rest.app import create_app
assert "/mcp" not in [getattr(route, "path", "") for route in create_app(Settings()).routes]
from recordari.doors.cli.main import main
sys.argv = ["recordari", "mcp"]
main()
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "error: MCP needs a further package; install it with `pip install 'recordari[mcp]'`\n"


async def test_prompts_and_resources_show_what_is_known(resources: Resources) -> None:
    async with open_door(resources) as door, connected(door) as client:
        await called(client, "remember_fact", content="Ana sails a boat named Halcyon.")
        names = {one.name for one in (await client.list_prompts()).prompts}
        assert names == {"what_do_you_know", "remember_this"}
        shown = await client.get_prompt("what_do_you_know", {"about": "the boat Halcyon"})
        text = shown.messages[0].content.text  # type: ignore[union-attr]
        assert text.startswith("What do you know about the boat Halcyon?") and "Ana sails a boat" in text
        assert "[begin memory" in text, "what is known is data"
        kept = await client.get_prompt("remember_this")
        assert "remember_fact" in kept.messages[0].content.text  # type: ignore[union-attr]
        with pytest.raises(MCPError, match="no such prompt"):
            await client.get_prompt("none")
        profile = (await client.read_resource("recordari://profile")).contents[0]
        assert "Halcyon" in json.loads(profile.text)["content"]  # type: ignore[union-attr]


async def test_a_connector_learns_which_issuer_opens_the_server(resources: Resources) -> None:
    async with open_door(resources) as door:
        path = "/.well-known/oauth-protected-resource"
        assert (await door.request("GET", path, key=None)).status_code in {401, 404}, "there is none without an issuer"
    issuer: dict[str, Any] = {"jwt_jwks_url": "http://127.0.0.1:9/jwks", "jwt_issuer": "https://login.example.com"}
    async with open_door(resources, **issuer) as door:
        for place, resource in ((path, "/mcp"), (f"{path}/mcp", "/mcp"), (f"{path}/mcp/agent", "/mcp/agent")):
            answer = await door.request("GET", place, key=None)
            assert answer.status_code == 200
            assert answer.json()["resource"] == f"http://127.0.0.1{resource}"
            assert answer.json()["authorization_servers"] == ["https://login.example.com"]
        assert (await door.request("GET", f"{path}/other", key=None)).status_code == 404
        for key, door_path in ((None, "/mcp"), ("nonsense", "/mcp/agent")):
            refusal = await door.request("POST", door_path, key=key, headers=ACCEPT, json=INITIALIZE)
            assert refusal.status_code == 401
            metadata = f"http://127.0.0.1{path}{door_path}"
            assert refusal.headers["www-authenticate"] == f'Bearer resource_metadata="{metadata}"'
            assert (await door.client.get(metadata)).json()["resource"].endswith(door_path)
        elsewhere = await door.request("GET", "/v1/items", key=None)
        assert (elsewhere.status_code, elsewhere.headers["www-authenticate"]) == (401, "Bearer")
