"""Verbs for operators: back up, restore, upgrade PostgreSQL, repeat erasures, create the first key."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from recordari.config import Settings
from recordari.core.checks import is_loopback
from recordari.core.identity import Identity, Role, tenant_id_of
from recordari.db import backup, cluster, migrate
from recordari.db.address import APP_LOGIN, DATABASE_NAME, embedded_server
from recordari.db.embedded.server import EmbeddedServer
from recordari.db.embedded.upgrade import exchanging
from recordari.errors import ConfigurationError, Conflict, NotFound
from recordari.kit.commands import DEVELOPMENT_TENANT
from recordari.kit.resources import Resources
from recordari.lifetime import erase
from recordari.lifetime.journal import journal_file
from recordari.tenants import storage as tenants_storage
from recordari.tenants import tenants as tenant_verbs
from recordari.tenants.sign_ins import make_code
from recordari.tenants.tenants import NewKey

DEVELOPMENT_KEY = "development"


@dataclass(frozen=True, slots=True, kw_only=True)
class Restored:
    """The result of a restore: rows per table, and the migrations newer than the backup."""

    counts: dict[str, int]
    migrations: list[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class PostgresUpgrade:
    """The embedded database before and after an upgrade of PostgreSQL, and where its data of before is kept."""

    before: int
    after: int
    rows: int
    kept: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantReapplied:
    """The erasures of one tenant that were repeated: items, and users with everything of theirs."""

    tenant: str
    items: int
    users: int


async def back_up(owner_dsn: str, programs: Path, file: Path) -> int:
    """Dump the whole database into `file`, which appears only when complete; return its size in bytes."""
    if not await backup.has_schema(owner_dsn):
        raise NotFound("there is nothing to back up: this database was never used; check RECORDARI_HOME")
    reader = await backup.find_reader(owner_dsn)
    if reader.rows_hidden:
        raise ConfigurationError(
            f"row-level security would hide rows from the role {reader.role!r}; "
            "set RECORDARI_DATABASE_OWNER_URL to a role with BYPASSRLS, or use your provider's backups"
        )
    await cluster.prepare_backup(owner_dsn)
    return await asyncio.to_thread(backup.dump, owner_dsn, programs, file)


async def restore(owner_dsn: str, programs: Path, file: Path, *, login: str, password: str | None = None) -> Restored:
    """Restore `file` into a database without tenants, all or nothing, and bring it to this version."""
    dumped = await asyncio.to_thread(backup.dumped_migrations, programs, file)
    checksums = {step.name: step.checksum for step in migrate.migrations()}
    ours = {name: checksum for name, checksum in dumped.items() if not name.startswith("queue:")}
    if foreign := sorted(name for name, checksum in ours.items() if checksums.get(name) != checksum):
        raise ConfigurationError(
            f"{file} was made by another version of Recordari (it has another {foreign[0]}); "
            "install a version at least as new as the one that made it"
        )
    if await backup.has_schema(owner_dsn) and (number := len(await tenants_storage.list_tenants(owner_dsn))):
        raise Conflict(
            f"the database holds tenants already ({number}); restore into an empty one "
            "(another RECORDARI_HOME or RECORDARI_DATABASE_URL)"
        )
    await cluster.refuse_divided(owner_dsn)
    await migrate.prepare(owner_dsn, login=login, password=password)
    await asyncio.to_thread(backup.restore, owner_dsn, programs, file)
    applied = await migrate.prepare(owner_dsn, login=login, password=password)
    await cluster.shape_for_one_server(owner_dsn)
    if missing := await migrate.pending(owner_dsn):
        raise ConfigurationError(f"the restored database still lacks {len(missing)} migrations; run `recordari doctor`")
    reader = await backup.find_reader(owner_dsn)
    if reader.rows_hidden:
        # This role may write all tables but not read all of them: only tenants can be counted.
        return Restored(counts={"tenants": len(await tenants_storage.list_tenants(owner_dsn))}, migrations=applied)
    return Restored(counts=await backup.count_rows(owner_dsn), migrations=applied)


async def upgrade_postgres(settings: Settings, old_programs: Path | None = None) -> PostgresUpgrade | None:
    """Move the embedded database to the PostgreSQL that is installed now; None if it is there already.

    A dump of the old server is restored into a new one, and the rows are counted in both. If anything fails, the old data
    is back in its place.
    """
    here, dump = embedded_server(settings).data_dir, settings.home / "upgrade.dump"
    with exchanging(here, bin_dir=settings.postgres_bin_dir, old_bin_dir=old_programs) as exchange:
        if exchange is None:
            return None
        try:
            async with _running(exchange.old) as owner_dsn:
                counts = await backup.count_rows(owner_dsn)
                await back_up(owner_dsn, exchange.programs, dump)
            async with _running(exchange.new) as owner_dsn:
                restored = await restore(owner_dsn, exchange.programs, dump, login=APP_LOGIN)
        finally:
            dump.unlink(missing_ok=True)
        if lost := [table for table, rows in counts.items() if restored.counts.get(table, 0) < rows]:
            raise Conflict(f"the new database has fewer rows in {', '.join(lost)}; the old one is back in its place")
        kept = exchange.old.data_dir
    return PostgresUpgrade(
        before=exchange.old_major, after=exchange.new_major, rows=sum(restored.counts.values()), kept=kept
    )


@asynccontextmanager
async def _running(server: EmbeddedServer) -> AsyncIterator[str]:
    """The owner's address of a server that runs for the block."""
    await asyncio.to_thread(server.acquire)
    try:
        await migrate.ensure_database(server.dsn(), DATABASE_NAME)
        yield server.dsn(database=DATABASE_NAME)
    finally:
        await asyncio.to_thread(server.release)


async def reapply_erasures(resources: Resources, owner_dsn: str, folder: Path | None = None) -> list[TenantReapplied]:
    """Repeat the erasures of the journals in every tenant of a restored database.

    `folder` holds the journals if they are not in this home, as after a restore into another one.
    """
    results = []
    for tenant in await tenants_storage.list_tenants(owner_dsn):
        identity = Identity(tenant_id=tenant.tenant_id, role=Role.ADMIN, actor="restore")
        file = folder / f"{tenant.tenant_id}.jsonl" if folder is not None else journal_file(resources, identity)
        if file.exists():
            applied = await erase.reapply_erasures(resources, identity, file=file)
            results.append(TenantReapplied(tenant=tenant.name, items=applied.items, users=applied.users))
    return results


async def make_development_key(resources: Resources) -> NewKey | None:
    """Create a first admin key for the default tenant.

    None if the tenant has any key, or if other machines can reach the server.
    """
    if (identity := _developer(resources)) is None:
        return None
    await tenant_verbs.ensure_tenant(resources, DEVELOPMENT_TENANT, actor=identity.actor)
    if await tenant_verbs.list_keys(resources, identity):
        return None
    return await tenant_verbs.create_key(resources, identity, name=DEVELOPMENT_KEY, role=Role.ADMIN)


async def make_development_code(resources: Resources) -> str | None:
    """Make a code that signs the developer in to the dashboard once; None if other machines can reach the server."""
    identity = _developer(resources)
    return await make_code(resources, identity) if identity is not None else None


def _developer(resources: Resources) -> Identity | None:
    """The administrator of the default tenant on a developer's own machine."""
    settings = resources.settings
    if not settings.development_key or not is_loopback(settings.host):
        return None
    return Identity(tenant_id=tenant_id_of(DEVELOPMENT_TENANT), role=Role.ADMIN, actor="development")
