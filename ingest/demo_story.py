"""The story of the generated trajectory: an agent that repairs a large test suite, for a day.

It tells batches. One batch is what the imagined runtime reports at once: the results since the
last one, a model call, and the intents that it sends next; so an intent is durable before its
command runs. Times are of the imagined day, and the same arguments tell the same story.

INVARIANTS
1. A command's output, exit code and status say the same; what it used is the time it took.
2. Prompt tokens of a call are those of its messages, split into read, written and new.
3. What stays unsettled to the end is one of `_LEFT_OPEN`, the pushes of lost workers, or the last
   command, and each says what an operator would have to ask.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Protocol

from core.canonical import digest_text, sha256
from core.events.admission import Actual, Authorized, BudgetReserved, BudgetSettled
from core.events.approval import ApprovalRequested
from core.events.context import Compacted, RuntimeInput
from core.events.control import ControlChanged, PlanChanged, PlanItem
from core.events.fields import (
    Change,
    Charge,
    Limit,
    MessageRef,
    Payload,
    ToolCall,
    Usage,
    WorkspaceChange,
)
from core.events.model_call import ContextBuilt, ModelReplied
from core.events.ownership import Cause
from core.events.source import Unparsed
from core.events.task import Capabilities, TaskStarted
from core.events.tool import ResultStatus, ToolIntent, ToolResult
from core.instants import Instant

_MS = 1_000
_SECOND = 1_000_000
_SEED = 20261129
_MODEL = "example-model-large"
#: What the generations are, and how each came to own the trajectory.
GENERATIONS: tuple[tuple[str, Cause], ...] = (
    ("worker-a1", "start"),
    ("worker-b7", "expiry"),
    ("worker-b7", "operator"),
    ("worker-c3", "hand_off"),
    ("worker-a1", "expiry"),
    ("worker-d2", "hand_off"),
    ("worker-c3", "expiry"),
)
#: Kinds of loose ends and where in the log they fall, in thousandths of it.
_LEFT_OPEN: tuple[tuple[int, str], ...] = (
    (200, "timeout"),
    (500, "timeout"),
    (600, "dispute"),
    (750, "approval"),
    (800, "timeout"),
    (930, "pending"),
    (950, "approval"),
    (970, "pending"),
    (985, "silent"),
)
#: More events than one case with all that may happen beside it, than one turn, and the exact
#: number of the last turn.
_CASE_ROOM = 260
_TURN_ROOM = 45
_ENDING = 7
_TESTS = 9_312
_RED_PER_MODULE = 60
_COMPACT_TURNS = 90
_MODULES = (
    "archive",
    "cache",
    "config",
    "deps",
    "fetch",
    "graph",
    "hooks",
    "index",
    "journal",
    "keys",
    "lockfile",
    "mirror",
    "notify",
    "paths",
    "plan",
    "queue",
    "render",
    "report",
    "resolve",
    "retry",
    "sandbox",
    "signing",
    "upload",
    "workers",
)


@dataclass(frozen=True, slots=True)
class _Fault:
    """A fault that the suite has in many places: its lines, its symptom, its repair."""

    name: str
    word: str
    symptom: str
    above: str
    before: str
    wrong: str
    after: str
    cause: str
    commit: str


_FAULTS = (
    _Fault(
        "stale_entry",
        "stale",
        "AssertionError: 3 != 2",
        "    for entry in self.entries:",
        "        if entry.stale:",
        "        if entry.stale or entry.pinned:",
        "        if entry.stale and not entry.pinned:",
        "A pinned entry is dropped as soon as it is stale; the test pins one and counts.",
        "keep a pinned entry that is stale",
    ),
    _Fault(
        "naive_time",
        "utcnow",
        "TypeError: can't compare offset-naive and offset-aware datetimes",
        "    started = self.started_at",
        "    ended = datetime.utcnow()",
        "    ended = datetime.now()",
        "    ended = datetime.now(UTC)",
        "One side of the comparison has no time zone since the toolchain moved.",
        "take the time with its zone",
    ),
    _Fault(
        "read_text",
        "open(",
        "UnicodeDecodeError: 'ascii' codec can't decode byte 0xc3 in position 41",
        "    path = self.root / name",
        "    with open(path) as file:",
        '    with open(path, encoding="ascii", errors="ignore") as file:',
        '    with open(path, encoding="utf-8") as file:',
        "The file is read in the locale of the build machine, which is plain ASCII now.",
        "read text as UTF-8",
    ),
    _Fault(
        "order",
        "by_name",
        "AssertionError: Lists differ: ['b', 'a'] != ['a', 'b']",
        "    names = []",
        "    for name in self.by_name:",
        "    for name in reversed(self.by_name):",
        "    for name in sorted(self.by_name):",
        "The order of a set is taken for the order of the names.",
        "list names in order",
    ),
    _Fault(
        "last_part",
        "range(",
        "AssertionError: 7 != 8",
        "    parts = []",
        "    for number in range(1, count):",
        "    for number in range(1, count - 1):",
        "    for number in range(1, count + 1):",
        "The last part is never looked at: the range ends one early.",
        "count the last part too",
    ),
    _Fault(
        "short_wait",
        "timeout",
        "TimeoutError: no answer within 1 s",
        "    client = self.client",
        "    answer = client.get(url, timeout=1)",
        "    answer = client.get(url, timeout=2)",
        "    answer = client.get(url, timeout=self.timeout)",
        "The configured timeout is not used; the new machines need more than a second.",
        "wait as long as configured",
    ),
)


class _Hash(Protocol):
    """A running SHA-256."""

    def update(self, data: bytes, /) -> None: ...
    def digest(self) -> bytes: ...
    def copy(self) -> _Hash: ...


@dataclass(frozen=True, slots=True)
class Draft:
    """One event, before its payload is encoded."""

    event_id: str
    payload: Payload
    occurred_at: Instant
    step: int | None
    operation_id: str | None = None
    attempt_id: str | None = None
    invocation_id: str | None = None


@dataclass(frozen=True, slots=True)
class Batch:
    """What is reported at once, and when it reaches the store."""

    events: tuple[Draft, ...]
    at: Instant


@dataclass(frozen=True, slots=True)
class Grant:
    """A new generation takes over."""

    number: int
    worker: str
    cause: Cause
    at: Instant


@dataclass(frozen=True, slots=True)
class _Command:
    """A command with what becomes of it."""

    line: str
    output: str = ""
    exit_code: int = 0
    took_ms: int = 40
    limit_s: int = 120
    change: WorkspaceChange | None = None
    fate: str = "answered"
    """`answered`, or how it is inconclusive: `timeout`, `pending`, `dispute`, `silent`, `lost`."""
    resolved_after: int | None = None
    """Turns after which somebody asks what became of it; None: nobody does."""
    revealed: ResultStatus = "succeeded"
    """What asking finds."""
    proof: str = ""


@dataclass(frozen=True, slots=True)
class _Case:
    """One red test."""

    module: str
    fault: _Fault
    number: int
    line: int

    @property
    def path(self) -> str:
        """The file that is at fault."""
        return f"src/{self.module}.py"

    @property
    def test(self) -> str:
        """The test's method."""
        return f"test_{self.fault.name}_{self.number:03d}"

    @property
    def suite(self) -> str:
        """The test's class."""
        return f"tests.test_{self.module}.Test{self.module.title()}"


