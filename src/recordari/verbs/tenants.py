"""The tenant itself, its users and keys, and who changed what."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

from recordari.core.identity import Role
from recordari.db.audit import AuditEntry
from recordari.tenants import tenants
from recordari.tenants.rules import ApiKey, Tenant, User
from recordari.tenants.tenants import NewKey
from recordari.verbs.bound import Bound


class TenantVerbs(Bound):
    """The verbs of tenant, users, keys and audit."""

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
