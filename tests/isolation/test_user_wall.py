"""The wall between users: row-level security alone, on every table that holds a user's things.

The tables are found in the catalogue: by the columns that name a user, and by the foreign keys that lead to such a table. So
a new table is attacked without anybody remembering it. Ana uses the product, and then the application's own login asks for
her rows with no filter at all: bound to another user, to none, and to what is no user.
"""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from typing import Any

import psycopg
import pytest
from psycopg import sql
from psycopg.rows import dict_row
from tests.external_server import CITUS
from tests.lived_in import ANA, live_in
from tests.stored import rows

from recordari.app import Memory
from recordari.core.identity import Identity
from recordari.db.database import Database
from recordari.db.queries import Query
from recordari.facts.storage import Link, insert_links
from recordari.sessions.rules.window import NewMessage

NOBODY: tuple[str | None, ...] = (None, "", "bob", "ANA", " ana", "user:ana", "ana\x1f", "%", "*", "'; --", "null", "0")
"""Values of app.user_id that are not Ana; None: it was never set."""
ONLY_DOCUMENTS = {"document_chunks", "protected_texts"}
"""They lead to items, but only to those of documents, which are the tenant's."""

COLUMNS = """
    SELECT c.relname AS name, array_agg(a.attname::text) AS columns,
        array_agg(a.attname::text) FILTER (WHERE a.attgenerated = '') AS written
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
    WHERE n.nspname = 'recordari' AND c.relkind IN ('r', 'p') GROUP BY 1 ORDER BY 1"""
FOREIGN_KEYS = """
    SELECT conrelid::regclass::text AS name, confrelid::regclass::text AS parent,
        ARRAY(SELECT attname::text FROM unnest(conkey) WITH ORDINALITY k (number, place)
            JOIN pg_attribute ON attrelid = conrelid AND attnum = k.number ORDER BY place) AS columns,
        ARRAY(SELECT attname::text FROM unnest(confkey) WITH ORDINALITY k (number, place)
            JOIN pg_attribute ON attrelid = confrelid AND attnum = k.number ORDER BY place) AS targets
    FROM pg_constraint WHERE contype = 'f' AND connamespace = 'recordari'::regnamespace AND conrelid <> confrelid"""


def _named(columns: set[str]) -> str | None:
    """How the rows of a table name Ana as the one who owns them; None where they name nobody."""
    if {"scope", "owner_id"} <= columns:
        return "t.scope = 'user' AND t.owner_id = 'ana'"
    if {"scope", "user_id"} <= columns:
        return "t.scope IN ('user', 'session') AND t.user_id = 'ana'"
    if "owned_by" in columns:
        return "t.owned_by = 'user:ana'"
    return "t.user_id = 'ana'" if "user_id" in columns else None


def users_tables(memory: Memory) -> dict[str, str]:
    """Each table that holds things of a user, with the condition for Ana's."""
    settings = memory.resources.settings
    columns = {row["name"]: set(row["columns"]) for row in rows(settings, COLUMNS)}
    found = {name: condition for name, known in columns.items() if (condition := _named(known)) is not None}
    keys = rows(settings, FOREIGN_KEYS)
    while True:
        more = {
            key["name"]: "EXISTS (SELECT FROM {} t2 WHERE ({}) AND ({}) = ({}))".format(
                key["parent"],
                found[key["parent"]].replace("t.", "t2."),
                ", ".join(f"t2.{column}" for column in key["targets"]),
                ", ".join(f"t.{column}" for column in key["columns"]),
            )
            for key in keys
            if key["parent"] in found and key["name"] not in found and "EXISTS" not in found[key["parent"]]
        }
        if not more:
            return found
        found |= more


@contextmanager
def application(memory: Memory) -> Iterator[psycopg.Connection[dict[str, Any]]]:
    """A connection of the application's own login."""
    url = memory.resources.settings.database_url
    assert url is not None
    with psycopg.connect(url.get_secret_value(), row_factory=dict_row) as connection:
        connection.execute("SET search_path = recordari, public")
        connection.commit()
        yield connection


