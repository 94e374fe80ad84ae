"""The ribbon: the events around a boundary as bars in lanes, with every position in percent.

INVARIANTS
1. The number of drawn marks depends on the window, never on the length of the log.
2. What lies after the boundary is drawn apart (`later`); an operation without outcome evidence at
   the boundary is open there, whatever the log says afterwards.
3. Texts stand in reserved places: the gutter, the strip of the cursor, the strip of ticks, inside
   a bar that clips them, or beside an open bar on a patch of panel colour.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from app.presenters.format import clock, count, short_id
from app.presenters.labels import Line
from core.events.approval import ApprovalRequested, ApprovalResolved
from core.events.control import TERMINAL, ControlChanged
from core.events.envelope import Event
from core.events.marks import ERRORS, Mark
from core.events.ownership import OwnershipGranted
from core.limits import RIBBON_MARKS_MAX

#: Events in one window: all of them drawn, at 10 pixels each on a desk, about 600 nodes.
WINDOW = 120
TOOL_ROWS = 3
#: Events drawn one by one where a stretch is asked for; beyond it they are counted in BUCKETS bars.
DRAWN_MAX = RIBBON_MARKS_MAX
BUCKETS = 120
NARROWEST = 8
COUNTS_WIDTH = 1200
_TICKS = (1, 2, 5, 10, 20, 25, 50, 100, 200, 250, 500, 1000)


#: Families that the legend names, where they are drawn.
_FAMILIES = (
    ("model", "model call"),
    ("tool", "tool call"),
    ("approval", "approval"),
    ("ckpt", "checkpoint"),
)


@dataclass(frozen=True, slots=True)
class Item:
    """One event of the window with its payload and line."""

    event: Event
    payload: object
    line: Line

    @property
    def occurred_at(self) -> int | None:
        """When it happened, as the producer states it."""
        return self.event.occurred_at


@dataclass(frozen=True, slots=True)
class Bar:
    """One drawn mark; x and width in percent of the lane."""

    x: str
    width: str
    css: str
    sequence_number: int
    title: str
    row: int = 0
    later: bool = False
    cross: bool = False
    label: str = ""
    open: bool = False


@dataclass(frozen=True, slots=True)
class Lane:
    """One lane: its name, height class, top in pixels, and its bars."""

    name: str
    height: int
    top: int
    bars: tuple[Bar, ...] = ()
    opt: bool = False
    """Left out at phone width."""
    label: str = ""
    label_css: str = ""
    label_x: str = "0%"
    label_end: bool = True
    note: str = ""
    counts: str = ""
    """Counts of events as a path in a box of COUNTS_WIDTH by the lane's height: up to the
    boundary."""
    counts_later: str = ""
    css: str = ""
    most: int = 0
    """The highest count."""


@dataclass(frozen=True, slots=True)
class Tick:
    """One labelled position of the axis."""

    x: str
    text: str


@dataclass(frozen=True, slots=True)
class Ribbon:
    """Everything the ribbon's template draws."""

    lanes: tuple[Lane, ...]
    ticks: tuple[Tick, ...]
    height: int
    first: int
    last: int
    head: int
    boundary: int
    cursor: str
    cursor_text: str
    cursor_shift: int
    """Pixels the cursor's number is moved so that it stays inside."""
    whole_past: str
    whole_x: str
    whole_width: str
    by: str
    xs: str
    """`sequence:percent` pairs for clicks, where positions are not even."""
    families: tuple[tuple[str, str], ...] = ()
    open_word: str = ""
    errors: bool = False
    late: bool = False
    each: int = 1
    """Events in one bar; 1: every event is drawn by itself."""
    outside: bool = False
    """The boundary lies outside of what is drawn."""

    @property
    def label(self) -> str:
        """What the drawing shows, for those who do not see it."""
        counted = f", counted by {count(self.each)}" if self.each > 1 else ""
        return (
            f"Events {count(self.first)} to {count(self.last)} of {count(self.head)}{counted} in "
            f"{len(self.lanes)} lanes; boundary {count(self.boundary)} selected"
        )


@dataclass(frozen=True, slots=True)
class OpenOperation:
    """An operation without outcome evidence at the boundary, with its grade."""

    operation_id: str
    since: int
    grade: str
    settled_later: bool = False
    """Later events settle it; the drawing says so only in the part that is later."""


