"""People, things and places that a text names, found by rules.

What is marked by its writing is found exactly: addresses, identifiers, quoted terms. Names are runs of capitalised words
that do not merely begin a sentence. Precision matters more than completeness: an entity links items for ever.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

from recordari.core.text import STOP_WORDS

EXAMINED = 8_000  # characters of a text that are searched for names
MAX_ENTITIES = 24


class EntityKind(StrEnum):
    """What sort of thing is named."""

    PERSON = "person"
    NAME = "name"
    EMAIL = "email"
    IDENTIFIER = "identifier"
    TERM = "term"


@dataclass(frozen=True, slots=True)
class Entity:
    """Something named, and the key under which every spelling of it meets."""

    kind: EntityKind
    name: str

    @property
    def key(self) -> str:
        """The same for every way of writing the name."""
        return " ".join(self.name.casefold().split())


_EMAIL = re.compile(r"\b[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){1,6}\b")
_IDENTIFIER = re.compile(
    r"\b(?=\w{0,60}\d)(?=\w{0,60}[A-Za-z])\w{4,60}\b|\b[A-Za-z]{1,8}-\d{2,12}\b|\b\w{1,60}_\w{1,60}\b"
)
_QUOTED = re.compile(r"[\"“«]([^\"”»\n]{2,60})[\"”»]")
_NAME = re.compile(r"\b[A-Z][\w'’]{1,30}(?:[ -](?:of |the |de |van |von )?[A-Z][\w'’]{1,30}){0,3}")
_SENTENCE_START = re.compile(r"(?:^|[.!?…:;\n]\s{0,10}|[\"“(]\s{0,3})$")
# Capitalised for other reasons than being a name.
_NOT_NAMES = STOP_WORDS | frozenset(
    """monday tuesday wednesday thursday friday saturday sunday january february march april may june july august
    september october november december hi hey hello thanks thank yes no yeah wow oh ok okay sure great good well
    also please sorry absolutely definitely congrats congratulations maybe let lets here there now today tomorrow
    yesterday english""".split()
)


def entities_in(text: str, *, speaker: str | None = None) -> tuple[Entity, ...]:
    """What the text names, and who says it; each once, in order of appearance."""
    examined = text[:EXAMINED]
    found: dict[str, Entity] = {}
    if speaker and speaker.casefold() not in {"user", "assistant", "system", "tool"}:
        _add(found, Entity(EntityKind.PERSON, speaker))
    for match in _EMAIL.finditer(examined):
        _add(found, Entity(EntityKind.EMAIL, match.group()))
    for match in _IDENTIFIER.finditer(examined):
        _add(found, Entity(EntityKind.IDENTIFIER, match.group()))
    for match in _QUOTED.finditer(examined):
        _add(found, Entity(EntityKind.TERM, match.group(1).strip()))
    for match in _NAME.finditer(examined):
        name = _trimmed_name(match.group(), starts_sentence=_starts_sentence(examined, match.start()))
        if name:
            _add(found, Entity(EntityKind.NAME, name))
    return tuple(found.values())[:MAX_ENTITIES]


def _starts_sentence(text: str, index: int) -> bool:
    return _SENTENCE_START.search(text[max(0, index - 14) : index]) is not None


def _trimmed_name(found: str, *, starts_sentence: bool) -> str | None:
    """The name inside a run of capitalised words; None when there is none."""
    words = found.replace("’", "'").removesuffix("'s").split(" ")
    while words and words[0].casefold().removesuffix("'s") in _NOT_NAMES:
        words = words[1:]
        starts_sentence = False
    while words and words[-1].casefold() in _NOT_NAMES:
        words = words[:-1]
    # A single capitalised word at the beginning of a sentence is most often just its first word.
    if not words or (len(words) == 1 and (starts_sentence or "'" in words[0])):
        return None
    return " ".join(words)


def _add(found: dict[str, Entity], entity: Entity) -> None:
    if len(entity.key) > 1:
        found.setdefault(entity.key, entity)
