"""What a tenant wants to learn: its own categories with examples, topics that are never kept, instructions for a model.

The setting `learning`, as JSON: `{"instructions": "…", "never": ["health", {"name": "religion", "words": ["church"]}],
"categories": [{"name": "delivery", "examples": ["Leave parcels at the bakery"]}], "agents": {"helper": {…}}}`. What an agent
sets is added to what the tenant sets. A topic is recognised by its words, in any form, and by words of similar meaning where
word vectors are at hand. In doubt a fact is not kept.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from typing import Any

from recordari.core.items import MAX_LABEL
from recordari.core.text import STOP_WORDS, terms
from recordari.errors import InvalidInput
from recordari.facts.rules.durable import Category
from recordari.facts.rules.extraction import ExtractedFact

SETTING = "learning"
MOST = 50  # topics, categories, and examples of one
LONGEST_TEXT = 2_000
SIMILAR = 0.3
"""The share of content words with an example from which a fact belongs to its category."""
NEAR_NAME = 0.35
"""The similarity of a word with the name of a topic from which it belongs to the topic: "chess" and "games"."""
NEAR_WORD = 0.45
"""The same for one of the words that the tenant lists, which are narrower: "aspirin" and "ibuprofen"."""
NEAR_KNOWN = 0.67
"""The same for a word of a topic that `topics.toml` knows; its list is long."""
_WORD = re.compile(r"[^\W\d_]{3,40}")
_FIELDS = frozenset({"instructions", "never", "categories", "agents"})


Nearness = Callable[[str, str], float]
"""How similar two words are in meaning, from -1 to 1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UnwantedTopic:
    name: str
    words: frozenset[str]
    """Of its name and its list, as stems."""
    listed: tuple[str, ...] = ()
    known: tuple[str, ...] = ()
    """Words and phrases of the topic in `topics.toml`; their nearness is not asked where the name has none there."""
    phrases: re.Pattern[str] | None = None

    def is_named(self, text: str, stems: set[str]) -> bool:
        return bool(stems & self.words) or (self.phrases is not None and self.phrases.search(text) is not None)

    def is_near(self, words: Iterable[str], nearness: Nearness) -> bool:
        names = [(word, NEAR_KNOWN) for word in self.known] or [(self.name, NEAR_NAME)]
        texts = [*names, *((word, NEAR_WORD) for word in self.listed)]
        return any(nearness(text.casefold(), word) >= least for word in words for text, least in texts)


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnCategory:
    name: str
    examples: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Learning:
    instructions: str = ""
    never: tuple[UnwantedTopic, ...] = ()
    categories: tuple[OwnCategory, ...] = ()

    def refused(self, fact: ExtractedFact, nearness: Nearness | None = None) -> str | None:
        """The topic for which a fact is not kept."""
        if not self.never:
            return None
        stems, about = set(terms(fact.content)), (fact.subject or "").casefold().split()
        said = {word.casefold() for word in _WORD.findall(fact.content)} - STOP_WORDS - set(about)
        for topic in self.never:
            if topic.is_named(fact.content, stems) or (nearness is not None and topic.is_near(said, nearness)):
                return topic.name
        return None

    def categorised(self, fact: ExtractedFact) -> ExtractedFact:
        """The fact with the tenant's category, where an example or the name of one is near."""
        words = set(terms(fact.content))
        ranked = [(max(_nearness(words, text) for text in (*own.examples, "")), own.name) for own in self.categories]
        named = next((own.name for own in self.categories if words & set(terms(own.name))), None)
        best = max(ranked, default=(0.0, ""))
        if best[0] >= SIMILAR:
            return replace(fact, category=best[1])
        return replace(fact, category=named) if named is not None else fact

    def known_category(self, name: str) -> str:
        """The category that a model named, or `personal`."""
        known = {str(each) for each in Category} | {own.name for own in self.categories}
        return name if name in known else str(Category.PERSONAL)

    @property
    def wanted(self) -> str:
        """The wishes as instructions for a model."""
        own = [
            f"{each.name} (such as: {'; '.join(each.examples)})" if each.examples else each.name
            for each in self.categories
        ]
        lines = [f"Categories: {', '.join([*(str(each) for each in Category), *own])}."]
        if self.never:
            lines.append(f"Never take facts about: {', '.join(topic.name for topic in self.never)}.")
        if self.instructions:
            lines.append(f"The operator wants: {self.instructions}")
        return "\n".join(lines)


def _nearness(words: set[str], example: str) -> float:
    other = set(terms(example))
    return len(words & other) / len(words | other) if other else 0.0


