"""Quantises an embedding model of ours from its original weights: `make quantise SOURCE=folder` runs it.

The folder has what the model's authors publish: `config.json`, `model.safetensors` and `tokenizer.json` of a BERT encoder
(such as intfloat/e5-small-v2). The graph is written here, layer by layer, so that neither the authors' framework nor anybody
else's export is needed. Matrices become 8-bit integers with one scale for each column; the rest stays as it is. At the end
both graphs embed the same sentences, and the lowest cosine between them is printed with the pins for `models/registry.py`.
It needs the packages `onnx` and `safetensors`.
"""

from __future__ import annotations

import hashlib
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization import QuantType, quantize_dynamic
from safetensors.numpy import load_file
from tokenizers import Tokenizer

OPSET = 17
INPUTS = ("input_ids", "attention_mask", "token_type_ids")
SENTENCES = (
    "query: Where does Ana keep the spare key?",
    "passage: The spare key hangs behind the blue door.",
    "passage: In June the boat was sold to a neighbour, who renamed it.",
    "query: ¿Cuándo sale el tren?",
    "passage: 14:30, platform 9; the later one at 16:05 does not run on Sundays.",
)


class Graph:
    """An encoder of BERT as nodes of ONNX, with the names of the original weights."""

    def __init__(self, weights: dict[str, NDArray[np.float32]], config: dict[str, Any]) -> None:
        self._weights = {name.removeprefix("bert."): value.astype(np.float32) for name, value in weights.items()}
        self._config = config
        self._nodes: list[onnx.NodeProto] = []
        self._constants: dict[str, onnx.TensorProto] = {}

    def model(self) -> onnx.ModelProto:
        """The whole encoder: from token ids to one vector for each token."""
        config, hidden = self._config, self._embedded()
        mask = self._add("Cast", "attention_mask", to=TensorProto.FLOAT)
        mask = self._add("Unsqueeze", mask, self._constant(np.array([1, 2])))
        away = self._add("Mul", self._add("Sub", self._constant(np.float32(1)), mask), self._constant(np.float32(-1e4)))
        for number in range(config["num_hidden_layers"]):
            hidden = self._layer(f"encoder.layer.{number}", hidden, away)
        self._nodes.append(helper.make_node("Identity", [hidden], ["last_hidden_state"]))
        ids = [helper.make_tensor_value_info(name, TensorProto.INT64, ["batch", "tokens"]) for name in INPUTS]
        out = helper.make_tensor_value_info(
            "last_hidden_state", TensorProto.FLOAT, ["batch", "tokens", config["hidden_size"]]
        )
        graph = helper.make_graph(self._nodes, "encoder", ids, [out], list(self._constants.values()))
        made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=8)
        onnx.checker.check_model(made)
        return made

    def _embedded(self) -> str:
        tokens = self._add("Gather", self._weight("embeddings.word_embeddings.weight"), "input_ids")
        kinds = self._add("Gather", self._weight("embeddings.token_type_embeddings.weight"), "token_type_ids")
        length = self._add("Gather", self._add("Shape", "input_ids"), self._constant(np.array(1)))
        zero, one = self._constant(np.array(0)), self._constant(np.array(1))
        places = self._add("Range", zero, length, one)
        placed = self._add("Gather", self._weight("embeddings.position_embeddings.weight"), places)
        return self._normalised("embeddings.LayerNorm", self._add("Add", self._add("Add", tokens, kinds), placed))

    def _layer(self, name: str, hidden: str, away: str) -> str:
        heads = self._config["num_attention_heads"]
        size = self._config["hidden_size"] // heads
        split = self._constant(np.array([0, 0, heads, size]))

        def part(which: str, order: list[int]) -> str:
            flat = self._linear(f"{name}.attention.self.{which}", hidden)
            return self._add("Transpose", self._add("Reshape", flat, split), perm=order)

        scores = self._add("MatMul", part("query", [0, 2, 1, 3]), part("key", [0, 2, 3, 1]))
        scores = self._add("Div", scores, self._constant(np.float32(size**0.5)))
        shares = self._add("Softmax", self._add("Add", scores, away), axis=-1)
        mixed = self._add("MatMul", shares, part("value", [0, 2, 1, 3]))
        joined = self._add("Transpose", mixed, perm=[0, 2, 1, 3])
        joined = self._add("Reshape", joined, self._constant(np.array([0, 0, heads * size])))
        attended = self._add("Add", self._linear(f"{name}.attention.output.dense", joined), hidden)
        attended = self._normalised(f"{name}.attention.output.LayerNorm", attended)
        wide = self._gelu(self._linear(f"{name}.intermediate.dense", attended))
        return self._normalised(
            f"{name}.output.LayerNorm", self._add("Add", self._linear(f"{name}.output.dense", wide), attended)
        )

    def _linear(self, name: str, hidden: str) -> str:
        matrix = self._constant(np.ascontiguousarray(self._weights[f"{name}.weight"].T), f"{name}.weight")
        return self._add("Add", self._add("MatMul", hidden, matrix), self._weight(f"{name}.bias"))

    def _gelu(self, hidden: str) -> str:
        """Exactly, by the error function, as the authors' models do."""
        half, one, root = (self._constant(np.float32(value)) for value in (0.5, 1.0, 2**0.5))
        spread = self._add("Add", self._add("Erf", self._add("Div", hidden, root)), one)
        return self._add("Mul", self._add("Mul", hidden, spread), half)

    def _normalised(self, name: str, hidden: str) -> str:
        scale, shift = self._weight(f"{name}.weight"), self._weight(f"{name}.bias")
        return self._add("LayerNormalization", hidden, scale, shift, axis=-1, epsilon=self._config["layer_norm_eps"])

    def _weight(self, name: str) -> str:
        return self._constant(self._weights[name], name)

    def _constant(self, value: Any, name: str | None = None) -> str:
        name = name or f"constant_{len(self._constants)}"
        if name not in self._constants:
            self._constants[name] = numpy_helper.from_array(np.asarray(value), name)
        return name

    def _add(self, kind: str, *inputs: str, **attributes: Any) -> str:
        out = f"{kind}_{len(self._nodes)}"
        self._nodes.append(helper.make_node(kind, list(inputs), [out], **attributes))
        return out


