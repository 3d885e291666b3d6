"""The rows that a context reads besides recall, and profiles."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from recordari.context.rules.profiles import KnownFact, Profile
from recordari.core.identity import AgentId, Identity, UserId
from recordari.core.items import Item
from recordari.db.database import BatchedQuery, Transaction
from recordari.db.queries import Queries, Record, all_as, columns_of, reader
from recordari.sessions.rules.sessions import Session

queries = Queries(__name__)

_read_fact = reader(KnownFact)


def ask_shared(*, before: datetime, limit: int) -> BatchedQuery[list[Item]]:
    return BatchedQuery(queries.shared_now, all_as(Item), before=before, limit=limit)


def ask_shared_then(*, as_of: datetime, known_at: datetime, limit: int) -> BatchedQuery[list[Item]]:
    return BatchedQuery(queries.shared_then, all_as(Item), as_of=as_of, known_at=known_at, limit=limit)


def ask_activity(
    identity: Identity, *, since: datetime, until: datetime, known_at: datetime, limit: int
) -> BatchedQuery[list[Item]]:
    ids = {"agent_id": identity.agent_id, "user_id": identity.user_id, "session_id": identity.session_id}
    times = {"since": since, "until": until, "known_at": known_at}
    return BatchedQuery(queries.activity, all_as(Item), **ids, **times, owned_by=identity.owned_by, limit=limit)


def ask_written_at(session: Session, position: int) -> BatchedQuery[datetime | None]:
    def read(rows: list[Record]) -> datetime | None:
        return rows[0]["created_at"] if rows else None

    return BatchedQuery(queries.written_at, read, thread=session.thread, position=position)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileOwner:
    """A user or an agent."""

    user_id: UserId | None = None
    agent_id: AgentId | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileRow:
    profile_id: UUID
    user_id: UserId | None
    agent_id: AgentId | None
    content: str
    facts: int
    writer: str
    made_at: datetime
    is_stale: bool

    @property
    def profile(self) -> Profile:
        return Profile(content=self.content, facts=self.facts, writer=self.writer, made_at=self.made_at)

    @property
    def owner(self) -> ProfileOwner:
        return ProfileOwner(user_id=self.user_id, agent_id=self.agent_id)


async def find_profile(tx: Transaction, owner: ProfileOwner) -> ProfileRow | None:
    if owner.user_id is not None:
        return await tx.maybe(queries.find_of_user, ProfileRow, user_id=owner.user_id)
    return await tx.maybe(queries.find_of_agent, ProfileRow, agent_id=owner.agent_id)


def ask_profile(owner: ProfileOwner) -> BatchedQuery[tuple[ProfileRow | None, bool]]:
    """The profile of an owner, and whether one without a profile has facts."""

    def read(rows: list[Record]) -> tuple[ProfileRow | None, bool]:
        row = dict(rows[0])
        is_due = bool(row.pop("is_due"))
        return (ProfileRow(**row) if row["profile_id"] is not None else None), is_due

    if owner.user_id is not None:
        return BatchedQuery(queries.look_at_user, read, user_id=owner.user_id)
    return BatchedQuery(queries.look_at_agent, read, agent_id=owner.agent_id)


async def find_profiles(tx: Transaction, profile_ids: list[UUID]) -> list[ProfileRow]:
    return await tx.all(queries.find_profiles, ProfileRow, profile_ids=profile_ids)


async def list_facts(tx: Transaction, owners: Sequence[ProfileOwner], *, limit: int) -> list[list[KnownFact]]:
    """The facts of each owner, at most so many of each."""
    found: list[list[KnownFact]] = [[] for _ in owners]
    ids = {"user_ids": [owner.user_id for owner in owners], "agent_ids": [owner.agent_id for owner in owners]}
    for row in await tx.dicts(queries.facts_of_owners, limit=limit, **ids):
        found[row.pop("place") - 1].append(_read_fact(**row))
    return found


async def clear_changes(tx: Transaction, profile_ids: Sequence[UUID]) -> None:
    await tx.run(queries.clear_changes, profile_ids=list(profile_ids))


async def insert_profile(tx: Transaction, profile_id: UUID, owner: ProfileOwner, *, now: datetime) -> None:
    await tx.run(queries.insert_profile, **columns_of(owner, profile_id=profile_id, made_at=now))


async def save_profiles(tx: Transaction, profiles: Mapping[UUID, Profile]) -> None:
    """The texts by the ids of the profiles."""
    await tx.run(
        queries.save_profiles,
        profile_ids=list(profiles),
        contents=[profile.content for profile in profiles.values()],
        facts=[profile.facts for profile in profiles.values()],
        writers=[profile.writer for profile in profiles.values()],
        made_ats=[profile.made_at for profile in profiles.values()],
    )
