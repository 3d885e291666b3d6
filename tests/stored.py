"""What stands in the database, whoever may see it."""

from __future__ import annotations

import time
from typing import Any

import psycopg
from psycopg.rows import dict_row

from recordari.config import Settings
from recordari.core.identity import Identity
from recordari.db.database import Transaction
from recordari.db.embedded.server import EmbeddedServer
from tests.patience import PATIENCE


def drop_database(server: EmbeddedServer, name: str) -> None:
    """Drop a database with whoever is connected; a server process that is slow to go is waited for."""
    until = time.monotonic() + PATIENCE
    with psycopg.connect(server.dsn(), autocommit=True) as connection:
        while True:
            try:
                connection.execute(f"DROP DATABASE {name} WITH (FORCE)")
            except psycopg.errors.ObjectInUse:  # after five seconds the server waits no longer
                if time.monotonic() > until:
                    raise
            else:
                return


def rows(settings: Settings, statement: str, *parameters: object) -> list[dict[str, Any]]:
    """Read or change rows as their owner, past every policy."""
    assert settings.database_owner_url is not None
    dsn = settings.database_owner_url.get_secret_value()
    with psycopg.connect(dsn, row_factory=dict_row, autocommit=True) as connection:
        connection.execute("SET search_path = recordari, recordari_queue, public")
        return connection.execute(statement, parameters).fetchall()


def filtered_by(tx: Transaction, identity: Identity) -> Transaction:
    """The same connection, bound to its tenant as before, with the queries of somebody else."""
    # Private on purpose: the product has no way to filter by one tenant on a connection bound to another.
    return Transaction(tx._connection, identity)
