"""Standing profiles: the facts about a user or an agent in short, read in one query and refreshed by a job (X4).

A trigger records in `profile_changes` that a fact of the owner was added, changed or ended, in the same transaction. A
profile with such a record is never shown: a reader rebuilds it by the offline rules, which takes one more query, and
the job rewrites it with the model, if one is configured.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from recordari.context import storage
from recordari.context.rules.profiles import MOST_FACTS, PROFILE_TOKENS, KnownFact, Profile, profile_text
from recordari.context.storage import ProfileOwner, ProfileRow
from recordari.core.identity import AgentId, Identity, Role, UserId, checked_id
from recordari.core.ids import new_id
from recordari.db import outbox
from recordari.db.database import Transaction
from recordari.db.outbox import Batch
from recordari.errors import InvalidInput, Unauthenticated
from recordari.kit.resources import Resources
from recordari.models.base import fail_open
from recordari.sessions.rules.summaries import Said
from recordari.sessions.summaries import Summariser

PROFILE_TOPIC = "profile"  # the trigger on items writes it too
OFFLINE = "offline"
WRITE_SECONDS = 30.0
NOTHING_KNOWN = Profile(content="", facts=0, writer=OFFLINE, made_at=None)


async def profile(
    resources: Resources, identity: Identity, *, user: str | None = None, agent: str | None = None
) -> Profile:
    """The facts about a user or an agent in short; by default your own. The profile of another user is empty."""
    owner = _owner(identity, user, agent)
    if not _may_see(identity, owner):
        return NOTHING_KNOWN
    bound = replace(identity, user_id=owner.user_id)
    async with resources.database.transaction(bound) as tx:
        row = await storage.find_profile(tx, owner)
        if row is not None and not row.is_stale:
            return row.profile
        now = resources.clock()
        row = row or await _inserted(tx, owner, now=now)
        return (await _rebuilt(tx, [row], now=now))[0][0] if row is not None else NOTHING_KNOWN


async def refresh_profiles(resources: Resources, identity: Identity, batch: Batch) -> None:
    """Rebuild profiles whose facts have changed, all in one transaction. A job of the outbox."""
    is_offline = resources.get(Summariser).name == OFFLINE
    async with resources.database.transaction(identity) as tx:
        rows = await storage.find_profiles(tx, sorted(set(batch.refs)))
        if is_offline:  # who read a profile meanwhile has rebuilt it
            rows = [row for row in rows if row.is_stale]
        rebuilt = await _rebuilt(tx, rows, now=resources.clock())
        if is_offline:
            await outbox.done(tx, batch)
            return
    for row, (profile, facts) in zip(rows, rebuilt, strict=True):
        if facts:
            await _write_by_model(resources, identity, row, facts, profile)
    async with resources.database.transaction(identity) as tx:
        await outbox.done(tx, batch)


async def _rebuilt(
    tx: Transaction, rows: Sequence[ProfileRow], *, now: datetime
) -> list[tuple[Profile, Sequence[KnownFact]]]:
    """Rebuild profiles from their facts by the offline rules and save them; changes in the meantime are recorded."""
    if not rows:
        return []
    await storage.clear_changes(tx, [row.profile_id for row in rows])
    facts = await storage.list_facts(tx, [row.owner for row in rows], limit=MOST_FACTS)
    texts = [profile_text(known) for known in facts]
    profiles = [Profile(content=content, facts=many, writer=OFFLINE, made_at=now) for content, many in texts]
    await storage.save_profiles(tx, {row.profile_id: profile for row, profile in zip(rows, profiles, strict=True)})
    return list(zip(profiles, facts, strict=True))


async def _inserted(tx: Transaction, owner: ProfileOwner, *, now: datetime) -> ProfileRow | None:
    """An empty profile, only for an owner with facts: a read alone leaves no row behind."""
    if not any(await storage.list_facts(tx, [owner], limit=1)):
        return None
    await storage.insert_profile(tx, new_id(), owner, now=now)
    return await storage.find_profile(tx, owner)


async def _write_by_model(
    resources: Resources, identity: Identity, row: ProfileRow, facts: Sequence[KnownFact], profile: Profile
) -> None:
    """Let the model rewrite the profile, unless it fails or a fact has changed in the meantime."""
    texts = [Said(speaker=fact.category or "fact", content=fact.content, trust=fact.trust) for fact in facts]
    summariser = resources.get(Summariser)
    content, ran = await fail_open(
        "profile",
        lambda: summariser.summarise("", texts, most_tokens=PROFILE_TOKENS),
        fallback="",
        seconds=WRITE_SECONDS,
    )
    if not ran or not content.strip():
        return
    async with resources.database.transaction(identity) as tx:
        (current,) = await storage.list_facts(tx, [row.owner], limit=MOST_FACTS)
        if {(fact.item_id, fact.content) for fact in current} == {(fact.item_id, fact.content) for fact in facts}:
            profile = replace(profile, content=content.strip(), facts=len(facts), writer=summariser.name)
            await storage.save_profiles(tx, {row.profile_id: profile})


def _owner(identity: Identity, user: str | None, agent: str | None) -> ProfileOwner:
    if user is not None and agent is not None:
        raise InvalidInput("a profile belongs to a user or an agent; name one of them")
    if user is not None:
        return ProfileOwner(user_id=UserId(checked_id("user", user)))
    if agent is not None:
        return ProfileOwner(agent_id=AgentId(checked_id("agent", agent)))
    if identity.user_id is not None:
        return ProfileOwner(user_id=identity.user_id)
    if identity.agent_id is not None:
        return ProfileOwner(agent_id=identity.agent_id)
    raise Unauthenticated("a profile belongs to a user or an agent; name one, or use a credential of one")


def _may_see(identity: Identity, owner: ProfileOwner) -> bool:
    """An identity with a user or an agent sees only that one; an administrator sees all."""
    if identity.role is Role.ADMIN:
        return True
    if owner.user_id is not None:
        return identity.user_id in {None, owner.user_id}
    return identity.agent_id in {None, owner.agent_id}
