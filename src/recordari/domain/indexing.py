"""What is derived from an item's text so that it can be found: all of it can be dropped and made again."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from recordari.core import text
from recordari.core.items import Kind
from recordari.domain.wording import traits_of

PREVIOUS_HEAD = 200  # characters of the turn before that are embedded with a turn


@dataclass(frozen=True, slots=True, kw_only=True)
class Indexed:
    """The index columns of an item."""

    tsv: str
    terms: bytes
    tokens: bytes
    traits: int


def indexed(content: str, *, speaker: str | None, language: str, tokens: bytes) -> Indexed:
    """Derive the index columns. The speaker can be searched for, but is not part of what was said."""
    said = text.terms(content, language)
    return Indexed(
        tsv=text.tsvector_literal([*said, *text.terms(speaker or "", language)]),
        terms=text.hashes(said).tobytes(),
        tokens=tokens,
        traits=int(traits_of(content)),
    )


def searched_text(kind: str, content: str, metadata: dict[str, Any]) -> str:
    """The text that words are found in: what it says, of a document's chunk under the title that it stands under."""
    title = _title(metadata) if kind == Kind.DOCUMENT_CHUNK else None
    return f"{title}\n{content}" if title else content


def embedded_text(
    content: str,
    *,
    speaker: str | None,
    event_time: datetime | None,
    previous_speaker: str | None = None,
    previous_head: str | None = None,
    metadata: dict[str, Any] | None = None,
) -> str:
    """The text whose meaning is embedded: its date, the head of what was said before, who says it, what is said."""
    said = f"{speaker}: {content}" if speaker else content
    if previous_head:
        before = f"{previous_speaker}: {previous_head}" if previous_speaker else previous_head
        said = f"{before}\n{said}"
    title = _title(metadata or {})
    if title:
        said = f"{title}\n{said}"
    return f"[{event_time.day} {event_time:%B %Y}] {said}" if event_time is not None else said


def _title(metadata: dict[str, Any]) -> str | None:
    title = metadata.get("title")
    return title if isinstance(title, str) else None
