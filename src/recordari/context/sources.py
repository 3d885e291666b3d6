"""The sources of a context besides recall: the agent's definition, the session, the tenant, profiles.

All reads by key are one round trip. What a session needs that is over, continues another one or was compressed is a second
one; recall runs at the same time.
A section without a source is left out, and the trace says so.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, TypeVar

from recordari.context import storage
from recordari.context.profiles import NOTHING_KNOWN
from recordari.context.profiles import profile as read_profile
from recordari.context.question_storage import ShownAnswer, ask_answers
from recordari.context.questions import answers_for_context
from recordari.context.rules.context import ContextItem, Plan, SectionName
from recordari.context.storage import ProfileOwner, ProfileRow
from recordari.core.checks import END
from recordari.core.identity import Identity, SessionId
from recordari.core.items import Item, Trust, normalised
from recordari.db.database import BatchedQuery
from recordari.db.queries import Record
from recordari.kit.resources import Resources
from recordari.knowledge import storage as knowledge_storage
from recordari.knowledge.rules.knowledge_map import MapEntry, written_map
from recordari.recall.request import RecalledItem
from recordari.sessions import run_storage
from recordari.sessions import storage as sessions_storage
from recordari.sessions.rules.sessions import (
    NoteKind,
    Session,
    SessionNote,
    SessionStatus,
    earlier_sessions,
    may_see,
)
from recordari.sessions.rules.state import DELEGATED_PREFIX, OwnerKind, StateEntry, StateOwner
from recordari.sessions.rules.window import HINT, TAIL, Message, Window, window_of
from recordari.sessions.sessions import MOST_UNSUMMARISED, limit_of
from recordari.sessions.storage import SessionWithModel
from recordari.tenants import storage as tenants_storage
from recordari.tenants.rules import Agent

SHARED_READ = 20
ACTIVITY_READ = 20
EARLIER_READ = 50  # sessions among which those of the project are looked for
MOST_EARLIER = 3
MOST_SAID_EARLIER = 6  # messages of each that its summary does not have yet
MOST_IN_TAIL = 200  # messages; a tail has 40 and those of one call
ACTIVITY_SPAN = timedelta(days=1)
_OF_SESSION = frozenset({SectionName.SUMMARY, SectionName.WINDOW})
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetched:
    """The items that a section may show, best first; or why it has none."""

    items: Sequence[ContextItem] = ()
    missing: str | None = None
    milliseconds: float = 0.0
    source: str = "database"


@dataclass(frozen=True, slots=True, kw_only=True)
class Base:
    """All sections that are read by key."""

    sections: Mapping[SectionName, Fetched] = field(default_factory=dict)
    hint: str | None = None
    epoch: int = 0
    tail_moves: int = 0
    """How often the tail of the session moved without a compression."""


class BaseReader:
    """The reads for one context: the first batch, then what depends on it, then the sections."""

    def __init__(
        self,
        resources: Resources,
        identity: Identity,
        plan: Plan,
        project: str | None,
        as_of: datetime | None,
        known_at: datetime | None,
    ) -> None:
        self.resources = resources
        self.identity = identity
        self.plan = plan
        self.project = project
        self.as_of = as_of
        self.known_at = known_at
        self.now = as_of or known_at or resources.clock()
        self.started = time.perf_counter()
        self.sections: dict[SectionName, Fetched] = {}
        self.unsent: list[BatchedQuery[Any]] = []
        self.agent: BatchedQuery[Agent | None] | None = None
        self.newest: BatchedQuery[SessionWithModel | None] | None = None
        self.entries: BatchedQuery[list[MapEntry]] | None = None
        self.delegated: BatchedQuery[list[StateEntry]] | None = None
        self.activity: BatchedQuery[list[Item]] | None = None
        self.shared: BatchedQuery[list[Item]] | None = None
        self.profiles: list[tuple[ProfileOwner, BatchedQuery[tuple[ProfileRow | None, bool]]]] = []
        self.answers: BatchedQuery[list[ShownAnswer]] | None = None
        self.earlier: BatchedQuery[list[Session]] | None = None
        self.said_earlier: list[tuple[Session, BatchedQuery[list[Message]]]] = []
        self.current: SessionWithModel | None = None
        self.predecessor: BatchedQuery[Session | None] | None = None
        self.notes: BatchedQuery[list[SessionNote]] | None = None
        self.tail: BatchedQuery[list[Record]] | None = None
        self.messages: BatchedQuery[list[Record]] | None = None
        """Of a session that is not over; None for one that is."""
        self.unsummarised: BatchedQuery[list[Message]] | None = None
        self.epoch_began: BatchedQuery[datetime | None] | None = None

    def _ask(self, query: BatchedQuery[T]) -> BatchedQuery[T]:
        self.unsent.append(query)
        return query

    async def send(self) -> None:
        if self.unsent:
            await self.resources.database.read_batch(self.identity, self.unsent)
            self.unsent = []

    def ask_first(self) -> None:
        identity, shares = self.identity, self.plan.shares
        if identity.agent_id is not None and {SectionName.CORE, SectionName.CHARACTERISTICS} & shares.keys():
            self.agent = self._ask(tenants_storage.ask_agent(identity.agent_id))
        if identity.session_id is not None and _OF_SESSION & shares.keys():
            line = identity.owned_by, identity.session_id
            self.newest = self._ask(sessions_storage.ask_newest(*line))
            of_epoch = self.plan.profile.cache_stable
            most = MOST_IN_TAIL if of_epoch else TAIL
            self.tail = self._ask(sessions_storage.ask_tail(*line, of_epoch=of_epoch, limit=most))
            if SectionName.SUMMARY in shares:
                self.notes = self._ask(sessions_storage.ask_newest_notes(*line))
        if SectionName.EARLIER in shares and identity.user_id is not None:
            self.earlier = self._ask(sessions_storage.ask_earlier(identity.owned_by, limit=EARLIER_READ))
        if SectionName.KNOWLEDGE_MAP in shares:
            self.entries = self._ask(knowledge_storage.ask_entries())
        if SectionName.DELEGATED in shares:
            assert identity.run_id is not None
            owner = StateOwner(kind=OwnerKind.RUN, owner_id=identity.run_id, owned_by=identity.owned_by)
            self.delegated = self._ask(run_storage.ask_entries(owner, prefix=DELEGATED_PREFIX, now=self.now))
        if SectionName.DAILY_LOG in shares:
            self.activity = self._ask_activity()
        if SectionName.SHARED in shares and not self._waits_for_epoch:
            self.shared = self._ask_shared(END)
        if SectionName.ANSWERS in shares and identity.user_id is not None:
            self.answers = self._ask(ask_answers(identity.user_id, identity.agent_id))
        if SectionName.PROFILE in shares:
            owners = [ProfileOwner(user_id=identity.user_id)] if identity.user_id is not None else []
            owners += [ProfileOwner(agent_id=identity.agent_id)] if identity.agent_id is not None else []
            self.profiles = [(owner, self._ask(storage.ask_profile(owner))) for owner in owners]

    async def base(self) -> Base:
        """Everything, after the first batch was sent."""
        self.ask_second()
        await self.send()
        return await self._sections()

    def ask_second(self) -> None:
        """Ask for all that depends on the session, if the identity may see it, and for what earlier ones said."""
        if self.earlier is not None:
            line = self.newest.answer.session.root_id if self.newest is not None and self.newest.answer else None
            for session in earlier_sessions(self.earlier.answer, project=self.project, line=line, most=MOST_EARLIER):
                said = sessions_storage.ask_unsummarised(session.owned_by, session.session_id, limit=MOST_SAID_EARLIER)
                self.said_earlier.append((session, self._ask(said)))
        current = self.newest.answer if self.newest is not None else None
        if current is None:
            return
        session = current.session
        if not may_see(self.identity, user_id=session.user_id, agent_id=session.agent_id):
            return
        self.current = current
        if SectionName.SUMMARY in self.plan.shares:
            if session.continues:
                self.predecessor = self._ask(sessions_storage.ask_session(session.owned_by, session.continues))
            if not session.has_notes(self.now):
                self.notes = None
        is_over = session.status is SessionStatus.CLOSED or session.is_idle(self.now)
        if SectionName.SUMMARY in self.plan.shares and (is_over or session.continues):
            unsummarised = session.session_id if is_over else session.continues
            assert unsummarised is not None
            self.unsummarised = self._ask(
                sessions_storage.ask_unsummarised(session.owned_by, unsummarised, limit=MOST_UNSUMMARISED)
            )
        if not is_over:
            self.messages = self.tail
            if session.epoch > 0 and not self.plan.profile.cache_stable:
                first = session.epoch_from or 1
                self.messages = self._ask(
                    sessions_storage.ask_newest_messages(session, first=first, limit=MOST_IN_TAIL)
                )
            if self._waits_for_epoch:
                began = max(session.epoch_to or 1, session.epoch_from or 1)
                self.epoch_began = self._ask(storage.ask_written_at(session, began))

    async def _sections(self) -> Base:
        """All answers, as sections."""
        if self.agent is not None:
            self._add_definition(self.agent.answer)
        window = self._add_session()
        if self._waits_for_epoch and SectionName.SHARED in self.plan.shares:
            began = self.epoch_began.answer if self.epoch_began is not None else None
            self.shared = self._ask_shared(began or END)
            await self.send()
        self._add(SectionName.EARLIER, _earlier_items(self.said_earlier))
        if self.entries is not None:
            self._add(SectionName.KNOWLEDGE_MAP, [_map_item(self.entries.answer)])
        if self.shared is not None:
            self._add(SectionName.SHARED, [item_of(item) for item in self.shared.answer])
        if self.delegated is not None:
            self._add(SectionName.DELEGATED, self._delegated_items(self.delegated.answer))
        if self.activity is not None:
            self._add(SectionName.DAILY_LOG, [item_of(item) for item in self.activity.answer])
        if SectionName.PROFILE in self.plan.shares:
            self._add(SectionName.PROFILE, await self._profile_items())
        if SectionName.ANSWERS in self.plan.shares:
            asked = self.answers.answer if self.answers is not None else []
            found = await answers_for_context(self.resources, self.identity, asked) if asked else []
            self._add(SectionName.ANSWERS, [_answer_item(answer) for answer in found])
        return Base(
            sections=self.sections,
            hint=HINT if window is not None and window.state.compressed else None,
            epoch=window.state.epoch if window is not None else 0,
            tail_moves=self.current.session.tail_moves if self.current is not None and window is not None else 0,
        )

    def _add(self, name: SectionName, items: Sequence[ContextItem], missing: str | None = None) -> None:
        if name in self.plan.shares:
            spent = (time.perf_counter() - self.started) * 1000
            missing = missing or (None if items else "there is none")
            self.sections[name] = Fetched(items=items, missing=missing, milliseconds=spent)

    @property
    def _waits_for_epoch(self) -> bool:
        """Whether new shared items wait for the next epoch, to keep the beginning of the prompt; retired ones go."""
        return not self._is_past and self.plan.profile.cache_stable

    @property
    def _is_past(self) -> bool:
        return self.as_of is not None or self.known_at is not None

    def _add_definition(self, agent: Agent | None) -> None:
        missing = None if agent is not None else "the agent has no definition"
        for name in (SectionName.CORE, SectionName.CHARACTERISTICS):
            text = getattr(agent, name) if agent is not None else ""
            source = f"agent:{self.identity.agent_id}"
            item = ContextItem(text, "agent_definition", Trust.AGENT, source)
            self._add(name, [item] if text.strip() else [], missing)

    def _add_session(self) -> Window | None:
        """Add the summary and the window of the session."""
        if self.newest is None:
            return None
        if self.current is None:
            for name in _OF_SESSION:
                self._add(name, [], "there is no such session")
            return None
        session = self.current.session
        predecessor = self.predecessor.answer if self.predecessor is not None else None
        notes = self.notes.answer if self.notes is not None else []
        since = self.unsummarised.answer if self.unsummarised is not None else []
        said_in = (
            predecessor.session_id if predecessor is not None and self.messages is not None else session.session_id
        )
        # Numbered like the other items of the section, and not by position.
        items = [replace(_message_item(message, said_in), message=None) for message in reversed(since)]
        self._add(SectionName.SUMMARY, [*_summary_items(session, predecessor, notes), *items])
        if self.messages is None:  # the next message opens a successor with an empty window
            self._add(SectionName.WINDOW, [], "the session is over; its summary is carried over")
            return None
        messages = sessions_storage.messages_of(session, self.messages.answer)
        window = window_of(session, messages, limit=limit_of(self.resources, self.current))
        shown = messages if self.plan.profile.cache_stable else window.active
        self._add(SectionName.WINDOW, [_message_item(message, session.session_id) for message in reversed(shown)])
        return window

    def _ask_shared(self, before: datetime) -> BatchedQuery[list[Item]]:
        if self._is_past:
            as_of, known_at = self.as_of or END, self.known_at or END
            return self._ask(storage.ask_shared_then(as_of=as_of, known_at=known_at, limit=SHARED_READ))
        return self._ask(storage.ask_shared(before=before, limit=SHARED_READ))

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
        known_at = self.known_at or END
        return self._ask(
            storage.ask_activity(self.identity, since=since, until=until, known_at=known_at, limit=ACTIVITY_READ)
        )

    async def _profile_items(self) -> list[ContextItem]:
        """The profiles that are not empty, rebuilt first if they are out of date: of the user, then of the agent."""
        items = []
        for owner, asked in self.profiles:
            kind, name = ("user", owner.user_id) if owner.user_id is not None else ("agent", owner.agent_id)
            row, is_due = asked.answer
            if is_due or (row is not None and row.is_stale):
                profile = await read_profile(self.resources, self.identity, **{kind: name})
            else:
                profile = row.profile if row is not None else NOTHING_KNOWN
            item = ContextItem(profile.content, "profile", Trust.AGENT, f"profile:{kind}:{name}")
            if profile.content.strip():
                items.append(replace(item, who=name, when=profile.made_at))
        return items


def _answer_item(answer: ShownAnswer) -> ContextItem:
    """The question, and the sentences that answer it, one in each line."""
    content = f"{answer.question}\n{answer.content}"
    return ContextItem(content, "standing_answer", Trust.AGENT, f"question:{answer.name}", when=answer.made_at)


def _map_item(entries: Sequence[MapEntry]) -> ContextItem:
    """The list of knowledge that a tool can look up (C3)."""
    return ContextItem(written_map(entries), "knowledge_map", Trust.DOCUMENT, "knowledge_map")


def _summary_items(session: Session, predecessor: Session | None, notes: Sequence[SessionNote]) -> list[ContextItem]:
    summarised = [session] if predecessor is None else [session, predecessor]
    items = [
        ContextItem(
            content=each.summary,
            kind="session_summary",
            trust=each.summary_trust,
            source_ref=f"summary:{each.session_id}",
            session_id=each.session_id,
            item_id=each.summary_id if each is session else None,
        )
        for each in summarised
        if each.summary.strip()
    ]
    told = normalised(" ".join(each.summary for each in summarised))
    return items + [
        ContextItem(
            content=note.content,
            kind=str(note.kind),
            trust=Trust.TOOL if note.kind is NoteKind.TOOL_RESULT else Trust.AGENT,
            source_ref=f"note:{note.note_id}",
            when=note.created_at,
            session_id=session.session_id,
        )
        for note in sorted(notes, key=lambda note: -note.importance)
        if normalised(note.content) not in told
    ]


def _earlier_items(sessions: Sequence[tuple[Session, BatchedQuery[list[Message]]]]) -> list[ContextItem]:
    """The newest session first; of each its summary, then what the summary does not have yet, newest first."""
    items = []
    for session, said in sessions:
        items += _summary_items(session, None, ())
        items += [
            replace(_message_item(message, session.session_id), message=None) for message in reversed(said.answer)
        ]
    return items


def _message_item(message: Message, session_id: SessionId) -> ContextItem:
    return ContextItem(
        content=message.content,
        kind=str(message.kind),
        trust=message.trust,
        source_ref=message.message_id or str(message.item_id),
        item_id=message.item_id,
        when=message.event_time,
        who=message.said_by,
        session_id=session_id,
        payload_key=message.payload_key,
        message=message,
    )


def item_of(item: Item | RecalledItem) -> ContextItem:
    if isinstance(item, RecalledItem):
        kind, item_id, score = item.source_kind, item.id, item.score
        content = item.content if item.passage is None else item.passage.content
    else:
        kind, item_id, score, content = item.kind, item.item_id, None, item.content
    return ContextItem(
        content=content,
        kind=str(kind),
        trust=str(item.trust),
        source_ref=item.source_ref,
        item_id=item_id,
        when=item.event_time,
        who=item.speaker,
        scope=str(item.scope),
        session_id=item.session_id,
        payload_key=item.payload_key,
        score=score,
    )
