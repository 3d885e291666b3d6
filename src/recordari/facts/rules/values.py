"""Values in a statement by what they measure: dates, times, money, durations, counts, numbers, contacts, languages."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from recordari.facts.rules.grammar import Token, Words

CALENDAR = frozenset({"date", "weekday", "day"})
SCHEDULE = CALENDAR | {"clock"}
HALF_DAY = 12 * 60
_CURRENCIES = frozenset(
    """euro euros eur dollar dollars usd pound pounds gbp franken francs franc chf yen kronor crowns dólares libras dollari
    sterline dollarn pfund cent cents real reais pesos złoty""".split()
)
_SECONDS = {
    "seconds": 1, "minutes": 60, "hours": 3_600, "daily": 86_400, "weekly": 604_800, "monthly": 2_592_000,
    "yearly": 31_536_000,
}  # fmt: skip
_MEASURE = re.compile(r"^([\d.,]+)\s?(\D+)$")
_TIMES = {
    "once": "1", "twice": "2", "thrice": "3", "einmal": "1", "zweimal": "2", "dreimal": "3", "viermal": "4", "eenmaal": "1",
    "tweemaal": "2", "driemaal": "3",
}  # fmt: skip
_PER = frozenset("a an per every each pro in im die par por al à a la".split())
_EVERY = frozenset("every each jeden jede jedes alle chaque cada ogni elke iedere".split())
_TIMES_WORDS = frozenset("times mal fois veces vezes volte keer".split())
_FRACTION = re.compile(r"^(?:1/)?[1-9]\d{0,3}$", re.ASCII)
_ROUGHLY = frozenset("about around nearly almost over".split())
_FIGURE = re.compile(r"^\d+(?:\.\d+)?$", re.ASCII)
_ORDINAL = re.compile(r"^(\d{1,2})(?:st|nd|rd|th|er|º|ª|e)$")
_THOUSANDS = re.compile(r"^\d{1,3}(?:[.,]\d{3})+$")
_JOINING = frozenset("of de del den the der le el il op".split())
_BEFORE_MONTH = frozenset(
    "in until since by of from till before after early mid late end en im em a bis seit de for to due".split()
)


@dataclass(frozen=True, slots=True)
class Value:
    kind: str
    unit: str
    amount: str | tuple[int | None, ...]
    place: int
    end: int

    def differs(self, other: Value) -> bool:
        """Whether both cannot be meant by one value. A date without its day agrees with each day of the month."""
        if isinstance(self.amount, tuple) and isinstance(other.amount, tuple):
            pairs = zip(self.amount, other.amount, strict=True)
            return any(one is not None and two is not None and one != two for one, two in pairs)
        return self.amount != other.amount


def values_of(tokens: Sequence[Token], words: Words, verb: int) -> tuple[Value, ...]:
    """The values of a statement, in order."""
    found: list[Value] = []
    place = _numbering(tokens)
    while place < len(tokens):
        value = _value_at(tokens, place, words, verb)
        if value is None:
            place += 1
        else:
            found.append(value)
            place = value.end
    return tuple(found)


def _numbering(tokens: Sequence[Token]) -> int:
    """How many tokens number a line that was pasted: "6. The …", "1908 – Ford …", "118 In my opinion"."""
    if len(tokens) < 2 or tokens[0].kind != "number":
        return 0
    after = tokens[1]
    return 1 if after.kind == "mark" or after.is_name or "function" in after.labels else 0


def _value_at(tokens: Sequence[Token], place: int, words: Words, verb: int) -> Value | None:
    token = tokens[place]
    date = _date(tokens, place, words)
    if date is not None:
        return date
    match token.kind:
        case "mail" | "phone":
            return Value("contact", token.kind, re.sub(r"[^\w@.+*]", "", token.text), place, place + 1)
        case "clock":
            return _clock(tokens, place, *_hour_and_minute(token.text), words)
        case "money":
            return Value("money", "", _amount(token.text.strip("$€£ ")), place, place + 1)
        case "cjkday" | "cjkclock" | "cjkdate" | "cjkcount":
            return _blankless(token, place)
        case "measure" if (match := _MEASURE.match(token.text)) is not None:
            if (
                match[2] == "h"
                and words.code in {"fr", "pt", "es"}
                and place
                and _leads_to_clock(tokens[place - 1], words)
            ):
                return _clock(tokens, place, match[1], "0", words)
            return _measured(_amount(match[1]), match[2], place, place + 1, words, tokens)
    if token.kind == "id" and place > verb and _is_code(token, tokens[place - 1]):
        return Value("code", "", token.text, place, place + 1)
    if (half := _half_hour(tokens, place, words)) is not None:
        return half
    if (often := _frequency(tokens, place, words)) is not None:
        return often
    if (number := _number(tokens, place, words)) is not None:
        over = [each.text for each in tokens[place + 1 : place + 3]]
        if len(over) == 2 and over[0] == "over" and over[1].isdecimal() and number.isdecimal():
            return Value("number", "", f"{number}/{over[1]}", place, place + 3)  # a blood pressure
        return _numbered(tokens, place, number, words, verb)
    if token.text in {"a", "an"} and (hour := _single(tokens, place, words)) is not None:
        return hour
    if (weekday := _weekday(token.text, words)) is not None:
        return Value("weekday", "", str(weekday), place, place + 1)
    if token.text in words.values["days"]:
        return Value("day", "", token.text, place, place + 1)
    if "languages" in token.labels and any("reply" in each.labels for each in tokens):
        return Value("language", "", token.key, place, place + 1)
    return None


def _half_hour(tokens: Sequence[Token], place: int, words: Words) -> Value | None:
    """ "Half past seven", "quarter to nine", "halb acht", "Viertel nach drei"."""
    shift, at = _PARTS_OF_HOUR.get(tokens[place].text, 0), place + 1
    if not shift or at >= len(tokens) or words.code not in {"en", "de", "nl"}:
        return None
    if tokens[at].text in _PAST_OR_TO:
        shift, at = shift * _PAST_OR_TO[tokens[at].text], at + 1
    elif words.code == "en" or shift == 15:
        return None
    else:
        shift = -shift
    hour = _number(tokens, at, words) if at < len(tokens) else None
    if hour is None or not hour.isdecimal() or not 1 <= int(hour) <= HALF_DAY // 60:
        return None
    minutes = int(hour) * 60 + shift
    return _clock(tokens, place, str(minutes // 60), str(minutes % 60), words, end=at + 1)


_PARTS_OF_HOUR = {"half": 30, "quarter": 15, "halb": 30, "viertel": 15, "kwart": 15}
_PAST_OR_TO = {"past": 1, "to": -1, "nach": 1, "vor": -1, "over": 1, "voor": -1}


def _frequency(tokens: Sequence[Token], place: int, words: Words) -> Value | None:
    """How often: "every two weeks", "three times a day", "once a month"; as the seconds between."""
    at, times = place, "1"
    if tokens[place].text in _EVERY:
        at += 1
        number = _number(tokens, at, words) if at < len(tokens) else None
        if number is not None:
            times, at = f"1/{number}", at + 1
    elif tokens[place].text in _TIMES:
        times, at = _TIMES[tokens[place].text], place + 1
    elif (number := _number(tokens, place, words)) is not None:
        if place + 1 >= len(tokens) or tokens[place + 1].text not in _TIMES_WORDS:
            return None
        times, at = number, place + 2
    else:
        return None
    if tokens[place].text not in _EVERY:
        if at >= len(tokens) or tokens[at].text not in _PER:
            return None
        at += 1
    unit = next((value for name, value in _SECONDS.items() if _is_unit(tokens, at, name, words)), None)
    count = Fraction(times) if _FRACTION.match(times) else Fraction(0)
    if unit is None or not count:
        return None
    return Value("frequency", "", f"{float(unit / count):g}", place, at + 1)


def _is_unit(tokens: Sequence[Token], at: int, name: str, words: Words) -> bool:
    return at < len(tokens) and tokens[at].text in words.values[name]


def _leads_to_clock(before: Token, words: Words) -> bool:
    return before.text.split()[-1] in words.values["clock_before"]


def _is_code(token: Token, before: Token) -> bool:
    """Whether an identifier is a value: "the password is bluefish9"."""
    is_plain = not _ORDINAL.match(token.text) and any(letter.isdigit() or letter == "#" for letter in token.text)
    return is_plain and ("be" in before.labels or before.text.split()[-1] in {"to", "换成", "改成", "改为"})


def _single(tokens: Sequence[Token], place: int, words: Words) -> Value | None:
    """ "About an hour" is one hour; "10 euros an hour" is not."""
    if words.code != "en" or not place or place + 1 >= len(tokens) or tokens[place - 1].text not in _ROUGHLY:
        return None
    value = _measured("1", tokens[place + 1].text, place, place + 2, words, tokens)
    return value if value.kind == "duration" else None


def _counts_one(tokens: Sequence[Token], place: int) -> bool:
    """ "One dog", not "one of them" and not "the one"."""
    before = tokens[place - 1].text if place else ""
    after = tokens[place + 1] if place + 1 < len(tokens) else None
    return before not in _NOT_COUNTED and after is not None and after.kind == "word" and "function" not in after.labels


_NOT_COUNTED = frozenset("no the this that which every any each another".split())


def _number(tokens: Sequence[Token], place: int, words: Words) -> str | None:
    """The amount of a number in digits or words."""
    token = tokens[place]
    if token.kind == "number":
        return _amount(token.text)
    if token.kind == "id" and (match := _ORDINAL.match(token.text)) is not None:
        return match[1]
    if token.kind != "word" or "be" in token.labels:
        return None
    numbers, tens = words.values["numbers"], words.values["tens"]
    if token.text in numbers and numbers[token.text] > 1:
        return str(numbers[token.text])
    if token.text == "one" and words.code == "en" and _counts_one(tokens, place):
        return "1"
    head, _, tail = token.text.partition("-")
    if head in tens and (not tail or tail in numbers):
        return str(20 + 10 * tens[head] + numbers.get(tail, 0))
    return None


def _amount(text: str) -> str:
    if _THOUSANDS.match(text):
        return re.sub(r"[.,]", "", text)
    return text.replace(",", ".").strip(".").casefold()


def _numbered(tokens: Sequence[Token], place: int, number: str, words: Words, verb: int) -> Value:
    before = tokens[place - 1] if place else None
    after = tokens[place + 1] if place + 1 < len(tokens) else None
    is_hour = number.isdecimal() and int(number) <= 24
    if before is not None and before.text in _CURRENCIES:
        return Value("money", "", number, place, place + 1)
    if after is not None and after.kind == "word":
        if after.text in words.values["clock_after"] and is_hour:
            return _clock(tokens, place, number, "0", words, end=place + 2)
        measured = _measured(number, after.text, place, place + 2, words, tokens)
        if measured.kind != "count":
            return measured
    is_unit = after is not None and (not after.is_name or len(after.text) <= 3 or words.code == "de")
    is_counted = after is not None and after.is_content and is_unit and after.kind == "word"
    is_led = is_hour and before is not None and _leads_to_clock(before, words)
    if is_led and not is_counted and not _is_street(tokens, place, words):
        return _clock(tokens, place, number, "0", words)
    is_label = before is not None and before.kind == "word" and (before.is_content or "limit" in before.labels)
    is_label = is_label and before is not None and "act" not in before.labels  # "the room holds 10"
    if is_label and before is not None and (place <= verb or not is_counted or (before.is_name and words.code != "de")):
        return Value("number", before.key, number, place, place + 1)
    if is_counted and after is not None:
        return Value("count", after.key, number, place, place + 2)
    if (
        len(number) == 4
        and number[:2] in {"19", "20"}
        and tokens[place].kind == "number"
        and before is not None
        and "function" in before.labels
    ):
        return Value("date", "", (int(number), None, None), place, place + 1)
    return Value("number", "", number, place, place + 1)


def _is_street(tokens: Sequence[Token], place: int, words: Words) -> bool:
    """ "At 12 Dock Street": a name follows that is no day and no month."""
    after = tokens[place + 1] if place + 1 < len(tokens) else None
    if after is None or not after.is_name or words.code == "de":
        return False
    return _weekday(after.text, words) is None and after.text not in words.values["months"]


def is_house_number(value: Value, tokens: Sequence[Token], words: Words) -> bool:
    return value.kind == "number" and not value.unit and _is_street(tokens, value.place, words)


def _rate(tokens: Sequence[Token], end: int) -> str:
    """Whether a duration is one of many: "30 minutes every day"."""
    is_each = end < len(tokens) and tokens[end].text in _EACH
    return "each" if is_each and (end + 1 == len(tokens) or tokens[end + 1].text != "way") else ""


_EACH = frozenset("each every per daily täglich jeden pro chaque par cada ogni elke".split())


def _measured(number: str, unit: str, place: int, end: int, words: Words, tokens: Sequence[Token] = ()) -> Value:
    if unit in _CURRENCIES:
        return Value("money", "", number, place, end)
    for name, seconds in _SECONDS.items():
        if unit in words.values[name]:
            amount = f"{float(number) * seconds:g}" if _FIGURE.match(number) else number
            return Value("duration", _rate(tokens, end), amount, place, end)
    return Value("count", words.stem(unit), number, place, end)


def _hour_and_minute(text: str) -> tuple[str, str]:
    hour, minute = re.split(r"[:.h]", text, maxsplit=1)
    return hour, minute


def _clock(tokens: Sequence[Token], place: int, hour: str, minute: str, words: Words, end: int | None = None) -> Value:
    """A time of day. Twelve hours more in the evening; without such a word, the hours of both halves agree."""
    end = end or place + 1
    if end < len(tokens) and tokens[end].text in words.values["clock_after"]:
        end += 1
    minutes = int(hour) * 60 + int(minute or 0)
    near = {word for token in tokens[place : place + 4] for word in token.text.split()}
    if minutes <= HALF_DAY and not near.isdisjoint(words.values["evening"]):
        minutes = minutes % HALF_DAY + HALF_DAY
    is_exact = minutes > HALF_DAY or not near.isdisjoint({"am", "a.m."})
    return Value("clock", "", (minutes % HALF_DAY, int(minutes >= HALF_DAY) if is_exact else None, None), place, end)


def _weekday(text: str, words: Words) -> int | None:
    for name in ("weekdays", "weekdays_more"):
        for form in (text, text.removesuffix("s"), text.partition("-")[0]):
            if form in words.values[name]:
                return words.values[name][form]
    return None


def _date(tokens: Sequence[Token], place: int, words: Words) -> Value | None:
    token = tokens[place]
    if token.kind == "iso":
        return Value("date", "", tuple(int(part) for part in token.text.split("-")), place, place + 1)
    day, at = _day(tokens, place, words)
    if at >= len(tokens) or tokens[at].text not in words.values["months"]:
        return None
    month = words.values["months"][tokens[at].text] + 1
    before = tokens[at - 1].text.split()[-1] if at else ""
    end = at + 1
    if day is None and end < len(tokens) and (number := _day_number(tokens[end])) is not None:
        day, end = number, end + 1
    year, end = _year(tokens, end)
    if day is None and year is None and tokens[at].labels and before not in _BEFORE_MONTH:
        return None  # "may" and "march" are also verbs
    return Value("date", "", (year, month, day), place, end)


def _day(tokens: Sequence[Token], place: int, words: Words) -> tuple[int | None, int]:
    """The day before a month, and where the month is."""
    number = _day_number(tokens[place])
    if number is None:
        return None, place
    at = place + 1
    while at < len(tokens) and tokens[at].text in _JOINING:
        at += 1
    return (number, at) if at < len(tokens) and tokens[at].text in words.values["months"] else (None, place)


def _day_number(token: Token) -> int | None:
    text = match[1] if (match := _ORDINAL.match(token.text)) is not None else token.text
    return int(text) if text.isdecimal() and len(text) <= 2 and 1 <= int(text) <= 31 else None


def _year(tokens: Sequence[Token], at: int) -> tuple[int | None, int]:
    while at < len(tokens) and tokens[at].text in {",", "de", "of"}:
        at += 1
    if at < len(tokens) and re.fullmatch(r"(?:19|20)\d\d", tokens[at].text):
        return int(tokens[at].text), at + 1
    return None, at


def _blankless(token: Token, place: int) -> Value:
    match token.kind:
        case "cjkdate":
            month, *day = (int(part) for part in re.findall(r"\d+", token.text))
            return Value("date", "", (None, month, day[0] if day else None), place, place + 1)
        case "cjkday":
            weekday = token.text[0] if "曜" in token.text else token.text[-1]
            return Value("weekday", "", weekday, place, place + 1)
        case "cjkclock":
            return Value("clock", "", token.text, place, place + 1)
        case _:
            match = re.match(r"[\d,.万千百一二三四五六七八九十两]+", token.text)
            amount = match.group() if match is not None else token.text
            return Value("count", token.text[len(amount) :], amount.replace(",", ""), place, place + 1)


def is_identifier(value: Value, verb: int) -> bool:
    """Whether a number with a word before it names a thing: it stands before the verb. "Order 17 is due"."""
    return value.kind == "number" and bool(value.unit) and value.place <= verb
