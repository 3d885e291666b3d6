"""The folders and settings of the embedded database; the data folder is checked, or made once and completely.

A data folder is made under a temporary name beside its own, filled, written to disk, and renamed. So a process killed
half way leaves nothing that looks like data, and a folder under the real name is never removed. `initdb` runs once per
version: its result is kept in the cache as a template and copied.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from recordari.db.embedded.binaries import Account, Installation, make_folder, private_to_us
from recordari.errors import ConfigurationError, DatabaseUnavailable

NEEDED_BYTES = 100 * 1024 * 1024
ABANDONED_AFTER_SECONDS = 3600.0
INITDB_OPTIONS = (
    "--username=postgres",
    "--encoding=UTF8",
    "--data-checksums",
    "--auth-local=trust",  # the socket's folder is open to one account only
    "--auth-host=scram-sha-256",
    "--text-search-config=english",
    "--no-instructions",
)
PORT = 5432  # only a part of the socket's name: the server listens on no network address

DEFAULT_SETTINGS: Mapping[str, str] = {
    # Durability: an acknowledged write survives a crash.
    "fsync": "on",
    "full_page_writes": "on",
    "synchronous_commit": "on",
    # Memory and planning for one machine with a fast disk.
    "shared_buffers": "256MB",
    "work_mem": "8MB",
    "maintenance_work_mem": "128MB",
    "max_connections": "40",
    "random_page_cost": "1.1",
    "jit": "off",
    # Few checkpoints: each one makes the next write of a page log it whole.
    "max_wal_size": "2GB",
    "checkpoint_timeout": "15min",
    "wal_compression": "on",
    # A killed server has its folder synced before it recovers: by one call where there is one, not file by file.
    **({"recovery_init_sync_method": "syncfs"} if sys.platform == "linux" else {}),
    # Small tables change often here (outbox, jobs): look at them earlier than the default does.
    "autovacuum_max_workers": "2",
    "autovacuum_naptime": "30s",
    "autovacuum_vacuum_scale_factor": "0.1",
    "autovacuum_analyze_scale_factor": "0.05",
    "timezone": "UTC",
    # No content in the log. Errors go to the client that caused them and not here, because their text quotes
    # values; `terse` drops the detail lines, which quote rows and statements.
    "log_timezone": "UTC",
    "log_destination": "stderr",
    "log_min_messages": "log",
    "log_min_error_statement": "panic",
    "log_error_verbosity": "terse",
    "log_parameter_max_length": "0",
    "log_parameter_max_length_on_error": "0",
    "log_statement": "none",
    "log_min_duration_statement": "-1",
    "log_checkpoints": "off",
    "log_line_prefix": "%m [%p] ",
    "cluster_name": "recordari",
}
FIXED_SETTINGS = frozenset(
    {"data_directory", "external_pid_file", "listen_addresses", "logging_collector", "port"}
    | {"unix_socket_directories", "unix_socket_permissions"}
)


def explain_os_error(error: OSError, path: Path, account: Account) -> ConfigurationError:
    """An error that tells you what to do about an error of the file system."""
    where = error.filename or path
    match error.errno:
        case errno.ENOSPC | errno.EDQUOT:
            reason = f"the disk that holds {path} is full: free some space and start again (no data was harmed)"
        case errno.EROFS:
            reason = f"{where} is on a read-only file system: choose a data folder that can be written"
        case errno.EACCES | errno.EPERM:
            reason = (
                f"the account {account.name} may not write to {where}: give it the folder, or choose another "
                "data folder"
            )
        case errno.EBUSY:
            reason = f"{path} is itself a mount point: choose a folder inside it as the data folder"
        case _:
            reason = f"{where} cannot be used: {error.strerror or error}"
    return ConfigurationError(f"the embedded database cannot use its folder: {reason}")


def is_vacant(data_dir: Path) -> bool:
    """Whether there is no data folder yet: nothing there, or an empty folder."""
    try:
        return next(data_dir.iterdir(), None) is None
    except FileNotFoundError:
        return True
    except NotADirectoryError:
        raise ConfigurationError(f"{data_dir} is a file; choose a folder for the embedded database") from None


def check_data_folder(data_dir: Path, installation: Installation, account: Account) -> None:
    """Refuse a folder without PostgreSQL data, of another version or of another owner; nothing is changed."""
    version_file = data_dir / "PG_VERSION"
    if not version_file.is_file():
        raise ConfigurationError(
            f"{data_dir} is not empty and holds no PostgreSQL data; choose an empty folder (nothing was changed)"
        )
    version = version_file.read_text(encoding="ascii", errors="replace").strip()
    if version != str(installation.major):
        raise ConfigurationError(
            f"{data_dir} was made by PostgreSQL {version}, but {installation.bin_dir} holds version "
            f"{installation.version}: run `recordari db upgrade`, or configure the folder of the PostgreSQL {version} "
            "programs (nothing was changed)"
        )
    if (owner := data_dir.stat().st_uid) != account.uid:
        raise ConfigurationError(
            f"{data_dir} belongs to the account number {owner}, but the database would run as "
            f"{account.name}: start Recordari as the owner, or give the folder away (`chown -R "
            f"{account.name} {data_dir}`)"
        )


def upgrade_mark(data_dir: Path) -> Path:
    """The file that says that the data is set aside for an upgrade: an empty folder is then no reason to make a new one."""
    return data_dir.with_name(f"{data_dir.name}.upgrading")


def create_data_folder(data_dir: Path, cache_dir: Path, installation: Installation, account: Account) -> None:
    """Make a complete data folder. Call it under the start lock only."""
    if upgrade_mark(data_dir).exists():
        raise ConfigurationError(
            f"the upgrade of {data_dir} to another PostgreSQL has not ended: wait for it, or, if it was broken off, run "
            "`recordari db upgrade` again (no data is lost)"
        )
    parent = data_dir.parent
    prefix = f".{data_dir.name}.new-"
    for leftover in parent.glob(f"{prefix}*"):
        # Made by a process that died before the rename: never a data folder, and no other process works here.
        shutil.rmtree(leftover, ignore_errors=True)
    disk = os.statvfs(parent)
    if disk.f_bavail * disk.f_frsize < NEEDED_BYTES:
        raise _disk_full(parent)
    building = Path(tempfile.mkdtemp(prefix=prefix, dir=parent))
    try:
        if account.owner:
            os.chown(building, *account.owner)
        template = _template(cache_dir, installation, account)
        if template is None:
            _initdb(building, _creation_options(installation), installation, account)
        else:
            _copy(template, building, account)
            _initdb(building, ("--sync-only",), installation, account)
        building.rename(data_dir)
        _sync_folder(parent)
    finally:
        shutil.rmtree(building, ignore_errors=True)


def _creation_options(installation: Installation) -> tuple[str, ...]:
    if installation.major >= 17:
        return (*INITDB_OPTIONS, "--locale-provider=builtin", "--locale=C.UTF-8")
    return (*INITDB_OPTIONS, "--locale=C.UTF-8" if sys.platform == "linux" else "--locale=C")


def _initdb(folder: Path, options: tuple[str, ...], installation: Installation, account: Account) -> None:
    command = [str(installation.bin_dir / "initdb"), f"--pgdata={folder}", *options]
    if installation.major >= 17 and sys.platform == "linux":
        command.append("--sync-method=syncfs")  # one call instead of a thousand
    result = subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
        **account.process_options(),
    )
    if result.returncode == 0:
        return
    if "No space left on device" in result.stderr:
        raise _disk_full(folder)
    reasons = (line for line in result.stderr.splitlines() if "error" in line or "FATAL" in line)
    raise ConfigurationError(f"the embedded database could not be created: {next(reasons, 'no reason given')}")


def _disk_full(path: Path) -> OSError:
    return OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))


def _template(cache_dir: Path, installation: Installation, account: Account) -> Path | None:
    """Find or make the template of this version; None when the cache cannot hold one."""
    recipe = (*_creation_options(installation), platform.machine(), str(installation.bin_dir))
    key = hashlib.sha256("|".join(recipe).encode()).hexdigest()[:12]
    template = cache_dir / f"template-{installation.version}-{key}"
    try:
        make_folder(cache_dir, 0o755)
        if not private_to_us(cache_dir) or not account.can_enter(cache_dir):
            return None
        if template.is_dir():
            return template
        _remove_abandoned(cache_dir)
        building = Path(tempfile.mkdtemp(prefix=".template-", dir=cache_dir))
    except OSError:
        return None
    try:
        if account.owner:
            os.chown(building, *account.owner)
        _initdb(building, _creation_options(installation), installation, account)
        # Another process may have finished the same template first; its template is as good.
        with contextlib.suppress(OSError):
            building.rename(template)
        return template if template.is_dir() else None
    except OSError:
        return None
    finally:
        shutil.rmtree(building, ignore_errors=True)


def _remove_abandoned(cache_dir: Path) -> None:
    for path in cache_dir.glob(".template-*"):
        with contextlib.suppress(FileNotFoundError):
            if time.time() - path.stat().st_mtime > ABANDONED_AFTER_SECONDS:
                shutil.rmtree(path, ignore_errors=True)


def _copy(template: Path, target: Path, account: Account) -> None:
    """Copy the template into the existing folder `target`, for the server's account only."""
    for parent, folders, files in os.walk(template):
        here = target / Path(parent).relative_to(template)
        for name in folders:
            (here / name).mkdir(mode=0o700)
        for name in files:
            shutil.copyfile(Path(parent, name), here / name)
            (here / name).chmod(0o600)
        if account.owner:
            for name in (*folders, *files):
                os.chown(here / name, *account.owner)


