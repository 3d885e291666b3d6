"""Connected databases: an administrator adds them, and their tables are described then and every night."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

from recordari.core.identity import Identity, checked_id
from recordari.core.ids import new_id
from recordari.core.telemetry import get_log, measured
from recordari.databases import storage
from recordari.databases.reader import Limits, read
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
    resources: Resources, identity: Identity, name: str, dsn: str, *, tables: Tables, description: str = ""
) -> ConnectedDatabase:
    """Connect a database and describe its tables; the DSN is sealed and never shown again."""
    require_admin(identity)
    allowed = _checked_tables(tables)
    _check_texts(name, description)
    async with resources.database.transaction(identity) as tx:
        if await storage.find_by_name(tx, name) is not None:
            raise Conflict(f"there is a database {name!r} already; change it, or take another name", field="name")
    target = read_target(dsn)
    now, database_id = resources.clock(), new_id()
    database = ConnectedDatabase(
        database_id=database_id,
        name=name,
        description=description,
        engine=target.engine,
        tables=allowed,
        created_at=now,
        updated_at=now,
    )
    database = await _described(resources, database, target)
    sealed = resources.secrets.seal(dsn, purpose=_purpose(identity, database_id))
    async with resources.database.transaction(identity) as tx:
        saved = await storage.insert_database(tx, database, sealed_dsn=sealed)
        await audit.record(tx, "database.add", "database", database_id, engine=target.engine.value, tables=len(allowed))
    return saved


async def list_databases(resources: Resources, identity: Identity) -> list[ConnectedDatabase]:
    """The connected databases, by name."""
    async with resources.database.transaction(identity) as tx:
        return await storage.list_databases(tx)


async def get_database(resources: Resources, identity: Identity, database_id: UUID) -> ConnectedDatabase:
    """One connected database, without its DSN."""
    async with resources.database.transaction(identity) as tx:
        database = await storage.find_database(tx, database_id)
    if database is None:
        raise NotFound(NO_SUCH_DATABASE)
    return database


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
    """Change the values that you give; with other tables or another DSN, the tables are described again."""
    require_admin(identity)
    before = await get_database(resources, identity, database_id)
    changed = replace(
        before,
        name=before.name if name is None else name,
        description=before.description if description is None else description,
        tables=before.tables if tables is None else _checked_tables(tables),
    )
    _check_texts(changed.name, changed.description)
    if tables is not None or dsn is not None:
        target = read_target(dsn if dsn is not None else await open_dsn(resources, identity, database_id))
        changed = await _described(resources, replace(changed, engine=target.engine), target)
    sealed = resources.secrets.seal(dsn, purpose=_purpose(identity, database_id)) if dsn is not None else None
    values = {"name": name, "description": description, "tables": tables, "dsn": dsn}
    fields = [field for field, value in values.items() if value is not None]
    return await _save(resources, identity, changed, before, "database.update", sealed=sealed, fields=fields)


@measured("refresh_database")
async def refresh_database(resources: Resources, identity: Identity, database_id: UUID) -> ConnectedDatabase:
    """Describe the tables of a database again: columns and sample values."""
    require_admin(identity)
    before = await get_database(resources, identity, database_id)
    target = read_target(await open_dsn(resources, identity, database_id))
    changed = await _described(resources, before, target)
    return await _save(resources, identity, changed, before, "database.refresh", sealed=None)


async def refresh_databases(resources: Resources, identity: Identity, **_: Any) -> None:
    """Describe every database of the tenant again; one that cannot be reached keeps its description. A daily job."""
    for database in await list_databases(resources, identity):
        try:
            await refresh_database(resources, identity, database.database_id)
        except RecordariError as error:
            log.warning("database_not_refreshed", database_id=database.database_id, error=error)


async def remove_database(resources: Resources, identity: Identity, database_id: UUID) -> None:
    """Disconnect a database: its DSN and its description are deleted."""
    require_admin(identity)
    async with resources.database.transaction(identity) as tx:
        if not await storage.delete_database(tx, database_id):
            raise NotFound(NO_SUCH_DATABASE)
        await audit.record(tx, "database.remove", "database", database_id)


async def open_dsn(resources: Resources, identity: Identity, database_id: UUID) -> str:
    async with resources.database.transaction(identity) as tx:
        sealed = await storage.sealed_dsn(tx, database_id)
    if sealed is None:
        raise NotFound(NO_SUCH_DATABASE)
    return resources.secrets.open(sealed, purpose=_purpose(identity, database_id))


def allowed_targets(resources: Resources) -> AllowedTargets:
    settings = resources.settings
    return AllowedTargets(allow_private="databases" in settings.allow_private_addresses, files=settings.database_files)


def _purpose(identity: Identity, database_id: UUID) -> str:
    return f"{identity.tenant_id}/databases/{database_id}"


def _checked_tables(tables: Tables) -> dict[str, list[str] | None]:
    if isinstance(tables, str):
        raise InvalidInput("tables must be a list of names", field="tables")
    columns_of = tables if isinstance(tables, Mapping) else dict.fromkeys(tables)
    allowed_tables(columns_of, Engine.SQLITE)  # checks only their form
    return {name: None if columns is None else list(columns) for name, columns in columns_of.items()}


def _check_texts(name: str, description: str) -> None:
    if len(checked_id("name", name)) > MAX_NAME_LENGTH:
        raise InvalidInput(f"name must have at most {MAX_NAME_LENGTH} characters", field="name")
    if len(description) > MAX_DESCRIPTION:
        raise InvalidInput(f"description must have at most {MAX_DESCRIPTION} characters", field="description")


async def _described(resources: Resources, database: ConnectedDatabase, target: Target) -> ConnectedDatabase:
    reachable = await checked(target, allowed_targets(resources))
    described = await describe(reachable, allowed_tables(database.tables, target.engine))
    for table in described.tables:
        for column in table["columns"]:
            column["samples"] = sample_values(column.pop("values"))
    return replace(database, schema=described.tables, warnings=described.warnings, refreshed_at=resources.clock())


async def _save(
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
    """The allowed tables with values of their first rows, and warnings about the role."""

    tables: list[dict[str, Any]]
    """`name`, `comment` and `columns` of each: `name`, `type`, `comment`, `references`, `values`."""
    warnings: list[str]


async def describe(target: Target, allowed: Sequence[AllowedTable]) -> Described:
    """Describe the allowed tables; `InvalidInput` if one is missing, `Forbidden` for an administrator's role."""
    warnings = await _checked_role(target)
    (columns,) = await read(target, [_QUERIES[target.engine].columns.sql], limits=LIMITS, describe=True)
    if columns.failed:
        raise InvalidInput(f"the tables of the database cannot be listed: {columns.failed}", field="dsn")
    default = await _default_schema(target)
    columns_of: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for row in columns.rows:
        column = dict(zip(columns.columns, row, strict=True))
        key = _key(column["schema_name"], column["table_name"], target.engine, default)
        columns_of.setdefault(key, []).append(column)
    tables = [
        _table(table, columns_of.get(_key(table.schema, table.name, target.engine, default), [])) for table in allowed
    ]
    statements = [_sampling(*pair, target.engine) for pair in zip(allowed, tables, strict=True)]
    samples = await read(target, statements, limits=LIMITS, describe=True)
    for table, sample in zip(tables, samples, strict=True):
        if sample.failed:
            warnings.append(f"the table {table['name']} cannot be read: {sample.failed}")
        for number, column in enumerate(table["columns"]):
            values = (row[number] for row in sample.rows if len(row) > number)
            column["values"] = [value for value in values if value is not None]
    return Described(tables=tables, warnings=warnings)


