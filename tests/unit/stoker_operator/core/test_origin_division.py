"""Division of a cap among fetching nodes."""

from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker_operator.core.origins.origin_division import CONFIRM, LEVELS, Amounts, CapDivision, level_for, part_of
from stoker_operator.core.origins.origin_policy import Cap

CAP = Cap(10**9, 3_000_000)
NODES = st.integers(0, 30).map("n{:02}".format)
BEGINNING = part_of(CAP, 8, 31)


@dataclass
class _Cluster:
    """Nodes that learn their amounts late, and confirm them even later."""

    division: CapDivision
    told: dict[str, Amounts | None] = field(default_factory=dict)
    applied: dict[str, Amounts | None] = field(default_factory=dict)
    fetching: set[str] = field(default_factory=set)
    now: float = 0.0

    def say(self, node: str) -> None:
        confirmed = self.told.get(node) == self.applied.get(node)
        self.division.note(
            node, fetching=node in self.fetching, told=self.told.get(node), confirmed=confirmed, now=self.now
        )

    def join(self, node: str) -> None:
        self.fetching.add(node)
        self.say(node)

    def write(self, node: str) -> None:
        self.told[node] = self.division.given.get(node)
        self.say(node)

    def apply(self, node: str) -> None:
        self.applied[node] = self.told.get(node)
        self.say(node)

    def wait(self) -> None:
        """Advance the clock until all nodes respect their NodeCaches. None of them has confirmed."""
        self.now += 2 * CONFIRM
        self.applied.update(self.told)
        self.division.settle_old(self.now)

    def settle(self) -> None:
        for _ in range(5):
            self.now += CONFIRM
            self.division.settle_old(self.now)
            self.division.step(1000, self.now)
            for node in {*self.fetching, *self.told}:
                self.write(node)
                self.apply(node)

    def sums(self) -> tuple[int, int]:
        """Return the totals of bytes and requests for all nodes, including nodes without an amount."""
        none = (f"n{number:02}" for number in range(31) if self.applied.get(f"n{number:02}") is None)
        rows = [row for row in self.applied.values() if row is not None] + [self.division.beginning for _ in none]
        return sum(size or 0 for size, _ in rows), sum(requests or 0 for _, requests in rows)


def _settled(*fetching: str) -> _Cluster:
    cluster = _Cluster(CapDivision(100, cap=CAP))
    for node in fetching:
        cluster.join(node)
    cluster.settle()
    return cluster


WORDS = ["begin", "end", "step", "write", "apply", "wait", "gone"]
STEPS = st.lists(st.tuples(st.sampled_from(WORDS), NODES), max_size=120)


def run(cluster: _Cluster, steps: list[tuple[str, str]]) -> None:
    for step, node in steps:
        cluster.now += 1.0
        if step == "begin":
            cluster.join(node)
        elif step == "end":
            cluster.fetching.discard(node)
            cluster.say(node)
        elif step == "step":
            cluster.division.step(3, cluster.now)
        elif step == "write":
            cluster.write(node)
        elif step == "apply":
            cluster.apply(node)
        elif step == "wait":
            cluster.wait()
        else:
            cluster.division.forget(node)
            for known in (cluster.told, cluster.applied):
                known.pop(node, None)
            cluster.fetching.discard(node)
        assert cluster.sums()[0] <= CAP.bytes_per_second * 98 // 100  # type: ignore[operator]
        assert cluster.sums()[1] <= CAP.milli_requests_per_second * 98 // 100  # type: ignore[operator]


@given(STEPS)
def test_nodes_that_learn_late_never_have_more_than_the_cap_together(steps: list[tuple[str, str]]) -> None:
    run(_Cluster(CapDivision(90, cap=CAP, beginning=BEGINNING)), steps)


def test_a_node_above_its_share_gets_less_at_once() -> None:
    cluster = _Cluster(CapDivision(90, cap=CAP, beginning=(10**6, 3000)), fetching={"a"})
    cluster.say("a")
    cluster.settle()
    cluster.join("b")

    cluster.division.set_cap(Cap(10**6, 3000))

    assert cluster.division.step(10, cluster.now) == {"a", "b"}
    assert cluster.division.given["b"] == (450_000, 1350)


@given(STEPS)
def test_only_fetching_nodes_have_shares_and_all_are_equal(steps: list[tuple[str, str]]) -> None:
    cluster = _Cluster(CapDivision(90, cap=CAP))
    run(cluster, steps)

    cluster.settle()

    assert set(cluster.division.given) == cluster.fetching
    assert len(set(cluster.division.given.values())) <= 1
    assert all(min(row[0] or 0, row[1] or 0) > 0 for row in cluster.division.given.values())
    assert not cluster.division.behind


@given(STEPS)
def test_a_fifth_of_the_cap_is_left_over_at_the_worst_where_nodes_only_come(steps: list[tuple[str, str]]) -> None:
    cluster = _Cluster(CapDivision(100, cap=CAP))
    run_up = [(step, node) for step, node in steps if step in ("begin", "step", "write", "apply")]
    for step, node in run_up:
        if step == "begin":
            cluster.join(node)

    cluster.settle()

    if cluster.fetching:
        assert cluster.sums()[0] >= 0.75 * CAP.bytes_per_second  # type: ignore[operator]


