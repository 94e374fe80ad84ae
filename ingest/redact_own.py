"""Rules of one's own, from `redaction.toml` in the data folder.

    [[rule]]
    name = "staff-number"            # shown in place of what it hides
    pattern = "EMP-[0-9]{6,8}"       # a regular expression; every repeat is bounded
    ignore_case = false              # optional

A pattern is held to what can never take long: no `*`, `+` or `{n,}`, no groups that look around
or refer back, and at most `STEPS_MAX` ways to try at one place.
"""

from __future__ import annotations

import hashlib
import re
import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from core.canonical import canonical
from core.errors import ImportRefused, InvalidInput
from ingest.redact_strings import Strings
from ingest.redact_view import View

FILE = "redaction.toml"
RULES_MAX = 50
FILE_BYTES_MAX = 64 * 1024
PATTERN_CHARS_MAX = 300
STEPS_MAX = 4096
_NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,38}[a-z0-9])?")
_REPEAT = re.compile(r"\{(\d{1,6})(?:(,)(\d{0,6}))?\}")

Hit = tuple[str, int, int]


@dataclass(frozen=True, slots=True)
class OwnRule:
    """One rule of the file."""

    name: str
    pattern: str
    ignore_case: bool = False

    def find(self, view: View) -> Iterator[Hit]:
        """Its matches, line by line. ImportRefused where one cannot be hidden in place."""
        compiled, data = _compiled(self), view.text
        strings = Strings(data)
        start = 0
        while start < len(data):
            end = data.find(b"\n", start)
            end = len(data) if end < 0 else end
            for match in compiled.finditer(data[start:end]):
                if match.end() > match.start():
                    first, last = start + match.start(), start + match.end()
                    self._check(view, (start, end), strings, (first, last))
                    yield self.name, first, last
            start = end + 1

    def _check(
        self, view: View, line: tuple[int, int], strings: Strings, found: tuple[int, int]
    ) -> None:
        """ImportRefused unless the range lies within one string, or its line is none of JSON."""
        data, (start, end) = view.text, found
        string = strings.around(start)
        if string is None:
            if data.find(b'"', *line) < 0 and not data[line[0] : line[1]].strip().isdigit():
                return
        elif (
            string[0] < start and end < string[1] and not _splits_an_escape(data, string[0], found)
        ):
            return
        offset = view.range(start, end)[0]
        raise ImportRefused(
            f"the rule {self.name!r} of {FILE} finds bytes that are no text of their own (a "
            "number, half of an escape, or part of the JSON around a text), and hiding them would "
            "break the file: make the rule narrower",
            where=f"byte {offset}",
            offset=offset,
            reason="redaction",
        )


def _splits_an_escape(data: bytes, string: int, found: tuple[int, int]) -> bool:
    r"""Whether a range of the string begins or ends inside `\n`, `\"`, `\u0041` or a character."""
    for edge in found:
        if data[edge] & 0xC0 == 0x80:
            return True
        slashes = edge
        while slashes > string and data[slashes - 1] == 0x5C:
            slashes -= 1
        if (edge - slashes) % 2:
            return True
        escape = data.rfind(b"\\u", max(string, edge - 5), edge)
        if escape >= 0:
            before = escape
            while before > string and data[before - 1] == 0x5C:
                before -= 1
            if (escape - before) % 2 == 0:
                return True
    return False


_CACHE: dict[OwnRule, re.Pattern[bytes]] = {}


def _compiled(rule: OwnRule) -> re.Pattern[bytes]:
    found = _CACHE.get(rule)
    if found is None:
        flags = re.IGNORECASE if rule.ignore_case else 0
        found = _CACHE[rule] = re.compile(rule.pattern.encode(), flags)
    return found


def digest_of(rules: Iterable[OwnRule]) -> str:
    """Sixteen hex digits that tell two sets of own rules apart."""
    plain = [[rule.name, rule.pattern, rule.ignore_case] for rule in rules]
    return hashlib.sha256(canonical(plain)).hexdigest()[:16]


def load(folder: Path) -> tuple[OwnRule, ...]:
    """The rules of the data folder; none without a file. InvalidInput says which line to mend."""
    path = folder / FILE
    try:
        with path.open("rb") as file:
            data = file.read(FILE_BYTES_MAX + 1)
    except FileNotFoundError:
        return ()
    except OSError as error:
        raise _wrong(path, f"cannot be read: {(error.strerror or 'unknown').lower()}") from error
    if len(data) > FILE_BYTES_MAX:
        raise _wrong(path, f"is longer than {FILE_BYTES_MAX:,} bytes")
    try:
        table = tomllib.loads(data.decode())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise _wrong(path, f"is no TOML: {error}") from error
    return parse(table, path)


