"""The process that reads one PDF, Office or HTML file or image: bytes on standard input, blocks of text on standard output.

`recordari.knowledge.reader` starts it, and no server imports it: whatever goes wrong here ends with this process. Office
files are zipped XML. Only their text is read, within limits that no archive can lift, and each element once: time grows
with the size of a file, however its elements are nested.
"""

from __future__ import annotations

import codecs
import io
import json
import os
import posixpath
import re
import shutil
import struct
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from datetime import datetime, time
from functools import cache
from importlib.util import find_spec
from typing import Any, BinaryIO
from xml.etree import ElementTree

from recordari.knowledge.rules.chunks import Block, BlockKind, clean
from recordari.knowledge.rules.markup import blocks_of_html, blocks_of_text

_LENGTH = struct.Struct(">I")
MOST_UNPACKED = 400 * 2**20  # bytes of all members that are read
MOST_MEMBERS = 20_000
MOST_CELLS = 2_000_000
MOST_NESTED = 256  # elements inside each other; a table in a table takes three
# Every name carries its namespace, so that a long one would be copied with each element.
_LONG_NAMESPACE = re.compile(r"""xmlns(?::[^\s=]*+)?+\s*+=\s*+(?:"[^"]{500}|'[^']{500})""")

_W = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
_A = "{http://schemas.openxmlformats.org/drawingml/2006/main}"
_P = "{http://schemas.openxmlformats.org/presentationml/2006/main}"
_R = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}id"
_REL = "{http://schemas.openxmlformats.org/package/2006/relationships}Relationship"

Read = tuple[int, int, list[Block]]
MOST_BOOKMARKS = 2_000
POINTS_AN_INCH, DOTS_AN_INCH = 72, 200  # of a PDF, and of what text recognition sees
MOST_PIXELS = 12_000_000  # a page of A3 at this resolution has 7.7 million
DEEPEST_BOOKMARK = 9  # deeper ones count as this level


class Unreadable(Exception):
    """The message tells the sender why the file cannot be read."""


def main() -> None:
    """Read the file; arguments are its media type, the memory limit in megabytes and the time limit in seconds."""
    _limit(int(sys.argv[2]), int(sys.argv[3]))
    out = sys.stdout.buffer
    try:
        for message in _messages(sys.argv[1], sys.stdin.buffer.read()):
            _send(out, message)
        _send(out, {"end": True})
    except Unreadable as error:
        _send(out, {"error": str(error)})
    except MemoryError:
        _send(out, {"error": "reading this file takes too much memory; split it"})
    except Exception as error:  # noqa: BLE001 - a parser may raise anything on a damaged file; the file is refused
        _send(out, {"error": f"this file is damaged and cannot be read ({type(error).__name__})"})


def _limit(megabytes: int, seconds: int) -> None:
    try:
        import resource
    except ImportError:  # on Windows only the time is limited
        return
    sys.setrecursionlimit(2_000)
    for limit, most in (
        (resource.RLIMIT_AS, megabytes * 2**20),
        (resource.RLIMIT_CPU, seconds),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_CORE, 0),
    ):
        try:
            resource.setrlimit(limit, (most, most))
        except (ValueError, OSError):
            continue  # the system has a stricter one


def _messages(media_type: str, data: bytes) -> Iterator[dict[str, Any]]:
    kind = media_type.rpartition(".")[2].rpartition("/")[2]
    if kind == "html":
        yield {"blocks": _plain(blocks_of_html(data.decode()))}
    elif kind == "pdf":
        yield from _pdf(data)
    elif media_type.startswith("image/"):
        yield {"blocks": _plain(blocks_of_text(recognised(data)))}
    else:
        read = {"document": read_docx, "presentation": read_pptx}.get(kind, read_sheets)
        for done, total, blocks in read(data):
            yield {"done": done, "total": total, "blocks": _plain(blocks)} if total else {"blocks": _plain(blocks)}


