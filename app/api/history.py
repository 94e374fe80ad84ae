"""Time travel and proof: the record at a boundary, differences, verification, ledger, export."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Response
from starlette.responses import StreamingResponse

from app import reads, wire
from app.api import answers
from app.api.events import download_headers
from app.deps import OperatorDep, PartsDep, ReaderDep, RuntimeDep, TrajectoryPath
from core.errors import InvalidInput
from core.limits import INTEGER_MAX

router = APIRouter(prefix="/v1", tags=["history"])
_ONE = "/trajectories/{trajectory_id}"
_LINES: dict[int | str, dict[str, Any]] = {
    200: {"content": {answers.JSONL: {"schema": {"type": "string"}}}}
}

Boundary = Annotated[int, Query(ge=0, le=INTEGER_MAX, description="a boundary; 0 is the base")]


@router.get(
    _ONE + "/record/{boundary}",
    operation_id="read_record",
    response_model=answers.RecordAnswer,
    responses=answers.problems(404, 409),
)
def record(
    trajectory_id: TrajectoryPath,
    boundary: Annotated[
        str, Path(pattern=r"^(head|[0-9]{1,15})$", description="a boundary, or head")
    ],
    who: ReaderDep,
    runtime: RuntimeDep,
) -> Response:
    """The record that the first `boundary` events represent."""
    wanted = None if boundary == "head" else int(boundary)
    return answers.json(reads.record(runtime, who, trajectory_id, wanted))


@router.get(
    _ONE + "/records",
    operation_id="read_records",
    response_class=StreamingResponse,
    responses={**answers.problems(404, 409), **_LINES},
)
def records(
    trajectory_id: TrajectoryPath,
    who: ReaderDep,
    runtime: RuntimeDep,
    first: Boundary = 0,
    last: Annotated[int | None, Query(ge=0, le=INTEGER_MAX)] = None,
) -> Response:
    """The record of every boundary from `first` to `last`, by one fold; a line for each."""
    upto = runtime.record_at(who, trajectory_id, last).boundary
    runtime.record_at(who, trajectory_id, first)
    if first > upto:
        raise InvalidInput("the first boundary is not beyond the last", field="first")
    steps = reads.records(runtime, who, trajectory_id, first, upto)
    return StreamingResponse((wire.jsonl(step) for step in steps), media_type=answers.JSONL)


@router.get(
    _ONE + "/difference",
    operation_id="read_difference",
    response_model=answers.DifferenceAnswer,
    responses=answers.problems(404, 409),
)
def difference(
    trajectory_id: TrajectoryPath, a: Boundary, b: Boundary, who: ReaderDep, runtime: RuntimeDep
) -> Response:
    """Paths of the record that differ between two boundaries, each with old and new."""
    return answers.json(reads.difference(runtime, who, trajectory_id, a, b))


@router.get(
    _ONE + "/verify",
    operation_id="verify",
    response_class=StreamingResponse,
    responses={**answers.problems(404), **_LINES},
)
def verify(
    trajectory_id: TrajectoryPath,
    who: ReaderDep,
    runtime: RuntimeDep,
    upto: Annotated[int | None, Query(ge=1, le=INTEGER_MAX)] = None,
) -> Response:
    """Re-derive digests and chain. Lines: `{progress}`, `{finding}`, at last `{done}`."""
    steps = reads.verified(runtime, who, trajectory_id, upto)
    return StreamingResponse((wire.jsonl(step) for step in steps), media_type=answers.JSONL)


@router.get(
    "/verify",
    operation_id="verify_all",
    response_class=StreamingResponse,
    responses={**answers.problems(), **_LINES},
)
def verify_all(who: ReaderDep, runtime: RuntimeDep) -> Response:
    """The same for every trajectory, each with its `{done}`; at last `{all_done}`."""
    steps = reads.verified_all(runtime, who)
    return StreamingResponse((wire.jsonl(step) for step in steps), media_type=answers.JSONL)


@router.get(
    _ONE + "/export",
    operation_id="export",
    response_class=StreamingResponse,
    responses={**answers.problems(404), **_LINES},
)
def export(trajectory_id: TrajectoryPath, who: ReaderDep, parts: PartsDep) -> Response:
    """The native log export; it re-imports to the same chain, read-only."""
    head = parts.runtime.head(who, trajectory_id)
    return StreamingResponse(
        parts.export_chunks(who, trajectory_id),
        media_type=answers.JSONL,
        headers=download_headers(f"{trajectory_id}.strandline.jsonl", head.chain.hex()),
    )


LedgerAfter = Annotated[int, Query(ge=0, le=INTEGER_MAX, description="rows beyond this number")]
LedgerLimit = Annotated[int, Query(ge=1, le=1000)]


@router.get(
    _ONE + "/ledger",
    operation_id="read_trajectory_ledger",
    response_model=answers.LedgerAnswer,
    responses=answers.problems(404),
)
def trajectory_ledger(
    trajectory_id: TrajectoryPath,
    who: ReaderDep,
    runtime: RuntimeDep,
    *,
    after: LedgerAfter = 0,
    limit: LedgerLimit = 200,
) -> Response:
    """Refused writes and incidents of one trajectory."""
    return answers.json(reads.ledger(runtime, who, trajectory_id, after, limit))


@router.get(
    "/ledger",
    operation_id="read_ledger",
    response_model=answers.LedgerAnswer,
    responses=answers.problems(),
)
def ledger(
    who: ReaderDep, runtime: RuntimeDep, after: LedgerAfter = 0, limit: LedgerLimit = 200
) -> Response:
    """Refused writes and incidents of every trajectory."""
    return answers.json(reads.ledger(runtime, who, None, after, limit))


@router.get(
    "/audit",
    operation_id="audit",
    response_class=StreamingResponse,
    responses={**answers.problems(), **_LINES},
)
def audit(who: OperatorDep, parts: PartsDep) -> Response:
    """Check every stored invariant of this tenant and of the file.

    Lines: `{progress}`, `{finding}`, at last `{done}`.
    """
    steps = reads.audited(parts.audit(who))
    return StreamingResponse((wire.jsonl(step) for step in steps), media_type=answers.JSONL)
