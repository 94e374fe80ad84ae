"""The description of the API: routes as declared, bodies that routes read themselves, families."""

from __future__ import annotations

from typing import Any

import msgspec
from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from app.api.answers import Problem
from core.events.registry import FAMILIES

_REF = "#/components/schemas/{name}"


def install(app: FastAPI) -> None:
    """Make `app.openapi()` give the whole description, built once."""

    def description() -> dict[str, Any]:
        if app.openapi_schema is None:
            app.openapi_schema = _build(app)
        return app.openapi_schema

    app.openapi = description  # type: ignore[method-assign]


def _build(app: FastAPI) -> dict[str, Any]:
    built = get_openapi(
        title=app.title,
        version=app.version,
        summary=app.summary,
        description=(
            "Errors are problem+json; their `type` is a page that says what to do. `outcome` is "
            "`refused` (nothing was stored) or `unknown` (send the identical request again)."
        ),
        routes=app.routes,
    )
    schemas = built.setdefault("components", {}).setdefault("schemas", {})
    schemas["Problem"] = Problem.model_json_schema()
    _, families = msgspec.json.schema_components(
        [family.payload for family in FAMILIES.values()], ref_template=_REF
    )
    for name, schema in families.items():
        schemas.setdefault(name, schema)
    task = schemas["TaskStarted"]
    schemas["Task"] = {
        **task,
        "title": "Task",
        "required": [name for name in task["required"] if name != "standing"],
        "properties": {key: item for key, item in task["properties"].items() if key != "standing"},
    }
    built["components"]["securitySchemes"] = {
        "token": {"type": "http", "scheme": "bearer"},
        "password": {"type": "http", "scheme": "basic"},
    }
    built["security"] = [{"token": []}, {"password": []}, {}]
    for path in built["paths"].values():
        for operation in path.values():
            # FastAPI describes its own 422, which no route here gives.
            described = operation.get("responses", {}).get("422", {})
            described["content"] = {
                "application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}
            }
    for unused in ("HTTPValidationError", "ValidationError"):
        schemas.pop(unused, None)
    return built