def _pdf(data: bytes) -> Iterator[dict[str, Any]]:
    import io
    import logging
    import warnings

    import pypdf
    from pypdf.errors import PyPdfError

    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    try:
        reader = pypdf.PdfReader(io.BytesIO(data), strict=False)
        if reader.is_encrypted and not reader.decrypt(""):
            raise Unreadable("this PDF is encrypted; remove its password and send it again")
        total = len(reader.pages)
    except PyPdfError as error:
        raise Unreadable(f"this PDF is damaged and cannot be read ({type(error).__name__})") from error
    yield {"total": total}
    bookmarks = _bookmarks(reader)
    for number in range(1, total + 1):
        headings = [
            Block(kind=BlockKind.HEADING, text=title, level=level, page=number, shown=False)
            for level, title in bookmarks.get(number, ())
        ]
        text = reader.pages[number - 1].extract_text()
        if not text.strip() and find_spec("pypdfium2") is not None:
            text = recognised(_drawn(data, number))
        yield {"done": number, "blocks": _plain([*headings, *blocks_of_text(text, page=number)])}


def recognised(picture: bytes) -> str:
    """The text that the program tesseract sees in a picture; empty where there is none of either."""
    program = shutil.which("tesseract")
    if program is None or not picture:
        return ""
    command = [program, "stdin", "stdout", "-l", _languages(program)]
    environment = {**os.environ, "OMP_THREAD_LIMIT": "1"}
    done = subprocess.run(command, input=picture, capture_output=True, env=environment, check=False)  # noqa: S603
    return done.stdout.decode(errors="replace") if done.returncode == 0 else ""


@cache
def _languages(program: str) -> str:
    """All that are installed, so that the operator chooses them by installing them."""
    listed = subprocess.run([program, "--list-langs"], capture_output=True, text=True, check=False)  # noqa: S603
    return "+".join(name for name in listed.stdout.splitlines()[1:] if name != "osd") or "eng"


def _drawn(data: bytes, number: int) -> bytes:
    """A page of a PDF as a picture in grey (PGM)."""
    import pypdfium2

    page = pypdfium2.PdfDocument(data)[number - 1]
    width, height = page.get_size()
    largest = (MOST_PIXELS / max(width * height, 1.0)) ** 0.5
    grey = page.render(scale=min(DOTS_AN_INCH / POINTS_AN_INCH, largest), grayscale=True).to_numpy()
    header = f"P5 {grey.shape[1]} {grey.shape[0]} 255\n".encode()
    return header + bytes(grey.tobytes())


def _bookmarks(reader: Any) -> dict[int, list[tuple[int, str]]]:
    """The table of contents by page; empty if it cannot be read, which costs only the heading paths."""
    bookmarks: dict[int, list[tuple[int, str]]] = {}
    count = 0

    def walk(entries: Any, level: int) -> None:
        nonlocal count
        for entry in entries:
            if isinstance(entry, list):
                walk(entry, level + 1)
                continue
            count += 1
            page = reader.get_destination_page_number(entry)
            title = clean(str(entry.title or "")).strip()
            if count <= MOST_BOOKMARKS and page is not None and title:
                bookmarks.setdefault(page + 1, []).append((min(level, DEEPEST_BOOKMARK), title))

    try:
        walk(reader.outline, 1)
    except Exception:  # noqa: BLE001 - the pages can be read without a table of contents
        return {}
    return bookmarks


def _plain(blocks: list[Block]) -> list[tuple[str, str, int, int | None, bool]]:
    return [(str(block.kind), clean(block.text), block.level, block.page, block.shown) for block in blocks]


def _send(out: BinaryIO, message: dict[str, Any]) -> None:
    body = json.dumps(message).encode()
    out.write(_LENGTH.pack(len(body)) + body)
    out.flush()


