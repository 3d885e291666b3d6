"""Statements that end without another value: given up, denied, and states that follow each other."""

from __future__ import annotations

import re
from itertools import pairwise

from recordari.facts.rules.frames import (
    has_same_number,
    is_narrowed,
    is_narrower,
    is_occasion,
    is_of_this_day,
    is_passing,
    is_same_thing,
    qualifies,
    telling,
)
from recordari.facts.rules.grammar import Token, alike
from recordari.facts.rules.reading import Reading


def given_up(new: Reading, old: Reading) -> bool:
    """The newer says that what the older tells has stopped."""
    if "retire" in new.labels and not new.is_negated:
        is_said = old.has_verb("profession", "work")
        if is_said and old.subject and not old.is_past and not new.lacks(old.subject[:1]):
            return new.tokens[0].key == old.tokens[0].key
    if not new.is_ended or old.is_given_up or old.is_negated or old.is_past or is_passing(new) or _is_moment(new):
        return False
    found = [*new.endings, *(token for token in new.tokens if "more" in token.labels)]
    clauses = {token.clause for token in found}
    return _has_stopped(new, old, found, clauses) or (
        len(clauses) > 1 and any(_has_stopped(new, old, found, {clause}) for clause in clauses)
    )


def _has_stopped(new: Reading, old: Reading, found: list[Token], cues: set[int]) -> bool:
    """Whether the clauses in which something ends name what the older tells, and nothing else."""
    verbs = (
        token for token in new.tokens if token.labels and token.labels <= {"direct", "use"} and old.mentions(token)
    )
    told = (*new.contents, *verbs)
    scope = [token for token in told if token.clause in cues and not _is_purpose(new, old, token)]
    behind = [token for token in scope if any(token.clause == cue.clause and token.place > cue.place for cue in found)]
    ahead = [token for token in scope if token not in behind and not old.mentions(token)]
    if len(ahead) <= 2 and any(map(old.mentions, behind)):
        scope = behind
    subject = set(old.subject)
    is_topic = new.words.phrases is not None and set(new.contents) == set(new.subject)  # テニスはやめました
    shared = [
        token
        for token in scope
        if old.mentions(token) and (is_topic or not any(alike(token.key, each.key) for each in subject))
    ]
    fresh = [
        token
        for token in telling(tuple(scope))
        if not old.mentions(token)
        and not is_occasion(new, token)
        and not _is_verb_of(old, token)
        and not _is_had_no_more(new, old, token)
        and not (token.text in _HELD and any(token.place == each.place + 1 for each in shared))
    ]
    if any(new.tokens[value.place].clause in cues and is_narrower(value, old) for value in new.values):
        return False
    if any(_is_hour(new, token) and not old.mentions(token) for token in scope):
        return False
    if not shared or len(fresh) > 1 or any(_is_other(new, old, token) for token in shared):
        return False
    if fresh and scope is behind and _is_another_thing(new, fresh[0], shared):
        return False
    has_name = new.words.code != "de" and any(token.is_name for token in shared)
    return not fresh or len(shared) > 1 or has_name


def _is_verb_of(old: Reading, token: Token) -> bool:
    """Whether an infinitive is the verb of the older: "comer", and "como"."""
    ending = _INFINITIVES.get(old.words.code, 0)
    stem = token.text[:-ending] if ending and token.text.endswith(("r", "re")) else ""
    return len(stem) > 2 and any(each.text[:-1] == stem for each in old.tokens if each.place <= old.verb + 1)


_INFINITIVES = {"es": 2, "pt": 2, "it": 3}
"""Letters of the ending."""


def _is_had_no_more(new: Reading, old: Reading, token: Token) -> bool:
    """The "touched" of "hasn't touched coffee since March"; who likes coffee may like it all the same."""
    before = new.tokens[token.place - 1] if token.place else None
    return before in new.endings and token.text in _HAD and not old.labels & {"like", "hate"}


_HAD = frozenset("touched used visited attended".split())


def _is_moment(new: Reading) -> bool:
    """ "Stopped playing when the phone rang"."""
    first = min((token.place for token in new.endings if "stop" in token.labels), default=len(new.tokens))
    return any(token.text in _WHEN for token in new.tokens[first + 1 :])


_WHEN = frozenset("when als quand cuando quando toen".split())


