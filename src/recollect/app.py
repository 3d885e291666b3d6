"""The verbs of Recollect bound to who asks: `Memory` is all of them together, `verbs/` has them by noun."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Self

from recollect.config import Settings
from recollect.domain.identity import Identity, Role, tenant_id_of
from recollect.service import tenants
from recollect.verbs.agents import AgentVerbs
from recollect.verbs.curation import CurationVerbs
from recollect.verbs.databases import DatabaseVerbs
from recollect.verbs.entries import EntryVerbs
from recollect.verbs.events import EventVerbs
from recollect.verbs.exports import ExportVerbs
from recollect.verbs.items import ItemVerbs
from recollect.verbs.jobs import JobVerbs
from recollect.verbs.knowledge import KnowledgeVerbs
from recollect.verbs.procedures import ProcedureVerbs
from recollect.verbs.proposals import ProposalVerbs
from recollect.verbs.protection import ProtectionVerbs
from recollect.verbs.recall import RecallVerbs
from recollect.verbs.reports import ReportVerbs
from recollect.verbs.retention import RetentionVerbs
from recollect.verbs.runs import RunVerbs
from recollect.verbs.sessions import SessionVerbs
from recollect.verbs.shares import ShareVerbs
from recollect.verbs.state import StateVerbs
from recollect.verbs.tenants import TenantVerbs
from recollect.wiring import open_resources
from recollect.worker.runner import background_worker


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
    """The verbs of Recollect, bound to one identity."""

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
