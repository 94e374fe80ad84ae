"""Where SWE-agent's own words say that a command did not do what it was asked.

The program records no exit code, only what the command printed. Some of what it prints are
sentences of its own: its editor refuses an edit, its tools were called wrongly, it refuses an
interactive program, the shell knows no such command, or the time was over. Only these count, only
where they stand at the beginning (those of a command that was given up: at the end), and those of a
tool only after a call of that tool: a file that is shown may hold the same words.
"""

from __future__ import annotations

import re

#: Tools of SWE-agent, by the word a command begins with.
_TOOLS = frozenset(
    "create edit edit_linting filemap find_file goto insert open scroll_down scroll_up search_dir "
    "search_file set_cursors str_replace_editor submit undo_edit view_image".split()
)
_EDITORS = frozenset({"create", "edit", "edit_linting", "insert", "str_replace_editor"})
_OF_EDITORS = (
    "Your proposed edit has introduced new syntax error",
    "Your edit was not applied",
    "No replacement was performed",
)
_OF_TOOLS = re.compile(
    r"Usage: |ERROR:\s|Error: |No file open\. Use the |Invalid `[a-z_]+` parameter"
    r"|(?:File|Directory) \S.{0,300} not found\b"
)
#: Said by the program before a command of any kind runs.
_OF_PROGRAM = re.compile(
    r"Your (?:bash )?command contained syntax errors|Invalid command\b"
    r"|(?:Interactive o|O)peration '[^'\n]{0,300}' is not supported by this environment"
)
_NOT_FOUND = re.compile(
    r"(?:/\S{0,80}/)?(?:ba|da|z)?sh: (?:line \d+: |\d+: )?(\S{1,200}): (?:command )?not found"
)
_GIVEN_UP = (
    "COMMAND FAILED TO EXECUTE. RESTARTING PROCESS.",
    "EXECUTION FAILED OR COMMAND MALFORMED",
)
_TIMED_OUT = "EXECUTION TIMED OUT"
_CANCELLED = re.compile(r"The command '.{0,4000}' was cancelled because", re.DOTALL)
#: How an observation is headed where only the history holds it.
_HEADING = re.compile(r"^(?:OBSERVATION|Observation):\s*")
_QUOTED_CHARS = 200
#: Named in the report beside how many results it decided.
RULE = "SWE-agent's own words at the beginning or end of the observation"


def timed_out(observation: str) -> bool:
    """Whether the program says that it ended the command for taking too long."""
    said = _HEADING.sub("", observation.strip(), count=1)
    return (
        said.startswith(_TIMED_OUT)
        or said.endswith("\n" + _TIMED_OUT)
        or _CANCELLED.match(said) is not None
    )


def refused(action: str, observation: str) -> str | None:
    """The words that say that a command was rejected or failed; None where nothing says so."""
    said = _HEADING.sub("", observation.strip(), count=1)
    word = action.split(maxsplit=1)[0] if action.strip() else ""
    if (
        _OF_PROGRAM.match(said)
        or said.endswith(_GIVEN_UP)
        or (word in _EDITORS and said.startswith(_OF_EDITORS))
        or (word in _TOOLS and _OF_TOOLS.match(said))
        or _is_unknown(word, said)
    ):
        line = said.splitlines()[-1 if said.endswith(_GIVEN_UP) else 0]
        return line[:_QUOTED_CHARS]
    return None


def _is_unknown(word: str, said: str) -> bool:
    """Whether all that was printed is that the shell does not know the command."""
    found = _NOT_FOUND.fullmatch(said)
    return found is not None and found.group(1) == word
