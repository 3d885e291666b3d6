"""Every named query on a cluster answers as on one server: the same rows, the same values, the same answer.

A tenant is used on a database of the coordinator. A copy of that database stays on one server; the other is divided. A
statement gets its values from the rows of the tables that it names. `pytest -s` prints how many answered alike.
"""

from __future__ import annotations

import json
import re
import uuid
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import product
from typing import Any, cast

import psycopg
import pytest
from tests.db.statement_values import prepared, value_of
from tests.db.test_routing import distinct_statements
from tests.external_server import ExternalServer, on_cluster
from tests.lived_in import ANA, live_in

from recordari.app import Memory
from recordari.config import Settings
from recordari.core.identity import Identity, Role
from recordari.db import cluster, migrate
from recordari.db.address import APP_LOGIN
from recordari.db.queries import Query
from recordari.sharing import share
from recordari.tenants import tenants
from recordari.tenants.rules import AgentDefinition
from recordari.wiring import open_resources

# A cluster has its own; locks and bindings are no statements about rows.
ONE_SERVER_ALONE = {
    "db.outbox.claim_fresh",
    "db.outbox.claim_tried",
    "db.outbox.park_exhausted",
    "db.outbox.renew_leases",
}
NOT_ABOUT_ROWS = {"db.migrate.lock", "db.migrate.unlock", "db.pipeline.bind", "db.pipeline.bind_nodes"}
# Of the server itself: its process, its extensions, the numbers of its transactions.
OF_THE_SERVER = {
    "db.pool.server_process",
    "db.migrate.division",
    "db.pool.is_distributed",
    "db.pool.list_functions",
    "operations.storage.describe_server",
    "sessions.run_storage.find_owner_version",
}
NOT_COMPARED = ONE_SERVER_ALONE | NOT_ABOUT_ROWS | OF_THE_SERVER
ROLES = ("recordari_tenant", "recordari_retention", "recordari_readonly")
DOCUMENT = "# Ferries\n\nThe ferry to Kendwa leaves the western harbour at nine in the morning, and returns at five.\n"
CHOSEN = {
    **dict.fromkeys(("user", "who"), ANA),
    **dict.fromkeys(("limit", "most", "batch", "size"), "10"),
    "dimensions": "256",
    "vector": "[" + ",".join(["0.1"] * 256) + "]",
}
COUNTED = """SELECT format('%I.%I', n.nspname, c.relname) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    JOIN pg_attribute a ON a.attrelid = c.oid AND a.attname = 'tenant_id' AND NOT a.attisdropped
    WHERE n.nspname IN ('recordari', 'recordari_queue') AND c.relkind = 'r' ORDER BY 1"""


@dataclass(frozen=True, slots=True)
class Answered:
    """What a statement answered: its rows as text, and how many rows each table has then; or its error."""

    columns: tuple[tuple[str, ...], ...] = ()
    count: int = 0
    left: str = ""
    error: str = ""
    because: str = ""


@contextmanager
def beside(given: ExternalServer, settings: Settings) -> Iterator[tuple[Settings, str]]:
    """Settings of a database that can be divided, and its name; the copy that `copied` makes of it goes with it."""
    with given.undivided(settings) as (undivided, name):
        try:
            yield undivided, name
        finally:
            given.drop(f"single_{name}")


def copied(given: ExternalServer, name: str) -> str:
    """A copy of a database on the coordinator alone, as one server without Citus has it."""
    copy = f"single_{name}"
    with psycopg.connect(given.dsn(), autocommit=True) as connection:
        connection.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS false")
        connection.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", [name])
        connection.execute(f"CREATE DATABASE {copy} TEMPLATE {name} STRATEGY file_copy")
        connection.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS true")
    with psycopg.connect(given.dsn(database=copy), autocommit=True) as connection:
        connection.execute("SET client_min_messages = error; DROP EXTENSION citus CASCADE")
    return copy


