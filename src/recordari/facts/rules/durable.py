"""Whether a clause is worth keeping, and as what: a wish to the agent, a decision, something found out, a preference, a state.

Kept is what will still hold in a month and is the speaker's own: states and habits of the speaker, of people and things
that belong to them, changes that leave a state, dates to come. Not kept: questions, requests of the moment, what is supposed,
hoped or hearsay, moods, and events that leave nothing behind.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

from recordari.core.text import STOP_WORDS
from recordari.facts.rules.clauses import Clause
from recordari.facts.rules.spoken import Speech, speech_of

FEWEST_WORDS = 3
NEAR = 24
FAR = 48
"""Characters before a subject that is still the subject of the clause: "On Sundays, after the market, I"."""
_NUMBER = re.compile(r"\d")
_FUTURE = re.compile(r"\b(?:will|won't|'ll)\b", re.IGNORECASE)
_NAME = re.compile(r"(?<=[\w,;'] )[A-ZÀ-ÖØ-Þ][\w'-]{1,40}")
_STARTS_WITH_NAME = re.compile(r"[A-ZÀ-ÖØ-Þ][\w-]{1,40}(?:\s[A-ZÀ-ÖØ-Þ][\w-]{1,40}){0,2}\s")
_PAST_ENDING = re.compile(r"^\w{2,30}ed$")
_WORD = re.compile(r"[\w'-]+")
_VERB_ENDING = re.compile(r"\w{2,30}(?:s|ed)$")
_NOTHING_TOLD = ("verb", "like", "third", "adverb")
"""Lists whose words alone say nothing: "I adore them"."""
_FILLERS = STOP_WORDS | {
    "too",
    "well",
    "same",
    "either",
    "also",
    "not",
    "there",
    "here",
    "yes",
    "no",
    "one",
    "other",
    "others",
    "them",
    "him",
}


class Category(StrEnum):
    PERSONAL = "personal"
    WORKFLOW = "workflow"
    PREFERENCE = "preference"
    DECISION = "decision"
    LEARNING = "learning"


class Form(StrEnum):
    STATEMENT = "statement"
    WISH = "wish"
    CALLED = "called"


class Subject(StrEnum):
    """Whom a clause is about."""

    ME = "me"
    WE = "we"
    KIN = "kin"
    MINE = "mine"
    PERSON = "person"
    IT = "it"
    NAME = "name"
    THING = "thing"
    YOU = "you"


@dataclass(frozen=True, slots=True, kw_only=True)
class Worth:
    category: Category
    confidence: float
    form: Form = Form.STATEMENT


def worth_of(clause: Clause, speech: Speech) -> Worth | None:
    """As what a clause is kept; None where it is not."""
    text = clause.text
    if not _says_something(text, speech):
        return None
    if speech.has("callme", text) and not clause.is_question:
        return Worth(category=Category.PREFERENCE, confidence=0.9, form=Form.CALLED)
    if _is_request(clause, speech):
        return _wish(text, speech)
    if speech.starts("idle", text) and not speech.has("like", text):
        return None
    if _breaks_off(text, speech):
        return None
    if clause.is_question or (clause.is_conditional and not _is_rule(text, speech)) or _supposes(text, speech):
        return None
    if _is_decision(text, speech):
        return Worth(category=Category.DECISION, confidence=0.8)
    if speech.has("learn", text):
        return Worth(category=Category.LEARNING, confidence=0.75)
    if clause.is_conditional:
        return Worth(category=Category.LEARNING, confidence=0.6)
    if speech.has("maybe", text):
        return None
    if speech.starts("henceforth", text) and speech.has("verb", text) and not speech.has("mood", text):
        return Worth(category=Category.WORKFLOW, confidence=0.7)  # "from now on samples go by courier"
    is_cause = speech.has("causal", text) and speech.has("verb", text) and not speech.has("mood", text)
    if is_cause and subject_of(text, speech) is Subject.THING:
        return Worth(category=Category.LEARNING, confidence=0.6)
    return _stated(text, speech)


def _breaks_off(text: str, speech: Speech) -> bool:
    """ "My flatmate isn't": what isn't so, stands in another clause."""
    return speech.code == "en" and _AUXILIARY.search(text) is not None


