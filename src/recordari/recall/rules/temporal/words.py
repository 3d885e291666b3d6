"""The words of time in English, and the scanner that turns a text into coded tokens.

The grammar (`grammar.py`) matches *token codes*, not characters: every word or number becomes one token whose `code` is a
single letter. A text becomes a short string such as ``"xiM"`` ("what happened in May"), and the regular expressions of the
grammar stay small, readable and linear. The letters:

======  ==========================  ======  ==========================  ======  ==========================
M E m   month (E name, m verb too)  W w     weekday (w: also a word)    S s     season (s: also a verb)
d       number of 1 or 2 digits     y       year of four digits         n z     other whole, broken number
c ~     number in words (~ vague)   a       a, an                       O o     ordinal in digits, in words
2       "second"                    U u     unit of a day or more, less P       part of a day
T       time of day                 D       full numeric date           k       month/day, weak ("5/12")
Y       year and month ("2023-05")  q       Q1…Q4, H1, H2               X       decade ("1990s")
h       the                         f       of                          i       in, during, over
t       on                          p       at, around                  j       half
L       last                        N       next                        H       this
A       ago                         B       before                      F       after
I       since, starting             J       until                       K       between
G       from                        Q       to, through                 & b     and, or
e       early, start                v       mid                         r       late, end
R       today, yesterday, tomorrow  g       tonight                     Z       now
C       holiday                     V       every                       l       "onwards"
%       working, business           ?       than                        x       any other word
======  ==========================  ======  ==========================  ======  ==========================

Punctuation keeps its sign (``,`` ``-`` ``/``); every other mark is ``.``.
"""

import re
from dataclasses import dataclass
from string import ascii_lowercase, ascii_uppercase
from typing import Final

from recordari.recall.rules.temporal.calendar import Period


def _numbered(names: str, start: int, step: int = 1) -> dict[str, int]:
    """The number of each name; names joined by "/" have the same one."""
    return {name: start + step * n for n, same in enumerate(names.split()) for name in same.split("/")}


_MONTHS: Final = _numbered(
    "january/jan february/feb march/mar april/apr may june/jun july/jul august/aug september/sep/sept october/oct "
    "november/nov december/dec",
    1,
)
# Given names are months beside a number or after a preposition; "may" and "march" need more.
_MONTH_CODES: Final = dict.fromkeys(("may", "march", "mar"), "m") | dict.fromkeys(
    ("april", "june", "august", "jan"), "E"
)

_WEEKDAYS: Final = _numbered(
    "monday/mon tuesday/tue/tues wednesday/wed/weds thursday/thu/thur/thurs friday/fri saturday/sat sunday/sun", 0
)
_DOUBTFUL_WEEKDAYS: Final = frozenset({"mon", "wed", "weds", "sat", "sun"})

_UNITS: Final = {
    "day": "day days",
    "week": "week weeks wk wks",
    "workweek": "workweek",
    "fortnight": "fortnight fortnights",
    "weekend": "weekend weekends",
    "month": "month months",
    "quarter": "quarter quarters",
    "year": "year years yr yrs",
    "decade": "decade decades",
    "century": "century centuries",
}
_SHORT_UNITS: Final = {"hour": "hour hours hr hrs", "minute": "minute minutes min mins", "second": "seconds secs"}

_ONES: Final = _numbered(
    "one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen "
    "nineteen",
    1,
)
_TENS: Final = _numbered("twenty thirty forty fifty sixty seventy eighty ninety", 20, 10)
_VAGUE_COUNTS: Final = _numbered("couple few several", 2)
_ORDINALS: Final = _numbered(
    "first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth thirteenth fourteenth fifteenth "
    "sixteenth seventeenth eighteenth nineteenth twentieth",
    1,
) | {"thirtieth": 30}
_WORD_DECADES: Final = _numbered("twenties thirties forties fifties sixties seventies eighties nineties", 20, 10)

_SIMPLE: Final = {
    "h": "the",
    "f": "of",
    "i": "in during over within throughout",
    "t": "on",
    "p": "at around about",
    "j": "half",
    "L": "last previous prior past",
    "N": "next coming upcoming following",
    "H": "this current",
    "A": "ago back",
    "B": "before",
    "F": "after",
    "I": "since starting beginning",
    "J": "until till by",
    "K": "between",
    "G": "from",
    "Q": "to through thru",
    "&": "and",
    "b": "or",
    "%": "working business work",
    "?": "than",
    "e": "early earlier start",
    "v": "mid middle",
    "r": "late end later",
    "R": "today yesterday tomorrow",
    "g": "tonight tonite",
    "Z": "now",
    "V": "every each",
    "l": "onwards onward",
}
_DAY_PARTS: Final = ("morning", "afternoon", "evening", "night", "noon", "midnight", "midday")
_SEASONS: Final = {name: name for name in ("spring", "summer", "autumn", "winter")} | {"fall": "autumn"}
_DOUBTFUL_SEASONS: Final = frozenset({"spring", "fall"})

