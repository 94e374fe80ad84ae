"""Acts of people beside the log: as durable as events, never changed, and told apart."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest
from alembic import command
from alembic.config import Config

from core.acts import Act, Body, Note, Nothing, Price, Retract, Supersede, Tag, View
from core.canonical import sha256
from core.errors import (
    CorruptAt,
    HeadMoved,
    IntegrityConflict,
    InvalidInput,
    NotFound,
    StoreStopped,
    TooLarge,
)
from store import acts as stored
from store import engine, migrate, sqlite_driver
from store.open import open_store
from store.ports import ActCommand
from tests.contract.worlds import SECONDS, TENANT, SqliteWorld, note, together

PRICE = Price("m", "2026-01-01", 1, 2, 3, 4)


def act_later(
    world: SqliteWorld,
    kind: str,
    body: Body,
    *,
    about: str | None = "t",
    request_id: str | None = None,
    actor: str = "ann",
    tenant: str = TENANT,
    **more: Any,
) -> Future[Act]:
    asked = f"{kind} {body} {about} {actor} {sorted(more.items())}"
    return cast(
        Future[Act],
        world.store.act(
            ActCommand(
                tenant=tenant,
                kind=kind,  # type: ignore[arg-type]
                body=body,
                actor=actor,
                request_id=request_id or world.request(),
                request_digest=sha256(asked.encode()),
                trajectory_id=about,
                **more,
            )
        ),
    )


def act(world: SqliteWorld, kind: str, body: Body, **more: Any) -> Act:
    return act_later(world, kind, body, **more).result(SECONDS)


def raw(world: SqliteWorld) -> Any:
    return sqlite_driver.module.connect(
        str(world.folder / "data" / "store-000001.db"), isolation_level=None
    )


# --- what is stored ------------------------------------------------------------------------------


def test_acts_are_numbered_over_all_read_in_order_and_kept(world: SqliteWorld) -> None:
    world.create("t")
    world.create("u")
    world.create("t", tenant="other")
    made = [
        act(world, "note", Note("first"), boundary=1),
        act(world, "tag", Tag("flaky"), about="u"),
        act(world, "note", Note("theirs"), tenant="other"),
        act(world, "price", PRICE, about=None),
        act(world, "withdraw", Nothing(), reason="imported by mistake"),
    ]
    assert [one.number for one in made] == [1, 2, 3, 4, 5]
    world.reopen()
    mine = [made[0], made[1], made[3], made[4]]
    assert world.store.acts(TENANT) == mine
    assert world.store.acts(TENANT, after=2, limit=1) == [made[3]]
    assert world.store.acts(TENANT, kinds=("note", "withdraw")) == [made[0], made[4]]
    assert world.store.acts(TENANT, trajectory_id="t", kinds=("withdraw",)) == [made[4]]
    assert world.store.acts(TENANT, trajectory_id="u") == [made[1]]
    assert world.store.acts(TENANT, trajectory_id="") == [made[3]]
    assert world.store.acts(TENANT, trajectory_id="", kinds=("view",)) == []
    assert world.store.acts(TENANT, after=2**70) == []
    assert world.store.last_acts(TENANT) == {"t": 5, "u": 2}
    assert world.store.last_acts("other") == {"t": 3}
    assert world.findings() == []


@pytest.mark.parametrize("verb", ["UPDATE acts SET actor = 'x'", "DELETE FROM acts"])
def test_acts_are_append_only_for_everybody(world: SqliteWorld, verb: str) -> None:
    world.create()
    act(world, "note", Note("it stands"))
    world.opened.close()
    connection = raw(world)
    with pytest.raises(sqlite_driver.Error, match="append-only"):
        connection.execute(verb)
    connection.close()


def test_a_group_of_events_and_acts_is_decided_in_order(world: SqliteWorld) -> None:
    head = world.owned()
    groups = world.store.stats().groups
    with world.one_group():
        before = act_later(world, "note", Note("too early"), boundary=head + 1)
        appended = world.append_later([note("a")])
        after = act_later(world, "note", Note("just there"), boundary=head + 1)
        again = act_later(world, "tag", Tag("x"))
    assert isinstance(before.exception(SECONDS), NotFound)
    assert appended.result(SECONDS).head == head + 1
    assert (after.result(SECONDS).number, again.result(SECONDS).number) == (1, 2)
    # The one that held the others back, and one flush for all of them.
    assert world.store.stats().groups == groups + 2
    assert world.findings() == []


def test_recorded_at_never_decreases(world: SqliteWorld) -> None:
    world.create()
    first = act(world, "note", Note("now"))
    world.clock.now -= 10_000_000
    world.reopen()
    assert act(world, "note", Note("before")).recorded_at == first.recorded_at
    assert world.findings() == []


# --- requests ------------------------------------------------------------------------------------


def test_a_request_is_one_act_however_often_it_is_sent(world: SqliteWorld) -> None:
    world.create()
    first = act(world, "note", Note("once"), request_id="same")
    with world.one_group():
        two = [act_later(world, "note", Note("once"), request_id="same") for _ in range(2)]
    assert [one.result(SECONDS) for one in two] == [first, first]
    world.reopen()
    act(world, "note", Note("later"))
    assert act(world, "note", Note("once"), request_id="same") == first
    # It was answered: that somebody did something since does not matter any more.
    fresh = act(world, "tag", Tag("x"), request_id="held", expected_last=2)
    act(world, "tag", Tag("y"))
    assert act(world, "tag", Tag("x"), request_id="held", expected_last=2) == fresh
    assert len(world.store.acts(TENANT)) == 4


def test_a_request_id_is_never_used_for_two_things(world: SqliteWorld) -> None:
    world.create(request_id="made")
    act(world, "note", Note("once"), request_id="same")
    for other in (
        act_later(world, "note", Note("twice"), request_id="same"),
        act_later(world, "note", Note("once"), request_id="same", actor="ben"),
        act_later(world, "note", Note("once"), request_id="made"),
        world.claim_later(request_id="same"),
    ):
        assert isinstance(world.refused(other), IntegrityConflict)
    assert len(world.store.acts(TENANT)) == 1
    # Another tenant's ids are its own.
    world.create(tenant="other")
    assert act(world, "note", Note("once"), request_id="same", tenant="other").number == 2


# --- two people ----------------------------------------------------------------------------------


@pytest.mark.parametrize("first", [0, 1])
def test_of_two_who_saw_the_same_one_is_told_what_moved(world: SqliteWorld, first: int) -> None:
    world.create()
    seen = act(world, "note", Note("seen by both")).number
    asked: list[Callable[[], Future[Act]]] = [
        lambda: act_later(
            world, "withdraw", Nothing(), reason="broken", actor="ann", expected_last=seen
        ),
        lambda: act_later(world, "tag", Tag("keep"), actor="ben", expected_last=seen),
    ]
    with world.one_group():
        won, lost = asked[first](), asked[1 - first]()
    error = world.refused(lost)
    assert isinstance(error, HeadMoved)
    assert error.data == {"last_act": won.result(SECONDS).number, "expected_last": seen}
    assert len(world.store.acts(TENANT)) == 2


def test_a_race_of_many_has_one_winner(world: SqliteWorld) -> None:
    world.create()

    def withdraw(person: int) -> Callable[[], Act]:
        return lambda: act(
            world, "withdraw", Nothing(), reason="mine", actor=f"p{person}", expected_last=0
        )

    answers = together([withdraw(person) for person in range(8)])
    assert sum(isinstance(one, Act) for one in answers) == 1
    assert sum(isinstance(one, HeadMoved) for one in answers) == 7
    assert len(world.store.acts(TENANT)) == 1


def test_who_changes_a_price_missed_nothing_by_a_view_or_a_note(world: SqliteWorld) -> None:
    world.create()
    price = act(world, "price", PRICE, about=None, expected_last=0)
    act(world, "view", View("mine", "status:failed"), about=None, expected_last=0)
    act(world, "note", Note("beside"))
    retraction = act(
        world, "retract", Retract(price.number), about=None, expected_last=price.number
    )
    late = act_later(world, "price", PRICE, about=None, expected_last=price.number)
    assert world.refused(late).data["last_act"] == retraction.number


# --- refusals ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "body", "more", "error"),
    [
        ("note", Note("x"), {"about": None}, InvalidInput),
        ("note", Note(""), {}, InvalidInput),
        ("note", Note("\ud800"), {}, InvalidInput),
        ("note", Note("x" * 4001), {}, InvalidInput),
        ("note", Tag("x"), {}, InvalidInput),
        ("erase", Nothing(), {}, InvalidInput),
        ("tag", Tag("Not A Tag"), {}, InvalidInput),
        ("tag", Tag("x"), {"boundary": 1}, InvalidInput),
        ("note", Note("x"), {"boundary": -1}, InvalidInput),
        ("withdraw", Nothing(), {}, InvalidInput),
        ("withdraw", Nothing(), {"reason": "  "}, InvalidInput),
        ("reinstate", Nothing(), {}, InvalidInput),
        ("withdraw", Nothing(), {"reason": "x" * 1001}, InvalidInput),
        ("price", PRICE, {"about": "t"}, InvalidInput),
        ("note", Note("x"), {"actor": ""}, InvalidInput),
        ("note", Note("x"), {"request_id": "a b"}, InvalidInput),
        ("note", Note("x"), {"about": "none"}, NotFound),
        ("note", Note("x"), {"about": "../etc"}, InvalidInput),
        ("note", Note("x"), {"boundary": 2}, NotFound),
        ("note", Note("x"), {"tenant": "other"}, NotFound),
        ("supersede", Supersede("t"), {}, InvalidInput),
        ("supersede", Supersede("none"), {}, NotFound),
    ],
)
def test_what_is_no_act_leaves_nothing(
    world: SqliteWorld, kind: str, body: Body, more: dict[str, Any], error: type[Exception]
) -> None:
    world.create()
    assert isinstance(world.refused(act_later(world, kind, body, **more)), error)
    assert world.store.acts(TENANT) == []
    assert world.store.acts("other") == []
    assert act(world, "note", Note("and it goes on"), boundary=0).number == 1
    assert world.findings() == []


def test_there_is_an_end_to_acts_about_one_thing(
    world: SqliteWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stored, "ACTS_PER_TRAJECTORY_MAX", 2)
    world.create("t")
    world.create("u")
    for text in "ab":
        act(world, "note", Note(text))
    assert isinstance(world.refused(act_later(world, "note", Note("c"))), TooLarge)
    act(world, "note", Note("elsewhere"), about="u")
    act(world, "price", PRICE, about=None)


def test_who_only_reads_takes_no_acts(world: SqliteWorld) -> None:
    world.create()
    act(world, "note", Note("before"))
    with open_store(world.folder / "data", read_only=True) as reader:
        assert len(reader.store.acts(TENANT)) == 1
        asked = ActCommand(TENANT, "note", Note("x"), "ann", "r", sha256(b"r"), "t")
        with pytest.raises(StoreStopped, match="reading only"):
            reader.store.act(asked).result(SECONDS)


# --- followers -----------------------------------------------------------------------------------


def test_followers_hear_of_acts_and_of_the_desk_only_who_asks(world: SqliteWorld) -> None:
    world.create("t")
    world.create("u")
    plain, desk = world.store.subscribe(), world.store.subscribe(desk=True)
    act(world, "note", Note("x"))
    price = act(world, "price", PRICE, about=None)
    assert desk.wait(SECONDS) == [(TENANT, "t", 1), (TENANT, "", price.number)]
    assert plain.wait(SECONDS) == [(TENANT, "t", 1)]
    act(world, "price", PRICE, about=None)
    assert plain.wait(0.0) == []
    world.claim("u")
    with world.one_group():
        # The head that followers are told is the one the group leaves.
        first = act_later(world, "tag", Tag("x"), about="u")
        world.append_later([note("a", trajectory_id="u")], trajectory_id="u")
    first.result(SECONDS)
    assert (TENANT, "u", 3) in plain.wait(SECONDS)


# --- audit ---------------------------------------------------------------------------------------


def _spoiled(world: SqliteWorld, *statements: tuple[str, tuple[object, ...]]) -> list[str]:
    """Details of what audit finds after the database was changed behind the store's back."""
    world.opened.close()
    connection = raw(world)
    for name in ("update", "delete"):
        connection.execute(f"DROP TRIGGER acts_no_{name}")
    for statement, values in statements:
        connection.execute(statement, values)
    connection.close()
    world.opened = open_store(world.folder / "data", clock=world.clock)
    return [f"{one.invariant} {one.trajectory_id} {one.detail}" for one in world.findings()]


