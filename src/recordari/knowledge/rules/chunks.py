"""Documents: their blocks, and how they are cut into chunks that recall finds and cites.

A document is a sequence of blocks: headings, paragraphs, lists, tables, code. Chunks follow that structure. They have about
200 to 350 tokens and join sections only while they are small. Only a sentence that alone is too long is cut. Each chunk
carries the headings above it, which are embedded and searched with it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any
from uuid import UUID

from recordari.core.described import DESCRIBED
from recordari.core.tokens import CHARACTERS_PER_TOKEN, cut_to_tokens, estimated_tokens

TARGET_TOKENS = 280
MOST_TOKENS = 350
FEW_TOKENS = 200  # a shorter chunk is joined by the next section
SCRAP_TOKENS = 60  # a shorter piece gets no chunk of its own
MOST_CHARACTERS = 4_000  # of a chunk, whatever the estimate of its tokens
MOST_HEADING = 120  # characters of one heading in a path
_WINDOW = int(TARGET_TOKENS * CHARACTERS_PER_TOKEN) + 8  # characters; more are never estimated at so few tokens
SEPARATOR = "\n\n"
PATH = " › "

_SENTENCE_END = re.compile(r"(?<=[.!?。！？])\s+")
_UNPRINTABLE = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff\ufffe\uffff]")


class BlockKind(StrEnum):
    HEADING = "heading"
    PARAGRAPH = "paragraph"
    LIST = "list"
    TABLE = "table"
    CODE = "code"


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """One block of a document, in the order of reading."""

    kind: BlockKind
    text: str
    level: int = 0
    """Of a heading: 1 is the highest."""
    page: int | None = None
    shown: bool = True
    """False for a heading that is in the table of contents and not in the text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """A part of a document, the unit that recall finds and cites."""

    content: str
    heading: tuple[str, ...] = ()
    page: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """One document of a source at its current revision."""

    __pydantic_config__ = DESCRIBED

    document_id: UUID
    source_id: UUID
    source: str
    name: str
    title: str
    media_type: str
    revision: int
    bytes: int
    characters: int
    chunks: int
    pages: int | None
    metadata: dict[str, Any]
    has_original: bool
    """Whether the file itself is stored. It is not if part of its text was masked."""
    created_at: datetime
    updated_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentChunk:
    """A chunk and its position in its document; `first` and `past` count characters of the document's text."""

    __pydantic_config__ = DESCRIBED

    ordinal: int
    item_id: UUID
    heading: tuple[str, ...]
    page: int | None
    first: int
    past: int
    content: str


def clean(text: str) -> str:
    """Remove the characters that a database refuses or a person cannot read."""
    return _UNPRINTABLE.sub("", text.replace("\r\n", "\n").replace("\r", "\n"))


def title_of(blocks: Sequence[Block], name: str) -> str:
    """The title of a document: its first heading if that has the highest level, else its name."""
    headings = [block for block in blocks if block.kind is BlockKind.HEADING and block.shown]
    top = min((block.level for block in headings), default=0)
    if headings and headings[0].level == top:
        return _heading(headings[0].text)
    stem = name.rpartition("/")[2]
    return (stem.rpartition(".")[0] or stem).replace("_", " ").strip() or name


def context_of(title: str, heading: Sequence[str]) -> str:
    """The path to a chunk: the title of the document, then the headings above the chunk."""
    return PATH.join([title, *(part for part in heading if part.casefold() != title.casefold())])


def chunked(blocks: Sequence[Block]) -> list[Chunk]:
    """Cut a document into chunks along its structure."""
    chunks: list[Chunk] = []
    open_pieces: list[_Piece] = []
    size = 0
    for piece in _pieces(blocks):
        if open_pieces and not _joins(open_pieces, size, piece):
            chunks.append(_joined(open_pieces))
            open_pieces, size = [], 0
        open_pieces.append(piece)
        size += piece.tokens
    if open_pieces:
        chunks.append(_joined(open_pieces))
    return [chunk for chunk in chunks if chunk.content]


