"""The tabs of a boundary, find and filter inside a log, the ribbon's zoom and the one-file page."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from html.parser import HTMLParser

import pytest

from app.pages import manifests, rows
from core.acts import Note
from core.canonical import digest_text, sha256
from core.events.admission import Actual, BudgetReserved, BudgetSettled
from core.events.fields import Charge, Limit, MessageRef, Payload, ToolCall, Usage
from core.events.model_call import ContextBuilt, ModelReplied
from core.events.task import Capabilities, TaskStarted
from core.events.tool import ToolIntent, ToolResult
from ingest import demo
from tests.web import pages_world
from tests.web.pages_world import WHO, World, assert_inert, hostile_payloads

TABS = ("event", "conversation", "state", "context", "operations", "budget", "evidence")
LONG = "/t/demo-nightly-build"


@pytest.fixture(scope="module")
def full(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with pages_world.world(tmp_path_factory.mktemp("tabs")) as world:
        seeded = demo.seed(world.parts.opened.store, world.parts.opened.blobs, events=4000)
        world.demo = [*seeded.trajectories]
        pages_world.write(world, "hostile", hostile_payloads())
        pages_world.write(world, "told", story())
        assert world.parts.projector is not None
        world.parts.projector.catch_up()
        yield world


def ref(role: str, text: str) -> MessageRef:
    raw = text.encode()
    return MessageRef(role, digest_text(sha256(raw)), len(raw), text=text)


def manifest(*refs: MessageRef) -> str:
    return digest_text(sha256(b"".join(bytes.fromhex(r.digest[7:]) for r in refs)))


A, B, C = ref("system", "be brief"), ref("user", "repair src/parser_x.py"), ref("tool", "long\nout")
D, CUT, E_ = ref("assistant", "I look"), ref("tool", "long\ncut"), ref("user", "go on")


def story() -> list[Payload]:
    """Two calls, the second of which has one message changed and one new; then a third on its own.

    In pages_world.write every call has an invocation id of its own by the event's number.
    """
    return [
        TaskStarted(
            title="told",
            standing="imported",
            capabilities=Capabilities(intents="proposals", exact_inputs="recorded"),
            limits=(Limit("usd", "nano_usd", 4_000_000_000, 500_000_000),),
        ),
        ContextBuilt(manifest(A, B, C), 3, messages=(A, B, C), claim="exact", input_tokens=40),
        ModelReplied("completed", text="ok", usage=Usage(3, 4, 5, 6), model="m-1"),
        ContextBuilt(
            manifest(A, B, CUT, E_),
            4,
            messages=(A, B, CUT, E_),
            claim="exact",
            redactions=2,
            wire_digest=manifest(A),
            request={"temperature": 0, "stop": []},
            tools=(ref("bash", "bash: runs a command"),),
            input_tokens=44,
        ),
        ModelReplied(
            "completed",
            text="src/parser_x.py is at fault",
            tool_calls=(ToolCall("bash", "op-1"),),
            usage=Usage(10, 20, 30, 0),
            model="m-2",
        ),
        BudgetReserved((Charge("usd", "nano_usd", 2_000_000_000),)),
        BudgetSettled((Actual("usd", "nano_usd", 1_500_000_000),), scope="trajectory"),
        ContextBuilt(digest_text(sha256(b"wrong")), 1, messages=(D,)),
    ]


def text_of(html: str) -> str:
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", html))


def panel(world: World, path: str) -> str:
    """The tab's part of a page, as text."""
    page = world.get(path)
    return text_of(page[page.index('aria-label="What to show of this boundary"') :])


# ---- all tabs ----------------------------------------------------------------------------


