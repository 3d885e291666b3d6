"""A statement as the judge reads it: its main clause, whom it is about, its values and identifiers."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

from recordari.facts.rules.grammar import Token, Words, alike, tokens_of, words_of
from recordari.facts.rules.values import Value, is_identifier, values_of

_BOUNDARIES = frozenset(
    "be live move at work like hate want use host do change stop takeover plan says longer callme direct name act".split()
)
DETERMINERS = {
    code: frozenset(words.split())
    for code, words in {
        "en": "the a an this that these those",
        "de": "der die das den dem des ein eine einen einem einer",
        "fr": "le la les l' un une des du ce cette",
        "es": "el la los las un una este esta",
        "pt": "o a os as um uma este esta",
        "it": "il lo la i gli le l' un uno una questo questa",
        "nl": "de het een deze dit",
    }.items()
}
_NUMBER_WORDS = frozenset({"number", "no", "nr", "nummer", "numéro", "número", "numero"})
_BEFORE_NOUNS = frozenset().union(*DETERMINERS.values(), "alla della dalla nella".split()) - {"de", "des"}
"""Of all languages: the one of a short text is a guess."""
_WITHOUT_MEANING = frozenset({"function", "me", "my", "third", "their", "be"})
_PRESENT_FORMS = frozenset(
    """is are am i'm we're he's she's they're it's isn't aren't has have hasn't haven't i've we've they've can may
    must will""".split()
)
_NEW = frozenset("new neue neuen nouveaux nouvelles nuevos nuevas novos novas nuovi nuove nieuwe".split())
_PAST_FORMS = frozenset({"was", "were", "had"})
_OPENERS = frozenset("with under thanks per dank avec grâce con com gracias graças grazie dankzij".split())
_DROPS_PRONOUNS = frozenset({"es", "pt", "it"})
_FIRST_PERSON = ("o", "oy", "ou", "ei", "é", "í", "mos")
_NAMES_IN_O = frozenset(
    """alberto alessandro alfonso alfredo alonso álvaro angelo antonio antónio arturo augusto benito bruno camilo carlo
    claudio danilo dario diego domenico eduardo emilio enrico enzo ernesto fabio federico fernando filippo francesco francisco
    giacomo gino giorgio gonzalo guido guillermo gustavo hugo ignacio jacobo jacopo julio leandro leo leonardo lorenzo lucio
    luciano marcelo marcello marcio marco mariano mario massimo matteo mauro maurizio mauricio nico octavio otto pablo paco
    paolo paulo pedro piero pietro ricardo riccardo roberto rodolfo rodrigo romeo sandro santiago sergio silvio stefano
    thiago tiago valerio vincenzo vito""".split()
)
"""Given names that end as a verb in the first person does."""
_RELATIVE = frozenset({"which", "who", "whose", "whom"})  # what they add is a remark
_ANDS = frozenset({"and", "but", "und", "aber", "et", "mais", "y", "pero", "e", "mas", "ma", "en", "maar"})
_DUTIES = frozenset("job responsibility task duty remit".split())
_UNTIL_NOW = frozenset({"since", "in months", "in years", "in weeks", "in ages", "for months", "for years", "for ages"})
_NOT_SINCE = frozenset({"hasn't", "haven't"})
LONG_INTRODUCTION = 5


@dataclass(frozen=True)
class Reading:
    """Everything that the rules ask of one statement."""

    text: str
    tokens: tuple[Token, ...]
    words: Words

    @cached_property
    def determiners(self) -> frozenset[str]:
        return DETERMINERS.get(self.words.code, frozenset())

    @cached_property
    def values(self) -> tuple[Value, ...]:
        return values_of(self.tokens, self.words, self.verb)

    @cached_property
    def labels(self) -> frozenset[str]:
        """The labels of all words that do what their label says: in "the left eye" nothing is left."""
        found = frozenset(label for token in self.tokens for label in self._labels_of(token))
        more = {label for label, is_so in (("lead", self._is_ones_duty), ("change", self._is_set_to)) if is_so}
        return found | more

    @cached_property
    def _is_set_to(self) -> bool:
        """ "Was patched to build 318": a verb that nobody listed, with a value as its goal."""
        if self.words.code != "en":
            return False
        starts = {value.place for value in self.values if value.kind in {"number", "count", "money", "clock"}}
        verbs = (token.place for token in self.tokens if token.text.endswith("ed") and not token.labels)
        return any(self._leads_to(place, starts) for place in verbs)

    def _leads_to(self, verb: int, starts: set[int]) -> bool:
        return bool({verb + 2, verb + 3} & starts) and self.tokens[verb + 1].text == "to"

    @cached_property
    def _is_ones_duty(self) -> bool:
        """ "The contracts are Mateo's job"."""
        pairs = zip(self.tokens, self.tokens[1:], strict=False)
        return any(owns.kind == "owns" and what.text in _DUTIES for owns, what in pairs)

    def _labels_of(self, token: Token) -> frozenset[str]:
        if self.is_attribute(token):
            return frozenset()
        if token.text in _NEW and token.place and token.place - 1 in self.valued:
            return token.labels - {"now"}  # "two new cards" are no change
        if token.text == "too" and token.place + 1 < len(self.tokens) and self.tokens[token.place + 1].kind == "word":
            return token.labels - {"also"}  # "too small"
        return token.labels

    def is_attribute(self, token: Token) -> bool:
        """Whether a word that could be a verb belongs to a noun."""
        if not token.place or not token.labels & {"stop", "change"} or self.words.phrases is not None:
            return False
        before = self.tokens[token.place - 1]
        after = self.tokens[token.place + 1] if token.place + 1 < len(self.tokens) else None
        belongs = before.text in self.determiners or before.kind == "owns" or bool(before.labels & {"my", "their"})
        return belongs and after is not None and after.is_content

    @cached_property
    def valued(self) -> frozenset[int]:
        """The places of the tokens that are values."""
        return frozenset(place for value in self.values for place in range(value.place, value.end))

    @cached_property
    def main(self) -> tuple[Token, ...]:
        """The first clause that says something; not "For context," and not "Note:"."""
        clauses: dict[int, list[Token]] = {}
        for token in self.tokens:
            clauses.setdefault(token.clause, []).append(token)
        for clause in clauses.values():
            after = self.tokens[clause[-1].place + 1] if clause[-1].place + 1 < len(self.tokens) else None
            is_title = after is not None and after.text == ":" and len(clause) <= LONG_INTRODUCTION
            if not is_title and clause[0].text not in _RELATIVE and any(self._is_verb(token) for token in clause):
                return tuple(clause)
        contents = {clause: sum(token.is_content for token in found) for clause, found in clauses.items()}
        return tuple(next((found for clause, found in clauses.items() if contents[clause] > 1), self.tokens))

    def _is_verb(self, token: Token) -> bool:
        if not token.labels & _BOUNDARIES or self.is_attribute(token) or self._is_noun(token):
            return False
        if token.place or token.labels & {"be", "me"}:
            return True
        # "Host db-01 has": a noun that looks like a verb, before its own verb.
        after = next((each for each in self.tokens[1:] if not each.is_content and each.kind != "number"), None)
        return after is None or after.place < 2 or "be" not in after.labels

    def _is_noun(self, token: Token) -> bool:
        if not token.place or token.labels & {"be", "at"} or self.words.phrases is not None:
            return False
        before = self.tokens[token.place - 1]
        return before.text in self.determiners or before.kind == "owns" or bool(before.labels & {"my", "their"})

    def _is_named_after(self, token: Token) -> bool:
        """Whether a word of an order is a noun: "our call"."""
        return token.labels == {"direct"} and self._is_noun(token)

    @cached_property
    def introduced(self) -> frozenset[int]:
        """The places of an introduction: "After the upgrade", "According to the list". It names no thing of its own."""
        if not self.main or not ("after" in self.main[0].labels or self.main[0].text in _OPENERS):
            return frozenset()
        places = []
        for number, token in enumerate(self.main[1:]):
            is_start = token.text in self.determiners or bool(token.labels & {"my", "me", "third", "their"})
            before = self.tokens[token.place - 1]
            is_start = is_start or (
                self.words.code == "en" and token.is_name and before.is_content and not before.is_name
            )
            if token.labels & _BOUNDARIES or (number and is_start):
                break
            places.append(token.place)
        return frozenset(places) if len(places) < len(self.main) - 2 else frozenset()

    @cached_property
    def verb(self) -> int:
        """The place of the first verb of the main clause; without a known one, behind its first noun and names."""
        contents = [token for token in self.main if token.is_content and token.place not in self.introduced]
        first = contents[0].place if contents else len(self.tokens)
        for token in self.main:
            if self._is_verb(token):
                return token.place
            if token.labels & {"me", "third"} and token.place < first:
                return token.place + 1
        if not contents:
            return self.main[-1].place + 1 if self.main else 0
        opens = self.words.code in _DROPS_PRONOUNS and not contents[0].place
        if opens and contents[0].text.endswith(_FIRST_PERSON) and contents[0].text not in _NAMES_IN_O:
            return 0
        place = contents[0].place + 1
        while place < len(self.tokens) and self._names_more(self.tokens[place]):
            place += 1
        return place

    def _names_more(self, token: Token) -> bool:
        """Whether a token behind a noun says which one it is: "Ticket 7", "Ticket DB-9", "my brother Sam"."""
        return token.kind in {"id", "number"} or (token.is_name and self.words.code != "de")

    @cached_property
    def contents(self) -> tuple[Token, ...]:
        outside = self.valued | self.introduced
        return tuple(
            token
            for token in self.tokens
            if token.place not in outside
            and (token.is_content or self.is_attribute(token) or self._is_named_after(token))
        )

    @cached_property
    def subject(self) -> tuple[Token, ...]:
        """The content before the verb of the main clause."""
        places = {token.place for token in self.main}
        return tuple(token for token in self.contents if token.place in places and token.place < self.verb)

    @cached_property
    def predicate(self) -> tuple[Token, ...]:
        """The content of the main clause after its verb."""
        places = {token.place for token in self.main}
        return tuple(token for token in self.contents if token.place in places and token.place >= self.verb)

    @cached_property
    def speaks_of_self(self) -> bool:
        """The first person is its subject."""
        return not self.subject and "third" not in self.labels

    @cached_property
    def identifiers(self) -> frozenset[str]:
        """Identifiers before the verb: they say which thing it is about."""
        numbers = {f"{value.unit} {value.amount}" for value in self.values if self._is_identifier(value)}
        return frozenset(numbers) | {
            token.text for token in self.contents if self._is_id(token) and token.place < self.verb
        }

    def _is_article(self, place: int) -> bool:
        text = self.tokens[place].text
        if text == "a" and self.words.code not in {"en", "pt"}:
            return False  # "to"
        return text in _BEFORE_NOUNS | self.determiners

    def _is_identifier(self, value: Value) -> bool:
        """ "Order 17 is due", "we paid the order 17", "it is entry number 17"; not "listens on port 17"."""
        is_named = value.kind == "number" and bool(value.unit) and value.place > 1
        if is_named and self.tokens[value.place - 1].text in _NUMBER_WORDS:
            return self.tokens[value.place - 2].is_content
        return is_identifier(value, self.verb) or (is_named and self._is_article(value.place - 2))

    @cached_property
    def all_identifiers(self) -> frozenset[str]:
        numbers = {f"{value.unit} {value.amount}" for value in self.values if value.kind == "number"}
        return frozenset(numbers) | {token.text for token in self.tokens if self._is_id(token)}

    @staticmethod
    def _is_id(token: Token) -> bool:
        return token.kind == "id" and any(letter.isdigit() or letter in "#_." for letter in token.text)

    @cached_property
    def is_past(self) -> bool:
        """It tells how things were."""
        if "past" in self.labels:
            return True
        if self.words.code != "en" or self.verb >= len(self.tokens):
            return False
        if self.tokens[self.verb].text in _PAST_FORMS:
            return "not" not in self.labels
        for token in self.tokens[max(self.verb - 1, 0) : self.verb + 3]:
            if token.text in _PRESENT_FORMS:
                return False
            is_regular = token.text.endswith("ed") and not token.labels - {"change", "stop"} and token.text != "need"
            if token.place >= self.verb and ("did" in token.labels or is_regular):
                return True
            is_adverb = token.text.endswith("ly")
            if (
                token.place >= self.verb
                and not is_adverb
                and not token.labels & {"function", "be", "me", "third", "maybe"}
            ):
                return False
        return False

    @cached_property
    def is_question(self) -> bool:
        return any(token.text in {"?", "¿"} for token in self.tokens) or (
            self.words.phrases is not None
            and any("ask" in self.words.labels.get(token.text, ()) for token in self.tokens)
        )

    @cached_property
    def is_ended(self) -> bool:
        """It says that something is no longer so."""
        return bool(self.endings) or {"not", "more"} <= self.labels

    @cached_property
    def endings(self) -> tuple[Token, ...]:
        """The words that say so: "stopped", but not "won't stop"."""
        found = [token for token in self.tokens if token.labels & {"stop", "longer"} and not self.is_attribute(token)]
        return (*(token for token in found if not self._is_denied(token)), *self._not_since)

    @cached_property
    def _not_since(self) -> tuple[Token, ...]:
        """The "hasn't" of "hasn't touched coffee since March"."""
        last = max((token.place for token in self.tokens if token.text in _UNTIL_NOW), default=0)
        return tuple(token for token in self.tokens if token.text in _NOT_SINCE and token.place < last)

    def _is_denied(self, ending: Token) -> bool:
        if "stop" not in ending.labels:
            return False
        if ending.place and self.tokens[ending.place - 1].text == "be":
            return True  # "can be cancelled"
        for each in reversed(self.tokens[: ending.place]):
            if each.clause != ending.clause or each.text in _ANDS:
                return False  # "hasn't smoked since May and is done with it"
            if "not" in each.labels:
                return True
        return False

    @cached_property
    def is_negated(self) -> bool:
        """Its main clause denies something."""
        stops = [token for token in self.main if "stop" in token.labels and self.tokens[token.place - 1].text != "be"]
        if any(map(self._is_denied, stops)):
            return False  # "won't quit"
        return any(token.labels & {"not", "longer"} and not self._is_answer(token) for token in self.main)

    def _is_answer(self, token: Token) -> bool:
        """Whether a "no" is what somebody got: "got a no"."""
        return token.text == "no" and self._is_noun(token)

    def denies(self, place: int) -> bool:
        """Whether what is said at a place is denied there: "can't come on Monday and comes on Tuesday"."""
        if not self.is_negated:
            return False
        clause = self.tokens[place].clause
        return any(token.labels & {"not", "longer"} and token.clause == clause for token in self.tokens) or all(
            token.clause == clause for token in self.main
        )

    def has_verb(self, *labels: str) -> bool:
        """Whether a verb of its main clause has one of these labels."""
        return any(not token.labels.isdisjoint(labels) and token.place >= self.verb for token in self.main)

    @cached_property
    def is_given_up(self) -> bool:
        """Its main clause says that something is no longer so."""
        said = [token for token in self.main if token.labels & {"stop", "longer"} and not self.is_attribute(token)]
        return any(not (token.place and self.tokens[token.place - 1].text == "be") for token in said)

    def mentions(self, token: Token) -> bool:
        """Whether a word of another statement is in this one, in any form."""
        if "kin" in token.labels:  # hermano, and hermana
            return any(token.text.removesuffix("s") == each.text.removesuffix("s") for each in self.tokens)
        if token.is_name and self.words.code != "de":  # Falk is not Falke
            return token.text.removesuffix("s") in self._texts
        known = self._mentioned.get(token.key)
        if known is None:
            known = token.key in self._keys or any(alike(token.key, key) for key in self._keys)
            self._mentioned[token.key] = known
        return known

    @cached_property
    def _keys(self) -> frozenset[str]:
        return frozenset(
            token.key
            for token in self.tokens
            if token.kind in {"word", "id", "mail"} and not token.labels & _WITHOUT_MEANING
        )

    @cached_property
    def _texts(self) -> frozenset[str]:
        return frozenset(token.text.removesuffix("s") for token in self.tokens if token.kind in {"word", "id", "mail"})

    @cached_property
    def _mentioned(self) -> dict[str, bool]:
        """What was asked before; statements are compared with many others."""
        return {}

    def lacks(self, tokens: tuple[Token, ...]) -> tuple[Token, ...]:
        return tuple(token for token in tokens if not self.mentions(token))


@lru_cache(maxsize=4_000)
def read(text: str, code: str, speaker: str = "") -> Reading:
    """Cached, because a statement is compared with several others.

    The name of its speaker counts as "I" or "my": that two statements are by the same person is nothing that they share.
    """
    tokens = tokens_of(text, code)
    if speaker:
        names = frozenset(speaker.casefold().split())
        tokens = tuple(_first_person(token, tokens) if token.text in names else token for token in tokens)
    return Reading(text=text, tokens=tokens, words=words_of(code))


def _first_person(token: Token, tokens: tuple[Token, ...]) -> Token:
    after = tokens[token.place + 1] if token.place + 1 < len(tokens) else None
    is_owner = after is not None and after.kind == "owns"
    return replace(token, labels=frozenset({"my" if is_owner else "me"}), is_name=False)
