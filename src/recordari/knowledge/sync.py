"""Synchronises a source with its folder: adds new files, revises changed ones, removes the documents of deleted ones.

Only the operator allows folders (`RECORDARI_DOCUMENT_FOLDERS`). Links that lead out of the source's folder are ignored. A
file that cannot be read is listed in the report, and the others go on.
"""

from __future__ import annotations

import asyncio
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any
from uuid import UUID

from recordari.core.checks import Progress
from recordari.core.identity import Identity
from recordari.db import audit, jobs
from recordari.errors import Conflict, InvalidInput, NotFound, TooLarge
from recordari.kit.resources import Resources
from recordari.knowledge import storage
from recordari.knowledge.documents import delete_document
from recordari.knowledge.ingest import add_document, check_bytes
from recordari.knowledge.reader import SUFFIXES
from recordari.knowledge.rules.knowledge_map import Source
from recordari.knowledge.sources import NO_SUCH_SOURCE, allowed_folder, get_source
from recordari.tenants.tenants import require_admin

JOB = "sync_source"
MOST_FILES = 100_000
SHOWN_FAILURES = 50
SAVE_EVERY = 20  # files; the progress can be read meanwhile


@dataclass(frozen=True, slots=True, kw_only=True)
class Synchronised:
    """The progress of a synchronisation."""

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
        """The JSON that the source stores."""
        return {
            **asdict(self),
            "status": "running" if finished_at is None else "finished",
            "started_at": started_at.isoformat(),
            "finished_at": finished_at.isoformat() if finished_at is not None else None,
            "failed": [{"name": name, "reason": reason} for name, reason in self.failed],
        }


async def start_sync(resources: Resources, identity: Identity, source_id: UUID) -> int | None:
    """Synchronise a source in the background; returns the id of the job, or None if one waits already."""
    require_admin(identity)
    _folder(resources, await get_source(resources, identity, source_id))
    async with resources.database.transaction(identity) as tx:
        name = f"{JOB}:{source_id}"
        job_id = await jobs.defer(tx, JOB, args={"source_id": str(source_id)}, queueing_lock=name, lock=name)
        await audit.record(tx, "source.sync.start", "source", source_id)
    return job_id


async def run_sync(resources: Resources, identity: Identity, *, source_id: str, **_: Any) -> None:
    """The job that synchronises a source; run again, it continues where it stopped."""
    try:
        await sync_source(resources, identity, UUID(source_id))
    except NotFound:
        return  # the source was removed meanwhile


async def sync_source(
    resources: Resources, identity: Identity, source_id: UUID, *, progress: Progress | None = None
) -> Synchronised:
    """Synchronise a source with its folder and wait until it is done."""
    require_admin(identity)
    source = await get_source(resources, identity, source_id)
    files = await asyncio.to_thread(_files, _folder(resources, source))
    started_at = resources.clock()
    report = Synchronised(total=len(files))
    for name, path in files.items():
        report = await _add(resources, identity, source, name, path, report)
        if progress is not None:
            progress(report.done, report.total)
        if report.done % SAVE_EVERY == 0:
            await _save(resources, identity, source_id, report, started_at, finished_at=None)
    report = await _remove_others(resources, identity, source_id, set(files), report)
    await _save(resources, identity, source_id, report, started_at, finished_at=resources.clock())
    counts = {name: getattr(report, name) for name in ("added", "revised", "removed", "failures")}
    async with resources.database.transaction(identity) as tx:
        await audit.record(tx, "source.sync", "source", source_id, **counts)
    return report


async def remove_source(resources: Resources, identity: Identity, source_id: UUID) -> int:
    """Remove a source with its documents, and return how many there were."""
    require_admin(identity)
    await get_source(resources, identity, source_id)
    async with resources.database.transaction(identity) as tx:
        documents = await storage.list_names(tx, source_id)
    for document_id in documents.values():
        await delete_document(resources, identity, document_id)
    async with resources.database.transaction(identity) as tx:
        if await storage.list_names(tx, source_id):
            raise Conflict("documents were added to this source meanwhile; remove it again")
        if not await storage.delete_source(tx, source_id):
            raise NotFound(NO_SUCH_SOURCE)
        await audit.record(tx, "source.remove", "source", source_id, documents=len(documents))
    return len(documents)


def _folder(resources: Resources, source: Source) -> Path:
    if source.folder is None:
        raise InvalidInput("this source has no folder; add its documents yourself")
    return allowed_folder(resources, Path(source.folder))


def _files(folder: Path) -> dict[str, Path]:
    """The readable files of a folder by relative path, without hidden files and links that lead out of it."""
    files: dict[str, Path] = {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder)
        if any(part.startswith(".") for part in name.parts) or path.suffix.lower() not in SUFFIXES:
            continue
        if path.is_file() and path.resolve().is_relative_to(folder):
            files[name.as_posix()] = path
        if len(files) > MOST_FILES:
            raise TooLarge(f"a folder may have at most {MOST_FILES:,} documents; split it into sources")
    return files


async def _add(
    resources: Resources, identity: Identity, source: Source, name: str, path: Path, report: Synchronised
) -> Synchronised:
    report = replace(report, done=report.done + 1)
    try:
        data = await asyncio.to_thread(_read, path, resources.settings.document_max_bytes)
        added = await add_document(resources, identity, name, data, source=source.source_id)
    except (InvalidInput, TooLarge) as error:  # other errors are not the file's fault
        reason = error.message
    except OSError as error:
        reason = f"it cannot be read: {error.strerror}"
    else:
        outcome = "unchanged" if not added.changed else "added" if added.was_new else "revised"
        return replace(report, **{outcome: getattr(report, outcome) + 1})
    failed = (*report.failed, (name, reason))[:SHOWN_FAILURES]
    return replace(report, failed=failed, failures=report.failures + 1)


def _read(path: Path, most: int) -> bytes:
    with path.open("rb") as file:
        data = file.read(most + 1)
    check_bytes(len(data), most)
    return data


async def _remove_others(
    resources: Resources, identity: Identity, source_id: UUID, names: set[str], report: Synchronised
) -> Synchronised:
    """Remove the documents whose files are gone; one whose file cannot be read keeps its last revision."""
    async with resources.database.transaction(identity) as tx:
        documents = await storage.list_names(tx, source_id)
    gone = [document_id for name, document_id in documents.items() if name not in names]
    for document_id in gone:
        await delete_document(resources, identity, document_id)
    return replace(report, removed=len(gone))


async def _save(
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
