"""What a server says about itself, for the doctor."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from recordari.storage.database import Database
from recordari.storage.queries import Queries

queries = Queries(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerState:
    """The answers of a reachable server."""

    version_number: int
    version: str
    encoding: str
    clock: datetime
    extensions: dict[str, str]
    text_leakproof: bool
    bytes: int


async def describe_server(database: Database) -> ServerState:
    """Ask the server about itself."""
    async with database.queue() as rows:
        found = await rows.maybe(queries.describe_server, ServerState)
    assert found is not None
    return found
