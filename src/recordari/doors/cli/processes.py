"""`recordari serve --processes N`: several server processes on one listening socket.

The first process holds the socket, the embedded database and the background work, and serves nothing itself. It starts the
others, starts one again that ends, and stops all of them. They end by themselves if it does.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager, suppress
from dataclasses import dataclass

from recordari.config import Settings
from recordari.core.telemetry import METRICS_FOLDER, get_log
from recordari.doors.rest.shared_counts import make_file
from recordari.errors import ConfigurationError, RecordariError

MOST_PROCESSES = 64
FEWEST_CONNECTIONS = 2  # of a process with the database
READY = b"ready"
START_SECONDS = 120.0
GRACE_SECONDS = 15.0  # to finish open requests; then a process is killed
FIRST_RESTART, LONGEST_RESTART = 0.2, 10.0
SETTLED_SECONDS = 60.0

log = get_log(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Descriptors:
    """What a server process gets from the first: descriptors of the listening socket, of the counts, and of its line."""

    listener: int
    counts: int
    line: int
    """A socket: the process says that it is ready, and sees when the first process has ended."""

    @classmethod
    def read(cls, text: str) -> Descriptors:
        listener, counts, line = map(int, text.split(","))
        return cls(listener=listener, counts=counts, line=line)

    def __str__(self) -> str:
        return f"{self.listener},{self.counts},{self.line}"


class Processes:
    """Keeps a number of server processes running until it is cancelled."""

    def __init__(self, settings: Settings, listener: socket.socket, number: int) -> None:
        if sys.platform == "win32":
            raise ConfigurationError("several processes need Linux or macOS; leave out --processes")
        self._settings = settings
        self._listener = listener
        self._number = number
        self._metrics = tempfile.TemporaryDirectory(prefix="recordari-metrics-")
        self._counts = make_file()
        self._ready = 0
        self.all_ready = asyncio.Event()

    async def run(self) -> None:
        """Run all of them; raise if one does not start at all."""
        with self._metrics, self._counts:
            async with asyncio.TaskGroup() as group:
                for _ in range(self._number):
                    group.create_task(self._keep_one())

    async def _keep_one(self) -> None:
        pause = FIRST_RESTART
        while True:
            started = time.monotonic()
            code = await self._run_one()
            log.error("server_process_ended", code=code)
            pause = FIRST_RESTART if time.monotonic() - started > SETTLED_SECONDS else min(2 * pause, LONGEST_RESTART)
            await asyncio.sleep(pause)

    async def _run_one(self) -> int:
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        share = Descriptors(listener=self._listener.fileno(), counts=self._counts.fileno(), line=theirs.fileno())
        async with AsyncExitStack() as stack:
            stack.callback(ours.close)
            with theirs:
                process = await asyncio.create_subprocess_exec(
                    *(sys.executable, "-m", "recordari", "serve", "--share", str(share)),
                    env={**os.environ, **self._environment()},
                    pass_fds=(share.listener, share.counts, share.line),
                    stdin=subprocess.DEVNULL,
                    start_new_session=True,  # Ctrl-C in a terminal reaches the first process alone
                )
            stack.push_async_callback(_stop, process)
            await self._hear(ours)
            return await process.wait()

    async def _hear(self, line: socket.socket) -> None:
        """Wait until the process says that it is ready."""
        with suppress(TimeoutError, OSError):
            async with asyncio.timeout(START_SECONDS):
                if await asyncio.get_running_loop().sock_recv(line, len(READY)) == READY:
                    self._ready += 1
        if not self._ready:
            raise RecordariError("the server did not start; see the log above for the reason")
        if self._ready >= self._number:
            self.all_ready.set()

    def _environment(self) -> dict[str, str]:
        """Every process has its part of the connections, and so of the places for requests."""
        connections = max(FEWEST_CONNECTIONS, -(-self._settings.pool_max_size // self._number))
        return {
            "RECORDARI_WORKER": "false",
            "RECORDARI_POOL_MAX_SIZE": str(connections),
            METRICS_FOLDER: self._metrics.name,
        }


async def _stop(process: asyncio.subprocess.Process) -> None:
    if process.returncode is not None:
        return
    with suppress(ProcessLookupError):
        process.terminate()
    try:
        async with asyncio.timeout(GRACE_SECONDS):
            await process.wait()
    except TimeoutError:
        process.kill()
        await process.wait()


@contextmanager
def stopping_with(share: Descriptors) -> Iterator[None]:
    """Stop this process, as SIGTERM does, if the first process ends during the block."""
    loop = asyncio.get_running_loop()

    def heard() -> None:
        loop.remove_reader(share.line)
        os.kill(os.getpid(), signal.SIGTERM)

    loop.add_reader(share.line, heard)
    try:
        yield
    finally:
        loop.remove_reader(share.line)


def say_ready(share: Descriptors) -> None:
    os.write(share.line, READY)
