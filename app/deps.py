"""What routes ask for, by name: the runtime, the caller, the parts of a path."""

from __future__ import annotations

from pathlib import Path as FilePath
from typing import Annotated

from fastapi import Depends, Path, Request

from app import auth
from app.followed import Followed
from app.jobs import ImportJobs
from app.settings import Settings
from app.tails import Tails
from app.watch import Watch
from app.wiring import Parts
from core.ids import TRAJECTORY_PATTERN
from core.limits import INTEGER_MAX
from core.principal import Principal
from runtime.service import Runtime


async def _parts(request: Request) -> Parts:
    parts: Parts = request.app.state.parts
    return parts


async def _runtime(request: Request) -> Runtime:
    parts: Parts = request.app.state.parts
    return parts.runtime


async def _jobs(request: Request) -> ImportJobs:
    jobs: ImportJobs = request.app.state.jobs
    return jobs


async def _settings(request: Request) -> Settings:
    settings: Settings = request.app.state.settings
    return settings


async def _tails(request: Request) -> Tails:
    tails: Tails = request.app.state.tails
    return tails


async def _watch(request: Request) -> Watch:
    watch: Watch = request.app.state.watch
    return watch


async def _followed(request: Request) -> Followed:
    state = request.app.state
    return Followed(state.watch.following, state.parts.readings)


PartsDep = Annotated[Parts, Depends(_parts)]
RuntimeDep = Annotated[Runtime, Depends(_runtime)]
JobsDep = Annotated[ImportJobs, Depends(_jobs)]
TailsDep = Annotated[Tails, Depends(_tails)]
WatchDep = Annotated[Watch, Depends(_watch)]
FollowedDep = Annotated[Followed, Depends(_followed)]
SettingsDep = Annotated[Settings, Depends(_settings)]
#: The caller, and the role it must hold. Every route has one of these or `auth.public()`.
ReaderDep = Annotated[Principal, auth.authorized("read")]
WriterDep = Annotated[Principal, auth.authorized("write")]
ImporterDep = Annotated[Principal, auth.authorized("import")]
OperatorDep = Annotated[Principal, auth.authorized("operate")]

TrajectoryPath = Annotated[
    str, Path(pattern=TRAJECTORY_PATTERN, description="a trajectory id", examples=["tr_demo"])
]
SequencePath = Annotated[
    int, Path(ge=1, le=INTEGER_MAX, description="a sequence number, from 1", examples=[1])
]


def upload_folder(parts: Parts) -> FilePath:
    """Where bodies wait that are too large to hold: on the data folder's own disk."""
    return parts.uploads
