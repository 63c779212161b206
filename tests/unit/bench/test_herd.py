"""A modelled herd: bytes take the time that lines have for them, and one copy is enough for all."""

from statistics import median

import pytest

from bench.herd.decisions import decisions_of
from bench.herd.shared_line import SharedLine
from bench.scale import HerdSize
from bench.workloads.herd import outcome
from stoker_sidecar.fetcher.core.division import DividedFile

SIZE = HerdSize(nodes=40, pieces=160, size=2**20)
FILES = [DividedFile(ino, SIZE.size, True) for ino in range(1, SIZE.pieces + 1)]


def _ends(*begins: tuple[float, int]) -> list[float]:
    """Let transfers begin, and return when each ends, in the order of ends."""
    line, rest, found = SharedLine(100.0), list(begins), list[float]()
    while rest or line.next_end() < float("inf"):
        if rest and rest[0][0] <= line.next_end():
            when, size = rest.pop(0)
            line.begin((len(rest), 0), size, when)
        else:
            found.append(line.next_end())
            line.end()
    return found


def test_one_transfer_has_the_whole_line() -> None:
    assert _ends((1.0, 100)) == pytest.approx([2.0])


def test_two_transfers_have_half_each() -> None:
    assert _ends((0.0, 100), (0.0, 100)) == pytest.approx([2.0, 2.0])


def test_one_that_comes_later_takes_half_from_then_on() -> None:
    assert _ends((0.0, 100), (0.5, 100)) == pytest.approx([1.5, 2.0])


def test_a_node_alone_fetches_everything_once_at_its_lines_pace() -> None:
    found = outcome(HerdSize(1, 160, 2**20))
    assert found.gets == (160,)
    assert found.seconds == pytest.approx(160 * 2**20 / 1.25e8, abs=1.1)


def test_a_herd_asks_for_one_copy_and_each_node_about_as_often() -> None:
    gets = outcome(SIZE).gets
    assert sum(gets) == SIZE.pieces
    assert max(gets) <= 2 * median(gets)


def test_nodes_that_never_answer_cost_no_second_copy() -> None:
    found = outcome(SIZE, frozenset({3, 17, 18}))
    assert sum(found.gets) < 1.2 * SIZE.pieces
    assert found.seconds < 60


def test_the_same_seed_gives_the_same_outcome() -> None:
    assert outcome(SIZE) == outcome(SIZE)


def test_what_a_whole_group_was_to_fetch_is_fetched_by_others_a_few_times_at_most() -> None:
    group = next(one for one in decisions_of(SIZE.nodes, FILES) if one.division.position == 0)
    gone = frozenset(group.asked[peer] for peer in group.division.peers) | {group.number}
    assert sum(outcome(SIZE, gone).gets) <= 1.2 * SIZE.pieces
