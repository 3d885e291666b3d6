"""Consolidation: learn from closed sessions, and archive the episodes behind the lessons (P3). An hourly job.

The lasting summaries of a session become persistent, its rolling one leaves recall, and what an agent did there is
summarised. A person's wishes and an agent's ways of working become procedures that link to their sources, and the episodes
behind them leave recall. A wish that the person takes back ends. Text of tools, documents and strangers teaches nothing. A
session is marked in the transaction that saves its results, so it is consolidated once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Protocol, runtime_checkable
from uuid import UUID

from recordari.core.described import DESCRIBED
from recordari.core.identity import Identity, Scope, SessionId
from recordari.core.items import CORROBORATION, Kind, NewItem, Tier, Trust
from recordari.core.telemetry import get_log
from recordari.db import audit
from recordari.db.database import Transaction
from recordari.errors import Conflict, RecordariError
from recordari.facts import storage as facts_storage
from recordari.facts.rules.extraction import Category
from recordari.facts.storage import Link
from recordari.kit.resources import Resources
from recordari.learning import storage
from recordari.learning.rules.patterns import (
    MOST_PATTERNS,
    Observed,
    Pattern,
    pattern_ref,
    patterns_in,
    takes_back,
    trusted,
)
from recordari.learning.rules.work import work_summary
from recordari.learning.storage import Closed, Due
from recordari.memory import storage as memory_storage
from recordari.memory.remember import Ready, Written, make_ready, save_ready
from recordari.memory.rules import Retirement
from recordari.memory.storage import FactState
from recordari.memory.versions import retire
from recordari.models.base import fail_open
from recordari.sessions.rules.sessions import SessionStatus
from recordari.sessions.sessions import find_session
from recordari.sessions.summaries import summarise_sessions
from recordari.tenants.tenants import require_admin

log = get_log(__name__)

ENDED_FOR = timedelta(hours=1)  # T3: by then the last messages are embedded and their facts are extracted
PAGE = 100
MOST_OBSERVED = 2_000
MOST_EARLIER = 500
MOST_RUNS = 20  # of a session, in the summary of its work
MOST_WISHES = 500
DISTIL_SECONDS = 60.0
TRIES = 3
MOST_VERSIONS = 9  # times that a pattern may hold again


@dataclass(frozen=True, slots=True, kw_only=True)
class Consolidated:
    """What was learned from a session."""

    __pydantic_config__ = DESCRIBED

    session_id: SessionId
    patterns: tuple[UUID, ...] = ()
    """Procedures that were learned or confirmed."""
    superseded: int = 0
    """Older procedures that they superseded."""
    archived: int = 0
    """Episodes that left recall, because a procedure rests on them."""
    withdrawn: int = 0
    """Wishes that the person took back."""
    summaries: int = 0
    """Summaries that became persistent."""
    work: UUID | None = None
    """The summary of what the agent did, if it did enough."""
    facts: int = 0
    """Corroborated facts that became persistent."""
    was_new: bool = True
    """False: it was consolidated before, and nothing happened."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Learned:
    """Patterns of a session, and their rows."""

    patterns: tuple[Pattern, ...]
    ready: Ready
    source_times: dict[UUID, datetime]
    distiller: str
    said: tuple[Observed, ...] = ()
    """What the person said."""
    work: Ready | None = None
    """The summary of what the agent did."""
    done: tuple[UUID, ...] = ()
    """The episodes that it summarises."""


async def consolidate_session(resources: Resources, identity: Identity, session_id: str) -> Consolidated:
    """Consolidate a closed session now instead of within the hour after it ended."""
    require_admin(identity)
    async with resources.database.transaction(identity) as tx:
        session = await find_session(tx, session_id)
    identity = replace(identity, user_id=None)  # acting for a user, an administrator would see only that user's rows
    if session.status is not SessionStatus.CLOSED:
        raise Conflict("the session is open; close it first")
    done = await _consolidate(resources, identity, session.session_ref)
    return done or Consolidated(session_id=session.session_id, was_new=False)


