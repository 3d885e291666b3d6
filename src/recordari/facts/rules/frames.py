"""Frames: the same thing with another value. Also what all rules ask of two statements.

The newer must name everything that says what the older is about, and no word may tell another thing apart.
"""

from __future__ import annotations

from recordari.facts.rules.grammar import Token, alike
from recordari.facts.rules.reading import Reading
from recordari.facts.rules.values import CALENDAR, SCHEDULE, Value, is_house_number

LONGEST_CORRECTION = 12
"""Content words of a statement that puts another one right; a longer one only speaks of what was wrong."""
CHANGES = frozenset({"change", "fix", "maybe", "move", "takeover"})


_HOURS = frozenset(
    """this morning;this afternoon;this evening;heute morgen;ce matin;cet après-midi;esta mañana;esta manhã;stamattina;
    vanochtend;vanmiddag""".replace("\n    ", "").split(";")
)
"""When something was changed, not for how long it holds."""
_VERBS = frozenset({"act", "stop", "change"})
_AGENTS = frozenset({"by", "vom", "par", "dal", "dalla", "door"})
_DIRECTIONS = frozenset(
    """to from before after with without into nach aus von vor mit ohne vers depuis avant après avec sans hacia desde con sin
    para antes até verso prima dopo senza naar uit vanaf met zonder""".split()
)


def other_value(new: Reading, old: Reading) -> bool:
    """Another number, price, version, date, time, address or language, of the same thing."""
    if (old.is_past and not new.labels & {"fix", "maybe"}) or is_passing(new):
        return False
    if new.is_past and not old.is_past and not new.labels & (CHANGES | {"now"}):
        return False  # "took five days off" happened once
    differing = [pair for pair in _paired(new, old) if pair[0].differs(pair[1])]
    if any(new.denies(one.place) != (old.is_negated and not _is_at_most(old, two)) for one, two in differing):
        return False
    if not differing or (not new.labels & (CHANGES | {"now"}) and _is_said_of_another(new, old, differing[0][0])):
        return False
    if len(differing) > 1 and any(one.kind == "count" and one.place < new.verb for one, _ in differing):
        return False  # ten classes cost more than five
    kinds = {one.kind for one, _ in differing}
    if "day" in kinds or (kinds & CALENDAR and kinds - SCHEDULE):
        return False  # each day has a figure of its own
    if "language" in kinds:
        is_reply = all("reply" in each.labels and not _tells_of_self(each) for each in (new, old))
        return is_reply and not new.lacks(old.contents) and not old.lacks(new.contents)
    return all(_is_same_frame(new, old, one, other) for one, other in differing)


def _is_at_most(old: Reading, value: Value) -> bool:
    """ "May not be larger *than* 10 MB" denies nothing."""
    return bool(value.place) and old.tokens[value.place - 1].text in {"than", "als", "que", "di", "dan", "do que"}


def _tells_of_self(reading: Reading) -> bool:
    """ "I speak French" is no wish."""
    return "me" in reading.main[0].labels and len(reading.main) > 1 and "reply" in reading.main[1].labels


def _is_said_of_another(new: Reading, old: Reading, said: Value) -> bool:
    """Whether the newer tells what its speaker did, or is limited to a day of the week that the older does not know."""
    if old.subject and not old.labels & {"me", "my"} and not new.subject and "me" in new.main[0].labels:
        return not new.labels & {"cost", "limit", "use", "contact"}
    if any(value.kind == "weekday" for value in old.values):
        return False
    clause = new.tokens[said.place].clause
    days = [value for value in new.values if value.kind == "weekday" and new.tokens[value.place].clause == clause]
    return any(not _is_since(new, value) for value in days)


def _is_since(new: Reading, value: Value) -> bool:
    """ "Since Tuesday" tells from when on."""
    near = new.tokens[max(value.place - 2, 0) : value.place]
    return any(token.labels & {"after", "now"} for token in near)


