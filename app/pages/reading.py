"""Reading events for pages: lines of events are remembered, because events never change.

A line is a function of one event's bytes, so its digest is a sound key, across trajectories and
tenants alike: only who may read the event decides whether it is looked up at all.
"""

from __future__ import annotations

import threading
import weakref
from collections import OrderedDict

from app.presenters import labels, payloads
from app.presenters.labels import Line
from app.presenters.timeline import Item
from core.errors import CorruptAt, InvalidInput, NotFound, StrandlineError
from core.events.envelope import ORIGINAL_SCHEMA, BlobRef, Event
from core.events.fields import MessageRef
from core.principal import Principal
from runtime.service import Runtime
from runtime.time_travel import RecordView

#: Remembered lines; one is about 300 bytes.
LINES_MAX = 20_000
#: Remembered records; one is bounded, and rarely above 50 kB.
RECORDS_MAX = 32
#: Bytes of a message or an original that are read to be shown; the rest is a link away.
READ_BYTES = 64 * 1024
#: Bytes of messages beyond it that one page reads whole, because they are read by their shape.
SHAPED_BYTES = 8 * 1024 * 1024
#: Families whose payload the ribbon draws from; they are small and always in the row.
_DRAWN = frozenset(
    {
        "ControlChanged",
        "OwnershipGranted",
        "ApprovalRequested",
        "ApprovalResolved",
    }
)


class Lines:
    """Lines by event digest, the least recently used forgotten."""

    def __init__(self, limit: int = LINES_MAX) -> None:
        self._limit = limit
        self._lines: OrderedDict[bytes, Line] = OrderedDict()
        #: Protects `_lines`; pages run on several threads.
        self._lock = threading.Lock()

    def get(self, digest: bytes) -> Line | None:
        with self._lock:
            line = self._lines.get(digest)
            if line is not None:
                self._lines.move_to_end(digest)
            return line

    def put(self, digest: bytes, line: Line) -> None:
        with self._lock:
            self._lines[digest] = line
            if len(self._lines) > self._limit:
                self._lines.popitem(last=False)


LINES = Lines()


class Records:
    """Records of one store by (tenant, trajectory, boundary), the least recently used forgotten.

    A boundary's record never changes, so one that was folded for a step serves the next step too.
    """

    def __init__(self, limit: int = RECORDS_MAX) -> None:
        self._limit = limit
        self._views: OrderedDict[tuple[str, str, int], RecordView] = OrderedDict()
        #: Protects `_views`.
        self._lock = threading.Lock()

    def get(
        self, runtime: Runtime, who: Principal, trajectory_id: str, boundary: int
    ) -> RecordView:
        """The record at a boundary that the caller knows to be this tenant's."""
        key = (str(who.tenant), trajectory_id, boundary)
        with self._lock:
            view = self._views.get(key)
            if view is not None:
                self._views.move_to_end(key)
                return view
        return self.keep(who, runtime.record_at(who, trajectory_id, boundary))

    def keep(self, who: Principal, view: RecordView) -> RecordView:
        """Remember a view that was just folded."""
        with self._lock:
            self._views[str(who.tenant), view.head.trajectory_id, view.boundary] = view
            if len(self._views) > self._limit:
                self._views.popitem(last=False)
        return view


_RECORDS: weakref.WeakKeyDictionary[Runtime, Records] = weakref.WeakKeyDictionary()


def records(runtime: Runtime) -> Records:
    """The remembered records of this store."""
    return _RECORDS.setdefault(runtime, Records())


def items(
    runtime: Runtime, who: Principal, trajectory_id: str, first: int, last: int
) -> list[Item]:
    """Events first..last with their lines; payloads only where they lie in the row."""
    events = runtime.events(
        who, trajectory_id, after=first - 1, upto=last, limit=max(1, last - first + 1)
    )
    return [item(runtime, who, event) for event in events]


def item(runtime: Runtime, who: Principal, event: Event) -> Item:
    """One event with its line."""
    line = LINES.get(event.digest)
    if line is not None and (event.payload is None or event.type not in _DRAWN):
        return Item(event, None, line)
    try:
        payload = runtime.typed(who, event)
    except (NotFound, CorruptAt, InvalidInput) as error:
        return Item(event, None, labels.unreadable(event, str(error)))
    if line is None:
        line = labels.line(event, payload)
        LINES.put(event.digest, line)
    return Item(event, payload if event.payload is not None else None, line)


def reader(runtime: Runtime, who: Principal) -> payloads.Reader:
    """Reads delivered messages out of their blobs, each with a reason where it cannot. A long one
    is read whole where it is JSON, SHAPED_BYTES in all; of others, the beginning."""
    left = SHAPED_BYTES

    def read(ref: MessageRef) -> payloads.Text:
        nonlocal left
        if ref.blob is None:
            return payloads.Text(None, "never", "its bytes were not kept, only their digest")
        start = ref.start or 0
        end = ref.end if ref.end is not None else start + ref.length
        found = excerpt(runtime, who, ref.blob, start, end)
        length = end - start
        if not READ_BYTES < length <= left or not (found.value or "").lstrip().startswith("{"):
            return found
        left -= length
        return excerpt(runtime, who, ref.blob, start, end, limit=length)

    return read


def excerpt(
    runtime: Runtime,
    who: Principal,
    digest: str,
    start: int,
    end: int,
    *,
    limit: int = READ_BYTES,
) -> payloads.Text:
    """The beginning of a blob's part as text, or which absence it is."""
    try:
        data = runtime.blob_range(who, digest, start, min(end, start + limit))
    except NotFound as error:
        missing = error.data.get("missing")
        reason = "its file is gone from the blob store" if missing else "not held by this tenant"
        return payloads.Text(None, "unknown", f"missing: {reason}")
    except StrandlineError as error:
        return payloads.Text(None, "unknown", f"cannot be shown: {error}")
    return payloads.Text(data.decode("utf-8", "replace"))


def searched(runtime: Runtime, who: Principal, event: Event) -> str:
    """What the full-text index reads of an event; empty where that cannot be read."""
    try:
        return runtime.text_of(who, event.trajectory_id, event.sequence_number)
    except StrandlineError:
        return ""


def original_of(event: Event) -> BlobRef | None:
    """The pointer from an imported event to its original bytes."""
    return next((ref for ref in event.refs if ref.schema == ORIGINAL_SCHEMA), None)
