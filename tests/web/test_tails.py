"""Readers of tails over the store's own notices: one number owed, places bounded, nobody idle."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any

import pytest

from app.tails import Tails
from core.errors import Busy
from core.limits import STREAMS_PER_CALLER_MAX
from store.notices import Hub


def run(story: Coroutine[Any, Any, None]) -> None:
    """A story in a loop of its own, and no thread of it left at the end."""
    before = set(threading.enumerate())
    asyncio.run(story)
    for thread in set(threading.enumerate()) - before:
        if thread.name == "tails":
            thread.join(5)
            assert not thread.is_alive()


def followers(hub: Hub) -> int:
    return len(hub._followers)


def test_a_reader_that_waits_is_woken_once_for_all_that_came_meanwhile() -> None:
    async def story() -> None:
        hub = Hub()
        tails = Tails(hub.subscribe)
        with tails.reading(("local", "t1"), "a") as reader:
            for head in range(1, 500):
                hub.announce([(("local", "t1"), head)])
            assert await reader.wait(5)
            # What came after the first notice woke it too, at most once more.
            await asyncio.sleep(0.3)
            await reader.wait(0.05)
            assert not await reader.wait(0.05)

    run(story())


def test_only_readers_of_what_moved_are_woken() -> None:
    async def story() -> None:
        hub = Hub()
        tails = Tails(hub.subscribe)
        with (
            tails.reading(("local", "t1"), "a") as one,
            tails.reading(("local", "t2"), "a") as other,
            tails.reading(("local", None), "a") as all_,
            tails.reading(("foreign", None), "a") as foreign,
        ):
            hub.announce([(("local", "t1"), 1)])
            assert await one.wait(5) and await all_.wait(5)
            assert not await other.wait(0.05) and not await foreign.wait(0.05)

    run(story())


def test_places_are_bounded_for_each_caller_and_given_back() -> None:
    async def story() -> None:
        tails = Tails(Hub().subscribe)
        places = [tails.reading(("local", "t"), "a") for _ in range(STREAMS_PER_CALLER_MAX)]
        for place in places:
            place.__enter__()
        with pytest.raises(Busy):
            tails.reading(("local", "t"), "a").__enter__()
        with tails.reading(("local", "t"), "b"):
            assert tails.count == STREAMS_PER_CALLER_MAX + 1
        places.pop().__exit__(None, None, None)
        with tails.reading(("local", "t"), "a"):
            pass
        for place in places:
            place.__exit__(None, None, None)
        assert tails.count == 0

    run(story())


def test_nothing_follows_the_store_while_nobody_reads() -> None:
    async def story() -> None:
        hub = Hub()
        tails = Tails(hub.subscribe)
        assert followers(hub) == 0
        with tails.reading(("local", "t1"), "a"), tails.reading(("local", "t2"), "b"):
            assert followers(hub) == 1
        assert followers(hub) == 0
        with tails.reading(("local", "t1"), "a") as reader:
            hub.announce([(("local", "t1"), 7)])
            assert await reader.wait(5)

    run(story())


def test_every_reader_is_told_when_the_server_stops() -> None:
    async def story() -> None:
        hub = Hub()
        tails = Tails(hub.subscribe)
        with tails.reading(("local", "t1"), "a") as reader:
            tails.end()
            assert await reader.wait(5) and reader.ended
            assert followers(hub) == 0
            # One that came too late ends too.
            with tails.reading(("local", "t1"), "a") as late:
                assert late.ended and followers(hub) == 0

    run(story())
