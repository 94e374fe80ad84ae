"""What stands beside a log: notes, tags, the tree, the overview's list, and lists that grow old."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.pages.activity import HALF_HOUR, activity
from app.presenters import strip
from core.acts import Note, Nothing
from core.events.approval import ApprovalRequested
from core.events.context import RuntimeInput
from core.events.envelope import NewEvent
from core.events.fields import Payload, Usage
from core.events.model_call import ModelReplied
from core.events.task import Capabilities, Parent, TaskStarted
from core.events.tool import ToolIntent
from tests.web.pages_world import HOSTILE, WHO, World, assert_inert, world, write


def _session(
    title: str, *, parent: Parent | None = None, tokens: int | None = None
) -> list[Payload]:
    usage = Usage(tokens, 0, 0, 0) if tokens is not None else None
    return [
        TaskStarted(
            title=title,
            standing="imported",
            capabilities=Capabilities(intents="proposals"),
            parent=parent,
        ),
        ModelReplied("completed", model="m", text="said", usage=usage),
        ToolIntent("proposal", "bash", None, {"command": "ls"}),
    ]


@pytest.fixture(scope="module")
def family(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """A parent with two sub-agents, one of which has one of its own; and a stranger's child."""
    with world(tmp_path_factory.mktemp("family")) as found:
        write(found, "child-a", _session("child a", parent=Parent("top", "op-1"), tokens=40))
        write(found, "grandchild", _session("below a", parent=Parent("child-a"), tokens=7))
        write(found, "top", _session("the parent", tokens=100))
        write(found, "child-b", _session("child b", parent=Parent("top", "op-1")))
        write(found, "orphan", _session("orphan", parent=Parent("never-stored", "op-9")))
        yield found


# ---- the tree ------------------------------------------------------------------------------


def test_a_tree_shows_each_trajectory_once_with_what_it_adds_up_to(family: World) -> None:
    for here in ("top", "grandchild"):
        page = family.get(f"/t/{here}/tree")
        rows = re.findall(r"<tr[^>]*><td class=\"cut in(\d)\">.*?</tr>", page, re.S)
        assert rows == ["0", "1", "2", "1"], here
        assert re.search(r'aria-current="true"><td class="cut in(0|2)">', page)
        facts = page.split("<h1>")[1].split("</div>")[0]
        # 100 + 40 + 7; the second child reports none, and its silence is not a zero.
        assert "<b>4</b> trajectories" in facts and ">≥ 147</b>" in facts
        assert "at least; 1 of them report none" in facts
        assert "unsettled <b>4</b>" in facts and "none recorded" in facts
    assert 'href="/t/top/go?q=op-1"' in page


def test_withdrawn_ones_are_marked_and_in_no_total(tmp_path: Path) -> None:
    with world(tmp_path) as found:
        write(found, "top", _session("the parent", tokens=100))
        write(found, "child-a", _session("child a", parent=Parent("top", "op-1"), tokens=40))
        write(found, "child-b", _session("child b", parent=Parent("top", "op-1"), tokens=2))
        for name in ("child-a", "top"):
            found.parts.runtime.act(
                WHO, "withdraw", Nothing(), request_id=name, trajectory_id=name, reason="wrong"
            )
            assert found.parts.projector is not None
            found.parts.projector.catch_up()
            page = found.get("/t/child-b/tree")
            row = page[page.index(f'<tr id="{name}"') :].split("</tr>")[0]
            assert 'title="no total counts it">withdrawn</span>' in row
        facts = page.split("<h1>")[1].split("</div>")[0]
        assert "<b>1</b> trajectory" in facts and ">2</b>" in facts
        assert '<a href="#top">2 withdrawn or superseded, in no total</a>' in facts
        assert "2 sub-agents" not in found.get("/t/top/@1")
        assert "1 sub-agent, 1 withdrawn" in found.get("/t/top/@1")
        assert ", which was withdrawn" in found.get("/t/child-b/@1")


def test_a_boundary_links_to_its_parent_and_to_its_sub_agents(family: World) -> None:
    child = family.get("/t/child-a/@1")
    assert "sub-agent of" in child and 'href="/t/top/go?q=op-1"' in child
    assert ">1 sub-agent</a>" in child
    # What no event says yet is not known: at boundary 0 it has no parent.
    assert "sub-agent of" not in family.get("/t/child-a/@0")
    assert ">2 sub-agents</a>" in family.get("/t/top/@1")


