"""How the command line opens the memory: heavy imports happen when a command asks for them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager

from recordari.config import Settings
from recordari.core.identity import Identity, Role, tenant_id_of
from recordari.errors import NotFound
from recordari.kit.commands import DEVELOPMENT_TENANT
from recordari.kit.resources import Resources
from recordari.kit.verbs import Caller


class LibraryOpening:
    """Opens the library in this process."""

    def resources(self, settings: Settings) -> AbstractAsyncContextManager[Resources]:
        """Everything verbs need, for these settings."""
        from recordari.wiring import open_resources

        return open_resources(settings)

    @asynccontextmanager
    async def as_operator(self, settings: Settings, tenant: str) -> AsyncIterator[Caller]:
        """The administrator of a tenant that need not exist."""
        async with self.resources(settings) as resources:
            yield Caller(resources, Identity(tenant_id=tenant_id_of(tenant), role=Role.ADMIN, actor="cli"))

    @asynccontextmanager
    async def memory(
        self, settings: Settings, tenant: str, *, user: str | None, agent: str | None, session: str | None, worker: bool
    ) -> AsyncIterator[Caller]:
        """The administrator of a tenant that exists, acting for a user, agent or session; the first tenant is made."""
        from recordari.runner import background_worker
        from recordari.tenants.tenants import ensure_tenant, get_tenant

        async with AsyncExitStack() as stack:
            caller = await stack.enter_async_context(self.as_operator(settings, tenant))
            if tenant == DEVELOPMENT_TENANT:
                await ensure_tenant(caller.resources, tenant, actor="cli")
            try:
                await get_tenant(*caller)
            except NotFound:
                raise NotFound(f"there is no tenant {tenant!r}; make it with `recordari tenant create`") from None
            if worker and settings.worker:
                await stack.enter_async_context(background_worker(caller.resources))
            yield caller._replace(identity=caller.identity.narrowed(user_id=user, agent_id=agent, session_id=session))
