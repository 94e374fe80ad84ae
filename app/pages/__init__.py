"""The pages: each route reads, builds one page object and renders it. ROUTERS is all of them."""

from __future__ import annotations

from fastapi import APIRouter

from app.pages import health, home, imports, system, trajectories, trajectory

ROUTERS: tuple[APIRouter, ...] = (
    home.router,
    trajectories.router,
    trajectory.router,
    imports.router,
    health.router,
    system.router,
)
