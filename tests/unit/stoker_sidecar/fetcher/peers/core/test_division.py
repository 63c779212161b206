"""Nodes share the files or pieces of a version. Exactly one of them fetches each, for any set of nodes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker_sidecar.fetcher.peers.core.division import (
    COMING,
    HAD,
    HELD,
    OWN,
    PIECES,
    DividedFile,
    PeerProgress,
    had_by,
    not_begun,
    piece_marks,
    takes,
    turns,
    wanted,
    wanted_pieces,
)
from stoker_sidecar.fetcher.peers.core.source_share import ELSEWHERE
from stoker_sidecar.version.layout import PIECE

SMALL = 50_000


def _turns(sizes: list[int]) -> bytes:
    files = [DividedFile(ino, size, True) for ino, size in enumerate(sizes, start=1)]
    return turns(files, len(sizes), sum(sizes)).files


def _pieces(ino: int, count: int) -> bytes:
    """Return the turns of the pieces of a large file."""
    return turns([DividedFile(ino, count * PIECE, True)], ino, 1).pieces[ino]


@given(
    sizes=st.lists(st.integers(0, 2**28), max_size=200),
    nodes=st.integers(2, 16),
    dead=st.sets(st.integers(0, 15)),
)
def test_each_file_is_fetched_by_one_node_or_by_each_or_in_pieces(sizes: list[int], nodes: int, dead: set[int]) -> None:
    turn_of = _turns(sizes)
    alive = set(range(nodes)) - dead
    takers = [wanted(turn_of, takes(at, nodes, alive), ()).from_source for at in sorted(alive)]
    for ino, turn in enumerate(turn_of):
        expected = {OWN: len(alive), PIECES: 0}.get(turn, min(1, len(alive)))
        assert sum(taken[ino] for taken in takers) == expected


def test_of_anothers_pieces_those_are_left_that_nobody_has_or_fetches() -> None:
    theirs, here = takes(1, 2, {0, 1}), b"\1" + bytes(7)
    said = [bytes([0, 0, HAD]), bytes([0, 0, 0, 0, COMING, 7])]
    assert not_begun(_pieces(2, 8), theirs, here, said) == b"\0\1\0\1\0\1\0\1"
    assert not_begun(_pieces(3, 8), theirs, here, said) == b"\0\0\0\0\0\0\1\0"


def test_a_piece_that_is_here_is_not_marked_as_coming() -> None:
    assert piece_marks(b"\1\0\0\0", held=[1], coming=[0, 1, 2, 9]) == bytes([HAD, HELD, COMING, 0])


@given(
    ino=st.integers(1, 2**20),
    count=st.integers(2, 600),
    nodes=st.integers(1, 16),
    dead=st.sets(st.integers(0, 15)),
    here=st.binary(max_size=600),
)
def test_each_missing_piece_is_fetched_by_one_node(
    ino: int, count: int, nodes: int, dead: set[int], here: bytes
) -> None:
    alive = set(range(nodes)) - dead
    have = bytes(byte & 1 for byte in here[:count].ljust(count, b"\0"))
    takers = [wanted_pieces(_pieces(ino, count), takes(at, nodes, alive), have, ()).from_source for at in sorted(alive)]
    for piece in range(count):
        assert sum(taken[piece] for taken in takers) == (min(1, len(alive)) if not have[piece] else 0)


@given(
    ino=st.integers(1, 1000),
    maps=st.lists(st.binary(min_size=1, max_size=40), min_size=3, max_size=3),
    nodes=st.integers(2, 16),
)
def test_of_a_piece_there_is_one_wish_at_most_and_none_of_what_is_here(ino: int, maps: list[bytes], nodes: int) -> None:
    here, had, more = (bytes(byte & 1 for byte in one) for one in maps)
    found = wanted_pieces(_pieces(ino, 40), takes(0, nodes, range(nodes)), here, [had, more])
    for piece, is_here in enumerate(here):
        assert is_here + found.from_source[piece] + found.from_peers[piece] <= 1
        assert not found.from_peers[piece] or (had[piece : piece + 1] + more[piece : piece + 1]).count(1)


@pytest.mark.parametrize("nodes", [2, 3, 4, 8, 16])
def test_shares_are_even(nodes: int) -> None:
    turn_of = _turns([SMALL] * 16_000)
    shares = [sum(wanted(turn_of, takes(at, nodes, range(nodes)), ()).from_source) for at in range(nodes)]
    assert max(shares) <= 1.1 * min(shares)


@pytest.mark.parametrize(("nodes", "most"), [(2, 64), (7, 19), (8, 16), (16, 8)])
def test_of_one_large_file_no_node_fetches_much_more_than_another(nodes: int, most: int) -> None:
    shares = [
        sum(wanted_pieces(_pieces(7, 128), takes(at, nodes, range(nodes)), bytes(128), ()).from_source)
        for at in range(nodes)
    ]
    assert max(shares) <= most


def test_small_files_are_whole_and_large_ones_go_in_pieces() -> None:
    assert [turn == PIECES for turn in _turns([SMALL, PIECE, 2**27, 2**30])[1:]] == [False, False, True, True]


def test_a_file_that_is_much_of_the_whole_goes_in_pieces() -> None:
    assert _turns([2 * PIECE, SMALL, SMALL])[1] == PIECES


def test_a_shard_of_very_many_is_whole() -> None:
    assert PIECES not in _turns([2 * PIECE] * 1000)


def test_what_no_checksum_proves_is_fetched_by_each() -> None:
    files = [DividedFile(1, SMALL, False), DividedFile(2, SMALL, True)]
    assert [turn == OWN for turn in turns(files, 2, 10**9).files[1:]] == [True, False]


def test_what_another_node_has_comes_from_there_whose_turn_it_was() -> None:
    turn_of = bytes([0, 0, 1, OWN, PIECES])
    decided = wanted(turn_of, takes(0, 2, {0, 1}), [bytes([1, 1, 0, 1, 1])])
    assert decided == (bytes([0, 0, 0, 1, 0]), bytes([1, 1, 0, 0, 0]))


def test_what_another_group_is_to_fetch_is_only_taken_where_somebody_has_it() -> None:
    turn_of = bytes([0, ELSEWHERE, ELSEWHERE, OWN])
    decided = wanted(turn_of, takes(0, 2, ()), [bytes([0, 1, 0, 0])])
    assert decided == (bytes([1, 0, 0, 1]), bytes([0, 1, 0, 0]))


def test_who_is_alone_fetches_what_another_group_was_to() -> None:
    decided = wanted(bytes([0, 1, ELSEWHERE, PIECES]), takes(0, 2, (), alone=True), ())
    assert decided == (bytes([1, 1, 1, 0]), bytes(4))


def test_a_piece_that_another_node_failed_to_give_is_fetched_from_the_source() -> None:
    decided = wanted_pieces(bytes(4), takes(0, 2, {0, 1}), bytes(4), [b"\1\1\1\1"], refused=b"\0\1")
    assert decided == (bytes([0, 1, 0, 0]), bytes([1, 0, 1, 1]))


def test_an_answer_that_is_too_short_too_long_or_wrong_counts_as_far_as_it_is_right() -> None:
    turn_of = bytes([1, 1, 1])
    assert wanted(turn_of, takes(0, 2, {0, 1}), [b"\1", b"\7\7\1\1\1\1"]).from_peers == bytes([1, 0, 1])


def test_a_node_that_does_not_get_on_is_waited_for_no_longer_than_that() -> None:
    progress = PeerProgress(patience=10.0)
    for now, arrived in ((0.0, 5), (9.0, 6), (15.0, 6), (20.0, 6)):
        progress.told("b", arrived, now)
        assert list(progress.alive({1: "b"}, now)) == ([1] if now < 20.0 else [])


def test_a_node_that_falls_silent_is_waited_for_less_long_than_one_that_is_yet_to_begin() -> None:
    progress = PeerProgress(patience=10.0)
    for now in (0.0, 3.0, 6.0):
        progress.told("begins", -1, now)
        progress.told("died", 5 if now == 0.0 else -1, now)
    assert (progress.gets_on("begins", 6.0), progress.gets_on("died", 6.0)) == (True, False)


@given(marks=st.binary(max_size=30), maps=st.lists(st.binary(max_size=40), max_size=3))
def test_what_is_wanted_is_had_by_some_or_by_others(marks: bytes, maps: list[bytes]) -> None:
    wished = bytes(byte & 1 for byte in marks)
    had, others = had_by(wished, maps)
    assert bytes(one | other for one, other in zip(had, others, strict=True)) == wished
    for ino, one in enumerate(had):
        assert one == (wished[ino] and any(said[ino : ino + 1] in (b"\1", b"\3") for said in maps))


def test_one_that_gives_something_has_not_fallen_silent() -> None:
    progress = PeerProgress(patience=10.0)
    progress.told("stalls", 5, 0.0)
    for now in (3.0, 6.0):
        progress.gave("stalls", now)
        progress.told("stalls", -1, now)
    assert progress.gets_on("stalls", 6.0)


def test_a_node_that_answers_speaks_although_nothing_comes_to_it() -> None:
    progress = PeerProgress(patience=10.0)
    for now in (0.0, 10.0, 20.0):
        progress.told("waits", 5, now)
        progress.told("gone", -1, now)
    assert [progress.speaks("waits", 20.0), progress.gets_on("waits", 20.0)] == [True, False]
    assert [progress.speaks("gone", now) for now in (10.0, 20.0)] == [True, False]
