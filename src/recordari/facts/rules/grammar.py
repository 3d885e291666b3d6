"""One grammar for all languages: a statement as tokens with labels. The words of each language are in `words/*.toml`.

A label says what a word does in a statement, not what it means: `not`, `stop`, `change`, `also`, `plan`, `kin` and so on.
A word without a label is *content*: it says what the statement is about. Phrases win over words, longer ones first.
"""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib.resources import files
from typing import Any

import Stemmer

LANGUAGES = ("en", "de", "fr", "es", "pt", "it", "nl", "zh", "ja")
SPACED = 7
"""So many of them write blanks between words."""
LONGEST_PHRASE = 5
FEWEST_DIGITS = 7
"""Of a telephone number without a prefix; "2021-14" is an identifier."""
FARTHEST = 7
"""Words between the first and the last word of a phrase that comes apart."""
ALIKE = 5
"""Letters that two stems share at least to be forms of one word: subscrib(e), subscript(ion)."""
_LISTS_OF_VALUES = frozenset(
    """months weekdays weekdays_more days numbers tens clock_before clock_after evening seconds minutes hours daily weekly
    monthly yearly""".split()
)
_UNITS_OF_TIME = ("months", "weekdays", "daily", "weekly", "monthly", "yearly")
_STILL_CONTENT = _LISTS_OF_VALUES | frozenset(
    "kin countries languages favourite contact season daypart profession act light".split()
)
_WRITTEN_LARGE = frozenset({"me", "be", "countries", "languages", "kin"})

_DONE = frozenset({"change", "stop", "move", "takeover"})

