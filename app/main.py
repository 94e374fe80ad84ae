"""The web application: settings in, an ASGI application out.

The lifespan opens the store under the folder's lock, says so in the lock file, and closes both
at the end. A poisoned writer stops the process with exit code 70: only a restart may decide what
the log holds (APP-6).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import structlog
from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

from app import auth, complaints, docs_pages, errors, openapi, wiring
from app.api import acts, blobs, events, history, imports, search, service, trajectories
from app.api.append import DirectAppend
from app.guards import Guard
from app.jobs import ImportJobs
from app.pages import ROUTERS
from app.paths import STATIC
from app.settings import Settings
from app.tails import Tails
from app.watch import Watch
from core.errors import StrandlineError
from core.ids import tenant
from store.files import refusal_of

EXIT_POISONED = 70
_WATCH_SECONDS = 0.25
#: An import that meets the closed store may take so long to end.
_THREADS_SECONDS = 5.0
_LOG = structlog.get_logger("server")

API_ROUTERS = (
    trajectories.router,
    acts.router,
    events.router,
    history.router,
    blobs.router,
    imports.router,
    search.router,
    service.router,
)


def create_app(
    settings: Settings,
    *,
    parts: wiring.Parts | None = None,
    local_token: str | None = None,
    stop: Callable[[int], None] | None = None,
) -> FastAPI:
    """The application. `parts` is an opened store; without it the lifespan opens one.

    `stop(exit code)` ends the server; without it a poisoned writer only shows.

    Raises InvalidInput where the settings would serve strangers.
    """
    settings.checked_to_serve()

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        opened = parts
        if opened is None:
            opened = await asyncio.to_thread(wiring.open_parts, settings)
        jobs = ImportJobs(opened.import_upload, opened.clock)
        tails = Tails(opened.runtime.subscribe)
        app.state.parts, app.state.jobs, app.state.tails = opened, jobs, tails
        watched = app.state.watch = Watch(opened, settings.watch)
        watch = asyncio.create_task(_watch(opened, stop))
        try:
            yield
        finally:
            watch.cancel()
            await asyncio.to_thread(watched.close)
            tails.end()
            await asyncio.to_thread(jobs.close)
            await asyncio.to_thread(opened.close)
            # Whoever was not done with its segment finds the store closed.
            await asyncio.to_thread(watched.join, _THREADS_SECONDS)
            await asyncio.to_thread(jobs.join, _THREADS_SECONDS)

    app = FastAPI(
        title="Strandline",
        version=wiring.version(),
        summary="Agent trajectories at any log boundary.",
        lifespan=lifespan,
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        telemetry={
            "tracing": False,
            "metrics": False,
            "logs": False,
            "operation_spans": False,
            "auto_configure": False,
        },
    )
    app.state.settings = settings
    app.state.refused = {}
    for router in (*API_ROUTERS, docs_pages.router, *ROUTERS):
        app.include_router(router)
    app.mount("/static", CachedStatic(directory=STATIC), name="static")
    openapi.install(app)
    _handle_errors(app)
    credentials = auth.Credentials(
        tenant(settings.tenant),
        settings.token.get_secret_value() if settings.token else None,
        local_token,
    )
    app.add_middleware(
        Guard,
        settings=settings,
        credentials=credentials,
        append=DirectAppend(app.state),
        refused=app.state.refused,
    )
    return app


async def _watch(parts: wiring.Parts, stop: Callable[[int], None] | None) -> None:
    while stop is not None:
        await asyncio.sleep(_WATCH_SECONDS)
        if parts.runtime.stats().state == "poisoned":
            _LOG.critical(
                "the durable barrier failed; stopping, so that a restart reads what is stored",
                exit_code=EXIT_POISONED,
            )
            stop(EXIT_POISONED)
            return


def _handle_errors(app: FastAPI) -> None:
    @app.exception_handler(StrandlineError)
    async def ours(request: Request, error: StrandlineError) -> Response:
        return errors.respond_to(request.scope, error)

    @app.exception_handler(OSError)
    async def disk(request: Request, error: OSError) -> Response:
        """A body that found no room on its way to the store."""
        refused = refusal_of(error, request.app.state.parts.opened.data)
        if refused is None:
            raise error
        return errors.respond_to(request.scope, refused)

    @app.exception_handler(RequestValidationError)
    async def schema(request: Request, error: RequestValidationError) -> Response:
        return errors.respond_to(request.scope, complaints.invalid(error.errors()))

    @app.exception_handler(HTTPException)
    async def http(request: Request, error: HTTPException) -> Response:
        code = errors.code_of_status(error.status_code)
        detail = errors.ANSWERS[code].title if code != "bad_request" else str(error.detail)
        return errors.respond(request.scope, code, f"{detail}.", headers=error.headers)

    @app.exception_handler(Exception)
    async def unexpected(request: Request, _: Exception) -> Response:
        return errors.respond(
            request.scope,
            "internal",
            "the request failed inside the server; the log names it by this request id",
        )


class CachedStatic(StaticFiles):
    """Our own files: kept for ever under their hash (`?v=`), else revalidated."""

    async def get_response(self, path: str, scope: Scope) -> Response:
        response = await super().get_response(path, scope)
        hashed = b"v=" in scope.get("query_string", b"")
        response.headers["Cache-Control"] = (
            "public, max-age=31536000, immutable" if hashed else "no-cache"
        )
        return response
