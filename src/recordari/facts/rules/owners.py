"""Who is in charge of a thing, does it or holds an office, and by what it is seen that somebody else does now."""

from __future__ import annotations

from itertools import pairwise

from recordari.facts.rules.frames import fresh_words, is_passing, is_same_thing, qualifies
from recordari.facts.rules.grammar import alike
from recordari.facts.rules.reading import Reading


def other_owner(new: Reading, old: Reading) -> bool:
    """Somebody else is in charge."""
    if "takeover" in old.labels or _has_other_number(new, old) or _has_other_office(new, old):
        return False  # it tells of the same change, or of another one
    if is_done_by_another(new, old) or is_done_by_one(new, old) or is_new_holder(new, old) or _is_passed_on(new, old):
        return True
    if is_changed_for_another(new, old) or is_holder_gone(new, old):
        return True
    leads = "lead" in old.labels and bool(new.labels & {"lead", "takeover"})
    if not (leads or (_is_done_by(old) and new.labels & {"now", "takeover"}) or _is_role(new, old)) or is_passing(new):
        return False
    slot = [token for token in fresh_words(new, old) if token.is_name or not token.place or token.labels <= {"light"}]
    if not slot or (new.is_negated and "takeover" not in new.labels):
        return False
    if "takeover" in new.labels and old.identifiers & new.all_identifiers:
        return True
    is_thing = _is_of_subject(old)
    of_subject = is_thing and bool(old.subject) and is_same_thing(new, old.subject)
    of_predicate = not is_thing and bool(old.predicate) and not new.lacks(old.predicate)
    if new.labels & {"takeover", "now"}:
        return of_subject or of_predicate
    is_somebody = any(token.is_name or not token.place for token in slot)
    return of_subject and is_somebody and not old.lacks(new.subject) and not any(map(new.mentions, old.predicate))


def _is_passed_on(new: Reading, old: Reading) -> bool:
    """ "Olga waters the plants", and "Olga passed the watering on to Ben"."""
    if "takeover" not in new.labels or not new.subject or new.is_negated or old.is_past or old.is_negated:
        return False
    giver = new.subject[0]
    verb = next(token.place for token in new.tokens if "takeover" in token.labels)
    if not any(
        alike(giver.key, each.key) and (each.is_name or not each.place) for each in (*old.subject, *old.predicate)
    ):
        return False
    to = next((token.place for token in new.tokens if token.place > verb and token.text.split()[-1] in _TO), None)
    if to is None or to + 1 >= len(new.tokens) or not new.tokens[to + 1].is_name or old.mentions(new.tokens[to + 1]):
        return False
    given = [token for token in new.contents if verb < token.place < to]
    return bool(given) and all(map(old.mentions, given))


def _is_done_by(old: Reading) -> bool:
    """ "The plants are watered by Theo"."""
    names = [token for token in old.predicate if token.is_name]
    led = [{token.text for token in old.tokens[each.place - 2 : each.place]} for each in names]
    return old.has_verb("be") and not old.is_past and any(before & _AGENTS for before in led)


def is_done_by_another(new: Reading, old: Reading) -> bool:
    """ "Brandt trains the juniors", and "the juniors are now trained by Diaz"."""
    if not _is_done_by(new) or not new.labels & {"now", "takeover"} or not old.subject or old.is_past or old.is_negated:
        return False
    verb = next((token for token in old.predicate if token.place == old.verb), None)
    if verb is None or new.is_negated or not any(alike(verb.key, token.key) for token in new.tokens):
        return False
    done = tuple(token for token in old.predicate if token.place > old.verb)
    return bool(done) and not new.lacks(done) and not old.lacks(new.subject) and bool(new.lacks(old.subject))


def is_done_by_one(new: Reading, old: Reading) -> bool:
    """ "The keys are kept by the sexton", and "the secretary keeps the keys now"."""
    if new.words.code != "en" or "now" not in new.labels or not old.subject or not old.has_verb("be") or new.is_negated:
        return False
    by = next((token.place for token in old.main if token.text == "by" and token.place > old.verb), None)
    if by is None or old.is_past or by + 1 in old.valued:
        return False
    verb, agents = old.tokens[by - 1], tuple(token for token in old.predicate if token.place > by)
    said = next((token.place for token in new.contents if alike(verb.key, token.key)), None)
    if said is None or not agents or any(map(new.mentions, agents)) or not said:
        return False
    objects = {token.key for token in new.contents if token.place > said}
    return all(token.key in objects for token in old.subject) and len(objects) <= len(old.subject)


def is_new_holder(new: Reading, old: Reading) -> bool:
    """ "Mr Okoro is our landlord", and "our landlord is Ms Fenn now"."""
    if (
        "now" not in new.labels
        or not old.has_verb("be")
        or not old.subject
        or not all(t.is_name or not t.place for t in old.subject)
    ):
        return False
    role = [token for token in old.predicate if token.place > old.verb]
    if role and old.tokens[old.verb + 1].text == "the" and _is_held_by_another(new, old):
        return True
    if not role or len(role) > 3 or "my" not in old.tokens[role[0].place - 1].labels:
        return False
    said = [token for token in new.tokens if any(alike(token.key, each.key) for each in role)]
    if len(said) < len(role) or "my" not in new.tokens[said[0].place - 1].labels:
        return False
    clause = [token for token in new.tokens if token.clause == said[0].clause and token.place > said[-1].place]
    names = [token for token in clause if token.is_name and not old.mentions(token)]
    return bool(names) and bool(clause) and "be" in clause[0].labels


