"""The sources of a tenant, and the short map of them that every context contains (C3)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from itertools import groupby
from typing import Annotated, Any
from uuid import UUID

from pydantic import Field

from recordari.core.described import DESCRIBED
from recordari.core.tokens import cut_to_tokens, estimated_tokens
from recordari.errors import InvalidInput

MAP_TOKENS = 100  # the target; a tenant with many sources gets up to MOST_MAP_TOKENS
MOST_MAP_TOKENS = 200  # C2: the section's budget
MAX_SOURCE_NAME = 200
MAX_DESCRIPTION = 1_000
MAX_TOOL = 200
SHORTEST_DESCRIPTION = 6  # tokens; a shorter one says nothing

_HEAD = "What can be looked up, and with which tool:"
_MEMORY = "- recall: what was said, learned and done before"


class SourceKind(StrEnum):
    """The kind of a source, which implies the tool that reaches it."""

    DOCUMENTS = "documents"
    DATABASE = "database"
    API = "api"
    MCP = "mcp"


_TOOLS = {SourceKind.DOCUMENTS: "search_knowledge", SourceKind.DATABASE: "query_data"}
_NOUNS = {SourceKind.DATABASE: "database", SourceKind.API: "API", SourceKind.MCP: "MCP server"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A collection of documents, a database, an API or an MCP server that agents can look things up in."""

    __pydantic_config__ = DESCRIBED

    source_id: UUID
    name: str
    kind: SourceKind
    description: str
    tool: str | None
    """The tool that reaches it, if its kind does not imply one."""
    documents: int
    chunks: int
    sync: dict[str, Any] | None
    """The progress of its last synchronisation with a folder."""
    created_at: datetime
    updated_at: datetime
    folder: Annotated[str | None, Field(exclude=True)] = None
    """The operator's folder with its files; no interface shows it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MapEntry:
    """The columns of a source that the map shows."""

    name: str
    kind: SourceKind
    description: str = ""
    tool: str | None = None
    documents: int = 0
    tables: Sequence[str] = ()
    """Of a database: its allowed tables, each with its columns in brackets."""


def checked_text(field: str, text: str, *, most: int, least: int = 0) -> str:
    """Check a line of text: its length, and no control characters. White space becomes single spaces."""
    if not isinstance(text, str):
        raise InvalidInput(f"{field} must be text", field=field)
    line = " ".join(text.split())
    if not least <= len(line) <= most:
        raise InvalidInput(f"{field} must have {least} to {most} characters", field=field)
    if any(not character.isprintable() for character in line):
        raise InvalidInput(f"{field} must not contain control characters", field=field)
    return line


def written_map(entries: Sequence[MapEntry]) -> str:
    """List the sources and the tool that reaches each, in about 100 tokens and never in more than 200.

    Descriptions are cut before sources are left out, and the map says how many were left out. Where there is room, the
    tables of databases follow with their columns, or else by name.
    """
    useful = (entry for entry in entries if entry.kind is not SourceKind.DOCUMENTS or entry.documents > 0)
    listed = sorted(useful, key=lambda entry: (_tool(entry), entry.name.casefold()))
    for room in (40, 25, 15, 10, SHORTEST_DESCRIPTION, 0):
        text = _written(listed, room)
        if estimated_tokens(text) <= MAP_TOKENS:
            return _with_tables(text, listed)
    names = len(listed)
    while (
        names and estimated_tokens(text := _written(listed[:names], 0, left_out=len(listed) - names)) > MOST_MAP_TOKENS
    ):
        names -= 1
    return text


def _with_tables(text: str, entries: Sequence[MapEntry]) -> str:
    databases = [entry for entry in entries if entry.tables]
    for is_short in (False, True):
        lines = [
            f"- tables of {entry.name}: "
            + ", ".join(table.partition("(")[0] if is_short else table for table in entry.tables)
            for entry in databases
        ]
        longer = "\n".join([text, *lines])
        if estimated_tokens(longer) <= MOST_MAP_TOKENS:
            return longer
    return text


def _tool(entry: MapEntry) -> str:
    return entry.tool or _TOOLS.get(entry.kind, "its own tools")


def _written(entries: Sequence[MapEntry], room: int, *, left_out: int = 0) -> str:
    lines = [_HEAD, _MEMORY]
    for tool, group in groupby(entries, key=_tool):
        lines.append(f"- {tool}: {'; '.join(_named(entry, room) for entry in group)}")
    if left_out:
        lines.append(f"- and {left_out} more")
    return "\n".join(lines)


def _named(entry: MapEntry, room: int) -> str:
    documents = "1 document" if entry.documents == 1 else f"{entry.documents} documents"
    named = f"{entry.name} ({_NOUNS.get(entry.kind, documents)})"
    if not entry.description or room < SHORTEST_DESCRIPTION:
        return named
    description = cut_to_tokens(entry.description, room)
    if len(description) < len(entry.description):
        description = f"{description.rpartition(' ')[0] or description}…"
    return f"{named}, {description.rstrip('.')}"
