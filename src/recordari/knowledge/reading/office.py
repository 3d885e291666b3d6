"""Reading Office files: zipped XML, of which only the text is taken, within bounds that no archive can talk us out of."""

from __future__ import annotations

import io
import posixpath
import zipfile
from collections.abc import Iterator
from xml.etree import ElementTree

from recordari.knowledge.rules.chunks import Block, BlockKind

MOST_UNPACKED = 400 * 2**20  # bytes of all members that are read
MOST_MEMBERS = 20_000
MOST_CELLS = 2_000_000

_W = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
_A = "{http://schemas.openxmlformats.org/drawingml/2006/main}"
_P = "{http://schemas.openxmlformats.org/presentationml/2006/main}"
_S = "{http://schemas.openxmlformats.org/spreadsheetml/2006/main}"
_R = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}id"
_REL = "{http://schemas.openxmlformats.org/package/2006/relationships}Relationship"

Read = tuple[int, int, list[Block]]


class OfficeError(Exception):
    """Why an Office file cannot be read, in words for the one who sent it."""


class _Archive:
    """The members of a file, read one at a time and counted."""

    def __init__(self, data: bytes) -> None:
        try:
            self._zip = zipfile.ZipFile(io.BytesIO(data))
            self._members = {one.filename: one for one in self._zip.infolist()}
        except (zipfile.BadZipFile, ValueError, OSError) as error:
            raise OfficeError("this Office file is damaged or encrypted and cannot be read") from error
        if len(self._members) > MOST_MEMBERS:
            raise OfficeError("this file has too many parts to be an Office document")
        self._left = MOST_UNPACKED

    def __contains__(self, name: str) -> bool:
        return name in self._members

    def xml(self, name: str) -> ElementTree.Element:
        """A member as a tree."""
        if name not in self._members:
            raise OfficeError("this file lacks a part that every Office document has")
        with self._zip.open(self._members[name]) as file:
            body = file.read(self._left + 1)
        self._left -= len(body)
        if self._left < 0:
            raise OfficeError("this file unpacks to more than can be read; split it")
        if b"<!DOCTYPE" in body[:4096] or b"<!ENTITY" in body[:4096]:
            raise OfficeError("this file declares entities, which no Office document does")
        try:
            return ElementTree.fromstring(body)  # noqa: S314
        except ElementTree.ParseError as error:
            raise OfficeError("this Office file is damaged and cannot be read") from error

    def related(self, name: str) -> dict[str, str]:
        """What a member's relationships point to, by id."""
        folder, _, base = name.rpartition("/")
        relations = f"{folder}/_rels/{base}.rels"
        if relations not in self:
            return {}
        return {
            one.get("Id", ""): posixpath.normpath(posixpath.join(folder, one.get("Target", ""))).lstrip("/")
            if not one.get("Target", "").startswith("/")
            else one.get("Target", "").lstrip("/")
            for one in self.xml(relations).iter(_REL)
        }


def read_docx(data: bytes) -> Iterator[Read]:
    """Headings, paragraphs, lists and tables of a text document."""
    archive = _Archive(data)
    levels = _heading_levels(archive)
    body = archive.xml("word/document.xml").find(f"{_W}body")
    if body is None:
        raise OfficeError("this document has no text")
    yield 0, 0, [block for element in body for block in _of_docx(element, levels)]


def _heading_levels(archive: _Archive) -> dict[str, int]:
    """Which styles are headings: by their outline level, or by the name that no translation changes."""
    if "word/styles.xml" not in archive:
        return {}
    levels: dict[str, int] = {}
    for style in archive.xml("word/styles.xml").iter(f"{_W}style"):
        name = style.find(f"{_W}name")
        said = (name.get(f"{_W}val", "") if name is not None else "").lower()
        outline = style.find(f"{_W}pPr/{_W}outlineLvl")
        if said == "title":
            levels[style.get(f"{_W}styleId", "")] = 1
        elif said.startswith("heading ") and said[8:].isdigit():
            levels[style.get(f"{_W}styleId", "")] = int(said[8:])
        elif outline is not None and outline.get(f"{_W}val", "").isdigit():
            levels[style.get(f"{_W}styleId", "")] = int(outline.get(f"{_W}val", "0")) + 1
    return levels


