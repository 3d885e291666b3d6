"""The same product on a cluster divided by tenant. Most of it needs a Citus cluster (`tests/external_server.py`)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

import psycopg
import pytest
from tests.external_server import ExternalServer, on_cluster
from tests.stored import rows

from recordari.app import Memory
from recordari.config import Settings
from recordari.core.identity import Identity, Role
from recordari.db import cluster, migrate
from recordari.db.address import APP_LOGIN
from recordari.db.pipeline import translated
from recordari.errors import ConfigurationError, DatabaseUnavailable
from recordari.operations.doctor import check_cluster
from recordari.tenants import tenants
from recordari.wiring import open_resources

POLICIES = """SELECT polrelid::regclass::text AS relation, polname, pg_get_expr(polqual, polrelid) AS condition,
    pg_get_expr(polwithcheck, polrelid) AS checked FROM pg_policy ORDER BY 1, 2"""
TRIGGERS = """SELECT tgrelid::regclass::text AS relation, tgname FROM pg_trigger
    WHERE NOT tgisinternal AND tgname NOT LIKE 'truncate%%' ORDER BY 1, 2"""
KEYS = """SELECT conrelid::regclass::text AS relation, pg_get_constraintdef(oid) AS key FROM pg_constraint
    WHERE contype IN ('p', 'u', 'f') AND connamespace = 'recordari'::regnamespace ORDER BY 1, 2"""


def owner(settings: Settings) -> str:
    assert settings.database_owner_url is not None
    return settings.database_owner_url.get_secret_value()


async def test_a_database_without_citus_is_refused_and_says_what_to_do(settings: Settings) -> None:
    if await cluster.state(owner(settings)) is not None:
        pytest.skip("this server has Citus")
    with pytest.raises(ConfigurationError, match="has no Citus"):
        await cluster.distribute(owner(settings))
    with pytest.raises(ConfigurationError, match="has no Citus"):
        await cluster.undistribute(owner(settings))
    assert await check_cluster(owner(settings)) == []


@pytest.mark.parametrize(
    "words",
    [
        "failure on connection marked as essential: 10.0.0.7:5432",
        "postmaster was shut down, exiting",
        "failed to COPY to shard 102008 on 10.0.0.7:5432",
        "could not commit transaction for shard 102008 on at least one active node",
    ],
)
def test_a_lost_node_is_an_unavailable_database(words: str) -> None:
    assert isinstance(translated(psycopg.errors.InternalError_(words)), DatabaseUnavailable)
    assert translated(psycopg.errors.InternalError_("cache lookup failed for relation 7")) is None


@pytest.fixture
def whole(server: Any, settings: Settings) -> Iterator[Settings]:
    """Settings of a database on the coordinator of a cluster that is not divided yet."""
    with cast("ExternalServer", server).undivided(settings) as (undivided, _):
        yield undivided


async def spoken(settings: Settings, names: list[str], *, new: bool) -> dict[str, list[str]]:
    """What each tenant recalls of its own drink, which is written first."""
    found = {}
    async with open_resources(settings) as resources:
        for name in names:
            tenant = await tenants.ensure_tenant(resources, name)
            memory = Memory(resources, Identity(tenant_id=tenant.tenant_id, role=Role.ADMIN)).acting_as(user="ana")
            if new:
                await memory.remember_fact(f"Ana drinks {name} tea")
            found[name] = [item.content for item in (await memory.recall("What does Ana drink?")).items]
    return found


@on_cluster
async def test_a_database_with_data_is_divided_and_taken_back(whole: Settings) -> None:
    await migrate.prepare(owner(whole), login=APP_LOGIN)
    names = ["green", "black", "white", "red", "mint"]
    said = await spoken(whole, names, new=True)
    assert said == {name: [f"Ana drinks {name} tea"] for name in names}
    before = [rows(whole, statement) for statement in (POLICIES, TRIGGERS, KEYS)]

    divided = await cluster.distribute(owner(whole), shards=4)
    assert "recordari.items" in divided and "recordari_queue.outbox" in divided
    state = await cluster.state(owner(whole))
    assert state is not None and not state.problems and not state.whole
    assert sum(node.shards for node in state.nodes if not node.is_coordinator) == 4
    assert [check.state for check in await check_cluster(owner(whole))] == ["ok"]
    assert await spoken(whole, names, new=False) == said

    assert set(await cluster.undistribute(owner(whole))) == set(divided)
    assert await spoken(whole, names, new=False) == said
    assert [rows(whole, statement) for statement in (POLICIES, TRIGGERS, KEYS)] == before


@on_cluster
async def test_a_server_that_runs_keeps_the_database_from_being_divided(whole: Settings) -> None:
    await migrate.prepare(owner(whole), login=APP_LOGIN)
    async with open_resources(whole):
        with pytest.raises(Exception, match="stop them first"):
            await cluster.distribute(owner(whole), shards=4)


@on_cluster
async def test_no_shard_shows_a_tenants_rows_to_another(server: Any, settings: Settings) -> None:
    """Also to who connects with the node itself, as the application or for all users of a tenant."""
    await spoken(settings, ["green", "black"], new=True)
    given = cast("ExternalServer", server)
    database = psycopg.conninfo.conninfo_to_dict(owner(settings))["dbname"]
    (other,) = rows(settings, "SELECT tenant_id FROM tenants WHERE name = 'black'")
    seen: set[Any] = set()
    for node in range(1, len(given.nodes)):
        for user in (APP_LOGIN, "recordari_tenant", "recordari_retention", "recordari_readonly"):
            address = given.dsn(user=user, database=str(database), node=node)
            with psycopg.connect(
                address, autocommit=True, options="-c citus.override_table_visibility=off"
            ) as connection:
                assert tenants_on_shards(connection, "") == set()
                seen |= tenants_on_shards(connection, str(other["tenant_id"]))
    assert seen == {other["tenant_id"]}


def tenants_on_shards(connection: psycopg.Connection[Any], bound_to: str) -> set[Any]:
    """The tenants of whom a node's own tables of items show anything."""
    connection.execute(
        "SELECT set_config('app.tenant_id', %s, false), set_config('app.user_id', '', false)", [bound_to]
    )
    shards = connection.execute(
        "SELECT relname FROM pg_class WHERE relnamespace = 'recordari'::regnamespace AND relname ~ '^items_[0-9]+$'"
    ).fetchall()
    assert shards
    return {
        tenant
        for (shard,) in shards
        for (tenant,) in connection.execute(f"SELECT DISTINCT tenant_id FROM recordari.{shard}")
    }


@on_cluster
def test_only_retention_may_change_the_audit_on_a_node(server: Any, settings: Settings) -> None:
    given = cast("ExternalServer", server)
    database = str(psycopg.conninfo.conninfo_to_dict(owner(settings))["dbname"])
    for node in range(len(given.nodes)):
        with psycopg.connect(given.dsn(database=database, node=node)) as connection:
            (found,) = connection.execute(
                """SELECT array_agg(DISTINCT r.rolname::text || ' ' || p.proname ORDER BY r.rolname::text || ' ' || p.proname)
                   FROM pg_proc p, pg_roles r
                   WHERE p.pronamespace = 'recordari'::regnamespace AND p.proname IN ('pseudonymise_audit', 'forget_reasons')
                     AND r.rolname IN ('recordari_app', 'recordari_tenant', 'recordari_retention', 'recordari_readonly')
                     AND has_function_privilege(r.oid, p.oid, 'EXECUTE')"""
            ).fetchone() or (None,)
        assert found == ["recordari_retention forget_reasons", "recordari_retention pseudonymise_audit"]
