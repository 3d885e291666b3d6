"""Where the sentences of a text end, in any script."""

from __future__ import annotations

import re

# The end of a sentence: a mark before white space, a mark of a script without spaces, or the end of a line. The lookahead
# tests for all of them at once: trying one after the other at every letter takes three times as long.
_END = re.compile(r"(?=[.!?…؟।。！？｡\n])(?:[.!?…؟।]+[\"'”’»)\]]*(?=\s)|[。！？｡]+[」』”’）]*|(?=\n))")
_ABBREVIATION = re.compile(
    r"(?:^|[\s(\"'])(?:[A-Za-z]|[Dd]rs?|[Mm]rs?|[Mm]s|[Pp]rof|[Ss]t|[Nn]o|[Nn]r|vs|etc|approx|ca|bzw|z\.B|[Ee]\.g|[Ii]\.e"
    r"|[Ii]nc|[Ll]td|[Jj]r|[Ss]r|U\.S|a\.m|p\.m|[Ff]ig|[Vv]ol|[Cc]f|[Dd]ept)\.$"
    # The mark of a list; a date in German or a Nordic language.
    r"|(?:^|\n)\s{0,8}\d{1,3}\.$|\b(?:am|ab|bis|vom|zum|der|den|dem|des|die|das|im|seit|und|fra|til|og|på)\s\d{1,3}\.$"
)
_MONTH = re.compile(r"(?:Jan|Feb|März|Mär|Apr|Mai|Juni|Juli|Aug|Sep|Okt|Nov|Dez)")


def sentence_ends(text: str, *, capitalised: bool = True) -> list[int]:
    """The positions at which a text may be cut: after each sentence or line with text, except the last.

    `capitalised`: a small letter after a full stop continues the sentence. Many people write chats in small letters.
    """
    ends: list[int] = []
    for match in _END.finditer(text):
        end, rest = match.end(), text[match.end() : match.end() + 8].lstrip(" \t")
        if end >= len(text.rstrip()) or not text[:end].strip() or (ends and not text[ends[-1] : end].strip()):
            continue
        if text[end - 1] in ".…" and (
            (capitalised and rest[:1].islower()) or _ABBREVIATION.search(text[max(0, end - 12) : end])
        ):
            continue
        ends.append(end)
    return ends
