"""Reads a question in any language that has a table, as coded English words in English order."""

import re
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from typing import Final

from recordari.recall.rules.temporal.east_asian import CHINESE, JAPANESE
from recordari.recall.rules.temporal.germanic import DUTCH, GERMAN
from recordari.recall.rules.temporal.language import LONGEST_PHRASE, Language, Order, fold
from recordari.recall.rules.temporal.romance import FRENCH, ITALIAN, PORTUGUESE, SPANISH
from recordari.recall.rules.temporal.words import SCANNER, VOCABULARY, Word, coded, join_numbers, scan

_SPACED: Final = (GERMAN, DUTCH, FRENCH, SPANISH, PORTUGUESE, ITALIAN)
_ENGLISH: Final = frozenset(
    """the a an of and is was were are who what which where when how did do does we i you my our your with
        for from on in at to not he she they it that this there has have had about all any been be by me his
        her their its as if or but so then last next ago yesterday today tomorrow since before after between
        until am will would can could should may might let go get got show please some no yes up out off more
        most just than who why""".split()
) | frozenset(VOCABULARY)
_KANA: Final = re.compile("[\u3041-\u3096\u30a1-\u30fa]")
_HAN: Final = re.compile("[\u4e00-\u9fff]")
_LETTERS: Final = re.compile(r"[^\W\d_]+")
_NAMED: Final = frozenset("WMSC")  # what can be a person's name too
# In a language that writes every noun with a capital, a name of the calendar needs one of these before it.
_BESIDE_TIME: Final = frozenset("titpIBFJGKLNHhevrQ&-bioO2dy.f")
# Chinese and Japanese: dates, weekdays, quarters and numbers have a shape; everything else is in the table.
_SHAPES: Final = re.compile(
    r"(?P<date>(?P<y>\d{4})年(?P<m>\d{1,2})月(?P<d>\d{1,2})[日号號])"
    r"|(?P<year>\d{4})年(?!間|前|間)"
    r"|(?P<month>\d{1,2}|[一二三四五六七八九]|十[一二]?)月(?:(?P<day>\d{1,2}|[一二三四五六七八九十]{1,3})[日号號])?"
    r"|(?P<which>上上|上|下|这|這|本)?[个個]?(?:周|星期|礼拜|週)(?P<weekday>[一二三四五六日天])(?![天个個周月年])"
    r"|(?P<youbi>[月火水木金土日])曜(?:日|(?=[のにはもがをと、。？?\s]|$))"
    r"|第?(?P<nth>[一二三四1-4])(?:季度|四半期)"
    r"|(?P<number>\d+(?!\d))"
    r"|(?P<numeral>[一二三四五六七八九十]+)"
)
_NUMERALS: Final = {numeral: value for value, numeral in enumerate("一二三四五六七八九十", 1)}
_SKIPPED: Final = frozenset("の的 　")
_WHICH_WEEK: Final = {"上": "last week", "上上": "", "下": "next week"}
_NAME_ENDS: Final = re.compile("餐厅|餐廳|酒店|饭店|酒吧|公司|俱乐部|乐队|书店|咖啡")


def read_words(text: str, offset: int = 0) -> list[Word]:
    """The coded words of a text; those of another language are put into English words and order."""
    language = language_of(text)
    if language is None:
        return scan(text, offset)
    words = list(_unspaced(text, language) if language.capitals == "none" else _spaced(text, language))
    words = join_numbers(_without_runs(words))
    for rule in language.order:
        words = _reordered(words, rule)
    return [replace(word, start=word.start + offset, end=word.end + offset) for word in words]


def language_of(text: str) -> Language | None:
    """The language of a text, by its script or its frequent words; None for English and for those without a table."""
    if not text.isascii() and _HAN.search(text):
        return JAPANESE if _KANA.search(text) else CHINESE
    words = _LETTERS.findall(fold(text))
    accented = [] if text.isascii() else _LETTERS.findall(text.lower())
    best, most = None, sum(word in _ENGLISH for word in words)
    if not accented and not any(word in _foreign_words() for word in words):
        return None
    for language in _SPACED:
        count = sum(word in language.words for word in words) + sum(word in language.accented for word in accented)
        if count > most or (count == most and best is None and count and _is_only_in(language, words)):
            best, most = language, count
    return best


@cache
def _foreign_words() -> frozenset[str]:
    """The words of all languages together: most English questions have none of them."""
    return frozenset(word for language in _SPACED for word in language.words)


def _is_only_in(language: Language, words: list[str]) -> bool:
    """Whether every English word of a text is one of the language too, and another word is not English."""
    return all(word in language.words for word in words if word in _ENGLISH) and any(
        word in language.words and word not in _ENGLISH for word in words
    )


@cache
def _english(phrase: str) -> tuple[Word, ...]:
    """The coded words of an English phrase of a table; there, a month is never a verb."""
    certain = {"E": "M", "m": "M", "s": "S", "w": "W"}
    return tuple(replace(word, code=certain.get(word.code, word.code)) for word in scan(phrase))


def _placed(phrase: str, start: int, end: int) -> Iterator[Word]:
    for word in _english(phrase):
        yield replace(word, start=start, end=end)


def _spaced(text: str, language: Language) -> Iterator[Word]:
    """The words of a language that is written with spaces."""
    plain = fold(text)
    tokens = list(SCANNER.finditer(plain))
    spans = [span for token in tokens for span in _parts(token, plain, language)]
    index, before = 0, ""
    while index < len(spans):
        start, end, token = spans[index]
        used, english = _phrase(plain, spans, index, language)
        if english:
            end = spans[index + used - 1][1]
            following = plain[end : end + 6].strip()
            found = list(_placed(english, start, end))
            if _is_name(text[start:end], found, before, following, language):
                found = [Word(code="x", value=None, start=start, end=end)]
        elif token is None:
            found = [Word(code="x", value=None, start=start, end=end)]
        else:
            code, value = coded(token)
            foreign = token.lastgroup == "word"  # an English word of time is none in another language
            found = [Word(code="x" if foreign else code, value=value, start=start, end=end)]
        yield from found
        before = found[-1].code if found else before
        index += used


