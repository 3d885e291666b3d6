"""What a context is made from besides recall, and the count by which a kept answer is known to hold."""

from __future__ import annotations

from datetime import datetime

from recollect.domain.identity import SessionId
from recollect.domain.items import Item
from recollect.storage.database import Transaction
from recollect.storage.queries import Queries
from recollect.storage.sessions import thread_of

queries = Queries("context")


async def list_shared(tx: Transaction, *, before: datetime, limit: int) -> list[Item]:
    """What the tenant tells all of its agents and was there at that moment."""
    return await tx.all(queries.shared_now, Item, before=before, limit=limit)


async def list_shared_as_of(tx: Transaction, *, as_of: datetime, limit: int) -> list[Item]:
    """What the tenant told all of its agents at that moment."""
    return await tx.all(queries.shared_then, Item, as_of=as_of, limit=limit)


async def list_activity(tx: Transaction, *, since: datetime, until: datetime, limit: int) -> list[Item]:
    """What the identity's agent did in a stretch of time, newest first."""
    who = tx.identity
    return await tx.all(
        queries.activity,
        Item,
        agent_id=who.agent_id,
        user_id=who.user_id,
        session_id=who.session_id,
        since=since,
        until=until,
        limit=limit,
    )


async def written_at(tx: Transaction, session_id: SessionId, position: int) -> datetime | None:
    """When the message at a place of a session was written."""
    moment: datetime | None = await tx.value(queries.written_at, thread=thread_of(session_id), position=position)
    return moment


async def read_version(tx: Transaction) -> int:
    """How often what the identity may recall has changed; it differs after every change."""
    who = tx.identity
    return int(await tx.value(queries.version, user_id=who.user_id, agent_id=who.agent_id, session_id=who.session_id))
