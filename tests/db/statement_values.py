"""Made-up values for the parameters of every named query: of their types, and with ids that are there."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import psycopg

from recordari.db.queries import Query

MOMENT = datetime(2026, 11, 1, 12, tzinfo=UTC)
_BY_TYPE: Mapping[str, str] = {
    "uuid": "01900000-0000-7000-8000-000000000001",
    "text": "coffee",
    "integer": "1",
    "bigint": "1",
    "smallint": "1",
    "real": "0.5",
    "double precision": "0.5",
    "numeric": "0.5",
    "boolean": "true",
    "timestamp with time zone": MOMENT.isoformat(),
    "date": "2026-11-01",
    "interval": "1 hour",
    "bytea": "\\x01",
    "jsonb": "{}",
    "json": "{}",
    "tsvector": "'coffee':1",
    "tsquery": "'coffee'",
    "regclass": "recordari.items",
    "procrastinate_job_status": "todo",
    "recordari_queue.procrastinate_job_status": "todo",
}


def prepared(connection: psycopg.Connection[Any], query: Query) -> list[str] | None:
    """The types of a query's parameters; None: it is no statement that can be prepared."""
    statement, _ = query.numbered
    if statement.split()[0] in {"SET", "LISTEN", "NOTIFY", "CREATE", "GRANT", "CHECKPOINT"}:
        return None
    connection.execute(f"PREPARE probe AS {statement}")
    found = connection.execute("SELECT unnest(parameter_types)::text FROM pg_prepared_statements WHERE name = 'probe'")
    types = [name for (name,) in found.fetchall()]
    connection.execute("DEALLOCATE probe")
    return types


def value_of(name: str, of_type: str, known: Mapping[str, Any]) -> str | None:
    """A value as text, as PostgreSQL reads it."""
    if of_type.endswith("[]"):
        element = value_of(name.removesuffix("s"), of_type[:-2], known)
        if of_type == "real[]" and element is not None and element.startswith("["):  # the numbers of vectors
            return "{" + element[1:-1] + "}"
        return None if element is None else '{"' + element.replace("\\", "\\\\").replace('"', '\\"') + '"}'
    if (given := known.get(name)) is not None and (of_type != "uuid" or _is_uuid(given)):
        return str(given)
    if "halfvec" in of_type or ("vector" in of_type and of_type != "tsvector"):
        return str(known["vector"])
    return _BY_TYPE.get(of_type, "coffee")


def _is_uuid(value: object) -> bool:
    try:
        UUID(str(value))
    except ValueError:
        return False
    return True
