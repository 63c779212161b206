"""Each set of Datasets starts at its own fixed place on the ring of nodes."""

from hypothesis import given, settings
from hypothesis import strategies as st

from stoker_operator.core.fitting.node_bits import NodeNumbers, NodeRing, distance, start_of
from tests.unit.stoker_operator.clusters import dataset

STARTS = st.integers(0, (1 << 32) - 1)
NAMES = st.sets(st.integers(0, 300).map(lambda number: f"n{number}"), max_size=120)


def ring_of(names: set[str]) -> NodeRing:
    ring = NodeRing()
    for name in names:
        ring.insert(name)
    return ring


def in_order(names: set[str], start: int) -> list[str]:
    return sorted(names, key=lambda name: (distance(start, name), name))


@given(NAMES, STARTS)
def test_a_walk_meets_the_nodes_as_far_away_as_they_are(names: set[str], start: int) -> None:
    assert list(dict.fromkeys(ring_of(names).walk(start))) == in_order(names, start)


@given(NAMES.filter(bool), STARTS)
def test_a_walk_skips_a_removed_node(names: set[str], start: int) -> None:
    ring = ring_of(names)
    gone = min(names)
    ring.remove(gone)
    assert set(ring.walk(start)) == names - {gone}


@settings(max_examples=50)
@given(STARTS, st.integers(0, 120), st.integers(1, 3))
def test_a_set_of_any_size_is_walked_in_the_same_order(start: int, first: int, step: int) -> None:
    numbers = NodeNumbers()
    for number in range(120):
        numbers.insert(f"n{number:03}")
    among = set(range(first, 120, step))
    walked = list(numbers.from_start(start, sum(1 << number for number in among)))
    assert [f"n{at:03}" for at in walked] == in_order({f"n{number:03}" for number in among}, start)


def test_a_choice_begins_at_the_same_place_in_each_process() -> None:
    assert start_of([dataset("imagenet")]) == 3613118941


def test_the_order_of_the_datasets_does_not_matter() -> None:
    assert start_of([dataset("a"), dataset("b")]) == start_of([dataset("b"), dataset("a")])
