"""Hiding secrets in a source's bytes before anything of it is kept or parsed (ENV-6).

A secret is replaced by `[redacted:<rule>]`, cut or filled up with `*` to the same number of bytes,
so that every offset stays true and a second reading gives the same bytes. Best effort: what no
rule knows stays.

INVARIANTS
1. The result has the length of the source, differs from it only inside the ranges that are
   returned, and is the same for the same bytes and rules.
2. No rule looks across a line's end, so whole lines give the same whether read together or apart.
3. A source of JSON stays JSON: ranges lie within one string, split no escape and no character.
4. Time grows with length: no rule repeats without a bound at every place.
5. What is redacted already is not redacted again.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from ingest import redact_names, redact_places, redact_tokens, redact_view
from ingest.redact_own import OwnRule, digest_of

#: Number of the newest built-in rule; grows with every rule that is added, never falls.
NEWEST = redact_places.NEWEST

_MARK = re.compile(rb"\[redac(?:t(?:e(?:d(?::(?:[a-z0-9-]{1,40}(?:\](?:\*{0,100000})?)?)?)?)?)?)?")


@dataclass(frozen=True, slots=True)
class Found:
    """One range that was redacted."""

    rule: str
    start: int
    """First byte."""
    end: int
    """One past the last byte."""


@dataclass(frozen=True, slots=True)
class Rules:
    """Which rules a source is read under."""

    builtin: int = NEWEST
    """Built-in rules up to this number; 0: none."""
    own: tuple[OwnRule, ...] = ()

    @property
    def mark(self) -> str:
        """How a source remembers them: the number, and a digest of the own rules."""
        return f"{self.builtin}+{digest_of(self.own)}" if self.own else str(self.builtin)

    @property
    def none(self) -> bool:
        """Whether nothing is redacted."""
        return not self.builtin and not self.own

    def under(self, mark: str) -> Rules | None:
        """The rules of an earlier reading; None where its own rules are not those of now."""
        number, plus, own = mark.partition("+")
        if not number.isdecimal():
            return None
        if not plus:
            return Rules(int(number))
        return Rules(int(number), self.own) if own == digest_of(self.own) else None


#: The rules of a reading that was told to redact nothing.
NO_RULES = Rules(0)


@dataclass(slots=True)
class Tally:
    """What a reading redacted, by rule."""

    places: Counter[str] = field(default_factory=Counter)
    bytes: int = 0

    def add(self, found: Iterable[Found]) -> None:
        """Count these too."""
        for one in found:
            self.places[one.rule] += 1
            self.bytes += one.end - one.start


def redact(data: bytes, rules: Rules) -> tuple[bytes, list[Found]]:
    """`data` without the secrets that `rules` find, and where they were, in order.

    Raises ImportRefused where an own rule names bytes that cannot be hidden without breaking JSON.
    """
    if rules.none or not data:
        return data, []
    view = redact_view.View(data)
    if rules.builtin >= redact_view.NUMBER:
        view = redact_view.of(data)
    text, low = view.text, view.text.lower()
    hits = list(redact_tokens.find(text, rules.builtin))
    hits += redact_names.find(text, low, rules.builtin)
    hits += redact_places.find(text, low, rules.builtin)
    for own in rules.own:
        hits += own.find(view)
    if not hits:
        return data, []
    if view.steps:
        hits = [(name, *view.range(start, end)) for name, start, end in hits]
    found = [Found(name, start, end) for name, start, end in _merged(hits)]
    out = bytearray(data)
    for one in found:
        out[one.start : one.end] = cover(one.rule, one.end - one.start)
    return bytes(out), found


def marks(data: bytes) -> list[Found]:
    """Where redacted places stand in kept bytes; of a mark that was cut short the name is what is
    left of it."""
    return [
        Found(one.group().partition(b":")[2].rstrip(b"*]").decode(), *one.span())
        for one in _MARK.finditer(data)
    ]


def cover(rule: str, length: int) -> bytes:
    """What stands in the place of `length` bytes."""
    return (b"[redacted:" + rule.encode() + b"]").ljust(length, b"*")[:length]


def agrees(raw: bytes, known: bytes, mark: str, now: Rules) -> bool:
    """Whether `known`, kept by a reading under the rules of `mark`, is what `raw` still says.

    Where those rules can be applied again the bytes must be equal; where own rules have changed
    since, they must be equal outside of what `known` has redacted.
    """
    if len(raw) != len(known):
        return False
    then = now.under(mark)
    if then is not None and redact(raw, then)[0] == known:
        return True
    if then is not None and not then.own:
        return False
    at = 0
    for one in _MARK.finditer(known):
        if raw[at : one.start()] != known[at : one.start()]:
            return False
        at = one.end()
    return raw[at:] == known[at:]


def as_known(raw: bytes, now: Rules, marks: Iterable[str], kept: Iterable[bytes]) -> bytes:
    """A document that was read before under other rules, with what is known of it as it was kept.

    What was hidden then is hidden as it was; what was not, and stands in a kept original, is not
    hidden now either, since it would contradict that original; what is new is read under `now`.
    """
    before = {now.under(mark) or Rules(int(mark.partition("+")[0])) for mark in marks}
    originals = tuple(kept)
    out = bytearray(raw)
    hidden = bytearray(len(raw))
    # Where two rules hide one place, it stays as the earlier reading hid it.
    for rules in (*sorted(before, key=lambda rules: rules.mark), now):
        shown = {data[one.start : one.end] for data in originals for one in redact(data, rules)[1]}
        for one in redact(raw, rules)[1]:
            place = slice(one.start, one.end)
            if raw[place] not in shown and hidden.find(1, one.start, one.end) < 0:
                out[place] = cover(one.rule, one.end - one.start)
                hidden[place] = b"\1" * (one.end - one.start)
    return bytes(out)


def _merged(hits: list[tuple[str, int, int]]) -> list[tuple[str, int, int]]:
    """Disjoint ranges in order; the name of the rule that stands first in `hits` wins."""
    rank = {name: index for index, name in reversed(list(enumerate(hit[0] for hit in hits)))}
    merged: list[tuple[str, int, int]] = []
    for name, start, end in sorted(hits, key=lambda hit: (hit[1], -hit[2])):
        if merged and start < merged[-1][2]:
            before, first, last = merged[-1]
            best = min(before, name, key=rank.__getitem__)
            merged[-1] = (best, first, max(last, end))
        else:
            merged.append((name, start, end))
    return merged
