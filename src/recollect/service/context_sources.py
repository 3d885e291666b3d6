"""Where the sections of a context come from: the agent's definition, the session, the tenant, and recall.

All that is read by key comes in one transaction; recall runs beside it. `SOURCES` holds the sections that other parts of
the product provide: a section that has no source is simply not there, and the trace says so.
"""

from __future__ import annotations

import json
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from recollect.domain.context import ContextItem, Plan, SectionName, steady_tail
from recollect.domain.identity import Identity
from recollect.domain.items import Item, Trust, normalised
from recollect.domain.sessions import Note, Session, SessionStatus, may_see
from recollect.domain.state import DELEGATED_PREFIX, Owner, OwnerKind
from recollect.domain.window import HINT, TAIL, Message, Window
from recollect.service import knowledge, profiles
from recollect.service.recall_request import RecalledItem
from recollect.service.resources import Resources
from recollect.service.sessions import read_window
from recollect.storage import context, notes, sessions, state, tenants
from recollect.storage.database import Transaction
from recollect.storage.sessions import END

SHARED_READ = 20
ACTIVITY_READ = 20
ACTIVITY_SPAN = timedelta(days=1)

Source = Callable[[Resources, Identity], Awaitable[Sequence[ContextItem]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetched:
    """What a section may show, best first; or why it has nothing."""

    items: Sequence[ContextItem] = ()
    missing: str | None = None
    milliseconds: float = 0.0
    source: str = "database"


@dataclass(frozen=True, slots=True, kw_only=True)
class Base:
    """Everything that is read by key."""

    sections: Mapping[SectionName, Fetched] = field(default_factory=dict)
    hint: str | None = None
    epoch: int = 0


async def read_base(resources: Resources, identity: Identity, plan: Plan, *, as_of: datetime | None) -> Base:
    """Read what the plan asks for, apart from recall, in one transaction."""
    reader = _Reader(resources, identity, plan, as_of)
    async with resources.database.transaction(identity) as tx:
        return await reader.read(tx)


class _Reader:
    """One transaction's reading."""

    def __init__(self, resources: Resources, identity: Identity, plan: Plan, as_of: datetime | None) -> None:
        self.resources = resources
        self.identity = identity
        self.plan = plan
        self.as_of = as_of
        self.now = as_of or resources.clock()
        self.sections: dict[SectionName, Fetched] = {}

    async def read(self, tx: Transaction) -> Base:
        await self._definition(tx)
        window, began = await self._session(tx)
        readers: dict[SectionName, Callable[[Transaction], Awaitable[Sequence[ContextItem]]]] = {
            SectionName.SHARED: lambda tx: self._shared(tx, began),
            SectionName.DELEGATED: self._delegated,
            SectionName.DAILY_LOG: self._activity,
        }
        for name in self.plan.shares:
            if name in readers:
                started = time.perf_counter()
                found = await readers[name](tx)
                self._keep(name, found, started)
        return Base(
            sections=self.sections,
            hint=HINT if window is not None and window.state.compressed else None,
            epoch=window.state.epoch if window is not None else 0,
        )

    def _keep(
        self, name: SectionName, found: Sequence[ContextItem], started: float, missing: str | None = None
    ) -> None:
        if name in self.plan.shares:
            spent = (time.perf_counter() - started) * 1000
            self.sections[name] = Fetched(
                items=found, missing=missing or (None if found else "there is none"), milliseconds=spent
            )

    async def _definition(self, tx: Transaction) -> None:
        if (
            self.identity.agent_id is None
            or not {SectionName.CORE, SectionName.CHARACTERISTICS} & self.plan.shares.keys()
        ):
            return
        started = time.perf_counter()
        agent = await tenants.find_agent(tx, self.identity.agent_id)
        missing = None if agent is not None else "the agent has no definition"
        for name in (SectionName.CORE, SectionName.CHARACTERISTICS):
            text = getattr(agent, name) if agent is not None else ""
            items = [
                ContextItem(
                    content=text,
                    kind="agent_definition",
                    trust=Trust.AGENT,
                    source_ref=f"agent:{self.identity.agent_id}",
                )
            ]
            self._keep(name, items if text.strip() else [], started, missing)

    async def _session(self, tx: Transaction) -> tuple[Window | None, datetime]:
        """Summary and window of the session, and when its present epoch began."""
        asked = {SectionName.SUMMARY, SectionName.WINDOW} & self.plan.shares.keys()
        if self.identity.session_id is None or not asked:
            return None, END
        started = time.perf_counter()
        standing = await sessions.find_newest(tx, self.identity.session_id)
        session = standing.session if standing is not None else None
        if standing is None or session is None or not self._may_see(session):
            for name in asked:
                self._keep(name, [], started, "there is no such session")
            return None, END
        is_over = session.status is SessionStatus.CLOSED or session.is_idle(self.now)
        if SectionName.SUMMARY in asked:
            before = await sessions.find_session(tx, session.continues) if session.continues else None
            noted = await notes.list_notes(tx, session.session_id) if session.has_notes(self.now) else []
            self._keep(SectionName.SUMMARY, _summary_items(session, before, noted), started)
        if is_over:  # what comes next begins a new session, with an empty window
            self._keep(SectionName.WINDOW, [], started, "the session is over; its summary is carried over")
            return None, END
        window = await read_window(self.resources, tx, standing)
        messages = self._steady(window) if self.plan.profile.steady else window.active
        self._keep(SectionName.WINDOW, [_message_item(session, one) for one in reversed(messages)], started)
        return window, await _began(tx, session)

    def _may_see(self, session: Session) -> bool:
        return may_see(self.identity, user_id=session.user_id, agent_id=session.agent_id)

    def _steady(self, window: Window) -> Sequence[Message]:
        """The tail whose beginning seldom moves; counted roughly, the packing has the last word."""
        limit = self.plan.shares[SectionName.WINDOW].tokens if SectionName.WINDOW in self.plan.shares else 0
        messages = window.active if window.state.compressed else window.messages
        count = self.resources.count_tokens

        def fits(some: Sequence[Message]) -> bool:
            return sum(count(one.content) + 40 for one in some) <= limit

        return steady_tail(messages, most=TAIL, fits=fits)

    async def _shared(self, tx: Transaction, began: datetime) -> list[ContextItem]:
        if self.as_of is not None:
            found = await context.list_shared_as_of(tx, as_of=self.as_of, limit=SHARED_READ)
        else:
            # Where the beginning is to stay the same, what came since waits for the next epoch; what was retired goes.
            before = began if self.plan.profile.steady else END
            found = await context.list_shared(tx, before=before, limit=SHARED_READ)
        return [item_of(one) for one in found]

    async def _delegated(self, tx: Transaction) -> list[ContextItem]:
        run_id = self.identity.run_id
        assert run_id is not None
        owner = Owner(kind=OwnerKind.RUN, owner_id=run_id)
        entries = await state.list_entries(tx, owner, prefix=DELEGATED_PREFIX, now=self.now)
        return [
            ContextItem(
                content=entry.value if isinstance(entry.value, str) else json.dumps(entry.value, ensure_ascii=False),
                kind="delegated",
                trust=Trust.AGENT,
                source_ref=f"run:{run_id}:{entry.key}",
                who=entry.key.removeprefix(DELEGATED_PREFIX),
                when=entry.updated_at,
            )
            for entry in entries
            if entry.value not in ("", None)
        ]

    async def _activity(self, tx: Transaction) -> list[ContextItem]:
        interval = self.plan.interval
        since = interval.start if interval is not None and interval.start is not None else self.now - ACTIVITY_SPAN
        until = interval.end if interval is not None and interval.end is not None else self.now + ACTIVITY_SPAN
        if self.as_of is not None:
            until = min(until, self.as_of)
        found = await context.list_activity(tx, since=since, until=until, limit=ACTIVITY_READ)
        return [item_of(one) for one in found]


async def _began(tx: Transaction, session: Session) -> datetime:
    """When the present epoch of a session began, by the clock that stamps items."""
    return await context.written_at(tx, session.session_id, session.epoch_to or 1) or END


def _summary_items(session: Session, before: Session | None, noted: Sequence[Note]) -> list[ContextItem]:
    summaries = [(session.session_id, session.summary)]
    if before is not None:
        summaries.append((before.session_id, before.summary))
    items = [
        ContextItem(
            content=text,
            kind="session_summary",
            trust=Trust.AGENT,
            source_ref=f"summary:{session_id}",
            session_id=session_id,
            item_id=session.summary_id if session_id == session.session_id else None,
        )
        for session_id, text in summaries
        if text.strip()
    ]
    told = normalised(" ".join(text for _, text in summaries))
    ordered = sorted(
        (note for note in noted if normalised(note.content) not in told), key=lambda note: -note.importance
    )
    return items + [
        ContextItem(
            content=note.content,
            kind=str(note.kind),
            trust=Trust.AGENT,
            source_ref=f"note:{note.note_id}",
            when=note.created_at,
            session_id=session.session_id,
        )
        for note in ordered
    ]


def _message_item(session: Session, message: Message) -> ContextItem:
    trust = {"user": Trust.USER, "assistant": Trust.AGENT, "tool": Trust.TOOL}.get(message.role, Trust.AGENT)
    return ContextItem(
        content=message.content,
        kind="chat_message",
        trust=trust,
        source_ref=message.message_id or str(message.item_id),
        item_id=message.item_id,
        when=message.event_time,
        who=message.speaker or message.role,
        session_id=session.session_id,
        payload_key=message.payload_key,
        message=message,
    )


def item_of(found: Item | RecalledItem) -> ContextItem:
    """An item of memory as a context shows it."""
    if isinstance(found, RecalledItem):
        kind, item_id, score = found.source_kind, found.id, found.score
    else:
        kind, item_id, score = found.kind, found.item_id, None
    return ContextItem(
        content=found.content,
        kind=str(kind),
        trust=str(found.trust),
        source_ref=found.source_ref,
        item_id=item_id,
        when=found.event_time,
        who=found.speaker,
        scope=str(found.scope),
        session_id=found.session_id,
        payload_key=found.payload_key,
        score=score,
    )


async def read_source(resources: Resources, identity: Identity, name: SectionName) -> Fetched:
    """What another part of the product provides for a section."""
    started = time.perf_counter()
    found = await SOURCES[name](resources, identity)
    spent = (time.perf_counter() - started) * 1000
    return Fetched(items=found, missing=None if found else "there is none", milliseconds=spent)


async def _map(resources: Resources, identity: Identity) -> list[ContextItem]:
    """What can be looked up, and the tool that reaches it (C3)."""
    text = await knowledge.map_knowledge(resources, identity)
    return [ContextItem(content=text, kind="knowledge_map", trust=Trust.AGENT, source_ref="knowledge_map")]


async def _profiles(resources: Resources, identity: Identity) -> list[ContextItem]:
    """What is known of the user, then of the agent."""
    owners: list[dict[str, str]] = []
    if identity.user_id is not None:
        owners.append({"user": identity.user_id})
    if identity.agent_id is not None:
        owners.append({"agent": identity.agent_id})
    items = []
    for owner in owners:
        found = await profiles.profile(resources, identity, **owner)
        if found.content.strip():
            ((kind, name),) = owner.items()
            items.append(
                ContextItem(
                    content=found.content,
                    kind="profile",
                    trust=Trust.AGENT,
                    source_ref=f"profile:{kind}:{name}",
                    who=name,
                    when=found.made_at,
                )
            )
    return items


SOURCES: dict[SectionName, Source] = {SectionName.KNOWLEDGE_MAP: _map, SectionName.PROFILE: _profiles}
"""The sections that other parts of the product provide; a section without a source is not there."""
