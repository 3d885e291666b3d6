"""A Redis server of one test's own, that can be killed, stopped and started again."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.patience import PATIENCE
from tests.ports import free_port

PROGRAM = shutil.which("redis-server")


def require_redis() -> str:
    """The server's program; the test is skipped where there is none, except in CI, where that is a failure."""
    if PROGRAM is None:
        reason = "there is no redis-server here (tests/setup-system installs it)"
        if os.environ.get("CI") == "true":
            pytest.fail(reason)
        pytest.skip(reason)
    return PROGRAM


class RedisServer:
    """One server process at a time, always at the same address and with the same files."""

    def __init__(self, folder: Path) -> None:
        self.program = require_redis()
        self.folder = folder
        self.port = free_port()
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    def start(self) -> None:
        assert self._process is None
        options = ["--port", str(self.port), "--bind", "127.0.0.1", "--dir", str(self.folder), "--save", ""]
        self._process = subprocess.Popen([self.program, *options], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        ends = time.monotonic() + PATIENCE
        while self.ask("PING") != b"+PONG":
            assert self._process.poll() is None, "redis-server ended by itself"
            assert time.monotonic() < ends, "redis-server does not answer"
            time.sleep(0.02)

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def hang(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)

    def ask(self, *words: str) -> bytes:
        """The first line of the answer to one command; empty when there is no server."""
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=30) as connection:
                connection.sendall(" ".join(words).encode() + b"\r\n")
                return connection.makefile("rb").readline().strip()
        except OSError:
            return b""


@contextmanager
def running_redis(folder: Path) -> Iterator[RedisServer]:
    server = RedisServer(folder)
    server.start()
    try:
        yield server
    finally:
        server.kill()
