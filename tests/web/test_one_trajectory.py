"""What a newcomer looks for on the page of one trajectory: totals that agree or say why not, times
that stay, what goes on behind the page, sub-agents at their calls, the log as conversation."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from html import unescape

import pytest

from app.followed import Followed, Readings
from app.pages.tabs import context, conversation, operations
from app.paths import STATIC
from core.canonical import digest_text, sha256
from core.events.context import Compacted, RuntimeInput
from core.events.control import ControlChanged
from core.events.fields import MessageRef, Payload, ToolCall
from core.events.model_call import ContextBuilt, ModelReplied
from core.events.task import Parent, TaskStarted
from core.events.tool import ToolIntent, ToolResult
from ingest import demo
from tests.web import pages_world
from tests.web.pages_world import WHO, World, assert_inert, hostile_payloads

LONG = "/t/demo-nightly-build"


@pytest.fixture(scope="module")
def full(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with pages_world.world(tmp_path_factory.mktemp("one")) as world:
        demo.seed(world.parts.opened.store, world.parts.opened.blobs, events=1500)
        pages_world.write(world, "hostile", hostile_payloads())
        assert world.parts.projector is not None
        world.parts.projector.catch_up()
        yield world


def text_of(page: str) -> str:
    """The words of a page, tags left out."""
    return re.sub(r"\s+", " ", unescape(re.sub(r"<[^>]+>", " ", page)))


# ---- totals --------------------------------------------------------------------------------


def test_the_budget_says_why_its_tokens_are_not_those_of_the_replies(full: World) -> None:
    budget = text_of(full.get(f"{LONG}/@1191?tab=budget"))
    state = text_of(full.get(f"{LONG}/@1191?tab=state&all=1"))
    said = re.search(r"settled by usage reports: [\d,]+ fewer than the ([\d,]+) that", budget)
    assert said and said.group() in state
    facts = re.search(r"tokens ([\d,]+)", budget)
    assert facts and facts.group(1) == said.group(1)
    assert budget.count("settled by usage reports") == 1


def test_compared_groups_share_one_header_and_its_columns(full: World) -> None:
    page = full.get(f"{LONG}/@1200?tab=state&vs=400")
    groups = page.count('<details class="group"')
    assert groups > 3
    assert page.count('<th scope="col">at 1,200</th>') == groups
    assert 'class="vh"><tr>' not in page


# ---- times ---------------------------------------------------------------------------------


def rows_of(page: str) -> dict[int, str]:
    """Sequence number -> the time shown, of a page's log list."""
    found = re.findall(r'id="e(\d+)".*?</a>', page, re.S)
    cells = re.findall(
        r'id="e(\d+)"[^\n]*?<time title="[^"]*">(?:<span[^>]*>↶</span>)?([^<]*)<', page
    )
    assert found
    return {int(number): at for number, at in cells}


def test_times_count_from_the_start_on_every_page_of_the_log(full: World) -> None:
    shown: dict[int, str] = {}
    for seq in (0, 1, 30, 55, 60, 700, 1500):
        for number, at in rows_of(full.get(f"{LONG}/@{seq}")).items():
            assert shown.setdefault(number, at) == at, (seq, number)
    assert shown[1] == "+0.0 s" and len(shown) > 100
    page = full.get(f"{LONG}/@700?times=clock")
    of_day = rows_of(page)
    assert all(re.fullmatch(r"(\d\d-\d\d )?\d\d:\d\d:\d\d", at) for at in of_day.values())
    # It goes along to other boundaries and tabs, and back.
    assert f'href="{LONG}/@701?times=clock"' in page and "occurred, UTC" in page
    assert f'href="{LONG}/@700"' in page


def test_a_time_that_steps_back_is_marked_and_said(full: World) -> None:
    told = [TaskStarted(title="back", standing="imported"), *(RuntimeInput("x") for _ in range(99))]
    pages_world.write(full, "back", told, at=lambda n: 10 - 5 * (n == 30) + n)
    page = full.get("/t/back/@30")
    marks = re.findall(r'id="e(\d+)"[^\n]*↶', page)
    assert marks == ["30"]
    assert "4.00 s before the event above: the order is the log&#39;s" in page
    # Also where it is the first row of the list.
    cut = full.get("/t/back/@40")
    assert 'id="e29"' not in cut and re.findall(r'id="e(\d+)"[^\n]*↶', cut) == ["30"]


# ---- the log as a conversation ---------------------------------------------------------------