async def consolidate_sessions(resources: Resources, identity: Identity, **_: Any) -> int:
    """Consolidate the tenant's sessions that ended at least an hour ago. Return how many. An hourly job.

    A session that fails does not stop the others. The job then fails at its end and is tried again.
    """
    require_admin(identity)
    before, count = resources.clock() - ENDED_FOR, 0
    position: Due | None = None
    failure: RecordariError | None = None
    while True:
        async with resources.database.transaction(identity) as tx:
            page = await storage.list_due(tx, before=before, after=position, limit=PAGE)
        for due in page:
            try:
                count += await _consolidate(resources, identity, due.session_ref) is not None
            except RecordariError as error:
                log.warning("session_not_consolidated", session_ref=due.session_ref, error=type(error).__name__)
                failure = error
        if len(page) < PAGE:
            break
        position = page[-1]
    if failure is not None:
        raise failure
    return count


async def _consolidate(resources: Resources, identity: Identity, session_ref: UUID) -> Consolidated | None:
    """Consolidate one session; None when it was consolidated before."""
    await summarise_sessions(resources, identity, [session_ref])
    for attempt in range(TRIES):
        learned = await _learn(resources, identity, session_ref)
        if learned is None:
            return None
        try:
            return await _save(resources, identity, session_ref, learned)
        except Conflict:
            # A source was forgotten meanwhile: learn again without it.
            if attempt == TRIES - 1:
                raise
    return None


async def _learn(resources: Resources, identity: Identity, session_ref: UUID) -> _Learned | None:
    """Find the patterns of a session; no transaction is open while a model reads it."""
    async with resources.database.transaction(identity) as tx:
        closed = await storage.lock_closed(tx, session_ref)
        if closed is None:
            return None
        observed = await storage.list_observed(tx, closed, limit=MOST_OBSERVED)
        earlier = await storage.list_earlier(tx, closed, limit=MOST_EARLIER) if closed.agent_id else []
        runs = await storage.list_runs_of_session(tx, closed, limit=MOST_RUNS)
    observed = [item for item in observed if trusted(item)]
    nothing: Sequence[Pattern] = ()
    offline = OfflineDistiller()
    distiller: Distiller = resources.get(Distiller) if observed else offline
    patterns, ran = await fail_open(
        "distil", lambda: distiller.distil(observed, earlier), fallback=nothing, seconds=DISTIL_SECONDS
    )
    if not ran:
        distiller, patterns = offline, await offline.distil(observed, earlier)
    items = {item.item_id: item for item in (*observed, *earlier)}
    pairs = [
        (pattern, new)
        for pattern in patterns[:MOST_PATTERNS]
        if (new := _new_item(pattern, closed, items, distiller.name))
    ]
    owner = replace(identity, user_id=closed.user_id, agent_id=closed.agent_id, session_id=closed.session_id)
    episodes = [item for item in observed if item.kind is Kind.EPISODE]
    work = _work_item(
        closed, session_ref, work_summary([item.content for item in episodes], runs), now=resources.clock()
    )
    return _Learned(
        patterns=tuple(pattern for pattern, _ in pairs),
        ready=await make_ready(resources, owner, [new for _, new in pairs]),
        source_times={item_id: item.event_time for item_id, item in items.items()},
        distiller=distiller.name,
        said=tuple(item for item in observed if item.kind is Kind.CHAT_MESSAGE and item.trust is Trust.USER),
        work=await make_ready(resources, owner, [work]) if work is not None else None,
        done=tuple(item.item_id for item in episodes),
    )


def _work_item(closed: Closed, session_ref: UUID, summary: str | None, *, now: datetime) -> NewItem | None:
    scope = Scope.USER if closed.user_id is not None else Scope.AGENT
    if summary is None or closed.agent_id is None:
        return None
    return NewItem(
        content=summary,
        kind=Kind.SESSION_SUMMARY,
        scope=scope,
        tier=Tier.PERSISTENT,
        source_ref=f"work:{session_ref}",
        event_time=now,
        trust=Trust.AGENT,
        category=str(Category.WORKFLOW),
    )