@pytest.mark.parametrize("tab", TABS)
def test_every_tab_stands_at_every_boundary_and_is_inert(full: World, tab: str) -> None:
    for seq in range(len(hostile_payloads()) + 1):
        assert_inert(full.get(f"/t/hostile/@{seq}?tab={tab}&all=1&find=red&only=model,tools"))
    for seq in (0, 1, 77, 2000, 4000):
        page = full.get(f"{LONG}/@{seq}?tab={tab}")
        assert page.count("<") < 6_000 and f'data-tab="{tab}" aria-current="page"' in page


@pytest.mark.parametrize("tab", TABS)
def test_no_tab_says_what_was_learned_later(full: World, tab: str) -> None:
    """Whatever a boundary's tab links to without saying `later` lies at or before it."""
    for seq in (300, 1234):
        page = full.get(f"{LONG}/@{seq}?tab={tab}&all=1")
        part = page[page.index('aria-label="What to show of this boundary"') :]
        part = part[: part.index('class="asof"')]
        part = re.sub(r'<a class="of-later".*?</a>|<span class="of-later">.*?</span>', "", part)
        linked = [int(n) for n in re.findall(r"/@(\d+)", part)]
        assert max(linked, default=0) <= seq or "vs=4000" in part, (tab, seq, max(linked))


# ---- context -----------------------------------------------------------------------------


def test_a_delivered_input_is_shown_with_its_claim_and_what_differs(full: World) -> None:
    said = panel(full, "/t/told/@4?tab=context")
    assert "4 messages, 44 tokens" in said
    assert "exact but for 2 redactions" in said and "rebuilds the request body" in said
    assert "its manifest digest is that of these messages, derived again here" in said
    assert "+ 1 new ~ 1 changed - 0 dropped = 2 the same" in said
    assert "40 → 44 tokens" in said
    assert "- out + cut" in said and "temperature 0" in said and "stop empty" in said
    assert "Tools described 1" in said and "bash: runs a command" in said


def test_a_message_is_said_in_words_and_its_bytes_are_a_click_away(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    asks = json.dumps(
        {"role": "assistant", "content": [{"type": "tool_use", "id": "op-1", "name": "bash",
         "input": {"command": "make <b>test"}}]}
    )  # fmt: skip
    brings = json.dumps(
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "op-1",
         "content": "ok 1\nok 2 " + "x" * 90_000}]}
    )  # fmt: skip
    with pages_world.world(tmp_path_factory.mktemp("shapes")) as world:
        blob = world.parts.runtime.put_blob(WHO, brings.encode())
        long = MessageRef("user", blob.digest, len(brings), blob=blob.digest, start=0)
        pages_world.write(
            world,
            "shapes",
            [
                TaskStarted(title="x", standing="imported"),
                ToolIntent("proposal", "bash", arguments={"command": "make test"}),
                ContextBuilt(manifest(A), 2, messages=(ref("assistant", asks), long)),
            ],
        )
        for tab in ("context", "event"):
            page = world.get(f"/t/shapes/@3?tab={tab}")
            said = text_of(page)
            assert "asks for bash" in said and "command: make &lt;b&gt;test" in said
            assert "result of bash, 2 lines" in said, "read whole, though it is long"
            if tab == "context":
                assert "asks for bash: make &lt;b&gt;test" in said
                assert "result of bash, 2 lines: ok 1" in said
            assert page.count('class="rawbytes"') == 2
            part = page[page.index('class="rawbytes"') :]
            assert "&#34;tool_use&#34;" in part[: part.index("</details>")]
            assert "&#34;tool_use&#34;" not in page[: page.index('class="rawbytes"')]
            assert_inert(page)


def test_a_reply_is_known_from_its_boundary_on(full: World) -> None:
    before, after = panel(full, "/t/told/@4?tab=context"), panel(full, "/t/told/@5?tab=context")
    assert "later replied at 5" in before and "read from cache" not in before
    assert "reply 5 completed, asks for bash" in after
    assert "40 tokens, 75 % read from a cache" in after


