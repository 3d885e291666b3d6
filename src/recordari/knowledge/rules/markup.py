"""Reads text, Markdown, CSV and HTML into blocks. Every pattern runs in linear time on any text."""

from __future__ import annotations

import csv
import html
import re
from collections.abc import Iterator

from recordari.knowledge.rules.chunks import Block, BlockKind, clean

_BLANK_LINES = re.compile(r"\n[ \t]*(?:\n[ \t]*)+")
_HEADING = re.compile(r"^ {0,3}(#{1,6})(?:[ \t]|$)")
_UNDERLINE = re.compile(r"^ {0,3}(=+|-{2,})[ \t]*$")
_FENCE = re.compile(r"^ {0,3}(`{3,}|~{3,})")
_LIST_MARK = re.compile(r"^\s{0,12}(?:[-*+]|\d{1,9}[.)])\s")
_TABLE_RULE = frozenset(" \t:|-")


def blocks_of_text(text: str, *, page: int | None = None) -> list[Block]:
    """Paragraphs, separated by blank lines."""
    parts = (part.strip() for part in _BLANK_LINES.split(clean(text)))
    return [Block(kind=BlockKind.PARAGRAPH, text=part, page=page) for part in parts if part]


def blocks_of_csv(text: str) -> list[Block]:
    """One table; its first row has the names of the columns. A file that is no table is read as text."""
    plain = clean(text)
    separator = max(",;\t|", key=plain.partition("\n")[0].count)
    try:
        cells = list(csv.reader(plain.split("\n"), delimiter=separator))
    except csv.Error:
        return blocks_of_text(text)
    rows = [" | ".join(" ".join(cell.split()) for cell in row) for row in cells]
    return [Block(kind=BlockKind.TABLE, text="\n".join(row for row in rows if row.strip(" |")))]


def blocks_of_markdown(text: str) -> list[Block]:
    """Headings, paragraphs, lists, tables and code of a Markdown text; other marks stay as they are written."""
    return list(_Markdown(clean(text).split("\n")).blocks())


class _Markdown:
    def __init__(self, lines: list[str]) -> None:
        self._lines = lines
        self._open: list[str] = []

    def blocks(self) -> Iterator[Block]:
        number = 0
        while number < len(self._lines):
            line = self._lines[number]
            if fence := _FENCE.match(line):
                yield from self._closed()
                end = self._end_of_code(number, fence[1])
                yield Block(kind=BlockKind.CODE, text="\n".join(self._lines[number : end + 1]))
                number = end
            elif heading := _HEADING.match(line):
                yield from self._closed()
                if title := line[heading.end() :].strip("# \t"):
                    yield Block(kind=BlockKind.HEADING, text=title, level=len(heading[1]))
            elif len(self._open) == 1 and (mark := _UNDERLINE.match(line)) and "|" not in self._open[0]:
                level = 1 if mark[1][0] == "=" else 2
                yield Block(kind=BlockKind.HEADING, text=self._open.pop().strip(), level=level)
            elif not line.strip():
                yield from self._closed()
            else:
                self._open.append(line)
            number += 1
        yield from self._closed()

    def _end_of_code(self, start: int, fence: str) -> int:
        for number in range(start + 1, len(self._lines)):
            closing = self._lines[number].strip()
            if closing.startswith(fence) and not closing.strip(fence[0]):
                return number
        return len(self._lines) - 1

    def _closed(self) -> Iterator[Block]:
        lines, self._open = self._open, []
        if not lines:
            return
        if len(lines) > 1 and "|" in lines[0] and "-" in lines[1] and _TABLE_RULE.issuperset(lines[1]):
            rows = [" | ".join(cell.strip() for cell in line.strip().strip("|").split("|")) for line in lines]
            yield Block(kind=BlockKind.TABLE, text="\n".join([rows[0], *rows[2:]]))
        elif any(_LIST_MARK.match(line) for line in lines):
            yield Block(kind=BlockKind.LIST, text="\n".join(line.rstrip() for line in lines))
        else:
            yield Block(kind=BlockKind.PARAGRAPH, text="\n".join(line.strip() for line in lines))


