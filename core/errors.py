"""The error tree. Each leaf has a code, and `docs/errors/<code>.md` says what to do.

    StrandlineError
    ├── Refused            nothing was stored; the caller may be right later or elsewhere
    │   ├── InvalidInput           invalid            a value outside what the contract allows
    │   ├── NotFound               not_found          no such thing for this tenant
    │   ├── Fenced                 fenced             a newer owner epoch has been granted
    │   ├── NotAllowed             not_allowed        this issuer may not assert this here (WHO-1)
    │   ├── UnknownType            unknown_type       an event type or version not in the registry
    │   ├── MissingBlob            missing_blob       a named blob is not durable yet (APP-3)
    │   ├── UnresolvedReference    unresolved         a named event is not in the log (APP-4)
    │   ├── HeadMoved              head_moved         the log has moved since the decision (APP-8)
    │   ├── SequenceGap            sequence_gap       pieces do not continue the log
    │   ├── TooLarge               too_large          beyond a bound of core.limits
    │   ├── Busy                   busy               the append queue is full (APP-7)
    │   ├── RateLimited            rate_limited       one caller over its own rate
    │   ├── SearchTimeout          search_timeout     a search took longer than its bound
    │   ├── StoreFull              store_full         the disk is full
    │   ├── StoreStopped           store_stopped      the writer is poisoned, closed or read-only
    │   ├── DomainUnavailable      domain_unavailable the declared failure domain cannot be given
    │   └── ImportRefused          import_refused     a file that is not what it must be
    ├── Conflict           two stories about one id
    │   └── IntegrityConflict      integrity_conflict same id, different content; nothing stored
    ├── Unavailable        evidence cannot be read: hold, never read it as absent
    │   ├── AckUnknown             ack_unknown        neither stored nor refused (APP-6)
    │   └── NotReconstructed       not_reconstructed  this version cannot fold the prefix (LOG-6)
    └── Corrupt            bytes disagree with their digest: stop
        └── CorruptAt              corrupt            where, and what was expected

`str(error)` is a sentence for a person; `data` holds what a program needs.
"""

from __future__ import annotations

from typing import ClassVar, Literal

Outcome = Literal["refused", "unknown"]


class StrandlineError(Exception):
    """Base of every error the product raises on purpose."""

    code: ClassVar[str] = "error"
    outcome: ClassVar[Outcome] = "refused"
    #: Whether the store has this refusal in its own counters.
    counted: bool = False

    def __init__(self, message: str = "", **data: object) -> None:
        super().__init__(message or (type(self).__doc__ or "").strip().splitlines()[0])
        self.data = data


class Refused(StrandlineError):
    """Nothing was stored."""


class Conflict(StrandlineError):
    """Two stories about one id."""


class Unavailable(StrandlineError):
    """Evidence cannot be read; hold."""

    outcome: ClassVar[Outcome] = "unknown"


class Corrupt(StrandlineError):
    """Stored bytes disagree with their digest."""


class InvalidInput(Refused):
    """A value lies outside what the contract allows."""

    code = "invalid"


class NotFound(Refused):
    """There is no such thing for this tenant."""

    code = "not_found"


class Fenced(Refused):
    """A newer owner epoch has been granted; deliver evidence to the result inbox instead."""

    code = "fenced"


class NotAllowed(Refused):
    """This issuer may not assert this family here."""

    code = "not_allowed"


class UnknownType(Refused):
    """The event type or its schema version is not in this version's registry."""

    code = "unknown_type"


class MissingBlob(Refused):
    """The event names a blob that is not durable yet; put it first."""

    code = "missing_blob"


class UnresolvedReference(Refused):
    """The event names another event that is not earlier in this log."""

    code = "unresolved"


class HeadMoved(Refused):
    """The log has moved since this was decided; read it and decide again."""

    code = "head_moved"


class SequenceGap(Refused):
    """The pieces do not continue the log they are meant for."""

    code = "sequence_gap"


class TooLarge(Refused):
    """The value is larger than the documented bound."""

    code = "too_large"


class Busy(Refused):
    """The append queue is full; nothing was dropped. Send the same request again."""

    code = "busy"


class RateLimited(Refused):
    """This caller is over its own rate."""

    code = "rate_limited"


class SearchTimeout(Refused):
    """The search took longer than it may; ask for rarer words, or search in one trajectory."""

    code = "search_timeout"


class StoreFull(Refused):
    """The disk that holds the store is full; reads go on."""

    code = "store_full"


class StoreStopped(Refused):
    """The store takes no writes in its present state."""

    code = "store_stopped"


class DomainUnavailable(Refused):
    """The declared failure domain cannot be provided by this store."""

    code = "domain_unavailable"


class ImportRefused(Refused):
    """The file is not what it must be; nothing of it was imported."""

    code = "import_refused"


class IntegrityConflict(Conflict):
    """The same id is already stored with different content; nothing was overwritten."""

    code = "integrity_conflict"


class AckUnknown(Unavailable):
    """The durable barrier failed or was not answered: it is not known whether this is stored.

    Hold dispatch and send the identical request again until it is answered.
    """

    code = "ack_unknown"


class NotReconstructed(Unavailable):
    """A boundary lies after an event this version cannot fold."""

    code = "not_reconstructed"


class CorruptAt(Corrupt):
    """Stored bytes disagree with the digest or chain value recorded for them."""

    code = "corrupt"
