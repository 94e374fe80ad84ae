"""A list as a file: rows, or whole logs in one archive."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from typing import Annotated, Literal
from urllib.parse import parse_qsl

import orjson
from fastapi import APIRouter, Query
from fastapi.responses import RedirectResponse, Response, StreamingResponse

from app import links
from app.deps import PartsDep, ReaderDep
from app.presenters import format as fmt
from core.errors import TooLarge
from core.ids import trajectory_id as parse_trajectory_id
from core.limits import (
    EXPORT_LOGS_MAX,
    EXPORT_ROWS_MAX,
    PAGE_ROWS_MAX,
    QUERY_CHARS_MAX,
)
from core.principal import Principal
from runtime.listing import SORTS, Row
from runtime.service import Runtime

router = APIRouter(include_in_schema=False)

#: The state of a list, as its form sends it along.
_BACK_CHARS_MAX = 8 * QUERY_CHARS_MAX
_TIMES = frozenset({"started_at", "ended_at", "last_at", "active_at", "updated_at"})
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
    back: Annotated[str | None, Query(max_length=_BACK_CHARS_MAX)] = None,
) -> Response:
    """Everything a query lists, or these trajectories; TooLarge beyond the bounds. Sent by the
    list's selection (`back`) without one, it leads back to the list, which says what to do."""
    runtime = parts.runtime
    for one in ids:
        parse_trajectory_id(one)
    if back is not None and not ids:
        return RedirectResponse(links.picked(dict(parse_qsl(back)), "export", ids), 303)
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
            sort=sort or "active",
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
