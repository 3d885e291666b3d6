"""The process that reads one file: its bytes come on standard input, blocks go to standard output, limits come first.

Started by `recordari.knowledge.reading.reader` and never imported by a server: whatever happens here ends with this process.
"""

from __future__ import annotations

import json
import struct
import sys
from collections.abc import Iterator
from typing import Any, BinaryIO

from recordari.knowledge.reading.office import OfficeError, read_docx, read_pptx, read_xlsx
from recordari.knowledge.rules.chunks import Block, BlockKind, clean
from recordari.knowledge.rules.markup import blocks_of_html, blocks_of_text

_LENGTH = struct.Struct(">I")
MOST_BOOKMARKS = 2_000


class Unreadable(Exception):
    """Why a file cannot be read, in words for the one who sent it."""


def main() -> None:
    """Read the file of standard input as the type that the first argument names."""
    media_type, megabytes, seconds = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    _limit(megabytes, seconds)
    out = sys.stdout.buffer
    try:
        data = sys.stdin.buffer.read()
        for message in _messages(media_type, data):
            _send(out, message)
        _send(out, {"end": True})
    except (Unreadable, OfficeError) as error:
        _send(out, {"error": str(error)})
    except MemoryError:
        _send(out, {"error": "reading this file takes too much memory; split it"})
    except Exception as error:  # noqa: BLE001 - whatever a parser raises on a damaged file, the file is refused
        _send(out, {"error": f"this file is damaged and cannot be read ({type(error).__name__})"})


def _limit(megabytes: int, seconds: int) -> None:
    try:
        import resource
    except ImportError:  # not on Windows, where the time alone is limited
        return
    sys.setrecursionlimit(2_000)
    for what, most in (
        (resource.RLIMIT_AS, megabytes * 2**20),
        (resource.RLIMIT_CPU, seconds),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_CORE, 0),
    ):
        try:
            resource.setrlimit(what, (most, most))
        except (ValueError, OSError):
            continue  # a stricter one stands already


def _messages(media_type: str, data: bytes) -> Iterator[dict[str, Any]]:
    kind = media_type.rpartition(".")[2].rpartition("/")[2]
    if kind == "html":
        yield {"blocks": _plain(blocks_of_html(data.decode()))}
    elif kind == "pdf":
        yield from _pdf(data)
    else:
        read = {"document": read_docx, "sheet": read_xlsx, "presentation": read_pptx}[kind]
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
        yield {"done": number, "blocks": _plain([*headings, *blocks_of_text(text, page=number)])}


def _bookmarks(reader: Any) -> dict[int, list[tuple[int, str]]]:
    """The table of contents by page; none where it cannot be read, which costs only the heading paths."""
    found: dict[int, list[tuple[int, str]]] = {}
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
                found.setdefault(page + 1, []).append((level, title))

    try:
        walk(reader.outline, 1)
    except Exception:  # noqa: BLE001 - a damaged table of contents does not keep its pages from being read
        return {}
    return found


def _plain(blocks: list[Block]) -> list[tuple[str, str, int, int | None, bool]]:
    return [(str(block.kind), clean(block.text), block.level, block.page, block.shown) for block in blocks]


def _send(out: BinaryIO, message: dict[str, Any]) -> None:
    body = json.dumps(message).encode()
    out.write(_LENGTH.pack(len(body)) + body)
    out.flush()


if __name__ == "__main__":
    main()
