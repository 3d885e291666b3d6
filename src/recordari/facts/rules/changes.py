"""The rules by which a newer statement ends an older one. Each looks for one kind of change, and is sure of it or silent."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

from recordari.facts.rules.frames import corrected, fresh_words, is_passing, other_value, postponed
from recordari.facts.rules.grammar import Token, alike
from recordari.facts.rules.owners import other_owner
from recordari.facts.rules.reading import Reading
from recordari.facts.rules.slots import other_slot, prefers_it_no_more
from recordari.facts.rules.states import came_back, done, given_up, negated, other_state, other_taste
from recordari.facts.rules.values import is_house_number

Rule = Callable[[Reading, Reading], bool]


MOST_TOLD = 5
"""Content words of a statement that is short enough to have one slot."""


def moved(new: Reading, old: Reading) -> bool:
    """Somebody lives, or something is kept, elsewhere."""
    if is_passing(new) or new.is_negated or old.is_negated:
        return False
    if _is_other_room(new, old):
        return True
    is_home = old.has_verb("live") and bool(new.labels & {"live", "move"})
    is_home = is_home or (new.words.phrases is not None and old.has_verb("at") and "move" in new.labels)
    is_put = bool(new.labels & {"at", "move", "change"}) or (
        "now" in new.labels and (new.has_verb("be", "live") or _tells_where(new))
    )
    is_there = old.has_verb("at", "host") or (_tells_where(old) and "move" in new.labels)
    is_kept = is_there and _is_thing(old) and not is_home and is_put
    if not (is_home or is_kept) or not old.predicate:
        return False
    verbs = {"live", "move", "at", "change"} | ({"be", "act"} if is_kept and "now" in new.labels else set())
    clauses = {token.clause for token in new.tokens if token.labels & verbs}
    slot = tuple(token for token in fresh_words(new, old) if token.clause in clauses)
    lost = new.lacks(old.predicate)
    if not slot or not (lost or "stop" in new.labels):
        return False
    is_partly = len(lost) < len(old.predicate) and "stop" not in new.labels  # "Kyoto, Japan" after "Osaka, Japan"
    if is_partly and not (new.labels & {"now", "move"} and _are_names(lost, old)):
        return False
    if is_home:
        is_named = _are_names(slot, new) and (_are_names(old.predicate, old) or "move" in new.labels)
        return is_named and ("move" in new.labels or not _one_is_a_country(new, old))
    same = ((token, each) for token in new.subject for each in old.subject if alike(token.key, each.key))
    if any(_is_of(new, token) and not _is_of(old, each) for token, each in same):
        return False  # the owner of the shop
    if new.labels & {"move", "change"}:
        return all(is_house_number(value, old.tokens, old.words) for value in old.values)
    if "now" not in new.labels and _preposition(new) != _preposition(old):
        return False
    return not old.lacks(new.subject) and not old.values and not new.values


def _tells_where(old: Reading) -> bool:
    """ "Stands *in* the hall", "takes place *behind* the church"."""
    return any(
        one.text in _PLACES and one.place > old.verb and two.place not in old.valued for one, two in pairwise(old.main)
    )


_PLACES = frozenset({"next to", *"in at on behind under beside near opposite outside inside".split()})


def _is_of(reading: Reading, token: Token) -> bool:
    """Whether something of it is meant: "the owner of the shop"."""
    return any(each.text in _OF for each in reading.tokens[max(token.place - 2, 0) : token.place])


_OF = frozenset("of von de du del della do da van".split())


def _preposition(reading: Reading) -> str:
    return next((token.text.split()[-1] for token in reading.tokens if "at" in token.labels), "")


def _is_other_room(new: Reading, old: Reading) -> bool:
    """In a language without blanks: 第一会議室, and a change to 第三会議室."""
    if new.words.phrases is None or "change" not in new.labels or new.lacks(old.subject) or not old.subject:
        return False
    fresh, lost = fresh_words(new, old), new.lacks(old.predicate)
    return any(one.text[-2:] == two.text[-2:] and len(one.text) == len(two.text) > 2 for one in fresh for two in lost)


def _is_thing(old: Reading) -> bool:
    """Whether its subject is a thing with an article or an owner: a person may be in many places."""
    if not old.subject or any("kin" in token.labels for token in old.subject):
        return False
    is_owned = any(token.kind == "owns" and token.place < old.verb for token in old.main)
    return is_owned or old.main[0].text in old.determiners or bool(old.main[0].labels & {"my", "their"})


def _one_is_a_country(new: Reading, old: Reading) -> bool:
    """ "In Spain" and "in Valencia" may both be true; with "now" it is a move."""
    return "now" not in new.labels and ("countries" in new.labels) != ("countries" in old.labels)


def _are_names(tokens: tuple[Token, ...], reading: Reading) -> bool:
    return any(token.is_name or token.kind == "id" for token in tokens) or reading.words.phrases is not None


def changed_work(new: Reading, old: Reading) -> bool:
    """Somebody works elsewhere, or as something else."""
    if _has_other_profession(new, old) or _is_promoted(new, old):
        return True
    is_at_work = old.has_verb("work") or (_is_employed(old) and bool(new.labels & {"now", "stop"}))
    if not is_at_work or "work" not in new.labels or new.is_negated or old.is_past or is_passing(new):
        return False
    slot = fresh_words(new, old)
    if not slot or not old.predicate or any(new.mentions(token) for token in old.predicate):
        return False
    return (_are_names(slot, new) and _are_names(old.predicate, old)) or bool(new.labels & {"now", "change", "stop"})


def _is_employed(old: Reading) -> bool:
    """ "Is a nurse at the hospital"."""
    said = [token for token in old.predicate if "profession" in token.labels and _is_what_it_is(old, token)]
    return bool(said) and len(old.predicate) > 1


def _is_promoted(new: Reading, old: Reading) -> bool:
    """ "Plays second violin in the orchestra", and was promoted to first violin there."""
    if "promote" not in new.labels or new.is_negated or old.is_past or old.is_negated:
        return False
    if not old.subject and not (old.speaks_of_self and "me" in new.labels):
        return False
    place = next(token.place for token in new.tokens if "promote" in token.labels)
    shared = [token for token in old.predicate if any(alike(token.key, each.key) for each in new.contents)]
    return bool(shared) and any(token.place > place for token in new.contents) and slot_differs(new, old, place)


def slot_differs(new: Reading, old: Reading, place: int) -> bool:
    """Whether the newer says something behind a place that the older does not, in words or by a value."""
    words = any(token.place > place and not old.mentions(token) for token in new.contents)
    is_raised = any(token.text in _RANKS and not new.mentions(token) for token in old.predicate)  # the *deputy* head
    return (
        words or is_raised or any(value.place > place and any(map(value.differs, old.values)) for value in new.values)
    )


_RANKS = frozenset("deputy vice acting interim assistant junior trainee second associate".split())


def _has_other_profession(new: Reading, old: Reading) -> bool:
    """ "Is a beekeeper", and now drives a tram for a living."""
    one, other = ([token for token in each.contents if "profession" in token.labels] for each in (new, old))
    if not one or not other or new.is_negated or old.is_negated or old.is_past or is_passing(new):
        return False
    if not new.labels & {"now", "change"} or any(map(new.mentions, other)) or any(map(old.mentions, one)):
        return False
    is_said = [token for token in other if token in old.predicate and _is_what_it_is(old, token)]
    return bool(is_said) and any(token not in new.subject and _is_what_it_is(new, token) for token in one)


def _is_what_it_is(reading: Reading, token: Token) -> bool:
    """Whether it is said of the subject: "is a tram driver", "works as", not "has a good doctor"."""
    near = reading.tokens[max(token.place - 4, 0) : token.place]
    is_said = any(each.labels & {"change", "be"} or each.text in _AS for each in near)
    is_had = any(each.labels & {"my", "their"} or each.kind == "owns" or each.text in _WITH for each in near)
    return is_said and not is_had and not (near and near[0].text in _HAS and "be" not in near[1].labels)


_AS = frozenset("as als comme como come fa faz fait hace work works trabalha lavora travaille trabaja".split())
_HAS = frozenset("has have had hat habe ont tiene tem heeft".split())
_WITH = frozenset("with mit avec con com met by von par por da door".split())


def renamed(new: Reading, old: Reading) -> bool:
    """A thing or a person has another name."""
    if "rename" in new.labels and "name" in old.labels:
        verb = next(token.place for token in new.tokens if "rename" in token.labels)
        objects = {token.key for token in new.contents if token.place > verb}
        is_object = bool(old.subject) and all(token.key in objects for token in old.subject)
        ahead = [token for token in new.contents if token.place < verb]
        if ahead and not any(map(old.mentions, ahead)) and not is_object:
            return False  # another thing got that name
        return any(old.mentions(token) for token in new.contents) and bool(fresh_words(new, old))
    if "name" not in old.labels or not old.predicate or new.is_negated:
        return False
    slot = fresh_words(new, old)
    if not old.has_verb("be", "name") or not new.has_verb("be", "name"):
        return False
    if {"name", "now"} <= new.labels and new.subject and not old.lacks(new.subject) and not new.lacks(old.predicate):
        named = any(alike(token.key, each.key) for token in new.subject for each in old.predicate)
        return bool(slot) and named
    is_same = bool(old.subject) and not new.lacks(old.subject) and not old.lacks(new.subject)
    return is_same and bool(slot) and not any(new.mentions(token) for token in old.predicate)


def other_favourite(new: Reading, old: Reading) -> bool:
    """Another favourite of the same kind."""
    if not old.has_verb("be") or len(old.contents) > MOST_TOLD + 1 or len(new.contents) > MOST_TOLD + 3:
        return False
    one, other = _favoured(new), _favoured(old)
    if one is None or other is None or not alike(one.key, other.key) or new.is_negated:
        return False
    return bool(fresh_words(new, old)) and len(new.lacks(old.contents)) >= 1


def _favoured(reading: Reading) -> Token | None:
    for token in reading.tokens:
        is_said = any(each.labels & {"be", "change"} and each.clause == token.clause for each in reading.tokens)
        if "favourite" in token.labels and is_said:
            place = token.place + (-1 if reading.words.code in {"fr", "es", "pt", "it"} else 1)
            return reading.tokens[place] if 0 <= place < len(reading.tokens) else None
    return None


def other_instruction(new: Reading, old: Reading) -> bool:
    """Another way to answer, to be called, to write."""
    if "callme" in new.labels and "callme" in old.labels:
        return bool(fresh_words(new, old)) and _is_called(new) and _is_called(old)
    if _is_of_other_length(new, old) or _is_allowed(new, old):
        return True
    orders = {"direct", "want", "like", "reply"}
    is_told = bool(new.labels & orders) or "change" in new.tokens[0].labels
    if not (is_told and old.labels & orders):
        return False
    for one, other in ((a, b) for pair in new.words.opposites for a, b in (pair, pair[::-1])):
        was, is_now = _named(old, one), _named(new, other)
        if was and is_now and not _named(new, one) and not _named(old, other):
            rest = tuple(token for token in old.contents if token.place not in was)
            fresh = [token for token in new.contents if token.place not in is_now and not old.mentions(token)]
            if not rest:
                is_put_instead = len(fresh) < 2 and bool(new.labels & {"now", "change"})
                return not fresh or is_put_instead or "reply" in new.labels & old.labels
            if new.lacks(rest) and fresh and "reply" not in new.labels & old.labels:
                return False  # "on flights", and "in cinemas"
            return len(new.lacks(rest)) < len(rest) and len(fresh) <= 2 and not any(t.is_name for t in new.lacks(rest))
    return False


def _is_allowed(new: Reading, old: Reading) -> bool:
    """ "Don't use tables in your answers", and "tables are fine from now on"."""
    if not old.is_negated or "direct" not in old.labels or new.is_negated or not new.labels & {"now", "change"}:
        return False
    is_fine = any(token.text in _FINE for token in new.tokens)
    return is_fine and bool(old.contents) and not new.lacks(old.contents) and len(fresh_words(new, old)) <= 1


_FINE = frozenset("fine okay ok welcome allowed again ordnung erlaubt wieder".split())


def _is_of_other_length(new: Reading, old: Reading) -> bool:
    """ "Keep answers under 100 words", and "you can go up to 300 words in your answers"."""
    if "reply" not in new.labels & old.labels or fresh_words(new, old) or new.lacks(old.contents) or new.is_negated:
        return False
    pairs = [(one, other) for one in new.values for other in old.values if one.kind == other.kind == "count"]
    return len(pairs) == 1 and all(one.unit == other.unit and one.differs(other) for one, other in pairs)


def _is_called(reading: Reading) -> bool:
    """ "Call me Pat", not "call me a taxi"."""
    place = next(token.place for token in reading.tokens if "callme" in token.labels) + 1
    following = (token for token in reading.tokens[place:] if "now" not in token.labels and token.text not in _TITLES)
    name = next(following, None)
    return name is not None and name.is_content


_TITLES = frozenset("bitte please simply just einfach simplement simplemente semplicemente gewoon mr mrs ms dr".split())


def _named(reading: Reading, phrases: frozenset[str]) -> set[int]:
    texts = [token.text for token in reading.tokens]
    found: set[int] = set()
    for phrase in phrases:
        parts = phrase.split()
        for place in range(len(texts) - len(parts) + 1):
            if texts[place : place + len(parts)] == parts:
                found |= set(range(place, place + len(parts)))
    return found


def other_choice(new: Reading, old: Reading) -> bool:
    """One thing in the place of another, all else the same: "for issue tracking", "an aisle seat"."""
    if new.is_negated != old.is_negated or old.is_past or is_passing(new) or "like" in old.labels | new.labels:
        return False
    verb = next((token.clause for token in new.tokens if token.labels & {"use", "want", "host", "direct", "change"}), 0)
    fresh = tuple(token for token in fresh_words(new, old) if token.clause == verb)
    told = (*old.subject, *old.predicate)
    lost = new.lacks(told)
    if old.has_verb("prefer") and {"prefer", "now"} <= new.labels and len(old.predicate) <= 3 and lost and fresh:
        return all(_is_frame_of(old, each, lost) for each in old.predicate if new.mentions(each)) and len(fresh) <= 3
    verbs = new.labels & old.labels & {"use", "want", "host", "direct"}
    if not verbs and not ("change" in new.labels and old.labels & {"use", "want", "host"}):
        return _prefers_reversed(new, old)
    if len(old.predicate) > MOST_TOLD or not old.has_verb("use", "want", "host", "direct"):
        return False
    if not fresh or not lost or not _in_a_row(fresh) or not _in_a_row(lost) or not _are_single(fresh, lost):
        return _prefers_reversed(new, old)
    if lost[0].place < old.verb or (old.lacks(new.subject) and lost[0] in old.subject):
        return False
    clause = [token for token in new.contents if token.clause == verb]
    shared = [token for token in told if any(alike(token.key, each.key) for each in clause)]
    is_order = "direct" in verbs and len(shared) > 1 and fresh[0].is_name and lost[0].is_name
    if not is_order and _led_by(new, fresh[0]) != _led_by(old, lost[0]):
        return False
    purpose = [token for token in shared if token.place >= old.verb]
    if purpose:
        return all(_is_slot(reading, tokens) for reading, tokens in ((new, fresh), (old, lost)))
    return "host" in verbs and bool(shared)


def _is_frame_of(old: Reading, token: Token, lost: tuple[Token, ...]) -> bool:
    """What stays where a preference changes: the verb, or "for breakfast"."""
    before = old.tokens[token.place - 1] if token.place else None
    is_led = before is not None and "function" in before.labels and before.text not in old.determiners
    return token.place == old.verb or (is_led and token.place > lost[-1].place)


def _are_single(fresh: tuple[Token, ...], lost: tuple[Token, ...]) -> bool:
    """One word for one word, or one name for one name."""
    return len(fresh) == len(lost) == 1 or (
        len(fresh) < 4 and len(lost) < 4 and all(t.is_name for t in (*fresh, *lost))
    )


def _led_by(reading: Reading, token: Token) -> str:
    """The preposition before it; nothing where a verb is."""
    for before in reversed(reading.tokens[: token.place]):
        if before.labels & {"use", "want", "host", "direct", "change", "be", "at"}:
            return ""
        if "function" in before.labels and before.text not in {"a", "an", "the"}:
            return before.text
    return ""


def _in_a_row(tokens: tuple[Token, ...]) -> bool:
    return all(two.place - one.place <= 2 for one, two in pairwise(tokens))


def _is_slot(reading: Reading, tokens: tuple[Token, ...]) -> bool:
    """Whether they stand behind the verb and are no attribute of a place or a time."""
    return not any(token.is_name for token in tokens) or len(tokens) <= 2


def _prefers_reversed(new: Reading, old: Reading) -> bool:
    """ "Trains over planes", and then "planes over trains"."""
    if not ("want" in new.labels and "want" in old.labels) or len(old.contents) < 2:
        return False
    one, other = ([token.key for token in reading.contents] for reading in (new, old))
    return sorted(one) == sorted(other) and one != other


def replaced(new: Reading, old: Reading) -> bool:
    """The newer names what the older tells as the thing that was replaced."""
    if old.is_past or old.is_negated or "from" in old.labels:
        return False
    for token in new.tokens:
        is_contrast = _contrasts(new, token)
        if "from" in token.labels or _leaves(new, token) or token.text in _SWAPPED or is_contrast:
            if _is_value_of(new, old, token):
                return True
            given = next((each for each in new.contents if each.place > token.place), None)
            if given is None or given.place - token.place > 3:
                continue
            told = [each for each in old.predicate if alike(each.key, given.key)]
            main = (*old.subject, *old.predicate)
            others = [each for each in main if each not in told and new.mentions(each)]
            if told and (others or (not is_contrast and (len(told) == len(old.predicate) or _is_used(old, told[0])))):
                return True
    return False


def _is_value_of(new: Reading, old: Reading, token: Token) -> bool:
    """ "On the first of the month instead of every *Monday*"."""
    denied = [value for value in new.values if token.place < value.place <= token.place + 2]
    same = any(one.kind == two.kind and not one.differs(two) for one in denied for two in old.values)
    return same and bool(old.contents) and not new.lacks(old.contents)


def _contrasts(new: Reading, token: Token) -> bool:
    """The "not" of "as a table from now on, not as a list"."""
    if "not" not in token.labels or not token.place or not new.labels & {"now", "change", "direct"}:
        return False
    before = new.tokens[token.place - 1]
    return before.text in {",", ";", "and", "und", "et", "y", "e", "en"} and not any(
        "be" in each.labels for each in new.tokens[token.place : token.place + 3]
    )


def _leaves(new: Reading, token: Token) -> bool:
    """The "from" of "moved the archive from Lyon to Nice"."""
    if token.text not in _FROM or not new.labels & {"move", "change"}:
        return False
    return any(
        each.text in _TO and each.clause == token.clause for each in new.tokens[token.place + 2 : token.place + 5]
    )


_SWAPPED = frozenset(
    "swapped exchanged traded swaps trades getauscht eingetauscht échangé troqué scambiato ingeruild trocou".split()
)
_FROM = frozenset("from von aus de da van desde".split())
_TO = frozenset("to auf nach à vers a para naar".split())


def _is_used(old: Reading, token: Token) -> bool:
    """Whether it is the first thing behind a verb of using."""
    return bool(old.labels & {"use", "host"}) and token == old.predicate[0]


OF_TIMES = frozenset({"other_value", "corrected"})
"""The rules that may compare statements about different days and times."""
RULES: tuple[tuple[str, Rule], ...] = (
    ("other_value", other_value),
    ("moved", moved),
    ("changed_work", changed_work),
    ("renamed", renamed),
    ("other_favourite", other_favourite),
    ("other_owner", other_owner),
    ("given_up", given_up),
    ("other_taste", other_taste),
    ("negated", negated),
    ("other_state", other_state),
    ("done", done),
    ("came_back", came_back),
    ("postponed", postponed),
    ("other_instruction", other_instruction),
    ("other_choice", other_choice),
    ("other_slot", other_slot),
    ("prefers_it_no_more", prefers_it_no_more),
    ("replaced", replaced),
    ("corrected", corrected),
)