def _is_hour(new: Reading, token: Token) -> bool:
    """ "Left the house at noon" is said of a day."""
    return "daypart" in token.labels and bool(token.place) and new.tokens[token.place - 1].text in _AT


_AT = frozenset({"at", "um", "à", "al", "ao"})
_ONE = frozenset("a an one some two ein eine einen une un una um uma uno een".split())
_OF = frozenset("of von de du d' di do da van".split())


def _is_other(new: Reading, old: Reading, token: Token) -> bool:
    """Whether another thing of that name was given up, or only this one."""
    if _is_this_one(new, token):
        return True
    before = new.tokens[token.place - 1]
    return qualifies(new, old, token) and not _is_verb_of(old, before) and not _is_had_no_more(new, old, before)


def _is_this_one(new: Reading, token: Token) -> bool:
    """ "Enough of this tea" leaves tea alone, and so does "the tea's price"."""
    before = new.tokens[token.place - 1].text if token.place else ""
    after = new.tokens[token.place + 1 : token.place + 3]
    if before in _SOME or (token.place and new.tokens[token.place - 1].kind == "number"):
        return True
    return before in _THIS or (len(after) == 2 and after[0].kind == "owns" and after[1].is_content)


_SOME = frozenset(
    "some few several couple half quelques algunos algunas alguns algumas alcuni alcune einige paar enkele".split()
)
"""Not all of it: "gave some plants away"."""
_THIS = frozenset(
    """this these that those dieser diese diesen diesem dieses ce cet cette ces este esta estos estas esse essa questo questa
    questi queste deze dit""".split()
)


def _is_another_thing(new: Reading, fresh: Token, shared: list[Token]) -> bool:
    """Whether something else was given up: the *newsletter* of the bank, and not the bank."""
    if fresh.text in _HELD or "light" in fresh.labels or fresh.is_name:
        return False
    if any(fresh.place == token.place + 1 for token in shared):
        return new.words.code not in _NOUN_FIRST
    is_placed = all(token.is_name for token in shared) and new.tokens[shared[0].place - 1].text in _PLACED
    if is_placed and fresh.place < shared[0].place and not fresh.text.endswith("ing"):
        return True  # the *flat* on Mill Road
    before, after = new.tokens[fresh.place - 1], new.tokens[fresh.place + 1]
    if before.text in _ONE and after.text in _OF:
        return True  # "a bottle of milk"
    led = new.tokens[shared[0].place - 1].text if shared[0].place else ""
    return fresh.place < shared[0].place - 1 and led in _WITH | {"the"} and not fresh.text.endswith("ing")


_PLACED = frozenset("in at on near in der auf à dans en em nel op".split())
_NOUN_FIRST = frozenset({"fr", "es", "pt", "it"})
_WITH = frozenset("with mit avec con com met".split())
_HELD = frozenset(
    """job jobs position post role habit subscription membership contract account plan class classes lesson lessons course
    courses practice training team club place seat studies service course abo abonnement vertrag kurs stelle posten""".split()
)
"""What one has at a thing, and has it no more without that."""


def _is_purpose(new: Reading, old: Reading, token: Token) -> bool:
    """Whether it tells for what something was given up: "quit the bank *to open a shop*"."""
    for place in range(token.place - 1, 0, -1):
        each = new.tokens[place]
        if each.clause != token.clause or old.mentions(each):
            return False
        if each.text in _IN_ORDER_TO:
            before, after = new.tokens[place - 1], new.tokens[place + 1]
            if any(alike(before.key, one.key) and two.text == each.text for one, two in pairwise(old.tokens)):
                return False  # "allergic to"
            return not after.is_name and after.text not in new.determiners and not after.labels & {"my", "their"}
    return False


def _has_got(new: Reading, old: Reading) -> bool:
    """ "We have no dishwasher", and then "we bought one"."""
    return old.is_negated and any(token.text in _GOT for token in new.main)


def _was_open(old: Reading) -> bool:
    """ "Has not been signed", and then "was signed"."""
    return old.is_negated and any(token.text in _NOT_YET for token in old.main)


_NOT_YET = frozenset("been yet hasn't haven't noch encore todavía aún ainda ancora nog".split())
_GOT = frozenset(
    """bought got received acquired purchased learned learnt gekauft bekommen angeschafft acheté reçu obtenu compré compramos
    comprado comprato ricevuto gekocht gekregen comprei comprámos""".split()
)
_IN_ORDER_TO = frozenset({"to", "um", "pour", "para", "per", "om"})


