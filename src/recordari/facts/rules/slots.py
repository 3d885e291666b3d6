"""Slots: two statements that are the same word by word but for one phrase, and signs that it took the place of the other."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from recordari.facts.rules.frames import is_passing
from recordari.facts.rules.grammar import Token, alike
from recordari.facts.rules.reading import Reading
from recordari.facts.rules.values import CALENDAR, Value

MOST_IN_SLOT = 3
_ONE_AT_A_TIME = frozenset("be use host name at live work lead prefer want direct".split())
_MANY = frozenset({"like", "hate", "not", "longer", "also"})
_HAS = frozenset(
    "has have had hat haben habe a ont avons ai tiene tienen tengo tem têm tenho ha hanno ho heeft hebben".split()
)
_MANNERS = frozenset("in as auf als en em com with by".split())


@dataclass(frozen=True, slots=True)
class Slot:
    """What differs in two statements that else are the same."""

    new: tuple[Token, ...]
    old: tuple[Token, ...]
    before: tuple[Token, ...]
    """What the older says before it."""
    after: tuple[Token, ...]


def other_slot(new: Reading, old: Reading) -> bool:
    """The newer says with "now", "from now on" or "instead" what the older says, with another phrase behind the verb."""
    slot = slot_of(new, old)
    if slot is None or old.is_past or is_passing(new) or (new.labels | old.labels) & _MANY:
        return False
    if _is_reversed(slot):
        return True
    if len(slot.before) == 1 and "me" in slot.before[0].labels:
        return False  # "I'm drawn to", and "I'm starting to get"
    verbs = {label for token in slot.before if token.text not in _HAS for label in token.labels}
    is_order = (not old.subject and "direct" in verbs) or _is_told_to(new, old, slot)
    is_known = bool(verbs & _ONE_AT_A_TIME)
    if not (is_known or is_order or _is_circumstance(slot) or _is_of_own(slot)) or (
        old.subject and slot.old[0].place <= old.verb
    ):
        return False
    if is_order and not any(token.is_content for token in (*slot.before, *slot.after)):
        # "Use metric units", and "use bullet points"; not "remind me an hour before instead".
        return "change" in new.labels and slot.before[0].text not in _ANYTHING
    if is_order and not new.labels & {"now", "change"}:
        return _is_manner(slot)
    return _says_change(new, old, slot) and (is_order or _is_exclusive(slot, old))


def _is_told_to(new: Reading, old: Reading, slot: Slot) -> bool:
    """Whether both are orders: "always sign my letters with", and "from now on sign my letters with"."""
    verb = slot.before[0]
    opens = all(not _counts(token) for token in old.tokens[: verb.place]) and len(slot.before) > 2
    is_standing = "now" in new.tokens[0].labels or any(token.text in _STANDING for token in old.tokens[: verb.place])
    is_verb = verb.is_content and not verb.is_name and not old.labels & {"me", "third"}
    return opens and is_standing and is_verb


_STANDING = frozenset("always please never immer bitte toujours siempre sempre altijd".split())


def _says_change(new: Reading, old: Reading, slot: Slot) -> bool:
    """ "Now", "instead"; not "for two months now", which both may say, and no word of the phrase itself: "new things"."""
    first, last = slot.new[0].place, slot.new[-1].place
    lasting = {value.end for value in new.values if value.kind == "duration"}
    outside = (each for each in new.tokens if not first <= each.place <= last and each.place not in lasting)
    signs = {label for token in outside for label in token.labels}
    return bool(signs & {"change", "fix"}) or ("now" in signs and "now" not in old.labels)


def _is_reversed(slot: Slot) -> bool:
    """ "Informally" for "formally", "inactive" for "active": both cannot be so."""
    if len(slot.new) != 1 or len(slot.old) != 1:
        return False
    shorter, longer = sorted((slot.new[0].text, slot.old[0].text), key=len)
    return len(shorter) > 3 and any(longer == prefix + shorter for prefix in _REVERSING)


_REVERSING = ("in", "un", "im", "il", "ir", "dis", "non-", "nicht-", "on", "des")


def _is_manner(slot: Slot) -> bool:
    """ "Cite sources *in* the Harvard style": one way to do the same."""
    lead = next((token for token in reversed(slot.before) if token.text not in {"the", "a", "an"}), None)
    named = [token for token in slot.before if token.is_content]
    return lead is not None and lead.text in _MANNERS and bool(named)


def _is_exclusive(slot: Slot, old: Reading) -> bool:
    """A thing is in one state; a person may be a mother and a nurse, but is in one class and has one place at a desk."""
    is_person = any("kin" in token.labels for token in old.subject)
    if not is_person and (old.main[0].text in old.determiners or old.identifiers or "my" in slot.before[0].labels):
        return True
    if _is_of_own(slot):
        return True
    last = slot.before[-1]
    if last.is_content and len(slot.before) > 1:
        if any("prefer" in token.labels for token in slot.before):
            return True  # "prefers *working* mornings"
        last = slot.before[-2]  # "in room Oslo"
    leads = "function" in last.labels and last.text not in old.determiners
    return leads or any(token.is_content for token in slot.after)


def _is_circumstance(slot: Slot) -> bool:
    """ "Meets *in* the library": it says where or how, not what."""
    lead = next((token for token in reversed(slot.before) if token.text not in _ARTICLES), None)
    is_led = all(tokens[0].text in _PLACES and len(tokens) > 1 for tokens in (slot.old, slot.new))  # "au café", "à la"
    goes = lead is not None and lead.text == "to" and any(token.text in _GOES for token in slot.before)
    return is_led or goes or (lead is not None and lead.text in _PLACES and len(slot.before) > 2)


def _is_of_own(slot: Slot) -> bool:
    """ "Takes *her coffee* black": how one has what is one's own."""
    return len(slot.before) > 2 and slot.before[-1].is_content and bool(slot.before[-2].labels & {"my", "their"})


