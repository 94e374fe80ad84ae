"""A command run in this process: the same entry, without a second start of Python for each."""

from __future__ import annotations

import contextlib
import io
import logging
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from unittest import mock

import structlog

from app import cli
from tests.served import Finished


class _Out(io.TextIOWrapper):
    """Standard output as a file: no terminal, with a buffer for bytes."""

    def __init__(self) -> None:
        super().__init__(io.BytesIO(), encoding="utf-8", write_through=True)

    def text(self) -> str:
        """What was written."""
        self.flush()
        assert isinstance(self.buffer, io.BytesIO)
        return self.buffer.getvalue().decode()


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    try:
        yield
    finally:
        structlog.reset_defaults()
        logging.getLogger().handlers.clear()


def run(*arguments: str | Path, env: Mapping[str, str] | None = None) -> Finished:
    """Run one command; how it ended and what it said."""
    out, err = _Out(), _Out()
    with (
        _quiet(),
        mock.patch.dict(os.environ, dict(env or {})),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        code = cli._run([str(argument) for argument in arguments])
    done = Finished(code, out.text(), err.text())
    assert "strandline: a fault of this program" not in done.err, done.err
    assert "database is locked" not in done.out + done.err
    return done