def bind(connection: psycopg.Connection[Any], memory: Memory, user: str | None) -> None:
    """Bind the transaction to the tenant and to that user, so that the nodes of a cluster know it too."""
    values = {"app.tenant_id": str(memory.identity.tenant_id)} | ({} if user is None else {"app.user_id": user})
    for name, value in values.items():
        connection.execute(sql.SQL("SET LOCAL {} = {}").format(sql.SQL(name), sql.Literal(value)))


@pytest.fixture
async def lived_in(memory: Memory) -> AsyncIterator[Memory]:
    """A tenant in which Ana has something in every table."""
    await live_in(memory)
    yield memory


async def test_no_table_shows_or_gives_up_a_users_rows_to_anybody_else(lived_in: Memory) -> None:
    tables = users_tables(lived_in)
    assert {"items", "vectors", "payloads", "notes", "turns", "turn_states", "tool_calls", "mentions"} <= tables.keys()
    settings = lived_in.resources.settings
    statement = "SELECT ctid::text AS place, to_jsonb(t) AS row FROM {} t WHERE {}"
    hers = {table: rows(settings, statement.format(table, condition)) for table, condition in tables.items()}
    empty = {table for table, found in hers.items() if not found}
    assert empty == ONLY_DOCUMENTS, "Ana must have something everywhere, or this shows nothing"
    written = {row["name"]: row["written"] for row in rows(settings, COLUMNS)}
    open_to = []
    for user in NOBODY:
        with application(lived_in) as connection:
            for table in tables.keys() - empty:
                done = _broken_in(
                    connection, partial(bind, connection, lived_in, user), table, hers[table], written[table]
                )
                open_to += [(table, user, what) for what in done]
    assert not open_to


def _broken_in(
    connection: psycopg.Connection[dict[str, Any]],
    begin: Callable[[], None],
    table: str,
    hers: list[dict[str, Any]],
    written: list[str],
) -> list[str]:
    """What somebody else can do with Ana's rows, with no filter but their place in the table; nothing of it is kept."""
    places, done = [row["place"] for row in hers], []
    here, columns = sql.Identifier(table), sql.SQL(", ").join(map(sql.Identifier, sorted(written)))
    tries = {
        "see": sql.SQL("SELECT 1 FROM {} WHERE ctid = ANY(%s::tid[])").format(here),
        "lock": sql.SQL("SELECT 1 FROM {} WHERE ctid = ANY(%s::tid[]) FOR UPDATE").format(here),
        "change": sql.SQL("UPDATE {} SET tenant_id = tenant_id WHERE ctid = ANY(%s::tid[])").format(here),
        "delete": sql.SQL("DELETE FROM {} WHERE ctid = ANY(%s::tid[])").format(here),
    }
    for what, statement in tries.items():
        begin()
        try:
            if connection.execute(statement, [places]).rowcount:
                done.append(what)
        except psycopg.errors.InsufficientPrivilege:
            pass  # the application may not do it at all
        except psycopg.errors.FeatureNotSupported:
            if what != "lock" or not os.environ.get(CITUS):  # a cluster does not lock rows of no tenant
                done.append(what)
        except psycopg.Error as error:  # only what it saw can be in the way
            done.append(f"{what}: {type(error).__name__}")
        connection.rollback()
    insert = sql.SQL(
        "INSERT INTO {} ({}) OVERRIDING SYSTEM VALUE SELECT {} FROM jsonb_populate_record(NULL::{}, %s) RETURNING 1"
    )
    begin()
    try:
        connection.execute(insert.format(here, columns, columns, here), [json.dumps(hers[0]["row"])])
    except psycopg.errors.InsufficientPrivilege:
        pass
    except psycopg.Error as error:
        done.append(f"insert: {type(error).__name__}")
    else:
        done.append("insert")
    connection.rollback()
    return done


