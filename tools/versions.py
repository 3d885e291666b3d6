"""Builds the documentation of this version into sites/, beside that of other versions: `make docs-version` runs it.

A version has a folder `MAJOR.MINOR`. `versions.json` lists them, newest first, for the menu of versions; `latest` and the
first page lead to the newest one. What was built for other versions stays as it is.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

from tools.release import project

ROOT = Path(__file__).parents[1]
SITES = ROOT / "sites"
CONFIGURATION = "mkdocs.yml"
MENU = "\nextra:\n  version:\n    provider: mike\n    default: latest\n"
REDIRECT = """<!doctype html>
<meta charset="utf-8">
<title>Recordari</title>
<meta http-equiv="refresh" content="0; url={0}">
<link rel="canonical" href="{0}">
<a href="{0}">The documentation of the newest version</a>
"""


def add_version(sites: Path, version: str, built: Path) -> None:
    """Put the built pages of a version beside those of the others, and list them all."""
    name = ".".join(version.split(".")[:2])
    shutil.rmtree(sites / name, ignore_errors=True)
    shutil.copytree(built, sites / name)
    listed = sites / "versions.json"
    titles = {one["version"]: one["title"] for one in json.loads(listed.read_text("utf-8"))} if listed.exists() else {}
    titles[name] = version
    names = sorted(titles, key=lambda one: [int(part) for part in one.split(".")], reverse=True)
    entries = [
        {"version": one, "title": titles[one], "aliases": ["latest"] if one == names[0] else []} for one in names
    ]
    listed.write_text(json.dumps(entries, indent=1) + "\n", "utf-8")
    (sites / "index.html").write_text(REDIRECT.format(f"{names[0]}/index.html"), "utf-8")
    (sites / "latest").mkdir(exist_ok=True)
    (sites / "latest" / "index.html").write_text(REDIRECT.format(f"../{names[0]}/index.html"), "utf-8")


def build(zensical: str) -> Path:
    """Build the pages with the menu of versions; returns their folder."""
    written = (ROOT / CONFIGURATION).read_text("utf-8")
    folder = re.search(r"^site_dir: (\S+)$", written, re.MULTILINE)
    if folder is None:
        sys.exit(f"{CONFIGURATION} has no site_dir")
    file = ROOT / ".mkdocs-version.yml"
    file.write_text(written + MENU, "utf-8")
    try:
        subprocess.run([zensical, "build", "--clean", "--strict", "--config-file", str(file)], cwd=ROOT, check=True)
    finally:
        file.unlink()
    return ROOT / folder[1]


if __name__ == "__main__":
    (program,) = sys.argv[1:] or ["zensical"]
    number = project()["version"]
    SITES.mkdir(exist_ok=True)
    add_version(SITES, number, build(program))
    sys.stdout.write(f"sites/index.html: {number}, and {len(list(SITES.glob('*/sitemap.xml'))) - 1} other versions\n")