_AUXILIARY = re.compile(
    r"\s(?:is|isn't|are|aren't|was|wasn't|does|doesn't|do|don't|did|didn't|can|can't|will|won't|has|hasn't|have|haven't)\W*$",
    re.IGNORECASE,
)


def _supposes(text: str, speech: Speech) -> bool:
    """Whether it says how things would be: "tendría", but not "una panadería"."""
    before = (text[: found.start].split() for found in speech.finds("would", text))
    words = (each[-1] if each else "" for each in before)
    return any(not any(speech.starts(name, word) for name in ("article", "my")) for word in words)


def is_statement(clause: Clause, speech: Speech) -> bool:
    """Whether a clause says that something is so, be it lasting or not."""
    text = clause.text
    if clause.is_question or clause.is_conditional or _is_request(clause, speech) or not _says_something(text, speech):
        return False
    if any(speech.has(name, text) for name in ("mood", "maybe")) or _supposes(text, speech):
        return False
    return speech.has("verb", text) or any(_VERB_ENDING.match(word) for word in _WORD.findall(text)[1:])


def _says_something(text: str, speech: Speech) -> bool:
    """Not "I have!" or "Me too"."""
    is_short = (speech.starts("me", text) and speech.code == "en") or _I_AM.match(text) is not None
    fewest = FEWEST_WORDS - is_short
    words = speech.words(text)
    filled = [word for word in words if word.text not in _FILLERS and not speech.has("me", word.text)]
    told = [word for word in filled if not any(speech.has(name, word.text) for name in _NOTHING_TOLD)]
    return (len(words) >= fewest and bool(told)) or speech.has("callme", text)


_I_AM = re.compile(r"(?:soy|sou|sono)\s\w{4}", re.IGNORECASE)


def _is_request(clause: Clause, speech: Speech) -> bool:
    text = clause.text
    if speech.starts("idle", text):
        return False
    if clause.is_question and speech.starts("ask", text):
        return speech.starts("polite", text)
    if (standing := speech.start("standing", text)) is not None:  # "From now on, answer"
        longer = (speech.start("dont", text), speech.start("for_you", text))  # "Nunca me mandes"
        rest = text[standing.end :].lstrip(" ,")
        is_thing = speech.starts("henceforth", text) and _is_verbless(rest, speech)
        if is_thing or any(found is not None and found.end > standing.end for found in longer):
            return True
        text = rest
    is_asked = speech.starts("please", clause.text)  # "bitte immer höchstens eine halbe Seite"
    return is_asked or any(speech.starts(name, text) for name in ("order", "dont", "please", "for_you"))


def _is_verbless(text: str, speech: Speech) -> bool:
    """Whether it names a thing and says nothing of it: "the reports on two pages"."""
    return speech.starts("article", text) and not any(speech.has(name, text[:NEAR]) for name in ("verb", "me"))


def _wish(text: str, speech: Speech) -> Worth | None:
    """A request that holds beyond this moment."""
    is_of_this = speech.has("this", text)
    if speech.starts("let_us", text):
        is_settled = speech.has("decide", text) or speech.has("for_good", text)
        return Worth(category=Category.DECISION, confidence=0.6) if is_settled else None
    if speech.starts("for_you", text) and (speech.has("idle", text) or not _asks_for_something(text, speech)):
        return None  # "all your work pays off", "when you make it through"
    is_standing = speech.has("always", text) or speech.starts("for_you", text)
    is_refusal = speech.starts("dont", text) and not is_of_this
    is_manner = speech.has("manner", text) and not is_of_this and not speech.has("moment", text)
    if is_standing or is_refusal or is_manner:
        return Worth(category=Category.PREFERENCE, confidence=0.85 if is_standing else 0.7, form=Form.WISH)
    return None


def _asks_for_something(text: str, speech: Speech) -> bool:
    """Whether a clause that starts with "when you" has an order of its own."""
    if any(speech.has(name, text) for name in ("duty", "manner")):
        return True
    words = {word.end: word.text for word in speech.words(text)}
    before = [words.get(len(text[: found.start].rstrip()), "") for found in speech.finds("order", text)]
    return any(word not in _DONE_BY_YOU for word in before)


