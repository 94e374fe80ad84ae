"""Lists by a query: every term against a plain reading of the rows, and what is left out."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest

from core.errors import SearchTimeout, StoreStopped
from core.query import KEYS, parse
from runtime import listing
from runtime.listing import Ask, find
from store import projections
from store.listing import COLUMNS
from store.ports import Sought
from store.projections import SUMMARY
from tests.contract.worlds import TENANT, SqliteWorld

NOW = 1_790_000_000_000_000
Row = Mapping[str, Any]


@pytest.fixture
def rows(world: SqliteWorld) -> Iterator[list[Row]]:
    chosen = random.Random(7)
    for number in range(60):
        some = number % 4
        world.projections.put_summary(
            TENANT,
            f"tr-{number:02d}",
            number + 1,
            {
                "title": None if number == 5 else f"Case {number} of 100%_done",
                "agent": chosen.choice([None, "repair", "infra"]),
                "source": chosen.choice([None, "codex", "claude_code"]),
                "standing": chosen.choice(["reported", "imported"]),
                "model": chosen.choice([None, "m-1", "m-2"]),
                "models": "\nm-1\nm-9\n" if number % 10 == 0 else None,
                "status": chosen.choice(["RUNNING", "FAILED", "COMPLETED"]),
                "step": chosen.randrange(10),
                "unsettled": chosen.randrange(3),
                "unknown": chosen.choice([None, 0, 1]),
                "in_doubt": chosen.choice([None, 0, 1]),
                "errors": chosen.randrange(4),
                "input_tokens": 10 if some else None,
                "output_tokens": number if some else None,
                "cache_read_tokens": 0 if some else None,
                "cache_write_tokens": 0 if some else None,
                "cost_nano_usd": number * 10**8 if number % 3 == 0 else None,
                "cost_derived_nano_usd": 5 * 10**9 if number % 3 == 1 else None,
                "events": number + 1,
                "started_at": NOW - number * 10**9 if some else None,
                "ended_at": NOW - number * 10**9 + number * 60 * 10**6 if some == 2 else None,
                "last_at": NOW - number * 10**9 + number * 60 * 10**6 if some else None,
                "updated_at": NOW - number * 3_600_000_000,
                "tags": "keep slow" if number % 7 == 0 else None,
                "withdrawn": number == 59,
                "hidden": number == 59,
                "parent_id": "tr-00" if number % 9 == 1 else None,
            },
        )
    yield world.projections.list_summaries(
        TENANT, sort="id", descending=False, after=None, limit=100, filters={"hidden": (0, 1)}
    )


def ask(world: SqliteWorld, text: str, index: Any = None, **more: Any) -> listing.ListPage:
    query = parse(text, NOW).checked()
    given = {"filters": {}, "sort": "title", "descending": False, "limit": 200, **more}
    return find(world.projections, index, TENANT, Ask(query=query, **given))


def ids(page: listing.ListPage) -> set[str]:
    return {str(row["trajectory_id"]) for row in page.rows}


HOLDS: dict[str, Callable[[Row], bool]] = {
    "status:failed": lambda r: r["status"] == "FAILED",
    "-status:failed,running": lambda r: r["status"] == "COMPLETED" or r["state"] == "OPEN",
    "status:running": lambda r: r["status"] == "RUNNING" and r["standing"] == "reported",
    "status:open": lambda r: r["status"] == "RUNNING" and r["standing"] == "imported",
    "standing:imported": lambda r: r["standing"] == "imported",
    "source:codex": lambda r: r["source"] == "codex",
    "source:CODEX": lambda r: r["source"] == "codex",
    "source:Claude*": lambda r: r["source"] == "claude_code",
    "-source:codex": lambda r: r["source"] == "claude_code",
    "source:none": lambda r: r["source"] is None,
    "agent:re*": lambda r: r["agent"] == "repair",
    "model:m-1": lambda r: r["model"] == "m-1" or (r["model"] and r["models"]),
    "-model:m-1": lambda r: r["model"] == "m-2" and not r["models"],
    "model:m-*": lambda r: r["model"] is not None,
    "model:M-9": lambda r: r["model"] and r["models"],
    "model:m-9": lambda r: r["model"] and r["models"],
    "title:100%_done": lambda r: r["title"] is not None,
    "title:100x": lambda r: False,
    "title:none": lambda r: r["title"] is None,
    "tr-1": lambda r: "tr-1" in r["trajectory_id"],
    "-case": lambda r: r["title"] is None,
    "id:tr-0*": lambda r: r["trajectory_id"].startswith("tr-0"),
    "tag:keep": lambda r: r["tags"] is not None,
    "-tag:keep": lambda r: r["tags"] is None,
    "parent:tr-00": lambda r: r["parent_id"] is not None,
    "error:>1": lambda r: r["errors"] > 1,
    "unsettled:0": lambda r: r["unsettled"] == 0,
    "unknown:>0": lambda r: (r["unknown"] or 0) > 0,
    "-in_doubt:>0": lambda r: r["in_doubt"] == 0,
    "step:3..5": lambda r: 3 <= r["step"] <= 5,
    "-step:3..5": lambda r: not 3 <= r["step"] <= 5,
    "events:1,2,50": lambda r: r["events"] in (1, 2, 50),
    "tokens:>40": lambda r: r["tokens"] is not None and r["tokens"] > 40,
    "-tokens:>40": lambda r: r["tokens"] is not None and r["tokens"] <= 40,
    "input:10": lambda r: r["input_tokens"] == 10,
    "output:<5": lambda r: r["output_tokens"] is not None and r["output_tokens"] < 5,
    "cost:>2": lambda r: r["cost"] is not None and r["cost"] > 2 * 10**9,
    "duration:>=10m": lambda r: (r["duration_us"] or 0) >= 600 * 10**6,
    "duration:any": lambda r: r["started_at"] is not None,
    "active:<24h": lambda r: (r["last_at"] or r["updated_at"]) >= NOW - 86_400 * 10**6,
    "started:any": lambda r: r["started_at"] is not None,
    "updated:<24h": lambda r: r["updated_at"] >= NOW - 86_400 * 10**6,
    "-updated:<24h": lambda r: r["updated_at"] < NOW - 86_400 * 10**6,
    "withdrawn:yes": lambda r: bool(r["hidden"]),
    "withdrawn:any": lambda r: True,
    "withdrawn:no": lambda r: not r["hidden"],
}


@pytest.mark.parametrize("text", HOLDS)
def test_a_term_lists_what_a_plain_reading_lists(
    world: SqliteWorld, rows: list[Row], text: str
) -> None:
    shown = [row for row in rows if text.startswith("withdrawn") or not row["hidden"]]
    wanted = {row["trajectory_id"] for row in shown if HOLDS[text](row)}
    found = ask(world, text)
    assert ids(found) == wanted and (found.total, found.exact) == (len(wanted), True)


def test_every_key_of_the_language_has_its_place() -> None:
    apart = {"model", "tag", "withdrawn", "text", "tool"}
    assert set(KEYS) == set(COLUMNS) | apart
    asked = {parse(text, NOW).terms[0].key for text in HOLDS} - {"words"}
    assert asked == set(KEYS) - {"text", "tool"}


@pytest.mark.parametrize("sort", listing.SORTS)
@pytest.mark.parametrize("descending", [False, True])
def test_pages_of_every_order_meet_each_row_once(
    world: SqliteWorld, rows: list[Row], sort: str, descending: bool
) -> None:
    whole = ask(world, "", sort=sort, descending=descending)
    seen: list[object] = []
    after = None
    while True:
        page = ask(world, "", sort=sort, descending=descending, limit=7, after=after)
        seen += [row["trajectory_id"] for row in page.rows]
        after = page.after
        if after is None:
            break
    assert seen == [row["trajectory_id"] for row in whole.rows] and len(seen) == 59


def test_what_was_never_recorded_is_counted_and_led_to(world: SqliteWorld, rows: list[Row]) -> None:
    found = ask(world, "cost:>0.5 status:failed", explain=True)
    (left,) = found.left_out
    never = ask(world, left.instead)
    assert left.key == "cost" and left.instead == "cost:none status:failed" and left.exact
    assert left.count == never.total > 0
    assert ask(world, "cost:none", explain=True).left_out == ()
    few = ask(world, "tokens:>0", explain=True, count_most=2)
    assert (few.total, few.exact) == (2, False) and few.left_out[0].count == 2
    assert not few.left_out[0].exact


class Index:
    """An index that knows of one word which trajectories hold it."""

    def __init__(self, held: set[str]) -> None:
        self.held = held
        self.asked = 0

    def behind(self, tenant: str) -> tuple[int, int]:
        return (1, 2)

    def holding(
        self, tenant: str, sought: Sought, *, among: list[str] | None = None, limit: int
    ) -> list[str]:
        self.asked += 1
        held = self.held if among is None else self.held & set(among)
        return sorted(held)[:limit]


@pytest.mark.parametrize("many", [False, True])
def test_a_text_that_few_or_many_hold_lists_the_same(
    world: SqliteWorld, rows: list[Row], many: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if many:
        monkeypatch.setattr(listing, "SEARCH_TRAJECTORIES_MAX", 3)
    held = {f"tr-{n:02d}" for n in range(0, 60, 2)}
    index = Index(held)
    listed = {str(row["trajectory_id"]) for row in rows if not row["hidden"]}
    failed = {str(row["trajectory_id"]) for row in rows if row["status"] == "FAILED"} & listed
    assert ids(ask(world, "text:x", index)) == held & listed
    assert ids(ask(world, "-text:x", index)) == listed - held
    found = ask(world, "tool:x status:failed", index)
    assert ids(found) == held & failed and found.behind == (1, 2)
    assert found.exact is not many
    seen: list[object] = []
    after = None
    while True:
        page = ask(world, "text:x", index, limit=4, after=after, sort="updated", descending=True)
        seen += [row["trajectory_id"] for row in page.rows]
        after = page.after
        if after is None:
            break
    assert len(seen) == len(set(seen)) == len(held & listed)


def test_looking_ends_and_goes_on_where_it_ended(
    world: SqliteWorld, rows: list[Row], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listing, "SEARCH_TRAJECTORIES_MAX", 1)
    monkeypatch.setattr(listing, "PAGE_ROWS_MAX", 10)
    monkeypatch.setattr(listing, "LIST_LOOK_MAX", 20)
    index = Index({"tr-00", "tr-55"})
    first = ask(world, "text:x", index, sort="updated", limit=10)
    assert ids(first) == {"tr-55"} and first.looked_through == 20 and not first.exact
    seen, page = ids(first), first
    for _ in range(5):
        if page.after is None:
            break
        page = ask(world, "text:x", index, sort="updated", limit=10, after=page.after)
        seen |= ids(page)
    assert page.after is None and seen == {"tr-00", "tr-55"}


def test_without_an_index_a_text_is_refused(world: SqliteWorld) -> None:
    with pytest.raises(StoreStopped, match="no full-text index"):
        ask(world, "text:x")


@pytest.mark.parametrize("text", ["model:m-1", "model:m-1,m-2", "-model:m-1", "model:m-*"])
def test_a_model_is_found_the_same_where_no_row_has_several(
    world: SqliteWorld, rows: list[Row], text: str
) -> None:
    for row in rows:
        plain = {key: row[key] for key in SUMMARY if key != "models"}
        name, number = str(row["trajectory_id"]), int(row["as_of_sequence"])
        world.projections.put_summary(TENANT, name, number, plain)
    wanted = {
        row["trajectory_id"]
        for row in rows
        if not row["hidden"]
        and row["model"] is not None
        and {
            "model:m-1": row["model"] == "m-1",
            "model:m-1,m-2": True,
            "-model:m-1": row["model"] != "m-1",
            "model:m-*": True,
        }[text]
    }
    assert ids(ask(world, text)) == ids(ask(world, text, sort="updated")) == wanted


def test_a_count_goes_on_for_some_rows_and_ends_in_time(
    world: SqliteWorld, rows: list[Row], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(projections, "_COUNTED_AT_ONCE", 10)
    monkeypatch.setattr(listing, "LIST_COUNT_SECONDS_MAX", -1.0)
    found = ask(world, "")
    assert (found.total, found.exact) == (10, False)
    assert ask(world, "", count_most=None).total == 59


def test_a_list_that_takes_too_long_is_given_up(
    world: SqliteWorld, rows: list[Row], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(projections, "LIST_SECONDS_MAX", -1.0)
    monkeypatch.setattr(projections, "_STEPS_BETWEEN_LOOKS", 1)
    with pytest.raises(SearchTimeout, match="narrow it"):
        ask(world, "error:>0")


@pytest.mark.parametrize("text", ["cost:>5.8", "status:failed", "id:tr-03", "parent:tr-00"])
@pytest.mark.parametrize("few", [0, 2_000])
def test_whichever_term_chooses_the_index_the_list_is_the_same(
    world: SqliteWorld, rows: list[Row], text: str, few: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = [row["trajectory_id"] for row in ask(world, "", sort="updated").rows]
    held = ids(ask(world, text))
    monkeypatch.setattr(projections, "_FEW_ROWS", few)
    seen: list[object] = []
    after = None
    while True:
        page = ask(world, f"{text} step:>=0", sort="updated", limit=3, after=after)
        seen += [row["trajectory_id"] for row in page.rows]
        after = page.after
        if after is None:
            break
    assert seen == [name for name in whole if name in held]
