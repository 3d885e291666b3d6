"""The schema as the catalogue tells it: isolation on every table, every query prepares and is used."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from tests.conftest import cloned_database
from tests.stored import rows

import recordari
from recordari.config import Settings
from recordari.core.identity import AskedScope
from recordari.db.queries import Queries, Query
from recordari.memory import storage as memory_storage
from recordari.recall import storage as recall_storage
from recordari.recall.storage import Search
from recordari.sessions import storage as sessions_storage

SOURCE = Path(recordari.__file__).parent
NOT_OF_A_TENANT = {"schema_migrations"}
ENGINES = SOURCE / "databases"  # its other files hold queries for the databases of users
FILES = sorted(
    path
    for path in SOURCE.rglob("*.sql")
    if path.read_text().startswith("-- name:")
    and (path.parent != ENGINES or path.stem == "storage")
    and path.relative_to(SOURCE) != Path("db/cluster.sql")  # for a server with Citus: `test_cluster.py` runs them
)


def test_every_tenant_table_forces_row_level_security(settings: Settings) -> None:
    found = rows(
        settings,
        """SELECT c.relname, c.relrowsecurity, c.relforcerowsecurity,
               (SELECT count(*) FROM pg_policy p WHERE p.polrelid = c.oid) AS policies,
               EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attname = 'tenant_id' AND a.attnotnull)
                   AS has_tenant
           FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
           WHERE n.nspname = 'recordari' AND c.relkind IN ('r', 'p')""",
    )
    tables = {row["relname"]: row for row in found if row["relname"] not in NOT_OF_A_TENANT}
    assert "tenants" in tables and "audit" in tables
    for name, row in tables.items():
        assert row["relrowsecurity"] and row["relforcerowsecurity"] and row["policies"] and row["has_tenant"], name


def test_every_policy_binds_the_tenant(settings: Settings) -> None:
    policies = rows(
        settings,
        """SELECT polname, polrelid::regclass::text AS table_name, pg_get_expr(polqual, polrelid) AS condition,
               pg_get_expr(polwithcheck, polrelid) AS checked, polroles::regrole[]::text AS roles
           FROM pg_policy p JOIN pg_class c ON c.oid = p.polrelid JOIN pg_namespace n ON n.oid = c.relnamespace
           WHERE n.nspname = 'recordari'""",
    )
    assert policies
    for policy in policies:
        if policy["roles"] in {"{recordari.recordari_owner}", "{recordari_owner}", "{recordari_search}"}:
            continue  # not roles that a request ever acts under
        for condition in filter(None, [policy["condition"], policy["checked"]]):
            assert "tenant_id = " in condition and "current_tenant()" in condition, policy


def test_every_key_and_foreign_key_begins_with_the_tenant(settings: Settings) -> None:
    found = rows(
        settings,
        """SELECT i.indexrelid::regclass::text AS index_name,
               (SELECT attname FROM pg_attribute a WHERE a.attrelid = i.indrelid AND a.attnum = i.indkey[0]) AS first
           FROM pg_index i JOIN pg_class c ON c.oid = i.indrelid JOIN pg_namespace n ON n.oid = c.relnamespace
           WHERE n.nspname = 'recordari' AND i.indisunique AND c.relname <> 'schema_migrations'""",
    )
    assert found and all(row["first"] == "tenant_id" for row in found), found
    keys = rows(
        settings,
        """SELECT conname, (SELECT attname FROM pg_attribute a WHERE a.attrelid = conrelid AND a.attnum = conkey[1]) AS first
           FROM pg_constraint k JOIN pg_namespace n ON n.oid = k.connamespace
           WHERE n.nspname = 'recordari' AND contype = 'f'""",
    )
    assert keys and all(key["first"] == "tenant_id" for key in keys), keys


def test_the_application_cannot_alter_the_audit(settings: Settings) -> None:
    (privileges,) = rows(
        settings,
        """SELECT bool_or(has_table_privilege(r, 'recordari.audit', p)) AS held
           FROM unnest(ARRAY['recordari_app', 'recordari_retention', 'recordari_readonly']) r,
                unnest(ARRAY['UPDATE', 'DELETE', 'TRUNCATE']) p""",
    )
    assert privileges["held"] is False


def views_past_policies(settings: Settings) -> list[str]:
    """Views that read with the rights of their owner, and those that keep a copy."""
    found = rows(
        settings,
        """SELECT relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
           WHERE n.nspname = 'recordari' AND (relkind = 'm' OR relkind = 'v' AND NOT coalesce(reloptions, '{}') && ARRAY[
               'security_invoker=true', 'security_invoker=on', 'security_invoker=1', 'security_invoker=yes'])
           ORDER BY 1""",
    )
    return [row["relname"] for row in found]


def test_no_view_reads_with_its_owners_rights(settings: Settings) -> None:
    assert views_past_policies(settings) == []
    owner = settings.database_owner_url
    assert owner is not None
    with psycopg.connect(
        owner.get_secret_value(), autocommit=True
    ) as connection:  # the question itself must not be idle
        connection.execute("CREATE VIEW recordari.theirs AS SELECT content FROM recordari.items")
        connection.execute("CREATE MATERIALIZED VIEW recordari.copied AS SELECT content FROM recordari.items")
        connection.execute("CREATE VIEW recordari.ours WITH (security_invoker) AS SELECT content FROM recordari.items")
    assert views_past_policies(settings) == ["copied", "theirs"]


def every_query() -> list[Query]:
    return [query for path in FILES for query in Queries(module_of(path))]


def module_of(path: Path) -> str:
    return ".".join(path.relative_to(SOURCE.parent).with_suffix("").parts)


def every_statement() -> list[Query]:
    """Queries as they are sent: fragments stand inside the statements they belong to, some are for a cluster alone."""
    elsewhere = ("Fragment:", "Cluster:")
    whole = [query for query in every_query() if not query.purpose.startswith(elsewhere) and "{" not in query.sql]
    asked = Search(
        terms={}, vector=None, model_id="", entity_keys=[], interval=None, kinds=[], scopes=frozenset(), as_of=None
    )
    moment = datetime(2026, 1, 1, tzinfo=UTC)
    every = replace(asked, scopes=frozenset({AskedScope.HISTORY}), source_id=uuid4())
    variants = [
        variant
        for each in (asked, every)
        for variant in (
            each,
            replace(each, archived=False),
            replace(each, as_of=moment),
            replace(each, known_at=moment),
            replace(each, include_superseded=True),
        )
    ]
    sent = [recall_storage.statement(variant) for variant in variants]
    sent += [
        recall_storage.nearest_statement(variant, by_index=by_index)
        for variant in variants
        for by_index in (False, True)
    ]
    early = [query for variant in variants for query in recall_storage.early_queries(variant).values()]
    of_passages = [recall_storage.passages_statement(variant) for variant in variants]
    written = [memory_storage.INSERT_ITEMS, sessions_storage.ADD_MESSAGES]
    return [*whole, *sent, *early, *of_passages, *written]


@pytest.mark.parametrize("query", every_statement(), ids=lambda query: query.name)
def test_every_query_prepares_on_the_migrated_schema(query: Query, prepared_connection: Any) -> None:
    positions: dict[str, int] = {}

    def numbered(match: re.Match[str]) -> str:
        return f"${positions.setdefault(match.group(1), len(positions) + 1)}"

    statement = re.sub(r"%\((\w+)\)[sb]", numbered, query.sql).replace("%%", "%")
    if statement.split()[0] in {"SET", "LISTEN", "NOTIFY", "CREATE", "GRANT", "CHECKPOINT"}:
        with prepared_connection.transaction(force_rollback=True):  # a role that it takes is not the next one's
            prepared_connection.execute(statement)
    else:
        prepared_connection.execute(f"PREPARE probe AS {statement}")
        prepared_connection.execute("DEALLOCATE probe")


@pytest.fixture(scope="module")
def prepared_connection(server: Any) -> Any:
    with cloned_database(server) as name, psycopg.connect(server.dsn(database=name), autocommit=True) as connection:
        connection.execute("SET search_path = recordari, recordari_queue, public")
        yield connection


@pytest.mark.parametrize("path", FILES, ids=module_of)
def test_every_query_is_used_by_the_module_beside_it(path: Path) -> None:
    source = path.with_suffix(".py").read_text()
    used = set(re.findall(r"\bqueries\.(\w+)", source))
    assert {query.name.rpartition(".")[2] for query in Queries(module_of(path))} == used


SAMPLED = {
    *("kind", "scope", "tier", "trust", "status", "type", "role", "plan", "language", "model_id", "embedding_model"),
    *("embedding_target", "owner_kind", "currency", "media_type", "opinion", "close_reason", "engine", "agent_type"),
    *("task_type", "subject_kind", "action"),
}
"""Columns whose values are words of ours; the planner may keep samples of them."""
SAMPLED_IDS = {"user_id", "agent_id", "session_id", "run_id", "thread"}
"""Of items and vectors: large tables are read by them. An erasure takes new samples."""


def test_the_planner_keeps_no_samples_of_what_people_say(prepared_connection: psycopg.Connection[Any]) -> None:
    """A migration that adds a column of text ends with `SELECT sample_no_text()`."""
    sampled = prepared_connection.execute(
        """SELECT c.relname, a.attname FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid
           JOIN pg_type t ON t.oid = a.atttypid
           WHERE c.relnamespace = 'recordari'::regnamespace AND c.relkind IN ('r', 'p') AND a.attnum > 0
               AND NOT a.attisdropped AND a.attstattarget IS DISTINCT FROM 0
               AND t.typname IN ('text', '_text', 'varchar', 'json', 'jsonb', 'tsvector', 'bytea')"""
    ).fetchall()
    assert [
        f"{table}.{column}"
        for table, column in sampled
        if column not in SAMPLED and not (table in {"items", "vectors"} and column in SAMPLED_IDS)
    ] == []


def test_the_planner_expects_many_rows_of_every_tenant(prepared_connection: psycopg.Connection[Any]) -> None:
    unprepared = prepared_connection.execute(
        """SELECT c.oid::regclass::text FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid
           WHERE a.attname = 'tenant_id' AND c.relkind IN ('r', 'p') AND c.relname <> 'tenants'
               AND c.relnamespace IN ('recordari'::regnamespace, 'recordari_queue'::regnamespace)
               AND a.attoptions IS DISTINCT FROM '{n_distinct=-0.001}'"""
    ).fetchall()
    assert unprepared == []