async def test_ana_herself_sees_her_rows_and_a_job_sees_everybodys(lived_in: Memory) -> None:
    settings, hidden = lived_in.resources.settings, []
    for table, condition in users_tables(lived_in).items():
        (count,) = rows(settings, f"SELECT count(*) AS rows FROM {table} t WHERE {condition}")
        ask = Query("tests.hers", "Ana's rows.", f"SELECT count(*) FROM {table} t WHERE {condition}")
        for identity in (Identity(tenant_id=lived_in.identity.tenant_id).narrowed(user_id=ANA), lived_in.identity):
            async with lived_in.resources.database.transaction(identity) as tx:
                if await tx.value(ask) != count["rows"]:
                    hidden.append((table, identity.user_id))
    assert not hidden


async def test_the_audit_names_users_and_is_read_by_administrators_only(lived_in: Memory) -> None:
    for user in (*NOBODY, ANA):
        with application(lived_in) as connection:
            bind(connection, lived_in, user)
            assert connection.execute("SELECT 1 FROM audit").fetchall() == []
    assert await lived_in.list_audit(), "the administrator reads it"
    assert await lived_in.acting_as(user=ANA).list_audit(), "also while acting for a user"


async def test_the_applications_login_has_no_more_without_asking(lived_in: Memory) -> None:
    """Membership in the wider roles must not be inherited: their policies would then hold for every request."""
    with application(lived_in) as connection:
        held = connection.execute(
            """SELECT rolname FROM pg_roles WHERE rolname IN ('recordari_tenant', 'recordari_retention', 'recordari_owner')
                   AND pg_has_role(current_user, oid, 'USAGE')"""
        ).fetchall()
    assert held == []


async def test_a_pooled_connection_forgets_the_role_it_had(lived_in: Memory) -> None:
    """What an administrator may see must not stay with the connection that the next caller gets."""
    who = Query("tests.role", "The role.", "SELECT current_user::text AS role, count(*) AS notes FROM notes")
    database = Database(lived_in.resources.database.dsn)
    await database.open()
    agent = Identity(tenant_id=lived_in.identity.tenant_id)
    try:
        for _ in range(3):
            assert (await database.execute(lived_in.identity, who))[0][0] == "recordari_tenant"
            assert (await database.execute(agent, who))[0] == ("recordari", 0)
            async with database.transaction(lived_in.identity) as tx:
                assert (await tx.dicts(who))[0]["notes"] == 1
            async with database.transaction(agent) as tx:
                assert (await tx.dicts(who)) == [{"role": "recordari", "notes": 0}]
    finally:
        await database.close()


async def test_what_an_agent_learned_from_one_user_can_be_corrected_for_another_and_keeps_its_source(
    memory: Memory,
) -> None:
    plain = memory.bound(Identity(tenant_id=memory.identity.tenant_id))
    ana, ben = (plain.acting_as(user=user, agent="support") for user in (ANA, "ben"))
    said = await ana.add_messages([NewMessage(content="Send reports on Friday")], session_id="monday")
    known = await ana.remember_fact("Reports are sent on Friday", scope="agent")
    async with memory.resources.database.transaction(memory.identity) as tx:
        source = said.messages[0].id
        await insert_links(tx, [Link(item_id=known.id, source_item_id=source, event_time=datetime.now(UTC))])
    for agent in (ben, plain.acting_as(agent="support")):
        known = await agent.edit_item(known.id, f"Reports are sent on Monday, said {agent.identity.user_id}")
    linked = rows(memory.resources.settings, "SELECT source_item_id FROM evidence WHERE item_id = %s", known.id)
    assert [row["source_item_id"] for row in linked] == [source]
    await memory.erase_user(ANA)
    assert not (await ben.list_items(kinds=["fact"])).items, "it rested on Ana's words alone"
