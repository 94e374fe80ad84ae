"""The pages: each route reads, builds one page object and renders it. ROUTERS is all of them."""

from __future__ import annotations

from fastapi import APIRouter

from app.pages.compare import router as compare
from app.pages.desk import router as desk
from app.pages.exports import router as exports
from app.pages.find import router as find
from app.pages.health import router as health
from app.pages.home import router as home
from app.pages.imports import router as imports
from app.pages.live import router as live
from app.pages.prices import router as prices
from app.pages.sources import router as sources
from app.pages.still import router as still
from app.pages.system import router as system
from app.pages.trajectories import router as trajectories
from app.pages.trajectory import router as trajectory
from app.pages.withdraw import router as withdraw

ROUTERS: tuple[APIRouter, ...] = (
    home,
    trajectories,
    exports,
    compare,
    find,
    trajectory,
    still,
    desk,
    withdraw,
    live,
    sources,
    imports,
    health,
    prices,
    system,
)
