"""The first page: the way to one's own files while the store is empty, then what is in it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse, Response

from app import links, render
from app.deps import PartsDep, ReaderDep, RuntimeDep, WatchDep
from app.pages import reading
from app.pages.activity import HALF_HOUR, Day, activity
from app.pages.live import newest_change
from app.paths import program
from app.presenters import attention, charts, strip, table
from app.presenters.attention import Aside, Waiting
from app.presenters.format import DAY, count, duration, plural, size
from app.presenters.formats import FORMATS, Format
from app.presenters.strip import Strip
from app.presenters.summaries import TrajectoryRow, row
from app.presenters.terminal import one_line
from app.render import Page
from core.errors import StrandlineError
from core.principal import Principal
from core.query import OPEN
from runtime.service import ListPage, Runtime
from store.ports import GroupStats

router = APIRouter(include_in_schema=False)

RECENT = 12
#: Trajectories with something unsettled whose records are looked into, the longest waiting first.
LOOKED = 24
LEDGER_ROWS = 1000
#: An incident stays on the list so long; it stays under Health and Evidence for ever.
INCIDENT_DAYS = 7
OURS = ("gated", "reported")
FOREIGN = ("imported", "replica")


@dataclass(frozen=True, slots=True)
class FirstRunPage(Page):
    """Nothing is here yet: how to bring one's own sessions."""

    template: ClassVar[str] = "pages/first_run.html"
    section: ClassVar[str] = "Overview"

    formats: tuple[Format, ...]
    data_folder: str
    command: str
    demo: str


@dataclass(frozen=True, slots=True)
class OverviewPage(Page):
    """What needs a person, what goes on, the store, and the newest trajectories."""

    template: ClassVar[str] = "pages/overview.html"
    parts: ClassVar[Mapping[str, str]] = {"newer": "partials/_newer.html"}
    section: ClassVar[str] = "Overview"

    now: int
    waiting: tuple[Waiting, ...]
    waiting_total: int
    not_looked: int
    """Trajectories with something unsettled that were not looked into."""
    asides: tuple[Aside, ...]
    facts: tuple[tuple[str, str], ...]
    domain: str
    verified: bool
    day: Day
    strip: Strip
    rows: tuple[TrajectoryRow, ...]
    columns: tuple[table.Column, ...]
    total: int
    by_status: tuple[tuple[str, int], ...]
    since: int
    """The newest change that this page knows."""
    newer: int = 0


@router.get("/", response_class=HTMLResponse)
def home(
    request: Request, who: ReaderDep, runtime: RuntimeDep, parts: PartsDep, watch: WatchDep
) -> Response:
    """First-run page or overview."""
    found = runtime.list(who, limit=RECENT)
    if not found.total:
        folder = str(parts.folder)
        return render.respond(
            request,
            FirstRunPage(
                title="Start here",
                formats=FORMATS,
                data_folder=folder,
                command=f"{program()} import PATH --data {_shell(folder)}",
                demo=f"{program()} demo",
            ),
        )
    return render.respond(request, _overview(runtime, who, found, watch.following()))


def _overview(
    runtime: Runtime, who: Principal, found: ListPage, followed: frozenset[str]
) -> OverviewPage:
    now = runtime.clock()
    counted = runtime.projections.count_summaries
    waiting, not_looked = _waiting(runtime, who, now)
    store, stats = runtime.facts(), runtime.stats()
    blobs, blob_bytes = runtime.blob_totals()
    day = activity(runtime).day(runtime, who)
    rows = tuple(row(summary, now, followed) for summary in found.rows)
    states = [
        (status, counted(who.tenant, {"state": status}))
        for status in (
            "RUNNING", "PAUSED", "AWAITING_APPROVAL", "COMPLETED", "FAILED", "CANCELLED", OPEN
        )
    ]  # fmt: skip
    return OverviewPage(
        title="Overview",
        now=now,
        waiting=tuple(waiting[: attention.SHOWN]),
        waiting_total=len(waiting),
        not_looked=not_looked,
        asides=_asides(runtime, who, now),
        facts=(
            ("Group commit", _commits(stats)),
            ("Queue", f"{count(stats.queue_members)} waiting, writer {stats.state}"),
            ("Log", f"{size(store.size_bytes)}, {store.engine}"),
            ("Blobs", f"{count(blobs)}, {size(blob_bytes)}"),
            ("Disk", f"{size(store.free_bytes)} free"),
        ),
        domain=store.declared_domain,
        verified=store.verified,
        day=day,
        strip=strip.build(day.begins, day.events, HALF_HOUR),
        rows=rows,
        columns=table.chosen((), rows),
        total=counted(who.tenant, {}),
        by_status=tuple((status, number) for status, number in states if number),
        since=newest_change(runtime, who),
    )


