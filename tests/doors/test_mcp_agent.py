"""The tools of the profile `agent`, asked by the SDK's own client over a real socket and over standard input and output."""

from __future__ import annotations

import base64
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp import Client, StdioServerParameters
from mcp.client.session import ElicitationFnT
from mcp.client.streamable_http import streamable_http_client
from tests.doors.test_cli import PROGRAM, Cli, connected
from tests.doors.test_mcp import MODES, Person, called, refused
from tests.doors.test_same_answers import served

from recordari.app import Memory
from recordari.config import Settings
from recordari.doors.mcp.http import ROLES
from recordari.doors.mcp.profiles import PROFILES

WHO = {"user": "ana", "agent": "helper", "session": "chat-1"}
DOORS = ("http", "stdio")


@asynccontextmanager
async def asked_over(
    door: str, memory: Memory, command: Cli, *, asks: ElicitationFnT | None = None, mode: str = "auto"
) -> AsyncIterator[Client]:
    if door == "stdio":
        options = [part for noun, name in WHO.items() for part in (f"--{noun}", name)]
        program = StdioServerParameters(
            command=str(PROGRAM),
            args=["mcp", "--profile", "agent", "--tenant", "test", *options],
            env=command.environment,
            cwd=command.folder,
        )
        async with Client(program, elicitation_callback=asks, mode=mode) as client:
            yield client
        return
    key = (await memory.create_key("agent")).key
    headers = {"Authorization": f"Bearer {key}", **{f"Recordari-{noun.title()}": name for noun, name in WHO.items()}}
    async with (
        served(memory) as address,
        httpx2.AsyncClient(base_url=address, headers=headers, timeout=60) as http,
        Client(streamable_http_client(f"{address}/mcp/agent", http_client=http)) as client,
    ):
        yield client


@pytest.fixture
def command(settings: Settings, tmp_path: Path) -> Cli:
    """Use the command line on the same database, leaving background work to the test."""
    return connected(settings, tmp_path, RECORDARI_EMBEDDING_PROFILE="fast", RECORDARI_WORKER="false")


def test_the_default_profile_has_eight_tools_and_this_one_has_them_too() -> None:
    default, agent = ({tool.name for tool in PROFILES[name].tools} for name in ("default", "agent"))
    assert len(default) == 8 and default < agent
    assert len(agent) == len(PROFILES["agent"].tools)


@pytest.mark.parametrize("mode", MODES)
async def test_a_host_that_starts_the_server_asks_its_user_before_anything_is_forgotten(
    mode: str, memory: Memory, command: Cli
) -> None:
    kept = str((await memory.acting_as(user="ana").remember_fact("Ana keeps bees")).id)
    person = Person("decline")
    async with asked_over("stdio", memory, command, asks=person.ask, mode=mode) as client:
        assert (await refused(client, "forget", id=kept)).startswith("declined: ")
        person.action = "accept"
        assert (await called(client, "forget", id=kept))["item_ids"] == [kept]
    assert len(person.questions) == 2


@pytest.mark.parametrize("door", DOORS)
async def test_an_agent_works_through_a_run(door: str, memory: Memory, command: Cli) -> None:
    await memory.save_workflow("short", {"steps": ["ask", "answer"]}, agent_type="support", task_type="refund")
    async with asked_over(door, memory, command) as client:
        await _state(client)
        await _notes(client)
        await _run(client)
        await _questions(memory, client)
        choice = await called(client, "choose_workflow", agent_type="support", task_type="refund")
        assert choice["workflow"]["spec"] == {"steps": ["ask", "answer"]}
        rewarded = await called(client, "reward_workflow", choice_id=choice["choice_id"], score=1.0)
        assert (rewarded["was_new"], rewarded["workflow"]["alpha"]) == (True, 2.0)
        assert "conflict" in await refused(client, "reward_workflow", choice_id=choice["choice_id"], score=0.0)
    replay = await memory.acting_as(**WHO).replay_run("r1")
    assert [call.result for call in replay.calls] == [
        "Porto",
        {"found": [1, 2]},
        base64.b64encode(b"\xff\x00").decode(),
    ]


