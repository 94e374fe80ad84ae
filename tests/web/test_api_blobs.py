"""Blobs over HTTP: verified, tenant by tenant, never shown as a page."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from core.canonical import digest_text, sha256
from tests.web.api_world import parts, problem, serving

DATA = bytes(range(256)) * 1000


@pytest.fixture
def client(tmp_path: Path) -> Iterator[TestClient]:
    with serving(tmp_path) as opened:
        yield opened


def test_a_blob_is_put_by_its_digest_and_read_back(client: TestClient) -> None:
    digest = digest_text(sha256(DATA))
    for _ in range(2):
        answer = client.put(f"/v1/blobs/{digest}", content=DATA)
        assert (answer.status_code, answer.json()) == (201, {"digest": digest, "length": len(DATA)})
    got = client.get(f"/v1/blobs/{digest}")
    assert got.content == DATA
    assert got.headers["content-type"] == "application/octet-stream"
    assert got.headers["content-disposition"].startswith("attachment")
    assert got.headers["content-security-policy"] == "sandbox; default-src 'none'"
    assert got.headers["x-content-type-options"] == "nosniff"
    head = client.head(f"/v1/blobs/{digest}")
    assert (head.content, head.headers["content-length"]) == (b"", str(len(DATA)))


def test_a_body_of_another_digest_is_refused_and_not_kept(client: TestClient) -> None:
    digest = digest_text(sha256(b"a"))
    problem(client.put(f"/v1/blobs/{digest}", content=b"b"), 422, "invalid")
    problem(client.get(f"/v1/blobs/{digest}"), 404, "not_found")
    problem(client.get(f"/v1/blobs/{digest_text(sha256(b'b'))}"), 404, "not_found")
    assert client.get("/metrics").text.count("strandline_store_blobs 0.0") == 1


def test_an_empty_blob_is_a_blob(client: TestClient) -> None:
    digest = client.post("/v1/blobs", content=b"").json()["digest"]
    assert client.get(f"/v1/blobs/{digest}").content == b""


@pytest.mark.parametrize(
    ("asked", "status", "expected"),
    [
        ("bytes=0-9", 206, DATA[:10]), ("bytes=10-", 206, DATA[10:]),
        ("bytes=-5", 206, DATA[-5:]), ("bytes=0-999999999", 206, DATA),
        ("bytes=" + ",".join("0-1" for _ in range(10_000)), 200, DATA),
        ("bytes=5", 200, DATA), ("lines=0-1", 200, DATA), ("bytes=a-b", 200, DATA),
        ("bytes=-", 200, DATA), ("bytes=999999999-", 416, b""), ("bytes=9-3", 416, b""),
        ("bytes=" + "9" * 40 + "-", 200, DATA),
    ],
)  # fmt: skip
def test_one_range_is_honoured_and_many_are_bounded(
    client: TestClient, asked: str, status: int, expected: bytes
) -> None:
    digest = client.post("/v1/blobs", content=DATA).json()["digest"]
    answer = client.get(f"/v1/blobs/{digest}", headers={"range": asked})
    assert answer.status_code == status
    if status == 416:
        problem(answer, 416, "range_not_satisfiable")
    else:
        assert answer.content == expected


def test_a_digest_grants_nothing(tmp_path: Path) -> None:
    digest = digest_text(sha256(b"shared"))
    with serving(tmp_path) as mine:
        mine.put(f"/v1/blobs/{digest}", content=b"shared")
    with serving(tmp_path, tenant="other") as theirs:
        problem(theirs.get(f"/v1/blobs/{digest}"), 404, "not_found")
        # Putting it takes the bytes, not their digest.
        problem(theirs.put(f"/v1/blobs/{digest}", content=b""), 422, "invalid")
        assert theirs.put(f"/v1/blobs/{digest}", content=b"shared").status_code == 201
        assert theirs.get(f"/v1/blobs/{digest}").content == b"shared"


def test_damaged_and_missing_bytes_are_never_given_out(client: TestClient) -> None:
    digests = [client.post("/v1/blobs", content=text).json()["digest"] for text in (b"one", b"two")]
    root = parts(client).folder / "blobs"
    paths = {path.parent.name + path.name: path for path in root.rglob("*") if path.is_file()}
    damaged, missing = (paths[digest.removeprefix("sha256:")] for digest in digests)
    damaged.chmod(0o600)
    damaged.write_bytes(b"onx")
    missing.unlink()
    found = problem(client.get(f"/v1/blobs/{digests[0]}"), 500, "corrupt")
    assert found["outcome"] == "refused"
    gone = problem(client.get(f"/v1/blobs/{digests[1]}"), 404, "not_found")
    assert gone["missing"] is True
    # The same bytes, put again, heal both.
    for digest, text in zip(digests, (b"one", b"two"), strict=True):
        client.put(f"/v1/blobs/{digest}", content=text)
        assert client.get(f"/v1/blobs/{digest}").content == text


def test_nothing_is_left_of_uploads(client: TestClient) -> None:
    client.put(f"/v1/blobs/{digest_text(sha256(b'a'))}", content=b"b" * (2 << 20))
    client.post("/v1/blobs", content=DATA * 20)
    assert list(parts(client).uploads.iterdir()) == []
