"""Connected databases: engine, allowed tables, and the description of these."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any
from uuid import UUID

from recordari.core.described import DESCRIBED
from recordari.errors import InvalidInput
from recordari.privacy.rules.masking import find

MAX_TABLES = 500
MAX_COLUMNS = 500
MAX_NAME_LENGTH = 100
MAX_SAMPLES = 5
MAX_SAMPLE_LENGTH = 40


class Engine(StrEnum):
    """The kind of a database; the value is the name of its dialect."""

    POSTGRES = "postgres"
    MYSQL = "mysql"
    SQLITE = "sqlite"
    DUCKDB = "duckdb"

    @property
    def label(self) -> str:
        labels = {"postgres": "PostgreSQL", "mysql": "MySQL or MariaDB", "sqlite": "SQLite", "duckdb": "DuckDB"}
        return labels[self.value]

    @property
    def default_schema(self) -> str:
        return {"postgres": "public", "mysql": "", "sqlite": "main", "duckdb": "main"}[self.value]

    @property
    def is_file(self) -> bool:
        """Whether the database is a file on the machine that runs Recordari."""
        return self in {Engine.SQLITE, Engine.DUCKDB}


@dataclass(frozen=True, slots=True, kw_only=True)
class AllowedTable:
    """A table that may be read; without `columns`, all of its columns."""

    name: str
    schema: str | None = None
    columns: tuple[str, ...] | None = None

    @property
    def label(self) -> str:
        return f"{self.schema}.{self.name}" if self.schema else self.name


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectedDatabase:
    """A connected database, without its DSN."""

    __pydantic_config__ = DESCRIBED

    database_id: UUID
    name: str
    description: str
    engine: Engine
    tables: dict[str, list[str] | None]
    """The allowed tables, each with its allowed columns; null: all of them."""
    schema: list[dict[str, Any]] = field(default_factory=list)
    """Their last description: columns, types, comments and sample values."""
    warnings: list[str] = field(default_factory=list)
    """Problems of the role that connects."""
    refreshed_at: datetime | None = None
    created_at: datetime
    updated_at: datetime

    def __post_init__(self) -> None:
        object.__setattr__(self, "engine", Engine(self.engine))

    @property
    def allowed(self) -> list[AllowedTable]:
        return allowed_tables(self.tables, self.engine)


def allowed_tables(tables: Mapping[str, Sequence[str] | None], engine: Engine) -> list[AllowedTable]:
    """Read `{"schema.table": [columns] | None}`; a PostgreSQL table without a schema is in `public`."""
    if not tables:
        raise InvalidInput("name at least one table that may be read", field="tables")
    if len(tables) > MAX_TABLES:
        raise InvalidInput(f"at most {MAX_TABLES} tables can be allowed", field="tables")
    return [_allowed_table(label, columns, engine) for label, columns in tables.items()]


def _allowed_table(label: str, columns: Sequence[str] | None, engine: Engine) -> AllowedTable:
    schema, _, name = label.rpartition(".")
    names = [name, *([schema] if schema else []), *(columns or ())]
    if any(not each or len(each) > 200 or not each.isprintable() or each != each.strip() for each in names):
        raise InvalidInput(
            f"{label[:100]!r} is not the name of a table; write `table` or `schema.table`", field="tables"
        )
    if columns is not None and not 0 < len(columns) <= MAX_COLUMNS:
        raise InvalidInput(
            f"name 1 to {MAX_COLUMNS} columns of {label[:100]}, or leave them out for all", field="tables"
        )
    if not schema and engine is Engine.POSTGRES:
        schema = engine.default_schema
    return AllowedTable(name=name, schema=schema or None, columns=tuple(columns) if columns is not None else None)


def sample_values(values: Sequence[Any]) -> list[str]:
    """A few short values of a column, to show what it holds; none that look like personal data or a secret."""
    shown: dict[str, None] = {}
    for value in values:
        text = str(value)
        if len(text) <= MAX_SAMPLE_LENGTH and text.isprintable() and not find(text):
            shown[text] = None
        if len(shown) == MAX_SAMPLES:
            break
    return list(shown)


@dataclass(frozen=True, slots=True, kw_only=True)
class DataAnswer:
    """The answer of a database: rows as JSON values, and the statement that ran."""

    __pydantic_config__ = DESCRIBED

    database: str
    sql: str
    columns: list[str]
    rows: list[list[Any]]
    truncated: bool
    """Whether there were more rows than the limit."""
    written_by: str
    """`caller`, or the model that wrote the statement."""
    attempts: int = 1
    """How many statements were tried."""
    seconds: float = 0.0


def schema_text(database: ConnectedDatabase, *, most: int = 24_000) -> str:
    """The allowed tables as text for a writer of SQL: columns with types and sample values, in at most so many characters."""
    lines: list[str] = []
    for table in database.schema:
        comment = f"  -- {table['comment']}" if table.get("comment") else ""
        lines.append(f"TABLE {table['name']}{comment}")
        for column in table["columns"]:
            parts = [f"  {column['name']} {column['type']}"]
            if column.get("comment"):
                parts.append(f"-- {column['comment']}")
            if column.get("references"):
                parts.append(f"-> {column['references']}")
            if column.get("samples"):
                parts.append("e.g. " + ", ".join(map(str, column["samples"])))
            lines.append(" ".join(parts))
    text = "\n".join(lines)
    if len(text) <= most:
        return text
    # Too many tables: names and types say more than samples do.
    return tables_text(database)[:most]


def tables_text(database: ConnectedDatabase) -> str:
    """The allowed tables with the names and types of their columns, one to a line; no values."""
    return "\n".join(
        f"{table['name']}({', '.join(' '.join([column['name'], column['type']]) for column in table['columns'])})"
        for table in database.schema
    )
