"""Files of a known order whose opening the kernel reports show the position of readers, despite other openings."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker_sidecar.fetcher.pages.core.open_watchpoints import STRIDE, OpenWatchpoints

PIECES = 2000


def laid(pieces: int = PIECES) -> OpenWatchpoints:
    wires = OpenWatchpoints()
    for number in range(0, pieces, STRIDE):
        wires.lay(number)
    return wires


def wired(numbers: range | list[int]) -> list[int]:
    return [number for number in numbers if number % STRIDE == 0]


@given(st.lists(st.integers(1, 300), max_size=30))
def test_readers_that_keep_to_the_order_are_found_to_a_wire(moves: list[int]) -> None:
    wires, at = laid(), 0
    for turn, move in enumerate(moves):
        end = min(PIECES, at + move)
        wires.tripped(wired(range(at, end)), float(turn))
        at = end
        if at:
            assert wires.passed is not None
            assert at - STRIDE <= wires.passed < at


@given(st.integers(2, 8), st.integers(1, 20), st.randoms(use_true_random=False))
def test_loaders_that_read_by_turns_are_found_to_some_wires(loaders: int, late: int, chance: random.Random) -> None:
    """Each loader is up to ``late`` of its own pieces behind the common position."""
    wires, read = laid(), 0
    for turn, step in enumerate(range(50, PIECES // loaders, 50)):
        behind = [chance.randint(0, late) for _ in range(loaders)]
        opened = [n for n in range(step * loaders) if n // loaders < step - behind[n % loaders]]
        wires.tripped(wired(opened), float(turn))
        read = step * loaders
        assert wires.passed is not None
        assert read - (late + 1) * loaders - 2 * STRIDE <= wires.passed < read


@given(st.lists(st.integers(0, PIECES - 1), max_size=40))
def test_what_strangers_open_moves_the_place_by_some_wires_alone(strange: list[int]) -> None:
    wires = laid()
    spaced = [number for number in wired(strange) if (number // STRIDE) % 5 == 4]  # one of five watched files
    for turn, number in enumerate(spaced):
        wires.tripped([number], float(turn))
    wires.tripped(wired(range(100)), 100.0)
    assert wires.passed is not None
    assert wires.passed < 100 + 2 * STRIDE


def test_a_flood_of_openings_is_looked_at_within_bounds() -> None:
    wires = laid(STRIDE * 2000)
    wires.tripped(wired(range(STRIDE * 2000)), 1.0)
    assert wires.passed == STRIDE * 255


def test_the_pace_is_that_of_the_openings() -> None:
    wires = laid(STRIDE * 1000)
    for tick in range(1, 40):
        wires.tripped(wired(range((tick - 1) * 400, tick * 400)), tick * 0.1)
    assert wires.pace == pytest.approx(4000, rel=0.05)
    place = wires.place(4.0)
    assert place is not None
    assert place == pytest.approx(39 * 400 + 400, abs=2 * STRIDE)


def test_readers_that_pause_stay_where_they_are() -> None:
    wires = laid()
    for tick in range(1, 5):
        wires.tripped(wired(range((tick - 1) * 100, tick * 100)), tick * 0.1)
    for tick in range(5, 60):
        wires.tripped([], tick * 0.1)
    place = wires.place(6.0)
    assert place is not None
    assert place < 400 + STRIDE


def test_without_wires_ahead_nothing_is_known_for_long() -> None:
    wires = laid(100)
    wires.tripped(wired(range(100)), 1.0)
    assert wires.place(1.5) is not None
    assert wires.place(2.5) is None


def test_wires_that_were_taken_up_count_no_more() -> None:
    wires = laid()
    assert wires.take_up(100, 200) == wired(range(100, 200))
    wires.tripped(wired(range(100, 200)), 1.0)
    assert wires.passed is None
    assert not wires.has(102)
    wires.lay(102)
    assert wires.has(102)


def test_readers_that_overtook_most_wires_are_found_by_those_beyond() -> None:
    wires = laid(1000)
    for number in range(1020, 4000, 8 * STRIDE):
        wires.lay(number)
    wires.tripped([1020, 1156, 1292], 1.0)
    assert wires.passed == 1292


def test_wires_behind_readers_that_were_seen_elsewhere_count_no_more() -> None:
    wires = laid()
    wires.skip(1000)
    wires.tripped(wired(range(500)), 1.0)
    assert wires.passed is None
    wires.tripped(wired(range(1000, 1100)), 2.0)
    assert wires.passed is not None
    assert wires.passed >= 1000


def test_before_anything_was_opened_no_place_is_known() -> None:
    assert laid().place(0.0) is None


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(1, 60)), max_size=60))
def test_done_is_what_the_last_of_several_loaders_has_opened(moves: list[tuple[int, int]]) -> None:
    """Each of four loaders opens every fourth piece, in any turns."""
    wires, opened = laid(), [0, 0, 0, 0]
    for turn, (loader, move) in enumerate(moves):
        begin, opened[loader] = opened[loader], opened[loader] + move
        wires.tripped(wired([step * 4 + loader for step in range(begin, opened[loader])]), float(turn))
        unopened = [one for one in wired(range(wires.done or 0)) if one // 4 >= opened[one % 4]]
        assert len(unopened) < 4  # fewer are lost reports


def test_a_loader_that_comes_last_is_waited_for() -> None:
    wires = laid()
    wires.tripped([one for one in wired(range(1600)) if one % 4 != 3], 1.0)
    assert wires.passed is not None
    assert wires.passed > 1500
    assert wires.done == 51  # the first watched file of the fourth loader
    wires.tripped([one for one in wired(range(1600)) if one % 4 == 3], 2.0)
    assert wires.done == wires.passed + 1


def test_an_opening_that_never_comes_is_waited_for_within_bounds() -> None:
    wires = laid(STRIDE * 400)
    wires.tripped([one for one in wired(range(STRIDE * 200)) if one not in range(170, 240)], 1.0)
    assert wires.done == 170
    wires.tripped(wired(range(STRIDE * 200, STRIDE * 400)), 2.0)
    assert wires.passed == STRIDE * 399
    assert wires.done == wires.passed + 1