async def used(settings: Settings) -> uuid.UUID:
    """Use the product in a tenant, and return its id."""
    async with open_resources(settings) as resources:
        tenant, other = [await tenants.ensure_tenant(resources, name) for name in ("matrix", "other")]
        memory, giver = (
            Memory(resources, Identity(tenant_id=one.tenant_id, role=Role.ADMIN)) for one in (tenant, other)
        )
        await memory.save_agent("support", AgentDefinition(core="You help."))
        source = await memory.add_source("harbour", description="Ferries.")
        await memory.protect_source(source.source_id)
        await memory.add_document("ferries.md", text=DOCUMENT, source="harbour")
        await memory.enqueue_job("measure_usage")
        for name in ("matrix", "other"):
            await share.add_member(resources, "guild", name)
        offered = await giver.remember_fact("The harbour opens at six.", scope="tenant")
        await giver.share([offered.id], ["matrix"])
        await memory.accept_share_link("other")
        await live_in(memory)
        await memory.create_webhook("https://192.0.0.9/hook")
        await memory.make_daily_brief()
        return tenant.tenant_id


@contextmanager
def login(given: ExternalServer, database: str) -> Iterator[psycopg.Connection[Any]]:
    """A connection as the application."""
    address = given.dsn(user=APP_LOGIN, database=database)
    with psycopg.connect(address, autocommit=True, prepare_threshold=None) as connection:
        connection.execute("SET search_path = recordari, recordari_queue, public; SET client_min_messages = error")
        yield connection


def known_rows(connection: psycopg.Connection[Any], tenant_id: uuid.UUID) -> dict[str, dict[str, str]]:
    """A row of each table, with its values as text."""
    found: dict[str, dict[str, str]] = {}
    for (name,) in connection.execute(COUNTED).fetchall():
        row = connection.execute(
            f"SELECT to_jsonb(t) FROM {name} t WHERE tenant_id = %s ORDER BY to_jsonb(t)::text LIMIT 1", [tenant_id]
        ).fetchone()
        if row is not None:
            found[name.partition(".")[2]] = {
                column: value if isinstance(value, str) else json.dumps(value)
                for column, value in row[0].items()
                if value is not None and not isinstance(value, list)
            }
    return found


def values_for(query: Query, rows: Mapping[str, dict[str, str]]) -> dict[str, str]:
    """Values by name: first those of the tables that the statement names, in their order, then those of any."""
    named = [name for name in re.findall(r"\b[a-z_]+\b", query.sql) if name in rows]
    values: dict[str, str] = {}
    for table in [*named, *sorted(rows)]:
        for column, value in rows[table].items():
            values.setdefault(column, value)
    return {**values, **CHOSEN, **dict.fromkeys(("tenant", "of"), values["tenant_id"])}


NEW = {
    "uuid": "01900000-0000-7000-8000-00000000000a",
    "close_reason": "ended",
    "reason": "ended",
    "status": "todo",
    "engine": "sqlite",
    "vector": "[0.1]",
    "after": "00000000-0000-0000-0000-000000000000",
    "path": "$",
    "filter": "$",
    "subject": "user",
}


def candidates(query: Query, rows: Mapping[str, dict[str, str]], types: list[str]) -> Iterator[list[str | None]]:
    """Values to try, until one server takes them: of the rows that are there, of others, for rows that are new."""
    names = query.numbered[1]
    there = values_for(query, rows)
    own = {name: there[name] for name in ("tenant_id", "user_id", "owned_by") if name in there}
    row = next((rows[name] for name in re.findall(r"\b[a-z_]+\b", query.sql) if name in rows), {})
    others = {name: value for name, value in NEW.items() if name != "uuid"}
    fresh = {name: NEW["uuid"] for name, of_type in zip(names, types, strict=True) if of_type in {"uuid", "uuid[]"}} | {
        name.removesuffix("s"): NEW["uuid"] for name, of_type in zip(names, types, strict=True) if of_type == "uuid[]"
    }
    lists = {
        name: json.dumps([row]) for name, of_type in zip(names, types, strict=True) if of_type in {"jsonb", "json"}
    }
    for known in (there, there | others, there | lists, there | fresh | own, CHOSEN | others | own):
        yield [value_of(each, of_type, known) for each, of_type in zip(names, types, strict=True)]


