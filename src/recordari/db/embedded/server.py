"""The embedded PostgreSQL: found, created, started, shared and stopped, with no server to install.

Several processes may use one data folder at the same time. The first one starts the server with its settings, the
others join it, and the last one to leave stops it. When a user of the server is killed, the server continues and the
next one joins it; when the server is killed, its users start it again (`db/address.py`), or the next one does. A data
folder is never removed, emptied or made again.

Beside the data folder `<name>` are `<name>.run` (locks and the socket, open to the server's account only) and
`<name>.log`. The log holds messages of the server about itself, never a statement or its values.

Linux and macOS only. On Windows set the DSN of a PostgreSQL that runs there.
"""

from __future__ import annotations

import atexit
import contextlib
import hashlib
import itertools
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any
from urllib.parse import quote

from psycopg import pq

from recordari.core.telemetry import get_log
from recordari.db.embedded.binaries import Account, Installation, choose_account, find_installation, make_folder
from recordari.db.embedded.data import (
    PORT,
    StartFailure,
    check_data_folder,
    create_data_folder,
    default_cache,
    default_home,
    diagnose_start,
    explain_os_error,
    is_vacant,
    server_settings,
)
from recordari.db.embedded.process import (
    POLL_SECONDS,
    PidFile,
    ProcessKind,
    close_lock,
    examine_process,
    live_locks,
    neutralise_pid_file,
    open_lock,
    read_pid_file,
    reap,
    remember_child,
    try_lock,
    wait_for_lock,
)
from recordari.errors import ConfigurationError, DatabaseUnavailable

events = get_log(__name__)

SOCKET_PATH_LIMIT = 100  # the kernel's limit is 104 to 108 bytes
RETRY_SECONDS = 10.0  # how long the remains of a killed server may take to go away
STOP_SECONDS = 60.0
LOG_ROTATION_BYTES = 10 * 1024 * 1024
STOP_SIGNALS = {"smart": signal.SIGTERM, "fast": signal.SIGINT, "immediate": signal.SIGQUIT}

_in_use: set[EmbeddedServer] = set()
_user_numbers = itertools.count(1)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerInfo:
    """The status of the server; `users` counts the processes that use it now."""

    data_dir: Path
    socket_dir: Path
    port: int
    pid: int | None
    running: bool
    version: str
    bin_dir: Path
    users: int


