"""Patterns in a closed session: standing wishes of a person and ways in which an agent works (P3), by rules.

A wish is a sentence of a person, word for word: "please always …", "from now on …", "I prefer …". In other languages than
English it is what the extractor reads as one (`wish_in`). A way of working is
something an agent did at least twice (`ways.py`): a sequence of actions, or one action, without what differs. Of some topics
there is one wish at a time: the later wish supersedes the earlier. Every rule runs in linear time.
"""

from __future__ import annotations

import hashlib
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from recordari.core.identity import Scope
from recordari.core.items import KINDS, Kind, Trust, normalised
from recordari.core.text import terms
from recordari.facts.rules.extraction import LONGEST, NOT_PEOPLE, Category, Form, sentences_of, wish_in
from recordari.facts.rules.grammar import tokens_of
from recordari.facts.rules.spoken import Speech, speech_of
from recordari.learning.rules.ways import MOST_STEPS, repeated_ways, says_enough, shape_of

MOST_PATTERNS = 20  # of one session
FEWEST_TERMS = 2
REPEATED = 2  # times that an agent must do something before it is a way of working
WISHED_CONFIDENCE = 0.9
FEWEST_WORDS = 3  # of a single action without what differs
ENGLISH = "en"
NAME_TO_USE = "name to use"


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """A message or an episode of a session."""

    item_id: UUID
    kind: Kind
    scope: Scope
    trust: Trust
    speaker: str | None
    content: str
    event_time: datetime
    session: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Pattern:
    """A wish or a way of working, with its sources."""

    content: str
    category: Category
    confidence: float
    sources: tuple[UUID, ...]
    topic: str | None = None
    """Set where only one pattern can hold at a time, such as `language of answers`."""


