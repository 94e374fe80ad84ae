"""Third-party files are byte for byte what was published, and fit what the server writes."""

from __future__ import annotations

import hashlib
import tomllib
from pathlib import Path

import pytest
from plotly import offline

from tests.require import ROOT

FOLDERS = (ROOT / "static" / "vendor", ROOT / "tests" / "vendor")


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda path: path.parent.name)
def test_every_vendored_file_has_its_digest_and_its_licence(folder: Path) -> None:
    packages = tomllib.loads((folder / "vendor.toml").read_text())["package"]
    named = {"vendor.toml"}
    for package in packages:
        assert package["integrity"].startswith("sha512-")
        assert any("LICENSE" in entry["to"] for entry in package["file"]), package["name"]
        for entry in package["file"]:
            named.add(entry["to"])
            data = (folder / entry["to"]).read_bytes()
            assert hashlib.sha256(data).hexdigest() == entry["sha256"], entry["to"]
    assert {path.name for path in folder.iterdir()} == named


def test_the_browser_draws_with_the_version_that_writes_the_figures() -> None:
    packages = tomllib.loads((ROOT / "static" / "vendor" / "vendor.toml").read_text())["package"]
    plotly = next(package for package in packages if package["name"].startswith("plotly"))
    assert plotly["version"] == offline.get_plotlyjs_version()
