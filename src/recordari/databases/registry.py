"""Connecting databases of the user: registered by an administrator, described once and again every night."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

from recordari.core.identity import Identity, checked_id
from recordari.core.ids import new_id
from recordari.core.telemetry import get_log, measured
from recordari.databases import storage
from recordari.databases.reader import Limits, QueryRows, read
from recordari.databases.rules.databases import (
    MAX_NAME_LENGTH,
    AllowedTable,
    ConnectedDatabase,
    Engine,
    allowed_tables,
    sample_values,
)
from recordari.databases.targets import AllowedTargets, Target, checked, read_target
from recordari.db import audit
from recordari.db.queries import Queries
from recordari.errors import Conflict, Forbidden, InvalidInput, NotFound, RecordariError
from recordari.kit.resources import Resources
from recordari.tenants.tenants import require_admin

log = get_log(__name__)

Tables = Mapping[str, Sequence[str] | None] | Sequence[str]
NO_SUCH_DATABASE = "there is no such database"
MAX_DESCRIPTION = 2000


@measured("add_database")
async def add_database(
    resources: Resources,
    identity: Identity,
    name: str,
    dsn: str,
    *,
    tables: Tables,
    description: str = "",
) -> ConnectedDatabase:
    """Register a database after looking at it; the DSN is sealed and never shown again."""
    require_admin(identity)
    wanted = _checked_tables(tables)
    _check_words(name, description)
    async with resources.database.transaction(identity) as tx:
        if await storage.find_by_name(tx, name) is not None:
            raise Conflict(f"there is a database {name!r} already; change it, or take another name", field="name")
    target = read_target(dsn)
    described = await _described(resources, target, wanted)
    database_id = new_id()
    async with resources.database.transaction(identity) as tx:
        added = await storage.insert_database(
            tx,
            database_id,
            name=name,
            description=description,
            engine=target.engine,
            sealed_dsn=resources.secrets.seal(dsn, purpose=_bound(identity, database_id)),
            tables=wanted,
            schema=described.tables,
            warnings=described.warnings,
        )
        await audit.record(tx, "database.add", "database", database_id, engine=target.engine.value, tables=len(wanted))
    return added


async def list_databases(resources: Resources, identity: Identity) -> list[ConnectedDatabase]:
    """The databases that can be asked, by name."""
    async with resources.database.transaction(identity) as tx:
        return await storage.list_databases(tx)


async def get_database(resources: Resources, identity: Identity, database_id: UUID) -> ConnectedDatabase:
    """One database, without the way in."""
    async with resources.database.transaction(identity) as tx:
        found = await storage.find_database(tx, database_id)
    if found is None:
        raise NotFound(NO_SUCH_DATABASE)
    return found


@measured("update_database")
async def update_database(
    resources: Resources,
    identity: Identity,
    database_id: UUID,
    *,
    name: str | None = None,
    description: str | None = None,
    tables: Tables | None = None,
    dsn: str | None = None,
) -> ConnectedDatabase:
    """Change what is given; other tables or another DSN are looked at first."""
    require_admin(identity)
    found = await get_database(resources, identity, database_id)
    changed = replace(
        found,
        name=found.name if name is None else name,
        description=found.description if description is None else description,
        tables=found.tables if tables is None else _checked_tables(tables),
    )
    _check_words(changed.name, changed.description)
    if tables is not None or dsn is not None:
        target = read_target(dsn if dsn is not None else await open_dsn(resources, identity, database_id))
        changed = await _seen(resources, replace(changed, engine=target.engine), target)
    sealed = resources.secrets.seal(dsn, purpose=_bound(identity, database_id)) if dsn is not None else None
    fields = [
        key
        for key, value in {"name": name, "description": description, "tables": tables, "dsn": dsn}.items()
        if value is not None
    ]
    return await _saved(resources, identity, changed, found, "database.update", sealed=sealed, fields=fields)


@measured("refresh_database")
async def refresh_database(resources: Resources, identity: Identity, database_id: UUID) -> ConnectedDatabase:
    """Look at a database again: columns and values as they are now."""
    require_admin(identity)
    found = await get_database(resources, identity, database_id)
    target = read_target(await open_dsn(resources, identity, database_id))
    changed = await _seen(resources, found, target)
    return await _saved(resources, identity, changed, found, "database.refresh", sealed=None)


async def refresh_databases(resources: Resources, identity: Identity, **_: Any) -> None:
    """Look at every database of the tenant again; one that cannot be reached keeps what was known of it."""
    for database in await list_databases(resources, identity):
        try:
            await refresh_database(resources, identity, database.database_id)
        except RecordariError as error:
            log.warning("database_not_refreshed", database_id=database.database_id, error=error)


async def remove_database(resources: Resources, identity: Identity, database_id: UUID) -> None:
    """Forget a database: the way in, and what was known of it."""
    require_admin(identity)
    async with resources.database.transaction(identity) as tx:
        if not await storage.delete_database(tx, database_id):
            raise NotFound(NO_SUCH_DATABASE)
        await audit.record(tx, "database.remove", "database", database_id)


async def open_dsn(resources: Resources, identity: Identity, database_id: UUID) -> str:
    """The way into a database, opened for a moment."""
    async with resources.database.transaction(identity) as tx:
        sealed = await storage.sealed_dsn(tx, database_id)
    if sealed is None:
        raise NotFound(NO_SUCH_DATABASE)
    return resources.secrets.open(sealed, purpose=_bound(identity, database_id))


def place_of(resources: Resources) -> AllowedTargets:
    """Where the settings let databases be."""
    settings = resources.settings
    return AllowedTargets(allow_private=settings.allow_private_databases, files=settings.database_files)


def _bound(identity: Identity, database_id: UUID) -> str:
    return f"{identity.tenant_id}/databases/{database_id}"


def _checked_tables(tables: Tables) -> dict[str, list[str] | None]:
    if isinstance(tables, str):
        raise InvalidInput("tables must be a list of names", field="tables")
    given = tables if isinstance(tables, Mapping) else dict.fromkeys(tables)
    allowed_tables(given, Engine.SQLITE)  # only their form
    return {name: None if columns is None else list(columns) for name, columns in given.items()}


def _check_words(name: str, description: str) -> None:
    if len(checked_id("name", name)) > MAX_NAME_LENGTH:
        raise InvalidInput(f"name must have at most {MAX_NAME_LENGTH} characters", field="name")
    if len(description) > MAX_DESCRIPTION:
        raise InvalidInput(f"description must have at most {MAX_DESCRIPTION} characters", field="description")


async def _described(resources: Resources, target: Target, tables: Mapping[str, Sequence[str] | None]) -> Described:
    reachable = await checked(target, place_of(resources))
    described = await describe(reachable, allowed_tables(tables, target.engine))
    for table in described.tables:
        for column in table["columns"]:
            column["samples"] = sample_values(column.pop("values"))
    return described


async def _seen(resources: Resources, database: ConnectedDatabase, target: Target) -> ConnectedDatabase:
    described = await _described(resources, target, database.tables)
    return replace(database, schema=described.tables, warnings=described.warnings, refreshed_at=resources.clock())


async def _saved(
    resources: Resources,
    identity: Identity,
    changed: ConnectedDatabase,
    before: ConnectedDatabase,
    action: str,
    *,
    sealed: str | None,
    **details: Any,
) -> ConnectedDatabase:
    async with resources.database.transaction(identity) as tx:
        same_name = await storage.find_by_name(tx, changed.name)
        if same_name is not None and same_name.database_id != changed.database_id:
            raise Conflict(f"there is a database {changed.name!r} already; take another name", field="name")
        saved = await storage.update_database(tx, changed, sealed_dsn=sealed, seen_at=before.updated_at)
        if saved is None:
            raise Conflict("the database was changed or removed meanwhile; read it again and repeat")
        await audit.record(tx, action, "database", changed.database_id, **details)
    return saved


SAMPLED_ROWS = 200
LIMITS = Limits(rows=200_000, bytes=32 << 20)
_QUERIES = {engine: Queries(f"{__package__}.{engine.value}") for engine in Engine}
_QUOTES = {Engine.MYSQL: "`"}
_POWERS = {
    "bypasses_rls": "it bypasses row-level security",
    "owns_tables": "it owns tables: an owner can always change them",
    "writes_tables": "it may write to tables",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Described:
    """The allowed tables as they are now, values from their first rows, and what is wrong with the role."""

    tables: list[dict[str, Any]]
    """`name`, `comment` and `columns` of each: `name`, `type`, `comment`, `references`, `values`."""
    warnings: list[str]


async def describe(target: Target, allowed: Sequence[AllowedTable]) -> Described:
    """Look at the allowed tables; `InvalidInput` where one is missing, `Forbidden` for a role that can do anything."""
    warnings = await _checked_role(target)
    (columns,) = await read(target, [_QUERIES[target.engine].columns.sql], limits=LIMITS, describe=True)
    if columns.failed:
        raise InvalidInput(f"the tables of the database cannot be listed: {columns.failed}", field="dsn")
    here = await _own_schema(target)
    seen: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for row in columns.rows:
        column = dict(zip(columns.columns, row, strict=True))
        seen.setdefault(_key(column["schema_name"], column["table_name"], target.engine, here), []).append(column)
    tables = [_table(table, seen.get(_key(table.schema, table.name, target.engine, here), [])) for table in allowed]
    samples = await read(target, [_sampling(table, target.engine) for table in tables], limits=LIMITS, describe=True)
    for table, sample in zip(tables, samples, strict=True):
        if sample.failed:
            warnings.append(f"the table {table['name']} cannot be read: {sample.failed}")
        _take_values(table, sample)
        del table["at"]
    return Described(tables=tables, warnings=warnings)


async def _checked_role(target: Target) -> list[str]:
    if target.engine.is_file:
        return []
    (powers,) = await read(target, [_QUERIES[target.engine].powers.sql], limits=LIMITS, describe=True)
    if powers.failed:
        return ["what the role may do could not be found out"]
    if target.engine is Engine.MYSQL:
        held = sorted(str(row[0]) for row in powers.rows)
        if {"SUPER", "FILE", "CREATE USER"} & set(held):
            raise _too_powerful()
        return [f"the user may do more than read ({', '.join(held[:8])}); grant it SELECT only"] if held else []
    role = dict(zip(powers.columns, powers.rows[0], strict=True))
    if role["is_superuser"] or role["creates_roles"] or role["replicates"] or role["has_server_powers"]:
        raise _too_powerful()
    return [
        f"the role may do more than read: {said}; grant it SELECT only"
        for power, said in _POWERS.items()
        if role[power]
    ]


def _too_powerful() -> Forbidden:
    return Forbidden(
        "this DSN connects as an administrator of the database; make a role that may only SELECT from the allowed tables "
        "(docs/databases.md shows how) and use that one"
    )


async def _own_schema(target: Target) -> str:
    """The schema of tables that are allowed without one."""
    if target.engine is not Engine.MYSQL:
        return target.engine.default_schema
    (answer,) = await read(target, [_QUERIES[Engine.MYSQL].current_schema.sql], limits=LIMITS, describe=True)
    return str(answer.rows[0][0])


def _key(schema: str | None, name: str, engine: Engine, here: str) -> tuple[str, str]:
    key = (schema or here, name)
    return key if engine is Engine.POSTGRES else (key[0].lower(), key[1].lower())


def _table(allowed: AllowedTable, columns: Sequence[dict[str, Any]]) -> dict[str, Any]:
    if not columns:
        raise InvalidInput(f"there is no table {allowed.label} that this role may read", field="tables")
    wanted = None if allowed.columns is None else set(allowed.columns)
    if missing := sorted((wanted or set()) - {column["column_name"] for column in columns}):
        raise InvalidInput(f"the table {allowed.label} has no column {missing[0]}", field="tables")
    return {
        "name": allowed.label,
        "at": allowed,
        "comment": columns[0]["table_comment"],
        "columns": [
            {
                "name": column["column_name"],
                "type": column["type_name"],
                "comment": column["comment"],
                "references": column["refers_to"],
            }
            for column in columns
            if wanted is None or column["column_name"] in wanted
        ],
    }


def _sampling(table: dict[str, Any], engine: Engine) -> str:
    at: AllowedTable = table["at"]
    quote = _QUOTES.get(engine, '"')

    def quoted(name: str) -> str:
        return quote + name.replace(quote, quote * 2) + quote

    columns = ", ".join(quoted(column["name"]) for column in table["columns"])
    place = ".".join(quoted(part) for part in (at.schema, at.name) if part)
    return f"SELECT {columns} FROM {place} LIMIT {SAMPLED_ROWS}"  # noqa: S608 - our names, quoted


def _take_values(table: dict[str, Any], sample: QueryRows) -> None:
    for place, column in enumerate(table["columns"]):
        column["values"] = [row[place] for row in sample.rows if len(row) > place and row[place] is not None]
