"""The wheel: what is in it, and that it serves the same pages as the checkout."""

from __future__ import annotations

import re
import subprocess
import sys
import venv
import zipfile
from pathlib import Path, PurePosixPath

import pytest

from tests.require import ROOT
from tests.wheel.packaging import build_wheel, copy_tree, get, serving

#: A file with another suffix is in the wheel by accident, or belongs in this list.
KNOWN_SUFFIXES = {
    *(".py", ".mako", ".sql", ".html", ".css", ".js", ".svg", ".png", ".ico", ".woff2"),
    *(".toml", ".txt", ".md", ".json", ".jsonl", ".traj", ".typed", ".LICENSE"),
}
#: Planted in the tree that is built; none may get into the wheel.
PLANTED = ("app/.env", "app/stray.pyc", "store/dev.sqlite", "store/dev.db", "ingest/notes.swp")
SAME_PAGES = ("/", "/trajectories", "/import", "/docs/errors/fenced")
STATIC_FILE = "/static/app.css"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    tree = copy_tree(tmp_path_factory.mktemp("tree"))
    for name in PLANTED:
        (tree / name).write_text("planted")
    return build_wheel(tree, tmp_path_factory.mktemp("dist"))


@pytest.fixture(scope="module")
def names(wheel: Path) -> list[str]:
    with zipfile.ZipFile(wheel) as archive:
        return archive.namelist()


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A new environment with the locked dependencies and the wheel; its bin folder."""
    folder = tmp_path_factory.mktemp("installed")
    venv.create(folder, with_pip=True)
    # What is imported is compiled then; compiling the rest is most of an install's time.
    pip = [folder / "bin" / "python", "-m", "pip", "install", "--quiet", "--no-compile"]
    subprocess.run([*pip, "--require-hashes", "-r", ROOT / "requirements.lock"], check=True)
    subprocess.run([*pip, "--no-deps", wheel], check=True)
    return folder / "bin"


def test_the_wheel_installs_one_import_name_only(names: list[str]) -> None:
    tops = {name.split("/", 1)[0] for name in names}
    (info,) = (top for top in tops if top.endswith(".dist-info"))
    assert tops == {"strandline", info}


def test_only_known_kinds_of_file_are_in_the_wheel(names: list[str]) -> None:
    inside = [PurePosixPath(name) for name in names if name.startswith("strandline/")]
    assert {path.name for path in inside if path.suffix not in KNOWN_SUFFIXES} == set()
    assert not [path for path in inside if any(part.startswith(".") for part in path.parts)]


def test_nothing_planted_or_ignored_gets_in(names: list[str]) -> None:
    planted = {f"strandline/_bundle/{name}" for name in PLANTED}
    assert planted & set(names) == set()
    assert not [name for name in names if "__pycache__" in name]


def test_everything_the_server_reads_is_inside(names: list[str]) -> None:
    inside = set(names)
    for folder in ("app", "core", "ingest", "runtime", "store", "templates", "static"):
        expected = {
            f"strandline/_bundle/{path.relative_to(ROOT).as_posix()}"
            for path in (ROOT / folder).rglob("*")
            if path.is_file() and path.suffix in KNOWN_SUFFIXES
        }
        assert expected - inside == set(), folder
    for page in (ROOT / "docs" / "errors").glob("*.md"):
        assert f"strandline/_bundle/docs/errors/{page.name}" in inside
    assert any("/migrations/versions/" in name for name in inside)


def test_where_names_the_files_of_the_wheel(installed: Path, tmp_path: Path) -> None:
    said = subprocess.run(
        [installed / "strandline", "where"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert said.returncode == 0, said.stderr
    assert str(installed.parent / "lib") in said.stdout
    assert "_bundle" in said.stdout
    assert str(ROOT) not in said.stdout


def test_no_foreign_name_lands_beside_other_packages(installed: Path, tmp_path: Path) -> None:
    for name in ("app", "core", "store", "runtime", "ingest"):
        tried = subprocess.run(
            [installed / "python", "-c", f"import {name}"],
            cwd=tmp_path,
            capture_output=True,
            check=False,
        )
        assert tried.returncode != 0, f"import {name} worked outside the launcher"


def test_the_installed_server_serves_the_same_pages(installed: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    checkout = [sys.executable, "-m", "strandline"]
    with (
        serving([str(installed / "strandline")], tmp_path / "wheel", elsewhere) as from_wheel,
        serving(checkout, tmp_path / "checkout", ROOT) as from_checkout,
    ):
        for page in SAME_PAGES:
            theirs, ours = get(from_wheel + page), get(from_checkout + page)
            assert theirs[:2] == ours[:2] == (200, "text/html"), page
            assert _without_address(theirs[2], from_wheel, tmp_path / "wheel") == (
                _without_address(ours[2], from_checkout, tmp_path / "checkout")
            ), page
        assert get(from_wheel + STATIC_FILE) == get(from_checkout + STATIC_FILE)


def _without_address(body: bytes, url: str, data: Path) -> bytes:
    """Without what each server rightly says of itself: its folder, its port, how it was called."""
    port = url.rsplit(":", 1)[1].strip("/")
    body = body.replace(str(data).encode(), b"DATA").replace(f":{port}".encode(), b":PORT")
    called = (
        rb"(?:[\w./-]*python[\d.]* -m strandline|[\w./-]*strandline)(?= (?:demo|import|serve)\b)"
    )
    return re.sub(called, b"PROGRAM", body)
