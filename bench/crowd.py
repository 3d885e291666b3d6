"""A tenant with many users: the first ones come through the API, the others are copies of their rows, made by SQL.

A copy has everything that was derived too: vectors, names, facts, summaries, profiles. So a tenant of a million items is
there in minutes, with every index of a real one. The texts of a copy are those of its original.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psycopg

from recordari.config import Settings
from recordari.core.identity import tenant_id_of
from recordari.db.address import open_address
from serving import Client, Processes, World, wait_until_idle

CHUNK_USERS = 500
MANY_USERS = 1_000  # more are copied without indexes, which are made again afterwards
_ID = "(left({column}::text, 24) || lpad(to_hex(n), 12, '0'))::uuid"
"""Half of an id is its time and its own chance; the other half becomes the number of the user."""
_USER = "'user-' || n"
_OWNER = "'user:user-' || n"


def _copied(*columns: str) -> dict[str, str]:
    return {column: _ID.format(column=f"t.{column}") for column in columns}


@dataclass(frozen=True, slots=True)
class Copied:
    """A table whose rows are copied: who has a row, and the columns that differ in a copy."""

    table: str
    changed: dict[str, str]
    owner: str = "t.user_id"
    """The user of a row."""


_THREAD = "replace(t.thread, 'user:' || t.user_id || chr(31), 'user:user-' || n || chr(31))"
TABLES = (
    Copied("users", {"user_id": _USER}),
    Copied("items", {"user_id": _USER, "thread": _THREAD, **_copied("item_id", "superseded_by")}),
    Copied("vectors", {"user_id": _USER, **_copied("item_id")}),
    Copied("mentions", {"user_id": _USER, **_copied("item_id")}),
    Copied("sessions", {"user_id": _USER, "owned_by": _OWNER, **_copied("session_ref", "summary_id")}),
    Copied("profiles", {"user_id": _USER, **_copied("profile_id")}),
    Copied(
        "evidence",
        _copied("item_id", "source_item_id"),
        "(SELECT i.user_id FROM items i WHERE i.tenant_id = t.tenant_id AND i.item_id = t.item_id)",
    ),
)


def fill_users(processes: Processes, users: range, least: int, most: int) -> int:
    """Give each user a chat of the past of so many messages, over REST; returns the number of messages."""
    client, world, number = Client(processes), World(users.start + 1), 0
    for user in users:
        many = world.chance.randrange(least, most + 1)
        said = [{"content": world.said(), "role": "user" if one % 2 == 0 else "assistant"} for one in range(many)]
        for start in range(0, many, 100):
            body = {"messages": said[start : start + 100], "scope": "user"}
            client.ask("POST", f"/v1/sessions/past-{user}/messages", body, user=f"user-{user}")
        number += many
    wait_until_idle(processes)
    client = Client(processes)  # the old connection may have been idle for too long
    for user in users:  # which makes the profile
        client.ask("POST", "/v1/context", {"question": world.asked()}, user=f"user-{user}")
    wait_until_idle(processes)
    return number


def copy_users(home: Path, originals: int, users: range) -> int:
    """Add these users, each a copy of an original in turn; returns the number of items in the tenant."""
    return asyncio.run(_copy_users(home, originals, users))


async def _copy_users(home: Path, originals: int, users: range) -> int:
    tenant = str(tenant_id_of("bench"))
    async with open_address(Settings(home=home)) as address:
        assert address.owner_dsn is not None
        with psycopg.connect(address.owner_dsn, autocommit=True) as connection:
            connection.execute("SET search_path = recordari, public")
            connection.execute("SET session_replication_role = replica")  # no trigger counts these rows
            connection.execute("SET synchronous_commit = off")
            connection.execute("SET maintenance_work_mem = '1GB'")
            with _without_indexes(connection) if len(users) >= MANY_USERS else contextlib.nullcontext():
                _copy(connection, tenant, originals, users)
            names = ", ".join(copied.table for copied in TABLES)
            connection.execute(f"VACUUM (ANALYZE) {names}")
            counted = connection.execute("SELECT count(*) FROM items WHERE tenant_id = %s", (tenant,)).fetchone()
    return int(counted[0]) if counted is not None else 0


def _copy(connection: psycopg.Connection, tenant: str, originals: int, users: range) -> None:
    """Copy from tables of the originals alone: those of the tenant grow with each chunk, and would be read for each."""
    for copied in TABLES if users else ():
        connection.execute(
            f"CREATE TEMP TABLE of_originals_{copied.table} AS SELECT t.*, o.original FROM {copied.table} t "
            f"JOIN generate_series(0, {originals - 1}) AS o (original) ON {copied.owner} = 'user-' || o.original "
            "WHERE t.tenant_id = %s",
            (tenant,),
        )
        connection.execute(f"ANALYZE of_originals_{copied.table}")
    for start in range(users.start, users.stop, CHUNK_USERS):
        values = {"first": start, "last": min(start + CHUNK_USERS, users.stop) - 1}
        for copied in TABLES:
            connection.execute(_statement(connection, copied, originals), values)


@contextlib.contextmanager
def _without_indexes(connection: psycopg.Connection) -> Iterator[None]:
    """Drop the indexes of the copied tables that no constraint needs, and make them again at the end: it is much faster."""
    dropped = connection.execute(
        "SELECT c.relname, pg_get_indexdef(x.indexrelid) FROM pg_index x JOIN pg_class c ON c.oid = x.indexrelid "
        "WHERE x.indrelid = ANY (%s::regclass[]) AND NOT EXISTS (SELECT FROM pg_constraint k WHERE k.conindid = x.indexrelid)",
        ([copied.table for copied in TABLES],),
    ).fetchall()
    for name, _ in dropped:
        connection.execute(f'DROP INDEX "{name}"')
    try:
        yield
    finally:
        for _, definition in dropped:
            connection.execute(definition)


def _statement(connection: psycopg.Connection, copied: Copied, originals: int) -> str:
    rows = connection.execute(
        "SELECT column_name FROM information_schema.columns "
        "WHERE table_schema = 'recordari' AND table_name = %s AND is_generated = 'NEVER' ORDER BY ordinal_position",
        (copied.table,),
    )
    columns = [name for (name,) in rows]
    values = ", ".join(copied.changed.get(name, f"t.{name}") for name in columns)
    return (
        f"INSERT INTO {copied.table} ({', '.join(columns)}) SELECT {values} "
        f"FROM generate_series(%(first)s::int, %(last)s::int) n JOIN of_originals_{copied.table} t "
        f"ON t.original = n %% {originals}"
    )


def disk(home: Path) -> tuple[int, dict[str, float]]:
    """The number of items, and the bytes on disk by table, with indexes and long values, and of the indexes alone."""
    return asyncio.run(_disk(home))


async def _disk(home: Path) -> tuple[int, dict[str, float]]:
    async with open_address(Settings(home=home)) as address:
        assert address.owner_dsn is not None
        with psycopg.connect(address.owner_dsn, autocommit=True) as connection:
            sizes = connection.execute(
                "SELECT relname, pg_total_relation_size(oid) FROM pg_class "
                "WHERE relnamespace = 'recordari'::regnamespace AND relkind = 'r' AND pg_total_relation_size(oid) > 1e6 "
                "UNION ALL SELECT i.relname, pg_relation_size(i.oid) FROM pg_index x JOIN pg_class i ON i.oid = x.indexrelid "
                "WHERE x.indrelid IN ('recordari.items'::regclass, 'recordari.vectors'::regclass) ORDER BY 2 DESC"
            ).fetchall()
            (items,) = connection.execute("SELECT count(*) FROM recordari.items").fetchone() or (0,)
    return int(items), {name: float(size) for name, size in sizes}


def prepared(processes: Processes, home: Path, *, users: int, originals: int, least: int, most: int) -> int:
    """Fill the folder's tenant with so many users, unless it has them; returns the number of items."""
    note = home / "crowd.json"
    shape = {"users": users, "originals": originals, "least": least, "most": most}
    known = json.loads(note.read_text()) if note.exists() else {}
    if {name: known.get(name) for name in shape} == shape:
        return int(known["items"])
    if known:
        raise SystemExit(f"{home} has another crowd: {known}")
    fill_users(processes, range(originals), least, most)
    items = copy_users(home, originals, range(originals, users))
    note.write_text(json.dumps({**shape, "items": items}))
    return items