def quantise(source: Path, target: Path) -> float:
    """Write `model.onnx` and `tokenizer.json` into the target; the lowest cosine to the vectors of the original."""
    config = json.loads((source / "config.json").read_text("utf-8"))
    if config.get("model_type") != "bert" or config.get("hidden_act") != "gelu":
        sys.exit("only encoders of the kind BERT with gelu can be quantised here")
    target.mkdir(parents=True, exist_ok=True)
    tokenizer = target / "tokenizer.json"
    tokenizer.write_bytes((source / "tokenizer.json").read_bytes())
    with tempfile.TemporaryDirectory() as folder:
        whole = Path(folder) / "model.onnx"
        onnx.save(Graph(load_file(source / "model.safetensors"), config).model(), whole)
        quantize_dynamic(whole, target / "model.onnx", weight_type=QuantType.QInt8, per_channel=True, reduce_range=True)
        before, after = (embedded(file, tokenizer) for file in (whole, target / "model.onnx"))
    return float((before * after).sum(axis=1).min())


def embedded(model: Path, tokenizer: Path) -> NDArray[np.float32]:
    """The vectors of the sentences: the mean of their tokens, of length one."""
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    encoder = Tokenizer.from_file(str(tokenizer))
    vectors = []
    for sentence in SENTENCES:
        ids = np.array([encoder.encode(sentence).ids], dtype=np.int64)
        given = dict(zip(INPUTS, (ids, np.ones_like(ids), np.zeros_like(ids)), strict=True))
        vector = session.run(None, given)[0][0].mean(axis=0)
        vectors.append(vector / np.linalg.norm(vector))
    return np.array(vectors)


if __name__ == "__main__":
    origin, place = map(Path, sys.argv[1:])
    lowest = quantise(origin, place)
    for file in sorted(place.iterdir()):
        sys.stdout.write(f"{file.name}  {hashlib.sha256(file.read_bytes()).hexdigest()}  {file.stat().st_size:,}\n")
    sys.stdout.write(f"lowest cosine to the original's vectors: {lowest:.4f}\n")
