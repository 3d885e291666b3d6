"""Static token vectors: a table instead of a transformer, for embedding and for late interaction.

The table is read from its safetensors file with numpy alone, memory-mapped: processes share its pages.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from recordari.errors import ProviderError
from recordari.models.base import Matrix, Vector, unit_rows
from recordari.models.inference import CHARACTERS_PER_TOKEN
from recordari.models.pull import RESCORER, pull
from recordari.models.registry import ModelFiles

HEADER_LIMIT = 1 << 20
MOST_WORDS = 20_000
LONGEST_CACHED = 40  # characters of a word, with its punctuation

_BY_WORDS = ("BertNormalizer", "BertPreTokenizer", "WordPiece")
_WORDS = re.compile(r"[A-Za-z0-9]+|[^A-Za-z0-9\s]")
# The tokeniser may drop or change everything but printable ASCII and typographic marks.
_UNUSUAL = re.compile(r"[^ -~\t\n\r‘’“”–—…]")

TokenIds = NDArray[np.uint16] | NDArray[np.uint32]


class StaticTokens:
    """Token ids of texts, and the vector of each token.

    Ids are small enough to be stored beside a text (two bytes each while the table has at most 65,536 rows),
    so that late interaction needs no tokeniser when it ranks. Once loaded, cheap enough for the event loop.
    """

    def __init__(self, files: ModelFiles) -> None:
        from tokenizers import Tokenizer  # lazy: a heavy import

        self._spec = files.spec
        self._vectors = read_table(files.weights, "embeddings")
        self._dtype = np.uint16 if len(self._vectors) <= 1 << 16 else np.uint32
        self._tokenizer = Tokenizer.from_file(str(files.tokenizer))
        self._tokenizer.no_padding()
        self._tokenizer.no_truncation()
        self._words: dict[str, tuple[int, ...]] = {}
        self._pieces: dict[str, tuple[int, ...]] = {}
        self._runs: dict[str, tuple[int, ...]] = {}
        # A tokeniser of this family cuts ASCII text at blanks and punctuation and encodes each word alone, so that
        # the ids of a word can be cached.
        parts = (self._tokenizer.normalizer, self._tokenizer.pre_tokenizer, self._tokenizer.model)
        self._goes_by_words = tuple(type(part).__name__ for part in parts) == _BY_WORDS
        # These are tokens everywhere in a text, such as `[MASK]`.
        self._whole = [token.content for token in self._tokenizer.get_added_tokens_decoder().values()]
        self.unknown_id = self._tokenizer.token_to_id("[UNK]") or 0

    @property
    def model_id(self) -> str:
        """Which table the ids belong to: ids of different tables are never compared."""
        return self._spec.model_id

    @property
    def vectors(self) -> Matrix:
        """The table: one row for each token id, not normalised (the norm says how much a token matters)."""
        return self._vectors

    @cached_property
    def norms(self) -> Vector:
        return np.asarray(np.linalg.norm(self._vectors, axis=1), dtype=np.float32)

    @cached_property
    def unit(self) -> Matrix:
        """The table with every vector at length 1; made at the first recall."""
        return np.asarray(self._vectors / np.maximum(self.norms, 1e-9)[:, None], dtype=np.float32)

    def word_ids(self, word: str) -> tuple[int, ...]:
        """The ids of one word's tokens, cached."""
        ids = self._words.get(word)
        if ids is None:
            if len(self._words) >= MOST_WORDS:
                self._words.clear()
            ids = self._words[word] = tuple(self.token_ids([word])[0].tolist())
        return ids

    def _ids(self, text: str) -> Sequence[int]:
        if not self._goes_by_words or _UNUSUAL.search(text) or any(token in text for token in self._whole):
            return self._encoded(text)
        ids: list[int] = []
        cache = self._runs
        for run in text.split():
            pieces = cache.get(run)
            if pieces is None:
                pieces = self._run_ids(run)
                if len(run) <= LONGEST_CACHED:
                    if len(cache) >= MOST_WORDS:
                        cache.clear()
                    cache[run] = pieces
            ids += pieces
        return ids

    def _run_ids(self, run: str) -> tuple[int, ...]:
        """The ids of a run without white space: of words and signs, of which the tokeniser encodes each alone."""
        cache = self._pieces
        ids: list[int] = []
        for word in _WORDS.findall(run):
            pieces = cache.get(word)
            if pieces is None:
                if len(cache) >= MOST_WORDS:
                    cache.clear()
                pieces = cache[word] = tuple(self._encoded(word))
            ids += pieces
        return tuple(ids)

    def _encoded(self, text: str) -> Sequence[int]:
        ids: list[int] = self._tokenizer.encode(text, add_special_tokens=False).ids
        return ids

    def token_ids(self, texts: Sequence[str]) -> list[TokenIds]:
        """The ids of each text's tokens, in order, without unknown ones, up to the token limit."""
        limit = self._spec.max_tokens
        encoded = (np.asarray(self._ids(text[: limit * CHARACTERS_PER_TOKEN]), dtype=self._dtype) for text in texts)
        return [ids[ids != self.unknown_id][:limit] for ids in encoded]


class StaticEncoder:
    """The mean of a text's token vectors, as a unit vector."""

    def __init__(self, tokens: StaticTokens) -> None:
        self._tokens = tokens

    @property
    def dimensions(self) -> int:
        return int(self._tokens.vectors.shape[1])

    def query(self, text: str) -> Vector:
        """Embed a question; a static model embeds questions and passages alike."""
        vector: Vector = self.passages([text])[0]
        return vector

    def passages(self, texts: Sequence[str]) -> Matrix:
        """Embed texts; one without any known token gets the vector of the unknown token."""
        table = self._tokens.vectors
        rows = np.empty((len(texts), self.dimensions), dtype=np.float32)
        unknown = np.array([self._tokens.unknown_id])
        for row, ids in enumerate(self._tokens.token_ids(texts)):
            known = ids if len(ids) else unknown
            rows[row] = np.add.reduce(table.take(known, axis=0), axis=0) / len(known)
        return unit_rows(rows, model_id=self._tokens.model_id)


def load_static_tokens(
    model: str = RESCORER,
    *,
    cache_dir: Path | None = None,
    mirror: str | Path | None = None,
    offline: bool = False,
) -> StaticTokens:
    """Download the static model unless it is cached, and load it; blocking."""
    files = pull(model, cache_dir=cache_dir, mirror=mirror, offline=offline)
    key = files.spec.model_id, files.folder
    if key not in _LOADED:
        _LOADED[key] = StaticTokens(files)
    return _LOADED[key]


_LOADED: dict[tuple[str, Path], StaticTokens] = {}
"""One for the embedder and for late interaction, where both have the same model: what one tokenised, the other knows."""


def read_table(path: Path, name: str) -> Matrix:
    """Map one float32 matrix of a safetensors file into memory, read-only.

    The file starts with the length of a JSON header (8 bytes, little-endian), which gives type, shape and offset
    of each tensor; the data follow it.
    """
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if not 0 < length <= HEADER_LIMIT:
            raise ProviderError(f"{path.name} is not a safetensors file.", service="the embedding model")
        entry = json.loads(file.read(length)).get(name)
    if entry is None or entry["dtype"] != "F32" or len(entry["shape"]) != 2:
        raise ProviderError(f"{path.name} has no float32 matrix {name!r}.", service="the embedding model")
    offset = 8 + length + entry["data_offsets"][0]
    # As a plain array: each look at a mapped one goes through Python.
    return np.asarray(np.memmap(path, dtype="<f4", mode="r", offset=offset, shape=tuple(entry["shape"])))
