"""Where the sections of a context come from: the agent's definition, the session, the tenant, and recall.

All that is read by key comes in one round trip, and what depends on the session in a second one; recall runs beside them.
A section that nothing is read for is simply not there, and the trace says so.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from recordari.context import storage
from recordari.context.profiles import NOTHING_KNOWN
from recordari.context.profiles import profile as read_profile
from recordari.context.rules.context import ContextItem, Plan, SectionName, cache_stable_tail
from recordari.context.rules.profiles import Profile
from recordari.context.storage import ProfileOwner, ProfileRow
from recordari.core.checks import END
from recordari.core.identity import Identity
from recordari.core.items import Item, Trust, normalised
from recordari.db.database import BatchedQuery
from recordari.kit.resources import Resources
from recordari.knowledge import storage as knowledge_storage
from recordari.knowledge.rules.knowledge_map import MapEntry, written_map
from recordari.recall.request import RecalledItem
from recordari.sessions import run_storage
from recordari.sessions import storage as sessions_storage
from recordari.sessions.rules.sessions import Note, Session, SessionStatus, may_see
from recordari.sessions.rules.state import DELEGATED_PREFIX, OwnerKind, StateEntry, StateOwner
from recordari.sessions.rules.window import HINT, TAIL, Message, Window, window_of
from recordari.sessions.sessions import MAX_WINDOW_MESSAGES, limit_of
from recordari.sessions.storage import SessionWithModel
from recordari.tenants import storage as tenants_storage
from recordari.tenants.rules import Agent

SHARED_READ = 20
ACTIVITY_READ = 20
ACTIVITY_SPAN = timedelta(days=1)
_OF_SESSION = frozenset({SectionName.SUMMARY, SectionName.WINDOW})


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
    """Read what the plan asks for, apart from recall: in one round trip, and one more for what a session has."""
    reader = _Reader(resources, identity, plan, as_of)
    await reader.ask(reader.first())
    await reader.ask(reader.second())
    return await reader.base()


@dataclass(frozen=True, slots=True)
class _AskedProfile:
    owner: ProfileOwner
    row: BatchedQuery[ProfileRow | None]
    is_due: BatchedQuery[bool]


class _Reader:
    """What is read for one context: asked for at first, then what depends on that, then told as sections."""

    def __init__(self, resources: Resources, identity: Identity, plan: Plan, as_of: datetime | None) -> None:
        self.resources = resources
        self.identity = identity
        self.plan = plan
        self.as_of = as_of
        self.now = as_of or resources.clock()
        self.started = time.perf_counter()
        self.sections: dict[SectionName, Fetched] = {}
        self.agent: BatchedQuery[Agent | None] | None = None
        self.newest: BatchedQuery[SessionWithModel | None] | None = None
        self.entries: BatchedQuery[list[MapEntry]] | None = None
        self.delegated: BatchedQuery[list[StateEntry]] | None = None
        self.activity: BatchedQuery[list[Item]] | None = None
        self.shared: BatchedQuery[list[Item]] | None = None
        self.profiles: list[_AskedProfile] = []
        self.standing: SessionWithModel | None = None
        self.before: BatchedQuery[Session | None] | None = None
        self.notes: BatchedQuery[list[Note]] | None = None
        self.messages: BatchedQuery[list[Message]] | None = None
        self.began: BatchedQuery[datetime | None] | None = None

    async def ask(self, asked: Sequence[BatchedQuery[Any] | None]) -> None:
        """Send what is to be asked, if there is any."""
        some = [one for one in asked if one is not None]
        if some:
            await self.resources.database.read_batch(self.identity, some)

    def first(self) -> list[BatchedQuery[Any] | None]:
        """What can be asked for at once."""
        identity, shares = self.identity, self.plan.shares
        if identity.agent_id is not None and {SectionName.CORE, SectionName.CHARACTERISTICS} & shares.keys():
            self.agent = tenants_storage.ask_agent(identity.agent_id)
        if identity.session_id is not None and _OF_SESSION & shares.keys():
            self.newest = sessions_storage.ask_newest(identity.session_id)
        if SectionName.KNOWLEDGE_MAP in shares:
            self.entries = knowledge_storage.ask_entries()
        if SectionName.DELEGATED in shares:
            assert identity.run_id is not None
            owner = StateOwner(kind=OwnerKind.RUN, owner_id=identity.run_id)
            self.delegated = run_storage.ask_entries(owner, prefix=DELEGATED_PREFIX, now=self.now)
        if SectionName.DAILY_LOG in shares:
            self.activity = self._ask_activity()
        if SectionName.SHARED in shares and not self._waits_for_epoch:
            self.shared = self._ask_shared(END)
        if SectionName.PROFILE in shares:
            # What is known of the user, then of the agent.
            owners = [ProfileOwner(user_id=identity.user_id)] if identity.user_id is not None else []
            owners += [ProfileOwner(agent_id=identity.agent_id)] if identity.agent_id is not None else []
            self.profiles = [_AskedProfile(one, storage.ask_profile(one), storage.ask_due(one)) for one in owners]
        asked = [self.agent, self.newest, self.entries, self.delegated, self.activity, self.shared]
        return [*asked, *(each for one in self.profiles for each in (one.row, one.is_due))]

    def second(self) -> list[BatchedQuery[Any] | None]:
        """What depends on the session that was found."""
        standing = self.newest.answer if self.newest is not None else None
        if standing is not None and self._may_see(standing.session):
            self.standing = standing
            self._ask_session(standing.session)
        return [self.before, self.notes, self.messages, self.began]

    def _ask_session(self, session: Session) -> None:
        if SectionName.SUMMARY in self.plan.shares:
            self.before = sessions_storage.ask_session(session.continues) if session.continues else None
            self.notes = sessions_storage.ask_notes(session.session_id) if session.has_notes(self.now) else None
        if not self._is_over(session):
            first = session.window_from
            self.messages = sessions_storage.ask_newest_messages(session, first=first, limit=MAX_WINDOW_MESSAGES)
            if self._waits_for_epoch:
                self.began = storage.ask_written_at(session.session_id, session.epoch_to or 1)

    async def base(self) -> Base:
        """Everything that was found, as sections."""
        self._definition()
        window = self._session()
        if self._waits_for_epoch and SectionName.SHARED in self.plan.shares:
            began = self.began.answer if self.began is not None else None
            self.shared = self._ask_shared(began or END)
            await self.ask([self.shared])
        self._keep_all()
        if SectionName.PROFILE in self.plan.shares:
            self._keep(SectionName.PROFILE, await self._profiles())
        return Base(
            sections=self.sections,
            hint=HINT if window is not None and window.state.compressed else None,
            epoch=window.state.epoch if window is not None else 0,
        )

    def _keep_all(self) -> None:
        """What needs no more thought."""
        if self.entries is not None:
            self._keep(SectionName.KNOWLEDGE_MAP, [_map_item(self.entries.answer)])
        if self.shared is not None:
            self._keep(SectionName.SHARED, [item_of(one) for one in self.shared.answer])
        if self.delegated is not None:
            self._keep(SectionName.DELEGATED, self._delegated_items(self.delegated.answer))
        if self.activity is not None:
            self._keep(SectionName.DAILY_LOG, [item_of(one) for one in self.activity.answer])

    def _keep(self, name: SectionName, found: Sequence[ContextItem], missing: str | None = None) -> None:
        if name in self.plan.shares:
            spent = (time.perf_counter() - self.started) * 1000
            self.sections[name] = Fetched(
                items=found, missing=missing or (None if found else "there is none"), milliseconds=spent
            )

    @property
    def _waits_for_epoch(self) -> bool:
        """Where the beginning is to stay the same, what came since waits for the next epoch; what was retired goes."""
        return self.as_of is None and self.plan.profile.steady

    def _definition(self) -> None:
        if self.agent is None:
            return
        agent = self.agent.answer
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
            self._keep(name, items if text.strip() else [], missing)

    def _session(self) -> Window | None:
        """Summary and window of the session."""
        if self.newest is None:
            return None
        if self.standing is None:
            for name in _OF_SESSION:
                self._keep(name, [], "there is no such session")
            return None
        session = self.standing.session
        before = self.before.answer if self.before is not None else None
        noted = self.notes.answer if self.notes is not None else []
        self._keep(SectionName.SUMMARY, _summary_items(session, before, noted))
        if self.messages is None:  # what comes next begins a new session, with an empty window
            self._keep(SectionName.WINDOW, [], "the session is over; its summary is carried over")
            return None
        window = window_of(session, self.messages.answer, limit=limit_of(self.resources, self.standing))
        messages = self._steady(window) if self.plan.profile.steady else window.active
        self._keep(SectionName.WINDOW, [_message_item(session, one) for one in reversed(messages)])
        return window

    def _may_see(self, session: Session) -> bool:
        return may_see(self.identity, user_id=session.user_id, agent_id=session.agent_id)

    def _is_over(self, session: Session) -> bool:
        return session.status is SessionStatus.CLOSED or session.is_idle(self.now)

    def _steady(self, window: Window) -> Sequence[Message]:
        """The tail whose beginning seldom moves; counted roughly, the packing has the last word."""
        limit = self.plan.shares[SectionName.WINDOW].tokens if SectionName.WINDOW in self.plan.shares else 0
        messages = window.active if window.state.compressed else window.messages
        count = self.resources.count_tokens

        def fits(some: Sequence[Message]) -> bool:
            return sum(count(one.content) + 40 for one in some) <= limit

        return cache_stable_tail(messages, most=TAIL, fits=fits)

    def _ask_shared(self, before: datetime) -> BatchedQuery[list[Item]]:
        if self.as_of is not None:
            return storage.ask_shared_as_of(as_of=self.as_of, limit=SHARED_READ)
        return storage.ask_shared(before=before, limit=SHARED_READ)

    def _delegated_items(self, entries: Sequence[StateEntry]) -> list[ContextItem]:
        return [
            ContextItem(
                content=entry.value if isinstance(entry.value, str) else json.dumps(entry.value, ensure_ascii=False),
                kind="delegated",
                trust=Trust.AGENT,
                source_ref=f"run:{self.identity.run_id}:{entry.key}",
                who=entry.key.removeprefix(DELEGATED_PREFIX),
                when=entry.updated_at,
            )
            for entry in entries
            if entry.value not in ("", None)
        ]

    def _ask_activity(self) -> BatchedQuery[list[Item]]:
        interval = self.plan.interval
        since = interval.start if interval is not None and interval.start is not None else self.now - ACTIVITY_SPAN
        until = interval.end if interval is not None and interval.end is not None else self.now + ACTIVITY_SPAN
        if self.as_of is not None:
            until = min(until, self.as_of)
        return storage.ask_activity(self.identity, since=since, until=until, limit=ACTIVITY_READ)

    async def _profiles(self) -> list[ContextItem]:
        """The standing profiles that say anything; one that is out of date is made anew first."""
        items = []
        for asked in self.profiles:
            row, (kind, name) = asked.row.answer, _named(asked.owner)
            if asked.is_due.answer or (row is not None and row.is_stale):
                found = await read_profile(self.resources, self.identity, **{kind: name})
            else:
                found = row.profile if row is not None else NOTHING_KNOWN
            if found.content.strip():
                items.append(_profile_item(found, kind, name))
        return items


def _named(owner: ProfileOwner) -> tuple[str, str]:
    if owner.user_id is not None:
        return "user", owner.user_id
    assert owner.agent_id is not None
    return "agent", owner.agent_id


def _profile_item(profile: Profile, kind: str, name: str) -> ContextItem:
    return ContextItem(
        content=profile.content,
        kind="profile",
        trust=Trust.AGENT,
        source_ref=f"profile:{kind}:{name}",
        who=name,
        when=profile.made_at,
    )


def _map_item(entries: Sequence[MapEntry]) -> ContextItem:
    """What can be looked up, and the tool that reaches it (C3)."""
    return ContextItem(
        content=written_map(entries), kind="knowledge_map", trust=Trust.AGENT, source_ref="knowledge_map"
    )


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