def test_a_parent_that_is_not_stored_is_said_and_not_linked(family: World) -> None:
    page = family.get("/t/orphan/@1")
    assert ", which is not stored here" in page and "never-stored" in page
    assert 'href="/t/never-stored' not in page
    assert "not stored here" in family.get("/t/orphan/tree")


def test_a_trajectory_alone_says_so(tmp_path: Path) -> None:
    with world(tmp_path) as found:
        write(found, "alone", _session("alone"))
        assert "It stands alone" in found.get("/t/alone/tree")
        found.get("/t/nothing/tree", status=404)


# ---- notes and tags ------------------------------------------------------------------------


def _say(world: World, trajectory_id: str, status: int = 303, **fields: object) -> str:
    answer = world.client.post(
        f"/t/{trajectory_id}/notes",
        data=fields,
        headers={"Accept": "text/html", "Sec-Fetch-Site": "same-origin"},
        follow_redirects=False,
    )
    assert answer.status_code == status, answer.text[:500]
    return str(answer.headers.get("location", ""))


def test_a_note_is_written_at_a_boundary_and_read_there(tmp_path: Path) -> None:
    with world(tmp_path) as found:
        write(found, "noted", _session("noted"))
        there = _say(
            found, "noted", what="note", text=" the first\r\nsign ",
            boundary="2", back="/t/noted/@2?tab=state",
        )  # fmt: skip
        assert there == "/t/noted/@2?tab=state#act-1"
        page = found.get("/t/noted/@2")
        assert "the first\nsign" in page and "1 note at 2" in page
        assert "the first" not in found.get("/t/noted/@1")
        listed = found.get("/t/noted/notes")
        assert "the first\nsign" in listed and 'href="/t/noted/@2"' in listed
        # Sent twice it is one act; retracted it is still shown as made.
        assert _say(
            found, "noted", what="note", text=" the first\r\nsign ",
            boundary="2",
        ).endswith("#act-1")  # fmt: skip
        _say(found, "noted", what="retract", number=1)
        assert "1 note at 2" not in found.get("/t/noted/@2")
        assert "1 retracted note, kept as made" in found.get("/t/noted/notes")


def test_tags_are_added_taken_off_and_refused_for_their_form(tmp_path: Path) -> None:
    with world(tmp_path) as found:
        write(found, "tagged", _session("tagged"))
        _say(found, "tagged", what="tag", text="Flaky ")
        page = found.get("/t/tagged/@1")
        assert 'href="/trajectories?q=tag%3Aflaky"' in page and ">flaky</a>" in page
        _say(found, "tagged", 422, what="tag", text="two words")
        _say(found, "tagged", 422, what="note", text="")
        _say(found, "tagged", 422, what="note", text="x" * 4001)
        _say(found, "tagged", 422, what="withdraw", text="x")
        _say(found, "tagged", 404, what="note", text="x", boundary="99")
        _say(found, "nothing", 404, what="note", text="x")
        _say(found, "tagged", what="untag", text="flaky")
        assert ">flaky</a>" not in found.get("/t/tagged/@1")


@pytest.mark.parametrize(
    "back", ["https://evil.example/", "//evil.example", "/t/other/@1", "/t/x\\..", "javascript:x"]
)
def test_a_form_leads_back_to_its_own_trajectory_only(tmp_path: Path, back: str) -> None:
    with world(tmp_path) as found:
        write(found, "x", _session("x"))
        assert _say(found, "x", what="note", text="t", back=back) == ("/t/x/notes#act-1")


def test_a_note_from_another_site_is_refused(tmp_path: Path) -> None:
    with world(tmp_path) as found:
        write(found, "x", _session("x"))
        answer = found.client.post(
            "/t/x/notes",
            data={"what": "note", "text": "t"},
            headers={"Sec-Fetch-Site": "cross-site"},
        )
        assert answer.status_code == 403
        assert not found.parts.runtime.standing_of(WHO, "x").notes


def test_hostile_notes_do_nothing(tmp_path: Path) -> None:
    with world(tmp_path) as found:
        write(found, "x", _session(HOSTILE))
        found.parts.runtime.act(
            WHO, "note", Note(HOSTILE), request_id="h", trajectory_id="x", boundary=1
        )
        for path in ("/t/x/@1", "/t/x/notes", "/t/x/tree", "/"):
            assert_inert(found.get(path))


