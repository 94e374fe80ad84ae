"""Health: what the store declared, what was verified of it, and how its commits went."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from fastapi import APIRouter, Path, Request
from fastapi.responses import HTMLResponse, Response

from app import links, metrics, render, wiring
from app.deps import JobsDep, PartsDep, ReaderDep, RuntimeDep, WatchDep
from app.pages.imports import refused_since
from app.presenters import charts, watching
from app.presenters.format import count, size
from app.presenters.watching import WatchBlock
from app.render import Page
from store.ports import Check, GroupStats, LedgerRow, StoreFacts

router = APIRouter(include_in_schema=False)

INCIDENTS = 20
Chart = Literal["queue-wait", "storage-time", "group-size"]


@dataclass(frozen=True, slots=True)
class Histogram:
    """One histogram as a table, with the address of its chart."""

    name: str
    title: str
    unit: str
    href: str
    p50: str
    p99: str
    total: int
    rows: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class HealthPage(Page):
    """The health of this store."""

    template: ClassVar[str] = "pages/health.html"
    section: ClassVar[str] = "Health"

    now: int
    facts: StoreFacts
    checks: tuple[Check, ...]
    gate: Check | None
    stats: GroupStats
    histograms: tuple[Histogram, ...]
    rows: tuple[tuple[str, str], ...]
    refused: tuple[tuple[str, int], ...]
    refused_files: int
    """Files of imports that were refused, whole or in part, since the start."""
    incidents: tuple[LedgerRow, ...]
    lag: int
    trajectories: int
    versions: tuple[tuple[str, str], ...]
    watch: WatchBlock | None


def _bins(stats: GroupStats, name: Chart) -> Sequence[tuple[float, int]]:
    return {
        "queue-wait": stats.queue_wait_us,
        "storage-time": stats.storage_time_us,
        "group-size": stats.group_members,
    }[name]


#: (chart, heading, unit, what is counted, what the axis says)
CHARTS: tuple[tuple[Chart, str, str, str, str], ...] = (
    ("queue-wait", "Queue wait", "us", "appends", "wait before the flush"),
    ("storage-time", "Storage time", "us", "groups", "one durable flush"),
    ("group-size", "Group size", "n", "groups", "appends in one flush"),
)


def _histogram(stats: GroupStats, chart: tuple[Chart, str, str, str, str]) -> Histogram:
    name, title, unit, _, _ = chart
    bins = _bins(stats, name)
    shown = charts.trimmed(bins)
    labels = charts.bin_labels([bound for bound, _ in shown], unit)
    return Histogram(
        name,
        title,
        unit,
        links.health_chart(name),
        _bound(charts.quantile(bins, 0.5), unit),
        _bound(charts.quantile(bins, 0.99), unit),
        sum(number for _, number in bins),
        tuple(zip(labels, (number for _, number in shown), strict=True)),
    )


def _bound(bound: float | None, unit: str) -> str:
    if bound is None:
        return "none yet"
    return charts.bin_labels([bound], unit)[0]


@router.get("/health", response_class=HTMLResponse)
def health(
    request: Request,
    who: ReaderDep,
    runtime: RuntimeDep,
    parts: PartsDep,
    *,
    watch: WatchDep,
    jobs: JobsDep,
) -> Response:
    """The page."""
    facts, stats = runtime.facts(), runtime.stats()
    blobs, blob_bytes = runtime.blob_totals()
    heads = runtime.store.heads(who.tenant, limit=1000)
    behind = 0
    for head in heads[:200]:
        summary = runtime.summary(who, head.trajectory_id)
        as_of = summary.get("as_of_sequence") if summary else 0
        behind += head.sequence_number - (as_of if isinstance(as_of, int) else 0)
    ledger = runtime.ledger(who, limit=1000, newest=True)
    page = HealthPage(
        title="Health",
        now=runtime.clock(),
        facts=facts,
        checks=tuple(facts.checks),
        gate=next((check for check in facts.checks if "sqlite" in check.name.lower()), None),
        stats=stats,
        histograms=tuple(_histogram(stats, chart) for chart in CHARTS),
        rows=(
            ("Writer", stats.state),
            ("Queue", f"{count(stats.queue_members)} appends, {size(stats.queue_bytes)}"),
            ("Groups", f"{count(stats.groups)} for {count(stats.members)} appends"),
            ("Events", f"{count(stats.events)} since start"),
            ("Log", size(facts.size_bytes)),
            ("Free disk", size(facts.free_bytes)),
            ("Blobs", f"{count(blobs)}, {size(blob_bytes)}"),
            ("Data folder", str(parts.folder)),
        ),
        refused=tuple(metrics.refused_writes(request.app.state.refused, stats).items()),
        refused_files=len(refused_since(jobs, who)),
        incidents=tuple(row for row in ledger if row.kind == "incident")[-INCIDENTS:],
        lag=behind,
        trajectories=len(heads),
        versions=(
            ("Strandline", wiring.version()),
            ("Store", facts.engine),
            ("Schema", facts.schema_revision),
            ("Incarnation", facts.incarnation),
        ),
        watch=watching.block(watch.status()),
    )
    return render.respond(request, page)


@router.get("/health/charts/{name}")
def chart(who: ReaderDep, runtime: RuntimeDep, name: Annotated[Chart, Path()]) -> Response:
    """One figure as JSON."""
    _, _, unit, what, across = next(known for known in CHARTS if known[0] == name)
    figure = charts.histogram(_bins(runtime.stats(), name), unit, what, across)
    return Response(figure, media_type="application/json")