def answer_of(
    connection: psycopg.Connection[Any],
    query: Query,
    values: list[str | None],
    tenant_id: uuid.UUID,
    role: str,
    count: str,
) -> Answered:
    try:
        with connection.transaction(force_rollback=True):
            connection.execute("SELECT recordari.bind_nodes(%s, %s, %s)", [str(tenant_id), ANA, role])
            with psycopg.RawCursor(connection) as cursor:
                cursor.execute(query.numbered[0], values)
                found = cursor.fetchall() if cursor.description else []
                columns = tuple(tuple(sorted(map(repr, column))) for column in zip(*found, strict=True))
                touched = cursor.rowcount
            left = ""
            if re.search(r"\b(INSERT|UPDATE|DELETE|MERGE)\b", query.sql) and role != "recordari_readonly":
                left = str(connection.execute(count, {"tenant_id": tenant_id}).fetchall())
            return Answered(columns=columns, count=touched, left=left)
    except psycopg.Error as error:
        return Answered(error=type(error).__name__, because=str(error).partition("\n")[0])


def differs(first: Answered, again: Answered, other: Answered) -> bool:
    """Whether a cluster answered otherwise. Columns that differ between two tries on one server are of the moment."""
    if first.error or other.error:
        return bool(first.error) != bool(other.error)
    if (first.count, first.left) != (other.count, other.left):
        return True
    return any(a == b != c for a, b, c in zip(first.columns, again.columns, other.columns, strict=True))


def tried(
    connection: psycopg.Connection[Any],
    query: Query,
    tenant_id: uuid.UUID,
    rows: Mapping[str, dict[str, str]],
    count: str,
) -> tuple[Answered, list[str | None], str]:
    """The first values and the first role with which a statement meets rows on one server; else with which it answers."""
    best: tuple[Answered, list[str | None], str] | None = None
    for values, role in product(candidates(query, rows, prepared(connection, query) or []), ROLES):
        answer = answer_of(connection, query, values, tenant_id, role, count)
        if not answer.error and answer.count > 0:
            return answer, values, role
        if best is None or (best[0].error and not answer.error):
            best = answer, values, role
    assert best is not None
    return best


def counting(owner: psycopg.Connection[Any]) -> str:
    """The statement that counts the rows of a tenant in each table."""
    tables = [name for (name,) in owner.execute(COUNTED).fetchall() if not name.startswith("recordari_queue.p")]
    each = (f"SELECT '{name}' AS name, count(*) FROM {name} WHERE tenant_id = %(tenant_id)s" for name in tables)
    return " UNION ALL ".join(each)


@on_cluster
@pytest.mark.timeout(900)
async def test_every_statement_answers_as_on_one_server(server: Any, settings: Settings) -> None:
    given = cast("ExternalServer", server)
    told: Counter[str] = Counter()
    differing: dict[str, tuple[Answered, Answered]] = {}
    failing: dict[str, str] = {}
    with beside(given, settings) as (whole, name):
        await migrate.prepare(given.dsn(database=name), login=APP_LOGIN)
        tenant_id = await used(whole)
        copy = copied(given, name)
        await cluster.distribute(given.dsn(database=name), shards=4)
        with psycopg.connect(given.dsn(database=copy)) as owner:
            rows, count = known_rows(owner, tenant_id), counting(owner)
        with login(given, copy) as single, login(given, name) as divided:
            for query in distinct_statements():
                if query.name in NOT_COMPARED or prepared(single, query) is None:
                    told["not compared"] += 1
                    continue
                first, values, role = tried(single, query, tenant_id, rows, count)
                again = answer_of(single, query, values, tenant_id, role, count)
                other = answer_of(divided, query, values, tenant_id, role, count)
                if differs(first, again, other):
                    differing[query.name] = (first, other)
                elif first.error:
                    failing[query.name] = first.because
                else:
                    told["alike, with rows" if first.count > 0 else "alike, without rows"] += 1
    print(f"\n{dict(told)}, both fail {len(failing)}, differ {len(differing)}")
    for statement, reason in failing.items():
        print(f"both fail: {statement}: {reason}")
    for statement, answers in differing.items():
        print(f"differs: {statement}", *answers, sep="\n    ")
    assert not differing
    assert told["alike, with rows"] > 300 and len(failing) < 30
