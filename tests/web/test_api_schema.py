"""The description of the API, and what a fuzzer that reads it finds: no 500, nothing undeclared."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx2
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.errors import Unsatisfiable
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from core.events.registry import FAMILIES
from tests import served
from tests.web.api_world import append, note, owned, serving

EXAMPLES = 12


def test_the_description_says_what_there_is(tmp_path: Path) -> None:
    with serving(tmp_path) as client:
        found = client.get("/openapi.json").json()
        assert found["openapi"].startswith("3.1")
        assert not [path for path in found["paths"] if path.startswith(("/t/", "/import"))]
        ids = [
            operation["operationId"]
            for path in found["paths"].values()
            for operation in path.values()
        ]
        assert len(set(ids)) == len(ids)
        assert {"create_trajectory", "claim_trajectory", "append_events", "put_blob"} <= set(ids)
        assert set(FAMILIES) <= set(found["components"]["schemas"])
        for path in found["paths"].values():
            for operation in path.values():
                described = operation["responses"]["422"]["content"]
                assert list(described) == ["application/problem+json"]


def _bounded(schema: dict[str, Any]) -> bool:
    kinds = schema.get("anyOf", [schema])
    return all(
        kind.get("type") in ("null", "boolean")
        or "enum" in kind
        or "const" in kind
        or (kind.get("type") == "integer" and "minimum" in kind and "maximum" in kind)
        or (kind.get("type") == "string" and ("pattern" in kind or "maxLength" in kind))
        or (kind.get("type") == "array" and "maxItems" in kind and _bounded(kind["items"]))
        for kind in kinds
    )


def test_every_parameter_states_its_bounds(tmp_path: Path) -> None:
    with serving(tmp_path) as client:
        for path, operations in client.get("/openapi.json").json()["paths"].items():
            for operation in operations.values():
                for parameter in operation.get("parameters", []):
                    assert _bounded(parameter["schema"]), (path, parameter["name"])


def test_a_fuzzer_finds_no_500_and_no_undeclared_answer(tmp_path: Path) -> None:
    checks = [
        not_a_server_error,
        status_code_conformance,
        content_type_conformance,
        response_schema_conformance,
    ]
    rate = {"STRANDLINE_CALLER_REQUESTS_PER_SECOND": "1000000", "STRANDLINE_LOG_LEVEL": "error"}
    with served.serving(tmp_path / "data", env=rate) as server:
        with httpx2.Client(base_url=server.url) as client:
            owned(client, "tr_demo")
            append(client, note("e1"), name="tr_demo")
        schema = schemathesis.openapi.from_url(f"{server.url}/openapi.json")
        called: dict[str, int] = {}
        for result in schema.get_all_operations():
            operation = result.ok()
            for mode in (GenerationMode.POSITIVE, GenerationMode.NEGATIVE):
                _fuzz(operation, mode, checks, called)
        assert {label.split()[0] for label in called} == {"GET", "POST", "PUT"}
        assert sum(called.values()) > 20 * EXAMPLES
        with httpx2.Client(base_url=server.url) as client:
            assert client.get("/readyz").status_code == 200
        assert server.stop() == 0
        assert server.log.read_text().count('"level":"error"') == 0


def _fuzz(operation: Any, mode: GenerationMode, checks: list[Any], called: dict[str, int]) -> None:
    @given(case=operation.as_strategy(generation_mode=mode))
    @settings(
        max_examples=EXAMPLES,
        deadline=None,
        derandomize=True,
        database=None,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    def each(case: Any) -> None:
        called[operation.label] = called.get(operation.label, 0) + 1
        case.call_and_validate(checks=checks)

    try:
        each()
    except Unsatisfiable:
        # An operation without parameters or body has no wrong form.
        assert mode is GenerationMode.NEGATIVE