def _paired(new: Reading, old: Reading) -> list[tuple[Value, Value]]:
    """The values of both that measure the same, where each has one."""
    places = {token.place for token in old.main}
    values = [value for value in old.values if not is_house_number(value, old.tokens, old.words)]
    olds = [value for value in values if value.place in places] or values
    pairs = []
    for before in olds:
        same = [value for value in olds if _measures_same(value, before)]
        news = [value for value in new.values if _measures_same(value, before)]
        if len(same) == 1 and not news and (bare := _bare(new, before)) is not None:
            news = [bare]
        if len(same) == 1 and news and all(value.differs(before) for value in news):
            pairs.append((news[-1], before))
    return pairs


def _bare(new: Reading, before: Value) -> Value | None:
    """The only number of a change, told without what it counts: "went up to 4.50", "sorry, it holds 10"."""
    units = {"hours", "minutes", "days", "weeks"} & {token.text for token in new.tokens}
    is_told = before.kind in {"count", "money"} or (before.kind == "duration" and bool(units))
    if not is_told or not new.labels & (CHANGES | {"now"}):
        return None
    told = [value for value in new.values if value.kind not in SCHEDULE]
    is_bare = len(told) == 1 and told[0].kind == "number" and not told[0].unit
    return told[0] if is_bare and not is_house_number(told[0], new.tokens, new.words) else None


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
    lacking = new.lacks(telling(before))
    if new.labels & {"change", "now"} or new.introduced:  # "weighs", and "is down to"
        lacking = tuple(token for token in lacking if token.place != old.verb and not _is_participle(old, token))
    if other.kind in SCHEDULE:  # "at noon on Mondays", and "on Tuesdays"
        lacking = tuple(token for token in lacking if "daypart" not in token.labels or token.place < old.verb)
    if other.kind in {"contact", "number"}:  # "reach the shop at", and "the number of the shop"
        lacking = tuple(token for token in lacking if "contact" not in token.labels)
    is_loose = "change" in new.labels and len(shared) > 2 and len(lacking) == 1
    if lacking and not (is_loose and lacking[0].place > old.verb and not lacking[0].is_name):
        return False
    if not shared:
        is_only = other.kind == "contact" and not new.contents and all("contact" in token.labels for token in before)
        return is_only or _same_words(new, old)
    if _has_other_head(new, before):
        return False
    lacks_verb = other.kind != "contact" and _lacks_verb(new, old, other)
    if not new.labels & CHANGES and (lacks_verb or _is_further_number(new, old, one)):
        return False
    if other.place < old.verb and new.lacks(telling(after)):
        return False  # "firmware 2.8 is installed on the drones", and the cameras have 3.0
    if _is_long_ago(old, other) or _is_long_ago(new, one):
        return False
    told = tuple(token for token in before if token.place != old.verb) or after or before
    told = told or old.tokens[old.verb : old.verb + 1]  # "we *deploy* on Fridays", and "deployments happen on"
    is_counted = one.kind == other.kind == "count" and old.speaks_of_self and "change" in new.labels
    if not is_counted and not any(alike(token.key, each.key) for token in shared for each in told):
        return False  # what they share says nothing about the value
    if any(qualifies(new, old, token) or is_turned(new, old, token) for token in shared):
        return False
    if new.labels & CHANGES:
        return True
    clause = new.tokens[one.place].clause
    fresh = [
        token
        for token in new.contents
        if token.clause == clause
        and (token.place > shared[0].place or not before)
        and not old.mentions(token)
        and not is_occasion(new, token)
        and "contact" not in token.labels
        and not _is_verb_of(new, token, one)
    ]
    if any(token.place < one.place for token in fresh):
        return False
    return not (fresh and new.lacks(after)) or "contact" in new.labels & old.labels  # the rest of an address


def _lacks_verb(new: Reading, old: Reading, value: Value) -> bool:
    """Whether the older says "wakes at six" and the newer tells of something else: "goes to bed at ten"."""
    verbs = [token for token in old.main if "direct" in token.labels and old.verb <= token.place < value.place]
    return bool(verbs) and not any(alike(verb.key, each.key) for verb in verbs for each in new.tokens)


