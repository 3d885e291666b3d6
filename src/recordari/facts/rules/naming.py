"""Who is meant: the first person becomes the name of the speaker, "she" the person who was named before.

Verbs follow where the tables know how. Where they do not, the statement stays as it was said, behind the name of its speaker:
"Ana: trabajo en Lugo".

Where an earlier message of the session named "her", exactly one person must have been named lately, as somebody's sister or
boss, and the pronoun must agree with that word. In doubt it is nobody, and the message gives no fact.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from recordari.facts.rules.clauses import EXAMINED, sentences_of
from recordari.facts.rules.spoken import Found, Speech, speech_of

_GENERIC = frozenset({"", "user", "human", "me", "customer", "client"})
_AFTER_S = ("s", "x", "z", "ß")
_SHORT = {"'m": "is", "'ve": "has", "'d": "would", "'ll": "will"}
_SHORT_PLURAL = {"'re": "are", "'ve": "have", "'d": "would", "'ll": "will"}
_PARENT = re.compile(r"^(?:mum|mom|dad|grandma|grandpa|granny|grandad|granddad)(?=['\s])", re.IGNORECASE)
"""As children say it: "Dad has moved"."""
_WE = re.compile(r"(?<![\w'-])we(?P<short>'re|'ve|'ll|'d)?(?![\w'-])", re.IGNORECASE)
_NAMED = re.compile(
    r"\s(?:(?:new|old|older|younger|little|big|best|youngest|eldest|oldest)\s)?"
    r"(?P<noun>[\w-]{2,30})(?:\s[A-ZÀ-Þ][\w-]{1,30})?(?=[\s,']|$)"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Names:
    """The speaker of a message, as its facts call them."""

    speaker: str
    speech: Speech

    @property
    def owner(self) -> str:
        """The name as an owner: "Ana's", "Anas"."""
        form = "owner_after_s" if self.speaker.endswith(_AFTER_S) else "owner"
        texts = self.speech.texts
        return (texts.get(form) or texts["owner"]).replace("{name}", self.speaker)

    def resolved(self, text: str) -> str:
        """A statement with the name of its speaker."""
        if self.speech.code == "en":
            text = _PARENT.sub(lambda found: f"my {found.group().lower()}", text)
        rest = self._rewritten(self._with_subject(text))
        rest = rest if rest.startswith(self.speaker) else rest[:1].upper() + rest[1:]
        if self._still_speaks(rest) and not rest.startswith(self.speaker):
            return f"{self.speaker}: {rest}"
        return rest

    def in_wish(self, text: str) -> str:
        """A request with the name of its speaker."""
        please = self.speech.start("courtesy", text)
        rest = self._rewritten(self._with_subject(text[please.end :].lstrip(" ,") if please is not None else text))
        return rest[:1].lower() + rest[1:]

    def _still_speaks(self, text: str) -> bool:
        speech = self.speech
        return speech.has("me", text) or speech.has("my", text) or speech.own_verb(text) is not None

    def _rewritten(self, text: str) -> str:
        for pattern, replacement in self.speech.rewrites:
            filled = replacement.replace("{name}", self.speaker).replace("{owner}", self.owner)
            text = pattern.sub(filled, text)
        return text

    def _with_subject(self, text: str) -> str:
        speech = self.speech
        if "others" in speech.texts:
            text = _WE.sub(self._plural, text)
        if speech.subjects:
            pattern = _subject_pattern(speech)
            is_mine = pattern.match(text) is not None
            text = _inverted_pattern(speech.subjects).sub(self._inverted, text) if speech.verb_second else text
            text = pattern.sub(self._third_person, text)
            return self._with_joined(text) if is_mine else text
        found = speech.own_verb(text)
        if found is None:
            return text
        adverbs = text[: found.start].casefold()
        verb = self._conjugated(text[found.start : found.end])
        return self._with_joined(f"{self.speaker} {adverbs}{verb}{text[found.end :]}")

    def _with_joined(self, text: str) -> str:
        """The other verbs of the same subject: "and have"."""
        return _JOINED.sub(self._joined, text)

    def _joined(self, found: re.Match[str]) -> str:
        if not self.speech.starts("joint", found["joint"]):
            return found.group()
        verb, other = found["verb"], self._conjugated(found["verb"])
        is_verb = verb.casefold() in self.speech.third_person or (
            self.speech.starts("verb", verb) and self.speech.starts("verb", other)
        )
        return f"{found['joint']} {other}" if is_verb else found.group()

    def _inverted(self, found: re.Match[str]) -> str:
        """ "Seit Mai wohne ich": the verb stands before its subject."""
        verb = found["verb"]
        is_verb = verb.casefold() in self.speech.third_person or self.speech.starts("verb", verb)
        return f"{self._conjugated(verb)} {self.speaker}" if is_verb else found.group()

    def _plural(self, found: re.Match[str]) -> str:
        others = self.speech.texts["others"].replace("{name}", self.speaker)
        short = _SHORT_PLURAL.get((found["short"] or "").casefold())
        return f"{others} {short}" if short else others

    def _third_person(self, found: re.Match[str]) -> str:
        if found["short"]:
            return f"{self.speaker} {_SHORT[found['short'].casefold()]}"
        if found["verb"] is None:
            return self.speaker
        if self.speech.verb_second and not self._leads(found):
            return f"{self.speaker} {found['between']}{found['verb']}"
        return f"{self.speaker} {found['between']}{self._conjugated(found['verb'])}"

    def _leads(self, found: re.Match[str]) -> bool:
        """Whether the subject opens a main clause, so that its verb follows."""
        before = found.string[: found.start()].rstrip()
        last = before.rpartition(" ")[2]
        return not before or before[-1] in ",;:" or self.speech.starts("joint", last)

    def _conjugated(self, verb: str) -> str:
        folded = verb.casefold()
        if (known := self.speech.third_person.get(folded)) is not None:
            return known
        for before, after in self.speech.endings:
            if before.search(folded):
                return before.sub(after, folded, count=1)
        return verb


@cache
def _pattern(subjects: tuple[str, ...], adverbs: tuple[str, ...]) -> re.Pattern[str]:
    """A pronoun of the first person, its short verb, or the verb behind it and its adverbs."""
    pronouns = "|".join(re.escape(subject) for subject in subjects)
    between = "|".join(rf"{re.escape(word)}{'' if word.endswith(chr(39)) else chr(92) + 's'}" for word in adverbs)
    if "i" in subjects:  # "eventually", not "apply"
        between += r"|[a-z]{1,20}(?:al|ic|ul|us|on|ew|ar|ad|nt|iv|av|te|ick|low)ly\s"
    return re.compile(
        rf"(?<![\w'-])(?:{pronouns})(?:(?P<short>'m|'ve|'d|'ll)(?!\w)|(?:\s|(?<='))"
        rf"(?P<between>(?:{between}){{0,4}})(?P<verb>[\w'-]+)|(?![\w'-]))",
        re.IGNORECASE,
    )


def _subject_pattern(speech: Speech) -> re.Pattern[str]:
    return _pattern(speech.subjects, speech.adverbs)


@cache
def _inverted_pattern(subjects: tuple[str, ...]) -> re.Pattern[str]:
    pronouns = "|".join(re.escape(subject) for subject in subjects)
    return re.compile(rf"(?P<verb>[\w-]{{1,40}})\s(?:{pronouns})(?![\w'-])", re.IGNORECASE)


_JOINED = re.compile(r"(?<![\w'-])(?P<joint>[^\W\d_]{1,8}) (?P<verb>[\w'-]{1,40})")


def name_of(speaker: str | None) -> str | None:
    """The name of a speaker; None where it names nobody."""
    name = (speaker or "").strip()
    return None if name.casefold() in _GENERIC else name


def person_in(text: str, speech: Speech, before: str | None = None) -> str | None:
    """The person that a clause names, for a pronoun that follows: "my son Idris". Else the one that was named before.

    None where it names two: after "my sister had a girl" nobody knows who "she" is.
    """
    for mine in speech.finds("my", text):
        found = _NAMED.match(text, mine.end)
        if found is not None and speech.has("kin", found["noun"]):
            return None if speech.has("kin", text[found.end() :]) else text[mine.start : found.end()]
    return before


# English; "their" may be of a thing.
_PRONOUN = re.compile(r"\b(?P<whose>his|her(?=\s[a-z0-9]))\b|\b(?:he|she|him|her)\b", re.IGNORECASE)
_SOMEBODY = re.compile(r"\b[A-ZÀ-ÖØ-Þ][\w'-]+")


def is_unclear(text: str, speech: Speech) -> bool:
    """Whether a clause speaks of "him" or "her" and names nobody before (English)."""
    found = _PRONOUN.search(text) if speech.code == "en" else None
    if found is None or not found.start():
        return False
    before = text[: found.start()]
    names = (each for each in _SOMEBODY.finditer(before) if each.start())
    is_named = any(not speech.has("me", each.group()) and not speech.has("weekday", each.group()) for each in names)
    is_owned = bool(found["whose"]) and speech.has("my", before)  # "my guide dog, her name is"
    return not is_named and not is_owned and not speech.has("kin", before)


def with_pronouns(text: str, person: str) -> str:
    """The clause with the person instead of every such pronoun."""
    return _PRONOUN.sub(lambda found: f"{person}'s" if found["whose"] else person, text)


def with_person(text: str, person: str, speech: Speech) -> str:
    """The clause with the person instead of the pronoun that it starts with."""
    pronoun = speech.start("people", text)
    if pronoun is None:
        return text
    said, rest = text[: pronoun.end].casefold(), text[pronoun.end :]
    if speech.has("owners", said):
        return f"{person}'s{rest}"
    return f"{person} is{rest}" if said.endswith("'s") else f"{person}{rest}"


MOST_BEFORE = 6
"""Messages of a session that are looked at, the speaker's and the answers."""
_CAPITALISED = re.compile(r"(?<=[\w,;'] )[A-ZÀ-ÖØ-Þ][\w'-]{1,40}")
_PLACE = re.compile(r"\b(?:in|at|from|near|on|à|en|au|dans|de|em|no|na|a|al|di|da|te|uit|bij)\s$", re.IGNORECASE)
_IS_MY = re.compile(r"^(?P<name>[A-ZÀ-ÖØ-Þ][\w-]{1,30}),? (?:is|est|es|é|è) (?=\w)")
_OPENS = re.compile(r"(?:^|[,.;:!?]\s)$")
"""Where "her" is the one whose husband is meant: "anyway, her husband"."""
_CAPITALS = frozenset({"i", "i'm", "i've", "i'd", "i'll"})
_PLURAL = frozenset(
    "parents children kids twins family in-laws grandparents eltern kinder padres hijos pais filhos".split()
)


