"""Keep a divided database: back it up, restore it, migrate it. It needs a Citus cluster (`tests/external_server.py`)."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, cast

import psycopg
import pytest
from pydantic import SecretStr
from tests.db.test_cluster import KEYS, POLICIES, TRIGGERS, owner, spoken
from tests.external_server import ExternalServer, not_on_cluster, on_cluster
from tests.stored import drop_database, rows

from recordari.app import Memory
from recordari.config import Settings
from recordari.core.identity import Identity, Role
from recordari.db import cluster, migrate
from recordari.db.address import APP_LOGIN, embedded_server
from recordari.errors import ConfigurationError, Conflict
from recordari.operations import maintenance
from recordari.tenants import tenants
from recordari.wiring import open_resources

NAMES = ["green", "black", "white"]


@pytest.fixture
def pair(server: Any, settings: Settings) -> Iterator[tuple[Settings, Settings, str]]:
    """Two databases on the coordinator of a cluster that are not divided yet, and the name of the first."""
    with ExitStack() as stack:
        first, name = stack.enter_context(cast("ExternalServer", server).undivided(settings))
        second, _ = stack.enter_context(cast("ExternalServer", server).undivided(settings))
        yield first, second, name


async def read_events(settings: Settings, tenant: str) -> list[int]:
    """The numbers of a tenant's events, in order."""
    statement = (
        "SELECT number FROM events e JOIN tenants t ON t.tenant_id = e.tenant_id WHERE t.name = %s ORDER BY number"
    )
    return [row["number"] for row in rows(settings, statement, tenant)]


@on_cluster
async def test_a_backup_of_a_divided_database_is_restored_and_divided_again(
    pair: tuple[Settings, Settings, str], tmp_path: Path
) -> None:
    source, target, _ = pair
    programs, file = embedded_server(source).binary("pg_dump").parent, tmp_path / "cluster.dump"
    await migrate.prepare(owner(source), login=APP_LOGIN)
    policies = rows(source, POLICIES)
    await cluster.distribute(owner(source), shards=4)
    said = await spoken(source, NAMES, new=True)
    before = await read_events(source, NAMES[0])
    rows(source, "WITH gone AS (DELETE FROM events RETURNING 1) SELECT count(*) FROM gone")

    await maintenance.back_up(owner(source), programs, file)
    with pytest.raises(Conflict, match="tenants already"):
        await maintenance.restore(owner(source), programs, file, login=APP_LOGIN)
    restored = await maintenance.restore(owner(target), programs, file, login=APP_LOGIN)
    assert restored.counts["tenants"] == restored.counts["items"] == len(NAMES)
    assert rows(target, POLICIES) == policies
    assert await spoken(target, NAMES, new=False) == said
    await spoken(target, ["red"], new=True)
    assert min(await read_events(target, "red")) > max(before), "a reader has seen numbers up to there"

    await cluster.distribute(owner(target), shards=4)
    assert await spoken(target, NAMES[1:], new=False) == {name: said[name] for name in NAMES[1:]}


@on_cluster
async def test_a_divided_database_in_use_is_not_backed_up(pair: tuple[Settings, Settings, str], tmp_path: Path) -> None:
    source, target, _ = pair
    programs = embedded_server(source).binary("pg_dump").parent
    await migrate.prepare(owner(source), login=APP_LOGIN)
    await cluster.distribute(owner(source), shards=4)
    async with open_resources(source):
        with pytest.raises(Conflict, match="stop them first"):
            await maintenance.back_up(owner(source), programs, tmp_path / "cluster.dump")
    await maintenance.back_up(owner(source), programs, tmp_path / "cluster.dump")
    await migrate.prepare(owner(target), login=APP_LOGIN)
    await cluster.distribute(owner(target), shards=4)
    with pytest.raises(Conflict, match="restore into one that is not"):
        await maintenance.restore(owner(target), programs, tmp_path / "cluster.dump", login=APP_LOGIN)


CHANGE = """
ALTER TABLE items ADD COLUMN mood text NOT NULL DEFAULT 'calm';
CREATE INDEX items_by_mood ON items (tenant_id, mood);
CREATE FUNCTION name_mood() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    NEW.mood := 'glad';
    RETURN NEW;
END $$;
REVOKE ALL ON FUNCTION name_mood() FROM PUBLIC;
CREATE TRIGGER name_mood BEFORE INSERT ON items FOR EACH ROW EXECUTE FUNCTION name_mood();
"""
NEW_TABLE = """
CREATE TABLE moods (
    tenant_id uuid NOT NULL,
    item_id uuid NOT NULL,
    PRIMARY KEY (tenant_id, item_id),
    FOREIGN KEY (tenant_id, item_id) REFERENCES items ON DELETE CASCADE
);
ALTER TABLE moods ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON moods TO recordari_app USING (tenant_id = current_tenant()) WITH CHECK (tenant_id = current_tenant());
GRANT SELECT, INSERT ON moods TO recordari_app;
"""


