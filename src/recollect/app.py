"""The verbs of Recollect bound to who asks: one delegating line each."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any, Self
from uuid import UUID

from recollect.config import Settings
from recollect.domain.audit import AuditEntry
from recollect.domain.bandit import Posterior
from recollect.domain.context import Iteration, Rendering
from recollect.domain.databases import ConnectedDatabase, DataAnswer
from recollect.domain.documents import Document
from recollect.domain.entries import Entry, FoundEntry
from recollect.domain.events import Event, EventType, Webhook
from recollect.domain.evidence import Opinion
from recollect.domain.foreign import ForeignSource, ImportedForeign
from recollect.domain.identity import AskedScope, Identity, Role, Scope, checked_choice, tenant_id_of
from recollect.domain.items import Item, Kind, NewItem
from recollect.domain.jobs import DeadLetter, JobCounts, JobRecord, JobStatus
from recollect.domain.knowledge import Source, SourceKind
from recollect.domain.privacy import PrivacyPolicy
from recollect.domain.procedures import Choice, Outcome, Procedure
from recollect.domain.profiles import Profile
from recollect.domain.proposals import Proposal, ProposalPolicy
from recollect.domain.reports import Report
from recollect.domain.retention import RetentionPolicy
from recollect.domain.runs import (
    NewToolCall,
    Replay,
    Run,
    RunStatus,
    StartedTurn,
    ToolCall,
    Turn,
    TurnState,
    Usage,
)
from recollect.domain.sessions import Note, NoteKind, Session, SessionStatus
from recollect.domain.sharing import Membership, Share, ShareLink
from recollect.domain.state import OwnerKind, StateEntry
from recollect.domain.tenants import Agent, AgentDefinition, ApiKey, Tenant, User
from recollect.domain.window import Message, NewMessage, Window, WindowState
from recollect.service import (
    assemble,
    choose,
    collect,
    connect,
    consolidate,
    copy_agent,
    curate,
    decay,
    documents,
    entries,
    episodes,
    erase,
    export,
    follow,
    foreign,
    forget,
    index,
    jobs,
    knowledge,
    messages,
    profiles,
    propose,
    protect,
    query_data,
    quotas,
    recall,
    remember,
    reports,
    retain,
    runs,
    sanitise,
    sessions,
    share,
    state,
    stats,
    supersede,
    synchronise,
    tenants,
    webhooks,
)
from recollect.service.assemble import Context, ContextRequest
from recollect.service.choose import Rewarded, SavedProcedure
from recollect.service.consolidate import Consolidated
from recollect.service.copy_agent import Copied
from recollect.service.curate import ItemPage, ListRequest, Standing
from recollect.service.decay import Faded
from recollect.service.documents import AddedDocument, DocumentText, NewDocument
from recollect.service.erase import Reapplied
from recollect.service.export import Imported, Lines
from recollect.service.forget import Forgotten
from recollect.service.index import Reembedding
from recollect.service.messages import Added
from recollect.service.propose import Dreamt
from recollect.service.quotas import QuotaStanding
from recollect.service.recall import RecallAnswer, RecallRequest
from recollect.service.remember import News, Remembered, ToolOutput
from recollect.service.resources import Resources
from recollect.service.retain import Sweep
from recollect.service.sessions import Opened, Resumed
from recollect.service.share import Shared
from recollect.service.stats import Stats
from recollect.service.synchronise import Synchronised
from recollect.service.tenants import NewKey
from recollect.service.webhooks import NewWebhook
from recollect.storage.erasures import Erasure
from recollect.storage.holds import Hold
from recollect.storage.protection import ProtectedSource
from recollect.wiring import open_resources
from recollect.worker.runner import background_worker


class Memory:
    """The verbs of Recollect, bound to one identity."""

    def __init__(self, resources: Resources, identity: Identity) -> None:
        self.resources = resources
        self.identity = identity

    @classmethod
    @asynccontextmanager
    async def open(
        cls,
        *,
        tenant: str = "default",
        user: str | None = None,
        agent: str | None = None,
        session: str | None = None,
        settings: Settings | None = None,
        worker: bool = True,
    ) -> AsyncIterator[Self]:
        """Open the memory of a tenant, starting the embedded database if none is configured.

        Background work runs in this event loop unless `worker` or the setting of that name is false.
        """
        async with AsyncExitStack() as stack:
            resources = await stack.enter_async_context(open_resources(settings or Settings()))
            await tenants.ensure_tenant(resources, tenant)
            identity = Identity(tenant_id=tenant_id_of(tenant), role=Role.ADMIN)
            if worker and resources.settings.worker:
                await stack.enter_async_context(background_worker(resources))
            yield cls(resources, identity.narrowed(user_id=user, agent_id=agent, session_id=session))

    def bound(self, identity: Identity) -> Self:
        """The same memory for another identity."""
        return type(self)(self.resources, identity)

    def acting_as(
        self,
        *,
        user: str | None = None,
        agent: str | None = None,
        session: str | None = None,
        run: str | None = None,
    ) -> Self:
        """The same memory with more said about who asks."""
        return self.bound(self.identity.narrowed(user_id=user, agent_id=agent, session_id=session, run_id=run))

    async def remember(
        self,
        content: str,
        *,
        kind: Kind | str = Kind.CHAT_MESSAGE,
        scope: Scope | str | None = None,
        **more: Any,
    ) -> Remembered:
        """Keep one item; `more` are the further fields of `NewItem`, such as `speaker`, `event_time`, `source_ref`."""
        new = NewItem(
            content=content,
            kind=checked_choice("kind", Kind, kind),
            scope=checked_choice("scope", Scope, scope) if scope is not None else None,
            **more,
        )
        return await remember.remember(self.resources, self.identity, new)

    async def remember_many(self, items: Sequence[NewItem]) -> list[Remembered]:
        """Keep up to 1,000 items in the order given, all of them or none."""
        return await remember.remember_many(self.resources, self.identity, items)

    async def remember_fact(
        self,
        content: str,
        *,
        scope: Scope | str = Scope.USER,
        metadata: dict[str, Any] | None = None,
        **more: Any,
    ) -> Remembered:
        """Keep a fact across sessions; stating it again finds the same row."""
        return await remember.remember_fact(
            self.resources,
            self.identity,
            content,
            scope=checked_choice("scope", Scope, scope),
            metadata=metadata or {},
            **more,
        )

    def import_items(
        self, items: News, *, total: int = 0, progress: Callable[[int, int], None] | None = None
    ) -> AsyncIterator[list[Remembered]]:
        """Keep any number of items, batch by batch; started again, it goes on where it stopped."""
        return remember.import_items(self.resources, self.identity, items, total=total, progress=progress)

    async def import_foreign(
        self, source: ForeignSource | str, document: Any, *, progress: Callable[[int, int], None] | None = None
    ) -> ImportedForeign:
        """Keep what `mem0` or `zep` exported, read from JSON; done again, it goes on where it stopped."""
        chosen = checked_choice("source", ForeignSource, source)
        return await foreign.import_foreign(self.resources, self.identity, chosen, document, progress=progress)

    async def recall(
        self,
        query: str,
        *,
        top_k: int = 5,
        source_kinds: Sequence[Kind | str] | None = None,
        scope: Scope | str = "any",
        **more: Any,
    ) -> RecallAnswer:
        """Find what answers the question; `more` are the further fields of `RecallRequest`, such as `as_of`, `explain`."""
        request = RecallRequest(
            query=query,
            top_k=top_k,
            source_kinds=tuple(checked_choice("source_kinds", Kind, kind) for kind in source_kinds)
            if source_kinds
            else None,
            scope=checked_choice("scope", AskedScope, scope).scope,
            **more,
        )
        return await recall.recall(self.resources, self.identity, request)

    async def search_knowledge(
        self, query: str, *, top_k: int = 5, source: str | UUID | None = None, **more: Any
    ) -> RecallAnswer:
        """What the documents say, each with its citation; `source` is a name or id, `more` as of `RecallRequest`."""
        return await documents.search_knowledge(
            self.resources, self.identity, query, top_k=top_k, source=source, **more
        )

    async def add_document(
        self,
        name: str,
        data: bytes | None = None,
        *,
        text: str | None = None,
        progress: Callable[[int, int], None] | None = None,
        **more: Any,
    ) -> AddedDocument:
        """Take a document or its next revision in; `more` are `media_type`, `source` and `metadata`."""
        new = NewDocument(name=name, data=data, text=text, **more)
        return await documents.add_document(self.resources, self.identity, new, progress=progress)

    async def get_document(self, document_id: UUID) -> Document:
        """One document."""
        return await documents.get_document(self.resources, self.identity, document_id)

    async def list_documents(self, **more: Any) -> list[Document]:
        """Documents, oldest first; `more` are `source`, `after` and `limit`."""
        return await documents.list_documents(self.resources, self.identity, **more)

    async def read_document(self, document_id: UUID, *, first: int = 0, limit: int = 50) -> DocumentText:
        """Chunks of a document in order, from one on: all of it, or what stands around a citation."""
        return await documents.read_document(self.resources, self.identity, document_id, first=first, limit=limit)

    async def read_original(self, document_id: UUID) -> tuple[bytes, str]:
        """The file of a document, and its media type."""
        return await documents.read_original(self.resources, self.identity, document_id)

    async def delete_document(self, document_id: UUID) -> None:
        """Remove a document; its chunks leave recall at once."""
        await documents.delete_document(self.resources, self.identity, document_id)

    async def knowledge_map(self) -> str:
        """Which sources can be looked up and which tool reaches each, in about 100 tokens."""
        return await knowledge.map_knowledge(self.resources, self.identity)

    async def profile(self, *, user: str | None = None, agent: str | None = None) -> Profile:
        """What is known of a user or an agent in a few hundred tokens; without either, of who asks."""
        return await profiles.profile(self.resources, self.identity, user=user, agent=agent)

    async def add_source(
        self,
        name: str,
        *,
        kind: SourceKind | str = SourceKind.DOCUMENTS,
        description: str = "",
        tool: str | None = None,
        folder: Path | None = None,
    ) -> Source:
        """Register something that can be looked up; `folder` must lie in one that the settings allow."""
        return await knowledge.add_source(
            self.resources, self.identity, name, kind=kind, description=description, tool=tool, folder=folder
        )

    async def update_source(self, source_id: UUID, **changes: Any) -> Source:
        """Change the `name`, `description` or `tool` of a source."""
        return await knowledge.update_source(self.resources, self.identity, source_id, **changes)

    async def get_source(self, source_id: UUID) -> Source:
        """One source, and how far its last synchronisation came."""
        return await knowledge.get_source(self.resources, self.identity, source_id)

    async def list_sources(self, *, after: str = "", limit: int = 50) -> list[Source]:
        """Sources by name."""
        return await knowledge.list_sources(self.resources, self.identity, after=after, limit=limit)

    async def remove_source(self, source_id: UUID) -> int:
        """Remove a source with its documents; how many there were."""
        return await synchronise.remove_source(self.resources, self.identity, source_id)

    async def start_sync(self, source_id: UUID) -> int | None:
        """Synchronise a source with its folder in the background; the job's id, None when one waits already."""
        return await synchronise.start_sync(self.resources, self.identity, source_id)

    async def sync_source(self, source_id: UUID, *, progress: Callable[[int, int], None] | None = None) -> Synchronised:
        """Bring a source in line with its folder, and return when it is done."""
        return await synchronise.sync_source(self.resources, self.identity, source_id, progress=progress)

    async def query_data(
        self, question: str | None = None, *, sql: str | None = None, database: str | UUID | None = None
    ) -> DataAnswer:
        """Answer a question from a connected database, or run a SELECT there; always read-only."""
        return await query_data.query_data(self.resources, self.identity, question=question, sql=sql, database=database)

    async def add_database(
        self, name: str, dsn: str, *, tables: connect.Tables, description: str = ""
    ) -> ConnectedDatabase:
        """Connect a database for `query_data`: only these tables of it, or only these columns of them."""
        return await connect.add_database(
            self.resources, self.identity, name=name, dsn=dsn, tables=tables, description=description
        )

    async def list_databases(self) -> list[ConnectedDatabase]:
        """The connected databases, by name."""
        return await connect.list_databases(self.resources, self.identity)

    async def get_database(self, database_id: UUID) -> ConnectedDatabase:
        """One connected database; its DSN is never shown."""
        return await connect.get_database(self.resources, self.identity, database_id)

    async def update_database(self, database_id: UUID, **changes: Any) -> ConnectedDatabase:
        """Change `name`, `description`, `tables` or `dsn` of a connected database."""
        return await connect.update_database(self.resources, self.identity, database_id, **changes)

    async def refresh_database(self, database_id: UUID) -> ConnectedDatabase:
        """Look at the tables of a connected database again."""
        return await connect.refresh_database(self.resources, self.identity, database_id)

    async def remove_database(self, database_id: UUID) -> None:
        """Forget a connected database and the way in."""
        await connect.remove_database(self.resources, self.identity, database_id)

    async def get_context(
        self, question: str | None = None, *, render: Rendering | str = Rendering.TEXT, **more: Any
    ) -> Context:
        """What the agent is to see; `more` are the further fields of `ContextRequest`, such as `budget`, `profile`."""
        if "iterate" in more:
            more["iterate"] = checked_choice("iterate", Iteration, more["iterate"])
        request = ContextRequest(question=question, render=checked_choice("render", Rendering, render), **more)
        return await assemble.assemble(self.resources, self.identity, request)

    async def read_tool_output(self, key: str, *, start: int = 0, length: int | None = None) -> ToolOutput:
        """The whole body behind an elided item, or a range of its bytes."""
        return await remember.read_tool_output(self.resources, self.identity, key, start=start, length=length)

    async def get_item(self, item_id: UUID) -> Item:
        """One item."""
        return await remember.get_item(self.resources, self.identity, item_id)

    async def list_items(self, **request: Any) -> ItemPage:
        """Items newest first; `request` are the fields of `ListRequest`, such as `kinds`, `state`, `before`."""
        return await curate.list_items(self.resources, self.identity, ListRequest(**request))

    async def item_history(self, item_id: UUID) -> list[Item]:
        """Every version that an item stands in line with, oldest first."""
        return await supersede.history(self.resources, self.identity, item_id)

    async def item_standing(self, item_id: UUID) -> Standing:
        """What an item rests on, how it fares, and what people think of it."""
        return await curate.standing(self.resources, self.identity, item_id)

    async def edit_item(self, item_id: UUID, content: str, *, reason: str | None = None) -> Remembered:
        """Give a fact or procedure another text, as a new version that supersedes the old one."""
        return await curate.edit_item(self.resources, self.identity, item_id, content, reason=reason)

    async def invalidate_item(self, item_id: UUID, *, reason: str | None = None) -> None:
        """Say that an item is no longer true."""
        await curate.invalidate_item(self.resources, self.identity, item_id, reason=reason)

    async def restore_item(self, item_id: UUID, *, reason: str | None = None) -> None:
        """Undo that an item was invalidated or superseded, unless something newer contradicts it."""
        await curate.restore_item(self.resources, self.identity, item_id, reason=reason)

    async def pin_item(self, item_id: UUID, *, pinned: bool = True) -> None:
        """Keep an item until a person ends it, or no longer."""
        await curate.pin_item(self.resources, self.identity, item_id, pinned=pinned)

    async def give_feedback(self, item_id: UUID, opinion: Opinion | str, *, reason: str | None = None) -> float:
        """Say that an item was useful or wrong; how sure it is now."""
        return await curate.give_feedback(self.resources, self.identity, item_id, opinion, reason=reason)

    async def reembed(
        self, *, model_id: str | None = None, progress: Callable[[int, int], None] | None = None
    ) -> Reembedding:
        """Move to another embedding model while recall goes on."""
        return await index.reembed(self.resources, self.identity, model_id=model_id, progress=progress)

    async def start_reembed(self, *, model_id: str | None = None) -> int | None:
        """Move to another embedding model in the background; the job's id, None when one waits already."""
        index.find_embedder(self.resources, model_id)
        return await self.enqueue_job("reembed", model_id=model_id)

    async def start_reindex(self) -> int | None:
        """Derive everything again in the background; the job's id, None when one waits already."""
        return await self.enqueue_job("reindex")

    async def reindex(self, *, progress: Callable[[int, int], None] | None = None) -> int:
        """Derive index columns, vectors and entities again from the rows."""
        return await index.reindex(self.resources, self.identity, progress=progress)

    async def set_state(
        self,
        key: str,
        value: object,
        *,
        owner: OwnerKind | str = OwnerKind.SESSION,
        owner_id: str | None = None,
        ttl: timedelta | None = None,
        if_version: int | None = None,
    ) -> StateEntry:
        """Keep JSON under a key of this session or run; with `if_version` only if the key is at that one."""
        return await state.set_state(
            self.resources,
            self.identity,
            key,
            value,
            owner=checked_choice("owner", OwnerKind, owner),
            owner_id=owner_id,
            ttl=ttl,
            if_version=if_version,
        )

    async def get_state(
        self, key: str, *, owner: OwnerKind | str = OwnerKind.SESSION, owner_id: str | None = None
    ) -> StateEntry:
        """One key that has not expired."""
        return await state.get_state(
            self.resources, self.identity, key, owner=checked_choice("owner", OwnerKind, owner), owner_id=owner_id
        )

    async def list_state(
        self, *, owner: OwnerKind | str = OwnerKind.SESSION, owner_id: str | None = None, prefix: str = ""
    ) -> list[StateEntry]:
        """Every key of this session or run that begins with `prefix`."""
        return await state.list_state(
            self.resources,
            self.identity,
            owner=checked_choice("owner", OwnerKind, owner),
            owner_id=owner_id,
            prefix=prefix,
        )

    async def delete_state(
        self,
        key: str,
        *,
        owner: OwnerKind | str = OwnerKind.SESSION,
        owner_id: str | None = None,
        if_version: int | None = None,
    ) -> None:
        """Remove one key."""
        await state.delete_state(
            self.resources,
            self.identity,
            key,
            owner=checked_choice("owner", OwnerKind, owner),
            owner_id=owner_id,
            if_version=if_version,
        )

    async def delegate(self, name: str, value: object, *, run_id: str | None = None) -> StateEntry:
        """Hand something to a run; it lives as long as the run does."""
        return await state.delegate(self.resources, self.identity, name, value, run_id=run_id)

    async def delegated(self, *, run_id: str | None = None) -> dict[str, Any]:
        """Everything that was handed to a run, by name."""
        return await state.delegated(self.resources, self.identity, run_id=run_id)

    async def put_entry(
        self,
        namespace: Sequence[str],
        key: str,
        value: Mapping[str, Any],
        *,
        scope: Scope | str | None = None,
        index: Sequence[str] | bool | None = None,
        ttl: timedelta | None = None,
        if_version: int | None = None,
    ) -> Entry:
        """Keep a document under a key of the user or agent, in place of one that was there."""
        chosen = checked_choice("scope", Scope, scope) if scope is not None else None
        return await entries.put_entry(
            self.resources,
            self.identity,
            namespace,
            key,
            value,
            scope=chosen,
            index=index,
            ttl=ttl,
            if_version=if_version,
        )

    async def get_entry(
        self, namespace: Sequence[str], key: str, *, scope: Scope | str | None = None, refresh: bool = True
    ) -> Entry:
        """One document; reading it renews its time unless `refresh` is false."""
        chosen = checked_choice("scope", Scope, scope) if scope is not None else None
        return await entries.get_entry(self.resources, self.identity, namespace, key, scope=chosen, refresh=refresh)

    async def delete_entry(
        self, namespace: Sequence[str], key: str, *, scope: Scope | str | None = None, if_version: int | None = None
    ) -> None:
        """Remove a document, and what recall finds of it."""
        chosen = checked_choice("scope", Scope, scope) if scope is not None else None
        await entries.delete_entry(self.resources, self.identity, namespace, key, scope=chosen, if_version=if_version)

    async def search_entries(
        self, prefix: Sequence[str] = (), *, scope: Scope | str | None = None, **more: Any
    ) -> list[FoundEntry]:
        """Documents below a namespace; `more` are `query`, `filter`, `limit`, `offset` and `refresh`."""
        chosen = checked_choice("scope", Scope, scope) if scope is not None else None
        return await entries.search_entries(self.resources, self.identity, prefix, scope=chosen, **more)

    async def list_namespaces(self, *, scope: Scope | str | None = None, **more: Any) -> list[tuple[str, ...]]:
        """Namespaces that hold something; `more` are `prefix`, `suffix`, `max_depth`, `limit` and `offset`."""
        chosen = checked_choice("scope", Scope, scope) if scope is not None else None
        return await entries.list_namespaces(self.resources, self.identity, scope=chosen, **more)

    async def save_procedure(
        self,
        name: str,
        spec: dict[str, Any],
        *,
        agent_type: str,
        task_type: str,
        prior: Posterior | None = None,
        expected_version: int | None = None,
    ) -> SavedProcedure:
        """Make this spec the active version of a procedure; another one before it is superseded."""
        return await choose.save_procedure(
            self.resources,
            self.identity,
            agent_type=agent_type,
            task_type=task_type,
            name=name,
            spec=spec,
            prior=prior,
            expected_version=expected_version,
        )

    async def choose(self, agent_type: str, task_type: str, *, seed: int | str | None = None) -> Choice:
        """Draw one of the active procedures, each as often as it is likely to be the best."""
        return await choose.choose(self.resources, self.identity, agent_type=agent_type, task_type=task_type, seed=seed)

    async def reward(
        self, target: Choice | Procedure | UUID, score: float, *, outcome_id: str | None = None
    ) -> Rewarded:
        """Say how well a choice or a procedure did, from 0 to 1; the same outcome again changes nothing."""
        match target:
            case Choice():
                target_id = target.choice_id
            case Procedure():
                target_id = target.procedure_id
            case _:
                target_id = target
        return await choose.reward(self.resources, self.identity, target_id, score, outcome_id=outcome_id)

    async def retire_procedure(self, procedure_id: UUID, *, reason: str | None = None) -> Procedure:
        """Never choose this version again."""
        return await choose.retire_procedure(self.resources, self.identity, procedure_id, reason=reason)

    async def get_procedure(self, procedure_id: UUID) -> Procedure:
        """One version, with its posterior."""
        return await choose.get_procedure(self.resources, self.identity, procedure_id)

    async def active_procedures(self, agent_type: str, task_type: str) -> list[Procedure]:
        """What is neither superseded nor retired."""
        return await choose.active_procedures(self.resources, self.identity, agent_type=agent_type, task_type=task_type)

    async def list_procedures(
        self, *, also_ended: bool = False, after: UUID | None = None, limit: int = 50
    ) -> list[Procedure]:
        """Versions of all tasks, oldest first."""
        return await choose.list_procedures(
            self.resources, self.identity, also_ended=also_ended, after=after, limit=limit
        )

    async def procedure_history(self, agent_type: str, task_type: str, name: str) -> list[Procedure]:
        """Every version of a procedure, newest first."""
        return await choose.procedure_history(
            self.resources, self.identity, agent_type=agent_type, task_type=task_type, name=name
        )

    async def list_outcomes(self, procedure_id: UUID, *, before: str | None = None, limit: int = 50) -> list[Outcome]:
        """What came of a procedure, newest first."""
        return await choose.list_outcomes(self.resources, self.identity, procedure_id, before=before, limit=limit)

    async def open_session(
        self,
        session_id: str | None = None,
        *,
        idle_limit: timedelta | None = None,
        metadata: dict[str, Any] | None = None,
    ) -> Opened:
        """Open the session of that id or make it; without an id, make one."""
        return await sessions.open_session(
            self.resources, self.identity, session_id, idle_limit=idle_limit, metadata=metadata
        )

    async def resume_session(self, session_id: str) -> Resumed:
        """Take a session up again from its summary, window and notes."""
        return await sessions.resume_session(self.resources, self.identity, session_id)

    async def close_session(self, session_id: str) -> Session:
        """Close a session; activity under its id goes on in a successor."""
        return await sessions.close_session(self.resources, self.identity, session_id)

    async def consolidate_session(self, session_id: str) -> Consolidated:
        """Let what a closed session taught outlive it, now instead of within the hour."""
        return await consolidate.consolidate_session(self.resources, self.identity, session_id)

    async def get_session(self, session_id: str) -> Session:
        """One session, open or closed."""
        return await sessions.get_session(self.resources, self.identity, session_id)

    async def list_sessions(self, *, status: SessionStatus | str | None = None, **more: Any) -> list[Session]:
        """Sessions, newest first; `more` are `agent_id`, `user_id`, `since`, `until`, `before` and `limit`."""
        chosen = checked_choice("status", SessionStatus, status) if status is not None else None
        return await sessions.list_sessions(self.resources, self.identity, status=chosen, **more)

    async def add_messages(
        self,
        new: Sequence[NewMessage],
        *,
        session_id: str | None = None,
        scope: Scope | str | None = None,
        prompt_tokens: int | None = None,
    ) -> Added:
        """Keep messages of a session in the order given, all of them or none; how full its window is now."""
        return await messages.add_messages(
            self.resources,
            self.identity,
            session_id,
            new,
            scope=checked_choice("scope", Scope, scope) if scope is not None else None,
            prompt_tokens=prompt_tokens,
        )

    async def list_messages(self, session_id: str, **more: Any) -> list[Message]:
        """Messages of a session in order; `more` are `after`, `until` (places) and `limit`."""
        return await messages.list_messages(self.resources, self.identity, session_id, **more)

    async def get_window(self, session_id: str) -> Window:
        """The messages that stand before the agent now, and the tail of them for its prompt."""
        return await messages.get_window(self.resources, self.identity, session_id)

    async def report_usage(self, session_id: str, prompt_tokens: int) -> WindowState:
        """Say how many tokens the last turn's prompt had; past 80 % of the window it is compressed."""
        return await messages.report_usage(self.resources, self.identity, session_id, prompt_tokens)

    async def add_note(
        self, session_id: str, content: str, *, kind: NoteKind | str = NoteKind.NOTE, importance: float = 0.5
    ) -> Note:
        """Note something for the rest of a session."""
        return await sessions.add_note(
            self.resources,
            self.identity,
            session_id,
            content,
            kind=checked_choice("kind", NoteKind, kind),
            importance=importance,
        )

    async def list_notes(self, session_id: str) -> list[Note]:
        """Decisions, action items and other notes of a session."""
        return await sessions.list_notes(self.resources, self.identity, session_id)

    async def start_run(self, **more: Any) -> StartedTurn:
        """Start a run and its first turn; `more` are `run_id`, `session_id`, `input`, `episodes`, `metadata`."""
        return await runs.start_run(self.resources, self.identity, **more)

    async def start_turn(self, run_id: str, **more: Any) -> StartedTurn:
        """Begin the next turn of a run with the agent's last episodes."""
        return await runs.start_turn(self.resources, self.identity, run_id, **more)

    async def end_turn(self, run_id: str, *, usage: Usage | None = None, **more: Any) -> Turn:
        """End the present turn of a run; `more` are `prompt_tokens`, `state` and `error`."""
        return await runs.end_turn(self.resources, self.identity, run_id, usage=usage, **more)

    async def complete_run(self, run_id: str, *, output: Any = None, usage: Usage | None = None) -> Run:
        """End a run well."""
        return await runs.complete_run(self.resources, self.identity, run_id, output=output, usage=usage)

    async def fail_run(self, run_id: str, *, error: str, output: Any = None, usage: Usage | None = None) -> Run:
        """End a run that failed, and say why."""
        return await runs.fail_run(self.resources, self.identity, run_id, error=error, output=output, usage=usage)

    async def get_run(self, run_id: str) -> Run:
        """One run."""
        return await runs.get_run(self.resources, self.identity, run_id)

    async def get_turn_state(self, session_id: str) -> TurnState:
        """Where the agent of a session stands."""
        return await runs.get_turn_state(self.resources, self.identity, session_id)

    async def list_runs(self, *, status: RunStatus | str | None = None, **more: Any) -> list[Run]:
        """Runs, newest first; `more` are `agent_id`, `session_id`, `since`, `until`, `before` and `limit`."""
        chosen = checked_choice("status", RunStatus, status) if status is not None else None
        return await runs.list_runs(self.resources, self.identity, status=chosen, **more)

    async def record_tool_calls(self, run_id: str, calls: Sequence[NewToolCall]) -> list[ToolCall]:
        """Append tool calls to a run in the order given."""
        return await runs.record_tool_calls(self.resources, self.identity, run_id, calls)

    async def replay_run(self, run_id: str, *, results: bool = True) -> Replay:
        """Every turn and tool call of a run in order, exactly as recorded."""
        return await runs.replay(self.resources, self.identity, run_id, results=results)

    async def append_episode(self, content: str, *, scope: Scope | str | None = None, **more: Any) -> Remembered:
        """Keep what the agent did; `more` are `run_id`, `session_id`, `episode_id`, `event_time`, `metadata`."""
        chosen = checked_choice("scope", Scope, scope) if scope is not None else None
        return await episodes.append_episode(self.resources, self.identity, content, scope=chosen, **more)

    async def last_episodes(self, *, limit: int = 10) -> list[Item]:
        """The last episodes of the agent, oldest first."""
        return await episodes.last_episodes(self.resources, self.identity, limit=limit)

    async def make_daily_brief(self) -> Report:
        """Write today's brief of the tenant now instead of at its time."""
        return await reports.make_daily_brief(self.resources, self.identity)

    async def list_reports(self, *, before: date | None = None, limit: int = 50) -> list[Report]:
        """Daily briefs, newest first."""
        return await reports.list_reports(self.resources, self.identity, before=before, limit=limit)

    async def get_report(self, report_id: UUID) -> Report:
        """One report."""
        return await reports.get_report(self.resources, self.identity, report_id)

    async def get_tenant(self) -> Tenant:
        """The tenant itself."""
        return await tenants.get_tenant(self.resources, self.identity)

    async def update_tenant(
        self, *, language: str | None = None, plan: str | None = None, settings: dict[str, Any] | None = None
    ) -> Tenant:
        """Change the tenant's language, plan or settings."""
        return await tenants.update_tenant(
            self.resources, self.identity, language=language, plan=plan, settings=settings
        )

    async def save_user(self, user_id: str, *, display_name: str | None = None, time_zone: str | None = None) -> User:
        """Create or change a user."""
        return await tenants.save_user(
            self.resources, self.identity, user_id, display_name=display_name, time_zone=time_zone
        )

    async def get_user(self, user_id: str) -> User:
        """One user."""
        return await tenants.get_user(self.resources, self.identity, user_id)

    async def list_users(self, *, after: str = "", limit: int = 50) -> list[User]:
        """Users by id."""
        return await tenants.list_users(self.resources, self.identity, after=after, limit=limit)

    async def save_agent(
        self,
        agent_id: str,
        definition: AgentDefinition,
        *,
        expected_version: int | None = None,
        template: str | None = None,
    ) -> Agent:
        """Create or replace an agent's definition; with `template` it starts with what that agent knows."""
        return await copy_agent.save_agent(
            self.resources, self.identity, agent_id, definition, expected_version=expected_version, template=template
        )

    async def copy_memories(self, template: str, agent_id: str) -> Copied:
        """Give an agent what another one knows; done again it copies what is new."""
        return await copy_agent.copy_memories(self.resources, self.identity, template, agent_id)

    async def get_agent(self, agent_id: str) -> Agent:
        """One agent's definition."""
        return await tenants.get_agent(self.resources, self.identity, agent_id)

    async def list_agents(self, *, after: str = "", limit: int = 50) -> list[Agent]:
        """Agents by id."""
        return await tenants.list_agents(self.resources, self.identity, after=after, limit=limit)

    async def delete_agent(self, agent_id: str) -> None:
        """Remove an agent's definition."""
        await tenants.delete_agent(self.resources, self.identity, agent_id)

    async def create_key(
        self,
        name: str,
        *,
        role: Role = Role.AGENT,
        user_id: str | None = None,
        agent_id: str | None = None,
        expires_at: datetime | None = None,
    ) -> NewKey:
        """Make an API key; its text is shown this once."""
        return await tenants.create_key(
            self.resources,
            self.identity,
            name=name,
            role=role,
            user_id=user_id,
            agent_id=agent_id,
            expires_at=expires_at,
        )

    async def list_keys(self) -> list[ApiKey]:
        """The tenant's keys."""
        return await tenants.list_keys(self.resources, self.identity)

    async def revoke_key(self, key_id: UUID) -> ApiKey:
        """Close a key at once."""
        return await tenants.revoke_key(self.resources, self.identity, key_id)

    async def list_audit(
        self,
        *,
        subject_kind: str | None = None,
        subject_id: str | None = None,
        before: UUID | None = None,
        limit: int = 50,
    ) -> list[AuditEntry]:
        """The audit, newest first."""
        return await tenants.list_audit(
            self.resources,
            self.identity,
            subject_kind=subject_kind,
            subject_id=subject_id,
            before=before,
            limit=limit,
        )

    async def enqueue_job(self, job: str, **args: Any) -> int | None:
        """Run a job of the tenant now, in the background; None when it waits already."""
        return await jobs.enqueue(self.resources, self.identity, job, **args)

    async def list_jobs(
        self, *, status: JobStatus | None = None, before: int | None = None, limit: int = 50
    ) -> list[JobRecord]:
        """List the tenant's jobs, newest first."""
        return await jobs.list_jobs(self.resources, self.identity, status=status, before=before, limit=limit)

    async def get_job(self, job_id: int) -> JobRecord:
        """One job of the tenant."""
        return await jobs.get_job(self.resources, self.identity, job_id)

    async def job_counts(self) -> JobCounts:
        """Count the work that waits, runs, is done and was given up."""
        return await jobs.job_counts(self.resources, self.identity)

    async def list_dead_letters(self, *, after: str | None = None, limit: int = 50) -> list[DeadLetter]:
        """List the work that was given up after its last try."""
        return await jobs.list_dead_letters(self.resources, self.identity, after=after, limit=limit)

    async def replay_dead_letter(self, dead_letter_id: str) -> None:
        """Give a dead letter all its tries back."""
        await jobs.replay(self.resources, self.identity, dead_letter_id)

    async def replay_dead_letters(self) -> int:
        """Give every dead letter its tries back."""
        return await jobs.replay_all(self.resources, self.identity)

    async def discard_dead_letter(self, dead_letter_id: str) -> None:
        """Give a dead letter up for good."""
        await jobs.discard(self.resources, self.identity, dead_letter_id)

    async def forget(self, item_id: UUID, *, reason: str | None = None, dry_run: bool = False) -> Forgotten:
        """Redact an item with everything derived from it; it does not come back. A dry run only says what that would be."""
        return await forget.forget(self.resources, self.identity, item_id, reason=reason, dry_run=dry_run)

    async def hold(self, item_id: UUID, action_id: str) -> bool:
        """Note that an action rests on an item, which nothing may remove from then on."""
        return await forget.hold(self.resources, self.identity, item_id, action_id)

    async def release(self, item_id: UUID, action_id: str) -> None:
        """Note that an action rests on an item no longer."""
        await forget.release(self.resources, self.identity, item_id, action_id)

    async def list_holds(self, item_id: UUID) -> list[Hold]:
        """The actions that rest on an item."""
        return await forget.list_holds(self.resources, self.identity, item_id)

    async def erase_user(self, user_id: str) -> Erasure:
        """Erase a user everywhere, and return when it is done."""
        return await erase.erase_user(self.resources, self.identity, user_id)

    async def start_erasing_user(self, user_id: str) -> Erasure:
        """Erase a user everywhere, in the background."""
        return await erase.start_erasing(self.resources, self.identity, user_id)

    async def get_erasure(self, erasure_id: UUID) -> Erasure:
        """How far the erasing of a user has come."""
        return await erase.get_erasure(self.resources, self.identity, erasure_id)

    async def reapply_erasures(self, *, file: Path | None = None) -> Reapplied:
        """Forget again what was forgotten before an older backup was restored."""
        return await erase.reapply(self.resources, self.identity, file=file)

    async def get_retention_policy(self) -> RetentionPolicy:
        """How long the tenant keeps what it has ended."""
        return await retain.get_policy(self.resources, self.identity)

    async def set_retention_policy(self, **changes: Any) -> RetentionPolicy:
        """Change how long the tenant keeps what it has ended, such as `deleted_days=7`."""
        return await retain.set_policy(self.resources, self.identity, changes)

    async def sweep(self, *, dry_run: bool | None = None, force: bool = False) -> Sweep:
        """Carry the retention policy out now; a dry run only says what that would be."""
        return await retain.sweep(self.resources, self.identity, dry_run=dry_run, force=force)

    async def fade(self) -> Faded:
        """Archive recent memory that has faded and promote what matters, now."""
        return await decay.fade(self.resources, self.identity)

    async def collect_objects(self) -> int:
        """Remove objects that nothing points to, now; how many."""
        return await collect.collect_objects(self.resources, self.identity)

    def export(self, *, user_id: str | None = None) -> AsyncIterator[str]:
        """Everything of the tenant or of one user, as lines of JSON."""
        return export.export(self.resources, self.identity, user_id=user_id)

    async def import_export(self, lines: Lines) -> Imported:
        """Write what an export holds and this tenant does not."""
        return await export.import_export(self.resources, self.identity, lines)

    async def protect_source(self, source_id: UUID) -> int:
        """Let no fact copy the documents of a source; how many texts came under guard."""
        return await protect.protect_source(self.resources, self.identity, source_id)

    async def unprotect_source(self, source_id: UUID) -> None:
        """Let facts say what they like of a source."""
        await protect.unprotect_source(self.resources, self.identity, source_id)

    async def list_protected_sources(self) -> list[ProtectedSource]:
        """The sources that no fact may copy."""
        return await protect.list_protected(self.resources, self.identity)

    async def quota_standing(self) -> QuotaStanding:
        """How much of its plan the tenant uses."""
        return await quotas.quota_standing(self.resources, self.identity)

    async def get_privacy_policy(self) -> PrivacyPolicy:
        """What the tenant wants done with personal data and secrets."""
        return await sanitise.get_privacy_policy(self.resources, self.identity)

    async def set_privacy_policy(self, setting: Mapping[str, Any]) -> PrivacyPolicy:
        """Replace what the tenant wants done with personal data and secrets."""
        return await sanitise.set_privacy_policy(self.resources, self.identity, setting)

    async def memory_stats(self) -> Stats:
        """What the tenant's memory holds, what waits and what was given up."""
        return await stats.memory_stats(self.resources, self.identity)

    async def list_events(self, **more: Any) -> list[Event]:
        """What changed, oldest first; `more` are `after` (a position), `types` and `limit`."""
        return await follow.list_events(self.resources, self.identity, **more)

    def follow_events(
        self, *, after: int | None = None, types: Sequence[EventType | str] = ()
    ) -> AsyncGenerator[Event | None, None]:
        """What changes from now on, or from a position on, as it happens; None when nothing did for a moment."""
        return follow.follow_events(self.resources, self.identity, after=after, types=types)

    async def create_webhook(self, url: str, *, types: Sequence[EventType | str] = ()) -> NewWebhook:
        """Send what happens from now on to an address; its secret is shown this once."""
        return await webhooks.create_webhook(self.resources, self.identity, url, types=types)

    async def list_webhooks(self) -> list[Webhook]:
        """The tenant's webhooks, and how each fares."""
        return await webhooks.list_webhooks(self.resources, self.identity)

    async def get_webhook(self, webhook_id: UUID) -> Webhook:
        """One webhook."""
        return await webhooks.get_webhook(self.resources, self.identity, webhook_id)

    async def set_webhook_active(self, webhook_id: UUID, *, is_active: bool) -> Webhook:
        """Switch a webhook off, or on again."""
        return await webhooks.set_webhook_active(self.resources, self.identity, webhook_id, is_active=is_active)

    async def delete_webhook(self, webhook_id: UUID) -> None:
        """Tell an address nothing more."""
        await webhooks.delete_webhook(self.resources, self.identity, webhook_id)

    async def dream(self) -> Dreamt:
        """Compare memory with itself and propose what should change, now instead of once a week."""
        return await propose.dream(self.resources, self.identity)

    async def list_proposals(self, **request: Any) -> list[Proposal]:
        """Proposals, newest first; `request` are `status` (open unless said), `kind`, `before` and `limit`."""
        return await propose.list_proposals(self.resources, self.identity, **request)

    async def get_proposal(self, proposal_id: UUID) -> Proposal:
        """One proposal."""
        return await propose.get_proposal(self.resources, self.identity, proposal_id)

    async def accept_proposal(self, proposal_id: UUID, *, reason: str | None = None) -> Proposal:
        """Carry a proposal out; `Conflict` when what it is about has changed."""
        return await propose.accept(self.resources, self.identity, proposal_id, reason=reason)

    async def reject_proposal(self, proposal_id: UUID, *, reason: str | None = None) -> Proposal:
        """Leave everything as it is; the same is not proposed again."""
        return await propose.reject(self.resources, self.identity, proposal_id, reason=reason)

    async def undo_proposal(self, proposal_id: UUID, *, reason: str | None = None) -> Proposal:
        """Take back what accepting a proposal did."""
        return await propose.undo(self.resources, self.identity, proposal_id, reason=reason)

    async def get_proposal_policy(self) -> ProposalPolicy:
        """Which proposals the tenant accepts by itself."""
        return await propose.get_policy(self.resources, self.identity)

    async def set_proposal_policy(self, accept: Sequence[str]) -> ProposalPolicy:
        """Accept proposals of these kinds (`merge`, `retire`) as soon as they are made."""
        return await propose.set_policy(self.resources, self.identity, accept)

    async def get_organisation(self) -> Membership:
        """The organisation that the tenant belongs to."""
        return await share.get_organisation(self.resources, self.identity)

    async def share(self, item_ids: Sequence[UUID], with_tenants: Sequence[str]) -> list[Shared]:
        """Give memories to tenants of the same organisation, read-only, until they are withdrawn."""
        return await share.share(self.resources, self.identity, item_ids, with_tenants)

    async def list_shares(self, **request: Any) -> list[Share]:
        """What the tenant shares and with whom, newest items first; `request` are `before` and `limit`."""
        return await share.list_shares(self.resources, self.identity, **request)

    async def withdraw(self, item_id: UUID, *, tenant: str | None = None) -> int:
        """Take a shared memory back, from one tenant or from all; gone there when this returns."""
        return await share.withdraw(self.resources, self.identity, item_id, tenant=tenant)

    async def list_share_links(self) -> list[ShareLink]:
        """Which tenants share with this one, and whether that was accepted."""
        return await share.list_share_links(self.resources, self.identity)

    async def accept_share_link(self, tenant: str) -> ShareLink:
        """Let arrive what a tenant shares."""
        return await share.accept_share_link(self.resources, self.identity, tenant)

    async def decline_share_link(self, tenant: str) -> ShareLink:
        """Take nothing from a tenant, or nothing any more."""
        return await share.decline_share_link(self.resources, self.identity, tenant)