async def _checked_role(target: Target) -> list[str]:
    if target.engine.is_file:
        return []
    (powers,) = await read(target, [_QUERIES[target.engine].powers.sql], limits=LIMITS, describe=True)
    if powers.failed:
        return ["the permissions of the role cannot be read"]
    if target.engine is Engine.MYSQL:
        held = sorted(str(row[0]) for row in powers.rows)
        if {"SUPER", "FILE", "CREATE USER"} & set(held):
            raise _too_powerful()
        return [f"the user may do more than read ({', '.join(held[:8])}); grant it SELECT only"] if held else []
    role = dict(zip(powers.columns, powers.rows[0], strict=True))
    if role["is_superuser"] or role["creates_roles"] or role["replicates"] or role["has_server_powers"]:
        raise _too_powerful()
    return [
        f"the role may do more than read: {text}; grant it SELECT only"
        for power, text in _POWERS.items()
        if role[power]
    ]


def _too_powerful() -> Forbidden:
    return Forbidden(
        "this DSN connects as an administrator of the database; make a role that may only SELECT from the allowed tables "
        "(docs/databases.md shows how) and use that one"
    )


async def _default_schema(target: Target) -> str:
    if target.engine is not Engine.MYSQL:
        return target.engine.default_schema
    (answer,) = await read(target, [_QUERIES[Engine.MYSQL].current_schema.sql], limits=LIMITS, describe=True)
    return str(answer.rows[0][0])


def _key(schema: str | None, name: str, engine: Engine, default: str) -> tuple[str, str]:
    key = (schema or default, name)
    return key if engine is Engine.POSTGRES else (key[0].lower(), key[1].lower())


def _table(allowed: AllowedTable, columns: Sequence[dict[str, Any]]) -> dict[str, Any]:
    if not columns:
        raise InvalidInput(f"there is no table {allowed.label} that this role may read", field="tables")
    if missing := sorted(set(allowed.columns or ()) - {column["column_name"] for column in columns}):
        raise InvalidInput(f"the table {allowed.label} has no column {missing[0]}", field="tables")
    return {
        "name": allowed.label,
        "comment": columns[0]["table_comment"],
        "columns": [
            {
                "name": column["column_name"],
                "type": column["type_name"],
                "comment": column["comment"],
                "references": column["refers_to"],
            }
            for column in columns
            if allowed.columns is None or column["column_name"] in allowed.columns
        ],
    }


def _sampling(allowed: AllowedTable, table: dict[str, Any], engine: Engine) -> str:
    quote = _QUOTES.get(engine, '"')

    def quoted(name: str) -> str:
        return quote + name.replace(quote, quote * 2) + quote

    columns = ", ".join(quoted(column["name"]) for column in table["columns"])
    name = ".".join(quoted(part) for part in (allowed.schema, allowed.name) if part)
    return f"SELECT {columns} FROM {name} LIMIT {SAMPLED_ROWS}"  # noqa: S608 - our names, quoted