# ---- the overview --------------------------------------------------------------------------


def test_the_overview_lists_what_waits_with_its_age_and_where(tmp_path: Path) -> None:
    with world(tmp_path) as found:
        runtime = found.parts.runtime
        runtime.create(
            WHO, request_id="c", standing="reported", trajectory_id="held",
            task=TaskStarted(
                title="held work",
                standing="reported",
                capabilities=Capabilities(intents="written_ahead"),
            ),
        )  # fmt: skip
        runtime.claim(WHO, "held", request_id="g", worker="w1")
        from core.events import registry
        from core.events.envelope import NewEvent

        def event(event_id: str, payload: Payload, **more: str) -> NewEvent:
            name = type(payload).__name__
            return NewEvent(
                event_id=event_id, type=name, schema_version=registry.FAMILIES[name].version,
                payload=registry.encode(payload), **more,
            )  # fmt: skip

        asked = ApprovalRequested("ask-1", "drop_table", None, None, None, None, {"t": "x"})
        runtime.append(
            WHO, "held", owner_epoch=1, worker="w1", request_id="a",
            events=[
                event("e1", ToolIntent("intent", "refund", None, {"n": 1}),
                      operation_id="refund_1", attempt_id="refund_1.1"),
                event("e2", asked),
            ],
        ).result()  # fmt: skip
        # A newer owner: what the old one sent is in doubt.
        runtime.claim(WHO, "held", request_id="g2", worker="w2")
        write(found, "imported", _session("imported"))
        assert found.parts.projector is not None
        found.parts.projector.catch_up()
        page = found.get("/")
        assert "2 things need a person" in page
        assert "refund_1" in page and "ask-1" in page and "held work" in page
        assert "1 imported" in page and "have calls whose outcome" in page
        assert 'href="/t/held/@3"' in page and 'href="/t/held/@4"' in page
        assert "events per half hour · 8" in page
        assert_inert(page)


def test_a_list_says_how_many_are_newer(tmp_path: Path) -> None:
    with world(tmp_path) as found:
        write(found, "one", _session("one"))
        page = found.get("/")
        since = re.search(r"/trajectories/newer\?since=(\d+)", page)
        assert since is not None
        part = found.get(f"/trajectories/newer?since={since[1]}", part="newer")
        assert "newer than this list" not in part and 'id="newer"' in part
        write(found, "two", _session("two"))
        part = found.get(f"/trajectories/newer?since={since[1]}", part="newer")
        assert "1 trajectory is newer than this list" in part
        assert_inert(part)


def test_a_day_is_drawn_to_a_round_number_and_nothing_that_is_there_is_drawn_as_nothing() -> None:
    begins = list(range(48))
    drawn = strip.build(begins, [0] * 46 + [1, 3000], 1)
    assert [line.text for line in drawn.lines] == ["0", "2,000", "4,000"]
    assert len(drawn.bars) == 2 and drawn.bars[0].height == 1.5 and drawn.bars[1].going_on
    assert drawn.label.startswith("3,001 events in 24 hours")
    assert strip.build(begins, [0] * 48, 1).bars == ()
    assert [line.text for line in strip.build(begins, [0] * 47 + [1], 1).lines] == ["0", "1"]


def test_the_day_counts_each_event_in_its_half_hour(tmp_path: Path) -> None:

    with world(tmp_path) as found:
        for number in range(3):
            write(found, f"t{number}", [RuntimeInput("message", text="x")] * 4, id_=f"e{number}")
        day = activity(found.parts.runtime).day(found.parts.runtime, WHO)
        assert day.total == 12 and day.left_out == 0
        assert sum(day.events[-2:]) == 12
        assert day.begins[-1] % HALF_HOUR == 0
        write(found, "t9", [RuntimeInput("message", text="x")])
        assert activity(found.parts.runtime).day(found.parts.runtime, WHO).total == 13


def test_a_day_with_no_time_to_count_says_what_it_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.pages.activity.COUNT_SECONDS", -1.0)
    with world(tmp_path) as found:
        write(found, "t1", [RuntimeInput("message", text="x")])
        day = activity(found.parts.runtime).day(found.parts.runtime, WHO)
        assert (day.total, day.left_out) == (0, 1)
        assert "1 trajectory that grew is not counted here yet" in found.get("/")
