"""With an administrator's key a list shows what was asked for: of the user or agent that is named, and of all where none is."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.doors.rest_door import Door, open_door
from tests.doors.test_cli import connected
from tests.doors.test_mcp import called
from tests.doors.test_mcp import connected as mcp_client

from recordari.app import Memory
from recordari.config import Settings
from recordari.kit.resources import Resources

OF_ANA = {"Ana drinks tea", "Ana's report goes to Kim"}
OF_BEN = {"Ben drinks rum", "Ben's report goes to Lee"}
OF_NOBODY = {"Reports are due on Friday"}
OF_ALL = {"The office opens at eight"}


async def furnish(memory: Memory) -> None:
    ana, ben = (memory.acting_as(user=user, agent="support") for user in ("ana", "ben"))
    await ana.remember_fact("Ana drinks tea", scope="user")
    await ana.remember_fact("Ana's report goes to Kim", scope="agent")
    await ben.remember_fact("Ben drinks rum", scope="user")
    await ben.remember_fact("Ben's report goes to Lee", scope="agent")
    await memory.acting_as(agent="support").remember_fact("Reports are due on Friday", scope="agent")
    await memory.acting_as(agent="sales").remember_fact("The price is nine", scope="agent")
    await memory.remember("The office opens at eight", kind="fact", scope="tenant")


@asynccontextmanager
async def furnished(resources: Resources) -> AsyncIterator[Door]:
    async with open_door(resources) as door:
        await furnish(door.memory)
        yield door


ASKED = [
    ({"user": "ana"}, OF_ANA | OF_ALL),
    ({"user": "ben"}, OF_BEN | OF_ALL),
    ({"user": "nobody"}, OF_ALL),
    ({"agent": "sales"}, {"The price is nine"} | OF_ALL),
    ({"agent": "support"}, OF_ANA | OF_BEN | OF_NOBODY | OF_ALL),
    ({}, OF_ANA | OF_BEN | OF_NOBODY | OF_ALL | {"The price is nine"}),
]


@pytest.mark.parametrize(("asked", "shown"), ASKED)
async def test_the_list_of_items_is_of_whom_the_administrator_names(
    resources: Resources, asked: dict[str, str], shown: set[str]
) -> None:
    headers = {f"Recordari-{noun.capitalize()}": name for noun, name in asked.items()}
    async with furnished(resources) as door:
        answer = await door.request("GET", "/v1/items", params={"kind": "fact"}, headers=headers)
        assert {item["content"] for item in answer.json()["items"]} == shown
        async with mcp_client(door, key="admin", headers=headers) as client:
            told = await called(client, "list_memories")
        assert {memory["content"] for memory in told["items"]} == shown
        page = await door.memory.acting_as(**asked).list_items(kinds=["fact"])
        assert {item.content for item in page.items} == shown


async def test_the_command_line_lists_of_whom_it_is_told(memory: Memory, settings: Settings, tmp_path: Path) -> None:
    await furnish(memory)
    command = connected(settings, tmp_path)
    for asked, shown in ASKED:
        options = [part for noun, name in asked.items() for part in (f"--{noun}", name)]
        listed = command.json("facts", "list", "--tenant", "test", *options)
        assert {item["content"] for item in listed["items"]} == shown, asked


async def test_a_plain_key_sees_no_other_agent_facts_than_those_of_its_agent(resources: Resources) -> None:
    async with furnished(resources) as door:
        answer = await door.request("GET", "/v1/items", key="agent", headers={"Recordari-User": "ana"})
    assert {item["content"] for item in answer.json()["items"]} == {"Ana drinks tea"} | OF_ALL
