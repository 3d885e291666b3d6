"""Builds both images with buildah and uses them: `make image`, `make test-image` and `make test-manifests` run it."""

from __future__ import annotations

import base64
import json
import os
import platform
import re
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from email.parser import BytesParser
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

from packaging.requirements import Requirement

from tools.release import build_wheel, readme_lines

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
REMEMBERED = "Ana prefers tea, and no sugar"


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
    chosen = ["--only-binary=:all:", "--python-version", version, "--dest", str(wheels)]
    run([*pip, "download", *chosen, f"{wheel}[image]"], quiet=True)
    if others := needed_there(version, wheels):
        run([*pip, "download", *chosen, *others], quiet=True)
    program = shutil.which("recordari") or ROOT / ".venv" / "bin" / "recordari"
    # The models of all profiles: this one needs what the others need, and a reranker.
    run(
        [program, "models", "pull"],
        quiet=True,
        RECORDARI_CACHE_DIR=str(CONTEXT),
        RECORDARI_EMBEDDING_PROFILE="thorough",
    )
    say(f"{len(list(wheels.iterdir()))} wheels and the models in {CONTEXT.relative_to(ROOT)}")


def needed_there(version: str, wheels: Path) -> list[str]:
    """What these wheels need under that Python and not under this one: pip looks at this one alone."""
    there = {"python_full_version": version, "python_version": ".".join(version.split(".")[:2]), "extra": ""}
    found = set()
    for wheel in wheels.glob("*.whl"):
        with zipfile.ZipFile(wheel) as archive:
            (name,) = [one for one in archive.namelist() if re.fullmatch(r"[^/]+\.dist-info/METADATA", one)]
            about = BytesParser().parsebytes(archive.read(name))
        for written in about.get_all("Requires-Dist", ()):
            need = Requirement(written)
            if need.marker and need.marker.evaluate(there) and not need.marker.evaluate({"extra": ""}):
                found.add(f"{need.name}{need.specifier}")
    return sorted(found)


def make_base() -> str:
    """A base image from Debian's packages, where no image can be pulled; returns the version of its Python."""
    tree, whole = WORK / "base", WORK / "base.whole"
    if not whole.exists():
        shutil.rmtree(tree, ignore_errors=True)
        packages = "python3,python3-venv,ca-certificates,tzdata"
        run(["debootstrap", "--variant=minbase", f"--include={packages}", SUITE, tree], quiet=True)
        whole.touch()
    for unneeded in ("cache/apt", "lib/apt/lists"):
        shutil.rmtree(tree / "var" / unneeded, ignore_errors=True)
    # Only files of Debian: never devices, nor what a file system that is mounted there shows.
    packed = WORK / "base.tar"
    apart = [f"--exclude=./{place}/*" for place in ("dev", "proc", "sys")]
    run(["tar", "--create", "--file", packed, "--one-file-system", *apart, "--directory", tree, "."])
    container = run([*BUILDAH, "from", "scratch"])
    run([*BUILDAH, "add", "--quiet", container, packed, "/"])
    run([*BUILDAH, "commit", "--quiet", "--rm", container, TRIED_BASE])
    packed.unlink()
    return run(["chroot", tree, "/usr/bin/python3", "-c", "import platform; print(platform.python_version())"])


def build(base: str | None) -> None:
    chosen = ["--build-arg", f"BASE={base}"] if base else []
    for variant in VARIANTS:
        tag = "recordari:latest" if variant == "recordari" else f"recordari:{variant}"
        # Without layers in between: this storage driver copies the whole tree for each.
        options = ["--isolation", "chroot", "--format", "docker", "--layers=false", "--target", variant, "--tag", tag]
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

    def python(self, code: str) -> str:
        """What lines of Python print in the container."""
        return run([*self._command[:-1], "python", "-c", code])

    @contextmanager
    def running(self, *words: str) -> Iterator[subprocess.Popen[bytes]]:
        """A command that goes on; ended by SIGTERM as an orchestrator ends it, if it still runs."""
        with (WORK / "server.log").open("ab") as log:
            process = subprocess.Popen([*self._command, *words], stdout=log, stderr=log, start_new_session=True)
        try:
            yield process
        finally:
            if process.poll() is None:
                os.kill(process_inside(process.pid), signal.SIGTERM)
                if process.wait(timeout=START_SECONDS):
                    sys.exit(f"{words[0]} ended with {process.returncode} after SIGTERM")

    @contextmanager
    def serving(self, *words: str) -> Iterator[subprocess.Popen[bytes]]:
        """The server of the image, when it is ready."""
        with self.running("serve", *words) as server:
            await_ready(server)
            yield server

    def remove(self) -> None:
        run([*BUILDAH, "rm", self.name])


