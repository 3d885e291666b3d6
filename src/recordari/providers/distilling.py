"""Who learns from a closed session: a protocol that a language model can stand behind, and the offline rules."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from recordari.domain.patterns import Observed, Pattern, patterns_in


@runtime_checkable
class Distiller(Protocol):
    """Reads one session of one tenant at a time."""

    @property
    def name(self) -> str:
        """Which one ran; kept with what came of it."""

    async def distil(self, observed: Sequence[Observed], earlier: Sequence[Observed]) -> Sequence[Pattern]:
        """What holds beyond the session, each pattern with the ids of what it was learned from."""


class OfflineDistiller:
    """The rules of the domain: no model, no network, always the same answer."""

    @property
    def name(self) -> str:
        """Which one ran."""
        return "offline"

    async def distil(self, observed: Sequence[Observed], earlier: Sequence[Observed]) -> Sequence[Pattern]:
        """What the patterns find."""
        return patterns_in(observed, earlier)