_PAST = r"(?: (?:mind|again|thought|knew|known|heard|saw|seen|been|had|got|met|did|was|were|went|came|found|felt|told|said)\b"
_PAST += r"| (?!need|feed|speed|embed|proceed|exceed)\w{1,20}ed\b)"
_WISH = re.compile(
    rf"^(?:please |and |but |also |so )?(?:always(?! an? )|never(?!{_PAST}))\b"
    r"|\b(?:as a rule|by default|in general)\b|^(?:please,? )?(?:do not|don't) "
    r"(?!worry|forget|mind|bother|know|think|you\b|we\b|they\b)\w{2,20} (?:me|us|any)\b"
    r"|\b(?:remember|make sure|be sure|take care) (?:to|that)\b.{0,120}\b(?:every|each|always|all|any)\b"
    r"|\b(?:please|you should|you must|i want you to|make sure to)"
    r"(?: \w{2,20})? (?:always|never)\b"
    r"|\b(?:please|and|you should) do(?:n't| not) (?:ever )?\w{2,20}\b.{0,200}\b(?:again|any ?more)\b"
    r"|\b(?:from now on|going forward|in (?:the )?future|next time|every time (?:you|i|we)|whenever (?:you|i|we))\b"
    r"|\bi(?:'d| would)? (?:strongly |really |usually |always )?prefer\b|\bi(?:'d| would) rather\b|\bmy preference is\b"
    r"|\bi (?:always|never) (?:want|need|like)\b|\bi (?:do not |don't )?like (?:it when (?:you|we)|my \w{2,20})\b"
    r"|\b(?:like|as) (?:always|usual)\b|\b(?:every|each|all) (?:\w{2,20} ){1,3}(?:needs?|must|should|has to|have to)\b"
    r"|^(?!(?:i|we|he|she|it|they|there)\b)[^,]{2,60} (?:should|must) (?:always|never) (?!have\b)"
    r"|^(?:once )?again,? (?:please |no |do(?:n't| not) )|^(?:please,? )?no (?:more )?(?:\w{2,20} ){1,4}(?:for me"
    r"|any ?more|ever)\b"
    r"|^(?!\W|(?:i|he|she|it|they|we|you|that|this|these|there|what|how|my|his|her|their|our|the|an?|was|so|no|nope|nah|yes|yeah"
    r"|yep|well|sure|oh|after)\b)[^,]{2,120}, (?:please )?"
    rf"(?:always (?!here |there |good |nice |happy |glad |been |had )|never (?!been|mind|had)(?!{_PAST}))"
    r"(?!\w{1,20}(?:ing|ed)\b)(?!an? |was |is |were )\w"
    r"|^(?:please )?(?:call|address) me\b|^(?:please )?(?:answer|reply|respond|write)(?: to)?(?: me)? in (?-i:[A-Z])",
    re.IGNORECASE,
)
# A request in the form of a question: "could you always …?"
_REQUEST = re.compile(
    r"^(?:could|can|would|will) you (?:please )?(?:always|never|stop|from now on)\b|^please\b", re.IGNORECASE
)
_CLAUSE = re.compile(r"[,;]? (?:and|but|so) |; ")
# For one occasion only.
_ONCE = re.compile(
    r"\b(?:(?:just|only) (?:this|the) (?:once|one|time)|just (?:once|today|for now|for today)|this (?:once|time)"
    r"|only (?:once|today)"
    r"|for (?:now|today|the moment)|exceptionally|yet|right now|until (?:i|you|we)"
    r"|i(?:'d| would) (?:rather|prefer)(?: to)?(?: \w{2,20}){1,2} (?:it|this|that|these|those|them)(?! when| if))\b",
    re.IGNORECASE,
)
_REFUSED = re.compile(r"^(?:please,? )?no (?:more )?\w", re.IGNORECASE)
_WITHDRAWN = re.compile(
    r"\b(?:stop|forget (?:what|about|the|my)|ignore (?:what|my)|never mind (?:what|about|the)|you (?:can|may) (?:stop"
    r"|drop|forget)"
    r"|no longer|not any ?more|no need (?:to|for)|(?:do not|don't) (?:need|want|have) (?:the|those|these|any|to)\b)",
    re.IGNORECASE,
)
# To look at something, or to answer, is no way of working by itself.
_LOOKING = re.compile(
    r"(?:called|listed|read|looked|viewed|opened|searched|browsed|fetched|found|explained|answered|replied|asked|told"
    r"|showed|got|saw|wrote an? (?:answer|reply))\b",
    re.IGNORECASE,
)
_DAYS = "day|morning|evening|week|month|monday|tuesday|wednesday|thursday|friday|saturday|sunday"
_ROUTINE = re.compile(
    r"\b(?:i|we)(?:'ve)? (?:usually|always|normally|typically|generally|regularly)\b"
    r"|\bmy (?:\w{2,20} )?(?:routine|workflow|process)\b"
    rf"|\b(?:every|each) (?:{_DAYS})\b.{{0,80}}\b(?:i|we)\b|\b(?:i|we)\b.{{0,80}}\b(?:every|each) (?:{_DAYS})\b",
    re.IGNORECASE,
)
# Of each topic there is one wish at a time: the later one supersedes the earlier.
_TOPICS = {
    topic: re.compile(pattern, re.IGNORECASE)
    for topic, pattern in {
        NAME_TO_USE: r"\b(?:call|address) me\b",
        "language of answers": r"\b(?:answers?|repl(?:y|ies)|respon(?:d|ses?)|writ(?:e|ing)|speak|talk)\b.{0,40}"
        r"\bin (?-i:[A-Z][a-z]{2,20})\b",
        "length of answers": r"\b(?:answers?|repl(?:y|ies)|respon(?:d|ses?)|summar(?:y|ies)|it|them|reports?)\b.{0,40}"
        r"\b(?:short|brief|concise|long|longer|shorter|detailed|thorough|under \d+|at most \d+|in one sentence)\b"
        r"|\b(?:short|brief|concise|long|detailed|thorough)"
        r" (?:answers?|repl(?:y|ies)|responses?|summar(?:y|ies)|reports?)\b",
        "format of answers": r"\b(?:bullet points?|bullets|prose|tables?|markdown|plain text|json|numbered lists?)\b",
        "tone of answers": r"\b(?:formal|informal|casual|formally|informally|casually)\b",
        "units": r"\b(?:metric|imperial|celsius|fahrenheit)\b",
        "channel": r"\b(?:send|notify|contact|reach|tell|remind|message|write)\b.{0,60}"
        r"\b(?:by|via|through|on|over) (?:e-?mail|slack|sms|text|phone|teams|whatsapp|signal)\b",
    }.items()
}
_LEAD = re.compile(
    r"^(?:(?:by the way|btw|and|but|also|oh|well|so|yes|no|hey|hi|thanks|thank you|ok|okay|great|perfect|fine)[,!.]?"
    r"\s{1,3}){1,3}",
    re.IGNORECASE,
)


