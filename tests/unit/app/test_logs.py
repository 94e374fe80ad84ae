"""A log that cannot be written loses lines, says how many, and never fails what it tells of."""

from __future__ import annotations

import errno
import io
import sys

import pytest

from app import logs


class _Disk(io.StringIO):
    full = True

    def write(self, text: str) -> int:
        if self.full:
            raise OSError(errno.ENOSPC, "no space left on device")
        return super().write(text)


def test_lines_that_could_not_be_written_are_counted_by_the_next(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    disk = _Disk()
    monkeypatch.setattr(sys, "stderr", disk)
    logger = logs._lines()
    logger.msg("first")
    logger.msg("second")
    disk.full = False
    logger.msg("third")
    logger.msg("fourth")
    assert disk.getvalue().splitlines() == [
        '{"event":"log lines could not be written: 2"}',
        "third",
        "fourth",
    ]
