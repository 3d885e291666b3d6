"""Reading files into blocks of text, in a process of its own that may take so much memory and time and no more.

Text and Markdown are read here. Whatever has a parser that a hostile file could exhaust (HTML, PDF, Office) is read by
`recordari.knowledge.reading.child`: if that dies or is stopped, the file is refused and nothing else has happened.
"""

from __future__ import annotations

import asyncio
import codecs
import io
import json
import os
import struct
import sys
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

from recordari.core.checks import Progress
from recordari.errors import ConfigurationError, InvalidInput, TooLarge
from recordari.knowledge.rules.chunks import Block, BlockKind
from recordari.knowledge.rules.markup import blocks_of_markdown, blocks_of_text

TEXT = "text/plain"
MARKDOWN = "text/markdown"
HTML = "text/html"
PDF = "application/pdf"
_OFFICE = "application/vnd.openxmlformats-officedocument"
DOCX = f"{_OFFICE}.wordprocessingml.document"
XLSX = f"{_OFFICE}.spreadsheetml.sheet"
PPTX = f"{_OFFICE}.presentationml.presentation"

SUFFIXES = {
    ".txt": TEXT,
    ".text": TEXT,
    ".md": MARKDOWN,
    ".markdown": MARKDOWN,
    ".html": HTML,
    ".htm": HTML,
    ".xhtml": HTML,
    ".pdf": PDF,
    ".docx": DOCX,
    ".xlsx": XLSX,
    ".pptx": PPTX,
}
BINARY = frozenset({PDF, DOCX, XLSX, PPTX})
_ALSO = {
    "text/x-markdown": MARKDOWN,
    "application/xhtml+xml": HTML,
    "application/x-pdf": PDF,
    "application/json": TEXT,
    "application/xml": TEXT,
}
_ANY = frozenset({"application/octet-stream", "application/x-www-form-urlencoded", "binary/octet-stream"})
_ENVIRONMENT = ("PATH", "PYTHONPATH", "PYTHONHOME", "LANG", "LC_ALL", "SYSTEMROOT")
_LENGTH = struct.Struct(">I")
AT_ONCE = 2
MOST_TEXT = 20_000_000  # characters of one document


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadingLimits:
    """What reading one file may take."""

    seconds: float = 300.0
    megabytes: int = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtractedDocument:
    """What a file says."""

    blocks: tuple[Block, ...]
    pages: int | None = None


def media_type_of(name: str, data: bytes, given: str | None = None) -> str:
    """Which of the types we read a file is: as its sender says, else by its name, else by how it begins."""
    said = (given or "").partition(";")[0].strip().lower()
    if said and said not in _ANY:
        known = _ALSO.get(said, said)
        if known in SUFFIXES.values():
            return known
        if known.startswith("text/"):
            return TEXT
        raise InvalidInput(f"files of the type {said} cannot be read; send {_readable()}", field="media_type")
    suffix = os.path.splitext(name)[1].lower()  # noqa: PTH122 - a name, not a path of this machine
    if suffix in SUFFIXES:
        return SUFFIXES[suffix]
    if data.startswith(b"%PDF-"):
        return PDF
    if data.startswith(b"PK\x03\x04"):
        return _office_type(data)
    if data.startswith(b"\xd0\xcf\x11\xe0"):
        raise InvalidInput("old Office files cannot be read; save it as docx, xlsx or pptx", field="media_type")
    if b"\x00" not in data[:8192] or data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return TEXT
    raise InvalidInput(f"this file's type is not known; send {_readable()}", field="media_type")


def _office_type(data: bytes) -> str:
    try:
        names = set(zipfile.ZipFile(io.BytesIO(data)).namelist())
    except (zipfile.BadZipFile, ValueError, OSError):
        names = set()
    for member, found in {"word/document.xml": DOCX, "xl/workbook.xml": XLSX, "ppt/presentation.xml": PPTX}.items():
        if member in names:
            return found
    raise InvalidInput(f"an archive is not a document; send {_readable()}", field="media_type")


def _readable() -> str:
    return "text, Markdown, HTML, PDF, docx, xlsx or pptx"


