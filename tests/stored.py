"""What stands in the database, whoever may see it."""

from __future__ import annotations

from typing import Any

import psycopg
from psycopg.rows import dict_row

from recollect.config import Settings


def rows(settings: Settings, statement: str, *parameters: object) -> list[dict[str, Any]]:
    """Read or change rows as their owner, past every policy."""
    assert settings.database_owner_url is not None
    dsn = settings.database_owner_url.get_secret_value()
    with psycopg.connect(dsn, row_factory=dict_row, autocommit=True) as connection:
        connection.execute("SET search_path = recollect, recollect_queue, public")
        return connection.execute(statement, parameters).fetchall()
