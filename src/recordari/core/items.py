"""Items, and the one table of their kinds."""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass, field, fields, replace
from datetime import datetime
from enum import StrEnum
from functools import cache
from typing import Any, get_type_hints
from uuid import UUID

from recordari.core.checks import (
    TypeCheck,
    check_label,
    check_moment,
    check_times,
    check_type,
    checked_content,
    json_text,
    type_checks,
)
from recordari.core.described import DESCRIBED
from recordari.core.frozen import quickly_made
from recordari.core.identity import (
    AgentId,
    Identity,
    Owner,
    RunId,
    Scope,
    SessionId,
    UserId,
    checked_choice,
    checked_id,
    optional_choice,
    owned_by,
    require_owner,
)
from recordari.errors import InvalidInput

MAX_CONTENT_BYTES = 16 * 1024  # R5: an item carries a copy of at most 16 KiB
PREVIEW_BYTES = 2 * 1024
MAX_SOURCE_REF = 500  # it is in an index, whose entries are bounded
MAX_LABEL = 1_000
LABELS = ("speaker", "subject", "predicate", "object", "category")  # short texts beside the content
REDACTED = "[REDACTED]"
CORROBORATION = 2  # F6: sessions in which a fact is said before it lasts
COMPARED_FROM = 100  # seed 003 D4: a shorter text is no copy of a protected one; a contract, not a setting
EXTRACT_TOPIC, JUDGE_TOPIC = "extract", "judge"
PROJECT = "project"  # in the metadata of items and sessions: the piece of work that they belong to
EDITED_FROM = "edited_from"  # in the metadata of a version that a person wrote: the version it corrects


class Kind(StrEnum):
    """What an item is."""

    CHAT_MESSAGE = "chat_message"
    TOOL_OUTPUT = "tool_output"
    SESSION_SUMMARY = "session_summary"
    EPISODE = "episode"
    FACT = "fact"
    PROCEDURE = "procedure"
    ENTRY = "entry"
    DOCUMENT_CHUNK = "document_chunk"


class Tier(StrEnum):
    """What ends an item."""

    RUN = "run"
    SESSION = "session"
    RECENT = "recent"
    PERSISTENT = "persistent"


class Trust(StrEnum):
    """The carrier of a text, the most trusted first; text of an untrusted carrier is never promoted without review."""

    USER = "user"
    AGENT = "agent"
    TOOL = "tool"
    DOCUMENT = "document"
    EXTERNAL = "external"


REVIEWED_TRUST = frozenset({Trust.USER, Trust.AGENT})
"""Carriers whose text may last without a person's review; a tool's, a document's or a stranger's may not."""
_MISTRUST = {trust: index for index, trust in enumerate(Trust)}


def least_trusted(trusts: Iterable[Trust]) -> Trust:
    """The trust of a text that was made from others: that of the least trusted of them."""
    return max(trusts, key=_MISTRUST.__getitem__)


class Typology(StrEnum):
    """What sort of knowledge a kind is; derived, never stored."""

    EPISODIC = "episodic"
    SEMANTIC = "semantic"
    PROCEDURAL = "procedural"
    REFERENCE = "reference"


@dataclass(frozen=True, slots=True, kw_only=True)
class KindRule:
    """Everything that differs from kind to kind."""

    typology: Typology
    default_scope: Scope
    scopes: frozenset[Scope]
    default_tier: Tier
    tiers: frozenset[Tier]
    default_trust: Trust
    replaces: bool = False
    """Whether the same `source_ref` with another text replaces the row (else it is refused as a conflict)."""
    importance: float = 0.0
    """The kind's part of an item's importance; entries have none, because they never decay."""
    next_topic: str | None = None
    """The topic of the work that follows the embedding of an item."""
    is_threaded: bool = False
    """Whether items have a position in the thread of their session: messages, tool outputs, episodes."""
    is_editable: bool = False
    """Whether a person may correct, end and restore it."""
    is_shareable: bool = False
    """Whether other tenants of the organisation may receive it; a conversation never leaves the tenant."""
    in_context: bool = True
    """Whether a context recalls it by itself; agents look up documents on their own."""
    verb: str | None = None
    """The verb that writes items of this kind, where `remember` cannot: an entry is a document with a namespace and a key."""
    learnt_from: frozenset[Trust] = frozenset()
    """The carriers whose text may become persistent: a person's wishes, an agent's account of its actions."""


_ALL_SCOPES = frozenset(Scope)
_LASTING = frozenset({Scope.USER, Scope.AGENT, Scope.TENANT})

