"""Record <-> bytes: canonical JSON of a record, and the sealed form a cache may hold.

INVARIANTS
1. `encode` gives the RFC 8785 bytes of the record with defaults left out; equal records have
   equal bytes.
2. A sealed snapshot opens only as what was sealed: its digest covers the record and the chain
   value of the log at its boundary.
3. A record of another reducer version does not open (LOG-5).
"""

from __future__ import annotations

import msgspec

from core.canonical import canonical, digest_text, sha256
from core.errors import CorruptAt, InvalidInput
from core.record.record import TrajectoryRecord

_ENCODER = msgspec.json.Encoder(order="sorted")
_DECODER = msgspec.json.Decoder(TrajectoryRecord)
_SEAL_BYTES = 32


def encode(record: TrajectoryRecord) -> bytes:
    """Canonical bytes of a record."""
    data = _ENCODER.encode(record)
    # Records hold no floats; only a key outside ASCII could sort in another way than RFC 8785's.
    return data if data.isascii() else canonical(msgspec.to_builtins(record))


def decode(data: bytes, reducer_version: int) -> TrajectoryRecord:
    """The record of its bytes; InvalidInput if it is none, or of another reducer version."""
    try:
        record = _DECODER.decode(data)
    except msgspec.DecodeError as error:
        raise InvalidInput(f"not a record: {error}") from error
    if record.reducer_version != reducer_version:
        raise InvalidInput(
            f"a record of reducer version {record.reducer_version}, not {reducer_version}"
        )
    return record


def digest(record: TrajectoryRecord) -> str:
    """`sha256:...` of the canonical bytes."""
    return digest_text(sha256(encode(record)))


def seal(record: TrajectoryRecord, chain: bytes) -> bytes:
    """The record's bytes behind a digest over them and the chain value at its boundary."""
    data = encode(record)
    return sha256(chain, data) + data


def unseal(sealed: bytes, chain: bytes, reducer_version: int) -> TrajectoryRecord:
    """The sealed record; CorruptAt if bytes or chain value are not those that were sealed,
    InvalidInput if this version cannot read it."""
    data = sealed[_SEAL_BYTES:]
    if sha256(chain, data) != sealed[:_SEAL_BYTES]:
        raise CorruptAt("a stored snapshot does not match its seal")
    return decode(data, reducer_version)


def counts(record: TrajectoryRecord) -> bytes:
    """Events by type up to the boundary, as JSON: what a ribbon needs without the record."""
    return _ENCODER.encode(record.event_counts)
