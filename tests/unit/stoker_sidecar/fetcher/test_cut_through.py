"""From which node another one takes a piece while it comes."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from stoker_sidecar.fetcher.core.cut_through import side_by_side_with, taken_from

NODES = st.integers(2, 16)


@given(nodes=NODES, data=st.data())
def test_who_takes_a_piece_has_it_from_its_node_in_a_few_steps(nodes: int, data: st.DataObject) -> None:
    first, taker = data.draw(st.integers(0, nodes - 1)), data.draw(st.integers(0, nodes - 1))
    sent_to = data.draw(st.sets(st.integers(0, nodes - 1)))
    at, steps = taker, 0
    while at != first:
        found = taken_from(at, first, sent_to, range(nodes))
        assert found is not None
        at, steps = found, steps + 1
    assert steps <= 5


@given(nodes=NODES, data=st.data())
def test_no_line_gives_much_more_than_it_carries(nodes: int, data: st.DataObject) -> None:
    sent_to = data.draw(st.sets(st.integers(0, nodes - 1), min_size=1))
    given = Counter(
        taken_from(taker, first, sent_to, range(nodes)) for first in sent_to for taker in range(nodes) if taker != first
    )
    # Each piece is one of as many parts of the source's line as it is sent to nodes.
    assert max(given.values()) <= 2 * len(sent_to)
    assert all(given[at] <= max(2, len(sent_to)) for at in sent_to)


@given(nodes=NODES, data=st.data())
def test_while_all_are_sent_something_each_takes_from_all(nodes: int, data: st.DataObject) -> None:
    taker = data.draw(st.integers(0, nodes - 1))
    givers = [taken_from(taker, first, range(nodes), range(nodes)) for first in range(nodes) if first != taker]
    assert givers == [first for first in range(nodes) if first != taker]


def test_nobody_takes_from_itself() -> None:
    assert taken_from(1, 1, {1, 2}, range(4)) is None


def test_of_those_that_are_sent_nothing_each_passes_on_another_piece() -> None:
    sent_to, nodes = {3, 4, 5, 6}, range(8)
    passing = {first: {taken_from(at, first, sent_to, nodes) for at in (0, 1, 2, 7)} - {first} for first in sent_to}
    assert passing == {3: {0}, 4: {1}, 5: {2}, 6: {7}}


def test_what_began_long_before_a_piece_is_over_soon() -> None:
    begun = {0: 96.0, 1: 99.0, 2: 99.4, 3: 100.0}
    assert side_by_side_with(99.9, begun, 100.0) == {2, 3}
    assert side_by_side_with(99.0, begun, 100.0) == {1, 2, 3}