def _is_further_number(new: Reading, old: Reading, said: Value) -> bool:
    """Whether the newer tells by another number which one it means: "season 2, episode 5"."""
    olds = [value for value in old.values if value.kind == "number" and value.unit]
    news = [value for value in new.values if value.kind == "number" and value.unit and value.place <= said.place]
    return any(not any(alike(value.unit, token.key) for token in old.tokens) for value in news) or any(
        not any(alike(value.unit, token.key) for token in new.tokens) for value in olds
    )


def _is_verb_of(new: Reading, token: Token, value: Value) -> bool:
    """Whether a word stands between "now" and the value: "now *counts* 41", "*nimmt* jetzt 3 Euro"."""
    between = new.tokens[token.place + 1 : value.place]
    is_led = bool(between) or bool(new.introduced)  # "after the rebuild the hall *seats* 300"
    if token.place == new.verb and is_led and all("now" in each.labels for each in between):
        return True
    return token.place + 1 == value.place and token.place > 0 and "now" in new.tokens[token.place - 1].labels


def _is_long_ago(reading: Reading, value: Value) -> bool:
    """ "Two weeks ago" tells when, not how much."""
    return value.end < len(reading.tokens) and reading.tokens[value.end].text == "ago"


def _is_participle(old: Reading, token: Token) -> bool:
    """Whether it is the second part of a verb: "is heated"."""
    before = old.tokens[token.place - 1] if token.place else None
    return (
        before is not None and "be" in before.labels and not token.is_name and token.text.endswith(("ed", "en", "ing"))
    )


def is_occasion(new: Reading, token: Token) -> bool:
    """Whether it only tells why, when or by whom: "nach dem Umbau", "in spring", "by her doctor"."""
    near = new.tokens[max(token.place - 3, 0) : token.place]
    if near and near[-1].text in _AGENTS | {"his", "her"} and any(each.text in _AGENTS for each in near):
        return True
    if "season" in token.labels and near and "function" in near[-1].labels:
        return True
    return any("after" in each.labels for each in near)


def _same_words(new: Reading, old: Reading) -> bool:
    """Without values and passing words, both say the same."""
    one, other = ({token.key for token in each.tokens if _counts(each, token)} for each in (new, old))
    return bool(one) and one == other


def _counts(reading: Reading, token: Token) -> bool:
    passing = token.labels & {"now", "function", "fix"} and not token.labels & {"me", "my", "third"}
    return token.kind == "word" and token.place not in reading.valued and not passing


def qualifies(new: Reading, old: Reading, token: Token) -> bool:
    """Whether a word right before a shared one tells another thing apart: the *southern* depot."""
    if not token.place:
        return False
    before = new.tokens[token.place - 1]
    if before.kind == "owns" and before.place:  # "children's yoga", "Anna's address"
        owner = new.tokens[before.place - 1]
        return owner.is_content and not old.mentions(owner)
    outside = new.valued | new.introduced  # "after the *raise* Tobias earns"
    if not before.is_content or before.place in outside or old.mentions(before):
        return False
    return not any(alike(token.key, each.key) and not each.place for each in old.contents) or before.kind == "word"


def is_narrowed(new: Reading, old: Reading, until: int) -> bool:
    """Whether the newer tells more exactly which thing it means: the shop *next door*, the *garden* shop."""
    shared = [
        token
        for token in new.contents
        if token.place < until and any(alike(token.key, each.key) for each in old.subject)
    ]
    if any(qualifies(new, old, token) for token in shared):
        return True
    between = [token for token in new.contents if shared and shared[0].place < token.place < until]
    done = next((place for place, token in enumerate(between) if token.text.endswith("ed")), len(between))
    if new.words.code == "en" and until < len(new.tokens) and shared and new.tokens[until].clause != shared[0].clause:
        between = between[:done]  # "the parcel *cleared customs* and was delivered"
    return any(not old.mentions(token) and token.clause == shared[0].clause for token in between)


def has_other_times(new: Reading, old: Reading) -> bool:
    """Whether both tell a day of the week or a time of day, and not the same."""
    return any(one.differs(two) for one, two in _paired(new, old) if one.kind in {"weekday", "clock"})


