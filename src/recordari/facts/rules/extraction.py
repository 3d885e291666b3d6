"""The offline extractor: what a person states that lasts, as sentences that are clear without their message.

The words are those of the message. Only names and dates are put in: the speaker's for "I", the date for "tomorrow". Every rule
runs in linear time. Word lists exist for the languages of `spoken.SPOKEN`; a message in another one gives nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime

from recordari.core.text import terms
from recordari.facts.rules.claims import SELF, Claim, claims_of
from recordari.facts.rules.clauses import EXAMINED, Clause, aside_of, clauses_of, sentences_of
from recordari.facts.rules.dating import dated
from recordari.facts.rules.durable import Category, Form, Subject, Worth, is_past, is_statement, subject_of, worth_of
from recordari.facts.rules.naming import Names, is_unclear, name_of, person_in, with_person, with_pronouns
from recordari.facts.rules.spoken import Speech, speech_of

__all__ = [
    "EXAMINED",
    "LONGEST",
    "MOST_FACTS",
    "NOT_PEOPLE",
    "Category",
    "ExtractedFact",
    "Form",
    "facts_in",
    "sentences_of",
    "wish_in",
]

MOST_FACTS = 8  # of one text
FEWEST_TERMS = 3
LONGEST_SUBJECT = 5  # words
LONGEST = 400  # characters of a fact
NOT_PEOPLE = frozenset({"assistant", "ai", "bot", "system", "tool", "agent", "model", "function"})
_CHANGED = re.compile(r"((?:my|our)(?:\s[\w'-]{1,30}){1,4}) (?:has |have )?(?:changed|moved|is new)\b", re.IGNORECASE)
_IT_IS = re.compile(r"(?:it's|it is)(?: now)?\s(?=[\w+])", re.IGNORECASE)
"""Of what changed in the clause before: "my number changed, it's 555-0148 now"."""
_ALSO = re.compile(r"^(i|we)\salso(?=\s)", re.IGNORECASE)
_CALLED = re.compile(
    r"[\s:]{0,3}(?:(?:just|simply|please|maar|gewoon|einfach|ruhig|doch|bitte|simplement|juste|simplemente|solo|só|apenas"
    r"|semplicemente|pure)\s){0,2}([\w'’ -]{1,40}?)(?=[,.;!?]|$|\s(?:and|und|et|y|e|en|not|nicht)\s)",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtractedFact:
    content: str
    category: str
    """A `Category`, or one of the tenant's own."""
    confidence: float
    subject: str | None = None
    predicate: str | None = None
    object: str | None = None


def facts_in(text: str, *, speaker: str | None = None, at: datetime | None = None) -> tuple[ExtractedFact, ...]:
    """The facts that the speaker states, in order; none when the speaker is no person. `at` is when it was said."""
    if (speaker or "").casefold() in NOT_PEOPLE:
        return ()
    text = text[:EXAMINED].replace("’", "'")
    speech = speech_of(text)
    facts: dict[str, ExtractedFact] = {}
    if speech is None:
        return ()
    for clause, worth in _kept(text, speech):
        fact = _fact(clause, worth, speech, name_of(speaker), at)
        if fact is not None and len(fact.content) <= LONGEST:
            facts.setdefault(fact.content.casefold(), fact)
        if len(facts) == MOST_FACTS:
            break
    return tuple(facts.values())


def states_something(text: str) -> bool:
    """Whether a text says anything at all that is no question, request or small talk: "ok" and "Thanks, bye!" do not."""
    text = text[:EXAMINED].replace("’", "'")
    speech = speech_of(text)
    if speech is None:
        return len(terms(text)) >= FEWEST_TERMS
    return any(is_statement(clause, speech) for clause in clauses_of(text, speech))


def wish_in(sentence: str, speech: Speech) -> Form | None:
    """Whether a sentence asks for something that holds beyond this moment, and whether it is the name to use."""
    if speech.has("once", sentence):
        return None
    if speech.has("prefer", sentence) and not sentence.rstrip().endswith("?"):
        return Form.WISH
    for clause in clauses_of(sentence, speech):
        worth = worth_of(clause, speech)
        if worth is not None and worth.form is not Form.STATEMENT:
            return worth.form
    return None


