"""Progress, control, ownership, plan, context, workspace, approvals and recovery."""

from __future__ import annotations

from typing import Any

import pytest

from core.events.approval import ApprovalRequested, ApprovalResolved
from core.events.checkpoint import Checkpoint
from core.events.context import RuntimeInput
from core.events.control import ControlChanged, PlanChanged, PlanItem
from core.events.fields import Change, Usage, WorkspaceChange
from core.events.model_call import ContextBuilt, ModelReplied
from core.events.ownership import OwnershipGranted, Resumed, SetBack
from core.events.task import TaskStarted
from core.events.tool import ToolIntent, ToolResult
from core.limits import (
    EVENT_TYPES_MAX,
    PLAN_ITEMS_MAX,
    RECORD_NAME_CHARS_MAX,
    RECORD_TEXT_CHARS_MAX,
)
from core.record import snapshot
from core.record.record import Approval, TrajectoryRecord, Workspace
from core.record.reduce import OTHER_TYPES, empty, fold
from tests.strategies import Said, store

D = "sha256:" + "a" * 64


def record_of(*said: Said) -> TrajectoryRecord:
    return fold(empty("t-1"), store(said).pairs(), lambda digest: b"")


def context(invocation: str, step: int | None = None, retry_of: str | None = None) -> Said:
    payload = ContextBuilt(D, 3, retry_of=retry_of)
    return Said("ContextBuilt", payload, invocation_id=invocation, step=step)


def steps(*said: Said) -> tuple[int, int, int]:
    progress = record_of(*said).progress
    return progress.step, progress.high_water, progress.executed


def fallback(step: int, **more: Any) -> Said:
    return Said("Resumed", Resumed(14, set_back=SetBack(step, **more)), issuer="service")


def test_a_step_begins_with_a_context_that_is_no_retry() -> None:
    assert steps(context("a")) == (1, 1, 1)
    assert steps(context("a", 1), context("b", 1, "a"), context("c", 2)) == (2, 2, 2)
    # The same step stated again belongs to it; an earlier one lowers nothing.
    assert steps(context("a", 1), context("b", 1)) == (1, 1, 1)
    assert steps(context("a", 5), context("b", 2)) == (5, 5, 1)


def test_only_a_fallback_lowers_the_step_and_what_was_executed_stays() -> None:
    said = [context("a", 1), context("b", 2), context("c", 3)]
    assert steps(*said, Said("Resumed", Resumed(3), issuer="service")) == (3, 3, 3)
    assert steps(*said, fallback(1)) == (1, 3, 3)
    assert steps(*said, fallback(1), context("d", 2)) == (2, 3, 4)


def test_a_fallback_sets_back_by_value_and_leaves_the_rest() -> None:
    said = [
        Said("TaskStarted", TaskStarted("t", "gated", workspace="tree-1")),
        Said("OwnershipGranted", OwnershipGranted("i", 1, "w-1", "start"), issuer="service"),
        Said("ToolIntent", ToolIntent("intent", "bash"), operation_id="op", attempt_id="1"),
        context("a", 1),
        Said("PlanChanged", PlanChanged(2, (PlanItem("a", "now"),))),
        Said("Checkpoint", Checkpoint(3, D, D, 1, 1), issuer="service"),
        Said("Checkpoint", Checkpoint(6, D, D, 1, 2), issuer="service"),
        Said("ApprovalRequested", ApprovalRequested("open", "bash"), operation_id="op"),
        Said("OwnershipGranted", OwnershipGranted("i", 2, "w-2", "expiry"), issuer="service"),
        Said(
            "Resumed",
            Resumed(
                3,
                base_checkpoint="1.1",
                abandoned_from=4,
                set_back=SetBack(0, 1, (PlanItem("a", "then"),), None, "tree-0"),
            ),
            issuer="service",
        ),
    ]
    before, after = record_of(*said[:-1]), record_of(*said)
    assert after.operations == before.operations
    assert after.budget == before.budget
    assert after.ownership == before.ownership
    assert after.control == before.control
    assert (after.plan.revision, after.plan.items[0].text) == (1, "then")
    assert after.workspace == Workspace("tree-0", "captured", 10)
    assert after.context.invocation_id is None
    assert after.approvals.open == {}
    assert after.approvals.by_decision == {"void": 1}
    assert (after.recovery.abandoned_from, after.recovery.abandoned_to) == (4, 8)
    # The checkpoint beyond the target has left the lineage.
    assert before.recovery.head_checkpoint_seq == 2
    assert (after.recovery.head_checkpoint_seq, after.recovery.head_covers) == (1, 3)


def test_checkpoints_are_ordered_by_generation_first() -> None:
    said = [
        Said("Checkpoint", Checkpoint(5, D, D, 2, 1), issuer="service"),
        Said("Checkpoint", Checkpoint(9, D, D, 1, 7), issuer="service"),
    ]
    recovery = record_of(*said).recovery
    assert (recovery.checkpoints, recovery.head_generation, recovery.head_covers) == (2, 2, 5)