@dataclass(frozen=True, slots=True, kw_only=True)
class EarlierMessage:
    """An earlier message of the session."""

    content: str
    is_own: bool
    """By the same speaker."""


def refers_to_somebody(text: str) -> bool:
    """Whether a message speaks of "her" or "him" and names nobody before."""
    speech = speech_of(text[:EXAMINED])
    return speech is not None and _pronoun(text[:EXAMINED], speech) is not None


def with_person_before(text: str, before: Sequence[EarlierMessage], speaker: str | None) -> str:
    """The message with the person who was named before instead of its first pronoun; else as it is."""
    speech = speech_of(text[:EXAMINED])
    found = _pronoun(text[:EXAMINED], speech) if speech is not None else None
    if speech is None or found is None:
        return text
    pronoun = text[found.start : found.end].casefold()
    person = _person(before[-MOST_BEFORE:], speech, (speaker or "").casefold())
    if person is None or not _agrees(pronoun, person, speech):
        return text
    after = text[found.end :]
    if pronoun.endswith("'s"):
        instead = f"{person} is"
    elif speech.has("owners", pronoun):
        instead = f"{person}'s"
    else:
        instead = person
    opening = (
        instead[0].upper() if not found.start else instead[0].lower() if speech.starts("my", instead) else instead[0]
    )
    return text[: found.start] + opening + instead[1:] + after


