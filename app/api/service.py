"""The service itself: does it live, does it take writes, what does it count, what can it do."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request, Response

from app import auth, metrics, reads
from app.api import answers
from app.deps import PartsDep, ReaderDep, RuntimeDep, WatchDep
from store.ports import GroupStats, StoreFacts

router = APIRouter(tags=["service"])


class Live(answers.Answer):
    """The process answers."""

    live: bool


class Ready(answers.Answer):
    """Whether writes are taken, and if not, why."""

    ready: bool
    state: str
    reasons: list[str]


class Facts(answers.Answer):
    """What was declared of the store, and what was verified."""

    declared_domain: str
    verified: bool
    checks: list[dict[str, Any]]
    incarnation: str
    schema_revision: str
    engine: str
    path: str
    size_bytes: int
    free_bytes: int
    state: str
    tenant: str
    version: str


@router.get(
    "/livez", operation_id="livez", response_model=Live, dependencies=[auth.public()],
    responses=answers.problems(),
)  # fmt: skip
async def livez() -> Response:
    """200 while the process answers."""
    return answers.json({"live": True})


@router.get(
    "/readyz",
    operation_id="readyz",
    response_model=Ready,
    dependencies=[auth.public()],
    responses={**answers.problems(), 503: {"model": Ready, "description": "takes no writes"}},
)
def readyz(runtime: RuntimeDep) -> Response:
    """200 while writes are taken; 503 with the reasons otherwise. Reads may still work."""
    stats = runtime.stats()
    reasons = not_ready(stats, runtime.facts())
    return answers.json(
        {"ready": not reasons, "state": stats.state, "reasons": reasons},
        503 if reasons else 200,
        {"Retry-After": "5"} if reasons else None,
    )


def not_ready(stats: GroupStats, facts: StoreFacts) -> list[str]:
    """Why the store takes no writes; empty if it does. Codes only: anybody may ask."""
    reasons: list[str] = []
    if stats.state != "open":
        reasons.append(stats.state)
    # A warning was allowed by the owner, and is shown; anything else breaks the promise.
    if any(not check.ok and not check.warning for check in facts.checks):
        reasons.append("domain_not_verified")
    return reasons


@router.get(
    "/metrics",
    operation_id="metrics",
    response_class=Response,
    responses={
        **answers.problems(),
        200: {"content": {"text/plain": {"schema": {"type": "string"}}}},
    },
)
def read_metrics(request: Request, who: ReaderDep, runtime: RuntimeDep) -> Response:
    """Counters in the text format of Prometheus."""
    text = metrics.exposition(runtime, request.app.state.refused)
    return Response(text, headers={"Content-Type": metrics.CONTENT_TYPE})


class WatchAnswer(answers.Answer):
    """What the watched folders are doing."""

    watching: bool
    folders: list[str]
    files: int
    growing: int
    waiting: int
    looked_at_seconds_ago: float | None
    every_seconds: float | None
    problems: list[dict[str, str]]
    failure: str | None


@router.get(
    "/v1/watch", operation_id="watch", response_model=WatchAnswer, responses=answers.problems()
)
def watched(who: ReaderDep, watch: WatchDep) -> Response:
    """The watched folders (STRANDLINE_WATCH): files there, growing, waiting, not taken."""
    status = watch.status()
    return answers.json(
        {
            "watching": status is not None,
            "folders": list(status.paths) if status else [],
            "files": status.files if status else 0,
            "growing": status.growing if status else 0,
            "waiting": status.waiting if status else 0,
            "looked_at_seconds_ago": status.looked_at if status else None,
            "every_seconds": status.every_seconds if status else None,
            "problems": [{"path": name, "why": why} for name, why in status.problems]
            if status
            else [],
            "failure": status.failure if status else None,
        }
    )


@router.get("/v1/facts", operation_id="facts", response_model=Facts, responses=answers.problems())
def facts(who: ReaderDep, parts: PartsDep) -> Response:
    """The declared and verified failure domain, and what was checked for it."""
    return answers.json(reads.facts(parts.runtime, who, parts.version))


@router.get(
    "/openapi.json", operation_id="openapi", response_class=Response, responses=answers.problems()
)
def openapi(request: Request, who: ReaderDep) -> Response:
    """This description. There is no page that would load a viewer from elsewhere."""
    return answers.json(request.app.openapi())