@pytest.mark.parametrize(
    ("statement", "values", "found"),
    [
        (
            "DELETE FROM acts WHERE number = 2",
            (),
            ["LOG-2  act 2 is not there", "act 2 of its answer is not there"],
        ),
        (
            "UPDATE acts SET body = ? WHERE number = 1",
            (b'{"text":"changed"}',),
            ["act 1 is not the one it was answered with"],
        ),
        ("UPDATE acts SET body = ? WHERE number = 1", (b"{",), ["act 1 cannot be read"]),
        ("UPDATE acts SET kind = 'erase' WHERE number = 1", (), ["act 1 cannot be read"]),
        ("UPDATE acts SET actor = 'ben' WHERE number = 1", (), ["not the one it was answered"]),
        (
            "UPDATE acts SET boundary = 9 WHERE number = 1",
            (),
            ["is about boundary 9, beyond the head"],
        ),
        (
            "UPDATE acts SET trajectory_id = 'gone' WHERE number = 1",
            (),
            ["LOG-2 gone act 1 is about a trajectory that is not there"],
        ),
        ("UPDATE acts SET recorded_at = 1 WHERE number = 3", (), ["act 3: recorded_at decreases"]),
        (
            "DELETE FROM requests WHERE request_id = 'one'",
            (),
            ["LOG-2 t act 1 is the answer of no request"],
        ),
        (
            "UPDATE requests SET answer = ? WHERE request_id = 'one'",
            (b"[]",),
            ["APP-9 t request one: the answer of an act cannot be read"],
        ),
    ],
)
def test_audit_sees_every_change_of_an_act(
    world: SqliteWorld, statement: str, values: tuple[object, ...], found: list[str]
) -> None:
    world.create()
    act(world, "note", Note("first"), request_id="one", boundary=1)
    act(world, "tag", Tag("x"))
    act(world, "price", PRICE, about=None)
    assert world.findings() == []
    details = _spoiled(world, (statement, values))
    for words in found:
        assert any(words in detail for detail in details), details


