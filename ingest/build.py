"""Making well-formed events: ids that a second reading makes again, payloads that fit.

INVARIANTS
1. An event id follows from importer, major version, source id and the native key alone, so the
   same source gives the same ids and a changed one meets the id it contradicts (WHO-3).
2. Every payload is decoded again after it was encoded: what the fold could not read is found
   here, before anything is stored.
3. A payload above PAYLOAD_INLINE_BYTES_MAX becomes a blob; its digest stays the same (ENV-3).
"""

from __future__ import annotations

import base64
import re
from collections import Counter
from dataclasses import dataclass

from core.canonical import canonical, digest_text, sha256
from core.errors import ImportRefused, InvalidInput
from core.events import registry
from core.events.envelope import JSON_MEDIA_TYPE, ORIGINAL_SCHEMA, BlobRef, NewEvent
from core.events.fields import Payload
from core.instants import Instant
from core.limits import (
    IMPORT_DOCUMENT_EVENTS_MAX,
    PAYLOAD_BYTES_MAX,
    PAYLOAD_INLINE_BYTES_MAX,
)
from ingest.base import BuiltEvent

_NATIVE_ID = re.compile(r"[!-~]{1,96}")


@dataclass(frozen=True, slots=True)
class SourceKey:
    """Where a trajectory comes from: the root of all its ids."""

    importer: str
    version: int
    source_id: str

    @property
    def trajectory_id(self) -> str:
        """`tr_` and 20 base32 characters."""
        return "tr_" + short_digest("trajectory", self.importer, str(self.version), self.source_id)

    def event_id(self, key: str) -> str:
        """Id of the event that the source's item `key` becomes."""
        parts = ("event", self.importer, str(self.version), self.source_id, key)
        return "ev_" + short_digest(*parts, length=26)


def short_digest(*parts: str, length: int = 20) -> str:
    """`length` lower-case base32 characters of a SHA-256 over the parts (not their join)."""
    raw = sha256(canonical(list(parts)))
    return base64.b32encode(raw).decode().lower()[:length]


def original(blob: str, blob_length: int, start: int, end: int) -> BlobRef:
    """The pointer from an event to its original bytes."""
    return BlobRef(
        digest=blob,
        length=blob_length,
        role="required",
        media_type=JSON_MEDIA_TYPE,
        schema=ORIGINAL_SCHEMA,
        start=start,
        end=end,
    )


class NativeIds:
    """The source's own ids as ids of ours: kept where they can be, told apart where repeated.

    An id that is missing or is no printable ASCII is made of a digest of what it stands for; the
    second occurrence of one gets `~2`. Never of a position in the trajectory (EFF-6).
    """

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        self._seen: Counter[str] = Counter()

    def take(self, native: str | None, *content: str) -> str:
        """An id for `native`, or for `content` where the source gives none."""
        if native is not None and _NATIVE_ID.fullmatch(native) and "~" not in native:
            base = native
        else:
            base = f"{self._prefix}_{short_digest(native or '', *content)}"
        self._seen[base] += 1
        times = self._seen[base]
        return base if times == 1 else f"{base}~{times}"


class Builder:
    """Collects the events of one trajectory in order."""

    def __init__(self, key: SourceKey) -> None:
        self.key = key
        self.events: list[BuiltEvent] = []

    def add(
        self,
        payload: Payload,
        *,
        key: str,
        where: str,
        refs: tuple[BlobRef, ...],
        occurred_at: Instant | None = None,
        step: int | None = None,
        operation_id: str | None = None,
        attempt_id: str | None = None,
        invocation_id: str | None = None,
    ) -> NewEvent:
        """Append one event. `key` is the native key, `where` the place for a refusal."""
        if len(self.events) >= IMPORT_DOCUMENT_EVENTS_MAX:
            raise ImportRefused(
                f"it becomes more than {IMPORT_DOCUMENT_EVENTS_MAX:,} events, which is more than "
                "is taken in at once",
                where=where,
                reason="too_large",
            )
        family = registry.FAMILIES[type(payload).__name__]
        try:
            data = registry.encode(payload)
            registry.decode(family.name, family.version, data)
        except InvalidInput as error:
            raise ImportRefused(f"{where} makes no {family.name}: {error}", where=where) from error
        if len(data) > PAYLOAD_BYTES_MAX:
            raise ImportRefused(
                f"{where} makes a {family.name} of {len(data)} bytes; at most "
                f"{PAYLOAD_BYTES_MAX} are held",
                where=where,
            )
        inline = len(data) <= PAYLOAD_INLINE_BYTES_MAX
        event = NewEvent(
            event_id=self.key.event_id(key),
            type=family.name,
            schema_version=family.version,
            payload=data if inline else None,
            payload_ref=None
            if inline
            else BlobRef(
                digest=digest_text(sha256(data)),
                length=len(data),
                role="required",
                media_type=JSON_MEDIA_TYPE,
                schema=f"{family.name}/{family.version}",
            ),
            occurred_at=occurred_at,
            step=step,
            operation_id=operation_id,
            attempt_id=attempt_id,
            invocation_id=invocation_id,
            refs=refs,
        )
        self.events.append(BuiltEvent(event, payload, None if inline else data))
        return event
