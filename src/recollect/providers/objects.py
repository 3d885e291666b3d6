"""Where large bodies live: a folder of files named by the hash of whose they are and what they hold."""

from __future__ import annotations

import asyncio
import hashlib
import os
import secrets
from pathlib import Path
from typing import Protocol

from recollect.errors import ProviderError


class Objects(Protocol):
    """Keeps bodies by owner and content: the same bytes of one owner are one object, of two owners two."""

    async def put(self, body: bytes, *, owner: str) -> str:
        """Keep a body durably; its key."""

    async def get(self, key: str, *, start: int = 0, length: int | None = None) -> bytes:
        """A body, or a range of it."""

    async def delete(self, key: str) -> None:
        """Remove a body; nothing when it is gone."""


class LocalObjects:
    """Objects in a local folder, written to a temporary name, synced, then renamed."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    async def put(self, body: bytes, *, owner: str) -> str:
        """Keep a body durably; its key."""
        # Owners never share an object, so that removing one's body cannot take another's.
        key = hashlib.sha256(owner.encode() + b"\x00" + body).hexdigest()
        await asyncio.to_thread(self._write, self._path(key), body)
        return key

    async def get(self, key: str, *, start: int = 0, length: int | None = None) -> bytes:
        """A body, or a range of it."""
        return await asyncio.to_thread(self._read, self._path(key), start, length)

    async def delete(self, key: str) -> None:
        """Remove a body; nothing when it is gone."""
        await asyncio.to_thread(self._path(key).unlink, missing_ok=True)

    def _path(self, key: str) -> Path:
        if len(key) != 64 or not key.isalnum():
            raise ProviderError("not the key of an object")
        return self._folder / key[:2] / key

    @staticmethod
    def _write(path: Path, body: bytes) -> None:
        if path.exists():
            return
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
        try:
            with temporary.open("wb") as file:
                file.write(body)
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(path)
        except OSError as error:
            temporary.unlink(missing_ok=True)
            raise ProviderError(f"the object store cannot be written: {error.strerror}") from error

    @staticmethod
    def _read(path: Path, start: int, length: int | None) -> bytes:
        try:
            with path.open("rb") as file:
                file.seek(start)
                return file.read(-1 if length is None else length)
        except OSError as error:
            raise ProviderError(f"the object store cannot be read: {error.strerror}") from error
