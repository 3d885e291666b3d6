"""Answers of recall kept for five minutes, and shown again only while nothing they rest on has changed (C4).

An answer is kept with the count of changes that `memory_versions` had before it was asked for. Every write of any kind
and by any process raises the count of the owners it touches, in its own transaction: an answer whose count still holds
shows nothing forgotten or superseded and misses nothing written. An answer that says `degraded` is kept for seconds only,
because it will be better in a moment.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from recordari.core.cache import BoundedMap
from recordari.core.identity import Identity
from recordari.db.database import Database
from recordari.recall import storage

SECONDS = 300.0  # C4
DEGRADED_SECONDS = 5.0
MOST_ANSWERS = 2_000


class Answer(Protocol):
    """What recall answers."""

    @property
    def degraded(self) -> bool:
        """Whether a later answer may be better."""


A = TypeVar("A", bound=Answer)


@dataclass(frozen=True, slots=True)
class _Kept:
    answer: Any
    version: int


class RecallCache:
    """The answers of this process."""

    def __init__(self, *, seconds: float = SECONDS, most: int = MOST_ANSWERS) -> None:
        self._seconds = seconds
        self._kept: BoundedMap[Hashable, _Kept] = BoundedMap(most)
        self._counts = {"hits": 0, "misses": 0}

    async def read(
        self,
        database: Database,
        identity: Identity,
        request: Hashable,
        load: Callable[[], Awaitable[A]],
    ) -> tuple[A, bool]:
        """The answer to a request, and whether it was kept from before."""
        version = await storage.read_version(database, identity)
        # The viewpoint says what may be seen and the request what is asked: nothing else does.
        key: Hashable = (identity.viewpoint, request)
        found = self._kept.get(key)
        if found is not None and found.version == version:
            self._counts["hits"] += 1
            kept: A = found.answer
            return kept, True
        self._counts["misses"] += 1
        answer = await load()
        seconds = min(self._seconds, DEGRADED_SECONDS) if answer.degraded else self._seconds
        self._kept.put(key, _Kept(answer, version), seconds=seconds)
        return answer, False

    def statistics(self) -> dict[str, int]:
        """How often an answer was kept from before, and how many are kept."""
        return {**self._counts, "kept": len(self._kept)}