def test_an_act_that_cannot_be_read_is_corrupt_and_not_left_out(world: SqliteWorld) -> None:
    world.create()
    act(world, "note", Note("first"))
    _spoiled(world, ("UPDATE acts SET body = ? WHERE number = 1", (b'{"text":1}',)))
    with pytest.raises(CorruptAt, match="act 1"):
        world.store.acts(TENANT)


# --- stores that were made before there were acts -------------------------------------------------


def _schema(path: Path) -> set[tuple[str, str]]:
    connection = sqlite_driver.module.connect(str(path), isolation_level=None)
    found = connection.execute("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL")
    made = {(name, sql) for name, sql in found.fetchall()}
    connection.close()
    return made


def _at(path: Path, revision: str, *, down: bool = False) -> None:
    config = Config()
    config.set_main_option("script_location", str(migrate.SCRIPTS))
    opened = migrate.sqlalchemy_engine(lambda: engine.connect(path, "host", writer=True))
    with opened.connect() as connection:
        config.attributes["connection"] = connection
        (command.downgrade if down else command.upgrade)(config, revision)
        connection.commit()


def _of_before(world: SqliteWorld, tmp_path: Path) -> Path:
    """The store of `world` as the first revision left it, with all it held but acts."""
    world.opened.close()
    path = world.folder / "data" / "store-000001.db"
    _at(path, "0001", down=True)
    bare = tmp_path / "bare.db"
    engine.create(bare)
    _at(bare, "0001")
    assert _schema(path) == _schema(bare)
    return path


