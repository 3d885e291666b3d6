"""Builds both images with buildah and uses them: `make image`, `make test-image` and `make test-manifests` run it."""

from __future__ import annotations

import json
import os
import platform
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from urllib.error import URLError
from urllib.request import Request, urlopen

ROOT = Path(__file__).parents[1]
WORK = ROOT / ".image"
CONTEXT = WORK / "context"
VARIANTS = ("all-in-one", "recordari")
TRIED_BASE = "recordari-base"
SUITE = "bookworm"
PORT = 18_766
START_SECONDS = 300.0
BUILDAH = ["buildah", "--storage-driver", "vfs", "--root", str(WORK / "storage"), "--runroot", str(WORK / "run")]
DATA = WORK / "data"
USER = 10001


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def run(command: Sequence[str | Path], *, quiet: bool = False, **environment: str) -> str:
    done = subprocess.run(
        [str(word) for word in command],
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT if quiet else None,
        text=True,
        check=False,
    )
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command[:4]))} … ended with {done.returncode}:\n{done.stdout}")
    return done.stdout.strip()


def prepare(version: str) -> None:
    """Collect what goes into the images: the wheel of dist/, its dependencies for that Python, and the models."""
    (wheel,) = (ROOT / "dist").glob("*.whl")
    wheels = CONTEXT / "wheels"
    shutil.rmtree(wheels, ignore_errors=True)
    wheels.mkdir(parents=True)
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-input", "--quiet"]
    chosen = ["--only-binary=:all:", "--python-version", version]  # whole, since some need other packages before 3.11.3
    run([*pip, "download", *chosen, "--dest", wheels, f"{wheel}[image]"], quiet=True)
    program = shutil.which("recordari") or ROOT / ".venv" / "bin" / "recordari"
    run([program, "models", "pull"], quiet=True, RECORDARI_CACHE_DIR=str(CONTEXT), RECORDARI_EMBEDDING_PROFILE="best")
    say(f"{len(list(wheels.iterdir()))} wheels and the models in {CONTEXT.relative_to(ROOT)}")


def make_base() -> str:
    """A base image from Debian's packages, where no image can be pulled; returns the version of its Python."""
    tree = WORK / "base"
    if not (tree / "usr" / "bin" / "python3").exists():
        packages = "python3,python3-venv,ca-certificates,tzdata"
        run(["debootstrap", "--variant=minbase", f"--include={packages}", SUITE, tree], quiet=True)
    shutil.rmtree(tree / "var" / "cache" / "apt", ignore_errors=True)
    container = run([*BUILDAH, "from", "scratch"])
    run([*BUILDAH, "add", "--quiet", container, tree, "/"])
    run([*BUILDAH, "commit", "--quiet", "--rm", container, TRIED_BASE])
    return run(["chroot", tree, "/usr/bin/python3", "-c", "import platform; print(platform.python_version())"])


def build(base: str | None) -> None:
    chosen = ["--build-arg", f"BASE={base}"] if base else []
    for variant in VARIANTS:
        tag = "recordari:latest" if variant == "recordari" else f"recordari:{variant}"
        options = ["--isolation", "chroot", "--format", "docker", "--layers", "--target", variant, "--tag", tag]
        file = ROOT / "deploy" / "Containerfile"
        run(
            [*BUILDAH, "bud", "--pull-never" if base else "--pull", *options, *chosen, "--file", file, CONTEXT],
            quiet=True,
        )
        found = json.loads(run([*BUILDAH, "images", "--json", tag]))
        say(f"{tag}: {found[0]['size']}")


class Container:
    """One container of an image, with the data folder mounted, run without root."""

    def __init__(self, image: str, **environment: str) -> None:
        self.name = run([*BUILDAH, "from", "--pull-never", image])
        mounted = ["--volume", f"{DATA}:/var/lib/recordari:rw", "--user", f"{USER}:{USER}"]
        given = [word for name, value in environment.items() for word in ("--env", f"{name}={value}")]
        self._command = [*BUILDAH, "run", "--isolation", "chroot", *mounted, *given, self.name, "--", "recordari"]

    def run(self, *words: str) -> str:
        return run([*self._command, *words])

    @contextmanager
    def serving(self) -> Iterator[subprocess.Popen[bytes]]:
        """The server of the image; ended by SIGTERM as an orchestrator ends it, if it still runs."""
        with (WORK / "server.log").open("ab") as log:
            server = subprocess.Popen([*self._command, "serve"], stdout=log, stderr=log, start_new_session=True)
        try:
            await_ready(server)
            yield server
        finally:
            if server.poll() is None:
                os.kill(server_process(server.pid), signal.SIGTERM)
                if server.wait(timeout=START_SECONDS):
                    sys.exit(f"the server ended with {server.returncode} after SIGTERM")

    def remove(self) -> None:
        run([*BUILDAH, "rm", self.name])


