"""Rules that let one statement be answered by the node that holds a tenant, checked on plain PostgreSQL.

A cluster that is divided by tenant sends a statement to one node if every table in it, also in a subquery, is compared with
the tenant's value itself. A comparison with another table's tenant is not enough there.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
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