_DONE_BY_YOU = frozenset("you can could will would to have ever du kannst tu peux puedes podes puoi kunt".split())


def _is_decision(text: str, speech: Speech) -> bool:
    """Something settled, or what several people are going to do."""
    if speech.has("maybe", text) or (speech.starts("sub", text) and subject_of(text, speech) is Subject.IT):
        return False
    is_plan = subject_of(text, speech) is Subject.WE and speech.has("shall", text) and not speech.has("moment", text)
    return speech.has("decide", text) or is_plan


def _is_rule(text: str, speech: Speech) -> bool:
    """ "If the build fails with code 9, the disk is full": no supposition, a thing that is known."""
    return (
        not _supposes(text, speech) and not speech.has("me", text) and bool(_NUMBER.search(text) or _NAME.search(text))
    )


def subject_of(text: str, speech: Speech) -> Subject:
    if speech.starts("you", text):
        return Subject.YOU
    if (sub := speech.start("sub", text)) is not None:
        return _after_occasion(text[sub.end :].lstrip(), speech)
    mine = speech.find("my", text[:NEAR])
    before = text[: mine.start] if mine is not None else ""
    if mine is not None and not any(speech.has(name, before) for name in ("verb", "sub", "me")):
        head = text[mine.end : mine.end + FAR]
        return Subject.KIN if speech.has("kin", " ".join(head.split()[:3])) else Subject.MINE
    if speech.starts("third", text):
        return Subject.PERSON if speech.starts("people", text) else Subject.IT
    mine = speech.find("me", text[:FAR])
    before = text[: mine.start] if mine is not None else ""
    if mine is not None and not speech.has("verb", before) and not speech.has("sub", before):
        return Subject.WE if speech.starts("we", text[mine.start :]) else Subject.ME
    if speech.own_verb(text) is not None:
        return Subject.ME
    if speech.starts("kin", text):
        return Subject.KIN
    if speech.starts("article", text):
        return Subject.THING
    return Subject.NAME if _STARTS_WITH_NAME.match(text) and speech.code != "de" else Subject.THING


def _after_occasion(rest: str, speech: Speech) -> Subject:
    """ "Since the accident I walk" is about me; "before we start" says nothing by itself."""
    mine = speech.find("me", rest[:FAR])
    if mine is None or not speech.starts("article", rest) or speech.has("verb", rest[: mine.start]):
        return Subject.IT
    return Subject.WE if speech.starts("we", rest[mine.start :]) else Subject.ME


def _stated(text: str, speech: Speech) -> Worth | None:
    subject = subject_of(text, speech)
    is_mine = subject in {Subject.ME, Subject.WE, Subject.KIN, Subject.MINE}
    # "I just got back from an amazing trip": an event stays one.
    is_told = is_mine and is_past(text, speech) and speech.has("occasion", text) and _has_anchor(text, speech)
    if subject is Subject.YOU or (speech.has("mood", text) and not is_told):
        return None
    if (liked := speech.find("like", text)) is not None and (is_mine or subject is Subject.PERSON):
        object_of_it = text[liked.end :].lstrip()
        if speech.starts("this", object_of_it) or speech.starts("me", object_of_it):
            return None  # "I love these ideas", "I act like I'm in charge"
        return Worth(category=Category.PREFERENCE, confidence=0.8)
    is_change, is_dated = speech.has("change", text), speech.has("dated", text)
    is_event = is_mine and is_past(text, speech) and speech.has("occasion", text)
    if is_event and not is_change:
        return Worth(category=_topic(text, speech, subject), confidence=0.55)
    if speech.has("moment", text) and not is_change and not is_dated:
        return None
    if subject is Subject.IT:
        return None
    if subject in {Subject.THING, Subject.NAME}:
        is_kept = _is_anchored(text, speech)
    elif subject is Subject.PERSON:
        is_kept = not is_past(text, speech) or is_change
    else:
        is_kept = _is_state(text, speech, subject) or is_change or (is_dated and _has_anchor(text, speech))
    is_felt = subject is Subject.THING and speech.has("to_me", text) and not speech.has("work", text)
    category = Category.PERSONAL if is_felt else _topic(text, speech, subject)  # "penicillin gives me a rash"
    return Worth(category=category, confidence=0.75 if is_mine else 0.6) if is_kept else None


