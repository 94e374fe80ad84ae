"""The reads, as wire forms: one function each, called by the API's routes and the command line."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from app import wire
from app.cursors import cursor, key_of
from core.acts import ActKind
from core.canonical import digest_text
from core.limits import EVENTS_PAGE_MAX, LIST_COUNT_MAX, PAGE_ROWS_MAX
from core.principal import Principal
from core.rules import price_list
from core.rules.completeness import completeness
from runtime.service import Runtime
from store.ports import Finding, Head

Wire = dict[str, Any]


def _source(runtime: Runtime, who: Principal, head: Head) -> Wire:
    """What the log that was read may claim (CLM-3)."""
    staged = runtime.staged(who, head.trajectory_id) if head.staged else ()
    return wire.source(completeness(head.standing, head.sequence_number, staged))


def list_page(
    runtime: Runtime,
    who: Principal,
    *,
    sort: str,
    descending: bool,
    after: str | None,
    limit: int,
    filters: dict[str, object],
    q: str = "",
    count: str = "some",
) -> Wire:
    """One page of summaries, with the cursor of the next; InvalidInput for a query with a
    mistake. `count` is `some` (to LIST_COUNT_MAX) or `exact`."""
    page = runtime.list(
        who,
        sort=sort,
        descending=descending,
        after=key_of(after),
        limit=limit,
        filters=filters,
        query=runtime.query(q).checked() if q else None,
        count_most=None if count == "exact" else LIST_COUNT_MAX,
    )
    complete = max((int(str(row.get("as_of_sequence") or 0)) for row in page.rows), default=0)
    return {
        "trajectories": [dict(row) for row in page.rows],
        "next_after": cursor(page.after),
        "total": page.total,
        "total_exact": page.exact,
        "index_behind": _behind(page.behind),
        "list_lacks": _behind(page.missing if any(page.missing) else None),
        "did_you_mean": [
            {"key": one.key, "given": one.given, "values": list(one.values), "alike": one.alike}
            for one in page.nearest
        ],
        "source": {
            "kind": "projection",
            "complete_to": complete,
            "text": "projection; each row is complete to its as_of_sequence",
        },
    }


def _behind(behind: tuple[int, int] | None) -> Wire | None:
    """How far the full-text index, or the list, is behind; None where it was not asked, or lacks
    nothing."""
    return None if behind is None else {"trajectories": behind[0], "events": behind[1]}


def search(
    runtime: Runtime,
    who: Principal,
    text: str,
    *,
    trajectory_id: str | None,
    after: int,
    limit: int,
) -> Wire:
    """Events that hold a text: of one trajectory in order, or the first of each."""
    if trajectory_id is not None:
        runtime.head(who, trajectory_id)
    page = runtime.search(who, text, trajectory_id=trajectory_id, after=after, limit=limit)
    return {
        "hits": [
            {
                "trajectory_id": hit.trajectory_id,
                "sequence_number": hit.sequence_number,
                "type": hit.type,
                "title": row["title"],
            }
            for hit, row in page.hits
        ],
        "hidden": page.hidden,
        "next_after": page.hits[-1][0].sequence_number
        if page.more and page.hits and trajectory_id is not None
        else None,
        "more": page.more,
        "index_behind": _behind(page.behind),
    }


def trajectory(runtime: Runtime, who: Principal, trajectory_id: str) -> Wire:
    """Head, standing, ownership, summary and import sources of one."""
    head = runtime.head(who, trajectory_id)
    summary = runtime.summary(who, trajectory_id)
    return {
        **wire.head(head),
        "summary": dict(summary) if summary is not None else None,
        "sources": [wire.import_source(item) for item in runtime.sources(who, trajectory_id)],
        "source": _source(runtime, who, head),
    }


def acts(
    runtime: Runtime,
    who: Principal,
    *,
    kinds: tuple[ActKind, ...],
    trajectory_id: str | None,
    after: int,
    limit: int,
) -> Wire:
    """Acts numbered above `after`, in order, and where to go on."""
    found = runtime.acts(
        who, kinds=kinds, trajectory_id=trajectory_id, after=after, limit=limit + 1
    )
    shown = found[:limit]
    last = shown[-1].number if shown else after
    return {
        "acts": [wire.act(one) for one in shown],
        "next_after": last if len(found) > limit else None,
        "source": wire.acts_source(last),
    }


def acts_of(
    runtime: Runtime,
    who: Principal,
    trajectory_id: str,
    *,
    kinds: tuple[ActKind, ...] = (),
    after: int = 0,
    limit: int = PAGE_ROWS_MAX,
) -> Wire:
    """Acts about one trajectory, and what they add up to now."""
    now = runtime.standing_of(who, trajectory_id)
    page = acts(runtime, who, kinds=kinds, trajectory_id=trajectory_id, after=after, limit=limit)
    return {**page, "now": wire.acted(now)}


def tree(runtime: Runtime, who: Principal, trajectory_id: str) -> Wire:
    """The tree that a trajectory is in, each node with its summary and its roll-up."""
    found = runtime.tree(who, trajectory_id)
    complete = max((_sequence(one.summary) for one in found.nodes), default=0)
    return {
        "here": found.here,
        "nodes": [
            {
                "trajectory_id": one.trajectory_id,
                "depth": one.depth,
                "parent_id": one.summary["parent_id"],
                "parent_operation": one.summary["parent_operation"],
                "children": one.children,
                "summary": dict(one.summary),
                "rolled": dataclasses.asdict(one.rolled),
            }
            for one in found.nodes
        ],
        "missing_parent": found.missing_parent,
        "left_out": list(found.left_out),
        "cut": sorted(found.cut),
        "source": {
            "kind": "projection",
            "complete_to": complete,
            "text": "projection; each node is complete to the as_of_sequence of its summary",
        },
    }


def _sequence(summary: Mapping[str, object]) -> int:
    value = summary.get("as_of_sequence")
    return value if isinstance(value, int) else 0


def prices(runtime: Runtime, who: Principal) -> Wire:
    """The price table, shipped rows and stated ones, and the newest act about it."""
    table = runtime.price_table(who)
    made = runtime.price_acts(who)
    last = made[-1].number if made else 0
    return {
        "prices": [wire.plain(row) for row in table.rows],
        "digest": table.digest,
        "checked": price_list.CHECKED,
        "last_act": last,
        "source": wire.acts_source(last),
    }


def events(
    runtime: Runtime,
    who: Principal,
    trajectory_id: str,
    *,
    after: int,
    upto: int | None,
    limit: int,
) -> Wire:
    """Events with after < sequence_number <= upto, and where to go on."""
    head = runtime.head(who, trajectory_id)
    last = head.sequence_number if upto is None else min(upto, head.sequence_number)
    found = runtime.events(who, trajectory_id, after=after, upto=last, limit=limit)
    more = bool(found) and found[-1].sequence_number < last
    return {
        "events": [wire.event(event) for event in found],
        "next_after": found[-1].sequence_number if more else None,
        "source": _source(runtime, who, head),
    }


def event_lines(
    runtime: Runtime, who: Principal, trajectory_id: str, after: int, upto: int | None
) -> Iterator[bytes]:
    """The same range, whole, one event a line."""
    head = runtime.head(who, trajectory_id).sequence_number
    return _lines(runtime, who, trajectory_id, after, head if upto is None else min(upto, head))


def _lines(
    runtime: Runtime, who: Principal, trajectory_id: str, after: int, last: int
) -> Iterator[bytes]:
    while after < last:
        part = runtime.events(who, trajectory_id, after=after, upto=last, limit=EVENTS_PAGE_MAX)
        if not part:
            return
        yield b"".join(wire.jsonl(wire.event(event)) for event in part)
        after = part[-1].sequence_number


def event(runtime: Runtime, who: Principal, trajectory_id: str, sequence_number: int) -> Wire:
    """One event, and whether this version knows its type."""
    found = runtime.event(who, trajectory_id, sequence_number)
    return {
        "event": wire.event(found),
        "known": runtime.typed(who, found) is not None,
        "source": _source(runtime, who, runtime.head(who, trajectory_id)),
    }


def record(runtime: Runtime, who: Principal, trajectory_id: str, boundary: int | None) -> Wire:
    """The record at a boundary; None is the head. NotReconstructed where this version cannot fold
    an event up to there (LOG-6)."""
    view = runtime.record_at(who, trajectory_id, boundary)
    return {
        "boundary": view.boundary,
        "record": wire.fragment(view.require_reconstructed()),
        "snapshot_boundary": view.snapshot_boundary,
        "folded": view.folded,
        "elapsed_us": view.elapsed_us,
        "source": _source(runtime, who, view.head),
    }


def records(
    runtime: Runtime, who: Principal, trajectory_id: str, first: int, last: int | None
) -> Iterator[Wire]:
    """The record of every boundary from `first` to `last` (None: the head), by one fold."""
    for found in runtime.walk(who, trajectory_id, first, last):
        yield {"boundary": found.boundary, "record": wire.fragment(found)}


def difference(runtime: Runtime, who: Principal, trajectory_id: str, a: int, b: int) -> Wire:
    """Paths that differ between two boundaries, both of which this version must be able to fold."""
    runtime.record_at(who, trajectory_id, max(a, b)).require_reconstructed()
    found = runtime.difference(who, trajectory_id, a, b)
    return {
        "a": a,
        "b": b,
        "difference": wire.fragment(found),
        "source": _source(runtime, who, runtime.head(who, trajectory_id)),
    }


def verified(
    runtime: Runtime, who: Principal, trajectory_id: str, upto: int | None = None
) -> Iterator[Wire]:
    """Re-derive digests and chain: `{progress}`, `{finding}`, at last `{done}`."""
    head = runtime.head(who, trajectory_id)
    last = head.sequence_number if upto is None else min(upto, head.sequence_number)
    return _verified(runtime, who, head, last)


def _verified(runtime: Runtime, who: Principal, head: Head, last: int) -> Iterator[Wire]:
    trajectory_id = head.trajectory_id
    findings = 0
    for number, found in runtime.verify(who, trajectory_id, upto=last):
        if found is None:
            yield {"progress": number, "of": last}
        else:
            findings += 1
            yield {"finding": wire.finding(found)}
    chain = runtime.event(who, trajectory_id, last).chain if last else None
    yield {
        "done": True,
        "trajectory_id": trajectory_id,
        "verified_to": last,
        "chain": digest_text(chain) if chain is not None else None,
        "findings": findings,
        "source": _source(runtime, who, head),
    }


def verified_all(runtime: Runtime, who: Principal) -> Iterator[Wire]:
    """The same for every trajectory of the tenant, each with its own `{done}`; then the sum."""
    after, trajectories, findings = "", 0, 0
    while heads := runtime.heads(who, after=after):
        for head in heads:
            for step in verified(runtime, who, head.trajectory_id):
                findings += int(step.get("findings", 0))
                yield step
            trajectories += 1
        after = heads[-1].trajectory_id
    yield {"all_done": True, "trajectories": trajectories, "findings": findings}


def audited(steps: Iterable[Finding | str]) -> Iterator[Wire]:
    """Every stored invariant: `{progress}`, `{finding}`, at last `{done}`."""
    findings = 0
    for step in steps:
        if isinstance(step, str):
            yield {"progress": step}
        else:
            findings += 1
            yield {"finding": wire.finding(step)}
    yield {"done": True, "findings": findings}


def ledger(
    runtime: Runtime, who: Principal, trajectory_id: str | None, after: int, limit: int
) -> Wire:
    """Refused writes and incidents, of one trajectory or of all."""
    if trajectory_id is not None:
        runtime.head(who, trajectory_id)
    rows = runtime.ledger(who, trajectory_id=trajectory_id, after=after, limit=limit)
    return {
        "rows": [wire.ledger_row(row) for row in rows],
        "next_after": rows[-1].number if len(rows) == limit else None,
        "source": wire.ledger_source(rows[-1].number if rows else after),
    }


def facts(runtime: Runtime, who: Principal, version: str) -> Wire:
    """What was declared of the store, what was verified, and how it is now."""
    return {
        **wire.plain(runtime.facts()),
        "state": runtime.stats().state,
        "tenant": who.tenant,
        "version": version,
    }
