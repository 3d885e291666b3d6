"""Reads files into blocks of text.

Text and Markdown are read here. HTML, PDF, Office and images have parsers that a hostile file could exhaust, so a process of
its own reads them within limits of memory and time (`recordari.knowledge.child`). If it dies, only that file is refused.
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
from dataclasses import dataclass
from importlib.util import find_spec
from shutil import which
from typing import Any
from uuid import UUID
from weakref import WeakValueDictionary

from recordari.core.checks import Progress
from recordari.errors import ConfigurationError, InvalidInput, TooLarge
from recordari.knowledge.rules.chunks import Block, BlockKind
from recordari.knowledge.rules.markup import blocks_of_csv, blocks_of_markdown, blocks_of_text

TEXT = "text/plain"
MARKDOWN = "text/markdown"
CSV = "text/csv"
HTML = "text/html"
PDF = "application/pdf"
_OFFICE = "application/vnd.openxmlformats-officedocument"
DOCX = f"{_OFFICE}.wordprocessingml.document"
XLSX = f"{_OFFICE}.spreadsheetml.sheet"
PPTX = f"{_OFFICE}.presentationml.presentation"
XLS = "application/vnd.ms-excel"
ODS = "application/vnd.oasis.opendocument.spreadsheet"

SUFFIXES = {
    ".txt": TEXT,
    ".text": TEXT,
    ".md": MARKDOWN,
    ".markdown": MARKDOWN,
    ".csv": CSV,
    ".tsv": CSV,
    ".html": HTML,
    ".htm": HTML,
    ".xhtml": HTML,
    ".pdf": PDF,
    ".docx": DOCX,
    ".xlsx": XLSX,
    ".xls": XLS,
    ".ods": ODS,
    ".pptx": PPTX,
}
_READ_HERE = {TEXT: blocks_of_text, MARKDOWN: blocks_of_markdown, CSV: blocks_of_csv}
IMAGES = {".png": "image/png", ".jpg": "image/jpeg", ".jpeg": "image/jpeg", ".gif": "image/gif", ".webp": "image/webp"}
"""Files that are found by their caption, and by what text recognition sees in them where the operator installed it."""
_IMAGE_BEGINS = {"image/png": b"\x89PNG", "image/jpeg": b"\xff\xd8\xff", "image/gif": b"GIF8", "image/webp": b"RIFF"}
BINARY = frozenset({PDF, DOCX, XLSX, XLS, ODS, PPTX, *IMAGES.values()})
_BY_NAME = {**SUFFIXES, **IMAGES}
_ALSO = {
    "text/x-markdown": MARKDOWN,
    "application/xhtml+xml": HTML,
    "application/x-pdf": PDF,
    "application/csv": CSV,
    "text/tab-separated-values": CSV,
    "application/json": TEXT,
    "application/xml": TEXT,
}
_ANY = frozenset({"application/octet-stream", "application/x-www-form-urlencoded", "binary/octet-stream"})
_ENVIRONMENT = ("PATH", "PYTHONPATH", "PYTHONHOME", "LANG", "LC_ALL", "SYSTEMROOT")
_LENGTH = struct.Struct(">I")
_READABLE = "text, Markdown, CSV, HTML, PDF, docx, xlsx, xls, ods, pptx, or an image with a caption"
AT_ONCE = 2  # files read in parallel
MOST_TEXT = 20_000_000  # characters of one document


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadingLimits:
    """The most time and memory that reading one file may take."""

    seconds: float = 300.0
    megabytes: int = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtractedDocument:
    blocks: tuple[Block, ...]
    pages: int | None = None


def recognises_text() -> bool:
    """Whether the program that reads text in pictures is installed."""
    return which("tesseract") is not None


def media_type_of(name: str, data: bytes, given: str | None = None) -> str:
    """The type of a file, as its sender gives it, else by its name, else by its first bytes."""
    media_type = _named_type(name, data, given)
    if not data.startswith(_IMAGE_BEGINS.get(media_type, b"")):
        raise InvalidInput(f"this file is no {media_type}", field="media_type")
    return media_type


def _named_type(name: str, data: bytes, given: str | None) -> str:
    given = (given or "").partition(";")[0].strip().lower()
    if given and given not in _ANY:
        media_type = _ALSO.get(given, given)
        if media_type in _BY_NAME.values():
            return media_type
        if media_type.startswith("text/"):
            return TEXT
        raise InvalidInput(f"files of the type {given} cannot be read; send {_READABLE}", field="media_type")
    suffix = os.path.splitext(name)[1].lower()  # noqa: PTH122 - a name, not a path of this machine
    if suffix in _BY_NAME:
        return _BY_NAME[suffix]
    if data.startswith(b"%PDF-"):
        return PDF
    if data.startswith(b"PK\x03\x04"):
        return _office_type(data)
    if data.startswith(b"\xd0\xcf\x11\xe0"):
        raise InvalidInput("old Office files cannot be read, but for .xls; save it as docx or pptx", field="media_type")
    if b"\x00" not in data[:8192] or data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return TEXT
    raise InvalidInput(f"the type of this file is unknown; send {_READABLE}", field="media_type")


def _office_type(data: bytes) -> str:
    try:
        names = set(zipfile.ZipFile(io.BytesIO(data)).namelist())
    except (zipfile.BadZipFile, ValueError, OSError):
        names = set()
    types = {"word/document.xml": DOCX, "xl/workbook.xml": XLSX, "ppt/presentation.xml": PPTX, "content.xml": ODS}
    for member, media_type in types.items():
        if member in names:
            return media_type
    raise InvalidInput(f"an archive is not a document; send {_READABLE}", field="media_type")


def decoded(data: bytes, given: str | None = None) -> str:
    """Decode text by the charset that its sender names, else as UTF-8, or as UTF-16 if it has a byte order mark."""
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
    """Reads files, two at a time and one of each tenant, so that no tenant's files hold up another's."""

    def __init__(self) -> None:
        self._places = asyncio.Semaphore(AT_ONCE)
        self._turns: WeakValueDictionary[UUID, asyncio.Lock] = WeakValueDictionary()

    async def extract(
        self,
        data: bytes,
        media_type: str,
        *,
        tenant_id: UUID,
        charset: str | None = None,
        limits: ReadingLimits,
        progress: Progress | None = None,
    ) -> ExtractedDocument:
        """The blocks of a file; `InvalidInput` says why it cannot be read."""
        if media_type in _READ_HERE:
            text = decoded(data, charset)
            _check_size(len(text))
            return ExtractedDocument(blocks=tuple(await asyncio.to_thread(_READ_HERE[media_type], text)))
        if media_type == PDF and find_spec("pypdf") is None:
            raise ConfigurationError("reading PDF needs a package; install it with: pip install 'recordari[docs]'")
        if media_type == HTML:
            data = decoded(data, charset).encode()
        # Whoever waits or reads holds the lock of its tenant, so that it lives as long as it is needed.
        turn = self._turns.setdefault(tenant_id, asyncio.Lock())
        async with turn, self._places:
            return await _read_apart(data, media_type, limits, progress)


async def _read_apart(
    data: bytes, media_type: str, limits: ReadingLimits, progress: Progress | None
) -> ExtractedDocument:
    """Let a child process read the file, and stop it when it takes too long."""
    child = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "recordari.knowledge.child",
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
        return  # the process ended before it had read all; its last message gives the reason


async def _collect(pipe: asyncio.StreamReader, progress: Progress | None) -> ExtractedDocument:
    blocks: list[Block] = []
    characters, pages = 0, None
    while True:
        message = await _message(pipe)
        if "error" in message:
            raise InvalidInput(str(message["error"]))
        if "total" in message:
            pages = message["total"]
        received = [
            Block(kind=BlockKind(kind), text=text, level=level, page=page, shown=shown)
            for kind, text, level, page, shown in message.get("blocks", ())
        ]
        characters += sum(len(block.text) for block in received)
        _check_size(characters)
        blocks += received
        if progress is not None and pages and "done" in message:
            progress(message["done"], pages)
        if message.get("end"):
            return ExtractedDocument(blocks=tuple(blocks), pages=pages)


async def _message(pipe: asyncio.StreamReader) -> dict[str, Any]:
    try:
        (length,) = _LENGTH.unpack(await pipe.readexactly(_LENGTH.size))
        _check_size(length // 4)
        message: dict[str, Any] = json.loads(await pipe.readexactly(length))
    except asyncio.IncompleteReadError:
        # A limit of the system stopped the process, or its parser died.
        raise InvalidInput("this file cannot be read: it is damaged, or reading it takes too much memory") from None
    return message


def _check_size(characters: int) -> None:
    if characters > MOST_TEXT:
        raise TooLarge(f"a document may have at most {MOST_TEXT:,} characters; split it")
