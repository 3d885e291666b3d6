"""Recordari through its public API: row-level security on, the worker running in the process."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any, Literal, cast

import numpy as np
from contest import TOP_K, Contestant, Conversation, Turn, Vectors, main

from recordari.app import Memory
from recordari.config import Settings
from recordari.core.identity import Identity, Role, Scope, tenant_id_of
from recordari.core.items import Kind, NewItem
from recordari.memory.index import EMBED_TOPIC
from recordari.models.base import Embedder, InstantEmbedder, Matrix, Vector
from recordari.models.embedding import Embedders
from recordari.runner import background_worker
from recordari.tenants import tenants
from recordari.wiring import open_resources

LOOK_AGAIN = 0.005


class KnownEmbedder:
    """Answers with vectors computed beforehand; what is not among them is embedded and counted."""

    def __init__(self, vectors: Vectors, behind: Embedder) -> None:
        self.vectors = vectors
        self.behind = behind
        self.misses = 0

    @property
    def model_id(self) -> str:
        """That of the model behind."""
        return self.behind.model_id

    @property
    def dimensions(self) -> int:
        """Length of each vector."""
        return self.behind.dimensions

    async def embed_query(self, text: str) -> Vector:
        """The vector of a question."""
        row = self.vectors.queries.get(text)
        if row is None:
            self.misses += 1
            return await self.behind.embed_query(text)
        return cast("Vector", self.vectors.matrix[row])

    async def embed_passages(self, texts: Sequence[str]) -> Matrix:
        """The vectors of passages."""
        rows = [self.vectors.passages.get(text) for text in texts]
        if None in rows:
            self.misses += rows.count(None)
            return await self.behind.embed_passages(texts)
        return cast("Matrix", self.vectors.matrix[np.array(rows)])

    async def close(self) -> None:
        """Close the model behind."""
        await self.behind.close()


class InstantKnownEmbedder(KnownEmbedder):
    """The same before a model that embeds at once, which then is asked in the same call."""

    behind: InstantEmbedder

    def embed_now(self, text: str) -> Vector | None:
        """The vector of one passage."""
        row = self.vectors.passages.get(text)
        if row is None:
            self.misses += 1
            return self.behind.embed_now(text)
        return cast("Vector", self.vectors.matrix[row])

    def embed_query_now(self, text: str) -> Vector | None:
        """The vector of a question."""
        row = self.vectors.queries.get(text)
        if row is None:
            self.misses += 1
            return self.behind.embed_query_now(text)
        return cast("Vector", self.vectors.matrix[row])


class Recordari(Contestant):
    """One tenant for each conversation of a space, or one of all users; facts are taken from messages only if asked for.

    The peers store messages as they are too: mem0 with `infer=False`, LangGraph always.
    """

    async def start(self) -> None:
        """Join the server that runs, start the worker, put the known vectors before the model."""
        profile = cast("Literal['best', 'fast']", os.environ["PEERS_PROFILE"])
        settings = Settings(home=Path(os.environ["PEERS_HOME"]), embedding_profile=profile)
        self.stack = AsyncExitStack()
        resources = await self.stack.enter_async_context(open_resources(settings))
        behind = resources.embedders.primary
        assert behind is not None
        known = InstantKnownEmbedder if hasattr(behind, "embed_now") else KnownEmbedder
        self.embedder = known(self.vectors, behind)
        self.resources = replace(resources, embedders=Embedders(self.embedder, lambda _: None))
        await self.stack.enter_async_context(background_worker(self.resources))
        self.memories: dict[tuple[str, str], Memory] = {}

    async def stop(self) -> None:
        """Stop the worker and leave the server."""
        await self.stack.aclose()

    async def open_space(self, space: str) -> None:
        """Make the tenants."""
        owners = [*(one.name for one in self.conversations), "added"]
        if os.environ.get("PEERS_CROWD"):
            memory = await self._tenant(f"{space}-crowd")
            self.memories |= {(space, owner): memory.acting_as(user=owner) for owner in owners}
            return
        for owner in owners:
            self.memories[space, owner] = (await self._tenant(f"{space}-{owner}")).acting_as(user="person")

    async def _tenant(self, name: str) -> Memory:
        await tenants.ensure_tenant(self.resources, name)
        memory = Memory(self.resources, Identity(tenant_id=tenant_id_of(name), role=Role.ADMIN))
        if not os.environ.get("PEERS_FACTS"):
            await memory.update_tenant(settings={"extraction": "off"})
        return memory

    async def close_space(self, space: str) -> None:
        """Its tenants hold no connections."""

    async def ingest(self, space: str, conversation: Conversation) -> None:
        """The bulk import."""
        async for _ in self.memories[space, conversation.name].import_items(map(_item, conversation.turns)):
            pass

    async def add(self, space: str, owner: str, turn: Turn) -> None:
        """One message."""
        await self.memories[space, owner].remember(turn.content, scope=Scope.USER, **_more(turn))

    async def settle(self, space: str, owners: Sequence[str]) -> None:
        """Wait until no embedding is due any more."""
        for owner in owners[:1] if os.environ.get("PEERS_CROWD") else owners:  # the counts are those of the tenant
            while (await self.memories[space, owner].job_counts()).outbox_pending.get(EMBED_TOPIC):
                await asyncio.sleep(LOOK_AGAIN)

    async def search(self, space: str, owner: str, question: str) -> list[str]:
        """The ten best."""
        answer = await self.memories[space, owner].recall(question, top_k=TOP_K, source_kinds=[Kind.CHAT_MESSAGE])
        return [one.source_ref for one in answer.items]

    def remarks(self) -> dict[str, Any]:
        """How many texts had to be embedded on the way: none without facts, if the vectors were complete."""
        return {"embedded_on_the_way": self.embedder.misses}


def _item(turn: Turn) -> NewItem:
    return NewItem(content=turn.content, scope=Scope.USER, **_more(turn))


def _more(turn: Turn) -> dict[str, Any]:
    return {
        "speaker": turn.speaker,
        "source_ref": turn.ref,
        "session_id": turn.session or None,
        "event_time": datetime.fromisoformat(turn.at),
    }


if __name__ == "__main__":
    main(Recordari)
