"""Opening a store: one owner, the real settings, the schema, and what is refused how."""

from __future__ import annotations

import json
import os
import shutil
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlmodel import SQLModel

from core.errors import CorruptAt, DomainUnavailable, StoreStopped, StrandlineError
from store import ballast, contract, engine, lock, migrate, schema, sqlite_driver, suspect
from store.open import Opened, open_store
from store.ports import CreateCommand
from tests.contract.worlds import SECONDS, TENANT, Clock, SqliteWorld, note
from tests.require import ROOT, need


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return tmp_path / "data"


@pytest.fixture
def world(tmp_path: Path) -> Iterator[SqliteWorld]:
    made = SqliteWorld(tmp_path)
    yield made
    made.close()


# --- what a new folder holds ---------------------------------------------------------------------


def test_a_first_start_makes_the_folder_and_a_second_finds_it(data: Path) -> None:
    with open_store(data) as opened:
        incarnation = opened.incarnation
        facts = opened.store.facts()
    assert (data / "CURRENT").read_text() == "store-000001.db\n"
    assert stat.S_IMODE((data / "strandline.lock").stat().st_mode) == 0o600
    assert facts.declared_domain == "host"
    assert {check.name for check in facts.checks} >= {
        "sqlite", "filesystem", "flush", "journal_mode", "synchronous", "foreign_keys",
    }  # fmt: skip
    with open_store(data) as again:
        assert again.incarnation == incarnation


@pytest.mark.parametrize("closed", [True, False])
def test_a_log_whose_name_is_gone_is_neither_removed_nor_begun_anew(
    world: SqliteWorld, tmp_path: Path, closed: bool
) -> None:
    world.owned()
    if closed:
        world.close()
    source, data = world.folder / "data", tmp_path / "copy"
    shutil.copytree(source, data, ignore=shutil.ignore_patterns("CURRENT", "*-shm"))
    before = {path.name: path.read_bytes() for path in data.glob("store-*")}
    for read_only in (False, True):
        with pytest.raises(CorruptAt, match=r"CURRENT is gone, and store-000001\.db"):
            open_store(data, read_only=read_only)
    assert {path.name: path.read_bytes() for path in data.glob("store-*")} == before
    shutil.copy(source / "CURRENT", data / "CURRENT")
    with open_store(data) as opened:
        assert [head.trajectory_id for head in opened.store.heads(TENANT)] == ["t"]


def test_a_first_start_that_did_not_finish_is_begun_anew(data: Path) -> None:
    data.mkdir()
    engine.create(data / "store-000001.db")
    (data / "store-000001.db-wal").touch()
    with open_store(data) as opened:
        assert opened.store.heads(TENANT) == []
    assert (data / "CURRENT").read_text() == "store-000001.db\n"


def test_every_connection_has_the_settings_and_is_read_back(world: SqliteWorld) -> None:
    with world.opened.connection() as one, world.opened.connection() as two:
        for connection in (one, two):
            found = {check.name: check for check in engine.read_back(connection, "host")}
            assert all(check.ok for check in found.values())
            assert found["synchronous"].found == "FULL"
            with pytest.raises(sqlite_driver.Error, match=r"readonly|read-only|query_only"):
                connection.execute("DELETE FROM store_meta")


def test_domain_process_is_synchronous_normal_and_says_so(data: Path) -> None:
    with open_store(data, domain="process") as opened:
        facts = opened.store.facts()
        assert facts.declared_domain == "process"
        assert {c.name: c.found for c in facts.checks}["synchronous"] == "NORMAL"


