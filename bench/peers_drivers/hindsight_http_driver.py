"""Hindsight over its own HTTP server, without a language model (it keeps chunks) and with our vectors.

It asks for vectors over HTTP: the driver answers as an embedding service. It has no reranker, because its own comes from a
model hub.
"""

from __future__ import annotations

import base64
import json
import os
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import psycopg
from contest import TOP_K, Conversation, Turn, Vectors, main
from over_http import HttpContestant
from psycopg.conninfo import conninfo_to_dict

DATABASE = "hindsight"


class VectorService(BaseHTTPRequestHandler):
    """Answers `POST /v1/embeddings` with the vectors that were computed beforehand."""

    protocol_version = "HTTP/1.1"
    vectors: Vectors  # the server makes an instance for each connection

    def do_POST(self) -> None:
        """Look every text up."""
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        texts = [asked["input"]] if isinstance(asked["input"], str) else asked["input"]
        found = [
            {"object": "embedding", "index": number, "embedding": self._written(text, asked.get("encoding_format"))}
            for number, text in enumerate(texts)
        ]
        usage = {"prompt_tokens": 0, "total_tokens": 0}
        sent = json.dumps({"object": "list", "data": found, "model": asked["model"], "usage": usage}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(sent)))
        self.end_headers()
        self.wfile.write(sent)

    def _written(self, text: str, form: str | None) -> Any:
        text = text.partition(" (happened in ")[0]  # it adds the month
        # Before it is ready it asks for a text of its own.
        known = text in self.vectors.queries or text in self.vectors.passages
        vector = self.vectors.list_of(text) if known else [1.0, *[0.0] * (self.vectors.dimensions - 1)]
        return base64.b64encode(np.array(vector, np.float32).tobytes()).decode() if form == "base64" else vector

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name is that of the base
        """Say nothing."""


class HindsightHttp(HttpContestant):
    """A bank for each conversation, in one database."""

    async def start(self) -> None:
        """Start the service of vectors and the server."""
        VectorService.vectors = self.vectors
        service = ThreadingHTTPServer(("127.0.0.1", 0), VectorService)
        threading.Thread(target=service.serve_forever, daemon=True).start()
        with psycopg.connect(self.dsn, autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {DATABASE}")
        parts = conninfo_to_dict(self.dsn)
        place = f"host={parts['host']}&" if str(parts["host"]).startswith("/") else ""
        host = "" if place else f"{parts['host']}:{parts.get('port', 5432)}"
        user, password = parts["user"], f":{parts['password']}" if parts.get("password") else ""
        settings = {
            "HINDSIGHT_API_DATABASE_URL": f"postgresql://{user}{password}@{host}/{DATABASE}"
            + (f"?{place}port={parts.get('port', 5432)}" if place else ""),
            "HINDSIGHT_API_HOST": "127.0.0.1",
            "HINDSIGHT_API_PORT": str(self.free_port()),
            "HINDSIGHT_API_LLM_PROVIDER": "none",
            "HINDSIGHT_API_RERANKER_PROVIDER": "rrf",
            "HINDSIGHT_API_EMBEDDINGS_PROVIDER": "openai",
            "HINDSIGHT_API_EMBEDDINGS_OPENAI_API_KEY": "never used",
            "HINDSIGHT_API_EMBEDDINGS_OPENAI_MODEL": "known",
            "HINDSIGHT_API_EMBEDDINGS_OPENAI_BASE_URL": f"http://127.0.0.1:{service.server_port}/v1",
            "HINDSIGHT_API_EMBEDDINGS_OPENAI_DIMENSIONS": str(self.vectors.dimensions),
            "HINDSIGHT_API_LOG_LEVEL": "warning",
        }
        program = Path(sys.executable).with_name("hindsight-api")
        self.start_server([str(program)], {**os.environ, **settings}, ready="/health")

    async def open_space(self, space: str) -> None:
        """Banks are made by their first item."""

    async def close_space(self, space: str) -> None:
        """There is nothing to close."""

    async def ingest(self, space: str, conversation: Conversation) -> None:
        """All items of the conversation in one call."""
        self._retain(conversation.name, *conversation.turns)

    async def add(self, space: str, owner: str, turn: Turn) -> None:
        """One item."""
        self._retain(owner, turn)

    def _retain(self, owner: str, *turns: Turn) -> None:
        items = [{"content": one.passage, "timestamp": one.at, "document_id": one.ref} for one in turns]
        self.ask("POST", f"/v1/default/banks/{owner}/memories", {"items": items, "async": False})

    def find(self, space: str, owner: str, question: str) -> list[str]:
        """What fits its budget of tokens, the ten first of it."""
        body = {"query": question, "budget": "low", "max_tokens": 1024}
        found = self.ask("POST", f"/v1/default/banks/{owner}/memories/recall", body)["results"]
        return [one["document_id"] for one in found[:TOP_K]]


if __name__ == "__main__":
    main(HindsightHttp)
