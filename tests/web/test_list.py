"""The list as a person uses it: query, views, selection, files, search; all without JavaScript."""

from __future__ import annotations

import csv
import io
import json
import re
import zipfile
from collections.abc import Iterator
from html import unescape
from urllib.parse import parse_qs, quote, urlsplit

import pytest

from app.presenters.found import excerpt
from app.presenters.summaries import row
from core.events.task import TaskStarted
from core.words import phrases
from ingest import demo
from tests.web import pages_world
from tests.web.pages_world import WHO, World, hostile_payloads


@pytest.fixture(scope="module")
def full(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with pages_world.world(tmp_path_factory.mktemp("list") / "data") as world:
        demo.seed(world.parts.opened.store, world.parts.opened.blobs, events=300)
        pages_world.write(world, "hostile", hostile_payloads())
        assert world.parts.projector is not None and world.parts.indexer is not None
        world.parts.projector.catch_up()
        world.parts.indexer.catch_up()
        yield world


def listed(page: str) -> list[str]:
    return re.findall(r'<input type="checkbox" name="id" value="([^"]+)"', page)


def hrefs(page: str, label: str) -> list[str]:
    return [unescape(href) for href in re.findall(rf'href="([^"]+)"[^>]*>{label}<', page)]


def test_each_term_is_a_chip_that_can_be_taken_off(full: World) -> None:
    page = full.get("/trajectories?q=" + quote("standing:imported -status:failed cost:>0"))
    assert "standing <b>is imported</b>" in page
    assert "status <b>is not FAILED</b>" in page and "cost <b>more than $0</b>" in page
    off = [parse_qs(urlsplit(href).query)["q"][0] for href in hrefs(page, "\u00d7")]
    assert "standing:imported cost:>0" in off and "-status:failed cost:>0" in off


def test_a_mistake_names_its_column_and_the_list_still_shows(full: World) -> None:
    page = full.get("/trajectories?q=" + quote("standing:imported cost:cheap"))
    assert "Column 24:" in page and "US dollars" in page and "cost:&gt;0.10" in page
    assert "standing <b>is imported</b>" in page and listed(page)
    assert 'aria-invalid="true"' in page


def test_pickers_write_the_query_and_replace_their_own_term(full: World) -> None:
    page = full.get("/trajectories?q=" + quote("status:failed"))
    (running,) = hrefs(page, "RUNNING")
    assert parse_qs(urlsplit(running).query)["q"] == ["status:RUNNING"]
    (costly,) = hrefs(page, re.escape("more than $1"))
    assert parse_qs(urlsplit(costly).query)["q"] == ["status:failed cost:>1"]
    page = full.get("/trajectories?q=status%3Afailed&text=no+such")
    assert "an event has “no such”" in page


def test_text_and_tool_ask_the_index_and_say_how_far_it_is(full: World) -> None:
    page = full.get("/trajectories?q=" + quote('text:"second line"'))
    assert listed(page) == ["hostile"] and "search index lacks" not in page
    index = full.parts.index
    kept = index.lag
    index.lag = lambda _: (2, 1234)
    try:
        page = full.get("/trajectories?q=text%3Aline")
        assert "the search index lacks 1,234 events of 2 trajectories" in page
        assert "search index lacks" not in full.get("/trajectories?q=status%3Afailed")
    finally:
        index.lag = kept


def test_columns_are_chosen_and_stay_in_the_url(full: World) -> None:
    page = full.get("/trajectories?col=events&col=in_doubt&sort=events&limit=20")
    assert re.findall(r'<th scope="col"[^>]*><a[^>]*>([^<]+)', page) == [
        "Title",
        "Events ↓",
        "In doubt",
    ]
    assert "cols=title%2Cevents%2Cin_doubt" in page
    assert "Columns 3 of 22" in full.get("/trajectories?cols=title,events,in_doubt")
    # Of what seldom says something, high-water and generation, only what does in these rows.
    assert "Columns 11 of 22" in full.get("/trajectories?cols=nonsense")
    imported = full.get("/trajectories?q=" + quote("standing:imported status:completed"))
    assert "Columns 10 of 22" in imported and ">Gen.<" not in imported


def test_a_view_is_saved_shown_replaced_and_dropped(full: World) -> None:
    state = {"q": "status:failed cost:>0", "sort": "cost", "evil": "x"}
    query = "&".join(f"{key}={quote(value)}" for key, value in state.items())
    answer = full.client.post(
        "/trajectories/views", data={"name": "Dear ones", "query": query}, follow_redirects=False
    )
    assert answer.status_code == 303
    shown = answer.headers["location"]
    page = full.get(shown)
    assert re.search(r'aria-current="true">Dear ones<', page) and "evil" not in shown
    full.client.post("/trajectories/views", data={"name": "Dear ones", "query": "q=cost%3A%3E9"})
    assert [act.body.query for act in full.parts.runtime.views(WHO).values()] == ["q=cost%3A%3E9"]  # type: ignore[attr-defined]
    assert full.client.post("/trajectories/views", data={"name": " "}).status_code == 422
    full.client.post("/trajectories/views/drop", data={"name": "Dear ones"})
    assert not full.parts.runtime.views(WHO)


def test_rows_are_exported_as_lines_and_no_cell_is_a_formula(full: World) -> None:
    task = TaskStarted(title="plain", standing="imported")
    pages_world.write(full, "formula", [task])
    formula = {"title": "=cmd|' /C calc'!A0"}
    full.parts.runtime.projections.put_summary("local", "formula", 9, formula)
    assert full.parts.indexer is not None
    full.parts.indexer.catch_up()
    answer = full.client.get("/trajectories/export?form=csv")
    assert answer.headers["content-disposition"].startswith("attachment")
    assert "sandbox" in answer.headers["content-security-policy"]
    found = list(csv.DictReader(io.StringIO(answer.text)))
    assert {row["trajectory_id"] for row in found} == {*listed(full.get("/trajectories?limit=200"))}
    assert "'=cmd|' /C calc'!A0" in {row["title"] for row in found}
    lines = full.client.get("/trajectories/export?form=jsonl&q=id%3Ahostile").text.splitlines()
    assert [json.loads(line)["trajectory_id"] for line in lines] == ["hostile"]
    none = full.client.get("/trajectories/export?form=csv&q=id%3Anone-such").text
    assert none == "trajectory_id\r\n"
    assert full.client.get("/trajectories/export?form=csv&q=cost%3Ax").status_code == 422
    assert full.client.get("/trajectories/export?form=exe").status_code == 422


def test_logs_are_exported_whole_and_what_is_not_there_is_named(full: World) -> None:
    names = ["hostile", "demo-nightly-build"]
    path = "/trajectories/export?form=logs" + "".join(f"&id={name}" for name in names)
    kept = full.client.get(path).content
    with zipfile.ZipFile(io.BytesIO(kept)) as archive:
        assert set(archive.namelist()) == {f"{name}.strandline.jsonl" for name in names}
        for name in names:
            one = full.client.get(f"/v1/trajectories/{name}/export").content
            assert archive.read(f"{name}.strandline.jsonl") == one
    full.parts.runtime.projections.put_summary("local", "ghost", 9, {"title": "no log"})
    with zipfile.ZipFile(io.BytesIO(full.client.get(path + "&id=ghost").content)) as archive:
        assert archive.read("left-out.txt").startswith(b"ghost: ")


def test_two_rows_are_compared_and_another_number_leads_back(full: World) -> None:
    page = full.get("/trajectories/compare?id=hostile&id=demo-nightly-build")
    assert "Already their first events differ" in page and "B at 1" in page
    same = full.get("/trajectories/compare?id=demo-nightly-build&id=hostile")
    assert "A at 1" in same
    for ids, number, what in (
        ("id=hostile", 1, "tick one row more"),
        ("id=hostile&id=hostile", 1, "tick one row more"),
        ("id=hostile&id=b&id=c", 3, "untick 1"),
        ("", 0, "tick two rows"),
    ):
        back = quote("q=standing:imported&limit=20")
        answer = full.client.get(f"/trajectories/compare?{ids}&back={back}", follow_redirects=False)
        assert answer.status_code == 303
        page = full.get(answer.headers["location"])
        assert f"and {number} " in page and what in page and 'role="alert"' in page
        assert "standing <b>is imported</b>" in page
        assert bool(re.search(r'value="hostile"[^>]*checked', page)) == bool(number)
        assert page.count("not on this page") == max(0, number - 1)
    nothing = full.client.get("/trajectories/export?form=csv&back=", follow_redirects=False)
    assert "tick one row or more" in full.get(nothing.headers["location"])
    full.get("/trajectories/compare?id=hostile&id=none-such", status=404)


def test_the_search_box_jumps_to_an_id_or_finds_text(full: World) -> None:
    def jump(text: str) -> str:
        answer = full.client.get("/find", params={"text": text}, follow_redirects=False)
        return str(answer.headers.get("location", answer.status_code))

    assert jump("hostile") == "/t/hostile" and jump(" hostile@3 ") == "/t/hostile/@3"
    assert jump("hostile@99999") == "200" and jump("nobody") == "200"
    page = full.get("/find?text=" + quote('"second line"'))
    assert "<mark>second line</mark>" in page and "/t/hostile/@" in page
    assert "<script>window" not in page and "No event holds it" in full.get("/find?text=xyzzy")
    assert "Not searched" in full.get("/find?text=-%3E") and "Type what to look for" in full.get(
        "/find"
    )


@pytest.mark.parametrize("q", ['"', "<script>", "a:b:c", "\u202e", "%", "x" * 1001, "'; DROP", "-"])
def test_no_query_breaks_the_page(full: World, q: str) -> None:
    page = full.get("/trajectories?q=" + quote(q))
    assert "<script>alert" not in page and "Trajectories" in page
    full.get("/find?text=" + quote(q[:300]))


def test_an_excerpt_shows_the_words_around(full: World) -> None:
    text = "far " * 100 + "the\nconnection   was refused\there " + "off " * 100
    pieces = excerpt(text, phrases('refused "connection was"'))
    assert [piece.text for piece in pieces if piece.marked] == ["connection was", "refused"]
    assert pieces[0].text == "…" and pieces[-1].text == "…"
    assert excerpt("nothing here", phrases("else"))[0].marked is False


def test_the_api_answers_queries_and_searches(full: World) -> None:
    found = full.client.get("/v1/trajectories", params={"q": "id:hostile"}).json()
    assert [row["trajectory_id"] for row in found["trajectories"]] == ["hostile"]
    assert (found["total"], found["total_exact"], found["index_behind"]) == (1, True, None)
    found = full.client.get("/v1/trajectories", params={"q": "text:line", "count": "exact"}).json()
    assert found["index_behind"] == {"trajectories": 0, "events": 0}
    wrong = full.client.get("/v1/trajectories", params={"q": "cost:x"})
    assert wrong.status_code == 422 and "column 6" in wrong.json()["detail"]
    hits = full.client.get("/v1/search", params={"text": '"second line"'}).json()
    assert "hostile" in {hit["trajectory_id"] for hit in hits["hits"]} and not hits["more"]
    one = {"text": "line", "trajectory_id": "hostile", "limit": 1}
    first = full.client.get("/v1/search", params=one).json()
    assert first["more"] and first["next_after"] == first["hits"][0]["sequence_number"]
    second = full.client.get("/v1/search", params={**one, "after": first["next_after"]}).json()
    assert second["hits"][0]["sequence_number"] > first["next_after"]
    assert full.client.get("/v1/search", params={"text": "->"}).status_code == 422
    gone = full.client.get("/v1/search", params={"text": "x", "trajectory_id": "none-such"})
    assert gone.status_code == 404


def test_a_comparison_says_what_each_came_to_and_marks_what_differs(full: World) -> None:
    page = full.get("/trajectories/compare?id=hostile&id=demo-nightly-build")
    rows = re.findall(r'<tr( class="differs")?><th scope="row">([^<]+)<', page)
    said = {name: bool(differs) for differs, name in rows}
    for name in ("status", "outcome", "step", "tools used", "tokens", "cost", "duration", "models"):
        assert name in said
    assert said["events"] and ", differs</span>" in page
    other = next(
        one
        for one in listed(full.get("/trajectories"))
        if one not in ("hostile", "demo-nightly-build")
    )
    same = full.get(f"/trajectories/compare?id=demo-nightly-build&id={other}")
    assert "No event of one family" in same or re.search(r"something else: [\d,]+</h2>", same)
    assert "does not say that they went apart" in same


def test_a_text_term_leads_each_row_to_its_first_hit(full: World) -> None:
    page = full.get("/trajectories?q=" + quote('text:"second line"'))
    (there,) = set(re.findall(r'<td class="cut found"><a href="([^"]+)"', page))
    assert there.startswith("/t/hostile/@") and "find=%22second+line%22" in there
    assert '<mark class="hit">second line</mark>' in page
    assert hrefs(page, "all hits") == ["/find?text=%22second+line%22"]


def test_a_value_that_nothing_has_is_answered_by_what_there_is(full: World) -> None:
    there = full.parts.runtime.projections.distinct("local", "source", limit=9)
    source = next(one for one in there if one.startswith("mini"))
    page = full.get("/trajectories?q=" + quote(f'source:"{source.upper()}"'))
    assert listed(page), "small and capital letters are the same"
    wrong = quote(f"source:{source.lower().replace(' ', '_')[:-1]}_")
    page = full.get(f"/trajectories?q={wrong}")
    assert not listed(page) and "Did you mean" in page and hrefs(page, re.escape(source))
    for key, value in (("tool", "zzz"), ("tag", "zzz"), ("model", "zzz"), ("agent", "zzz")):
        page = full.get(f"/trajectories?q={key}:{value}")
        assert f"No {key} is “{value}”" in page or key == "tag"
    assert "status:running" in full.get("/trajectories?q=status:runing")


def test_partial_tokens_are_at_least_and_say_why() -> None:
    whole = {"trajectory_id": "t", "input_tokens": 7, "output_tokens": 1, "replied": 9}
    assert row(whole).tokens == "8" and row(whole).tokens_doubt == ""
    some = row({**whole, "unreported": 8, "cost_derived_nano_usd": 10**9})
    assert (some.tokens, some.input, some.cost) == ("≥ 8", "≥ 7", "≥ $1.00")
    assert some.tokens_doubt == some.cost_doubt == "at least: 8 of 9 replies state none"
    stated = row({**whole, "unreported": 8, "cost_nano_usd": 10**9, "standing": "gated"})
    assert (stated.cost, stated.cost_doubt) == ("$1.00", "")


def test_activity_is_the_sources_own_time_and_growing_takes_both_clocks() -> None:
    now = 10**15
    base = {"trajectory_id": "t", "standing": "imported", "status": "RUNNING", "started_at": 5}
    live = {**base, "last_at": now - 10**6, "updated_at": now - 10**6}
    assert row(live, now).growing == "growing" and row(live, now).active_at == now - 10**6
    old = {**base, "last_at": 10**12, "updated_at": now}
    assert (row(old, now).growing, row(old, now).active_at) == ("", 10**12)
    assert row(old, now, {"t"}).growing == "followed"
    ended = {**live, "status": "COMPLETED"}
    assert row(ended, now, {"t"}).growing == "" and row(ended, now).duration_note == ""
    assert (row(live).status, row(live).duration_note) == ("OPEN", "no end")
    ours = row({**live, "standing": "reported"})
    assert (ours.status, ours.duration_note) == ("RUNNING", "so far")
    untimed = row({"trajectory_id": "t", "updated_at": 7})
    assert untimed.active_at == 7 and "states no times" in untimed.active_from
