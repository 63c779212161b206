"""Who of many nodes fetches what from the source: each file one of them, whom it suffices that its neighbours know."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.herd.grid import neighbours, row_of
from bench.herd.grid_turns import MOST_LEVEL, grid_takes, grid_turns
from stoker_sidecar.fetcher.core.division import OWN, DividedFile, wanted

SMALL = 50_000


def _files(count: int, size: int = SMALL) -> list[DividedFile]:
    return [DividedFile(ino, size, True) for ino in range(1, count + 1)]


def _takers(count: int, nodes: int, dead: frozenset[int] = frozenset(), level: int = 0) -> list[list[int]]:
    """Return by file who fetches it, of those that live."""
    found: list[list[int]] = [[] for _ in range(count)]
    for position in sorted({*range(nodes)} - dead):
        turn_of = bytes(grid_turns(_files(count), count, count, position, nodes))
        alive = {*neighbours(position, nodes)} - dead
        taken = wanted(turn_of, grid_takes(position, nodes, alive, level), ()).from_source
        for ino in range(1, count + 1):
            if taken[ino]:
                found[ino - 1].append(position)
    return found


@given(count=st.integers(1, 150), nodes=st.integers(1, 40))
def test_each_file_is_fetched_by_one_node(count: int, nodes: int) -> None:
    assert all(len(takers) == 1 for takers in _takers(count, nodes))


@given(count=st.integers(1, 150), nodes=st.integers(1, 40), dead=st.sets(st.integers(0, 59)))
def test_what_a_dead_node_would_fetch_one_of_its_row_does(count: int, nodes: int, dead: set[int]) -> None:
    gone = frozenset(dead)
    rows = {row_of(position, nodes) for position in range(nodes)}
    lost = any({*range(row.first, row.first + row.width)} <= gone for row in rows)
    assert all(len(found) == 1 or (lost and not found) for found in _takers(count, nodes, gone))


@given(count=st.integers(1, 150), nodes=st.integers(2, 40), dead=st.sets(st.integers(0, 59)))
def test_in_the_end_who_is_left_fetches_everything(count: int, nodes: int, dead: set[int]) -> None:
    gone = frozenset(dead)
    left = nodes - len(gone & {*range(nodes)})
    takers = _takers(count, nodes, gone, MOST_LEVEL)
    assert all(found for found in takers) == (left > 0)


@pytest.mark.parametrize("level", range(1, 6))
def test_at_each_level_twice_as_many_ask_for_what_a_lost_row_has(level: int) -> None:
    nodes = 500
    gone = frozenset(range(8))  # a row of 8 x 8 x 8
    asking = [len(found) for found in _takers(500, nodes, gone, level)[:8]]
    assert max(asking) <= 2**level


@pytest.mark.parametrize("nodes", [2, 7, 16, 100])
def test_shares_are_even(nodes: int) -> None:
    shares = [0] * nodes
    for takers in _takers(nodes * 16, nodes):
        shares[takers[0]] += 1
    assert max(shares) <= 2 * min(shares)


def test_what_no_checksum_proves_is_fetched_by_each() -> None:
    files = [DividedFile(1, SMALL, False), DividedFile(2, SMALL, True)]
    assert [turn == OWN for turn in grid_turns(files, 2, 2, 0, 500)[1:]] == [True, False]
