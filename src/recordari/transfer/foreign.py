"""Imports memories of other products, transcripts and notes. Each keeps the other product's id: a second import finds it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any

from recordari.core.checks import Progress
from recordari.core.identity import Identity, Role, checked_choice
from recordari.core.items import Kind, NewItem, prepared
from recordari.errors import Conflict, InvalidInput
from recordari.facts import extract
from recordari.kit.resources import Resources
from recordari.knowledge import storage as knowledge_storage
from recordari.knowledge.ingest import add_document
from recordari.knowledge.sources import add_source
from recordari.memory import storage as memory_storage
from recordari.memory.batches import IMPORT_BATCH
from recordari.memory.remember import remember_many
from recordari.privacy.sanitise import sanitise_items
from recordari.transfer import storage
from recordari.transfer.rules import READERS, Foreign, ForeignOwner, ForeignSource, ImportedForeign, Note

CHANGED = "it was imported before with another text, or its id is taken"
CAPTURED = "its session was kept while it went on, by the hooks of the host"
ANOTHERS = "it belongs to another user or agent than the one who imports"


async def import_foreign(
    resources: Resources,
    identity: Identity,
    source: ForeignSource | str,
    document: Any,
    *,
    dry_run: bool = False,
    progress: Progress | None = None,
) -> ImportedForeign:
    """Import an export of another product; memories that name no owner belong to the caller.

    `dry_run` writes nothing. It says what would be new, and which facts the rules would learn from what users say in it.
    """
    source = checked_choice("source", ForeignSource, source)
    result = ImportedForeign()
    owner = ForeignOwner(user_id=identity.user_id, agent_id=identity.agent_id, session_id=identity.session_id)
    memories = await _without_captured(resources, identity, list(READERS[source](document, owner)))
    result.describe(memories)
    for note in [memory.note for memory in memories if memory.note is not None]:
        await _add_note(resources, identity, note, result, dry_run=dry_run)
        if progress is not None:
            progress(result.done, len(memories))
    for (user_id, agent_id, session_id), batch in _batches(memories, result):
        if identity.user_id not in {None, user_id} or identity.agent_id not in {None, agent_id}:
            for _ in batch:
                result.skip(ANOTHERS)
        else:
            acting = identity.narrowed(user_id=user_id, agent_id=agent_id, session_id=session_id)
            await _remember(resources, acting, batch, result, dry_run=dry_run)
        if progress is not None:
            progress(result.done, len(memories))
    result.facts = list(dict.fromkeys(result.facts))
    return result


async def _without_captured(resources: Resources, identity: Identity, memories: Sequence[Foreign]) -> Sequence[Foreign]:
    """Leave out what hooks have kept already: their ids are others, so that it would be here twice."""
    sessions = {memory.session_id for memory in memories if memory.session_id is not None and memory.item is not None}
    if not sessions:
        return memories
    async with resources.database.transaction(identity) as tx:
        captured = await storage.sessions_of_hosts(tx, sorted(sessions), user_id=identity.user_id)
    return [Foreign(left_out=CAPTURED) if memory.session_id in captured else memory for memory in memories]


OwnerIds = tuple[str | None, str | None, str | None]


def _batches(memories: Sequence[Foreign], result: ImportedForeign) -> Iterator[tuple[OwnerIds, list[NewItem]]]:
    """Neighbouring memories of one owner, a batch at a time; memories without an item are counted as left out."""
    for owner, group in groupby(memories, key=lambda memory: (memory.user_id, memory.agent_id, memory.session_id)):
        batch: list[NewItem] = []
        for memory in group:
            result.read += 1
            if memory.item is None:
                if memory.note is None:
                    result.skip(memory.left_out or "")
                continue
            batch.append(memory.item)
            if len(batch) == IMPORT_BATCH:
                yield owner, batch
                batch = []
        if batch:
            yield owner, batch


async def _remember(
    resources: Resources, identity: Identity, batch: list[NewItem], result: ImportedForeign, *, dry_run: bool
) -> None:
    """Write a batch; if an item is refused, it is left out and the others are written."""
    while batch:
        try:
            new = await (_plan(resources, identity, batch, result) if dry_run else _write(resources, identity, batch))
        except (InvalidInput, Conflict) as error:
            index = error.details.get("index")
            if not isinstance(index, int):
                raise
            result.skip(CHANGED if isinstance(error, Conflict) else error.message)
            batch = [*batch[:index], *batch[index + 1 :]]
        else:
            result.new += new
            result.existing += len(batch) - new
            return


async def _write(resources: Resources, identity: Identity, batch: Sequence[NewItem]) -> int:
    return sum(item.was_new for item in await remember_many(resources, identity, batch))


async def _plan(resources: Resources, identity: Identity, batch: Sequence[NewItem], result: ImportedForeign) -> int:
    """How many items of a batch are not here yet; what would be learnt from them goes into the result."""
    now, is_admin = resources.clock(), identity.role is Role.ADMIN
    items = []
    for index, clean in enumerate(await sanitise_items(resources, identity, batch)):
        try:
            if clean.problem is not None:
                raise clean.problem
            items.append(prepared(clean.new, identity, now=now, is_admin=is_admin))
        except InvalidInput as error:
            error.details["index"] = index
            raise
    async with resources.database.transaction(identity) as tx:
        known = await memory_storage.find_keys(tx, items)
    unknown = [item for item in items if (item.owned_by, str(item.kind), item.source_ref) not in known]
    result.facts += [item.content for item in unknown if item.kind is Kind.FACT]
    result.facts += await extract.preview_items(
        resources, identity, [one for one in unknown if one.kind is not Kind.FACT]
    )
    return len(unknown)


async def _add_note(
    resources: Resources, identity: Identity, note: Note, result: ImportedForeign, *, dry_run: bool
) -> None:
    """Add a note as a document of the source that its folder names; one that is refused is left out."""
    async with resources.database.transaction(identity) as tx:
        source = await knowledge_storage.find_source(tx, note.source)
        known = source is not None and await knowledge_storage.find_current(tx, source.source_id, note.name) is not None
    if not dry_run:
        if source is None:
            source = await add_source(resources, identity, note.source, description="Notes that were imported")
        try:
            added = await add_document(
                resources, identity, note.name, text=note.text, source=source.source_id, metadata=note.metadata
            )
        except InvalidInput as error:
            result.skip(error.message)
            return
        known = not added.changed
    result.new += not known
    result.existing += known
