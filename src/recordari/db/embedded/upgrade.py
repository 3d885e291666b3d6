"""The embedded database on another major version of PostgreSQL: the data folders, set aside and exchanged.

The old folder is set aside as `<name>.<major>` and a mark is left, so that nobody uses or makes a folder meanwhile. The
new one is filled beside it and takes its place whole. Whatever breaks this off, it can begin again: the old folder is
only read, and never removed.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from recordari.db.embedded.binaries import choose_account, find_installation, find_major
from recordari.db.embedded.data import is_vacant, upgrade_mark
from recordari.db.embedded.server import EmbeddedServer
from recordari.errors import ConfigurationError, Conflict

LOCK_SECONDS = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """The server of the old data, set aside, and that of the new, to be filled."""

    old: EmbeddedServer
    new: EmbeddedServer
    old_major: int
    new_major: int
    programs: Path
    """The new PostgreSQL's: its `pg_dump` reads older servers."""


@contextmanager
def exchanging(home: Path, *, bin_dir: Path | None, old_bin_dir: Path | None) -> Iterator[Exchange | None]:
    """Set the data aside for the block; when it ends well, the new data takes its place, else the old comes back.

    None if the data is of the version that runs it already. `old_bin_dir` has the programs of the old version; without
    it they are looked for in the system.
    """
    server = EmbeddedServer(home, bin_dir=bin_dir)
    data_dir, mark = server.data_dir, upgrade_mark(server.data_dir)
    account = choose_account(data_dir)
    installation = find_installation(bin_dir, server.cache_dir, account)
    if mark.exists() and is_vacant(data_dir):
        major = int(mark.read_text("ascii"))  # broken off: it begins again
    elif is_vacant(data_dir):
        raise ConfigurationError(f"there is no database in {data_dir} to be upgraded; check RECORDARI_HOME")
    else:
        mark.unlink(missing_ok=True)
        major = int((data_dir / "PG_VERSION").read_text("ascii"))
    if major == installation.major:
        yield None
        return
    if major > installation.major:
        raise ConfigurationError(
            f"the data is of PostgreSQL {major}, but the programs in {installation.bin_dir} are older "
            f"({installation.version}); install newer ones"
        )
    aside, filled = (data_dir.with_name(f"{data_dir.name}.{name}") for name in (str(major), "new"))
    old_programs = _old_programs(major, old_bin_dir, server)
    _set_aside(server, aside, mark, major)
    try:
        _make_alike(filled, aside)
        yield Exchange(
            old=EmbeddedServer(aside, bin_dir=old_programs),
            new=EmbeddedServer(filled, bin_dir=bin_dir),
            old_major=major,
            new_major=installation.major,
            programs=installation.bin_dir,
        )
    except BaseException:
        aside.rename(data_dir)
        mark.unlink()
        raise
    finally:
        for folder in (filled, aside):
            shutil.rmtree(folder.with_name(f"{folder.name}.run"), ignore_errors=True)
        filled.with_name(f"{filled.name}.log").unlink(missing_ok=True)
    filled.rename(data_dir)
    mark.unlink()


def _old_programs(major: int, bin_dir: Path | None, server: EmbeddedServer) -> Path:
    account = choose_account(server.data_dir)
    found = find_installation(bin_dir, server.cache_dir, account) if bin_dir else find_major(major, account)
    if found is None:
        raise ConfigurationError(
            f"the data is of PostgreSQL {major}, and its programs are needed once more to read it: install them (on "
            f"Debian: postgresql-{major} and postgresql-{major}-pgvector), or name their folder with --from"
        )
    if found.major != major:
        raise ConfigurationError(f"{bin_dir} has PostgreSQL {found.version}, but the data is of {major}")
    return found.bin_dir


def _set_aside(server: EmbeddedServer, aside: Path, mark: Path, major: int) -> None:
    """Move the data away from everybody, unless somebody uses it."""
    with server.deciding(LOCK_SECONDS) as (account, _):
        if is_vacant(server.data_dir):
            return  # done before by an upgrade that was broken off
        if server.status().pid is not None or server.is_inhabited(account):
            raise Conflict("the database runs; stop every server and worker, then `recordari db stop`, and try again")
        if aside.exists():
            raise Conflict(f"{aside} is in the way, perhaps from an upgrade before; move it elsewhere and try again")
        mark.write_text(str(major), "ascii")
        server.data_dir.rename(aside)


def _make_alike(folder: Path, model: Path) -> None:
    """Make an empty folder of the same owner, who runs the server; what an upgrade before left there goes."""
    EmbeddedServer(folder).stop("immediate")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(mode=0o700)
    state = model.stat()
    if state.st_uid != os.geteuid():
        os.chown(folder, state.st_uid, state.st_gid)
