"""Shares of a node's bandwidth: two or more Datasets on a throttled source, on a fake clock."""

from collections import Counter
from dataclasses import dataclass, field

import pytest

from stoker_sidecar.fetcher.sources.core.bandwidth import BandwidthShares, Capacity, Sharer
from stoker_sidecar.fetcher.sources.core.lanes import Bounds, Lane, Lanes, QueuedRequest

MIB = 1024**2
LINK = 20.0 * MIB  # bytes per second
STEP = 0.05


@dataclass
class Fetcher:
    """Keeps ``depth`` requests of ``size`` bytes in flight. ``most``: bytes per second of its source."""

    sharer: Sharer
    lane: Lane = Lane.WARM
    depth: int = 16
    size: int = MIB
    most: float = LINK
    until: float = 1e9
    asked: int = 0
    number: int = 0
    left: dict[QueuedRequest, float] = field(default_factory=dict)


class Node:
    """A queue in front of a link that all requests in flight share equally."""

    def __init__(self, *fetchers: Fetcher, limit: int = 32) -> None:
        self.now = 0.0
        self.fetchers = fetchers
        self.came: Counter[str] = Counter()
        self.shares = BandwidthShares(lambda: self.now)
        self.lanes = Lanes(Bounds(), limit, self.shares)

    def run(self, seconds: float) -> Counter[str]:
        """Let time pass. Return the bytes that arrived, by owner."""
        before = Counter(self.came)
        for _ in range(int(seconds / STEP)):
            for fetcher in self.fetchers:
                while fetcher.asked < fetcher.depth and self.now < fetcher.until:
                    self._ask(fetcher)
            self._move()
            self.now += STEP
        return self.came - before

    def _ask(self, fetcher: Fetcher) -> None:
        def decided(wanted: bool) -> None:
            assert wanted
            fetcher.left[request] = float(request.size)

        fetcher.asked += 1
        fetcher.number += 1
        size = fetcher.size // 2 + fetcher.number * 7919 * 64 % fetcher.size  # so that they arrive at different times
        request = QueuedRequest(fetcher.lane, size, decided, fetcher.sharer)
        self.lanes.ask(request)

    def _move(self) -> None:
        left, flying = LINK * STEP, self.lanes.in_flight
        for fetcher in sorted(self.fetchers, key=lambda one: one.most):
            for request in list(fetcher.left):
                moved = min(fetcher.left[request], left / flying, fetcher.most * STEP / len(fetcher.left))
                left, flying = left - moved, flying - 1
                fetcher.left[request] -= moved
                self.came[fetcher.sharer.owner] += round(moved)
                self.shares.arrived(round(moved))
        for fetcher in self.fetchers:
            for request in [one for one, bytes_left in fetcher.left.items() if bytes_left < 1]:
                del fetcher.left[request]
                fetcher.asked -= 1
                self.lanes.done(request)


def share(came: Counter[str], owner: str) -> float:
    return came[owner] / came.total()


@pytest.mark.parametrize("lane", [Lane.WARM, Lane.DEMAND])
@pytest.mark.parametrize("limited", [0.1, 0.25, 0.5])
def test_a_dataset_has_its_share_while_another_fetches(limited: float, lane: Lane) -> None:
    node = Node(Fetcher(Sharer("limited", limited), lane, depth=32), Fetcher(Sharer("other"), lane, depth=32))
    node.run(5)
    came = node.run(60)
    assert share(came, "limited") == pytest.approx(limited, abs=0.05)
    assert came.total() > 0.95 * 60 * LINK


def test_without_shares_both_have_the_same() -> None:
    node = Node(Fetcher(Sharer("a")), Fetcher(Sharer("b")))
    assert share(node.run(30), "a") == pytest.approx(0.5, abs=0.03)


def test_who_is_alone_has_all_whatever_its_share() -> None:
    node = Node(Fetcher(Sharer("alone", 0.1)))
    assert node.run(20).total() > 0.95 * 20 * LINK


def test_a_dataset_has_all_again_when_the_other_has_what_it_wanted() -> None:
    node = Node(Fetcher(Sharer("limited", 0.1)), Fetcher(Sharer("other"), until=20))
    node.run(25)
    assert node.run(10)["limited"] > 0.95 * 10 * LINK


def test_datasets_that_are_all_limited_divide_all_in_proportion() -> None:
    node = Node(Fetcher(Sharer("a", 0.2), depth=32), Fetcher(Sharer("b", 0.6), depth=32))
    node.run(5)
    came = node.run(60)
    assert share(came, "a") == pytest.approx(0.25, abs=0.06)
    assert came.total() > 0.9 * 60 * LINK


def test_who_is_not_limited_has_no_less_by_the_shares_of_others() -> None:
    without = Node(Fetcher(Sharer("a")), Fetcher(Sharer("b")), Fetcher(Sharer("c")))
    node = Node(Fetcher(Sharer("a", 0.9)), Fetcher(Sharer("b", 0.01)), Fetcher(Sharer("c")))
    assert node.run(60)["c"] >= 0.98 * without.run(60)["c"]


def test_another_dataset_with_a_slow_source_does_not_hold_a_limited_one_to_a_share_of_that() -> None:
    slow = Fetcher(Sharer("slow"), Lane.DEMAND, most=0.2 * MIB)
    node = Node(Fetcher(Sharer("limited", 0.25)), slow)
    node.run(30)
    assert node.run(60)["limited"] > 0.2 * 60 * LINK


def test_the_least_share_is_one_request_at_a_time() -> None:
    node = Node(Fetcher(Sharer("least", 0.01)), Fetcher(Sharer("other"), Lane.DEMAND, depth=64), limit=64)
    node.run(5)
    came = node.run(60)
    assert 0 < share(came, "least") < 0.05


def test_files_of_a_dataset_leave_bandwidth_to_its_others() -> None:
    warm, reader = Fetcher(Sharer("a", 0.1), depth=32), Fetcher(Sharer("a"), Lane.DEMAND, depth=2)
    Node(warm, reader).run(10)
    assert len(warm.left) == 1


@pytest.mark.parametrize(("full", "value"), [(True, 1500), (False, 0)])
def test_capacity_is_what_came_when_more_was_wanted(full: bool, value: int) -> None:
    capacity = Capacity()
    for second in range(3):
        capacity.saw(full=full)
        capacity.arrived(1000, float(second))
    assert capacity.value == value


def _after(rate: int, *, held: bool) -> float:
    capacity = Capacity(value=1000.0)
    for second in range(0, 100, 2):
        capacity.saw(full=True, held=held)
        capacity.arrived(2 * rate, float(second))
    return capacity.value


def test_capacity_falls_when_less_comes_for_long_unless_somebody_is_held_back() -> None:
    assert _after(100, held=False) == pytest.approx(100, rel=0.2)
    assert _after(100, held=True) == 1000


def test_capacity_rises_with_whatever_comes() -> None:
    assert _after(3000, held=True) >= 3000


def test_a_window_in_which_nothing_came_for_long_says_nothing() -> None:
    capacity = Capacity(value=1000.0)
    for second in (0.0, 60.0):
        capacity.saw(full=True)
        capacity.arrived(10, second)
    assert capacity.value == 1000
