"""The command line. Heavy imports lie inside the commands: `--help` and `--version` are quick.

A command goes through the server that owns the data folder, or opens the store itself where no
server does; the user need not know which (app.backend).
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from app import console
from core.errors import InvalidInput, StrandlineError

if TYPE_CHECKING:
    from app.backend import Backend
    from app.settings import Settings

app = typer.Typer(
    name="strandline",
    help="Inspect agent trajectories at any log boundary.",
    epilog=console.epilog(),
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)

Data = Annotated[
    Path | None,
    typer.Option("--data", metavar="DIR", help="Data folder. [env: STRANDLINE_DATA]"),
]
Server = Annotated[
    str | None,
    typer.Option("--server", metavar="URL", help="Use the server at this URL."),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON lines.")]
TrajectoryArg = Annotated[str, typer.Argument(metavar="ID", help="A trajectory id.")]


def _version(wanted: bool) -> None:
    if wanted:
        console.say(f"strandline {metadata.version('strandline')}")
        raise typer.Exit


@app.callback()
def root(
    _: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_version, help="Print the version.")
    ] = False,
) -> None:
    """Inspect agent trajectories at any log boundary."""


def _settings(data: Path | None, **more: object) -> Settings:
    from app import settings

    return settings.load(data=data, **more)


@contextmanager
def _backend(
    data: Path | None, server: str | None, *, write: bool = False, create: bool = True
) -> Iterator[Backend]:
    from app import backend, logs

    loaded = _settings(data)
    logs.configure("error", "text")
    with backend.connect(loaded, server, write=write, create=create) as opened:
        yield opened


@app.command(epilog=console.epilog())
def serve(
    data: Data = None,
    host: Annotated[str | None, typer.Option(help="Address. [env: STRANDLINE_HOST]")] = None,
    port: Annotated[
        int | None, typer.Option(help="Port; 0: any free one. [env: STRANDLINE_PORT]")
    ] = None,
    allow_unsafe_filesystem: Annotated[
        bool,
        typer.Option(
            "--allow-unsafe-filesystem",
            help="Use a file system that cannot keep the domain's promise; pages say so.",
        ),
    ] = False,
) -> None:
    """Serve pages and API until stopped; the process owns the data folder meanwhile."""
    from app import server

    def announce(url: str) -> None:
        console.say(f"Strandline serves {url}")
        console.say(f"  data in {settings.data_folder}; stop with Ctrl-C")
        sys.stdout.flush()

    settings = _settings(
        data, host=host, port=port, allow_unsafe_filesystem=allow_unsafe_filesystem or None
    )
    raise typer.Exit(server.serve(settings, announce=announce))


@app.command("import", epilog=console.epilog())
def import_(
    paths: Annotated[
        list[str] | None, typer.Argument(metavar="PATH...", help="Files or folders.")
    ] = None,
    *,
    data: Data = None,
    server: Server = None,
    json: Json = False,
    discover: Annotated[
        bool,
        typer.Option(
            "--discover",
            help="Find the sessions that tools keep in the home folder (or in PATH, another one), "
            "show what would be taken, and ask.",
        ),
    ] = False,
    yes: Annotated[
        bool, typer.Option("--yes", "-y", help="With --discover: take them without asking.")
    ] = False,
    rederive: Annotated[
        bool,
        typer.Option(
            "--rederive",
            help="Derive again, from kept originals, what older importers read; takes no PATH.",
        ),
    ] = False,
    as_name: Annotated[
        str | None,
        typer.Option(
            "--as",
            metavar="NAME",
            help="Know the source by this name, not by its path.",
        ),
    ] = None,
    follow: Annotated[
        bool,
        typer.Option(
            "--follow", "-f", help="Go on, and take in what grows, until stopped with Ctrl-C."
        ),
    ] = False,
    no_redact: Annotated[
        bool,
        typer.Option("--no-redact", help="Keep secrets as they stand; the report says so."),
    ] = False,
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="Say of each file what it cannot record.")
    ] = False,
) -> None:
    """Import trajectory files. The same file changes nothing; a grown one appends.

    With --json, one line per file: path, format, trajectories [{id, events, head, chain}],
    refused [{where, why}], tokens {input, output, cache_read, cache_write}; a figure that the file
    does not hold is null.
    """
    from app import import_report

    paths = paths or []
    if discover:
        from app import discovering

        paths = discovering.chosen(paths, yes=yes, json=json, where=str(data or "the data folder"))
        if not paths:
            raise typer.Exit
    elif rederive and not paths:
        printed = import_report.Printer(json=json, verbose=verbose)
        with _backend(data, server, write=True, create=False) as backend:
            for document in backend.rederive():
                printed.document(document)
        printed.rederived()
        raise typer.Exit(printed.exit_code)
    elif rederive:
        raise InvalidInput("--rederive takes all that is outdated, and no PATH", field="paths")
    elif not paths:
        raise InvalidInput(
            "name files or folders to import", field="paths", advice="`strandline import PATH`"
        )
    if as_name is not None:
        import_report.check_name(as_name, paths)
    printed = import_report.Printer(json=json, verbose=verbose)
    if follow and no_redact:
        raise InvalidInput(
            "--no-redact is for a file that is read once; a followed one always hides its secrets",
            field="no-redact",
        )
    if follow:
        from app import following

        following.follow(
            lambda: _backend(data, server, write=True), paths, as_name, printed.followed
        )
        raise typer.Exit(printed.exit_code)
    there = [path for path in paths if not printed.missing(path)]
    # A store is not made for the sake of a path that leads nowhere.
    if there:
        with _backend(data, server, write=True) as backend:
            for path in there:
                with console.meter(path) as progress:
                    for document in backend.import_path(
                        path, progress, as_name, hide=not no_redact
                    ):
                        printed.document(document)
    printed.end()
    if printed.exit_code:
        raise typer.Exit(printed.exit_code)


@app.command("list", epilog=console.epilog())
def list_(
    *,
    data: Data = None,
    server: Server = None,
    json: Json = False,
    sort: Annotated[str, typer.Option(help="active, updated, started, title, ...")] = ("active"),
    ascending: Annotated[bool, typer.Option("--ascending", help="Smallest first.")] = False,
    limit: Annotated[int, typer.Option(min=1, help="At most so many.")] = 50,
    query: Annotated[
        str, typer.Option("--query", "-q", help="As on the page: status:failed active:<24h.")
    ] = "",
    text: Annotated[str | None, typer.Option(help="In title or id.")] = None,
    status: Annotated[
        str | None, typer.Option(help="COMPLETED, FAILED, RUNNING, OPEN, ...")
    ] = None,
    standing: Annotated[str | None, typer.Option(help="gated, reported, imported, replica.")] = (
        None
    ),
) -> None:
    """List trajectories, the last active first."""
    from app import listing

    filters = listing.filters(text=text, status=status, standing=standing)
    listing.check_sort(sort)
    with _backend(data, server, write=True, create=False) as backend:
        rows, total, exact = listing.collect(
            backend, sort=sort, descending=not ascending, limit=limit, filters=filters, q=query
        )
    if json:
        for row in rows:
            console.out_json(row)
    else:
        given = {**filters, **({"query": query} if query else {})}
        listing.show(rows, total, given, exact=exact)


@app.command(epilog=console.epilog())
def find(
    text: Annotated[
        str, typer.Argument(metavar="TEXT", help='Words of one event; pars*; "side by side".')
    ],
    *,
    within: Annotated[
        str | None, typer.Option("--in", metavar="ID", help="In one trajectory: all its events.")
    ] = None,
    limit: Annotated[int, typer.Option(min=1, help="At most so many.")] = 50,
    data: Data = None,
    server: Server = None,
    json: Json = False,
) -> None:
    """Find events by their text: the first of each trajectory, or all of one."""
    from app import listing

    with _backend(data, server, write=True, create=False) as backend:
        hits, lacks = listing.search(backend, text, within=within, limit=limit)
    if json:
        for hit in hits:
            console.out_json(hit)
    else:
        listing.show_hits(hits)
    listing.say_behind(lacks)


def _place(text: str) -> tuple[str, int | None]:
    """(trajectory id, boundary or None) of `ID` or `ID@SEQ`."""
    from core.ids import trajectory_id

    name, at, number = text.partition("@")
    if not at or number == "head":
        return trajectory_id(name), None
    if not (number.isascii() and number.isdigit() and len(number) <= 15):
        raise InvalidInput(f"{console.safe(text)}: a boundary is written ID@NUMBER", field="place")
    return trajectory_id(name), int(number)


def _range(text: str) -> tuple[str, int, int | None] | None:
    """(trajectory id, first, last or None) of `ID@A..B`; None for a single place."""
    name, at, numbers = text.partition("@")
    first, dots, last = numbers.partition("..")
    if not at or not dots:
        return None
    identity, begin = _place(f"{name}@{first or 0}")
    return identity, begin or 0, _place(f"{name}@{last or 'head'}")[1]


@app.command(epilog=console.epilog())
def show(
    place: Annotated[
        str,
        typer.Argument(
            metavar="ID[@SEQ]", help="A trajectory, at a boundary; with --json also ID@A..B."
        ),
    ],
    data: Data = None,
    server: Server = None,
    json: Json = False,
) -> None:
    """Show the record at a boundary (without one: at the head)."""
    from app import showing

    several = _range(place)
    if several is not None:
        if not json:
            raise InvalidInput(
                "a range of boundaries is shown as JSON lines, one for each",
                field="place",
                advice="Add --json, or name one boundary.",
            )
        with _backend(data, server) as backend:
            for line in backend.records(*several):
                console.out_json(line)
        return
    name, boundary = _place(place)
    with _backend(data, server) as backend:
        found = backend.record(name, boundary)
        if json:
            console.out_json(found)
            return
        at = int(found["boundary"])
        event = backend.event(name, at)["event"] if at else None
    showing.record(name, found, event)


@app.command(epilog=console.epilog())
def diff(
    a: Annotated[str, typer.Argument(metavar="ID@A", help="The earlier boundary.")],
    b: Annotated[str, typer.Argument(metavar="ID@B", help="The later one.")],
    data: Data = None,
    server: Server = None,
    json: Json = False,
) -> None:
    """Show what differs between two boundaries of one trajectory, as paths of the record."""
    from app import showing

    (name, first), (other, second) = _place(a), _place(b)
    if name != other:
        raise InvalidInput(
            "both boundaries must be of one trajectory: ID@A ID@B",
            field="place",
            advice="`strandline diff ID@A ID@B` takes the same ID twice.",
        )
    with _backend(data, server) as backend:
        head = int(backend.trajectory(name)["head"])
        found = backend.difference(
            name, head if first is None else first, head if second is None else second
        )
    if json:
        console.out_json(found)
    else:
        showing.difference(found)


@app.command(epilog=console.epilog())
def export(
    name: TrajectoryArg,
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FILE", help="Where to; - is standard output.")
    ],
    data: Data = None,
    server: Server = None,
    force: Annotated[
        bool, typer.Option("--force", "-f", help="Replace FILE if it exists.")
    ] = False,
) -> None:
    """Export a trajectory's log as JSONL; `import` takes it back to the same chain, read-only."""
    from app import exporting
    from core.ids import trajectory_id

    exporting.check(output, force=force)
    with _backend(data, server) as backend:
        exporting.export(backend, trajectory_id(name), output)