def is_of_another_day(new: Reading, old: Reading) -> bool:
    """Whether a date before the verb tells which one is meant: "the bill for May is", "in June we"."""
    dates = [
        [value for value in reading.values if value.kind in CALENDAR and value.place < reading.verb]
        for reading in (new, old)
    ]
    if any(one.differs(two) for one in dates[0] for two in dates[1] if one.kind == two.kind):
        return True
    is_told_then = any(value.kind == "date" and _is_within(old, value) for value in dates[1])
    return is_told_then and not dates[0] and not new.labels & {"fix", "maybe"}


def _is_within(old: Reading, value: Value) -> bool:
    """Whether it is said of that time: "in 2009", not "since 2009"."""
    return bool(value.place) and old.tokens[value.place - 1].text in _WITHIN


_WITHIN = frozenset("in on during im am en em el nel il nell' no op le".split())


def is_turned(new: Reading, old: Reading, token: Token) -> bool:
    """Whether the same word is led in otherwise: the flight *to* and the flight *from* Oslo."""
    same = next((each for each in old.contents if alike(each.key, token.key)), None)
    if same is None or not same.place or not token.place:
        return False
    one, other = new.tokens[token.place - 1].text, old.tokens[same.place - 1].text
    return one != other and one in _DIRECTIONS and other in _DIRECTIONS


def corrected(new: Reading, old: Reading) -> bool:
    """The newer says that it puts the older right."""
    if not new.labels & {"fix", "maybe"} or len(new.contents) > LONGEST_CORRECTION:
        return False
    told = (*old.subject, *old.predicate)
    shared = [token for token in told if new.mentions(token)]
    lost, fresh = new.lacks(told), fresh_words(new, old)
    if not shared or len(lost) > 2 or len(shared) < len(told) / 2 or new.lacks(old.subject):
        return False
    differing = [(one, two) for one, two in _paired(new, old) if one.differs(two)]
    if differing and all(_is_same_frame(new, old, one, two) for one, two in differing):
        return True
    if len(lost) == len(fresh) == 1 and "maybe" in new.labels and old.main[0].text in old.determiners:
        return old.has_verb("be") and not new.is_negated and lost[0] in old.predicate  # "it is actually a beech"
    is_sure = "fix" in new.labels or (new.tokens[0].labels & {"maybe"} and len(shared) > 1 and len(fresh) <= 2)
    return bool(is_sure) and bool(lost) and bool(fresh) and old.has_verb("be", "name", "lead", "cost", "at")


def postponed(new: Reading, old: Reading) -> bool:
    """An occasion with a date was put off, whatever the new date: "pushed my exam to the week after"."""
    if "postpone" not in new.labels or not old.subject or old.is_past or old.is_negated or new.is_negated:
        return False
    dated = [value for value in old.values if value.kind in SCHEDULE]
    again = [value for value in new.values if any(_measures_same(value, each) for each in dated)]
    if not dated or again or new.lacks(telling(old.subject)):
        return False
    return not any(
        qualifies(new, old, token) or is_turned(new, old, token) for token in new.contents if old.mentions(token)
    )


def has_same_number(new: Reading, old: Reading) -> bool:
    """ "Lane 3 of the pool", and "lane 3"."""
    return bool(old.identifiers) and old.identifiers == new.identifiers and not old.lacks(new.subject)


def puts_right(new: Reading, old: Reading) -> bool:
    """ "I meant pier 7, not pier 4": the newer denies the value of the older, and gives another."""
    if len(new.contents) > LONGEST_CORRECTION or is_passing(new) or old.is_past:
        return False
    if _names_instead(new, old):
        return True
    for denied in new.values:
        near = new.tokens[max(denied.place - 3, 0) : denied.place]
        if not any(token.text in _DENIED and token.clause == new.tokens[denied.place].clause for token in near):
            continue
        is_old = any(_measures_same(denied, value) and not denied.differs(value) for value in old.values)
        others = [value for value in new.values if _measures_same(value, denied) and value.differs(denied)]
        if is_old and others and any(old.mentions(token) for token in new.contents):
            return not new.lacks(telling(old.subject))
    return False


