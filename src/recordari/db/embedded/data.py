"""The data folder of the embedded database: checked, or made once and completely.

A data folder is made beside its place under a name that never was data, filled, written to disk, and renamed.
So a process killed half way leaves nothing that looks like data, and what exists under the real name is never
removed. `initdb` runs once per version: its result is kept in the cache as a template and copied.
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
from dataclasses import dataclass
from pathlib import Path

from recordari.db.embedded.binaries import Account, Installation, make_folder, private_to_us
from recordari.errors import ConfigurationError, DatabaseUnavailable

__all__ = ["check_data_folder", "create_data_folder", "diagnose_start", "explain_os_error", "is_vacant"]

NEEDED_BYTES = 100 * 1024 * 1024
FORGOTTEN_AFTER_SECONDS = 3600.0
INITDB_OPTIONS = (
    "--username=postgres",
    "--encoding=UTF8",
    "--data-checksums",
    "--auth-local=trust",  # the socket's folder is open to one account only
    "--auth-host=scram-sha-256",
    "--text-search-config=english",
    "--no-instructions",
)


def explain_os_error(error: OSError, path: Path, account: Account) -> ConfigurationError:
    """Turn an error of the file system into a sentence that says what to do."""
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
    """Refuse a folder that is no cluster, of another version or of another owner; nothing is changed."""
    version_file = data_dir / "PG_VERSION"
    if not version_file.is_file():
        raise ConfigurationError(
            f"{data_dir} is not empty and holds no PostgreSQL data; choose an empty folder (nothing was changed)"
        )
    found = version_file.read_text(encoding="ascii", errors="replace").strip()
    if found != str(installation.major):
        raise ConfigurationError(
            f"{data_dir} was made by PostgreSQL {found}, but {installation.bin_dir} holds version "
            f"{installation.version}: configure the folder of the PostgreSQL {found} programs, make a dump "
            "with them (`pg_dump`), and restore it into a new data folder (nothing was changed)"
        )
    if (owner := data_dir.stat().st_uid) != account.uid:
        raise ConfigurationError(
            f"{data_dir} belongs to the account number {owner}, but the database would run as "
            f"{account.name}: start Recordari as the owner, or give the folder away (`chown -R "
            f"{account.name} {data_dir}`)"
        )


def create_data_folder(data_dir: Path, cache_dir: Path, installation: Installation, account: Account) -> None:
    """Make a complete data folder where there is none. Call it under the start lock only."""
    parent = data_dir.parent
    prefix = f".{data_dir.name}.new-"
    for leftover in parent.glob(f"{prefix}*"):
        # Made by a process that died before the rename: never a data folder, and nobody else is at work here.
        shutil.rmtree(leftover, ignore_errors=True)
    disk = os.statvfs(parent)
    if disk.f_bavail * disk.f_frsize < NEEDED_BYTES:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(parent))
    building = Path(tempfile.mkdtemp(prefix=prefix, dir=parent))
    try:
        if account.owner:
            os.chown(building, *account.owner)
        template = _template(cache_dir, installation, account)
        if template is None:
            _initdb(building, installation, account)
        else:
            _copy(template, building, account)
            _write_to_disk(building, installation, account)
        building.rename(data_dir)
        _sync_folder(parent)
    finally:
        shutil.rmtree(building, ignore_errors=True)


def _locale_options(installation: Installation) -> tuple[str, ...]:
    if installation.major >= 17:
        return ("--locale-provider=builtin", "--locale=C.UTF-8")
    return ("--locale=C.UTF-8",) if sys.platform == "linux" else ("--locale=C",)


def _sync_options(installation: Installation) -> tuple[str, ...]:
    # One call instead of a thousand; it exists on Linux from version 17 on.
    return ("--sync-method=syncfs",) if installation.major >= 17 and sys.platform == "linux" else ()


def _initdb(folder: Path, installation: Installation, account: Account) -> None:
    options = (*INITDB_OPTIONS, *_locale_options(installation), *_sync_options(installation))
    _run_initdb(folder, options, installation, account)


def _write_to_disk(folder: Path, installation: Installation, account: Account) -> None:
    _run_initdb(folder, ("--sync-only", *_sync_options(installation)), installation, account)


def _run_initdb(folder: Path, options: tuple[str, ...], installation: Installation, account: Account) -> None:
    command = [str(installation.bin_dir / "initdb"), f"--pgdata={folder}", *options]
    done = subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
        **account.process_options(),
    )
    if done.returncode == 0:
        return
    if "No space left on device" in done.stderr:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(folder))
    reasons = [line for line in done.stderr.splitlines() if "error" in line or "FATAL" in line]
    reason = reasons[0] if reasons else "no reason given"
    raise ConfigurationError(f"the embedded database could not be created: {reason}")


def _template(cache_dir: Path, installation: Installation, account: Account) -> Path | None:
    """Find or make the template of this version; None when the cache cannot hold one."""
    recipe = (*INITDB_OPTIONS, *_locale_options(installation), platform.machine(), str(installation.bin_dir))
    key = hashlib.sha256("|".join(recipe).encode()).hexdigest()[:12]
    template = cache_dir / f"template-{installation.version}-{key}"
    try:
        make_folder(cache_dir, 0o755)
        if not private_to_us(cache_dir) or not account.can_enter(cache_dir):
            return None
        if template.is_dir():
            return template
        _forget_abandoned(cache_dir)
        building = Path(tempfile.mkdtemp(prefix=".template-", dir=cache_dir))
    except OSError:
        return None
    try:
        if account.owner:
            os.chown(building, *account.owner)
        _initdb(building, installation, account)
        # Somebody else may have finished the same template first; theirs is as good.
        with contextlib.suppress(OSError):
            building.rename(template)
        return template if template.is_dir() else None
    except OSError:
        return None
    finally:
        shutil.rmtree(building, ignore_errors=True)


def _forget_abandoned(cache_dir: Path) -> None:
    for path in cache_dir.glob(".template-*"):
        with contextlib.suppress(FileNotFoundError):
            if time.time() - path.stat().st_mtime > FORGOTTEN_AFTER_SECONDS:
                shutil.rmtree(path, ignore_errors=True)


def _copy(template: Path, target: Path, account: Account) -> None:
    """Copy the template into the existing folder `target`, for the server's account only."""
    for parent, folders, files in os.walk(template):
        here = target / Path(parent).relative_to(template)
        for name in folders:
            (here / name).mkdir(mode=0o700)
            if account.owner:
                os.chown(here / name, *account.owner)
        for name in files:
            shutil.copyfile(Path(parent, name), here / name)
            (here / name).chmod(0o600)
            if account.owner:
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
    said = " ".join(reasons)
    disk = os.statvfs(data_dir)
    # On a full disk the log may be silent too. A lack of semaphores is reported as a lack of space.
    is_full = disk.f_bavail * disk.f_frsize < 1024 * 1024
    if is_full or ("No space left" in said and "semaphores" not in said):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(data_dir))
    for code in (errno.EROFS, errno.EACCES):
        if os.strerror(code) in said:
            raise OSError(code, os.strerror(code), str(data_dir))
    error = DatabaseUnavailable(
        f"the embedded database does not start: {reasons[0] if reasons else 'no reason given'} "
        f"(data: {data_dir}, account: {account.name}, log: {log_file}); nothing was removed"
    )
    # The remains of a server that was just killed: its shared memory, its pid, its socket.
    remains = (
        "pre-existing shared memory block",
        "lock file",
        "could not create any Unix-domain sockets",
    )
    return StartFailure(error=error, transient=any(text in said for text in remains))
