"""One scenario through every door (library, client, REST, MCP over HTTP and over stdio, command line): the same answers.

REST and MCP are asked over a real socket, MCP over stdio and the command line in processes of their own. Each thing is
first stated through another door and then through all the others, which must find the same row.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import Any, Protocol

import httpx2
import pytest
import uvicorn
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from tests.doors.test_cli import PROGRAM, Cli, connected
from tests.patience import PATIENCE
from tests.working import settled

from recordari.app import Memory
from recordari.client import Client as RecordariClient
from recordari.config import Settings
from recordari.core.identity import Identity
from recordari.core.items import MAX_CONTENT_BYTES
from recordari.doors.rest.app import create_app
from recordari.errors import RecordariError
from recordari.memory.items import NO_SUCH_OUTPUT

WHO = {"user": "ana", "agent": "helper", "session": "chat-1"}
REPORT = "".join(f"order {number}: shipped to Porto\n" for number in range(MAX_CONTENT_BYTES // 16))
THINGS: list[dict[str, Any]] = [
    {"content": "The launch moves to 14 May", "speaker": "Ana", "source_ref": "m1"},
    {"content": "I will tell the printers", "speaker": "helper", "source_ref": "m2"},
    {"content": REPORT, "kind": "tool_output", "source_ref": "call-1"},
    {"content": "We chose the blue cover", "kind": "session_summary", "source_ref": "summary-1"},
    {"content": "Ana prefers tea, and no sugar", "kind": "fact", "scope": "user"},
    {"content": "Questions about orders go to the warehouse", "kind": "fact", "scope": "agent"},
]
QUESTIONS: list[dict[str, Any]] = [
    {"query": "When is the launch?"},
    {"query": "What does she drink?", "scope": "user", "top_k": 1},
    {"query": "warehouse orders", "top_k": 20, "source_kinds": ["tool_output", "fact"], "enable_rerank": False},
]


class Refused(Exception):
    """What a door says when it refuses."""


class DoorToMemory(Protocol):
    """What the scenario asks of a door."""

    name: str

    async def remember(self, thing: Mapping[str, Any]) -> dict[str, Any] | None:
        """Which row holds it; None where the door leaves that kind out."""

    async def recall(self, asked: Mapping[str, Any]) -> dict[str, Any]: ...

    async def read(self, key: str) -> dict[str, Any]: ...


def without_citations(answer: dict[str, Any]) -> dict[str, Any]:
    """The answer as doors show it that cite with documents only; nothing here came from one."""
    assert all(item.pop("citation") is None for item in answer["items"])
    return answer


class Library:
    name = "library"

    def __init__(self, memory: Memory | RecordariClient) -> None:
        self.memory = memory

    async def remember(self, thing: Mapping[str, Any]) -> dict[str, Any] | None:
        return asdict(await self.memory.remember(**thing))

    async def recall(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        try:
            answer = asdict(await self.memory.recall(**asked))
        except RecordariError as error:
            raise Refused(error.message) from error
        assert answer.pop("trace") is None
        return without_citations(answer)

    async def read(self, key: str) -> dict[str, Any]:
        try:
            return asdict(await self.memory.read_tool_output(key))
        except RecordariError as error:
            raise Refused(error.message) from error


class OverHttp(Library):
    """The client has the library's own verbs and results."""

    name = "client"


