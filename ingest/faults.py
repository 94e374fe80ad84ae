"""Defects of an importer that a source brings to light: they cost that source, and nothing else.

INVARIANT
1. Whatever an importer raises that is no error of ours becomes the refusal of the source that it
   was reading, with the line where it can be told, and stands in the log with its traceback.
"""

from __future__ import annotations

import logging

from core.errors import ImportRefused

#: The program decides where this goes: a server's log; nowhere, for a command that is not debugged.
_LOG = logging.getLogger("strandline.imports")
REASON = "fault"


def refusal(
    error: Exception, name: str, *, line: int | None = None, last: int | None = None
) -> ImportRefused:
    """The refusal of the source that is shown as `name`; `last`: it is some line up to that one."""
    _LOG.error("importer failed on %s", name[-200:], exc_info=error)
    at = ""
    if line is not None:
        at = f" at line {line}" if last in (None, line) else f" between lines {line} and {last}"
    return ImportRefused(
        f"the importer met something it was not made for{at} ({type(error).__name__}); please "
        "report it",
        where="the whole file" if line is None else f"line {line}",
        line=line,
        reason=REASON,
    )
