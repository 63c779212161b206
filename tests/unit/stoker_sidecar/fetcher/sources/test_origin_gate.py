"""The order and times of requests to object stores, in virtual time."""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any

import pytest

from stoker_api.datasets.origin import OriginNames, OriginShare
from stoker_sidecar.errors import ServerError, Throttled
from stoker_sidecar.fetcher.sources.core.lanes import Lane
from stoker_sidecar.fetcher.sources.origin_gate import ON_BEHALF, OriginGate
from tests.support.virtual_time import run_virtual

NAMES = OriginNames("https://s/b", "https://s")
OTHER = OriginNames("https://s/c", "https://s")


@dataclass
class _Asker:
    lane: Lane


@dataclass
class Driven:
    """A gate on a virtual loop. ``went``: admitted requests and their times."""

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


def driven(test: Callable[[Driven], Coroutine[Any, Any, None]]) -> Callable[[], None]:
    """Run a test with a gate on a virtual loop."""

    async def run() -> None:
        clock = asyncio.get_running_loop().time
        await test(Driven(OriginGate(clock, clock)))

    def runs() -> None:
        run_virtual(run())

    return runs


def share(name: str, *, size: int | None = None, requests: float | None = None) -> OriginShare:
    milli = None if requests is None else int(requests * 1000)
    return OriginShare(name=name, bytes_per_second=size, milli_requests_per_second=milli)


@driven
async def test_requests_without_shares_do_not_wait(one: Driven) -> None:
    for _ in range(1000):
        await one.gate.enter(NAMES, 10**9)
    assert asyncio.get_running_loop().time() == 0


@driven
async def test_requests_a_second_are_held_to(one: Driven) -> None:
    one.gate.set_shares([share("https://s/b", requests=10)])
    await asyncio.gather(*(one.ask(str(number)) for number in range(101)))
    assert one.went[-1][1] == pytest.approx(10.0, abs=0.3)
    assert one.names == [str(number) for number in range(101)]


@driven
async def test_readers_go_before_warm_up_and_new_readers_move_up(one: Driven) -> None:
    one.gate.set_shares([share("https://s/b", requests=1)])
    first, late = one.ask("first"), _Asker(Lane.WARM)
    await first
    tasks = [one.ask("warm"), one.ask("later", asker=late), one.ask("ahead", asker=_Asker(Lane.READAHEAD))]
    tasks.append(one.ask("reader", asker=_Asker(Lane.DEMAND)))
    await tasks[-1]
    late.lane = Lane.DEMAND
    await asyncio.gather(*tasks)
    assert one.names == ["first", "reader", "later", "ahead", "warm"]


@driven
async def test_the_caps_of_bucket_endpoint_and_all_hold_together(one: Driven) -> None:
    one.gate.set_shares([share("https://s", requests=10), share("*", size=500), share("https://s/b", requests=100)])
    await asyncio.gather(*(one.ask(str(number), NAMES if number % 2 else OTHER, 100) for number in range(51)))
    assert one.went[-1][1] == pytest.approx(10.0, abs=0.5)  # 500 bytes per second are 5 requests


@driven
async def test_a_capped_bucket_does_not_delay_another_bucket(one: Driven) -> None:
    one.gate.set_shares([share("https://s/b", requests=0.001)])
    await one.ask("b")
    slow = one.ask("slow")
    await asyncio.gather(*(one.ask("c", OTHER) for _ in range(10)))
    assert asyncio.get_running_loop().time() < 1
    slow.cancel()


@driven
async def test_a_larger_share_releases_waiting_requests_at_once(one: Driven) -> None:
    one.gate.set_shares([share("https://s/b", requests=0.01)])
    await one.ask("first")
    waits = one.ask("second")
    await asyncio.sleep(1)
    one.gate.set_shares([])
    await waits
    assert asyncio.get_running_loop().time() < 1.1


@driven
async def test_a_cancelled_request_uses_no_share(one: Driven) -> None:
    one.gate.set_shares([share("https://s/b", requests=1)])
    await one.ask("first")
    gone = one.ask("gone")
    await asyncio.sleep(0.1)
    gone.cancel()
    await one.ask("next")
    assert one.went[-1][1] <= 1.3
    assert one.gate.counts.waiting == 0


@driven
async def test_a_slowdown_slows_only_its_bucket_and_is_reported(one: Driven) -> None:
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


