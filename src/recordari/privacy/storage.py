"""Rows of sources that memory must not copy; the database itself refuses such a copy."""

from __future__ import annotations

from uuid import UUID

from recordari.db.database import Transaction
from recordari.db.queries import Queries
from recordari.privacy.rules.masking import ProtectedSource

queries = Queries(__name__)


async def protect_source(tx: Transaction, source_id: UUID) -> int:
    """Take the texts of a source under guard; how many were not yet."""
    await tx.run(queries.protect_source, source_id=source_id)
    return await tx.run(queries.guard_texts, source_id=source_id)


async def unprotect_source(tx: Transaction, source_id: UUID) -> bool:
    """Protect a source no longer; False when it was not protected."""
    return await tx.run(queries.unprotect_source, source_id=source_id) == 1


async def list_protected(tx: Transaction) -> list[ProtectedSource]:
    """The protected sources."""
    return await tx.all(queries.list_protected, ProtectedSource)
