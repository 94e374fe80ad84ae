"""A record, and the difference of two, on the command line."""

from __future__ import annotations

from typing import Any

import orjson

from app import console
from app.presenters import format as fmt

Wire = dict[str, Any]
_VALUE_CHARS = 160


def record(trajectory_id: str, found: Wire, event: Wire | None) -> None:
    """What the first `boundary` events represent; fields at their default are left out."""
    value: Wire = found["record"]
    scope = value.get("scope", {})
    console.say(f"{trajectory_id}@{found['boundary']}  {console.safe(scope.get('title', ''))}")
    console.say(f"  {found['source']['text']}; standing {scope.get('standing', 'gated')}")
    if event is not None:
        console.say(
            f"  event {event['sequence_number']}: {console.safe(event['type'])} "
            f"by {event['issuer']}, recorded {fmt.exact(event['recorded_at'])}"
        )
    for name, part in value.items():
        if name in ("trajectory_id", "boundary", "archive") or part in ({}, [], None):
            continue
        if isinstance(part, dict):
            console.say(f"  {name}")
            for key, item in part.items():
                console.say(f"    {console.safe(key)}: {_value(item)}")
        else:
            console.say(f"  {name}: {_value(part)}")


def difference(found: Wire) -> None:
    """One line per path: old -> new."""
    changes = found["difference"]["changes"]
    total = int(found["difference"]["total"])
    console.say(f"{found['a']} -> {found['b']}: {fmt.plural(total, 'path')} differ")
    for change in changes:
        console.say(
            f"  {console.safe(change['path'])}: {_value(change['old'])} -> {_value(change['new'])}"
        )
    if total > len(changes):
        console.note(f"{len(changes)} of {total} shown")


def _value(value: object) -> str:
    if value is None:
        return "-"
    text = value if isinstance(value, str) else orjson.dumps(value).decode()
    return console.safe(text, _VALUE_CHARS)
