"""Who goes first in front of object stores, and when; in virtual time."""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any

import pytest

from stoker_api.origin import OriginNames, OriginShare
from stoker_sidecar.errors import ServerError, Throttled
from stoker_sidecar.fetcher.core.lanes import Lane
from stoker_sidecar.fetcher.download.origin_gate import ON_BEHALF, OriginGate
from tests.support.virtual_time import run_virtual

NAMES = OriginNames("https://s/b", "https://s")
OTHER = OriginNames("https://s/c", "https://s")


@dataclass
class _Asker:
    lane: Lane


@dataclass
class Driven:
    """A gate on a virtual loop: ``went`` has who went and when."""

    gate: OriginGate
    went: list[tuple[str, float]] = field(default_factory=list)

    def ask(
        self, who: str, names: OriginNames = NAMES, size: int = 0, asker: _Asker | None = None
    ) -> asyncio.Task[None]:
        async def enter() -> None:
            ON_BEHALF.set(asker or _Asker(Lane.WARM))
            await self.gate.enter(names, size)
            self.went.append((who, asyncio.get_running_loop().time()))

        return asyncio.create_task(enter())

    @property
    def names(self) -> list[str]:
        return [name for name, _ in self.went]


def driven(test: Callable[[Driven], Coroutine[Any, Any, None]]) -> None:
    async def run() -> None:
        clock = asyncio.get_running_loop().time
        await test(Driven(OriginGate(clock, clock)))

    run_virtual(run())


def share(name: str, *, size: int | None = None, requests: float | None = None) -> OriginShare:
    milli = None if requests is None else int(requests * 1000)
    return OriginShare(name=name, bytes_per_second=size, milli_requests_per_second=milli)


def test_without_shares_nobody_waits() -> None:
    async def test(one: Driven) -> None:
        for _ in range(1000):
            await one.gate.enter(NAMES, 10**9)
        assert asyncio.get_running_loop().time() == 0

    driven(test)


def test_requests_a_second_are_held_to() -> None:
    async def test(one: Driven) -> None:
        one.gate.set_shares([share("https://s/b", requests=10)])
        await asyncio.gather(*(one.ask(str(number)) for number in range(101)))
        assert one.went[-1][1] == pytest.approx(10.0, abs=0.3)
        assert one.names == [str(number) for number in range(101)]

    driven(test)


def test_readers_go_before_warm_up_and_who_becomes_one_moves_up() -> None:
    async def test(one: Driven) -> None:
        one.gate.set_shares([share("https://s/b", requests=1)])
        first, late = one.ask("first"), _Asker(Lane.WARM)
        await first
        tasks = [one.ask("warm"), one.ask("later", asker=late), one.ask("ahead", asker=_Asker(Lane.READAHEAD))]
        tasks.append(one.ask("reader", asker=_Asker(Lane.DEMAND)))
        await tasks[-1]
        late.lane = Lane.DEMAND
        await asyncio.gather(*tasks)
        assert one.names == ["first", "reader", "later", "ahead", "warm"]

    driven(test)


def test_the_caps_of_bucket_endpoint_and_all_hold_together() -> None:
    async def test(one: Driven) -> None:
        one.gate.set_shares([share("https://s", requests=10), share("*", size=500), share("https://s/b", requests=100)])
        await asyncio.gather(*(one.ask(str(number), NAMES if number % 2 else OTHER, 100) for number in range(51)))
        assert one.went[-1][1] == pytest.approx(10.0, abs=0.5)  # 500 bytes a second are 5 requests

    driven(test)


def test_who_is_capped_holds_up_nobody_of_another_bucket() -> None:
    async def test(one: Driven) -> None:
        one.gate.set_shares([share("https://s/b", requests=0.001)])
        await one.ask("b")
        slow = one.ask("slow")
        await asyncio.gather(*(one.ask("c", OTHER) for _ in range(10)))
        assert asyncio.get_running_loop().time() < 1
        slow.cancel()

    driven(test)


def test_a_larger_share_lets_go_who_waits_at_once() -> None:
    async def test(one: Driven) -> None:
        one.gate.set_shares([share("https://s/b", requests=0.01)])
        await one.ask("first")
        waits = one.ask("second")
        await asyncio.sleep(1)
        one.gate.set_shares([])
        await waits
        assert asyncio.get_running_loop().time() < 1.1

    driven(test)


def test_who_gives_up_takes_nothing() -> None:
    async def test(one: Driven) -> None:
        one.gate.set_shares([share("https://s/b", requests=1)])
        await one.ask("first")
        gone = one.ask("gone")
        await asyncio.sleep(0.1)
        gone.cancel()
        await one.ask("next")
        assert one.went[-1][1] <= 1.3
        assert one.gate.counts.waiting == 0

    driven(test)


def test_a_slowdown_slows_that_bucket_alone_and_is_told_of() -> None:
    async def test(one: Driven) -> None:
        loop = asyncio.get_running_loop()
        while loop.time() < 10:
            await one.gate.enter(NAMES, 10)
            await one.gate.enter(OTHER, 10)
            await asyncio.sleep(0.01)
        one.gate.heard(NAMES, Throttled("less"))
        one.gate.heard(OTHER, ServerError("broken"))
        begun = loop.time()
        await asyncio.gather(*(one.gate.enter(NAMES, 10) for _ in range(102)))
        assert 1.5 <= loop.time() - begun <= 2.5
        rows = {row.name: row for row in one.gate.rows()}
        assert rows["https://s/b"].throttled_at == "1970-01-01T00:00:10Z"
        assert rows["https://s/c"].throttled_at is None
        assert rows["https://s/c"].fetching
        assert one.gate.counts.slowdowns == 1

    driven(test)


