"""A full disk, a real one: refused, nothing half-written, reads go on, and it resumes by itself."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from core.errors import StoreFull
from store import ballast
from store.open import open_store
from tests.contract.worlds import SECONDS, TENANT, SqliteWorld, note
from tests.require import need


@contextmanager
def disk(kind: str, folder: Path, megabytes: int) -> Iterator[Path]:
    """A small file system of its own."""
    need("root")
    mounted = folder / "mounted"
    mounted.mkdir()
    if kind == "tmpfs":
        command = ["mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "tmpfs", str(mounted)]
    else:
        image = folder / "image"
        with image.open("wb") as file:
            file.truncate(megabytes << 20)
        subprocess.run(["mkfs.ext4", "-q", "-m", "0", "-O", "^has_journal", str(image)], check=True)
        command = ["mount", "-o", "loop", str(image), str(mounted)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        need(f"a mounted {kind}", present=False, why=done.stderr.strip())
    try:
        yield mounted
    finally:
        subprocess.run(["umount", str(mounted)], check=True)


class SmallWorld(SqliteWorld):
    """A store on a small disk; `reserve` 0 lets it run into the disk's own limit."""

    reserve = 0

    def _open(self) -> object:  # type: ignore[override]
        return open_store(
            self.folder / "data",
            clock=self.clock,
            allow_unsafe_filesystem=True,
            reserve_bytes=self.reserve,
        )


@pytest.mark.parametrize("kind", ["tmpfs", "ext4"])
@pytest.mark.parametrize("reserve", [0, 1 << 18])
def test_a_full_disk_refuses_and_recovers(tmp_path: Path, kind: str, reserve: int) -> None:
    with disk(kind, tmp_path, 12) as mounted:
        SmallWorld.reserve = reserve
        world = SmallWorld(mounted / "store")
        try:
            _fill_and_recover(world, mounted, reserve)
        finally:
            world.close()


def _fill_and_recover(world: SqliteWorld, mounted: Path, reserve: int) -> None:
    world.owned()
    kept = world.blobs.put(TENANT, b"kept")
    filler = mounted / "filler"
    room = ballast.free_bytes(mounted) - 1_500_000
    filler.write_bytes(bytes(room))
    acked = _append_until_full(world)
    assert acked > 3, "the disk was full before the test began"
    assert world.store.head(TENANT, "t").sequence_number == acked
    assert [e.sequence_number for e in world.store.events(TENANT, "t")] == list(range(1, acked + 1))
    assert world.blobs.read(TENANT, kept.digest) == b"kept"
    assert world.store.stats().state == "full"
    assert world.store.facts().free_bytes < 2_000_000
    with pytest.raises(StoreFull):
        world.blobs.put(TENANT, b"x" * 3_000_000)
    assert list((world.folder / "data" / "tmp").iterdir()) == []
    error = world.refused(world.append_later([note("late", "x" * 15_000)]))
    assert isinstance(error, StoreFull)
    assert int(str(error.data["retry_after"])) >= 1

    filler.unlink()
    ack = world.append(note("late", "x" * 15_000))
    assert ack.head == acked + 1
    assert world.store.stats().state == "open"
    world.blobs.put(TENANT, b"x" * 300_000)
    assert world.findings() == []
    world.reopen()
    assert world.store.head(TENANT, "t").sequence_number == acked + 1


def _append_until_full(world: SqliteWorld) -> int:
    """Until it is refused three times in a row: the first time the ballast makes room again."""
    head, refused = 2, 0
    for number in range(2_000):
        future = world.append_later([note(f"n{number}", "x" * 15_000)])
        error = future.exception(SECONDS)
        if error is None:
            head, refused = future.result().head, 0
            continue
        assert isinstance(error, StoreFull), error
        assert error.outcome == "refused"
        refused += 1
        if refused == 3:
            return head
    raise AssertionError("the disk never was full: the test proves nothing")


def test_a_group_that_meets_a_full_disk_is_refused_whole(tmp_path: Path) -> None:
    with disk("tmpfs", tmp_path, 12) as mounted:
        SmallWorld.reserve = 0
        world = SmallWorld(mounted / "store")
        try:
            world.owned()
            (mounted / "filler").write_bytes(bytes(ballast.free_bytes(mounted) - 300_000))
            with world.one_group():
                futures = [world.append_later([note(f"n{n}", "x" * 15_000)]) for n in range(60)]
            assert {type(world.refused(future)) for future in futures} == {StoreFull}
            assert world.store.head(TENANT, "t").sequence_number == 2
            (mounted / "filler").unlink()
            assert [world.append(note(f"n{n}", "x" * 15_000)).head for n in range(60)] == list(
                range(3, 63)
            )
            assert world.findings() == []
        finally:
            world.close()