def _waiting(runtime: Runtime, who: Principal, now: int) -> tuple[list[Waiting], int]:
    """Everything that waits for a person, by urgency, and how many trajectories with something
    unsettled were not looked into."""
    found: list[Waiting] = []
    looked: set[str] = set()
    listed = runtime.projections.list_summaries
    open_: dict[str, object] = {"unsettled__ge": 1, "standing": list(OURS)}
    held: dict[str, object] = {"status": "AWAITING_APPROVAL"}
    for filters in (held, open_):
        for summary in listed(
            who.tenant, sort="updated", descending=False, after=None, limit=LOOKED, filters=filters
        ):
            trajectory_id = str(summary["trajectory_id"])
            if trajectory_id not in looked:
                looked.add(trajectory_id)
                found += _of_trajectory(runtime, who, summary, now)
    for summary in listed(
        who.tenant,
        sort="updated",
        descending=True,
        after=None,
        limit=LOOKED,
        filters={"blocked__ge": 1},
    ):
        updated_at = summary["updated_at"]
        found.append(
            attention.of_blocked(
                str(summary["trajectory_id"]),
                _title(summary),
                updated_at if isinstance(updated_at, int) else now,
                now,
            )
        )
    for entry in runtime.ledger(who, limit=LEDGER_ROWS, newest=True):
        if entry.kind == "incident" and entry.recorded_at > now - INCIDENT_DAYS * DAY:
            summary_of = runtime.summary(who, entry.trajectory_id)
            title = _title(summary_of) if summary_of else entry.trajectory_id
            found.append(attention.of_incident(entry, title, now))
    several = runtime.projections.count_summaries(who.tenant, open_)
    return attention.ordered(found, now), max(0, several - LOOKED)


def _of_trajectory(
    runtime: Runtime, who: Principal, summary: Mapping[str, object], now: int
) -> list[Waiting]:
    trajectory_id = str(summary["trajectory_id"])
    try:
        head = runtime.head(who, trajectory_id)
        known = reading.records(runtime)
        record = known.get(runtime, who, trajectory_id, head.sequence_number).record
        return [
            attention.at(one, runtime.event(who, trajectory_id, one.since).recorded_at, now)
            for one in attention.of_record(record, head, _title(summary), now)
        ]
    except StrandlineError:
        # What cannot be folded is in the list as such; the others are not lost for it.
        return []


def _title(summary: Mapping[str, object]) -> str:
    return one_line(str(summary.get("title") or summary["trajectory_id"]), 100)


def _asides(runtime: Runtime, who: Principal, now: int) -> tuple[Aside, ...]:
    counted = runtime.projections.count_summaries
    found = []
    if open_ := counted(who.tenant, {"unsettled__ge": 1, "standing": list(OURS)}):
        found.append(attention.in_flight(open_, links.trajectories(q="unsettled:>0")))
    if failed := counted(who.tenant, {"status": "FAILED", "updated_at__gt": now - DAY}):
        found.append(attention.failed(failed, links.trajectories(q="status:failed")))
    if unknown := counted(who.tenant, {"unsettled__ge": 1, "standing": list(FOREIGN)}):
        found.append(attention.unknown(unknown, links.trajectories(q="unknown:>0")))
    if any(lacking := runtime.projections.missing(who.tenant)):
        found.append(attention.lag("lists and counts", max(1, lacking[0]), lacking[1]))
    if runtime.text_index is not None:
        trajectories, events = runtime.text_index.behind(who.tenant)
        found.append(attention.lag("text index", trajectories, events))
    return tuple(found)


def _commits(stats: GroupStats) -> str:
    if not stats.groups:
        return "none since this server started"
    times = [charts.quantile(stats.storage_time_us, part) for part in (0.5, 0.99)]
    said = [
        f"{name} ≤ {duration(int(found))}" if found not in (None, float("inf")) else f"{name} more"
        for name, found in zip(("p50", "p99"), times, strict=True)
    ]
    return f"{' · '.join(said)}, {count(stats.groups)} for {plural(stats.events, 'event')}"


def _shell(path: str) -> str:
    """A path as one shell word."""
    safe = all(char.isalnum() or char in "/._-+" for char in path)
    return path if safe else "'" + path.replace("'", "'\"'\"'") + "'"
