"""A form with files that was cut off anywhere is refused, with what is missing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from ingest import demo
from tests.web.api_world import parts, problem, serving

FILE = sorted(demo.DATA.glob("*.traj.json"))[0].read_bytes()
BOUNDARY = b"a-boundary"
TYPE = {"Content-Type": "multipart/form-data; boundary=a-boundary"}


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    with serving(tmp_path_factory.mktemp("forms")) as opened:
        yield opened


def form(*files: tuple[str, bytes]) -> bytes:
    parts = b"".join(
        b'--%b\r\nContent-Disposition: form-data; name="files"; filename="%b"\r\n'
        b"Content-Type: application/octet-stream\r\n\r\n%b\r\n" % (BOUNDARY, name.encode(), data)
        for name, data in files
    )
    return parts + b"--%b--\r\n" % BOUNDARY


WHOLE = form(("whole.traj.json", FILE), ("cut.traj.json", FILE))
SECOND = WHOLE.index(b"cut.traj.json")
#: (bytes that arrive, the file that breaks off)
CUTS = [
    (10, None),
    (SECOND - 200, "whole.traj.json"),
    (SECOND - 20, None),  # within the head of the second
    (SECOND + 100, "cut.traj.json"),
    (len(WHOLE) - 900, "cut.traj.json"),
    (len(WHOLE) - len(BOUNDARY) - 8, "cut.traj.json"),
    (len(WHOLE) - 4, "cut.traj.json"),  # the last two signs of the closing boundary
]


@pytest.mark.parametrize("target", ["/v1/imports", "/import"])
@pytest.mark.parametrize(("length", "missing"), CUTS)
def test_a_form_that_breaks_off_is_refused_with_what_is_missing(
    client: TestClient, target: str, length: int, missing: str | None
) -> None:
    before = client.get("/v1/imports").json()["imports"]
    answer = client.post(target, content=WHOLE[:length], headers=TYPE, follow_redirects=False)
    if target == "/import":
        assert answer.status_code == 400
        assert "nothing of it was imported" in answer.text
        assert missing is None or missing in answer.text
    else:
        found = problem(answer, 400, "bad_request")
        assert found.get("missing") == missing
        if missing == "cut.traj.json":
            assert found["whole"] == ["whole.traj.json"]
            assert "Arrived whole, and not imported either: whole.traj.json" in found["detail"]
    assert client.get("/v1/imports").json()["imports"] == before
    assert client.get("/v1/trajectories").json()["total"] == 0
    assert list(parts(client).uploads.iterdir()) == []


def test_a_whole_form_is_taken_with_and_without_an_epilogue(tmp_path: Path) -> None:
    with serving(tmp_path) as client:
        for more in (b"", b"an epilogue that nobody reads"):
            answer = client.post("/v1/imports", content=WHOLE + more, headers=TYPE)
            assert answer.status_code == 202, answer.text
            assert len(answer.json()["files"]) == 2
        without = WHOLE.removesuffix(b"\r\n")
        assert client.post("/v1/imports", content=without, headers=TYPE).status_code == 202


def test_a_name_that_is_not_printable_is_shown_as_such(client: TestClient) -> None:
    data = form(("x\x1b[31m\u202e.jsonl", FILE))[:-300]
    found = problem(client.post("/v1/imports", content=data, headers=TYPE), 400, "bad_request")
    assert "\x1b" not in found["detail"] and "\u202e" not in found["detail"]
