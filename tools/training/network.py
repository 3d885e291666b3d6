"""The models as networks that learn: read from their files of 8-bit integers, and written back into them.

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
IS_SHORT = any(map(torch.cpu.get_capabilities().get, ("amx_bf16", "avx512_bf16")))
"""Whether the processor computes with numbers of 16 bits; elsewhere they take two to three times as long as those of 32."""


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
        near = (query / (HIDDEN // HEADS) ** 0.5) @ key.transpose(2, 3) + mask
        mixed = near.softmax(-1).to(value.dtype) @ value
        joined = self.output(mixed.transpose(1, 2).reshape(count, length, HIDDEN))
        x = self.attended(x + functional.dropout(joined, dropout, self.training))
        wide = self.down(functional.gelu(self.up(x)))
        widened: Tensor = self.widened(x + functional.dropout(wide, dropout, self.training))
        return widened


class Encoder(nn.Module):  # type: ignore[misc]
    """From tokens to one row of numbers for each; the first layers stay as they are."""

    def __init__(self, *, frozen: int, dropout: float) -> None:
        super().__init__()
        self.tokens, self.places, self.kinds = (nn.Embedding(size, HIDDEN) for size in (TOKENS, PLACES, KINDS))
        self.norm = nn.LayerNorm(HIDDEN, eps=1e-12)
        self.layers = nn.ModuleList(Layer() for _ in range(LAYERS))
        self._frozen, self._dropout = frozen, dropout
        for module in (self.tokens, self.places, self.kinds, self.norm, *self.layers[:frozen]):
            module.requires_grad_(False)

    def encoded(self, ids: Tensor, kinds: Tensor, mask: Tensor) -> Tensor:
        return self._through(self.layers, self._embedded(ids, kinds), mask, self._dropout)

    def frozen_part(self, ids: Tensor, kinds: Tensor, mask: Tensor) -> Tensor:
        """What the layers that do not learn make of the tokens: it can be kept."""
        return self._through(self.layers[: self._frozen], self._embedded(ids, kinds), mask, 0.0)

    def learning_part(self, x: Tensor, mask: Tensor) -> Tensor:
        return self._through(self.layers[self._frozen :], x, mask, self._dropout)

    def _embedded(self, ids: Tensor, kinds: Tensor) -> Tensor:
        x: Tensor = self.norm(self.tokens(ids) + self.places.weight[: ids.shape[1]] + self.kinds(kinds))
        return x

    def _through(self, layers: nn.ModuleList, x: Tensor, mask: Tensor, dropout: float) -> Tensor:
        away = torch.zeros(mask.shape).masked_fill(mask == 0, -1e9)[:, None, None, :].to(x.dtype)
        for layer in layers:
            x = layer(x, away, dropout)
        return x


class CrossEncoder(Encoder):
    """From the tokens of a question and a passage to the log-odds that the passage answers it."""

    def __init__(self, *, frozen: int, dropout: float = 0.1) -> None:
        super().__init__(frozen=frozen, dropout=dropout)
        self.pool, self.head = nn.Linear(HIDDEN, HIDDEN), nn.Linear(HIDDEN, 1)

    def forward(self, ids: Tensor, kinds: Tensor, mask: Tensor) -> Tensor:
        logits: Tensor = self.head(torch.tanh(self.pool(self.encoded(ids, kinds, mask)[:, 0]))).squeeze(-1)
        return logits


class Embedder(Encoder):
    """From what the frozen layers made of a text to its vector, of length one."""

    def __init__(self, *, frozen: int, dropout: float = 0.05) -> None:
        super().__init__(frozen=frozen, dropout=dropout)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        there = mask[..., None].to(x.dtype)
        mean = (self.learning_part(x, mask) * there).sum(1) / there.sum(1)
        vectors: Tensor = functional.normalize(mean, dim=-1)
        return vectors


class ModelFile:
    """The file of a quantised model: its weights as numbers, and numbers as its weights."""

    def __init__(self, path: Path) -> None:
        self._content = bytearray(path.read_bytes())
        graph = onnx.load_model_from_string(bytes(self._content)).graph
        self._tensors = {tensor.name: np.asarray(numpy_helper.to_array(tensor)) for tensor in graph.initializer}
        products = (node for node in graph.node if node.op_type == "MatMulInteger")
        self._matrices = {node.name: node.input[1].removesuffix("_quantized") for node in products}
        self._root = "bert." if any(name.startswith("bert.") for name in self._tensors) else ""

    def read_into(self, network: Encoder) -> None:
        """Give the network the weights of the file."""
        for weight, (name, is_turned) in zip(network.parameters(), self._order(network), strict=True):
            value = self._value(name)
            weight.data.copy_(torch.from_numpy(np.array(value.T if is_turned else value)))

    def with_weights(self, network: Encoder, *, seed: int) -> bytes:
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

    def _order(self, network: Encoder) -> list[tuple[str, bool]]:
        """The name in the file of each weight of the network, and whether the file has its rows as columns."""
        return [self._place(name) for name, _ in network.named_parameters()]

    def _place(self, name: str) -> tuple[str, bool]:
        parts = name.split(".")
        if parts[0] in _EMBEDDED:
            return f"{self._root}embeddings.{_EMBEDDED[parts[0]]}.{parts[-1]}", False
        if parts[0] in _LAST:
            return f"{_LAST[parts[0]]}.{parts[-1]}", parts[-1] == "weight"
        module = f"encoder.layer.{parts[1]}.{_OF_LAYER[parts[2]]}"
        if parts[-1] == "bias" or "LayerNorm" in module:
            return f"{self._root}{module}.{parts[-1]}", False
        return self._matrices[_node_of(f"{self._root}{module}")], True


def _node_of(module: str) -> str:
    """The name of the product of a module's matrix: a number stays with its layer."""
    return "/" + module.replace(".", "/").replace("layer/", "layer.") + "/MatMul_quant"


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
