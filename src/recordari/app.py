"""The verbs of Recordari bound to who asks: `Memory` is all of them together, `verbs/` has them by noun."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Self

from recordari.config import Settings
from recordari.core.identity import Identity, Role, tenant_id_of
from recordari.runner import background_worker
from recordari.tenants import tenants
from recordari.verbs.agents import AgentVerbs
from recordari.verbs.curation import CurationVerbs
from recordari.verbs.databases import DatabaseVerbs
from recordari.verbs.entries import EntryVerbs
from recordari.verbs.events import EventVerbs
from recordari.verbs.exports import ExportVerbs
from recordari.verbs.items import ItemVerbs
from recordari.verbs.jobs import JobVerbs
from recordari.verbs.knowledge import KnowledgeVerbs
from recordari.verbs.procedures import ProcedureVerbs
from recordari.verbs.proposals import ProposalVerbs
from recordari.verbs.protection import ProtectionVerbs
from recordari.verbs.recall import RecallVerbs
from recordari.verbs.reports import ReportVerbs
from recordari.verbs.retention import RetentionVerbs
from recordari.verbs.runs import RunVerbs
from recordari.verbs.sessions import SessionVerbs
from recordari.verbs.shares import ShareVerbs
from recordari.verbs.state import StateVerbs
from recordari.verbs.tenants import TenantVerbs
from recordari.wiring import open_resources


class Memory(
    ItemVerbs,
    RecallVerbs,
    CurationVerbs,
    KnowledgeVerbs,
    DatabaseVerbs,
    SessionVerbs,
    RunVerbs,
    StateVerbs,
    EntryVerbs,
    ProcedureVerbs,
    ProposalVerbs,
    ShareVerbs,
    RetentionVerbs,
    ProtectionVerbs,
    ExportVerbs,
    TenantVerbs,
    AgentVerbs,
    EventVerbs,
    JobVerbs,
    ReportVerbs,
):
    """The verbs of Recordari, bound to one identity."""

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
