"""LangGraph's PostgresStore with its vector index and our vectors."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack

import psycopg
from contest import TOP_K, BlockingContestant, Conversation, Turn, main
from langgraph.store.base import PutOp  # type: ignore[import-not-found,unused-ignore]
from langgraph.store.postgres import PostgresStore  # type: ignore[import-not-found,unused-ignore]
from psycopg.conninfo import make_conninfo

BATCH = 250
CLIENTS = 8


class LangGraph(BlockingContestant):
    """One database a space, one namespace a conversation; default settings, a store of its own for each client.

    A store holds a lock while it talks to the database, even with a pool: sharing one would make clients wait.
    """

    async def start(self) -> None:
        """Know no store yet."""
        self.stores: dict[str, list[PostgresStore]] = {}
        self.stacks: dict[str, ExitStack] = {}

    def _embed(self, texts: Sequence[str]) -> list[list[float]]:
        return [self.vectors.list_of(text) for text in texts]

    async def open_space(self, space: str) -> None:
        """A database, and stores on it."""
        name = f"langgraph_{space}"
        with psycopg.connect(self.dsn, autocommit=True) as connection:
            connection.execute(f'CREATE DATABASE "{name}"')  # type: ignore[arg-type,unused-ignore]
        stack = self.stacks[space] = ExitStack()
        index = {"dims": self.vectors.dimensions, "embed": self._embed, "fields": ["text"]}
        self.stores[space] = [
            stack.enter_context(PostgresStore.from_conn_string(make_conninfo(self.dsn, dbname=name), index=index))
            for _ in range(CLIENTS)
        ]
        self.stores[space][0].setup()

    async def close_space(self, space: str) -> None:
        """Close its connections."""
        del self.stores[space]
        self.stacks.pop(space).close()

    async def stop(self) -> None:
        """Close every connection."""
        for space in list(self.stacks):
            await self.close_space(space)

    async def ingest(self, space: str, conversation: Conversation) -> None:
        """Batches of put operations."""
        puts = [
            PutOp(("chat", conversation.name), one.ref, {"text": one.passage, "speaker": one.speaker, "at": one.at})
            for one in conversation.turns
        ]
        for start in range(0, len(puts), BATCH):
            self.stores[space][0].batch(puts[start : start + BATCH])

    async def add(self, space: str, owner: str, turn: Turn) -> None:
        """One put."""
        value = {"text": turn.passage, "speaker": turn.speaker, "at": turn.at}
        self.stores[space][0].put(("chat", owner), turn.ref, value)

    def find(self, space: str, owner: str, question: str) -> list[str]:
        """Search by meaning within the namespace, with a store that nobody else uses now."""
        store = self.stores[space].pop()
        try:
            return [one.key for one in store.search(("chat", owner), query=question, limit=TOP_K)]
        finally:
            self.stores[space].append(store)


if __name__ == "__main__":
    main(LangGraph)
