"""Consolidating: what a closed session taught outlives it, and what it was learned from is archived (P3). An hourly job.

Its summary lasts, a person's wishes and an agent's ways of working become procedures that link to their sources, and the
episodes behind them leave recall. Nothing is learned from what a tool, a document or a stranger said. Done twice it does
nothing twice: a session is marked in the transaction that saves what came of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Protocol, runtime_checkable
from uuid import UUID

from pydantic import ConfigDict

from recordari.core.identity import Identity, Scope, SessionId
from recordari.core.items import CORROBORATION, Kind, NewItem, Tier, Trust
from recordari.core.telemetry import get_log
from recordari.db import audit
from recordari.db.database import Transaction
from recordari.errors import Conflict, NotFound, RecordariError
from recordari.facts import storage as facts_storage
from recordari.facts.storage import Link
from recordari.kit.resources import Resources
from recordari.learning import storage
from recordari.learning.rules.patterns import MOST_PATTERNS, Observed, Pattern, pattern_ref, patterns_in, trusted
from recordari.learning.storage import Closed, Due
from recordari.memory import storage as memory_storage
from recordari.memory.index import EMBED_TOPIC
from recordari.memory.remember import Ready, make_ready, save_ready
from recordari.memory.rules import Retirement
from recordari.memory.storage import FactState
from recordari.memory.versions import retire
from recordari.models.base import fail_open
from recordari.sessions import storage as sessions_storage
from recordari.sessions.messages import summarise_session
from recordari.sessions.rules.sessions import SessionStatus
from recordari.sessions.sessions import NO_SUCH_SESSION
from recordari.tenants.tenants import require_admin

log = get_log(__name__)

ENDED_FOR = timedelta(hours=1)  # T3: by then what was said last is embedded and its facts are extracted
PAGE = 100
MOST_OBSERVED = 2_000
MOST_EARLIER = 500
DISTIL_SECONDS = 60.0
TRIES = 3
MOST_VERSIONS = 9  # times that a pattern may hold again


@dataclass(frozen=True, slots=True, kw_only=True)
class Consolidated:
    """What a session left behind."""

    __pydantic_config__ = ConfigDict(use_attribute_docstrings=True, json_schema_serialization_defaults_required=True)

    session_id: SessionId
    patterns: tuple[UUID, ...] = ()
    """Procedures that were learned or borne out."""
    superseded: int = 0
    """Older procedures whose place they took."""
    archived: int = 0
    """Episodes that left recall, because something lasting rests on them."""
    summaries: int = 0
    """Summaries that last from now on."""
    facts: int = 0
    """Corroborated facts that last from now on."""
    was_new: bool = True
    """False: it was consolidated before, and nothing was done."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Learned:
    """Patterns of a session, and the rows to keep them in."""

    patterns: tuple[Pattern, ...]
    ready: Ready
    said_at: dict[UUID, datetime]
    """When each thing happened that they were learned from."""
    distiller: str


async def consolidate_session(resources: Resources, identity: Identity, session_id: str) -> Consolidated:
    """Consolidate a closed session now instead of within the hour after it ended."""
    require_admin(identity)
    identity = replace(identity, user_id=None)  # an administrator who acts for a user would see that user's rows only
    async with resources.database.transaction(identity) as tx:
        session = await sessions_storage.find_session(tx, SessionId(session_id))
    if session is None:
        raise NotFound(NO_SUCH_SESSION)
    if session.status is not SessionStatus.CLOSED:
        raise Conflict("the session is open; close it first")
    done = await _consolidate(resources, identity, session.session_ref)
    return done or Consolidated(session_id=session.session_id, was_new=False)


async def consolidate_sessions(resources: Resources, identity: Identity, **_: Any) -> int:
    """Consolidate the tenant's sessions that ended at least an hour ago; how many. An hourly job.

    One that cannot be consolidated keeps no other from it; the job fails at the end, and is tried again.
    """
    require_admin(identity)
    before, done = resources.clock() - ENDED_FOR, 0
    place: Due | None = None
    failed: RecordariError | None = None
    while True:
        async with resources.database.transaction(identity) as tx:
            due = await storage.list_due(tx, before=before, after=place, limit=PAGE)
        for one in due:
            try:
                done += await _consolidate(resources, identity, one.session_ref) is not None
            except RecordariError as error:
                log.warning("session_not_consolidated", session_ref=one.session_ref, error=type(error).__name__)
                failed = error
        if len(due) < PAGE:
            break
        place = due[-1]
    if failed is not None:
        raise failed
    return done