def patterns_in(observed: Sequence[Observed], earlier: Sequence[Observed] = ()) -> tuple[Pattern, ...]:
    """The patterns of a session, in the order observed; `earlier` are episodes of the same agent before the session."""
    return tuple([*_wishes(observed), *_ways(observed, earlier)][:MOST_PATTERNS])


def trusted(observed: Observed) -> bool:
    """Whether patterns may come from it: never from text of a tool, a document or a stranger (P3)."""
    return observed.trust in KINDS[observed.kind].learnt_from


def topic_of(content: str) -> str | None:
    return next((topic for topic, pattern in _TOPICS.items() if pattern.search(content)), None)


def takes_back(said: Observed, wish: str) -> bool:
    """Whether a message of a person takes an earlier wish back."""
    if (said.speaker or "").casefold() in NOT_PEOPLE:
        return False
    return any(withdraws(sentence, wish) for sentence in sentences_of(said.content))


def withdraws(sentence: str, wish: str) -> bool:
    """Whether a sentence of a person takes an earlier wish back: "please stop the text messages"."""
    speech = speech_of(sentence)
    is_withdrawn = _WITHDRAWN.search(sentence) is not None or (speech is not None and speech.has("withdraw", sentence))
    if not is_withdrawn or sentence.endswith("?"):
        return False
    code = speech.code if speech is not None else ENGLISH
    return len(_subject_terms(sentence, code) & _subject_terms(wish, code)) >= FEWEST_TERMS


def _subject_terms(sentence: str, code: str) -> set[str]:
    if code != ENGLISH:
        return {token.key for token in tokens_of(sentence, code) if token.is_content}
    return {term[:-1] if len(term) > 3 and term.endswith("s") else term for term in terms(sentence)}


def pattern_ref(scope: Scope, owner: str, content: str) -> str:
    """The reference of a pattern: the same words of the same owner are the same pattern."""
    return f"pattern:{scope}:{owner}:{hashlib.sha256(normalised(content).encode()).hexdigest()[:16]}"


def _wishes(observed: Sequence[Observed]) -> list[Pattern]:
    wishes: dict[str, Pattern] = {}
    for item in observed:
        if item.kind is not Kind.CHAT_MESSAGE or not trusted(item) or (item.speaker or "").casefold() in NOT_PEOPLE:
            continue
        for content, category, topic in _wished_for(item.content):
            key = normalised(content)
            earlier = wishes[key].sources if key in wishes else ()
            wishes[key] = Pattern(
                content=content,
                category=category,
                confidence=WISHED_CONFIDENCE,
                sources=(*earlier, item.item_id),
                topic=topic,
            )
    return list(wishes.values())


def _wished_for(text: str) -> Iterator[tuple[str, Category, str | None]]:
    """The wishes of a message, each with what it is about."""
    speech = speech_of(text)
    for sentence in sentences_of(text):
        if speech is not None and speech.code != ENGLISH:
            content = sentence.strip(" -–—*•\t")
            if (form := _wish_of(content, speech)) is not None:
                yield content, Category.PREFERENCE, NAME_TO_USE if form is Form.CALLED else topic_of(content)
            continue
        content = _wished(_LEAD.sub("", sentence).strip(" -–—*•\t"))
        if (category := _category(content)) is not None:
            yield content, category, topic_of(content) if category is Category.PREFERENCE else None