@on_cluster
async def test_a_migration_changes_the_tables_of_every_node(
    pair: tuple[Settings, Settings, str], server: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    divided, _, name = pair
    await migrate.prepare(owner(divided), login=APP_LOGIN)
    await cluster.distribute(owner(divided), shards=4)
    said = await spoken(divided, NAMES, new=True)
    steps = [
        *migrate.migrations(),
        migrate.Migration(name="9001_add_mood", sql=CHANGE),
        migrate.Migration(name="9002_keep_moods", sql=NEW_TABLE),
    ]
    monkeypatch.setattr(migrate, "migrations", lambda: steps)
    # A process that opens the database migrates it, as `recordari db migrate` does.
    assert await spoken(divided.model_copy(update={"auto_migrate": True}), NAMES, new=False) == said
    assert {row["mood"] for row in rows(divided, "SELECT mood FROM items")} == {"calm"}
    await spoken(divided, ["red"], new=True)
    assert {row["mood"] for row in rows(divided, "SELECT mood FROM items")} == {"calm", "glad"}
    state = await cluster.state(owner(divided))
    assert state is not None and not state.whole and "recordari.moods" in state.divided
    for node in range(len(server.nodes)):
        with psycopg.connect(server.dsn(database=name, node=node)) as connection:
            held = "SELECT has_function_privilege('recordari_app', 'recordari.name_mood()', 'EXECUTE')"
            assert connection.execute(held).fetchone() == (False,)
    async with open_resources(divided) as resources:
        tenant = await tenants.ensure_tenant(resources, "red")
        item = (
            await Memory(resources, Identity(tenant_id=tenant.tenant_id, role=Role.ADMIN))
            .acting_as(user="ana")
            .remember_fact("Ana is glad")
        )
    rows(
        divided,
        "INSERT INTO moods (tenant_id, item_id) VALUES (%s, %s) RETURNING item_id",
        tenant.tenant_id,
        item.id,
    )


@on_cluster
async def test_a_migration_that_a_cluster_refuses_changes_nothing_and_says_what_to_do(
    pair: tuple[Settings, Settings, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    divided, _, _ = pair
    await migrate.prepare(owner(divided), login=APP_LOGIN)
    await cluster.distribute(owner(divided), shards=4)
    refused = "ALTER TABLE items ADD COLUMN mood text; ALTER TABLE items ADD CONSTRAINT one_mood UNIQUE (mood);"
    steps = [*migrate.migrations(), migrate.Migration(name="9001_one_mood", sql=refused)]
    monkeypatch.setattr(migrate, "migrations", lambda: steps)
    with pytest.raises(ConfigurationError, match=r"9001_one_mood cannot run on a divided database.*undistribute"):
        await migrate.prepare(owner(divided), login=APP_LOGIN)
    assert (
        rows(divided, "SELECT attname FROM pg_attribute WHERE attrelid = 'items'::regclass AND attname = 'mood'") == []
    )


FUNCTIONS = """SELECT oid::regprocedure::text AS name, prosrc FROM pg_proc
    WHERE pronamespace = 'recordari'::regnamespace ORDER BY 1"""


@not_on_cluster("it compares two databases of one server")
async def test_the_statements_of_migrations_one_by_one_make_the_same_schema(
    server: Any, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cluster takes them one by one, one server takes a migration whole."""
    single = [
        migrate.Migration(name=f"{step.name}_{number:03}", sql=statement)
        for step in migrate.migrations()
        for number, statement in enumerate(step.statements)
    ]
    assert len(single) > 5 * len(migrate.migrations())
    monkeypatch.setattr(migrate, "migrations", lambda: single)
    name = f"single_{uuid.uuid4().hex[:12]}"
    await migrate.ensure_database(server.dsn(), name)
    try:
        await migrate.prepare(server.dsn(database=name), login=APP_LOGIN)
        made = settings.model_copy(update={"database_owner_url": SecretStr(server.dsn(database=name))})
        for statement in (TRIGGERS, KEYS, FUNCTIONS):
            assert rows(made, statement) == rows(settings, statement)
    finally:
        drop_database(server, name)
