"""The processes of the embedded database: file locks, the postmaster's pid file, and the examination of a pid.

Three kinds of lock are in the run folder beside the data folder:

* `lock` is held while a process decides to start or stop the server;
* `users/<pid>-<n>` is held by each process that uses the server, for as long as it does;
* `alive` is inherited by the server itself. Every PostgreSQL process of this data folder holds it, so a process that
  can take it knows that none is left, whatever the pid file says.

All of them are `flock` locks: the kernel drops them when the holder dies, `kill -9` included.
"""

from __future__ import annotations

import atexit
import contextlib
import errno
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from recordari.errors import DatabaseUnavailable

if sys.platform != "win32":
    import fcntl

POLL_SECONDS = 0.01
# Above every pid_max (2^22 on Linux, 99,998 on macOS): the pid of a process that cannot exist.
NO_SUCH_PID = 2_147_483_646

_open_locks: set[int] = set()
_children: dict[int, subprocess.Popen[bytes]] = {}


class ProcessKind(StrEnum):
    ABSENT = "absent"
    ZOMBIE = "zombie"
    POSTGRES = "postgres"  # a server process of the data folder in question
    OTHER = "other"


@dataclass(frozen=True, slots=True, kw_only=True)
class PidFile:
    """The lines of `postmaster.pid` that matter here; `pid` is None when the file is empty or garbled."""

    pid: int | None
    started_at: str
    status: str


def open_lock(path: Path, *, owner: tuple[int, int] | None = None) -> int:
    """Open (and create) a lock file without following links, and return its descriptor.

    `owner` is the (uid, gid) of the file when root creates it for another account.
    """
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    if owner is not None:
        os.fchown(fd, *owner)
    _open_locks.add(fd)
    return fd


def close_lock(fd: int) -> None:
    """Close a lock's descriptor; the lock ends with its last descriptor."""
    _open_locks.discard(fd)
    os.close(fd)


def try_lock(fd: int, *, shared: bool = False) -> bool:
    """Take the lock now; False when another process holds it."""
    try:
        fcntl.flock(fd, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in (errno.EWOULDBLOCK, errno.EACCES):
            return False
        raise
    return True


@contextlib.contextmanager
def wait_for_lock(path: Path, deadline: float, *, owner: tuple[int, int] | None = None) -> Iterator[None]:
    """Hold the lock of `path` for the block; give up at `deadline` (monotonic seconds)."""
    fd = open_lock(path, owner=owner)
    try:
        while not try_lock(fd):
            if time.monotonic() >= deadline:
                raise DatabaseUnavailable(
                    f"another process is still starting or stopping the database (it holds {path}); try "
                    "again, and if this stays so look for a hanging `recordari` process"
                )
            time.sleep(POLL_SECONDS)
        yield
    finally:
        close_lock(fd)


def live_locks(folder: Path, *, clean: bool) -> int:
    """Count the files of `folder` whose holder is alive; with `clean`, remove those of dead holders.

    Owners hold their file exclusively and counters probe it shared, so that two counters never take each other for an
    owner. Clean only under the start lock: a file is created and locked under it too.
    """
    alive = 0
    for path in sorted(folder.iterdir()) if folder.is_dir() else ():
        try:
            fd = open_lock(path)
        except FileNotFoundError:
            continue
        try:
            if not try_lock(fd, shared=True):
                alive += 1
            elif clean:
                path.unlink(missing_ok=True)
        finally:
            close_lock(fd)
    return alive


def read_pid_file(path: Path) -> PidFile | None:
    """Read a `postmaster.pid` or socket lock file; None when there is none."""
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except FileNotFoundError:
        return None
    pid = int(lines[0]) if lines and lines[0].strip().isdigit() else None
    return PidFile(
        pid=pid or None,
        started_at=lines[2].strip() if len(lines) > 2 else "",
        status=lines[7].strip() if len(lines) > 7 else "",
    )


def neutralise_pid_file(path: Path) -> None:
    """Make a stale `postmaster.pid` harmless without losing the lines that PostgreSQL still checks.

    PostgreSQL refuses to start while the pid in the file exists, even as a zombie or as an unrelated process. The other
    lines name the shared memory of the dead server, by which PostgreSQL finds backends that outlived it. So the file
    stays and only its pid becomes one that cannot exist. A file without such lines is removed.
    """
    fd = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        _, _, rest = os.read(fd, 65536).partition(b"\n")
        if not rest.strip():
            path.unlink()
            return
        content = b"%d\n%s" % (NO_SUCH_PID, rest)
        os.pwrite(fd, content, 0)
        os.ftruncate(fd, len(content))
    finally:
        os.close(fd)


def remember_child(process: subprocess.Popen[bytes]) -> None:
    _children[process.pid] = process


@atexit.register
def _let_go() -> None:
    """Detach from servers that continue after us; otherwise Python warns of each at the exit."""
    for child in _children.values():
        if child.poll() is None:
            child.returncode = 0


def reap(pid: int) -> None:
    """Collect `pid` if it is a dead server that we started, so that it does not stay as a zombie."""
    child = _children.get(pid)
    if child is not None and child.poll() is not None:
        del _children[pid]


def examine_process(pid: int, data_dir: Path) -> ProcessKind:
    """Whether `pid` exists, and whether it is a PostgreSQL process of `data_dir`."""
    reap(pid)
    proc = Path("/proc") / str(pid)
    try:
        state = (proc / "stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()[0]
        arguments = (proc / "cmdline").read_bytes().decode("utf-8", errors="replace").split("\0")
    except OSError:
        return _examine_without_proc(pid, data_dir)
    if state in "ZX":
        return ProcessKind.ZOMBIE
    if not _names_postgres(arguments[0]):
        return ProcessKind.OTHER
    try:
        # Every process of a server has its data folder as working directory.
        is_ours = (proc / "cwd").samefile(data_dir)
    except OSError:
        is_ours = str(data_dir) in arguments
    return ProcessKind.POSTGRES if is_ours else ProcessKind.OTHER


def _names_postgres(command: str) -> bool:
    return command.startswith("postgres:") or Path(command).name in {"postgres", "postmaster"}


def _examine_without_proc(pid: int, data_dir: Path) -> ProcessKind:
    """The same from `kill -0` and `ps`, for systems without /proc."""
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return ProcessKind.ABSENT
    except PermissionError:
        return ProcessKind.OTHER
    ps = ["/bin/ps", "-ww", "-o", "stat=,command=", "-p", str(pid)]
    line = subprocess.run(ps, capture_output=True, text=True, check=False).stdout.strip()
    state, _, command = line.partition(" ")
    if not line:
        return ProcessKind.ABSENT
    if state.startswith("Z"):
        return ProcessKind.ZOMBIE
    program = command.strip().split(" -D ")[0]
    is_ours = _names_postgres(program) and str(data_dir) in command
    return ProcessKind.POSTGRES if is_ours else ProcessKind.OTHER


def _forget_after_fork() -> None:
    """Close the descriptors in a forked child, which does not use the server; the parent keeps the locks."""
    for fd in tuple(_open_locks):
        with contextlib.suppress(OSError):
            os.close(fd)
    _open_locks.clear()
    # Detach the parent's children, else their garbage collection here warns about running processes.
    for child in _children.values():
        child.returncode = 0
    _children.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_after_fork)
