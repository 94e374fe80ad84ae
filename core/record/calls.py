"""Slice: model calls and their charge (MOD-1, MOD-3).

A call begins with its `ContextBuilt`, or with its reply where the source delivers no context.
A reply never brings another call's context along, and a completed reply is not replaced by a
later sample under the same invocation; its tokens are counted all the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from core.events.envelope import Event
from core.limits import MODELS_MAX
from core.record import archive, cut, lean
from core.record.record import Call, Calls, ModelTokens, TokenTotals

if TYPE_CHECKING:
    from core.record.draft import Draft

UNRESERVED = "unreserved"
_NO_TOKENS = ModelTokens()


class CallsDraft:
    """The slice while a fold runs."""

    __slots__ = (
        "by_status",
        "cache_read",
        "cache_write",
        "input",
        "models",
        "open",
        "output",
        "replied",
        "retries",
        "spilled",
        "tokens_by_model",
        "total",
        "unreported",
    )

    def __init__(self, calls: Calls) -> None:
        self.open = dict(calls.open)
        self.total = calls.total
        self.replied = calls.replied
        self.by_status = dict(calls.by_status)
        self.retries = calls.retries
        self.input = calls.tokens.input
        self.output = calls.tokens.output
        self.cache_read = calls.tokens.cache_read
        self.cache_write = calls.tokens.cache_write
        self.unreported = calls.tokens.unreported
        self.models = calls.models
        self.tokens_by_model = calls.tokens_by_model
        self.spilled = calls.spilled

    def freeze(self) -> Calls:
        """The slice as part of a record."""
        return Calls(
            dict(self.open),
            self.total,
            self.replied,
            dict(self.by_status),
            self.retries,
            TokenTotals(
                self.input, self.output, self.cache_read, self.cache_write, self.unreported
            ),
            self.models,
            self.tokens_by_model,
            self.spilled,
        )


def context_built(draft: Draft, event: Event, payload: lean.ContextBuilt) -> None:
    """A call begins; the control stamp that counts for it is this event's (ORD-2)."""
    calls = draft.calls
    invocation_id = event.invocation_id or event.event_id
    sequence = event.sequence_number
    if payload.retry_of is not None:
        calls.retries += 1
    known = take(draft, invocation_id)
    if known is None:
        calls.total += 1
        calls.open[invocation_id] = Call(
            invocation_id,
            sequence,
            sequence,
            UNRESERVED,
            sequence,
            None,
            None,
            event.step,
            cut.text(payload.model),
            cut.text(payload.retry_of),
            event.control_epoch,
        )
        return
    put(
        draft,
        replace(
            known,
            last_sequence=sequence,
            context_sequence=sequence,
            step=event.step,
            retry_of=cut.text(payload.retry_of),
            control_epoch=event.control_epoch,
        ),
    )


def model_replied(draft: Draft, event: Event, payload: lean.ModelReplied) -> None:
    """What was observed of a call; its tokens are counted whatever became of the call."""
    calls = draft.calls
    invocation_id = event.invocation_id or event.event_id
    sequence = event.sequence_number
    status = payload.status
    model = cut.text(payload.model)
    if model is not None and model not in calls.models and len(calls.models) < MODELS_MAX:
        calls.models = (*calls.models, model)
    known = take(draft, invocation_id)
    if payload.continues and (known is None or known.status == status):
        # Part of a reply that was counted; where its call is archived and closed, it stays so.
        if payload.usage is not None:
            _count_tokens(calls, payload.usage, model)
            if known is not None and known.unreported:
                calls.unreported -= 1
                known = replace(known, unreported=False)
        if known is not None:
            put(draft, replace(known, last_sequence=sequence))
        return
    _count_tokens(calls, payload.usage, model)
    calls.replied += 1
    calls.by_status[status] = calls.by_status.get(status, 0) + 1
    if known is None:
        calls.total += 1
        known = Call(
            invocation_id,
            sequence,
            sequence,
            UNRESERVED,
            step=event.step,
            control_epoch=event.control_epoch,
        )
    elif known.status == "completed":
        put(draft, replace(known, last_sequence=sequence))
        return
    put(
        draft,
        Call(
            known.invocation_id,
            known.first_sequence,
            sequence,
            known.charge,
            known.context_sequence,
            sequence,
            status,
            known.step,
            model or known.model,
            known.retry_of,
            known.control_epoch,
            payload.usage is None,
        ),
    )


def charge(draft: Draft, invocation_id: str, sequence: int, state: str) -> None:
    """The charge of a call has become `state`; no call, no charge."""
    known = take(draft, invocation_id)
    if known is not None:
        put(draft, replace(known, last_sequence=sequence, charge=state))


def take(draft: Draft, invocation_id: str) -> Call | None:
    """Take a call out of the table, or of the archive if it went there open, to be put back.

    A call that was replied and paid for before the last segment boundary is not taken up again:
    an invocation is sent once, so what comes under its id later is another sample.
    """
    call = draft.calls.open.pop(invocation_id, None)
    if call is None:
        call = draft.archive.calls.pop(invocation_id, None)
    if call is None and draft.calls.spilled:
        archived = draft.archive.find(archive.CALL, invocation_id, Call)
        if archived is not None and not archived.closed:
            draft.calls.spilled -= 1
            return archived
    return call


def put(draft: Draft, call: Call) -> None:
    """Put a call where it belongs: closed ones leave the open table."""
    table = draft.archive.calls if call.closed else draft.calls.open
    table[call.invocation_id] = call


def spill(draft: Draft, rows: list[tuple[str, str, Any]]) -> None:
    """At a segment boundary: archive the oldest open calls beyond the bound."""
    draft.calls.spilled += len(archive.spill(draft.calls.open, archive.CALL, rows))


def _count_tokens(calls: CallsDraft, usage: lean.Usage | None, model: str | None) -> None:
    if usage is None:
        calls.unreported += 1
        return
    if model is not None and model in calls.models:
        before = calls.tokens_by_model.get(model, _NO_TOKENS)
        calls.tokens_by_model = {
            **calls.tokens_by_model,
            model: ModelTokens(
                cut.total(before.input + (usage.input or 0)),
                cut.total(before.output + (usage.output or 0)),
                cut.total(before.cache_read + (usage.cache_read or 0)),
                cut.total(before.cache_write + (usage.cache_write or 0)),
            ),
        }
    calls.input = cut.total(calls.input + (usage.input or 0))
    calls.output = cut.total(calls.output + (usage.output or 0))
    calls.cache_read = cut.total(calls.cache_read + (usage.cache_read or 0))
    calls.cache_write = cut.total(calls.cache_write + (usage.cache_write or 0))
