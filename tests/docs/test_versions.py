"""The documentation of several versions side by side."""

from __future__ import annotations

import json
from pathlib import Path

from tools.versions import add_version


def test_versions_are_listed_newest_first_and_the_first_page_leads_to_the_newest(tmp_path: Path) -> None:
    sites = tmp_path / "sites"
    sites.mkdir()
    for version in ("0.9.0", "0.10.1", "0.2.3", "0.9.4"):
        built = tmp_path / version
        built.mkdir()
        (built / "index.html").write_text(f"pages of {version}")
        add_version(sites, version, built)
    listed = json.loads((sites / "versions.json").read_text())
    assert [(one["version"], one["title"], one["aliases"]) for one in listed] == [
        ("0.10", "0.10.1", ["latest"]),
        ("0.9", "0.9.4", []),
        ("0.2", "0.2.3", []),
    ]
    assert (sites / "0.9" / "index.html").read_text() == "pages of 0.9.4"
    assert 'url=0.10/index.html"' in (sites / "index.html").read_text()
    assert 'url=../0.10/index.html"' in (sites / "latest" / "index.html").read_text()