def parse(table: dict[str, object], path: Path) -> tuple[OwnRule, ...]:
    """The rules of a decoded file; InvalidInput names the rule and what is wrong with it."""
    unknown = sorted(set(table) - {"rule"})
    if unknown:
        raise _wrong(path, f"holds {unknown[0]!r}; only [[rule]] is known")
    listed = table.get("rule", [])
    if not isinstance(listed, list) or not all(isinstance(one, dict) for one in listed):
        raise _wrong(path, "must hold its rules as [[rule]]")
    if len(listed) > RULES_MAX:
        raise _wrong(path, f"holds {len(listed)} rules; at most {RULES_MAX}")
    rules: list[OwnRule] = []
    for number, one in enumerate(listed, 1):
        rule = _rule(one, number, path)
        if any(rule.name == other.name for other in rules):
            raise _wrong(path, f"rule {number}: there are two rules named {rule.name!r}")
        rules.append(rule)
    return tuple(rules)


def _rule(one: dict[str, object], number: int, path: Path) -> OwnRule:
    unknown = sorted(set(one) - {"name", "pattern", "ignore_case"})
    if unknown:
        raise _wrong(
            path, f"rule {number}: {unknown[0]!r} is not known (name, pattern, ignore_case)"
        )
    name, pattern, fold = one.get("name"), one.get("pattern"), one.get("ignore_case", False)
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise _wrong(path, f"rule {number}: name is 1 to 40 of a-z, 0-9 and -, and it is {name!r}")
    label = f"rule {number} ({name})"
    if not isinstance(fold, bool):
        raise _wrong(path, f"{label}: ignore_case is true or false")
    if not isinstance(pattern, str) or not pattern:
        raise _wrong(path, f"{label}: pattern is a regular expression in quotes")
    if len(pattern) > PATTERN_CHARS_MAX:
        raise _wrong(path, f"{label}: pattern is longer than {PATTERN_CHARS_MAX} characters")
    try:
        re.compile(pattern.encode(), re.IGNORECASE if fold else 0)
    except (re.error, RecursionError, OverflowError) as error:
        raise _wrong(path, f"{label}: {pattern!r} is no regular expression: {error}") from error
    _check_bounded(pattern, label, path)
    return OwnRule(name, pattern, fold)


def _check_bounded(pattern: str, label: str, path: Path) -> None:
    """InvalidInput for a pattern that could take long at one place."""
    steps = 1
    at = 0
    while at < len(pattern):
        char = pattern[at]
        if char == "\\":
            if pattern[at + 1 : at + 2].isdigit():
                raise _wrong(path, f"{label}: a pattern cannot refer back (\\{pattern[at + 1]})")
            at += 2
            continue
        if char == "[":
            at = _class_end(pattern, at)
            continue
        if char in "*+":
            raise _wrong(
                path, f"{label}: {char!r} repeats without a bound; write {{0,200}} or {{1,200}}"
            )
        if char == "(" and pattern.startswith("(?", at) and not pattern.startswith("(?:", at):
            raise _wrong(path, f"{label}: only plain groups and (?:...) are taken")
        if char in "?|" and not pattern.startswith("(?", at - 1):
            steps *= 2
        if char == "{" and (repeat := _REPEAT.match(pattern, at)):
            low, comma, high = repeat.groups()
            if comma and not high:
                raise _wrong(path, f"{label}: {repeat.group()} has no upper bound")
            steps *= max(1, int(high or low) if comma or _closes_group(pattern, at) else 1)
            at = repeat.end()
            continue
        at += 1
    if steps > STEPS_MAX:
        raise _wrong(
            path,
            f"{label}: its repeats and alternatives multiply to {steps:,} ways to try at one "
            f"place; at most {STEPS_MAX:,}",
        )


def _closes_group(pattern: str, at: int) -> bool:
    return at > 0 and pattern[at - 1] == ")"


def _class_end(pattern: str, at: int) -> int:
    """One past the `]` that ends the class at `at`."""
    at += 1
    if pattern.startswith("^", at):
        at += 1
    if pattern.startswith("]", at):
        at += 1
    while at < len(pattern) and pattern[at] != "]":
        at += 2 if pattern[at] == "\\" else 1
    return at + 1


def _wrong(path: Path, why: str) -> InvalidInput:
    return InvalidInput(
        f"{path.name} in {path.parent} {why}; nothing is imported until it is mended",
        field=FILE,
        path=str(path),
    )
