"""Fuzz the REST API by its own description: no answer of 5xx, and none that the description does not promise.

    python bench/fuzz.py --minutes 5

A server with a database of its own is started for it, and thrown away afterwards. Needs the package `schemathesis`.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

BIN = Path(sys.executable).parent
CHECKS = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_headers_conformance",
    "response_schema_conformance",
)
ACTING = ("Recordari-User: ana", "Recordari-Agent: helper", "Recordari-Session: chat-1", "Recordari-Run: run-1")
LEFT_OUT = ("revoke_key", "import_items", "import_export", "metrics")


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def server() -> Iterator[tuple[str, str]]:
    """The address of a fresh server, and an administrator's key to it."""
    home = Path(tempfile.mkdtemp(prefix="recordari-fuzz-"))
    home.chmod(0o755)  # an unprivileged user runs the database when we are root
    port = free_port()
    environment = {
        **os.environ,
        "RECORDARI_HOME": str(home),
        "RECORDARI_PORT": str(port),
        "RECORDARI_EMBEDDING_PROFILE": "fast",
        "RECORDARI_RATE_LIMIT": "",
        "RECORDARI_LOG_LEVEL": "error",
    }
    program = [str(BIN / "recordari")]
    log = (home / "server.log").open("wb")
    process = subprocess.Popen([*program, "serve"], env=environment, stdout=log, stderr=log)
    try:
        wait_for(f"http://127.0.0.1:{port}/readyz", process)
        made = subprocess.run(
            [*program, "key", "create", "fuzz", "--role", "admin", "--json"],
            env=environment,
            check=True,
            capture_output=True,
        )
        yield f"http://127.0.0.1:{port}", json.loads(made.stdout)["key"]
    finally:
        process.terminate()
        process.wait(60)
        log.close()
        sys.stdout.write((home / "server.log").read_text()[-4_000:])
        shutil.rmtree(home, ignore_errors=True)


def wait_for(address: str, process: subprocess.Popen[bytes]) -> None:
    """Return when the server is ready."""
    for _ in range(600):
        if process.poll() is not None:
            sys.exit("the server did not start")
        try:
            with urllib.request.urlopen(address, timeout=2):
                return
        except OSError:
            time.sleep(0.2)
    sys.exit("the server was not ready in time")


def main() -> None:
    """Run schemathesis against a fresh server."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=2.0, help="how long")
    parser.add_argument("more", nargs="*", help="further arguments of `schemathesis run`, after --")
    given = parser.parse_args()
    with server() as (address, key):
        done = subprocess.run(
            [
                *(str(BIN / "schemathesis"), "run", f"{address}/openapi.json"),
                *("--header", f"Authorization: Bearer {key}", "--checks", ",".join(CHECKS)),
                *("--max-time", str(int(given.minutes * 60)), "--continue-on-failure", "--no-color"),
                # Who acts is fixed, so that things are found again; and the key that is used must not be revoked.
                *(part for name in ACTING for part in ("--header", name)),
                *(part for name in LEFT_OUT for part in ("--exclude-operation-id", name)),
                *("--request-timeout", "30", "--generation-database", "none", *given.more),
            ],
            check=False,
        )
    sys.exit(done.returncode)


if __name__ == "__main__":
    main()
