"""The concurrency of a node's requests to the source, and the peers that it helps."""

from hypothesis import given
from hypothesis import strategies as st

from stoker_sidecar.fetcher.peers.core.source_share import helped, side_by_side
from stoker_sidecar.version.layout import PIECE


@given(left=st.integers(0, 10_000), size=st.integers(0, PIECE), most=st.integers(1, 256))
def test_what_others_wait_for_comes_side_by_side_while_much_is_left(left: int, size: int, most: int) -> None:
    found = side_by_side(left, size, most)
    assert 1 <= found <= most
    assert found <= max(4, left / 4)
    assert side_by_side(8 * most, size, most) == most


def test_the_last_large_pieces_come_one_after_the_other() -> None:
    assert side_by_side(6, PIECE, 16) == 1


def test_the_last_small_files_do_not() -> None:
    assert side_by_side(6, 100_000, 16) == 2


def test_small_is_what_a_source_takes_as_long_to_answer_as_to_send() -> None:
    assert side_by_side(0, 2**20, 16) > side_by_side(0, 2**20 + 1, 16) == 1


def test_who_has_most_left_is_helped() -> None:
    assert helped({1: 2, 2: 5, 3: 4}, 0, 4) == (2, 2)


def test_of_two_with_as_much_left_the_first_is_helped() -> None:
    assert helped({3: 4, 2: 4}, 0, 4) == (2, 2)


def test_what_its_node_begins_next_is_left_to_it() -> None:
    assert helped({1: 1}, 0, 2) is None
    assert helped({1: 2}, 0, 2) == (1, 1)


@given(left=st.dictionaries(st.integers(0, 7), st.integers(0, 40)), nodes=st.integers(8, 16))
def test_no_two_that_help_at_the_same_time_fetch_the_same(left: dict[int, int], nodes: int) -> None:
    helping = [at for at in range(nodes) if not left.get(at)]
    found = [one for at in helping if (one := helped(left, at, nodes)) is not None]
    assert len(found) == len(set(found))
    assert all(1 <= place < left[whose] for whose, place in found)