def blocks_of_html(text: str) -> list[Block]:
    """Headings, paragraphs, lists, tables and code that a page shows, without scripts and styles."""
    page = _Html()
    text = clean(text)
    position = 0
    while position < len(text):
        position = _read_markup(text, position, page) if text[position] == "<" else _read_text(text, position, page)
    page.end_block()
    return page.blocks


# A tag is read as a browser reads it: quotes count only around a value, and a tag that nothing ends hides the rest. So
# no part of a page is searched twice. The parser of the standard library begins again at every `<`.
_TAG = re.compile(r"</?([A-Za-z][^\s/>]*+)")
_REST_OF_TAG = re.compile(r"""(?:[^>=]++|=\s*+(?:"[^"]*+"|'[^']*+'|[^\s"'>][^\s>]*+|(?=>)))*+>""")
_COMMENT_END = re.compile(r"--!?>")
_LONG_REFERENCE = re.compile(r"&#(?:[0-9]{9,}+|[xX][0-9A-Fa-f]{9,}+);?+")  # no character has such a number
_RAW = frozenset("script style xmp iframe noembed noframes textarea title".split())


def _read_text(text: str, position: int, page: _Html) -> int:
    end = text.find("<", position)
    end = len(text) if end < 0 else end
    page.add_text(html.unescape(_LONG_REFERENCE.sub("\ufffd", text[position:end])))
    return end


def _read_markup(text: str, position: int, page: _Html) -> int:
    """Read what begins with `<`, and return where it ends."""
    if text.startswith("<!--", position):
        end = _COMMENT_END.search(text, position + 2)
        return end.end() if end is not None else len(text)
    tag = _TAG.match(text, position)
    if tag is None:
        if text.startswith(("<!", "<?", "</"), position):
            end_of_note = text.find(">", position)
            return end_of_note + 1 if end_of_note >= 0 else len(text)
        page.add_text("<")
        return position + 1
    rest = _REST_OF_TAG.match(text, tag.end())
    if rest is None:
        return len(text)
    name = tag[1].lower()
    attributes = text[tag.end() : min(rest.end() - 1, tag.end() + MOST_ATTRIBUTES)]
    is_hidden = _HIDES.search(_QUOTED_VALUE.sub(_kept_value, attributes)) is not None
    if text[position + 1] == "/":
        page.close_tag(name)
        return rest.end()
    page.open_tag(name, is_hidden=is_hidden)
    if text[rest.end() - 2] == "/":
        page.close_tag(name)
        return rest.end()
    return _read_raw(text, rest.end(), name, page) if name in _RAW else rest.end()


MOST_ATTRIBUTES = 2_000  # characters of a tag that may hide its element
# Of the values only those that can hide an element are looked at.
_QUOTED_VALUE = re.compile(r"""([\w-]*+)\s*+=\s*+(?:"([^"]*+)"|'([^']*+)')""")
_HIDES = re.compile(
    r"\shidden(?=[\s/=]|$)|aria-hidden=true|style=[^\n]*?(?:display\s*:\s*none|visibility\s*:\s*hidden)", re.IGNORECASE
)


def _kept_value(match: re.Match[str]) -> str:
    name = match[1].lower()
    value = match[2] if match[2] is not None else match[3]
    return f"{name}={value[:200]}" if name in {"aria-hidden", "style"} else f"{name}="


def _read_raw(text: str, position: int, name: str, page: _Html) -> int:
    """Read an element whose content is no markup, up to its closing tag."""
    closing = re.compile(rf"</{name}(?=[\s/>])", re.IGNORECASE).search(text, position)
    end = closing.start() if closing is not None else len(text)
    page.add_text(html.unescape(_LONG_REFERENCE.sub("\ufffd", text[position:end])))
    return end


