"""An OpenTelemetry collector (Rotel) of one test's own: it receives OTLP over HTTP and passes on what it took."""

from __future__ import annotations

import gzip
import importlib.util
import os
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from tests.patience import PATIENCE
from tests.ports import free_port


def require_collector() -> Path:
    """The collector's program; the test is skipped where there is none, except in CI, where that is a failure."""
    found = importlib.util.find_spec("rotel")
    for folder in (found.submodule_search_locations or ()) if found else ():
        if (program := Path(folder) / "rotel-agent").is_file():
            return program
    reason = "there is no collector here (the package rotel has wheels for Linux and Python 3.11 to 3.13)"
    if os.environ.get("CI") == "true":
        pytest.fail(reason)
    pytest.skip(reason)


@contextmanager
def running_collector(folder: Path, passed_on: list[bytes]) -> Iterator[str]:
    """The address for spans; `passed_on` gets what the collector sends on to the place behind it."""
    program, port = require_collector(), free_port()
    with _backend(passed_on) as backend:
        options = {
            "otlp-http-endpoint": f"127.0.0.1:{port}",
            "otlp-grpc-endpoint": f"127.0.0.1:{free_port()}",
            "exporter": "otlp",
            "otlp-exporter-endpoint": backend,
            "otlp-exporter-protocol": "http",
            "batch-timeout": "100ms",
            "pid-file": str(folder / "collector.pid"),
        }
        words = [word for name, value in options.items() for word in (f"--{name}", value)]
        with (folder / "collector.log").open("wb") as log:
            process = subprocess.Popen([program, "start", *words], stdout=log, stderr=subprocess.STDOUT)
        try:
            _await_answer(process, port)
            yield f"http://127.0.0.1:{port}/v1/traces"
        finally:
            process.kill()
            process.wait()


@contextmanager
def _backend(received: list[bytes]) -> Iterator[str]:
    """The place where a collector sends what it took."""

    class Receiver(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            received.append(gzip.decompress(body) if self.headers["Content-Encoding"] == "gzip" else body)
            self.send_response(200)
            self.send_header("Content-Type", "application/x-protobuf")
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002 - the library's name
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Receiver) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()


def _await_answer(process: subprocess.Popen[bytes], port: int) -> None:
    ends = time.monotonic() + PATIENCE
    while True:
        assert process.poll() is None, "the collector ended by itself"
        assert time.monotonic() < ends, "the collector does not answer"
        try:
            with socket.create_connection(("127.0.0.1", port), timeout=5):
                return
        except OSError:
            time.sleep(0.02)
