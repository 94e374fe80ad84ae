"""Delivered inputs: the messages of a call, found along the calls that it extends.

A manifest is stated as a difference to an earlier one (core.events.model_call), so the early
messages of a late call lie many events back. They are read step by step, at most HOPS_MAX calls
for one page; what lies beyond is said to, with the boundary from which it can be read.
"""

from __future__ import annotations

import hashlib
import threading
import weakref
from collections import OrderedDict
from dataclasses import dataclass, field

from app.presenters.context import Entry
from core.errors import StrandlineError
from core.events.envelope import Event
from core.events.marks import Mark
from core.events.model_call import ContextBuilt
from core.principal import Principal
from runtime.service import Runtime

#: Calls read back along one manifest for one page; each is one look-up of some 100 microseconds.
HOPS_MAX = 200
#: Remembered calls; most are a few kB, none above PAYLOAD_INLINE_BYTES_MAX is remembered.
_CALLS_KEPT = 1_000


@dataclass(frozen=True, slots=True)
class Built:
    """One ContextBuilt as it was read."""

    event: Event
    payload: ContextBuilt

    @property
    def sequence_number(self) -> int:
        """Where it stands in the log."""
        return self.event.sequence_number

    def entries(self) -> list[Entry]:
        """The messages that this event itself names."""
        first = self.payload.kept + 1
        return [
            Entry(first + at, ref, self.sequence_number)
            for at, ref in enumerate(self.payload.messages)
        ]


class Calls:
    """Contexts of one store by (tenant, trajectory, sequence number), and which each extends."""

    def __init__(self) -> None:
        self._built: OrderedDict[tuple[str, str, int], Built] = OrderedDict()
        self._bases: OrderedDict[tuple[str, str, int], int | None] = OrderedDict()
        #: Protects both; pages run on several threads.
        self._lock = threading.Lock()

    def at(
        self, runtime: Runtime, who: Principal, trajectory_id: str, sequence_number: int
    ) -> Built | None:
        """The ContextBuilt at a sequence number; None where another event stands there. Raises
        what reading a payload raises."""
        key = (str(who.tenant), trajectory_id, sequence_number)
        with self._lock:
            known = self._built.get(key)
            if known is not None:
                self._built.move_to_end(key)
                return known
        event = runtime.event(who, trajectory_id, sequence_number)
        return self._keep(runtime, who, event)

    def of(
        self,
        runtime: Runtime,
        who: Principal,
        trajectory_id: str,
        invocation_id: str,
        *,
        upto: int,
    ) -> Built | None:
        """The newest ContextBuilt of a call at or before `upto`."""
        events = runtime.invocation_events(who, trajectory_id, invocation_id, upto=upto)
        built = [event for event in events if event.type == "ContextBuilt"]
        return self._keep(runtime, who, built[-1]) if built else None

    def base(self, runtime: Runtime, who: Principal, built: Built) -> Built | None:
        """The call that a manifest extends; None where it extends none, or none that is here."""
        named = built.payload.base_invocation_id
        if named is None:
            return None
        trajectory_id = built.event.trajectory_id
        key = (str(who.tenant), trajectory_id, built.sequence_number)
        with self._lock:
            if key in self._bases:
                at = self._bases[key]
                known = self._built.get((key[0], trajectory_id, at)) if at is not None else None
                if known is not None:
                    return known
        found = self.of(runtime, who, trajectory_id, named, upto=built.sequence_number - 1)
        with self._lock:
            self._bases[key] = found.sequence_number if found is not None else None
            if len(self._bases) > _CALLS_KEPT:
                self._bases.popitem(last=False)
        return found

    def _keep(self, runtime: Runtime, who: Principal, event: Event) -> Built | None:
        payload = runtime.typed(who, event)
        if not isinstance(payload, ContextBuilt):
            return None
        built = Built(event, payload)
        if event.payload is not None:
            with self._lock:
                self._built[str(who.tenant), event.trajectory_id, event.sequence_number] = built
                if len(self._built) > _CALLS_KEPT:
                    self._built.popitem(last=False)
        return built


_CALLS: weakref.WeakKeyDictionary[Runtime, Calls] = weakref.WeakKeyDictionary()


def calls(runtime: Runtime) -> Calls:
    """The remembered contexts of this store."""
    return _CALLS.setdefault(runtime, Calls())


@dataclass(slots=True)
class Manifest:
    """The messages of one call, read back as far as they were asked for."""

    runtime: Runtime
    who: Principal
    built: Built
    hops_left: int = field(default_factory=lambda: HOPS_MAX)
    found: dict[int, Entry] = field(default_factory=dict)
    """By number, from 1."""
    visited: list[Built] = field(default_factory=list)
    """The calls read, the newest first."""
    ended: str = ""
    """Why nothing before `low` can be read, or empty."""
    low: int = 1
    """First message that was read."""
    _next: Built | None = None
    _upper: int = 0
    """Messages from this number on are known."""

    def __post_init__(self) -> None:
        payload = self.built.payload
        self._upper = max(payload.count, payload.kept + len(payload.messages)) + 1
        self._take(self.built)

    @property
    def total(self) -> int:
        """Messages of the whole manifest, as it states them."""
        return self.built.payload.count

    def _take(self, built: Built) -> None:
        for entry in built.entries():
            if entry.number < self._upper:
                self.found[entry.number] = entry
        self._upper = min(self._upper, built.payload.kept + 1)
        self.low = self._upper
        self.visited.append(built)
        self._next = built

    def reach(self, number: int) -> bool:
        """Read back until message `number` is known; False where that cannot be."""
        while self._upper > max(number, 1) and not self.ended:
            assert self._next is not None
            if self.hops_left <= 0:
                self.ended = "further"
                break
            self.hops_left -= 1
            try:
                base = calls(self.runtime).base(self.runtime, self.who, self._next)
            except StrandlineError as error:
                self.ended = str(error)
                break
            if base is None:
                named = self._next.payload.base_invocation_id
                self.ended = (
                    f"the call it extends, {named}, is not in this log"
                    if named is not None
                    else "the event names no call that it extends"
                )
                break
            self._take(base)
        return self._upper <= max(number, 1)

    def entries(self, first: int, last: int) -> list[Entry]:
        """Messages first..last, as far as they can be read."""
        self.reach(first)
        return [self.found[n] for n in range(first, last + 1) if n in self.found]

    @property
    def further_at(self) -> int | None:
        """The call from which the messages before `low` can be read, where only more steps are
        needed."""
        return self._next.sequence_number if self.ended == "further" and self._next else None

    def checks(self) -> bool | None:
        """Whether the digest it states is that of its messages; None where not all are known."""
        if not self.reach(1):
            return None
        hasher = hashlib.sha256()
        for number in range(1, self.total + 1):
            entry = self.found.get(number)
            if entry is None:
                return None
            hasher.update(bytes.fromhex(entry.ref.digest.removeprefix("sha256:")))
        return self.built.payload.manifest_digest == f"sha256:{hasher.hexdigest()}"


def newest(runtime: Runtime, who: Principal, trajectory_id: str, before: int) -> Built | None:
    """The last ContextBuilt before a sequence number."""
    at = runtime.neighbour(
        who,
        trajectory_id,
        marks=(int(Mark.CONTEXT),),
        sequence_number=before,
        forward=False,
    )
    return calls(runtime).at(runtime, who, trajectory_id, at) if at is not None else None
