"""Recordari over its own HTTP server, with the worker inside and an agent's key; it embeds every text by itself."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import Any

from contest import TOP_K, Conversation, Turn, main
from over_http import HttpContestant

TENANT = "peers-http"


class RecordariHttp(HttpContestant):
    """One tenant, a user for each conversation."""

    async def start(self) -> None:
        """Start the server, make a tenant and its keys."""
        settings = {"RECORDARI_HOME": os.environ["PEERS_HOME"], "RECORDARI_RATE_LIMIT": ""}
        self.environment = {**os.environ, **settings, "RECORDARI_EMBEDDING_PROFILE": os.environ["PEERS_PROFILE"]}
        program = [sys.executable, "-m", "recordari"]
        self.start_server([*program, "serve", "--port", str(self.free_port())], self.environment, ready="/readyz")
        self._run(*program, "tenant", "create", TENANT)
        self.keys = {}
        for role in ("agent", "admin"):
            made = self._run(*program, "key", "create", role, "-t", TENANT, "--role", role, "--json")
            self.keys[role] = json.loads(made)["key"]
        if not os.environ.get("PEERS_FACTS"):
            self._ask("PATCH", "/v1/tenant", {"settings": {"extraction": "off"}}, role="admin")

    def _run(self, *command: str) -> bytes:
        return subprocess.run(command, env=self.environment, check=True, capture_output=True).stdout

    def _ask(self, method: str, path: str, body: object, *, role: str = "agent", user: str | None = None) -> Any:
        headers = {"Authorization": f"Bearer {self.keys[role]}"} | ({"Recordari-User": user} if user else {})
        return self.ask(method, path, body, headers)

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
