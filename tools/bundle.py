"""Packs the wheel in dist/ as an MCP bundle that a desktop host installs; `make bundle` runs it after `make dist`.

The host runs the bundle with uv, which installs the wheel inside it and what that needs.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from pathlib import Path
from typing import Any

from recordari.doors.mcp.profiles import PROFILES
from tools.release import DIST, ROOT, commit_time, digest, project, say, write_sums

USER, AGENT = "${user_config.user}", "${user_config.agent}"
SERVER = '''"""Serves memory over standard input and output."""

import sys

from recordari.doors.cli.main import main

sys.argv[1:1] = ["mcp"]
main()
'''


def manifest() -> dict[str, Any]:
    """What a host shows before it installs the bundle, and how it starts the server."""
    about = project()
    return {
        "manifest_version": "0.4",
        "name": about["name"],
        "display_name": "Recordari",
        "version": about["version"],
        "description": about["description"],
        "author": {"name": about["authors"][0]["name"]},
        "license": about["license"],
        "keywords": about["keywords"],
        "server": {
            "type": "uv",
            "entry_point": "server.py",
            "mcp_config": {
                "command": "uv",
                "args": f"run --directory ${{__dirname}} server.py --user {USER} --agent {AGENT}".split(),
            },
        },
        "tools": [{"name": tool.name, "description": tool.title} for tool in PROFILES["default"].tools],
        "prompts_generated": True,
        "compatibility": {"platforms": ["darwin", "linux"], "runtimes": {"python": about["requires-python"]}},
        "user_config": {
            "user": {
                "type": "string",
                "title": "User",
                "description": "Whose memory it is. Use the same name in every host to share one memory.",
                "required": True,
            },
            "agent": {
                "type": "string",
                "title": "Agent",
                "description": "The name under which this host works.",
                "default": "desktop",
            },
        },
    }


def environment(wheel: Path) -> str:
    """The project file of the bundle: it needs the wheel beside it."""
    about = project()
    return (
        f'[project]\nname = "recordari-bundle"\nversion = "{about["version"]}"\n'
        f'requires-python = "{about["requires-python"]}"\ndependencies = ["recordari[mcp]"]\n\n'
        f'[tool.uv]\npackage = false\n\n[tool.uv.sources]\nrecordari = {{ path = "{wheel.name}" }}\n'
    )


def pack(wheel: Path, bundle: Path) -> None:
    """Write the bundle: the same bytes for the same commit and wheel, on every machine."""
    files = {
        "manifest.json": json.dumps(manifest(), indent=2, ensure_ascii=False).encode(),
        "pyproject.toml": environment(wheel).encode(),
        "server.py": SERVER.encode(),
        "LICENSE": (ROOT / "LICENSE").read_bytes(),
        wheel.name: wheel.read_bytes(),
    }
    moment = time.gmtime(int(commit_time()))[:6]
    with zipfile.ZipFile(bundle, "w", zipfile.ZIP_STORED) as archive:
        for name in sorted(files):
            entry = zipfile.ZipInfo(name, moment)
            entry.create_system, entry.external_attr = 3, 0o100644 << 16
            archive.writestr(entry, files[name])


def validate(bundle: Path, tool: Path) -> None:
    """Let the format's own tool read the bundle: its manifest, and all of it unpacked."""
    with tempfile.TemporaryDirectory() as folder:
        for command in (
            ["unpack", str(bundle), folder],
            ["validate", f"{folder}/manifest.json"],
            ["info", str(bundle)],
        ):
            done = subprocess.run([str(tool), *command], capture_output=True, text=True, check=False)
            if done.returncode:
                sys.exit(f"mcpb {command[0]} refused the bundle:\n{done.stdout}\n{done.stderr}")
        with zipfile.ZipFile(bundle) as archive:
            for name in archive.namelist():
                if (Path(folder) / name).read_bytes() != archive.read(name):
                    sys.exit(f"mcpb unpacked another {name} than was packed")


def main(tool: str) -> None:
    (wheel,) = DIST.glob("*.whl")
    bundle = DIST / f"recordari-{project()['version']}.mcpb"
    with tempfile.TemporaryDirectory() as folder:
        first, second = (Path(folder) / name for name in ("first.mcpb", "second.mcpb"))
        pack(wheel, first)
        pack(wheel, second)
        if digest(first) != digest(second):
            sys.exit("the bundle is not reproducible: two builds gave different bytes")
        validate(first, Path(tool))
        shutil.copyfile(first, bundle)
    write_sums()
    say(f"dist/{bundle.name} is valid")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python -m tools.bundle MCPB")
    main(sys.argv[1])
