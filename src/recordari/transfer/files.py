"""Reads the files that people have of other products: single ones, folders, and archives as they were downloaded."""

from __future__ import annotations

import gzip
import json
import zipfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from recordari.errors import InvalidInput
from recordari.transfer.rules import ForeignSource

MOST_BYTES = 4 * 2**30  # of one file in an archive
NOTES = {".md", ".markdown"}
CONVERSATIONS = "conversations"


def read_document(source: ForeignSource, path: Path) -> Any:
    """What the reader of a product takes, from its file, folder or archive."""
    try:
        if source is ForeignSource.MARKDOWN:
            return _notes(path)
        if source.is_lines:
            files = sorted(path.rglob("*.jsonl")) if path.is_dir() else [path]
            return [line for file in files for line in _lines(file.read_bytes())]
        parts = [_parsed(name, data) for name, data in _parts(source, path)]
    except OSError as error:
        raise InvalidInput(f"cannot read {path}: {error.strerror or error}") from None
    except (zipfile.BadZipFile, EOFError):
        raise InvalidInput(f"{path} is damaged; download it again") from None
    if not parts:
        raise InvalidInput(f"{path} has no file of {source.value} in it; see the table of imports in the docs")
    return parts[0] if len(parts) == 1 else [one for part in parts if isinstance(part, list) for one in part]


def _parts(source: ForeignSource, path: Path) -> Iterator[tuple[str, bytes]]:
    """The files that hold memories; a large export of chats has several."""
    if path.is_dir():
        files = {file.relative_to(path).as_posix(): file for file in sorted(path.rglob("*")) if file.is_file()}
        yield from ((name, files[name].read_bytes()) for name in _wanted(source, list(files)))
    elif zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            for name in _wanted(source, archive.namelist()):
                if archive.getinfo(name).file_size > MOST_BYTES:
                    raise InvalidInput(f"{name} in {path} is too large; unpack it and import the file")
                yield name, archive.read(name)
    else:
        yield path.name, path.read_bytes()


def _wanted(source: ForeignSource, names: list[str]) -> list[str]:
    """The names of the files to read among all of a folder or archive."""
    ends = [name.rpartition("/")[2] for name in names]
    if source is ForeignSource.OPENMEMORY:
        # Its backup has the texts in the lines, and in the other file only the state of its database.
        chosen = next((end for end in ("memories.jsonl.gz", "memories.jsonl", "memories.json") if end in ends), None)
        return [name for name, end in zip(names, ends, strict=True) if end == chosen]
    return sorted(
        name for name, end in zip(names, ends, strict=True) if end.startswith(CONVERSATIONS) and end.endswith(".json")
    )


def _parsed(name: str, data: bytes) -> Any:
    if name.endswith(".gz"):
        name, data = name.removesuffix(".gz"), gzip.decompress(data)
    if name.endswith(".jsonl"):
        return list(_lines(data))
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        raise InvalidInput(f"{name} is not JSON") from None


def _lines(data: bytes) -> Iterator[Any]:
    """The objects of JSON Lines; a line that was cut short is left out."""
    for line in data.splitlines():
        with suppress(ValueError, RecursionError):
            yield json.loads(line)


def _notes(folder: Path) -> dict[str, Any]:
    """The Markdown files of a folder by their paths in it, without hidden ones and links that lead out."""
    if not folder.is_dir():
        raise InvalidInput(f"{folder} is no folder; name the folder of the notes")
    real = folder.resolve()
    files = {
        path.relative_to(folder).as_posix(): path.read_text("utf-8", errors="replace")
        for path in sorted(folder.rglob("*"))
        if path.suffix.lower() in NOTES
        and not any(part.startswith(".") for part in path.relative_to(folder).parts)
        and path.is_file()
        and path.resolve().is_relative_to(real)
    }
    return {"folder": real.name or "notes", "files": files}
