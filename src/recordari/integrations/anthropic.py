"""Claude's memory tool: the files under `/memories` are entries of Recordari, so that recall finds what is in them.

    from anthropic import AsyncAnthropic
    from recordari.integrations.anthropic import AsyncRecordariMemoryTool

    tool = AsyncRecordariMemoryTool(memory, user="ana")
    runner = AsyncAnthropic().beta.messages.tool_runner(model=…, max_tokens=…, messages=[…], tools=[tool])

Each user has an own `/memories`; with `scope="agent"` all users of an agent share one. `RecordariMemoryTool` is the same for
`Anthropic`, over a `recordari.sync` memory. Answers and errors have the wording that Claude expects.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Coroutine
from dataclasses import dataclass
from typing import Any, TypeVar
from urllib.parse import unquote

from anthropic.lib.tools import BetaAbstractMemoryTool, BetaAsyncAbstractMemoryTool, ToolError
from anthropic.types.beta import (
    BetaMemoryTool20250818CreateCommand,
    BetaMemoryTool20250818DeleteCommand,
    BetaMemoryTool20250818InsertCommand,
    BetaMemoryTool20250818RenameCommand,
    BetaMemoryTool20250818StrReplaceCommand,
    BetaMemoryTool20250818ViewCommand,
)

from recordari.entries.rules import MAX_PAGE, Entry, FoundEntry
from recordari.errors import NotFound, PreconditionFailed, RecordariError
from recordari.integrations.base import MemoryCaller, Verbs
from recordari.sync import Facade

__all__ = ["AsyncRecordariMemoryTool", "RecordariMemoryTool"]

T = TypeVar("T")
ROOT = "memories"
MAX_LINES = 999_999
WIDTH = len(str(MAX_LINES))
DEPTH = 2


@dataclass(frozen=True, slots=True)
class MemoryPath:
    """A valid path below `/memories`; without labels it is the folder itself."""

    written: str
    labels: tuple[str, ...]

    @property
    def folder(self) -> tuple[str, ...]:
        """The namespace of a file with this path."""
        return (ROOT, *self.labels[:-1])


def path_of(path: str) -> MemoryPath:
    """Parse a path; refuse one that leads out of `/memories`, however it is written."""
    if not (path == f"/{ROOT}" or path.startswith(f"/{ROOT}/")):
        raise ToolError(f"Path must start with /{ROOT}, got: {path}")
    if unquote(path) != path:
        raise ToolError(f"Path {path} must be written without percent encoding")
    written = path.rstrip("/")
    # Characters that look like dots and slashes count as dots and slashes.
    looks = unicodedata.normalize("NFKC", written)
    labels = written.removeprefix(f"/{ROOT}").removeprefix("/").split("/")
    bad = any(label in {"", ".", ".."} or "\\" in label or _has_control(label) for label in looks.split("/")[2:])
    if bad or looks.count("/") != written.count("/"):
        raise ToolError(f"Path {path} would escape /{ROOT} directory")
    return MemoryPath(written, tuple(labels) if labels != [""] else ())


def _has_control(text: str) -> bool:
    return any(unicodedata.category(character) in {"Cc", "Cf", "Cs", "Zl", "Zp"} for character in text)


class _Folder:
    """The commands on the files of one owner."""

    def __init__(self, caller: MemoryCaller, scope: str | None) -> None:
        self._memory = caller.memory
        self._scope = scope

    async def view(self, path: str, view_range: list[int] | None) -> str:
        place = path_of(path)
        file = await self._file(place)
        if file is not None:
            return _numbered_view(place.written, _text(file), view_range)
        below = await self._below(place)
        if not below and place.labels:
            raise ToolError(f"The path {path} does not exist. Please provide a valid path.")
        return _listing(place, below)

    async def create(self, path: str, text: str) -> str:
        place = path_of(path)
        if not place.labels or await self._file(place) is not None or await self._below(place, limit=1):
            raise ToolError(f"File {path} already exists")
        await self._check_parents(place)
        try:
            await self._write(place, text, version=0)
        except PreconditionFailed:
            raise ToolError(f"File {path} already exists") from None
        return f"File created successfully at: {path}"

    async def str_replace(self, path: str, old: str, new: str) -> str:
        place, file = await self._existing(path)
        text = _text(file)
        positions = _occurrences(text, old)
        if not positions:
            raise ToolError(f"No replacement was performed, old_str `{old}` did not appear verbatim in {path}.")
        if len(positions) > 1:
            lines = ", ".join(str(text.count("\n", 0, position) + 1) for position in positions)
            raise ToolError(
                f"No replacement was performed. Multiple occurrences of old_str `{old}` in lines: {lines}. "
                "Please ensure it is unique"
            )
        changed = text.replace(old, new, 1)
        await self._write(place, changed, version=file.version)
        line = text.count("\n", 0, positions[0])
        first = max(0, line - 2)
        return (
            "The memory file has been edited. Here is the snippet showing the change (with line numbers):\n"
            + _numbered(changed.split("\n")[first : line + 3], first + 1)
        )

    async def insert(self, path: str, line: int, text: str) -> str:
        place, file = await self._existing(path)
        lines = _text(file).split("\n")
        if lines[-1] == "":
            lines.pop()
        if not 0 <= line <= len(lines):
            raise ToolError(
                f"Invalid `insert_line` parameter: {line}. It should be within the range [0, {len(lines)}]."
            )
        lines.insert(line, text.rstrip("\n"))
        changed = "\n".join(lines)
        await self._write(place, changed if changed.endswith("\n") else changed + "\n", version=file.version)
        return f"The file {path} has been edited."

    async def delete(self, path: str) -> str:
        place = path_of(path)
        if not place.labels:
            raise ToolError(f"Cannot delete the /{ROOT} directory itself")
        file = await self._file(place)
        entries = [file] if file is not None else await self._below(place)
        if not entries:
            raise ToolError(f"The path {path} does not exist")
        for entry in entries:
            await self._remove(entry)
        return f"Successfully deleted {path}"

    async def rename(self, old_path: str, new_path: str) -> str:
        old, new = path_of(old_path), path_of(new_path)
        if not old.labels:
            raise ToolError(f"Cannot rename the /{ROOT} directory itself")
        if not new.labels or await self._file(new) is not None or await self._below(new, limit=1):
            raise ToolError(f"The destination {new_path} already exists")
        file = await self._file(old)
        moved = [file] if file is not None else await self._below(old)
        if not moved:
            raise ToolError(f"The path {old_path} does not exist")
        if file is None and new.labels[: len(old.labels)] == old.labels:
            raise ToolError(f"Cannot move {old_path} into itself")
        await self._check_parents(new)
        for entry in moved:
            rest = (*entry.namespace[1:], entry.key)[len(old.labels) :]
            await self._write(MemoryPath(new_path, (*new.labels, *rest)), _text(entry), version=0)
            await self._remove(entry)
        return f"Successfully renamed {old_path} to {new_path}"

    async def clear(self) -> str:
        for entry in await self._below(MemoryPath(f"/{ROOT}", ())):
            await self._remove(entry)
        return "All memory cleared"

    async def _file(self, place: MemoryPath) -> Entry | None:
        if not place.labels:
            return None
        try:
            return await self._memory.get_entry(place.folder, place.labels[-1], scope=self._scope)
        except NotFound:
            return None

    async def _existing(self, path: str) -> tuple[MemoryPath, Entry]:
        place = path_of(path)
        file = await self._file(place)
        if file is None:
            is_folder = not place.labels or await self._below(place, limit=1)
            reason = "is not a file." if is_folder else "does not exist. Please provide a valid path."
            raise ToolError(f"The path {path} {reason}")
        return place, file

    async def _below(self, place: MemoryPath, *, limit: int | None = None) -> list[FoundEntry]:
        """Every file in a folder and the folders in it."""
        entries: list[FoundEntry] = []
        while True:
            page = await self._memory.search_entries(
                (ROOT, *place.labels), scope=self._scope, limit=limit or MAX_PAGE, offset=len(entries)
            )
            entries += page
            if limit is not None or len(page) < MAX_PAGE:
                return entries

    async def _check_parents(self, place: MemoryPath) -> None:
        for depth in range(1, len(place.labels)):
            above = MemoryPath(f"/{ROOT}/{'/'.join(place.labels[:depth])}", place.labels[:depth])
            if await self._file(above) is not None:
                raise ToolError(f"The path {above.written} is not a directory.")

    async def _write(self, place: MemoryPath, text: str, *, version: int) -> None:
        await self._memory.put_entry(
            place.folder, place.labels[-1], {"text": text}, scope=self._scope, if_version=version
        )

    async def _remove(self, entry: Entry) -> None:
        try:
            await self._memory.delete_entry(entry.namespace, entry.key, scope=self._scope)
        except NotFound:
            return  # it is gone already


def _text(entry: Entry) -> str:
    return str(entry.value.get("text", ""))


def _occurrences(text: str, part: str) -> list[int]:
    """The positions of a text, overlapping ones included."""
    return [match.start() for match in re.finditer(f"(?={re.escape(part)})", text)] if part else []


def _numbered(lines: list[str], first: int) -> str:
    return "\n".join(f"{str(number).rjust(WIDTH)}\t{line}" for number, line in enumerate(lines, start=first))


def _numbered_view(path: str, text: str, view_range: list[int] | None) -> str:
    lines = text.split("\n")
    if len(lines) > MAX_LINES:
        raise ToolError(f"File {path} exceeds maximum line limit of 999,999 lines.")
    first = 1
    if view_range and len(view_range) == 2:
        first = max(1, view_range[0])
        lines = lines[first - 1 : len(lines) if view_range[1] == -1 else view_range[1]]
    return f"Here's the content of {path} with line numbers:\n{_numbered(lines, first)}"


def _listing(place: MemoryPath, below: list[FoundEntry]) -> str:
    """Files and folders two levels deep, sorted by name; the size of a folder is that of its files."""
    sizes: dict[tuple[str, ...], int] = {}
    folders: set[tuple[str, ...]] = set()
    total = 0
    for entry in below:
        labels = (*entry.namespace[1:], entry.key)[len(place.labels) :]
        size = len(_text(entry).encode())
        total += size
        if any(label.startswith(".") for label in labels[:DEPTH]):
            continue
        for depth in range(1, min(len(labels), DEPTH) + 1):
            shown = labels[:depth]
            sizes[shown] = sizes.get(shown, 0) + size
            if depth < len(labels):
                folders.add(shown)
    header = f"Here're the files and directories up to 2 levels deep in {place.written}, excluding hidden items:"
    lines = [
        f"{_size(sizes[shown])}\t{place.written}/{'/'.join(shown)}{'/' if shown in folders else ''}"
        for shown in sorted(sizes)
    ]
    return "\n".join([header, f"{_size(total)}\t{place.written}", *lines])


def _size(number: int) -> str:
    """A size as people read it: 0B, 512B, 1.5K, 2M."""
    step = min(max(number.bit_length() - 1, 0) // 10, 3)
    scaled = number / 1024**step
    return f"{int(scaled)}{'BKMG'[step]}" if scaled == int(scaled) else f"{scaled:.1f}{'BKMG'[step]}"


async def _run(command: Coroutine[Any, Any, str]) -> str:
    """Run a command; errors of Recordari become errors that the model can read and correct."""
    try:
        return await command
    except PreconditionFailed:
        raise ToolError("The file was changed by someone else meanwhile; view it again and repeat.") from None
    except RecordariError as error:
        raise ToolError(error.message) from error


class _Commands:
    """The commands of both tools: `_done` returns the answer, or an awaitable of it."""

    def __init__(
        self,
        memory: Verbs | Facade,
        *,
        user: str | None = None,
        agent: str | None = None,
        scope: str | None = None,
        **more: Any,
    ) -> None:
        super().__init__(**more)
        self._caller = MemoryCaller(memory).acting_as(user=user, agent=agent)
        self._folder = _Folder(self._caller, scope)

    def _done(self, command: Coroutine[Any, Any, str]) -> Any:
        raise NotImplementedError

    def view(self, command: BetaMemoryTool20250818ViewCommand) -> Any:
        """Show a file with line numbers, or list a folder."""
        return self._done(self._folder.view(command.path, command.view_range))

    def create(self, command: BetaMemoryTool20250818CreateCommand) -> Any:
        """Make a new file."""
        return self._done(self._folder.create(command.path, command.file_text))

    def str_replace(self, command: BetaMemoryTool20250818StrReplaceCommand) -> Any:
        """Replace the one occurrence of a text."""
        return self._done(self._folder.str_replace(command.path, command.old_str, command.new_str or ""))

    def insert(self, command: BetaMemoryTool20250818InsertCommand) -> Any:
        """Insert text after a line."""
        return self._done(self._folder.insert(command.path, command.insert_line, command.insert_text))

    def delete(self, command: BetaMemoryTool20250818DeleteCommand) -> Any:
        """Remove a file, or a folder with all files in it."""
        return self._done(self._folder.delete(command.path))

    def rename(self, command: BetaMemoryTool20250818RenameCommand) -> Any:
        """Move a file or folder."""
        return self._done(self._folder.rename(command.old_path, command.new_path))

    def clear_all_memory(self) -> Any:
        """Remove every file."""
        return self._done(self._folder.clear())


class AsyncRecordariMemoryTool(_Commands, BetaAsyncAbstractMemoryTool):
    """Claude's memory tool over Recordari, for `AsyncAnthropic`."""

    async def _done(self, command: Coroutine[Any, Any, str]) -> str:
        return await self._caller.run(_run(command))


class RecordariMemoryTool(_Commands, BetaAbstractMemoryTool):
    """Claude's memory tool over Recordari, for `Anthropic`; takes a `recordari.sync` memory."""

    def _done(self, command: Coroutine[Any, Any, str]) -> str:
        return self._caller.wait(_run(command))