def test_a_slowdown_is_told_of_although_the_clock_was_set_back_since_the_last() -> None:
    async def test(one: Driven) -> None:
        await one.gate.enter(NAMES, 10)
        one.gate.now = lambda: 7200.0
        one.gate.heard(NAMES, Throttled("less"))
        await asyncio.sleep(20.0)
        await one.gate.enter(NAMES, 10)
        one.gate.now = lambda: 3620.0
        one.gate.heard(NAMES, Throttled("less"))
        assert [row.throttled_at for row in one.gate.rows()] == ["1970-01-01T01:00:20Z"]

    driven(test)


def test_who_has_not_asked_for_a_while_is_said_to_fetch_no_more_and_forgotten() -> None:
    async def test(one: Driven) -> None:
        one.gate.set_shares([share("*", requests=100)])
        await one.gate.enter(NAMES, 10)
        assert [(row.name, row.fetching) for row in one.gate.rows()] == [("https://s/b", True)]
        await asyncio.sleep(31)
        assert one.gate.rows() == ()

    driven(test)


def capped(name: str, requests: int, beginning: int) -> OriginShare:
    """Return a share of so many requests a second, of which every node has ``beginning``."""
    told = {"milliRequestsPerSecond": requests * 1000, "beginningMilliRequestsPerSecond": beginning * 1000}
    return OriginShare.model_validate({"name": name} | told)


def fetches(one: Driven) -> list[bool]:
    return [row.fetching for row in one.gate.rows()]


def test_who_waits_for_long_at_a_small_share_keeps_it() -> None:
    async def test(one: Driven) -> None:
        told = {"name": NAMES.bucket, "milliRequestsPerSecond": 1, "beginningMilliRequestsPerSecond": 0}
        one.gate.set_shares([OriginShare.model_validate(told)])
        await one.gate.enter(NAMES, 0)
        second = one.ask("second")  # is due after 1,000 s
        for _ in range(3):
            await asyncio.sleep(320.0)
            assert (fetches(one), one.names) == ([True], [])
        await second
        await asyncio.sleep(31.0)
        assert fetches(one) == []

    driven(test)


def test_who_asks_for_little_needs_no_share() -> None:
    async def test(one: Driven) -> None:
        one.gate.set_shares([capped("https://s/b", 10, 10)])
        for _ in range(20):
            await one.gate.enter(NAMES, 10**9)
            await asyncio.sleep(10)
        assert fetches(one) == [False]

    driven(test)


def test_who_has_to_wait_says_so_at_once() -> None:
    async def test(one: Driven) -> None:
        one.gate.set_shares([capped("https://s/b", 10, 10)])
        await asyncio.gather(*(one.gate.enter(NAMES, 10) for _ in range(4)))
        assert fetches(one) == [True]

    driven(test)


def test_who_asks_for_more_than_others_may_keeps_its_share_though_it_never_waits() -> None:
    async def test(one: Driven) -> None:
        one.gate.set_shares([capped("https://s/b", 1000, 1)])
        for _ in range(1000):
            await one.gate.enter(NAMES, 10)
            await asyncio.sleep(1)
        assert fetches(one) == [True]

    driven(test)


def test_who_asks_for_little_after_much_gives_its_share_back_after_a_while() -> None:
    async def test(one: Driven) -> None:
        one.gate.set_shares([capped("*", 1000, 10)])
        await asyncio.gather(*(one.gate.enter(NAMES, 10) for _ in range(2000)))
        said = []
        for _ in range(50):
            await asyncio.sleep(10)
            await one.gate.enter(NAMES, 10)
            said += fetches(one)
        assert said == sorted(said, reverse=True)
        assert 28 <= said.count(True) <= 40

    driven(test)


def test_a_bucket_is_fetched_from_where_the_cap_of_all_is_needed_for_it() -> None:
    async def test(one: Driven) -> None:
        one.gate.set_shares([capped("https://s/b", 1000, 1000), capped("*", 10, 1)])
        await asyncio.gather(*(one.gate.enter(NAMES, 10) for _ in range(50)))
        assert fetches(one) == [True]

    driven(test)


def test_folders_pass() -> None:
    async def test(one: Driven) -> None:
        one.gate.set_shares([share("*", requests=0)])
        await one.gate.enter(None, 10)

    driven(test)


def test_a_source_is_held_back_while_requests_wait_and_shortly_after() -> None:
    async def test(one: Driven) -> None:
        one.gate.set_shares([share("*", requests=1)])
        one.ask("a"), one.ask("b")
        await asyncio.sleep(0.1)
        seen = [one.gate.holds_back(NAMES)]
        await asyncio.sleep(8)
        seen.append(one.gate.holds_back(NAMES))
        await asyncio.sleep(8)
        assert [*seen, one.gate.holds_back(NAMES)] == [True, True, False]

    driven(test)


def test_a_share_that_nobody_waits_for_holds_nothing_back() -> None:
    async def test(one: Driven) -> None:
        one.gate.set_shares([share("https://s/b", requests=1000, size=10**9)])
        await one.gate.enter(NAMES, 10)
        assert not one.gate.holds_back(NAMES)

    driven(test)


def test_a_folder_is_held_back_by_nothing() -> None:
    async def test(one: Driven) -> None:
        one.gate.set_shares([share("*", requests=0.001)])
        assert not one.gate.holds_back(None)

    driven(test)
