"""Where the files that are not code lie, and what this program is called here: one rule for
checkout, wheel and image."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TEMPLATES = ROOT / "templates"
STATIC = ROOT / "static"
ERROR_DOCS = ROOT / "docs" / "errors"
GLOSSARY = ROOT / "docs" / "glossary.md"
_NAME = "strandline"


def program() -> str:
    """How this program was started, so that a command we print can be run as it is printed."""
    typed = Path(sys.argv[0])
    if typed.name == "__main__.py" and typed.parent.name == _NAME:
        return f"{_command(Path(sys.executable))} -m {_NAME}"
    # Anything else that imports us, a test for one, is not the program.
    return _command(typed) if typed.name == _NAME else _NAME


def _command(path: Path) -> str:
    """Its name alone where the shell finds the same file by it; else its path, the short way."""
    absolute = Path(os.path.abspath(path))  # a venv's links stay as they are
    found = shutil.which(path.name)
    if found is not None and Path(os.path.abspath(found)) == absolute:
        return path.name
    here = Path.cwd()
    if here == Path(here.root) or not absolute.is_relative_to(here):
        return shlex.quote(str(absolute))
    below = str(absolute.relative_to(here))
    return shlex.quote(below if "/" in below else f"./{below}")
