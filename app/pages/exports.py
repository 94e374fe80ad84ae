"""A list as a file (rows, or whole logs in one archive), and two trajectories side by side."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

import orjson
from fastapi import APIRouter, Query, Request
from fastapi.responses import HTMLResponse, Response, StreamingResponse

from app import links, render
from app.deps import PartsDep, ReaderDep, RuntimeDep
from app.presenters import format as fmt
from app.presenters import table
from app.presenters.summaries import TrajectoryRow, row
from app.render import Page
from core.errors import InvalidInput, NotFound, TooLarge
from core.ids import trajectory_id as parse_trajectory_id
from core.limits import (
    COMPARE_EVENTS_MAX,
    EXPORT_LOGS_MAX,
    EXPORT_ROWS_MAX,
    PAGE_ROWS_MAX,
    QUERY_CHARS_MAX,
)
from core.principal import Principal
from runtime.listing import SORTS, Row
from runtime.service import Runtime

router = APIRouter(include_in_schema=False)

_PAGE = 200
_TIMES = frozenset({"started_at", "ended_at", "updated_at"})
#: A spreadsheet takes a cell that begins with one of these for a formula.
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


@router.get("/trajectories/export")
def export(
    who: ReaderDep,
    parts: PartsDep,
    *,
    form: Annotated[Literal["csv", "jsonl", "logs"], Query()],
    q: Annotated[str, Query(max_length=4 * QUERY_CHARS_MAX)] = "",
    sort: Annotated[str, Query(pattern=f"^(|{'|'.join(SORTS)})$")] = "",
    direction: Annotated[Literal["", "asc", "desc"], Query(alias="dir")] = "",
    ids: Annotated[list[str], Query(alias="id", max_length=PAGE_ROWS_MAX)] = [],  # noqa: B006
) -> Response:
    """Everything a query lists, or these trajectories; TooLarge beyond the bounds."""
    runtime = parts.runtime
    for one in ids:
        parse_trajectory_id(one)
    runtime.query(q).checked()
    most = EXPORT_LOGS_MAX if form == "logs" else EXPORT_ROWS_MAX
    # Counted first, so that nothing is left out in silence.
    rows = _rows(runtime, who, q, sort=sort, descending=direction != "asc", ids=ids)
    count = runtime.list(
        who, query=runtime.query(q), filters={"ids": ids, "hidden": (0, 1)} if ids else {},
        limit=1, count_most=most,
    )  # fmt: skip
    if not count.exact and count.total >= most:
        raise TooLarge(
            f"one export holds at most {most:,} {'logs' if form == 'logs' else 'rows'}; narrow "
            "the query, e.g. by updated:2025-03-01..2025-03-31"
        )
    if form == "logs":
        names = (str(one["trajectory_id"]) for one in rows)
        return StreamingResponse(
            parts.archive_chunks(who, names),
            media_type="application/zip",
            headers=_headers("trajectories.zip"),
        )
    if form == "csv":
        return StreamingResponse(
            _csv(rows),
            media_type="text/csv; charset=utf-8",
            headers=_headers("trajectories.csv"),
        )
    return StreamingResponse(
        (orjson.dumps(dict(one)) + b"\n" for one in rows),
        media_type="application/x-ndjson",
        headers=_headers("trajectories.jsonl"),
    )


def _headers(name: str) -> dict[str, str]:
    """Of a download: attachment, never sniffed, sandboxed."""
    return {
        "Content-Disposition": f'attachment; filename="{name}"',
        "Content-Security-Policy": "sandbox; default-src 'none'",
        "X-Content-Type-Options": "nosniff",
    }


def _rows(
    runtime: Runtime, who: Principal, q: str, *, sort: str, descending: bool, ids: list[str]
) -> Iterator[Row]:
    """Summaries, page after page; what moves in the order meanwhile may be met twice or not."""
    query = runtime.query(q)
    after = None
    seen: set[str] = set()
    while True:
        page = runtime.list(
            who,
            sort=sort or "updated",
            descending=descending,
            after=after,
            limit=PAGE_ROWS_MAX,
            query=query,
            filters={"ids": ids, "hidden": (0, 1)} if ids else {},
            count_most=0,
        )
        for one in page.rows:
            name = str(one["trajectory_id"])
            if name not in seen:
                seen.add(name)
                yield one
        after = page.after
        if after is None or len(seen) >= EXPORT_ROWS_MAX:
            return


def _csv(rows: Iterator[Row]) -> Iterator[bytes]:
    """With a heading; times as ISO 8601 UTC, absent values empty, amounts in their units."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\r\n")
    head = False
    for one in rows:
        if not head:
            writer.writerow(one)
            head = True
        writer.writerow([_cell(name, value) for name, value in one.items()])
        yield out.getvalue().encode()
        out.seek(0)
        out.truncate()
    if not head:
        yield b"trajectory_id\r\n"


