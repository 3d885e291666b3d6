"""Folders for database servers: open to the account that runs them for root, and in memory where there is room."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

ROOM = 2 * 1024**3
"""Bytes that must be left; a whole run takes a few hundred megabytes."""


def open_folder(prefix: str) -> Path:
    """Make a folder that the server's account can enter.

    Not pytest's own folder: it is closed to the account that runs the server for root.
    """
    folder = Path(tempfile.mkdtemp(prefix=prefix, dir=place()))
    folder.chmod(0o755)
    return folder


def place() -> Path:
    """Where to make such folders: thousands of files are made and removed, which most disks are slow at."""
    memory, disk = Path("/dev/shm"), Path(tempfile.gettempdir())
    return memory if os.access(memory, os.W_OK) and _has_room(memory) else disk


def _has_room(memory: Path) -> bool:
    found = os.statvfs(memory)
    if found.f_flag & os.ST_NOEXEC:  # the server's programs may have to be copied there
        return False
    limit = Path("/sys/fs/cgroup/memory.max")  # what is kept there counts as memory of a container
    most = int(limit.read_text()) if limit.is_file() and limit.read_text().strip().isdigit() else 2 * ROOM
    return found.f_bavail * found.f_frsize > ROOM and most >= 2 * ROOM
