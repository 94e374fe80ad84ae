"""An API over a real store, and what its tests say to it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from starlette.testclient import TestClient

from app import wiring
from app.main import create_app
from app.settings import Settings, load

BASE = "http://127.0.0.1:8000"
Wire = dict[str, Any]


def settings(folder: Path, **more: object) -> Settings:
    """Settings of a store in `folder`."""
    return load(data=folder / "data", **more)


@contextmanager
def serving(folder: Path, **more: object) -> Iterator[TestClient]:
    """A client of an application with its lifespan, over a store of its own."""
    app = create_app(settings(folder, **more))
    with TestClient(app, base_url=BASE, raise_server_exceptions=False) as client:
        yield client


def parts(client: TestClient) -> wiring.Parts:
    """The opened store behind a client."""
    found: wiring.Parts = client.app.state.parts  # type: ignore[attr-defined]
    return found


def create(client: TestClient, name: str = "t1", standing: str = "reported") -> Wire:
    """Create a trajectory by its own name."""
    answer = client.post(
        "/v1/trajectories",
        json={
            "request_id": f"make-{name}",
            "trajectory_id": name,
            "standing": standing,
            "task": {"title": f"task of {name}"},
        },
    )
    assert answer.status_code == 201, answer.text
    return dict(answer.json())


def claim(client: TestClient, name: str = "t1", request_id: str = "claim-1") -> int:
    """Claim it for worker w1; the epoch."""
    answer = client.post(
        f"/v1/trajectories/{name}/claim", json={"request_id": request_id, "worker": "w1"}
    )
    assert answer.status_code == 201, answer.text
    return int(answer.json()["owner_epoch"])


def note(event_id: str, **payload: object) -> Wire:
    """An event that folds to nothing."""
    return {
        "event_id": event_id,
        "type": "note.test",
        "schema_version": 1,
        "payload": payload or {"text": event_id},
    }


def append(client: TestClient, *events: Wire, name: str = "t1", epoch: int = 1, **more: Any) -> Any:
    """Append as w1; the raw answer."""
    body = {"owner_epoch": epoch, "worker": "w1", "request_id": "r1", "events": list(events)}
    return client.post(f"/v1/trajectories/{name}/events", json={**body, **more})


def owned(client: TestClient, name: str = "t1") -> None:
    """Create and claim."""
    create(client, name)
    claim(client, name)


def problem(answer: Any, status: int, code: str) -> Wire:
    """The problem of a refusal, with what every problem has."""
    assert answer.status_code == status, (answer.status_code, answer.text)
    assert answer.headers["content-type"] == "application/problem+json"
    found: Wire = answer.json()
    assert found["code"] == code, found
    assert found["status"] == status
    assert found["type"] == f"/docs/errors/{code}"
    assert found["request_id"] == answer.headers["x-request-id"]
    return found


def finished(client: TestClient, job: Wire) -> Wire:
    """An import once it is done."""
    deadline = time.monotonic() + 30
    while job["state"] != "done":
        assert time.monotonic() < deadline, job
        time.sleep(0.01)
        job = client.get(job["url"]).json()
    return job
