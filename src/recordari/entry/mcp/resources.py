"""What an MCP client can read by address: a memory, and the newest facts."""

from __future__ import annotations

import json
from collections.abc import Mapping
from uuid import UUID

import mcp_types as types
from mcp.shared.exceptions import MCPError
from pydantic import TypeAdapter

from recordari.app import Memory
from recordari.core.items import Kind
from recordari.errors import NotFound, RecordariError
from recordari.kit.problems import public_detail
from recordari.memory.bodies import ItemShown

FACTS = "recordari://facts"
MEMORY = "recordari://memories/"
JSON = "application/json"
NEWEST = 50  # facts that the list has

LISTED = types.ListResourcesResult(
    resources=[
        types.Resource(
            uri=FACTS,
            name="facts",
            title="What is known",
            description=f"The newest {NEWEST} facts about the user and the agent.",
            mime_type=JSON,
        )
    ]
)
TEMPLATES = types.ListResourceTemplatesResult(
    resource_templates=[
        types.ResourceTemplate(
            uri_template=f"{MEMORY}{{id}}",
            name="memory",
            title="A memory",
            description="One memory, whole, by the id that `recall` gives.",
            mime_type=JSON,
        )
    ]
)
_items = TypeAdapter(list[ItemShown])


async def read(memory: Memory, address: str) -> types.ReadResourceResult:
    """What stands at the address, for whom the memory is; an error of the protocol where there is nothing."""
    try:
        shown = await _read(memory, address)
    except RecordariError as error:
        raise MCPError(code=types.INVALID_PARAMS, message=f"{error.code}: {public_detail(error)}") from error
    text = json.dumps(shown, ensure_ascii=False)
    return types.ReadResourceResult(contents=[types.TextResourceContents(uri=address, mime_type=JSON, text=text)])


async def _read(memory: Memory, address: str) -> list[Mapping[str, object]] | Mapping[str, object]:
    if address == FACTS:
        page = await memory.list_items(kinds=[Kind.FACT], limit=NEWEST)
        found: list[Mapping[str, object]] = _items.dump_python(_items.validate_python(page.items), mode="json")
        return found
    if address.startswith(MEMORY):
        return ItemShown.model_validate(await memory.get_item(_id(address.removeprefix(MEMORY)))).model_dump(
            mode="json"
        )
    raise NotFound(f"there is nothing at this address; there are {FACTS} and {MEMORY}{{id}}")


def _id(text: str) -> UUID:
    try:
        return UUID(text)
    except ValueError:
        raise NotFound("there is no such item") from None
