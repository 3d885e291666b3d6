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
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{probe.getsockname()[1]}"
    command = [str(program()), "serve", "s3", str(folder), "--addr", address, "--config", str(folder / "none")]
    process = subprocess.Popen(
        [*command, "--auth-key", f"{ACCESS_KEY},{SECRET_KEY}", "--dir-cache-time", "0s"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        host, port = address.split(":")
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            try:
                socket.create_connection((host, int(port)), timeout=1).close()
                break
            except OSError:
                time.sleep(0.05)
        yield S3Server(endpoint=f"http://{address}", folder=folder)
    finally:
        process.terminate()
        process.wait(timeout=10)