def _kept(text: str, speech: Speech) -> Iterator[tuple[Clause, Worth]]:
    """The clauses that are worth keeping; "she" is the person named before."""
    person: str | None = None
    thing: str | None = None
    for clause in clauses_of(text, speech):
        said = clause
        if speech.code == "en" and thing is not None and (told := _IT_IS.match(clause.text)) is not None:
            said = clause = replace(clause, text=f"{thing} is {clause.text[told.end() :]}")
        thing = changed[1] if (changed := _CHANGED.match(clause.text)) is not None else None
        if changed is not None and changed.end() == len(clause.text):
            continue  # that it changed says nothing
        if subject_of(clause.text, speech) is Subject.PERSON:
            if person is None:
                continue
            said = replace(clause, text=with_person(clause.text, person, speech))
        elif is_unclear(clause.text, speech):
            if person is None:
                continue
            said = replace(clause, text=with_pronouns(clause.text, person))
        person = person_in(clause.text, speech, person)
        worth = worth_of(said, speech)
        if worth is None and (aside := aside_of(said, speech)) is not None:
            said, worth = aside, worth_of(aside, speech)
        if worth is not None:
            yield said, worth


def _fact(clause: Clause, worth: Worth, speech: Speech, name: str | None, at: datetime | None) -> ExtractedFact | None:
    text = _ALSO.sub(r"\1", clause.text.rstrip(" ,;:"))
    claims = claims_of(text, speaker=name) if worth.form is Form.STATEMENT and speech.code == "en" else ()
    content = _content(text, worth, speech, name)
    if content is None:
        return None
    if at is not None:
        is_over = is_past(text, speech) and worth.category is not Category.DECISION
        content = dated(content, at=at, speech=speech, is_past=is_over)
    claim = claims[0] if claims else None
    if worth.form is Form.CALLED and (value := _called(text, speech)) is not None:
        claim = Claim(subject=(name or SELF).casefold(), predicate="is named", object=value)
    return ExtractedFact(
        content=content,
        category=worth.category,
        confidence=min(worth.confidence + 0.1, 0.9) if claim is not None else worth.confidence,
        subject=_subject(text, content, worth, speech, name) or (claim.subject if claim is not None else None),
        predicate=claim.predicate if claim is not None else None,
        object=claim.object if claim is not None else None,
    )


def _content(text: str, worth: Worth, speech: Speech, name: str | None) -> str | None:
    """The clause as a sentence of its own."""
    if name is None:
        return text
    if worth.form is Form.CALLED:
        value = _called(text, speech)
        return speech.texts["called"].format(name=name, value=value) if value is not None else None
    names = Names(speaker=name, speech=speech)
    if worth.form is Form.WISH:
        return speech.texts["wish"].format(name=name, text=names.in_wish(text))
    return names.resolved(text)


def _called(text: str, speech: Speech) -> str | None:
    """The name that somebody wants to be called by."""
    opening = speech.find("callme", text)
    value = _CALLED.match(text, opening.end) if opening is not None else None
    return value[1].strip() or None if value is not None else None


def _subject(text: str, content: str, worth: Worth, speech: Speech, name: str | None) -> str | None:
    """Whom or what a fact is about: the speaker, or what stands before the verb ("Ana's son Leo", "the staging server")."""
    subject = subject_of(text, speech)
    if worth.form is not Form.STATEMENT or subject in {Subject.ME, Subject.WE}:
        return (name or SELF).casefold()
    verb = speech.find("verb", content)
    said = content[: verb.start].strip() if verb is not None else ""
    opening = said.split()
    while len(opening) > 1 and speech.starts("adverb", opening[-1]):
        opening.pop()
    is_noun = subject is not Subject.THING or speech.starts("article", said)
    is_one = is_noun and subject is not Subject.IT and not any(mark in said for mark in ",:;")
    return " ".join(opening).casefold() if is_one and 0 < len(opening) <= LONGEST_SUBJECT else None