def server_process(buildah: int) -> int:
    """The innermost process that buildah started: the server itself."""
    process = buildah
    while children := Path(f"/proc/{process}/task/{process}/children").read_text().split():
        if b"postgres" in Path(f"/proc/{children[0]}/cmdline").read_bytes().split(b"\0")[0]:
            break
        process = int(children[0])
    return process


def await_ready(server: subprocess.Popen[bytes]) -> None:
    ends = time.monotonic() + START_SECONDS
    while True:
        if server.poll() is not None or time.monotonic() > ends:
            sys.exit(f"the server does not answer; see {WORK / 'server.log'}")
        try:
            with urlopen(f"http://127.0.0.1:{PORT}/readyz", timeout=5):
                return
        except (URLError, OSError):
            time.sleep(0.2)


def ask(key: str, path: str, body: object) -> str:
    headers = {"Authorization": f"Bearer {key}", "Recordari-User": "ana", "Content-Type": "application/json"}
    request = Request(f"http://127.0.0.1:{PORT}{path}", json.dumps(body).encode(), headers)
    with urlopen(request, timeout=60) as answer:  # noqa: S310 - our own server
        return str(answer.read().decode())


def use() -> None:
    """Run both images on one data folder: remember, kill, start again, recall, check, and look for stray writes."""
    shutil.rmtree(DATA, ignore_errors=True)
    DATA.mkdir()
    os.chown(DATA, USER, USER)
    local = {"RECORDARI_HOST": "127.0.0.1", "RECORDARI_PORT": str(PORT)}
    whole = Container("recordari:all-in-one", **local)
    root = Path(run([*BUILDAH, "mount", whole.name]))
    before = listed(root)
    with whole.serving() as server:
        key = json.loads(whole.run("key", "create", "first", "--role", "admin", "--json"))["key"]
        ask(key, "/v1/remember_fact", {"content": "Ana prefers tea, and no sugar"})
        os.kill(server_process(server.pid), signal.SIGKILL)
        server.wait()
    with whole.serving():
        if "prefers tea" not in ask(key, "/v1/recall", {"query": "What does Ana like to drink?"}):
            sys.exit("what was remembered before the kill is gone")
        whole.run("self-check")
        say("recordari:all-in-one remembers over a kill, and its self-check passes without root")
        use_own_database(key, local)
    if stray := sorted(listed(root) - before):
        sys.exit(f"it wrote outside /var/lib/recordari and /tmp: {stray[:10]}")
    whole.remove()
    say("both ended by SIGTERM, and wrote nowhere but to the volume and /tmp")


def use_own_database(key: str, local: dict[str, str]) -> None:
    """The image without a database, on the one that runs: a second server and a worker."""
    socket = "host=/var/lib/recordari/data/postgres.run&port=5432"
    other = {**local, "RECORDARI_PORT": "0", "RECORDARI_DATABASE_URL": f"postgresql://recordari@/recordari?{socket}"}
    slim = Container("recordari", **other)
    if "embedded" in slim.run("db", "status"):
        sys.exit("the image `recordari` does not use the database that it was given")
    if "prefers tea" not in slim.run("recall", "What does Ana like to drink?", "--user", "ana"):
        sys.exit("the image `recordari` does not find what was remembered")
    slim.remove()
    say("recordari finds it on the same database")


def listed(root: Path) -> set[str]:
    """Every file of a container but those below the places that may be written."""
    found = run(["find", root, "-xdev", "-type", "f", "-printf", "%P %T@\n"]).splitlines()
    return {
        line for line in found if not line.startswith(("var/lib/recordari/", "tmp/", "run/", "etc/host", "etc/resolv"))
    }


def check_manifests() -> None:
    """Validate every Kubernetes file against the schemas of the last Kubernetes that the validator knows."""
    files = sorted((ROOT / "deploy" / "kubernetes").rglob("*.yaml"))
    checked = [file for file in files if file.name != "kustomization.yaml"]
    run([Path(sys.executable).with_name("kubernetes-validate"), "--strict", *checked], quiet=True)
    say(f"{len(checked)} files are valid")


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["build", *base]:
            prepare(platform.python_version())
            build(base[0] if base else None)
        case ["try"]:
            prepare(make_base())
            build(TRIED_BASE)
            use()
        case ["manifests"]:
            check_manifests()
        case _:
            sys.exit("usage: python -m tools.image build [BASE] | try | manifests")
