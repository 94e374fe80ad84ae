"""Projections: a cache that may be lost at any time, and the list of trajectories."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from core.errors import InvalidInput
from store.projections import COMPUTED, SUMMARY
from tests.contract.worlds import TENANT, SqliteWorld, together


def test_the_nearest_snapshot_is_the_newest_at_or_below(world: SqliteWorld) -> None:
    cache = world.projections
    rows = [(n, b"chain%d" % n, b"record%d" % n, b"{}") for n in (128, 256, 384)]
    cache.put_snapshots(TENANT, "t", 1, rows)
    assert cache.nearest(TENANT, "t", 127, 1) is None
    assert cache.nearest(TENANT, "t", 128, 1) == (128, b"chain128", b"record128")
    assert cache.nearest(TENANT, "t", 300, 1) == (256, b"chain256", b"record256")
    assert cache.nearest(TENANT, "t", 9_999, 1) == (384, b"chain384", b"record384")
    assert cache.nearest(TENANT, "t", 9_999, 2) is None
    assert cache.nearest("other", "t", 9_999, 1) is None
    assert cache.counts(TENANT, "t", (128, 200, 384), 1) == {128: b"{}", 384: b"{}"}
    cache.put_snapshots(TENANT, "t", 1, [(128, b"new", b"new", b"[]")])
    assert cache.nearest(TENANT, "t", 128, 1) == (128, b"new", b"new")


def test_segments_are_kept_by_digest_and_tenant(world: SqliteWorld) -> None:
    world.projections.put_segments(TENANT, [("sha256:a", b"one"), ("sha256:b", b"two")])
    assert world.projections.segment(TENANT, "sha256:a") == b"one"
    assert world.projections.segment("other", "sha256:a") is None
    assert world.projections.segment(TENANT, "sha256:c") is None


def test_an_older_summary_never_replaces_a_newer_one(world: SqliteWorld) -> None:
    cache = world.projections
    cache.put_summary(TENANT, "t", 9, {"title": "new", "events": 9})
    cache.put_summary(TENANT, "t", 5, {"title": "old", "events": 5})
    summary = cache.summary(TENANT, "t")
    assert summary is not None
    assert (summary["title"], summary["as_of_sequence"]) == ("new", 9)
    cache.put_summary(TENANT, "t", 10, {"title": "newest"})
    assert cache.summary(TENANT, "t")["events"] is None
    assert cache.summary("other", "t") is None
    with pytest.raises(InvalidInput):
        cache.put_summary(TENANT, "t", 11, {"colour": "red"})


def listed(world: SqliteWorld) -> dict[str, dict[str, object]]:
    chosen = random.Random(3)
    rows: dict[str, dict[str, object]] = {}
    for number in range(57):
        summary: dict[str, object] = {
            "title": chosen.choice(["Alpha", "beta", "50%_off", "Ünïcode"]),
            "status": chosen.choice(["RUNNING", "COMPLETED", "FAILED"]),
            "unsettled": chosen.randrange(4),
            "cost_nano_usd": chosen.choice([None, None, 5, 700, 90_000]),
            "updated_at": chosen.randrange(30),
            "events": number,
            "blocked": chosen.choice([True, False]),
        }
        rows[f"t{number:02}"] = summary
        world.projections.put_summary(TENANT, f"t{number:02}", number, summary)
    world.projections.put_summary("other", "theirs", 1, {"title": "Alpha"})
    return rows


@pytest.mark.parametrize("sort", ["updated", "cost_nano_usd", "title", "id", "unsettled"])
@pytest.mark.parametrize("descending", [True, False])
def test_pages_give_every_row_once_in_order(
    world: SqliteWorld, sort: str, descending: bool
) -> None:
    rows = listed(world)
    column = {"updated": "updated_at", "id": "trajectory_id"}.get(sort, sort)
    seen: list[dict[str, object]] = []
    after = None
    while page := world.projections.list_summaries(
        TENANT, sort=sort, descending=descending, after=after, limit=10, filters={}
    ):
        seen.extend(page)
        after = (page[-1][column], str(page[-1]["trajectory_id"]))
    assert sorted(str(row["trajectory_id"]) for row in seen) == sorted(rows)

    def key(row: dict[str, object]) -> tuple[bool, object, str]:
        value = row[column]
        return (value is not None, value if value is not None else 0, str(row["trajectory_id"]))

    assert seen == sorted(seen, key=key, reverse=descending)


@pytest.mark.parametrize(
    ("filters", "want"),
    [
        ({}, lambda row: True),
        ({"status": "FAILED"}, lambda row: row["status"] == "FAILED"),
        ({"status": ["FAILED", "RUNNING"]}, lambda row: row["status"] != "COMPLETED"),
        ({"unsettled__gt": 0, "status": "RUNNING"},
         lambda row: row["unsettled"] > 0 and row["status"] == "RUNNING"),
        ({"cost_nano_usd": None}, lambda row: row["cost_nano_usd"] is None),
        ({"cost_nano_usd__ne": None}, lambda row: row["cost_nano_usd"] is not None),
        ({"events__ge": 10, "events__le": 20}, lambda row: 10 <= row["events"] <= 20),
        ({"blocked": True}, lambda row: row["blocked"]),
        ({"text": "ALPHA"}, lambda row: row["title"] == "Alpha"),
        ({"text": "%_"}, lambda row: row["title"] == "50%_off"),
        ({"text": "'; DROP TABLE summaries; --"}, lambda row: False),
    ],
)  # fmt: skip
def test_filters(world: SqliteWorld, filters: dict[str, object], want: object) -> None:
    rows = listed(world)
    wanted = sorted(name for name, row in rows.items() if want(row))  # type: ignore[operator]
    found = world.projections.list_summaries(
        TENANT, sort="id", descending=False, after=None, limit=100, filters=filters
    )
    assert [row["trajectory_id"] for row in found] == wanted
    assert world.projections.count_summaries(TENANT, filters) == len(wanted)


@pytest.mark.parametrize("key", ["colour", "title; DROP TABLE summaries", "events__like"])
def test_an_unknown_column_is_refused(world: SqliteWorld, key: str) -> None:
    with pytest.raises(InvalidInput):
        world.projections.count_summaries(TENANT, {key: 1})
    with pytest.raises(InvalidInput):
        world.projections.list_summaries(
            TENANT, sort=key, descending=True, after=None, limit=1, filters={}
        )


def test_every_summary_column_is_one_of_the_agreed(world: SqliteWorld) -> None:
    world.projections.put_summary(TENANT, "t", 1, dict.fromkeys(SUMMARY))
    assert set(world.projections.summary(TENANT, "t")) == {"trajectory_id", *SUMMARY, *COMPUTED}


# --- a cache may be lost -------------------------------------------------------------------------


def cache_file(world: SqliteWorld) -> Path:
    return world.folder / "data" / "projections.db"


def test_dropping_it_loses_the_cache_and_nothing_else(world: SqliteWorld) -> None:
    world.owned()
    world.projections.put_summary(TENANT, "t", 2, {"title": "T"})
    world.projections.drop()
    assert world.projections.summary(TENANT, "t") is None
    world.projections.put_summary(TENANT, "t", 2, {"title": "T"})
    assert world.projections.summary(TENANT, "t")["title"] == "T"
    assert world.store.head(TENANT, "t").sequence_number == 2


@pytest.mark.parametrize("damage", [b"", b"not a database at all" * 400])
def test_a_damaged_file_is_made_anew_at_start(world: SqliteWorld, damage: bytes) -> None:
    world.projections.put_summary(TENANT, "t", 2, {"title": "T"})
    world.opened.close()
    cache_file(world).write_bytes(damage)
    world.opened = world._open()
    assert world.projections.summary(TENANT, "t") is None
    world.projections.put_summary(TENANT, "t", 2, {"title": "again"})
    assert world.projections.summary(TENANT, "t")["title"] == "again"


def test_a_damaged_page_is_met_while_reading(world: SqliteWorld) -> None:
    for number in range(500):
        world.projections.put_snapshots(TENANT, "t", 1, [(number, b"c", bytes(400), b"{}")])
    world.opened.close()
    path = cache_file(world)
    data = bytearray(path.read_bytes())
    for page in range(4, len(data) // 4096):
        data[page * 4096 : page * 4096 + 64] = b"\xff" * 64
    path.write_bytes(data)
    world.opened = world._open()
    assert all(
        world.projections.nearest(TENANT, "t", number, 1) is None for number in range(0, 500, 50)
    )
    world.projections.put_snapshots(TENANT, "t", 1, [(7, b"c", b"r", b"{}")])
    assert world.projections.nearest(TENANT, "t", 9, 1) == (7, b"c", b"r")


def test_a_cache_of_another_store_is_not_read(world: SqliteWorld, tmp_path: Path) -> None:
    other = SqliteWorld(tmp_path / "other")
    other.projections.put_summary(TENANT, "t", 9, {"title": "theirs"})
    other.close()
    world.opened.close()
    moved = (other.folder / "data" / "projections.db").read_bytes()
    # The template gives both one incarnation; a real second store has its own.
    cache_file(world).write_bytes(moved.replace(world.opened.incarnation.encode(), b"f" * 16))
    world.opened = world._open()
    assert world.projections.summary(TENANT, "t") is None


def test_readers_and_writers_at_once(world: SqliteWorld) -> None:
    def write(base: int) -> None:
        for number in range(60):
            world.projections.put_summary(TENANT, f"t{base}", number, {"events": number})
            if number == 30 and base == 0:
                world.projections.drop()

    def read() -> None:
        for _ in range(120):
            world.projections.list_summaries(
                TENANT, sort="updated", descending=True, after=None, limit=9, filters={}
            )

    assert together([lambda: write(0), lambda: write(1), read, read]) == [None] * 4
    # The drop may have come after the last of the other's; what is there is never an older one.
    assert (world.projections.summary(TENANT, "t1") or {"events": 59})["events"] == 59