def process_inside(buildah: int) -> int:
    """The process that buildah started in the container: the nearest Python below it."""
    parents = {int(stat.parent.name): _parent(stat) for stat in Path("/proc").glob("[0-9]*/stat")}
    below = [buildah]
    for process in below:
        words = Path(f"/proc/{process}/cmdline").read_bytes().split(b"\0")
        if process != buildah and words[0].endswith(b"/python"):
            return process
        below += [child for child, parent in parents.items() if parent == process]
    sys.exit("what runs in the container was not found among the processes")


def _parent(stat: Path) -> int:
    """The parent of a process; one that has ended meanwhile has none."""
    try:
        return int(stat.read_text().rpartition(")")[2].split()[1])
    except (OSError, ValueError):
        return 0


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


def follow_readme(container: Container, key: str) -> None:
    """The curl lines from outside, and the lines of Python inside."""
    http, lines = readme_lines()
    code = http.replace("rcd_…", key).replace("http://127.0.0.1:8765", f"http://127.0.0.1:{PORT}")
    said = run(["bash", "-euo", "pipefail", "-c", code]) + container.python(lines)
    if said.count(REMEMBERED) < 2:
        sys.exit(f"the README's lines do not print what they remembered:\n{said}")


def recalls(container: Container) -> bool:
    return REMEMBERED in container.run("recall", "What does Ana like to drink?", "--user", "ana")


def use() -> None:
    """Upgrade an older image's data, then use each image as the README says; look for stray writes."""
    local = {"RECORDARI_HOST": "127.0.0.1", "RECORDARI_PORT": str(PORT)}
    make_volume()
    use_image_before(local)
    whole = Container("recordari:all-in-one", **local)
    with watched(whole):
        exercise(whole)
    whole.remove()
    say("recordari:all-in-one follows the README, remembers over a kill, passes its self-check, and ends by SIGTERM")
    use_own_database(local)


def make_volume() -> None:
    shutil.rmtree(DATA, ignore_errors=True)
    DATA.mkdir()
    os.chown(DATA, USER, USER)


def exercise(container: Container, *words: str) -> None:
    """Serve, follow the README, kill the server, start it again, recall, and check the installation."""
    with container.serving(*words) as server:
        key = json.loads(container.run("key", "create", "first", "--role", "admin", "--json"))["key"]
        follow_readme(container, key)
        os.kill(process_inside(server.pid), signal.SIGKILL)
        server.wait()
    with container.serving(*words):
        if not recalls(container):
            sys.exit("what was remembered before the kill is gone")
        container.run("self-check", "--wait", str(START_SECONDS))


@contextmanager
def watched(container: Container) -> Iterator[None]:
    """Fail if files appear or change in the container, other than on the volume and in /tmp."""
    root = Path(run([*BUILDAH, "mount", container.name]))
    before = listed(root)
    yield
    if stray := sorted(listed(root) - before):
        sys.exit(f"it wrote outside /var/lib/recordari and /tmp: {stray[:10]}")