def talk(world: World, path: str) -> str:
    return world.get(path).split('<div class="scroll talk"')[1].split('<p class="asof">')[0]


def said_in(panel: str) -> list[tuple[int, str, str]]:
    """(boundary, who, words) of every item of a conversation."""
    found = []
    for part in re.findall(r'<article class="say.*?</article>', panel, re.S):
        link = re.search(r'<a class="m" href="[^"]*/@(\d+)\?tab=conversation[^"]*"', part)
        who = re.search(r"<b>(.*?)</b>", part)
        assert link and who, part
        found.append((int(link.group(1)), unescape(who.group(1)), text_of(part)))
    return found


def ref(role: str, text: str) -> MessageRef:
    raw = text.encode()
    return MessageRef(role, digest_text(sha256(raw)), len(raw), text=text)


DIGEST = digest_text(sha256(b""))


def session() -> list[Payload]:
    """A short session as importers write one."""
    ask, result = ref("user", "mend the parser"), ref("user", "2 passed\nin 0.1 s")
    call = ToolIntent("proposal", "bash", arguments={"command": "pytest -q", "why": "x" * 90})
    reply = ModelReplied(
        "completed", "m-1", "I run the tests.", "first look at them", (ToolCall("bash", "op-1"),)
    )
    return [
        TaskStarted(title="mend", standing="imported", task="mend the parser"),
        ContextBuilt(DIGEST, 2, messages=(ref("system", "be brief"), ask)),
        reply,
        call,
        ToolResult("succeeded", "sender", observation="2 passed\nin 0.1 s", exit_code=0),
        ContextBuilt(DIGEST, 4, messages=(result, ref("user", "and now the docs")), kept=2),
        ModelReplied("error", "m-1", error="overloaded"),
        Compacted("The parser is mended.", dropped=3),
        RuntimeInput("message", text="make it so"),
        RuntimeInput("title", text="a title is no message"),
        ToolResult("failed", "sender", observation="y" * 5000),
        ControlChanged("COMPLETED", "RUNNING", output="done", reason="ready"),
    ]


def test_a_session_reads_as_a_conversation(full: World) -> None:
    pages_world.write(full, "mend", session())
    panel = talk(full, "/t/mend/@12?tab=conversation")
    told = said_in(panel)
    assert [(seq, who) for seq, who, _ in told] == [
        (1, "task"),
        (2, "system"),
        (3, "m-1"),
        (3, "m-1"),
        (4, "bash"),
        (5, "bash result"),
        (6, "user"),
        (7, "m-1"),
        (8, "compaction"),
        (9, "message"),
        (11, "bash result"),
        (12, "handed in"),
        (12, "control"),
    ]
    words = {(seq, who): text for seq, who, text in told}
    # What was said before is not said again: not the task, nor a result that is given back.
    assert panel.count("mend the parser") == 1 and panel.count("2 passed") == 1
    assert "and now the docs" in words[6, "user"] and "overloaded" in words[7, "m-1"]
    assert "pytest -q" in words[4, "bash"] and "make it so" in words[9, "message"]
    assert "a title is no message" not in panel
    # Reasoning, system prompts and summaries are there and folded; a long result is cut.
    assert panel.count("<details>") == 4 and "thinking, 4 words" in panel
    assert "cut: 800 of 5,000 characters shown" in words[11, "bash result"]
    assert 'href="/t/mend/@11"' in panel and panel.count('aria-current="true"') == 2


def test_a_conversation_ends_at_its_boundary(full: World) -> None:
    before = ""
    for seq in range(1, 13):
        told = said_in(talk(full, f"/t/mend/@{seq}?tab=conversation"))
        assert all(at <= seq for at, _, _ in told)
        now = "".join(text for at, _, text in told if at < seq)
        assert now == before
        before = "".join(text for _, _, text in told)
    assert "Nothing to read here" in talk(full, "/t/mend/@0?tab=conversation")


