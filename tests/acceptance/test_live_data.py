"""Live data (K2): questions about the user's own databases, by the sentences of the design.

"Agents need to answer questions about users' external, connected databases (…) without pre-loading all business data."
"""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.connected import ORDERS, sqlite_of_a_user

from recordari.app import Memory
from recordari.databases import registry
from recordari.errors import InvalidInput, TimedOut
from recordari.schedule import JOBS


@pytest.fixture
async def shop(memory: Memory, tmp_path: Path) -> Memory:
    sqlite_of_a_user(tmp_path / "shop.db")
    await memory.add_database("shop", "sqlite:///shop.db", tables=["customers", "orders"], description="What was sold")
    return memory


async def test_the_schema_is_cached_and_not_introspected_on_every_request(
    shop: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The design: “You cannot afford to introspect their schema on every request”."""

    async def never(*_: object, **__: object) -> None:
        raise AssertionError("the schema was looked at")

    monkeypatch.setattr(registry, "describe", never)
    assert (await shop.query_data(sql="SELECT count(*) FROM orders")).rows == [[ORDERS]]
    assert JOBS["refresh_databases"].cron is not None


async def test_queries_are_read_only_allow_listed_audited_and_bounded(shop: Memory) -> None:
    """The design: “Read-only (SQLValidator enforces SELECT only)”, and the allow-list, audit and row limit beside it.

    “Schema allowlist (only expose permitted tables)”, “Query audit trail”, “Row limit (1000 rows max)”.
    """
    for refused in ("DELETE FROM orders", "SELECT * FROM secrets"):
        with pytest.raises(InvalidInput):
            await shop.query_data(sql=refused)
    answer = await shop.query_data(sql="SELECT id FROM orders")
    assert (len(answer.rows), answer.truncated) == (1000, True)
    trail = [entry.details["outcome"] for entry in await shop.list_audit() if entry.action == "database.query"]
    assert trail == ["answered", "refused", "refused"]


async def test_a_query_has_five_seconds(shop: Memory) -> None:
    """The design: “Per-query timeout (5 seconds)”."""
    with pytest.raises(TimedOut, match="5 seconds"):
        await shop.query_data(sql="SELECT count(*) FROM orders a, orders b, orders c")


async def test_agents_learn_which_databases_there_are(shop: Memory) -> None:
    """The design: “The Context Router dynamically injects awareness of these specific external databases”."""
    assert [(each.name, each.description) for each in await shop.list_databases()] == [("shop", "What was sold")]
