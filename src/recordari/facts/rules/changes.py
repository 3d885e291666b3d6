"""The rules by which a newer statement ends an older one. Each looks for one kind of change, and is sure of it or silent.

All share one idea: the newer names everything that says what the older is about, and gives its one slot another value.
"""

from __future__ import annotations

from collections.abc import Callable

from recordari.facts.rules.grammar import Token, alike
from recordari.facts.rules.reading import Reading
from recordari.facts.rules.values import CALENDAR, SCHEDULE, Value

Rule = Callable[[Reading, Reading], bool]
CHANGES = frozenset({"change", "fix", "maybe", "move", "takeover"})
MOST_TOLD = 5
"""Content words of a statement that is short enough to have one slot."""


def other_value(new: Reading, old: Reading) -> bool:
    """Another number, price, version, date, time, address or language, of the same thing."""
    if (old.is_past and not new.labels & {"fix", "maybe"}) or _is_passing(new) or new.is_negated != old.is_negated:
        return False
    differing = [pair for pair in _paired(new, old) if pair[0].differs(pair[1])]
    if not differing:
        return False
    kinds = {one.kind for one, _ in differing}
    if "day" in kinds or (kinds & CALENDAR and kinds - SCHEDULE):
        return False  # each day has a figure of its own
    if "language" in kinds:
        is_reply = "reply" in new.labels and "reply" in old.labels
        return is_reply and not new.lacks(old.contents) and not old.lacks(new.contents)
    return all(_is_same_frame(new, old, one, other) for one, other in differing)


def _is_passing(new: Reading) -> bool:
    """It holds for a day or a week, unless it starts then."""
    return "while" in new.labels and "now" not in new.labels


def _paired(new: Reading, old: Reading) -> list[tuple[Value, Value]]:
    """The values of both that measure the same, where each has one."""
    places = {token.place for token in old.main}
    olds = [value for value in old.values if value.place in places] or list(old.values)
    pairs = []
    for before in olds:
        same = [value for value in olds if _measures_same(value, before)]
        news = [value for value in new.values if _measures_same(value, before)]
        if len(same) == 1 and news and all(value.differs(before) for value in news):
            pairs.append((news[-1], before))
    return pairs


def _measures_same(one: Value, other: Value) -> bool:
    if one.kind == other.kind == "number":
        return one.unit == other.unit or not one.unit or not other.unit
    return one.kind == other.kind and (one.unit == other.unit or alike(one.unit, other.unit))


def _is_same_frame(new: Reading, old: Reading, one: Value, other: Value) -> bool:
    """Whether the value is given to the same thing: nothing that names it differs."""
    places = {token.place for token in old.main}
    before = tuple(token for token in old.contents if token.place in places and token.place < other.place)
    after = tuple(token for token in old.contents if token.place in places and token.place >= other.end)
    shared = [token for token in new.contents if old.mentions(token)]
    lacking = new.lacks(before)
    if new.labels & {"change", "now"}:  # "weighs", and "is down to"
        lacking = tuple(token for token in lacking if token.place != old.verb and not _is_participle(old, token))
    if other.kind in {"contact", "number"}:  # "reach the shop at", and "the number of the shop"
        lacking = tuple(token for token in lacking if "contact" not in token.labels)
    is_loose = "change" in new.labels and len(shared) > 2 and len(lacking) == 1
    if lacking and not (is_loose and lacking[0].place > old.verb and not lacking[0].is_name):
        return False
    if not shared:
        return _same_words(new, old)
    if any(_qualifies(new, old, token) for token in shared):
        return False
    if new.labels & CHANGES:
        return True
    clause = new.tokens[one.place].clause
    fresh = [
        token
        for token in new.contents
        if token.clause == clause and token.place > shared[0].place and not old.mentions(token)
        and not _is_occasion(new, token) and "contact" not in token.labels
    ]
    if any(token.place < one.place for token in fresh):
        return False
    return not (fresh and new.lacks(after)) or "contact" in new.labels & old.labels  # the rest of an address


def _is_participle(old: Reading, token: Token) -> bool:
    """Whether it is the second part of a verb: "is heated"."""
    before = old.tokens[token.place - 1] if token.place else None
    return before is not None and "be" in before.labels and not token.is_name and token.text.endswith(("ed", "en", "ing"))


