"""Recordari over its own HTTP server, with the worker inside and an agent's key; it embeds every text by itself."""

from __future__ import annotations

import http.client
import json
import os
import queue
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from contest import TOP_K, BlockingContestant, Conversation, Turn, main

CLIENTS = 8
TENANT = "peers-http"


class RecordariHttp(BlockingContestant):
    """One tenant, a user for each conversation; every client keeps its connection."""

    async def start(self) -> None:
        """Start the server, make a tenant and its keys."""
        settings = {"RECORDARI_HOME": os.environ["PEERS_HOME"], "RECORDARI_RATE_LIMIT": ""}
        self.environment = {**os.environ, **settings, "RECORDARI_EMBEDDING_PROFILE": os.environ["PEERS_PROFILE"]}
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = int(probe.getsockname()[1])
        program = [sys.executable, "-m", "recordari"]
        self.server = subprocess.Popen([*program, "serve", "--port", str(self.port)], env=self.environment)
        self._wait()
        self._run(*program, "tenant", "create", TENANT)
        self.keys = {}
        for role in ("agent", "admin"):
            made = self._run(*program, "key", "create", role, "-t", TENANT, "--role", role, "--json")
            self.keys[role] = json.loads(made)["key"]
        self.free: queue.SimpleQueue[http.client.HTTPConnection] = queue.SimpleQueue()
        for _ in range(CLIENTS):
            self.free.put(http.client.HTTPConnection("127.0.0.1", self.port, timeout=600))
        if not os.environ.get("PEERS_FACTS"):
            self._ask("PATCH", "/v1/tenant", {"settings": {"extraction": "off"}}, role="admin")

    def _run(self, *command: str) -> bytes:
        return subprocess.run(command, env=self.environment, check=True, capture_output=True).stdout

    def _wait(self) -> None:
        while self.server.poll() is None:
            with suppress(OSError):
                probe = http.client.HTTPConnection("127.0.0.1", self.port, timeout=5)
                probe.request("GET", "/readyz")
                if probe.getresponse().status == 200:
                    return
            time.sleep(0.1)
        raise RuntimeError("the server did not start")

    @contextmanager
    def _connection(self) -> Iterator[http.client.HTTPConnection]:
        connection = self.free.get()
        try:
            yield connection
        finally:
            self.free.put(connection)

    def _ask(self, method: str, path: str, body: object, *, role: str = "agent", user: str | None = None) -> Any:
        is_lines = isinstance(body, bytes)
        headers = {"Authorization": f"Bearer {self.keys[role]}"} | ({"Recordari-User": user} if user else {})
        headers["Content-Type"] = "application/x-ndjson" if is_lines else "application/json"
        sent = body if isinstance(body, bytes) else json.dumps(body).encode() if body is not None else None
        with self._connection() as connection:
            try:
                connection.request(method, path, sent, headers)
                answer = connection.getresponse()
            except ConnectionError:  # the server closes a connection that was idle for too long
                connection.close()
                connection.request(method, path, sent, headers)
                answer = connection.getresponse()
            text = answer.read()
        if answer.status >= 300:
            raise RuntimeError(f"{method} {path}: {answer.status} {text[:300]!r}")
        return json.loads(text)

    async def stop(self) -> None:
        """Stop the server."""
        self.server.terminate()
        self.server.wait(60)

    async def open_space(self, space: str) -> None:
        """Users need not be made."""

    async def close_space(self, space: str) -> None:
        """There is nothing to close."""

    async def ingest(self, space: str, conversation: Conversation) -> None:
        """One import of lines."""
        lines = b"".join(json.dumps(_item(turn)).encode() + b"\n" for turn in conversation.turns)
        self._ask("POST", "/v1/import", lines, user=conversation.name)

    async def add(self, space: str, owner: str, turn: Turn) -> None:
        """One item."""
        self._ask("POST", "/v1/items", _item(turn), user=owner)

    async def settle(self, space: str, owners: Sequence[str]) -> None:
        """Wait until no embedding is due any more."""
        while self._ask("GET", "/v1/jobs/counts", None, role="admin")["outbox_pending"].get("embed"):
            time.sleep(0.005)

    def find(self, space: str, owner: str, question: str) -> list[str]:
        """The ten best."""
        body = {"query": question, "top_k": TOP_K, "source_kinds": ["chat_message"]}
        return [one["source_ref"] for one in self._ask("POST", "/v1/recall", body, user=owner)["items"]]


def _item(turn: Turn) -> dict[str, Any]:
    item = {"content": turn.content, "scope": "user", "speaker": turn.speaker, "source_ref": turn.ref}
    return item | {"event_time": turn.at} | ({"session_id": turn.session} if turn.session else {})


if __name__ == "__main__":
    main(RecordariHttp)
