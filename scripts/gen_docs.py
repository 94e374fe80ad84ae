"""Write docs/events.md from the registry: every family, its fields and who may append it.

The text comes from the schemas themselves (docstrings, types, `Meta`) and from the table of
`core.rules.authority`; so the document cannot disagree with the program. `--check` writes nothing
and fails where the document is stale.
"""

from __future__ import annotations

import inspect
import sys
import types
import typing
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from core.events import registry  # noqa: E402
from core.events.envelope import BlobRef, Event, NewEvent  # noqa: E402
from core.events.prepare import GUARDED  # noqa: E402
from core.events.tool import SETTLING  # noqa: E402
from core.rules import authority  # noqa: E402

TARGET = ROOT / "docs" / "events.md"
HEAD = """# Events

Every family of events, generated from the schemas by `make docs`. A trajectory is nothing but the
sequence of its events; the record at a boundary is what they fold to. A payload is canonical JSON
([RFC 8785](https://www.rfc-editor.org/rfc/rfc8785)); a field that its schema does not name is
refused when it is appended. Absent fields are left out, never written as null.

Types under `note.` hold any JSON object, fold to nothing and never block. An unknown type is
refused when it is appended; one that lies in an installed log is kept and shown, and boundaries
after it are *not reconstructed by this version*.
"""
_JSON = "any JSON value"


def main() -> int:
    """Write the document, or with --check say whether it is stale."""
    made = text()
    if "--check" in sys.argv[1:]:
        if not TARGET.exists() or TARGET.read_text() != made:
            print("docs/events.md is stale: run make docs")
            return 1
        return 0
    TARGET.write_text(made)
    return 0


def text() -> str:
    """The whole document."""
    parts: dict[str, type[msgspec.Struct]] = {}
    lines = [HEAD, "## The envelope", ""]
    lines += _envelope(parts)
    lines += ["## Families", "", "| family | version | lets the fold rebuild |", "|---|---|---|"]
    for family in registry.FAMILIES.values():
        link = f"[`{family.name}`](#{family.name.lower()})"
        lines.append(f"| {link} | {family.version} | {family.rebuilds} |")
    lines.append("")
    for family in registry.FAMILIES.values():
        lines += _family(family, parts)
    lines += ["## Parts", "", "What several families are made of.", ""]
    done: set[str] = set()
    while todo := sorted(set(parts) - done):
        for name in todo:
            done.add(name)
            lines += [f"### {name}", "", _doc(parts[name]), "", *_fields(parts[name], parts), ""]
    return "\n".join(lines).rstrip() + "\n"


#: What each envelope field means (contract, section 1).
ENVELOPE: dict[str, str] = {
    "trajectory_id": "the trajectory it belongs to",
    "event_id": "identity for deduplication, unique in its trajectory for its whole life",
    "type": "event family, or a name under `note.`",
    "schema_version": "version of the payload's schema",
    "payload": "canonical JSON, up to 16 KiB; exactly one of `payload` and `payload_ref` is there",
    "payload_ref": "where a larger payload lies",
    "occurred_at": "when it happened, as the producer knows it; microseconds UTC",
    "step": "turn of the loop (ORD-4)",
    "operation_id": "logical operation",
    "attempt_id": "one transport attempt of the operation",
    "invocation_id": "one model call",
    "refs": "further blobs the event needs",
    "sequence_number": "its place in the total order, from 1 without gaps",
    "recorded_at": "when it was recorded; microseconds UTC, never decreasing",
    "issuer": "who asserts it, from the credential",
    "owner_epoch": "generation it was accepted under; 0 for imports",
    "worker": "worker of that grant; absent where no lease was needed",
    "control_epoch": "`control_epoch` of the record it was decided on (ORD-2)",
    "record_version": "`record_version` of the record it was decided on (ORD-3)",
    "reducer_version": "reducer that folded that record",
    "digest": "SHA-256 of what the producer stated (ENV-1)",
    "chain": "SHA-256 over the chain value before, the digest and what the store set (ENV-2)",
    "payload_digest": "SHA-256 of the payload's bytes, wherever they lie (ENV-3)",
    "payload_length": "length of those bytes",
}