KINDS: dict[Kind, KindRule] = {
    Kind.CHAT_MESSAGE: KindRule(
        typology=Typology.EPISODIC,
        default_scope=Scope.SESSION,
        scopes=_ALL_SCOPES - {Scope.TENANT},
        default_tier=Tier.RECENT,
        tiers=frozenset({Tier.RUN, Tier.SESSION, Tier.RECENT}),
        default_trust=Trust.USER,
        importance=0.20,
        next_topic=EXTRACT_TOPIC,
        is_threaded=True,
        learnt_from=frozenset({Trust.USER}),
    ),
    Kind.TOOL_OUTPUT: KindRule(
        typology=Typology.EPISODIC,
        default_scope=Scope.SESSION,
        scopes=_ALL_SCOPES - {Scope.TENANT},
        default_tier=Tier.RECENT,
        tiers=frozenset({Tier.RUN, Tier.SESSION, Tier.RECENT}),
        default_trust=Trust.TOOL,
        importance=0.10,
        is_threaded=True,
    ),
    Kind.SESSION_SUMMARY: KindRule(
        typology=Typology.EPISODIC,
        default_scope=Scope.SESSION,
        scopes=_ALL_SCOPES - {Scope.TENANT},
        default_tier=Tier.SESSION,
        tiers=frozenset({Tier.SESSION, Tier.RECENT, Tier.PERSISTENT}),
        default_trust=Trust.AGENT,
        replaces=True,
        importance=0.40,
    ),
    Kind.EPISODE: KindRule(
        typology=Typology.EPISODIC,
        default_scope=Scope.USER,  # what an agent did for a user is that user's
        scopes=_ALL_SCOPES - {Scope.TENANT},
        default_tier=Tier.RECENT,
        tiers=frozenset({Tier.RUN, Tier.SESSION, Tier.RECENT}),
        default_trust=Trust.AGENT,
        importance=0.20,
        is_threaded=True,
        learnt_from=frozenset({Trust.USER, Trust.AGENT}),
    ),
    Kind.FACT: KindRule(
        typology=Typology.SEMANTIC,
        default_scope=Scope.USER,
        scopes=_LASTING,
        default_tier=Tier.PERSISTENT,
        tiers=frozenset({Tier.SESSION, Tier.RECENT, Tier.PERSISTENT}),
        default_trust=Trust.AGENT,
        importance=0.50,
        next_topic=JUDGE_TOPIC,
        is_editable=True,
        is_shareable=True,
    ),
    Kind.PROCEDURE: KindRule(
        typology=Typology.PROCEDURAL,
        default_scope=Scope.USER,  # what was learnt of a user is that user's
        scopes=_LASTING,
        default_tier=Tier.PERSISTENT,
        tiers=frozenset({Tier.SESSION, Tier.PERSISTENT}),
        default_trust=Trust.AGENT,
        importance=0.50,
        next_topic=JUDGE_TOPIC,
        is_editable=True,
        is_shareable=True,
    ),
    Kind.ENTRY: KindRule(
        typology=Typology.SEMANTIC,
        default_scope=Scope.USER,
        scopes=_LASTING,
        default_tier=Tier.PERSISTENT,
        tiers=frozenset({Tier.PERSISTENT}),
        default_trust=Trust.AGENT,
        replaces=True,
        verb="put_entry",
    ),
    Kind.DOCUMENT_CHUNK: KindRule(
        typology=Typology.REFERENCE,
        default_scope=Scope.TENANT,
        scopes=_ALL_SCOPES,
        default_tier=Tier.PERSISTENT,
        tiers=frozenset({Tier.PERSISTENT}),
        default_trust=Trust.DOCUMENT,
        replaces=True,
        importance=0.30,
        is_shareable=True,
        in_context=False,
    ),
}


def layer(kind: Kind, tier: Tier) -> str:
    """The layer of an item: L1 working, L2 recent, L3 persistent, L4 reference."""
    if kind is Kind.DOCUMENT_CHUNK:
        return "L4"
    return {Tier.RUN: "L1", Tier.SESSION: "L1", Tier.RECENT: "L2", Tier.PERSISTENT: "L3"}[tier]


@quickly_made
@dataclass(frozen=True, slots=True, kw_only=True)
class NewItem:
    """An item to remember; a field that is None is filled in from the kind and the identity."""

    content: str
    kind: Kind = Kind.CHAT_MESSAGE
    scope: Scope | None = None
    tier: Tier | None = None
    source_ref: str | None = None
    speaker: str | None = None
    event_time: datetime | None = None
    session_id: str | None = None
    trust: Trust | None = None
    subject: str | None = None
    predicate: str | None = None
    object: str | None = None
    confidence: float | None = None
    category: str | None = None
    metadata: dict[str, Any] = field(default_factory=dict)