def _has_anchor(text: str, speech: Speech) -> bool:
    return _NUMBER.search(text) is not None or _NAME.search(text) is not None or speech.has("weekday", text)


def _is_anchored(text: str, speech: Speech) -> bool:
    """Whether a statement about a thing is a rule or a figure of the speaker's world, not common knowledge or small talk."""
    if is_past(text, speech) and (not speech.has("change", text) or _LONG_AGO.search(text) is not None):
        return False  # "was signed in 1713"
    is_own = speech.has("my", text) or _NUMBER.search(text) is not None or speech.has("weekday", text)
    if speech.has("bound", text):
        return True
    if speech.has("habit", text):  # not "every step counts"
        return is_own or speech.has("work", text)
    is_moved = speech.has("change", text) and speech.has("weekday", text)  # "a reunião passou para quinta-feira"
    return (speech.has("verb", text) or is_moved) and (is_own or speech.has("to_me", text))


_LONG_AGO = re.compile(r"(?<!\d)1[0-8]\d\d(?!\d)|(?<!\d)19[0-4]\d(?!\d)")
_IS_DOING = re.compile(r"\s(?:is|are)\s(?!being|missing)\w{2,20}ing\b", re.IGNORECASE)


def _is_state(text: str, speech: Speech, subject: Subject) -> bool:
    """Whether it tells how things are, or what happens again and again."""
    if subject in {Subject.KIN, Subject.MINE}:
        is_verbless = speech.code == "en" and not speech.has("verb", text)
        if is_verbless and not any(_VERB_ENDING.match(word) for word in _WORD.findall(text)[2:]):
            return False
        if subject is Subject.MINE and _IS_DOING.search(text) is not None and not _has_anchor(text, speech):
            return False  # "my coffee is getting cold"
        if speech.starts("my", text) and _FUTURE.search(text) is not None and not _has_anchor(text, speech):
            return False  # "my dad will cry"
        return not is_past(text, speech) or _NUMBER.search(text) is not None
    is_met = speech.has("weekday", text) and _NAME.search(text) is not None  # "I see Dr. Patel on Thursday"
    if (speech.has("mental", text[:FAR]) and not speech.has("limit", text) and not is_met) or (
        speech.has("vague", text[:FAR]) and not _has_anchor(text, speech) and not speech.has("home", text)
    ):
        return False
    if speech.has("duty", text[:FAR]) and not (_has_anchor(text, speech) or speech.has("always", text)):
        return False  # "I have to find a room"
    if is_past(text, speech):
        return _has_anchor(text, speech) and speech.has("lasting", text)
    return not speech.has("going", text) or _has_anchor(text, speech)


def is_past(text: str, speech: Speech) -> bool:
    """It tells what happened."""
    if speech.has("past", text):
        return True
    return speech.code == "en" and any(_PAST_ENDING.match(word) for word in _WORD.findall(text)[1:4])


def _topic(text: str, speech: Speech, subject: Subject) -> Category:
    """The speaker and their people, or their work."""
    if subject in {Subject.KIN, Subject.PERSON}:
        return Category.PERSONAL
    is_home, is_work = speech.has("home", text), speech.has("work", text)
    if is_home != is_work:
        return Category.PERSONAL if is_home else Category.WORKFLOW
    is_own = subject in {Subject.ME, Subject.MINE} and not speech.starts("our", text)
    return Category.PERSONAL if is_own else Category.WORKFLOW


def category_of(text: str) -> Category | None:
    """The category of a fact that somebody states; None in a language without word lists."""
    speech = speech_of(text)
    if speech is None:
        return None
    if _is_decision(text, speech):
        return Category.DECISION
    if speech.has("learn", text):
        return Category.LEARNING
    if speech.has("like", text) or _is_request(Clause(text=text), speech):
        return Category.PREFERENCE
    subject = subject_of(text, speech)
    if subject is Subject.THING and speech.has("causal", text):
        return Category.LEARNING
    is_person = subject in {Subject.NAME, Subject.IT} or (subject is Subject.THING and speech.starts("user", text))
    return _topic(text, speech, Subject.ME if is_person else subject)