def test_a_store_of_before_comes_up_with_its_data(world: SqliteWorld, tmp_path: Path) -> None:
    world.owned()
    world.append(note("a"), note("b"))
    events = world.store.events(TENANT, "t")
    path = _of_before(world, tmp_path)
    world.opened = open_store(world.folder / "data", clock=world.clock)
    assert world.store.events(TENANT, "t") == events
    assert world.store.facts().schema_revision == migrate.REVISION
    assert world.store.acts(TENANT) == []
    assert world.append(note("a"), note("b")).duplicate
    assert act(world, "note", Note("now there are acts"), boundary=3).number == 1
    assert world.append(note("c")).head == 5
    assert world.findings() == []
    made = tmp_path / "new.db"
    engine.create(made)
    _at(made, "head")
    world.opened.close()
    assert _schema(path) == _schema(made)


def test_a_store_of_before_can_be_read_and_holds_no_acts(
    world: SqliteWorld, tmp_path: Path
) -> None:
    world.owned()
    _of_before(world, tmp_path)
    with open_store(world.folder / "data", read_only=True) as reader:
        assert reader.store.head(TENANT, "t").sequence_number == 2
        assert reader.store.acts(TENANT) == []
        assert reader.store.last_acts(TENANT) == {}
    world.opened = open_store(world.folder / "data", clock=world.clock)


@pytest.mark.parametrize("read_only", [False, True])
def test_a_store_of_a_newer_schema_is_refused_and_left_alone(
    world: SqliteWorld, read_only: bool
) -> None:
    world.create()
    act(world, "note", Note("kept"))
    world.opened.close()
    connection = raw(world)
    connection.execute("UPDATE alembic_version SET version_num = '9999'")
    connection.close()
    with pytest.raises(StoreStopped, match=rf"revision 9999.*up to {migrate.REVISION}"):
        open_store(world.folder / "data", read_only=read_only)
    connection = raw(world)
    assert connection.execute("SELECT count(*) FROM acts").fetchone() == (1,)
    connection.execute("UPDATE alembic_version SET version_num = ?", (migrate.REVISION,))
    connection.close()
    world.opened = open_store(world.folder / "data", clock=world.clock)
    assert world.findings() == []


def test_an_answer_reads_back_whole(world: SqliteWorld) -> None:
    world.create()
    made = act(world, "withdraw", Nothing(), reason="zürück ✓", boundary=None)
    assert stored.from_answer(stored.to_answer(made)) == made
    assert stored.from_row(stored.row(made)) == made
    assert msgspec.structs.asdict(made)["reason"] == "zürück ✓"
