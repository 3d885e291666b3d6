"""Who writes summaries: a protocol that a language model can stand behind, and the offline one that always can."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from recordari.domain.summaries import Said, rolled_summary


@runtime_checkable
class Summariser(Protocol):
    """Renews a summary by what was said since."""

    @property
    def name(self) -> str:
        """Which summariser wrote it; kept with the summary."""

    async def summarise(self, previous: str, said: Sequence[Said], *, most_tokens: int) -> str:
        """The summary of `previous` and what was said since, in at most so many tokens."""


class OfflineSummariser:
    """Chooses the sentences that carry the conversation; no model, no network, always the same answer."""

    @property
    def name(self) -> str:
        """Which summariser wrote it."""
        return "offline"

    async def summarise(self, previous: str, said: Sequence[Said], *, most_tokens: int) -> str:
        """Choose the best sentences of both."""
        # In a thread: a hundred long messages would hold up the event loop.
        return await asyncio.to_thread(rolled_summary, previous, said, most_tokens=most_tokens)
