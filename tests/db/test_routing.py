"""Rules that let one statement be answered by the node that holds a tenant, checked on plain PostgreSQL.

A cluster that is divided by tenant sends a statement to one node if every table in it, also in a subquery, is compared with
the tenant's value itself. A comparison with another table's tenant is not enough there. What such a cluster refuses, or answers
otherwise than one server, is looked for in the text of every statement and of every function that a node runs.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import psycopg
import pytest
import sqlglot
from sqlglot import exp
from tests.conftest import cloned_database
from tests.db.test_schema import every_statement

from recordari.db.queries import Query

STATEMENTS = (exp.Select, exp.Update, exp.Delete, exp.Insert, exp.Merge)
# An operator reads them for all tenants at once, in no tenant's name.
OF_ALL_TENANTS = {"sharing.storage.list_members", "tenants.storage.list_tenants"}
# They stay on the coordinator.
OF_COORDINATOR = {"procrastinate_jobs", "procrastinate_workers", "job_failures", "schedules", "schema_migrations"}
_PLACEHOLDER = re.compile(r"%\((\w+)\)[sb]")
_DISTANCE = re.compile(r"<[#=~+-]>")


def distinct_statements() -> list[Query]:
    return list({query.name: query for query in every_statement()}.values())


@pytest.fixture(scope="module")
def tables_of_tenants(server: Any) -> set[str]:
    with cloned_database(server) as name, psycopg.connect(server.dsn(database=name)) as connection:
        found = connection.execute(
            """SELECT c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
               WHERE n.nspname = 'recordari' AND c.relkind IN ('r', 'p') AND c.relname <> 'schema_migrations'"""
        )
        return {name for (name,) in found}


@cache
def parsed(text: str) -> list[exp.Expr]:
    readable = _DISTANCE.sub("-", _PLACEHOLDER.sub(r"given_\1()", text).replace("%%", "%"))
    return [tree for tree in sqlglot.parse(readable, dialect="postgres") if tree is not None]


def statement_of(node: exp.Expr) -> exp.Expr | None:
    """The nearest statement or subquery around a node."""
    while (parent := node.parent) is not None:
        if isinstance(parent, STATEMENTS):
            return parent
        node = parent
    return None


def is_bound(table: exp.Table) -> bool:
    """Whether a table is compared with a tenant's value in its own statement; what is inserted brings its tenant along."""
    around = statement_of(table)
    if around is None or isinstance(around, exp.Insert):
        return True
    for equal in around.find_all(exp.EQ):
        if statement_of(equal) is around:
            for side, other in ((equal.left, equal.right), (equal.right, equal.left)):
                if not isinstance(side, exp.Column) or side.name != "tenant_id":
                    continue
                if side.table in {"", table.alias_or_name} and other.find(exp.Column) is None:
                    return True
    return False


def unbound_tables(text: str, tables: set[str]) -> Iterator[str]:
    for tree in parsed(text):
        made_here = {part.alias for part in tree.find_all(exp.CTE)}
        for table in tree.find_all(exp.Table):
            is_ours = table.name in tables and table.db in {"", "recordari"} and table.name not in made_here
            if is_ours and not is_bound(table):
                yield table.alias_or_name


def test_every_table_is_compared_with_the_value_of_the_tenant(tables_of_tenants: set[str]) -> None:
    unbound = {query.name: list(unbound_tables(query.sql, tables_of_tenants)) for query in distinct_statements()}
    assert {name for name, tables in unbound.items() if tables} == OF_ALL_TENANTS, unbound


def test_no_subquery_has_rows_without_columns() -> None:
    assert not [query.name for query in distinct_statements() if re.search(r"\(\s*SELECT\s+FROM\b", query.sql)]


def silent_inserts(text: str) -> Iterator[str]:
    """Tables that a query's rows are inserted into, without an answer."""
    for tree in parsed(text):
        for insert in tree.find_all(exp.Insert):
            table = insert.this.find(exp.Table)
            copies = isinstance(insert.expression, exp.Query) and not insert.args.get("returning")
            if copies and table.name not in OF_COORDINATOR:
                yield table.name


def test_what_inserts_the_rows_of_a_query_returns_them() -> None:
    """Without an answer such rows are copied to the node, which row-level security forbids, and are counted wrongly."""
    silent = {query.name: list(silent_inserts(query.sql)) for query in distinct_statements()}
    assert {name: tables for name, tables in silent.items() if tables} == {}


def clocks_in_conditions(text: str) -> Iterator[str]:
    """Where a change takes the time of the statement inside a condition, or in place of a row that is there."""
    for tree in parsed(text):
        for change in tree.find_all(exp.Update, exp.OnConflict):
            if isinstance(change, exp.Update) and change.this.name in OF_COORDINATOR:
                continue
            insert = change.find_ancestor(exp.Insert)
            if insert is not None and insert.this.find(exp.Table).name in OF_COORDINATOR:
                continue
            for value in change.args.get("expressions") or []:
                for clock in value.find_all(exp.CurrentTimestamp):
                    around = clock.find_ancestor(exp.Case, exp.Coalesce, exp.Greatest, exp.Least, exp.Select)
                    if not isinstance(around, exp.Select) and (
                        around is not None or isinstance(change, exp.OnConflict)
                    ):
                        yield value.sql()


