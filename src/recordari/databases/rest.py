"""Routes of connected databases."""

from __future__ import annotations

from uuid import UUID

from fastapi import APIRouter
from pydantic import Field, SecretStr

from recordari.databases import ask, registry
from recordari.databases.rules.databases import ConnectedDatabase, DataAnswer
from recordari.kit.rest import PROBLEMS, AdminCaller, AgentCaller, Strict, client

router = APIRouter(prefix="/v1", tags=["databases"], responses=PROBLEMS)

Tables = dict[str, list[str] | None] | list[str]
_TABLES = 'Tables that may be read, each with its columns: `{"public.orders": null}` allows all of them.'


class DatabaseRequest(Strict):
    name: str = Field(min_length=1, max_length=100)
    description: str = Field(default="", max_length=2000, description="What it contains; agents choose by it.")
    dsn: SecretStr = Field(strict=False, max_length=2000, description="Sealed at once, never shown again.")
    tables: Tables = Field(description=_TABLES)


class DatabaseChange(Strict):
    """Values to change; the others stay."""

    name: str | None = Field(default=None, min_length=1, max_length=100)
    description: str | None = Field(default=None, max_length=2000)
    dsn: SecretStr | None = Field(default=None, strict=False, max_length=2000)
    tables: Tables | None = Field(default=None, description=_TABLES)


class QueryRequest(Strict):
    """A question, or a SELECT."""

    question: str | None = Field(default=None, max_length=4000)
    sql: str | None = Field(default=None, max_length=20_000)
    database: str | None = Field(default=None, max_length=100, description="Its name; needed where there are several.")


@router.post("/databases", operation_id="add_database", status_code=201)
async def add_database(caller: AdminCaller, body: DatabaseRequest) -> ConnectedDatabase:
    """Connect a database and describe its tables."""
    return await registry.add_database(
        *caller, body.name, body.dsn.get_secret_value(), tables=body.tables, description=body.description
    )


@router.get("/databases", operation_id="list_databases")
async def list_databases(caller: AgentCaller) -> list[ConnectedDatabase]:
    """The connected databases, by name."""
    return await registry.list_databases(*caller)


@router.get("/databases/{database_id}", operation_id="get_database")
async def get_database(caller: AgentCaller, database_id: UUID) -> ConnectedDatabase:
    """One database with its tables."""
    return await registry.get_database(*caller, database_id)


@router.patch("/databases/{database_id}", operation_id="update_database")
async def update_database(caller: AdminCaller, database_id: UUID, body: DatabaseChange) -> ConnectedDatabase:
    """Change the values that you give; with other tables or another DSN, the tables are described again."""
    changes = body.model_dump(exclude_none=True, exclude={"dsn"})
    if body.dsn is not None:
        changes["dsn"] = body.dsn.get_secret_value()
    return await registry.update_database(*caller, database_id, **changes)


@router.post("/databases/{database_id}/refresh", operation_id="refresh_database")
async def refresh_database(caller: AdminCaller, database_id: UUID) -> ConnectedDatabase:
    """Describe its tables again."""
    return await registry.refresh_database(*caller, database_id)


@router.delete("/databases/{database_id}", operation_id="remove_database", status_code=204)
async def remove_database(caller: AdminCaller, database_id: UUID) -> None:
    """Disconnect it and delete its DSN."""
    await registry.remove_database(*caller, database_id)


@router.post("/query_data", operation_id="query_data", openapi_extra=client(by_name="database", reads=True))
async def query_data(caller: AgentCaller, body: QueryRequest) -> DataAnswer:
    """Answer a question from a database, or run a SELECT there: read-only, 5 seconds, 1,000 rows."""
    return await ask.query_data(*caller, body.question, sql=body.sql, database=body.database)