@app.command(epilog=console.epilog())
def verify(
    name: Annotated[
        str | None, typer.Argument(metavar="[ID]", help="One trajectory; without it: all.")
    ] = None,
    data: Data = None,
    server: Server = None,
    json: Json = False,
) -> None:
    """Re-derive every digest and chain value from the stored events."""
    from app import checking
    from core.ids import trajectory_id

    chosen = trajectory_id(name) if name is not None else None
    with _backend(data, server) as backend:
        findings = checking.verify(backend.verify(chosen), json=json)
    if findings:
        raise typer.Exit(console.DAMAGED)


@app.command(epilog=console.epilog())
def audit(data: Data = None, server: Server = None, json: Json = False) -> None:
    """Check every stored invariant: sequences, chains, stamps, heads, blobs, ledger."""
    from app import checking

    with _backend(data, server) as backend:
        findings = checking.audit(backend.audit(), json=json)
    if findings:
        raise typer.Exit(console.DAMAGED)


@app.command(epilog=console.epilog())
def note(
    place: Annotated[str, typer.Argument(metavar="ID[@SEQ]", help="A trajectory or boundary.")],
    text: Annotated[
        str | None, typer.Argument(metavar="[TEXT]", help="Without it: what is noted there.")
    ] = None,
    *,
    retract: Annotated[
        int | None, typer.Option("--retract", metavar="N", help="Take back note N.", min=1)
    ] = None,
    data: Data = None,
    server: Server = None,
    json: Json = False,
) -> None:
    """Note something on a trajectory or boundary, or show its notes and tags."""
    from app import acting

    name, boundary = _place(place)
    if text is not None and retract is not None:
        raise InvalidInput("a note is written or taken back, not both", field="retract")
    with _backend(data, server, write=True, create=False) as backend:
        if retract is not None:
            acting.said(acting.act(backend, name, "retract", {"number": retract}), json=json)
        elif text is not None:
            made = acting.act(backend, name, "note", {"text": text}, boundary=boundary)
            acting.said(made, json=json)
        elif json:
            console.out_json(backend.acts_of(name))
        else:
            acting.show(backend.acts_of(name))


