"""BlobStore: durable before referenced, verified when read, held per tenant."""

from __future__ import annotations

import io
import os
from pathlib import Path

import pytest

from core.canonical import digest_text, sha256
from core.errors import AckUnknown, CorruptAt, InvalidInput, NotFound, StoreStopped, TooLarge
from store import failpoints
from tests.contract.worlds import TENANT, SqliteWorld, together

OTHER = "other"


def place(world: SqliteWorld, digest: str) -> Path:
    name = digest.removeprefix("sha256:")
    return world.folder / "data" / "blobs" / "sha256" / name[:2] / name[2:]


def scratch(world: SqliteWorld) -> list[Path]:
    return list((world.folder / "data" / "tmp").iterdir())


@pytest.mark.parametrize("size", [0, 1, 70_000, (1 << 20) + 3])
def test_bytes_come_back_whole(world: SqliteWorld, size: int) -> None:
    data = os.urandom(size)
    for given in (data, io.BytesIO(data)):
        ref = world.blobs.put(TENANT, given)
        assert (ref.digest, ref.length) == (digest_text(sha256(data)), size)
    assert world.blobs.read(TENANT, ref.digest) == data
    with world.blobs.open(TENANT, ref.digest) as file:
        assert file.read() == data
    assert world.blobs.read_range(TENANT, ref.digest, size // 3, size) == data[size // 3 :]
    assert world.blobs.info(TENANT, ref.digest) == ref
    assert world.blobs.state(TENANT, ref.digest) == "present"
    assert world.blobs.totals() == (1, size)
    assert scratch(world) == []


def test_a_blob_survives_the_process(world: SqliteWorld) -> None:
    ref = world.blobs.put(TENANT, b"kept")
    world.reopen()
    assert world.blobs.read(TENANT, ref.digest) == b"kept"
    assert world.findings() == []


def test_many_are_stored_with_one_reference_transaction(world: SqliteWorld) -> None:
    items = [f"item {n}".encode() for n in range(40)] + [b"item 3", b""]
    before = world.store.stats().groups
    refs = world.blobs.put_many(TENANT, items)
    assert world.store.stats().groups == before + 1
    assert [world.blobs.read(TENANT, ref.digest) for ref in refs] == items
    assert world.blobs.totals()[0] == 41
    again = world.store.stats().groups
    assert world.blobs.put_many(TENANT, items) == refs
    assert world.store.stats().groups == again
    assert world.blobs.put_many(TENANT, []) == []
    assert scratch(world) == []


def test_a_digest_grants_nothing(world: SqliteWorld) -> None:
    ref = world.blobs.put(TENANT, b"secret")
    unknown = "sha256:" + "0" * 64
    for tenant, digest in ((OTHER, ref.digest), (TENANT, unknown)):
        assert world.blobs.info(tenant, digest) is None
        assert world.blobs.state(tenant, digest) == "unknown"
        for read in (
            lambda t=tenant, d=digest: world.blobs.read(t, d),
            lambda t=tenant, d=digest: world.blobs.open(t, d),
            lambda t=tenant, d=digest: world.blobs.read_range(t, d, 0, 1),
        ):
            with pytest.raises(NotFound) as caught:
                read()
            assert "missing" not in caught.value.data
    mine = world.blobs.put(OTHER, b"secret")
    assert mine == ref
    assert world.blobs.read(OTHER, ref.digest) == b"secret"
    assert world.blobs.totals() == (1, 6)


def test_a_missing_file_is_missing_and_not_unknown(world: SqliteWorld) -> None:
    ref = world.blobs.put(TENANT, b"gone")
    place(world, ref.digest).unlink()
    assert world.blobs.state(TENANT, ref.digest) == "missing"
    for read in (world.blobs.read, world.blobs.open):
        with pytest.raises(NotFound) as caught:
            read(TENANT, ref.digest)
        assert caught.value.data["missing"] is True
    assert [f.invariant for f in world.findings()] == ["BLB-1"]
    world.blobs.put(TENANT, b"gone")
    assert world.blobs.read(TENANT, ref.digest) == b"gone"


@pytest.mark.parametrize("damage", [b"flip", b"", b"longer than before"])
def test_damaged_bytes_are_never_given_out(world: SqliteWorld, damage: bytes) -> None:
    ref = world.blobs.put(TENANT, b"good")
    assert world.blobs.read_range(TENANT, ref.digest, 0, 4) == b"good"
    path = place(world, ref.digest)
    os.chmod(path, 0o600)
    path.write_bytes(damage)
    os.utime(path, ns=(1, 1))
    for read in (
        lambda: world.blobs.read(TENANT, ref.digest),
        lambda: world.blobs.open(TENANT, ref.digest),
        lambda: world.blobs.read_range(TENANT, ref.digest, 0, 1),
    ):
        with pytest.raises(CorruptAt):
            read()
    assert [f.invariant for f in world.findings()] == ["BLB-1"]
    # Putting the bytes again repairs the file: what is there is not the blob.
    world.blobs.put(TENANT, b"good")
    assert world.blobs.read(TENANT, ref.digest) == b"good"
    assert world.findings() == []


def test_a_blob_beyond_its_limit_is_refused_and_leaves_nothing(world: SqliteWorld) -> None:
    with pytest.raises(TooLarge):
        world.blobs.put(TENANT, b"x" * 101, limit=100)
    with pytest.raises(TooLarge):
        world.blobs.put(TENANT, io.BytesIO(b"x" * (2 << 20)), limit=1 << 20)
    assert world.blobs.put(TENANT, b"x" * 100, limit=100).length == 100
    assert scratch(world) == []
    assert world.blobs.totals() == (1, 100)


@pytest.mark.parametrize("digest", ["", "sha256:xx", "sha256:" + "A" * 64, "../../etc/passwd"])
def test_what_is_no_digest_is_refused(world: SqliteWorld, digest: str) -> None:
    with pytest.raises(InvalidInput):
        world.blobs.read(TENANT, digest)


@pytest.mark.parametrize(("start", "end"), [(-1, 2), (3, 2), (0, 5), (5, 6)])
def test_a_range_outside_the_blob_is_refused(world: SqliteWorld, start: int, end: int) -> None:
    ref = world.blobs.put(TENANT, b"four")
    with pytest.raises(InvalidInput):
        world.blobs.read_range(TENANT, ref.digest, start, end)


def test_the_same_bytes_at_one_moment_are_stored_once(world: SqliteWorld) -> None:
    data = os.urandom(200_000)
    refs = together([lambda: world.blobs.put(TENANT, data) for _ in range(6)])
    assert len(set(refs)) == 1
    assert world.blobs.totals() == (1, 200_000)
    assert scratch(world) == []
    assert world.findings() == []


def test_a_reference_is_durable_only_after_the_bytes(world: SqliteWorld) -> None:
    """Where the bytes could not be made durable there is no reference."""

    def fail() -> None:
        raise OSError(5, "Input/output error")

    for point in ("blob.written", "blob.synced", "blob.renamed", "blob.listed"):
        failpoints.arm(point, fail)
        with pytest.raises(AckUnknown):
            world.blobs.put(TENANT, point.encode())
        assert failpoints.hits(point) == 1
        failpoints.disarm()
        assert world.blobs.state(TENANT, digest_text(sha256(point.encode()))) == "unknown"
    assert scratch(world) == []
    assert world.findings() == []


def test_a_folder_that_cannot_be_written_is_named(
    world: SqliteWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.open

    def denied(path: object, *args: object, **more: object) -> int:
        if "blob-" in str(path):
            raise PermissionError(13, "Permission denied", str(path))
        return real(path, *args, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(os, "open", denied)
    with pytest.raises(StoreStopped, match="cannot be written"):
        world.blobs.put(TENANT, b"x")
