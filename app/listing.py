"""The list of trajectories on the command line."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, get_args

from app import console
from app.console import Column
from app.presenters import format as fmt
from app.presenters.standing import list_word
from app.presenters.summaries import partial
from core.errors import InvalidInput
from core.events.control import ControlState
from core.events.envelope import Standing
from core.limits import PAGE_ROWS_MAX
from core.query import OPEN
from runtime.service import SORTS

if TYPE_CHECKING:
    from app.backend import Backend

Wire = dict[str, Any]
COLUMNS = (
    Column("ID"),
    Column("TITLE", stretches=True),
    Column("SOURCE", wide=True),
    Column("STANDING", wide=True),
    Column("STATUS"),
    Column("STEP", right=True, wide=True),
    Column("EVENTS", right=True),
    Column("UNSETTLED", right=True, wide=True),
    Column("TOKENS", right=True, wide=True),
    Column("ACTIVE", wide=True),
)


def collect(
    backend: Backend, *, sort: str, descending: bool, limit: int, filters: Wire, q: str = ""
) -> tuple[list[Wire], int, bool]:
    """Up to `limit` rows, page by page; how many there are, and whether that is all of them."""
    rows: list[Wire] = []
    after: str | None = None
    while True:
        page = backend.list_page(
            sort=sort,
            descending=descending,
            after=after,
            limit=min(PAGE_ROWS_MAX, limit - len(rows)),
            filters=filters | ({"q": q} if q else {}),
        )
        rows.extend(page["trajectories"])
        after = page["next_after"]
        if after is None or len(rows) >= limit:
            say_behind(page["index_behind"])
            _say_lacking(page.get("list_lacks"))
            for one in page.get("did_you_mean", ()):
                _suggest(one)
            total = max(int(page["total"]), len(rows))
            return rows, total, bool(page["total_exact"]) or after is None


def search(
    backend: Backend, text: str, *, within: str | None, limit: int
) -> tuple[list[Wire], Wire]:
    """Up to `limit` hits, and how far the index is behind."""
    hits: list[Wire] = []
    after = 0
    while True:
        page = backend.search(
            text, trajectory_id=within, after=after, limit=min(PAGE_ROWS_MAX, limit - len(hits))
        )
        hits.extend(page["hits"])
        if page["next_after"] is None or len(hits) >= limit:
            return hits, page["index_behind"]
        after = page["next_after"]


def show_hits(hits: list[Wire]) -> None:
    """Where each hit is, as an argument of `show`."""
    if not hits:
        console.note("no event holds it; words are matched whole, and pars* begins a word")
        return
    console.table(
        (Column("BOUNDARY"), Column("EVENT"), Column("TITLE", stretches=True)),
        [
            (
                f"{hit['trajectory_id']}@{hit['sequence_number']}",
                console.safe(hit["type"], 40),
                _text(hit["title"], 60),
            )
            for hit in hits
        ],
    )


def say_behind(behind: Wire | None) -> None:
    """A note where the full-text index lacks something."""
    if behind is not None and behind["events"]:
        console.note(
            f"the search index lacks {behind['events']:,} events of "
            f"{behind['trajectories']:,} trajectories; what they hold may be missing"
        )


def _say_lacking(lacks: Wire | None) -> None:
    """A note where the list itself is being made again."""
    if lacks is not None:
        console.note(
            f"the list is being made again from the log and lacks {lacks['trajectories']:,} "
            f"trajectories ({lacks['events']:,} events) so far"
        )


def _suggest(one: Wire) -> None:
    """A note on a value that nothing has."""
    values = ", ".join(console.safe(value, 60) for value in one["values"])
    what = f"no {console.safe(one['key'], 20)} is “{console.safe(one['given'], 60)}”"
    console.note(f"{what}; {'did you mean' if one['alike'] else 'there are'} {values}")


def check_sort(sort: str) -> None:
    """InvalidInput for a column that the list is not sorted by."""
    if sort not in SORTS:
        raise InvalidInput(
            f"--sort is “{console.safe(sort, 40)}”; expected: one of {', '.join(SORTS)}",
            field="sort",
        )


def filters(*, text: str | None, status: str | None, standing: str | None) -> dict[str, str]:
    """The filters that were given; InvalidInput for a state or standing that there is none of."""
    found = {}
    for name, value, known in (
        ("status", status, (*get_args(ControlState), OPEN)),
        ("standing", standing, get_args(Standing)),
    ):
        if value is None:
            continue
        match = next((one for one in known if one.lower() == value.lower()), None)
        if match is None:
            raise InvalidInput(
                f"--{name} is “{console.safe(value, 40)}”; expected: one of {', '.join(known)}",
                field=name,
            )
        found[name] = match
    if text is not None:
        found["text"] = text
    return found


def show(rows: list[Wire], total: int, filters: Mapping[str, str], *, exact: bool) -> None:
    """A table; absent values are a dash."""
    if not rows and filters:
        given = " ".join(f"--{name} {console.safe(value, 60)}" for name, value in filters.items())
        console.note(f"no trajectory matches {given}; the list without it has what there is")
        return
    if not rows:
        console.note(console.as_run("no trajectories; import some with `strandline import PATH`"))
        return
    shown = console.table(COLUMNS, [_row(row) for row in rows])
    if "TOKENS" in shown and any(partial(row["unreported"] or 0, None) for row in rows):
        console.note(">=: some replies state no tokens, so there are at least so many")
    if total > len(rows) or not exact:
        more = "" if exact else "more than "
        console.note(f"{len(rows)} of {more}{total}; more with --limit")


def _row(row: Wire) -> tuple[str, ...]:
    active = row["active_at"]
    return (
        row["trajectory_id"],
        _text(row["title"], 60),
        _text(row["source"]),
        _text(row["standing"]),
        _text(list_word(row["status"] or "-", row["standing"] or "")[0]),
        _text(row["step"]),
        _text(row["events"]),
        _text(row["unsettled"]),
        _tokens(row),
        fmt.iso(active) if isinstance(active, int) else "-",
    )


def _tokens(row: Wire) -> str:
    """All kinds that replies state; `>=` where some replies state none."""
    total = row["tokens"]
    if not isinstance(total, int):
        return "-"
    return f">= {fmt.count(total)}" if partial(row["unreported"] or 0, None) else fmt.count(total)


def _text(value: object, limit: int = 40) -> str:
    return "-" if value is None or value == "" else console.safe(value, limit)
