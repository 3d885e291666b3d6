"""Counts of requests that several processes of one server share, in a file that all of them have mapped."""

from __future__ import annotations

import hashlib
import mmap
import struct
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO

SLOTS = 1 << 15
TRIED = 8  # slots for a name; the one used longest ago gives way
_SLOT = struct.Struct("=QqII")  # hash of the name, number of the window, hits in it, hits in the one before


class SharedCounts:
    """A sliding window for each name. A name that many others have displaced begins anew."""

    def __init__(self, descriptor: int) -> None:
        import fcntl

        self._lockf, self._exclusive, self._free = fcntl.lockf, fcntl.LOCK_EX, fcntl.LOCK_UN
        self._descriptor = descriptor
        self._slots = mmap.mmap(descriptor, SLOTS * _SLOT.size)

    def hit(self, name: str, *, most: int, seconds: float) -> float | None:
        """Count one request; if it is one too many, do not count it and return the seconds to wait."""
        now = time.time()
        window, within = divmod(now, seconds)
        hashed = int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest())
        with self._locked():
            at, current, before = self._find(hashed, int(window))
            if current + before * (1 - within / seconds) + 1 > most:
                return seconds - within
            _SLOT.pack_into(self._slots, at, hashed, int(window), current + 1, before)
        return None

    def _find(self, hashed: int, window: int) -> tuple[int, int, int]:
        """The slot of a name, with its hits in this window and in the one before."""
        oldest = (window + 1, 0)
        for step in range(TRIED):
            at = (hashed + step) % SLOTS * _SLOT.size
            known, last, hits, earlier = _SLOT.unpack_from(self._slots, at)
            if known == hashed:
                if last == window:
                    return at, hits, earlier
                return at, 0, hits if last == window - 1 else 0
            oldest = min(oldest, (last, at))
        return oldest[1], 0, 0

    @contextmanager
    def _locked(self) -> Iterator[None]:
        self._lockf(self._descriptor, self._exclusive)
        try:
            yield
        finally:
            self._lockf(self._descriptor, self._free)


def make_file() -> IO[bytes]:
    """A file without a name for the counts; processes get its descriptor."""
    file = tempfile.TemporaryFile(prefix="recordari-counts-")  # noqa: SIM115  # the caller closes it
    file.truncate(SLOTS * _SLOT.size)
    return file
