"""Freeze migrations: `python -m tools.migrations` adds the checksum of each new one to the committed list.

A migration that landed never changes: a database that it was applied to would not start any more.
"""

from __future__ import annotations

import sys
from pathlib import Path

from recordari.db import migrate

LIST = Path(migrate.__file__).parent / "migrations" / "checksums.txt"


def listed() -> dict[str, str]:
    """The committed checksums by file name; the list is as `sha256sum` writes it."""
    lines = LIST.read_text("utf-8").splitlines() if LIST.exists() else []
    return {name: checksum for checksum, name in (line.split() for line in lines)}


def present() -> dict[str, str]:
    """The checksums of this version's files."""
    return {f"{step.name}.sql": step.checksum for step in migrate.migrations()}


def broken(landed: dict[str, str], files: dict[str, str]) -> list[str]:
    """Say which landed migrations changed or are missing."""
    return [
        f"{name} {'was changed' if name in files else 'is missing'}: restore it and write a new migration instead"
        for name, checksum in landed.items()
        if files.get(name) != checksum
    ]


def unlisted(landed: dict[str, str], files: dict[str, str]) -> list[str]:
    """Say which migrations are not frozen yet."""
    return [f"{name} is not listed: run `python -m tools.migrations`" for name in files if name not in landed]


if __name__ == "__main__":
    if complaints := broken(listed(), present()):
        sys.exit("\n".join(complaints))
    LIST.write_text("".join(f"{checksum}  {name}\n" for name, checksum in present().items()), "utf-8")