class Rest:
    name = "rest"

    def __init__(self, client: httpx2.AsyncClient) -> None:
        self.client = client

    async def remember(self, thing: Mapping[str, Any]) -> dict[str, Any] | None:
        return self.answered(await self.client.post("/v1/items", json=thing))

    async def recall(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        return self.answered(await self.client.post("/v1/recall", json=asked))

    async def read(self, key: str) -> dict[str, Any]:
        return self.answered(await self.client.get(f"/v1/tool_outputs/{key}"))

    def answered(self, answer: httpx2.Response) -> dict[str, Any]:
        if answer.status_code >= 400:
            raise Refused(answer.json()["detail"])
        body: dict[str, Any] = answer.json()
        return body


class Mcp:
    def __init__(self, name: str, client: Client) -> None:
        self.name = name
        self.client = client

    async def remember(self, thing: Mapping[str, Any]) -> dict[str, Any] | None:
        if thing.get("kind") != "fact":
            return None
        return await self.call("remember_fact", {"content": thing["content"], "scope": thing["scope"]})

    async def recall(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        return await self.call("recall", asked)

    async def read(self, key: str) -> dict[str, Any]:
        return await self.call("read_tool_output", {"key": key})

    async def call(self, tool: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        result = await self.client.call_tool(tool, dict(arguments))
        if result.is_error:
            _, _, message = result.content[0].text.partition(": ")  # type: ignore[union-attr]
            raise Refused(message)
        assert isinstance(result.structured_content, dict)
        return result.structured_content


class CommandLine:
    name = "cli"

    def __init__(self, command: Cli, *who: str) -> None:
        self.command = command
        self.who = ("--tenant", "test", *who)

    async def remember(self, thing: Mapping[str, Any]) -> dict[str, Any] | None:
        if thing.get("kind") == "fact":
            return None  # it could, but each process takes its time
        options = [part for name in thing.keys() - {"content"} for part in (f"--{name.replace('_', '-')}", thing[name])]
        return await self.run("remember", thing["content"], *options, *self.who)

    async def recall(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        options = ["--scope", asked.get("scope", "any"), "--top-k", str(asked.get("top_k", 5))]
        for kind in asked.get("source_kinds", []):
            options += ["--kind", kind]
        if not asked.get("enable_rerank", True):
            options.append("--no-rerank")
        return without_citations(await self.run("recall", asked["query"], *options, *self.who))

    async def read(self, key: str) -> dict[str, Any]:
        return await self.run("read-tool-output", key, "--tenant", "test")

    async def run(self, *arguments: str) -> dict[str, Any]:
        process = await asyncio.create_subprocess_exec(
            PROGRAM,
            *arguments,
            "--json",
            env=self.command.environment,
            cwd=self.command.folder,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        out, err = await asyncio.wait_for(process.communicate(), PATIENCE)
        if process.returncode:
            assert process.returncode == 1, err.decode()
            raise Refused(err.decode().removeprefix("error: ").removesuffix("\n"))
        answer: dict[str, Any] = json.loads(out)
        return answer


@asynccontextmanager
async def served(memory: Memory) -> AsyncIterator[str]:
    """The address of a real server in this process."""
    app = create_app(resources=memory.resources)
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_config=None, lifespan="on", ws="none"))
    task = asyncio.create_task(server.serve())
    while not server.started:
        assert not task.done()
        await asyncio.sleep(0.02)
    try:
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        await task


@pytest.fixture
def command(settings: Settings, tmp_path: Path) -> Cli:
    """Use the command line on the same database, leaving background work to the test."""
    return connected(settings, tmp_path, RECORDARI_EMBEDDING_PROFILE="fast", RECORDARI_WORKER="false")


@asynccontextmanager
async def opened(memory: Memory, command: Cli, who: Mapping[str, str]) -> AsyncIterator[list[DoorToMemory]]:
    """Every door to the tenant `test`, acting for who is named."""
    key = (await memory.create_key("agent")).key
    headers = {"Authorization": f"Bearer {key}", **{f"Recordari-{noun.title()}": name for noun, name in who.items()}}
    options = [part for noun, name in who.items() for part in (f"--{noun}", name)]
    async with AsyncExitStack() as stack:
        address = await stack.enter_async_context(served(memory))
        http = httpx2.AsyncClient(base_url=address, headers=headers, timeout=60)
        await stack.enter_async_context(http)
        over_http = Client(streamable_http_client(f"{address}/mcp", http_client=http))
        program = StdioServerParameters(
            command=str(PROGRAM),
            args=["mcp", "--tenant", "test", *options],
            env=command.environment,
            cwd=command.folder,
        )
        remote = await stack.enter_async_context(RecordariClient(address, key=key).acting_as(**who))
        agent = memory.bound(Identity(tenant_id=memory.identity.tenant_id))
        yield [
            Library(agent.acting_as(**who)),
            Rest(http),
            CommandLine(command, *options),
            OverHttp(remote),
            Mcp("mcp", await stack.enter_async_context(over_http)),
            Mcp("mcp stdio", await stack.enter_async_context(Client(program))),
        ]


LEFT_OUT = {"hint", "passage"}
"""They are no part of a JSON answer in which they have no value."""


def plain(value: Any) -> Any:
    """An answer without the differences of form that JSON brings."""
    match value:
        case dict():
            kept = {name: each for name, each in value.items() if each is not None or name not in LEFT_OUT}
            return {name: plain(each) for name, each in kept.items()}
        case list() | tuple():
            return [plain(each) for each in value]
        case datetime():
            return value.timestamp()
        case None | bool() | int() | float():
            return value
        case _:
            try:
                return datetime.fromisoformat(str(value)).timestamp()
            except ValueError:
                return str(value)


async def test_every_door_remembers_and_recalls_the_same(memory: Memory, command: Cli) -> None:
    async with opened(memory, command, WHO) as doors:
        key = ""
        for place, thing in enumerate(THINGS):
            first = place % len(doors) if thing.get("kind") == "fact" else place % 3
            turn = [*doors[first:], *doors[:first]]
            kept = [answer for door in turn if (answer := await door.remember(thing)) is not None]
            assert [answer["was_new"] for answer in kept] == [True, *[False] * (len(kept) - 1)]
            assert len({str(answer["id"]) for answer in kept}) == 1
            assert len({answer["source_ref"] for answer in kept}) == 1
            key = kept[0].get("payload_key") or key
        await settled(memory)
        for asked in QUESTIONS:
            answers = [plain(await door.recall(asked)) for door in doors]
            scores = [[item.pop("score") for item in answer["items"]] for answer in answers]
            assert answers[0]["items"], asked
            assert not answers[0]["degraded"]
            for door, answer in zip(doors, answers, strict=True):
                assert answer == answers[0], (door.name, asked)
            for door, given in zip(doors, scores, strict=True):
                # A memory that is asked often is ranked in the process, which may round the last digit otherwise.
                assert given == pytest.approx(scores[0], abs=2e-4), (door.name, asked)
        for door in doors:
            whole = await door.read(key)
            assert (whole["content"], whole["is_whole"]) == (REPORT, True), door.name


async def test_every_door_refuses_with_the_same_words(memory: Memory, command: Cli) -> None:
    async with opened(memory, command, {"session": "chat-1"}) as doors:
        for verb, argument, words in (
            ("recall", {"query": "   "}, "query must not be empty"),
            (
                "recall",
                {"query": "tea", "scope": "user"},
                "scope user needs a user: use a credential of a person, or name the user (Recordari-User, --user)",
            ),
            ("read", "tout_nothing", NO_SUCH_OUTPUT),
        ):
            for door in doors:
                with pytest.raises(Refused) as refused:
                    await getattr(door, verb)(argument)
                assert str(refused.value) == words, door.name


async def test_the_library_refuses_an_unknown_name_and_lists_those_there_are(memory: Memory) -> None:
    for call in (
        memory.recall("tea", scope="nonsense"),
        memory.recall("tea", source_kinds=["nonsense"]),
        memory.remember("tea", kind="nonsense"),
        memory.remember("tea", scope="nonsense"),
        memory.remember("tea", tier="nonsense", session_id="s"),
        memory.remember("tea", trust="nonsense", session_id="s"),
        memory.remember_fact("tea", scope="nonsense"),
    ):
        with pytest.raises(RecordariError, match=r"must be one of .*, ") as refused:
            await call
        assert refused.value.code == "invalid_input"
