"""Where the files that are not code lie: one rule for checkout, wheel and image."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TEMPLATES = ROOT / "templates"
STATIC = ROOT / "static"
ERROR_DOCS = ROOT / "docs" / "errors"