def _new_item(pattern: Pattern, closed: Closed, items: dict[UUID, Observed], distiller: str) -> NewItem | None:
    """The procedure of a pattern; None when it has no owner, or a source that the distiller was not given.

    A model may answer anything, so its sources are checked.
    """
    sources = [items[item_id] for item_id in pattern.sources if item_id in items]
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
        event_time=max(item.event_time for item in sources),
        trust=Trust.USER if all(item.trust is Trust.USER for item in sources) else Trust.AGENT,
        subject=str(scope) if pattern.topic is not None else None,
        predicate=pattern.topic,
        confidence=min(1.0, max(0.0, pattern.confidence)),
        category=str(pattern.category),
        metadata={"distiller": distiller},
    )


def _scope(sources: Sequence[Observed], closed: Closed) -> Scope | None:
    """The owner of a pattern: no more people see it than saw its sources."""
    if any(item.kind is Kind.CHAT_MESSAGE or item.scope is not Scope.AGENT for item in sources):
        return Scope.USER if closed.user_id is not None else None
    return Scope.AGENT if closed.agent_id is not None else None


async def _save(resources: Resources, identity: Identity, session_ref: UUID, learned: _Learned) -> Consolidated | None:
    """Write the patterns of a session and mark it, in one transaction; None when another worker was faster."""
    now = resources.clock()
    async with resources.database.transaction(identity) as tx:
        closed = await storage.lock_closed(tx, session_ref)
        if closed is None:
            return None
        saved, changes = await _save_patterns(tx, learned)
        superseded = sum([await _supersede(tx, item_id, judge=learned.distiller) for item_id, _ in saved])
        withdrawn = await _withdraw(tx, closed, learned.said)
        work, of_work = await _save_work(tx, learned)
        sources = sorted({item_id for _, pattern in saved for item_id in pattern.sources})
        archived = await storage.archive_items(tx, sources, kind=Kind.EPISODE, now=now)
        if closed.summary_id is not None and closed.summary_ids:
            # The lasting summaries cover the whole session; of a short one they are its rolling summary word for word.
            await storage.archive_items(tx, [closed.summary_id], kind=Kind.SESSION_SUMMARY, now=now)
        summaries = await storage.promote_summaries(tx, closed.summary_ids)
        corroborated = await storage.promote_session_facts(tx, closed, sources=CORROBORATION)
        await storage.mark_consolidated(tx, session_ref, now=now)
        await audit.record(
            tx,
            "session.consolidate",
            "session",
            closed.session_id,
            distiller=learned.distiller,
            patterns=[str(item_id) for item_id, _ in saved],
            archived=len(archived),
            withdrawn=withdrawn,
            summaries=len(summaries),
            facts=len(corroborated),
        )
    (changes | of_work).wake(resources)
    return Consolidated(
        session_id=closed.session_id,
        patterns=tuple(item_id for item_id, _ in saved),
        superseded=superseded,
        archived=len(archived),
        withdrawn=withdrawn,
        summaries=len(summaries),
        work=work,
        facts=len(corroborated),
    )


async def _withdraw(tx: Transaction, closed: Closed, said: Sequence[Observed]) -> int:
    """End the person's wishes that a later message takes back. Return how many."""
    if closed.user_id is None or not said:
        return 0
    ended = 0
    for wish in await storage.list_wishes(tx, closed.user_id, limit=MOST_WISHES):
        by = next((item for item in said if item.event_time > wish.valid_at and takes_back(item, wish.content)), None)
        if by is None:
            continue
        await memory_storage.end_item(tx, wish.item_id, by.event_time)
        await audit.record(tx, "item.invalidate", "item", wish.item_id, rule="withdrawn", source=str(by.item_id))
        ended += 1
    return ended