def test_control_epoch_rises_with_every_change_and_terminal_states_settle_nothing() -> None:
    intent = Said("ToolIntent", ToolIntent("intent", "bash"), operation_id="op")
    changes = [Said("ControlChanged", ControlChanged(state)) for state in ("PAUSED", "CANCELLED")]
    record = record_of(intent, *changes)
    assert (record.control.state, record.control.control_epoch) == ("CANCELLED", 2)
    assert record.operations.unsettled == 1


def test_the_stamp_that_counts_is_the_intents() -> None:
    pause = Said("ControlChanged", ControlChanged("PAUSED"))
    intent = Said("ToolIntent", ToolIntent("intent", "bash"), operation_id="op")
    record = record_of(intent, context("a"), pause, context("b"))
    assert record.operations.open["op"].attempts[0].control_epoch == 0
    assert (record.calls.open["a"].control_epoch, record.calls.open["b"].control_epoch) == (0, 1)


def test_evidence_and_grants_leave_record_version() -> None:
    grant = Said("OwnershipGranted", OwnershipGranted("i", 1, "w", "start"), issuer="service")
    intent = Said("ToolIntent", ToolIntent("intent", "bash"), operation_id="op")
    result = Said("ToolResult", ToolResult("succeeded", "sender"), operation_id="op")
    plan = Said("PlanChanged", PlanChanged(1, ()))
    assert record_of(grant, intent, result).control.record_version == 0
    assert record_of(grant, intent, plan, result).control.record_version == 1


@pytest.mark.parametrize(
    ("change", "root", "captured"),
    [
        (WorkspaceChange("tree-1", "tree-2"), "tree-2", "delta_known"),
        (WorkspaceChange(None, "tree-2", (Change("f", "deleted"),)), "tree-2", "delta_known"),
        (WorkspaceChange("tree-1", "tree-2", (Change("f", "edited", D),)), "tree-2", "delta_known"),
        (WorkspaceChange("tree-1", "tree-2", (Change("f", "edited"),)), "tree-2", "not_captured"),
        (WorkspaceChange("tree-9", "tree-2"), "tree-2", "not_captured"),
        (WorkspaceChange("tree-1", None, (Change("f", "written", D),)), None, "not_captured"),
    ],
)
def test_a_workspace_is_known_only_while_the_log_has_every_change(
    change: WorkspaceChange, root: str | None, captured: str
) -> None:
    task = Said("TaskStarted", TaskStarted("t", "gated", workspace="tree-1"))
    record = record_of(task, Said("RuntimeInput", RuntimeInput("workspace", workspace=change)))
    assert (record.workspace.root, record.workspace.captured) == (root, captured)


def test_a_granted_approval_is_open_until_its_operation_goes_on() -> None:
    asked = Said("ApprovalRequested", ApprovalRequested("a", "bash"), operation_id="op")
    granted = Said("ApprovalResolved", ApprovalResolved("a", "granted"), issuer="operator")
    intent = Said("ToolIntent", ToolIntent("intent", "bash"), operation_id="op")

    def approval(*said: Said) -> Approval:
        record = record_of(*said)
        return (record.approvals.open | record.archive.recent.approvals)["a"]

    assert not approval(asked).closed
    assert not approval(asked, granted).closed
    assert approval(asked, granted, intent).used
    assert approval(asked, granted, fallback(0)).decision == "void"
    assert approval(asked, granted, intent, fallback(0)).decision == "granted"
    refused = Said("ApprovalResolved", ApprovalResolved("a", "refused"), issuer="operator")
    assert approval(asked, refused).closed
    assert record_of(granted).approvals.unmatched == 1


def test_a_late_reply_is_a_sample_under_its_own_invocation() -> None:
    def reply(invocation: str, text: str) -> Said:
        payload = ModelReplied("completed", text=text, usage=Usage(10, 1))
        return Said("ModelReplied", payload, invocation_id=invocation)

    record = record_of(
        context("a", 1), context("b", 1, "a"), reply("b", "second"), reply("a", "first, late")
    )
    assert record.context.invocation_id == "b"
    assert (record.calls.total, record.calls.replied, record.calls.retries) == (2, 2, 1)
    assert record.calls.tokens.input == 20
    again = record_of(context("a"), reply("a", "one"), reply("a", "another"))
    assert again.archive.recent.calls["a"].reply_sequence == 2
    assert (again.calls.total, again.calls.replied) == (1, 2)


def test_a_reply_without_usage_is_counted_as_such() -> None:
    tokens = record_of(Said("ModelReplied", ModelReplied("completed"))).calls.tokens
    assert (tokens.input, tokens.unreported) == (0, 1)


def test_a_further_part_of_a_reply_adds_its_tokens_and_no_reply() -> None:
    def part(tokens: int, *, continues: bool) -> Said:
        usage = Usage(input=0, output=tokens)
        payload = ModelReplied("completed", "m-1", usage=usage, continues=continues)
        return Said("ModelReplied", payload, invocation_id="a")

    calls = record_of(context("a"), part(10, continues=False), part(5, continues=True)).calls
    assert (calls.replied, calls.tokens.output) == (1, 15)
    assert calls.tokens_by_model["m-1"].output == 15
    # A later, other sample under the same invocation is a reply of its own.
    assert record_of(part(10, continues=False), part(5, continues=False)).calls.replied == 2