def _is_held_by_another(new: Reading, old: Reading) -> bool:
    """ "Ann is *the* keeper of the second team", and "Freya is the keeper of the second team now"."""
    is_same = not new.lacks(old.predicate) and not old.lacks(new.predicate) and new.has_verb("be")
    one, other = ({value.amount for value in each.values if value.kind == "number"} for each in (new, old))
    is_somebody = bool(new.subject) and all(token.is_name or not token.place for token in new.subject)
    return is_same and is_somebody and one == other and not new.is_negated and len(new.lacks(old.subject)) > 0


def is_holder_gone(new: Reading, old: Reading) -> bool:
    """ "Our receptionist is Paula", and "Paula no longer works for us"."""
    if (
        not new.is_ended
        or not new.labels & {"work", "retire"}
        or not old.has_verb("be")
        or not new.subject
        or old.is_past
    ):
        return False
    roles = [two for one, two in pairwise(old.tokens) if "my" in one.labels and two.labels & {"profession", "lead"}]
    names = [token for token in (*old.subject, *old.predicate) if token.is_name]
    is_named = bool(names) and all(any(alike(each.key, token.key) for token in new.subject) for each in names)
    return bool(roles) and is_named and not old.lacks(new.subject)


def is_changed_for_another(new: Reading, old: Reading) -> bool:
    """ "Our solicitor is …", and "we changed solicitors"."""
    if old.is_past or old.is_negated or new.is_negated or not old.has_verb("be") or "me" not in new.labels:
        return False
    roles = [two for one, two in pairwise(old.tokens) if "my" in one.labels and two.is_content]
    turned = [two for one, two in pairwise(new.tokens) if "change" in one.labels]
    if any(alike(role.key, each.key) and role.text != each.text for role in roles for each in turned):
        return True
    # "I have a new piano teacher"
    renewed = [two for one, two in pairwise(new.tokens) if one.text == "new" and {"me"} & new.labels]
    head = old.tokens[old.verb - 1] if old.verb else None
    is_one = head is not None and "profession" in head.labels and "my" in old.main[0].labels and new.mentions(head)
    return is_one and any(alike(role.key, each.key) for role in roles for each in renewed) and not old.is_past


def _has_other_office(new: Reading, old: Reading) -> bool:
    """The treasurer of the club, and its chair; the project Elbe, and the project Weser."""
    offices = [{token.text for token in each.tokens if token.text in _OFFICES} for each in (new, old)]
    if all(offices) and not offices[0] & offices[1]:
        return True
    ends = old.subject[-1].place + 1 if old.subject else -1  # its name may stand behind it
    ahead = tuple(token for token in old.predicate if token.place == ends and token.is_name)
    named = [token for token in new.contents if any(alike(token.key, each.key) for each in old.subject)]
    return bool(new.lacks(ahead)) or any(qualifies(new, old, token) for token in named)


_OFFICES = frozenset(
    """treasurer secretary chair chairman chairwoman chairperson president captain manager director ceo cfo cto mayor
    coordinator supervisor maintainer skipper foreman headteacher spokesperson deputy kassenwart schriftführer vorsitzende
    vorsitzender trésorier secrétaire président directeur tesorero secretario presidente presidenta
    directora""".split()
)


def _has_other_number(new: Reading, old: Reading) -> bool:
    """ "In charge of room 2", and of room 5."""
    numbers = [(one, other) for one in new.values for other in old.values if one.kind == other.kind == "number"]
    return any(one.unit and one.unit == other.unit and one.differs(other) for one, other in numbers)


def _is_role(new: Reading, old: Reading) -> bool:
    """ "Is the master of the team", and somebody replaced them as that."""
    return "takeover" in new.labels and old.has_verb("be") and len(old.predicate) > 1 and not new.lacks(old.predicate)


def _is_of_subject(old: Reading) -> bool:
    """Whether the subject is what somebody is in charge of: "is led by", "the manager of the shop is"."""
    if _is_done_by(old):
        return True
    if old.words.phrases is not None:
        return bool(old.subject)  # the topic comes first
    for token in old.tokens:
        if "lead" in token.labels:
            after = old.tokens[token.place + 1].text if token.place + 1 < len(old.tokens) else ""
            if token.text.split()[-1] in _AGENTS:
                return True  # "belongs to"
            return token.place < old.verb or after in _AGENTS or old.main[0].text in old.determiners | _FOR
    return False


_FOR = frozenset("für um for pour de para per di voor".split())
_AGENTS = frozenset("by to under von vom an par à por a da dal dalla door aan".split())


_TO = frozenset("to auf nach à vers a para naar".split())
