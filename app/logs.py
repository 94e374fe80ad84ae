"""Structured logs on standard error, with the request id and without secrets: one JSON object a
line, or on a terminal a line that a person reads.

Redaction is best effort by pattern: it hides what looks like a credential, and cannot know one
that looks like a word.
"""

from __future__ import annotations

import logging
import re
import sys
from collections.abc import Mapping, MutableMapping
from contextvars import ContextVar
from typing import Any, Literal

import orjson
import structlog

from app.presenters.terminal import one_line

_SECRET = re.compile(
    r"(?i)(\b(?:authorization[\"']?\s*[:=]\s*[\"']?)?(?:bearer|basic)\s+)[A-Za-z0-9+/=._~-]{6,}"
    r"|(\b(?:api[_-]?key|token|secret|passw(?:or)?d|authorization|cookie)[\"']?\s*[:=]\s*[\"']?)"
    r"[^\s\"',;&]{6,}"
    r"|\b(?:stl_|sk-|gh[pousr]_|xox[abp]-|AKIA)[A-Za-z0-9_-]{12,}"
    r"|\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*"
    r"|(://[^/\s:@]+:)[^/\s@]+(?=@)"
)
#: Id of the request that is served, in every line that is logged for it.
request_id: ContextVar[str] = ContextVar("request_id", default="")
_LEVELS = {"debug": 10, "info": 20, "warning": 30, "error": 40}
_level = 20


def redact(text: str) -> str:
    """The text with what looks like a credential replaced by `[redacted]`."""
    return _SECRET.sub(lambda m: (m[1] or m[2] or m[3] or "") + "[redacted]", text)


def debugging() -> bool:
    """Whether lines of level debug are written."""
    return _level <= 10


def configure(
    level: Literal["debug", "info", "warning", "error"] = "info",
    style: Literal["auto", "json", "text"] = "json",
) -> None:
    """Send our lines and those of the libraries through one chain to standard error."""
    global _level  # noqa: PLW0603  # one process, one log
    _level = _LEVELS[level]
    shared: list[Any] = [
        _with_request,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.format_exc_info,
        _redacted,
    ]
    renderer: Any = (
        structlog.processors.JSONRenderer(serializer=_json)
        if style == "json" or (style == "auto" and not sys.stderr.isatty())
        else _line
    )
    structlog.configure(
        processors=[*shared, renderer],
        wrapper_class=structlog.make_filtering_bound_logger(_level),
        logger_factory=_lines,
        cache_logger_on_first_use=False,
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, renderer],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(max(_level, logging.INFO))
    for name in ("uvicorn", "uvicorn.error", "uvicorn.access"):
        logger = logging.getLogger(name)
        logger.handlers.clear()
        logger.propagate = name != "uvicorn.access"
    # It tells each step of what one line of ours says: that the store was made.
    logging.getLogger("alembic").setLevel(logging.WARNING)
    # Its lines name each start and stop at level info; ours say the same with the URL.
    logging.getLogger("uvicorn.error").setLevel(logging.WARNING)


def _line(_logger: Any, _method: str, line: MutableMapping[str, Any]) -> str:
    """A line for a person: time, level where it matters, what, and its values."""
    time = str(line.pop("timestamp", ""))[11:19]
    level, event = str(line.pop("level", "info")), one_line(str(line.pop("event", "")), 500)
    exception = line.pop("exception", None)
    values = " ".join(f"{key}={one_line(str(value), 300)}" for key, value in line.items())
    head = " ".join(part for part in (time, "" if level == "info" else level, event) if part)
    text = f"{head}  {values}" if values else head
    return f"{text}\n{exception}" if exception else text


def _with_request(
    _logger: Any, _method: str, line: MutableMapping[str, Any]
) -> MutableMapping[str, Any]:
    current = request_id.get()
    if current:
        line.setdefault("request_id", current)
    return line


def _redacted(
    _logger: Any, _method: str, line: MutableMapping[str, Any]
) -> MutableMapping[str, Any]:
    for key, value in line.items():
        line[key] = _plain(value)
    return line


def _plain(value: Any) -> Any:
    if isinstance(value, str):
        return redact(value)
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value


def _json(value: Any, **_: Any) -> str:
    return orjson.dumps(value, default=str).decode("utf-8", "replace")


class _Lines:
    """Prints lines; one that cannot be written (its disk is full, nobody reads) is lost, and never
    the request that it tells of. The next that can be written is preceded by how many were."""

    lost = 0

    def __init__(self) -> None:
        self._inner = structlog.PrintLogger(sys.stderr)

    def msg(self, message: str) -> None:
        """One line."""
        try:
            if _Lines.lost:
                self._inner.msg(f'{{"event":"log lines could not be written: {_Lines.lost}"}}')
                _Lines.lost = 0
            self._inner.msg(message)
        except (OSError, ValueError):
            _Lines.lost += 1

    log = debug = info = warning = warn = error = critical = exception = fatal = failure = err = msg


def _lines(*_: object) -> _Lines:
    return _Lines()
