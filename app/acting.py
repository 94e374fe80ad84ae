"""note, tag, withdraw, reinstate, tree and prices on the command line."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from app import console
from app.console import Column
from app.presenters import format as fmt
from core.errors import InvalidInput
from core.rules import prices

if TYPE_CHECKING:
    from app.backend import Backend

Wire = dict[str, Any]
_PRICES = (
    Column("MODEL", stretches=True),
    Column("SINCE"),
    Column("INPUT", right=True),
    Column("OUTPUT", right=True),
    Column("CACHE READ", right=True),
    Column("CACHE WRITE", right=True),
    Column("STATED BY"),
    Column("SOURCE", wide=True),
)
_TREE = (
    Column("TRAJECTORY", stretches=True),
    Column("TITLE"),
    Column("EVENTS", right=True),
    Column("UNSETTLED", right=True),
    Column("TOKENS", right=True),
    Column("COST", right=True),
)


def request() -> str:
    """An id for one act."""
    return f"cli.{secrets.token_hex(12)}"


def act(
    backend: Backend,
    trajectory_id: str | None,
    kind: str,
    body: Wire,
    *,
    boundary: int | None = None,
    reason: str | None = None,
) -> Wire:
    """Record one act; its wire form."""
    made: Wire = backend.act(
        trajectory_id,
        {
            "request_id": request(),
            "kind": kind,
            "body": body,
            **({"boundary": boundary} if boundary is not None else {}),
            **({"reason": reason} if reason is not None else {}),
        },
    )
    return made


def said(made: Wire, *, json: bool) -> None:
    """What was recorded, on one line."""
    if json:
        console.out_json(made)
        return
    words = {
        "note": "noted",
        "tag": "tagged",
        "untag": "untagged",
        "withdraw": "withdrawn; it left the lists, and `strandline reinstate ID` brings it back",
        "reinstate": "reinstated",
        "retract": "retracted; it is still shown as made",
        "price": "priced",
    }
    about = made["trajectory_id"]
    what = console.as_run(words.get(str(made["kind"]), str(made["kind"])))
    console.say(f"{about + ': ' if about else ''}{what} (act {made['number']})")


def show(found: Wire) -> None:
    """Notes, tags and standing of one trajectory."""
    now = found["now"]
    for key, word in (("withdrawn", "withdrawn"), ("superseded", "superseded")):
        if now[key] is not None:
            one = now[key]
            by = f" by {console.safe(one['body']['by'])}" if "by" in one["body"] else ""
            why = f": {console.safe(one['reason'], 200)}" if one["reason"] else ""
            console.say(f"{word}{by}, {_by(one)} (act {one['number']}){why}")
    if now["tags"]:
        console.say(f"tags: {' '.join(now['tags'])}")
    for note in now["notes"]:
        at = f"@{note['boundary']} " if note["boundary"] is not None else ""
        console.say(
            f"{note['number']}  {at}{_by(note)}: {console.safe(note['body']['text'], 4000)}"
        )
    if not (now["notes"] or now["tags"] or now["withdrawn"] or now["superseded"]):
        console.note("nobody noted anything")


def _by(one: Wire) -> str:
    return f"{console.safe(one['actor'], 60)} {fmt.iso(one['recorded_at'])}"


def show_tree(found: Wire) -> None:
    """The tree, indented; each line adds up its trajectory and all below it."""
    console.table(_TREE, [_branch(node, found["here"]) for node in found["nodes"]])
    if not found["nodes"]:
        console.note("no summary of it has been made yet")
    if found["missing_parent"]:
        console.note(f"its parent {console.safe(found['missing_parent'])} is not stored")
    if found["left_out"]:
        number = len(found["left_out"])
        console.note(
            f"{number:,} of them, withdrawn or superseded, {'is' if number == 1 else 'are'} in no "
            "total: see `strandline list --query withdrawn:yes`"
        )
    for why, words in (
        ("nodes", "there are more trajectories than a tree shows"),
        ("depth", "it goes deeper than a tree shows"),
        ("cycle", "a trajectory names one below it as its parent; it is shown once"),
    ):
        if why in found["cut"]:
            console.note(words)


def _branch(node: Wire, here: str) -> Sequence[str]:
    rolled = node["rolled"]
    tokens = [value for value in rolled["tokens"].values() if value is not None]
    least = ">= " if rolled["without_tokens"] or rolled["unreported"] else ""
    costs = [rolled["cost_nano_usd"], rolled["derived_nano_usd"]]
    stated = [value for value in costs if value is not None]
    mark = "* " if node["trajectory_id"] == here else ""
    gone = node["summary"]["hidden"]
    word = f"[{'withdrawn' if node['summary']['withdrawn'] else 'superseded'}] " if gone else ""
    derived = " derived" if rolled["derived_nano_usd"] is not None else ""
    return (
        "  " * node["depth"] + mark + node["trajectory_id"],
        word + console.safe(node["summary"]["title"] or "-", 60),
        fmt.count(rolled["events"]),
        fmt.count(rolled["unsettled"]),
        f"{least}{fmt.count(sum(tokens))}" if tokens else "-",
        f"{fmt.money(sum(stated))}{derived}" if stated else "-",
    )


def price_body(  # one argument for each field
    model: str,
    *,
    since: str | None,
    given: Sequence[str | None],
    source: str | None,
) -> Wire:
    """The body of a price from what was typed; InvalidInput for a part that is missing."""
    if since is None or None in given[:2]:
        raise InvalidInput(
            "a price takes --since, --input and --output",
            field="price",
            advice="For example: `strandline prices --set MODEL --since 2026-01-01 --input 3 "
            "--output 15 --cache-read 0.3 --cache-write 3.75`.",
        )
    fresh, output, read, write = given
    assert fresh is not None and output is not None, "checked above"
    body: Wire = {
        "model": model,
        "since": prices.check_day(since),
        "input": prices.nano_usd(fresh),
        "output": prices.nano_usd(output),
        "cache_read": prices.nano_usd(fresh if read is None else read),
        "cache_write": prices.nano_usd(fresh if write is None else write),
    }
    return body | ({"source": source} if source else {})


def show_prices(found: Wire) -> None:
    """The table, in USD for a million tokens."""
    console.table(
        _PRICES,
        [
            (
                console.safe(row["model"], 100),
                row["since"],
                *(prices.usd(row[kind]) for kind in prices.KINDS),
                f"act {row['act']}" if row["act"] is not None else "shipped",
                console.safe(row["source"] or "-", 120),
            )
            for row in found["prices"]
        ],
    )
    console.note(
        f"USD for a million tokens; shipped ones were looked up in {found['checked']}: check "
        "before relying on them"
    )
