"""The local ONNX runtime: a tokenizer and one inference session, without torch.

The int8 models quantise activations dynamically, over the whole batch: the vector of a text differs slightly
with the texts it shares a batch with (cosine down to .994). Never compare vectors for equality; deduplicate
by text.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recordari.providers.base import Matrix, Vector
from recordari.providers.models import ModelFiles, Pooling
from recordari.providers.vectors import unit_rows

# A text is cut before it is tokenised, generously: tokens are four characters on average, and one huge text
# must not occupy the tokenizer for seconds only to be truncated.
CHARACTERS_PER_TOKEN = 16


class OnnxModel:
    """A tokenizer and an inference session; blocking, used by one thread."""

    def __init__(self, files: ModelFiles, *, threads: int = 1) -> None:
        # Lazy: together they take a fifth of a second to import, which `import recordari` must not pay.
        import onnxruntime
        from tokenizers import Tokenizer

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        # Waiting threads would otherwise spin, at the expense of the event loop and the database beside them.
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        options.log_severity_level = 3
        self._session = onnxruntime.InferenceSession(str(files.weights), options, providers=["CPUExecutionProvider"])
        self._inputs = {entry.name for entry in self._session.get_inputs()}
        self._output = self._session.get_outputs()[0].name
        self._tokenizer = Tokenizer.from_file(str(files.tokenizer))
        self._tokenizer.no_padding()
        self._tokenizer.enable_truncation(files.spec.max_tokens)
        self._limit = files.spec.max_tokens * CHARACTERS_PER_TOKEN

    def run(self, texts: Sequence[str | tuple[str, str]]) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        """Run texts (or pairs of texts) as one batch; returns the model's first output and the mask."""
        # Not encode_batch: its thread pool would take cores beyond the number configured.
        encodings = [self._encode(text) for text in texts]
        width = max(len(encoding.ids) for encoding in encodings)
        feed = {
            name: np.zeros((len(texts), width), dtype=np.int64)
            for name in ("input_ids", "attention_mask", "token_type_ids")
        }
        for row, encoding in enumerate(encodings):
            size = len(encoding.ids)
            feed["input_ids"][row, :size] = encoding.ids
            feed["attention_mask"][row, :size] = 1
            feed["token_type_ids"][row, :size] = encoding.type_ids
        wanted = {name: array for name, array in feed.items() if name in self._inputs}
        output: NDArray[np.float32] = self._session.run([self._output], wanted)[0]
        return output, feed["attention_mask"]

    def _encode(self, text: str | tuple[str, str]) -> Any:
        if isinstance(text, tuple):
            return self._tokenizer.encode(text[0][: self._limit], text[1][: self._limit])
        return self._tokenizer.encode(text[: self._limit])


class DenseEncoder:
    """A transformer that gives one unit vector for a text."""

    def __init__(self, files: ModelFiles, *, threads: int = 1) -> None:
        self._spec = files.spec
        self._model = OnnxModel(files, threads=threads)

    @property
    def dimensions(self) -> int:
        """Length of each vector."""
        return self._spec.dimensions

    def query(self, text: str) -> Vector:
        """Embed a question with the prefix that the model was trained with."""
        vector: Vector = self._embed([self._spec.query_prefix + text])[0]
        return vector

    def passages(self, texts: Sequence[str]) -> Matrix:
        """Embed passages as one batch."""
        return self._embed([self._spec.passage_prefix + text for text in texts])

    def _embed(self, texts: Sequence[str]) -> Matrix:
        tokens, mask = self._model.run(texts)
        is_first = self._spec.pooling is Pooling.CLS
        # A sum is enough for the mean: unit_rows divides by the length.
        pooled = tokens[:, 0] if is_first else np.einsum("btd,bt->bd", tokens, mask.astype(np.float32))
        return unit_rows(pooled, model_id=self._spec.model_id)


class CrossEncoder:
    """A transformer that reads a question and a passage together and scores the pair."""

    def __init__(self, files: ModelFiles, *, threads: int = 1) -> None:
        self._model = OnnxModel(files, threads=threads)

    def scores(self, query: str, passages: Sequence[str]) -> list[float]:
        """Score each passage between 0 and 1."""
        logits, _ = self._model.run([(query, passage) for passage in passages])
        scores: list[float] = (1.0 / (1.0 + np.exp(-logits[:, 0].astype(np.float64)))).tolist()
        return scores