@dataclass(slots=True)
class _Axis:
    """Positions of the window's events: even, or by time."""

    first: int
    last: int
    edges: dict[int, tuple[float, float]] = field(default_factory=dict)

    def left(self, sequence_number: int) -> float:
        return self.edges[max(self.first, min(sequence_number, self.last))][0]

    def right(self, sequence_number: int) -> float:
        if sequence_number < self.first:
            return 0.0
        return self.edges[min(sequence_number, self.last)][1]


@dataclass(slots=True)
class _Straight(_Axis):
    """Even positions of any number of events."""

    def left(self, sequence_number: int) -> float:
        at = max(self.first, min(sequence_number, self.last))
        return 100 * (at - self.first) / (self.last - self.first + 1)

    def right(self, sequence_number: int) -> float:
        if sequence_number < self.first:
            return 0.0
        at = min(sequence_number, self.last)
        return 100 * (at - self.first + 1) / (self.last - self.first + 1)


def zoomed(zoom: str, head: int) -> tuple[int, int] | None:
    """The stretch that a URL asks to be drawn, within the log; None: none, or not one."""
    first, dash, last = zoom.partition("-")
    if not dash or not head:
        return None
    low, high = sorted((int(first), int(last)))
    low, high = max(1, min(low, head)), max(1, min(high, head))
    # Fewer than a handful would be bars as wide as the page.
    if high - low + 1 < NARROWEST:
        low = max(1, min(low, head - NARROWEST + 1))
        high = min(head, low + NARROWEST - 1)
    return low, high


