"""Instants: integer microseconds since 1970-01-01 UTC, the only time the core knows."""

from __future__ import annotations

import datetime as dt

Instant = int

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


def to_datetime(instant: Instant) -> dt.datetime:
    """The instant as an aware UTC datetime; OverflowError outside years 1 to 9999."""
    return _EPOCH + dt.timedelta(microseconds=instant)


def from_datetime(moment: dt.datetime) -> Instant:
    """Microseconds of an aware datetime; ValueError for a naive one, which names no instant."""
    if moment.tzinfo is None:
        raise ValueError("a naive time names no instant")
    return (moment - _EPOCH) // dt.timedelta(microseconds=1)


def format_utc(instant: Instant) -> str:
    """`2026-11-29 17:46:47.123456 UTC`, always with six decimals so that columns align."""
    return to_datetime(instant).strftime("%Y-%m-%d %H:%M:%S.%f UTC")
