"""Who is meant: the first person becomes the name of the speaker, "she" the person who was named before.

Verbs follow where the tables know how. Where they do not, the statement stays as it was said, behind the name of its speaker:
"Ana: trabajo en Lugo".
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache

from recordari.facts.rules.spoken import Speech

_GENERIC = frozenset({"", "user", "human", "me", "customer", "client"})
_AFTER_S = ("s", "x", "z", "ß")
_SHORT = {"'m": "is", "'ve": "has", "'d": "would", "'ll": "will"}
_SHORT_PLURAL = {"'re": "are", "'ve": "have", "'d": "would", "'ll": "will"}
_WE = re.compile(r"(?<![\w'-])we(?P<short>'re|'ve|'ll|'d)?(?![\w'-])", re.IGNORECASE)
_NAMED = re.compile(r"\s(?P<noun>[\w-]{2,30})(?:\s[A-ZÀ-Þ][\w-]{1,30})?(?=[\s,']|$)")


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
    return not is_named and not speech.has("kin", before)


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
