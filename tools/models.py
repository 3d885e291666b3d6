"""Builds `recordari-models`, a wheel of data: the pinned files of all models that the profiles need.

`make models-wheel` runs it. The same files always give the same bytes. Where that wheel is installed, or offered by your
package index, no other package and no model hub is needed.
"""

from __future__ import annotations

import base64
import hashlib
import sys
import zipfile
from pathlib import Path

from recordari.models.pull import pull
from recordari.models.registry import DATA_MODELS, DATA_PACKAGE, DATA_VERSION, ModelSpec, find_model

FOLDER = Path(__file__).parents[1] / "dist-models"
TIME = (2020, 1, 1, 0, 0, 0)


def build(folder: Path) -> Path:
    """Pull what is missing, and write the wheel."""
    folder.mkdir(parents=True, exist_ok=True)
    info = f"{DATA_PACKAGE}-{DATA_VERSION}.dist-info"
    content: dict[str, bytes] = {f"{DATA_PACKAGE}/__init__.py": b'"""The files of local models for Recordari."""\n'}
    specs = [find_model(name) for name in DATA_MODELS]
    for spec in specs:
        files = pull(spec.name)
        for file in spec.files:
            content[f"{DATA_PACKAGE}/{spec.name}/{file.name}"] = (files.folder / file.name).read_bytes()
    content[f"{info}/METADATA"] = metadata(specs).encode()
    content[f"{info}/WHEEL"] = b"Wheel-Version: 1.0\nGenerator: recordari\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    lines = [f"{name},sha256={_digest(data)},{len(data)}" for name, data in content.items()]
    content[f"{info}/RECORD"] = "\n".join([*lines, f"{info}/RECORD,,", ""]).encode()
    wheel = folder / f"{DATA_PACKAGE}-{DATA_VERSION}-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED, compresslevel=6) as archive:
        for name, data in content.items():
            entry = zipfile.ZipInfo(name, TIME)
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, data, zipfile.ZIP_DEFLATED)
    return wheel


def metadata(specs: list[ModelSpec]) -> str:
    """The wheel's description: what is in it, from where, under which licence, with which hashes."""
    licences = " AND ".join(sorted({spec.license for spec in specs}))
    lines = [
        "Metadata-Version: 2.4",
        f"Name: {DATA_PACKAGE.replace('_', '-')}",
        f"Version: {DATA_VERSION}",
        "Summary: Local models for Recordari, as data",
        f"License-Expression: {licences}",
        "Requires-Python: >=3.11",
        "Description-Content-Type: text/markdown",
        "",
        "| model | source | licence | file | SHA-256 |",
        "|---|---|---|---|---|",
    ]
    lines += [
        f"| {spec.name} | {spec.source} | {spec.license} | {file.name} | {file.sha256} |"
        for spec in specs
        for file in spec.files
    ]
    return "\n".join([*lines, ""])


def _digest(data: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()


if __name__ == "__main__":
    made = build(FOLDER)
    sys.stdout.write(f"{made.relative_to(FOLDER.parent)}: {made.stat().st_size / 1e6:.1f} MB\n")