def test_a_title_holds_from_where_it_was_given() -> None:
    task = Said("TaskStarted", TaskStarted(title="first words", standing="imported"))
    named = Said("RuntimeInput", RuntimeInput(kind="title", text="Repair the parser"))
    other = Said("RuntimeInput", RuntimeInput(kind="message", text="not a title"))
    assert record_of(task).scope.title == "first words"
    assert record_of(task, named, other).scope.title == "Repair the parser"


def test_tokens_by_model_never_exceed_the_total() -> None:
    def reply(model: str | None) -> Said:
        return Said("ModelReplied", ModelReplied("completed", model, usage=Usage(7, 1)))

    calls = record_of(reply("a"), reply("b"), reply(None), reply("a")).calls
    assert {name: told.input for name, told in calls.tokens_by_model.items()} == {"a": 14, "b": 7}
    assert calls.tokens.input == 28


def test_what_a_record_takes_over_is_bounded() -> None:
    long = "x" * 100_000
    said = [
        Said("TaskStarted", TaskStarted(long, "gated", agent=long, workspace=long)),
        Said("ControlChanged", ControlChanged("PAUSED", reason=long, detail=long)),
        Said("PlanChanged", PlanChanged(1, (PlanItem("a", long),) * (2 * PLAN_ITEMS_MAX))),
        Said("ApprovalRequested", ApprovalRequested(long, long)),
        Said("ToolIntent", ToolIntent("intent", long), operation_id="op"),
    ]
    notes = [Said(f"note.{number}", {}) for number in range(2 * EVENT_TYPES_MAX)]
    record = record_of(*said, *notes)
    assert len(record.scope.title) == RECORD_TEXT_CHARS_MAX
    assert (len(record.plan.items), record.plan.cut) == (PLAN_ITEMS_MAX, True)
    assert len(next(iter(record.approvals.open))) <= RECORD_NAME_CHARS_MAX
    assert len(record.event_counts) == EVENT_TYPES_MAX + 1
    assert record.event_counts[OTHER_TYPES] > EVENT_TYPES_MAX // 2
    assert len(snapshot.encode(record)) < 1_200 * PLAN_ITEMS_MAX


def test_the_first_statement_of_what_a_trajectory_is_stands() -> None:
    said = [Said("TaskStarted", TaskStarted(title, "gated")) for title in ("first", "second")]
    record = record_of(*said)
    assert (record.scope.title, record.event_counts["TaskStarted"]) == ("first", 2)


def test_a_record_holds_no_grade() -> None:
    import msgspec

    from core.record import record as shapes

    grades = {"established", "in_flight", "in_doubt", "not_dispatched", "expired"}
    for shape in vars(shapes).values():
        if isinstance(shape, type) and issubclass(shape, msgspec.Struct):
            assert not grades & set(shape.__struct_fields__)


def test_notes_and_unparsed_fold_to_their_count_alone() -> None:
    from msgspec.structs import replace

    from core.events.source import Unparsed

    record = record_of(Said("note.x", {"a": 1}), Said("Unparsed", Unparsed("line 1", "torn")))
    assert record.unparsed == 1
    bare = replace(record, event_counts={}, unparsed=0, boundary=0, last_recorded_at=None)
    assert bare == empty("t-1")


@pytest.mark.parametrize(
    ("type_", "version", "known"),
    [
        ("ToolResult", 1, True),
        ("ToolResult", 2, False),
        ("ToolResult", 0, False),
        ("toolresult", 1, False),
        ("note.x", 7, True),
        ("note.", 1, False),
        ("notes.x", 1, False),
    ],
)
def test_a_type_and_version_is_known_or_not_at_all(type_: str, version: int, known: bool) -> None:
    from core.errors import UnknownType
    from core.events import registry
    from core.record import lean

    assert registry.is_known(type_, version) is known
    payload = b'{"status":"failed","basis":"sender"}'
    if known:
        registry.decode(type_, version, payload)
        assert lean.decode(type_, version, payload) is not None
    else:
        with pytest.raises(UnknownType):
            registry.decode(type_, version, payload)
        assert lean.decode(type_, version, payload) is None


def test_a_payload_that_fits_no_schema_blocks_like_an_unknown_type() -> None:
    from core.record.reduce import fold_rows

    log = store([Said("note.x", {}), Said("note.x", {"status": 7})])
    broken = [log.events[0], _with_type(log.events[1], "ToolResult")]
    record = fold_rows(empty("t-1"), broken, lambda digest: b"", log.read)
    assert record.blocked is not None
    assert record.blocked.sequence_number == 2


def _with_type(event: Any, type_: str) -> Any:
    from msgspec.structs import replace

    return replace(event, type=type_)
