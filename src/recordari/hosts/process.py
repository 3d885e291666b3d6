"""The server that hooks start, and that goes with the last host. A hook imports this: only a little of the standard library."""

from __future__ import annotations

import os
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path
    from typing import Any

STARTING_SECONDS = 30.0  # in which nobody else starts a server


def start_server(settings: dict[str, Any]) -> None:
    """Start the server in the background, unless somebody did and it is still starting, or you run it yourself."""
    folder = settings["folder"]
    if not settings.get("start") or _running(folder, settings["port"]) is not None:
        return
    lock = os.path.join(folder, "starting")
    try:
        if time.time() - os.stat(lock).st_mtime < STARTING_SECONDS:
            return
        os.unlink(lock)
    except OSError:
        pass
    try:
        os.close(os.open(lock, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    except OSError:
        return
    import subprocess

    log = os.open(os.path.join(folder, "server.log"), os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o600)
    process = subprocess.Popen(  # noqa: S603  # the command that `recordari install` wrote
        settings["start"],
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=log,
        cwd=folder,  # not the project: a `.env` there is not ours
        env={**os.environ, **settings["environment"]},
        start_new_session=True,
    )
    with open(os.open(_pid_file(folder), os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o600), "w") as file:
        file.write(f"{process.pid} {settings['port']}")


def stop_server(folder: Path) -> None:
    """Stop the server that a hook started."""
    from signal import SIGTERM

    pid = _running(str(folder))
    if pid is not None:
        os.kill(pid, SIGTERM)
    try:
        os.unlink(_pid_file(str(folder)))
    except OSError:
        pass


def _running(folder: str, port: int | None = None) -> int | None:
    """The process that a hook started, for that port, if it lives; another program may have its number by now."""
    try:
        with open(_pid_file(folder)) as file:
            pid, its_port = map(int, file.read().split())
        if port not in {None, its_port}:
            return None
        with open(f"/proc/{pid}/cmdline", "rb") as line:
            return pid if b"recordari" in line.read() else None
    except (OSError, ValueError):
        return None


def _pid_file(folder: str) -> str:
    return os.path.join(folder, "server.pid")