def _is_occasion(new: Reading, token: Token) -> bool:
    """Whether it only tells why or since when: "nach dem Umbau"."""
    near = new.tokens[max(token.place - 3, 0) : token.place]
    return any("after" in each.labels for each in near)


def _same_words(new: Reading, old: Reading) -> bool:
    """Without values and passing words, both say the same."""
    one, other = ({token.key for token in each.tokens if _counts(each, token)} for each in (new, old))
    return bool(one) and one == other


def _counts(reading: Reading, token: Token) -> bool:
    passing = token.labels & {"now", "function", "fix"} and not token.labels & {"me", "my", "third"}
    return token.kind == "word" and token.place not in reading.valued and not passing


def _qualifies(new: Reading, old: Reading, token: Token) -> bool:
    """Whether a word right before a shared one tells another thing apart: the *southern* depot."""
    if not token.place:
        return False
    before = new.tokens[token.place - 1]
    if not before.is_content or before.place in new.valued or old.mentions(before):
        return False
    return not any(alike(token.key, each.key) and not each.place for each in old.contents) or before.kind == "word"


def moved(new: Reading, old: Reading) -> bool:
    """Somebody lives, or something is kept, elsewhere."""
    if _is_passing(new) or new.is_negated or old.is_negated:
        return False
    is_home = old.has_verb("live") and bool(new.labels & {"live", "move"})
    is_kept = old.has_verb("at") and bool(old.subject) and not is_home and bool(new.labels & {"at", "move", "change"})
    if not (is_home or is_kept) or not old.predicate:
        return False
    clauses = {token.clause for token in new.tokens if token.labels & {"live", "move", "at", "change"}}
    slot = tuple(token for token in _slot(new, old) if token.clause in clauses)
    if not slot or (any(new.mentions(token) for token in old.predicate) and "stop" not in new.labels):
        return False
    if is_home:
        is_named = _are_names(slot, new) and (_are_names(old.predicate, old) or "move" in new.labels)
        return is_named and ("move" in new.labels or not _one_is_a_country(new, old))
    if new.labels & {"move", "change"}:
        return not old.values
    return not old.lacks(new.subject) and not old.values and not new.values


def _one_is_a_country(new: Reading, old: Reading) -> bool:
    """ "In Spain" and "in Valencia" may both be true; with "now" it is a move."""
    return "now" not in new.labels and ("countries" in new.labels) != ("countries" in old.labels)


def _slot(new: Reading, old: Reading) -> tuple[Token, ...]:
    """What the newer says and the older does not."""
    return tuple(token for token in new.contents if not old.mentions(token))


def _are_names(tokens: tuple[Token, ...], reading: Reading) -> bool:
    return any(token.is_name or token.kind == "id" for token in tokens) or reading.words.phrases is not None


def changed_work(new: Reading, old: Reading) -> bool:
    """Somebody works elsewhere."""
    if not old.has_verb("work") or "work" not in new.labels or new.is_negated or _is_passing(new):
        return False
    slot = _slot(new, old)
    if not slot or not old.predicate or any(new.mentions(token) for token in old.predicate):
        return False
    return (_are_names(slot, new) and _are_names(old.predicate, old)) or bool(new.labels & {"now", "change"})


def renamed(new: Reading, old: Reading) -> bool:
    """A thing or a person has another name."""
    if "rename" in new.labels and "name" in old.labels:
        return any(old.mentions(token) for token in new.contents) and bool(_slot(new, old))
    if "name" not in old.labels | new.labels or not old.predicate or new.is_negated:
        return False
    slot = _slot(new, old)
    if not old.has_verb("be", "name") or not new.has_verb("be", "name"):
        return False
    is_same = bool(old.subject) and not new.lacks(old.subject) and not old.lacks(new.subject)
    return is_same and bool(slot) and not any(new.mentions(token) for token in old.predicate)


def other_favourite(new: Reading, old: Reading) -> bool:
    """Another favourite of the same kind."""
    if not old.has_verb("be") or len(old.contents) > MOST_TOLD + 1 or len(new.contents) > MOST_TOLD + 3:
        return False
    one, other = _favoured(new), _favoured(old)
    if one is None or other is None or not alike(one.key, other.key) or new.is_negated:
        return False
    return bool(_slot(new, old)) and len(new.lacks(old.contents)) >= 1


