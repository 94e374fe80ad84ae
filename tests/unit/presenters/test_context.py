"""Delivered inputs compared: every message of both calls stands in exactly one row."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from app.presenters import context
from app.presenters.context import Entry, Step
from core.canonical import digest_text, sha256
from core.events.fields import MessageRef

ROLES = ("system", "user", "assistant", "tool")


def entries(texts: list[tuple[str, str]], first: int = 1) -> list[Entry]:
    return [
        Entry(number, MessageRef(role, digest_text(sha256(text.encode())), len(text), text=text), 1)
        for number, (role, text) in enumerate(texts, first)
    ]


MESSAGES = st.lists(st.tuples(st.sampled_from(ROLES), st.sampled_from("abcdef")), max_size=14)


@given(st.integers(0, 5), MESSAGES, MESSAGES)
def test_every_message_is_in_one_row(
    kept: int, old: list[tuple[str, str]], new: list[tuple[str, str]]
) -> None:
    before, after = entries(old, kept + 1), entries(new, kept + 1)
    found = context.compare(kept, before, after)
    listed = [step.entry.number for step in found.steps if step.change != "dropped"]
    assert listed == [entry.number for entry in after]
    gone = [step.entry.number for step in found.steps if step.change == "dropped"]
    changed = [step.old.number for step in found.steps if step.old is not None]
    same = found.number("same") - kept
    assert len(gone) + len(changed) + same == len(before)
    assert len(set(gone) | set(changed)) == len(gone) + len(changed)
    for step in found.steps:
        if step.change == "changed":
            assert step.old is not None and step.old.ref.role == step.entry.ref.role
    assert sum(found.number(c) for c in ("same", "new", "changed")) == kept + len(after)


def test_a_message_of_the_same_role_in_the_same_place_changed() -> None:
    old = entries([("user", "a"), ("tool", "long"), ("user", "z")])
    new = entries([("user", "a"), ("tool", "cut"), ("user", "z"), ("assistant", "b")])
    found = context.compare(0, old, new)
    assert [step.change for step in found.steps] == ["same", "changed", "same", "new"]


def test_a_summary_in_place_of_messages_drops_them() -> None:
    old = entries([("user", "a"), ("tool", "b"), ("tool", "c"), ("user", "z")])
    new = entries([("user", "a"), ("summary", "s"), ("user", "z")])
    found = context.compare(0, old, new)
    changes = {(step.change, step.entry.ref.text) for step in found.steps}
    assert changes == {
        ("same", "a"), ("new", "s"), ("dropped", "b"), ("dropped", "c"), ("same", "z"),
    }  # fmt: skip


def test_too_many_differences_are_not_called_a_comparison() -> None:
    many = entries([("user", str(n)) for n in range(context.DIFFERING_MAX + 1)])
    found = context.compare(3, many, many)
    assert found.why and found.kept == 3


def test_long_unchanged_stretches_are_folded() -> None:
    same = [Step("same", entry) for entry in entries([("user", str(n)) for n in range(20)])]
    new = Step("new", entries([("user", "new")], 21)[0])
    folded = context.folded([*same, new], only_changes=False)
    assert folded == [same[0], (2, 19), same[19], new]
    assert context.folded([*same, new], only_changes=True) == [(1, 20), new]
    assert context.folded(same[:3], only_changes=False) == same[:3]


def test_a_changed_text_shows_the_lines_that_differ() -> None:
    old = "\n".join(["head", *"abcdef", "old line", "tail"])
    new = old.replace("old line", "new line")
    runs = context.line_diff(old, new)
    assert [(run.css, run.text) for run in runs if run.css] == [
        ("del", "- old line"),
        ("ins", "+ new line"),
    ]
    assert "… 5 lines the same …" in runs[0].text


def test_what_a_reply_repeats_is_names_and_numbers() -> None:
    words = context.telling_words(
        "I looked into src/_pytest/logging.py: records.clear() there, see ABC1234. Finished."
    )
    assert "src/_pytest/logging.py" in words and "ABC1234" in words
    assert "looked" not in words and "Finished" not in words
    text = "FAILED src/_pytest/logging.py::test"
    assert context.repeated(words, text) == ("src/_pytest/logging.py",)


def test_shares_add_up() -> None:
    found = context.shares(entries([("user", "aa"), ("tool", "bbbbbb"), ("user", "cc")]))
    assert [(s.role, s.messages, s.length, s.width) for s in found] == [
        ("user", 2, 4, "40.00%"),
        ("tool", 1, 6, "60.00%"),
    ]
