"""Synchronising a source with its folder: what is new is taken in, what changed is revised, what is gone is removed.

Only the operator says which folders may be read (`RECORDARI_DOCUMENT_FOLDERS`); nothing outside the source's folder is
read, whatever a link in it points to. A file that cannot be read is named in the report, and the others go on.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any
from uuid import UUID

from recordari.core.checks import Progress
from recordari.core.identity import Identity
from recordari.db import audit, jobs
from recordari.errors import Conflict, InvalidInput, NotFound, RecordariError, TooLarge
from recordari.kit.resources import Resources
from recordari.knowledge import storage
from recordari.knowledge.documents import delete_document
from recordari.knowledge.ingest import NewDocument, ingest
from recordari.knowledge.reading.reader import SUFFIXES
from recordari.knowledge.rules.knowledge_map import Source
from recordari.knowledge.sources import NO_SUCH_SOURCE, allowed_folder, get_source
from recordari.tenants.tenants import require_admin

JOB = "sync_source"
MOST_FILES = 100_000
SHOWN_FAILURES = 50
SAVE_EVERY = 20  # files; how far it has come can be read meanwhile


@dataclass(frozen=True, slots=True, kw_only=True)
class Synchronised:
    """How far a synchronisation has come, and what it did."""

    done: int = 0
    total: int = 0
    added: int = 0
    revised: int = 0
    unchanged: int = 0
    removed: int = 0
    failed: tuple[tuple[str, str], ...] = ()
    """Files that could not be read, each with the reason."""
    failures: int = 0

    def written(self, *, started_at: datetime, finished_at: datetime | None) -> dict[str, Any]:
        """As the source keeps it."""
        return {
            "status": "running" if finished_at is None else "finished",
            "started_at": started_at.isoformat(),
            "finished_at": finished_at.isoformat() if finished_at is not None else None,
            "done": self.done,
            "total": self.total,
            "added": self.added,
            "revised": self.revised,
            "unchanged": self.unchanged,
            "removed": self.removed,
            "failures": self.failures,
            "failed": [{"name": name, "reason": reason} for name, reason in self.failed],
        }


async def start_sync(resources: Resources, identity: Identity, source_id: UUID) -> int | None:
    """Synchronise a source in the background; the job's id, None when one waits already."""
    require_admin(identity)
    _folder(resources, await get_source(resources, identity, source_id))
    async with resources.database.transaction(identity) as tx:
        name = f"{JOB}:{source_id}"
        job_id = await jobs.defer(tx, JOB, args={"source_id": str(source_id)}, queueing_lock=name, lock=name)
        await audit.record(tx, "source.sync.start", "source", source_id)
    return job_id


async def run_sync(resources: Resources, identity: Identity, *, source_id: str, **_: Any) -> None:
    """Synchronise a source. A job; done again it goes on where it stopped."""
    try:
        await sync_source(resources, identity, UUID(source_id))
    except NotFound:
        return  # it was removed meanwhile


async def sync_source(
    resources: Resources, identity: Identity, source_id: UUID, *, progress: Progress | None = None
) -> Synchronised:
    """Bring a source in line with its folder, and return when it is done."""
    require_admin(identity)
    source = await get_source(resources, identity, source_id)
    folder = _folder(resources, source)
    files = await asyncio.to_thread(_files, folder)
    started_at = resources.clock()
    report = Synchronised(total=len(files))
    for name, path in files.items():
        report = await _take_in(resources, identity, source, name, path, report)
        if progress is not None:
            progress(report.done, report.total)
        if report.done % SAVE_EVERY == 0:
            await _note(resources, identity, source_id, report, started_at, finished_at=None)
    report = await _remove_others(resources, identity, source_id, set(files), report)
    await _note(resources, identity, source_id, report, started_at, finished_at=resources.clock())
    async with resources.database.transaction(identity) as tx:
        await audit.record(
            tx,
            "source.sync",
            "source",
            source_id,
            added=report.added,
            revised=report.revised,
            removed=report.removed,
            failures=report.failures,
        )
    return report


async def remove_source(resources: Resources, identity: Identity, source_id: UUID) -> int:
    """Remove a source with its documents; how many there were."""
    require_admin(identity)
    await get_source(resources, identity, source_id)
    async with resources.database.transaction(identity) as tx:
        found = await storage.list_names(tx, source_id)
    for document_id in found.values():
        await delete_document(resources, identity, document_id)
    async with resources.database.transaction(identity) as tx:
        if await storage.list_names(tx, source_id):
            raise Conflict("documents came into this source meanwhile; remove it again")
        if not await storage.delete_source(tx, source_id):
            raise NotFound(NO_SUCH_SOURCE)
        await audit.record(tx, "source.remove", "source", source_id, documents=len(found))
    return len(found)


def _folder(resources: Resources, source: Source) -> Path:
    if source.folder is None:
        raise InvalidInput("this source has no folder; documents are added to it one by one")
    return allowed_folder(resources, Path(source.folder))


def _files(folder: Path) -> dict[str, Path]:
    """What can be read in a folder, by its name in it; hidden files and what a link leads out of it are left out."""
    found: dict[str, Path] = {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder)
        if any(part.startswith(".") for part in name.parts) or path.suffix.lower() not in SUFFIXES:
            continue
        if path.is_file() and path.resolve().is_relative_to(folder):
            found[name.as_posix()] = path
        if len(found) > MOST_FILES:
            raise TooLarge(f"a folder may have at most {MOST_FILES:,} documents; split it into sources")
    return found


async def _take_in(
    resources: Resources, identity: Identity, source: Source, name: str, path: Path, report: Synchronised
) -> Synchronised:
    report = replace(report, done=report.done + 1)
    try:
        data = await asyncio.to_thread(_read, path, resources.settings.document_max_bytes)
        new = NewDocument(name=name, data=data, source=source.source_id)
        added = await ingest(resources, identity, new)
    except (InvalidInput, TooLarge) as error:
        reason = error.message
    except OSError as error:
        reason = f"it cannot be read: {error.strerror}"
    except RecordariError:
        raise  # not the file's fault
    else:
        if not added.changed:
            return replace(report, unchanged=report.unchanged + 1)
        if added.was_new:
            return replace(report, added=report.added + 1)
        return replace(report, revised=report.revised + 1)
    failed = (*report.failed, (name, reason))[:SHOWN_FAILURES]
    return replace(report, failed=failed, failures=report.failures + 1)


def _read(path: Path, most: int) -> bytes:
    with path.open("rb") as file:
        data = file.read(most + 1)
    if len(data) > most:
        raise TooLarge(f"a document may have at most {most:,} bytes; split it")
    return data


async def _remove_others(
    resources: Resources, identity: Identity, source_id: UUID, names: set[str], report: Synchronised
) -> Synchronised:
    """Remove the documents whose files are gone; one that cannot be read any more keeps its last revision."""
    async with resources.database.transaction(identity) as tx:
        known = await storage.list_names(tx, source_id)
    removed = 0
    for name, document_id in known.items():
        if name not in names:
            await delete_document(resources, identity, document_id)
            removed += 1
    return replace(report, removed=removed)


async def _note(
    resources: Resources,
    identity: Identity,
    source_id: UUID,
    report: Synchronised,
    started_at: datetime,
    *,
    finished_at: datetime | None,
) -> None:
    async with resources.database.transaction(identity) as tx:
        await storage.save_sync(tx, source_id, report.written(started_at=started_at, finished_at=finished_at))
