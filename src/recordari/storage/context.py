"""What a context is made from besides recall, and the count by which a kept answer is known to hold."""

from __future__ import annotations

from datetime import datetime

from recordari.core.identity import Identity, SessionId
from recordari.core.items import Item
from recordari.db.database import Asked, Database, all_as
from recordari.db.queries import Queries
from recordari.sessions.storage import thread_of

queries = Queries(__name__)


def ask_shared(*, before: datetime, limit: int) -> Asked[list[Item]]:
    """What the tenant tells all of its agents and was there at that moment."""
    return Asked(queries.shared_now, all_as(Item), before=before, limit=limit)


def ask_shared_as_of(*, as_of: datetime, limit: int) -> Asked[list[Item]]:
    """What the tenant told all of its agents at that moment."""
    return Asked(queries.shared_then, all_as(Item), as_of=as_of, limit=limit)


def ask_activity(who: Identity, *, since: datetime, until: datetime, limit: int) -> Asked[list[Item]]:
    """What the identity's agent did in a stretch of time, newest first."""
    return Asked(
        queries.activity,
        all_as(Item),
        agent_id=who.agent_id,
        user_id=who.user_id,
        session_id=who.session_id,
        since=since,
        until=until,
        limit=limit,
    )


def ask_written_at(session_id: SessionId, position: int) -> Asked[datetime | None]:
    """When the message at a place of a session was written."""
    return Asked(
        queries.written_at,
        lambda rows: rows[0]["created_at"] if rows else None,
        thread=thread_of(session_id),
        position=position,
    )


async def read_version(database: Database, identity: Identity) -> int:
    """How often what the identity may recall has changed; it differs after every change."""
    ((version,),) = await database.once(
        identity,
        queries.version,
        user_id=identity.user_id,
        agent_id=identity.agent_id,
        session_id=identity.session_id,
    )
    return int(version)
