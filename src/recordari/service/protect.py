"""Leak guard: memory is a workshop, not a copy of canonical content (F7).

A fact of 100 characters or more that is more than 0.85 similar to a text of a protected source is refused by the database
itself. A fact that names its source is compared with that source only, any other with all protected ones.
"""

from __future__ import annotations

from uuid import UUID

from recordari.core.identity import Identity
from recordari.db import audit
from recordari.errors import NotFound
from recordari.kit.resources import Resources
from recordari.service.tenants import require_admin
from recordari.storage import protection
from recordari.storage.protection import ProtectedSource


async def protect_source(resources: Resources, identity: Identity, source_id: UUID) -> int:
    """Let no fact copy the documents of a source, those to come included; how many texts came under guard."""
    require_admin(identity)
    async with resources.database.transaction(identity) as tx:
        texts = await protection.protect_source(tx, source_id)
        await audit.record(tx, "source.protect", "source", source_id, texts=texts)
    return texts


async def unprotect_source(resources: Resources, identity: Identity, source_id: UUID) -> None:
    """Let facts say what they like of a source."""
    require_admin(identity)
    async with resources.database.transaction(identity) as tx:
        if not await protection.unprotect_source(tx, source_id):
            raise NotFound("this source is not protected")
        await audit.record(tx, "source.unprotect", "source", source_id)


async def list_protected(resources: Resources, identity: Identity) -> list[ProtectedSource]:
    """The protected sources."""
    require_admin(identity)
    async with resources.database.transaction(identity) as tx:
        return await protection.list_protected(tx)