def _favoured(reading: Reading) -> Token | None:
    for token in reading.tokens:
        if "favourite" in token.labels:
            place = token.place + (-1 if reading.words.code in {"fr", "es", "pt", "it"} else 1)
            return reading.tokens[place] if 0 <= place < len(reading.tokens) else None
    return None


def other_owner(new: Reading, old: Reading) -> bool:
    """Somebody else is in charge."""
    if "lead" not in old.labels or not new.labels & {"lead", "takeover"} or _is_passing(new):
        return False
    slot = [token for token in _slot(new, old) if token.is_name or not token.place or token.labels == frozenset()]
    if not slot or (new.is_negated and "takeover" not in new.labels):
        return False
    if "takeover" in new.labels and old.identifiers & new.all_identifiers:
        return True
    is_thing = _is_of_subject(old)
    of_subject = is_thing and bool(old.subject) and is_same_thing(new, old.subject)
    of_predicate = not is_thing and bool(old.predicate) and not new.lacks(old.predicate)
    if new.labels & {"takeover", "now"}:
        return of_subject or of_predicate
    return of_subject and not old.lacks(new.subject) and not any(map(new.mentions, old.predicate))


def _is_of_subject(old: Reading) -> bool:
    """Whether the subject is what somebody is in charge of: "is led by", "the manager of the shop is"."""
    for token in old.tokens:
        if "lead" in token.labels:
            after = old.tokens[token.place + 1].text if token.place + 1 < len(old.tokens) else ""
            return token.place < old.verb or after in _AGENTS or old.main[0].text in old.determiners
    return False


_AGENTS = frozenset("by to under von vom an par à por a da dal dalla door aan".split())


def is_same_thing(new: Reading, named: tuple[Token, ...]) -> bool:
    """Whether the newer names it: by all of its words, or by its identifier."""
    has_id = any(token.kind in {"id", "mail"} and new.mentions(token) for token in named)
    return has_id or not new.lacks(named)


def given_up(new: Reading, old: Reading) -> bool:
    """The newer says that what the older tells has stopped."""
    if not new.is_ended or old.is_given_up or old.is_negated or old.is_past:
        return False
    found = [*new.endings, *(token for token in new.tokens if "more" in token.labels)]
    cues = {token.clause for token in found}
    scope = [token for token in new.contents if token.clause in cues]
    behind = [token for token in scope if any(token.clause == cue.clause and token.place > cue.place for cue in found)]
    ahead = [token for token in scope if token not in behind and not old.mentions(token)]
    if len(ahead) <= 2 and any(map(old.mentions, behind)):
        scope = behind
    told = [token for token in old.tokens if token.kind in {"word", "id"} and token not in old.subject and "function" not in token.labels]
    shared = [token for token in scope if any(alike(token.key, each.key) for each in told)]
    fresh = [token for token in scope if not old.mentions(token)]
    if any(new.tokens[value.place].clause in cues and _is_narrower(value, old) for value in new.values):
        return False
    if not shared or len(fresh) > 1:
        return False
    return not fresh or len(shared) > 1 or any(token.is_name for token in shared)


def _is_narrower(value: Value, old: Reading) -> bool:
    """ "Not after 5 pm", "not on Mondays": a limit that the older does not know. A date tells since when."""
    if value.kind not in {"weekday", "clock"}:
        return False
    return not any(each.kind == value.kind and not each.differs(value) for each in old.values)


def negated(new: Reading, old: Reading) -> bool:
    """The same statement, once with and once without a negation."""
    if new.is_negated == old.is_negated or old.is_past or new.is_past:
        return False
    shared = [token for token in new.contents if old.mentions(token)]
    if not shared:
        return False
    start = next((token.place for token in new.tokens if _starts(new, old, token)), 0)
    fresh = [token for token in new.contents if token.place > start and not old.mentions(token)]
    main = tuple(token for token in (*old.subject, *old.predicate))
    lacking = new.lacks(main)
    if fresh or any(_is_narrower(value, old) for value in new.values) or len(lacking) > len(main) * 0.4:
        return False
    return not any(token.is_name for token in lacking)


def _starts(new: Reading, old: Reading, token: Token) -> bool:
    """Whether the newer comes to its subject here; before it, it says how it knows."""
    if old.subject:
        return any(alike(token.key, each.key) for each in old.subject)
    return bool(token.labels & {"me", "third"})