def test_a_connection_whose_setting_does_not_hold_is_refused(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    open_store(data).close()
    monkeypatch.setitem(engine.SYNCHRONOUS, "host", 7)
    with pytest.raises(DomainUnavailable, match="synchronous"):
        open_store(data)


def test_the_schema_is_what_the_tables_say(world: SqliteWorld) -> None:
    world.opened.close()
    path = world.folder / "data" / "store-000001.db"
    made = migrate.sqlalchemy_engine(lambda: engine.connect(path, "host", writer=True))
    with made.connect() as connection:
        context = MigrationContext.configure(connection)
        assert schema.SQLModel is SQLModel
        assert compare_metadata(context, SQLModel.metadata) == []
        assert context.get_current_revision() == migrate.REVISION
    scripts = ScriptDirectory(str(migrate.SCRIPTS))
    assert scripts.get_current_head() == migrate.REVISION
    assert [s.revision for s in reversed(list(scripts.walk_revisions()))] == list(migrate.KNOWN)


@pytest.mark.parametrize("table", ["events", "ledger"])
@pytest.mark.parametrize("verb", ["UPDATE {} SET tenant = 'x'", "DELETE FROM {}"])
def test_log_and_ledger_are_append_only_for_everybody(
    world: SqliteWorld, table: str, verb: str
) -> None:
    world.owned()
    world.refused(world.append_later([note("a")], epoch=9))
    world.opened.close()
    path = world.folder / "data" / "store-000001.db"
    raw = sqlite_driver.module.connect(str(path), isolation_level=None)
    with pytest.raises(sqlite_driver.Error, match="append-only"):
        raw.execute(verb.format(table))
    raw.close()


# --- one owner -----------------------------------------------------------------------------------


def test_a_second_opening_is_refused_and_names_the_first(world: SqliteWorld) -> None:
    with pytest.raises(StoreStopped) as caught:
        open_store(world.folder / "data")
    assert f"process {os.getpid()} on" in str(caught.value)
    assert lock.is_held(world.folder / "data")


def test_another_process_is_refused_until_the_owner_is_gone(data: Path) -> None:
    code = (
        "import sys, time\n"
        "from pathlib import Path\n"
        "from store.open import open_store\n"
        "opened = open_store(Path(sys.argv[1]))\n"
        "opened.lock.describe(url='http://127.0.0.1:1', token='secret')\n"
        "print('ready', flush=True)\n"
        "time.sleep(60)\n"
    )
    child = subprocess.Popen(
        [sys.executable, "-c", code, str(data)], stdout=subprocess.PIPE, text=True, cwd=ROOT
    )
    try:
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
        said = json.loads((data / "strandline.lock").read_text())
        assert (said["pid"], said["url"], said["token"]) == (
            child.pid,
            "http://127.0.0.1:1",
            "secret",
        )
        with pytest.raises(StoreStopped, match=f"process {child.pid} on {said['host']}"):
            open_store(data)
        with open_store(data, read_only=True) as beside:
            assert beside.store.heads(TENANT) == []
    finally:
        child.send_signal(signal.SIGKILL)
        child.communicate()
    assert not lock.is_held(data)
    with open_store(data) as opened:
        assert opened.store.stats().state == "open"


@pytest.mark.parametrize("by_hand", ["removed", "replaced"])
def test_without_its_file_the_folder_is_still_owned(world: SqliteWorld, by_hand: str) -> None:
    data = world.folder / "data"
    (data / "strandline.lock").unlink()
    if by_hand == "replaced":
        (data / "strandline.lock").write_text("")
    assert lock.is_held(data)
    with pytest.raises(StoreStopped, match="is owned by process"):
        open_store(data)
    world.owned()
    world.close()
    assert not lock.is_held(data)
    with open_store(data) as opened:
        assert opened.store.stats().state == "open"


# --- reading beside a server ---------------------------------------------------------------------


def test_a_reader_sees_what_the_owner_acknowledges_and_changes_nothing(world: SqliteWorld) -> None:
    world.owned()
    ref = world.blobs.put(TENANT, b"bytes")
    world.projections.put_summary(TENANT, "t", 2, {"title": "T"})
    with open_store(world.folder / "data", read_only=True) as reader:
        world.append(note("a"))
        assert reader.store.head(TENANT, "t").sequence_number == 3
        assert reader.blobs.read(TENANT, ref.digest) == b"bytes"
        assert reader.projections.summary(TENANT, "t") is not None
        with pytest.raises(StoreStopped, match="reading only"):
            reader.blobs.put(TENANT, b"more")
        with pytest.raises(StoreStopped, match="reading only"):
            reader.projections.drop()
        failed = reader.store.create(_create("u")).exception(SECONDS)
        assert isinstance(failed, StoreStopped)
    world.append(note("b"))


def test_a_reader_without_a_server_reads_too(world: SqliteWorld) -> None:
    world.owned()
    world.opened.close()
    with open_store(world.folder / "data", read_only=True) as reader:
        assert reader.store.head(TENANT, "t").sequence_number == 2


def test_there_is_nothing_to_read_in_an_empty_folder(tmp_path: Path) -> None:
    with pytest.raises(StoreStopped, match="no store"):
        open_store(tmp_path / "data", read_only=True)
    assert not (tmp_path / "data").exists()


def _create(trajectory_id: str) -> CreateCommand:
    return CreateCommand(
        tenant=TENANT,
        trajectory_id=trajectory_id,
        standing="imported",
        issuer="importer",
        request_id="r",
        request_digest=b"d" * 32,
    )


# --- what a domain needs -------------------------------------------------------------------------


def test_volume_is_refused_with_the_reason(data: Path) -> None:
    with pytest.raises(DomainUnavailable, match="synchronous standbys"):
        open_store(data, domain="volume")
    assert not data.exists()


@pytest.mark.parametrize("version", [(3, 7, 0), (3, 40, 1), (3, 50, 7), (3, 51, 2)])
def test_a_sqlite_with_the_wal_reset_bug_is_refused_by_name(
    data: Path, monkeypatch: pytest.MonkeyPatch, version: tuple[int, ...]
) -> None:
    with pytest.raises(DomainUnavailable, match="WAL-reset bug") as caught:
        sqlite_driver.check_version(version)
    assert ".".join(map(str, version)) in str(caught.value)
    monkeypatch.setattr(sqlite_driver, "VERSION", version)
    monkeypatch.setattr(sqlite_driver.check_version, "__defaults__", (version,))
    with pytest.raises(DomainUnavailable):
        open_store(data)
    assert not data.exists()


def test_the_fixed_versions_pass() -> None:
    for version in ((3, 51, 3), (3, 53, 4), (4, 0, 0)):
        sqlite_driver.check_version(version)


@pytest.mark.parametrize("kind", ["nfs", "nfs4", "overlay", "tmpfs", "cifs", "9p"])
def test_an_unsafe_filesystem_is_refused_for_host_and_shown_where_allowed(
    data: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setattr(contract, "filesystem", lambda path: kind)
    with pytest.raises(DomainUnavailable, match=kind):
        open_store(data)
    with open_store(data, allow_unsafe_filesystem=True) as opened:
        facts = opened.store.facts()
        (found,) = [check for check in facts.checks if check.name == "filesystem"]
        assert found.warning and not found.ok and kind in found.found
        assert not facts.verified
    with open_store(data, domain="process") as opened:
        (found,) = [c for c in opened.store.facts().checks if c.name == "filesystem"]
        assert found.warning


def test_a_real_tmpfs_is_recognised(tmp_path: Path) -> None:
    need("root")
    folder = tmp_path / "mounted"
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", str(folder)], check=True)
    try:
        assert contract.filesystem(folder / "deeper") == "tmpfs"
        with pytest.raises(DomainUnavailable, match="tmpfs"):
            open_store(folder / "data")
    finally:
        subprocess.run(["umount", str(folder)], check=True)


def test_a_flush_that_takes_no_time_is_a_warning() -> None:
    assert contract.flush_check(150.0).ok
    lying = contract.flush_check(0.7)
    assert lying.warning and not lying.ok


# --- what is damaged or newer --------------------------------------------------------------------


def test_a_newer_schema_is_refused_with_both_revisions_and_not_touched(world: SqliteWorld) -> None:
    world.opened.close()
    path = world.folder / "data" / "store-000001.db"
    raw = sqlite_driver.module.connect(str(path), isolation_level=None)
    raw.execute("UPDATE alembic_version SET version_num = '9999'")
    raw.close()
    before = path.read_bytes()
    for read_only in (False, True):
        with pytest.raises(StoreStopped, match=rf"9999.*{migrate.REVISION}"):
            open_store(world.folder / "data", read_only=read_only)
    assert path.read_bytes() == before
    assert not lock.is_held(world.folder / "data")


def test_a_first_start_that_did_not_finish_is_begun_again(data: Path) -> None:
    data.mkdir()
    (data / "store-000001.db").write_bytes(b"half")
    with open_store(data) as opened:
        assert opened.store.heads(TENANT) == []


@pytest.mark.parametrize("name", ["store-000009.db", "../elsewhere.db", "", "store-\n"])
def test_a_current_that_names_no_log_is_refused(world: SqliteWorld, name: str) -> None:
    world.opened.close()
    (world.folder / "data" / "CURRENT").write_text(name)
    for read_only in (False, True):
        with pytest.raises(CorruptAt, match="CURRENT"):
            open_store(world.folder / "data", read_only=read_only)


def test_a_damaged_log_file_is_refused_and_kept(world: SqliteWorld) -> None:
    world.owned()
    world.opened.close()
    path = world.folder / "data" / "store-000001.db"
    damaged = b"no database" * 2_000
    path.write_bytes(damaged)
    for read_only in (False, True):
        with pytest.raises(CorruptAt, match="damaged"):
            open_store(world.folder / "data", read_only=read_only)
    assert path.read_bytes() == damaged


def test_half_written_files_of_a_crash_are_swept(world: SqliteWorld) -> None:
    left = world.folder / "data" / "tmp" / "blob-1-1"
    world.opened.close()
    left.write_bytes(b"half")
    world.opened = open_store(world.folder / "data")
    assert not left.exists()


def test_a_start_writes_one_barrier_before_it_answers(world: SqliteWorld) -> None:
    groups = world.store.stats().groups
    assert groups == 1
    world.reopen()
    assert world.store.stats().groups == 1
    with world.opened.connection() as connection:
        rows = dict(connection.execute("SELECT name, value FROM store_meta").fetchall())
    assert int(rows["starts"]) >= 2


# --- permission lost -----------------------------------------------------------------------------


def test_a_folder_without_permission_is_refused_by_name(tmp_path: Path) -> None:
    """As another user than root, whom permissions do not bind."""
    folder = tmp_path / "locked"
    folder.mkdir(mode=0o700)
    folder.chmod(0o500)
    code = (
        "import os, sys\n"
        "from pathlib import Path\n"
        "from core.errors import StrandlineError\n"
        "from store.open import open_store\n"
        "if os.geteuid() == 0:\n"
        "    os.setegid(65534); os.seteuid(65534)\n"
        "try:\n"
        "    open_store(Path(sys.argv[1]))\n"
        "except StrandlineError as error:\n"
        "    print(error.code, error)\n"
    )
    for parent in (tmp_path, *tmp_path.parents):
        if os.geteuid() == 0 and not parent.stat().st_mode & stat.S_IXOTH:
            parent.chmod(parent.stat().st_mode | stat.S_IXOTH)
    if os.geteuid() == 0:
        os.chown(folder, 65534, 65534)
    done = subprocess.run(
        [sys.executable, "-c", code, str(folder / "data")],
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=False,
    )
    assert done.stdout.startswith("store_stopped"), done.stderr
    assert str(folder) in done.stdout


def test_a_file_system_turned_read_only_is_refused_with_its_path(tmp_path: Path) -> None:
    need("root")
    folder = tmp_path / "mounted"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=16m", "tmpfs", str(folder)]
    subprocess.run(mount, check=True)
    try:
        open_store(folder / "data", allow_unsafe_filesystem=True).close()
        subprocess.run(["mount", "-o", "remount,ro", str(folder)], check=True)
        with pytest.raises(StoreStopped, match=str(folder)):
            open_store(folder / "data", allow_unsafe_filesystem=True)
    finally:
        subprocess.run(["umount", str(folder)], check=True)


# --- suspect -------------------------------------------------------------------------------------


def _suspect(world: SqliteWorld, events: int = 200) -> Path:
    """A store whose last barrier is said to have failed; its log file."""
    world.owned()
    world.append(*(note(f"n{number}") for number in range(events)))
    world.opened.close()
    data = world.folder / "data"
    suspect.mark(data, "SQLITE_IOERR: disk I/O error", 1_790_000_000_000_000)
    suspect.mark(data, "a later reason", 1)
    assert suspect.read(data) == ("SQLITE_IOERR: disk I/O error", 1_790_000_000_000_000)
    return data / "store-000001.db"


def test_a_suspect_store_is_copied_out_verified_and_goes_on(world: SqliteWorld) -> None:
    log = _suspect(world)
    before = log.read_bytes()
    world.opened = open_store(log.parent, clock=Clock())
    assert (log.parent / "CURRENT").read_text() == "store-000002.db\n"
    assert not (log.parent / suspect.NAME).exists()
    assert log.read_bytes() == before
    assert world.append(note("after")).head == 203
    assert world.findings() == []
    world.reopen()
    assert world.store.head(TENANT, "t").sequence_number == 203


def test_a_copy_that_does_not_verify_leaves_the_store_suspect(world: SqliteWorld) -> None:
    log = _suspect(world)
    raw = sqlite_driver.module.connect(str(log), isolation_level=None)
    raw.execute("DROP TRIGGER events_no_update")
    raw.execute("UPDATE events SET worker = 'w9' WHERE sequence_number = 90")
    raw.close()
    before = log.read_bytes()
    for _ in range(2):
        with open_store(log.parent, clock=Clock()) as opened:
            assert opened.store.head(TENANT, "t").sequence_number == 202
            error = opened.store.create(_create("u")).exception(SECONDS)
            assert isinstance(error, StoreStopped)
            assert "SQLITE_IOERR" in str(error) and "later" not in str(error)
            assert "event 90" in str(error)
            with pytest.raises(StrandlineError, match="barrier"):
                opened.blobs.put(TENANT, b"more")
    assert (log.parent / "CURRENT").read_text() == "store-000001.db\n"
    assert log.read_bytes() == before


def test_a_copy_needs_its_room(tmp_path: Path) -> None:
    need("root")
    folder = tmp_path / "mounted"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=6m", "tmpfs", str(folder)]
    subprocess.run(mount, check=True)
    try:
        world = SmallWorld(folder / "store")
        log = _suspect(world, 1_000)
        filler = folder / "filler"
        filler.write_bytes(bytes(ballast.free_bytes(folder) - 50_000))
        with open_store(log.parent, allow_unsafe_filesystem=True) as opened:
            error = opened.store.create(_create("u")).exception(SECONDS)
            assert isinstance(error, StoreStopped)
            assert "full" in str(error)
            assert opened.store.head(TENANT, "t").sequence_number == 1_002
        filler.unlink()
        with open_store(log.parent, allow_unsafe_filesystem=True) as opened:
            assert opened.store.create(_create("u")).result(SECONDS).head == 0
    finally:
        subprocess.run(["umount", str(folder)], check=True)


class SmallWorld(SqliteWorld):
    """On a disk in memory."""

    def _open(self) -> Opened:
        return open_store(self.folder / "data", clock=self.clock, allow_unsafe_filesystem=True)