def _parts(token: re.Match[str], plain: str, language: Language) -> list[tuple[int, int, re.Match[str] | None]]:
    """A token; "l'année" and "15h30" are several."""
    start, end = token.span()
    text = token.group()
    if token.lastgroup != "word" or text in language.phrases:
        return [(start, end, token)]
    if "'" in text:
        cut = start + text.index("'") + 1
        return [(start, cut, None), (cut, end, None)]
    if hours := re.fullmatch(r"(\d{1,2})h(\d\d)?", text):
        number = SCANNER.match(f"{hours[1]}:{hours[2]}" if hours[2] else hours[1])
        rest = [] if hours[2] else [(end - 1, end, None)]
        return [(start, end - len(rest), number), *rest]
    return [(start, end, token)]


def _phrase(
    plain: str, spans: list[tuple[int, int, re.Match[str] | None]], index: int, language: Language
) -> tuple[int, str]:
    """How many tokens the longest phrase at `index` has, and its English words."""
    for length in range(min(LONGEST_PHRASE, len(spans) - index), 0, -1):
        words = " ".join(plain[spans[index][0] : spans[index + length - 1][1]].split())
        if (english := language.phrases.get(words)) is not None:
            return length, english
    return 1, ""


def _is_name(text: str, found: list[Word], before: str, following: str, language: Language) -> bool:
    """Whether a word of the calendar is somebody's name: "Mme Avril", "Frau Freitag", "Rio de Janeiro"."""
    if len(found) != 1 or found[0].code not in _NAMED or not text[:1].isupper() or not before:
        return False
    dated = following[:1].isdigit()
    return not dated and (language.capitals == "names" or before not in _BESIDE_TIME)


def _unspaced(text: str, language: Language) -> Iterator[Word]:
    """The words of a language that is written without spaces."""
    plain = text.translate(_HALF_WIDTH)
    index = 0
    while index < len(plain):
        phrase = next(
            (plain[index:end] for end in range(index + 7, index, -1) if plain[index:end] in language.phrases), ""
        )
        shape = _SHAPES.match(plain, index)
        if shape and len(shape.group()) >= len(phrase) and not _NAME_ENDS.match(plain, shape.end()):
            yield from _shaped(shape)
            index = shape.end()
        elif phrase:
            yield from _placed(language.phrases[phrase], index, index + len(phrase))
            index += len(phrase)
        else:
            if plain[index] not in _SKIPPED:
                yield Word(code="x", value=plain[index], start=index, end=index + 1)
            index += 1 if not shape else len(shape.group())


_HALF_WIDTH: Final = str.maketrans("０１２３４５６７８９", "0123456789")


def _shaped(shape: re.Match[str]) -> Iterator[Word]:
    start, end = shape.span()
    found = {name: value for name, value in shape.groupdict().items() if value}
    if "date" in found:
        yield Word(code="D", value=tuple(int(found[name]) for name in "ymd"), start=start, end=end)
    elif "year" in found:
        yield Word(code="y", value=int(found["year"]), start=start, end=end)
    elif "month" in found:
        yield Word(code="M", value=_numeral(found["month"]), start=start, end=end)
        if "day" in found:
            yield Word(code="O", value=_numeral(found["day"]), start=start, end=end)
    elif "weekday" in found or "youbi" in found:
        names, name = (
            ("一二三四五六日", found["weekday"].replace("天", "日"))
            if "weekday" in found
            else ("月火水木金土日", found["youbi"])
        )
        if which := found.get("which"):
            yield from _placed(_WHICH_WEEK.get(which, "this week"), start, end)
        yield Word(code="W", value=names.index(name), start=start, end=end)
    elif "nth" in found:
        yield Word(code="o", value=_numeral(found["nth"]), start=start, end=end)
        yield from _placed("quarter", start, end)
    elif "number" in found and len(found["number"]) <= 9:
        yield Word(code="d" if len(found["number"]) <= 2 else "n", value=int(found["number"]), start=start, end=end)
    elif "numeral" in found:
        yield Word(code="c", value=_numeral(found["numeral"]), start=start, end=end)


def _numeral(text: str) -> int:
    """十二 is 12, 三十 is 30."""
    if text.isdigit():
        return int(text)
    tens, ten, ones = text.rpartition("十")
    return (_NUMERALS.get(tens[-1:], 1) * 10 if ten else 0) + _NUMERALS.get(ones[-1:], 0)


def _without_runs(words: list[Word]) -> list[Word]:
    """Of a run of other words only the last can matter to the grammar."""
    return [
        word
        for word, following in zip(words, [*words[1:], None], strict=True)
        if word.code != "x" or following is None or following.code != "x"
    ]


def _reordered(words: list[Word], rule: Order) -> list[Word]:
    """Apply one rule of word order wherever it matches; a group that the pattern lacks is an English word."""
    pattern, groups = rule
    codes = "".join(word.code for word in words)
    result: list[Word] = []
    done = 0
    for match in pattern.finditer(codes):
        result.extend(words[done : match.start()])
        start, end = words[match.start()].start, words[match.end() - 1].end
        for group in groups:
            taken = (
                words[slice(*match.span(group))] if group in pattern.groupindex else list(_placed(group, start, end))
            )
            result.extend(replace(word, start=start, end=end) for word in taken)
        done = match.end()
    return [*result, *words[done:]]
