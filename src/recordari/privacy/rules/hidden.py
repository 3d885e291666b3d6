"""Characters that nobody sees: taken out where they can hide words, left alone where honest writing needs them.

Joiners stay in emoji and in the scripts that spell with them; direction marks stay in text that runs from right to left;
a zero-width space stays in scripts that are written without spaces. Direction overrides, tag characters outside flags
and runs of variation selectors only ever serve to show one thing and say another.
"""

from __future__ import annotations

import re
import unicodedata
from functools import cache

_HIDDEN = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0"
    "\ufff0-\ufffb\U000e0000-\U000e0fff]+"
)
_RIGHT_TO_LEFT = re.compile("[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefe\U00010800-\U00010fff\U0001e800-\U0001efff]")
_JOINED_SCRIPT = re.compile(
    "[\u0600-\u08ff\u0900-\u0dff\u0e00-\u109f\u1700-\u18af\u1900-\u1aaf\u1b00-\u1c7f\ua800-\uabff"
    "\ufb50-\ufdff\ufe70-\ufefc\U00010a00-\U00011fff]"
)
_UNSPACED_SCRIPT = re.compile("[\u0e00-\u0fff\u1000-\u109f\u1780-\u17ff\u1900-\u1aaf\u1b00-\u1b7f\ua9e0-\uaa7f]")
_EMOJI = re.compile("[\u00a9\u00ae\u203c-\u3299\U0001f000-\U0001faff\U0001f3fb-\U0001f3ff\ufe0f\u20e3]")
_HAN = re.compile("[\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]")
_HANGUL = re.compile("[\u1100-\u11ff\ua960-\ua97f\ud7b0-\ud7ff\u3131-\u318e\uffa1-\uffdc]")
_MONGOLIAN = re.compile("[\u1800-\u18af]")
# England, Scotland, Wales and their like: a black flag, the region in tag letters, the closing tag.
_REGION = re.compile("[\U000e0030-\U000e0039\U000e0061-\U000e007a]{4,6}\U000e007f")

Removed = tuple[tuple[int, int], ...]


def visible(text: str) -> tuple[str, Removed]:
    """The text without what hides in it, and which stretches were taken out."""
    if text.isascii() or _HIDDEN.search(text) is None:
        return text, ()
    has_right_to_left = _RIGHT_TO_LEFT.search(text) is not None
    parts: list[str] = []
    removed: list[tuple[int, int]] = []
    done, last = 0, ""
    for match in _HIDDEN.finditer(text):
        start, end = match.span()
        parts.append(text[done:start])
        last = text[start - 1] if start > done else last
        following = text[end] if end < len(text) else ""
        region = _REGION.match(text, start) if last == "\U0001f3f4" else None
        for index in range(start, end):
            character = text[index]
            in_flag = region is not None and index < region.end()
            after = text[index + 1] if index + 1 < end else following
            if in_flag or _is_honest(character, last, after, has_right_to_left=has_right_to_left):
                parts.append(character)
                last = character
            elif removed and removed[-1][1] == index:
                removed[-1] = (removed[-1][0], index + 1)
            else:
                removed.append((index, index + 1))
        done = end
    parts.append(text[done:])
    return "".join(parts), tuple(removed)


def _is_honest(character: str, before: str, after: str, *, has_right_to_left: bool) -> bool:
    """Whether writing needs the character where it stands: between the last one kept and the next one."""
    code = ord(character)
    if code in (0x200C, 0x200D):  # joiners
        if _JOINED_SCRIPT.match(before):
            return True
        return code == 0x200D and bool(_EMOJI.match(before)) and bool(_EMOJI.match(after))
    if 0xFE00 <= code <= 0xFE0F or 0x180B <= code <= 0x180F:  # variation selectors: one after what it varies
        if code >= 0xFE00:
            return bool(before) and not before.isspace() and not _HIDDEN.match(before)
        return bool(_MONGOLIAN.match(before))
    if 0xE0100 <= code <= 0xE01EF:
        return bool(_HAN.match(before))
    if code == 0x200B:
        return bool(_UNSPACED_SCRIPT.match(before) or _UNSPACED_SCRIPT.match(after))
    if code in (0x200E, 0x200F, 0x061C, 0x034F, 0x202A, 0x202B, 0x202C) or 0x2066 <= code <= 0x2069:
        return has_right_to_left
    if code in (0x115F, 0x1160, 0x3164, 0xFFA0):
        return bool(_HANGUL.match(before) or _HANGUL.match(after))
    return False


def plain_forms(text: str) -> str:
    """The text with full-width letters, other scripts' digits, and every dash and space in their ASCII form.

    It has the same length, so that a place found in it is the place in the text.
    """
    if text.isascii():
        return text
    return text.translate(_plain_table())


@cache
def _plain_table() -> dict[int, str]:
    table = {code: chr(code - 0xFEE0) for code in range(0xFF01, 0xFF5F)}
    for code in (*range(0x660, 0x1FFF), *range(0xA620, 0xAC00), *range(0x104A0, 0x1FBFA)):
        if unicodedata.category(chr(code)) == "Nd":
            table[code] = str(unicodedata.digit(chr(code)))
    table |= dict.fromkeys((0xA0, *range(0x2000, 0x200B), 0x202F, 0x205F, 0x3000), " ")
    table |= dict.fromkeys((*range(0x2010, 0x2016), 0x2212, 0xFE58, 0xFE63), "-")
    return table