def _names_instead(new: Reading, old: Reading) -> bool:
    """ "It's Halliwell, not Halloran": a name in the place of the one that the older tells."""
    if not old.has_verb("be", "name") or old.is_negated or not old.predicate:
        return False
    for given, comma, no, denied in zip(*(new.tokens[start:] for start in range(4)), strict=False):
        if comma.text != "," or "not" not in no.labels or not given.is_name or old.mentions(given):
            continue
        if alike(denied.key, old.predicate[-1].key) and old.predicate[-1].is_name:
            return any(new.mentions(token) for token in old.subject)
    return False


_DENIED = frozenset({"not", "nicht", "pas", "no", "não", "non", "niet"})


def is_passing(new: Reading) -> bool:
    """It holds for a day or a week, unless it starts then."""
    if "now" in new.labels:
        return False
    if any(token.text in _FEASTS and _is_led_by_on(new, token) for token in new.tokens):
        return True
    if is_of_this_day(new):
        return True
    passing = [token for token in new.tokens if "while" in token.labels]
    return any(token.text not in _HOURS or "change" not in new.labels for token in passing)


def is_of_this_day(new: Reading) -> bool:
    """ "Ce lundi", "this Monday"."""
    days = (value.place for value in new.values if value.kind == "weekday" and value.place)
    return any(new.tokens[place - 1].text in _THIS for place in days)


_THIS = frozenset("this ce cet cette este esta esse essa diesen diesem dieser diese questo questa deze dit".split())
_FEASTS = frozenset({"day", "eve"})


def _is_led_by_on(new: Reading, token: Token) -> bool:
    """ "On New Year's Day": not "on the same day"."""
    near = new.tokens[max(token.place - 4, 0) : token.place]
    return any(each.text == "on" for each in near) and any(each.is_name for each in near)


def fresh_words(new: Reading, old: Reading) -> tuple[Token, ...]:
    """What the newer says and the older does not."""
    return tuple(token for token in new.contents if not old.mentions(token))


def is_narrower(value: Value, old: Reading) -> bool:
    """ "Not after 5 pm", "not on Mondays": a limit that the older does not know. A date tells since when."""
    if value.kind not in {"weekday", "clock"}:
        return False
    return not any(each.kind == value.kind and not each.differs(value) for each in old.values)


def is_same_thing(new: Reading, named: tuple[Token, ...]) -> bool:
    """Whether the newer names it: by all of its words, or by its identifier."""
    has_id = any(token.kind in {"id", "mail"} and new.mentions(token) for token in named)
    return has_id or (not new.lacks(telling(named)) and not _has_other_head(new, named))


def _has_other_head(new: Reading, named: tuple[Token, ...]) -> bool:
    """Whether the newer leaves out the last word and has another in its place: "the billing service", "the billing cycle"."""
    told = telling(named)
    if not any("light" in token.labels and token not in told for token in new.lacks(named)):
        return False
    places = {token.place + 1 for token in new.contents if _is_one_of(token, told)}
    following = [each for each in new.contents if each.place in places and not each.labels & _VERBS]
    return any(not _is_one_of(each, named) for each in following)


def _is_one_of(token: Token, tokens: tuple[Token, ...]) -> bool:
    return any(alike(token.key, each.key) for each in tokens)


def telling(named: tuple[Token, ...]) -> tuple[Token, ...]:
    """The words that tell which thing it is: "billing" of "the billing service", unless there is nothing else."""
    named = tuple(token for token in named if token.is_name or not _is_named_too(token, named))
    places = {token.place for token in named if "light" not in token.labels}
    return tuple(
        token for token in named if "light" not in token.labels or not places & {token.place - 1, token.place + 1}
    )


def _is_named_too(noun: Token, named: tuple[Token, ...]) -> bool:
    """ "My cousin Beth" is Beth, and "our dog Balu" is Balu."""
    is_one = "kin" in noun.labels or bool(noun.place)
    return is_one and any(token.place == noun.place + 1 and token.is_name for token in named)