class _Archive:
    """An Office file. Members are read one at a time, and their bytes count against one limit."""

    def __init__(self, data: bytes) -> None:
        try:
            self._zip = zipfile.ZipFile(io.BytesIO(data))
            self._members = {member.filename: member for member in self._zip.infolist()}
        except (zipfile.BadZipFile, ValueError, OSError) as error:
            raise Unreadable("this Office file is damaged or encrypted and cannot be read") from error
        if len(self._members) > MOST_MEMBERS:
            raise Unreadable("this file has too many parts to be an Office document")
        self._left = MOST_UNPACKED

    def __contains__(self, name: str) -> bool:
        return name in self._members

    def check_size(self) -> None:
        """Refuse an archive whose members say that they unpack to too much; what lies about it meets the limit of memory."""
        if sum(member.file_size for member in self._members.values()) > MOST_UNPACKED:
            raise Unreadable("this file unpacks to more than can be read; split it")

    def xml(self, name: str) -> ElementTree.Element:
        if name not in self._members:
            raise Unreadable("this file lacks a part that every Office document has")
        with self._zip.open(self._members[name]) as file:
            body = file.read(self._left + 1)
        self._left -= len(body)
        if self._left < 0:
            raise Unreadable("this file unpacks to more than can be read; split it")
        try:
            # Decoded here, so that what is checked is what is parsed, whatever the file says of its encoding.
            is_wide = body.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
            text = body.decode("utf-16" if is_wide else "utf-8-sig")
            del body
            if "<!DOCTYPE" in text or _LONG_NAMESPACE.search(text) is not None:
                raise Unreadable("this file declares entities or namespaces that no Office document has")
            root = ElementTree.fromstring(text)  # noqa: S314
        except (ElementTree.ParseError, UnicodeError) as error:
            raise Unreadable("this Office file is damaged and cannot be read") from error
        _check_nesting(root)
        return root

    def related(self, name: str) -> dict[str, str]:
        """The members that a member refers to, by the id of the relationship."""
        folder, _, base = name.rpartition("/")
        relations = f"{folder}/_rels/{base}.rels"
        if relations not in self:
            return {}
        return {
            relation.get("Id", ""): posixpath.normpath(posixpath.join(folder, relation.get("Target", ""))).lstrip("/")
            for relation in self.xml(relations).iter(_REL)
        }


def _check_nesting(root: ElementTree.Element) -> None:
    level = [root]
    for _ in range(MOST_NESTED):
        level = [child for element in level for child in element]
        if not level:
            return
    raise Unreadable(f"this file is nested deeper than {MOST_NESTED} levels, which no Office document is")


def _outermost(element: ElementTree.Element, tag: str) -> Iterator[ElementTree.Element]:
    """The elements of a tag below an element, in order, without those inside each other."""
    waiting = list(reversed(element))
    while waiting:
        below = waiting.pop()
        if below.tag == tag:
            yield below
        else:
            waiting += reversed(below)


def read_docx(data: bytes) -> Iterator[Read]:
    """Headings, paragraphs, lists and tables of a text document."""
    archive = _Archive(data)
    levels = _heading_levels(archive)
    body = archive.xml("word/document.xml").find(f"{_W}body")
    if body is None:
        raise Unreadable("this document has no text")
    yield 0, 0, [block for element in body for block in _of_docx(element, levels)]


def _heading_levels(archive: _Archive) -> dict[str, int]:
    """The styles that are headings, by their outline level or by their name, which is English in every translation."""
    if "word/styles.xml" not in archive:
        return {}
    levels: dict[str, int] = {}
    for style in archive.xml("word/styles.xml").iter(f"{_W}style"):
        style_id, name = style.get(f"{_W}styleId", ""), _value(style, "name").lower()
        outline = _value(style, f"pPr/{_W}outlineLvl")
        if name == "title":
            levels[style_id] = 1
        elif name.startswith("heading ") and name[8:].isdigit():
            levels[style_id] = int(name[8:])
        elif outline.isdigit():
            levels[style_id] = int(outline) + 1
    return levels


def _value(element: ElementTree.Element, path: str) -> str:
    child = element.find(f"{_W}{path}")
    return child.get(f"{_W}val", "") if child is not None else ""


def _of_docx(element: ElementTree.Element, levels: dict[str, int]) -> Iterator[Block]:
    if element.tag == f"{_W}p":
        text = _paragraph(element)
        level = levels.get(_value(element, f"pPr/{_W}pStyle"), 0)
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
            " | ".join(" ".join(_paragraph(cell).split()) for cell in _outermost(row, f"{_W}tc"))
            for row in _outermost(element, f"{_W}tr")
        ]
        yield Block(kind=BlockKind.TABLE, text="\n".join(row for row in rows if row.strip(" |")))
    elif element.tag == f"{_W}sdt":
        for inner in element.iterfind(f"{_W}sdtContent/*"):
            yield from _of_docx(inner, levels)


_CHARACTERS = {
    f"{_W}tab": " ",
    f"{_W}br": "\n",
    f"{_W}cr": "\n",
    f"{_W}noBreakHyphen": "-",
    f"{_W}p": "\n",
    f"{_W}tc": "\n",
}


