"""A real HTTP server on the loopback interface whose answers a test scripts."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass(kw_only=True)
class Reply:
    """What the server sends back; `hang` keeps the client waiting until the server is stopped."""

    body: Any = None
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    hang: bool = False


@dataclass(kw_only=True)
class Request:
    """What a client sent."""

    method: str
    path: str
    headers: dict[str, str]
    body: Any


Answer = Callable[[Request], Reply]


class JsonServer:
    """The requests that came, and the function that answers them."""

    def __init__(self, url: str, answer: Answer) -> None:
        self.url = url
        self.answer = answer
        self.requests: list[Request] = []


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Keep quiet: clients that give up are part of the tests."""


@contextmanager
def json_server(answer: Answer) -> Iterator[JsonServer]:
    """Serve until the block ends."""
    stopping = threading.Event()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self._serve()

        def do_GET(self) -> None:
            self._serve()

        def do_PATCH(self) -> None:
            self._serve()

        def _serve(self) -> None:
            raw = self.rfile.read(int(self.headers.get("content-length", 0)))
            headers = {name.lower(): value for name, value in self.headers.items()}
            request = Request(
                method=self.command, path=self.path, headers=headers, body=json.loads(raw) if raw else None
            )
            server.requests.append(request)
            reply = server.answer(request)
            if reply.hang:
                stopping.wait(30)
                return
            payload = reply.body if isinstance(reply.body, bytes) else json.dumps(reply.body).encode()
            self.send_response(reply.status)
            for name, value in reply.headers.items():
                self.send_header(name, value)
            self.send_header("content-length", str(len(payload)))
            self.end_headers()
            self.wfile.write(payload)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name of the base class
            pass

    httpd = _Server(("127.0.0.1", 0), Handler)
    server = JsonServer(f"http://127.0.0.1:{httpd.server_address[1]}", answer)
    thread = threading.Thread(target=httpd.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield server
    finally:
        stopping.set()
        httpd.shutdown()
        thread.join()
        httpd.server_close()