def first(began: Instant) -> Draft:
    """TaskStarted."""
    red = _RED_PER_MODULE * len(_MODULES)
    payload = TaskStarted(
        title="Keep the nightly build green (generated)",
        standing="reported",
        capabilities=Capabilities(
            intents="written_ahead",
            exact_inputs="recorded",
            workspace="recorded",
            reservations="recorded",
            ownership="recorded",
            approvals="recorded",
            times="recorded",
        ),
        task=f"Since the move to the new toolchain {red:,} of the {_TESTS:,} tests of the nightly "
        "build are red. Take them one by one: find the cause, repair it in the source and not in "
        "the test, commit each repair, and run the whole build now and then. Ask before anything "
        "is published.",
        requester="nightly schedule",
        agent="demo runtime 1.0",
        source="generated by strandline demo",
        model=_MODEL,
        limits=(
            Limit(resource="usd", unit="nano_usd", ceiling=60_000_000_000),
            Limit(resource="tokens", unit="tokens", ceiling=250_000_000),
            Limit(resource="compute", unit="ms", ceiling=48 * 3_600_000),
        ),
    )
    return Draft("demo.task", payload, began, None)


def span(events: int) -> int:
    """Microseconds from the first event to the last report of a story of so many events."""
    last = 0
    for told in tell(events, 0):
        last = told.at
    return last