Value = str | int | tuple[int, ...] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Word:
    """A token of the text, or several folded into one: its code, its meaning and its position."""

    code: str
    value: Value
    start: int
    end: int
    period: Period | None = None
    plural: bool = False


def _vocabulary() -> dict[str, tuple[str, Value]]:
    words: dict[str, tuple[str, Value]] = {}
    for code, names in _SIMPLE.items():
        words.update({name: (code, name) for name in names.split()})
    words.update({name: (_MONTH_CODES.get(name, "M"), number) for name, number in _MONTHS.items()})
    words.update({name: ("w" if name in _DOUBTFUL_WEEKDAYS else "W", number) for name, number in _WEEKDAYS.items()})
    words.update({name: ("s" if name in _DOUBTFUL_SEASONS else "S", season) for name, season in _SEASONS.items()})
    for code, units in (("U", _UNITS), ("u", _SHORT_UNITS)):
        words.update({name: (code, unit) for unit, names in units.items() for name in names.split()})
    words.update({name: ("P", name) for name in _DAY_PARTS})
    words.update({name: ("c", number) for name, number in (_ONES | _TENS).items()})
    words.update({name: ("~", number) for name, number in _VAGUE_COUNTS.items()})
    words.update({name: ("o", number) for name, number in _ORDINALS.items()})
    words.update({name: ("X", (decade,)) for name, decade in _WORD_DECADES.items()})
    words.update({"a": ("a", 1), "an": ("a", 1), "second": ("2", 2)})
    words.update({f"q{n}": ("q", (3, n)) for n in (1, 2, 3, 4)} | {f"h{n}": ("q", (6, n)) for n in (1, 2)})
    return words


VOCABULARY: Final = _vocabulary()

# Feast days of several words are one token.
_HOLIDAY_PHRASES: Final = {
    "new_year": r"new year'?s day|new year'?s(?! (?:eve|resolution))",
    "new_years_eve": r"new year'?s eve",
    "christmas_eve": r"(?:christmas|xmas) eve",
    "christmas": r"(?:christmas|xmas)(?: day)?",
    "boxing_day": r"boxing day",
    "valentine": r"(?:st\.? |saint )?valentine'?s(?: day)?",
    "st_patrick": r"(?:st\.? |saint )patrick'?s day",
    "april_fools": r"april fool'?s'?(?: day)?",
    "juneteenth": r"juneteenth",
    "independence_day": r"independence day",
    "halloween": r"halloween",
    "veterans_day": r"veteran'?s'? day",
    "palm_sunday": r"palm sunday",
    "good_friday": r"good friday",
    "easter_monday": r"easter monday",
    "easter": r"easter(?: sunday)?",
    "ash_wednesday": r"ash wednesday",
    "mlk_day": r"(?:mlk|martin luther king(?: jr\.?)?) day",
    "presidents_day": r"president'?s'? day",
    "mothers_day": r"mother'?s'? day",
    "fathers_day": r"father'?s'? day",
    "memorial_day": r"memorial day",
    "labor_day": r"labou?r day",
    "columbus_day": r"columbus day|indigenous peoples'? day",
    "thanksgiving": r"thanksgiving(?: day)?",
    "black_friday": r"black friday",
    "cyber_monday": r"cyber monday",
    "earth_day": r"earth day",
}

_HOLIDAYS: Final = re.compile("|".join(rf"(?P<{name}>(?:{phrase})\b)" for name, phrase in _HOLIDAY_PHRASES.items()))
# Trying every phrase at every word would be slow; these words can begin one.
_HOLIDAY_STARTS: Final = frozenset(
    """
    new christmas xmas boxing st saint valentine valentines juneteenth independence halloween veteran veterans april good
    palm easter ash mlk martin president presidents mother mothers father fathers memorial labor labour columbus indigenous
    thanksgiving black cyber earth
    """.split()
)

_AM_PM: Final = r"(?P<half{0}>[ap] ?\. ?m\b\.?|[ap]m\b)"

