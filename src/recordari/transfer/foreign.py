"""Imports memories of other products, in batches for each owner; you can repeat an import that stopped."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any

from recordari.core.checks import Progress
from recordari.core.identity import Identity, checked_choice
from recordari.core.items import NewItem
from recordari.errors import Conflict, InvalidInput
from recordari.kit.resources import Resources
from recordari.memory.remember import IMPORT_BATCH, remember_many
from recordari.transfer.rules import READERS, Foreign, ForeignOwner, ForeignSource, ImportedForeign

CHANGED = "it was imported before with another text, or its id is taken"
ANOTHERS = "it belongs to another user or agent than the one who imports"


async def import_foreign(
    resources: Resources,
    identity: Identity,
    source: ForeignSource | str,
    document: Any,
    *,
    progress: Progress | None = None,
) -> ImportedForeign:
    """Import an export of another product; memories that name no owner belong to the caller."""
    source = checked_choice("source", ForeignSource, source)
    result = ImportedForeign()
    owner = ForeignOwner(user_id=identity.user_id, agent_id=identity.agent_id, session_id=identity.session_id)
    memories = list(READERS[source](document, owner))
    for (user_id, agent_id, session_id), batch in _batches(memories, result):
        if identity.user_id not in {None, user_id} or identity.agent_id not in {None, agent_id}:
            for _ in batch:
                result.skip(ANOTHERS)
        else:
            acting = identity.narrowed(user_id=user_id, agent_id=agent_id, session_id=session_id)
            await _remember(resources, acting, batch, result)
        if progress is not None:
            progress(result.new + result.existing + sum(result.skipped.values()), len(memories))
    return result


OwnerIds = tuple[str | None, str | None, str | None]


def _batches(memories: Sequence[Foreign], result: ImportedForeign) -> Iterator[tuple[OwnerIds, list[NewItem]]]:
    """Neighbouring memories of one owner, a batch at a time; memories without an item are counted as left out."""
    for owner, group in groupby(memories, key=lambda memory: (memory.user_id, memory.agent_id, memory.session_id)):
        batch: list[NewItem] = []
        for memory in group:
            result.read += 1
            if memory.item is None:
                result.skip(memory.left_out or "")
                continue
            batch.append(memory.item)
            if len(batch) == IMPORT_BATCH:
                yield owner, batch
                batch = []
        if batch:
            yield owner, batch


async def _remember(resources: Resources, identity: Identity, batch: list[NewItem], result: ImportedForeign) -> None:
    """Write a batch; if an item is refused, it is left out and the others are written."""
    while batch:
        try:
            saved = await remember_many(resources, identity, batch)
        except (InvalidInput, Conflict) as error:
            index = error.details.get("index")
            if not isinstance(index, int):
                raise
            result.skip(CHANGED if isinstance(error, Conflict) else error.message)
            batch = [*batch[:index], *batch[index + 1 :]]
        else:
            result.new += sum(item.was_new for item in saved)
            result.existing += sum(not item.was_new for item in saved)
            return
