"""The cross-encoder as a network that learns: read from its file of 8-bit integers, and written back into it.

The file keeps its shape, so that a patch of it is small: a matrix keeps its scale, and a weight becomes the next lower or
higher integer by chance, the nearer one more often. Rounding to the nearest would undo what was learnt: the weights begin at
whole integers, and most of them move by less than a half.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import torch
from numpy.typing import NDArray
from onnx import numpy_helper
from torch import Tensor, nn
from torch.nn import functional

HIDDEN, HEADS, LAYERS, WIDE = 384, 12, 12, 1536
TOKENS, PLACES, KINDS = 30_522, 512, 2
LOWEST, HIGHEST = -128, 127


class Layer(nn.Module):  # type: ignore[misc]
    """Attention and two wide layers, each added to what came in."""

    def __init__(self) -> None:
        super().__init__()
        self.query, self.key, self.value, self.output = (nn.Linear(HIDDEN, HIDDEN) for _ in range(4))
        self.up, self.down = nn.Linear(HIDDEN, WIDE), nn.Linear(WIDE, HIDDEN)
        self.attended, self.widened = (nn.LayerNorm(HIDDEN, eps=1e-12) for _ in range(2))

    def forward(self, x: Tensor, mask: Tensor, dropout: float) -> Tensor:
        count, length, _ = x.shape

        def heads(part: Tensor) -> Tensor:
            return part.view(count, length, HEADS, HIDDEN // HEADS).transpose(1, 2)

        query, key, value = heads(self.query(x)), heads(self.key(x)), heads(self.value(x))
        mixed = functional.scaled_dot_product_attention(query, key, value, attn_mask=mask)
        joined = self.output(mixed.transpose(1, 2).reshape(count, length, HIDDEN))
        x = self.attended(x + functional.dropout(joined, dropout, self.training))
        wide = self.down(functional.gelu(self.up(x)))
        widened: Tensor = self.widened(x + functional.dropout(wide, dropout, self.training))
        return widened


class CrossEncoder(nn.Module):  # type: ignore[misc]
    """From the tokens of a question and a passage to the log-odds that the passage answers it."""

    def __init__(self, *, frozen: int, dropout: float = 0.1) -> None:
        super().__init__()
        self.tokens, self.places, self.kinds = (nn.Embedding(size, HIDDEN) for size in (TOKENS, PLACES, KINDS))
        self.norm = nn.LayerNorm(HIDDEN, eps=1e-12)
        self.layers = nn.ModuleList(Layer() for _ in range(LAYERS))
        self.pool, self.head = nn.Linear(HIDDEN, HIDDEN), nn.Linear(HIDDEN, 1)
        self._frozen, self._dropout = frozen, dropout
        kept = (self.tokens, self.places, self.kinds, self.norm, *self.layers[:frozen])
        for module in kept:
            module.requires_grad_(False)

    def forward(self, ids: Tensor, kinds: Tensor, mask: Tensor) -> Tensor:
        x = self.norm(self.tokens(ids) + self.places.weight[: ids.shape[1]] + self.kinds(kinds))
        away = torch.zeros(mask.shape).masked_fill(mask == 0, -1e9)[:, None, None, :]
        for layer in self.layers:
            x = layer(x, away.to(x.dtype), self._dropout)
        logits: Tensor = self.head(torch.tanh(self.pool(x[:, 0]))).squeeze(-1)
        return logits


class ModelFile:
    """The file of a quantised model: its weights as numbers, and numbers as its weights."""

    def __init__(self, path: Path) -> None:
        self._content = bytearray(path.read_bytes())
        graph = onnx.load_model_from_string(bytes(self._content)).graph
        self._tensors = {tensor.name: np.asarray(numpy_helper.to_array(tensor)) for tensor in graph.initializer}
        products = (node for node in graph.node if node.op_type == "MatMulInteger")
        self._matrices = {node.name: node.input[1].removesuffix("_quantized") for node in products}

    def read_into(self, network: CrossEncoder) -> None:
        """Give the network the weights of the file."""
        for weight, (name, is_turned) in zip(network.parameters(), self._order(network), strict=True):
            value = self._value(name)
            weight.data.copy_(torch.from_numpy(np.array(value.T if is_turned else value)))

    def with_weights(self, network: CrossEncoder, *, seed: int) -> bytes:
        """The file with the weights of the network that learnt; all else stays to the byte."""
        chance = np.random.default_rng(seed)
        for weight, (name, is_turned) in zip(network.parameters(), self._order(network), strict=True):
            if weight.requires_grad:
                value = weight.detach().float().numpy()
                self._set(name, value.T if is_turned else value, chance)
        return bytes(self._content)

    def _value(self, name: str) -> NDArray[Any]:
        if name in self._tensors:
            return self._tensors[name]
        whole, zero, scale = (self._tensors[f"{name}_{part}"] for part in ("quantized", "zero_point", "scale"))
        return (whole.astype(np.float32) - float(zero)) * np.float32(scale)

    def _set(self, name: str, value: NDArray[Any], chance: np.random.Generator) -> None:
        if name not in self._tensors:
            zero, scale = float(self._tensors[f"{name}_zero_point"]), float(self._tensors[f"{name}_scale"])
            exact = value.astype(np.float64) / scale + zero
            value = np.clip(np.floor(exact + chance.random(exact.shape)), LOWEST, HIGHEST)
            name = f"{name}_quantized"
        before = self._tensors[name]
        after = value.astype(before.dtype).reshape(before.shape)
        raw = onnx.TensorProto(raw_data=before.tobytes()).SerializeToString()
        start = self._content.find(name.encode() + raw)
        if start < 0:
            raise SystemExit(f"the bytes of {name} do not follow its name in the file")
        end = start + len(name.encode()) + len(raw)
        self._content[end - before.nbytes : end] = after.tobytes()
        self._tensors[name] = after

    def _order(self, network: CrossEncoder) -> list[tuple[str, bool]]:
        """The name in the file of each weight of the network, and whether the file has its rows as columns."""
        return [self._place(name) for name, _ in network.named_parameters()]

    def _place(self, name: str) -> tuple[str, bool]:
        parts = name.split(".")
        if parts[0] in _EMBEDDED:
            return f"bert.embeddings.{_EMBEDDED[parts[0]]}.{parts[-1]}", False
        if parts[0] in _LAST:
            return f"{_LAST[parts[0]]}.{parts[-1]}", parts[-1] == "weight"
        module = _OF_LAYER[parts[2]]
        if parts[-1] == "bias" or "LayerNorm" in module:
            return f"bert.encoder.layer.{parts[1]}.{module}.{parts[-1]}", False
        return self._matrices[f"/bert/encoder/layer.{parts[1]}/{module.replace('.', '/')}/MatMul_quant"], True


_EMBEDDED = {
    "tokens": "word_embeddings",
    "places": "position_embeddings",
    "kinds": "token_type_embeddings",
    "norm": "LayerNorm",
}
_LAST = {"pool": "bert.pooler.dense", "head": "classifier"}
_OF_LAYER = {
    "query": "attention.self.query",
    "key": "attention.self.key",
    "value": "attention.self.value",
    "output": "attention.output.dense",
    "up": "intermediate.dense",
    "down": "output.dense",
    "attended": "attention.output.LayerNorm",
    "widened": "output.LayerNorm",
}
