"""Who of several nodes fetches what: each file by one of them, whoever is there."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker_sidecar.fetcher.core.division import OWN, DividedFile, PeerProgress, takes, turns, wanted

SMALL = 50_000


def _turns(sizes: list[int], nodes: int = 2) -> bytes:
    files = [DividedFile(ino, size, True) for ino, size in enumerate(sizes, start=1)]
    return bytes(turns(files, len(sizes), sum(sizes), nodes))


@given(
    sizes=st.lists(st.integers(0, 2**24), max_size=200),
    nodes=st.integers(2, 16),
    dead=st.sets(st.integers(0, 15)),
)
def test_each_file_is_fetched_by_one_node_or_by_each(sizes: list[int], nodes: int, dead: set[int]) -> None:
    turn_of = _turns(sizes, nodes)
    alive = set(range(nodes)) - dead
    takers = [wanted(turn_of, takes(at, nodes, alive), ()).from_source for at in sorted(alive)]
    for ino, turn in enumerate(turn_of):
        assert sum(taken[ino] for taken in takers) == (len(alive) if turn == OWN else min(1, len(alive)))


@pytest.mark.parametrize("nodes", [2, 3, 4, 8, 16])
def test_shares_are_even(nodes: int) -> None:
    turn_of = _turns([SMALL] * 16_000, nodes)
    shares = [sum(wanted(turn_of, takes(at, nodes, range(nodes)), ()).from_source) for at in range(nodes)]
    assert max(shares) <= 1.1 * min(shares)


def test_eight_shards_are_four_for_each_of_two() -> None:
    turn_of = _turns([2**27] * 8)
    assert sum(wanted(turn_of, takes(1, 2, {0, 1}), ()).from_source[1:]) == 4


def test_a_file_that_is_much_of_the_whole_is_fetched_by_each() -> None:
    assert _turns([2**30, SMALL, SMALL])[1] == OWN


def test_what_no_checksum_proves_is_fetched_by_each() -> None:
    files = [DividedFile(1, SMALL, False), DividedFile(2, SMALL, True)]
    assert [turn == OWN for turn in turns(files, 2, 10**9, 2)[1:]] == [True, False]


def test_what_another_node_has_comes_from_there_whose_turn_it_was() -> None:
    turn_of = bytes([0, 0, 1, OWN])
    decided = wanted(turn_of, takes(0, 2, {0, 1}), [bytes([1, 1, 0, 1])])
    assert decided == (bytes([0, 0, 0, 1]), bytes([1, 1, 0, 0]))


def test_an_answer_that_is_too_short_too_long_or_wrong_counts_as_far_as_it_is_right() -> None:
    turn_of = bytes([1, 1, 1])
    assert wanted(turn_of, takes(0, 2, {0, 1}), [b"\1", b"\7\7\1\1\1\1"]).from_others == bytes([1, 0, 1])


def test_a_node_that_does_not_get_on_is_waited_for_no_longer_than_that() -> None:
    progress = PeerProgress(patience=10.0)
    for now, arrived in ((0.0, 5), (9.0, 6), (15.0, 6), (20.0, -1)):
        progress.told("b", arrived, now)
        assert list(progress.alive({1: "b"}, now)) == ([1] if now < 20.0 else [])