def test_what_the_reply_repeats_is_looked_for_and_not_called_use(full: World) -> None:
    said = panel(full, "/t/told/@5?tab=context&ctx=repeated")
    assert "a repetition, not proof of use" in said
    assert re.search(r"2 user repair src/parser_x.py +src/parser_x.py", said)
    assert "No reply is known up to here" in panel(full, "/t/told/@4?tab=context&ctx=repeated")


def test_a_manifest_whose_digest_is_another_is_named(full: World) -> None:
    assert "its manifest digest is NOT that of these messages" in panel(
        full, "/t/told/@8?tab=context"
    )


def test_messages_out_of_reach_are_said_to_be(full: World, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = panel(full, f"{LONG}/@3000?tab=context")
    assert "not read for this page" not in whole
    monkeypatch.setattr(manifests, "HOPS_MAX", 2)
    cut = full.get(f"{LONG}/@3000?tab=context")
    found = re.search(r"go on from the call at ([\d,]+)</a>", cut)
    assert found is not None and "earlier messages not read for this page" in text_of(cut)
    further = int(found.group(1).replace(",", ""))
    assert f"/@{further}?tab=context" in cut and further < 3000


def test_long_inputs_are_windowed_with_links(full: World) -> None:
    seq = 3000
    first = panel(full, f"{LONG}/@{seq}?tab=context&ctx=all&m=1")
    total = int(re.search(r"([\d,]+) messages? given", first).group(1).replace(",", ""))  # type: ignore[union-attr]
    assert total > 60
    seen: list[int] = []
    at = 1
    while at <= total:
        page = full.get(f"{LONG}/@{seq}?tab=context&ctx=all&m={at}")
        numbers = re.findall(r'</span></span><span class="m">([\d,]+)</span>', page)
        assert 0 < len(numbers) <= 60
        seen += [int(n.replace(",", "")) for n in numbers]
        at = seen[-1] + 1
    assert seen == list(range(1, total + 1))


# ---- operations --------------------------------------------------------------------------


def _operation_ids(page: str) -> list[str]:
    return re.findall(r'<td class="what"><b>[^<]*</b> <code title="([^"]+)">', page)


@pytest.mark.parametrize("state", ["", "failed", "unsettled", "succeeded"])
def test_the_pages_of_operations_hold_each_once(full: World, state: str) -> None:
    seq = 3000
    record = full.parts.runtime.record_at(WHO, "demo-nightly-build", seq).record
    path: str | None = f"{LONG}/@{seq}?tab=operations" + (f"&state={state}" if state else "")
    names: list[str] = []
    while path is not None and len(names) < 5_000:
        page = full.get(path)
        page = page[page.index('aria-label="Operations up to') :]
        names += _operation_ids(page)
        more = re.search(r'class="more" href="([^"]*older=\d[^"]*)"', page)
        path = more.group(1).replace("&amp;", "&") if more else None
    assert len(names) == len(set(names))
    known = record.operations
    wanted = {
        "": known.total,
        "unsettled": known.unsettled,
        "failed": known.by_outcome.get("failed", 0),
        "succeeded": known.by_outcome.get("succeeded", 0),
    }[state]
    assert len(names) == wanted
    stated = {
        event.operation_id
        for at in range(0, seq, 1000)
        for event in full.parts.runtime.events(WHO, "demo-nightly-build", after=at, upto=at + 1000)
        if event.type == "ToolIntent"
    }
    assert set(names) <= stated and (state or set(names) == stated)


def test_an_operation_shows_grade_basis_duration_and_attempts(full: World) -> None:
    said = panel(full, f"{LONG}/@3000?tab=operations&state=succeeded")
    assert re.search(r"succeeded established by sender [\d.]+ (ms|s) 1 [\d,]+ step [\d,]+", said)
    said = panel(full, f"{LONG}/@3000?tab=operations&tool=nothing+like+it")
    assert "No operation up to here is listed of tool nothing like it." in said
    assert "There is no state odd" in panel(full, f"{LONG}/@3000?tab=operations&state=odd")


# ---- budget ------------------------------------------------------------------------------


def test_an_outcome_says_what_it_holds_for(tmp_path_factory: pytest.TempPathFactory) -> None:
    covers = "that the command came back; its exit code is not recorded"
    with pages_world.world(tmp_path_factory.mktemp("covers")) as world:
        pages_world.write(
            world,
            "covers",
            [
                TaskStarted(title="x", standing="imported"),
                ToolIntent("proposal", "bash", arguments={"command": "make"}),
                ToolResult("succeeded", "sender", covers=covers, observation="ok"),
            ],
        )
        words = "succeeded: the command came back; its exit code is not recorded"
        for query in ("tab=operations", "tab=state", "tab=state&all=1", "tab=event"):
            assert words in panel(world, f"/t/covers/@3?{query}"), query
        assert words in text_of(world.client.get("/t/covers/@3/page.html").text)


def test_stated_and_derived_costs_stand_apart(full: World) -> None:
    said = panel(full, "/t/told/@7?tab=budget")
    assert "Cost stated by the log $1.50 1 usage report up to here" in said
    assert "Cost derived from tokens, not in the log" in said
    assert "no price for m-1, m-2" in said
    assert re.search(r"usd \$1\.50 .* \$0\.50 \$4\.00", said)
    assert re.search(r"m-1 3 5 6 4", said) and re.search(r"all 13 35 6 24", said)


def test_tokens_of_the_run_are_shown_where_no_reply_reports_its_own(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    run = BudgetSettled((Actual("tokens", "tokens", 53_187),), scope="trajectory")
    with pages_world.world(tmp_path_factory.mktemp("of-run")) as world:
        begun = TaskStarted(title="silent replies", standing="imported")
        silent = ModelReplied("completed", text="ok", model="m")
        pages_world.write(world, "of-run", [begun, silent, run])
        told = ModelReplied("completed", text="ok", usage=Usage(3, 4, 5, 6), model="m")
        pages_world.write(world, "of-replies", [begun, told, run])
        rows_ = text_of(world.get("/trajectories?sort=tokens")).split("silent replies")
        assert "53,187 of the run" in " ".join(rows_) and " 18 " in " ".join(rows_)
        assert " ".join(rows_).count("of the run") == 1
        assert "not reported" not in " ".join(rows_)
        assert "tokens 53,187 of the run" in text_of(world.get("/t/of-run/@3"))
        assert "of the run" not in text_of(world.get("/t/of-run/@2"))


def test_no_usage_is_no_zero(full: World) -> None:
    said = panel(full, "/t/told/@2?tab=budget")
    assert "no usage report up to here states a cost in USD" in said
    assert "not observed" in said and "No reply is recorded up to here." in said
    assert "No account up to here" in panel(full, "/t/hostile/@0?tab=budget")


def test_the_drawing_has_the_same_points_while_one_scrubs(full: World) -> None:
    def drawn(seq: int) -> list[str]:
        page = full.get(f"{LONG}/@{seq}?tab=budget")
        return re.findall(r'<polygon class="ch-used" points="([^"]*)"', page)

    assert drawn(3000) == drawn(3000)
    assert len(drawn(3000)) == 3
    assert len(full.get(f"{LONG}/@3999?tab=budget")) < 120_000


# ---- find and filter ---------------------------------------------------------------------


def index(world: World) -> None:
    world.parts.runtime.text_index or pytest.skip("no index")
    assert world.parts.indexer is not None
    world.parts.indexer.catch_up()


def test_a_hit_is_counted_marked_and_leads_to_the_next(full: World) -> None:
    index(full)
    page = full.get(f"{LONG}/@1?find=utcnow")
    said = text_of(page)
    found = re.search(r"no hit up to here later ([\d,]+) more", said)
    assert found is not None and (total := int(found.group(1).replace(",", ""))) > 3
    assert " of " not in said[found.start() : found.end()], "a count of the whole log is no fact"
    seen = 0
    link = re.search(r'href="(/t/[^"]*)" data-key="h"', page)
    while link is not None and seen < 4:
        seen += 1
        page = full.get(link.group(1).replace("&amp;", "&"))
        assert f"hit {seen} later {total - seen:,} more" in text_of(page)
        assert '<span class="hit">' in page
        link = re.search(r'href="(/t/[^"]*)" data-key="h"', page)
    assert re.search(r'data-key="H"', page)


def test_every_hit_shows_the_words_around_it(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Also one that lies deep in a long output, in a message, or in a name joined by `_`."""
    deep = "start\n" + "filler line\n" * 900 + "the needle_word is here\n" + "after\n" * 50
    with pages_world.world(tmp_path_factory.mktemp("deep")) as world:
        blob = world.parts.runtime.put_blob(WHO, (deep * 9).encode())
        given = MessageRef("user", blob.digest, blob.length, blob=blob.digest)
        pages_world.write(
            world,
            "deep",
            [
                TaskStarted(title="x", standing="imported"),
                ContextBuilt(manifest(A), 1, messages=(given,)),
                ToolIntent("proposal", "bash", arguments={"a": 1, "b": "z" * 400 + " needle"}),
                ToolResult("succeeded", "sender", observation=deep),
                ModelReplied("completed", text="y " * 900 + "needle"),
            ],
        )
        index(world)
        page = world.get("/t/deep/@5?find=needle")
        found = re.findall(r'class="ev f-.*?</a>', page, re.DOTALL)
        assert len(found) == 4
        for row in found:
            assert '<span class="hit">needle</span>' in row, text_of(row)
        assert "here after" in text_of(found[2]) or "is here" in text_of(found[2])
        assert page.count("<") < 4_000
        assert_inert(page)


def test_rows_with_a_note_say_so(tmp_path_factory: pytest.TempPathFactory) -> None:
    with pages_world.world(tmp_path_factory.mktemp("noted")) as world:
        pages_world.write(world, "noted", story())
        world.parts.runtime.act(
            WHO, "note", Note("look here"), request_id="n-1", trajectory_id="noted", boundary=3
        )
        for seq in (1, 3, 5):
            page = world.get(f"/t/noted/@{seq}")
            rows_ = re.findall(r'id="e(\d+)".*?</a>', page, re.DOTALL)
            marked = [
                int(number)
                for number in rows_
                if "has-note" in page[page.index(f'id="e{number}"') :].split("</a>")[0]
            ]
            assert marked == [3]
        assert "has-note" not in world.client.get("/t/noted/@5/page.html").text.split("<main")[1]


def test_a_search_without_words_or_hits_says_so(full: World) -> None:
    index(full)
    said = text_of(full.get(f"{LONG}/@5?find=nothinglikeit"))
    assert "no hit" in said and "No event of this log holds it, here or later." in said
    assert "a search looks for words" in text_of(full.get(f"{LONG}/@5?find=%2A%2A"))


def test_an_index_that_is_behind_says_how_far_and_offers_to_wait(
    full: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    index(full)
    held = full.parts.runtime.text_index
    assert held is not None
    monkeypatch.setattr(type(held), "watermark", lambda *_: 1500)
    monkeypatch.setattr(rows, "WAIT_SECONDS", 0.01)
    page = full.get(f"{LONG}/@5?find=utcnow")
    assert "index complete to 1,500 of 4,000" in text_of(page) and "wait=1" in page
    assert "index complete to 1,500" in text_of(full.get(f"{LONG}/@5?find=utcnow&wait=1"))


def test_lanes_are_counted_and_listed(full: World) -> None:
    page = full.get(f"{LONG}/@2000?only=errors")
    said = text_of(page)
    assert re.search(r"errors [\d,]+ later [\d,]+ more", said) and "errors 0" not in said
    listed = re.findall(r'class="ev f-(\w+)[^>]*id="e(\d+)"', page)
    assert listed and {family for family, _ in listed} == {"bad"}
    numbers = [int(number) for _, number in listed]
    assert numbers == sorted(numbers) and len(numbers) <= 40
    for name in ("model", "tools", "control", "admission", "inputs"):
        assert 'class="ev f-' in full.get(f"{LONG}/@2000?only={name}")
    assert "This log has none of these, here or later." in text_of(
        full.get("/t/told/@3?only=checkpoints")
    )


def test_a_log_too_long_to_count_is_filtered_all_the_same(
    full: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = full.get(f"{LONG}/@2000?only=errors,model")
    monkeypatch.setattr(rows, "LOG_MARKS_MAX", 100)
    page = full.get(f"{LONG}/@2000?only=errors,model")
    assert re.findall(r'id="e(\d+)"', page) == re.findall(r'id="e(\d+)"', whole)
    assert "too long to count" in page


# ---- ribbon ------------------------------------------------------------------------------


def test_any_stretch_can_be_drawn(full: World) -> None:
    whole = full.get(f"{LONG}/@2000?zoom=1-4000")
    assert "drawn 1 to 4,000, 34 events a bar" in text_of(whole)
    assert whole.count("<") < 3_000
    few = full.get(f"{LONG}/@2000?zoom=1990-2010")
    assert "drawn 1,990 to 2,010" in text_of(few)
    away = text_of(full.get(f"{LONG}/@100?zoom=1990-2010"))
    assert "boundary 100 is not in it" in away
    assert "zoom=1990-2010" in full.get(f"{LONG}/@2000?zoom=1990-2010")


# ---- one file ----------------------------------------------------------------------------


class Strict(HTMLParser):
    """What a file asks for."""

    def __init__(self) -> None:
        super().__init__()
        self.wrong: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in ("script", "form", "input", "button", "img", "iframe", "link", "a", "base"):
            self.wrong.append(tag)
        for name, value in attrs:
            leads = name in ("href", "src", "action") and not (value or "").startswith("#")
            if name.startswith(("on", "hx-", "data-")) or leads or name == "style":
                self.wrong.append(f"{tag} {name}")


@pytest.mark.parametrize("path", ["/t/hostile/@7", "/t/told/@5", f"{LONG}/@1234", "/t/told/@0"])
def test_one_file_asks_for_nothing_and_says_what_it_is(full: World, path: str) -> None:
    answer = full.client.get(f"{path}/page.html")
    assert answer.status_code == 200
    assert answer.headers["content-disposition"].startswith("attachment;")
    page = answer.text
    strict = Strict()
    strict.feed(page)
    assert not strict.wrong
    assert page.count("<style>") == 1 and "default-src 'none'" in page
    said = text_of(page[page.index("<body>") :])
    name, _, seq = path.removeprefix("/t/").partition("/@")
    assert f"A copy of boundary {int(seq):,} of {name}" in said and "made 20" in said
    for tab in ("Event", "State", "Context", "Operations", "Budget", "Evidence"):
        assert f" {tab} " in said
    assert "later" not in said.replace("later than", "") or "hostile" in path


def test_one_file_holds_nothing_from_after_the_boundary(full: World) -> None:
    page = full.client.get(f"{LONG}/@1234/page.html").text
    body = page[page.index("<main") :]
    after = {
        event.event_id
        for event in full.parts.runtime.events(WHO, "demo-nightly-build", after=1234, limit=200)
    }
    assert not [name for name in after if name in body]
    listed = [int(n.replace(",", "")) for n in re.findall(r'<span class="m">([\d,]+)</span>', body)]
    assert listed and max(listed) <= 1234
    drawn = re.findall(r"<title>([\d,]+) [A-Z]", body)
    assert drawn and max(int(n.replace(",", "")) for n in drawn) <= 1234


def test_one_file_is_the_same_whatever_came_after(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """The file of a boundary, but for when it was made, before and after the log goes on."""
    payloads = [*story(), *hostile_payloads()[1:]]
    with pages_world.world(tmp_path_factory.mktemp("grows")) as world:

        def still(seq: int) -> str:
            page = world.client.get(f"/t/grows/@{seq}/page.html").text
            return re.sub(r"made [^<]*? by Strandline|in [\d.,]+ .?s\b", "", page)

        pages_world.write(world, "grows", payloads[:6])
        before = [still(seq) for seq in range(7)]
        pages_world.write(world, "grows", payloads[6:], after=6)
        for seq, was in enumerate(before):
            assert still(seq) == was, seq
        said = text_of(still(5))
        assert "showing 1 to 5 of 5 up to here" in said
        assert "of an imported file the first 5 events" in said
        assert "none up to here: checkpoints" in said and "none in this log" not in said
        assert "Refused writes" not in said, "it is kept beside the log, whatever the boundary"
        assert "<h1>grows</h1>" in still(0) and "<h1>told</h1>" in still(1)


def test_later_rows_stand_under_their_line_wherever_the_list_begins(full: World) -> None:
    index(full)
    for query in ("", "find=utcnow", "only=errors", "find=utcnow&only=errors,tools,inputs"):
        for seq in (0, 1, 20):
            page = full.get(f"{LONG}/@{seq}?{query}")
            log = page[page.index('aria-label="Events around the boundary"') :]
            log = log[: log.index('aria-label="What to show of this boundary"')]
            rows_ = re.findall(r'class="ev f-\w+( future)?"|(later than this boundary)', log)
            later = [bool(future) for future, line in rows_ if not line]
            at = next((n for n, (_, line) in enumerate(rows_) if line), None)
            assert at is not None and later[at:] and all(later[at:]), (query, seq)
            assert not any(later[:at]) and sum(bool(line) for _, line in rows_) == 1


def test_what_is_known_of_the_whole_log_is_called_later(full: World) -> None:
    said = text_of(full.get(f"{LONG}/@20"))
    assert "none in this log" not in said and "none up to here: " in said
    assert "later: its title" not in said
    assert "never recorded" not in text_of(full.get("/t/told/@0?only=tools"))
    assert "later: its title" in text_of(full.get("/t/told/@0"))
    one = full.demo[0]
    shown = text_of(full.get(f"/t/{one}/@9?tab=evidence"))
    assert "later whole original, with bytes of later events" in shown


def test_the_jump_in_the_head_is_part_of_what_is_swapped(full: World) -> None:
    """Its fields stand in the fragment, so that the address of what is shown wins."""
    for part in ("", "view"):
        for tab in TABS:
            page = full.get(f"{LONG}/@77?tab={tab}&by=time", part=part)
            fields = dict(
                re.findall(r'<input type="hidden" form="jump" name="(\w+)" value="([^"]*)">', page)
            )
            wanted = {"from": "77", "by": "time"} | ({"tab": tab} if tab != "event" else {})
            assert fields == wanted, (part, tab)
    head = full.get(f"{LONG}/@77?tab=state")
    form = head[head.index('id="jump"') :]
    assert 'type="hidden"' not in form[: form.index("</form>")]


def test_an_operation_whose_evidence_settles_nothing_is_open(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    with pages_world.world(tmp_path_factory.mktemp("open")) as world:
        pages_world.write(
            world,
            "t-open",
            [
                TaskStarted(title="x", standing="imported"),
                ToolIntent("proposal", "bash", arguments={"command": "ls -l"}),
                ToolResult("timeout", "sender"),
            ],
        )
        said = panel(world, "/t/t-open/@3?tab=operations")
        assert "unsettled 1" in said and "unknown" in said and "open" in said
        assert said.count("proposal") == 1 and "ls -l" in said