def negated(new: Reading, old: Reading) -> bool:
    """The same statement, once with and once without a negation."""
    is_done = _has_got(new, old) or _was_open(old)
    if new.is_negated == old.is_negated or old.is_past or (new.is_past and not is_done) or is_passing(new):
        return False
    if new.is_negated and old.is_given_up:
        return False  # "left the firm", and "is no longer there"
    shared = [token for token in new.contents if old.mentions(token)]
    if not shared or (_is_said_of_nobody(old) and not _is_said_of_nobody(new)):
        return False
    denying = new if new.is_negated else old
    clauses = {token.clause for token in denying.tokens if token.labels & {"not", "longer"}}
    other = old if denying is new else new
    if not any(token.clause in clauses and other.mentions(token) for token in denying.contents):
        return False  # it denies something else
    if denying is new and not old.subject:
        denied = [token for token in new.contents if token.clause in clauses]
        if any(not old.mentions(token) for token in denied):
            return False
    start = next((token.place for token in new.tokens if _starts(new, old, token)), 0)
    fresh = [token for token in new.contents if token.place > start and not old.mentions(token)]
    if denying is new and not any(token.text in _EXCEPT for token in new.tokens):  # then it says why
        fresh = [token for token in fresh if token.clause <= max(clauses) and not is_occasion(new, token)]
    fresh = [token for token in fresh if not (is_done and token.text in _GOT)]
    main = tuple(token for token in (*old.subject, *old.predicate))
    lacking = new.lacks(main)
    head = next((token for token in old.predicate if token.place > old.verb and "act" not in token.labels), None)
    if denying is new and head in lacking:
        return False  # "drinks tea with milk", and "doesn't drink milk"
    is_limited = not is_done and any(is_narrower(value, old) for value in new.values)
    if fresh or is_limited or len(lacking) > len(main) * 0.4:
        return False
    return not any(token.is_name for token in lacking)


_EXCEPT = frozenset(
    """except unless apart but besides other außer ausser sauf hormis salvo excepto menos exceto tranne eccetto behalve only nur
    seulement solo só soltanto alleen""".split()
)


def _is_said_of_nobody(reading: Reading) -> bool:
    """An order, or the end of a sentence: it has no subject."""
    return not reading.subject and not reading.labels & {"me", "my", "third", "their"}


def _starts(new: Reading, old: Reading, token: Token) -> bool:
    """Whether the newer comes to its subject here; before it, it says how it knows."""
    if old.subject:
        return any(alike(token.key, each.key) for each in old.subject)
    return bool(token.labels & {"me", "third"})


def other_taste(new: Reading, old: Reading) -> bool:
    """Hates, and now loves."""
    one, other = _taste(new), _taste(old)
    if one is None or other is None or one == other or old.is_past or is_passing(new):
        return False
    liked = old.predicate or old.contents
    shared = [token for token in liked if new.mentions(token) and token not in old.subject]
    clauses = {token.clause for token in new.tokens if token.labels & {"like", "hate"}}
    fresh = [token for token in new.contents if token.clause in clauses and not old.mentions(token)]
    if any(token.place > each.place for token in fresh for each in new.contents if old.mentions(each)):
        return False  # "from the supermarket"
    verb = next(token.place for token in new.tokens if token.labels & {"like", "hate"})
    if any(verb < token.place < each.place for token in fresh for each in new.contents if old.mentions(each)):
        return False  # "the commute to my job"
    return bool(shared) and len(new.lacks(liked)) < len(shared) + 1 and not _has_other_scope(new, old)


def _taste(reading: Reading) -> bool | None:
    if any(one.text in _FEELINGS and two.text in _OF_WHAT for one, two in pairwise(reading.tokens)):
        return None  # "our shared love of films"
    likes, hates = "like" in reading.labels, "hate" in reading.labels
    if likes == hates:
        return None if not hates else False
    place = next(token.place for token in reading.tokens if token.labels & {"like", "hate"})
    clause = reading.tokens[place].clause
    is_denied = any(token.labels & {"not", "longer"} and token.clause == clause for token in reading.tokens)
    return likes != (is_denied or {"not", "more"} <= reading.labels) if likes else is_denied