@driven
async def test_a_slowdown_is_reported_after_the_clock_was_set_back(one: Driven) -> None:
    await one.gate.enter(NAMES, 10)
    one.gate.now = lambda: 7200.0
    one.gate.heard(NAMES, Throttled("less"))
    await asyncio.sleep(20.0)
    await one.gate.enter(NAMES, 10)
    one.gate.now = lambda: 3620.0
    one.gate.heard(NAMES, Throttled("less"))
    assert [row.throttled_at for row in one.gate.rows()] == ["1970-01-01T01:00:20Z"]


@driven
async def test_an_idle_origin_has_no_row(one: Driven) -> None:
    one.gate.set_shares([share("*", requests=100)])
    await one.gate.enter(NAMES, 10)
    assert [(row.name, row.fetching) for row in one.gate.rows()] == [("https://s/b", True)]
    await asyncio.sleep(31)
    assert one.gate.rows() == ()


def capped(name: str, requests: int, beginning: int) -> OriginShare:
    """Return a share of ``requests`` per second. Every node starts with ``beginning``."""
    told = {"milliRequestsPerSecond": requests * 1000, "beginningMilliRequestsPerSecond": beginning * 1000}
    return OriginShare.model_validate({"name": name} | told)


def fetches(one: Driven) -> list[bool]:
    return [row.fetching for row in one.gate.rows()]


@driven
async def test_a_long_wait_keeps_a_small_share(one: Driven) -> None:
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


@driven
async def test_few_requests_need_no_share(one: Driven) -> None:
    one.gate.set_shares([capped("https://s/b", 10, 10)])
    for _ in range(20):
        await one.gate.enter(NAMES, 10**9)
        await asyncio.sleep(10)
    assert fetches(one) == [False]


@driven
async def test_waiting_requests_report_a_need_at_once(one: Driven) -> None:
    one.gate.set_shares([capped("https://s/b", 10, 10)])
    await asyncio.gather(*(one.gate.enter(NAMES, 10) for _ in range(4)))
    assert fetches(one) == [True]


@driven
async def test_a_rate_above_the_initial_share_keeps_the_share(one: Driven) -> None:
    one.gate.set_shares([capped("https://s/b", 1000, 1)])
    for _ in range(1000):
        await one.gate.enter(NAMES, 10)
        await asyncio.sleep(1)
    assert fetches(one) == [True]


@driven
async def test_few_requests_after_many_return_the_share_after_a_while(one: Driven) -> None:
    one.gate.set_shares([capped("*", 1000, 10)])
    await asyncio.gather(*(one.gate.enter(NAMES, 10) for _ in range(500)))
    said = []
    for _ in range(50):
        await asyncio.sleep(10)
        await one.gate.enter(NAMES, 10)
        said += fetches(one)
    assert said == sorted(said, reverse=True)
    assert 28 <= said.count(True) <= 40


@driven
async def test_a_wait_at_the_total_cap_counts_for_the_bucket(one: Driven) -> None:
    one.gate.set_shares([capped("https://s/b", 1000, 1000), capped("*", 10, 1)])
    await asyncio.gather(*(one.gate.enter(NAMES, 10) for _ in range(50)))
    assert fetches(one) == [True]


@driven
async def test_folders_pass(one: Driven) -> None:
    one.gate.set_shares([share("*", requests=0)])
    await one.gate.enter(None, 10)


@driven
async def test_a_source_is_held_back_while_requests_wait_and_shortly_after(one: Driven) -> None:
    one.gate.set_shares([share("*", requests=1)])
    one.ask("a"), one.ask("b")
    await asyncio.sleep(0.1)
    seen = [one.gate.holds_back(NAMES)]
    await asyncio.sleep(8)
    seen.append(one.gate.holds_back(NAMES))
    await asyncio.sleep(8)
    assert [*seen, one.gate.holds_back(NAMES)] == [True, True, False]


@driven
async def test_a_share_without_waiting_requests_holds_nothing_back(one: Driven) -> None:
    one.gate.set_shares([share("https://s/b", requests=1000, size=10**9)])
    await one.gate.enter(NAMES, 10)
    assert not one.gate.holds_back(NAMES)


@driven
async def test_a_folder_is_held_back_by_nothing(one: Driven) -> None:
    one.gate.set_shares([share("*", requests=0.001)])
    assert not one.gate.holds_back(None)
