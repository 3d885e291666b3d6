"""What is looked for: the types of personal data and secrets, a finding, and a text prepared for the search."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum


class DataType(StrEnum):
    """What sort of personal data, or that it is a secret. The order is the precedence where findings overlap."""

    SECRET = "secret"  # noqa: S105
    CREDIT_CARD = "credit_card"
    IBAN = "iban"
    CRYPTO_WALLET = "crypto_wallet"
    US_SSN = "us_ssn"
    NATIONAL_ID = "national_id"
    MAC_ADDRESS = "mac_address"
    IP_ADDRESS = "ip_address"
    EMAIL = "email"
    PHONE = "phone"
    BIRTH_DATE = "birth_date"
    STREET_ADDRESS = "street_address"

    @property
    def mask(self) -> str:
        """What stands where the text was."""
        return f"[{self.upper()}]"


@dataclass(frozen=True, slots=True)
class Finding:
    """A stretch of a text that is personal data or a secret."""

    start: int
    end: int
    type: DataType


# The scripts we mask next to write no spaces: 电话+86… So that words end at an ASCII letter or digit, never at `\b`.
NOT_AFTER_WORD = r"(?<![A-Za-z0-9])"


NOT_BEFORE_WORD = r"(?![A-Za-z0-9])"


MASKS = tuple(each.mask for each in DataType)


@dataclass(frozen=True, slots=True, kw_only=True)
class Text:
    """A text as the detectors read it."""

    plain: str
    lower: str
    """The same in small letters, sign by sign: words are found several times faster in it than by ignoring case."""
    numeric: tuple[tuple[int, int], ...]
    """The stretches that hold several digits close together; only they can hold a number worth looking at."""

    @classmethod
    def of(cls, plain: str) -> Text:
        """Prepare a text whose signs are in their plain forms."""
        lower = plain.lower()
        # A few letters become two when made small; then only those of ASCII are.
        return cls(
            plain=plain,
            lower=lower if len(lower) == len(plain) else plain.translate(_ASCII_LOWER),
            numeric=tuple(_numeric_stretches(plain)),
        )

    def numbers(self, pattern: re.Pattern[str]) -> Iterator[re.Match[str]]:
        """Matches of a pattern where there are digits."""
        for start, end in self.numeric:
            yield from pattern.finditer(self.plain, start, end)

    def mentions(self, *words: str) -> bool:
        """Whether one of the words, given in small letters, stands anywhere: a quick look before a careful one."""
        lower = self.lower
        for word in words:  # noqa: SIM110 - `any` takes twice as long, and every text is asked for dozens of words
            if word in lower:
                return True
        return False

    def before(self, index: int, reach: int) -> str:
        """What stands before a place on its line, in small letters: the context that says what a number is.

        Where the number begins its line, the line above belongs to it.
        """
        start = max(0, index - reach)
        line = max(start, self.lower.rfind("\n", start, index) + 1)
        return self.lower[line:index] if self.lower[line:index].strip() else self.lower[start:index]

    def is_part_of_longer(self, start: int, end: int) -> bool:
        """Whether a number is one piece of something longer, as in a UUID, a path, a decimal or a version."""
        text = self.plain
        if start >= 2 and text[start - 1] in "-./_+#" and text[start - 2].isalnum():
            return True
        if start >= 2 and text[start - 1] == ":" and text[start - 2].isdigit():
            return True
        return end + 1 < len(text) and text[end] in "-/_.@" and text[end + 1].isalnum() and text[end + 1].isascii()


_ASCII_LOWER = {code: code + 32 for code in range(ord("A"), ord("Z") + 1)}


_SEVERAL_DIGITS = re.compile(r"\d(?:[^\d\n]{0,8}\d){3,}")


_MARGIN = 48  # no number that is looked for reaches further from its digits


def _numeric_stretches(text: str) -> Iterator[tuple[int, int]]:
    open_start = open_end = -1
    for match in _SEVERAL_DIGITS.finditer(text):
        start, end = max(0, match.start() - _MARGIN), min(len(text), match.end() + _MARGIN)
        if start <= open_end:
            open_end = end
            continue
        if open_end >= 0:
            yield open_start, open_end
        open_start, open_end = start, end
    if open_end >= 0:
        yield open_start, open_end
