"""A real server that speaks S3, on this machine: rclone in front of a folder."""

from __future__ import annotations

import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.patience import PATIENCE
from tests.ports import free_port

ACCESS_KEY, SECRET_KEY, BUCKET = "test-access", "test-secret", "payloads"


@dataclass(frozen=True, slots=True, kw_only=True)
class S3Server:
    """Where the server listens, and where it keeps what it is given."""

    endpoint: str
    folder: Path

    def files(self) -> list[Path]:
        """The objects in the bucket."""
        return [path for path in (self.folder / BUCKET).rglob("*") if path.is_file()]


def program() -> str | None:
    """The server's program, which comes with the development install."""
    beside = Path(sys.executable).with_name("rclone")
    return str(beside) if beside.exists() else shutil.which("rclone")


@contextmanager
def running(folder: Path) -> Iterator[S3Server]:
    """A server with an empty bucket, stopped afterwards."""
    (folder / BUCKET).mkdir(parents=True)
    address = f"127.0.0.1:{free_port()}"
    command = [str(program()), "serve", "s3", str(folder), "--addr", address, "--config", str(folder / "none")]
    process = subprocess.Popen(
        [*command, "--auth-key", f"{ACCESS_KEY},{SECRET_KEY}", "--dir-cache-time", "0s"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        host, port = address.split(":")
        ends = time.monotonic() + PATIENCE
        while True:
            try:
                socket.create_connection((host, int(port)), timeout=30).close()
                break
            except OSError:
                assert process.poll() is None, "rclone ended by itself"
                assert time.monotonic() < ends, "rclone does not answer"
                time.sleep(0.05)
        yield S3Server(endpoint=f"http://{address}", folder=folder)
    finally:
        process.terminate()
        process.wait(timeout=PATIENCE)