def _cell(name: str, value: object) -> str:
    if value is None:
        return ""
    if name in _TIMES and isinstance(value, int):
        return fmt.iso(value)
    text = str(value)
    return f"'{text}" if isinstance(value, str) and text.startswith(_FORMULA) else text


@dataclass(frozen=True, slots=True)
class ComparePage(Page):
    """Two trajectories side by side."""

    template: ClassVar[str] = "pages/compare.html"
    section: ClassVar[str] = "Trajectories"

    now: int
    a: TrajectoryRow
    b: TrajectoryRow
    same: int
    """Leading events that state the same."""
    looked: int
    ended: bool
    """Whether a difference or the end of one of them was met."""
    a_at: str
    b_at: str
    """Addresses of the first events that differ; empty: none."""
    swap: str

    columns: ClassVar[tuple[table.Column, ...]] = table.COLUMNS


@router.get("/trajectories/compare", response_class=HTMLResponse)
def compare(
    request: Request,
    who: ReaderDep,
    runtime: RuntimeDep,
    ids: Annotated[list[str], Query(alias="id", max_length=PAGE_ROWS_MAX)] = [],  # noqa: B006
) -> Response:
    """A and B: their rows, and how far their logs state the same."""
    if len(ids) != 2 or ids[0] == ids[1]:
        raise InvalidInput(
            f"a comparison takes two trajectories, {len(ids)} were selected; go back and select "
            "two rows",
            field="id",
        )
    found = []
    for one in ids:
        parse_trajectory_id(one)
        runtime.head(who, one)
        summary = runtime.summary(who, one)
        if summary is None:
            raise NotFound(f"{one} has no summary yet; try again in a moment", trajectory_id=one)
        found.append(row(summary))
    same, looked, ended = _same(runtime, who, ids[0], ids[1])
    at = [
        links.boundary(one, same + 1)
        if ended and same < runtime.head(who, one).sequence_number
        else ""
        for one in ids
    ]
    page = ComparePage(
        title="Compare two trajectories",
        now=runtime.clock(),
        a=found[0],
        b=found[1],
        same=same,
        looked=looked,
        a_at=at[0],
        b_at=at[1],
        ended=ended,
        swap=links.compare_trajectories(ids[1], ids[0]),
    )
    return render.respond(request, page)


def _same(runtime: Runtime, who: Principal, a: str, b: str) -> tuple[int, int, bool]:
    """(leading events that state the same, events looked at, whether a difference or an end was
    met). Events state the same by type, version and payload digest."""
    same = 0
    while same < COMPARE_EVENTS_MAX:
        ours = runtime.events(who, a, after=same, limit=_PAGE)
        theirs = runtime.events(who, b, after=same, limit=_PAGE)
        for one, other in zip(ours, theirs, strict=False):
            if (one.type, one.schema_version, one.payload_digest) != (
                other.type,
                other.schema_version,
                other.payload_digest,
            ):
                return same, same + 1, True
            same += 1
        if len(ours) < _PAGE or len(theirs) < _PAGE:
            return same, same, True
    return same, same, False
