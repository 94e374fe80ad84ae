"""Values of the record as people read them: an object as its fields, money in its unit, a time as
a time. Pages and the command line say the same.

INVARIANTS
1. Bounded: at most FIELDS_MAX fields of one value are given, and the rest is counted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from app.presenters.format import amount, count, exact, plural, short_digest
from app.presenters.terminal import one_line

FIELDS_MAX = 12
_VALUE_CHARS = 200
#: Parts of an account, which are in its unit.
_MONEY = frozenset({"consumed", "outstanding", "ceiling", "finalization_reserve", "overrun"})
_EARLIEST, _LATEST = 10**15, 10**16


def readable(path: str, value: object, units: Mapping[str, str]) -> str:
    """One value of the record by its path; `units` gives the unit of a resource."""
    own = path.rpartition(".")[2]
    fields = [(name, leaf) for name, leaf in _fields("", value) if name == "" or leaf != own]
    if len(fields) == 1 and not fields[0][0]:
        return _leaf(path, fields[0][1], units)
    if not fields:
        return "none"
    said = []
    for name, leaf in fields[:FIELDS_MAX]:
        said.append(f"{name.replace('_', ' ')} {_leaf(f'{path}.{name}', leaf, units)}")
    if len(fields) > FIELDS_MAX:
        said.append(f"and {plural(len(fields) - FIELDS_MAX, 'more field')}")
    return " · ".join(said)


def _fields(path: str, value: object) -> Iterator[tuple[str, object]]:
    """The leaves of a value by their path within it; empty ones are left out."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from _fields(f"{path}.{key}" if path else str(key), item)
    elif isinstance(value, list | tuple):
        if all(not isinstance(item, Mapping | list | tuple) for item in value):
            if value:
                yield path, ", ".join(str(item) for item in value)
        else:
            for number, item in enumerate(value, 1):
                yield from _fields(f"{path} {number}".strip(), item)
    elif value is not None or not path:
        yield path, value


def _leaf(path: str, value: object, units: Mapping[str, str]) -> str:
    name = path.rpartition(".")[2]
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        unit = _unit(path, name, units)
        if unit:
            return amount(value, unit)
        if name.endswith("_at") and _EARLIEST < value < _LATEST:
            return exact(value)
        return count(value)
    text = str(value)
    return short_digest(text) if text.startswith("sha256:") else one_line(text, _VALUE_CHARS)


def _unit(path: str, name: str, units: Mapping[str, str]) -> str:
    parts = path.split(".")
    if parts[0] != "budget":
        return ""
    if len(parts) >= 3 and parts[1] == "accounts" and name in _MONEY:
        return units.get(parts[2], "")
    return units.get(name, "") if "bounds" in parts else ""


def units_of(accounts: Mapping[str, object]) -> dict[str, str]:
    """The unit of each resource, from accounts as objects or as mappings."""
    found = {}
    for name, account in accounts.items():
        unit = account.get("unit") if isinstance(account, Mapping) else getattr(account, "unit", "")
        if isinstance(unit, str):
            found[name] = unit
    return found
