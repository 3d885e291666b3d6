"""A contestant that is asked over its own HTTP server, which the driver starts; every client keeps its connection."""

from __future__ import annotations

import http.client
import json
import queue
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from contest import BlockingContestant

CLIENTS = 8


class HttpContestant(BlockingContestant):
    """Blocking calls of a server at 127.0.0.1."""

    def free_port(self) -> int:
        """A port that nobody listens at; the server gets it by its own settings."""
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = int(probe.getsockname()[1])
        return self.port

    def start_server(self, command: Sequence[str], environment: Mapping[str, str], *, ready: str) -> None:
        """Start it, and wait until the path `ready` answers 200."""
        self.server = subprocess.Popen(command, env=dict(environment))
        self.free: queue.SimpleQueue[http.client.HTTPConnection] = queue.SimpleQueue()
        for _ in range(CLIENTS):
            self.free.put(http.client.HTTPConnection("127.0.0.1", self.port, timeout=600))
        while self.server.poll() is None:
            with suppress(OSError):
                probe = http.client.HTTPConnection("127.0.0.1", self.port, timeout=5)
                probe.request("GET", ready)
                if probe.getresponse().status == 200:
                    return
            time.sleep(0.1)
        raise RuntimeError("the server did not start")

    async def stop(self) -> None:
        """Stop the server."""
        self.server.terminate()
        self.server.wait(60)

    @contextmanager
    def _connection(self) -> Iterator[http.client.HTTPConnection]:
        connection = self.free.get()
        try:
            yield connection
        finally:
            self.free.put(connection)

    def ask(self, method: str, path: str, body: object, headers: Mapping[str, str] | None = None) -> Any:
        """The answer as JSON; `body` is lines as they are, or what becomes JSON."""
        kind = "application/x-ndjson" if isinstance(body, bytes) else "application/json"
        sent = body if isinstance(body, bytes) else json.dumps(body).encode() if body is not None else None
        given = {"Content-Type": kind, **(headers or {})}
        with self._connection() as connection:
            try:
                connection.request(method, path, sent, given)
                answer = connection.getresponse()
            except ConnectionError:  # the server closes a connection that was idle for too long
                connection.close()
                connection.request(method, path, sent, given)
                answer = connection.getresponse()
            text = answer.read()
        if answer.status >= 300:
            raise RuntimeError(f"{method} {path}: {answer.status} {text[:300]!r}")
        return json.loads(text)