async def _consolidate(resources: Resources, identity: Identity, session_ref: UUID) -> Consolidated | None:
    """Consolidate one session; None when it was done already."""
    await summarise_session(resources, identity, session_ref)
    for attempt in range(TRIES):
        learned = await _learn(resources, identity, session_ref)
        if learned is None:
            return None
        try:
            return await _save(resources, identity, session_ref, learned)
        except Conflict:
            # Something that it was learned from was forgotten meanwhile: learn again without it.
            if attempt == TRIES - 1:
                raise
    return None


async def _learn(resources: Resources, identity: Identity, session_ref: UUID) -> _Learned | None:
    """What the session teaches, ready to be written; no transaction is open while a model reads it."""
    async with resources.database.transaction(identity) as tx:
        closed = await storage.lock_closed(tx, session_ref)
        if closed is None:
            return None
        observed = await storage.list_observed(tx, closed.session_id, limit=MOST_OBSERVED)
        earlier = await storage.list_earlier(tx, closed, limit=MOST_EARLIER) if closed.agent_id else []
    observed = [one for one in observed if trusted(one)]
    nothing: Sequence[Pattern] = ()
    offline = OfflineDistiller()
    distiller: Distiller = resources.get(Distiller) if observed else offline
    patterns, ran = await fail_open(
        "distil", lambda: distiller.distil(observed, earlier), fallback=nothing, seconds=DISTIL_SECONDS
    )
    if not ran:
        distiller, patterns = offline, await offline.distil(observed, earlier)
    known = {one.item_id: one for one in (*observed, *earlier)}
    kept = [(one, new) for one in patterns[:MOST_PATTERNS] if (new := _new_item(one, closed, known, distiller.name))]
    owner = replace(identity, user_id=closed.user_id, agent_id=closed.agent_id, session_id=closed.session_id)
    ready = await make_ready(resources, owner, [new for _, new in kept])
    said_at = {item_id: one.event_time for item_id, one in known.items()}
    return _Learned(patterns=tuple(one for one, _ in kept), ready=ready, said_at=said_at, distiller=distiller.name)


def _new_item(pattern: Pattern, closed: Closed, known: dict[UUID, Observed], distiller: str) -> NewItem | None:
    """The procedure that a pattern becomes; None where nothing that we know bears it out, or nobody owns it.

    A model may say anything: what it names must be among what it was given.
    """
    sources = [known[item_id] for item_id in pattern.sources if item_id in known]
    if len(sources) != len(pattern.sources) or not sources or not pattern.content.strip():
        return None
    scope = _scope(sources, closed)
    if scope is None:
        return None
    owner = closed.user_id if scope is Scope.USER else closed.agent_id
    return NewItem(
        content=pattern.content.strip(),
        kind=Kind.PROCEDURE,
        scope=scope,
        tier=Tier.PERSISTENT,
        source_ref=pattern_ref(scope, str(owner), pattern.content),
        event_time=max(one.event_time for one in sources),
        trust=Trust.USER if all(one.trust is Trust.USER for one in sources) else Trust.AGENT,
        subject=str(scope) if pattern.topic is not None else None,
        predicate=pattern.topic,
        confidence=min(1.0, max(0.0, pattern.confidence)),
        category=str(pattern.category),
        metadata={"distiller": distiller},
    )


def _scope(sources: Sequence[Observed], closed: Closed) -> Scope | None:
    """Whose pattern it is: never shown to more people than what it was learned from."""
    said = any(one.kind is Kind.CHAT_MESSAGE for one in sources)
    private = said or any(one.scope is not Scope.AGENT for one in sources)
    if private:
        return Scope.USER if closed.user_id is not None else None
    return Scope.AGENT if closed.agent_id is not None else None