# Longest shapes first. Nothing inside repeats a repetition, so the scan is linear.
_NUMBERS: Final = "|".join(
    (
        r"(?P<iso>(?<!-)\d{4}-\d\d-\d\dt\d\d:\d\d(?::\d\d)?(?:\.\d{1,9})?(?:z|[+-]\d\d:?\d\d)?(?!\w))",
        r"(?P<ymd>(?<![./])(?:\d{4}/\d{1,2}/\d{1,2}|(?<!\d-)\d{4}[-.]\d{1,2}[-.]\d{1,2})(?![\w/])(?!-\d+(?![\d/])))",
        r"(?P<mdy>(?<![./])(?:\d{1,2}(?P<sep>[/.])\d{1,2}(?P=sep)|(?<!\d-)\d{1,2}-\d{1,2}-)(?:\d{4}|\d\d)(?![\w/])(?!\.\d))",
        r"(?P<ym>(?<![./])(?<!\d-)(?:19|20)\d\d[-/](?:1[0-2]|0?[1-9])(?![\w/-]))",
        r"(?P<my>(?<![./])(?<!\d-)(?:1[0-2]|0?[1-9])[-/](?:19|20)\d\d(?![\w/-]))",
        r"(?P<clock>(?<![.:])\d{1,2}:\d\d(?::\d\d)? ?" + _AM_PM.format(1) + r"?(?!\w|:\d))",
        r"(?P<hour>(?<![.:])\d{1,2}(?:\.\d\d)? ?\.?" + _AM_PM.format(2) + r"(?!\w))",
        r"(?P<oclock>(?<![.:])\d{1,2} ?o'?clock\b)",
        r"(?P<serial>\d+(?:-\d+){2,}|(?<!-)\d{1,2}-\d{4}(?!\d))",
        r"(?P<md>(?<![./])(?:1[0-2]|0?[1-9])/(?:3[01]|[12]\d|0?[1-9])(?![\w/])(?!\.\d))",
        r"(?P<dm>(?<![./])(?:3[01]|2\d|1[3-9])/(?:1[0-2]|0?[1-9])(?![\w/])(?!\.\d))",
        r"(?P<decade>(?<!\.)(?:(?:1[5-9]|20)\d0|[2-9]0)'?s\b)",
        r"(?P<compact>20[0-4]\d(?:0[1-9]|1[0-2])(?:0[1-9]|[12]\d|3[01])(?!\w))",
        r"(?P<ordinal>\d{1,2}(?:st|nd|rd|th)\b)",
        r"(?P<number>\d+(?:[.,]\d+)*(?![\w%]))",
    )
)
SCANNER: Final = re.compile(
    r"(?=\d)(?<!\w)(?:" + _NUMBERS + r")|(?P<word>\w+(?:'\w+)?)|(?P<money>[$£€#] ?\d[\d.,]*)|(?P<mark>[-/,.@()?!;:])"
)
# Not str.lower(): it changes the length of some texts, and positions must stay those of the original.
_PLAIN: Final = str.maketrans(ascii_uppercase + "’–—~", ascii_lowercase + "'---")
_MARKS: Final = {"-": "-", "/": "/", ",": ",", "@": "p"}
_DIGITS: Final = re.compile(r"\d+")


def scan(text: str, offset: int = 0) -> list[Word]:
    """Split a text into coded words, in order; `offset` is added to their positions."""
    plain = text.translate(_PLAIN)
    words: list[Word] = []
    done = 0
    for match in SCANNER.finditer(plain):
        start, end = match.span()
        if start < done:  # inside a feast day of several words
            continue
        code, value = coded(match)
        if match.group().partition("'")[0] in _HOLIDAY_STARTS and (feast := _HOLIDAYS.match(plain, start)):
            code, value, end = "C", feast.lastgroup, feast.end()
        done = end
        if code == "x" and words and words[-1].code == "x":
            words.pop()  # of a run of other words only the last can matter to the grammar
        plural = code in "Uu" and match.group().endswith("s")
        words.append(Word(code=code, value=value, start=start + offset, end=end + offset, plural=plural))
    return join_numbers(words)


def coded(match: re.Match[str]) -> tuple[str, Value]:
    """The code and the value of a token of the scanner."""
    kind, text = str(match.lastgroup), match.group()
    if kind == "word":
        text = text.removesuffix("'s")  # "today's", "this week's"
        return VOCABULARY.get(text, ("x", text))
    if kind == "mark":
        return _MARKS.get(text, "."), text
    if kind in ("money", "serial"):
        return "x", text
    return _classify_number(kind, text, match)


