"""mem0 with its pgvector store, without an LLM (`infer=False`) and with our vectors."""

from __future__ import annotations

import os
import sys
from pathlib import Path

os.environ["MEM0_TELEMETRY"] = "False"
os.environ["MEM0_DIR"] = str(Path(sys.argv[1]) / "mem0")
os.environ["OPENAI_API_KEY"] = "never used"

from contest import TOP_K, BlockingContestant, Conversation, Turn, Vectors, main
from mem0 import Memory  # type: ignore[import-not-found,unused-ignore]
from mem0.embeddings.base import EmbeddingBase  # type: ignore[import-not-found,unused-ignore]
from mem0.utils.factory import EmbedderFactory  # type: ignore[import-not-found,unused-ignore]
from own_database import own_database

CLIENTS = 8


class KnownEmbedding(EmbeddingBase):  # type: ignore[misc,unused-ignore]
    """Answers with vectors computed beforehand."""

    vectors: Vectors  # mem0 makes the instance, so the class must carry them

    def embed(self, text: str, memory_action: str | None = None) -> list[float]:
        """The vector of a text, which mem0 may have trimmed."""
        return self.vectors.list_of(text.strip())


class Mem0(BlockingContestant):
    """One database a space, one user a conversation; default settings but for the size of the pool."""

    async def start(self) -> None:
        """Make our vectors known to its factory."""
        for texts in (self.vectors.passages, self.vectors.queries):
            texts.update({text.strip(): row for text, row in texts.items()})
        KnownEmbedding.vectors = self.vectors
        EmbedderFactory.provider_to_class["huggingface"] = f"{KnownEmbedding.__module__}.KnownEmbedding"
        self.memories: dict[str, Memory] = {}
        self.refs = {turn.passage: turn.ref for one in self.conversations for turn in one.turns}

    async def open_space(self, space: str) -> None:
        """A database, and a memory in it."""
        address = own_database(self.dsn, f"mem0_{space}")
        self.memories[space] = Memory.from_config(
            {
                "vector_store": {
                    "provider": "pgvector",
                    "config": {
                        "connection_string": address,
                        "embedding_model_dims": self.vectors.dimensions,
                        "maxconn": CLIENTS,
                    },
                },
                "embedder": {"provider": "huggingface", "config": {}},
                "history_db_path": str(self.folder / f"mem0_{space}.sqlite"),
            }
        )

    async def close_space(self, space: str) -> None:
        """Close its pool."""
        self.memories.pop(space).vector_store.connection_pool.close()

    async def stop(self) -> None:
        """Close every pool."""
        for space in list(self.memories):
            await self.close_space(space)

    async def ingest(self, space: str, conversation: Conversation) -> None:
        """All messages of the conversation in one call."""
        messages = [{"role": "user", "name": one.speaker, "content": one.passage} for one in conversation.turns]
        self.memories[space].add(messages, user_id=conversation.name, infer=False)

    async def add(self, space: str, owner: str, turn: Turn) -> None:
        """One message."""
        message = {"role": "user", "name": turn.speaker, "content": turn.passage}
        self.memories[space].add([message], user_id=owner, infer=False)

    def find(self, space: str, owner: str, question: str) -> list[str]:
        """Hybrid search as it comes; no least score, so that ten are answered."""
        answer = self.memories[space].search(question, top_k=TOP_K, filters={"user_id": owner}, threshold=0.0)
        return [self.refs[one["memory"]] for one in answer["results"]]


if __name__ == "__main__":
    main(Mem0)
