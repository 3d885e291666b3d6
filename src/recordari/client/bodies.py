"""Bodies that are not one piece of JSON: files, and lines that move one by one."""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator
from typing import Any

from recordari.client.routes import Wire
from recordari.core.checks import json_text
from recordari.core.flushing import each
from recordari.errors import InvalidInput
from recordari.knowledge.ingest import NewDocument
from recordari.transfer.import_export import Lines

SENT_AT_ONCE = 64 * 1024  # bytes of lines that go out together
STREAM = "text/event-stream"
_ANY_FILE = "application/octet-stream"  # it says nothing: the server looks at the name and at the file


def document_wire(path: str, new: NewDocument) -> Wire:
    """The upload of a document: a form, because only that carries metadata beside the file."""
    if (new.data is None) == (new.text is None):
        raise InvalidInput("give the document's file as data, or its words as text")
    for field, given in (("name", new.name), ("source", new.source)):
        if given == "":  # a form cannot tell an empty field from none
            raise InvalidInput(f"{field} must not be empty", field=field)
    body = new.data if new.data is not None else str(new.text).encode(errors="surrogatepass")
    is_plain = new.text is not None and "." not in new.name
    media_type = new.media_type or ("text/plain" if is_plain else _ANY_FILE)
    form = {"name": new.name, "metadata": json_text(new.metadata, field="metadata")}
    if new.source is not None:
        form["source"] = str(new.source)
    return Wire(path=path, form=form, files={"file": ("file", body, media_type)})


async def written_lines(lines: Lines) -> AsyncIterator[bytes]:
    """Lines as they are sent, some kilobytes at a time."""
    waiting = bytearray()
    async for line in each(lines):
        # A line break within JSON is only white space, and on the wire it would end the line.
        waiting += line.strip().replace("\n", " ").encode(errors="surrogatepass") + b"\n"
        if len(waiting) >= SENT_AT_ONCE:
            yield bytes(waiting)
            waiting.clear()
    if waiting:
        yield bytes(waiting)


async def read_lines(parts: AsyncIterable[bytes]) -> AsyncIterator[str]:
    """Lines that arrive in pieces; only a line feed ends one, since texts hold other separators."""
    rest = bytearray()
    async for part in parts:
        rest += part
        if b"\n" not in part:
            continue
        *whole, last = bytes(rest).split(b"\n")
        rest = bytearray(last)
        for line in whole:
            yield line.decode()
    if rest:
        yield rest.decode()


def told(line: str) -> str | None:
    """What a line of an event stream carries: the JSON of an event, nothing new (an empty text), or None for neither."""
    if line.startswith("data:"):
        return line.removeprefix("data:").strip()
    return "" if line.startswith(":") else None


def place_of(field: Any) -> int | None:
    """The number of the line that a problem names as its field."""
    number = str(field).removeprefix("line ")
    return int(number) if str(field).startswith("line ") and number.isdigit() else None