def test_a_change_reads_the_clock_once_and_outside_conditions() -> None:
    """A cluster refuses a function of the moment there: write `(SELECT now())` or `excluded.…`."""
    found = {query.name: list(clocks_in_conditions(query.sql)) for query in distinct_statements()}
    assert {name: values for name, values in found.items() if values} == {}


def reads_beside_writes(text: str) -> Iterator[str]:
    """Tables that a statement reads beside a part that writes them, and not before it in a part of its own."""
    for tree in parsed(text):
        parts = [(part.this, bool(part.args.get("materialized"))) for part in tree.find_all(exp.CTE)]
        written = {
            part.this.find(exp.Table).name
            for part, _ in parts
            if isinstance(part, exp.Insert | exp.Update | exp.Delete)
        }
        so_far: set[str] = set()
        for part, is_kept in [*parts, (tree, False)]:
            changes = isinstance(part, exp.Insert | exp.Update | exp.Delete)
            target = part.this.find(exp.Table) if changes else None
            for table in part.find_all(exp.Table):
                inside_other = part is tree and table.find_ancestor(exp.CTE) is not None
                if table is target or inside_other or table.name not in written - OF_COORDINATOR:
                    continue
                if table.name in so_far or not (is_kept or changes):
                    yield table.name
            if target is not None:
                so_far.add(target.name)


# It looks for items of another kind than it writes; where it meets its own, the long way decides.
MAY_SEE_ITSELF = {"sessions.storage.add_messages"}


def test_no_statement_reads_a_table_that_a_part_of_it_writes() -> None:
    """On a cluster the parts run one after another, and see what was written: read first, MATERIALIZED."""
    found = {query.name: list(reads_beside_writes(query.sql)) for query in distinct_statements()}
    assert {name for name, tables in found.items() if tables} == MAY_SEE_ITSELF, found


def test_no_row_is_looked_for_in_a_subquery() -> None:
    """A cluster writes `(a, b) IN (SELECT …)` wrongly to its node: join the subquery."""
    assert not [
        query.name
        for query in distinct_statements()
        for tree in parsed(query.sql)
        for found in tree.find_all(exp.In)
        if isinstance(found.this, exp.Tuple)
    ]


_NAMES_A_TABLE = re.compile(r"\b(?:FROM|JOIN|INSERT INTO|UPDATE|USING)\s+(?!recordari)([a-z_]+)\b(?!\()")
_MADE_HERE = re.compile(r"\b([a-z_]+) AS (?:MATERIALIZED )?\(")


def test_a_function_calls_tables_by_their_whole_names(server: Any, tables_of_tenants: set[str]) -> None:
    """A node runs triggers without our search path."""
    with cloned_database(server) as name, psycopg.connect(server.dsn(database=name)) as connection:
        found = connection.execute(
            """SELECT proname, prosrc FROM pg_proc WHERE pronamespace = 'recordari'::regnamespace
               AND proname NOT IN ('sample_no_text', 'expect_full_tenants', 'renew_samples')"""
        )
        named = {
            name: (set(_NAMES_A_TABLE.findall(source)) & tables_of_tenants) - set(_MADE_HERE.findall(source))
            for name, source in found
        }
    assert {name: tables for name, tables in named.items() if tables} == {}


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("INSERT INTO items (tenant_id) SELECT 1", silent_inserts),
        ("WITH a AS (INSERT INTO items (tenant_id) SELECT 1) SELECT 1", silent_inserts),
        ("WITH a AS (DELETE FROM holds RETURNING 1) SELECT count(*) FROM holds", reads_beside_writes),
        ("WITH b AS (SELECT 1 FROM holds), a AS (DELETE FROM holds RETURNING 1) SELECT 1 FROM b", reads_beside_writes),
        ("UPDATE items SET a = COALESCE(a, now())", clocks_in_conditions),
        ("INSERT INTO items (a) VALUES (1) ON CONFLICT (a) DO UPDATE SET b = now()", clocks_in_conditions),
    ],
)
def test_a_statement_that_breaks_a_rule_is_found(text: str, rule: Callable[[str], Iterator[str]]) -> None:
    assert list(rule(text))


@pytest.mark.parametrize(
    "text",
    [
        "SELECT 1 FROM items i WHERE i.tenant_id = %(tenant_id)s AND EXISTS (SELECT 1 FROM holds WHERE item_id = i.item_id)",
        "SELECT 1 FROM items i JOIN holds h ON h.tenant_id = i.tenant_id WHERE i.tenant_id = %(tenant_id)s",
        "UPDATE items SET pinned_at = now() WHERE item_id = %(item_id)s",
    ],
)
def test_a_table_that_is_not_compared_is_found(text: str, tables_of_tenants: set[str]) -> None:
    assert list(unbound_tables(text, tables_of_tenants))