@app.command(epilog=console.epilog())
def tag(
    name: TrajectoryArg,
    tags: Annotated[list[str], typer.Argument(metavar="TAG...", help="Words to find it by.")],
    *,
    remove: Annotated[bool, typer.Option("--remove", help="Take them off.")] = False,
    data: Data = None,
    server: Server = None,
    json: Json = False,
) -> None:
    """Tag a trajectory, or take tags off."""
    from app import acting
    from core.ids import trajectory_id

    with _backend(data, server, write=True, create=False) as backend:
        for one in tags:
            made = acting.act(
                backend, trajectory_id(name), "untag" if remove else "tag", {"tag": one}
            )
            acting.said(made, json=json)


Reason = Annotated[str, typer.Option("--reason", "-r", metavar="TEXT", help="Why; it is kept.")]


@app.command(epilog=console.epilog())
def withdraw(
    name: TrajectoryArg,
    *,
    reason: Reason,
    data: Data = None,
    server: Server = None,
    json: Json = False,
) -> None:
    """Withdraw a trajectory: it leaves lists and search, and its page stays."""
    _with_reason("withdraw", name, reason, data, server, json=json)


@app.command(epilog=console.epilog())
def reinstate(
    name: TrajectoryArg,
    *,
    reason: Reason,
    data: Data = None,
    server: Server = None,
    json: Json = False,
) -> None:
    """Bring a withdrawn trajectory back."""
    _with_reason("reinstate", name, reason, data, server, json=json)


