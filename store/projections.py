"""Snapshots, segments and summaries in a SQLite file of their own: a cache beside the log.

INVARIANTS
1. Nothing here is needed to rebuild the log; a file that is damaged or gone is made anew, empty
   (store.cache_file), and `missing` says what lists lack until it is filled again.
2. What is read here is a claim about a prefix (sequence and chain value); the reader compares.

The layout is a constant and not a migration: a cache has no history to keep.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar, cast

import msgspec

from core.errors import InvalidInput, SearchTimeout
from core.limits import LIST_SECONDS_MAX
from core.query import Term
from store import listing, sqlite_driver
from store.cache_file import CacheFile, Totals
from store.sqlite_driver import Connection

Result = TypeVar("Result")
LAYOUT = "10"

#: Columns of a summary, with their kind. `NULL` is: never recorded.
SUMMARY: dict[str, str] = {
    "title": "TEXT",
    "agent": "TEXT COLLATE NOCASE",
    "source": "TEXT COLLATE NOCASE",
    "standing": "TEXT",
    "model": "TEXT COLLATE NOCASE",
    "status": "TEXT",
    "step": "INTEGER",
    "high_water": "INTEGER",
    "generation": "INTEGER",
    "unsettled": "INTEGER",
    "operations": "INTEGER",
    "input_tokens": "INTEGER",
    "output_tokens": "INTEGER",
    "cache_read_tokens": "INTEGER",
    "cache_write_tokens": "INTEGER",
    "run_tokens": "INTEGER",
    "cost_nano_usd": "INTEGER",
    "events": "INTEGER",
    "started_at": "INTEGER",
    "ended_at": "INTEGER",
    "last_at": "INTEGER",
    "updated_at": "INTEGER",
    "as_of_sequence": "INTEGER",
    "exit_detail": "TEXT",
    "blocked": "INTEGER",
    "unreported": "INTEGER",
    "replied": "INTEGER",
    "tokens_by_model": "TEXT",
    "cost_derived_nano_usd": "INTEGER",
    "priced_by": "TEXT",
    "parent_id": "TEXT",
    "parent_operation": "TEXT",
    "tags": "TEXT",
    "notes": "INTEGER",
    "withdrawn": "INTEGER",
    "superseded_by": "TEXT",
    "hidden": "INTEGER",
    "as_of_act": "INTEGER",
    "models": "TEXT",
    "errors": "INTEGER",
    "unknown": "INTEGER",
    "in_doubt": "INTEGER",
}
#: Those that say what acts add up to, not the log.
ACTED = ("tags", "notes", "withdrawn", "superseded_by", "hidden", "as_of_act")
#: Columns that follow from others of the row: kind and expression.
COMPUTED: dict[str, tuple[str, str]] = {
    "tokens": (
        "INTEGER",
        "coalesce(input_tokens + output_tokens + cache_read_tokens + cache_write_tokens, "
        "run_tokens)",
    ),
    "cost": ("INTEGER", "coalesce(cost_nano_usd, cost_derived_nano_usd)"),
    # From the first to the last time that its source states, ended or not.
    "duration_us": ("INTEGER", "CASE WHEN last_at >= started_at THEN last_at - started_at END"),
    # The last activity: by the source's own clock, else when it was stored.
    "active_at": ("INTEGER", "coalesce(last_at, updated_at)"),
    # The status in a list's words: that a file records no end does not say that something runs.
    "state": (
        "TEXT",
        "CASE WHEN status = 'RUNNING' AND standing IN ('imported', 'replica') "
        "THEN 'OPEN' ELSE status END",
    ),
}
#: A list leaves out what is hidden (withdrawn or superseded) unless a filter names one of these.
_ASKS_FOR_HIDDEN = frozenset({"hidden", "withdrawn", "superseded_by"})
#: Short names that pages sort by.
SORTS: dict[str, str] = {
    "id": "trajectory_id",
    "active": "active_at",
    "updated": "updated_at",
    "started": "started_at",
    "ended": "ended_at",
}
#: Every order a list is offered in by a count or a time; of a million rows none is sorted.
_INDEXED = (
    "active_at",
    "updated_at",
    "started_at",
    "title",
    "step",
    "events",
    "unsettled",
    "cost",
    "tokens",
    "input_tokens",
    "output_tokens",
    "duration_us",
)
#: Few values, and mostly asked for newest first; `hidden` so that a count reads no row.
_INDEXED_BY_TIME = ("state", "source", "model", "agent")
#: The order that those indexes go on in: the one a list has unless another is asked for.
_TIME = "active_at"
_OPERATORS = {"": "=", "ge": ">=", "le": "<=", "gt": ">", "lt": "<", "ne": "IS NOT"}
_COLUMNS = ("trajectory_id", *SUMMARY, *COMPUTED)
#: A term that lets through at most so many rows gives them by its own index, and they are sorted.
_FEW_ROWS = 2_000
_STEERABLE = frozenset({*_INDEXED, *_INDEXED_BY_TIME, "parent_id", "trajectory_id"})
_TOKEN_COLUMNS = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens")

_TABLES = (
    "CREATE TABLE snapshots (tenant TEXT NOT NULL, trajectory_id TEXT NOT NULL, "
    "reducer_version INTEGER NOT NULL, sequence_number INTEGER NOT NULL, chain BLOB NOT NULL, "
    "record BLOB NOT NULL, counts BLOB NOT NULL) STRICT",
    "CREATE UNIQUE INDEX snapshots_by_boundary ON snapshots "
    "(tenant, trajectory_id, reducer_version, sequence_number)",
    "CREATE TABLE segments (tenant TEXT NOT NULL, digest TEXT NOT NULL, body BLOB NOT NULL) STRICT",
    "CREATE UNIQUE INDEX segments_by_digest ON segments (tenant, digest)",
    "CREATE TABLE summaries (tenant TEXT NOT NULL, trajectory_id TEXT NOT NULL, "
    + ", ".join(f"{name} {kind}" for name, kind in SUMMARY.items())
    + ", "
    + ", ".join(f"{name} {kind} AS ({what}) VIRTUAL" for name, (kind, what) in COMPUTED.items())
    + ", PRIMARY KEY (tenant, trajectory_id)) STRICT",
    *(
        f"CREATE INDEX summaries_by_{name} ON summaries (tenant, {name}, trajectory_id)"
        for name in _INDEXED
    ),
    *(
        f"CREATE INDEX summaries_by_{name} ON summaries "
        f"(tenant, {name}, {_TIME}, trajectory_id, hidden)"
        for name in _INDEXED_BY_TIME
    ),
    *(
        f"CREATE INDEX summaries_by_{name} ON summaries (tenant, {name}, trajectory_id) "
        f"WHERE {name} IS NOT NULL"
        for name in ("parent_id", "superseded_by")
    ),
    "CREATE INDEX summaries_by_hidden ON summaries (tenant, hidden)",
    "CREATE INDEX summaries_by_priced ON summaries (tenant, priced_by, trajectory_id)",
    "CREATE INDEX summaries_by_models ON summaries (tenant) WHERE models IS NOT NULL",
    "CREATE TABLE tags (tenant TEXT NOT NULL, tag TEXT NOT NULL, trajectory_id TEXT NOT NULL, "
    "PRIMARY KEY (tenant, tag, trajectory_id)) STRICT, WITHOUT ROWID",
    "CREATE INDEX tags_by_trajectory ON tags (tenant, trajectory_id)",
)
_STEPS_BETWEEN_LOOKS = 20_000
_COUNTED_AT_ONCE = 256


class SqliteProjections(CacheFile):
    """Implements `store.ports.Projections`."""

    def __init__(
        self, path: Path, store_id: str, *, log: Totals | None = None, read_only: bool = False
    ) -> None:
        """`log` gives the trajectories and events of a tenant's log."""
        super().__init__(
            path,
            store_id=store_id,
            layout=LAYOUT,
            tables=_TABLES,
            read_only=read_only,
            reader_pragmas=("cache_size=-8000",),
            held="SELECT count(*), coalesce(sum(as_of_sequence), 0) FROM summaries "
            "WHERE tenant = ?",
            log=log,
        )

    # --- snapshots and segments ------------------------------------------------------------------

    def nearest(
        self, tenant: str, trajectory_id: str, boundary: int, reducer_version: int
    ) -> tuple[int, bytes, bytes] | None:
        found = self._read(
            "SELECT sequence_number, chain, record FROM snapshots WHERE tenant = ? AND "
            "trajectory_id = ? AND reducer_version = ? AND sequence_number <= ? "
            "ORDER BY sequence_number DESC LIMIT 1",
            (tenant, trajectory_id, reducer_version, boundary),
        )
        return (found[0][0], found[0][1], found[0][2]) if found else None

    def put_snapshots(
        self,
        tenant: str,
        trajectory_id: str,
        reducer_version: int,
        rows: Iterable[tuple[int, bytes, bytes, bytes]],
    ) -> None:
        self._change(
            "INSERT OR REPLACE INTO snapshots (tenant, trajectory_id, reducer_version, "
            "sequence_number, chain, record, counts) VALUES (?, ?, ?, ?, ?, ?, ?)",
            [(tenant, trajectory_id, reducer_version, *row) for row in rows],
        )

    def counts(
        self, tenant: str, trajectory_id: str, boundaries: tuple[int, ...], reducer_version: int
    ) -> dict[int, bytes]:
        found: dict[int, bytes] = {}
        for start in range(0, len(boundaries), 500):
            some = boundaries[start : start + 500]
            found.update(
                (row[0], row[1])
                for row in self._read(
                    "SELECT sequence_number, counts FROM snapshots WHERE tenant = ? AND "
                    "trajectory_id = ? AND reducer_version = ? AND sequence_number IN "
                    f"({', '.join('?' * len(some))})",
                    (tenant, trajectory_id, reducer_version, *some),
                )
            )
        return found

    def segment(self, tenant: str, digest: str) -> bytes | None:
        found = self._read(
            "SELECT body FROM segments WHERE tenant = ? AND digest = ?", (tenant, digest)
        )
        return found[0][0] if found else None

    def put_segments(self, tenant: str, rows: Iterable[tuple[str, bytes]]) -> None:
        self._change(
            "INSERT OR IGNORE INTO segments (tenant, digest, body) VALUES (?, ?, ?)",
            [(tenant, digest, body) for digest, body in rows],
        )

    # --- summaries -------------------------------------------------------------------------------

    def put_summary(
        self, tenant: str, trajectory_id: str, sequence_number: int, summary: Mapping[str, object]
    ) -> None:
        unknown = set(summary) - set(SUMMARY)
        if unknown:
            raise InvalidInput(f"a summary has no {sorted(unknown)[0]}", field="summary")
        values = {**summary, "as_of_sequence": sequence_number}
        for name in ("withdrawn", "hidden", "notes", "as_of_act"):
            values[name] = values.get(name) or 0
        marks = ", ".join("?" * (len(SUMMARY) + 2))
        # An older reading never replaces a newer one: two projectors may run one after the other.
        self._change(
            f"INSERT INTO summaries (tenant, trajectory_id, {', '.join(SUMMARY)}) VALUES ({marks}) "
            "ON CONFLICT (tenant, trajectory_id) DO UPDATE SET "
            + ", ".join(f"{name} = excluded.{name}" for name in SUMMARY)
            + " WHERE excluded.as_of_sequence >= summaries.as_of_sequence"
            " AND excluded.as_of_act >= summaries.as_of_act",
            [(tenant, trajectory_id, *(_plain(values.get(name)) for name in SUMMARY))],
            *_tagging(tenant, trajectory_id, values),
        )

    def put_acted(self, tenant: str, trajectory_id: str, acted: Mapping[str, object]) -> None:
        names = [name for name in ACTED if name in acted]
        self._change(
            f"UPDATE summaries SET {', '.join(f'{name} = ?' for name in names)} "
            "WHERE tenant = ? AND trajectory_id = ? AND as_of_act <= ?",
            [
                (
                    *(_plain(acted[name]) for name in names),
                    tenant,
                    trajectory_id,
                    acted["as_of_act"],
                )
            ],
            *_tagging(tenant, trajectory_id, acted),
        )

    def put_prices(
        self, tenant: str, priced_by: str, rows: Iterable[tuple[str, int | None]]
    ) -> None:
        self._change(
            "UPDATE summaries SET cost_derived_nano_usd = ?, priced_by = ? "
            "WHERE tenant = ? AND trajectory_id = ?",
            [(cost, priced_by, tenant, trajectory_id) for trajectory_id, cost in rows],
        )

    def priced_otherwise(
        self, tenant: str, priced_by: str, *, limit: int
    ) -> list[dict[str, object]]:
        columns = ("trajectory_id", "tokens_by_model", *_TOKEN_COLUMNS, "started_at")
        # Two ranges instead of `!=`, so that the index gives them without a look at the others.
        found: list[Any] = []
        for sign in ("<", ">"):
            found += self._read(
                f"SELECT {', '.join(columns)} FROM summaries WHERE tenant = ? "
                f"AND priced_by {sign} ? LIMIT ?",
                (tenant, priced_by, limit - len(found)),
            )
        return [dict(zip(columns, row, strict=True)) for row in found]

    def list_summaries(
        self,
        tenant: str,
        *,
        sort: str,
        descending: bool,
        after: tuple[object, str] | None,
        limit: int,
        filters: Mapping[str, object],
    ) -> list[dict[str, object]]:
        """Rows in the order of `sort` and then id; `after` is the last row's (value, id).

        Unrecorded values sort below all others. Filters: `<column>` (equal; a list: any of;
        None: never recorded), `<column>__ge|le|gt|lt|ne`, `text` (in title or id), `tag` (one, or
        any of a list).
        """
        column = _column(SORTS.get(sort, sort))
        order = "DESC" if descending else "ASC"
        few, steering = self._steering(tenant, filters, column)
        # `+` hides the column from the planner: what gives few rows gives them, not the order.
        hide = "+" if few else ""
        key = f"{hide}trajectory_id"
        by = f"{hide}{column} {order}, " if column != "trajectory_id" else ""
        found: list[Any] = []
        for condition, more in _beyond(f"{hide}{column}", key, after, descending=descending):
            where, values = self._conditions(tenant, filters, steering)
            found += self._read(
                f"SELECT {', '.join(_COLUMNS)} FROM summaries "
                f"WHERE {' AND '.join((*where, condition))} "
                f"ORDER BY {by}{key} {order} LIMIT ?",
                (*values, *more, limit - len(found)),
            )
            if len(found) >= limit:
                break
        return [dict(zip(_COLUMNS, row, strict=True)) for row in found]

    def _steering(
        self, tenant: str, filters: Mapping[str, object], column: str
    ) -> tuple[bool, frozenset[Term]]:
        """Whether one term gives few rows, and the terms that may choose the index; the others
        only look at the rows it gives.

        The planner knows no counts, and would sort half a million rows for a page of fifty.
        """
        terms = cast(Sequence[Term], filters.get("terms", ()))
        several = self._several_models(tenant, terms)
        fewest: tuple[int, Term] | None = None
        for term in terms:
            if not listing.may_steer(term) or listing.COLUMNS[term.key] not in _STEERABLE:
                continue
            if term.key == "model" and several:
                continue
            condition, values = listing.condition(tenant, term, several_models=False)
            found = self._read(
                "SELECT count(*) FROM (SELECT 1 FROM summaries WHERE tenant = ? AND "
                f"{condition} LIMIT ?)",
                (tenant, *values, _FEW_ROWS + 1),
            )
            count = int(found[0][0]) if found else 0
            if count <= _FEW_ROWS and (fewest is None or count < fewest[0]):
                fewest = (count, term)
        if fewest is not None:
            return True, frozenset({fewest[1]})
        if column != _TIME:
            return False, frozenset()
        return False, frozenset(
            term
            for term in terms
            if listing.may_steer(term)
            and term.test == "is"
            and len(term.values) == 1
            and listing.COLUMNS[term.key] in _INDEXED_BY_TIME
        )

    def children(
        self, tenant: str, trajectory_ids: Sequence[str], *, limit: int
    ) -> list[dict[str, object]]:
        return self._related("parent_id", tenant, trajectory_ids, limit)

    def superseded_by(
        self, tenant: str, trajectory_ids: Sequence[str], *, limit: int
    ) -> list[dict[str, object]]:
        return self._related("superseded_by", tenant, trajectory_ids, limit)

    def _related(
        self, column: str, tenant: str, ids: Sequence[str], limit: int
    ) -> list[dict[str, object]]:
        found = self._read(
            f"SELECT {', '.join(_COLUMNS)} FROM summaries WHERE tenant = ? AND {column} IN "
            f"({', '.join('?' * len(ids))}) ORDER BY trajectory_id LIMIT ?",
            (tenant, *ids, limit),
        )
        return [dict(zip(_COLUMNS, row, strict=True)) for row in found]

    def distinct(self, tenant: str, column: str, *, limit: int) -> list[str]:
        name, found, last = _column(column), list[str](), ""
        while len(found) < limit:
            # From one value to the next in the index, however many rows have it.
            row = self._read(
                f"SELECT {name} FROM summaries WHERE tenant = ? AND {name} > ? "
                f"ORDER BY {name} LIMIT 1",
                (tenant, last),
            )
            if not row:
                break
            last = str(row[0][0])
            found.append(last)
        return found

    def tags(self, tenant: str, *, limit: int) -> list[tuple[str, int]]:
        return [
            (str(tag), int(count))
            for tag, count in self._read(
                "SELECT t.tag, count(*) FROM tags t JOIN summaries s ON s.tenant = t.tenant "
                "AND s.trajectory_id = t.trajectory_id WHERE t.tenant = ? AND s.hidden = 0 "
                "GROUP BY t.tag ORDER BY count(*) DESC, t.tag LIMIT ?",
                (tenant, limit),
            )
        ]

    def summary(self, tenant: str, trajectory_id: str) -> dict[str, object] | None:
        found = self._read(
            f"SELECT {', '.join(_COLUMNS)} FROM summaries WHERE tenant = ? AND trajectory_id = ?",
            (tenant, trajectory_id),
        )
        return dict(zip(_COLUMNS, found[0], strict=True)) if found else None

    def count_summaries(
        self, tenant: str, filters: Mapping[str, object], *, most: int | None = None
    ) -> int:
        where, values = self._conditions(tenant, filters or {"hidden": 0}, None)
        query = f"SELECT 1 FROM summaries WHERE {' AND '.join(where)} LIMIT ?"
        values.append(-1 if most is None else most)
        found = self._read(f"SELECT count(*) FROM ({query})", tuple(values))
        return int(found[0][0]) if found else 0

    def count_some(
        self, tenant: str, filters: Mapping[str, object], *, most: int, seconds: float
    ) -> tuple[int, bool]:
        where, values = self._conditions(tenant, filters or {"hidden": 0}, None)
        query = f"SELECT 1 FROM summaries WHERE {' AND '.join(where)} LIMIT ?"
        deadline = time.monotonic() + seconds

        def counted(connection: Connection) -> tuple[int, bool]:
            number = 0
            rows = connection.execute(query, (*values, most + 1))
            while some := rows.fetchmany(_COUNTED_AT_ONCE):
                number += len(some)
                if number > most:
                    return most, False
                if len(some) == _COUNTED_AT_ONCE and time.monotonic() > deadline:
                    return number, False
            return number, True

        return self._reading(counted, (0, False))

    def _conditions(
        self, tenant: str, filters: Mapping[str, object], steering: frozenset[Term] | None
    ) -> tuple[list[str], list[object]]:
        terms = cast(Sequence[Term], filters.get("terms", ()))
        several = self._several_models(tenant, terms)
        return _conditions(tenant, filters, steering, several_models=several)

    def _several_models(self, tenant: str, terms: Sequence[Term]) -> bool:
        """Whether a term asks for a model and some row has several."""
        return any(term.key == "model" for term in terms) and bool(
            self._read(
                "SELECT 1 FROM summaries WHERE tenant = ? AND models IS NOT NULL LIMIT 1",
                (tenant,),
            )
        )

    # --- the file --------------------------------------------------------------------------------

    def _read(self, query: str, values: Sequence[object]) -> list[Any]:
        """Rows; none where the cache is not there or was damaged. SearchTimeout."""

        def rows(connection: Connection) -> list[Any]:
            return connection.execute(query, values).fetchall()

        return self._reading(rows, [])

    def _reading(self, work: Callable[[Connection], Result], otherwise: Result) -> Result:
        """What `work` reads, which is given up after LIST_SECONDS_MAX; `otherwise` where the cache
        is not there or was damaged: it is being filled again then, and `missing` says so."""
        deadline = time.monotonic() + LIST_SECONDS_MAX
        try:
            with self._reader() as connection:
                connection.set_progress_handler(
                    lambda: int(time.monotonic() > deadline), _STEPS_BETWEEN_LOOKS
                )
                try:
                    return work(connection)
                finally:
                    connection.set_progress_handler(None, 0)
        except sqlite_driver.DatabaseError as error:
            if sqlite_driver.error_name(error) == "SQLITE_INTERRUPT" or (
                time.monotonic() > deadline and "interrupted" in str(error)
            ):
                raise SearchTimeout(
                    f"this list was given up after {LIST_SECONDS_MAX:.0f} s; narrow it, e.g. by "
                    "active:<7d or status:failed, or sort by active"
                ) from error
            self._heal(error)
        return otherwise

    def _change(self, query: str, values: list[Any], *more: tuple[str, list[Any]]) -> None:
        """Write rows, with `more` in the same transaction if the first changed one; lost again
        where the cache is damaged or the disk is full."""
        if self._read_only or not values:
            return
        with self._writing() as connection:
            if connection is None:
                return
            changed = connection.executemany(query, values).rowcount
            for query_of, rows in more if changed else ():
                connection.executemany(query_of, rows)


