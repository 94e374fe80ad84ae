"""A record, and the difference of two, on the command line."""

from __future__ import annotations

from typing import Any

from app import console
from app.presenters import format as fmt
from app.presenters import values

Wire = dict[str, Any]
_VALUE_CHARS = 240
#: Units that are the same in every trajectory; a difference does not carry those of its accounts.
_UNITS = {"usd": "nano_usd", "tokens": "tokens"}


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
    units = _units(value)
    for name, part in value.items():
        if name in ("trajectory_id", "boundary", "archive") or part in ({}, [], None):
            continue
        if isinstance(part, dict):
            console.say(f"  {name}")
            for key, item in part.items():
                said = _value(f"{name}.{key}", item, units)
                if (
                    isinstance(item, dict)
                    and item
                    and all(isinstance(v, dict) for v in item.values())
                ):
                    console.say(f"    {console.safe(key)}")
                    for one, entity in item.items():
                        said = _value(f"{name}.{key}.{one}", entity, units)
                        console.say(f"      {console.safe(one)}: {said}")
                else:
                    console.say(f"    {console.safe(key)}: {said}")
        else:
            console.say(f"  {name}: {_value(name, part, units)}")


def difference(found: Wire) -> None:
    """One line per path: old -> new."""
    changes = found["difference"]["changes"]
    total = int(found["difference"]["total"])
    console.say(f"{found['a']} -> {found['b']}: {fmt.plural(total, 'path')} differ")
    for change in changes:
        path = change["path"]
        old, new = (_value(path, change[side], _UNITS) for side in ("old", "new"))
        console.say(f"  {console.safe(path)}: {old} -> {new}")
    if total > len(changes):
        console.note(f"{len(changes)} of {total} shown")


def _units(record: Wire) -> dict[str, str]:
    accounts = record.get("budget", {}).get("accounts", {})
    return {**_UNITS, **values.units_of(accounts)}


def _value(path: str, value: object, units: dict[str, str]) -> str:
    if value is None:
        return "-"
    return console.safe(values.readable(path, value, units), _VALUE_CHARS)