_FEELINGS = frozenset({"love", "hate", "dislike"})
_OF_WHAT = frozenset({"of", "for"})


def _has_other_scope(new: Reading, old: Reading) -> bool:
    return any(is_narrower(value, old) for value in new.values)


def _is_elsewhere(new: Reading, old: Reading) -> bool:
    """ "Available in Spain", and "unavailable in China"."""
    lost = [token for token in new.lacks(old.predicate) if _is_placed(old, token)]
    fresh = [token for token in new.predicate if _is_placed(new, token) and not old.mentions(token)]
    return bool(lost) and bool(fresh)


def _is_placed(reading: Reading, token: Token) -> bool:
    is_place = token.is_name or "countries" in token.labels
    return is_place and bool(token.place) and reading.tokens[token.place - 1].text in _WHERE


_WHERE = frozenset("in at on auf bei à dans en em no na op".split())


def other_state(new: Reading, old: Reading) -> bool:
    """Open, and now closed; single, and now married."""
    if (old.is_past and not old.is_negated) or is_of_this_day(new):
        return False
    is_elsewhere = _is_elsewhere(new, old)
    said, then = _joined(new.text.casefold().replace("’", "'")), " ".join(token.text for token in old.main)
    rows = new.words.conditions if not old.subject else (*new.words.conditions, *new.words.transitions)
    for number, (before, after) in enumerate(rows):
        is_person = number < len(new.words.conditions)
        if is_elsewhere and not is_person:
            return False
        was, is_now = before.search(then), after.search(said)
        if was is None or is_now is None:
            continue
        already, still = after.search(then), before.search(said)
        if already is not None and len(already.group()) > len(was.group()):
            continue
        if still is not None and still.end() > is_now.end() and (not is_person or still.group() == was.group()):
            continue  # a trainee may qualify as an assistant
        named = tuple(token for token in old.subject if token.text not in was.group().split())
        is_same = is_same_thing(new, named) or has_same_number(new, old)
        if not is_same or (not named and not (old.speaks_of_self and new.labels & {"me", "my"})):
            continue
        if _has_same_days(new, old) and _is_about(new, old, is_now.group()) and _is_plain(new, old, was.group()):
            places = _places(new, is_now.group())
            first = places[0] - len(is_now.group().split()) + 1 if places else 0
            return not _negates(new, is_now.group()) and not is_narrowed(new, old, first)
    return False


def _joined(text: str) -> str:
    """ "Switched the pump on" as "the pump switched on"."""
    return _APART.sub(r"\2 \1 \3", text)


_APART = re.compile(r"\b(switched|turned|rolled|shut|closed)((?: [\w'-]+){1,5}?) (on|off|back|down)\b")


def _has_same_days(new: Reading, old: Reading) -> bool:
    one, other = ({value.amount for value in reading.values if value.kind == "weekday"} for reading in (new, old))
    return one == other or not other


def _places(reading: Reading, phrase: str) -> list[int]:
    last = phrase.split()[-1]
    return [
        token.place
        for token in reading.tokens
        if last in token.text.split() or (reading.words.phrases and last in token.text)
    ]


def _is_about(new: Reading, old: Reading, phrase: str) -> bool:
    """Whether the new state is said of the same thing: "closed the deal" is said of the deal."""
    if phrase.split()[-1] in _LEADING:
        return True  # "a job at"
    for place in _places(new, phrase):
        if new.words.phrases is None and new.tokens[place].text.split()[-1] != phrase.split()[-1]:
            return True
        following = list(new.tokens[place + 1 : place + 4])
        for token in following:
            if (
                token.kind == "mark"
                or token.labels & {"name", "after"}
                or (token.labels & {"function", "be"} and token.text not in {"the", "a", "an", "our", "his", "her"})
            ):
                break
            if token.is_content and token.place not in new.valued and not token.text.endswith("ly"):
                if not old.mentions(token) and "kin" not in token.labels:
                    return False
                break
        return True
    return True


_LEADING = frozenset("at for in bei für chez en em a per bij".split())


