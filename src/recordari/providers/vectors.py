"""What every embedder does with the vectors it gives out: check, normalise, remember those of questions."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recordari.errors import ProviderError
from recordari.providers.base import Matrix, Vector


def unit_rows(rows: NDArray[np.floating[Any]], *, model_id: str) -> Matrix:
    """Scale each row to length one; a row that is not finite or has no direction is an error.

    pgvector answers NaN for the cosine of such rows, which would spoil the order of a whole result.
    """
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    if not np.isfinite(lengths).all() or not (lengths > 0).all():
        raise ProviderError(f"{model_id} gave a vector that is zero or not finite.")
    return np.asarray(rows / lengths, dtype=np.float32)


class QueryCache:
    """The vectors of the questions asked last; they are read-only, because every caller shares them."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._vectors: OrderedDict[str, Vector] = OrderedDict()

    def get(self, text: str) -> Vector | None:
        """Give the vector of a question asked before."""
        vector = self._vectors.get(text)
        if vector is not None:
            self._vectors.move_to_end(text)
        return vector

    def put(self, text: str, vector: Vector) -> Vector:
        """Keep a vector in place of the one that was not asked for the longest time, and return it."""
        vector.setflags(write=False)
        if self._size > 0:
            self._vectors[text] = vector
            while len(self._vectors) > self._size:
                self._vectors.popitem(last=False)
        return vector

    def clear(self) -> None:
        """Forget all of them."""
        self._vectors.clear()