async def _save_work(tx: Transaction, learned: _Learned) -> tuple[UUID | None, Written]:
    """Write the summary of what the agent did, with links to its episodes."""
    if learned.work is None:
        return None, Written()
    (summary,), changes = await save_ready(tx, learned.work)
    await facts_storage.insert_links(
        tx,
        [
            Link(item_id=summary.id, source_item_id=item_id, event_time=learned.source_times[item_id])
            for item_id in learned.done
        ],
    )
    return summary.id, changes


async def _save_patterns(tx: Transaction, learned: _Learned) -> tuple[list[tuple[UUID, Pattern]], Written]:
    """Write the patterns and their evidence. Return those that are live, and what they changed."""
    refs = [(row.item.owned_by, ref) for row in learned.ready.rows for ref in _versions(row.item.source_ref)]
    known = await memory_storage.fact_states(tx, refs, kind=Kind.PROCEDURE)
    rows = [
        replace(row, item=replace(row.item, source_ref=_placed(row.item.source_ref, row.item.event_time, known)))
        for row in learned.ready.rows
    ]
    remembered, changes = await save_ready(tx, Ready(rows=tuple(rows), objects=learned.ready.objects))
    locked = await memory_storage.lock_items(tx, sorted({row.id for row in remembered}))
    # A forgotten pattern does not come back, and one that a person ended stays ended.
    saved = [
        (row.id, pattern)
        for row, pattern in zip(remembered, learned.patterns, strict=True)
        if row.id in locked and locked[row.id].holds
    ]
    links = [
        Link(item_id=item_id, source_item_id=source, event_time=learned.source_times[source])
        for item_id, pattern in saved
        for source in pattern.sources
    ]
    await facts_storage.insert_links(tx, links)
    return saved, changes


def _versions(source_ref: str) -> list[str]:
    """The references of a pattern: each time it holds again, the number grows."""
    return [source_ref, *(f"{source_ref}@{number}" for number in range(2, MOST_VERSIONS + 1))]


def _placed(source_ref: str, moment: datetime, known: dict[str, FactState]) -> str:
    """The reference of a pattern: that of the row it repeats, or a new one when it holds again."""
    versions = _versions(source_ref)
    rows = [known[ref] for ref in versions if ref in known]
    if (live := next((row for row in rows if row.live), None)) is not None:
        return live.source_ref
    if rows:
        ended = rows[-1]
        holds_again = ended.invalid_at is not None and moment > ended.invalid_at
        if not holds_again or len(rows) == len(versions):
            return ended.source_ref
    return versions[len(rows)]


async def _supersede(tx: Transaction, item_id: UUID, *, judge: str) -> int:
    """Supersede older patterns about the same topic, or be superseded by a newer one. Return how many ended."""
    others = await storage.same_topic(tx, item_id)
    if not others:
        return 0
    valid_at = (await memory_storage.lock_items(tx, [item_id]))[item_id].valid_at
    newer = {other_id: since for other_id, since in others.items() if since > valid_at}
    successor, moment = min(newer.items(), key=lambda pair: pair[1]) if newer else (item_id, valid_at)
    ended = [
        Retirement(item_id=old_id, superseded_by=successor, invalid_at=moment, rule="pattern")
        for old_id in ([item_id] if newer else others)
    ]
    return len(await retire(tx, ended, judge=judge))


@runtime_checkable
class Distiller(Protocol):
    """Reads one session of one tenant at a time."""

    @property
    def name(self) -> str:
        """Kept with the patterns."""

    async def distil(self, observed: Sequence[Observed], earlier: Sequence[Observed]) -> Sequence[Pattern]:
        """Find what holds beyond the session; each pattern has the ids of its sources."""


class OfflineDistiller:
    """The rules: no model, no network, always the same answer."""

    @property
    def name(self) -> str:
        return "offline"

    async def distil(self, observed: Sequence[Observed], earlier: Sequence[Observed]) -> Sequence[Pattern]:
        return patterns_in(observed, earlier)
