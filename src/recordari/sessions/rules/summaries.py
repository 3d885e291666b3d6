"""Summaries without a model: the most important sentences of a conversation, its decisions and its tasks.

The summary is extractive: every sentence in it is quoted. It is rolling: each step takes the points so far and the
messages since and keeps the best of both, so that a session is never read from its beginning again. The rules for
decisions and action items know English; a text in another language is summarised but yields no notes.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain

from recordari.core.items import Trust, normalised
from recordari.core.text import terms
from recordari.core.tokens import cut_to_tokens, estimated_tokens
from recordari.sessions.rules.sessions import NoteKind

SUMMARY_TOKENS = 500  # C2: the budget of a session's summary in a context
FOLD_TOKENS = 300
LONGEST_POINT = 60  # tokens
SHORTEST_POINT = 3  # terms
EXAMINED = 4_000  # characters at the beginning of a message, which show its subject
MOST_SENTENCES = 40  # of one message
MOST_NOTES_PER_MESSAGE = 5
AGENTS_SHARE = 0.3  # of the budget, for what agents concluded
LEAST_CONCLUSION = 1.5
BULLET = "- "

_SENTENCE_END = re.compile(r"(?<=[.!?。！？])\s+|\n+")
_LIST_MARK = re.compile(r"^\s{0,8}(?:[-*•#>]{1,6}|\d{1,3}[.)])\s{1,4}")
# The lines of a list, and the headings over them: advice in general, more often than not.
_LISTED = re.compile(r"(?m)^\s{0,8}(?:[-*•#>|]{1,6}|\d{1,3}[.)])\s.*$")
_SPACE = re.compile(r"\s+")

# Whole sentences are matched, every repetition is bounded: linear time on any text.
_DECISION = re.compile(
    r"\b(?:(?:we|i|they|team|everyone|let's|let us)(?:'ve|'ll| have| will| all| both| finally| just){0,3} "
    r"(?:decided?|agreed?|settled?|chose|choose|concluded?|opt(?:ed)?|go(?:ing)? (?:with|for)|went with|pick(?:ed)?)\b"
    r"|(?:decision|verdict|conclusion|agreement)(?: is| was|:)|(?:it(?:'s| is)|that(?:'s| is)) (?:decided|agreed|settled)"
    r"|(?:final|official) (?:decision|answer|choice)|approved|(?:is|are|was) (?:confirmed|final)"
    r"|(?:let's|let us) (?:use|go|stick|keep|do|take|make|book|start)\b)",
    re.IGNORECASE,
)
_ACTION = re.compile(
    r"\b(?:todo|to-do|action items?|next steps?|follow[- ]up)\b\s{0,2}[:\-–]"
    r"|\b(?:i|we|you|he|she|they|someone|[A-Z][a-z]{1,20})(?:'ll| will| must| shall| should| need(?:s)? to| ha(?:ve|s) to"
    r"| am going to| are going to| is going to| can you| could you) "
    r"(?!be\b|have\b|not\b|never\b|love\b|like\b|see\b|know\b|think\b|feel\b)[a-z]{2,20}\b"
    r"|\b(?:please|remember to|don't forget to|make sure to|remind me to|can you|could you) "
    r"(?:send|write|call|book|schedule|prepare|check|update|fix|create|add|review|share|order|file|draft|finish|email"
    r"|set up|look into|follow up|confirm|cancel|submit|deploy|test|contact|arrange|organi[sz]e)\b",
    re.IGNORECASE,
)
_DEADLINE = re.compile(
    r"\b(?:by|before|until|due|on|next|this) (?:(?:mon|tues|wednes|thurs|fri|satur|sun)day|tomorrow|tonight|today|noon"
    r"|week|month|end of|eod|\d{1,2}[:./ ]?\d{0,2}|jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)",
    re.IGNORECASE,
)
_SPECIFIC = re.compile(r"\d|\b[A-Z][a-z]{2,30}\b|\b[A-Z]{2,10}\b")
# What an agent did, promised, found or worked out.
_DONE = re.compile(
    r"\b(?:i(?:'ve| have| will|'ll| am going to|'m going to)|we(?:'ve| have|'ll| will)) (?!be\b|always\b|help\b"
    r"|happy\b)[a-z]{2,20}\b"
    r"|\b(?:booked|scheduled|sent|created|added|updated|cancelled|canceled|changed|fixed|deployed|reserved|ordered"
    r"|saved|noted|filed)\b"
    r"|\b(?:total|sum|result|answer|difference|balance|deadline|price|cost)s?(?: \w{1,20}){0,3} (?:is|are|was"
    r"|comes? to|will be)\b"
    r"|\b(?:so|therefore|in short|in summary|to sum up|that (?:makes|leaves|means|gives))\b[^.]{0,80}\d|=\s?\d",
    re.IGNORECASE,
)
# Advice for anybody, politeness and offers.
_GENERAL = re.compile(
    r"\b(?:generally|typically|usually|often|in general|as a rule|rule of thumb|many people|most people|some people"
    r"|people often"
    r"|it(?:'s| is) (?:important|worth|recommended|advisable|crucial|essential|common|always|a good idea)|best practices?|tips?"
    r"|you (?:may|might|could|can|should|would)|consider|make sure|remember|keep in mind|depend(?:s|ing)?|can help|be sure"
    r"|feel free|let me know|i hope|hope (?:this|that)|happy to|here to help|don't hesitate|would you like"
    r"|if you(?:'d| would| need| have)"
    r"|i(?:'m| am) (?:sorry|glad|happy|confident|sure|an ai)|please|thank(?:s| you)|great (?:question|choice|idea)|as an ai"
    r"|consult|professional|cannot provide|can't provide|such as|for example|a (?:great|good|common|popular|classic"
    r"|excellent) \w{2,20})\b",
    re.IGNORECASE,
)
_SMALL_TALK = re.compile(
    r"^(?:hi|hello|hey|thanks?(?: you)?|ok(?:ay)?|sure|great|good (?:morning|evening)|bye|yes|no|welcome)\b[^.]{0,40}$",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """A message as a summariser reads it."""

    speaker: str
    content: str
    trust: Trust


@dataclass(frozen=True, slots=True, kw_only=True)
class Noted:
    """A decision or a task in a message."""

    kind: NoteKind
    content: str
    importance: float


def sentences_of(content: str) -> list[str]:
    """The sentences of a message without list marks, each once."""
    parts = (_SPACE.sub(" ", _LIST_MARK.sub("", part)).strip() for part in _SENTENCE_END.split(content[:EXAMINED]))
    return list(dict.fromkeys(part for part in parts if part))[:MOST_SENTENCES]


def rolled_summary(previous: str, said: Sequence[Said], *, most_tokens: int = SUMMARY_TOKENS) -> str:
    """The best points of the previous summary and the messages since, in their order.

    What people said comes first: statements, then questions that name something. Of an agent's message at most one sentence
    is kept, and only if it concludes something; together they take no more than a part of the budget.
    """
    old = [line.removeprefix(BULLET) for line in previous.splitlines() if line.strip()]
    new = [
        point for message, asked in zip(said, _asked_before(said), strict=True) for point in _points_of(message, asked)
    ]
    distinct: dict[str, str] = {}
    for point in [*old, *new]:
        distinct.setdefault(normalised(point), point)
    points = list(distinct.values())
    words = [set(terms(_content(point))) for point in points]
    frequency = Counter(chain.from_iterable(words))
    order = sorted(
        range(len(points)),
        key=lambda index: (-_weight(points[index], words[index], frequency, index / len(points)), -index),
    )
    chosen: set[int] = set()
    left = {True: int(most_tokens * AGENTS_SHARE), False: most_tokens}
    for index in order:
        cost, by_agent = estimated_tokens(points[index]) + 2, _is_by_agent(points[index])
        if cost <= min(left[by_agent], left[False]) and (len(words[index]) >= SHORTEST_POINT or not chosen):
            chosen.add(index)
            left[by_agent] -= cost
            left[False] -= cost * by_agent
    return "\n".join(f"{BULLET}{points[index]}" for index in sorted(chosen))


def _asked_before(said: Sequence[Said]) -> list[str]:
    """For each message, what people said since the message of an agent before it."""
    asked: list[str] = []
    current = ""
    for message in said:
        asked.append(current)
        current = "" if message.trust is Trust.AGENT else f"{current} {message.content[:EXAMINED]}"
    return asked


def _points_of(message: Said, asked: str) -> list[str]:
    """The sentences of a message that may enter a summary, each with its speaker."""
    if message.trust is Trust.AGENT:
        sentences = _conclusion(message.content, set(terms(asked)))
    else:
        sentences = [sentence for sentence in sentences_of(message.content) if not _SMALL_TALK.match(sentence)]
    return [quoted(replace(message, content=cut_to_tokens(sentence, LONGEST_POINT))) for sentence in sentences]


def _conclusion(content: str, asked: set[str]) -> list[str]:
    """The one sentence of an agent that says what was done, promised or found; none where it gives advice in general."""
    best, most = "", 0.0
    for sentence in sentences_of(_LISTED.sub("", content[:EXAMINED])):
        if sentence.rstrip("*_ ").endswith(("?", "!", ":")) or _GENERAL.search(sentence) or _SMALL_TALK.match(sentence):
            continue
        specific = min(len(_SPECIFIC.findall(sentence[1:])), 5)
        answers = len(asked.intersection(terms(sentence)))
        weight = 3.0 * bool(_DONE.search(sentence)) + 0.5 * specific + (0.5 * min(answers, 4) if specific else 0.0)
        if weight > most:
            best, most = sentence, weight
    return [best] if most >= LEAST_CONCLUSION else []


def _content(point: str) -> str:
    return point.partition(": ")[2] or point


def _is_by_agent(point: str) -> bool:
    speaker = point.partition(": ")[0]
    return speaker == "assistant" or speaker.endswith(f"({Trust.AGENT})") or speaker == Trust.AGENT


_SELF_EVIDENT = {("user", Trust.USER), ("assistant", Trust.AGENT)}
_NOT_IN_NAME = re.compile(r"[\s:()]+")


def quoted(said: Said) -> str:
    """What was said, after its speaker and its trust: `Ana (user): …`, `user: …`, `mailer (external): …`.

    A name with a colon or a bracket could pretend to be the speaker or the trust of something else.
    """
    speaker = _NOT_IN_NAME.sub(" ", said.speaker).strip() or str(said.trust)
    is_clear = (speaker, said.trust) in _SELF_EVIDENT or speaker == said.trust
    return f"{speaker if is_clear else f'{speaker} ({said.trust})'}: {' '.join(said.content.split())}"


def _weight(point: str, words: set[str], frequency: Counter[str], age: float) -> float:
    """How important a point is: by shared words, decisions and tasks, details, and a little by being recent."""
    if not words:
        return 0.0
    # Divided by a power of its length above the root: a long point does not win by its length alone.
    central = sum(math.log1p(frequency[word]) for word in words) / math.pow(len(words), 0.7)
    said = _content(point)
    decided = 1.5 * bool(_DECISION.search(said)) + 1.0 * bool(_ACTION.search(said))
    specific = min(len(_SPECIFIC.findall(said[1:])), 5) * 0.5  # the first letter of a sentence is no name
    question = -3.0 if said.rstrip().endswith("?") else 0.0
    return central + decided + specific + question - 2.0 * _is_by_agent(point) + 0.5 * age


def notes_in(content: str) -> list[Noted]:
    """Decisions and action items of a message, by rules."""
    notes = []
    for sentence in sentences_of(content):
        is_action = _ACTION.search(sentence) is not None
        if _DECISION.search(sentence) and (is_action or not sentence.endswith("?")):
            notes.append(Noted(kind=NoteKind.DECISION, content=sentence, importance=_importance(sentence, 0.7)))
        elif is_action:
            notes.append(Noted(kind=NoteKind.ACTION_ITEM, content=sentence, importance=_importance(sentence, 0.5)))
    return notes[:MOST_NOTES_PER_MESSAGE]


def _importance(sentence: str, base: float) -> float:
    specific = min(len(_SPECIFIC.findall(sentence)), 4) * 0.03
    return round(min(1.0, base + specific + (0.15 if _DEADLINE.search(sentence) else 0.0)), 3)
