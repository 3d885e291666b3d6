"""What a table of time words looks like, for languages other than English.

There is one grammar. A language is a table: its phrases on the left, the English words they mean on the right, one meaning to
a line, phrases parted by commas. `order` puts what stands elsewhere in that language where English has it ("semaine dernière",
"il y a trois jours", "3日前"): each pair is a pattern over the codes of `words.py` and the groups in their new order.
Accents may be left out, in the tables as in a question.
"""

import re
import unicodedata
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Final, Literal

Capitals = Literal["names", "nouns", "none"]
Order = tuple[re.Pattern[str], tuple[str, ...]]
LONGEST_PHRASE: Final = 4


@dataclass(frozen=True, kw_only=True)
class Language:
    """The time words of one language.

    `marks` are frequent words that give a language away. `capitals` says what a capital letter means inside a sentence: the
    weekday or month is somebody's name, or every noun has one, in which case it needs a word of time beside it.
    """

    name: str
    table: str
    order: tuple[Order, ...] = ()
    marks: str = ""
    capitals: Capitals = "names"

    @cached_property
    def phrases(self) -> dict[str, str]:
        found: dict[str, str] = {}
        for line in self.table.strip().splitlines():
            foreign, _, english = line.partition("=")
            for phrase in foreign.split(","):
                found[fold(phrase.strip())] = english.strip()
        return found

    @cached_property
    def words(self) -> frozenset[str]:
        """What shows that a text is in this language: its marks and its words of time."""
        return frozenset(fold(self.marks).split()) | {phrase for phrase in self.phrases if " " not in phrase}

    @cached_property
    def accented(self) -> frozenset[str]:
        """Words that this language writes with an accent: they tell near languages apart."""
        written = {*self.marks.split(), *re.findall(r"[^\W\d_]+", self.table)}
        return frozenset(word for word in written if not word.isascii())


def fold(text: str) -> str:
    """Lower case without accents, character by character, so that positions stay."""
    return "".join(map(_plain, text))


@cache
def _plain(character: str) -> str:
    if character == "’":
        return "'"
    lower = character.lower()
    base = unicodedata.normalize("NFD", lower)[:1] if len(lower) == 1 else character
    return base if character.isalpha() and not "\u3040" <= character <= "\u30ff" else character


def order(*rules: tuple[str, str]) -> tuple[Order, ...]:
    return tuple((re.compile(pattern), tuple(groups.split())) for pattern, groups in rules)


SPAN: Final = r"(?P<span>[acdn~][Uu](?:&?[acdn~][Uu])?)"
SPACED_ORDER: Final = (
    (rf"(?P<since>I){SPAN}(?!A)", "since span ago"),  # "seit zwei Wochen": since two weeks ago
    (r"h(?P<last>L)(?P<unit>U)", "last unit"),  # "la scorsa settimana" is no rolling week
    (r"(?P<at>p)(?P<hour>d)u", "at hour"),  # "um 15 Uhr", "à 15 heures"
    (r"(?P<number>[do])\.(?=[ME&QJ])", "number"),  # "1. März"
)