def _envelope(parts: dict[str, type[msgspec.Struct]]) -> list[str]:
    """Fields of the envelope, those a producer states first."""
    stated = ("trajectory_id", *NewEvent.__struct_fields__)
    hints = typing.get_type_hints(Event, include_extras=True)
    lines = ["| field | set by | type | meaning |", "|---|---|---|---|"]
    for name in (*stated, *(name for name in Event.__struct_fields__ if name not in stated)):
        by = "producer" if name in stated else "store"
        lines.append(f"| `{name}` | {by} | {_type(hints[name], parts)} | {ENVELOPE[name]} |")
    parts.setdefault("BlobRef", BlobRef)
    return [*lines, ""]


def _family(family: registry.Family, parts: dict[str, type[msgspec.Struct]]) -> list[str]:
    lines = [f"### {family.name}", "", _doc(family.payload), ""]
    lines += [f"Schema version {family.version}. Rebuilds: {family.rebuilds}.", ""]
    if family.payload in GUARDED:
        lines += ["Changes a guarded slice: `record_version` rises after it (ORD-3).", ""]
    if family.name == "ToolResult":
        listed = ", ".join(f"`{status}`" for status in sorted(SETTLING))
        lines += [f"Statuses that settle on adequate evidence: {listed}.", ""]
    lines += [f"Appended by: {_who(family.name)}.", ""]
    return [*lines, *_fields(family.payload, parts), ""]


def _who(type_: str) -> str:
    said = []
    for row in authority.ROWS:
        if type_ in row.types:
            issuers = "any issuer" if row.issuers == authority.EVERY_ISSUER else row.issuers[0]
            said.append(f"{issuers} by `{row.door}` ({', '.join(row.standings)})")
    return "; ".join(said) or "nobody in this version"


def _fields(struct: type[msgspec.Struct], parts: dict[str, type[msgspec.Struct]]) -> list[str]:
    hints = typing.get_type_hints(struct, include_extras=True)
    lines = ["| field | type | default | meaning |", "|---|---|---|---|"]
    for field in msgspec.structs.fields(struct):
        hint = hints[field.name]
        default = "required" if field.required else _default(field)
        lines.append(
            f"| `{field.encode_name}` | {_type(hint, parts)} | {default} | {_meaning(hint)} |"
        )
    return lines


def _default(field: msgspec.structs.FieldInfo) -> str:
    if field.default is msgspec.NODEFAULT:
        return "empty"
    if field.default is None:
        return "absent"
    if field.default == () or isinstance(field.default, msgspec.Struct):
        return "empty"
    return f"`{msgspec.json.encode(field.default).decode()}`"


def _type(hint: Any, parts: dict[str, type[msgspec.Struct]]) -> str:
    """The type of a field in words; structs found on the way are added to `parts`."""
    origin, inside = typing.get_origin(hint), typing.get_args(hint)
    if origin is Annotated:
        bounds = [_bounds(meta) for meta in inside[1:] if isinstance(meta, msgspec.Meta)]
        return " ".join([_type(inside[0], parts), *filter(None, bounds)])
    if origin in (typing.Union, types.UnionType):
        return " or ".join(_type(one, parts) for one in inside if one is not type(None))
    if origin is Literal:
        return " or ".join(f"`{value}`" for value in inside)
    if origin is tuple:
        return f"list of {_type(inside[0], parts)}"
    if origin is dict:
        return f"object of {_type(inside[1], parts)}"
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        parts.setdefault(hint.__name__, hint)
        return f"[{hint.__name__}](#{hint.__name__.lower()})"
    names: dict[Any, str] = {
        str: "text",
        int: "integer",
        bool: "true or false",
        bytes: "bytes",
        Any: _JSON,
    }
    return names[hint]


def _bounds(meta: msgspec.Meta) -> str:
    """What a Meta says of the range, but for the range of every integer (ENV-4)."""
    if meta.pattern is not None:
        return f"(`{meta.pattern}`)"
    return f"(from {meta.ge})" if meta.ge is not None else ""


def _meaning(hint: Any) -> str:
    """The description of a field: its own, or that of the type it names."""
    if typing.get_origin(hint) is Annotated:
        for meta in typing.get_args(hint)[1:]:
            if isinstance(meta, msgspec.Meta) and meta.description:
                return meta.description.replace("|", "\\|")
    return ""


def _doc(struct: type[msgspec.Struct]) -> str:
    return inspect.cleandoc(struct.__doc__ or "")


if __name__ == "__main__":
    sys.exit(main())