async def _state(client: Client) -> None:
    first = await called(client, "set_state", key="plan", value={"step": 1})
    again = await called(client, "set_state", key="plan", value='{"step": 2}', if_version=first["version"])
    assert again["value"] == {"step": 2}, "some clients send JSON as text"
    assert "precondition" in await refused(client, "set_state", key="plan", value=3, if_version=first["version"])
    assert (await called(client, "get_state", key="plan"))["value"] == {"step": 2}
    assert [entry["key"] for entry in (await called(client, "list_state"))["entries"]] == ["plan"]
    assert await called(client, "delete_state", key="plan") == {"removed": "plan"}
    assert "not_found" in await refused(client, "get_state", key="plan")


async def _questions(memory: Memory, client: Client) -> None:
    await memory.save_question("tea", "What does this customer drink?")
    fact = await memory.acting_as(user="ana").remember_fact("Ana drinks green tea.")
    assert [one["name"] for one in (await called(client, "list_questions"))["questions"]] == ["tea"]
    answer = await called(client, "standing_answer", name="tea")
    assert (answer["content"], answer["sources"]) == ("Ana drinks green tea.", [str(fact.id)])
    assert "not_found" in await refused(client, "standing_answer", name="coffee")


async def _notes(client: Client) -> None:
    note = await called(client, "add_note", content="Refund only with a receipt", kind="decision")
    assert [one["content"] for one in (await called(client, "list_notes"))["notes"]] == ["Refund only with a receipt"]
    await called(client, "delete_note", note_id=note["note_id"])
    assert (await called(client, "list_notes"))["notes"] == []


async def _run(client: Client) -> None:
    kept = await called(client, "append_episode", content="Checked the receipt of order 7, then refunded it")
    started = await called(client, "start_run", run_id="r1", input={"order": 7})
    assert [episode["id"] for episode in started["episodes"]] == [kept["id"]]
    results: list[dict[str, Any]] = [
        {"result": "Porto"},
        {"result": {"found": [1, 2]}},
        {"result": base64.b64encode(b"\xff\x00").decode(), "result_type": "image/png"},
    ]
    for result in results:
        await called(client, "record_tool_call", run_id="r1", name="track", arguments={"id": 7}, **result)
    assert (await called(client, "complete_run", run_id="r1", output={"refunded": True}))["status"] == "completed"
    assert "another output" in await refused(client, "complete_run", run_id="r1", output={"refunded": False})
    assert [run["output"] for run in (await called(client, "list_runs"))["runs"]] == [{"refunded": True}]
    assert [one["content"] for one in (await called(client, "last_episodes"))["episodes"]] == [
        "Checked the receipt of order 7, then refunded it"
    ]


@pytest.mark.parametrize("door", DOORS)
async def test_without_a_model_an_agent_learns_the_tables_and_brings_the_select(
    door: str, memory: Memory, command: Cli, tmp_path: Path
) -> None:
    with sqlite3.connect(tmp_path / "shop.db") as shop:
        shop.execute("CREATE TABLE orders (id INTEGER, customer TEXT, total REAL)")
        shop.execute("CREATE TABLE secrets (token TEXT)")
        shop.execute("INSERT INTO orders VALUES (1, 'Ana', 2.5)")
    shop.close()
    settings = memory.resources.settings.model_copy(update={"database_files": tmp_path})
    memory = Memory(replace(memory.resources, settings=settings), memory.identity)
    command.environment["RECORDARI_DATABASE_FILES"] = str(tmp_path)
    await memory.add_database("shop", f"sqlite:///{tmp_path}/shop.db", tables=["orders"], description="Sales")
    async with asked_over(door, memory, command) as client:
        context = (await called(client, "get_context", question="What did we sell?"))["text"]
        assert "tables of shop: orders(id, customer, total)" in context and "secrets" not in context
        said = await refused(client, "query_data", question="What did we sell?")
        assert "orders(id INTEGER, customer TEXT, total REAL)" in said and "secrets" not in said and "Ana" not in said
        answer = await called(client, "query_data", sql="SELECT sum(total) AS total FROM orders")
        assert answer["rows"] == [[2.5]]


def test_each_profile_has_its_door_and_role() -> None:
    assert {name: profile.role for name, profile in PROFILES.items()} == dict(ROLES)
