"""What the cross-encoder would read of each question: the first candidates of recall, and whether they answer it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from recordari.config import Settings
from recordari.evaluation.retrieval import References, ingest, open_haystack, retrieve
from recordari.evaluation.rules.formats import Haystack
from recordari.recall import results
from recordari.recall.rules.ranking import Ranked
from recordari.recall.rules.reranking import blended, passage
from recordari.wiring import open_resources

DEPTH = 30


@dataclass(frozen=True, slots=True)
class Example:
    """A question with passages that answer it and passages that do not, those that recall likes best first."""

    memory: str
    question: str
    right: tuple[str, ...]
    wrong: tuple[str, ...]


class _Recorder:
    """Stands where a reranker does, and keeps what it is given."""

    model_id = "recorder"
    most_passages = DEPTH

    def __init__(self) -> None:
        self.passages: list[str] = []

    async def rerank(self, query: str, passages: Sequence[str]) -> list[float]:
        self.passages = list(passages)
        return [0.5] * len(passages)

    async def close(self) -> None: ...


async def collect(haystacks: Sequence[Haystack], home: Path) -> list[Example]:
    """Remember every memory as a user would, and ask its questions with the profile best."""
    heads: list[Sequence[Ranked]] = []

    def watched(head: Sequence[Ranked], scores: Sequence[float]) -> list[Ranked]:
        heads.append(head)
        return blended(head, scores)

    vars(results)["blended"] = watched
    recorder, references, examples = _Recorder(), References(), []
    async with open_resources(Settings(home=home, embedding_profile="best")) as resources:
        await ingest(resources, haystacks)
        bound = replace(resources, reranker=recorder)
        for haystack in haystacks:
            memory = await open_haystack(bound, haystack)
            for question in haystack.questions:
                heads.clear()
                await retrieve(memory, question, references)
                ids = [str(item.candidate.item_id) for item in heads[0]]
                shown = dict(zip(await references.of(memory, ids), recorder.passages, strict=True))
                examples.append(_example(haystack, question.text, question.evidence, shown))
    return examples


def _example(haystack: Haystack, question: str, evidence: frozenset[str], shown: dict[str, str]) -> Example:
    missed = (turn for turn in haystack.turns if turn.source_ref in evidence and turn.source_ref not in shown)
    more = [
        passage(turn.content, speaker=turn.speaker, moment=turn.event_time, terms={}, language="english")
        for turn in missed
        if turn.event_time is not None
    ]
    return Example(
        memory=haystack.name,
        question=question,
        right=tuple([text for ref, text in shown.items() if ref in evidence] + more),
        wrong=tuple(text for ref, text in shown.items() if ref not in evidence),
    )
