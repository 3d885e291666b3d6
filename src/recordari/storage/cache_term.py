"""The row that says what the cache in front of the database may be trusted for."""

from __future__ import annotations

from dataclasses import dataclass

from recordari.db.database import QueueTransaction
from recordari.db.queries import Queries

queries = Queries(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class TermRow:
    """The generation that counts, and seconds: since the cache was suspended, until it may be used (≤ 0: now)."""

    generation: str
    suspended_for: float
    resumes_in: float


async def read_term(rows: QueueTransaction) -> TermRow | None:
    """The row, or None when nobody has used the cache yet (or the server crashed, which empties the table)."""
    return await rows.maybe(queries.read_term, TermRow)


async def begin_term(rows: QueueTransaction, *, seconds: float) -> None:
    """Make the row where it is missing; the cache may be used after so many seconds."""
    await rows.run(queries.begin_term, seconds=seconds)


async def suspend(rows: QueueTransaction) -> None:
    """End the generation; nobody uses the cache until it is resumed."""
    await rows.run(queries.suspend)


async def resume(rows: QueueTransaction, generation: str, *, seconds: float) -> None:
    """Let the cache be used after so many seconds, unless it was suspended once more in between."""
    await rows.run(queries.resume, generation=generation, seconds=seconds)