def _pronoun(text: str, speech: Speech) -> Found | None:
    """The first pronoun of a person, where nobody is named before it."""
    all_found = (
        each
        for each in (*speech.finds("she", text), *speech.finds("he", text))
        if not speech.has("objects", text[each.start : each.end]) or _OPENS.search(text[: each.start])
    )
    found = min(all_found, key=lambda each: each.start, default=None)
    if found is None or speech.has("kin", text[: found.start]) or _names(text[: found.start], speech, ""):
        return None
    opening = text[: found.start].split(maxsplit=1)[:1]
    is_name = bool(opening) and opening[0][:1].isupper() and not _is_known(opening[0], speech)
    return None if is_name else found


def _is_known(word: str, speech: Speech) -> bool:
    """Whether a capitalised word at the start is one of the language: "And she", not "Bo thinks she"."""
    word = word.strip(",.!?:;")
    lists = ("lead", "joint", "adverb", "me", "my", "sub", "if", "moment", "weekday", "ask", "article", "maybe")
    return any(speech.starts(name, word) for name in lists)


def _person(before: Sequence[EarlierMessage], speech: Speech, speaker: str) -> str | None:
    """The one person whom the messages name; None for two, or where another name may be one."""
    persons: dict[str, str] = {}
    names: set[str] = set()
    for said in before:
        for sentence in sentences_of(said.content):
            found = _named(sentence.rstrip(" .!"), speech) if said.is_own else None
            if found is not None:
                persons[found.casefold()] = found
            elif speech.has("kin", sentence) and (said.is_own or not _repeats(sentence, persons, speech)):
                return None
            names |= _names(sentence, speech, speaker)
    if len(persons) != 1:
        return None
    (person,) = persons.values()
    words = {word.casefold() for word in person.split()}
    return person if names <= words and not words & _PLURAL else None


def _named(sentence: str, speech: Speech) -> str | None:
    """ "My sister Mona called", "Marisol is my boss"."""
    person = person_in(sentence, speech)
    subject = _IS_MY.match(sentence)
    if person is not None and subject is not None and sentence[subject.end() :].startswith(person):
        return f"{person} {subject['name']}" if not person.endswith(subject["name"]) else person
    return person


def _repeats(sentence: str, persons: dict[str, str], speech: Speech) -> bool:
    """Whether an answer speaks of somebody who was named: "how is your sister?"."""
    kin = {sentence[each.start : each.end].casefold() for each in speech.finds("kin", sentence)}
    return any(kin <= set(person.split()) for person in persons)


def _names(text: str, speech: Speech, speaker: str) -> set[str]:
    """Capitalised words that may be persons: no places, days or the speaker."""
    return {
        word
        for found in _CAPITALISED.finditer(text)
        if (word := found.group().casefold().removesuffix("'s")) not in _CAPITALS
        and word != speaker
        and not speech.has("weekday", word)
        and not _PLACE.search(text[: found.start()])
    }


def _agrees(pronoun: str, person: str, speech: Speech) -> bool:
    """Whether "she" may be said of a sister, a boss, not of a brother."""
    is_she = speech.has("she", pronoun)
    return not speech.has("he_kin" if is_she else "she_kin", person)