@quickly_made
@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One remembered thing."""

    __pydantic_config__ = DESCRIBED

    item_id: UUID
    kind: Kind
    scope: Scope
    tier: Tier
    user_id: UserId | None
    agent_id: AgentId | None
    session_id: SessionId | None
    run_id: RunId | None
    source_ref: str
    content: str
    speaker: str | None
    trust: Trust
    """Who carried the text here."""
    event_time: datetime
    """When it happened."""
    created_at: datetime
    valid_at: datetime
    invalid_at: datetime | None
    superseded_by: UUID | None
    subject: str | None
    predicate: str | None
    object: str | None
    confidence: float | None
    category: str | None
    payload_key: str | None
    """Not null: `content` is a preview; `read_tool_output` gives all of it under this key."""
    metadata: dict[str, Any]
    shared_from: str | None = None
    """The tenant that shares it; null: your own."""
    retired_at: datetime | None = None
    """When its end was recorded; `invalid_at` says when it ended."""
    archived_at: datetime | None = None
    """Not null: it has faded; recall finds it, and no context shows it unasked."""


@quickly_made
@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """An item ready to be written: every rule applied, nothing left to decide."""

    kind: Kind
    scope: Scope
    tier: Tier
    user_id: UserId | None
    agent_id: AgentId | None
    session_id: SessionId | None
    run_id: RunId | None
    source_ref: str
    content: str
    content_hash: bytes
    speaker: str | None
    trust: Trust
    event_time: datetime
    valid_at: datetime
    subject: str | None
    predicate: str | None
    object: str | None
    confidence: float | None
    category: str | None
    payload: bytes | None
    payload_type: str | None = None
    payload_key: str | None
    metadata: dict[str, Any]

    @property
    def owned_by(self) -> Owner:
        """The owner of its reference."""
        return item_owner(self.kind, self.scope, self.user_id, self.agent_id)


READ_COLUMNS = tuple(column.name for column in fields(Item))
"""The columns of an item that queries return; SQL files write `{item_columns}`."""

_OF_PAYLOADS = {"payload", "payload_type"}
_OTHER_TYPES = {
    "content_hash": "bytea",
    "event_time": "timestamptz",
    "valid_at": "timestamptz",
    "confidence": "real",
    "metadata": "jsonb",
}
WRITTEN_COLUMNS = (
    {"item_id": "uuid"}
    | {each.name: _OTHER_TYPES.get(each.name, "text") for each in fields(Prepared) if each.name not in _OF_PAYLOADS}
    | {"source_id": "uuid", "thread": "text", "masked": "jsonb"}
    | {"tsv": "tsvector", "terms": "bytea", "tokens": "bytea", "traits": "smallint"}
)
"""The columns of a new item and their types; SQL files write `{written_columns}`, `{written_values}`, `{written_arrays}`."""


def prepared(new: NewItem, identity: Identity, *, now: datetime, is_admin: bool) -> Prepared:
    """Apply the kind's rules to a new item, or raise the error in it."""
    new = _checked(new)
    rule = KINDS[new.kind]
    scope = new.scope or _default_scope(rule, identity)
    tier = new.tier or rule.default_tier
    _check_combination(new.kind, rule, scope, tier)
    if scope is Scope.TENANT and not is_admin:
        raise InvalidInput("only an administrator writes for the whole tenant; use scope user or agent", field="scope")
    session_id = SessionId(new.session_id) if new.session_id else identity.session_id
    require_owner(scope, identity, session_id)
    content = checked_content(new.content)
    event_time = new.event_time or now
    check_times(event_time=event_time)
    check_moment("event_time", event_time)
    if new.confidence is not None and not 0 <= new.confidence <= 1:
        raise InvalidInput("confidence must lie between 0 and 1", field="confidence")
    # Cross-session by definition: a lasting fact does not belong to the session it was said in.
    lasting = new.kind is Kind.FACT and tier is Tier.PERSISTENT
    user_id = identity.user_id if scope is not Scope.TENANT else None
    source_ref = new.source_ref or derived_ref(new, scope, identity, content, event_time)
    owner = item_owner(new.kind, scope, user_id, identity.agent_id)
    copy, payload = elided(content)
    return Prepared(
        kind=new.kind,
        scope=scope,
        tier=tier,
        user_id=user_id,
        agent_id=identity.agent_id,
        session_id=None if lasting else session_id,
        run_id=identity.run_id,
        source_ref=source_ref,
        content=copy,
        content_hash=_content_hash(new.kind, content),
        speaker=new.speaker,
        trust=new.trust or rule.default_trust,
        event_time=event_time,
        valid_at=event_time,
        subject=new.subject,
        predicate=new.predicate,
        object=new.object,
        confidence=new.confidence,
        category=new.category,
        payload=None if payload is None else payload.encode(),
        payload_key=payload_key(owner, new.kind, source_ref) if payload is not None else None,
        metadata=new.metadata,
    )


