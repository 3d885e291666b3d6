"""What a database of the user is made of: its allowed tables with columns, comments and a few values of each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from recordari.databases.reader import Answer, Limits, read
from recordari.databases.rules.databases import AllowedTable, Engine
from recordari.databases.targets import Target
from recordari.db.queries import Queries
from recordari.errors import Forbidden, InvalidInput

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


def _take_values(table: dict[str, Any], sample: Answer) -> None:
    for place, column in enumerate(table["columns"]):
        column["values"] = [row[place] for row in sample.rows if len(row) > place and row[place] is not None]
