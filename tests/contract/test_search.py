"""The full-text index follows the log, says how far, and reads nobody's text as syntax."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from core import strictjson
from core.canonical import canonical, digest_text, sha256
from core.errors import CorruptAt, InvalidInput, SearchTimeout, StoreStopped
from core.events.context import RuntimeInput
from core.events.envelope import BlobRef, NewEvent
from core.events.fields import MessageRef, Payload
from core.events.model_call import ContextBuilt
from core.events.prepare import prepare
from core.limits import INDEX_EVENT_CHARS_MAX
from runtime import indexer
from runtime.indexer import Indexer
from store import search
from store.ports import AppendCommand, Hit, Sought
from store.search import Entries, IndexDamaged, SqliteTextIndex
from tests.contract.worlds import TENANT, SqliteWorld


@pytest.fixture
def index(world: SqliteWorld) -> Iterator[SqliteTextIndex]:
    made = make(world)
    yield made
    made.close()


def make(world: SqliteWorld, *, read_only: bool = False) -> SqliteTextIndex:
    return SqliteTextIndex(
        world.folder / "data" / "search.db",
        world.opened.incarnation,
        heads=lambda tenant, after: world.store.heads(tenant, after=after, limit=500),
        read_only=read_only,
    )


def notes(world: SqliteWorld, name: str, *texts: object) -> None:
    """Append a note for each text; the trajectory is made where it is not there."""
    try:
        at = world.store.head(TENANT, name).sequence_number
    except Exception:
        at = 0
    events = tuple(
        prepare(
            name,
            NewEvent(f"e{at + n}", "note.test", 1, payload=canonical({"text": text})),
        )
        for n, text in enumerate(texts)
    )
    world.store.append(
        AppendCommand(TENANT, name, "importer", "import", f"r.{name}.{at}", events,
                      creates="imported")
    ).result(20)  # fmt: skip


def follow(world: SqliteWorld, index: SqliteTextIndex) -> Indexer:
    return Indexer(world.store, world.blobs, index)


def at(hits: list[Hit]) -> list[int]:
    return [hit.sequence_number for hit in hits]


def test_hits_lie_in_the_order_of_the_log_with_count_and_position(
    world: SqliteWorld, index: SqliteTextIndex
) -> None:
    notes(world, "t", *["needle in hay" if n % 3 == 0 else "hay" for n in range(30)])
    notes(world, "u", "hay", "needle")
    assert index.behind(TENANT) == (2, 32)
    assert follow(world, index).catch_up() == 32
    assert index.behind(TENANT) == (0, 0) and index.watermark(TENANT, "t") == 30
    found = index.hits(TENANT, "needle", trajectory_id="t")
    assert at(found) == list(range(1, 31, 3)) and {hit.type for hit in found} == {"note.test"}
    assert at(index.hits(TENANT, "needle", trajectory_id="t", after=4, limit=2)) == [7, 10]
    down = index.hits(TENANT, "needle", trajectory_id="t", after=10, limit=2, descending=True)
    assert at(down) == [7, 4]
    assert at(index.hits(TENANT, "needle", trajectory_id="t", descending=True, limit=1)) == [28]
    assert index.count(TENANT, "needle", "t") == 10
    assert index.position(TENANT, "needle", "t", 10) == 4
    assert {hit.trajectory_id: hit.sequence_number for hit in index.hits(TENANT, "needle")} == {
        "t": 1,
        "u": 2,
    }
    assert index.hits("other", "needle") == [] and index.count("other", "needle", "t") == 0


def test_one_event_holds_all_words_a_phrase_stands_side_by_side(
    world: SqliteWorld, index: SqliteTextIndex
) -> None:
    notes(world, "t", "Connection was refused", "connection refused: get_records()", "日本語 text")
    follow(world, index).catch_up()

    def found(text: str) -> list[int]:
        return at(index.hits(TENANT, text, trajectory_id="t"))

    assert found("refused CONNECTION") == [1, 2]
    assert found('"connection refused"') == [2]
    assert found("get_records") == [2] and found("rec*") == [2] and found("rec") == []
    assert found("本") == [3] and found("日本") == [3]
    for hostile in (
        'refused" OR "x',
        "text:refused",
        "NEAR(a b)",
        "refused^2",
        "a AND",
        "{x}",
        "-x",
    ):
        found(hostile)
    assert found('refused" OR "hay') == []
    with pytest.raises(InvalidInput):
        found("->")


def test_watermark_and_entries_go_in_together_or_not_at_all(
    world: SqliteWorld, index: SqliteTextIndex
) -> None:
    notes(world, "t", "one", "two")
    head = world.store.head(TENANT, "t")
    rows = ((1, "note.test", "one"), (2, "note.test", "two"))
    good = Entries(TENANT, "t", 0, 2, head.chain, rows)
    broken = Entries(TENANT, "u", 0, 1, b"", ((1, "note.test", object()),))  # type: ignore[arg-type]
    with pytest.raises(Exception, match=r"bind|type|support"):
        index.put([good, broken])
    assert index.watermark(TENANT, "t") == 0 and index.hits(TENANT, "one") == []
    index.put([good])
    # What does not continue the watermark (said twice, or with a hole) changes nothing.
    index.put([good, Entries(TENANT, "t", 3, 4, b"x", ((4, "note.test", "four"),))])
    assert index.watermark(TENANT, "t") == 2 and index.hits(TENANT, "four") == []


def test_an_index_that_disagrees_with_the_log_is_made_anew(
    world: SqliteWorld, index: SqliteTextIndex
) -> None:
    notes(world, "t", "true words")
    index.put([Entries(TENANT, "t", 0, 9, b"elsewhere", ((5, "note.x", "false words"),))])
    assert at(index.hits(TENANT, "false", trajectory_id="t")) == [5]
    follow(world, index).catch_up()
    assert index.hits(TENANT, "false") == [] and index.watermark(TENANT, "t") == 1
    assert index.count(TENANT, "words", "t") == 1


def test_a_lost_or_damaged_file_is_made_anew_from_the_log(world: SqliteWorld) -> None:
    notes(world, "t", "kept")
    for damage in (Path.unlink, lambda path: path.write_bytes(b"not a database" * 1000)):
        index = make(world)
        follow(world, index).catch_up()
        assert len(index.hits(TENANT, "kept")) == 1
        index.close()
        damage(world.folder / "data" / "search.db")
    index = make(world)
    assert index.hits(TENANT, "kept") == [] and index.behind(TENANT) == (1, 1)
    follow(world, index).catch_up()
    assert len(index.hits(TENANT, "kept")) == 1
    index.close()


def test_a_reader_without_a_file_says_so(world: SqliteWorld) -> None:
    index = make(world, read_only=True)
    with pytest.raises(StoreStopped, match="search again"):
        index.hits(TENANT, "word")
    with pytest.raises(StoreStopped):
        index.put([])
    index.close()


def test_a_search_that_takes_too_long_is_given_up(
    world: SqliteWorld, index: SqliteTextIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    notes(world, "t", *["word"] * 200)
    follow(world, index).catch_up()
    monkeypatch.setattr(search, "SEARCH_SECONDS_MAX", -1.0)
    monkeypatch.setattr(search, "_STEPS_BETWEEN_LOOKS", 1)
    with pytest.raises(SearchTimeout, match="rarer word"):
        index.count(TENANT, "word", "t")


def test_it_follows_a_log_that_grows_and_says_how_far_it_is(
    world: SqliteWorld, index: SqliteTextIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(indexer, "GATHER_SECONDS", 0.01)
    notes(world, "t", "first")
    follower = follow(world, index)
    follower.start()
    try:
        for n in range(20):
            notes(world, "t", f"later {n}", "more")
        wait_for(lambda: index.watermark(TENANT, "t") == 41)
        wait_for(lambda: index.behind(TENANT) == (0, 0))
    finally:
        follower.close()
    assert index.count(TENANT, "later", "t") == 20
    notes(world, "t", "while nobody follows")
    index.lag = None
    assert index.behind(TENANT) == (1, 1)


def test_the_follower_waits_for_space_and_loses_nothing(
    world: SqliteWorld, index: SqliteTextIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(indexer, "GATHER_SECONDS", 0.01)
    monkeypatch.setattr(indexer, "RETRY_SECONDS", 0.05)
    full = threading.Event()
    full.set()
    put = index.put

    def put_unless_full(batches: object) -> None:
        if not full.is_set():
            put(batches)  # type: ignore[arg-type]

    monkeypatch.setattr(index, "put", put_unless_full)
    notes(world, "t", "one", "two")
    follower = follow(world, index)
    follower.start()
    try:
        wait_for(lambda: index.behind(TENANT) == (1, 2))
        full.clear()
        wait_for(lambda: index.behind(TENANT) == (0, 0) and index.watermark(TENANT, "t") == 2)
    finally:
        follower.close()


def test_a_file_damaged_while_it_follows_is_made_anew(
    world: SqliteWorld, index: SqliteTextIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(indexer, "GATHER_SECONDS", 0.01)
    notes(world, "t", "one", "two")
    follower = follow(world, index)
    follower.start()
    try:
        wait_for(lambda: index.watermark(TENANT, "t") == 2)
        read = index.watermark

        def damaged(tenant: str, trajectory_id: str) -> int:
            monkeypatch.setattr(index, "watermark", read)
            index.drop()
            raise IndexDamaged("as if its pages were torn")

        monkeypatch.setattr(index, "watermark", damaged)
        notes(world, "t", "three")
        wait_for(lambda: read(TENANT, "t") == 3)
        assert at(index.hits(TENANT, "one", trajectory_id="t")) == [1]
    finally:
        follower.close()


def test_a_log_that_cannot_be_read_stops_no_other(
    world: SqliteWorld, index: SqliteTextIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    notes(world, "bad", "one")
    notes(world, "good", "one")
    events = world.store.events

    def torn(tenant: str, trajectory_id: str, **more: int) -> object:
        if trajectory_id == "bad":
            raise CorruptAt("a torn page")
        return events(tenant, trajectory_id, **more)

    monkeypatch.setattr(world.store, "events", torn)
    follower = follow(world, index)
    assert follower.catch_up() == 1
    assert [hit.trajectory_id for hit in index.hits(TENANT, "one")] == ["good"]
    assert follower.failed == {(TENANT, "bad"): (1, "a torn page")}
    assert follower.behind(TENANT) == (1, 1)


def test_what_cannot_be_read_or_is_too_long_is_counted(
    world: SqliteWorld, index: SqliteTextIndex
) -> None:
    ref = world.blobs.put(TENANT, canonical({"text": "far away"}))
    lost = world.blobs.put(TENANT, canonical({"text": "lost"}))
    long = world.blobs.put(TENANT, canonical({"text": "wide " * (INDEX_EVENT_CHARS_MAX // 5 + 9)}))
    events = tuple(
        prepare("t", NewEvent(f"e{n}", "note.test", 1, payload_ref=one), {})
        for n, one in enumerate((ref, lost, long))
    )
    world.store.append(
        AppendCommand(TENANT, "t", "importer", "import", "r", events, creates="imported")
    ).result(20)
    for path in (world.folder / "data" / "blobs").rglob(f"*{lost.digest[-10:]}*"):
        path.unlink()
    follow(world, index).catch_up()
    known = index.indexed(TENANT, "t")
    assert known is not None and (known.upto, known.cut, known.unread) == (3, 1, 1)
    assert at(index.hits(TENANT, "far", trajectory_id="t")) == [1]
    assert at(index.hits(TENANT, "wide", trajectory_id="t")) == [3]


# --- delivered messages ----------------------------------------------------------------------


def pointing(data: bytes, role: str, ref: BlobRef, start: int) -> MessageRef:
    """A message that lies within a blob; nothing of its text is in the event."""
    digest = digest_text(sha256(data))
    end = start + len(data)
    return MessageRef(role, digest, len(data), blob=ref.digest, start=start, end=end)


MESSAGES = [
    ("system", {"role": "system", "content": "You repair orchards."}),
    ("user", {"role": "user", "content": "Prune the plumtree."}),
    (
        "user",
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "content": "resultword"},
                {"type": "text", "text": "remindedword"},
                {"type": "image", "source": {"type": "base64", "data": "imageword"}},
            ],
        },
    ),
    ("assistant", {"role": "assistant", "content": "replyword"}),
    ("function call output", {"type": "function_call_output", "output": "outputword"}),
    ("developer", {"type": "message", "content": [{"type": "input_text", "text": "policyword"}]}),
    ("tool description", {"name": "dig", "description": "digword"}),
]


def given(world: SqliteWorld, name: str, *, one_by_one: bool = False) -> Iterator[None]:
    """A prompt that an event states, then two calls: the second is given everything again."""
    data = b"".join(canonical(value) + b"\n" for _, value in MESSAGES)
    ref = world.blobs.put(TENANT, data)
    listed, at = [], 0
    for role, value in MESSAGES:
        one = canonical(value)
        listed.append(pointing(one, role, ref, at))
        at += len(one) + 1
    plain = world.blobs.put(TENANT, b"no JSON: plainword")
    listed.append(pointing(b"no JSON: plainword", "user", plain, 0))
    short = MessageRef("user", digest_text(sha256(b"s")), 1, text="shortword")
    lost = MessageRef("user", digest_text(sha256(b"l")), 9, blob=digest_text(sha256(b"lost")))
    long = msgspec.structs.replace(lost, digest=digest_text(sha256(b"m")), length=1 << 40)
    digest = digest_text(sha256(b"manifest"))
    payloads: list[Payload] = [
        RuntimeInput(kind="message", text="Prune the plumtree."),
        ContextBuilt(digest, 8, messages=tuple(listed[:6]), tools=(listed[6],)),
        ContextBuilt(digest, 11, messages=(*listed[:6], listed[7], short, lost, long)),
        ContextBuilt(digest, 11, messages=(*listed[:6], listed[7], short)),
    ]
    events = [
        prepare(
            name,
            NewEvent(f"e{n}", type(one).__name__, 1, payload=msgspec.json.encode(one)),
            one,
        )
        for n, one in enumerate(payloads)
    ]
    for n, part in enumerate([[one] for one in events] if one_by_one else [events]):
        world.store.append(
            AppendCommand(TENANT, name, "importer", "import", f"r.{name}.{n}", tuple(part),
                          creates="imported")
        ).result(20)  # fmt: skip
        yield


WHERE = {
    "orchards": [2],
    "plumtree": [1],
    "remindedword": [2],
    "resultword": [],
    "imageword": [],
    "replyword": [],
    "outputword": [],
    "policyword": [2],
    "digword": [2],
    "plainword": [3],
    "shortword": [3],
}


@pytest.mark.parametrize("one_by_one", [False, True])
@pytest.mark.parametrize("marks", [50_000, 2])
def test_a_delivered_message_is_found_once_where_it_was_given_first(
    world: SqliteWorld,
    index: SqliteTextIndex,
    monkeypatch: pytest.MonkeyPatch,
    one_by_one: bool,
    marks: int,
) -> None:
    monkeypatch.setattr(indexer, "_MARKS_MAX", marks)
    for _ in given(world, "t", one_by_one=one_by_one):
        follow(world, index).catch_up()
    found = {word: at(index.hits(TENANT, word, trajectory_id="t")) for word in WHERE}
    if marks == 50_000 or one_by_one:
        assert found == WHERE
    else:
        # More texts than are remembered before they are written: one may be found again.
        assert {word: hits[:1] for word, hits in found.items()} == WHERE
    known = index.indexed(TENANT, "t")
    assert known is not None and (known.upto, known.unread) == (4, 1)


def test_a_large_blob_is_read_in_parts(
    world: SqliteWorld, index: SqliteTextIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(indexer, "WHOLE_BLOB_BYTES_MAX", 4)
    list(given(world, "t"))
    follow(world, index).catch_up()
    assert {word: at(index.hits(TENANT, word, trajectory_id="t")) for word in WHERE} == WHERE


def test_the_text_of_an_event_holds_what_it_was_found_by(
    world: SqliteWorld, index: SqliteTextIndex
) -> None:
    list(given(world, "t"))
    follow(world, index).catch_up()
    read = indexer.reader(world.blobs, TENANT)
    for event in world.store.events(TENANT, "t", limit=9):
        assert event.payload is not None
        text = indexer.indexed_text(event.type, strictjson.loads(event.payload), read)
        for word, where in WHERE.items():
            assert word in text or event.sequence_number not in where
    assert "resultword" not in text and "orchards" in text


def test_a_forgotten_trajectory_states_nothing(world: SqliteWorld, index: SqliteTextIndex) -> None:
    list(given(world, "t"))
    follow(world, index).catch_up()
    index.forget(TENANT, "t")
    assert index.hits(TENANT, "orchards") == []
    follow(world, index).catch_up()
    assert {word: at(index.hits(TENANT, word, trajectory_id="t")) for word in WHERE} == WHERE


def test_tools_and_texts_of_many_trajectories(
    world: SqliteWorld, index: SqliteTextIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search, "_SCAN_ENTRIES_MAX", 7)
    for n in range(12):
        notes(world, f"t{n}", "common", *(["rare"] if n == 3 else []), "common")
    follow(world, index).catch_up()
    found = index.hits(TENANT, "common", limit=50)
    assert {hit.trajectory_id for hit in found} == {f"t{n}" for n in range(12)}
    assert set(at(found)) == {1}
    assert len(index.hits(TENANT, "common", limit=5)) == 5
    rare = Sought("text", "rare")
    assert index.holding(TENANT, rare, limit=9) == ["t3"]
    assert index.holding(TENANT, rare, among=["t1", "t3", "gone"], limit=9) == ["t3"]
    index.put([Entries(TENANT, "x", 0, 1, b"", (), tools={"bash": 2, "edit": 1})])
    index.put([Entries(TENANT, "x", 1, 2, b"", (), tools={"bash": 1})])
    assert index.tools(TENANT, limit=5) == ["bash", "edit"]
    assert index.holding(TENANT, Sought("tool", "ba", begins=True), limit=5) == ["x"]
    assert index.holding(TENANT, Sought("tool", "ba"), limit=5) == []
    assert index.holding(TENANT, Sought("tool", "edit"), among=["x", "t1"], limit=5) == ["x"]


def test_texts_are_indexed_and_closed_words_are_not() -> None:
    payload = {
        "status": "failed",
        "error": "boom",
        "digest": "sha256:" + "0" * 64,
        "usage": {"input": 5000},
        "configuration": {"prompt": "the same in each run"},
        "arguments": {"ticket": 40192, "flag": True, "list": ["x", {"y": "deep"}]},
    }
    assert indexer.text_of(payload).split() == ["boom", "40192", "x", "deep"]


def wait_for(condition: object, seconds: float = 15.0) -> None:
    end = time.monotonic() + seconds
    while not condition():  # type: ignore[operator]
        assert time.monotonic() < end, "it did not come to be in time"
        time.sleep(0.02)
