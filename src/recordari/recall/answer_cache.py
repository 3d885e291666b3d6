"""The answers that contexts ask for, kept in the process until the memory that they were found in changes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

from recordari.core.cache import BoundedMap
from recordari.core.identity import Identity, SessionId, TenantId
from recordari.db.database import BatchedQuery
from recordari.memory.storage import ask_line
from recordari.recall import storage
from recordari.recall.request import RecallAnswer, RecallRequest

ANSWER_SECONDS = 300.0  # C4
DEGRADED_SECONDS = 5.0
MOST_ANSWERS = 2_000


@dataclass(frozen=True, slots=True)
class MemoryState:
    """How often the memory of an identity has changed, and the sessions of its line; to be sent in a batch of reads."""

    version: BatchedQuery[int]
    line: BatchedQuery[list[SessionId]] | None

    @classmethod
    def asked(cls, identity: Identity) -> MemoryState:
        return cls(storage.ask_version(identity), ask_line(identity))

    @property
    def batch(self) -> list[BatchedQuery[Any]]:
        return [self.version] if self.line is None else [self.version, self.line]


class RecallCache:
    """The answers of this process, each valid until the memory that it was found in changes."""

    def __init__(self) -> None:
        self._answers: BoundedMap[tuple[Identity, RecallRequest], tuple[RecallAnswer, int]] = BoundedMap(MOST_ANSWERS)
        self._counts = {"hits": 0, "misses": 0}

    async def read(
        self,
        identity: Identity,
        request: RecallRequest,
        state: MemoryState,
        load: Callable[[Sequence[SessionId]], Awaitable[RecallAnswer]],
    ) -> tuple[RecallAnswer, bool]:
        """The answer to a request, and whether it came from the cache; `load` gets the sessions of the caller's line.

        `state` was read before: if the memory changes meanwhile, the answer counts for the state before and is not used again.
        """
        version, line = state.version.answer, state.line
        # The viewpoint decides what is visible and the request what is asked: nothing else does.
        key = (identity.viewpoint, request)
        cached = self._answers.get(key)
        if cached is not None and cached[1] == version:
            self._counts["hits"] += 1
            return cached[0], True
        self._counts["misses"] += 1
        answer = await load(line.answer if line is not None else ())
        seconds = DEGRADED_SECONDS if answer.degraded else ANSWER_SECONDS
        self._answers.put(key, (answer, version), seconds=seconds)
        return answer, False

    def forget_tenant(self, tenant_id: TenantId) -> None:
        """Answer anew, because the tenant's settings may have changed."""
        self._answers.drop(lambda key, _: key[0].tenant_id == tenant_id)

    def statistics(self) -> dict[str, int]:
        return {**self._counts, "kept": len(self._answers)}
