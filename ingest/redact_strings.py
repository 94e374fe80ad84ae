"""Which JSON string of its line a byte stands in, asked in rising order."""

from __future__ import annotations

import re

_STRING = re.compile(rb'"[^"\\\n]*+(?:\\[^\n][^"\\\n]*+)*+"?')


class Strings:
    """The strings of some bytes, line by line; one pass over them answers questions that rise.

    A line of JSON begins outside of every string, since none holds a line's end.
    """

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0
        """Outside of every string, or the first byte of the one that was found last."""

    def around(self, place: int) -> tuple[int, int] | None:
        """(its opening quote, one past its closing one) of the string that holds `place`."""
        if place < self._at:
            self._at = 0
        line = self._data.rfind(b"\n", self._at, place)
        if line >= 0:
            self._at = line + 1
        while (match := _STRING.search(self._data, self._at, place + 1)) is not None:
            whole = _STRING.match(self._data, match.start())
            assert whole is not None
            if whole.end() > place:
                self._at = whole.start()
                return whole.span()
            self._at = whole.end()
        return None