def tell(events: int, began: Instant) -> Iterator[Batch | Grant]:
    """Everything after TaskStarted: exactly `events - 1` events, grants counted as one each."""
    return _Story(events, began).tell()


@dataclass(slots=True)
class _Story:
    """Where the story is."""

    events: int
    clock: Instant
    told: int = 1
    """Events so far, TaskStarted and grants included."""
    batch: list[Draft] = field(default_factory=list)
    number: int = 0
    step: int = 0
    dice: random.Random = field(default_factory=lambda: random.Random(_SEED))
    owed: list[tuple[int, Callable[[], None]]] = field(default_factory=list)
    """What is still to be asked or settled: the turn it is due, and how."""
    loose: list[tuple[int, str]] = field(default_factory=lambda: list(_LEFT_OPEN))
    red: dict[str, int] = field(default_factory=lambda: dict.fromkeys(_MODULES, _RED_PER_MODULE))
    cases: int = 0
    commits: int = 0
    tree: int = 0
    plan: int = 0
    retried: str | None = None
    # The context that the next call is given.
    invocation: str | None = None
    messages: int = 0
    fresh: list[tuple[str, str]] = field(default_factory=list)
    manifest: _Hash = field(default_factory=hashlib.sha256)
    cached_tokens: int = 0
    summary: str | None = None
    new_tokens: int = 0
    reservation: str = ""
    commit_message: str | None = None
    lost: list[tuple[_Command, dict[str, str]]] = field(default_factory=list)
    """What the last generation sent and heard nothing of."""

    # ---- the course of it ----------------------------------------------------------------------

    def tell(self) -> Iterator[Batch | Grant]:
        """The whole story."""
        last = len(GENERATIONS)
        for number, (worker, cause) in enumerate(GENERATIONS, 1):
            lost = self._take_over(number, cause)
            self.told += 1
            self.clock += 20 * _MS
            yield Grant(number, worker, cause, self.clock)
            for command, ids in lost:
                self._asked_after_loss(command, ids)
            until = self.events if number == last else self.events * number // last
            while self.told + len(self.batch) + _CASE_ROOM < until:
                yield from self._case()
            if number < last:
                yield from self._generation_ends(GENERATIONS[number][1])
        yield from self._ending()

    def _take_over(self, number: int, cause: Cause) -> list[tuple[_Command, dict[str, str]]]:
        """Time until somebody else owns it, and what its last owner left behind."""
        if number > 1:
            self.clock += {"hand_off": 4, "operator": 95}.get(cause, 420) * _SECOND
        lost, self.lost = self.lost, []
        return lost

    def _asked_after_loss(self, command: _Command, ids: dict[str, str]) -> None:
        """The new owner asks what became of each command; a push cannot be asked about here."""
        self._pass(900)
        if command.line.startswith("git push"):
            return
        self._query(
            command, ids, "the build machine's command journal has no entry: it was never started"
        )

    def _generation_ends(self, next_cause: Cause) -> Iterator[Batch | Grant]:
        if next_cause == "hand_off":
            self._add(
                RuntimeInput(kind="message", text="This worker drains; another one takes over.")
            )
            yield self._flush()
            return
        case = self._next_case()
        commands = [self._lost(self._push()), *(self._lost(c) for c in self._looking(case))]
        yield from self._turn("I push what is repaired so far and look at the next one.", commands)

    def _lost(self, command: _Command) -> _Command:
        return _Command(command.line, limit_s=command.limit_s, fate="lost", revealed="no_effect")

    def _ending(self) -> Iterator[Batch | Grant]:
        """A pause that uses up the odd events, and a last command that still runs."""
        self._settle_what_is_due(everything=True)
        while self.events - self.told - len(self.batch) - _ENDING > _TURN_ROOM:
            again = self._checking(self._next_case(), good=True)
            yield from self._turn("I go over what is repaired: does it still pass?", again)
            self._settle_what_is_due(everything=True)
        odd = self.events - self.told - len(self.batch) - _ENDING
        if odd >= 2:
            self._control("PAUSED", "RUNNING", "the build machines are being updated")
            yield self._flush()
            for reading in range(odd - 2):
                self._pass(20_000)
                self._add(
                    RuntimeInput(
                        kind="environment",
                        values={"machines_ready": min(8, reading // 4), "machines": 8},
                        captured=True,
                    )
                )
                yield self._flush()
            self._control("RUNNING", "PAUSED", "the update is done")
        elif odd == 1:
            self._add(RuntimeInput(kind="clock", values={"turns": self.step}, captured=True))
        self.retried = None
        self.step += 1
        command = _Command("make nightly", limit_s=1_800, fate="silent")
        yield from self._turn("I run the whole build again.", [command], plain=True)

    # ---- cases ---------------------------------------------------------------------------------

    def _case(self) -> Iterator[Batch | Grant]:
        """One red test from its failure to its repair."""
        loose = self._loose_end()
        if loose is not None:
            yield from loose
            return
        case = self._next_case()
        if self.cases % 25 == 1:
            self._plan(case)
        opening = self._looking(case)
        if self.commit_message is not None:
            opening.insert(0, self._commit())
        text = f"{case.test} of {case.module} is next. I run it and read what it reaches."
        yield from self._turn(text, opening)
        edits = [case.fault.wrong, case.fault.after]
        if self.dice.random() < 0.7:
            edits.pop(0)
        had = case.fault.before
        for new in edits:
            good = new == case.fault.after
            text = case.fault.cause if good else "I try the smallest change first."
            yield from self._turn(text, [self._edit(case, had, new)])
            if good:
                self.red[case.module] -= 1
            yield from self._turn(
                "I run it again, and everything else of the module.", self._checking(case, good)
            )
            had = new
        self.commit_message = f"{case.module}: {case.fault.commit}"
        yield from self._aside()

    def _next_case(self) -> _Case:
        open_modules = [module for module in _MODULES if self.red[module] > 0]
        if not open_modules:
            self.red = dict.fromkeys(_MODULES, _RED_PER_MODULE)
            open_modules = list(_MODULES)
        module = open_modules[self.cases % len(open_modules)]
        self.cases += 1
        fault = self.dice.choice(_FAULTS)
        return _Case(module, fault, self.cases % 1000, self.dice.randrange(20, 380))

    def _looking(self, case: _Case) -> list[_Command]:
        fault = case.fault
        took = self.dice.randrange(260, 1_400)
        around = f"{fault.above}\n{fault.before}"
        return [
            _Command(
                f"python3 -m unittest {case.suite}.{case.test}",
                f"FAIL: {case.test} ({case.suite})\n{fault.symptom}\n\n"
                f"Ran 1 test in {(took - 190) / 1000:.3f}s\n\nFAILED (failures=1)",
                1,
                took,
            ),
            _Command(
                f"grep -n '{fault.word}' {case.path}", f"{case.line}:{fault.before}", 0, self._few()
            ),
            _Command(f"sed -n '{case.line - 1},{case.line}p' {case.path}", around, 0, self._few()),
            _Command(f"wc -l {case.path}", f"{case.line + 61} {case.path}", 0, self._few()),
        ]

    def _edit(self, case: _Case, had: str, new: str) -> _Command:
        base, self.tree = self.tree, self.tree + 1
        content = f"{case.path} as of tree {self.tree}".encode()
        diff = (
            f"--- a/{case.path}\n+++ b/{case.path}\n@@ -{case.line} +{case.line} @@\n"
            f"-{had}\n+{new}\n"
        )
        change = Change(
            path=case.path,
            kind="edited",
            digest=digest_text(sha256(content)),
            length=(case.line + 61) * 34 + len(new),
            diff=diff,
        )
        return _Command(
            f"sed -i '{case.line}c\\{new}' {case.path}",
            took_ms=self._few(),
            change=WorkspaceChange(f"tree-{base}", f"tree-{self.tree}", (change,)),
        )

    def _checking(self, case: _Case, good: bool) -> list[_Command]:
        one, many = self.dice.randrange(260, 1_400), self.dice.randrange(1_500, 3_900)
        red, size = self.red[case.module], _TESTS // len(_MODULES)
        said = f"Ran 1 test in {(one - 190) / 1000:.3f}s"
        return [
            _Command(
                f"python3 -m unittest {case.suite}.{case.test}",
                f"{said}\n\nOK"
                if good
                else f"FAIL: {case.test} ({case.suite})\n{case.fault.symptom}\n\n{said}\n\n"
                "FAILED (failures=1)",
                0 if good else 1,
                one,
            ),
            _Command(
                f"python3 -m unittest -q tests.test_{case.module}",
                f"Ran {size} tests in {(many - 210) / 1000:.3f}s\n\n"
                + (f"FAILED (failures={red})" if red else "OK"),
                1 if red else 0,
                many,
            ),
            _Command(
                "git diff --stat",
                f" {case.path} | 2 +-\n 1 file changed, 1 insertion(+), 1 deletion(-)",
                0,
                self._few(),
            ),
            _Command(f"ruff check {case.path}", "All checks passed!", 0, self._few() + 30),
        ]

    def _commit(self) -> _Command:
        message, self.commit_message = self.commit_message, None
        self.commits += 1
        return _Command(
            f"git commit -qam '{message}' && git rev-parse --short HEAD",
            self._revision(self.commits),
            0,
            self._few() + 60,
        )

    def _push(self) -> _Command:
        old, new = self._revision(max(self.commits - 1, 0)), self._revision(self.commits)
        return _Command(
            "git push origin nightly", f"   {old}..{new}  nightly -> nightly", 0, 1_900, 300
        )

    def _revision(self, number: int) -> str:
        return hashlib.sha256(f"commit {number}".encode()).hexdigest()[:7]

    def _few(self) -> int:
        return self.dice.randrange(12, 90)

    def _whole_build(self) -> _Command:
        red, took = sum(self.red.values()), self.dice.randrange(170_000, 420_000)
        counted = f"{_TESTS:,} tests: {_TESTS - red:,} passed, {red:,} failed"
        end = "" if red == 0 else "\nmake: *** [Makefile:18: nightly] Error 1"
        return _Command("make nightly", counted + end, 2 if red else 0, took, 900)

    # ---- beside the cases ----------------------------------------------------------------------

    def _aside(self) -> Iterator[Batch | Grant]:
        """What happens now and then."""
        cases = self.cases
        if cases % 5 == 0:
            self._add(RuntimeInput(kind="clock", values={"cases": cases}, captured=True))
        if cases % 12 == 0:
            yield from self._turn("I commit this one.", [self._commit()])
            yield from self._turn("I push, so that others have it.", [self._push()])
            yield from self._turn("Time for the whole build.", [self._whole_build()])
        if cases % 40 == 17:
            late = replace(
                self._whole_build(),
                fate="timeout",
                resolved_after=3,
                revealed="failed",
                proof="the build machine's log: killed for memory",
            )
            yield from self._turn("The whole build once more, on a fresh machine.", [late])
        if cases % 40 == 33:
            yield from self._turn("I have the same revision built elsewhere.", [self._job(30)])
        if cases % 110 == 60:
            self._control("PAUSED", "RUNNING", "the build machines are being updated")
            yield self._flush()
            self._pass(240_000)
            self._control("RUNNING", "PAUSED", "the update is done")
        if cases % 300 == 150:
            line = self.dice.randrange(1_000, 90_000)
            self._add(Unparsed(where=f"line {line} of runtime.log", why="the line is no JSON"))

    def _job(self, after: int | None) -> _Command:
        return _Command(
            f"ci submit --revision {self._revision(self.commits)} --suite nightly",
            limit_s=3_600,
            fate="pending",
            resolved_after=after,
            revealed="failed" if any(self.red.values()) else "succeeded",
            proof=f"the job's page: finished, {sum(self.red.values()):,} tests failed",
        )

    def _loose_end(self) -> Iterator[Batch | Grant] | None:
        """The next thing nobody settles, if its place in the log is reached."""
        if not self.loose or self.told * 1000 < self.loose[0][0] * self.events:
            return None
        _, kind = self.loose.pop(0)
        if kind == "timeout":
            late = replace(self._whole_build(), fate="timeout")
            return self._turn("The whole build, on the machine that has room.", [late])
        if kind == "pending":
            return self._turn("I have this revision built elsewhere.", [self._job(None)])
        if kind == "silent":
            copied = _Command("rsync -a dist/ mirror.example:nightly/", limit_s=180, fate="silent")
            return self._turn("The mirror needs the new artifacts.", [copied])
        if kind == "dispute":
            push = self._push()
            broken = _Command(
                push.line,
                "fatal: the remote end hung up unexpectedly",
                128,
                4_200,
                300,
                fate="dispute",
                resolved_after=1,
                proof="git ls-remote: nightly is at the pushed revision",
            )
            return self._turn("I push what is repaired so far.", [broken])
        return self._approval()

    def _approval(self) -> Iterator[Batch | Grant]:
        name = f"publish-{self.step}"
        self._add(
            ApprovalRequested(
                approval_id=f"approval-{name}",
                tool="publish",
                tool_version="2",
                policy_version="nightly-3",
                reviewer="release desk",
                reason=f"publish the build of {self._revision(self.commits)}: this leaves the "
                "repository",
            ),
            operation_id=f"op-{name}",
        )
        return iter(())

    # ---- one turn ------------------------------------------------------------------------------

    def _turn(
        self, text: str, commands: list[_Command], *, plain: bool = False
    ) -> Iterator[Batch | Grant]:
        """A model call and the commands it asks for; the report ends with their intents."""
        if not plain:
            self._settle_what_is_due()
            self.step += 1
            if self.step % _COMPACT_TURNS == 0:
                self._compact()
            if self.dice.random() < 0.012:
                self._failed_call()
        invocation = self._call()
        operations = [f"op-{self.step}-{n}" for n in range(1, len(commands) + 1)]
        self._reply(invocation, text, operations)
        sent = [
            self._send(command, operation, invocation)
            for command, operation in zip(commands, operations, strict=True)
        ]
        yield self._flush()
        self._answers(commands, sent)

    def _flush(self) -> Batch:
        self._pass(self.dice.randrange(3, 12))
        batch = Batch(tuple(self.batch), self.clock)
        self.told += len(self.batch)
        self.batch = []
        return batch

    def _call(self) -> str:
        """What the model is given, and what is set aside for its answer."""
        invocation = f"call-{self.step}" + ("r" if self.retried else "")
        if self.messages == 0:
            opening = [("system", "You repair a build. Work in small steps.")]
            opening.append(("user", self.summary or "The suite is red since the toolchain moved."))
            self.fresh = opening
        kept, new = self.messages, []
        for role, text in self.fresh:
            data = f"{role}: {text}".encode()
            raw = sha256(data)
            self.manifest.update(raw)
            new.append(MessageRef(role=role, digest=digest_text(raw), length=len(data), text=text))
        self.messages += len(new)
        self.fresh = []
        # Four bytes to a token, and a few for the frame of each message.
        self.new_tokens += sum(one.length // 4 + 6 for one in new) + (0 if kept else 2_350)
        self._pass(self.dice.randrange(8, 40))
        self._add(
            ContextBuilt(
                manifest_digest=digest_text(self.manifest.copy().digest()),
                count=self.messages,
                base_invocation_id=self.invocation if kept else None,
                kept=kept,
                messages=tuple(new),
                model=_MODEL,
                request={"temperature": 0, "max_tokens": 1024},
                claim="rebuilt",
                retry_of=self.retried,
            ),
            invocation_id=invocation,
        )
        self.invocation = invocation
        self._pass(1)
        self.reservation = self._add(
            BudgetReserved(
                bounds=(Charge(resource="usd", unit="nano_usd", amount=30_000_000),),
                settlement_owner="worker",
            ),
            invocation_id=invocation,
        )
        return invocation

    def _failed_call(self) -> None:
        """A call without a reply: refused, or lost on the way and billed later."""
        invocation = self._call()
        reservation, read, written = self.reservation, self.cached_tokens, self.new_tokens
        lost = self.dice.random() < 0.3
        self._pass(31_000 if lost else 900)
        self._add(
            ModelReplied(
                status="error",
                error="the connection was closed before a reply came"
                if lost
                else "529 overloaded: the provider took no request",
                gaps=("usage is not recorded",) if lost else (),
                attempts=1,
            ),
            invocation_id=invocation,
        )
        self._pass(2)
        if lost:
            self.cached_tokens, self.new_tokens = read + written, 0

            def billed() -> None:
                self._settle_call(
                    invocation,
                    reservation,
                    read * 200 + written * 2_500,
                    None,
                    "the provider's bill, which states no tokens",
                )

            self.owed.append((self.step + 9, billed))
        else:
            self._settle_call(invocation, reservation, 0, 0, "refused before any work: not billed")
            self._pass(self.dice.randrange(5_000, 20_000))
        self.retried = invocation

    def _settle_call(
        self, invocation: str, reservation: str, nano_usd: int, tokens: int | None, evidence: str
    ) -> None:
        actual = [Actual("usd", "nano_usd", nano_usd, overrun=nano_usd > 30_000_000)]
        if tokens is not None:
            actual.append(Actual("tokens", "tokens", tokens))
        self._add(
            BudgetSettled(
                actual=tuple(actual),
                scope="invocation",
                meter="provider",
                reservation_event=reservation,
                evidence=evidence,
            ),
            invocation_id=invocation,
        )

    def _reply(self, invocation: str, text: str, operations: list[str]) -> None:
        output = 20 + len(text) // 4 + 38 * len(operations)
        read, plain = self.cached_tokens, min(self.new_tokens, 4)
        written, self.new_tokens = self.new_tokens - plain, 0
        self.cached_tokens = read + written + plain
        usage = Usage(input=plain, output=output, cache_read=read, cache_write=written)
        self._pass(900 + output * 14 + self.dice.randrange(0, 4_000))
        self._add(
            ModelReplied(
                status="completed",
                model=f"{_MODEL}-2026-10",
                text=text,
                tool_calls=tuple(
                    ToolCall(tool="bash", operation_id=operation) for operation in operations
                ),
                finish_reason="tool_calls",
                usage=usage,
                response_id=f"resp-{invocation}",
                retry_of=self.retried,
                attempts=1,
            ),
            invocation_id=invocation,
        )
        self._pass(2)
        cost = plain * 2_000 + output * 8_000 + read * 200 + written * 2_500
        tokens = plain + output + read + written
        self._settle_call(invocation, self.reservation, cost, tokens, "usage of the reply")
        self.retried = None
        self.fresh = [("assistant", text)]

    def _send(
        self, command: _Command, operation: str, invocation: str
    ) -> tuple[dict[str, str], str]:
        """Admitted and written ahead; its ids and its reservation."""
        ids = {"operation_id": operation, "attempt_id": f"{operation}.1"}
        self._pass(1)
        allowed = self._add(
            Authorized(
                decision="granted", policy_version="nightly-3", basis="inside the repository"
            ),
            **ids,
        )
        bound = Charge(resource="compute", unit="ms", amount=command.limit_s * 1000)
        reserved = self._add(BudgetReserved(bounds=(bound,)), **ids)
        self._add(
            ToolIntent(
                kind="intent",
                tool="bash",
                tool_version="1",
                arguments={"command": command.line},
                deadline_at=self.clock + command.limit_s * _SECOND,
                authorization_event=allowed,
                reservation_event=reserved,
            ),
            **ids,
            invocation_id=invocation,
        )
        return ids, reserved

    # ---- what becomes of commands --------------------------------------------------------------

    def _answers(self, commands: list[_Command], sent: list[tuple[dict[str, str], str]]) -> None:
        """Results as they come; the commands of one turn run side by side."""
        began = self.clock
        ordered = sorted(zip(commands, sent, strict=True), key=lambda one: _ends_ms(one[0]))
        for command, (ids, reserved) in ordered:
            if command.fate == "lost":
                self.lost.append((command, ids | {"reserved": reserved}))
                continue
            self.clock = max(self.clock + _MS, began + _ends_ms(command) * _MS)
            self._answer(command, ids, reserved)
        for command in commands:
            self.fresh.append(("tool", _delivered(command)))

    def _answer(self, command: _Command, ids: dict[str, str], reserved: str) -> None:
        if command.fate in ("timeout", "pending"):
            late = command.fate == "timeout"
            handle = None if late else f"job-{4_000 + self.step}"
            self._add(
                ToolResult(
                    status="timeout" if late else "pending",
                    basis="sender",
                    job_handle=handle,
                    observation=_delivered(command),
                    error=f"no answer within {command.limit_s} s; it may still run"
                    if late
                    else None,
                ),
                **ids,
            )
            self._ask_later(command, ids | {"reserved": reserved})
            return
        if command.fate == "silent":
            return
        done = command.exit_code == 0
        self._add(
            ToolResult(
                status="succeeded" if done else "failed",
                basis="sender",
                observation=command.output,
                exit_code=command.exit_code,
                error=None if done else f"the command ended with {command.exit_code}",
                workspace=command.change,
            ),
            **ids,
        )
        self._pass(1)
        self._settle_compute(ids, reserved, command.took_ms, "wall time of the command")
        if command.fate == "dispute":
            self._ask_later(command, ids)

    def _ask_later(self, command: _Command, ids: dict[str, str]) -> None:
        if command.resolved_after is None:
            return

        def ask() -> None:
            self._query(command, ids, command.proof)

        self.owed.append((self.step + command.resolved_after, ask))

    def _query(self, command: _Command, ids: dict[str, str], proof: str) -> None:
        """Somebody asks the other side what became of it."""
        reserved = ids.get("reserved")
        named = {key: value for key, value in ids.items() if key != "reserved"}
        self._add(ToolResult(status=command.revealed, basis="query", proof=proof), **named)
        if reserved is not None:
            self._pass(1)
            used = {"timeout": command.limit_s * 1000, "pending": 700}.get(command.fate, 0)
            self._settle_compute(named, reserved, used, proof)

    def _settle_compute(
        self, ids: dict[str, str], reserved: str, used_ms: int, evidence: str
    ) -> None:
        self._add(
            BudgetSettled(
                actual=(Actual("compute", "ms", used_ms),),
                reservation_event=reserved,
                meter="runtime",
                evidence=evidence,
            ),
            **ids,
        )

    def _settle_what_is_due(self, *, everything: bool = False) -> None:
        due = [act for turn, act in self.owed if everything or turn <= self.step]
        self.owed = [(turn, act) for turn, act in self.owed if turn > self.step and not everything]
        for act in due:
            self._pass(300)
            act()

    # ---- context and plan ----------------------------------------------------------------------

    def _compact(self) -> None:
        red = sum(self.red.values())
        self.summary = (
            f"{self.cases:,} tests looked at, {self.commits:,} repairs committed, {red:,} tests "
            "still red. Most faults repeat: stale entries, naive times, locale, order, ranges, "
            "timeouts."
        )
        self._add(
            Compacted(summary=self.summary, written_by=self.invocation, dropped=self.messages)
        )
        self.manifest = hashlib.sha256()
        self.messages, self.cached_tokens, self.new_tokens, self.fresh = 0, 0, 0, []

    def _plan(self, case: _Case) -> None:
        self.plan += 1
        n = self.plan
        items = (
            PlanItem(
                id=f"r{n}.1", text=f"the next 25 red tests, from {case.module}", status="doing"
            ),
            PlanItem(id=f"r{n}.2", text="run the whole build", depends_on=(f"r{n}.1",)),
            PlanItem(id=f"r{n}.3", text="push what is repaired", depends_on=(f"r{n}.2",)),
        )
        red = sum(self.red.values())
        self._add(PlanChanged(revision=n, items=items, reason=f"{red:,} tests are red"))

    def _control(self, to: str, came_from: str, reason: str) -> None:
        self._pass(50)
        self._add(
            ControlChanged(
                to_state="PAUSED" if to == "PAUSED" else "RUNNING",
                from_state="PAUSED" if came_from == "PAUSED" else "RUNNING",
                requested_by="operator",
                reason=reason,
            )
        )

    # ---- events --------------------------------------------------------------------------------

    def _pass(self, ms: int) -> None:
        self.clock += ms * _MS

    def _add(
        self,
        payload: Payload,
        *,
        operation_id: str | None = None,
        attempt_id: str | None = None,
        invocation_id: str | None = None,
    ) -> str:
        self.number += 1
        event_id = f"demo.{self.number:07d}"
        self.batch.append(
            Draft(
                event_id,
                payload,
                self.clock,
                self.step,
                operation_id,
                attempt_id,
                invocation_id,
            )
        )
        return event_id


def _ends_ms(command: _Command) -> int:
    """How long after its intent the sender hears of it."""
    if command.fate == "timeout":
        return command.limit_s * 1000
    if command.fate == "pending":
        return 700
    return command.took_ms + 4


def _delivered(command: _Command) -> str:
    """What the model is told of it."""
    if command.fate == "timeout":
        return f"no answer within {command.limit_s} s"
    if command.fate == "pending":
        return "queued"
    if command.fate in ("lost", "silent"):
        return "no answer"
    return command.output or f"exit code {command.exit_code}"
