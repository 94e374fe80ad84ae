"""Imports over HTTP: upload, progress, the same report as the command's."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from app import jobs
from app.jobs import ImportFile, ImportJobs
from core.canonical import digest_text, sha256
from core.errors import Busy, NotFound, StrandlineError
from core.ids import tenant
from core.principal import Principal
from ingest import demo
from ingest.base import Report
from tests.web.api_world import finished, parts, problem, serving

FILE = sorted(demo.DATA.glob("*.traj.json"))[0]
WHO = Principal(tenant("local"), "tests", frozenset())


@pytest.fixture
def client(tmp_path: Path) -> Iterator[TestClient]:
    with serving(tmp_path) as opened:
        yield opened


def upload(client: TestClient, data: bytes, query: str = "name=a.traj.json") -> dict[str, Any]:
    answer = client.post(f"/v1/imports?{query}", content=data)
    assert answer.status_code == 202, answer.text
    assert answer.headers["location"] == answer.json()["url"]
    return finished(client, answer.json())


def test_a_raw_body_is_imported_and_listed_at_once(client: TestClient) -> None:
    job = upload(client, FILE.read_bytes())
    file = job["files"][0]
    assert (job["refused"], file["name"], file["problem"]) == (False, "a.traj.json", None)
    report = file["report"]
    assert report["format"].startswith("mini-swe-agent")
    made = report["trajectories"][0]
    head = client.get(f"/v1/trajectories/{made['id']}").json()
    assert (head["head"], head["chain"]) == (made["head"], made["chain"])
    assert (head["standing"], head["owner_epoch"]) == ("imported", 0)
    assert head["summary"]["as_of_sequence"] == made["head"]
    assert client.get("/v1/imports").json()["imports"][0]["job"] == job["job"]
    assert list(parts(client).uploads.iterdir()) == []


def test_a_form_carries_several_files_each_with_its_report(client: TestClient) -> None:
    given = [
        ("files", ("good.traj.json", FILE.read_bytes())),
        ("files", ("empty.json", b"")),
        ("files", ("torn.traj.json", FILE.read_bytes()[:-20])),
        ("files", ("noise.bin", bytes(range(256)))),
    ]
    answer = client.post("/v1/imports", files=given)
    assert answer.status_code == 202
    job = finished(client, answer.json())
    assert job["refused"] is True
    outcomes = {file["name"]: file["report"]["outcome"] for file in job["files"]}
    assert outcomes["good.traj.json"] == "imported"
    assert {outcomes[name] for name in outcomes if name != "good.traj.json"} == {"refused"}
    why = {file["name"]: file["report"]["refused"] for file in job["files"]}
    assert "empty" in why["empty.json"][0]["why"]
    assert client.get("/v1/trajectories").json()["total"] == 1
    assert list(parts(client).uploads.iterdir()) == []


def test_the_same_file_changes_nothing_and_a_changed_one_is_a_conflict(client: TestClient) -> None:
    data = FILE.read_bytes()
    upload(client, data, "name=a.traj.json&source=/runs/a.traj.json")
    again = upload(client, data, "name=b.traj.json&source=/runs/a.traj.json")
    assert again["files"][0]["report"]["outcome"] == "unchanged"
    value = json.loads(data)
    value["messages"][1]["content"] = str(value["messages"][1]["content"]) + " changed"
    changed = json.dumps(value).encode()
    conflict = upload(client, changed, "name=a.traj.json&source=/runs/a.traj.json")
    assert conflict["refused"] is True
    assert client.get("/v1/trajectories").json()["total"] == 1


def test_an_uploaded_path_is_the_same_source_as_the_path(
    client: TestClient, tmp_path: Path
) -> None:
    path = tmp_path / "run.traj.json"
    path.write_bytes(FILE.read_bytes())
    who = Principal(tenant("local"), "tests", frozenset())
    here = next(iter(parts(client).import_path(who, str(path), lambda *_: None)))
    assert here.outcome == "imported"
    there = upload(client, path.read_bytes(), f"name=run.traj.json&source={path}")
    assert there["files"][0]["report"]["outcome"] == "unchanged"


def test_a_file_that_changed_while_it_was_sent_is_refused(client: TestClient) -> None:
    answer = client.post(f"/v1/imports?digest={digest_text(sha256(b'before'))}", content=b"after")
    found = problem(answer, 422, "import_refused")
    assert "changed" in found["detail"]
    assert list(parts(client).uploads.iterdir()) == []


def test_a_form_without_files_is_refused(client: TestClient) -> None:
    problem(client.post("/v1/imports", files={"other": b"x"}), 400, "bad_request")
    torn = {"content-type": "multipart/form-data; boundary=x"}
    answer = client.post("/v1/imports", content=b"--x\r\ntorn", headers=torn)
    assert answer.status_code in (400, 422)
    nameless = {"content-type": "multipart/form-data"}
    assert client.post("/v1/imports", content=b"x", headers=nameless).status_code in (400, 422)


def test_a_job_of_another_tenant_looks_like_none() -> None:
    queue = ImportJobs(lambda who, file, progress: Report(file.name), lambda: 0)
    job = queue.submit(WHO, [])
    assert job.done.wait(10)
    assert queue.get(WHO, job.job_id) is job
    other = Principal(tenant("other"), "x", frozenset())
    with pytest.raises(NotFound):
        queue.get(other, job.job_id)
    assert queue.newest(other) == []
    queue.close()


def test_waiting_jobs_are_bounded_and_their_files_removed(tmp_path: Path) -> None:
    hold = threading.Event()

    def run(who: Principal, file: ImportFile, progress: jobs.Progress) -> Report:
        hold.wait(30)
        return Report(file.name)

    queue = ImportJobs(run, lambda: 0)
    made = []
    for number in range(jobs.JOBS_WAITING_MAX + jobs.THREADS + 1):
        path = tmp_path / str(number)
        path.write_bytes(b"x")
        made.append(path)
        try:
            queue.submit(WHO, [ImportFile(path.name, path, 1)])
        except Busy:
            break
        if number < jobs.THREADS:
            while queue.newest(WHO)[0].state == "waiting":
                pass
    else:
        raise AssertionError("the queue took more than it may")
    assert not made[-1].exists()
    hold.set()
    queue.close()
    assert [path for path in made if path.exists()] == []


def test_a_fault_of_an_import_is_its_files_problem_and_not_the_servers(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"x")

    def run(who: Principal, file: ImportFile, progress: jobs.Progress) -> Report:
        raise ZeroDivisionError

    queue = ImportJobs(run, lambda: 0)
    job = queue.submit(WHO, [ImportFile("x", path, 1)])
    assert job.done.wait(10)
    assert isinstance(job.files[0].error, StrandlineError)
    assert job.refused and not path.exists()
    queue.close()


def test_finished_jobs_are_forgotten_oldest_first() -> None:
    queue = ImportJobs(lambda who, file, progress: Report(file.name), lambda: 0)
    made = []
    for _ in range(jobs.JOBS_KEPT_MAX + 5):
        made.append(queue.submit(WHO, []))
        assert made[-1].done.wait(10)
    with pytest.raises(NotFound):
        queue.get(WHO, made[0].job_id)
    assert queue.get(WHO, made[-1].job_id) is made[-1]
    queue.close()


def test_an_import_that_runs_on_does_not_keep_a_server_from_stopping(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jobs, "CLOSE_SECONDS", 0.1)
    hold = threading.Event()

    def run(who: Principal, file: ImportFile, progress: jobs.Progress) -> Report:
        hold.wait(30)
        return Report(file.name)

    queue = ImportJobs(run, lambda: 0)
    path = tmp_path / "x"
    path.write_bytes(b"x")
    job = queue.submit(WHO, [ImportFile("x", path, 1)])
    while job.state == "waiting":
        time.sleep(0.001)
    began = time.monotonic()
    queue.close()
    assert time.monotonic() - began < 5
    assert not path.exists() and not job.done.is_set()
    hold.set()
    assert job.done.wait(10)