def use_image_before(local: Mapping[str, str]) -> None:
    """An image of the sources before the newest migration remembers; the new image must find it after its upgrade."""
    log = [
        "git",
        "-C",
        str(ROOT),
        "log",
        "-1",
        "--diff-filter=A",
        "--format=%H",
        "--",
        "src/recordari/db/migrations/*.sql",
    ]
    newest = run(log)
    if not newest:
        say("no image before: this is no clone with its history")
        return
    tree, wheels = WORK / "before", WORK / "before-wheel"
    for folder in (tree, wheels):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
    packed = WORK / "before.tar"
    run(["git", "-C", ROOT, "archive", "--output", packed, f"{newest}^"])
    run(["tar", "--extract", "--file", packed, "--directory", tree])
    wheel = build_wheel(tree, wheels)
    made = run([*BUILDAH, "from", "--pull-never", "recordari:all-in-one"])
    run([*BUILDAH, "copy", "--quiet", made, wheel, f"/opt/{wheel.name}"])
    pip = [
        "/opt/recordari/bin/python",
        "-m",
        "pip",
        "install",
        "--quiet",
        "--no-deps",
        "--no-index",
        "--force-reinstall",
    ]
    as_root = ["--isolation", "chroot", "--user", "0:0"]
    run([*BUILDAH, "run", *as_root, made, "--", *pip, f"/opt/{wheel.name}"], quiet=True)
    run([*BUILDAH, "commit", "--quiet", "--rm", made, "recordari:before"])
    old = Container("recordari:before", **local)
    with old.serving():
        old.run("remember", REMEMBERED, "--user", "ana")
    old.remove()
    new = Container("recordari:all-in-one", **local)
    with new.serving():
        if not recalls(new):
            sys.exit("what the image before remembered is gone after the upgrade")
        new.run("self-check", "--wait", str(START_SECONDS))
    new.remove()
    say(
        f"recordari:all-in-one upgrades the data of {newest[:9]}^, finds what that remembered, and passes its self-check"
    )


def use_own_database(local: Mapping[str, str]) -> None:
    """The image without a database, on a PostgreSQL of its own: a migration, a server, and a worker apart from it."""
    from tools.postgres import running_postgres  # not at the top: validating files needs no PostgreSQL

    make_volume()
    with running_postgres(PORT + 1) as addresses:
        shared = {
            **local,
            "RECORDARI_DATABASE_URL": addresses.application,
            "RECORDARI_SECRET_KEY": base64.b64encode(secrets.token_bytes(32)).decode(),
        }
        migration = Container("recordari", RECORDARI_DATABASE_OWNER_URL=addresses.owner, **shared)
        migration.run("db", "init")
        migration.remove()
        slim = Container("recordari", RECORDARI_AUTO_MIGRATE="false", **shared)
        if "embedded" in slim.run("db", "status"):
            sys.exit("the image `recordari` does not use the database that it was given")
        with watched(slim), slim.running("worker"):
            exercise(slim, "--no-worker")
        slim.remove()
    say("recordari does the same on a PostgreSQL of its own, with a worker apart from the server")


def listed(root: Path) -> set[str]:
    """Every file of a container but those below the places that may be written."""
    found = run(["find", root, "-xdev", "-type", "f", "-printf", "%P %T@\n"]).splitlines()
    return {
        line for line in found if not line.startswith(("var/lib/recordari/", "tmp/", "run/", "etc/host", "etc/resolv"))
    }


def clean() -> None:
    """Remove the images, the containers, and the folder that they were made in."""
    if WORK.exists():
        run([*BUILDAH, "rm", "--all"])
        run([*BUILDAH, "rmi", "--all", "--force"], quiet=True)
        shutil.rmtree(WORK)


def check_manifests() -> None:
    """Validate every Kubernetes file, and what kubectl builds of them, against Kubernetes' own schemas."""
    folder = ROOT / "deploy" / "kubernetes"
    checked = sorted(file for file in folder.rglob("*.yaml") if file.name != "kustomization.yaml")
    validate: list[str | Path] = [Path(sys.executable).with_name("kubernetes-validate"), "--strict"]
    run([*validate, *checked], quiet=True)
    say(f"{len(checked)} files are valid")
    if (program := shutil.which("kubectl")) is None:
        say("what they build was not looked at: there is no kubectl here")
        return
    with tempfile.TemporaryDirectory() as place:
        for name in ("base", "autoscaling"):
            built = Path(place) / f"{name}.yaml"
            built.write_text(run([program, "kustomize", folder / name]), "utf-8")
            run([*validate, built], quiet=True)
            say(f"{name} builds {len(re.findall('^kind: ', built.read_text('utf-8'), re.MULTILINE))} valid objects")


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["build", *base]:
            prepare(platform.python_version())
            build(base[0] if base else None)
        case ["try"]:
            prepare(make_base())
            build(TRIED_BASE)
            use()
        case ["clean"]:
            clean()
        case ["manifests"]:
            check_manifests()
        case _:
            sys.exit("usage: python -m tools.image build [BASE] | try | clean | manifests")
