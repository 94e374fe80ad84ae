"""The tree keeps its own rules: layers, drivers, docstrings, packaging, nothing left over."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.require import ROOT
from tests.wheel.packaging import tracked_files

PRODUCT = ("app", "core", "ingest", "runtime", "store", "strandline")
NOT_SHIPPED = {"bench", "docs", "scripts", "tests"}
DRIVERS = {"pysqlite3", "sqlite3", "apsw", "aiosqlite"}
TEXT_SUFFIXES = {
    *("", ".py", ".md", ".toml", ".html", ".css", ".js", ".json", ".lock", ".txt", ".lua", ".mako"),
    *(".yml", ".yaml", ".sh", ".c", ".sql"),
}
TRACKED = tracked_files()
PYTHON = [name for name in TRACKED if name.endswith(".py")]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


def _text_files() -> list[str]:
    return [
        name
        for name in TRACKED
        if Path(name).suffix in TEXT_SUFFIXES and "/vendor/" not in f"/{name}"
    ]


def test_every_package_of_the_top_level_is_in_the_wheel_and_the_sdist() -> None:
    folders = {
        path.name
        for path in ROOT.iterdir()
        if path.is_dir() and any(name.startswith(f"{path.name}/") for name in PYTHON)
    } - NOT_SHIPPED
    wheel = PYPROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]
    mapped = set(wheel["force-include"]) | set(wheel["packages"])
    assert folders | {"templates", "static", "docs/errors", "docs/glossary.md"} == mapped
    for source, target in wheel["force-include"].items():
        assert target == f"strandline/_bundle/{source}"
    sdist = {
        name.lstrip("/")
        for name in PYPROJECT["tool"]["hatch"]["build"]["targets"]["sdist"]["include"]
    }
    assert {name.split("/")[0] for name in mapped} <= {name.split("/")[0] for name in sdist}


@pytest.mark.parametrize("name", PYTHON)
def test_every_module_says_what_it_is_for(name: str) -> None:
    tree = ast.parse((ROOT / name).read_text())
    assert ast.get_docstring(tree), f"{name} has no module docstring"


def test_nothing_is_left_to_do() -> None:
    markers = ("TO" + "DO", "FIX" + "ME", "XX" + "X", "HA" + "CK", "NotImplemented" + "Error")
    left = re.compile(rf"\b({'|'.join(markers)})\b|\bbreakpoint\(\)|\bpass  #")
    found = [
        f"{name}:{number}: {line.strip()}"
        for name in PYTHON
        for number, line in enumerate((ROOT / name).read_text().splitlines(), 1)
        if left.search(line)
    ]
    assert found == []


def test_no_file_names_a_package_host_or_a_place_of_one_machine() -> None:
    hosts = ("pypi" + ".org", "python" + "hosted", "registry" + ".npmjs", "deb." + "debian")
    places = ("/wo" + "rk/", "/tmp/" + "strandline/", "." + "library", "/ro" + "ot/.")
    named = re.compile("|".join(re.escape(word) for word in hosts + places))
    found = [
        f"{name}: {match[0]}"
        for name in _text_files()
        if (match := named.search((ROOT / name).read_text(errors="replace")))
    ]
    assert found == []


def _imports(name: str) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse((ROOT / name).read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.add(node.module.split(".")[0])
    return found


def test_only_one_module_imports_a_sqlite_driver() -> None:
    importers = {
        name for name in PYTHON if name.split("/")[0] in PRODUCT and _imports(name) & DRIVERS
    }
    assert importers == {"store/sqlite_driver.py"}


def test_the_import_contracts_hold() -> None:
    done = subprocess.run(
        [Path(sys.executable).parent / "lint-imports", "--no-cache"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout


def _locked(name: str) -> dict[str, str]:
    return dict(re.findall(r"^([A-Za-z0-9._-]+)==([^\s;\\]+)", (ROOT / name).read_text(), re.M))


def test_the_developers_lock_holds_the_running_lock() -> None:
    running, developing = _locked("requirements.lock"), _locked("requirements-dev.lock")
    assert running and {name: developing.get(name) for name in running} == running
    building = _locked("requirements-build.lock")
    assert building and {name: developing.get(name) for name in building} == building


@pytest.mark.parametrize(
    "name", ["requirements.lock", "requirements-dev.lock", "requirements-build.lock"]
)
def test_a_lock_gives_hashes_and_no_address(name: str) -> None:
    text = (ROOT / name).read_text()
    assert "://" not in text and "--index" not in text and "--find-links" not in text
    for entry in re.split(r"\n(?=[A-Za-z0-9])", text.strip()):
        assert "--hash=sha256:" in entry, entry.splitlines()[0]


def test_every_dependency_is_locked() -> None:
    locked = set(_locked("requirements.lock"))
    for dependency in PYPROJECT["project"]["dependencies"]:
        match = re.match(r"[A-Za-z0-9._-]+", dependency)
        assert match and match[0].lower() in locked


def test_ci_is_one_script() -> None:
    script = ROOT / ".ci" / "run"
    assert script.stat().st_mode & 0o111
    assert "STRANDLINE_TEST_REQUIRE=all" in script.read_text()


def test_secrets_are_compared_in_constant_time() -> None:
    source = ast.parse((ROOT / "app" / "auth.py").read_text())
    compared = {
        ast.unparse(side)
        for node in ast.walk(source)
        if isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.Eq | ast.NotEq | ast.In)
        for side in (node.left, *node.comparators)
    }
    assert not {name for name in compared if re.search(r"token|secret|credential|known", name)}
    assert "hmac.compare_digest" in ast.unparse(source)
