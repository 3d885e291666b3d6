"""Who extracts facts and judges contradictions: a protocol that a language model can stand behind, and the offline rules."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from recordari.facts.rules.conflict import Ruling, Statement, is_newer, ruling
from recordari.facts.rules.extraction import Extracted, facts_in


@runtime_checkable
class LLM(Protocol):
    """Reads texts of one tenant at a time."""

    @property
    def name(self) -> str:
        """Which one ran; kept with what came of it."""

    async def extract(self, text: str, *, speaker: str | None) -> Sequence[Extracted]:
        """The facts that a message states, in its own words."""

    async def judge(self, statement: Statement, others: Sequence[Statement]) -> Sequence[Ruling]:
        """For each of the others, whether the newer of the two ends the older one."""


@runtime_checkable
class Splitter(Protocol):
    """Cuts a question that needs several steps into questions that can be asked one by one."""

    async def split(self, question: str) -> Sequence[str]:
        """The steps in order; one or none when the question needs no more."""


class OfflineRules:
    """The rules of the domain: no model, no network, always the same answer."""

    @property
    def name(self) -> str:
        """Which one ran."""
        return "offline"

    async def extract(self, text: str, *, speaker: str | None) -> Sequence[Extracted]:
        """What the patterns find."""
        return facts_in(text, speaker=speaker)

    async def judge(self, statement: Statement, others: Sequence[Statement]) -> Sequence[Ruling]:
        """What the rules say of each pair."""
        return [
            ruling(statement, other) if is_newer(statement, other) else ruling(other, statement) for other in others
        ]