@dataclass(frozen=True, slots=True)
class _Piece:
    """A block, or as much of one as fits into a chunk."""

    text: str
    tokens: int
    heading: tuple[str, ...]
    page: int | None
    opens: bool = False
    """True for a heading, which belongs to the piece after it."""


def _pieces(blocks: Sequence[Block]) -> Iterator[_Piece]:
    path: list[tuple[int, str]] = []  # the headings above the current block, each with its level
    for block in blocks:
        text = block.text.strip()
        if not text:
            continue
        if block.kind is BlockKind.HEADING:
            path = [*(entry for entry in path if entry[0] < block.level), (block.level, _heading(text))]
        heading = tuple(entry for _, entry in path)
        if block.kind is BlockKind.HEADING:
            if block.shown:
                line = cut_to_tokens(text, MOST_TOKENS)
                yield _Piece(line, estimated_tokens(line), heading, block.page, opens=True)
            continue
        for number, part in enumerate(_parts(block.kind, text)):
            if number == 1 and block.kind is BlockKind.TABLE:
                heading = (*heading, _heading(text.partition("\n")[0]))  # the names of the columns
            yield _Piece(part, estimated_tokens(part), heading, block.page)


def _parts(kind: BlockKind, text: str) -> Iterator[str]:
    """Split a block into parts that fit into a chunk: at its lines or sentences, or at its words."""
    if _fits(text):
        yield text
        return
    lines = kind in {BlockKind.LIST, BlockKind.TABLE, BlockKind.CODE}
    yield from _packed(text.split("\n") if lines else _SENTENCE_END.split(text), "\n" if lines else " ")


def _packed(units: Sequence[str], glue: str) -> Iterator[str]:
    """Join as many units as fit into a chunk; cut a unit at its words if it alone does not fit."""
    held: list[str] = []
    tokens = characters = 0
    for unit in units:
        for part in [unit] if _fits(unit) else _cut(unit):
            cost = estimated_tokens(part) + 1
            if held and (tokens + cost > TARGET_TOKENS or characters + len(part) > MOST_CHARACTERS):
                yield glue.join(held)
                held, tokens, characters = [], 0, 0
            held.append(part)
            tokens += cost
            characters += len(part) + len(glue)
    if held:
        yield glue.join(held)


def _cut(text: str) -> Iterator[str]:
    start = 0
    while start < len(text):
        # A window is copied and measured, never the rest: time grows with the length of the text.
        head = cut_to_tokens(text[start : start + _WINDOW], TARGET_TOKENS)
        if start + len(head) < len(text) and (space := head.rfind(" ")) > len(head) // 2:
            head = head[:space]
        if part := head.strip():
            yield part
        start += len(head)


def _fits(text: str) -> bool:
    return len(text) <= MOST_CHARACTERS and estimated_tokens(text) <= MOST_TOKENS


def _joins(open_pieces: Sequence[_Piece], size: int, piece: _Piece) -> bool:
    """Whether a piece joins the open chunk."""
    if size + piece.tokens > MOST_TOKENS:
        return False
    last = open_pieces[-1]
    if last.opens:
        return True  # a heading is never left alone at the end of a chunk
    if piece.heading == last.heading:
        return size + piece.tokens <= TARGET_TOKENS or piece.tokens < SCRAP_TOKENS
    # Another section begins: it joins only a chunk that is still small.
    return size < FEW_TOKENS and size + piece.tokens <= TARGET_TOKENS


def _joined(pieces: Sequence[_Piece]) -> Chunk:
    heading = pieces[0].heading
    for piece in pieces[1:]:
        common = 0
        while common < min(len(heading), len(piece.heading)) and heading[common] == piece.heading[common]:
            common += 1
        heading = heading[:common] or heading[:1]
    return Chunk(content=SEPARATOR.join(piece.text for piece in pieces).strip(), heading=heading, page=pieces[0].page)


def _heading(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= MOST_HEADING else f"{line[: MOST_HEADING - 1].rstrip()}…"
