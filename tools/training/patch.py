"""Writes what was learnt as the difference of each byte to the public model's file."""

from __future__ import annotations

import hashlib
import lzma
import sys
from pathlib import Path

import numpy as np

from recordari.models.pull import pull
from recordari.models.registry import ModelFiles, PatchOrigin, find_model

LZMA = [{"id": lzma.FILTER_LZMA2, "preset": 9 | lzma.PRESET_EXTREME, "lc": 0, "lp": 0, "pb": 0, "dict_size": 1 << 26}]


def begin(model: str) -> tuple[ModelFiles, Path]:
    """The public model that this one is made of, and where its patch belongs."""
    (origin,) = (one for one in find_model(model).origins if isinstance(one, PatchOrigin))
    return pull(origin.base), origin.path


def write_patch(before: bytes, after: bytes, patch: Path) -> None:
    """The difference of each byte of two files of one length, and the pin of the result."""
    difference = np.frombuffer(after, dtype=np.uint8) - np.frombuffer(before, dtype=np.uint8)
    patch.parent.mkdir(exist_ok=True)
    patch.write_bytes(lzma.compress(difference.tobytes(), filters=LZMA))
    digest = hashlib.sha256(after).hexdigest()
    sys.stdout.write(f"{patch.name}: {patch.stat().st_size:,} bytes; model.onnx {digest} {len(after):,}\n")
