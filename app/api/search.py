"""Full-text search over all trajectories, or in one."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Response

from app import reads
from app.api import answers
from app.deps import ReaderDep, RuntimeDep
from core.ids import TRAJECTORY_PATTERN
from core.limits import EVENTS_PER_TRAJECTORY_MAX, PAGE_ROWS, PAGE_ROWS_MAX, QUERY_CHARS_MAX

router = APIRouter(prefix="/v1/search", tags=["trajectories"])


@router.get(
    "",
    operation_id="search",
    response_model=answers.SearchAnswer,
    responses=answers.problems(404, 503),
)
def search(
    who: ReaderDep,
    runtime: RuntimeDep,
    *,
    text: Annotated[
        str,
        Query(
            min_length=1,
            max_length=QUERY_CHARS_MAX,
            description="words that one event must all hold; `pars*`, or a phrase in quotes",
            examples=["timeout"],
        ),
    ],
    trajectory_id: Annotated[str | None, Query(pattern=TRAJECTORY_PATTERN)] = None,
    after: Annotated[int, Query(ge=0, le=EVENTS_PER_TRAJECTORY_MAX)] = 0,
    limit: Annotated[int, Query(ge=1, le=PAGE_ROWS_MAX)] = PAGE_ROWS,
) -> Response:
    """Events that hold a text: in one trajectory all of them in order, else the first of each.

    The index follows the log; `index_behind` says how much it lacks.
    """
    return answers.json(
        reads.search(runtime, who, text, trajectory_id=trajectory_id, after=after, limit=limit)
    )
