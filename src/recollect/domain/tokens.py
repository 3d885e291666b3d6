"""How many tokens a text will cost a model, estimated in microseconds without any model's vocabulary.

Budgets need a figure that is quick and seldom too low; they do not need the exact one, which differs from model
to model by more than this estimate errs.
"""

from __future__ import annotations

import re

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
