"""Long questions: searched sentence by sentence, and the documents that the sentences find are put into one order.

A document counts by what the sentences find in it, by how much of its title the whole question has, by how much its title is
like those of the best ones, and by the identifiers that it shares with them: an instruction names the tool that another one
explains.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from recordari.core import text
from recordari.knowledge.rules.chunks import PATH
from recordari.memory.rules import EntityKind, entities_in

LONG_CHARACTERS = 600  # a longer question is searched sentence by sentence
FEWEST_SENTENCES = 4
SHORTEST_PART = 4  # words; a shorter sentence asks nothing
MOST_PARTS = 24
STAY_FIRST = 2  # documents that the question itself finds; links order those after them
LEADING = 12  # documents whose identifiers and titles lead to others
ALIKE = 0.3  # the weight of a title that is like those of the leading documents
MOST_SHARING = 12  # documents with one identifier; in more of them it leads nowhere in particular

_END = re.compile(r"(?<=[.!?。！？])[\"'”’)*\]]{0,3}\s+|\n+")


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundDocument:
    """A document that a question found: its title, and the chunks that were found."""

    title: str
    chunks: Sequence[str] = ()


def parts_of(question: str) -> list[str]:
    """The sentences of a long question, at most 24 of the longest; a short question as it is."""
    if len(question) <= LONG_CHARACTERS:
        return [question]
    sentences = [part.strip() for part in _END.split(question)]
    parts = list(dict.fromkeys(part for part in sentences if len(part.split()) >= SHORTEST_PART))
    if len(parts) < FEWEST_SENTENCES:
        return [question]
    chosen = set(sorted(parts, key=len, reverse=True)[:MOST_PARTS])
    return [part for part in parts if part in chosen]


def joined(
    question: str, answers: Sequence[Sequence[tuple[str, float]]], documents: Mapping[str, FoundDocument]
) -> dict[str, float]:
    """The documents that the parts of a question found, each with its score, best first.

    `answers` has for each part the documents with their scores, best first. What is found and the titles count the same:
    each is divided by its deviation over the documents.
    """
    found = fused(answers)
    titles = {name: documents[name].title for name in found}
    shares = covered(titles, question)
    asked = {name: found[name] + shares[name] for name in found}
    linked, alike = _linked(asked, documents), _alike(asked, titles)
    scores = {name: score + linked.get(name, 0.0) + ALIKE * alike[name] for name, score in asked.items()}
    first = sorted(asked, key=lambda name: -asked[name])[:STAY_FIRST]
    scores |= dict.fromkeys(first, max(scores.values(), default=0.0))
    rest = sorted(scores.keys() - first, key=lambda name: (-scores[name], name))
    return {name: scores[name] for name in (*first, *rest)}


def fused(answers: Sequence[Sequence[tuple[str, float]]]) -> dict[str, float]:
    """What the parts found, best first.

    A result counts by its distance to the lowest score of each answer that contains it. A part whose results all have
    similar scores found nothing in particular, and adds little.
    """
    scores: dict[str, float] = {}
    for answer in answers:
        floor = min((score for _, score in answer), default=0.0)
        for key, score in answer:
            scores[key] = scores.get(key, 0.0) + score - floor
    return _scaled(dict(sorted(scores.items(), key=lambda pair: -pair[1])))


def covered(titles: Mapping[str, str], question: str) -> dict[str, float]:
    """How much of each title the question has.

    Terms count by their rarity among the titles, and more if the question repeats them.
    """
    asked, (terms, rarity) = Counter(text.terms(question)), _title_terms(titles)
    shares = {
        name: sum(rarity[term] * (1 + math.log(asked[term])) for term in each if term in asked)
        / max(sum(rarity[term] for term in each), 1e-9)
        for name, each in terms.items()
    }
    return _scaled(shares)


def _title_terms(titles: Mapping[str, str]) -> tuple[dict[str, frozenset[str]], dict[str, float]]:
    """The terms of each title without its headings, and how rare each term is among the titles."""
    terms = {name: frozenset(text.terms(title.partition(PATH)[0])) for name, title in titles.items()}
    frequencies = Counter(term for each in terms.values() for term in each)
    rarity = {term: math.log(1 + (len(terms) - count + 0.5) / (count + 0.5)) for term, count in frequencies.items()}
    return terms, rarity


def _alike(scores: Mapping[str, float], titles: Mapping[str, str]) -> dict[str, float]:
    """How much each title is like those of the leading documents, by their terms.

    Each of these counts by how far it leads, and not for itself: a matter is often told in several documents.
    """
    terms, rarity = _title_terms(titles)
    lengths = {name: math.sqrt(sum(rarity[term] ** 2 for term in each)) for name, each in terms.items()}
    leading = sorted(scores, key=lambda name: -scores[name])[:LEADING]
    alike = dict.fromkeys(scores, 0.0)
    for leader in leading[:-1]:
        lead = (scores[leader] - scores[leading[-1]]) / max(lengths[leader], 1e-9)
        for name in scores.keys() - {leader}:
            shared = sum(rarity[term] ** 2 for term in terms[leader] & terms[name])
            alike[name] += lead * shared / max(lengths[name], 1e-9)
    return _scaled(alike)


def _linked(scores: Mapping[str, float], documents: Mapping[str, FoundDocument]) -> dict[str, float]:
    """What documents gain by identifiers that the leading ones have too.

    How far a document leads is divided among the others with the identifier: one that few have leads somewhere in particular.
    """
    leading = sorted(scores, key=lambda name: -scores[name])[:LEADING]
    texts = {name: "\n".join(documents[name].chunks).casefold() for name in scores}
    gains: dict[str, float] = {}
    for leader in leading[:-1]:
        lead = scores[leader] - scores[leading[-1]]
        for key in _identifiers("\n".join(documents[leader].chunks)):
            others = [name for name, whole in texts.items() if key in whole and name != leader]
            if len(others) < MOST_SHARING:
                gains |= {name: gains.get(name, 0.0) + lead / len(others) for name in others}
    return gains


def _identifiers(whole: str) -> list[str]:
    return [one.key for one in entities_in(whole) if one.kind is EntityKind.IDENTIFIER]


def _scaled(values: dict[str, float]) -> dict[str, float]:
    deviation = float(np.std(list(values.values()))) if values else 0.0
    return {name: value / deviation for name, value in values.items()} if deviation else values