def test_a_long_conversation_is_read_in_windows_that_meet(full: World) -> None:
    path = f"{LONG}/@1400?tab=conversation"
    panel = talk(full, path)
    told, pages = said_in(panel), 1
    assert len(told) <= 60
    seen = [(seq, who) for seq, who, _ in told]
    while (more := re.search(r'class="more" href="([^"]*before=(\d+))', panel)) and pages < 40:
        link = unescape(more.group(1))
        panel = talk(full, link)
        told = said_in(panel)
        assert 0 < len(told) <= 60 and all(seq < int(more.group(2)) for seq, _, _ in told)
        seen = [(seq, who) for seq, who, _ in told] + seen
        pages += 1
    numbers = [seq for seq, _ in seen]
    assert pages > 5 and numbers[0] == 1 and numbers == sorted(numbers)
    asked = [
        event.sequence_number
        for event in full.parts.runtime.events(WHO, "demo-nightly-build", upto=1400, limit=1400)
        if event.type in ("ToolIntent", "ToolResult")
    ]
    assert set(asked) <= set(numbers)
    # One that is windowed leads back, and a move leaves the window behind.
    page = full.get(link)
    assert f'href="{LONG}/@1400?tab=conversation">back to 1,400' in page
    assert f'href="{LONG}/@1401?tab=conversation" aria-label="Next boundary"' in page


def test_hostile_words_stand_inert_in_a_conversation(full: World) -> None:
    for seq in (1, 5, 12, 19):
        assert_inert(full.get(f"/t/hostile/@{seq}?tab=conversation"))


def test_a_note_stands_where_it_was_made_but_not_in_a_page_that_leaves(full: World) -> None:
    full.client.post(
        "/t/mend/notes",
        data={"what": "note", "text": "looked at by hand", "boundary": "5", "last": "0"},
        headers={"Sec-Fetch-Site": "same-origin"},
    )
    told = said_in(talk(full, "/t/mend/@6?tab=conversation"))
    at = [seq for seq, who, _ in told if who.startswith("note by")]
    assert at == [5] and "looked at by hand" in talk(full, "/t/mend/@5?tab=conversation")
    assert "looked at by hand" not in talk(full, "/t/mend/@4?tab=conversation")
    assert "looked at by hand" not in full.client.get("/t/mend/@6/page.html").text


# ---- what goes on behind a page --------------------------------------------------------------


def test_a_page_before_the_end_is_told_how_much_came_since(full: World) -> None:
    pages_world.write(full, "grows", session()[:6])
    page = full.get("/t/grows/@4?tab=state")
    link = re.search(r'id="ahead" hx-get="([^"]*)"', page)
    assert link and "2 more events" in page and 'hx-sse:connect="/t/grows/live?after=6"' in page
    assert "newer event" not in page and 'id="follow"' not in page
    pages_world.write(full, "grows", session()[6:9], after=6)
    told = full.get(unescape(link.group(1)), part="ahead")
    assert "5 more events" in told and ">3 newer events</a>" in told
    # The chip leads to the end and keeps the tab; the line stays that of the page.
    assert 'href="/t/grows/@9?tab=state"' in told and "since=6" in told
    # The line itself lies outside of what is swapped: no step lays another one.
    assert "hx-sse:connect" not in told + full.get("/t/grows/@4", part="view")
    # A trajectory that has ended, and the end itself, listen to nothing of the kind.
    assert "hx-sse:connect" not in full.get("/t/mend/@5")
    assert 'id="follow"' in full.get("/t/grows/@9")
    full.get("/t/grows/@99/ahead", status=404)


def test_a_page_claims_to_follow_a_file_only_where_somebody_does(full: World) -> None:
    name = "c3c3c3c3-3333-4333-8333-333333333333.jsonl"
    line = (
        b'{"type":"user","uuid":"u1","parentUuid":null,"sessionId":"c3c3c3c3-3333-4333-8333-'
        b'333333333333","timestamp":"2026-01-05T10:00:0%d.000Z","version":"2.0.1","cwd":"/w",'
        b'"message":{"role":"user","content":"go"}}\n'
    )

    def sent(data: bytes, query: str) -> str:
        answer = full.client.post(f"/v1/imports?name={name}{query}", content=data)
        job = answer.headers["location"]
        for _ in range(200):
            told = full.client.get(job).json()
            if told["ended_at"] is not None:
                made = told["files"][0]["report"]["trajectories"]
                return str(made[0]["id"])
            time.sleep(0.02)
        raise AssertionError("the import never ended")

    at = sent(line % 1, "")
    page = full.get(f"/t/{at}/@{full.parts.runtime.head(WHO, at).sequence_number}")
    assert "data-live-word>at the end<" in page and "follows the file" not in page
    assert "Nothing that this server knows of reads the file again" in page
    more = line % 1 + (line % 2).replace(b'"u1","parentUuid":null', b'"u2","parentUuid":"u1"')
    assert sent(more, "&following=true&at_work=false") == at
    page = full.get(f"/t/{at}/@{full.parts.runtime.head(WHO, at).sequence_number}")
    assert "data-live-word>follows the file<" in page and "A follower sent more of it" in page