def _paragraph(element: ElementTree.Element) -> str:
    """The text of an element; what is inside it, such as a text box or another table, begins on a new line."""
    parts = (run.text or "" if run.tag == f"{_W}t" else _CHARACTERS.get(run.tag, "") for run in element.iter())
    return "".join(parts).strip()


def read_pptx(data: bytes) -> Iterator[Read]:
    """The slides of a presentation in order, each under its title, with its speaker notes."""
    archive = _Archive(data)
    presentation = "ppt/presentation.xml"
    related = archive.related(presentation)
    slides = [related.get(slide.get(_R, ""), "") for slide in archive.xml(presentation).iter(f"{_P}sldId")]
    for number, name in enumerate(slides, start=1):
        blocks = []
        slide = archive.xml(name)
        for shape in _outermost(slide, f"{_P}sp"):
            placeholder = shape.find(f"{_P}nvSpPr/{_P}nvPr/{_P}ph")
            is_title = placeholder is not None and placeholder.get("type") in {"title", "ctrTitle"}
            if text := _slide_text(shape):
                kind = BlockKind.HEADING if is_title else BlockKind.PARAGRAPH
                blocks.append(Block(kind=kind, text=text, level=1 if is_title else 0, page=number))
        for table in _outermost(slide, f"{_A}tbl"):
            rows = [
                " | ".join(" ".join(_slide_text(cell).split()) for cell in _outermost(row, f"{_A}tc"))
                for row in _outermost(table, f"{_A}tr")
            ]
            blocks.append(Block(kind=BlockKind.TABLE, text="\n".join(rows), page=number))
        blocks += [Block(kind=BlockKind.PARAGRAPH, text=note, page=number) for note in _speaker_notes(archive, name)]
        yield number, len(slides), sorted(blocks, key=lambda block: block.kind is not BlockKind.HEADING)


def _speaker_notes(archive: _Archive, slide: str) -> Iterator[str]:
    """What the speaker notes of a slide say, without its number and picture."""
    for name in archive.related(slide).values():
        if "/notesSlides/" in f"/{name}" and name in archive:
            for shape in _outermost(archive.xml(name), f"{_P}sp"):
                placeholder = shape.find(f"{_P}nvSpPr/{_P}nvPr/{_P}ph")
                if placeholder is not None and placeholder.get("type") == "body" and (text := _slide_text(shape)):
                    yield text


def _slide_text(element: ElementTree.Element) -> str:
    characters = {f"{_A}p": "\n", f"{_A}br": "\n"}
    parts = (run.text or "" if run.tag == f"{_A}t" else characters.get(run.tag, "") for run in element.iter())
    return "\n".join(line.strip() for line in "".join(parts).split("\n") if line.strip())


def read_sheets(data: bytes) -> Iterator[Read]:
    """The sheets of a workbook as tables, each under its name; dates and numbers as a person writes them."""
    from python_calamine import CalamineError, CalamineWorkbook, PasswordError

    if data.startswith(b"PK"):
        _Archive(data).check_size()
    try:
        book = CalamineWorkbook.from_filelike(io.BytesIO(data))
    except PasswordError as error:
        raise Unreadable("this workbook is encrypted; remove its password and send it again") from error
    except CalamineError as error:
        raise Unreadable("this workbook is damaged or encrypted and cannot be read") from error
    names, cells = book.sheet_names, 0
    for number, name in enumerate(names, start=1):
        rows = []
        for row in book.get_sheet_by_name(name).iter_rows():
            cells += len(row)
            if cells > MOST_CELLS:
                raise Unreadable(f"a workbook may have at most {MOST_CELLS:,} cells; split it")
            if line := " | ".join(map(_cell, row)).rstrip(" |"):
                rows.append(line)
        heading = Block(kind=BlockKind.HEADING, text=name, level=1, page=number)
        table = Block(kind=BlockKind.TABLE, text="\n".join(rows), page=number)
        yield number, len(names), [heading, table] if rows else []


def _cell(value: object) -> str:
    """A value as a person writes it: whole numbers without a point, a day without its midnight."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return f"{value:.15g}"
    if isinstance(value, datetime):
        at_midnight = value.time() == time()
        return value.date().isoformat() if at_midnight else value.isoformat(" ", timespec="minutes")
    return " ".join(str(value).split())


if __name__ == "__main__":
    main()