def _classify_number(kind: str, text: str, match: re.Match[str]) -> tuple[str, Value]:
    parts = tuple(int(digits) for digits in _DIGITS.findall(text)[:6])
    match kind:
        case "mdy":
            return "D", _year_last(parts, text)
        case "compact":
            return "D", (int(text[:4]), int(text[4:6]), int(text[6:]))
        case "my" | "dm":
            return "Y" if kind == "my" else "k", parts[::-1]
        case "iso" | "ymd" | "ym" | "md" | "decade":
            return {"iso": "D", "ymd": "D", "ym": "Y", "md": "k", "decade": "X"}[kind], parts
        case "ordinal":
            return "O", parts[0]
        case "clock" | "hour" | "oclock":
            return _time_of_day(parts, match.group("half1") or match.group("half2"))
        case _:
            return _plain_number(text)


def _year_last(parts: tuple[int, ...], text: str) -> tuple[int, ...]:
    first, second, year = parts
    if not text[-3].isdigit():  # a year of two digits
        year += 2000 if year < 70 else 1900
    # 5/12/2023 is American; 5.12.2023 and 23/12/2023 are not.
    month_first = second > 12 or (first <= 12 and "." not in text)
    return (year, first, second) if month_first else (year, second, first)


def _time_of_day(parts: tuple[int, ...], half: str | None) -> tuple[str, Value]:
    """Hour, minute, second, how many of them the text has, and whether the half of the day is open (1) or known (0)."""
    hour, minute, second = (*parts, 0, 0)[:3]
    if hour > 24 or minute > 59 or second > 59 or (half and hour > 12):
        return "x", None
    if half:
        hour = hour % 12 + (12 if half[0] == "p" else 0)
    is_open = 0 if half or not 1 <= hour <= 12 else 1
    return "T", (hour % 24, minute, second, len(parts), is_open)


def _plain_number(text: str) -> tuple[str, Value]:
    if not text.isdecimal() or len(text) > 9:
        return "z", text
    number = int(text)
    if len(text) <= 2:
        return "d", number
    return ("y" if len(text) == 4 and 1500 <= number <= 2100 else "n"), number


def join_numbers(words: list[Word]) -> list[Word]:
    """Make one token of a number of several words: "twenty-five", "a couple of", "nineteen eighty six"."""
    if not any(word.code in "c~" for word in words):
        return words
    joined: list[Word] = []
    index = 0
    while index < len(words):
        length, code, value = _spelled(words, index) if words[index].code in "ac~" else (1, "", None)
        first, last = words[index], words[index + length - 1]
        joined.append(Word(code=code, value=value, start=first.start, end=last.end) if code else first)
        index += length
    return joined


def _spelled(words: list[Word], index: int) -> tuple[int, str, Value]:
    """Length, code and value of the spelled number that starts at `index` (code "" when there is none)."""
    tail = words[index : index + 8]
    if tail[0].code in "a~":
        article = 1 if tail[0].code == "a" else 0
        if len(tail) <= article or tail[article].code != "~":
            return 1, "", None
        preposition = 1 if len(tail) > article + 1 and tail[article + 1].code == "f" else 0
        return article + 1 + preposition, "~", tail[article].value
    used, number = _below_hundred(tail, 0)
    following = tail[used] if used < len(tail) else None
    if number % 10 == 0 and number >= 20:
        hyphen = 1 if following and following.code == "-" else 0
        ordinal = tail[used + hyphen] if used + hyphen < len(tail) else None
        if ordinal and ordinal.code in "o2" and isinstance(ordinal.value, int) and ordinal.value < 10:
            return used + hyphen + 1, "o", number + ordinal.value
    if following and following.value in ("thousand", "hundred") and following.code == "x":
        return _thousands(tail, used, number * (1000 if following.value == "thousand" else 100))
    if number in (18, 19, 20) and following and following.code == "c":
        extra, rest = _below_hundred(tail, used)
        if rest >= 10:
            return used + extra, "y", number * 100 + rest
    return used, "c", number


def _below_hundred(tail: list[Word], at: int) -> tuple[int, int]:
    number = tail[at].value
    assert isinstance(number, int)
    hyphen = 1 if at + 1 < len(tail) and tail[at + 1].code == "-" else 0
    ones = tail[at + 1 + hyphen] if at + 1 + hyphen < len(tail) else None
    if number >= 20 and ones and ones.code == "c" and isinstance(ones.value, int) and ones.value < 10:
        return 2 + hyphen, number + ones.value
    return 1, number


def _thousands(tail: list[Word], used: int, base: int) -> tuple[int, str, Value]:
    used += 1
    joint = 1 if used < len(tail) and tail[used].code == "&" else 0
    if used + joint < len(tail) and tail[used + joint].code == "c":
        extra, rest = _below_hundred(tail, used + joint)
        used, base = used + joint + extra, base + rest
    return used, "y" if 1500 <= base <= 2100 else "n", base
