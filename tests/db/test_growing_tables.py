"""Plans that were made for almost empty tables are made anew while an import fills them."""

from __future__ import annotations

import psycopg
import pytest
from tests.external_server import not_on_cluster

from recordari.app import Memory
from recordari.config import Settings
from recordari.core.identity import Identity, Role, Scope, tenant_id_of
from recordari.core.items import NewItem
from recordari.db import pool
from recordari.tenants import tenants
from recordari.wiring import open_resources

ITEMS = 6_000
MOST_READ = 5_000_000  # entries of indexes; each item against all before it would be eighteen million


@not_on_cluster("plans are made for each tenant there, and the rows are on the nodes")
async def test_an_import_into_an_empty_database_does_not_read_what_it_wrote(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool, "LOOK_AGAIN", 0.0)
    assert settings.database_owner_url is not None
    with psycopg.connect(settings.database_owner_url.get_secret_value(), autocommit=True) as owner:
        owner.execute("ALTER TABLE recordari.items SET (autovacuum_enabled = off)")  # which would make plans anew too
        async with open_resources(settings) as resources:
            await tenants.ensure_tenant(resources, "import")
            memory = Memory(resources, Identity(tenant_id=tenant_id_of("import"), role=Role.ADMIN)).acting_as(
                user="ana"
            )
            await memory.remember("The first one.", scope=Scope.USER)
            items = (NewItem(content=f"Number {n} of many", scope=Scope.USER, source_ref=str(n)) for n in range(ITEMS))
            async for _ in memory.import_items(items):
                pass
        # A connection says what it read when it ends.
        read = owner.execute("SELECT sum(idx_tup_read) FROM pg_stat_user_indexes WHERE relname = 'items'").fetchone()
    assert read is not None and ITEMS <= read[0] < MOST_READ
