"""One bounded map for everything that is kept in the process for a while."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class BoundedMap(Generic[K, V]):
    """Keeps the values used last, at most so many, and none for longer than `seconds`."""

    def __init__(
        self, most: int, *, seconds: float = float("inf"), clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._most = most
        self._seconds = seconds
        self._clock = clock
        self._entries: OrderedDict[K, tuple[V, float]] = OrderedDict()

    def get(self, key: K) -> V | None:
        """The value of a key; None when there is none, or it is too old."""
        entry = self._entries.get(key)
        if entry is None:
            return None
        value, until = entry
        if self._clock() >= until:
            del self._entries[key]
            return None
        self._entries.move_to_end(key)
        return value

    def put(self, key: K, value: V, *, seconds: float | None = None) -> V:
        """Keep a value, for `seconds` where they are given, and return it; the one not used for longest makes room."""
        self._entries[key] = value, self._clock() + (self._seconds if seconds is None else seconds)
        self._entries.move_to_end(key)
        while len(self._entries) > self._most:
            self._entries.popitem(last=False)
        return value

    def pop(self, key: K) -> V | None:
        """Remove a key; its value, None when there was none."""
        entry = self._entries.pop(key, None)
        return entry[0] if entry is not None else None

    def drop(self, is_dropped: Callable[[K, V], bool]) -> None:
        """Remove every entry of which `is_dropped` is true."""
        for key in [key for key, (value, _) in self._entries.items() if is_dropped(key, value)]:
            del self._entries[key]

    def clear(self) -> None:
        """Remove everything."""
        self._entries.clear()

    def __contains__(self, key: K) -> bool:
        return self.get(key) is not None

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[K]:
        return iter(list(self._entries))
