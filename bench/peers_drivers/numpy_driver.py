"""numpy and bm25s in the process: no database, nothing durable; what the ranking alone costs."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

import bm25s  # type: ignore[import-not-found,unused-ignore]
import numpy as np
import Stemmer  # type: ignore[import-not-found,unused-ignore]
from contest import TOP_K, BlockingContestant, Conversation, Turn, main


@dataclass(slots=True)
class Shelf:
    """The turns of one owner, a row of the matrix for each, and their keyword index."""

    turns: list[Turn] = field(default_factory=list)
    rows: list[int] = field(default_factory=list)
    matrix: np.ndarray | None = None
    index: bm25s.BM25 | None = None


class InProcess(BlockingContestant):
    """Half the scaled BM25 score, half the cosine."""

    async def start(self) -> None:
        """Nothing to connect to."""
        self.spaces: dict[str, dict[str, Shelf]] = {}
        self.stemmer = Stemmer.Stemmer("english")

    async def stop(self) -> None:
        """Nothing to leave."""

    async def open_space(self, space: str) -> None:
        """An empty dictionary."""
        self.spaces[space] = defaultdict(Shelf)

    async def close_space(self, space: str) -> None:
        """Forget it."""
        del self.spaces[space]

    def _put(self, shelf: Shelf, turns: tuple[Turn, ...]) -> None:
        """Append, and make the keyword index anew: bm25s cannot add to one."""
        shelf.turns.extend(turns)
        shelf.rows.extend(self.vectors.passages[one.passage] for one in turns)
        shelf.matrix = self.vectors.matrix[shelf.rows]
        texts = [one.passage for one in shelf.turns]
        shelf.index = bm25s.BM25()
        shelf.index.index(
            bm25s.tokenize(texts, stopwords="en", stemmer=self.stemmer, show_progress=False), show_progress=False
        )

    async def ingest(self, space: str, conversation: Conversation) -> None:
        """Index a conversation."""
        self._put(self.spaces[space][conversation.name], conversation.turns)

    async def add(self, space: str, owner: str, turn: Turn) -> None:
        """One turn more."""
        self._put(self.spaces[space][owner], (turn,))

    def find(self, space: str, owner: str, question: str) -> list[str]:
        """Both scores, scaled to the best."""
        shelf = self.spaces[space][owner]
        assert shelf.matrix is not None and shelf.index is not None
        meaning = shelf.matrix @ self.vectors.matrix[self.vectors.queries[question]]
        (words,) = bm25s.tokenize(
            [question], stopwords="en", stemmer=self.stemmer, show_progress=False, return_ids=False
        )
        score = meaning / max(float(meaning.max()), 1e-9)
        if words:
            keyword = shelf.index.get_scores(words)
            score = score + keyword / max(float(keyword.max()), 1e-9)
        return [shelf.turns[place].ref for place in np.argsort(-score)[:TOP_K]]


if __name__ == "__main__":
    main(InProcess)