def _with_reason(
    kind: str, name: str, reason: str, data: Path | None, server: str | None, *, json: bool
) -> None:
    """Record an act about a trajectory that takes no more than a reason, and say it."""
    from app import acting
    from core.ids import trajectory_id

    with _backend(data, server, write=True, create=False) as backend:
        made = acting.act(backend, trajectory_id(name), kind, {}, reason=reason)
    acting.said(made, json=json)


@app.command(epilog=console.epilog())
def tree(name: TrajectoryArg, data: Data = None, server: Server = None, json: Json = False) -> None:
    """Show parent and sub-agents, each with what it and all below it add up to."""
    from app import acting
    from core.ids import trajectory_id

    with _backend(data, server, write=True, create=False) as backend:
        found = backend.tree(trajectory_id(name))
    if json:
        console.out_json(found)
    else:
        acting.show_tree(found)


Usd = Annotated[str | None, typer.Option(metavar="USD", help="For a million tokens.")]


@app.command(epilog=console.epilog())
def prices(
    *,
    model: Annotated[
        str | None,
        typer.Option("--set", metavar="MODEL", help="State a price; a * ends a beginning."),
    ] = None,
    since: Annotated[str | None, typer.Option(metavar="DAY", help="YYYY-MM-DD, UTC.")] = None,
    input: Usd = None,
    output: Usd = None,
    cache_read: Usd = None,
    cache_write: Usd = None,
    source: Annotated[str | None, typer.Option(help="Where the price is from.")] = None,
    retract: Annotated[
        int | None, typer.Option("--retract", metavar="N", help="Take back act N.", min=1)
    ] = None,
    data: Data = None,
    server: Server = None,
    json: Json = False,
) -> None:
    """Show the prices that derived costs come from, or state one.

    A cache price that is not given is that of input.
    """
    from app import acting

    given = (input, output, cache_read, cache_write)
    body = (
        acting.price_body(model, since=since, given=given, source=source)
        if model is not None
        else None
    )
    with _backend(data, server, write=True, create=False) as backend:
        if body is not None:
            acting.said(acting.act(backend, None, "price", body), json=json)
        elif retract is not None:
            acting.said(acting.act(backend, None, "retract", {"number": retract}), json=json)
        elif json:
            console.out_json(backend.prices())
        else:
            acting.show_prices(backend.prices())