_CJK = re.compile(r"[\u3040-\u30ff\u3400-\u9fff]")
_KANA = re.compile(r"[\u3040-\u30ff]")
_TOKEN = re.compile(
    r"(?P<mail>[\w.+-]{1,60}@[\w-]{1,60}(?:\.[\w-]{1,60}){1,6}|https?://\S{1,200})"
    r"|(?P<site>\b(?:[\w-]{2,40}\.){1,4}[a-z]{2,10}(?=[\s,;]|$))"
    r"|(?P<iso>\b\d{4}-\d\d-\d\d\b)"
    r"|(?P<phone>\+?\d[\d*]{1,6}(?:[ /-][\d*]{2,8}){1,5}(?![\w.,]\d)|\b\d{3}-\d{4}\b)"
    r"|(?P<clock>\b\d{1,2}[:.]\d\d(?=\s?(?:am|pm|uhr|h)\b)|\b\d{1,2}:\d\d\b|\b\d{1,2}h\d\d\b)"
    r"|(?P<money>[$€£]\s?\d[\d.,]{0,15}\d?[kKmM]?)"
    r"|(?P<measure>\b\d{1,9}(?:[.,]\d{1,4})?(?:s|ms|gb|mb|tb|kb|kg|km|cm|mm|mg|ml|k|m|%|h|x)\b|\d{1,9}(?:[.,]\d{1,4})?%)"
    r"|(?P<id>\#[\w-]{1,40}|\b[^\W\d_]{1,20}[-_]?\d[\w-]{0,20}(?:\.\d{1,5})?|\b\d{1,9}[-_][\w-]{1,20}|\b\d{1,6}[^\W\d_]{1,3}\b|\b\w{1,40}_\w{1,40})"
    r"|(?P<number>\b\d{1,3}(?:[.,]\d{3}){1,4}(?:[.,]\d{1,2})?\b|\b\d{1,12}(?:[.,]\d{1,6}){0,3})"
    r"|(?P<word>[^\W\d_]+(?:-[^\W\d_]+){0,4}(?:['’](?!s\b)[^\W\d_]+)?)"
    r"|(?P<owns>['’]s\b)|(?P<elided>['’])|(?P<mark>[?¿!:;,.=()\"“”«»–—])",
    re.IGNORECASE,
)
_AFTER_ELISION = re.compile(r"(?<=')")
_ELIDED = re.compile(r"^(?:[cdjlmnst]|qu|jusqu|un|dell|all|nell|dall|sull|quest)['’](?=\w)", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    text: str
    key: str
    """Its stem, or the whole text of an identifier."""
    kind: str
    labels: frozenset[str]
    place: int
    clause: int
    is_name: bool = False

    @property
    def is_content(self) -> bool:
        return self.kind in {"word", "id", "mail"} and self.labels <= _STILL_CONTENT


@dataclass(frozen=True, slots=True)
class Words:
    """The tables of one language."""

    code: str
    labels: dict[str, frozenset[str]]
    common: frozenset[str]
    """By these the language is recognised."""
    values: dict[str, dict[str, int]]
    conditions: tuple[tuple[re.Pattern[str], re.Pattern[str]], ...]
    """States of persons, and those that end them."""
    transitions: tuple[tuple[re.Pattern[str], re.Pattern[str]], ...]
    """The same of things."""
    opposites: tuple[tuple[frozenset[str], frozenset[str]], ...]
    forms: dict[str, frozenset[str]]
    """The stems of verbs of change, and their labels: behind "had to" each form of them counts."""
    apart: dict[str, tuple[tuple[str, str], ...]]
    """The first word of a phrase whose last word may come later, with that word and the label: "gave his boat away"."""
    synonyms: dict[str, str]
    """A stem, and the one that is used for it: "flat" and "apartment" are one word."""
    pending: re.Pattern[str] | None
    """What is to be done is said behind it: "waiting to be"."""
    stemmer: Stemmer.Stemmer | None
    phrases: re.Pattern[str] | None
    """Of a language that writes no blanks."""

    def stem(self, word: str) -> str:
        stem = self.stemmer.stemWord(word) if self.stemmer is not None else word
        return self.synonyms.get(stem, stem)


def _phrases(text: str) -> list[str]:
    """Written as tokens are: "heißt" as "heisst"."""
    return [" ".join(phrase.casefold().split()) for phrase in text.split(";") if phrase.strip()]


@cache
def words_of(code: str) -> Words:
    """The tables of a language, read once."""
    table: dict[str, Any] = tomllib.loads(
        files("recordari.facts.rules").joinpath("words", f"{code}.toml").read_text("utf-8")
    )
    labels: dict[str, set[str]] = {}
    for name, text in table.items():
        if isinstance(text, str) and name not in {"stemmer", "pending"} and name not in _LISTS_OF_VALUES:
            for phrase in _phrases(text):
                labels.setdefault(phrase, set()).add(name)
    common = {phrase for phrase, found in labels.items() if " " not in phrase and found != {"light"}}
    common |= {word for name in _UNITS_OF_TIME for word in _phrases(table.get(name, ""))}
    blankless = not table["stemmer"]
    stemmer = Stemmer.Stemmer(table["stemmer"]) if table["stemmer"] else None
    pending = table.get("pending")
    return Words(
        code=code,
        labels={phrase: frozenset(found) for phrase, found in labels.items()},
        common=frozenset(common),
        values={
            name: {word: number for number, word in enumerate(_phrases(table.get(name, "")))}
            for name in _LISTS_OF_VALUES
        },
        conditions=_changes(table["conditions"], blankless),
        transitions=_changes(table["transitions"], blankless),
        opposites=tuple((frozenset(_phrases(one)), frozenset(_phrases(other))) for one, other in table["opposites"]),
        forms=_forms(labels, stemmer),
        apart=_apart(table.get("apart", [])),
        synonyms=_synonyms(table.get("synonyms", []), stemmer),
        pending=_any_of(pending, blankless) if pending else None,
        stemmer=stemmer,
        phrases=_any_of(";".join(sorted(labels, key=len, reverse=True)), True) if blankless else None,
    )


def _forms(labels: dict[str, set[str]], stemmer: Stemmer.Stemmer | None) -> dict[str, frozenset[str]]:
    if stemmer is None:
        return {}
    verbs = {phrase: found & _DONE for phrase, found in labels.items() if " " not in phrase and found & _DONE}
    return {stemmer.stemWord(phrase): frozenset(found) for phrase, found in verbs.items()}


def _apart(rows: list[str]) -> dict[str, tuple[tuple[str, str], ...]]:
    found: dict[str, tuple[tuple[str, str], ...]] = {}
    for row in rows:
        label, _, phrases = row.partition(":")
        for first, last in (phrase.split() for phrase in _phrases(phrases)):
            found[first] = (*found.get(first, ()), (last, label))
    return found


def _synonyms(rows: list[str], stemmer: Stemmer.Stemmer | None) -> dict[str, str]:
    """Each stem of a row, and the first of that row."""
    found: dict[str, str] = {}
    for row in rows:
        stems = [stemmer.stemWord(word) if stemmer is not None else word for word in _phrases(row)]
        found |= {stem: found.get(stems[0], stems[0]) for stem in stems if stem not in found}
    return found


def _changes(rows: list[list[str]], blankless: bool) -> tuple[tuple[re.Pattern[str], re.Pattern[str]], ...]:
    return tuple((_any_of(before, blankless), _any_of(after, blankless)) for before, after in rows)


def _any_of(text: str, blankless: bool) -> re.Pattern[str]:
    phrases = sorted(_phrases(text), key=len, reverse=True)
    inner = "|".join(re.escape(phrase).replace(r"\*", r"\w+") for phrase in phrases)
    return re.compile(inner if blankless else rf"(?<![\w'-])(?:{inner})(?![\w-])")


def language_of(*texts: str) -> str:
    """The language whose words are most frequent in the texts; English where none is."""
    if any(_CJK.search(text) for text in texts):
        return "ja" if any(_KANA.search(text) for text in texts) else "zh"
    scores = [sum(found) for found in zip(*map(_scores, texts), strict=True)]
    return LANGUAGES[scores.index(max(scores))]


_PORTUGUESE = re.compile(r"[a-zà-ÿ]-(?:me|te|se|lhes?)(?![\w-])")
"""A pronoun behind a hyphen: "chama-me"."""


@lru_cache(maxsize=4_000)
def _scores(text: str) -> tuple[int, ...]:
    """How many words of each language a text has."""
    words = [word for match in _TOKEN.finditer(text) if (word := match["word"])]
    pieces = [piece for word in words for piece in _AFTER_ELISION.split(word.casefold().replace("’", "'"))]
    scores = [0] * SPACED
    common = _common_words()
    for piece in pieces:
        for language in common.get(piece, ()):
            scores[language] += 1
    scores[LANGUAGES.index("pt")] += 2 * len(_PORTUGUESE.findall(text))
    return tuple(scores)


@cache
def _common_words() -> dict[str, tuple[int, ...]]:
    """The common words of all languages, each with the numbers of its languages."""
    found: dict[str, tuple[int, ...]] = {}
    for number, code in enumerate(LANGUAGES[:SPACED]):
        for word in words_of(code).common:
            found[word] = (*found.get(word, ()), number)
    return found


@lru_cache(maxsize=4_000)
def tokens_of(text: str, code: str) -> tuple[Token, ...]:
    """The tokens of a text with their labels."""
    words = words_of(code)
    text = text.replace("’", "'")
    raw = list(_pieces(text) if words.phrases is None else _runs(text, words.phrases))
    tokens: list[Token] = []
    place = clause = 0
    forced = -1
    while place < len(raw):
        kind, piece, starts = raw[place]
        size, labels = _labelled(raw, place, words) if kind in {"word", "phrase"} else (1, frozenset[str]())
        is_large = piece[:1].isupper() and not starts and code != "de" and not (code == "en" and piece == "I")
        if is_large and not labels <= _WRITTEN_LARGE:
            size, labels = 1, frozenset()  # "May", "Max", "Rose": a name, whatever the word means
        if size == 1 and piece.casefold() in words.apart:
            labels |= _labelled_apart(raw[place + 1 : place + 1 + FARTHEST], words.apart[piece.casefold()])
        whole = " ".join(each[1] for each in raw[place : place + size])
        folded = whole.casefold()
        if (kind == "mark" and piece in ",;:.!?()–—") or "break" in labels:
            clause += 1
        if folded == "am" and tokens and tokens[-1].kind in {"number", "clock"}:
            labels = frozenset({"function"})  # "10 am"
        if "must" in labels:
            forced = clause
        elif kind == "word" and not labels and forced == clause:
            labels = words.forms.get(words.stem(folded), labels)
        elif code == "en" and kind == "word" and not labels and _is_order(tokens, raw, place):
            labels = frozenset({"direct"})
        tokens.append(
            Token(
                text=folded,
                key=" ".join(map(words.stem, folded.split())) if kind == "word" else folded,
                kind="word" if kind == "phrase" else kind,
                labels=labels - {"ask"},
                place=len(tokens),
                clause=clause,
                is_name=kind == "word" and piece[:1].isupper() and not starts and not labels,
            )
        )
        place += size
    return tuple(tokens)


def _is_order(before: list[Token], raw: list[tuple[str, str, bool]], place: int) -> bool:
    """Whether an unknown word opens a sentence before an article or "my": "Sign my letters with"."""
    opens = all(token.text == "," or token.labels & {"now"} or token.text in _ASKED for token in before)
    following = raw[place + 1][1] if place + 1 < len(raw) else ""
    return opens and following in _BEHIND_AN_ORDER


_ASKED = frozenset("please always never".split())
_BEHIND_AN_ORDER = frozenset("the a an my me our us all any every your".split())


def _labelled_apart(following: list[tuple[str, str, bool]], phrases: tuple[tuple[str, str], ...]) -> set[str]:
    """The labels of a phrase whose last word comes later in the clause."""
    words: list[str] = []
    for kind, piece, _ in following:
        if kind == "mark":
            break
        words.append(piece.casefold())
    return {label for last, label in phrases if last in words}


def _labelled(raw: list[tuple[str, str, bool]], place: int, words: Words) -> tuple[int, frozenset[str]]:
    """How many pieces a phrase of the tables takes, and its labels."""
    folded = []
    for kind, piece, _ in raw[place : place + LONGEST_PHRASE]:
        if kind not in {"word", "phrase"}:
            break
        folded.append(piece.casefold())
    for size in range(len(folded), 0, -1):
        if (labels := words.labels.get(" ".join(folded[:size]))) is not None:
            return size, labels
    return 1, frozenset()


def _pieces(text: str) -> list[tuple[str, str, bool]]:
    """Kind and text of each piece, and whether it starts a sentence. "l'abonnement" is two."""
    pieces: list[tuple[str, str, bool]] = []
    starts = True
    for match in _TOKEN.finditer(text):
        kind, piece = str(match.lastgroup), match.group()
        is_short = kind == "phone" and piece[0] not in "+0" and sum(map(str.isdigit, piece)) < FEWEST_DIGITS
        kind = "id" if kind == "site" or is_short else kind
        if kind == "word" and (elided := _ELIDED.match(piece)) is not None:
            pieces.append(("word", elided.group(), starts))
            piece, starts = piece[elided.end() :], False
        if kind == "elided" or (piece == "." and _is_no_stop(pieces, text[match.end() :])):
            continue
        pieces.append((kind, piece, starts))
        starts = kind == "mark" and piece in ".!?:"
    return pieces


_SHORTENED = frozenset("st dr mr mrs ms prof no nr sr sra hr fr bzw ca dra dott vs".split())


def _is_no_stop(pieces: list[tuple[str, str, bool]], rest: str) -> bool:
    """Whether a full stop belongs to the piece before it: "4. Juni", "Dr. Bauer"."""
    if not pieces or rest[:1] != " " or not rest[1:2].isalpha():
        return False
    kind, piece, _ = pieces[-1]
    return (kind == "number" and len(piece) <= 2) or piece.casefold() in _SHORTENED


_CJK_VALUE = re.compile(
    r"(?P<cjkdate>\d{1,2}月(?:\d{1,2}[日号])?)|(?P<cjkday>(?:周|星期|礼拜)[一二三四五六日天]|[月火水木金土日]曜日?)"
    r"|(?P<cjkclock>(?:上午|下午|晚上|早上|午前|午後|夜)?[\d一二三四五六七八九十]{1,3}[点時](?:半|\d{1,2}分)?)"
    r"|(?P<cjkcount>(?:[\d,.]{1,12}[万千百]?|[一二三四五六七八九十百千万两]{2,8})(?:円|元|块|人|個|个|台|公斤|分钟|小时|天|年|本|枚|歳|岁|次|回|名|GB|kg|%))"
    r"|(?P<id>[A-Za-z]*-?\d[A-Za-z0-9_-]{0,12}|[A-Za-z][\w.-]{1,30})|(?P<mark>[。，、！？,.!?：:])"
)
_HIRAGANA = re.compile(r"[\u3040-\u309f]")


def _runs(text: str, phrases: re.Pattern[str]) -> list[tuple[str, str, bool]]:
    """The pieces of a text without blanks: values, phrases of the tables, and the runs of characters between them."""
    pieces: list[tuple[str, str, bool]] = []
    run, place = "", 0

    def end_run() -> None:
        nonlocal run
        if run:
            pieces.append(("word", run, False))
        run = ""

    while place < len(text):
        if (match := _CJK_VALUE.match(text, place)) is not None:
            end_run()
            kind = str(match.lastgroup)
            mark = {"。": ".", "，": ",", "、": ",", "！": "!", "？": "?", "：": ":"}.get(match.group(), match.group())
            pieces.append((kind, mark, False))
            place = match.end()
        elif (match := phrases.match(text, place)) is not None and match.group():
            end_run()
            pieces.append(("phrase", match.group(), False))
            place = match.end()
        else:
            if _HIRAGANA.match(text[place]) or text[place].isspace():
                end_run()  # an ending or a particle
            else:
                run += text[place]
            place += 1
    end_run()
    return pieces


def alike(one: str, other: str) -> bool:
    """Whether two stems are forms of one word."""
    if one == other:
        return True
    shortest = min(len(one), len(other))
    if shortest > 2 and one.removesuffix("s") == other.removesuffix("s"):
        return True
    if shortest < ALIKE or not (one.isalpha() and other.isalpha()):
        return False
    same = next((place for place in range(shortest) if one[place] != other[place]), shortest)
    return same >= ALIKE and same >= 0.7 * shortest and max(len(one), len(other)) - same <= 5