def _tagging(
    tenant: str, trajectory_id: str, values: Mapping[str, object]
) -> tuple[tuple[str, list[Any]], ...]:
    """The statements that make the table of tags say what `values` say."""
    tags = str(values.get("tags") or "").split()
    return (
        ("DELETE FROM tags WHERE tenant = ? AND trajectory_id = ?", [(tenant, trajectory_id)]),
        (
            "INSERT INTO tags (tenant, tag, trajectory_id) VALUES (?, ?, ?)",
            [(tenant, tag, trajectory_id) for tag in tags],
        ),
    )


def _column(name: str) -> str:
    if name not in _COLUMNS:
        raise InvalidInput(f"trajectories have no {name!r} to sort or filter by", field="sort")
    return name


def _conditions(
    tenant: str,
    filters: Mapping[str, object],
    steering: frozenset[Term] | None,
    *,
    several_models: bool,
) -> tuple[list[str], list[object]]:
    """Conditions and their values; `steering` are the terms that may choose the index, all of
    them where it is None."""
    where, values = ["tenant = ?"], [tenant]
    bound: list[object] = list(values)
    terms = cast(Sequence[Term], filters.get("terms", ()))
    asked = any(key.partition("__")[0] in _ASKS_FOR_HIDDEN for key in filters)
    if not asked and not any(term.key == "withdrawn" for term in terms):
        # `+` keeps this from choosing the index, whose order no list has.
        where.append("+hidden = 0")
    for key, value in filters.items():
        if key == "terms":
            for term in terms:
                steers = steering is None or term in steering
                condition, more = listing.condition(
                    tenant, term, steers=steers, several_models=several_models
                )
                where.append(condition)
                bound.extend(more)
            continue
        if key in ("ids", "not_ids"):
            no = "" if key == "ids" else "NOT "
            where.append(f"trajectory_id {no}IN (SELECT value FROM json_each(?))")
            bound.append(msgspec.json.encode(list(cast(Iterable[str], value))).decode())
            continue
        if key == "tag":
            tags = [value] if isinstance(value, str) else list(cast(Iterable[object], value))
            where.append(
                "trajectory_id IN (SELECT trajectory_id FROM tags WHERE tenant = ? AND tag IN "
                f"({', '.join('?' * len(tags))}))"
            )
            bound.extend((tenant, *tags))
            continue
        if key == "text":
            pattern = "%" + _escape(str(value)) + "%"
            where.append("(title LIKE ? ESCAPE '\\' OR trajectory_id LIKE ? ESCAPE '\\')")
            bound.extend((pattern, pattern))
            continue
        name, _, operator = key.partition("__")
        column = _column(name)
        if operator not in _OPERATORS:
            raise InvalidInput(f"there is no filter {key!r}", field="filter")
        if isinstance(value, list | tuple | set | frozenset):
            where.append(f"{column} IN ({', '.join('?' * len(value))})")
            bound.extend(_plain(one) for one in value)
        elif value is None:
            where.append(f"{column} IS {'NOT ' if operator == 'ne' else ''}NULL")
        else:
            where.append(f"{column} {_OPERATORS[operator]} ?")
            bound.append(_plain(value))
    return where, bound


def _beyond(
    column: str, key: str, after: tuple[object, str] | None, *, descending: bool
) -> list[tuple[str, tuple[object, ...]]]:
    """Conditions of the rows after (value, id), one after the other; NULL is the smallest value.

    Each is one range of the index: with `OR` a deep page would be looked for from the first.
    """
    if after is None:
        return [("1", ())]
    value, trajectory_id = _plain(after[0]), after[1]
    sign = "<" if descending else ">"
    if column == key:
        return [(f"{key} {sign} ?", (trajectory_id,))]
    if value is None:
        same = (f"{column} IS NULL AND {key} {sign} ?", (trajectory_id,))
        return [same] if descending else [same, (f"{column} IS NOT NULL", ())]
    beyond = (f"({column}, {key}) {sign} (?, ?)", (value, trajectory_id))
    return [beyond, (f"{column} IS NULL", ())] if descending else [beyond]


def _plain(value: object) -> object:
    return int(value) if isinstance(value, bool) else value


def _escape(text: str) -> str:
    return text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
