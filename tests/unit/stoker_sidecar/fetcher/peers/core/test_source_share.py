"""Groups of nodes share a version evenly, and take over shares of missing groups step by step."""

from itertools import islice, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker_api.node_caches.node_dataset import EVERYTHING
from stoker_sidecar.fetcher.peers.core.division import OWN, PIECES, DividedFile, turns
from stoker_sidecar.fetcher.peers.core.source_share import ELSEWHERE, ShareGrowth, SourceShare
from stoker_sidecar.version.layout import PIECE

CUTS = st.sets(st.integers(1, EVERYTHING - 1), max_size=30)


def _parts(cuts: set[int]) -> list[SourceShare]:
    bounds = [0, *sorted(cuts), EVERYTHING]
    return [SourceShare(first, end - first) for first, end in pairwise(bounds)]


@given(CUTS, st.lists(st.integers(0, 2**28), max_size=200))
def test_each_file_and_each_piece_is_in_the_share_of_one_group(cuts: set[int], sizes: list[int]) -> None:
    files = [DividedFile(ino, size, True) for ino, size in enumerate(sizes, start=1)]
    found = [turns(files, len(sizes), sum(sizes), share) for share in _parts(cuts or {EVERYTHING // 2})]
    for ino, size in enumerate(sizes, start=1):
        if found[0].files[ino] == PIECES:
            assert len(found[0].pieces[ino]) == -(-size // PIECE)
            assert {
                sum(turn != ELSEWHERE for turn in one) for one in zip(*(of.pieces[ino] for of in found), strict=True)
            } == {1}
        else:
            assert sum(of.files[ino] != ELSEWHERE for of in found) == 1


def test_what_nothing_proves_is_in_no_share() -> None:
    found = turns([DividedFile(1, 5, False)], 1, 5, SourceShare(0, 5))
    assert found.files[1] == OWN


@pytest.mark.parametrize("files", [500, 1000, 7919])
def test_shares_of_equal_width_have_about_as_many_files(files: int) -> None:
    width = EVERYTHING // 50
    counts = [
        sum(turn != ELSEWHERE for turn in islice(SourceShare(width * at, width).turns(), files)) for at in range(50)
    ]
    assert max(counts) - min(counts) <= 4
    assert abs(sum(counts) - files) <= 1


def test_in_a_share_turns_go_in_circles_without_a_gap() -> None:
    own = [turn for turn in islice(SourceShare(123, EVERYTHING // 3).turns(), 1000) if turn != ELSEWHERE]
    assert own == [at % 240 for at in range(len(own))]


def test_nodes_begin_elsewhere_with_what_others_give_unless_they_are_one_group() -> None:
    begins = [SourceShare(EVERYTHING // 2, EVERYTHING // 4).begin(at, 2) for at in range(2)]
    assert begins == [0.5, 0.0]
    assert SourceShare(EVERYTHING // 4, EVERYTHING // 4).begin(1, 8) == 0.375
    assert SourceShare().begin(3, 4) == 0.0


def test_a_share_grows_only_where_nothing_comes() -> None:
    growth = ShareGrowth(SourceShare(0, EVERYTHING // 8), patience=10.0)
    grown = [
        growth.grows(landed, now) for landed, now in ((0.0, 30.0), (1.0, 31.0), (1.0, 31.1), (1.0, 41.0), (35.0, 44.0))
    ]
    assert grown == [False, False, True, False, False]
    assert growth.share == SourceShare(0, EVERYTHING // 4)


def test_where_nothing_ever_comes_each_node_fetches_all_in_the_end() -> None:
    growth, now, widths = ShareGrowth(SourceShare(7, EVERYTHING // 8), patience=10.0), 30.0, []
    while not growth.alone:
        now += 10.1
        growth.grows(0.0, now)
        widths.append(growth.share.width * 8 // EVERYTHING)
    assert widths == [2, 4, 8, 8]


def test_one_group_of_all_has_nothing_to_grow_by_and_is_alone_at_once() -> None:
    growth = ShareGrowth(SourceShare(), patience=10.0)
    assert (growth.grows(0.0, 30.1), growth.alone, growth.has_grown) == (False, True, False)