def _of_docx(element: ElementTree.Element, levels: dict[str, int]) -> Iterator[Block]:
    if element.tag == f"{_W}p":
        text = _paragraph(element)
        style = element.find(f"{_W}pPr/{_W}pStyle")
        level = levels.get(style.get(f"{_W}val", "") if style is not None else "", 0)
        if not text:
            return
        if 0 < level <= 9:
            yield Block(kind=BlockKind.HEADING, text=text, level=level)
        elif element.find(f"{_W}pPr/{_W}numPr") is not None:
            yield Block(kind=BlockKind.LIST, text=f"- {text}")
        else:
            yield Block(kind=BlockKind.PARAGRAPH, text=text)
    elif element.tag == f"{_W}tbl":
        rows = [
            " | ".join(
                " ".join(filter(None, (_paragraph(one) for one in cell.iter(f"{_W}p")))) for cell in row.iter(f"{_W}tc")
            )
            for row in element.iter(f"{_W}tr")
        ]
        yield Block(kind=BlockKind.TABLE, text="\n".join(row for row in rows if row.strip(" |")))
    elif element.tag == f"{_W}sdt":
        for inner in element.iterfind(f"{_W}sdtContent/*"):
            yield from _of_docx(inner, levels)


def _paragraph(element: ElementTree.Element) -> str:
    said = {f"{_W}t": None, f"{_W}tab": " ", f"{_W}br": "\n", f"{_W}cr": "\n", f"{_W}noBreakHyphen": "-"}
    parts = (
        (one.text or "") if said[one.tag] is None else str(said[one.tag]) for one in element.iter() if one.tag in said
    )
    return "".join(parts).strip()


def read_pptx(data: bytes) -> Iterator[Read]:
    """The slides of a presentation in order, each under its title."""
    archive = _Archive(data)
    presentation = "ppt/presentation.xml"
    related = archive.related(presentation)
    slides = [related.get(one.get(_R, ""), "") for one in archive.xml(presentation).iter(f"{_P}sldId")]
    for number, name in enumerate(slides, start=1):
        blocks = []
        for shape in archive.xml(name).iter(f"{_P}sp"):
            place = shape.find(f"{_P}nvSpPr/{_P}nvPr/{_P}ph")
            is_title = place is not None and place.get("type") in {"title", "ctrTitle"}
            text = _slide_text(shape)
            if text:
                kind = BlockKind.HEADING if is_title else BlockKind.PARAGRAPH
                blocks.append(Block(kind=kind, text=text, level=1 if is_title else 0, page=number))
        for table in archive.xml(name).iter(f"{_A}tbl"):
            rows = [" | ".join(_slide_text(cell) for cell in row.iter(f"{_A}tc")) for row in table.iter(f"{_A}tr")]
            blocks.append(Block(kind=BlockKind.TABLE, text="\n".join(rows), page=number))
        yield number, len(slides), sorted(blocks, key=lambda block: block.kind is not BlockKind.HEADING)


def _slide_text(element: ElementTree.Element) -> str:
    lines = ("".join(one.text or "" for one in paragraph.iter(f"{_A}t")) for paragraph in element.iter(f"{_A}p"))
    return "\n".join(line.strip() for line in lines if line.strip())


def read_xlsx(data: bytes) -> Iterator[Read]:
    """The sheets of a workbook as tables, each under its name; values are as they are stored."""
    archive = _Archive(data)
    workbook = "xl/workbook.xml"
    related = archive.related(workbook)
    strings = _shared_strings(archive)
    sheets = [
        (one.get("name", ""), related.get(one.get(_R, ""), "")) for one in archive.xml(workbook).iter(f"{_S}sheet")
    ]
    cells = 0
    for number, (title, name) in enumerate(sheets, start=1):
        rows = []
        for row in archive.xml(name).iter(f"{_S}row"):
            values = [_cell(cell, strings) for cell in row.iter(f"{_S}c")]
            cells += len(values)
            if cells > MOST_CELLS:
                raise OfficeError(f"a workbook may have at most {MOST_CELLS:,} cells; split it")
            if any(values):
                rows.append(" | ".join(values))
        heading = [Block(kind=BlockKind.HEADING, text=title, level=1, page=number)] if rows else []
        table = [Block(kind=BlockKind.TABLE, text="\n".join(rows), page=number)] if rows else []
        yield number, len(sheets), [*heading, *table]


def _shared_strings(archive: _Archive) -> list[str]:
    if "xl/sharedStrings.xml" not in archive:
        return []
    return [
        "".join(one.text or "" for one in entry.iter(f"{_S}t")).strip()
        for entry in archive.xml("xl/sharedStrings.xml").iter(f"{_S}si")
    ]


def _cell(cell: ElementTree.Element, strings: list[str]) -> str:
    if cell.get("t") == "inlineStr":
        return "".join(one.text or "" for one in cell.iter(f"{_S}t")).strip()
    value = cell.find(f"{_S}v")
    text = (value.text or "").strip() if value is not None else ""
    if cell.get("t") == "s" and text.isdigit():
        return strings[int(text)] if int(text) < len(strings) else ""
    if cell.get("t") == "b":
        return "true" if text == "1" else "false"
    return " ".join(text.split())
