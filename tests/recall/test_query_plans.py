"""The hot queries use their indexes as the application under row-level security; meaning is searched exactly where
that is fast enough, and by the tenant's own index where it is not."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast
from uuid import UUID

import numpy as np
import psycopg
import pytest
from pgvector import HalfVector
from psycopg.rows import dict_row
from pydantic import SecretStr
from tests.conftest import cloned_database
from tests.external_server import not_on_cluster
from tests.working import settled

from recordari.app import Memory
from recordari.config import Settings
from recordari.core.identity import AskedScope, Identity, Role, Scope, TenantId, UserId, tenant_id_of
from recordari.core.items import Kind, NewItem
from recordari.db.address import APP_LOGIN
from recordari.db.database import BatchedQuery, Database, Transaction
from recordari.db.embedded.server import EmbeddedServer
from recordari.db.pipeline import EncodedValue
from recordari.db.queries import Query
from recordari.kit.resources import Resources
from recordari.memory import index as service
from recordari.memory import storage as memory_storage
from recordari.memory import vector_storage
from recordari.memory.index import Changes, decide
from recordari.memory.vector_storage import IndexSpec, VectorIndex, VectorIndexes
from recordari.models.embedding import Embedders
from recordari.operations.doctor import State, check_vector_indexes
from recordari.recall import snapshot_storage
from recordari.recall import storage as recall_storage
from recordari.recall.rules.temporal.times import Interval
from recordari.recall.search import exact_below
from recordari.recall.storage import Search, Visibility
from recordari.sessions import storage as sessions_storage
from recordari.tenants import tenants

of_one_server = not_on_cluster("it looks at the plans of one server")

MODEL_ID = "random@1"
DIMENSIONS = 16
SMALL, LARGE, OTHERS = "small", "large", "others"
EACH = {SMALL: 300, LARGE: 4_000, OTHERS: 20_000}

LOAD = """
    INSERT INTO tenants (tenant_id, name, embedding_model) VALUES (%(tenant)s, %(name)s, %(model)s);
    INSERT INTO items (tenant_id, item_id, kind, scope, tier, user_id, source_ref, thread, position, content, content_hash,
        trust, event_time, valid_at, tsv, terms, tokens, traits)
    SELECT %(tenant)s, gen_random_uuid(), 'chat_message', CASE WHEN n %% 4 = 0 THEN 'tenant' ELSE 'user' END, 'recent',
        CASE WHEN n %% 2 = 0 THEN 'many' ELSE 'user-' || n %% 50 END, 'item-' || n, 'thread-' || n / 20, n %% 20, 'text', '',
        'user', now(), now(), format('''spoken'':1 ''w%%s'':2', n %% 200)::tsvector, '', '', 0
    FROM generate_series(1, %(rows)s) n;
    INSERT INTO vectors (tenant_id, item_id, model_id, live, kind, scope, user_id, event_time, embedding)
    SELECT tenant_id, item_id, %(model)s, live, kind, scope, user_id, event_time,
        l2_normalize((SELECT array_agg(random() - 0.5 + 0 * n * i.traits) FROM generate_series(1, 16) n)::vector)::halfvec
    FROM items i WHERE tenant_id = %(tenant)s
"""


AS_SENT = (
    Query("tests.generic", "Plans for every tenant.", "SET LOCAL plan_cache_mode = force_generic_plan"),
    Query("tests.indexed", "Plans by an index.", "SET LOCAL enable_seqscan = off"),
)


class Plan:
    """The steps of every query that was explained."""

    def __init__(self) -> None:
        self.plans: list[dict[str, Any]] = []

    async def explain(self, tx: Transaction, query: Query, **parameters: Any) -> None:
        explained = Query(query.name, query.purpose, "EXPLAIN (ANALYZE, FORMAT JSON) " + query.sql)
        (row,) = await tx.query_custom_plan(explained, dict, **parameters)
        self.plans += _nodes(row["QUERY PLAN"][0]["Plan"])

    def uses(self, node: str, index: str) -> bool:
        """Whether such a step of the plan ran on that index."""
        return any(
            plan["Node Type"] == node and plan.get("Index Name", "").startswith(index) and plan["Actual Loops"]
            for plan in self.plans
        )

    def reads_all(self, table: str) -> bool:
        """Whether the plan goes through all rows of a table."""
        return any(plan["Node Type"] == "Seq Scan" and plan["Relation Name"] == table for plan in self.plans)


class ExplainingDatabase:
    """A database in which a query that is planned for every tenant is explained, and answered where others follow."""

    def __init__(self, database: Database, plan: Plan) -> None:
        self.database, self.plan = database, plan

    async def execute(self, identity: Identity, query: Query, **parameters: Any) -> list[tuple[Any, ...]]:
        async with self.database.transaction(identity) as tx:
            for setting in AS_SENT if not query.is_planned_anew else ():
                await tx.run(setting)
            if isinstance(vector := parameters.get("vector"), np.ndarray):
                parameters["vector"] = HalfVector(vector)
            await self.plan.explain(tx, query, **{name: _plain(value) for name, value in parameters.items()})
        return []

    async def read_batch(self, identity: Identity, asked: Sequence[BatchedQuery[Any]]) -> None:
        for one in asked:
            await self.execute(identity, one.query, **one.parameters({}))
        await self.database.read_batch(identity, asked)


def _plain(value: Any) -> Any:
    """A value that was written out as PostgreSQL reads it, as text."""
    return (value.text or b"").decode() or None if isinstance(value, EncodedValue) else value


def _nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for child in plan.get("Plans", []):
        yield from _nodes(child)


def load(connection: psycopg.Connection[Any], tenant: str, rows: int) -> None:
    """Give a new tenant items with vectors, past the application."""
    connection.execute("SET search_path = recordari, public; SET session_replication_role = replica")
    connection.execute("SELECT setseed(0.5)")
    parameters = {"tenant": tenant_id_of(tenant), "name": tenant, "model": MODEL_ID, "rows": rows}
    for statement in LOAD.split(";"):
        connection.execute(statement, parameters)


@pytest.fixture(scope="module")
def crowd(server: EmbeddedServer) -> Iterator[tuple[str, str]]:
    """A database with a small and a large tenant among others: the application's address and the owner's."""
    with cloned_database(server) as name:
        owner = server.dsn(database=name)
        with psycopg.connect(owner, autocommit=True) as connection:
            for tenant, rows in EACH.items():
                load(connection, tenant, rows)
            connection.execute("VACUUM (ANALYZE) recordari.items, recordari.vectors")
        yield server.dsn(user=APP_LOGIN, database=name), owner


@pytest.fixture
def settings(crowd: tuple[str, str], tmp_path: Path) -> Settings:
    dsn, owner = crowd
    return Settings(
        home=tmp_path,
        database_url=SecretStr(dsn),
        database_owner_url=SecretStr(owner),
        vector_index_from=2_000,
        embedding_provider="none",
    )


@pytest.fixture
async def indexed(resources: Resources) -> Resources:
    """The large tenant has its index."""
    await service.maintain(resources, who(LARGE))
    return resources


def who(tenant: str, user: str | None = None) -> Identity:
    return Identity(tenant_id=tenant_id_of(tenant), user_id=UserId(user) if user else None, role=Role.ADMIN)


def asked(seed: int = 1, *, below: int | None = None, terms: dict[str, float] | None = None) -> Search:
    vector = np.random.default_rng(seed).normal(size=DIMENSIONS)
    return Search(
        terms=terms or {},
        vector=(vector / np.linalg.norm(vector)).astype(np.float32),
        model_id=MODEL_ID,
        entity_keys=[],
        interval=None,
        kinds=[str(kind) for kind in Kind],
        scopes=frozenset({AskedScope.TENANT, AskedScope.USER}),
        exact_below=below,
    )


async def explained(resources: Resources, identity: Identity, wanted: Search) -> Plan:
    """The plan of everything that a search sends."""
    plan = Plan()
    database = cast("Database", ExplainingDatabase(resources.database, plan))
    early = await recall_storage.find_early(database, identity, wanted)
    await recall_storage.find_candidates(database, identity, wanted, early)
    return plan


async def nearest(resources: Resources, identity: Identity, wanted: Search) -> set[UUID]:
    early = await recall_storage.find_early(resources.database, identity, wanted)
    found = await recall_storage.find_candidates(resources.database, identity, wanted, early)
    return {one.item_id for one in found if one.vector_rank is not None and one.vector_rank <= 10}


def exact(owner_dsn: str, identity: Identity, wanted: Search) -> set[UUID]:
    """The ten nearest that the identity may see, by looking at every vector."""
    with psycopg.connect(owner_dsn, row_factory=dict_row) as connection:
        rows = connection.execute(
            "SELECT item_id, scope, user_id, embedding::text FROM recordari.vectors WHERE tenant_id = %s AND live",
            [identity.tenant_id],
        ).fetchall()
    seen = [
        row
        for row in rows
        if row["scope"] in wanted.scopes and (row["scope"] == "tenant" or row["user_id"] == identity.user_id)
    ]
    matrix = np.array([json.loads(row["embedding"]) for row in seen])
    assert wanted.vector is not None
    best = np.argsort(-(matrix @ wanted.vector.astype(np.float16).astype(np.float64)))[:10]
    return {seen[place]["item_id"] for place in best}


@of_one_server
async def test_words_are_found_by_the_text_index(resources: Resources) -> None:
    plan = await explained(resources, who(LARGE, "many"), replace(asked(terms={"w7": 1.0}), vector=None))
    assert plan.uses("Bitmap Index Scan", "items_text")
    assert all("owner" in one["Index Cond"] for one in plan.plans if one.get("Index Name") == "items_text")
    assert not plan.uses("Index Scan", "items_by_event_time")
    assert not plan.reads_all("items")


@of_one_server
async def test_words_of_a_users_sessions_are_found_by_the_user(resources: Resources) -> None:
    scopes = frozenset({AskedScope.USER, AskedScope.HISTORY})
    plan = await explained(resources, who(LARGE, "many"), replace(asked(terms={"w7": 1.0}), scopes=scopes, vector=None))
    conditions = [one["Index Cond"] for one in plan.plans if one.get("Index Name") == "items_text"]
    # A range of owners would be read from both ends of the whole index.
    assert any("user_id" in one for one in conditions) and not any("(owner)::text >" in one for one in conditions)
    assert not any(one.get("Index Name") == "items_by_owner" for one in plan.plans)


@of_one_server
async def test_facts_looked_for_apart_are_found_by_the_same_indexes(indexed: Resources) -> None:
    kinds = [str(Kind.CHAT_MESSAGE), str(Kind.FACT)]
    apart = replace(asked(terms={"w7": 1.0}), kinds=kinds, entity_keys=["ada"], separate_facts=True)
    plan = await explained(indexed, who(LARGE, "many"), apart)
    assert plan.uses("Bitmap Index Scan", "items_text")
    assert not plan.reads_all("items") and not plan.reads_all("vectors")


@of_one_server
async def test_how_rare_a_word_is_is_counted_in_the_text_index(resources: Resources) -> None:
    plan = Plan()
    explaining = cast("Database", ExplainingDatabase(resources.database, plan))
    await memory_storage.document_frequencies(explaining, who(LARGE), ["w7"])
    assert plan.uses("Bitmap Index Scan", "items_text")
    assert not plan.reads_all("items")


@of_one_server
async def test_how_rare_a_word_is_in_a_memory_is_counted_by_owner(resources: Resources) -> None:
    plan = Plan()
    explaining = cast("Database", ExplainingDatabase(resources.database, plan))
    area = Visibility(identity=who(LARGE, "many"), kinds=(Kind.CHAT_MESSAGE,), scopes=frozenset({AskedScope.USER}))
    with suppress(ValueError):  # a plan is no answer
        await snapshot_storage.count_terms(explaining, area, ["w7"])
    assert plan.uses("Bitmap Index Scan", "items_text")
    assert all("owner" in one["Index Cond"] for one in plan.plans if one.get("Index Name") == "items_text")
    assert not plan.reads_all("items")


@of_one_server
async def test_neighbours_are_found_by_their_thread(resources: Resources) -> None:
    plan = await explained(resources, who(LARGE, "many"), asked(terms={"w7": 1.0}))
    assert plan.uses("Index Scan", "items_by_thread")


@of_one_server
@pytest.mark.parametrize("scope", [AskedScope.USER, AskedScope.HISTORY])
async def test_a_time_asked_about_is_found_by_owner_whatever_others_did_then(
    resources: Resources, scope: AskedScope
) -> None:
    start = datetime.now(UTC) - timedelta(days=1)
    lately = Interval(start=start, end=start + timedelta(days=2))
    wanted = replace(asked(), interval=lately, scopes=frozenset({scope})).with_vector(None, None)
    plan = await explained(resources, who(LARGE, "user-7"), wanted)
    by_time = [node for node in plan.plans if f"'{start:%Y-%m-%d}" in node.get("Index Cond", "")]
    assert {node["Index Name"] for node in by_time} == {"items_of_owner"}
    assert all("owner" in node["Index Cond"] for node in by_time)
    assert sum(node["Actual Rows"] * node["Actual Loops"] for node in by_time) <= 80  # its own


@of_one_server
async def test_names_asked_for_are_found_by_their_key(resources: Resources) -> None:
    plan = await explained(resources, who(LARGE, "many"), replace(asked(), entity_keys=["ada"]))
    assert plan.uses("Index Scan", "entities_tenant_id_key_key")
    assert not plan.reads_all("items")


@of_one_server
async def test_the_mentions_of_two_names_are_read_side_by_side(resources: Resources) -> None:
    plan = await explained(resources, who(LARGE, "many"), replace(asked(), entity_keys=["ada", "ben"]))
    (merged,) = [node for node in plan.plans if node["Node Type"] == "Merge Append"]
    scans = [node for node in _nodes(merged) if node.get("Relation Name") == "mentions"]
    assert [node["Scan Direction"] for node in scans] == [
        "Backward"
    ] * 2  # the newest first, and no more than are wanted
    assert not any(node["Node Type"] == "Sort" for node in _nodes(merged))


@of_one_server
async def test_links_are_followed_by_keys(resources: Resources) -> None:
    plan = await explained(resources, who(LARGE, "many"), replace(asked(), entity_keys=["ada"], follows_links=True))
    assert plan.uses("Index Scan", "entities_tenant_id_key_key")
    assert not plan.reads_all("items") and not plan.reads_all("mentions")


async def test_a_small_tenant_is_searched_exactly(indexed: Resources) -> None:
    plan = await explained(indexed, who(SMALL, "many"), asked())
    assert not plan.uses("Index Scan", vector_storage.PREFIX)
    assert not plan.reads_all("vectors")


@of_one_server
async def test_a_large_tenant_is_searched_by_its_own_index(indexed: Resources) -> None:
    for seed in range(12):  # more often than the driver and the server wait before they keep a plan
        plan = await explained(indexed, who(LARGE, "many"), asked(seed, below=1_500))
        assert plan.uses("Index Scan", vector_storage.tenant_prefix(who(LARGE)))


async def test_a_user_with_few_items_in_a_large_tenant_is_searched_exactly(
    indexed: Resources, crowd: tuple[str, str]
) -> None:
    identity = who(LARGE, "user-7")  # sees 1,000 shared items and 80 of its own
    plan = await explained(indexed, identity, asked(below=1_500))
    assert not plan.uses("Index Scan", vector_storage.PREFIX)
    for seed in range(5):
        wanted = asked(seed, below=1_500)
        assert await nearest(indexed, identity, wanted) == exact(crowd[1], identity, wanted)


async def test_a_filter_that_leaves_little_is_searched_exactly_after_all(
    indexed: Resources, crowd: tuple[str, str]
) -> None:
    identity = who(LARGE, "user-7")  # has 80 items of its own, fewer than the arm may bring
    wanted = replace(asked(below=10), scopes=frozenset({AskedScope.USER}))  # so that the index is tried first
    assert await nearest(indexed, identity, wanted) == exact(crowd[1], identity, wanted)


@pytest.mark.parametrize("tenant", [SMALL, LARGE])
@pytest.mark.parametrize("user", ["many", "user-7", None])
async def test_the_nearest_of_a_tenant_among_many_are_found(
    indexed: Resources, crowd: tuple[str, str], tenant: str, user: str | None
) -> None:
    identity = who(tenant, user)
    found = due = 0
    for seed in range(10):
        wanted = asked(seed, below=1_500 if tenant == LARGE else None)
        right = exact(crowd[1], identity, wanted)
        found, due = found + len(await nearest(indexed, identity, wanted) & right), due + len(right)
    assert found / due >= (0.98 if tenant == LARGE else 1.0)


async def catalogue(resources: Resources) -> list[VectorIndex]:
    async with resources.database.transaction(who(LARGE)) as tx:
        return await vector_storage.list_indexes(tx)


@not_on_cluster("the coordinator does not know how many rows the index of a shard has")
async def test_an_index_is_built_for_a_large_tenant_only_and_once(indexed: Resources) -> None:
    before = await catalogue(indexed)
    for tenant in (SMALL, LARGE):
        await service.maintain(indexed, who(tenant))
    assert await catalogue(indexed) == before
    assert [index.is_valid for index in before] == [True]
    assert before[0].rows == EACH[LARGE]


async def test_an_interrupted_build_is_made_good(indexed: Resources, crowd: tuple[str, str]) -> None:
    (index,) = await catalogue(indexed)
    with psycopg.connect(crowd[1], autocommit=True) as connection:
        connection.execute(
            "UPDATE pg_index SET indisvalid = false WHERE indexrelid = %s::regclass", [f"recordari.{index.name}"]
        )
    await service.maintain(indexed, who(LARGE))
    assert [found.is_valid for found in await catalogue(indexed)] == [True]


async def test_a_tenant_that_shrank_loses_its_index(indexed: Resources, settings: Settings) -> None:
    large = replace(indexed, settings=settings.model_copy(update={"vector_index_from": 9_000}))
    await service.maintain(large, who(LARGE))
    assert await catalogue(indexed) == []


async def test_without_the_owners_connection_nothing_is_built(resources: Resources) -> None:
    await service.maintain(resources.replacing(VectorIndexes, None), who(OTHERS))
    prefix = vector_storage.tenant_prefix(who(OTHERS))
    assert not any(index.name.startswith(prefix) for index in await catalogue(resources))
    assert check_vector_indexes(owner_known=False).state is State.WARN
    assert check_vector_indexes(owner_known=True).state is State.OK


async def test_a_second_build_at_the_same_time_is_put_off(resources: Resources, crowd: tuple[str, str]) -> None:
    identity = who(OTHERS)
    with psycopg.connect(crowd[1], autocommit=True) as connection:
        connection.execute("SELECT pg_advisory_lock(%s)", [vector_storage.BUILD_LOCK])
        await service.maintain(resources, identity)
    assert not any(
        index.name.startswith(vector_storage.tenant_prefix(identity)) for index in await catalogue(resources)
    )
    waiting = await Memory(resources, identity).list_jobs()
    assert [job.job for job in waiting] == [service.JOB]


class Same:
    """An embedder for which every text means the same."""

    model_id = MODEL_ID
    dimensions = DIMENSIONS

    async def embed_query(self, text: str) -> np.ndarray:
        return np.full(DIMENSIONS, DIMENSIONS**-0.5, dtype=np.float32)

    async def embed_passages(self, texts: Sequence[str]) -> np.ndarray:
        return np.full((len(texts), DIMENSIONS), DIMENSIONS**-0.5, dtype=np.float32)

    async def close(self) -> None:
        pass


async def test_an_import_brings_one_look_at_the_index(resources: Resources) -> None:
    working = replace(resources, embedders=Embedders(Same(), lambda _: None))
    tenant = await tenants.ensure_tenant(working, "imported")
    memory = Memory(working, Identity(tenant_id=tenant.tenant_id, user_id=UserId("u"), role=Role.ADMIN))
    await memory.remember_many([NewItem(content=f"line {number}", scope=Scope.USER) for number in range(300)])
    await settled(memory)
    assert [job.job for job in await memory.list_jobs()] == [service.JOB]


async def test_the_index_waits_for_the_end_of_an_import(resources: Resources) -> None:
    few = resources.settings.model_copy(update={"vector_index_from": 200})
    working = replace(resources, settings=few, embedders=Embedders(Same(), lambda _: None))
    tenant = await tenants.ensure_tenant(working, "filled")
    identity = Identity(tenant_id=tenant.tenant_id, role=Role.ADMIN)
    memory = Memory(working, identity).acting_as(user="u")
    await memory.remember_many([NewItem(content=f"line {number}", scope=Scope.USER) for number in range(300)])
    await settled(memory)
    prefix = vector_storage.tenant_prefix(identity)
    await service.maintain_when_quiet(working, identity)
    assert not [index for index in await catalogue(working) if index.name.startswith(prefix)]
    assert [job.job for job in await Memory(working, identity).list_jobs()] == [service.JOB]
    later = replace(working, clock=lambda: datetime.now(UTC) + timedelta(minutes=3))
    await service.maintain_when_quiet(later, identity)
    assert [index for index in await catalogue(working) if index.name.startswith(prefix)]
    many = few.model_copy(update={"vector_index_from": 9_000})
    await service.maintain_when_quiet(replace(later, settings=many), identity)
    assert not [index for index in await catalogue(working) if index.name.startswith(prefix)]


def entry(identity: Identity, rows: int, model_id: str = MODEL_ID, *, is_valid: bool = True) -> VectorIndex:
    spec = IndexSpec(model_id=model_id, dimensions=DIMENSIONS, rows=rows)
    return VectorIndex(name=spec.name(identity), is_valid=is_valid, rows=rows)


def spec(rows: int, model_id: str = MODEL_ID) -> IndexSpec:
    return IndexSpec(model_id=model_id, dimensions=DIMENSIONS, rows=rows)


def test_the_index_of_a_model_no_longer_used_is_dropped() -> None:
    old = entry(who(LARGE), 4_000, "old@1")
    changes = decide(who(LARGE), [spec(4_000)], [old], least=2_000, most=50)
    assert changes == Changes(drop=(old,), build=(spec(4_000),))


def test_a_tenant_keeps_its_index_until_it_is_half_as_large() -> None:
    index = entry(who(LARGE), 2_000)
    assert decide(who(LARGE), [spec(1_000)], [index], least=2_000, most=50) == Changes()
    assert decide(who(LARGE), [spec(999)], [index], least=2_000, most=50) == Changes(drop=(index,))


def test_only_the_largest_tenants_have_an_index() -> None:
    others = [entry(who(f"tenant-{number}"), 3_000 + number) for number in range(5)]
    smaller, larger = spec(3_100), spec(9_000)
    assert decide(who(LARGE), [smaller], others, least=2_000, most=5) == Changes()
    assert decide(who(LARGE), [larger], others, least=2_000, most=5) == Changes(drop=(others[0],), build=(larger,))
    assert decide(who(LARGE), [larger], others, least=2_000, most=0) == Changes()
    own = entry(who(LARGE), 2_500)
    assert decide(who(LARGE), [spec(2_500)], [own, *others], least=2_000, most=5) == Changes(drop=(own,))


def test_a_small_tenant_is_always_searched_exactly_and_a_large_one_where_little_may_be_seen() -> None:
    assert exact_below(2_000, indexed_from=5_000) is None
    assert exact_below(5_000, indexed_from=5_000) == 3_000
    assert exact_below(1_000_000, indexed_from=5_000) == 36_000


def test_no_index_is_named_after_its_tenant() -> None:
    name = spec(1).name(who(LARGE))
    assert str(TenantId(tenant_id_of(LARGE)))[:8] not in name and len(name) < 63


@of_one_server
@pytest.mark.parametrize(
    ("query", "index", "column"),
    [
        (memory_storage.INSERT_ITEMS, "items_by_ref", "owned_by"),
        (sessions_storage.ADD_MESSAGES, "items_by_ref", "owned_by"),
        (recall_storage.queries.version, "memory_versions_pkey", "owner_class"),
        (
            snapshot_storage.filled(snapshot_storage.queries.owned_rows, history=True, archived=True),
            "memory_versions_pkey",
            "owner_class",
        ),
        (
            snapshot_storage.filled(snapshot_storage.queries.owned_rows, history=True, archived=True),
            "vectors_by_owner",
            "owner",
        ),
        (
            snapshot_storage.filled(snapshot_storage.queries.changed_rows, history=True, archived=True),
            "vectors_pkey",
            "item_id",
        ),
        (
            snapshot_storage.filled(snapshot_storage.queries.snapshot_rows, history=True, archived=True),
            "items_pkey",
            "item_id",
        ),
    ],
)
async def test_one_owners_rows_are_found_without_those_of_others(
    memory: Memory, query: Query, index: str, column: str
) -> None:
    """A condition that an index cannot check under row-level security reads the rows of every owner."""
    async with memory.acting_as(user="ana").resources.database.transaction(memory.acting_as(user="ana").identity) as tx:
        for setting in AS_SENT:
            await tx.run(setting)
        cursor = psycopg.AsyncRawCursor(tx._connection, row_factory=dict_row)
        await cursor.execute("EXPLAIN (GENERIC_PLAN, FORMAT JSON) " + query.numbered[0])
        (row,) = await cursor.fetchall()
    found = [node for node in _nodes(row["QUERY PLAN"][0]["Plan"]) if node.get("Index Name") == index]
    assert found and all(column in node["Index Cond"] for node in found), found


@of_one_server
async def test_one_owners_vectors_are_found_before_an_import_is_analysed(server: EmbeddedServer) -> None:
    query = snapshot_storage.filled(snapshot_storage.queries.owned_rows, history=True, archived=True)
    with (
        cloned_database(server) as name,
        psycopg.connect(server.dsn(database=name), autocommit=True, row_factory=dict_row) as connection,
    ):
        connection.execute("ALTER TABLE recordari.vectors SET (autovacuum_enabled = off)")
        load(connection, LARGE, 30_000)
        connection.execute("SET ROLE recordari_app; SET search_path = recordari, recordari_queue, public")
        cursor = psycopg.RawCursor(connection, row_factory=dict_row)
        cursor.execute("EXPLAIN (GENERIC_PLAN, FORMAT JSON) " + query.numbered[0])
        (row,) = cursor.fetchall()
    scans = [node for node in _nodes(row["QUERY PLAN"][0]["Plan"]) if node.get("Relation Name") == "vectors"]
    assert scans and {node.get("Index Name") for node in scans} == {"vectors_by_owner"}, scans