def _checked(new: NewItem) -> NewItem:
    """The same with valid texts, and names replaced by members of their enums: a program may pass anything."""
    for name, check in _type_checks().items():
        check_type(name, getattr(new, name), check)
    for name in ("source_ref", *LABELS):
        text = getattr(new, name)
        if text is not None:
            check_label(name, text, MAX_SOURCE_REF if name == "source_ref" else MAX_LABEL)
    if new.metadata or type(new.metadata) is not dict:
        json_text(new.metadata, field="metadata")
    return replace(
        new,
        kind=checked_choice("kind", Kind, new.kind),
        scope=optional_choice("scope", Scope, new.scope),
        tier=optional_choice("tier", Tier, new.tier),
        trust=optional_choice("trust", Trust, new.trust),
        session_id=checked_id("session_id", new.session_id) if new.session_id is not None else None,
    )


@cache
def _type_checks() -> dict[str, TypeCheck]:
    return type_checks(get_type_hints(NewItem))


def _content_hash(kind: Kind, content: str) -> bytes:
    """A hash that shows whether a key still has the same text; spelling makes no difference for a fact."""
    return hashlib.sha256((normalised(content) if kind is Kind.FACT else content).encode()).digest()


def _default_scope(rule: KindRule, identity: Identity) -> Scope:
    if rule.default_scope is Scope.USER and identity.user_id is None and identity.agent_id is not None:
        return Scope.AGENT
    return rule.default_scope


def _check_combination(kind: Kind, rule: KindRule, scope: Scope, tier: Tier) -> None:
    allowed: frozenset[str]
    for noun, value, allowed in (("scope", scope, rule.scopes), ("tier", tier, rule.tiers)):
        if value not in allowed:
            choices = ", ".join(sorted(allowed))
            raise InvalidInput(f"items of kind {kind} cannot have the {noun} {value}; use one of {choices}", field=noun)


def elided(content: str) -> tuple[str, str | None]:
    """The content of an item, and the whole body if the content is only a preview of it."""
    if len(content.encode()) <= MAX_CONTENT_BYTES:
        return content, None
    head = content.encode()[: PREVIEW_BYTES * 3 // 4].decode(errors="ignore")
    tail = content.encode()[-(PREVIEW_BYTES // 4) :].decode(errors="ignore")
    left_out = len(content) - len(head) - len(tail)
    return f"{head}\n… [{left_out} characters left out] …\n{tail}", content


def item_owner(kind: Kind, scope: Scope, user_id: str | None, agent_id: str | None) -> Owner:
    """The owner of an item's reference, like `items.owned_by`: what many users teach an agent is the agent's own."""
    if scope is Scope.TENANT:
        return owned_by(None, None)
    if scope is Scope.AGENT and kind in {Kind.FACT, Kind.PROCEDURE, Kind.ENTRY}:
        return owned_by(None, agent_id)
    return owned_by(user_id, agent_id)


def payload_key(owner: Owner, kind: Kind, source_ref: str) -> str:
    return "tout_" + hashlib.sha256(f"{owner}\x1f{kind}\x1f{source_ref}".encode()).hexdigest()[:32]


def derived_ref(new: NewItem, scope: Scope, identity: Identity, content: str, event_time: datetime) -> str:
    """A reference made from the content, so that the same content again finds the same row.

    A fact is the same when the same owner states the same normalised text (F2). Other items are the same only in the
    same session at the same moment: people repeat themselves.
    """
    digest = hashlib.sha256(normalised(content).encode()).hexdigest()[:16]
    if new.kind is Kind.FACT:
        ids = {Scope.USER: identity.user_id, Scope.AGENT: identity.agent_id}
        return f"fact:{scope}:{ids.get(scope) or identity.tenant_id}:{digest}"
    session_id = new.session_id or identity.session_id
    # An agent hears the same from many users: an item of a user has both in its reference.
    user_id = identity.user_id if scope is Scope.USER or identity.agent_id is None else None
    owner = session_id or ":".join(filter(None, (identity.agent_id, user_id)))
    return f"{new.kind}:{owner}:{event_time.isoformat()}:{digest}"


_SPACE = re.compile(r"\s+")


def normalised(text: str) -> str:
    """The text without differences of Unicode form, white space, letter case and final full stop."""
    if text.isascii():
        return " ".join(text.split()).rstrip(".").casefold()
    return _SPACE.sub(" ", unicodedata.normalize("NFKC", text)).strip().rstrip(".").casefold()
