"""The journal of erasures: tombstones in a file beside the database, so that a restored backup forgets again.

A backup from before an erasure holds the forgotten items and no tombstone. Every tombstone is therefore also written to
`<home>/erasures/<tenant>.jsonl`, and `reapply_erasures` applies the file after a restore. The file has hashes and ids of
rows, never content or names. Its first line holds the tenant's salt: keep it as private as the database.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import Any
from uuid import UUID

from recordari.core.identity import Identity
from recordari.db.database import RETENTION_ROLE
from recordari.errors import InvalidInput, ProviderError
from recordari.kit.resources import Resources
from recordari.lifetime import storage
from recordari.lifetime.storage import Tombstone

FORMAT = "recordari-erasures"
VERSION = 1
PAGE = 1_000


def journal_file(resources: Resources, identity: Identity) -> Path:
    return resources.settings.home / "erasures" / f"{identity.tenant_id}.jsonl"


async def write_journal(resources: Resources, identity: Identity, tombstones: Sequence[Tombstone]) -> None:
    """Append committed tombstones durably; a new file begins with a header."""
    if not tombstones:
        return
    async with resources.database.transaction(identity, role=RETENTION_ROLE) as tx:
        salt = await storage.find_salt(tx)
    header = {"format": FORMAT, "version": VERSION, "tenant_id": str(identity.tenant_id), "salt": salt.hex()}
    lines = [_line(tombstone) for tombstone in tombstones]
    await asyncio.to_thread(_append, journal_file(resources, identity), lines, json.dumps(header))


async def complete_journal(resources: Resources, identity: Identity) -> int:
    """Append the tombstones that the file lacks; returns their number."""
    _, tombstones = await _read(resources, identity, None)
    written = {stone.hash: stone.forgotten_at for stone in tombstones}
    added, after = 0, b""
    while True:
        async with resources.database.transaction(identity, role=RETENTION_ROLE) as tx:
            page = await storage.list_tombstones(tx, after=after, limit=PAGE)
        if not page:
            return added
        missing = [stone for stone in page if stone.hash not in written or written[stone.hash] < stone.forgotten_at]
        await write_journal(resources, identity, missing)
        added, after = added + len(missing), page[-1].hash


async def restore_tombstones(resources: Resources, identity: Identity, file: Path | None = None) -> int:
    """Write the tombstones of a journal and their salt into the database; returns their number."""
    salt, tombstones = await _read(resources, identity, file)
    if salt is None:
        return 0
    async with resources.database.transaction(identity) as tx:
        await storage.set_salt(tx, salt)
        for start in range(0, len(tombstones), PAGE):
            await storage.insert_tombstones(tx, tombstones[start : start + PAGE])
    return len(tombstones)


async def _read(resources: Resources, identity: Identity, file: Path | None) -> tuple[bytes | None, list[Tombstone]]:
    path = file or journal_file(resources, identity)
    lines = await asyncio.to_thread(_read_lines, path)
    if not lines:
        return None, []
    try:
        header = json.loads(lines[0])
        if header["format"] != FORMAT or header["version"] != VERSION:
            raise InvalidInput(f"{path} is not a journal of erasures that this version can read")
        if header["tenant_id"] != str(identity.tenant_id):
            raise InvalidInput(f"{path} is the journal of another tenant")
        return bytes.fromhex(header["salt"]), [_tombstone(json.loads(line)) for line in lines[1:] if line.strip()]
    except (ValueError, KeyError, TypeError) as error:
        raise InvalidInput(f"{path} is damaged; its first {len(lines)} lines cannot all be read") from error


def _line(stone: Tombstone) -> str:
    item_id = str(stone.item_id) if stone.item_id is not None else None
    texts = {"hash": stone.hash.hex(), "item_id": item_id, "forgotten_at": stone.forgotten_at.isoformat()}
    return json.dumps(asdict(stone) | texts)


def _tombstone(line: dict[str, Any]) -> Tombstone:
    return Tombstone(
        hash=bytes.fromhex(line["hash"]),
        subject=str(line["subject"]),
        item_id=UUID(line["item_id"]) if line["item_id"] is not None else None,
        is_final=bool(line["is_final"]),
        forgotten_at=datetime.fromisoformat(line["forgotten_at"]),
    )


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
        raise ProviderError(
            f"the journal of erasures cannot be written: {error.strerror}", service="the journal of erasures"
        ) from error


def _read_lines(path: Path) -> list[str]:
    """Every whole line; a last line that a crash cut short is left out."""
    try:
        text = path.read_bytes().decode(errors="replace")
    except FileNotFoundError:
        return []
    except OSError as error:
        raise ProviderError(
            f"the journal of erasures cannot be read: {error.strerror}", service="the journal of erasures"
        ) from error
    return [line for line in text.splitlines(keepends=True) if line.endswith("\n")]
