"""The types of personal data and secrets, a finding, and a text prepared for detectors."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum


class DataType(StrEnum):
    """Types of personal data, and secrets. The order is the precedence of overlapping findings."""

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
        return f"[{self.upper()}]"

    def tagged(self, tag: str) -> str:
        """The mask of one value: the same value has the same tag, and the tag tells nothing about it."""
        return f"[{self.upper()} {tag}]"


@dataclass(frozen=True, slots=True)
class Finding:
    start: int
    end: int
    type: DataType


# Some scripts have no spaces (电话+86…), so that a word ends at an ASCII letter or digit, never at `\b`.
NOT_AFTER_WORD = r"(?<![A-Za-z0-9])"
NOT_BEFORE_WORD = r"(?![A-Za-z0-9])"
LONGEST_TAG = 16
MASK = re.compile(rf"\[(?:{'|'.join(each.upper() for each in DataType)})(?: [a-z]{{1,{LONGEST_TAG}}})?\]")
LONGEST_MASK = max(len(each.tagged("x" * LONGEST_TAG)) for each in DataType)


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedText:
    plain: str
    lower: str
    """The text in lower case, of the same length: a search in it is several times faster than one that ignores case."""
    numeric: tuple[tuple[int, int, int], ...]
    """Spans with several digits close together, and how many each has; only they can contain a number to find."""

    @classmethod
    def of(cls, plain: str) -> PreparedText:
        lower = plain.lower()
        # The lower case of a few letters is two letters; then only ASCII is changed.
        return cls(
            plain=plain,
            lower=lower if len(lower) == len(plain) else plain.translate(_ASCII_LOWER),
            numeric=tuple(_numeric_spans(plain)),
        )

    def numbers(self, pattern: re.Pattern[str], *, least: int = 0) -> Iterator[re.Match[str]]:
        """The matches of a pattern that needs at least so many digits: most texts have no more than a year."""
        for start, end, digits in self.numeric:
            if digits >= least:
                yield from pattern.finditer(self.plain, start, end)

    def mentions(self, *words: str) -> bool:
        """Return whether the text contains one of the words, in lower case: a quick check before a careful one."""
        lower = self.lower
        for word in words:  # noqa: SIM110 - `any` takes twice as long, and every text is searched for dozens of words
            if word in lower:
                return True
        return False

    def before(self, index: int, reach: int) -> str:
        """Return the context of a number: the text before it on its line, in lower case.

        If the number begins its line, the line above belongs to the context.
        """
        start = max(0, index - reach)
        line = max(start, self.lower.rfind("\n", start, index) + 1)
        return self.lower[line:index] if self.lower[line:index].strip() else self.lower[start:index]

    def is_part_of_longer(self, start: int, end: int) -> bool:
        """Return whether a number is a part of a UUID, a path, a decimal or a version."""
        text = self.plain
        if start >= 2:
            sign, before = text[start - 1], text[start - 2]
            if (sign in "-./_+#" and before.isalnum()) or (sign == ":" and before.isdigit()):
                return True
        return end + 1 < len(text) and text[end] in "-/_.@" and text[end + 1].isalnum() and text[end + 1].isascii()


_ASCII_LOWER = {code: code + 32 for code in range(ord("A"), ord("Z") + 1)}
_SEVERAL_DIGITS = re.compile(r"\d(?:[^\d\n]{0,8}\d){3,}")
_DIGIT = re.compile(r"\d")
_MARGIN = 48  # no number to find reaches further from its digits


def _numeric_spans(text: str) -> list[tuple[int, int, int]]:
    spans: list[tuple[int, int]] = []
    for match in _SEVERAL_DIGITS.finditer(text):
        start, end = max(0, match.start() - _MARGIN), min(len(text), match.end() + _MARGIN)
        if spans and start <= spans[-1][1]:
            start = spans.pop()[0]
        spans.append((start, end))
    return [(start, end, len(_DIGIT.findall(text, start, end))) for start, end in spans]
