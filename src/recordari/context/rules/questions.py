"""Standing questions, and their answers without a model: the sentences of a user's memory that answer.

A fact is one sentence that speaks for itself. Of a message only the sentences that state something count, and of these the
one that shares most words with the question. A question for what somebody likes, wants or cares about is answered by stated
tastes and learnt preferences too, although they share no word with it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from uuid import UUID

from recordari.context.rules.profiles import say_the_same
from recordari.core.described import DESCRIBED
from recordari.core.identity import AgentId, UserId
from recordari.core.items import Trust, normalised
from recordari.core.text import terms
from recordari.core.tokens import cut_to_tokens, estimated_tokens
from recordari.sessions.rules.summaries import sentences_of

ANSWER_TOKENS = 300
MOST_QUESTIONS = 20  # of a tenant
LONGEST_QUESTION = 1_000
LONGEST_SENTENCE = 60  # tokens
NEAR = 1.0
"""How far below the best score a statement still is part of the answer."""
TASTE = 1.0
"""What a taste is worth where the question asks for tastes."""
_ASKS_FOR_TASTES = re.compile(
    r"\b(?:cares?|matters?|wants?|wish(?:es)?|needs?|likes?|dislikes?|loves?|hates?|enjoys?|avoids?|prefer\w*|tastes?|interest\w*"
    r"|hobb(?:y|ies)|important|values?|expects?"
    r"|wichtig\w*|mag|möchte|wünsch\w*|will|interessier\w*|bevorzug\w*|vorlieben|important\w*|aime|préf\w+|souhait\w*|veut|intérêts?"
    r"|importa\w*|gusta\w*|prefier\w*|quiere|intereses|gosta|quer|prefer\w*|interesses|piac\w*|vuole|preferi\w*|interess\w*"
    r"|belangrijk|houdt|wil|voorkeur\w*)\b",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class StandingQuestion:
    """A question of the tenant whose answer is kept for each user."""

    __pydantic_config__ = DESCRIBED

    name: str
    question: str
    agent_id: AgentId | None
    """Only this agent asks it; null: all do."""
    changed_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class StandingAnswer:
    """The answer to a standing question for one user."""

    __pydantic_config__ = DESCRIBED

    name: str
    question: str
    user_id: UserId
    content: str
    """One sentence in each line; empty if nothing of the user answers."""
    sources: tuple[UUID, ...]
    """The items that it rests on, in its order."""
    writer: str
    """`offline` for the rules, or the name of a model."""
    made_at: datetime | None
    """Null if nothing is known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """A recalled text, with its score in that recall."""

    item_id: UUID
    content: str
    trust: Trust
    score: float
    is_fact: bool
    is_taste: bool = False
    """Whether it is a stated taste or a learnt preference."""


def answer_of(
    question: str, recalled: Sequence[Evidence], *, most_tokens: int = ANSWER_TOKENS
) -> tuple[str, list[UUID]]:
    """The sentences that answer, best first, and the items that they are from; facts before messages."""
    asked = set(terms(question))
    lines: list[str] = []
    sources: list[UUID] = []
    said: list[frozenset[str]] = []
    spent = 0
    for evidence in related(question, recalled):
        sentence = _sentence(evidence, asked)
        words = frozenset(terms(sentence))
        cost = estimated_tokens(sentence) + 1
        is_said = any(words <= others for others in said) or any(say_the_same(sentence, line) for line in lines)
        if not words or is_said or spent + cost > most_tokens:
            continue
        lines.append(sentence)
        sources.append(evidence.item_id)
        said.append(words)
        spent += cost
    return "\n".join(lines), sources


def answer_without(text: str, contents: Sequence[str]) -> str:
    """A question and its answer without the sentences that a context shows elsewhere; empty if none is left."""
    shown = {normalised(content) for content in contents}
    question, *lines = text.splitlines() or [""]
    left = [
        line
        for line in lines
        if normalised(line) not in shown and not any(say_the_same(line, each) for each in contents)
    ]
    return "\n".join([question, *left]) if left else ""


def related(question: str, recalled: Sequence[Evidence]) -> list[Evidence]:
    """What people and agents said and what is near the question, best first: facts, then messages."""
    trusted = [each for each in recalled if each.trust in {Trust.USER, Trust.AGENT}]
    if _ASKS_FOR_TASTES.search(question):
        trusted = [replace(each, score=each.score + TASTE) if each.is_taste else each for each in trusted]
    near = []
    for is_fact in (True, False):
        group = sorted((each for each in trusted if each.is_fact is is_fact), key=lambda each: -each.score)
        near += [each for each in group if each.score >= group[0].score - NEAR]
    return near


def _sentence(evidence: Evidence, asked: set[str]) -> str:
    """A fact whole, of a message the sentence that says most about what is asked; empty if none states anything."""
    if evidence.is_fact:
        return " ".join(evidence.content.split())
    if evidence.trust is not Trust.USER:
        return ""
    stated = [each for each in sentences_of(evidence.content) if not each.endswith(("?", "？", "؟"))]
    shared = {each: len(asked & set(terms(each))) for each in stated}
    best = max(stated, key=lambda each: shared[each], default="")
    return cut_to_tokens(best, LONGEST_SENTENCE) if best and shared[best] else ""