def _sync_folder(folder: Path) -> None:
    fd = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


@dataclass(frozen=True, slots=True, kw_only=True)
class StartFailure:
    """A start that failed; `transient` when trying again at once may help."""

    error: DatabaseUnavailable
    transient: bool


def diagnose_start(data_dir: Path, log_file: Path, log_start: int, account: Account) -> StartFailure:
    """Explain from the log and the disk why the server ended while starting."""
    with log_file.open("rb") as log:
        log.seek(log_start)
        lines = log.read(65536).decode("utf-8", errors="replace").splitlines()
    reasons = [line.split("] ", 1)[-1] for line in lines if re.search(r"FATAL|PANIC", line)]
    message = " ".join(reasons)
    disk = os.statvfs(data_dir)
    # On a full disk the log may be silent too. A lack of semaphores is reported as a lack of space.
    is_full = disk.f_bavail * disk.f_frsize < 1024 * 1024
    if is_full or ("No space left" in message and "semaphores" not in message):
        raise _disk_full(data_dir)
    for code in (errno.EROFS, errno.EACCES):
        if os.strerror(code) in message:
            raise OSError(code, os.strerror(code), str(data_dir))
    error = DatabaseUnavailable(
        f"the embedded database does not start: {reasons[0] if reasons else 'no reason given'} "
        f"(data: {data_dir}, account: {account.name}, log: {log_file}); nothing was removed"
    )
    # The remains of a server that was just killed: its shared memory, its pid, its socket.
    remains = ("pre-existing shared memory block", "lock file", "could not create any Unix-domain sockets")
    return StartFailure(error=error, transient=any(text in message for text in remains))


def server_settings(socket_dir: Path, chosen: Mapping[str, str]) -> Mapping[str, str]:
    """The settings of the server; `chosen` may change all but those that supervision needs."""
    for name in chosen:
        if not re.fullmatch(r"[a-z_][a-z0-9_.]*", name) or name in FIXED_SETTINGS:
            raise ConfigurationError(f"the PostgreSQL setting {name!r} cannot be changed for the embedded database")
    return {
        **DEFAULT_SETTINGS,
        **chosen,
        "listen_addresses": "",
        "port": str(PORT),
        "unix_socket_directories": '"' + str(socket_dir).replace('"', '""') + '"',
        "unix_socket_permissions": "0700",
        "logging_collector": "off",
    }


def default_home() -> Path:
    """The folder for data: below `/var/lib` for root, below the home folder for others."""
    return Path("/var/lib/recordari") if os.geteuid() == 0 else Path.home() / ".local" / "share" / "recordari"


def default_cache() -> Path:
    """The folder for the template and copied programs, which can be made again."""
    return Path("/var/cache/recordari") if os.geteuid() == 0 else Path.home() / ".cache" / "recordari"
