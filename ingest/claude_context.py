"""What a model was given, as far as a Claude Code session shows: a list of messages that grows.

File order is the spine, not the chain of parents: parents dangle, and parallel tool calls fork
the chain without anybody having gone back. Two things shorten the list: a compaction begins it
anew, and a prompt whose parent lies before the last word that was spoken goes back to there.

INVARIANTS
1. The list at any time follows from the lines so far.
2. Going back costs at most REHASH_BYTES_MAX of hashing in all; beyond it the list stays linear,
   and the caller is told.
"""

from __future__ import annotations

import bisect
import hashlib
from collections import OrderedDict
from dataclasses import dataclass

from core.canonical import digest_text
from core.events.envelope import BlobRef
from core.events.fields import MessageRef
from core.limits import MIB
from ingest.build import original

#: Lines whose place is remembered, so that a prompt can go back to them.
PLACES_MAX = 50_000
#: Messages one context adds; beyond it the oldest are left out, said so.
ADDED_MAX = 20_000
REHASH_BYTES_MAX = 1024 * MIB
_DIGEST_BYTES = 32
#: References of one context to its originals, above which neighbours are joined to one span.
_SPANS_MAX = 64


@dataclass(frozen=True, slots=True)
class Delivered:
    """The manifest of one call, as a delta."""

    manifest_digest: str
    count: int
    base: str | None
    kept: int
    messages: tuple[MessageRef, ...]
    dropped: int
    refs: tuple[BlobRef, ...]


class Manifest:
    """The messages a next call would be given."""

    def __init__(self) -> None:
        self._digests = bytearray()
        self._hash = hashlib.sha256()
        self._places: OrderedDict[str, int] = OrderedDict()
        self._new: list[tuple[MessageRef, BlobRef]] = []
        self._counts: list[int] = []
        self._calls: list[str] = []
        self._delivered = 0
        self._spoken = 0
        self._dropped = 0
        self._hashed = 0

    @property
    def count(self) -> int:
        """Messages in the list."""
        return len(self._digests) // _DIGEST_BYTES

    def place(self, uuid: str | None) -> None:
        """Remember where a line stands."""
        if uuid is None:
            return
        self._places[uuid] = self.count
        self._places.move_to_end(uuid)
        if len(self._places) > PLACES_MAX:
            self._places.popitem(last=False)

    def add(self, digest: bytes, ref: MessageRef, source: BlobRef, *, spoken: bool) -> None:
        """One more message; `spoken`: a prompt or a reply, not a tool's answer."""
        self._digests += digest
        self._hash.update(digest)
        self._new.append((ref, source))
        if spoken:
            self._spoken = self.count
        if len(self._new) > ADDED_MAX:
            self._drop_oldest()

    def _drop_oldest(self) -> None:
        """Begin the list anew with the younger half of what no call was given yet."""
        half = self._new[ADDED_MAX // 2 :]
        gone, before = self.count - len(half), self._dropped
        digests = self._digests[gone * _DIGEST_BYTES :]
        self.clear()
        self._digests = digests
        self._hash = hashlib.sha256(digests)
        self._new = half
        self._dropped = before + gone

    def clear(self) -> int:
        """Begin the list anew; how many messages it held."""
        held = self.count
        self._digests = bytearray()
        self._hash = hashlib.sha256()
        self._places.clear()
        self._new, self._counts, self._calls = [], [], []
        self._delivered = self._spoken = self._dropped = 0
        return held

    def earlier(self, parent: str) -> int | None:
        """Messages up to and including `parent`, where something was spoken after it."""
        place = self._places.get(parent)
        return place if place is not None and place < self._spoken else None

    def back_to(self, count: int) -> bool:
        """Shorten the list to its first `count` messages; False: too much was hashed already."""
        size = count * _DIGEST_BYTES
        if self._hashed + size > REHASH_BYTES_MAX:
            return False
        self._hashed += size
        del self._digests[size:]
        self._hash = hashlib.sha256(self._digests)
        self._spoken = min(self._spoken, count)
        while self._places:
            uuid, place = self._places.popitem()
            if place <= count:
                self._places[uuid] = place
                break
        if count >= self._delivered:
            del self._new[count - self._delivered :]
            return True
        self._new = []
        self._delivered = count
        base = bisect.bisect_left(self._counts, count)
        del self._counts[base + 1 :], self._calls[base + 1 :]
        return True

    def deliver(self, invocation: str) -> Delivered:
        """The manifest of the call that is made now."""
        digest, count = digest_text(self._hash.digest()), self.count
        found = Delivered(
            manifest_digest=digest,
            count=count,
            base=self._calls[-1] if self._calls else None,
            kept=self._delivered,
            messages=tuple(ref for ref, _ in self._new),
            dropped=self._dropped,
            refs=_spans([source for _, source in self._new]),
        )
        if self._counts and self._counts[-1] > self._delivered:
            # The base goes on beyond what was kept of it: it is no longer part of this list.
            self._counts[-1], self._calls[-1] = count, invocation
        else:
            self._counts.append(count)
            self._calls.append(invocation)
        self._delivered, self._new, self._dropped = count, [], 0
        return found


def _spans(sources: list[BlobRef]) -> tuple[BlobRef, ...]:
    """The originals as few references: lines that follow each other are one."""
    for gap in (1, None):
        spans: list[BlobRef] = []
        for ref in sources:
            last = spans[-1] if spans else None
            assert ref.start is not None
            assert ref.end is not None
            if (
                last is not None
                and last.digest == ref.digest
                and last.end is not None
                and (gap is None or ref.start <= last.end + gap)
            ):
                assert last.start is not None
                spans[-1] = original(last.digest, last.length, last.start, ref.end)
            else:
                spans.append(ref)
        if len(spans) <= _SPANS_MAX:
            break
    return tuple(spans[-_SPANS_MAX:])
