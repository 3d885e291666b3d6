"""A message as clauses that each say one thing, without what was pasted, quoted, made up or is no prose."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from recordari.core.text import ends_shortened
from recordari.facts.rules.spoken import Speech

EXAMINED = 8_000
FENCE = "```"
LONGEST_MENTION = 24
"""Characters of a quoted word that is mentioned, not told: the word "leverage"."""
_SENTENCE_END = re.compile(r"(?<=[.!?…])[\"”'»)\]]{0,2}\s{1,20}(?![a-zà-ÿ])|\n{1,20}")
_OPENING_TAG = re.compile(r"<([A-Za-z][\w-]{0,40})(?:\s[^<>]{0,200})?>")
_QUOTED = re.compile(r"\"([^\"\n]{0,2000})\"|“([^”\n]{0,2000})”|„([^“”\n]{0,2000})[“”]|«([^»\n]{0,2000})»")
_CODE = re.compile(
    r"[{}<>\\|]|=>|==|\(\)|&&|\$\(|::|--\w|\w\(\w{0,30}[,)]|\s=\s|\[\d|^\s{0,8}(?:def|class|import|const|let|var|SELECT)\s"
    r"|\b(?:Error|Exception|Traceback|WARN|ERROR|INFO|DEBUG)\b|\S@\S|^\d{1,4}[/.-]\d{1,2}[/.-]"
)
_BOUNDARY = re.compile(r"(?P<mark>[;:]|,|\s[-–—]|\.{3}|…|!)\s{1,3}|(?P<joint>\s)|(?=¿)")
_LINE = re.compile(r"[^\n]{1,70}")
LONGEST = 1_000  # characters of a sentence that are read
# A statement all the same: "call me Bo, okay?"
_TAG = re.compile(r",\s(?:okay|ok|alright|ja|gell|d'accord|vale|va bene|oké|está bem)\s?\?$", re.IGNORECASE)
FEWEST_LINES = 3
FEWEST_BLANKS = 3
FEWEST_PARTS = 2
NEAR = 60
_DOES = re.compile(r"[A-ZÀ-ÖØ-Þ][\w-]{1,30}\s[a-z]{2,20}(?<!s)s\s")
_NAME = re.compile(r"[A-ZÀ-ÖØ-Þ][\w-]{1,30}\s[a-zà-ÿ]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Clause:
    text: str
    is_question: bool = False
    is_conditional: bool = False


# A statement inside a question or a request: "reminders for my gym sessions, which I usually go to at 7 pm?"
_ASIDE = re.compile(
    r"\bmy (?:[\w'-]{2,30} ){0,3}[\w'-]{2,30}, which (?:i|we|is|are|was|has)\b[^.?!;\n]{8,200}", re.IGNORECASE
)


def aside_of(clause: Clause, speech: Speech) -> Clause | None:
    """What is said by the way in a clause that states nothing itself (English)."""
    found = _ASIDE.search(clause.text) if speech.code == "en" else None
    return Clause(text=found.group()) if found is not None else None


def sentences_of(text: str) -> list[str]:
    """The sentences of a text without what was pasted into it."""
    sentences: list[str] = []
    for piece in _SENTENCE_END.split(_without_pasted(text[:EXAMINED].replace("’", "'"))):
        if sentences and ends_shortened(sentences[-1]):
            sentences[-1] = f"{sentences[-1]} {piece}"
        else:
            sentences.append(piece)
    return sentences


def clauses_of(text: str, speech: Speech) -> Iterator[Clause]:
    """The clauses of a message in order. What follows the opening of a fiction, and a text to work on, is no statement."""
    if is_verse(text):
        return
    is_task = False
    for raw in sentences_of(_without_quotes(text[:EXAMINED], speech)):
        sentence = raw.strip(" \t-*•")[:LONGEST]
        if speech.has("fiction", sentence) or (_is_request(sentence, speech) and speech.has("genre", sentence)):
            return
        if not sentence or _CODE.search(sentence):
            continue
        is_task = is_task or speech.starts("task", _after_lead(sentence, speech))
        if is_task and ":" in sentence and speech.has("task", sentence):
            return
        yield from _split(sentence, speech)


def _is_request(sentence: str, speech: Speech) -> bool:
    opening = _after_lead(sentence, speech)
    return _is_asked(sentence) or any(speech.starts(name, opening) for name in ("order", "please", "ask"))


def is_verse(text: str) -> bool:
    """Short lines that end without a full stop."""
    lines = [line.strip() for line in text.split("\n")[:40] if line.strip()]
    if len(lines) < FEWEST_LINES or any(line[0] in "-*•#>|" or line[0].isdigit() for line in lines):
        return False
    return (
        all(_LINE.fullmatch(line) for line in lines) and sum(line[-1] in ",;" for line in lines) >= len(lines) / 2 - 1
    )


def _without_pasted(text: str) -> str:
    """Remove code, quoted lines, and blocks inside tags."""
    text = "\n".join(text.split(FENCE)[::2])
    text = "\n".join(line for line in text.split("\n") if not line.lstrip().startswith((">", "|")))
    pieces, position = [], 0
    for match in _OPENING_TAG.finditer(text):
        if match.start() < position:
            continue
        end = text.find(f"</{match[1]}>", match.end())
        pieces.append(text[position : match.start()])
        if end < 0:  # an unclosed tag may hold everything that follows
            return "".join(pieces)
        position = end + len(match[1]) + 3
    return "".join([*pieces, text[position:]])


def _without_quotes(text: str, speech: Speech) -> str:
    """Remove what is quoted; a word or name in quotation marks stays."""

    def keep(match: re.Match[str]) -> str:
        said = next(group for group in match.groups() if group is not None)
        is_mention = len(said) <= LONGEST_MENTION and said.count(" ") < 3 and not speech.has("me", said)
        return match.group() if is_mention else " … "

    return _QUOTED.sub(keep, text)


_DENIES = frozenset({"no", "não"})
_MARKS = frozenset(",.!:;–—…")


def _without_tail(sentence: str, speech: Speech) -> str:
    """The sentence without words such as "by the way" at its end."""
    before, comma, tail = sentence.rstrip(" .!").rpartition(", ")
    lead = speech.start("lead", tail) if comma else None
    return before if lead is not None and lead.end == len(tail) else sentence


def _after_lead(sentence: str, speech: Speech) -> str:
    """The sentence without words such as "by the way" and "thanks" at its beginning."""
    while (lead := speech.start("lead", sentence)) is not None:
        if sentence[: lead.end].casefold() in _DENIES and sentence[lead.end : lead.end + 1] not in _MARKS:
            return sentence  # "No como gluten"
        rest = sentence[lead.end :].lstrip(" ,.!:;–—-…")
        if not rest or (speech.code != "en" and rest == sentence):
            return rest
        sentence = rest
    return sentence


def _split(sentence: str, speech: Speech) -> Iterator[Clause]:
    pieces = [(_after_lead(piece, speech).strip(" ,;:-–—…"), mark) for piece, mark in _pieces(sentence, speech)]
    pieces = [(_without_tail(piece, speech), mark) for piece, mark in pieces if piece]
    if speech.code == "en":
        pieces = [part for piece, mark in pieces for part in _said_of_one(_with_subject(piece), mark)]
    asked = len(pieces)
    if _is_asked(sentence):
        opened = [place for place, (piece, _) in enumerate(pieces) if _asks(piece, speech) or piece[0] == "¿"]
        asked = opened[0] if opened else 0
    is_conditional = False
    for place, (piece, mark) in enumerate(pieces):
        starts_if = speech.starts("if", piece)
        yield Clause(
            text=piece.strip("¿¡ "),
            is_question=place >= asked or (speech.starts("ask", piece) and not speech.starts("for_you", piece)),
            is_conditional=starts_if or is_conditional,
        )
        is_conditional = starts_if and mark == ","


# "Twisted my knee last Friday", "Just got back from Oslo": who tells of the past without a subject tells of themselves.
_ELLIPTIC = re.compile(
    r"(?:(?:just|recently|finally|also|already|actually)\s)?(?:got|had|went|bought|took|made|met|saw|found|began|spent|won|lost"
    r"|ran|came|sold|built|[a-z]{2,20}(?<!ne)(?<!fe)(?<!spe)(?<!inde)(?<!succe)ed)\s(?:a|an|the|my|our|some|out|up|back|off|two|three|another|to|into|from)\b",
    re.IGNORECASE,
)


_ONGOING = re.compile(r"been\s[a-z]{2,20}ing\s", re.IGNORECASE)
# "I have asthma and take": one more statement of the same person.
_AND_ALSO = re.compile(
    r"\s(?:and|but)\s(?=(?:(?:also|now|only|usually|always|sometimes|currently|recently)\s)?(?:have|am|take|live|work|play|use|run|go"
    r"|teach|own|speak|study|drive|eat|drink|prefer|love|hate|need|keep|sing|cook|swim|ride|wear|collect|volunteer|manage"
    r"|lead|commute|started|moved|adopted|bought|joined|quit|left|became|graduated|retired)\s)",
    re.IGNORECASE,
)
_LEADS = re.compile(r"\b(?:to|can|will|would|could|should|must|might|may)\s[a-z]", re.IGNORECASE)
_SAID_BY_ONE = re.compile(r"(?:i|we)(?:'m|'ve|'re)?\s", re.IGNORECASE)


def _with_subject(piece: str) -> str:
    if _ONGOING.match(piece):
        return f"I've {piece[0].lower()}{piece[1:]}"
    return f"I {piece[0].lower()}{piece[1:]}" if _ELLIPTIC.match(piece) else piece


def _said_of_one(piece: str, mark: str) -> Iterator[tuple[str, str]]:
    """ "I have asthma and take the blue tablets" as two statements."""
    subject = _SAID_BY_ONE.match(piece)
    parts = _AND_ALSO.split(piece) if subject is not None else [piece]
    is_led = any(_LEADS.search(part) is not None for part in parts[:-1])  # "I love to cook and run"
    if subject is None or is_led or any(part.count(" ") < FEWEST_PARTS for part in parts):
        yield piece, mark
        return
    yield parts[0], mark
    for part in parts[1:]:
        yield f"{subject.group()[:2].strip().strip(chr(39))} {part}", mark


def _asks(piece: str, speech: Speech) -> bool:
    """Whether a part of a question opens it: "me recomiendas" does so in a question only."""
    return speech.starts("ask", piece) or speech.starts("in_question", piece)


def _is_asked(sentence: str) -> bool:
    sentence = _TAG.sub("", sentence)
    return sentence.rstrip("\"”'») ").endswith("?")


def _pieces(sentence: str, speech: Speech) -> Iterator[tuple[str, str]]:
    """Cut where another subject, a request or a question begins; with the mark at each cut."""
    begin = 0
    is_asked = _is_asked(sentence)
    for match in _BOUNDARY.finditer(sentence):
        mark, before = match["mark"] or "", sentence[begin : match.start()]
        rest = sentence[match.end() : match.end() + NEAR]
        joint = speech.start("joint", rest)
        if not mark and joint is None and match.group():
            continue
        opening = rest[joint.end :].lstrip() if joint is not None else rest
        if mark == ":" and (speech.has("learn", before) or speech.has("decide", before)):
            continue
        if mark == "," and speech.starts("for_you", before) and _is_request(opening, speech):
            continue  # "When you write code, use tabs"
        standing = speech.start("henceforth", before)
        if mark == "," and standing is not None and standing.end == len(before):
            continue  # "From now on, use tabs"
        if mark in {"", ","} and match.group():
            is_cut = _opens(
                opening, speech, is_asked=is_asked, has_mark=bool(mark), has_joint=joint is not None
            ) and _is_whole(before, speech)
        else:
            is_cut = True
        if is_cut:
            yield before, mark
            begin = match.end()
    yield sentence[begin:], ""


def _is_whole(piece: str, speech: Speech) -> bool:
    """Whether a piece can be a clause: "my wife Ann" before "and I" is none."""
    return speech.has("verb", piece) or piece.count(" ") >= FEWEST_BLANKS


def _opens(rest: str, speech: Speech, *, is_asked: bool, has_mark: bool, has_joint: bool) -> bool:
    """Whether a clause of its own begins here."""
    if has_joint and speech.starts("henceforth", rest):
        return True
    if any(speech.starts(name, rest) for name in ("me", "my", "third", "please", "for_you")):
        return not speech.starts("relative", rest)
    if is_asked and _asks(rest, speech) and not speech.starts("relative", rest):
        return True
    if not has_mark:
        return False
    if speech.starts("order", rest) or speech.starts("dont", rest):
        return not speech.starts("noun", rest)
    is_thing = speech.starts("article", rest) and (has_joint or speech.code != "de")
    is_person = _NAME.match(rest) is not None and speech.code != "de"
    return ((is_thing or is_person) and speech.has("verb", rest)) or (is_person and _DOES.match(rest) is not None)