_ANYTHING = frozenset("use keep make give put set send write add utilise donne usa dame gib nutze gebruik geef".split())
_GOES = frozenset("go goes sent send delivered addressed report reports".split())
_ARTICLES = frozenset("the a an der die das den dem le la l' les el los las il lo o os as de het".split())
_PLACES = frozenset("in at on by im am mit per bei auf à au en dans chez em no na a al allo alla op".split()) - {
    "a",
    "en",
}


def slot_of(new: Reading, old: Reading) -> Slot | None:
    """The one phrase in which two statements differ; none where they differ elsewhere too.

    A newer that first says why is compared without that: "The house was sold, our landlord is …".
    """
    since = {value.place for value in new.values if value.kind in CALENDAR and _is_since(new, value)}
    tokens = [token for token in new.tokens if token.place not in since]
    other = [token for token in old.tokens if _counts(token)]
    marks = [token.place for token in new.tokens if token.text in {",", ":", ";", "."}]
    marks += [max(new.introduced)] if new.introduced else []
    been = {one.place for one, two in pairwise(new.tokens) if two.text == "been"}
    tokens = [token for token in tokens if token.place not in been and token.text != "been"]  # "has been meeting"
    for start in (0, *(place + 1 for place in marks)):
        if start and old.subject and start < len(new.tokens) and "third" in new.tokens[start].labels:
            one = [token for token in tokens if token.place > start and _counts(token)]  # "…, she goes to school in"
            if (slot := _differing(one, [token for token in other if token.place >= old.verb])) is not None:
                return slot
        one = [token for token in tokens if token.place >= start and _counts(token)]
        if (slot := _differing(one, other)) is not None:
            return slot
    cause = next((token.place for token in new.tokens if token.place and token.text in _CAUSES), None)
    if cause is None:
        return None
    return _differing([token for token in tokens if token.place < cause and _counts(token)], other)


def _is_since(new: Reading, value: Value) -> bool:
    """ "Seit März", "since Monday"."""
    return bool(value.place) and bool(new.tokens[value.place - 1].labels & {"now", "after"})


_HAVING = frozenset("takes take drinks drink wants want has have likes like eats eat".split())
"""How one has one's coffee is the same with each of them."""
_CAUSES = frozenset("since because as weil da seit car puisque porque desde perché poiché want omdat sinds".split())


def _differing(one: list[Token], other: list[Token]) -> Slot | None:
    one, other = (tokens[1:] if tokens and tokens[0].text in _ARTICLES else tokens for tokens in (one, other))
    first = 0
    while first < min(len(one), len(other)) and _is_same(one[first], other[first]):
        first += 1
    last = 0
    while last < min(len(one), len(other)) - first and _is_same(one[-1 - last], other[-1 - last]):
        last += 1
    fresh, lost = one[first : len(one) - last], other[first : len(other) - last]
    if not first or not fresh or not lost or not (_is_phrase(fresh) and _is_phrase(lost)):
        return None
    if any(alike(each.key, token.key) for each in fresh for token in lost if token.is_content):
        return None
    return Slot(new=tuple(fresh), old=tuple(lost), before=tuple(other[:first]), after=tuple(other[len(other) - last :]))


def _counts(token: Token) -> bool:
    return token.kind != "mark" and not token.labels & {"now", "fix", "maybe"} and token.text not in _ADVERBS


_ADVERBS = frozenset(
    """please always just simply instead bitte immer stattdessen toujours simplement s'il plutôt siempre favor por sempre
    semplicemente invece favore altijd alsjeblieft gewoon voortaan jetzt officially finally currently""".split()
)


def _is_same(one: Token, other: Token) -> bool:
    return (
        one.text == other.text
        or (one.text in _HAVING and other.text in _HAVING)
        or (one.kind == other.kind == "word" and not one.is_name and alike(one.key, other.key))
    )


def _is_phrase(tokens: list[Token]) -> bool:
    """A noun with its words, not a list and not a clause."""
    contents = [token for token in tokens if token.is_content]
    others = [token for token in tokens if not token.is_content]
    return 0 < len(contents) <= MOST_IN_SLOT and all(
        token.labels <= {"function", "my", "their", "be", "name"} and "break" not in token.labels for token in others
    )


def prefers_it_no_more(new: Reading, old: Reading) -> bool:
    """ "Prefers maps", and then "prefers the phone to maps"."""
    if not old.has_verb("prefer") or "prefer" not in new.labels or not old.predicate or new.is_negated or old.is_past:
        return False
    verb = next(token.place for token in new.tokens if "prefer" in token.labels)
    turn = next((token.place for token in new.tokens if token.place > verb + 1 and token.text in _RATHER_THAN), None)
    if turn is None or any(token.text in _RATHER_THAN for token in old.tokens[old.verb + 1 :]):
        return False
    rejected = [token for token in new.contents if token.place > turn]
    preferred = [token for token in new.contents if verb < token.place < turn]
    told = old.predicate
    return bool(preferred) and all(any(alike(each.key, token.key) for token in rejected) for each in told)


_RATHER_THAN = frozenset(
    {"to", "over", "than", "rather than", "instead of", "statt", "als", "à", "a", "ao", "que", "boven"}
)