def decoded(data: bytes, given: str | None = None) -> str:
    """Text in the encoding that its sender names, else UTF-8, or UTF-16 with its mark."""
    charset = next(
        (part.partition("=")[2].strip(" \"'") for part in (given or "").split(";")[1:] if "charset" in part.lower()),
        "utf-16" if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) else "utf-8-sig",
    )
    try:
        codec = codecs.lookup("utf-8-sig" if charset.lower() in {"utf-8", "utf8"} else charset)
        text = codec.decode(data)[0] if codec._is_text_encoding else None
    except (LookupError, UnicodeError):
        text = None
    if not isinstance(text, str):
        raise InvalidInput("this text cannot be decoded; send UTF-8, or name its charset in the media type")
    if "\x00" in text:
        raise InvalidInput("this is not text: it contains the character U+0000")
    return text


class Extractor:
    """Reads files, a few at a time."""

    def __init__(self) -> None:
        self._places = asyncio.Semaphore(AT_ONCE)

    async def extract(
        self,
        data: bytes,
        media_type: str,
        *,
        charset: str | None = None,
        limits: ReadingLimits,
        progress: Progress | None = None,
    ) -> ExtractedDocument:
        """The blocks of a file; `InvalidInput` says why it cannot be read."""
        if media_type in {TEXT, MARKDOWN}:
            text = decoded(data, charset)
            if len(text) > MOST_TEXT:
                raise TooLarge(f"a document may have at most {MOST_TEXT:,} characters; split it")
            read = blocks_of_markdown if media_type == MARKDOWN else blocks_of_text
            return ExtractedDocument(blocks=tuple(await asyncio.to_thread(read, text)))
        if media_type == PDF and find_spec("pypdf") is None:
            raise ConfigurationError("reading PDF needs a package; install it with: pip install 'recordari[docs]'")
        if media_type == HTML:
            data = decoded(data, charset).encode()
        async with self._places:
            return await _read_apart(data, media_type, limits, progress)


async def _read_apart(
    data: bytes, media_type: str, limits: ReadingLimits, progress: Progress | None
) -> ExtractedDocument:
    """Let a child process read the file, and stop it when it takes too long."""
    command = (sys.executable, "-m", "recordari.knowledge.reading.child")
    child = await asyncio.create_subprocess_exec(
        *command,
        media_type,
        str(limits.megabytes),
        str(int(limits.seconds) + 1),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        env={name: os.environ[name] for name in _ENVIRONMENT if name in os.environ},  # no secrets
    )
    assert child.stdin is not None and child.stdout is not None
    feeding = asyncio.create_task(_feed(child.stdin, data))
    try:
        async with asyncio.timeout(limits.seconds):
            return await _collect(child.stdout, progress)
    except TimeoutError:
        raise InvalidInput(f"this file was not read within {limits.seconds:.0f} seconds; split it") from None
    finally:
        feeding.cancel()
        await asyncio.gather(feeding, return_exceptions=True)
        if child.returncode is None:
            child.kill()
        await child.wait()


async def _feed(pipe: asyncio.StreamWriter, data: bytes) -> None:
    try:
        pipe.write(data)
        await pipe.drain()
        pipe.close()
    except OSError:
        return  # it ended before it had read all; what it said tells why


async def _collect(pipe: asyncio.StreamReader, progress: Progress | None) -> ExtractedDocument:
    blocks: list[Block] = []
    characters, pages = 0, None
    while True:
        message = await _message(pipe)
        if "error" in message:
            raise InvalidInput(str(message["error"]))
        if "total" in message:
            pages = message["total"]
        found = [_block(one) for one in message.get("blocks", ())]
        characters += sum(len(block.text) for block in found)
        if characters > MOST_TEXT:
            raise TooLarge(f"a document may have at most {MOST_TEXT:,} characters; split it")
        blocks += found
        if progress is not None and pages and "done" in message:
            progress(message["done"], pages)
        if message.get("end"):
            return ExtractedDocument(blocks=tuple(blocks), pages=pages)


async def _message(pipe: asyncio.StreamReader) -> dict[str, Any]:
    try:
        (length,) = _LENGTH.unpack(await pipe.readexactly(_LENGTH.size))
        if length > MOST_TEXT * 4:
            raise TooLarge(f"a document may have at most {MOST_TEXT:,} characters; split it")
        found: dict[str, Any] = json.loads(await pipe.readexactly(length))
    except asyncio.IncompleteReadError:
        # It was stopped by a limit of the system, or its parser died.
        raise InvalidInput("this file cannot be read: it is damaged, or reading it takes too much memory") from None
    return found


def _block(values: Sequence[Any]) -> Block:
    kind, text, level, page, shown = values
    return Block(kind=BlockKind(kind), text=text, level=level, page=page, shown=shown)
