"""Makes a release in dist/ and tries it: `make dist` and `make test-dist` run it, and `make release-check` before a tag."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.request import urlopen

ROOT = Path(__file__).parents[1]
DIST = ROOT / "dist"
PAGE = "recordari/doors/web/static/index.html"
RELEASE_TOOLS = ROOT / ".venv-release" / "bin"
PORT = 18_765
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")


def digest(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def project() -> dict[str, Any]:
    found: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    return found


def commit_time() -> str:
    """The time that files of the release carry: of the last commit, wherever and whenever it is built."""
    command = ["git", "-C", str(ROOT), "log", "-1", "--format=%ct"]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    return found.stdout.strip() or "1577836800"


def build() -> None:
    """Build twice from two copies of the tree; keep the files in dist/ if they are the same bytes."""
    if not (ROOT / "src" / PAGE).is_file():
        sys.exit("the dashboard is not built; run `make web` first")
    with tempfile.TemporaryDirectory() as folder:
        first, second = (_built(Path(folder) / name) for name in ("first", "second"))
        for name in first:
            if digest(first[name]) != digest(second[name]):
                sys.exit(f"{name} is not reproducible: two builds gave different bytes")
        DIST.mkdir(exist_ok=True)
        for old in DIST.iterdir():
            old.unlink()
        for name, file in first.items():
            _check_content(file)
            shutil.copyfile(file, DIST / name)
    write_sums()


def _built(folder: Path) -> dict[str, Path]:
    environment = {**os.environ, "SOURCE_DATE_EPOCH": commit_time(), "TZ": "UTC", "LC_ALL": "C.UTF-8"}
    tree = folder / "tree"
    # A copy in another place: a path of this machine in the files would make them differ.
    for name in _sources():
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / name, tree / name)
    command = [
        str(RELEASE_TOOLS / "python"),
        "-m",
        "build",
        "--no-isolation",
        "--outdir",
        str(folder / "out"),
        str(tree),
    ]
    subprocess.run(command, env=environment, check=True, stdout=subprocess.DEVNULL)
    return {file.name: file for file in sorted((folder / "out").iterdir())}


def _sources() -> list[str]:
    """The files that git knows or would take, and the built page: never what else lies around in this folder."""
    command = ["git", "-C", str(ROOT), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split("\0")
    page = (ROOT / "src" / PAGE).parent
    built = [str(file.relative_to(ROOT)) for file in page.rglob("*") if file.is_file()]
    return sorted({name for name in [*listed, *built] if name and (ROOT / name).is_file()})


def _check_content(file: Path) -> None:
    """Refuse a file without the dashboard, or with anything that does not belong into it."""
    if file.suffix == ".whl":
        with zipfile.ZipFile(file) as archive:
            names = archive.namelist()
    else:
        with tarfile.open(file) as archive_:
            names = archive_.getnames()
    if not any(name.endswith(PAGE) for name in names):
        sys.exit(f"{file.name} has no dashboard in it")
    if strange := [
        name for name in names if re.search(r"(^|/)(\.env|secret\.key|node_modules|__pycache__)(/|$)", name)
    ]:
        sys.exit(f"{file.name} holds what does not belong there: {', '.join(strange[:5])}")


def write_sums() -> None:
    files = sorted(file for file in DIST.iterdir() if file.name != "SHA256SUMS")
    (DIST / "SHA256SUMS").write_text("".join(f"{digest(file)}  {file.name}\n" for file in files))
    for file in files:
        say(f"{digest(file)[:16]}  {file.stat().st_size / 10**6:6.2f} MB  dist/{file.name}")


def try_out(python: str) -> None:
    """Install the wheel into an empty environment and do what the README shows; write the list of its parts."""
    (wheel,) = DIST.glob("*.whl")
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        place.chmod(0o755)
        environment = place / "venv"
        subprocess.run([python, "-m", "venv", str(environment)], check=True)
        pip = [str(environment / "bin" / "python"), "-m", "pip", "--disable-pip-version-check", "--no-input", "--quiet"]
        subprocess.run([*pip, "install", f"{wheel}[all-local]"], check=True)
        _write_parts(environment / "bin" / "python")
        use(environment / "bin", place)
        subprocess.run([*pip, "install", f"{wheel}[all-local,test]"], check=True)
        _follow_pages(environment / "bin", place / "pages")
    write_sums()


def _write_parts(python: Path) -> None:
    """The bill of materials (CycloneDX): what was installed, and the parts of the dashboard."""
    file = DIST / "recordari.cdx.json"
    environment = {**os.environ, "SOURCE_DATE_EPOCH": commit_time()}
    command = [
        str(RELEASE_TOOLS / "cyclonedx-py"), "environment", "--pyproject", str(ROOT / "pyproject.toml"),
        "--output-reproducible", "--output-file", str(file), str(python),
    ]  # fmt: skip
    subprocess.run(command, env=environment, check=True)
    parts = json.loads(file.read_text("utf-8"))
    packages = json.loads((ROOT / "web" / "package-lock.json").read_text("utf-8"))["packages"]
    shipped = packages[""].get("dependencies", {})
    for name in sorted(shipped):
        version = packages[f"node_modules/{name}"]["version"]
        purl = f"pkg:npm/{name}@{version}"
        parts["components"].append(
            {"type": "library", "bom-ref": purl, "name": name, "version": version, "purl": purl, "scope": "required"}
        )
    parts["components"] = [
        part for part in parts["components"] if part["name"] not in {"pip", "setuptools", "recordari"}
    ]
    file.write_text(json.dumps(parts, indent=1, ensure_ascii=False) + "\n", "utf-8")
    say(f"{len(parts['components'])} parts in dist/{file.name}")


def readme_lines() -> tuple[str, str]:
    """The curl lines and the lines of Python of the README."""
    blocks = BLOCK.findall((ROOT / "README.md").read_text("utf-8"))
    (http,) = [code for language, code in blocks if language == "sh" and "curl" in code]
    (lines,) = [code for language, code in blocks if language == "python"]
    return http, lines


def build_wheel(tree: Path, folder: Path) -> Path:
    """The wheel of a tree of sources."""
    tools = str(RELEASE_TOOLS / "python")
    command = [tools, "-m", "build", "--no-isolation", "--wheel", "--outdir", str(folder), str(tree)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    (wheel,) = folder.glob("*.whl")
    return wheel


def use(programs: Path, place: Path, **settings: str) -> None:
    """Serve, open the page, run the curl lines and the lines of Python of the README, and check the installation."""
    home = place / "home"
    home.mkdir(mode=0o755)
    environment = {
        **{
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("RECORDARI_", "PYTHON", "VIRTUAL"))
        },
        "PATH": f"{programs}:{os.environ['PATH']}",
        "RECORDARI_HOME": str(home / "recordari"),
        "RECORDARI_PORT": str(PORT),
        **settings,
    }
    http, lines = readme_lines()
    with _serving(environment, place) as key:
        address = f"http://127.0.0.1:{PORT}"
        with urlopen(address, timeout=60) as page:
            if b"<script" not in page.read():
                sys.exit("the dashboard is not served")
        code = http.replace("rcd_…", key).replace("http://127.0.0.1:8765", address)
        said = _run(["bash", "-euo", "pipefail", "-c", code], environment, place)
        said += _run(["python", "-c", lines], environment, place)
        said += _run(["recordari", "self-check", "--wait", "300"], environment, place)
    if said.count("Ana prefers tea, and no sugar") < 2:
        sys.exit(f"the README's lines do not print what they remembered:\n{said}")
    say("served; the README's lines, the dashboard and `recordari self-check` work")


def _follow_pages(programs: Path, tree: Path) -> None:
    """Run every block of the tutorial and of the README, with what is installed and not with the sources."""
    tree.mkdir()
    for name in _sources():
        if name.startswith(("tests/", "docs/", "README.md", "pyproject.toml")):
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / name, tree / name)
    pytest = ["python", "-m", "pytest", "--quiet", "tests/docs/test_code_blocks.py", "-k", "tutorial or README"]
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL"))}
    said = _run(pytest, {**environment, "PATH": f"{programs}:{os.environ['PATH']}"}, tree)
    say(f"the tutorial and the README, block by block: {said.strip().splitlines()[-1]}")


def _run(command: list[str], environment: Mapping[str, str], place: Path) -> str:
    program = shutil.which(command[0], path=environment["PATH"]) or command[0]
    done = subprocess.run(
        [program, *command[1:]], env=environment, cwd=place, capture_output=True, text=True, check=False
    )
    if done.returncode:
        sys.exit(f"{command[0]} ended with {done.returncode}:\n{done.stdout}\n{done.stderr}")
    return done.stdout


@contextmanager
def _serving(environment: Mapping[str, str], place: Path) -> Iterator[str]:
    """A server as an operator starts it, and the key that it prints."""
    program = shutil.which("recordari", path=environment["PATH"]) or "recordari"
    with subprocess.Popen(
        [program, "serve"], env=environment, cwd=place, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as server:
        assert server.stdout is not None
        key, seen = "", []
        for line in server.stdout:
            seen.append(line)
            if found := re.search(r"rcd_\w\S*", line):
                key = found[0]
            if "background work" in line:
                break
        else:
            sys.exit("recordari serve ended by itself:\n" + "".join(seen))
        try:
            yield key
        finally:
            server.send_signal(signal.SIGTERM)
            rest = server.stdout.read()
    if server.returncode not in {0, -signal.SIGTERM}:
        sys.exit(f"recordari serve ended with {server.returncode}:\n{rest}")


def check(tag: str) -> None:
    """Refuse a tag that is not this version everywhere, or whose package names nobody to write to."""
    about, problems = project(), []
    if tag != f"v{about['version']}":
        problems.append(f"the tag {tag} is not v{about['version']}, the version in pyproject.toml")
    changes = (ROOT / "CHANGELOG.md").read_text("utf-8")
    if not re.search(rf"^## {re.escape(about['version'])} \(\d{{4}}-\d\d-\d\d\)$", changes, re.MULTILINE):
        problems.append(f"CHANGELOG.md has no heading `## {about['version']} (YYYY-MM-DD)`")
    if not any("email" in author for author in about.get("authors", ())):
        problems.append("[project] names no author with an address; SECURITY.md sends readers there")
    if not about.get("urls", {}).get("Source"):
        problems.append("[project.urls] has no Source")
    entry = json.loads((ROOT / "server.json").read_text("utf-8"))
    if {entry["version"], *(package["version"] for package in entry["packages"])} != {about["version"]}:
        problems.append("server.json, the entry for the MCP registry, has another version")
    if f"mcp-name: {entry['name']} " not in (ROOT / "README.md").read_text("utf-8"):
        problems.append(
            "README.md does not say `mcp-name:` with the name in server.json, by which the registry knows us"
        )
    if problems:
        sys.exit("this is not ready to be released:\n- " + "\n- ".join(problems))
    say(f"{tag} can be released")


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["build"]:
            build()
        case ["try", python]:
            try_out(python)
        case ["check", tag]:
            check(tag)
        case _:
            sys.exit("usage: python -m tools.release build | try PYTHON | check TAG")