async def _save(resources: Resources, identity: Identity, session_ref: UUID, learned: _Learned) -> Consolidated | None:
    """Write what a session taught and mark it, all or nothing; None when another worker was faster."""
    now = resources.clock()
    async with resources.database.transaction(identity) as tx:
        closed = await storage.lock_closed(tx, session_ref)
        if closed is None:
            return None
        saved, changed = await _save_patterns(tx, learned)
        superseded = 0
        for item_id, _ in saved:
            superseded += await _take_the_place(tx, item_id, judge=learned.distiller)
        sources = sorted({item_id for _, pattern in saved for item_id in pattern.sources})
        archived = await storage.archive_sources(tx, sources, now=now)
        summaries = await storage.promote_summaries(tx, closed.summary_ids)
        corroborated = await storage.promote_session_facts(tx, closed.session_id, sources=CORROBORATION)
        await storage.mark_consolidated(tx, session_ref, now=now)
        await audit.record(
            tx,
            "session.consolidate",
            "session",
            closed.session_id,
            distiller=learned.distiller,
            patterns=[str(item_id) for item_id, _ in saved],
            archived=len(archived),
            summaries=len(summaries),
            facts=len(corroborated),
        )
    if changed:
        resources.wake(EMBED_TOPIC)
    return Consolidated(
        session_id=closed.session_id,
        patterns=tuple(item_id for item_id, _ in saved),
        superseded=superseded,
        archived=len(archived),
        summaries=len(summaries),
        facts=len(corroborated),
    )


async def _save_patterns(tx: Transaction, learned: _Learned) -> tuple[list[tuple[UUID, Pattern]], list[UUID]]:
    """Write the patterns and what they rest on; those that stand, and the ids whose text is new."""
    refs = [ref for row in learned.ready.rows for ref in _versions(row.item.source_ref)]
    known = await memory_storage.standing_of_refs(tx, refs, kind=Kind.PROCEDURE)
    rows = [
        replace(row, item=replace(row.item, source_ref=_placed(row.item.source_ref, row.item.event_time, known)))
        for row in learned.ready.rows
    ]
    remembered, changed = await save_ready(tx, Ready(rows=tuple(rows), objects=learned.ready.objects))
    locked = await memory_storage.lock_items(tx, sorted({one.id for one in remembered}))
    # What was forgotten stays away, and what a person ended stays ended.
    saved = [
        (one.id, pattern)
        for one, pattern in zip(remembered, learned.patterns, strict=True)
        if one.id in locked and locked[one.id].live
    ]
    links = [
        Link(item_id=item_id, source_item_id=source, event_time=learned.said_at[source])
        for item_id, pattern in saved
        for source in pattern.sources
    ]
    await facts_storage.insert_links(tx, links)
    return saved, changed


def _versions(source_ref: str) -> list[str]:
    """The references under which the same words may stand: each time they hold again, a number higher."""
    return [source_ref, *(f"{source_ref}@{number}" for number in range(2, MOST_VERSIONS + 1))]


def _placed(source_ref: str, moment: datetime, known: dict[str, FactState]) -> str:
    """Under which reference a pattern is written: that of the row it repeats, or a new one when it holds again."""
    versions = _versions(source_ref)
    standing = [known[ref] for ref in versions if ref in known]
    if (live := next((one for one in standing if one.live), None)) is not None:
        return live.source_ref
    if standing:
        ended = standing[-1]
        holds_again = ended.invalid_at is not None and moment > ended.invalid_at
        if not holds_again or len(standing) == len(versions):
            return ended.source_ref
    return versions[len(standing)]


async def _take_the_place(tx: Transaction, item_id: UUID, *, judge: str) -> int:
    """Let a pattern take the place of older ones about the same thing, or be overtaken by a newer one; how many ended."""
    others = await storage.same_topic(tx, item_id)
    if not others:
        return 0
    mine = (await memory_storage.lock_items(tx, [item_id]))[item_id]
    newer = [one for one in others if one.valid_at > mine.valid_at]
    if newer:
        next_one = min(newer, key=lambda one: one.valid_at)
        ended = [
            Retirement(item_id=item_id, superseded_by=next_one.item_id, invalid_at=next_one.valid_at, rule="pattern")
        ]
    else:
        ended = [
            Retirement(item_id=one.item_id, superseded_by=item_id, invalid_at=mine.valid_at, rule="pattern")
            for one in others
        ]
    return len(await retire(tx, ended, judge=judge))


@runtime_checkable
class Distiller(Protocol):
    """Reads one session of one tenant at a time."""

    @property
    def name(self) -> str:
        """Which one ran; kept with what came of it."""

    async def distil(self, observed: Sequence[Observed], earlier: Sequence[Observed]) -> Sequence[Pattern]:
        """What holds beyond the session, each pattern with the ids of what it was learned from."""


class OfflineDistiller:
    """The rules of the domain: no model, no network, always the same answer."""

    @property
    def name(self) -> str:
        """Which one ran."""
        return "offline"

    async def distil(self, observed: Sequence[Observed], earlier: Sequence[Observed]) -> Sequence[Pattern]:
        """What the patterns find."""
        return patterns_in(observed, earlier)
