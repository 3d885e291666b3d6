"""Rows of sources that memory must not copy; the database itself refuses such a copy."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from recordari.db.database import Transaction
from recordari.db.queries import Queries

queries = Queries(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProtectedSource:
    """A source that memory must not copy."""

    source_id: UUID
    protected_at: datetime
    texts: int


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
