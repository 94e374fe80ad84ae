"""The query language of lists: a text becomes typed terms, or says where it is wrong.

    status:failed -source:codex* cost:>0.10 active:<24h title:"eu west" model:claude-* text:timeout

Terms are joined by *and*; `a,b` is either of two, `-` turns a term round, `none` asks for what was
never recorded. The catalogue `KEYS` is the language's only description: help, pickers and errors
are made from it.

INVARIANTS
1. Parsing is pure and total: every text gives terms and mistakes, and raises nothing.
2. A term means the same wherever it stands, and each is said back in words.
3. A mistake names its column (from 1), what was expected and an example; its term is left out.
4. What was never recorded is neither above nor below a value, nor different from it.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable, Mapping
from decimal import Decimal, InvalidOperation
from difflib import get_close_matches
from typing import Literal, get_args

import msgspec

from core.errors import InvalidInput
from core.events.control import ControlState
from core.events.envelope import Standing
from core.instants import Instant, from_datetime
from core.limits import INTEGER_MAX, QUERY_CHARS_MAX, QUERY_TERMS_MAX
from core.words import phrases

Kind = Literal[
    "word", "name", "title", "id", "tag", "count", "money", "duration", "moment", "flag", "text"
]
Test = Literal["is", "begins", "has", "gt", "ge", "lt", "le", "none", "any"]
Value = str | int


class Key(msgspec.Struct, frozen=True):
    """One key of the language."""

    name: str
    kind: Kind
    means: str
    """What it is counted from, exactly, in a sentence."""
    example: str
    words: tuple[str, ...] = ()
    """All values, where they are a closed set."""
    optional: bool = False
    """It may never have been recorded."""


class Term(msgspec.Struct, frozen=True):
    """One condition."""

    key: str
    test: Test
    values: tuple[Value, ...]
    """Any of these; counts as they are, money in nano-USD, durations and moments in microseconds
    (moments UTC)."""
    negated: bool
    start: int
    """Where it stands in the query: characters, from 0."""
    end: int
    said: str
    """The condition in words, without its key."""
    upto: int | None = None
    """With `ge` of a moment: and before this one."""


class Mistake(msgspec.Struct, frozen=True):
    """A part of a query that means nothing."""

    column: int
    """From 1."""
    start: int
    end: int
    given: str
    expected: str
    example: str

    def __str__(self) -> str:
        return (
            f"column {self.column}: “{self.given}”; expected: {self.expected}, e.g. {self.example}"
        )


class Query(msgspec.Struct, frozen=True):
    """What a text means."""

    text: str
    terms: tuple[Term, ...] = ()
    mistakes: tuple[Mistake, ...] = ()

    def checked(self) -> Query:
        """Self; InvalidInput naming the first mistake."""
        if self.mistakes:
            first = self.mistakes[0]
            raise InvalidInput(f"the query cannot be read at {first}", field="q")
        return self

    def without(self, term: Term | Mistake) -> str:
        """The text without one of its terms."""
        left, right = self.text[: term.start].rstrip(), self.text[term.end :].lstrip()
        return f"{left} {right}".strip()

    def replaced(self, term: Term, by: str) -> str:
        """The text with another term in the place of this one."""
        return (self.text[: term.start] + by + self.text[term.end :]).strip()

    def also(self, term: str) -> str:
        """The text with one term more."""
        return f"{self.text} {term}".strip()

    def of(self, key: str) -> tuple[Term, ...]:
        """The terms of one key."""
        return tuple(term for term in self.terms if term.key == key)


#: What a list says where the log of an import or a copy records no end: it may go on or not.
OPEN = "OPEN"
_STATES = (*get_args(ControlState), OPEN)
_ALL = (
    Key("status", "word", "the control state that the log's last ControlChanged names; RUNNING "
        "also where no event of our own log ends it, OPEN where an import or a copy records no "
        "end: it may go on or not", "status:failed", _STATES),
    Key("standing", "word", "what the store knows a trajectory as", "standing:imported",
        tuple(get_args(Standing))),
    Key("source", "name", "the format it was imported from", "source:claude*", optional=True),
    Key("agent", "name", "the agent program its first event names", "agent:repair*",
        optional=True),
    Key("model", "name", "any model that replied, or the one that was asked for where none did",
        "model:claude-*", optional=True),
    Key("tool", "name", "any tool that a ToolIntent of the log names, as far as it is indexed",
        "tool:bash"),
    Key("tag", "tag", "words that people gave it", "tag:keep"),
    Key("id", "id", "the trajectory id", "id:tr_*"),
    Key("title", "title", "the title its first event states", 'title:"eu west"', optional=True),
    Key("parent", "id", "the trajectory whose operation it carries out", "parent:none",
        optional=True),
    Key("error", "count", "operations whose outcome is failed, model calls that ended in an "
        "error, lines that could not be read, and an end in FAILED, one each", "error:>0"),
    Key("unsettled", "count", "operations without adequate evidence of an outcome, of any grade",
        "unsettled:>0"),
    Key("unknown", "count", "unsettled operations that the log cannot grade: proposals, and "
        "everything unsettled in an import or a copy", "unknown:>0", optional=True),
    Key("in_doubt", "count", "unsettled operations that may have taken effect, graded by the log "
        "alone as of its last event, without clock or lease", "in_doubt:>0", optional=True),
    Key("step", "count", "the step the log stands at", "step:>100"),
    Key("events", "count", "events in the log", "events:>=1000"),
    Key("tokens", "count", "tokens of all four kinds that replies reported; replies without usage "
        "add nothing", "tokens:>1m", optional=True),
    Key("input", "count", "input tokens that were neither read from a cache nor put into one",
        "input:>10k", optional=True),
    Key("output", "count", "output tokens, reasoning included", "output:>10k", optional=True),
    Key("cost", "money", "USD that the log states as consumed, or else what its tokens cost by "
        "the price table", "cost:>0.10", optional=True),
    Key("duration", "duration", "from the first to the last time its source states, so far where "
        "the log records no end", "duration:>1h", optional=True),
    Key("started", "moment", "the first time its source states", "started:2025-03-01",
        optional=True),
    Key("active", "moment", "the last time its source states, or else when its last event was "
        "stored here", "active:<24h"),
    Key("updated", "moment", "when its last event was stored here", "updated:<24h"),
    Key("withdrawn", "flag", "withdrawn by somebody, or superseded by a newer import; such leave "
        "the list unless asked for", "withdrawn:yes", ("yes", "no", "any")),
    Key("text", "text", "events that hold all its words, as far as they are indexed",
        'text:"connection refused"'),
)  # fmt: skip
KEYS: Mapping[str, Key] = {key.name: key for key in _ALL}
#: What a word without a key is: part of the title or of the id.
BARE = "words"

_KEYED = re.compile(r"-?([A-Za-z_]+):")
_COMPARED = re.compile(r"(>=|<=|>|<)?(.*)", re.DOTALL)
_SIZE = re.compile(r"([0-9]{1,16}(?:\.[0-9]{1,6})?)([kmb]?)", re.IGNORECASE)
_SIZES = {"": 1, "k": 1_000, "m": 1_000_000, "b": 1_000_000_000}
_SPAN = re.compile(
    r"(?:([0-9]{1,6})\s?w)?(?:([0-9]{1,6})\s?d)?(?:([0-9]{1,7})\s?h)?"
    r"(?:([0-9]{1,8})\s?(?:min|m))?(?:([0-9]{1,9}(?:\.[0-9]{1,6})?)\s?s)?",
    re.IGNORECASE,
)
_SPAN_SECONDS = (604_800, 86_400, 3_600, 60, 1)
_TAG = re.compile(r"[a-z0-9][a-z0-9._/-]{0,47}")
_TESTS: Mapping[str, Test] = {"": "is", ">": "gt", ">=": "ge", "<": "lt", "<=": "le"}
_SAID: Mapping[str, str] = {
    "is": "is", "gt": "more than", "ge": "at least", "lt": "less than", "le": "at most",
}  # fmt: skip
_SAID_NOT: Mapping[str, str] = {
    "is": "is not", "gt": "at most", "ge": "less than", "lt": "at least", "le": "more than",
}  # fmt: skip
_DAY = 86_400 * 1_000_000
_YEARS = range(1970, 2200)


class _Wrong(Exception):
    """Why a value does not fit: what was expected, and an example."""

    def __init__(self, expected: str, example: str, at: int | None = None) -> None:
        super().__init__(expected)
        self.at = at
        """Where, if not at the first value."""
        self.expected = expected
        self.example = example


class _Part(msgspec.Struct, frozen=True):
    """One piece of a query between blanks, cut into its values."""

    start: int
    end: int
    negated: bool
    key: str | None
    values: tuple[tuple[str, bool, int], ...]
    """(text, quoted, where it begins)."""
    open_quote: int | None
    trailing: int | None
    """Where something follows a closing quote without a blank."""


def parse(text: str, now: Instant) -> Query:
    """What a text means at `now` (microseconds UTC), which relative times count from."""
    if len(text) > QUERY_CHARS_MAX:
        wrong = Mistake(
            QUERY_CHARS_MAX + 1,
            0,
            len(text),
            text[:20],
            f"a query of at most {QUERY_CHARS_MAX} characters",
            "status:failed",
        )
        return Query(text, (), (wrong,))
    terms: list[Term] = []
    mistakes: list[Mistake] = []
    for part in _parts(text):
        if len(terms) >= QUERY_TERMS_MAX:
            mistakes.append(_mistake(
                text, part, part.start, f"at most {QUERY_TERMS_MAX} terms", "status:failed"
            ))  # fmt: skip
            break
        try:
            terms.append(_term(text, part, now))
        except _Wrong as error:
            at = error.at if error.at is not None else part.values[0][2]
            mistakes.append(_mistake(text, part, at, error.expected, error.example))
    return Query(text, tuple(terms), tuple(mistakes))


def quoted(value: str) -> str:
    """A value as it stands in a query."""
    plain = value.replace('"', " ")
    bare = plain and not re.search(r'[\s,"*]', plain) and plain[0] not in "<>-"
    return plain if bare and plain.lower() not in ("none", "any") else f'"{plain}"'


def _mistake(text: str, part: _Part, at: int, expected: str, example: str) -> Mistake:
    given = text[part.start : part.end]
    return Mistake(at + 1, part.start, part.end, given[:60], expected, example)


def _parts(text: str) -> list[_Part]:
    """Pieces between blanks; a quoted value may hold blanks and commas."""
    found: list[_Part] = []
    at, length = 0, len(text)
    while at < length:
        if text[at].isspace():
            at += 1
            continue
        start = at
        keyed = _KEYED.match(text, at)
        negated = text[at] == "-" and at + 1 < length and not text[at + 1].isspace()
        key = keyed[1].lower() if keyed is not None else None
        at = keyed.end() if keyed is not None else at + negated
        values: list[tuple[str, bool, int]] = []
        open_quote = None
        while True:
            begins = at
            sign = _compared_sign(text, at) if key is not None else ""
            at += len(sign)
            if at < length and text[at] == '"':
                close = text.find('"', at + 1)
                if close < 0:
                    open_quote, close = at, length
                values.append((sign + text[at + 1 : close], True, begins))
                at = min(close + 1, length)
            else:
                stop = at
                while stop < length and not text[stop].isspace() and (
                    key is None or text[stop] not in ',"'
                ):  # fmt: skip
                    stop += 1
                values.append((sign + text[at:stop], False, begins))
                at = stop
            if key is not None and at < length and text[at] == ",":
                at += 1
                continue
            break
        trailing = at if at < length and not text[at].isspace() else None
        while at < length and not text[at].isspace():
            at += 1
        found.append(_Part(start, at, negated, key, tuple(values), open_quote, trailing))
    return found


def _compared_sign(text: str, at: int) -> str:
    for sign in (">=", "<=", ">", "<"):
        if text.startswith(sign, at):
            return sign
    return ""


def _term(text: str, part: _Part, now: Instant) -> Term:
    if part.open_quote is not None:
        raise _Wrong("a closing quote", 'title:"eu west"', part.open_quote)
    if part.trailing is not None:
        raise _Wrong("a blank after the closing quote", 'title:"eu west" parser', part.trailing)
    if part.key is None:
        value = part.values[0][0]
        if not value.strip():
            raise _Wrong("a word", "parser")
        said = f"{'has no' if part.negated else 'has'} “{value}”"
        return Term(BARE, "has", (value,), part.negated, part.start, part.end, said)
    key = KEYS.get(part.key)
    if key is None:
        near = get_close_matches(part.key, KEYS, 1)
        example = KEYS[near[0]].example if near else "status:failed"
        raise _Wrong(
            f"one of the keys {', '.join(KEYS)}, or quotes around a part of a title",
            example,
            part.start,
        )
    if any(not value.strip() for value, _, _ in part.values):
        raise _Wrong(_expected(key), key.example)
    test, values, said, upto = _VALUES[key.kind](key, part, now)
    return Term(key.name, test, values, part.negated, part.start, part.end, said, upto)


_Meaning = tuple[Test, tuple[Value, ...], str, int | None]


def _recorded(key: Key, part: _Part) -> _Meaning | None:
    """`none` and `any`, where a key may not have been recorded."""
    value, quoted_, _ = part.values[0]
    if quoted_ or len(part.values) > 1 or value.lower() not in ("none", "any"):
        return None
    if not key.optional:
        raise _Wrong(f"{_expected(key)}; it is always recorded", key.example)
    there = (value.lower() == "any") != part.negated
    return ("any" if value.lower() == "any" else "none"), (), (
        "is recorded" if there else "was never recorded"
    ), None  # fmt: skip


def _words(key: Key, part: _Part, now: Instant) -> _Meaning:
    known = {word.lower(): word for word in key.words}
    found = []
    for value, _, _ in part.values:
        if value.lower() not in known:
            near = get_close_matches(value.lower(), known, 1)
            example = f"{key.name}:{known[near[0]].lower()}" if near else key.example
            raise _Wrong(f"one of {', '.join(key.words)}", example)
        found.append(known[value.lower()])
    return "is", tuple(found), _is(part, found), None


def _flag(key: Key, part: _Part, now: Instant) -> _Meaning:
    test, values, _, _ = _words(key, part, now)
    if len(values) > 1 or part.negated:
        raise _Wrong("yes, no or any, without a minus", key.example)
    said = {"yes": "only these", "no": "none of these", "any": "these too"}[str(values[0])]
    return test, values, said, None


def _names(key: Key, part: _Part, now: Instant) -> _Meaning:
    special = _recorded(key, part)
    if special is not None:
        return special
    begins = [not is_quoted and value.endswith("*") for value, is_quoted, _ in part.values]
    if any(begins) and len(begins) > 1:
        raise _Wrong("one beginning with *, or several whole names with commas", key.example)
    found = [value for value, _, _ in part.values]
    if begins[0]:
        stem = found[0].rstrip("*")
        if not stem:
            raise _Wrong("some letters before the *", key.example)
        said = f"{'does not begin' if part.negated else 'begins'} with “{stem}”"
        return "begins", (stem,), said, None
    return "is", tuple(found), _is(part, found), None


def _title(key: Key, part: _Part, now: Instant) -> _Meaning:
    special = _recorded(key, part)
    if special is not None:
        return special
    if len(part.values) == 1 and not part.values[0][1] and part.values[0][0].endswith("*"):
        return _names(key, part, now)
    found = [value for value, _, _ in part.values]
    joined = " or ".join(f"“{value}”" for value in found)
    return "has", tuple(found), f"{'has no' if part.negated else 'has'} {joined}", None


def _tags(key: Key, part: _Part, now: Instant) -> _Meaning:
    found = [value.lower() for value, _, _ in part.values]
    if not all(_TAG.fullmatch(value) for value in found):
        raise _Wrong("a tag: small letters, digits and . _ / -", key.example)
    return "is", tuple(found), _is(part, found), None


def _text(key: Key, part: _Part, now: Instant) -> _Meaning:
    if len(part.values) > 1:
        raise _Wrong("one text; put it in quotes where it holds a comma", key.example)
    value, is_quoted, _ = part.values[0]
    sought = f'"{value}"' if is_quoted else value
    try:
        phrases(sought)
    except InvalidInput as error:
        raise _Wrong("a text with letters or digits", key.example) from error
    said = f"{'no event has' if part.negated else 'an event has'} “{value}”"
    return "has", (sought,), said, None


def _number(
    read: Callable[[str], int | None], say: Callable[[str, int], str]
) -> Callable[[Key, _Part, Instant], _Meaning]:
    """Numbers of one kind: a comparison, a range, one value, or several with commas."""

    def meaning(key: Key, part: _Part, now: Instant) -> _Meaning:
        special = _recorded(key, part)
        if special is not None:
            return special
        if len(part.values) > 1:
            several = [read(value) for value, _, _ in part.values]
            whole = [value for value in several if value is not None]
            if len(whole) < len(several):
                raise _Wrong(f"{_expected(key)}; after a comma a plain value", key.example)
            shown = [say(text, n) for (text, _, _), n in zip(part.values, whole, strict=True)]
            return "is", tuple(whole), _is(part, shown), None
        raw = part.values[0][0]
        low, dots, high = raw.partition("..")
        if dots:
            first, last = read(low), read(high)
            if first is None or last is None or first > last:
                raise _Wrong(f"{_expected(key)}, or a range", f"{key.name}:1..10")
            no = "not " if part.negated else ""
            return "ge", (first,), f"{no}from {say(low, first)} to {say(high, last)}", last + 1
        match = _COMPARED.fullmatch(raw)
        assert match is not None
        value = read(match[2])
        if value is None or (key.kind == "duration" and not match[1]):
            raise _Wrong(_expected(key), key.example)
        test = _TESTS[match[1] or ""]
        said = (_SAID_NOT if part.negated else _SAID)[test]
        return test, (value,), f"{said} {say(match[2], value)}", None

    return meaning


def _moments(key: Key, part: _Part, now: Instant) -> _Meaning:
    special = _recorded(key, part)
    if special is not None:
        return special
    if len(part.values) > 1:
        raise _Wrong(_expected(key), key.example)
    raw = part.values[0][0]
    no = "not " if part.negated else ""
    low, dots, high = raw.partition("..")
    if dots:
        first, last = _period(low, now), _period(high, now)
        if first is None or last is None or first[0] > last[1]:
            raise _Wrong(
                "two dates or times, the earlier first", f"{key.name}:2025-03-01..2025-03-07"
            )
        return "ge", (first[0],), f"{no}from {low} to {high}", last[1]
    match = _COMPARED.fullmatch(raw)
    assert match is not None
    sign, value = match[1] or "", match[2]
    age = _span(value)
    if age is not None:
        # An age: younger than 24 h is after the moment 24 h ago.
        since = max(0, now - age)
        if sign in ("", "<", "<="):
            return "ge", (since,), f"{no}in the last {_spelled(value)}", None
        return "lt", (since,), f"{no}more than {_spelled(value)} ago", None
    period = _period(value, now)
    if period is None:
        raise _Wrong(_expected(key), key.example)
    begin, end = period
    meaning: dict[str, _Meaning] = {
        "": ("ge", (begin,), f"{no}on {value}", end),
        ">": ("ge", (end,), f"{no}after {value}", None),
        ">=": ("ge", (begin,), f"{no}from {value} on", None),
        "<": ("lt", (begin,), f"{no}before {value}", None),
        "<=": ("lt", (end,), f"{no}up to {value}", None),
    }
    return meaning[sign]


def _is(part: _Part, values: list[str]) -> str:
    return f"{'is not' if part.negated else 'is'} {' or '.join(values)}"


def _count(text: str) -> int | None:
    """`12`, `1,000` needs no comma here: `1k`, `1.5m`."""
    match = _SIZE.fullmatch(text.strip().replace("_", ""))
    if match is None:
        return None
    value = Decimal(match[1]) * _SIZES[match[2].lower()]
    return int(value) if value == int(value) and value <= INTEGER_MAX else None


def _money(text: str) -> int | None:
    """US dollars as nano-USD."""
    plain = text.strip().removeprefix("$")
    if not re.fullmatch(r"[0-9]{1,9}(\.[0-9]{1,9})?|\.[0-9]{1,9}", plain):
        return None
    try:
        return int(Decimal(plain) * 1_000_000_000)
    except InvalidOperation:
        return None


def _span(text: str) -> int | None:
    """`24h`, `1h30m`, `90s`, `2w` in microseconds."""
    plain = text.strip()
    match = _SPAN.fullmatch(plain)
    if match is None or not plain:
        return None
    seconds = sum(
        Decimal(amount) * unit
        for amount, unit in zip(match.groups(), _SPAN_SECONDS, strict=True)
        if amount
    )
    return int(seconds * 1_000_000)


def _spelled(text: str) -> str:
    """`24h` as `24 h`, `1h30m` as `1 h 30 min`."""
    found = re.findall(r"([0-9.]+)\s?([a-z]+)", text.lower())
    return " ".join(f"{amount} {'min' if unit == 'm' else unit}" for amount, unit in found)


def _period(text: str, now: Instant) -> tuple[Instant, Instant] | None:
    """First microsecond of a day, minute or second, and the first after it."""
    plain = text.strip().lower()
    midnight = now - now % _DAY
    if plain == "today":
        return midnight, midnight + _DAY
    if plain == "yesterday":
        return midnight - _DAY, midnight
    for pattern, width in (
        ("%Y-%m-%d", _DAY),
        ("%Y-%m-%dt%H:%M", 60 * 1_000_000),
        ("%Y-%m-%dt%H:%M:%S", 1_000_000),
    ):
        try:
            moment = dt.datetime.strptime(plain.removesuffix("z"), pattern)
        except ValueError:
            continue
        if moment.year not in _YEARS:
            return None
        begin = from_datetime(moment.replace(tzinfo=dt.UTC))
        return begin, begin + width
    return None


def _expected(key: Key) -> str:
    """What may stand behind a key, in words."""
    return {
        "word": f"one of {', '.join(key.words)}",
        "flag": "yes, no or any",
        "name": "a name, or its beginning and *",
        "title": "a part of the title",
        "id": "an id, or its beginning and *",
        "tag": "a tag: small letters, digits and . _ / -",
        "count": "a whole number, with > >= < <= or alone",
        "money": "US dollars, with > >= < <= or alone",
        "duration": "> >= < or <= and a duration",
        "moment": "an age (<24h), a date (2025-03-01) or a time (2025-03-01T12:30), UTC",
        "text": "words of an event",
    }[key.kind]


_VALUES: Mapping[Kind, Callable[[Key, _Part, Instant], _Meaning]] = {
    "word": _words,
    "flag": _flag,
    "name": _names,
    "title": _title,
    "id": _names,
    "tag": _tags,
    "count": _number(_count, lambda _, value: f"{value:,}"),
    "money": _number(_money, lambda text, _: "$" + text.strip().removeprefix("$")),
    "duration": _number(_span, lambda text, _: _spelled(text)),
    "moment": _moments,
    "text": _text,
}