@app.command(epilog=console.epilog())
def doctor(data: Data = None, json: Json = False) -> None:
    """Check this installation and the data folder, and say what to do about what is wrong."""
    from app import checking

    if checking.doctor(_settings(data), json=json):
        raise typer.Exit(console.UNAVAILABLE)


@app.command(epilog=console.epilog())
def where(data: Data = None, json: Json = False) -> None:
    """Say which files are in use: program, data folder, store, server."""
    from app import checking

    checking.where(_settings(data), json=json)


@app.command(epilog=console.epilog())
def demo(
    data: Data = None,
    host: Annotated[str | None, typer.Option(help="Address. [env: STRANDLINE_HOST]")] = None,
    port: Annotated[
        int | None,
        typer.Option(envvar="PORT", show_envvar=False, help="Port; 0: any free one. [env: PORT]"),
    ] = None,
) -> None:
    """Serve made-up trajectories, one of them long, from a data folder of their own."""
    from app import demo as demonstration

    raise typer.Exit(demonstration.run(data, host, port))


def main() -> None:
    """Run the command line; the one place that turns errors into exit codes."""
    sys.exit(_run(sys.argv[1:]))


def _run(arguments: list[str]) -> int:
    if os.environ.get("STRANDLINE_LOG_LEVEL") != "debug":
        import logging

        # What a command has to say is in its answer; a server configures its log itself.
        logging.getLogger("strandline").addHandler(logging.NullHandler())
    try:
        app(arguments, prog_name="strandline")
    except SystemExit as ended:
        # How typer ends: 0, its own 2 for wrong usage, or the code of a typer.Exit.
        return ended.code if isinstance(ended.code, int) else int(bool(ended.code))
    except StrandlineError as error:
        console.explain(error, arguments)
        return console.exit_code(error)
    except KeyboardInterrupt:
        return console.INTERRUPTED
    except BrokenPipeError:
        # Whoever read our output has enough. Nothing more can be written there, at exit neither.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return console.OK
    except OSError as error:
        shown = console.safe(error.filename or "a file")
        console.note(f"strandline: {shown}: {(error.strerror or 'cannot be used').lower()}")
        console.note("  Check that it exists, is readable, and that its disk has room.")
        return console.UNAVAILABLE
    except Exception as error:
        return _fault(error)
    return console.OK


def _fault(error: Exception) -> int:
    import traceback

    console.note(
        f"strandline: a fault of this program: {type(error).__name__}: {console.safe(error)}"
    )
    if os.environ.get("STRANDLINE_LOG_LEVEL") == "debug":
        traceback.print_exception(error)
    else:
        console.note("  Run it again with STRANDLINE_LOG_LEVEL=debug and report what it prints.")
    return console.FAILED