def learning_of(setting: object, agent_id: str | None = None) -> Learning:
    """The setting `learning` of a tenant, with that of one of its agents; `InvalidInput` if it is wrong."""
    value = setting if setting is not None else {}
    if not isinstance(value, Mapping) or (unknown := set(value) - _FIELDS):
        fields = ", ".join(sorted(unknown)) if isinstance(value, Mapping) else type(value).__name__
        raise InvalidInput(f"{SETTING} is an object with {', '.join(sorted(_FIELDS))}, not {fields}")
    agents = value.get("agents") or {}
    if not isinstance(agents, Mapping):
        raise InvalidInput(f"{SETTING}.agents is an object of agents")
    tenant = _learning(value)
    parts = {name: _learning(each) for name, each in agents.items()}
    own = parts.get(agent_id or "")
    if own is None:
        return tenant
    return Learning(
        instructions=" ".join(filter(None, [tenant.instructions, own.instructions])),
        never=(*tenant.never, *own.never),
        categories=(*tenant.categories, *own.categories),
    )


def _learning(value: Any) -> Learning:
    if not isinstance(value, Mapping) or not set(value) <= _FIELDS:
        raise InvalidInput(f"{SETTING} of an agent is an object with instructions, never and categories")
    instructions = value.get("instructions") or ""
    if not isinstance(instructions, str) or len(instructions) > LONGEST_TEXT:
        raise InvalidInput(f"{SETTING}.instructions is a text of at most {LONGEST_TEXT} characters")
    never, categories = value.get("never") or [], value.get("categories") or []
    for name, rows in (("never", never), ("categories", categories)):
        if not isinstance(rows, list) or len(rows) > MOST:
            raise InvalidInput(f"{SETTING}.{name} is a list of at most {MOST}")
    return Learning(
        instructions=instructions.strip(),
        never=tuple(_topic(each) for each in never),
        categories=tuple(_category(each) for each in categories),
    )


def _topic(value: Any) -> UnwantedTopic:
    row = {"name": value} if isinstance(value, str) else value
    name, words = _named(row, "never", "words")
    rows = [row for row in _known_topics() if row.names & set(terms(name))]
    known = [word for row in rows for word in (*row.words, *row.more)]
    stems = frozenset(word for text in (name, *words, *filter(str.isalpha, known)) for word in terms(text))
    phrases = [re.escape(word).replace(r"\*", r"\S{1,20}") for word in known if not word.isalpha()]
    return UnwantedTopic(
        name=name,
        words=stems,
        listed=words,
        known=tuple(word for row in rows for word in row.words if word.isalpha()),
        phrases=re.compile(rf"\b(?:{'|'.join(phrases)})\b", re.IGNORECASE) if phrases else None,
    )


@dataclass(frozen=True, slots=True)
class KnownTopic:
    names: frozenset[str]
    """As stems."""
    words: tuple[str, ...]
    more: tuple[str, ...]
    """Of other languages than English."""


@cache
def _known_topics() -> tuple[KnownTopic, ...]:
    table = tomllib.loads(files("recordari.facts.rules").joinpath("topics.toml").read_text("utf-8"))
    return tuple(
        KnownTopic(frozenset(terms(row["names"].replace(";", " "))), _phrases(row["words"]), _phrases(row["more"]))
        for row in table.values()
    )


def _phrases(text: str) -> tuple[str, ...]:
    return tuple(" ".join(phrase.split()) for phrase in text.split(";"))


def _category(value: Any) -> OwnCategory:
    row = {"name": value} if isinstance(value, str) else value
    name, examples = _named(row, "categories", "examples")
    return OwnCategory(name=name, examples=examples)


def _named(row: Any, where: str, texts: str) -> tuple[str, tuple[str, ...]]:
    """The name of a row and its list of texts."""
    if not isinstance(row, Mapping) or not set(row) <= {"name", texts}:
        raise InvalidInput(f"each of {SETTING}.{where} is a name, or an object with name and {texts}")
    name, listed = row.get("name"), row.get(texts) or []
    if not isinstance(name, str) or not 0 < len(name.strip()) <= MAX_LABEL:
        raise InvalidInput(f"each of {SETTING}.{where} has a name of at most {MAX_LABEL} characters")
    if not isinstance(listed, list) or len(listed) > MOST or not all(isinstance(text, str) for text in listed):
        raise InvalidInput(f"{texts} of {SETTING}.{where} is a list of at most {MOST} texts")
    return name.strip(), tuple(text[:LONGEST_TEXT] for text in listed)
