"""How commands reach the memory: through the library, as the operator of this machine."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated, Any

import typer

from recollect.app import Memory, open_resources
from recollect.config import Settings, load_settings
from recollect.domain.identity import Identity, Role, tenant_id_of
from recollect.telemetry import configure_logging

Tenant = Annotated[str, typer.Option("--tenant", "-t", help="Name of the tenant.")]


def read_settings(*, quiet: bool = True, **given: Any) -> Settings:
    """Read the settings and send the log to standard error; `quiet` keeps to warnings."""
    settings = load_settings(**given)
    level = "warning" if quiet and settings.log_level == "info" else settings.log_level
    configure_logging(form=settings.log_format, level=level)
    return settings


@asynccontextmanager
async def open_as_operator(tenant: str) -> AsyncIterator[Memory]:
    """Open the memory of a tenant as its administrator; the tenant need not exist."""
    identity = Identity(tenant_id=tenant_id_of(tenant), role=Role.ADMIN, actor="cli")
    async with open_resources(read_settings()) as resources:
        yield Memory(resources, identity)
