"""A cap that is divided over the nodes that fetch."""

from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker_operator.core.origin_division import CONFIRM, LEVELS, Amounts, CapDivision, level_for, part_of
from stoker_operator.core.origin_policy import Cap

CAP = Cap(10**9, 3_000_000)
NODES = st.integers(0, 30).map("n{:02}".format)
BEGINNING = part_of(CAP, 8, 31)


@dataclass
class _Cluster:
    """Nodes that learn late of what they are given, and tell of it later still."""

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

    def write(self, node: str) -> None:
        self.told[node] = self.division.given.get(node)
        self.say(node)

    def apply(self, node: str) -> None:
        self.applied[node] = self.told.get(node)
        self.say(node)

    def wait(self) -> None:
        """Let so long pass that all hold to what their NodeCaches say, without having said so."""
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
        """Return what all nodes may use, those too that were given nothing."""
        none = (f"n{number:02}" for number in range(31) if self.applied.get(f"n{number:02}") is None)
        rows = [row for row in self.applied.values() if row is not None] + [self.division.beginning for _ in none]
        return sum(size or 0 for size, _ in rows), sum(requests or 0 for _, requests in rows)


WORDS = ["begin", "end", "step", "write", "apply", "wait", "gone"]
STEPS = st.lists(st.tuples(st.sampled_from(WORDS), NODES), max_size=120)


def run(cluster: _Cluster, steps: list[tuple[str, str]]) -> None:
    for step, node in steps:
        cluster.now += 1.0
        if step == "begin":
            cluster.fetching.add(node)
            cluster.say(node)
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


def test_who_has_more_than_its_share_without_being_given_any_is_given_less_at_once() -> None:
    cluster = _Cluster(CapDivision(90, cap=CAP, beginning=(10**6, 3000)), fetching={"a"})
    cluster.say("a")
    cluster.settle()
    cluster.fetching.add("b")
    cluster.say("b")

    cluster.division.set_cap(Cap(10**6, 3000))

    assert cluster.division.step(10, cluster.now) == {"a", "b"}
    assert cluster.division.given["b"] == (450_000, 1350)


@given(STEPS)
def test_all_who_fetch_come_to_the_same_share_and_nobody_else_has_one(steps: list[tuple[str, str]]) -> None:
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
            cluster.fetching.add(node)
            cluster.say(node)

    cluster.settle()

    if cluster.fetching:
        assert cluster.sums()[0] >= 0.75 * CAP.bytes_per_second  # type: ignore[operator]


def test_who_is_given_less_holds_to_it_before_another_is_given_more() -> None:
    cluster = _Cluster(CapDivision(100, cap=CAP), fetching={"a"})
    cluster.say("a")
    cluster.settle()
    assert cluster.division.given == {"a": (10**9, 3_000_000)}

    cluster.fetching.add("b")
    cluster.say("b")
    assert cluster.division.step(10, cluster.now) == {"a"}
    cluster.write("a")
    assert cluster.division.step(10, cluster.now) == set()

    cluster.apply("a")
    assert cluster.division.step(10, cluster.now) == {"b"}
    assert cluster.division.given["b"] == (5 * 10**8, 1_500_000)


def test_who_never_says_that_it_was_given_less_is_waited_for_a_minute() -> None:
    cluster = _Cluster(CapDivision(100, cap=CAP), fetching={"a"})
    cluster.say("a")
    cluster.settle()
    cluster.fetching.add("b")
    cluster.say("b")
    cluster.division.step(10, cluster.now)
    cluster.write("a")

    cluster.division.settle_old(cluster.now + CONFIRM - 1)
    assert cluster.division.step(10, cluster.now) == set()
    cluster.division.settle_old(cluster.now + CONFIRM)
    assert cluster.division.step(10, cluster.now) == {"b"}


def test_the_minute_begins_when_less_is_written_however_long_that_takes() -> None:
    cluster = _Cluster(CapDivision(100, cap=CAP), fetching={"a"})
    cluster.say("a")
    cluster.settle()
    cluster.fetching.add("b")
    cluster.say("b")
    cluster.division.step(10, cluster.now)

    cluster.now += 10 * CONFIRM
    cluster.division.settle_old(cluster.now)
    assert cluster.division.step(10, cluster.now) == set()

    cluster.write("a")
    cluster.division.settle_old(cluster.now + CONFIRM)
    assert cluster.division.step(10, cluster.now) == {"b"}


def test_who_ends_before_it_was_told_of_its_share_is_waited_for_a_minute() -> None:
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


def test_who_was_given_less_before_the_clock_was_set_back_is_waited_for_no_longer_than_others() -> None:
    cluster = _Cluster(CapDivision(100, cap=CAP), fetching={"a"}, now=10_000.0)
    cluster.say("a")
    cluster.settle()
    cluster.fetching.add("b")
    cluster.say("b")
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
    cluster = _Cluster(CapDivision(100, cap=CAP), fetching={"a", "b", "c"})
    for node in ("a", "b", "c"):
        cluster.say(node)
    cluster.settle()

    cluster.division = CapDivision(100, cap=CAP)
    for node in ("a", "b", "c"):
        cluster.say(node)

    assert cluster.division.step(10, cluster.now) == set()


@pytest.mark.parametrize("nodes", [100, 1000, 5000])
def test_a_node_more_costs_five_writes_on_average_however_many_there_are(nodes: int) -> None:
    cluster = _Cluster(CapDivision(100, cap=CAP))
    for number in range(nodes):
        cluster.fetching.add(f"n{number}")
        cluster.say(f"n{number}")
    cluster.settle()

    written = 0
    for number in range(nodes, 2 * nodes):
        cluster.fetching.add(f"n{number}")
        cluster.say(f"n{number}")
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