def _is_plain(new: Reading, old: Reading, phrase: str) -> bool:
    """Whether the old state is all that is said, or the newer repeats the rest: not "open to new ideas"."""
    places = _places(old, phrase)
    rest = tuple(token for token in old.predicate if places and token.place > places[-1])
    after = old.tokens[places[-1] + 1] if places and places[-1] + 1 < len(old.tokens) else None
    is_last = after is None or not after.is_content or after.place in old.valued or new.mentions(after)
    if not places or not _is_predicate(old, places[-1] - len(phrase.split()) + 1):
        return False
    is_led = after is not None and (after.text in old.determiners or after.labels & {"my", "their"})
    if is_led and phrase.split()[-1] in _PARTICLES:
        return False  # "on the desk" is no state
    is_disposed = after is not None and after.text == "to" and phrase.endswith("open")
    return len(rest) <= 3 and is_last and (not is_disposed or not new.lacks(rest[:1]))


_PARTICLES = frozenset({"on", "off", "up", "down"})


def _is_predicate(old: Reading, place: int) -> bool:
    """Whether a state is said of the subject: behind its verb, with no more than an adverb between."""
    if old.words.phrases is not None:
        return True
    near = old.tokens[max(place - 3, 0) : place + 1]
    last = old.main[-1].place if old.words.code == "de" else old.verb  # "der Drucker im Flur *streikt*"
    if any(token.kind == "owns" for token in near):
        near = old.tokens[max(place - 5, 0) : place + 1]  # "is my boss's wife"
    return any(token.labels & {"be", "at", "want", "do", "work", "use", "live"} for token in near) or place in {
        old.verb,
        last,
    }


def _negates(new: Reading, phrase: str) -> bool:
    clauses = {new.tokens[place].clause for place in _places(new, phrase)}
    return (
        any("not" in token.labels and token.clause in clauses for token in new.tokens)
        and "not" not in phrase
        and "no " not in phrase
    )


def came_back(new: Reading, old: Reading) -> bool:
    """ "The car is at the garage", and "we got the car back from the garage"."""
    is_there = old.has_verb("at") or any(token.text in _WITH_ONE for token in old.main)
    if not is_there or not old.predicate or old.is_negated or old.is_past or new.is_negated or is_passing(new):
        return False
    where = old.predicate[0]
    if not is_same_thing(new, old.subject) and not (old.speaks_of_self and "me" in new.labels):
        return False
    for token in new.tokens:
        near = new.tokens[max(token.place - 6, 0) : token.place]
        is_there = any(alike(each.key, where.key) for each in new.tokens[token.place + 1 : token.place + 4])
        said = near if new.words.code == "en" else new.tokens  # "aus der Werkstatt geholt"
        if token.text in _AWAY_FROM and is_there and any(each.text in _BACK for each in said):
            return True
        if token.text == "back" and new.mentions(where) and any(each.text in _SENT for each in near):
            return True
    return False


_WITH_ONE = frozenset({"is with", "are with"})
_AWAY_FROM = frozenset({"from", "of", "aus", "vom", "uit"})
_SENT = frozenset("sent gave brought handed".split())
_BACK = frozenset(
    """back home collected picked returned out discharged released fetched geholt abgeholt zurück entlassen opgehaald
    terug ontslagen""".split()
)


def done(new: Reading, old: Reading) -> bool:
    """What waited to be done, was done: "is being packed", and "has been packed"."""
    pending = new.words.pending
    if pending is None or old.is_past or new.is_negated or not old.subject or not is_same_thing(new, old.subject):
        return False
    match = pending.search(" ".join(token.text for token in old.main))
    if match is None or is_narrowed(new, old, new.verb):
        return False
    waits = match.group().split()[-1]
    place = next(
        (token.place for token in old.main if token.text.split()[-1] == waits and token.place >= old.verb), None
    )
    expected = next((token for token in old.predicate if place is not None and token.place > place), None)
    if expected is None:
        return False
    found = [each for each in new.predicate if alike(each.key, expected.key)]
    if not found:
        return "be" in new.tokens[new.verb].labels and len(new.contents) <= len(new.subject) + 1 and _is_outcome(new)
    text = " ".join(token.text for token in new.tokens[: found[0].place])
    return pending.search(text) is None and "be" in new.tokens[found[0].place - 1].labels


def _is_outcome(new: Reading) -> bool:
    """ "Was approved", "was turned down"."""
    said = " ".join(token.text for token in new.main if token.place > new.verb)
    return any(before.search("in progress") and after.match(said) for before, after in new.words.transitions)