def other_taste(new: Reading, old: Reading) -> bool:
    """Hates, and now loves."""
    one, other = _taste(new), _taste(old)
    if one is None or other is None or one == other or old.is_past:
        return False
    liked = old.predicate or old.contents
    shared = [token for token in liked if new.mentions(token) and token not in old.subject]
    return bool(shared) and len(new.lacks(liked)) < len(shared) + 1 and not _has_other_scope(new, old)


def _taste(reading: Reading) -> bool | None:
    likes, hates = "like" in reading.labels, "hate" in reading.labels
    if likes == hates:
        return None if not hates else False
    return likes != (reading.is_negated or {"not", "more"} <= reading.labels) if likes else reading.is_negated


def _has_other_scope(new: Reading, old: Reading) -> bool:
    return any(_is_narrower(value, old) for value in new.values)


def other_state(new: Reading, old: Reading) -> bool:
    """Open, and now closed; single, and now married."""
    if old.is_past and not old.is_negated:
        return False
    said, then = new.text.casefold().replace("’", "'"), " ".join(token.text for token in old.main)
    rows = new.words.conditions if not old.subject else (*new.words.conditions, *new.words.transitions)
    for before, after in rows:
        was, is_now = before.search(then), after.search(said)
        if was is None or is_now is None or after.search(then) is not None and len(after.search(then).group()) > len(was.group()):
            continue
        if before.search(said) is not None and before.search(said).end() >= is_now.end():
            continue
        named = tuple(token for token in old.subject if token.text not in was.group().split())
        if not is_same_thing(new, named) or (not named and not (old.speaks_of_self and new.labels & {"me", "my"})):
            continue
        if _has_same_days(new, old) and _is_about(new, old, is_now.group()) and _is_plain(new, old, was.group()):
            return not _negates(new, is_now.group())
    return False


def _has_same_days(new: Reading, old: Reading) -> bool:
    one, other = ({value.amount for value in reading.values if value.kind == "weekday"} for reading in (new, old))
    return one == other or not other


def _places(reading: Reading, phrase: str) -> list[int]:
    last = phrase.split()[-1]
    return [token.place for token in reading.tokens if last in token.text.split() or (reading.words.phrases and last in token.text)]


def _is_about(new: Reading, old: Reading, phrase: str) -> bool:
    """Whether the new state is said of the same thing: "closed the deal" is said of the deal."""
    for place in _places(new, phrase):
        following = [token for token in new.tokens[place + 1 : place + 4]]
        for token in following:
            if token.kind == "mark" or (token.labels & {"function", "be"} and token.text not in {"the", "a", "an", "our", "his", "her"}):
                break
            if token.is_content and token.place not in new.valued:
                if not old.mentions(token) and "kin" not in token.labels:
                    return False
                break
        return True
    return True


def _is_plain(new: Reading, old: Reading, phrase: str) -> bool:
    """Whether the old state is all that is said, or the newer repeats the rest: not "open to new ideas"."""
    places = _places(old, phrase)
    rest = tuple(token for token in old.predicate if places and token.place > places[-1])
    after = old.tokens[places[-1] + 1] if places and places[-1] + 1 < len(old.tokens) else None
    is_last = after is None or not after.is_content or after.place in old.valued or new.mentions(after)
    if not places or not _is_predicate(old, places[-1] - len(phrase.split()) + 1):
        return False
    return len(rest) <= 3 and is_last and (after is None or after.text != "to" or not new.lacks(rest[:1]))


def _is_predicate(old: Reading, place: int) -> bool:
    """Whether a state is said of the subject: behind its verb, with no more than an adverb between."""
    if old.words.phrases is not None:
        return True
    near = old.tokens[max(place - 3, 0) : place + 1]
    return any(token.labels & {"be", "at", "want", "do", "work", "use"} for token in near) or place == old.verb


def _negates(new: Reading, phrase: str) -> bool:
    clauses = {new.tokens[place].clause for place in _places(new, phrase)}
    return any("not" in token.labels and token.clause in clauses for token in new.tokens) and "not" not in phrase and "no " not in phrase