def test_what_is_claimed_of_followers() -> None:
    now = [100.0]
    readings = Readings(lambda: now[0])
    followed = Followed(lambda: frozenset({"seen"}), readings)

    def word(name: str, standing: str = "imported") -> str:
        return followed.claim("local", name, standing).word

    assert word("x", "reported") == "live" and word("x", "replica") == "at the end"
    assert word("seen") == "follows the file" and word("x") == "at the end"
    readings.saw("local", ["x"])
    assert word("x") == "follows the file"
    assert followed.claim("other", "x", "imported").word == "at the end"
    now[0] += 7300
    assert word("x") == "at the end"
    assert "2 h ago; whether it still runs" in followed.claim("local", "x", "imported").why


# ---- sub-agents at their calls ---------------------------------------------------------------


def test_a_call_leads_to_its_sub_agent_and_back(full: World) -> None:
    child = [TaskStarted(title="the helper", standing="imported", parent=Parent("mend", "op-1"))]
    pages_world.write(full, "helper", child)
    pages_world.write(
        full,
        "orphan",
        [TaskStarted(title="alone", standing="imported", parent=Parent("tr-nowhere", "op-9"))],
    )
    link = '<a href="/t/helper" hx-boost="false">the helper</a>'
    assert link in full.get("/t/mend/@12?tab=operations")
    assert "by sub-agent the helper" in text_of(full.get("/t/mend/@12?tab=operations"))
    for at in (4, 5):
        assert 'href="/t/helper" hx-boost="false">sub-agent: the helper</a>' in full.get(
            f"/t/mend/@{at}"
        )
    assert "sub-agent: the helper" not in full.get("/t/mend/@3")
    told = {who: text for seq, who, text in said_in(talk(full, "/t/mend/@4?tab=conversation"))}
    assert "carried out by sub-agent the helper" in told["bash"]
    # The log of the parent does not name it: a page that leaves this place does not either.
    assert "the helper" not in full.client.get("/t/mend/@12/page.html").text
    back = re.search(r'sub-agent of <a href="([^"]*)"', full.get("/t/helper/@1"))
    assert back
    answer = full.client.get(unescape(back.group(1)), follow_redirects=False)
    assert answer.headers["location"] == "/t/mend/@4"
    assert "sub-agent of tr-nowhere , which is not stored here" in text_of(full.get("/t/orphan/@1"))


# ---- the page as a file ------------------------------------------------------------------------


def test_a_saved_page_holds_every_operation_and_message_up_to_a_bound(
    full: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = f"{LONG}/@1400"
    saved = full.client.get(f"{path}/page.html").text
    record = full.parts.runtime.record_at(WHO, "demo-nightly-build", 1400).record
    table = saved.split('<table class="two ops')[1].split("</table>")[0]
    assert table.count('<td class="what">') == record.operations.total > 60
    given = saved.split('aria-label="Delivered input"')[1].split('aria-label="operations"')[0]
    total = int(re.findall(r"<b>([\d,]+) messages", saved)[-1].replace(",", ""))
    assert given.count("<details") >= total > 60 and "not in this file" not in given
    # Nothing stands there that only leads somewhere.
    words = text_of(saved)
    for dead in ("· show", "show those", "· the whole", "exact bytes", "whole original"):
        assert dead not in words, dead
    # Beyond its bounds it says exactly what is missing.
    monkeypatch.setattr(operations, "SEALED_PAGE", 10)
    monkeypatch.setattr(context, "SEALED_WINDOW", 12)
    monkeypatch.setattr(conversation, "SEALED_FACTOR", 1)
    words = text_of(full.client.get(f"{path}/page.html").text)
    left = record.operations.total - 10
    assert f"The newest 10 of {record.operations.total} are in this file; the other {left}" in words
    assert f"{total - 12} earlier messages of this call are not in this file" in words
    assert re.search(r"What was said before event [\d,]+ is not in this file", words)
    assert re.search(r"showing [\d,]+ to 1,400 of 1,400 up to here; those before are not", words)


def test_a_printed_page_has_a_margin_and_whole_rows() -> None:
    style = (STATIC / "app.css").read_text()
    assert re.search(r"@page \{ margin: \d+mm \d+mm; \}", style)
    printed = style.split("@layer print {", 1)[1]
    assert re.search(r"\.ev > span \{ white-space: normal; overflow: visible", printed)