_HIDDEN = frozenset({"script", "style", "template", "noscript", "svg", "math", "iframe", "object", "head", "nav"})
_ENDED_BY_NEXT = frozenset({"p", "li", "dt", "dd", "option"})  # the next one ends it, also where no tag does
_BREAKING = frozenset(
    "address article aside blockquote body dd details div dl dt fieldset figcaption figure footer form header hr html"
    " legend main ol p section summary ul".split()
)
_HEADINGS = {f"h{level}": level for level in range(1, 7)}
_VOID = frozenset("area base br col embed hr img input link meta source track wbr".split())


class _Html:
    """Collects the visible text, block by block."""

    def __init__(self) -> None:
        self.blocks: list[Block] = []
        self._text: list[str] = []
        self._kind = BlockKind.PARAGRAPH
        self._level = 0
        self._hidden: list[str] = []
        self._rows: list[list[str]] | None = None
        self._tables = 0

    def open_tag(self, tag: str, *, is_hidden: bool = False) -> None:
        if self._hidden and tag == self._hidden[-1] and tag in _ENDED_BY_NEXT:
            self._hidden.pop()
        if self._hidden or tag in _HIDDEN or (is_hidden and tag not in _VOID):
            if tag not in _VOID and (not self._hidden or tag == self._hidden[-1]):
                self._hidden.append(tag)
            return
        if tag == "br":
            self._text.append("\n")
        elif tag == "table":
            self._tables += 1
            if self._tables == 1:
                self.end_block()
                self._rows = []
        elif tag == "tr" and self._rows is not None:
            self._end_cell()
            self._rows.append([])
        elif tag in {"td", "th"} and self._rows is not None:
            self._end_cell()
        elif self._rows is not None:
            self._text.append(" ")
        elif tag in _HEADINGS:
            self.end_block()
            self._kind, self._level = BlockKind.HEADING, _HEADINGS[tag]
        elif tag == "pre":
            self.end_block()
            self._kind = BlockKind.CODE
        elif tag == "li":
            if self._kind is not BlockKind.LIST:
                self.end_block()
                self._kind = BlockKind.LIST
            self._text.append("\n- ")
        elif tag in _BREAKING and self._kind is not BlockKind.CODE:
            self.end_block()

    def close_tag(self, tag: str) -> None:
        if self._hidden:
            if tag == self._hidden[-1]:
                self._hidden.pop()
            return
        if tag == "table" and self._tables:
            self._tables -= 1
            if self._tables == 0:
                self._end_table()
        elif self._rows is not None:
            if tag in {"td", "th", "tr"}:
                self._end_cell()
        elif tag in _HEADINGS or tag == "pre" or tag in _BREAKING:
            self.end_block()

    def add_text(self, data: str) -> None:
        if not self._hidden:
            self._text.append(data if self._kind is BlockKind.CODE else data.replace("\n", " "))

    def end_block(self) -> None:
        """Add the open block unless it is empty."""
        text = "".join(self._text)
        text = text.strip("\n") if self._kind is BlockKind.CODE else _flowing(text)
        if text.strip():
            self.blocks.append(Block(kind=self._kind, text=text, level=self._level))
        self._text, self._kind, self._level = [], BlockKind.PARAGRAPH, 0

    def _end_cell(self) -> None:
        cell = " ".join("".join(self._text).split())
        self._text = []
        if self._rows is not None and cell:
            if not self._rows:
                self._rows.append([])
            self._rows[-1].append(cell)

    def _end_table(self) -> None:
        self._end_cell()
        rows, self._rows = self._rows or [], None
        if text := "\n".join(" | ".join(row) for row in rows if row):
            self.blocks.append(Block(kind=BlockKind.TABLE, text=text))


def _flowing(text: str) -> str:
    """Lay text out as a browser does: white space becomes one space, and only explicit breaks stay."""
    lines = (" ".join(line.split()) for line in text.split("\n"))
    return "\n".join(line for line in lines if line)
