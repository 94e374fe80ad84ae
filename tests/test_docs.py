"""The documents keep up with the program: whatever it offers is written down, and nothing else."""

from __future__ import annotations

import importlib
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from typing import Any

import pytest
from fastapi.routing import APIRoute

from core import errors, limits
from core.events import registry
from tests.require import ROOT
from tests.wheel.packaging import tracked_files

DOCS = ROOT / "docs"
MARKDOWN = [name for name in tracked_files() if name.endswith(".md")]


def _read(name: str) -> str:
    return (ROOT / name).read_text()


def _leaves(base: type[errors.StrandlineError]) -> Iterator[type[errors.StrandlineError]]:
    children = base.__subclasses__()
    if not children:
        yield base
    for child in children:
        yield from _leaves(child)


def test_every_event_family_is_documented() -> None:
    text = _read("docs/events.md")
    missing = [
        name for name in registry.FAMILIES if not re.search(rf"^#+ .*\b{name}\b", text, re.M)
    ]
    assert missing == []


@pytest.mark.parametrize("script", ["gen_docs.py", "gen_limits.py", "gen_invariants.py"])
def test_generated_documents_are_fresh(script: str) -> None:
    done = subprocess.run(
        [sys.executable, ROOT / "scripts" / script, "--check"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_limit_is_documented() -> None:
    text = _read("docs/limits.md")
    names = [name for name in vars(limits) if name.isupper() and name not in ("KIB", "MIB")]
    assert [name for name in names if f"`{name}`" not in text] == []


def test_every_error_code_has_its_page_and_every_page_its_code() -> None:
    codes = {leaf.code for leaf in _leaves(errors.StrandlineError) if leaf.code != "error"}
    answered = set(importlib.import_module("app.errors").ANSWERS)
    pages = {path.stem for path in (DOCS / "errors").glob("*.md")} - {"README"}
    assert codes <= answered
    assert pages == answered


def test_every_setting_is_documented() -> None:
    settings = importlib.import_module("app.settings").Settings
    prefix = settings.model_config.get("env_prefix", "")
    text = _read("docs/operating.md")
    names = [f"{prefix}{name}".upper() for name in settings.model_fields]
    assert [name for name in names if f"`{name}`" not in text] == []


def _commands() -> dict[str, list[str]]:
    """Command -> its options, from the program itself."""
    typer_main = importlib.import_module("typer.main")
    group = typer_main.get_command(importlib.import_module("app.cli").app)
    return {
        name: [option for parameter in command.params for option in parameter.opts]
        for name, command in group.commands.items()
    }


def test_every_command_and_option_is_documented() -> None:
    text = _read("docs/cli.md")
    for command, options in _commands().items():
        section = re.search(rf"^## strandline {command}\b(.*?)(?=^## |\Z)", text, re.M | re.S)
        assert section, f"docs/cli.md has no section `strandline {command}`"
        for option in options:
            if option.startswith("--"):
                assert option in text, f"{command} {option}"


def _every_route(routes: Iterable[Any]) -> Iterator[APIRoute]:
    """The routes of the application, those of included routers too."""
    for route in routes:
        inner = getattr(route, "original_router", None)
        if isinstance(route, APIRoute):
            yield route
        elif inner is not None:
            yield from _every_route(inner.routes)


def _application() -> list[APIRoute]:
    main = importlib.import_module("app.main")
    settings = importlib.import_module("app.settings").Settings
    found = list(_every_route(main.create_app(settings()).routes))
    assert len(found) > 30
    return found


def test_every_route_is_documented() -> None:
    text = _read("docs/api.md") + _read("docs/pages.md")
    bare = re.sub(r"\{(\w+):\w+\}", r"{\1}", text)
    missing = [
        f"{method} {path}"
        for route in _application()
        for method in sorted(set(route.methods or ()) - {"HEAD"})
        if f"`{method} {(path := re.sub(r':[a-z]+}', '}', route.path))}`" not in bare
    ]
    assert missing == []


def _queried(dependant: Any) -> set[str]:
    """Names of the query parameters of a route and of what it depends on."""
    names = {field.alias for field in dependant.query_params}
    return names.union(*(_queried(part) for part in dependant.dependencies))


def test_every_query_of_a_page_is_documented() -> None:
    rows = dict(re.findall(r"^\| `GET ([^`]+)` (.*)$", _read("docs/pages.md"), re.M))
    own = next(
        _queried(route.dependant)
        for route in _application()
        if route.path == "/t/{trajectory_id}/@{seq}"
    )
    for route in _application():
        if route.path in rows and "GET" in (route.methods or ()):
            named = set(re.findall(r"`([^`]+)`", rows[route.path].replace("`, `", "` `")))
            words = {word for text in named for word in re.split(r"[, ]+", text)}
            allowed = own if "the page's own" in rows[route.path] else set()
            assert _queried(route.dependant) - allowed <= words, route.path


def _shown_commands(name: str) -> Iterator[str]:
    for block in re.findall(r"^```(?:sh|console)\n(.*?)^```", _read(name), re.M | re.S):
        yield from (line.removeprefix("$ ").split("#")[0].strip() for line in block.splitlines())


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md"])
def test_shown_commands_exist(name: str) -> None:
    targets = set(re.findall(r"^([a-z0-9_-]+):", _read("Makefile"), re.M))
    commands = _commands()
    for line in _shown_commands(name):
        words = [word for word in line.split() if "=" not in word.split("/")[0]]
        if words[:1] == ["make"]:
            assert set(words[1:2]) <= targets, line
        elif words and words[0].endswith("strandline"):
            assert words[1] in commands, line
            known = {*commands[words[1]], "--help"}
            assert {word for word in words if word.startswith("--")} <= known, line


@pytest.mark.parametrize("name", MARKDOWN)
def test_links_between_documents_lead_somewhere(name: str) -> None:
    text = re.sub(r"^```.*?^```", "", _read(name), flags=re.M | re.S)
    for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", text):
        if "://" not in target and not target.startswith(("mailto:", "/")):
            assert ((ROOT / name).parent / target).exists(), f"{name} links to {target}"
