"""A PostgreSQL of its own with passwords, as an operator has one: for tools that try what needs a database from outside."""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psycopg

from recordari.db.embedded.binaries import choose_account, find_installation

START_SECONDS = 120.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Addresses:
    """Of one database: the owner's, and that of the application, whose login `recordari db init` makes."""

    owner: str
    application: str


@contextmanager
def running_postgres(port: int) -> Iterator[Addresses]:
    """A server on a port of the loopback interface, gone with its data at the end."""
    folder = Path(tempfile.mkdtemp(prefix="recordari-postgres-"))
    folder.chmod(0o755)
    data, secret = folder / "data", folder / "password"
    account = choose_account(data)
    programs = find_installation(None, folder / "cache", account).bin_dir
    password = secrets.token_hex(16)
    secret.write_text(password)
    if account.owner:
        os.chown(folder, *account.owner)
        os.chown(secret, *account.owner)
    options = account.process_options()
    made = [f"--pgdata={data}", "--username=owner", "--auth=scram-sha-256", f"--pwfile={secret}", "--no-locale"]
    subprocess.run([programs / "initdb", *made, "--encoding=UTF8"], check=True, stdout=subprocess.DEVNULL, **options)
    set_to = ["listen_addresses=127.0.0.1", f"port={port}", "unix_socket_directories="]
    words = [word for one in set_to for word in ("-c", one)]
    with (folder / "log").open("wb") as log:
        server = subprocess.Popen([programs / "postgres", "-D", data, *words], stdout=log, stderr=log, **options)
    try:
        with _connected(f"postgresql://owner:{password}@127.0.0.1:{port}/postgres", server) as connection:
            connection.execute("CREATE DATABASE recordari")
        yield Addresses(
            owner=f"postgresql://owner:{password}@127.0.0.1:{port}/recordari",
            application=f"postgresql://recordari:{secrets.token_hex(16)}@127.0.0.1:{port}/recordari",
        )
    finally:
        server.send_signal(signal.SIGINT)  # end at once, but in order
        server.wait()
        shutil.rmtree(folder, ignore_errors=True)


def _connected(address: str, server: subprocess.Popen[bytes]) -> psycopg.Connection:
    ends = time.monotonic() + START_SECONDS
    while True:
        try:
            return psycopg.connect(address, autocommit=True)
        except psycopg.OperationalError:
            if server.poll() is not None or time.monotonic() > ends:
                raise
            time.sleep(0.1)