class EmbeddedServer:
    """One data folder and the server that runs on it; blocking, and safe to share between threads."""

    def __init__(
        self,
        data_dir: Path,
        *,
        bin_dir: Path | None = None,
        cache_dir: Path | None = None,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        if sys.platform == "win32":
            raise ConfigurationError("the embedded database needs Linux or macOS; set a DSN instead")
        self.data_dir = data_dir.expanduser().resolve()
        self.run_dir = self.data_dir.with_name(f"{self.data_dir.name}.run")
        self._users_dir = self.run_dir / "users"
        self.log_file = self.data_dir.with_name(f"{self.data_dir.name}.log")
        self._bin_dir = bin_dir
        self.cache_dir = (cache_dir or default_cache()).expanduser().resolve()
        self._settings = server_settings(self.socket_dir, settings or {})
        self._installation: Installation | None = None
        self._mutex = threading.RLock()
        self._uses = 0
        self._user_lock: tuple[int, Path] | None = None

    def acquire(self, timeout: float = 60.0) -> None:
        """Use the server: create the data folder if there is none, start the server or join it.

        Each `acquire` needs one `release`; the same process may nest them.
        """
        with self._mutex, self.deciding(timeout) as (account, deadline):
            (self.run_dir / "stopped").unlink(missing_ok=True)
            self._ensure_running(account, deadline)
            if self._user_lock is None:
                self._user_lock = self._register(account)
                _in_use.add(self)
            self._uses += 1

    def needs_revival(self) -> bool:
        """Whether the server that this process uses is gone, and nobody stopped it (`stop`)."""
        return self._is_wanted() and self._postmaster() is None

    def _is_wanted(self) -> bool:
        return self._uses > 0 and not (self.run_dir / "stopped").exists()

    def revive(self, timeout: float = 60.0) -> None:
        """Start the server again if it died while this process uses it; never on a data folder that is not there."""
        with self._mutex:
            if not self.run_dir.is_dir() or is_vacant(self.data_dir):
                return
            with self.deciding(timeout) as (account, deadline):
                if self._is_wanted():
                    self._ensure_running(account, deadline)

    def release(self) -> None:
        """Leave the server; the last user stops it, unless it was started to stay (`start_detached`)."""
        with self._mutex:
            if self._uses > 1:
                self._uses -= 1
                return
            if self._user_lock is None:
                return
            if not self.run_dir.is_dir():
                # The folders were removed. Do not make them again; a server notices by itself and ends.
                self._unregister()
                return
            try:
                with self.deciding(STOP_SECONDS) as (_, deadline):
                    self._unregister()
                    if live_locks(self._users_dir, clean=True) == 0 and not self._is_detached():
                        self._stop("fast", deadline)
            finally:
                self._unregister()

    # -- the server by itself ----------------------------------------------------------------------

    def start_detached(self, timeout: float = 60.0) -> None:
        """Start the server, or keep the running one, so that it stays when its last user leaves."""
        with self._mutex, self.deciding(timeout) as (account, deadline):
            (self.run_dir / "stopped").unlink(missing_ok=True)
            self._ensure_running(account, deadline)
            pid_file = self._pid_file()
            if pid_file is not None:
                self._write_private(self.run_dir / "detached", _identity(pid_file), account)

    def stop(self, mode: str = "fast", timeout: float = STOP_SECONDS) -> None:
        """Stop the server even if it is in use: `smart` waits for clients, `fast` does not, `immediate` aborts."""
        if mode not in STOP_SIGNALS:
            raise ConfigurationError(f"there is no stop mode {mode!r}; use one of {', '.join(STOP_SIGNALS)}")
        if not self.run_dir.exists():
            return
        with self._mutex, self.deciding(timeout) as (account, deadline):
            (self.run_dir / "detached").unlink(missing_ok=True)
            self._write_private(self.run_dir / "stopped", "", account)  # its users must not start it again
            self._stop(mode, deadline)

    def status(self) -> ServerInfo:
        """Whether the server runs, and where; changes nothing."""
        installation = self._find_installation(choose_account(self.data_dir))
        pid = self._postmaster()
        try:
            users = live_locks(self._users_dir, clean=False)
        except PermissionError:
            users = 0  # only the owner of the server may count
        return ServerInfo(
            data_dir=self.data_dir,
            socket_dir=self.socket_dir,
            port=PORT,
            pid=pid,
            running=self._ping() is pq.Ping.OK,
            version=installation.version,
            bin_dir=installation.bin_dir,
            users=users,
        )

    # -- reaching it -------------------------------------------------------------------------------

    @property
    def socket_dir(self) -> Path:
        """The folder of the server's socket: the run folder, or a short one where its path is too long."""
        path = os.fsencode(self.run_dir / f".s.PGSQL.{PORT}")
        # A comma would make it a list of hosts for libpq, quoted or not.
        if len(path) < SOCKET_PATH_LIMIT and b"," not in path:
            return self.run_dir
        # Fixed and not the environment's temporary folder: every process must find the same one.
        digest = hashlib.sha256(os.fsencode(self.data_dir)).hexdigest()[:16]
        return Path("/tmp") / f"recordari-{digest}"  # noqa: S108 -- refused below unless it is ours alone

    def dsn(self, *, user: str = "postgres", database: str = "postgres") -> str:
        """The address of a database of this server: a libpq URI through its socket."""
        host = quote(str(self.socket_dir), safe="")
        return f"postgresql://{quote(user, safe='')}@/{quote(database, safe='')}?host={host}&port={PORT}"

    def binary(self, name: str) -> Path:
        """The path of a PostgreSQL program (`psql`, `pg_dump`) of the server's own version."""
        installation = self._find_installation(choose_account(self.data_dir))
        path = installation.bin_dir / name
        if not path.is_file():
            raise ConfigurationError(f"this PostgreSQL has no program {name} in {installation.bin_dir}")
        return path

    def tool_environment(self, *, user: str = "postgres", database: str = "postgres") -> dict[str, str]:
        """The environment variables by which any libpq program finds this server."""
        return {"PGHOST": str(self.socket_dir), "PGPORT": str(PORT), "PGUSER": user, "PGDATABASE": database}

    def run_tool(
        self, name: str, *arguments: str, user: str = "postgres", database: str = "postgres", **options: Any
    ) -> subprocess.CompletedProcess[Any]:
        """Run `psql`, `pg_dump` or the like on this server; `options` go to `subprocess.run`."""
        command = [str(self.binary(name)), f"--dbname={self.dsn(user=user, database=database)}", *arguments]
        return subprocess.run(command, check=options.pop("check", False), **options)

    # -- deciding ----------------------------------------------------------------------------------

    @contextlib.contextmanager
    def deciding(self, timeout: float) -> Iterator[tuple[Account, float]]:
        """Hold the start lock, with the folders in place and file errors explained."""
        deadline = time.monotonic() + timeout
        account = choose_account(self.data_dir)
        try:
            self._make_folders(account)
            with wait_for_lock(self.run_dir / "lock", deadline, owner=account.owner):
                yield account, deadline
        except OSError as error:
            raise explain_os_error(error, self.data_dir.parent, account) from error

    def _make_folders(self, account: Account) -> None:
        # The server's account must pass through folders that root makes; an ordinary user keeps them private.
        make_folder(self.data_dir.parent, 0o755 if account.switch else 0o700)
        if account.switch and not account.can_enter(self.data_dir.parent):
            raise ConfigurationError(
                f"PostgreSQL refuses to run as root, and the account {account.name}, which runs it instead, "
                f"cannot enter {self.data_dir.parent}; choose a data folder outside of it, such as "
                f"{default_home() / 'postgres'}"
            )
        for folder in dict.fromkeys((self.run_dir, self._users_dir, self.socket_dir)):
            with contextlib.suppress(FileExistsError):
                folder.mkdir(mode=0o700)
            if account.owner and folder.lstat().st_uid == 0:
                os.chown(folder, *account.owner, follow_symlinks=False)
            state = folder.lstat()
            # An account that can write here could pose as the server or read its data through the socket.
            if state.st_uid != account.uid or state.st_mode & 0o077:
                raise ConfigurationError(
                    f"{folder} must belong to the account {account.name} and be closed to others: run "
                    "Recordari as its owner, or remove it while the database is stopped (it holds no data)"
                )

    def _find_installation(self, account: Account) -> Installation:
        if self._installation is None:
            self._installation = find_installation(self._bin_dir, self.cache_dir, account)
        return self._installation

    def _register(self, account: Account) -> tuple[int, Path]:
        path = self._users_dir / f"{os.getpid()}-{next(_user_numbers)}"
        fd = open_lock(path, owner=account.owner)
        try_lock(fd)
        return fd, path

    def _unregister(self) -> None:
        if self._user_lock is not None:
            fd, path = self._user_lock
            self._user_lock = None
            self._uses = 0
            _in_use.discard(self)
            path.unlink(missing_ok=True)
            close_lock(fd)

    def _forget_after_fork(self) -> None:
        self._mutex = threading.RLock()
        self._uses = 0
        self._user_lock = None

    def _write_private(self, path: Path, text: str, account: Account) -> None:
        fd = open_lock(path, owner=account.owner)
        try:
            os.ftruncate(fd, 0)
            os.write(fd, text.encode())
        finally:
            close_lock(fd)

    def _is_detached(self) -> bool:
        """Whether this run of the server was started to stay."""
        pid_file = self._pid_file()
        try:
            mark = (self.run_dir / "detached").read_text(encoding="utf-8")
        except FileNotFoundError:
            return False
        return pid_file is not None and mark == _identity(pid_file)

    def _pid_file(self) -> PidFile | None:
        try:
            return read_pid_file(self.data_dir / "postmaster.pid")
        except PermissionError:
            return None

    def _postmaster(self) -> int | None:
        """The pid of the server if it really is the server of this data folder."""
        pid_file = self._pid_file()
        if pid_file is None or pid_file.pid is None:
            return None
        is_ours = examine_process(pid_file.pid, self.data_dir) is ProcessKind.POSTGRES
        return pid_file.pid if is_ours else None

    def _ping(self) -> pq.Ping:
        return pq.Ping(pq.PGconn.ping(f"{self.dsn()}&connect_timeout=2".encode()))

    def is_inhabited(self, account: Account) -> bool:
        """Whether any process of a server started here still lives (see the lock `alive`)."""
        fd = open_lock(self.run_dir / "alive", owner=account.owner)
        try:
            return not try_lock(fd)
        finally:
            close_lock(fd)

    # -- starting ----------------------------------------------------------------------------------

    def _ensure_running(self, account: Account, deadline: float) -> None:
        installation = self._find_installation(account)
        patience = time.monotonic() + RETRY_SECONDS
        while (answer := self._ping()) is not pq.Ping.OK:
            if self._postmaster() is not None:
                # It starts, recovers or stops at the moment, or its socket was removed: wait.
                self._await_ready(None, deadline)
            elif answer is pq.Ping.REJECT or self.is_inhabited(account):
                # The postmaster is dead and its children are about to notice; or it runs in another container.
                if time.monotonic() >= (deadline if answer is pq.Ping.REJECT else min(patience, deadline)):
                    raise DatabaseUnavailable(
                        f"processes of a killed database server still work on {self.data_dir}; they end with "
                        "their statement: try again later, or end them by hand (`ps`, then `kill -QUIT`)"
                    )
                time.sleep(POLL_SECONDS)
            else:
                failure = self._start(installation, account, deadline)
                if failure is None:
                    return
                if not failure.transient or time.monotonic() >= min(patience, deadline):
                    raise failure.error

    def _start(self, installation: Installation, account: Account, deadline: float) -> StartFailure | None:
        if is_vacant(self.data_dir):
            create_data_folder(self.data_dir, self.cache_dir, installation, account)
        check_data_folder(self.data_dir, installation, account)
        self._clear_stale_pids()
        with self._open_log(account) as log:
            log_start = log.seek(0, os.SEEK_END)
            child = self._spawn(installation, account, log)
        if self._await_ready(child, deadline):
            events.info("postgres_started", version=installation.version, pid=child.pid)
            return None
        if child.poll() is None:
            raise DatabaseUnavailable(
                "the embedded database is still starting after the time allowed (it may be recovering from "
                f"a crash); try again, or look into {self.log_file}"
            )
        reap(child.pid)
        return diagnose_start(self.data_dir, self.log_file, log_start, account)

    def _clear_stale_pids(self) -> None:
        """Make pid files harmless that PostgreSQL would take for a running server.

        Called when no server answers, none holds the lock `alive` and the pid file names no server of this
        folder. PostgreSQL itself handles a pid that does not exist.
        """
        data_lock = self.data_dir / "postmaster.pid"
        if self._would_block(data_lock):
            neutralise_pid_file(data_lock)
        socket_lock = self.socket_dir / f".s.PGSQL.{PORT}.lock"
        if self._would_block(socket_lock):
            socket_lock.unlink(missing_ok=True)

    def _would_block(self, path: Path) -> bool:
        lock = read_pid_file(path)
        if lock is None or lock.pid is None:
            return lock is not None
        return examine_process(lock.pid, self.data_dir) in {ProcessKind.ZOMBIE, ProcessKind.OTHER}

    def _open_log(self, account: Account) -> IO[bytes]:
        with contextlib.suppress(FileNotFoundError):
            if self.log_file.lstat().st_size > LOG_ROTATION_BYTES:
                self.log_file.replace(self.log_file.with_suffix(".log.1"))
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        fd = os.open(self.log_file, flags, 0o600)
        if account.owner:
            os.fchown(fd, *account.owner)
        return os.fdopen(fd, "ab")

    def _spawn(self, installation: Installation, account: Account, log: IO[bytes]) -> subprocess.Popen[bytes]:
        command = [str(installation.bin_dir / "postgres"), "-D", str(self.data_dir)]
        for name, value in self._settings.items():
            command += ["-c", f"{name}={value}"]
        alive = open_lock(self.run_dir / "alive", owner=account.owner)
        try:
            try_lock(alive)
            child = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,  # the terminal's Ctrl-C is for us, not for the server
                pass_fds=(alive,),
                **account.process_options(),
            )
        finally:
            close_lock(alive)
        remember_child(child)
        return child

    def _await_ready(self, child: subprocess.Popen[bytes] | None, deadline: float) -> bool:
        """Wait until the server answers; False when it is gone, or, for a child of ours, when time is up.

        Ask only when the pid file says `ready`: the server logs every connection that it refuses.
        """
        while True:
            pid_file = self._pid_file()
            if pid_file is not None and pid_file.status == "ready" and self._ping() is pq.Ping.OK:
                return True
            if (child.poll() is not None) if child else (self._postmaster() is None):
                return False
            if time.monotonic() >= deadline:
                if child:
                    return False
                raise DatabaseUnavailable(
                    f"the embedded database (pid {pid_file.pid if pid_file else 'unknown'}) runs but does "
                    f"not answer; look into {self.log_file}, or stop it with `recordari db stop`"
                )
            time.sleep(POLL_SECONDS)

    # -- stopping ----------------------------------------------------------------------------------

    def _stop(self, mode: str, deadline: float) -> None:
        pid = self._postmaster()
        if pid is None:
            if self._ping() is not pq.Ping.NO_RESPONSE:
                raise DatabaseUnavailable("the embedded database runs elsewhere (in another container?); stop it there")
            return
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, STOP_SIGNALS[mode])
        while self._postmaster() == pid:
            if time.monotonic() >= deadline:
                raise DatabaseUnavailable(
                    f"the embedded database (pid {pid}) is still stopping; wait, or stop it with mode immediate"
                )
            time.sleep(POLL_SECONDS)
        reap(pid)
        events.info("postgres_stopped", pid=pid)


def _identity(pid_file: PidFile) -> str:
    return f"{pid_file.pid} {pid_file.started_at}"


@atexit.register
def _release_at_exit() -> None:
    """Release the servers that the program did not, so that they do not outlive their last user."""
    for server in tuple(_in_use):
        server._uses = 1
        with contextlib.suppress(ConfigurationError, DatabaseUnavailable):
            server.release()


def _forget_after_fork() -> None:
    for server in _in_use:
        server._forget_after_fork()
    _in_use.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_after_fork)
