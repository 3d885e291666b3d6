"""What can be looked up: the sources of a tenant, and the short map of them that every context carries (C3)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any
from uuid import UUID

from pydantic import Field

from recordari.core.described import DESCRIBED
from recordari.core.tokens import cut_to_tokens, estimated_tokens
from recordari.errors import InvalidInput

MAP_TOKENS = 100  # what a map aims at; a tenant with many sources gets up to MOST_MAP_TOKENS
MOST_MAP_TOKENS = 200  # C2: the section's budget
MAX_SOURCE_NAME = 200
MAX_DESCRIPTION = 1_000
MAX_TOOL = 200
SHORTEST_DESCRIPTION = 6  # tokens; a shorter one says nothing

_HEAD = "What can be looked up, and with which tool:"
_MEMORY = "- recall: what was said, learned and done before"


class SourceKind(StrEnum):
    """What a source is, which also says what reaches it."""

    DOCUMENTS = "documents"
    DATABASE = "database"
    API = "api"
    MCP = "mcp"


_TOOLS = {SourceKind.DOCUMENTS: "search_knowledge", SourceKind.DATABASE: "query_data"}
_NOUNS = {SourceKind.DATABASE: "database", SourceKind.API: "API", SourceKind.MCP: "MCP server"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Something that can be looked up."""

    __pydantic_config__ = DESCRIBED

    source_id: UUID
    name: str
    kind: SourceKind
    description: str
    tool: str | None
    """What reaches it, where that does not follow from its kind."""
    documents: int
    chunks: int
    sync: dict[str, Any] | None
    """How far its last synchronisation with a folder came."""
    created_at: datetime
    updated_at: datetime
    folder: Annotated[str | None, Field(exclude=True)] = None
    """Where the operator keeps its files; no door shows it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MapEntry:
    """What the map says of one source."""

    name: str
    kind: SourceKind
    description: str = ""
    tool: str | None = None
    documents: int = 0


def checked_text(field: str, text: str, *, most: int, least: int = 0) -> str:
    """One line of text for people: no control characters, and not too long."""
    if not isinstance(text, str):
        raise InvalidInput(f"{field} must be text", field=field)
    line = " ".join(text.split())
    if not least <= len(line) <= most:
        raise InvalidInput(f"{field} must have {least} to {most} characters", field=field)
    if any(not character.isprintable() for character in line):
        raise InvalidInput(f"{field} must not contain control characters", field=field)
    return line


def written_map(entries: Sequence[MapEntry]) -> str:
    """Say in about 100 tokens which sources there are and which tool reaches each; never in more than 200.

    Where there is little room, descriptions are cut before sources are left out, and what is left out is counted.
    """
    listed = sorted(
        (one for one in entries if _is_worth_naming(one)), key=lambda one: (_tool(one), one.name.casefold())
    )
    for room in (40, 25, 15, 10, SHORTEST_DESCRIPTION, 0):
        text = _written(listed, room)
        if estimated_tokens(text) <= MAP_TOKENS:
            return text
    names = len(listed)
    while (
        names and estimated_tokens(text := _written(listed[:names], 0, left_out=len(listed) - names)) > MOST_MAP_TOKENS
    ):
        names -= 1
    return text


def _is_worth_naming(entry: MapEntry) -> bool:
    return entry.kind is not SourceKind.DOCUMENTS or entry.documents > 0


def _tool(entry: MapEntry) -> str:
    return entry.tool or _TOOLS.get(entry.kind, "its own tools")


def _written(entries: Sequence[MapEntry], room: int, *, left_out: int = 0) -> str:
    lines = [_HEAD, _MEMORY]
    by_tool: dict[str, list[str]] = {}
    for one in entries:
        by_tool.setdefault(_tool(one), []).append(_named(one, room))
    lines += [f"- {tool}: {'; '.join(named)}" for tool, named in by_tool.items()]
    if left_out:
        lines.append(f"- and {left_out} more")
    return "\n".join(lines)


def _named(entry: MapEntry, room: int) -> str:
    what = f"{entry.documents} documents" if entry.kind is SourceKind.DOCUMENTS else _NOUNS[entry.kind]
    if entry.kind is SourceKind.DOCUMENTS and entry.documents == 1:
        what = "1 document"
    named = f"{entry.name} ({what})"
    if not entry.description or room < SHORTEST_DESCRIPTION:
        return named
    said = cut_to_tokens(entry.description, room)
    if len(said) < len(entry.description):
        said = f"{said.rpartition(' ')[0] or said}…"
    return f"{named}, {said.rstrip('.')}"
