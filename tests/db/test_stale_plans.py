"""Export, erasure and retention do no more work than the tenant has rows, whatever the planner believes about the tables.

A table that was filled since its last ANALYZE, or never had one, is small to the planner. A join that is right for a few
rows then goes through all of them once for each row. Every statement runs here on tables that are full and said to be
nearly empty, and the rows that each step of its plan touches are counted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from hashlib import md5
from pathlib import Path
from typing import Any
from uuid import UUID

import psycopg
import pytest
from pydantic import SecretStr
from tests.conftest import cloned_database
from tests.external_server import not_on_cluster

from recordari.config import Settings
from recordari.core.identity import Identity, Role, tenant_id_of
from recordari.core.ids import FIRST
from recordari.db.address import APP_LOGIN
from recordari.db.database import RETENTION_ROLE
from recordari.db.embedded.server import EmbeddedServer
from recordari.db.queries import Query
from recordari.kit.resources import Resources
from recordari.lifetime import storage as lifetime_storage
from recordari.tenants.rules import SETTING as QUOTAS
from recordari.transfer import storage as transfer_storage

ROWS = 10_000  # of every table
PAGE = 500
MOST_WORK = 4 * ROWS  # rows that one step of a plan may touch: reads of whole tables, and not of their product
TENANT = "full"

pytestmark = not_on_cluster("it looks at the plans of one server, in tables that it fills past their keys")

# Columns that join tables; all others get any value of their type.
VALUES = {
    "tenant_id": f"'{tenant_id_of(TENANT)}'::uuid",
    "item_id": "md5('item' || n)::uuid",
    "source_item_id": "md5('item' || (n * 7) % {rows} + 1)::uuid",
    "superseded_by": "NULL",
    "user_id": "CASE WHEN n % 3 > 0 THEN 'user-' || n % 5 END",
    "session_id": "'session-' || n % 2000",
    "session_ref": "md5('session' || n)::uuid",
    "run_id": "'run-' || n % 2000",
    "thread": "'session:session-' || n % 2000",
    "position": "n",
    "source_id": "md5('source' || n)::uuid",
    "document_id": "md5('document' || n)::uuid",
    "workflow_id": "md5('workflow' || n % 500)::uuid",
    "proposal_id": "md5('proposal' || n % 2000)::uuid",
    "entity_id": "md5('entity' || n % 2000)::uuid",
    "ref": "md5('item' || n)::uuid",
    "result_id": "md5('item' || n)::uuid",
    "given_by": "'user:user-' || n % 5",
    "scope": "(ARRAY['session', 'user', 'agent', 'tenant'])[n % 4 + 1]",
    "tier": "(ARRAY['run', 'session', 'recent', 'persistent'])[n % 4 + 1]",
    "kind": "(ARRAY['chat_message', 'fact', 'episode'])[n % 3 + 1]",
    "owner_kind": "(ARRAY['session', 'run'])[n % 2 + 1]",
    "owner_id": "'user-' || n",
    "deleted_at": "CASE WHEN n % 10 = 0 THEN now() END",
    "anonymized_at": "CASE WHEN n % 10 = 1 THEN now() END",
    "closed_at": "now()",
    "salt": "'\\x00'",
}
# One table of each: the keys must be distinct there.
DISTINCT = {
    "sessions": {"session_id": "'session-' || n"},
    "turn_states": {"session_id": "'session-' || n"},
    "runs": {"run_id": "'run-' || n"},
    "users": {"user_id": "'user-' || n"},
    "profiles": {"user_id": "'user-' || n", "owner_id": "'user-' || n"},
    "question_answers": {"user_id": "'user-' || n"},
    "workflows": {"workflow_id": "md5('workflow' || n)::uuid"},
    "proposals": {"proposal_id": "md5('proposal' || n)::uuid"},
    "entities": {"entity_id": "md5('entity' || n)::uuid"},
    "payloads": {"document_id": "NULL"},
}
TYPES = {
    "text": "'{column}-' || n",
    "uuid": "md5('{column}' || n)::uuid",
    "timestamp with time zone": "now()",
    "integer": "n % 1000",
    "bigint": "n",
    "smallint": "1",
    "numeric": "1",
    "double precision": "0.5",
    "real": "0.5",
    "boolean": "false",
    "jsonb": "'{{}}'::jsonb",
    "json": "'{{}}'::json",
    "bytea": "decode(md5('{column}' || n), 'hex')",
    "date": "current_date - n",
    "tsvector": "''::tsvector",
    "ARRAY": "'{{}}'",
    "xid8": "'1'::xid8",
}


def fill(connection: psycopg.Connection, rows: int) -> None:
    """The first rows of every table of a tenant."""
    tables = connection.execute(
        "SELECT table_name, array_agg(ARRAY[column_name, data_type, udt_name, is_nullable, COALESCE(column_default, '')]) "
        "FROM information_schema.columns JOIN information_schema.tables USING (table_schema, table_name) WHERE "
        "table_schema = 'recordari' AND table_type = 'BASE TABLE' AND is_generated = 'NEVER' AND is_identity = 'NO' "
        "GROUP BY 1 HAVING bool_or(column_name = 'tenant_id')"
    ).fetchall()
    for table, columns in tables:
        values: dict[str, str] = {}
        for column, data_type, udt, nullable, default in columns:
            given = DISTINCT.get(table, {}).get(column) or VALUES.get(column)
            if column == "user_id" and nullable == "NO" and table not in DISTINCT:
                given = "'user-' || n % 5"
            if given is None and (nullable == "YES" or default):
                continue
            plain = TYPES.get(data_type) or TYPES.get(udt)
            if given is None and plain is None:
                given = "(SELECT array_agg(random() + 0 * n + 0 * g) FROM generate_series(1, 4) g)::vector::halfvec"
            values[column] = (given or plain or "").format(column=column, rows=rows)
        source = f"SELECT {', '.join(values.values())} FROM generate_series(1, {1 if table == 'tenants' else rows}) n"
        connection.execute(f"INSERT INTO {table} ({', '.join(values)}) {source} ON CONFLICT DO NOTHING")


@pytest.fixture(scope="module", params=["never analysed", "analysed when it was empty"])
def full(request: pytest.FixtureRequest, server: EmbeddedServer) -> Iterator[tuple[str, str]]:
    with cloned_database(server) as name:
        owner = server.dsn(database=name)
        with psycopg.connect(owner, autocommit=True) as connection:
            connection.execute(
                "SET search_path = recordari, recordari_queue, public; SET session_replication_role = replica"
            )
            names = connection.execute(
                "SELECT c.oid::regclass::text, array_remove(array_agg(quote_ident(k.conname)), NULL) "
                "FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace "
                "LEFT JOIN pg_constraint k ON k.conrelid = c.oid AND k.contype = 'c' "
                "WHERE n.nspname IN ('recordari', 'recordari_queue') AND c.relkind = 'r' GROUP BY 1"
            ).fetchall()
            for table, checks in names:
                connection.execute(f"ALTER TABLE {table} SET (autovacuum_enabled = off)")
                for check in checks:
                    connection.execute(f"ALTER TABLE {table} DROP CONSTRAINT {check}")
            if request.param != "never analysed":
                fill(connection, 1)
                connection.execute("ANALYZE")
            fill(connection, ROWS)
        yield server.dsn(user=APP_LOGIN, database=name), owner


@pytest.fixture
def settings(full: tuple[str, str], tmp_path: Path) -> Settings:
    dsn, owner = full
    return Settings(
        home=tmp_path,
        database_url=SecretStr(dsn),
        database_owner_url=SecretStr(owner),
        embedding_provider="none",
        auto_migrate=False,
    )


def named(kind: str, numbers: range) -> list[UUID]:
    return [UUID(md5(f"{kind}{number}".encode()).hexdigest()) for number in numbers]


NOW = datetime.now(UTC)
ARGUMENTS: dict[str, Any] = {
    "tenant_id": tenant_id_of(TENANT),
    "user_id": "user-1",
    "agent_id": "agent_id-1",
    "owned_by": "user:user-1",
    "owners": ["user:user-1"] * 200,
    "item_id": named("item", range(7, 8))[0],
    "item_ids": named("item", range(1, 301)),
    "entity_ids": named("entity", range(1, 301)),
    "session_id": "session-1",
    "session_ids": [f"session-{number}" for number in range(1, 201)],
    "session_refs": named("session", range(1, 201)),
    "run_ids": [f"run-{number}" for number in range(1, 201)],
    "after": FIRST,
    "before": NOW + timedelta(days=1),
    "now": NOW,
    "recalled_since": NOW,
    "limit": PAGE,
    "redacted": "[REDACTED]",
    "token": "0123456789abcdef",
    "keep_place": True,
    "object_keys": [f"object_key-{number}" for number in range(1, 301)],
    "ids": ["user-1", "session-1"],
    "summary_id": None,
    "quotas": QUOTAS,
}
# The other statements act under the role of retention.
AS_APPLICATION = frozenset("list_recent archive_faded promote_items count_held delete_jobs list_used_objects".split())
# Statements that read or change what they are given by its key, or nothing of the tables.
OTHERS = frozenset(
    """reset_summary insert_hold delete_hold list_holds start_erasure find_erasure list_erasures has_older_writers progress
    finish_erasure find_salt set_salt insert_tombstones renew_samples""".split()
)


def literal(value: Any) -> str:
    match value:
        case None:
            return "NULL"
        case bool() | int():
            return str(value)
        case bytes():
            return f"'\\x{value.hex()}'"
        case list():
            return "'{" + ",".join(str(each) for each in value) + "}'"
        case _:
            return f"'{value}'"


async def most_work(
    resources: Resources, query: Query, arguments: Mapping[str, Any], *, role: str | None, generic: bool
) -> tuple[float, str]:
    """The rows that the busiest step of the plan touches, and what that step is."""
    text, names = query.numbered
    identity = Identity(tenant_id=tenant_id_of(TENANT), role=Role.ADMIN)
    given = ", ".join(literal(arguments[name]) for name in names)
    steps: list[tuple[float, str]] = []

    def statement(sql: str) -> Query:
        return Query("tests.explained", "One step.", sql.replace("%", "%%"))

    async with resources.database.transaction(identity, role=role) as tx:
        mode = "force_generic_plan" if generic else "force_custom_plan"
        await tx.run(statement(f"SET LOCAL plan_cache_mode = {mode}"))
        await tx.run(statement(f"PREPARE explained AS {text}"))
        await tx.run(statement("SAVEPOINT before"))
        (row,) = await tx.dicts(statement(f"EXPLAIN (ANALYZE, TIMING OFF, FORMAT JSON) EXECUTE explained({given})"))
        await tx.run(statement("ROLLBACK TO before"))
        await tx.run(statement("DEALLOCATE explained"))
    for node in _nodes(row["QUERY PLAN"][0]["Plan"]):
        if node["Node Type"] == "Bitmap Index Scan" and node["Actual Loops"] == 1:
            continue  # it also counts what earlier statements of this test wrote and took back
        rows = node["Actual Rows"] + sum(value for key, value in node.items() if key.startswith("Rows Removed"))
        label = f"{node['Node Type']} {node.get('Relation Name', node.get('Index Name', ''))}"
        steps.append((rows * node["Actual Loops"], label))
    return max(steps)


def _nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for child in plan.get("Plans", []):
        yield from _nodes(child)


@pytest.mark.parametrize("generic", [False, True], ids=["planned each time", "planned once"])
@pytest.mark.parametrize("user_id", [None, "user-1"], ids=["tenant", "user"])
async def test_no_export_depends_on_fresh_statistics(user_id: str | None, generic: bool, resources: Resources) -> None:
    work = {
        kind: await most_work(
            resources, query, {**ARGUMENTS, "user_id": user_id, "after": ""}, role=None, generic=generic
        )
        for kind, query in transfer_storage.EXPORTED.items()
    }
    assert not {kind: step for kind, step in work.items() if step[0] > MOST_WORK}


@pytest.mark.parametrize("generic", [False, True], ids=["planned each time", "planned once"])
async def test_no_erasure_and_no_retention_depends_on_fresh_statistics(generic: bool, resources: Resources) -> None:
    work = {}
    for query in lifetime_storage.queries:
        name = query.name.rpartition(".")[2]
        if name not in OTHERS:
            arguments = {**ARGUMENTS, "after": b"" if name == "list_tombstones" else FIRST}
            role = None if name in AS_APPLICATION else RETENTION_ROLE
            work[name] = await most_work(resources, query, arguments, role=role, generic=generic)
    assert not {name: step for name, step in work.items() if step[0] > MOST_WORK}
