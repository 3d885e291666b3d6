"""Counts what is sent to the database: the statements by name, and the round trips."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import psycopg

from recordari.db import pipeline

FRAMING = ("BEGIN", "COMMIT", "SET ", "SAVEPOINT", "RELEASE", "ROLLBACK")
BINDING = frozenset(
    {"begin", "commit", "db.pipeline.bind", "db.pipeline.bind_nodes"}
    | {"db.pipeline.plan_by_index", "db.pipeline.plan_as_usual"}
)
"""They frame a transaction or bind it to an identity, and say nothing of their own."""


@dataclass
class Sent:
    """What was sent while it was counted."""

    statements: Counter[str] = field(default_factory=Counter)
    round_trips: int = 0

    @property
    def total(self) -> int:
        return self.statements.total()


@contextmanager
def counted() -> Iterator[Sent]:
    """Count every statement of this process for as long as the block lasts."""
    sent = Sent()
    send, execute, wait = pipeline.send_query, psycopg.AsyncCursor.execute, psycopg.AsyncConnection.wait

    def noted_send(connection: Any, query: Any, *rest: Any) -> None:
        if query.name not in BINDING:
            sent.statements[query.name] += 1
        send(connection, query, *rest)

    async def noted_execute(self: Any, query: Any, *rest: Any, **options: Any) -> Any:
        text = " ".join(str(query).split())
        if not text.startswith(FRAMING):
            sent.statements[text[:60]] += 1
        return await execute(self, query, *rest, **options)

    async def noted_wait(self: Any, *rest: Any, **options: Any) -> Any:
        sent.round_trips += 1
        return await wait(self, *rest, **options)

    pipeline.send_query = noted_send  # type: ignore[assignment]
    psycopg.AsyncCursor.execute = noted_execute  # type: ignore[method-assign]
    psycopg.AsyncConnection.wait = noted_wait  # type: ignore[method-assign]
    try:
        yield sent
    finally:
        pipeline.send_query = send
        psycopg.AsyncCursor.execute = execute  # type: ignore[method-assign]
        psycopg.AsyncConnection.wait = wait  # type: ignore[method-assign]
