"""Bytes of the log file that are not what was written: found and named, by checks that end."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest

from core.errors import CorruptAt, StrandlineError
from store.audit import audit
from store.open import Opened, open_store
from store.ports import Finding
from tests.contract.worlds import TENANT, SqliteWorld, note

SEEDS = 60
PAGE = 4096


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    world = SqliteWorld(tmp_path_factory.mktemp("whole"))
    ref = world.blobs.put(TENANT, b"bytes")
    world.owned()
    world.append(*(note(f"e{number}", text="x" * 200, refs=(ref,)) for number in range(200)))
    world.close()
    return world.folder / "data"


def checked(opened: Opened) -> int:
    """Findings of both checks, which end whatever they meet; reads are whole, or refused."""
    found = sum(isinstance(one, Finding) for one in audit(opened))
    try:
        for head in opened.store.heads(TENANT):
            verified = opened.store.verify(TENANT, head.trajectory_id)
            found += sum(finding is not None for _, finding in verified)
            opened.store.events(TENANT, head.trajectory_id)
    except StrandlineError:
        found += 1
    return found


def test_an_undamaged_log_has_no_finding(whole: Path) -> None:
    with open_store(whole, read_only=True) as opened:
        assert checked(opened) == 0


@pytest.mark.parametrize("seed", range(SEEDS))
def test_flipped_bytes_end_no_check(whole: Path, tmp_path: Path, seed: int) -> None:
    data = tmp_path / "data"
    shutil.copytree(whole, data)
    path = data / "store-000001.db"
    chance = random.Random(seed)
    with path.open("r+b") as file:
        for _ in range(chance.choice([1, 20, 400])):
            first = 0 if chance.random() < 0.1 else PAGE
            file.seek(chance.randrange(first, path.stat().st_size))
            file.write(chance.randbytes(1))
    try:
        opened = open_store(data, read_only=True)
    except StrandlineError:
        return
    with opened:
        checked(opened)


def test_an_event_that_cannot_be_read_is_named_and_so_are_those_before_it(
    whole: Path, tmp_path: Path
) -> None:
    data = tmp_path / "data"
    shutil.copytree(whole, data)
    path = data / "store-000001.db"
    parts = path.read_bytes().split(b'[{"digest"')
    assert len(parts) > 100
    path.write_bytes(
        b'[{"digest"'.join(parts[:100]) + b'[x"digest"' + b'[{"digest"'.join(parts[100:])
    )
    with open_store(data, read_only=True) as opened:
        (finding,) = [one for _, one in opened.store.verify(TENANT, "t") if one is not None]
        assert finding.sequence_number is not None
        assert opened.store.events(TENANT, "t", upto=finding.sequence_number - 1)
        with pytest.raises(CorruptAt):
            opened.store.events(TENANT, "t")
        assert finding in list(audit(opened))
