"""A real MariaDB of Debian's package, as unprivileged as it can be, on a free port of this machine."""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pymysql
import pytest

from tests.patience import PATIENCE
from tests.ports import free_port

PROGRAM = shutil.which("mariadbd", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
TABLES = ("system_tables.sql", "system_tables_data.sql")  # what a server must have before its first start


class MariaDb:
    """Where the server listens."""

    def __init__(self, port: int, socket_path: Path) -> None:
        self.port = port
        self._socket_path = socket_path

    def dsn(self, user: str, password: str, database: str) -> str:
        return f"mysql://{user}:{password}@127.0.0.1:{self.port}/{database}"

    def run(self, *statements: str, database: str | None = None) -> list[tuple]:
        """Run statements as the server's root; the rows of the last one."""
        with pymysql.connect(unix_socket=str(self._socket_path), user="root", database=database) as connection:
            with connection.cursor() as cursor:
                for statement in statements:
                    cursor.execute(statement)
                rows = list(cursor.fetchall())
            connection.commit()
        return rows


@contextmanager
def running_mariadb() -> Iterator[MariaDb]:
    """Serve until the block ends; the test is skipped where there is no server, except in CI, where that is a failure."""
    if PROGRAM is None:
        reason = "there is no mariadbd here (tests/setup-system installs it)"
        if os.environ.get("CI") == "true":
            pytest.fail(reason)
        pytest.skip(reason)
    port = free_port()
    # Not where TMPDIR says: the path of a socket must be short.
    folder = Path(tempfile.mkdtemp(prefix="recordari-mariadb-", dir="/tmp"))
    (folder / "data").mkdir()
    user = _unprivileged(folder)
    common = ["--no-defaults", f"--datadir={folder / 'data'}", *([f"--user={user}"] if user else [])]
    small = [
        "--innodb-buffer-pool-size=16M",
        "--innodb-flush-log-at-trx-commit=0",
        "--skip-log-bin",
        "--skip-name-resolve",
    ]
    subprocess.run(
        [PROGRAM, *common, *small, "--bootstrap"], input=_first_statements(), check=True, capture_output=True
    )
    listen = ["--bind-address=127.0.0.1", f"--port={port}", f"--socket={folder / 's'}"]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen([PROGRAM, *common, *small, *listen], stdout=subprocess.DEVNULL, stderr=log)
    try:
        server = MariaDb(port, folder / "s")
        _wait(server, process, folder)
        yield server
    finally:
        process.terminate()
        process.wait(PATIENCE)
        shutil.rmtree(folder, ignore_errors=True)


def _first_statements() -> bytes:
    files = [found for name in TABLES for found in Path("/usr/share").glob(f"m*/m*_{name}")]
    assert len(files) == len(TABLES), files
    head = b"CREATE DATABASE mysql;\nUSE mysql;\nSET @auth_root_socket = NULL;\n"
    return head + b"\n".join(file.read_bytes() for file in files)


def _unprivileged(folder: Path) -> str | None:
    """Who runs the server when the tests run as root, which it refuses."""
    if os.geteuid() != 0:
        return None
    folder.chmod(0o755)
    shutil.chown(folder, "nobody")
    shutil.chown(folder / "data", "nobody")
    return pwd.getpwnam("nobody").pw_name


def _wait(server: MariaDb, process: subprocess.Popen[bytes], folder: Path) -> None:
    ends = time.monotonic() + PATIENCE
    while time.monotonic() < ends:
        try:  # not by pymysql, which leaves the socket of a failed try open
            with socket.socket(socket.AF_UNIX) as probe:
                probe.connect(str(folder / "s"))
        except OSError:
            assert process.poll() is None, (folder / "log").read_text()[-2000:]
            time.sleep(0.05)
        else:
            server.run("SELECT 1")
            return
    raise AssertionError("MariaDB does not answer")
