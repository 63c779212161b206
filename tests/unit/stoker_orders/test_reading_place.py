"""The position of readers is extrapolated from their pace, and corrected by each observation."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker_orders.reading_place import ReadingPlace

LOOSE = 100.0
# Seconds and steps between two observed positions.
MOVES = st.lists(st.tuples(st.floats(0.01, 10.0), st.floats(0.0, 50_000.0)), min_size=1, max_size=20)


def seen(moves: list[tuple[float, float]]) -> tuple[ReadingPlace, float, float]:
    """Return a place after these observations, with the time and the position of the last one."""
    place, now, at = ReadingPlace(LOOSE), 5.0, 0.0
    place.saw(now, at)
    for seconds, steps in moves:
        now, at = now + seconds, at + steps
        place.saw(now, at)
    return place, now, at


@given(MOVES)
def test_a_place_that_is_seen_is_believed(moves: list[tuple[float, float]]) -> None:
    place, now, at = seen(moves)
    assert place.at(now) == pytest.approx(at)


@given(MOVES, st.floats(0.0, 100.0), st.floats(0.0, 100.0))
def test_it_never_moves_back_while_nothing_is_seen(moves: list[tuple[float, float]], one: float, other: float) -> None:
    place, now, at = seen(moves)
    assert at <= place.at(now + min(one, other)) <= place.at(now + max(one, other))


@given(MOVES, st.floats(0.0, 100.0))
def test_it_moves_no_faster_than_readers_did(moves: list[tuple[float, float]], later: float) -> None:
    place, now, at = seen(moves)
    fastest = max(steps / seconds for seconds, steps in moves)
    assert place.at(now + later) <= at + fastest * later * 1.0001 + 1.0


@given(st.floats(0.1, 10.0), st.floats(10.0, 50_000.0), st.floats(0.0, 1.0))
def test_a_steady_pace_is_foretold(span: float, pace: float, share: float) -> None:
    place, now, at = seen([(span, span * pace)] * 5)
    assert place.at(now + span * share) == pytest.approx(at + pace * span * share, rel=1e-6)


@given(MOVES)
def test_readers_that_are_seen_no_more_stand_still_in_the_end(moves: list[tuple[float, float]]) -> None:
    place, now, _ = seen(moves)
    assert place.at(now + 21.0) == place.at(now + 1000.0)


@given(MOVES, st.floats(1.0, 10_000.0))
def test_a_place_far_back_is_gone_to(moves: list[tuple[float, float]], back: float) -> None:
    place, now, at = seen([*moves, (1.0, 20_000.0)])
    to = at - LOOSE - back
    assert place.saw(now + 1.0, to)
    assert place.at(now + 1.0) == pytest.approx(to)
    assert place.pace == 0.0


def test_readers_that_turn_out_slower_than_reckoned_are_told() -> None:
    place, now, at = seen([(1.0, 10_000.0)] * 3)
    assert place.saw(now + 2.0, at + 10.0)
    assert place.at(now + 2.0) == at + 10.0


def test_a_read_out_of_order_moves_nothing_back() -> None:
    place, now, at = seen([(1.0, 50.0)] * 3)
    assert not place.saw(now, at - LOOSE / 2)
    assert place.at(now) == at


@given(st.floats(0.0, 1_000_000.0), st.floats(0.0, 100.0))
def test_before_anything_is_seen_readers_are_where_they_begin(begin: float, now: float) -> None:
    assert ReadingPlace(LOOSE, begin).at(now) == begin


@given(st.floats(0.0, 1_000_000.0), st.floats(0.0, 1_000_000.0))
def test_what_is_seen_first_is_believed_where_it_is_far_behind_the_beginning(begin: float, seen: float) -> None:
    place = ReadingPlace(LOOSE, begin)
    far = place.saw(0.0, seen)
    assert far == (seen < begin - LOOSE)
    assert place.seen == (seen if far else max(begin, seen))
