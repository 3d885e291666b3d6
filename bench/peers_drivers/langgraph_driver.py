"""LangGraph's PostgresStore with its vector index and our vectors."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import ExitStack

from contest import TOP_K, BlockingContestant, Conversation, Turn, main
from langgraph.store.base import PutOp  # type: ignore[import-not-found,unused-ignore]
from langgraph.store.postgres import PostgresStore  # type: ignore[import-not-found,unused-ignore]
from own_database import drop_vector_indexes, make_vector_indexes, own_database

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
        self.addresses: dict[str, str] = {}
        self.indexes: dict[str, list[str]] = {}

    def _embed(self, texts: Sequence[str]) -> list[list[float]]:
        return [self.vectors.list_of(text) for text in texts]

    async def open_space(self, space: str) -> None:
        """A database, and stores on it."""
        address = own_database(self.dsn, f"langgraph_{space}")
        stack = self.stacks[space] = ExitStack()
        index = {"dims": self.vectors.dimensions, "embed": self._embed, "fields": ["text"]}
        self.stores[space] = [
            stack.enter_context(PostgresStore.from_conn_string(address, index=index)) for _ in range(CLIENTS)
        ]
        self.stores[space][0].setup()
        self.addresses[space] = address
        if os.environ.get("PEERS_INDEX_LATER"):
            self.indexes[space] = drop_vector_indexes(address)

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

    async def settle(self, space: str, owners: Sequence[str]) -> None:
        """Make the vector index if it was left for later."""
        make_vector_indexes(self.addresses[space], self.indexes.pop(space, []))

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
