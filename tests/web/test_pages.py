"""Every page, empty and full: whole and part agree, state is the URL, empty says why."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from app.paths import STATIC, TEMPLATES
from app.presenters.standing import cost_doubt
from core.errors import Fenced
from core.events import registry
from core.events.envelope import Event, NewEvent, chain_start, event_digest
from core.events.task import Capabilities, TaskStarted
from core.events.tool import ToolIntent
from core.instants import format_utc
from core.limits import DISPLAY_CHARS_MAX, PAGE_ROWS_MAX
from ingest import demo
from runtime.service import Runtime
from store.ports import InstallCommand
from store.verify import chain_after
from tests.web import pages_world
from tests.web.pages_world import HOSTILE, WHO, Elements, World, assert_inert, hostile_payloads

DEMO = Path(demo.__file__).parent / "demo_data"


@pytest.fixture(scope="module")
def full(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with pages_world.world(tmp_path_factory.mktemp("full")) as world:
        seeded = demo.seed(world.parts.opened.store, world.parts.opened.blobs, events=4000)
        world.demo = [*seeded.trajectories]
        pages_world.write(world, "hostile", hostile_payloads())
        world.parts.runtime.create(
            WHO,
            request_id="native",
            standing="reported",
            task=TaskStarted(title="says no source", standing="reported"),
            trajectory_id="native",
        )
        assert world.parts.projector is not None
        world.parts.projector.catch_up()
        yield world


@pytest.fixture(scope="module")
def empty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """An empty store that tests only read."""
    with pages_world.world(tmp_path_factory.mktemp("empty") / "data") as world:
        yield world


@pytest.fixture
def fresh(tmp_path: Path) -> Iterator[World]:
    """An empty store that a test may fill."""
    with pages_world.world(tmp_path / "data") as world:
        yield world


# ---- empty -------------------------------------------------------------------------------


def test_an_empty_store_leads_to_ones_own_files(empty: World) -> None:
    page = empty.get("/")
    assert "This store is empty" in page
    assert 'type="file"' in page and 'action="/import"' in page
    assert "strandline import PATH --data" in page and "strandline demo" in page
    assert "last_mini_run.traj.json" in page
    assert_inert(page)


@pytest.mark.parametrize("path", ["/trajectories", "/import", "/health", "/keys", "/docs/errors"])
def test_every_page_stands_over_an_empty_store(empty: World, path: str) -> None:
    assert_inert(empty.get(path))


def test_empty_panels_say_why(empty: World) -> None:
    assert "Nothing has been imported or started" in empty.get("/trajectories")
    assert "No upload since this server started" in empty.get("/import")
    health = empty.get("/health")
    assert "No id came twice with different bytes" in health
    assert "No write" in health


# ---- errors ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/nope", 404),
        ("/t/never-was", 404),
        ("/t/never-was/@3", 404),
        ("/t/..%2Fx/@3", 404),
        ("/import/" + "0" * 32, 404),
        ("/trajectories?limit=x", 422),
        ("/trajectories?after=not-ours", 422),
        ("/trajectories?sort=evil", 422),
    ],
)
def test_errors_are_pages_that_say_what_is_true(empty: World, path: str, status: int) -> None:
    page = empty.get(path, status=status)
    assert "Nothing was to be changed" in page
    assert "/docs/errors/" in page
    assert_inert(page)


def test_a_boundary_beyond_the_head_names_the_head(full: World) -> None:
    assert "its head is 19" in full.get("/t/hostile/@20", status=404)


# ---- the list ----------------------------------------------------------------------------


def test_the_list_pages_by_key_and_keeps_its_state(full: World) -> None:
    seen: list[str] = []
    path = "/trajectories?limit=3&sort=title&dir=asc"
    for _ in range(10):
        page = full.get(path)
        seen += re.findall(r'<td class="cut"><a href="/t/([^"]+)"', page)
        following = re.search(r'href="([^"]+after=[^"]+)" rel="next"', page)
        if not following:
            break
        path = following.group(1).replace("&amp;", "&")
        assert "sort=title" in path and "limit=3" in path and "dir=asc" in path
    assert sorted(seen) == sorted([*full.demo, "hostile", "native"])


def test_filters_are_a_form_and_say_what_they_left_out(full: World) -> None:
    page = full.get("/trajectories?status=FAILED")
    rows = re.findall(r'<td class="cut"><a href="/t/([^"]+)"', page)
    assert "hostile" in rows and "demo-nightly-build" not in rows
    assert "status <b>is FAILED</b>" in page and 'value="status:FAILED"' in page
    page = full.get("/trajectories?source=mini-swe-agent+2.x")
    assert "left out: no source recorded" in page and "q=source%3Anone" in page
    page = full.get("/trajectories?q=no+such+text")
    assert "No trajectory matches" in page and "Clear the query" in page


def test_an_import_never_claims_what_its_source_does_not_say(full: World) -> None:
    page = full.get("/trajectories?standing=imported", part="list")
    assert "unknown: the source records no generations" in page
    assert "in doubt" not in page


def test_nothing_runs_in_a_file_or_copy_that_records_no_end(tmp_path: Path) -> None:
    with pages_world.world(tmp_path / "data") as world:
        pages_world.write(world, "file", hostile_payloads()[:3])
        runtime = world.parts.runtime
        task = TaskStarted(title="here", standing="reported")
        runtime.create(WHO, request_id="r", standing="reported", task=task, trajectory_id="here")
        copied = tuple(rechained(runtime, "here"))
        runtime.store.install(InstallCommand("local", "copy", copied)).result()
        assert world.parts.projector is not None
        world.parts.projector.catch_up()
        for name, head, before in (
            ("file", "no end recorded", "no end so far"),
            ("copy", "no end in this copy", None),
        ):
            end = runtime.head(WHO, name).sequence_number
            page = world.get(f"/t/{name}/@{end}?tab=state&all=1")
            assert "RUNNING" not in page and head in page
            if before is not None:
                assert before in world.get(f"/t/{name}/@1")
        listed = world.get("/trajectories", part="list")
        assert "no end recorded" in listed and "no end in this copy" in listed
        assert listed.count(">RUNNING<") == 1
        assert "RUNNING" in world.get("/t/here/@1?tab=state&all=1")
        overview = world.get("/")
        assert "no end recorded" in overview and "no end in this copy" in overview
        # What is shown is what is matched.
        assert "OPEN" in overview and listed.count(">OPEN<") == 2
        assert world.get("/trajectories?q=status:open", part="list").count(">OPEN<") == 2
        running = world.get("/trajectories?q=status:running", part="list")
        assert running.count(">RUNNING<") == 1 and ">OPEN<" not in running


def rechained(runtime: Runtime, name: str) -> list[Event]:
    """The log of `name` as that of a trajectory `copy`, with digests and chain of its own."""
    chain, made = chain_start("copy"), []
    for one in runtime.events(WHO, name):
        moved = msgspec.structs.replace(
            one, trajectory_id="copy", digest=event_digest("copy", one.stated())
        )
        chain = chain_after(chain, moved)
        made.append(msgspec.structs.replace(moved, chain=chain))
    return made


def test_the_newest_refusals_are_shown_and_all_of_them_led_to(tmp_path: Path) -> None:
    with pages_world.world(tmp_path / "data") as world:
        runtime = world.parts.runtime
        task = TaskStarted(title="here", standing="reported")
        runtime.create(WHO, request_id="r", standing="reported", task=task, trajectory_id="here")
        note = NewEvent("x", "note.x", 1, payload=b"{}")
        for number in range(25):
            late = runtime.append(
                WHO, "here", owner_epoch=3, worker=f"w{number}", request_id="a", events=[note]
            )
            assert isinstance(late.exception(), Fenced)
        page = world.get("/t/here/@1?tab=evidence")
        assert "worker w24" in page and "worker w4<" not in page
        assert "/v1/trajectories/here/ledger" in page


def test_large_pages_are_capped(full: World) -> None:
    assert f"{PAGE_ROWS_MAX} a page" not in full.get("/trajectories?limit=9999")


# ---- the boundary ------------------------------------------------------------------------


def test_the_newest_boundary_has_an_address_of_its_own(full: World) -> None:
    answer = full.client.get("/t/hostile?tab=state", follow_redirects=False)
    assert answer.status_code == 302
    assert answer.headers["location"] == "/t/hostile/@19?tab=state"


@pytest.mark.parametrize("tab", ["event", "state", "evidence"])
def test_every_boundary_of_every_family_is_inert(full: World, tab: str) -> None:
    for seq in range(20):
        for more in ("", "&raw=1", "&all=1", "&vs=0", "&by=time"):
            page = full.get(f"/t/hostile/@{seq}?tab={tab}{more}")
            assert_inert(page)
            if tab == "event" and seq and not more:
                assert "&lt;script&gt;" in page or seq in (4, 5)


def test_hostile_text_is_named_and_not_hidden(full: World) -> None:
    page = full.get("/t/hostile/@8")
    assert "\u2039RLO\u203agpj.exe" in page
    assert '<span class="a-31">red</span>' in page
    assert "{{7*7}}" in page.replace("&#39;", "'") and "49" not in page.split("{{7*7}}")[1][:20]
    assert "terminal escapes left out" in page


@pytest.mark.parametrize(
    "path", ["/t/demo-nightly-build/@2000", "/t/hostile/@7?tab=state&vs=2", "/t/hostile/@3?raw=1"]
)
def test_a_part_is_a_part_of_its_page(full: World, path: str) -> None:
    def still(text: str) -> str:
        text = re.sub(r"printed [0-9: -]+UTC", "printed", text)
        return re.sub(r"(in )[0-9.]+ (µs|ms|s)\b", r"\1·", text)

    whole, part = still(full.get(path)), still(full.get(path, part="view"))
    title = re.search(r"<title>.*?</title>\n?", part)
    assert title is not None
    assert part.replace(title.group(), "").strip() in whole
    assert part.lstrip().startswith('<div id="view"')


def test_answers_vary_by_what_asks(full: World) -> None:
    for path in ("/", "/trajectories", "/t/hostile/@3", "/health", "/import"):
        vary = full.client.get(path, headers={"Accept": "text/html"}).headers["vary"]
        assert "HX-Request" in vary and "HX-Target" in vary


def test_a_history_restore_gets_the_whole_page(full: World) -> None:
    answer = full.client.get(
        "/t/hostile/@3",
        headers={
            "HX-Request": "true",
            "HX-Target": "div#view",
            "HX-History-Restore-Request": "true",
        },
    )
    assert answer.text.lstrip().startswith("<!doctype html>")


def test_nothing_of_a_boundary_is_from_after_it(full: World) -> None:
    page = full.get("/t/demo-nightly-build/@1000?tab=state&all=1")
    assert "later: 3,000 more events" in page
    future = page.split("later than this boundary</p>", 1)[1].split("</section>", 1)[0]
    assert 'class="ev' in future
    assert not re.search(r'class="ev [^"]*" id="e(?!1)', future.replace(" future", " "))
    tab = _tab(page)
    for number in re.findall(r"/@(\d+)\?tab=state", tab):
        assert int(number) <= 1000


def _tab(page: str) -> str:
    return page.split('aria-label="state"', 1)[1].split('class="dock"', maxsplit=1)[0]


def test_an_operation_is_open_at_its_intent_and_settled_at_its_result(full: World) -> None:
    runtime = full.parts.runtime
    pairs = [
        (tid, event.operation_id, event.sequence_number)
        for tid in full.demo[:-1]
        for event in runtime.events(WHO, tid)
        if event.type == "ToolResult" and b'"status":"succeeded"' in (event.payload or b"")
    ]
    tid, operation, result = pairs[0]
    assert operation is not None
    intent = runtime.operation_events(WHO, tid, operation)[0].sequence_number
    at_intent = full.get(f"/t/{tid}/@{intent}?tab=state")
    assert "no outcome evidence" in at_intent and 'class="g unknown"' in at_intent
    assert f"/@{result}?tab=state" not in _tab(at_intent)
    at_result = full.get(f"/t/{tid}/@{result}?tab=state")
    assert "established" in at_result


def test_a_boundary_of_a_long_log_is_no_larger(full: World) -> None:
    sizes = []
    for path in ("/t/demo-nightly-build/@300", "/t/demo-nightly-build/@3700"):
        page = full.get(path + "?tab=state&all=1&rows=200")
        nodes = len(Elements(page).found)
        assert nodes <= 3000 and len(page.encode()) <= 300_000
        sizes.append(nodes)
    assert sizes[1] <= 1.3 * sizes[0]


def test_the_widest_event_stays_in_its_bounds(full: World) -> None:
    from core.events.tool import ToolIntent, ToolResult

    big = "\x1b[32m" + ("x" * 79 + "\n") * 200_000
    payloads = [ToolIntent("proposal", "bash"), ToolResult("succeeded", "sender", exit_code=0)]
    pages_world.write(full, "wide", payloads, id_="w")
    blob = full.parts.runtime.put_blob(
        WHO,
        b'{"basis":"sender","observation":' + json.dumps(big).encode() + b',"status":"succeeded"}',
    )
    from core.events.envelope import NewEvent
    from core.events.prepare import prepare
    from store.ports import AppendCommand

    new = NewEvent(
        "w-3", "ToolResult", 1, payload_ref=blob, operation_id="op-1", attempt_id="op-1.1"
    )
    typed = ToolResult("succeeded", "sender", observation=big)
    full.parts.opened.store.append(
        AppendCommand(
            tenant="local",
            trajectory_id="wide",
            issuer="importer",
            door="import",
            request_id="wide.2",
            events=(prepare("wide", new, typed),),
            expected_head=2,
        )
    ).result()
    for more in ("", "?raw=1", "?tab=evidence"):
        page = full.get("/t/wide/@3" + more)
        assert len(page.encode()) < 150_000
    page = full.get("/t/wide/@3")
    assert f"cut: {DISPLAY_CHARS_MAX:,} of 16,000,005 characters shown" in page
    assert "/v1/trajectories/wide/events/3/payload" in page


# ---- jumps -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("query", "seq"),
    [("7", 7), ("@7", 7), ("1,9", 19), ("head", 19), ("step:1", 2), ("e-7", 7), ("op-1", 4)],
)
def test_a_typed_jump_goes_to_its_boundary(full: World, query: str, seq: int) -> None:
    answer = full.client.get(
        "/t/hostile/go", params={"q": query, "from": 3, "tab": "state"}, follow_redirects=False
    )
    assert answer.status_code == 303
    assert answer.headers["location"] == f"/t/hostile/@{seq}?tab=state"


def test_a_jump_by_time_goes_to_what_was_recorded_by_then(full: World) -> None:
    answer = full.client.get("/t/hostile/go?q=2099-01-01", follow_redirects=False)
    assert answer.headers["location"] == "/t/hostile/@19"


def test_a_jump_that_means_nothing_stays_and_says_so(full: World) -> None:
    page = full.get("/t/hostile/go?from=5&q=%3Cb%3Enonsense", status=404)
    assert "Nothing here is called &lt;b&gt;nonsense" in page
    assert 'data-seq="5"' in page


def test_the_scrubber_is_answered_with_its_part_and_address(full: World) -> None:
    answer = full.client.get(
        "/t/hostile/go?q=9&tab=state",
        headers={"HX-Request": "true", "HX-Target": "div#view"},
    )
    assert answer.headers["HX-Replace-Url"] == "/t/hostile/@9?tab=state"
    assert answer.text.lstrip().startswith('<div id="view"') and 'data-seq="9"' in answer.text


def test_a_jump_that_goes_nowhere_is_shown_with_its_reason(full: World) -> None:
    page = full.get("/t/hostile/@19")
    assert 'aria-disabled="true" title="no later error"' in page


def test_the_footer_moves_with_the_boundary(full: World) -> None:
    part = full.get("/t/demo-nightly-build/@7", part="view")
    assert "Read from the log at boundary 7;" in part
    assert full.get("/t/demo-nightly-build/@7").count("Read from the log at boundary") == 1


def test_what_is_unsettled_is_listed_with_its_reason_and_worker(full: World) -> None:
    runtime = full.parts.runtime
    head = runtime.head(WHO, "demo-nightly-build").sequence_number
    at = next(
        boundary
        for boundary in range(head, 0, -25)
        if runtime.record_at(WHO, "demo-nightly-build", boundary).record.operations.unsettled
    )
    page = full.get(f"/t/demo-nightly-build/@{at}?tab=state&all=1")
    assert 'id="unsettled"' in page
    listed = page.partition('id="unsettled"')[2].partition("</table>")[0]
    operation = next(
        o
        for o in runtime.record_at(WHO, "demo-nightly-build", at).record.operations.open.values()
        if o.unsettled
    )
    assert f"/@{operation.attempts[-1].intent_sequence}" in listed
    assert operation.attempts[-1].worker and operation.attempts[-1].worker in listed
    assert f"/@{at}?tab=state&amp;all=1#unsettled" in full.get(f"/t/demo-nightly-build/@{at}")


def test_a_cost_of_zero_in_a_file_is_not_called_a_price(tmp_path: Path) -> None:
    assert (
        cost_doubt(0, "imported") and not cost_doubt(0, "gated") and not cost_doubt(1, "imported")
    )


def test_a_typed_time_is_on_the_clock_that_is_shown(full: World) -> None:
    runtime, name = full.parts.runtime, "demo-nightly-build"
    event = runtime.event(WHO, name, 1000)
    assert event.occurred_at is not None
    stamp = format_utc(event.occurred_at)
    for typed in (stamp, stamp[11:].removesuffix(" UTC")):
        found = runtime.find(WHO, name, typed, near=990)
        assert found is not None
        assert runtime.event(WHO, name, found).occurred_at == event.occurred_at
    assert "occurred, since" in full.get(f"/t/{name}/@1000")
    assert runtime.find(WHO, name, "25:00", near=990) is None
    assert runtime.find(WHO, name, "2000-01-01 00:00:00 UTC", near=990) == 0


def test_times_that_nobody_states_are_those_of_the_store_and_say_so(full: World) -> None:
    assert "recorded, since" in full.get("/t/native/@1")
    runtime = full.parts.runtime
    at = format_utc(runtime.event(WHO, "native", 1).recorded_at)
    assert runtime.find(WHO, "native", at) == 1
    assert runtime.find(WHO, "native", at[11:19], near=1) in (0, 1)
    assert any("no times in the source" in full.get(f"/t/{name}/@1") for name in full.demo)


# ---- compare, evidence -------------------------------------------------------------------


def test_two_boundaries_are_compared_by_path(full: World) -> None:
    page = full.get("/t/demo-nightly-build/@500?tab=state&vs=480")
    assert "<b>event_counts</b>" in page and "ContextBuilt" in page and "differ" in page
    assert "Nothing differs" in full.get("/t/demo-nightly-build/@500?tab=state&vs=500")
    beyond = full.get("/t/demo-nightly-build/@500?tab=state&vs=99999")
    assert "That boundary is not in this log" in beyond


def test_verification_is_done_when_asked_and_not_claimed_before(full: World) -> None:
    page = full.get("/t/hostile/@19?tab=evidence")
    assert "not derived again for this page" in page
    page = full.get("/t/hostile/@19/verify")
    assert "verified to 19" in page and "19 of 19 events derived again" in page


def test_evidence_shows_original_bytes_and_what_the_source_cannot_say(full: World) -> None:
    page = full.get(f"/t/{full.demo[0]}/@3?tab=evidence")
    assert "Original bytes" in page and "the authority over what was derived" in page
    assert "What this source cannot say" in page and "no generations and no leases" in page
    assert "sha256:" in page and "/v1/blobs/sha256:" in page


def test_a_missing_payload_is_shown_as_missing(tmp_path: Path) -> None:
    from core.events.envelope import NewEvent
    from core.events.prepare import prepare
    from core.events.tool import ToolResult
    from store.ports import AppendCommand

    with pages_world.world(tmp_path / "data") as world:
        pages_world.write(world, "torn", hostile_payloads()[:1])
        data = b'{"basis":"sender","status":"succeeded"}'
        blob = world.parts.runtime.put_blob(WHO, data)
        new = NewEvent("t-2", "ToolResult", 1, payload_ref=blob, operation_id="op-1")
        world.parts.opened.store.append(
            AppendCommand(
                tenant="local",
                trajectory_id="torn",
                issuer="importer",
                door="import",
                request_id="torn.2",
                events=(prepare("torn", new, ToolResult("succeeded", "sender")),),
                expected_head=1,
            )
        ).result()
        bare = blob.digest.removeprefix("sha256:")
        (world.parts.folder / "blobs" / "sha256" / bare[:2] / bare[2:]).unlink()
        evidence = world.get("/t/torn/@1?tab=evidence")
        assert "present" in evidence
        event = world.client.get("/t/torn/@2", headers={"Accept": "text/html"})
        assert "missing" in event.text.lower() and event.status_code in (200, 409)


# ---- import ------------------------------------------------------------------------------


def test_a_file_is_imported_by_a_plain_form_and_reported(fresh: World) -> None:
    good = (DEMO / "repair-slugify.traj.json").read_bytes()
    page = fresh.import_page(
        ("good.traj.json", good), ("cut.traj.json", good[:5000]), ("none.json", b"")
    )
    assert "3 files · 2 refused, 1 imported" in page
    assert page.index("Refused: <code>cut.traj.json") < page.index(
        "<code>good.traj.json</code></h2>"
    )
    assert "nothing of it was imported" in page
    assert "What this format cannot say" in page and "ModelReplied" in page
    assert_inert(page)
    tid = re.search(r'href="/t/(tr_[a-z0-9]+)"', page)
    assert tid is not None
    assert "slugify" in fresh.get(f"/t/{tid.group(1)}/@5")
    again = fresh.import_page(("good.traj.json", good))
    assert "1 file · 1 unchanged" in again and "the same bytes are here already" in again
    assert "earlier" in again.lower()


def test_an_empty_form_is_refused_in_words(empty: World) -> None:
    answer = empty.client.post(
        "/import",
        data={"x": "y"},
        headers={"Accept": "text/html", "Sec-Fetch-Site": "same-origin"},
        follow_redirects=False,
    )
    assert answer.status_code in (400, 422)
    assert "No file was chosen" in answer.text


def test_a_hostile_file_name_is_text(fresh: World) -> None:
    page = fresh.import_page(('"><script>x</script>\u202e.json', b"{}"))
    assert_inert(page)


def test_an_upload_from_another_site_is_refused(empty: World) -> None:
    answer = empty.client.post(
        "/import",
        files=[("files", ("a.json", b"{}", "application/json"))],
        headers={"Accept": "text/html", "Sec-Fetch-Site": "cross-site"},
    )
    assert answer.status_code == 403


# ---- overview, health --------------------------------------------------------------------


def test_the_overview_says_what_to_look_at(full: World) -> None:
    page = full.get("/")
    assert "need a person" in page and "have calls whose outcome their file does not" in page
    assert "Recent trajectories" in page
    assert_inert(page)


def test_health_shows_each_check_and_the_numbers_of_each_chart(full: World) -> None:
    page = full.get("/health")
    assert "Failure domain: host" in page and "synchronous" in page and "FULL" in page
    for name in ("queue-wait", "storage-time", "group-size"):
        assert f'data-plot="/health/charts/{name}"' in page
        figure = full.client.get(f"/health/charts/{name}").json()
        assert figure["data"][0]["type"] == "bar"
    assert "<summary>numbers" in page
    assert_inert(page)


def test_charts_never_offer_to_upload_themselves() -> None:
    script = (STATIC / "app.js").read_text()
    assert "showSendToCloud: false" in script
    assert "displayModeBar: false" in script


# ---- rules of the templates --------------------------------------------------------------


def test_no_template_marks_text_as_safe_or_writes_script_or_style() -> None:
    for path in sorted(TEMPLATES.rglob("*.html")):
        text = path.read_text()
        assert "|safe" not in text and "| safe" not in text and "autoescape" not in text, path
        assert not re.search(r"\sstyle=", text), path
        assert not re.search(r"\son[a-z]+=", text), path
        assert "hx-on" not in text and "hx-vals" not in text and "javascript:" not in text, path
        for tag in re.findall(r"<script[^>]*>", text):
            assert "src=" in tag, path


def test_the_script_writes_no_markup_from_data() -> None:
    script = (STATIC / "app.js").read_text()
    for word in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval("):
        assert word not in script


def test_every_fragment_has_one_root_with_its_id() -> None:
    for name, part in (("view", "_view"), ("list", "_list"), ("batch", "_batch")):
        text = (TEMPLATES / "partials" / f"{part}.html").read_text()
        assert text.count(f'id="{name}"') == 1, part


def test_the_hostile_text_is_as_hostile_as_it_says() -> None:
    assert all(part in HOSTILE for part in ("<script>", "onerror", "\x1b[31m", "\u202e", "hx-get"))


def test_a_deadline_that_passes_at_the_head_is_seen_without_a_further_event(full: World) -> None:
    """At the head the store's clock counts; nothing has to be appended for it to pass (EFF-2)."""
    runtime = full.parts.runtime
    now = runtime.clock()
    task = TaskStarted(
        title="Deadline",
        standing="reported",
        capabilities=Capabilities(intents="written_ahead"),
    )
    made = runtime.create(WHO, request_id="deadline-1", standing="reported", task=task)
    named = made.trajectory_id
    epoch = runtime.claim(WHO, named, request_id="deadline-2", worker="w").owner_epoch
    intent = NewEvent(
        event_id="i1",
        type="ToolIntent",
        schema_version=1,
        payload=registry.encode(ToolIntent("intent", "bash", deadline_at=now + 3_600_000_000)),
        operation_id="op",
        attempt_id="at",
    )
    head = (
        runtime.append(
            WHO, named, owner_epoch=epoch, worker="w", request_id="deadline-3", events=[intent]
        )
        .result(20)
        .head
    )
    address = f"/t/{named}/@{head}?tab=state&all=1"
    assert "in flight" in full.get(address)
    before = runtime.clock
    runtime.clock = lambda: now + 7_200_000_000
    try:
        page = full.get(address)
    finally:
        runtime.clock = before
    assert "in doubt" in page and "deadline" in page