def _wish_of(sentence: str, speech: Speech) -> Form | None:
    """The form of a wish in another language than English."""
    if len(sentence) > LONGEST or speech.has("withdraw", sentence):
        return None
    return wish_in(sentence, speech)


def _wished(sentence: str) -> str:
    """A sentence from the clause that holds the wish: what was asked for today and stands before it is not part of it."""
    for start in (0, *(joint.end() for joint in _CLAUSE.finditer(sentence))):
        clause = _CLAUSE.split(sentence[start:], maxsplit=1)[0]
        if _WISH.search(clause) and len(set(terms(clause))) > FEWEST_TERMS:
            return sentence[start:]
    return sentence


def _category(sentence: str) -> Category | None:
    if sentence.endswith("?") and not _REQUEST.match(sentence):
        return None
    if len(sentence) > LONGEST or len(set(terms(sentence))) < FEWEST_TERMS:
        return None
    if _ONCE.search(sentence) or _WITHDRAWN.search(sentence):
        return None
    if _WISH.search(sentence) or (_REFUSED.match(sentence) and topic_of(sentence)):
        return Category.PREFERENCE
    return Category.WORKFLOW if _ROUTINE.search(sentence) else None


def _ways(observed: Sequence[Observed], earlier: Sequence[Observed]) -> list[Pattern]:
    """What an agent did again: whole sequences first, then single actions that belong to none of them."""
    ways = [way for scope in (Scope.AGENT, Scope.USER) for way in _sequences(observed, earlier, scope)]
    covered = {source for way in ways for source in way.sources}
    told = [set(terms(way.content)) for way in ways]
    single = _single_actions(observed, earlier, covered)
    return ways + [action for action in single if not any(set(terms(action.content)) <= each for each in told)]


def _sequences(observed: Sequence[Observed], earlier: Sequence[Observed], scope: Scope) -> list[Pattern]:
    def actions(items: Sequence[Observed]) -> list[Observed]:
        return [item for item in items if item.kind is Kind.EPISODE and item.scope is scope and trusted(item)]

    sessions: defaultdict[str, list[Observed]] = defaultdict(list)
    for item in actions(earlier):
        if item.session is not None:
            sessions[item.session].append(item)
    compared = [session[-MOST_STEPS:] for session in (*sessions.values(), actions(observed))]
    return [
        Pattern(
            content=way.content[:LONGEST],
            category=Category.WORKFLOW,
            confidence=_confidence(len({session for session, _ in way.sources})),
            sources=tuple(compared[session][position].item_id for session, position in way.sources),
        )
        for way in repeated_ways([[item.content for item in session] for session in compared])
    ]


def _confidence(times: int) -> float:
    return round(1 - 0.5**times, 4)


def _single_actions(observed: Sequence[Observed], earlier: Sequence[Observed], covered: set[UUID]) -> list[Pattern]:
    groups: defaultdict[tuple[Scope, str], list[Observed]] = defaultdict(list)
    for item in (*earlier, *observed):
        if item.kind is Kind.EPISODE and trusted(item) and item.item_id not in covered:
            groups[item.scope, normalised(shape_of(item.content))].append(item)
    now = {item.item_id for item in observed}
    return [
        Pattern(
            content=shape_of(same[-1].content)[:LONGEST],
            category=Category.WORKFLOW,
            confidence=_confidence(len(same)),
            sources=tuple(item.item_id for item in same),
        )
        for (_, shape), same in groups.items()
        if len(same) >= REPEATED
        and any(item.item_id in now for item in same)
        and says_enough(shape, FEWEST_WORDS)
        and not _LOOKING.match(shape)
    ]
