"""Databases of the user's own that can be asked."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from recordari.databases import ask, registry
from recordari.databases.rules.databases import ConnectedDatabase, DataAnswer
from recordari.verbs.bound import Bound


class DatabaseVerbs(Bound):
    """The verbs of connected databases."""

    async def query_data(
        self, question: str | None = None, *, sql: str | None = None, database: str | UUID | None = None
    ) -> DataAnswer:
        """Answer a question from a connected database, or run a SELECT there; always read-only."""
        return await ask.query_data(self.resources, self.identity, question=question, sql=sql, database=database)

    async def add_database(
        self, name: str, dsn: str, *, tables: registry.Tables, description: str = ""
    ) -> ConnectedDatabase:
        """Connect a database for `query_data`: only these tables of it, or only these columns of them."""
        return await registry.add_database(
            self.resources, self.identity, name=name, dsn=dsn, tables=tables, description=description
        )

    async def list_databases(self) -> list[ConnectedDatabase]:
        """The connected databases, by name."""
        return await registry.list_databases(self.resources, self.identity)

    async def get_database(self, database_id: UUID) -> ConnectedDatabase:
        """One connected database; its DSN is never shown."""
        return await registry.get_database(self.resources, self.identity, database_id)

    async def update_database(self, database_id: UUID, **changes: Any) -> ConnectedDatabase:
        """Change `name`, `description`, `tables` or `dsn` of a connected database."""
        return await registry.update_database(self.resources, self.identity, database_id, **changes)

    async def refresh_database(self, database_id: UUID) -> ConnectedDatabase:
        """Look at the tables of a connected database again."""
        return await registry.refresh_database(self.resources, self.identity, database_id)

    async def remove_database(self, database_id: UUID) -> None:
        """Forget a connected database and the way in."""
        await registry.remove_database(self.resources, self.identity, database_id)
