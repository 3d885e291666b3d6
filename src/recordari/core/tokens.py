"""How many tokens a text will cost a model, estimated in microseconds without any model's vocabulary.

Budgets need a figure that is quick and seldom too low; they do not need the exact one, which differs from model
to model by more than this estimate errs. `estimated_tokens` is the quickest and about right for English;
`prudent_tokens` looks at words and scripts and stays above what present models count, in any language.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache

TokenCounter = Callable[[str], int]
"""Counts the tokens of a text: an estimate, or a model's own vocabulary."""

CHARACTERS_PER_TOKEN = 4.0  # letters and single spaces of a language in Latin script
MESSAGE_OVERHEAD = 4  # role and separators around each message

# Anything else than words costs more: digits, signs and indentation come in short tokens.
_DENSE = re.compile(r"[^\w\s]|\d|(?<=\s)\s", re.ASCII)
_WIDE = re.compile(r"[\u2e80-\ua4cf\uac00-\ud7af\uf900-\ufaff\U00010000-\U0010ffff]")
DENSE_TOKENS = 0.6
WIDE_TOKENS = 1.2
OTHER_TOKENS = 0.5  # accented letters and scripts such as Cyrillic or Greek


def estimated_tokens(text: str) -> int:
    """Estimate the tokens of a text; 0 only for an empty one."""
    if not text:
        return 0
    if text.isascii():
        dense = len(_DENSE.findall(text))
        return max(1, round((len(text) - dense) / CHARACTERS_PER_TOKEN + dense * DENSE_TOKENS))
    plain = text.encode("ascii", "ignore").decode()
    wide = len(_WIDE.findall(text))
    other = len(text) - len(plain) - wide
    return max(1, estimated_tokens(plain) + round(wide * WIDE_TOKENS + other * OTHER_TOKENS))


def message_tokens(content: str) -> int:
    """Estimate the tokens of a message in a prompt."""
    return estimated_tokens(content) + MESSAGE_OVERHEAD


def cut_to_tokens(text: str, limit: int) -> str:
    """The longest beginning of a text, found by halving, that is estimated at no more than `limit` tokens."""
    if estimated_tokens(text) <= limit:
        return text
    low, high = 0, len(text)
    while low < high:
        middle = (low + high + 1) // 2
        if estimated_tokens(text[:middle]) <= limit:
            low = middle
        else:
            high = middle - 1
    return text[:low]


_WORD = re.compile(r"[A-Za-z\u00c0-\u024f\u1e00-\u1eff]+")
_DIGITS = b"0123456789"
_MARKS = bytes(range(0x21, 0x30)) + b":;<=>?@[\\]^_`{|}~"
# What a character costs by its script, set above what five vocabularies count; a test holds it against three of them.
_SCRIPTS = tuple(
    (re.compile(f"[{characters}]"), cost)
    for characters, cost in (
        ("\u00a0-\u00bf\u2000-\u206f", 0.9),  # signs of Latin scripts, and what does not show
        ("\u0370-\u058f\u0600-\u06ff", 0.65),  # Greek, Cyrillic, Armenian, Arabic
        ("\u0590-\u05ff", 1.0),  # Hebrew
        ("\u0700-\u1dff", 0.85),  # of India and South-East Asia, among others
        ("\u2070-\u2e7f\ue000-\uf8ff\ufb00-\uffff", 2.0),  # symbols and presentation forms
        ("\u2e80-\ud7ff\uf900-\ufaff", 1.25),  # Chinese, Japanese, Korean
        ("\U00010000-\U0010ffff", 4.0),  # emoji and what else is written in four bytes
    )
)
# A text with enough of these is English, whose words are seldom split.
_ENGLISH = frozenset(
    """the be to of and a in that have i it for not on with he as you do at this but his by from they we say her she or
    an will my one all would there their what so up out if about who get which go me when make can like time no just him
    know take into your some could them see other than then now look only its over also after use how our first want new
    because any these give most us is are was were been has had did am more please thanks should may here where why""".split()
)
ENGLISH_SHARE = 6  # one of so many words
NEW_LINE = 0.7  # and each further pair of spaces
MOST_LINES = 20_000  # whose weights are kept, in about 5 MB


def prudent_tokens(text: str) -> int:
    """Estimate the tokens of a text from above; 0 only for an empty one."""
    if not text:
        return 0
    lines = text.split("\n")
    english = foreign = other = 0.0
    plain = known = 0
    for line in lines:
        in_english, elsewhere, beside, plain_words, known_words = _line_weights(line)
        english += in_english
        foreign += elsewhere
        other += beside
        plain += plain_words
        known += known_words
    cost = english if known * ENGLISH_SHARE >= plain else foreign
    return int(cost + other + (len(lines) - 1) * NEW_LINE) + 1


_Weights = tuple[float, float, float, int, int]
"""What a line's words cost in English and elsewhere, what else in it costs; its plain words and its well-known ones."""
_LINES: dict[tuple[int, int], _Weights] = {}


def _line_weights(line: str) -> _Weights:
    """What a line costs. The same lines are counted at every turn: their weights are kept, by their hash, not their text."""
    key = (len(line), hash(line))
    found = _LINES.get(key)
    if found is None:
        if len(_LINES) >= MOST_LINES:
            _LINES.clear()
        found = _LINES[key] = _weighed_line(line)
    return found


def _weighed_line(line: str) -> _Weights:
    plain = known = 0
    english = foreign = 0.0
    for word in _WORD.findall(line):
        in_english, elsewhere, is_plain, is_known = _weighed(word)
        english += in_english
        foreign += elsewhere
        plain += is_plain
        known += is_known
    written = line.encode(errors="surrogatepass")
    without_digits = written.translate(None, _DIGITS)
    other = float(len(written) - len(without_digits))
    other += (len(without_digits) - len(without_digits.translate(None, _MARKS))) * 0.9
    other += line.count("  ") * NEW_LINE
    if not line.isascii():
        other += sum(len(script.findall(line)) * each for script, each in _SCRIPTS)
    return english, foreign, other, plain, known


@lru_cache(maxsize=50_000)
def _weighed(word: str) -> tuple[float, float, bool, bool]:
    """What a word costs in an English text and in another one, whether it is a plain one, and a well-known English one."""
    size = len(word)
    if size > 1 and not word.islower() and not word.istitle():
        cost = 1.2 if size <= 3 and word.isupper() else max(1.0, size / 1.5)
        return cost, cost, False, False
    if not word.isascii():
        cost = max(1.0, size / 1.85)
        return cost, cost, False, False
    english = 1.0 if size <= 5 else 1.2 if size <= 8 else size / 5
    return english, 1.0 if size <= 2 else size / 2.15, True, word.lower() in _ENGLISH
