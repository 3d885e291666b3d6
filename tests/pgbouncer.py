"""A pgbouncer of one test's own, in transaction mode, before the server of the tests."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from recordari.db.address import APP_LOGIN
from recordari.db.embedded.binaries import choose_account
from recordari.db.embedded.data import PORT
from recordari.db.embedded.server import EmbeddedServer
from tests.folders import open_folder
from tests.patience import PATIENCE
from tests.ports import free_port

PROGRAM = shutil.which("pgbouncer") or shutil.which("pgbouncer", path="/usr/sbin")

# Two server connections for each login: transactions of one client meet both, in any order.
CONFIGURATION = """
[databases]
* = host={socket_dir} port={server_port}

[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = trust
auth_file = {users}
pool_mode = transaction
default_pool_size = {servers}
max_client_conn = 200
max_prepared_statements = 0
"""


def require_pgbouncer() -> str:
    """The program; the test is skipped where there is none, except in CI, where that is a failure."""
    if PROGRAM is None:
        reason = "there is no pgbouncer here (tests/setup-system installs it)"
        if os.environ.get("CI") == "true":
            pytest.fail(reason)
        pytest.skip(reason)
    return PROGRAM


class Pooler:
    """The address of a running pgbouncer."""

    def __init__(self, port: int) -> None:
        self.port = port

    def dsn(self, *, user: str, database: str) -> str:
        return f"postgresql://{user}@127.0.0.1:{self.port}/{database}"


@contextmanager
def running_pgbouncer(server: EmbeddedServer, *, servers: int = 2) -> Iterator[Pooler]:
    program, port = require_pgbouncer(), free_port()
    version = subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout.split()[1]
    folder = open_folder("recordari-pgbouncer-")
    users = folder / "users.txt"
    users.write_text(f'"{APP_LOGIN}" ""\n"postgres" ""\n')
    configuration = CONFIGURATION.format(
        socket_dir=server.socket_dir, server_port=PORT, port=port, servers=servers, users=users
    )
    if tuple(map(int, version.split(".")[:2])) < (1, 21):  # it keeps no prepared statements, and has no setting for it
        configuration = configuration.replace("max_prepared_statements = 0\n", "")
    file = folder / "pgbouncer.ini"
    file.write_text(configuration)
    # The socket of the server is open to its account alone; and pgbouncer does not run as root.
    process = subprocess.Popen(
        [program, "-q", str(file)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        **choose_account(server.data_dir).process_options(),
    )
    try:
        _await_answer(process, port)
        yield Pooler(port)
    finally:
        process.kill()
        process.wait()
        shutil.rmtree(folder, ignore_errors=True)


def _await_answer(process: subprocess.Popen[bytes], port: int) -> None:
    ends = time.monotonic() + PATIENCE
    while True:
        assert process.poll() is None, "pgbouncer ended by itself"
        assert time.monotonic() < ends, "pgbouncer does not answer"
        try:
            with socket.create_connection(("127.0.0.1", port), timeout=5):
                return
        except OSError:
            time.sleep(0.02)
