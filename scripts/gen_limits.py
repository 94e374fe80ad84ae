"""Write docs/limits.md from core/limits.py: name, value and the reason in the comment above it.

`--check` writes nothing and fails where the document is stale.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from core import limits  # noqa: E402

TARGET = ROOT / "docs" / "limits.md"
HEAD = """# Limits

Every bound of the product, generated from `core/limits.py` by `make docs`. A value beyond a bound
is refused with [`too_large`](errors/too_large.md), [`busy`](errors/busy.md) or
[`rate_limited`](errors/rate_limited.md); nothing is cut silently.

| bound | value | why |
|---|---|---|
"""
_UNITS = {"KIB", "MIB"}


def rows() -> list[tuple[str, object, str]]:
    """(name, value, reason); a comment covers the names up to the next comment or blank line."""
    found: list[tuple[str, object, str]] = []
    reason = ""
    comment_open = False
    for line in (ROOT / "core" / "limits.py").read_text().splitlines():
        if line.startswith("#:"):
            words = line.removeprefix("#:").strip()
            reason = f"{reason} {words}".strip() if comment_open else words
            comment_open = True
            continue
        comment_open = False
        name = re.match(r"([A-Z][A-Z0-9_]+) = ", line)
        if name and name[1] not in _UNITS:
            found.append((name[1], getattr(limits, name[1]), reason))
        elif not line:
            reason = ""
    return found


def shown(name: str, value: object) -> str:
    """The value with its unit, as a person reads it."""
    if isinstance(value, int) and "BYTES" in name and value % limits.KIB == 0:
        whole, unit = (
            (value // limits.MIB, "MiB")
            if value % limits.MIB == 0
            else (value // limits.KIB, "KiB")
        )
        # Pages count in powers of ten, as file managers do.
        also = f" ({round(value / 1e6)} MB on pages)" if value >= 16 * limits.MIB else ""
        return f"{whole} {unit}{also}"
    unit = " s" if "SECONDS" in name and "PER_SECOND" not in name else ""
    return f"{value:,}{unit}" if isinstance(value, int) else f"{value}{unit}"


def text() -> str:
    """The whole document."""
    lines = [f"| `{name}` | {shown(name, value)} | {reason} |" for name, value, reason in rows()]
    return HEAD + "\n".join(lines) + "\n"


def main() -> int:
    """Write the document, or with --check say whether it is stale."""
    if "--check" in sys.argv[1:]:
        if TARGET.read_text() != text():
            print("docs/limits.md is stale: run make docs")
            return 1
        return 0
    TARGET.write_text(text())
    return 0


if __name__ == "__main__":
    sys.exit(main())