def test_a_share_grows_only_after_a_lower_share_is_confirmed() -> None:
    cluster = _settled("a")
    assert cluster.division.given == {"a": (10**9, 3_000_000)}

    cluster.join("b")
    assert cluster.division.step(10, cluster.now) == {"a"}
    cluster.write("a")
    assert cluster.division.step(10, cluster.now) == set()

    cluster.apply("a")
    assert cluster.division.step(10, cluster.now) == {"b"}
    assert cluster.division.given["b"] == (5 * 10**8, 1_500_000)


def test_a_lower_share_without_confirmation_counts_after_a_minute() -> None:
    cluster = _settled("a")
    cluster.join("b")
    cluster.division.step(10, cluster.now)
    cluster.write("a")

    cluster.division.settle_old(cluster.now + CONFIRM - 1)
    assert cluster.division.step(10, cluster.now) == set()
    cluster.division.settle_old(cluster.now + CONFIRM)
    assert cluster.division.step(10, cluster.now) == {"b"}


def test_the_minute_begins_when_less_is_written_however_long_that_takes() -> None:
    cluster = _settled("a")
    cluster.join("b")
    cluster.division.step(10, cluster.now)

    cluster.now += 10 * CONFIRM
    cluster.division.settle_old(cluster.now)
    assert cluster.division.step(10, cluster.now) == set()

    cluster.write("a")
    cluster.division.settle_old(cluster.now + CONFIRM)
    assert cluster.division.step(10, cluster.now) == {"b"}


def test_a_share_in_flight_of_a_stopped_node_is_reserved_for_a_minute() -> None:
    cluster = _Cluster(CapDivision(100, cap=CAP), fetching={"a"})
    cluster.say("a")
    cluster.division.step(10, cluster.now)
    cluster.fetching = {"b"}
    cluster.say("a")
    cluster.say("b")
    assert cluster.division.step(10, cluster.now) == {"a"}

    cluster.division.settle_old(cluster.now + CONFIRM)

    assert cluster.division.step(10, cluster.now) == {"b"}


def test_a_share_that_was_on_its_way_when_it_was_taken_back_counts_until_less_is_written() -> None:
    cluster = _Cluster(CapDivision(100, cap=CAP), fetching={"a"})
    cluster.say("a")
    cluster.division.step(10, cluster.now)
    on_its_way = cluster.division.given["a"]
    cluster.fetching.clear()
    cluster.say("a")
    cluster.division.step(10, cluster.now)

    cluster.told["a"] = on_its_way
    cluster.say("a")
    cluster.division.settle_old(cluster.now + 10 * CONFIRM)

    assert cluster.division.held == on_its_way


def test_a_clock_set_back_prolongs_no_wait_for_a_confirmation() -> None:
    cluster = _Cluster(CapDivision(100, cap=CAP), fetching={"a"}, now=10_000.0)
    cluster.say("a")
    cluster.settle()
    cluster.join("b")
    cluster.division.step(10, cluster.now)
    cluster.write("a")

    cluster.division.settle_old(0.0)
    cluster.division.settle_old(CONFIRM)

    assert cluster.division.step(10, CONFIRM) == {"b"}


def test_of_a_cap_that_is_less_than_a_thousandth_for_each_some_have_something() -> None:
    nodes = [f"n{number}" for number in range(50)]
    cluster = _Cluster(CapDivision(90, cap=Cap(None, 30)), fetching=set(nodes))
    for node in nodes:
        cluster.say(node)
    cluster.settle()

    assert sum(requests or 0 for _, requests in cluster.division.given.values()) == 27


def test_a_new_leader_writes_nothing_where_shares_are_right() -> None:
    cluster = _settled("a", "b", "c")

    cluster.division = CapDivision(100, cap=CAP)
    for node in ("a", "b", "c"):
        cluster.say(node)

    assert cluster.division.step(10, cluster.now) == set()


@pytest.mark.parametrize("nodes", [100, 1000])
def test_a_new_node_costs_five_writes_on_average_in_a_cluster_of_any_size(nodes: int) -> None:
    cluster = _Cluster(CapDivision(100, cap=CAP))
    for number in range(nodes):
        cluster.join(f"n{number}")
    cluster.settle()

    written = 0
    for number in range(nodes, 2 * nodes):
        cluster.join(f"n{number}")
        while changed := cluster.division.step(10_000, cluster.now):
            written += len(changed)
            for node in changed:
                cluster.write(node)
                cluster.apply(node)

    assert written <= 7 * nodes


@given(st.integers(0, 100_000), st.sampled_from(LEVELS))
def test_a_level_has_room_for_all_and_is_left_late(nodes: int, current: int) -> None:
    level = level_for(nodes, current)

    assert level >= nodes
    assert level_for(nodes, level) == level
