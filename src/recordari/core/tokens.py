"""Estimates of the number of tokens of a text, in microseconds and without any model's vocabulary.

Budgets need a figure that is fast and seldom too low, not the exact one, which differs from model to model by more than
the error of the estimate. `estimated_tokens` is the fastest and about right for English; `prudent_tokens` looks at
words and scripts and stays above the count of present models, in any language.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable
from functools import lru_cache

TokenCounter = Callable[[str], int]
"""Counts the tokens of a text: an estimate, or a model's own vocabulary."""

CHARACTERS_PER_TOKEN = 4.0  # letters and single spaces of a language in Latin script
MESSAGE_OVERHEAD = 4  # role and separators around each message

# Digits, punctuation and indentation have short tokens and cost more than words.
_DENSE = re.compile(r"[^\w\s]|\d|(?<=\s)\s", re.ASCII)
_WIDE = re.compile(r"[\u2e80-\ua4cf\uac00-\ud7af\uf900-\ufaff\U00010000-\U0010ffff]")
DENSE_TOKENS = 0.6
WIDE_TOKENS = 1.2
OTHER_TOKENS = 0.5  # accented letters and scripts such as Cyrillic or Greek
MOST_LINES = 20_000  # in a cache, about 5 MB


def estimated_tokens(text: str) -> int:
    """Estimate the tokens of a text; 0 only for an empty one."""
    if not text:
        return 0
    key = (len(text), hash(text))
    if (tokens := _ESTIMATED.get(key)) is None:
        if len(_ESTIMATED) >= MOST_LINES:
            _ESTIMATED.clear()
        tokens = _ESTIMATED[key] = _estimate(text)
    return tokens


_ESTIMATED: dict[tuple[int, int], int] = {}
"""By length and hash, without the text: every turn counts the same messages again."""


def _estimate(text: str) -> int:
    if text.isascii():
        dense = len(_DENSE.findall(text))
        return max(1, round((len(text) - dense) / CHARACTERS_PER_TOKEN + dense * DENSE_TOKENS))
    plain = text.encode("ascii", "ignore").decode()
    wide = len(_WIDE.findall(text))
    other = len(text) - len(plain) - wide
    return max(1, estimated_tokens(plain) + round(wide * WIDE_TOKENS + other * OTHER_TOKENS))


def message_tokens(content: str) -> int:
    return estimated_tokens(content) + MESSAGE_OVERHEAD


def cut_to_tokens(text: str, limit: int) -> str:
    """The longest beginning of a text that is estimated at no more than `limit` tokens."""
    if estimated_tokens(text) <= limit:
        return text
    lengths = range(1, len(text) + 1)
    return text[: bisect_right(lengths, limit, key=lambda length: estimated_tokens(text[:length]))]


_WORD = re.compile(r"[A-Za-z\u00c0-\u024f\u1e00-\u1eff]+")
_DIGITS = b"0123456789"
_MARKS = bytes(range(0x21, 0x30)) + b":;<=>?@[\\]^_`{|}~"
# The cost of a character by its script, above the count of five vocabularies; a test compares it with three of them.
_SCRIPTS = tuple(
    (re.compile(f"[{characters}]"), cost)
    for characters, cost in (
        ("\u00a0-\u00bf\u2000-\u206f", 0.9),  # punctuation of Latin scripts, and invisible characters
        ("\u0370-\u058f\u0600-\u06ff", 0.65),  # Greek, Cyrillic, Armenian, Arabic
        ("\u0590-\u05ff", 1.0),  # Hebrew
        ("\u0700-\u1dff", 0.85),  # scripts of India and South-East Asia, among others
        ("\u2070-\u2e7f\ue000-\uf8ff\ufb00-\uffff", 2.0),  # symbols and presentation forms
        ("\u2e80-\ud7ff\uf900-\ufaff", 1.25),  # Chinese, Japanese, Korean
        ("\U00010000-\U0010ffff", 4.0),  # emoji and other characters of four bytes
    )
)
# A text with enough of these is English, whose words are seldom split.
_ENGLISH = frozenset(
    """the be to of and a in that have i it for not on with he as you do at this but his by from they we say her she or
    an will my one all would there their what so up out if about who get which go me when make can like time no just him
    know take into your some could them see other than then now look only its over also after use how our first want new
    because any these give most us is are was were been has had did am more please thanks should may here where why""".split()
)
ENGLISH_SHARE = 6  # one word in six
NEW_LINE = 0.7  # and each further pair of spaces


def prudent_tokens(text: str) -> int:
    """Estimate the tokens of a text from above; 0 only for an empty one."""
    if not text:
        return 0
    if "\n" not in text:
        english, foreign, other, plain, common = _line_weights(text)
        return int((english if common * ENGLISH_SHARE >= plain else foreign) + other) + 1
    lines = text.split("\n")
    english = foreign = other = 0.0
    plain = common = 0
    for line in lines:
        line_english, line_foreign, line_other, line_plain, line_common = _line_weights(line)
        english += line_english
        foreign += line_foreign
        other += line_other
        plain += line_plain
        common += line_common
    cost = english if common * ENGLISH_SHARE >= plain else foreign
    return int(cost + other + (len(lines) - 1) * NEW_LINE) + 1


_Weights = tuple[float, float, float, int, int]
"""The cost of a line's words in English and in other languages, and of its other characters; plain and common words."""
COUNTED_LINES: dict[tuple[int, int], _Weights] = {}


def _line_weights(line: str) -> _Weights:
    """The weights of a line, cached by its hash and without its text: every turn counts the same lines again."""
    key = (len(line), hash(line))
    weights = COUNTED_LINES.get(key)
    if weights is None:
        if len(COUNTED_LINES) >= MOST_LINES:
            COUNTED_LINES.clear()
        weights = COUNTED_LINES[key] = _weigh_line(line)
    return weights


def _weigh_line(line: str) -> _Weights:
    plain = common = 0
    english = foreign = 0.0
    for word in _WORD.findall(line):
        word_english, word_foreign, is_plain, is_common = _weigh(word)
        english += word_english
        foreign += word_foreign
        plain += is_plain
        common += is_common
    encoded = line.encode(errors="surrogatepass")
    without_digits = encoded.translate(None, _DIGITS)
    other = float(len(encoded) - len(without_digits))
    other += (len(without_digits) - len(without_digits.translate(None, _MARKS))) * 0.9
    other += line.count("  ") * NEW_LINE
    if not line.isascii():
        other += sum(len(script.findall(line)) * cost for script, cost in _SCRIPTS)
    return english, foreign, other, plain, common


@lru_cache(maxsize=50_000)
def _weigh(word: str) -> tuple[float, float, bool, bool]:
    """The cost of a word in an English text and in another one; whether it is plain, and a common English word."""
    size = len(word)
    if size > 1 and not word.islower() and not word.istitle():
        cost = 1.2 if size <= 3 and word.isupper() else max(1.0, size / 1.5)
        return cost, cost, False, False
    if not word.isascii():
        cost = max(1.0, size / 1.85)
        return cost, cost, False, False
    english = 1.0 if size <= 5 else 1.2 if size <= 8 else size / 5
    return english, 1.0 if size <= 2 else size / 2.15, True, word.lower() in _ENGLISH