def other_instruction(new: Reading, old: Reading) -> bool:
    """Another way to answer, to be called, to write."""
    if "callme" in new.labels and "callme" in old.labels:
        return bool(_slot(new, old)) and bool(new.lacks(old.contents)) or bool(_slot(new, old))
    orders = {"direct", "want", "like", "reply"}
    if not (new.labels & orders and old.labels & orders):
        return False
    for one, other in ((a, b) for pair in new.words.opposites for a, b in (pair, pair[::-1])):
        was, is_now = _named(old, one), _named(new, other)
        if was and is_now and not _named(new, one) and not _named(old, other):
            rest = tuple(token for token in old.contents if token.place not in was)
            fresh = [token for token in new.contents if token.place not in is_now and not old.mentions(token)]
            if not rest:
                return not fresh or "reply" in new.labels & old.labels
            return len(new.lacks(rest)) < len(rest) and len(fresh) <= 2 and not any(t.is_name for t in new.lacks(rest))
    return False


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
    if new.is_negated != old.is_negated or old.is_past or _is_passing(new) or "like" in old.labels | new.labels:
        return False
    verb = next((token.clause for token in new.tokens if token.labels & {"use", "want", "host", "direct", "change"}), 0)
    fresh = tuple(token for token in _slot(new, old) if token.clause == verb)
    told = (*old.subject, *old.predicate)
    lost = new.lacks(told)
    if old.has_verb("prefer") and {"prefer", "now"} <= new.labels and len(old.predicate) <= 3 and lost and fresh:
        return not any(map(new.mentions, old.predicate)) and len(fresh) <= 3
    verbs = new.labels & old.labels & {"use", "want", "host", "direct"}
    if not verbs and not ("change" in new.labels and old.labels & {"use", "want", "host"}):
        return _prefers_reversed(new, old)
    if len(old.predicate) > MOST_TOLD or not old.has_verb("use", "want", "host", "direct"):
        return False
    if not fresh or not lost or not _in_a_row(fresh) or not _in_a_row(lost) or len(fresh) > 2 or len(lost) > 2:
        return _prefers_reversed(new, old)
    if lost[0].place < old.verb or old.lacks(new.subject) and lost[0] in old.subject:
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


def _led_by(reading: Reading, token: Token) -> str:
    """The preposition before it; nothing where a verb is."""
    for before in reversed(reading.tokens[: token.place]):
        if before.labels & {"use", "want", "host", "direct", "change", "be", "at"}:
            return ""
        if "function" in before.labels and before.text not in {"a", "an", "the"}:
            return before.text
    return ""


def _in_a_row(tokens: tuple[Token, ...]) -> bool:
    return all(two.place - one.place <= 2 for one, two in zip(tokens, tokens[1:], strict=False))


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
        if "from" in token.labels:
            given = next((each for each in new.contents if each.place > token.place), None)
            if given is None or given.place - token.place > 3:
                continue
            told = [each for each in old.predicate if alike(each.key, given.key)]
            main = (*old.subject, *old.predicate)
            others = [each for each in main if each not in told and new.mentions(each)]
            if told and (others or len(told) == len(old.predicate) or _is_used(old, told[0])):
                return True
    return False


def _is_used(old: Reading, token: Token) -> bool:
    """Whether it is the first thing behind a verb of using."""
    return bool(old.labels & {"use", "host"}) and token == old.predicate[0]


def corrected(new: Reading, old: Reading) -> bool:
    """The newer says that it puts the older right."""
    if not new.labels & {"fix", "maybe"}:
        return False
    told = (*old.subject, *old.predicate)
    shared = [token for token in told if new.mentions(token)]
    lost, fresh = new.lacks(told), _slot(new, old)
    if not shared or len(lost) > 2 or len(shared) < len(told) / 2 or new.lacks(old.subject):
        return False
    differing = [(one, two) for one, two in _paired(new, old) if one.differs(two)]
    if differing and all(_is_same_frame(new, old, one, two) for one, two in differing):
        return True
    is_sure = "fix" in new.labels or (new.tokens[0].labels & {"maybe"} and len(shared) > 1 and len(fresh) <= 2)
    return bool(is_sure) and bool(lost) and bool(fresh) and old.has_verb("be", "name", "lead", "cost", "at")


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
    ("other_instruction", other_instruction),
    ("other_choice", other_choice),
    ("replaced", replaced),
    ("corrected", corrected),
)
