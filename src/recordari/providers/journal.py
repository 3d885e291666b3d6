"""A file that outlives a restore: lines are appended, synced to the disk and never changed."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from pathlib import Path

from recordari.errors import ProviderError


async def append(path: Path, lines: Sequence[str], *, header: str) -> None:
    """Append lines durably; a new file begins with the header."""
    await asyncio.to_thread(_append, path, lines, header)


async def read(path: Path) -> list[str]:
    """Every whole line; none where there is no file. A last line that a crash cut short is left out."""
    return await asyncio.to_thread(_read, path)


def _append(path: Path, lines: Sequence[str], header: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
        with os.fdopen(descriptor, "rb+") as file:
            size = file.seek(0, os.SEEK_END)
            written = [header, *lines] if size == 0 else list(lines)
            is_cut = size > 0 and os.pread(file.fileno(), 1, size - 1) != b"\n"
            file.write(("\n" * is_cut + "".join(f"{line}\n" for line in written)).encode())
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise ProviderError(f"the journal of erasures cannot be written: {error.strerror}") from error


def _read(path: Path) -> list[str]:
    try:
        text = path.read_bytes().decode(errors="replace")
    except FileNotFoundError:
        return []
    except OSError as error:
        raise ProviderError(f"the journal of erasures cannot be read: {error.strerror}") from error
    return [line for line in text.splitlines(keepends=True) if line.endswith("\n")]
