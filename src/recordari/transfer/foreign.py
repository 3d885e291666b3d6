"""Importing memories of other products: batch by batch for each owner; done again, it goes on where it stopped."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any

from recordari.core.checks import Progress
from recordari.core.identity import Identity, checked_choice
from recordari.core.items import NewItem
from recordari.errors import Conflict, InvalidInput, RecordariError
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
    """Keep what an export of another product holds; memories that name nobody belong to who imports."""
    source = checked_choice("source", ForeignSource, source)
    done = ImportedForeign()
    owner = ForeignOwner(user_id=identity.user_id, agent_id=identity.agent_id, session_id=identity.session_id)
    found = list(READERS[source](document, owner))
    for who, batch in _batches(found, done):
        if any(
            bound is not None and bound != named
            for bound, named in ((identity.user_id, who[0]), (identity.agent_id, who[1]))
        ):
            for _ in batch:
                done.skip(ANOTHERS)
        else:
            acting = identity.narrowed(user_id=who[0], agent_id=who[1], session_id=who[2])
            await _keep(resources, acting, batch, done)
        if progress is not None:
            progress(done.new + done.existing + sum(done.skipped.values()), len(found))
    return done


Who = tuple[str | None, str | None, str | None]


def _batches(found: Sequence[Foreign], done: ImportedForeign) -> Iterator[tuple[Who, list[NewItem]]]:
    """What stands together and has one owner, some at a time; the rest is counted as left out."""
    for who, group in groupby(found, key=lambda one: (one.user_id, one.agent_id, one.session_id)):
        batch: list[NewItem] = []
        for one in group:
            done.read += 1
            if one.item is None:
                done.skip(one.left_out or "")
                continue
            batch.append(one.item)
            if len(batch) == IMPORT_BATCH:
                yield who, batch
                batch = []
        if batch:
            yield who, batch


async def _keep(resources: Resources, identity: Identity, batch: list[NewItem], done: ImportedForeign) -> None:
    """Write a batch; an item that is refused is left out, and the rest goes in without it."""
    while batch:
        try:
            kept = await remember_many(resources, identity, batch)
        except (InvalidInput, Conflict) as error:
            index = _place(error)
            if index is None:
                raise
            done.skip(CHANGED if isinstance(error, Conflict) else error.message)
            batch = [*batch[:index], *batch[index + 1 :]]
        else:
            done.new += sum(one.was_new for one in kept)
            done.existing += sum(not one.was_new for one in kept)
            return


def _place(error: RecordariError) -> int | None:
    index = error.details.get("index")
    return index if isinstance(index, int) else None