def window(boundary: int, head: int, size: int = WINDOW) -> tuple[int, int]:
    """First and last sequence number drawn around a boundary.

    It moves in steps of half its size, so that the drawing holds still while one scrubs.
    """
    if head <= size:
        return 1, max(head, 1)
    half = size // 2
    first = max(0, (boundary - half // 2) // half) * half + 1
    first = min(first, head - size + 1)
    return first, first + size - 1


def build(
    items: Sequence[Item],
    *,
    boundary: int,
    head: int,
    by: str,
    open_operations: Sequence[OpenOperation],
    control_before: str,
    owner_before: tuple[int, str | None],
    absent: frozenset[str] = frozenset(),
) -> Ribbon | None:
    """The ribbon of one window; None for an empty log.

    `control_before` and `owner_before` are the record's at the boundary before the window;
    `absent` names the lanes that are left out: `ownership`, `approvals`, `checkpoints`,
    `compaction`.
    """
    if not items:
        return None
    first, last = items[0].event.sequence_number, items[-1].event.sequence_number
    axis = _by_time(items) if by == "time" else _even(items)
    lanes: list[Lane] = []
    top = 20

    def add(lane: Lane) -> None:
        nonlocal top
        lanes.append(lane)
        top += lane.height

    if "ownership" not in absent:
        add(Lane("ownership", 20, top, _ownership(items, axis, boundary, owner_before)))
    add(Lane("control", 16, top, _control(items, axis, boundary, control_before), opt=True))
    add(Lane("model", 20, top, _points(items, axis, boundary, ("ContextBuilt", "ModelReplied"))))
    add(Lane("tools", 40, top, _tools(items, axis, boundary)))
    open_lane, word = _open(open_operations, items, axis, boundary, top)
    add(open_lane)
    if "approvals" not in absent:
        add(Lane("approvals", 16, top, _approvals(items, axis, boundary), opt=True))
    if "checkpoints" not in absent:
        add(Lane("checkpoints", 22, top, _points(items, axis, boundary, ("Checkpoint",))))
    if "compaction" not in absent:
        add(Lane("compaction", 16, top, _points(items, axis, boundary, ("Compacted",)), opt=True))
    cursor = axis.right(boundary) if boundary >= first else 0.0
    present = {item.line.family for item in items}
    return Ribbon(
        lanes=tuple(lanes),
        ticks=_ticks(items, axis, by),
        height=top + 18,
        first=first,
        last=last,
        head=head,
        boundary=boundary,
        cursor=_percent(cursor),
        cursor_text=count(boundary),
        cursor_shift=32 if cursor < 4 else -32 if cursor > 96 else 0,
        whole_past=_percent(100 * boundary / head),
        whole_x=_percent(100 * (first - 1) / head),
        whole_width=_percent(max(0.6, 100 * (last - first + 1) / head)),
        by=by,
        xs=" ".join(f"{n}:{right:.2f}" for n, (_, right) in axis.edges.items())
        if by == "time"
        else "",
        families=tuple(pair for pair in _FAMILIES if pair[0] in present),
        open_word=word,
        errors=any(item.line.error for item in items),
        late=last > boundary,
        outside=not first <= boundary <= last and boundary > 0,
    )


#: Lanes of counts: (name, marks, how its bars are drawn, height).
_COUNTED: tuple[tuple[str, tuple[Mark, ...], str, int], ...] = (
    ("model", (Mark.CONTEXT, Mark.REPLY, Mark.REPLY_ERROR), "b-model", 22),
    ("tools", (Mark.INTENT, Mark.RESULT, Mark.RESULT_ERROR, Mark.RESULT_OPEN), "b-tool", 40),
    ("errors", ERRORS, "b-bad", 18),
    ("ownership", (Mark.OWNERSHIP,), "b-control", 16),
    ("control", (Mark.CONTROL, Mark.CONTROL_FAILED), "b-control", 16),
    ("approvals", (Mark.APPROVAL,), "b-approval", 16),
    ("checkpoints", (Mark.CHECKPOINT,), "b-ckpt", 16),
    ("compaction", (Mark.COMPACTED,), "b-budget", 16),
)


def counted(
    marks: bytes,
    first: int,
    *,
    boundary: int,
    head: int,
    open_operations: Sequence[OpenOperation],
) -> Ribbon:
    """A long stretch: how many events of each lane there are in each of at most BUCKETS parts.

    `marks` are those of the events from `first` on, one byte each, at least one.
    """
    last = first + len(marks) - 1
    each = -(-len(marks) // BUCKETS)
    axis = _Straight(first, last)
    lanes: list[Lane] = []
    top = 20
    for name, wanted, css, height in _COUNTED:
        blank = Lane(name, height, top, css=css)
        lane = _counts(marks, axis, wanted, blank, each=each, boundary=boundary)
        if lane.most:
            lanes.append(lane)
            top += height
    unsettled, word = _open(open_operations, (), axis, boundary, top)
    lanes.append(unsettled)
    top += unsettled.height
    cursor = axis.right(boundary) if boundary >= first else 0.0
    present = {css.removeprefix("b-") for name, _, css, _ in _COUNTED if name in _names(lanes)}
    return Ribbon(
        lanes=tuple(lanes),
        ticks=_straight_ticks(axis),
        height=top + 18,
        first=first,
        last=last,
        head=head,
        boundary=boundary,
        cursor=_percent(cursor),
        cursor_text=count(boundary),
        cursor_shift=32 if cursor < 4 else -32 if cursor > 96 else 0,
        whole_past=_percent(100 * boundary / head),
        whole_x=_percent(100 * (first - 1) / head),
        whole_width=_percent(max(0.6, 100 * (last - first + 1) / head)),
        by="event",
        xs="",
        families=tuple(pair for pair in _FAMILIES if pair[0] in present),
        open_word=word,
        errors="errors" in _names(lanes),
        late=last > boundary,
        each=each,
        outside=not first <= boundary <= last,
    )


def _names(lanes: Sequence[Lane]) -> set[str]:
    return {lane.name for lane in lanes}


def _counts(
    marks: bytes, axis: _Axis, wanted: tuple[Mark, ...], lane: Lane, *, each: int, boundary: int
) -> Lane:
    """The lane with one bar for each part; a part that the boundary divides is two."""
    sought = {int(mark) for mark in wanted}
    table = marks.translate(bytes(1 if mark in sought else 0 for mark in range(256)))
    edges: list[tuple[int, int]] = []
    cut = boundary - axis.first + 1
    for start in range(0, len(marks), each):
        end = min(start + each, len(marks))
        edges += [(start, cut), (cut, end)] if start < cut < end else [(start, end)]
    found = [(start, end, table.count(1, start, end)) for start, end in edges]
    most = max(number for _, _, number in found)
    paths: dict[bool, list[str]] = {False: [], True: []}
    for start, end, number in found:
        if number:
            tall = max(2.0, (lane.height - 3) * number / most)
            left, right = (COUNTS_WIDTH * at / len(marks) for at in (start, end))
            paths[axis.first + start > boundary].append(
                f"M{left:.1f} {lane.height - 1}v{-tall:.1f}H{right:.1f}v{tall:.1f}z"
            )
    return replace(lane, counts="".join(paths[False]), counts_later="".join(paths[True]), most=most)


def _straight_ticks(axis: _Axis) -> tuple[Tick, ...]:
    span = axis.last - axis.first + 1
    step = 1
    while span / step > 6:
        step *= 5 if str(step)[0] == "2" else 2
        if str(step)[0] == "4":
            step = step // 4 * 5
    numbers = range(-(-axis.first // step) * step, axis.last + 1, step)
    ticks = [(axis.right(n), n) for n in numbers]
    return tuple(Tick(_percent(x), count(n)) for x, n in ticks if 3 <= x <= 97)


def _even(items: Sequence[Item]) -> _Axis:
    first, last = items[0].event.sequence_number, items[-1].event.sequence_number
    step = 100 / (last - first + 1)
    edges = {n: ((n - first) * step, (n - first + 1) * step) for n in range(first, last + 1)}
    return _Axis(first, last, edges)


def times_of(items: Sequence[Item]) -> list[int]:
    """One time per event, never falling: stated times where most events state one, else recorded.

    An event that states none stands at the time of the one before it; a clock that steps back is
    held at the latest time seen.
    """
    stated = [item.occurred_at for item in items if item.occurred_at is not None]
    if len(stated) * 2 < len(items):
        return [item.event.recorded_at for item in items]
    times: list[int] = []
    for item in items:
        at = (
            item.occurred_at
            if item.occurred_at is not None
            else (times or stated)[-1 if times else 0]
        )
        times.append(max(at, times[-1]) if times else at)
    return times


def _by_time(items: Sequence[Item]) -> _Axis:
    """Positions by time."""
    times = times_of(items)
    span = max(times[-1] - times[0], 1)
    first = items[0].event.sequence_number
    edges = {}
    before = 0.0
    for index, at in enumerate(times):
        right = 100 * (at - times[0]) / span
        edges[first + index] = (min(before, right), right)
        before = right
    return _Axis(first, items[-1].event.sequence_number, edges)


def _percent(value: float) -> str:
    return f"{max(0.0, min(100.0, value)):.2f}%"


def _title(item: Item) -> str:
    return f"{count(item.event.sequence_number)} {item.line.type} {item.line.text}"


def _css(item: Item) -> str:
    return "b-bad" if item.line.error else f"b-{item.line.family}"


def _bar(
    item: Item,
    axis: _Axis,
    boundary: int,
    *,
    end: int | None = None,
    css: str | None = None,
    row: int = 0,
    label: str = "",
    still_open: bool = False,
) -> Bar:
    n = item.event.sequence_number
    left = axis.left(n)
    right = axis.right(end if end is not None else n)
    return Bar(
        _percent(left),
        _percent(max(right - left - 0.08, 0.22)),
        css or _css(item),
        n,
        _title(item),
        row=row,
        later=n > boundary,
        cross=item.line.error,
        label=label,
        open=still_open,
    )


def _points(
    items: Sequence[Item], axis: _Axis, boundary: int, types: tuple[str, ...]
) -> tuple[Bar, ...]:
    """Model calls span from their context to their reply; the rest are single events."""
    replies = {
        item.event.invocation_id: item
        for item in items
        if item.event.type == "ModelReplied" and item.event.invocation_id
    }
    contexts = {
        item.event.invocation_id: item.event.sequence_number
        for item in items
        if item.event.type == "ContextBuilt" and item.event.invocation_id
    }
    bars = []
    for item in items:
        if item.event.type not in types:
            continue
        call = item.event.invocation_id
        if item.event.type == "ContextBuilt" and call in replies:
            reply = replies[call]
            known = reply.event.sequence_number <= boundary
            end = (
                reply.event.sequence_number if known else max(item.event.sequence_number, boundary)
            )
            if item.event.sequence_number > boundary:
                end = reply.event.sequence_number
            css = _css(reply) if known or item.event.sequence_number > boundary else "b-model"
            bar = _bar(item, axis, boundary, end=end, css=css)
            bars.append(replace(bar, cross=css == "b-bad"))
        elif item.event.type == "ModelReplied" and call in contexts:
            # Part of its call's bar, unless the boundary lies between the two.
            if contexts[call] <= boundary < item.event.sequence_number:
                bars.append(_bar(item, axis, boundary))
        else:
            bars.append(_bar(item, axis, boundary))
    return tuple(bars)


def _tools(items: Sequence[Item], axis: _Axis, boundary: int) -> tuple[Bar, ...]:
    """Bars from intent to the result that ends them, in up to three rows."""
    ends: dict[str, int] = {}
    failed: set[str] = set()
    for item in items:
        if item.event.type == "ToolResult" and item.event.operation_id:
            n = item.event.sequence_number
            ends.setdefault(item.event.operation_id, n)
            if item.line.error and n == ends[item.event.operation_id]:
                failed.add(item.event.operation_id)
    busy = [-1.0] * TOOL_ROWS
    bars = []
    seen: set[str] = set()
    for item in items:
        operation = item.event.operation_id
        n = item.event.sequence_number
        if item.event.type == "ToolIntent":
            end = ends.get(operation or "", axis.last if operation else n)
            shown = end if n > boundary else min(end, max(boundary, n))
            css = "b-bad" if operation in failed and end <= max(boundary, n) else "b-tool"
            if n > boundary and operation in failed:
                css = "b-bad"
            row = next((i for i, right in enumerate(busy) if axis.left(n) >= right), None)
            row = row if row is not None else busy.index(min(busy))
            busy[row] = axis.right(end)
            seen.add(operation or "")
            bar = _bar(item, axis, boundary, end=shown, css=css, row=row)
            bars.append(replace(bar, cross=css == "b-bad", open=end > boundary >= n))
        elif item.event.type == "ToolResult" and operation not in seen:
            bars.append(_bar(item, axis, boundary, css=_css(item)))
    return tuple(bars)


def _spans(
    items: Sequence[Item],
    axis: _Axis,
    starts: Iterable[tuple[Item, str, str]],
    before: tuple[str, str],
) -> list[tuple[float, float, str, str, int, str]]:
    """Stretches of one state: (left, right, css, label, sequence, title)."""
    spans = []
    left, css, label, at, title = 0.0, before[0], before[1], axis.first, before[1]
    for item, next_css, next_label in starts:
        x = axis.left(item.event.sequence_number)
        if css and x > left:
            spans.append((left, x, css, label, at, title))
        left, css, label = x, next_css, next_label
        at, title = item.event.sequence_number, _title(item)
    if css:
        spans.append((left, 100.0, css, label, at, title))
    return spans


def _stretches(
    spans: list[tuple[float, float, str, str, int, str]], boundary: int, axis: _Axis
) -> tuple[Bar, ...]:
    """Stretches cut at the cursor, what is after it drawn as later; a label spans both parts."""
    cursor = axis.right(boundary) if boundary >= axis.first else 0.0
    bars = []
    for left, right, css, label, at, title in spans:
        if left < cursor:
            end = min(right, cursor)
            bars.append(Bar(_percent(left), _percent(end - left - 0.1), css, at, title))
        if right > cursor:
            start = max(left, cursor)
            width = _percent(max(right - start - 0.1, 0.1))
            bars.append(Bar(_percent(start), width, css, at, title, later=True))
        if label:
            bars.append(
                Bar(
                    _percent(left),
                    _percent(right - left - 0.1),
                    "",
                    at,
                    title,
                    later=left >= cursor,
                    label=label,
                )
            )
    return tuple(bars)


def _ownership(
    items: Sequence[Item], axis: _Axis, boundary: int, before: tuple[int, str | None]
) -> tuple[Bar, ...]:
    starts = [
        (item, "b-own", f"generation {item.payload.owner_epoch} · {item.payload.worker}")
        for item in items
        if isinstance(item.payload, OwnershipGranted)
    ]
    epoch, worker = before
    first = (
        ("b-own", f"generation {epoch}" + (f" · {worker}" if worker else "")) if epoch else ("", "")
    )
    return _stretches(_spans(items, axis, starts, first), boundary, axis)


def _control_css(state: str) -> str:
    if state in TERMINAL:
        return "b-bad" if state == "FAILED" else "b-end"
    return "b-run" if state in ("RUNNING", "FINALIZING") else "b-wait"


def _control(items: Sequence[Item], axis: _Axis, boundary: int, before: str) -> tuple[Bar, ...]:
    starts = [
        (item, _control_css(item.payload.to_state), "")
        for item in items
        if isinstance(item.payload, ControlChanged)
    ]
    started = items[0].event.sequence_number == 1
    first = ("b-run" if started else _control_css(before), "")
    return _stretches(_spans(items, axis, starts, first), boundary, axis)


def _approvals(items: Sequence[Item], axis: _Axis, boundary: int) -> tuple[Bar, ...]:
    ends = {
        item.payload.approval_id: item.event.sequence_number
        for item in items
        if isinstance(item.payload, ApprovalResolved)
    }
    bars = []
    for item in items:
        if isinstance(item.payload, ApprovalRequested):
            n = item.event.sequence_number
            end = ends.get(item.payload.approval_id, axis.last)
            shown = end if n > boundary else min(end, max(boundary, n))
            bars.append(_bar(item, axis, boundary, end=shown, css="b-approval"))
    return tuple(bars)


def _open(
    operations: Sequence[OpenOperation],
    items: Sequence[Item],
    axis: _Axis,
    boundary: int,
    top: int,
) -> tuple[Lane, str]:
    """The lane of what the record cannot settle at the boundary, one open bar for all.

    It ends at the boundary; beyond it stands, as later, how long events still leave one unsettled.
    """
    listed = [o for o in operations if o.grade in ("in_doubt", "unknown")]
    doubt = any(o.grade == "in_doubt" for o in listed)
    name = "in doubt" if doubt or not listed else "unknown"
    if not listed:
        return Lane("unsettled", 18, top), ""
    since = min(o.since for o in listed)
    left = axis.left(since) if since >= axis.first else 0.0
    grey = "" if doubt else "-grey"
    oldest = min(listed, key=lambda o: o.since)
    text = (
        f"{short_id(oldest.operation_id)} {name} since {count(since)}"
        if len(listed) == 1
        else f"{len(listed)} {name}, oldest since {count(since)}"
    )
    cursor = axis.right(boundary) if boundary >= axis.first else 0.0
    at, css = max(since, axis.first), f"b-hatch{grey}"
    bars = [
        Bar(_percent(left), _percent(cursor - left), css, at, text, open=since >= axis.first),
    ]
    until = max(_unsettled_until(o, items, axis, boundary) for o in listed)
    if until > cursor:
        bars.append(Bar(_percent(cursor), _percent(until - cursor), css, at, text, later=True))
    at_left = left < 32
    return (
        Lane(
            "unsettled",
            18,
            top,
            tuple(bars),
            label=text,
            label_css="doubt" if doubt else "unk",
            label_x=_percent(left),
            label_end=not at_left,
        ),
        name,
    )


def _unsettled_until(
    operation: OpenOperation, items: Sequence[Item], axis: _Axis, boundary: int
) -> float:
    """Where later events settle an operation: at the last of its results in the window, or not in
    the window."""
    if not operation.settled_later:
        return 100.0
    results = [
        item.event.sequence_number
        for item in items
        if item.event.type == "ToolResult"
        and item.event.operation_id == operation.operation_id
        and item.event.sequence_number > boundary
    ]
    return axis.left(results[-1]) if results else 100.0


def _ticks(items: Sequence[Item], axis: _Axis, by: str) -> tuple[Tick, ...]:
    """At most six labels, at least 15 % apart, whatever the width."""
    ticks: list[Tick] = []
    last_x = -15.0
    if by == "time":
        for item, at in zip(items, times_of(items), strict=True):
            x = axis.right(item.event.sequence_number)
            if x - last_x >= 17 and 4 <= x <= 95:
                ticks.append(Tick(_percent(x), clock(at)))
                last_x = x
        return tuple(ticks)
    step = next((t for t in _TICKS if len(items) / t <= 6), _TICKS[-1])
    for n in range(-(-axis.first // step) * step, axis.last + 1, step):
        x = axis.right(n)
        if x - last_x >= 15 and 3 <= x <= 97:
            ticks.append(Tick(_percent(x), count(n)))
            last_x = x
    return tuple(ticks)
