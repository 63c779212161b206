"""A window of bytes ahead of readers is read into memory, each piece once and in order."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker_sidecar.fetcher.pages.core.prefetch_queue import PrefetchQueue
from stoker_sidecar.wire.fetcher_hints import PageWindow
from tests.support.cases import cases

SIZE = 100_000  # bytes of each piece
PLENTY = 2**40


def packed(numbers: range) -> bytes:
    """Encode pieces whose inode is their number."""
    return b"".join(struct.pack("<IIQ", number, 0, 0) for number in numbers)


def told(first: int, count: int, seen: float = 0.0, at: float | None = None, pace: float = 0.0) -> PageWindow:
    numbers = range(first, first + count)
    return PageWindow("uid", "d" * 64, "pod", first, seen, seen if at is None else at, pace, packed(numbers))


def queued(window: PageWindow) -> PrefetchQueue:
    upcoming = PrefetchQueue(SIZE)
    upcoming.take(window, 0.0)
    return upcoming


def queue_of(first: int, count: int, **place: float) -> PrefetchQueue:
    return queued(told(first, count, **place))


def wanted(upcoming: PrefetchQueue, now: float = 0.0, room: int = PLENTY, most: int = 10_000) -> list[int]:
    return [piece.ino for piece in upcoming.wanted(now, room, most)]


def test_pieces_are_wanted_once_and_in_their_order() -> None:
    upcoming = queue_of(0, 300)
    assert [wanted(upcoming, most=200), wanted(upcoming, most=200), wanted(upcoming)] == [
        list(range(200)),
        list(range(200, 300)),
        [],
    ]


@cases("first", goes_on=10, begins_anew_at_0=0)
def test_what_is_told_later_is_wanted_too(first: int) -> None:
    upcoming = queue_of(0, 10)
    wanted(upcoming)
    upcoming.take(told(first, 10), 0.0)
    assert wanted(upcoming) == list(range(first, first + 10))


def test_no_more_is_ahead_than_there_is_room() -> None:
    upcoming = queue_of(0, 500)
    assert wanted(upcoming, room=50 * SIZE) == list(range(50))
    assert wanted(upcoming, room=50 * SIZE) == []
    assert upcoming.ahead(0.0) == 50 * SIZE


def test_readers_that_move_on_make_room() -> None:
    upcoming = queue_of(0, 500, pace=100.0)
    wanted(upcoming, room=50 * SIZE)
    assert wanted(upcoming, now=0.2, room=50 * SIZE) == []  # too few for a request
    assert wanted(upcoming, now=0.3, room=50 * SIZE) == list(range(50, 80))


def test_a_pace_is_believed_for_a_second() -> None:
    upcoming = queue_of(0, 5000, pace=100.0)
    wanted(upcoming, room=50 * SIZE)
    assert len(wanted(upcoming, now=60.0, room=50 * SIZE)) == 100


@cases("pace, pieces", slow=(1.0, 64 * 2**20 // SIZE), fast=(700.0, 7000))
def test_the_window_is_seconds_of_the_pace_and_no_less_than_a_small_one(pace: float, pieces: int) -> None:
    assert len(wanted(queue_of(0, 8000, pace=pace))) == pieces


@cases("place", seen={"seen": 100.0}, reckoned_further={"seen": 100.0, "at": 200.0})
def test_what_readers_were_seen_to_go_past_is_left_out(place: dict[str, float]) -> None:
    assert wanted(queue_of(0, 500, **place), most=3) == [100, 101, 102]


def test_one_who_begins_in_the_middle_needs_nothing_from_before() -> None:
    upcoming = queue_of(7000, 10, seen=6990.0)
    assert wanted(upcoming) == list(range(7000, 7010))


def test_the_size_is_learned_from_what_was_brought() -> None:
    upcoming = queue_of(0, 5000)
    for _ in range(60):
        upcoming.brought(10, 10 * 10 * SIZE)
    assert 45 <= len(wanted(upcoming, room=500 * SIZE)) <= 55


def test_what_is_due_are_pieces_that_were_brought_and_come_soon() -> None:
    upcoming = queue_of(0, 500, seen=100.0)
    assert upcoming.due(0.0, 4) == []
    wanted(upcoming, room=200 * SIZE)
    assert [piece.ino for piece in upcoming.due(0.0, 4)] == [100, 125, 150, 175]


def test_what_was_lost_is_wanted_again_from_the_readers_place_on() -> None:
    upcoming = queue_of(0, 500, seen=100.0)
    wanted(upcoming, room=200 * SIZE)
    upcoming.lost(0.0)
    assert wanted(upcoming, room=200 * SIZE) == list(range(100, 300))


def test_what_was_read_is_spent_once_and_some_way_behind_the_readers() -> None:
    upcoming = queue_of(0, 500, at=200.0)
    assert upcoming.spent(0.0, 0, 1000) == []  # nothing is in memory so far
    wanted(upcoming, room=100 * SIZE)
    assert [piece.ino for piece in upcoming.spent(0.0, 50 * SIZE, 100)] == list(range(100))
    assert [piece.ino for piece in upcoming.spent(0.0, 30 * SIZE, 100)] == list(range(100, 170))
    assert upcoming.spent(0.0, 30 * SIZE, 100) == []


def test_what_comes_again_in_what_was_brought_is_not_spent() -> None:
    upcoming = PrefetchQueue(SIZE)
    epochs = packed(range(200)) + packed(range(150, 350))
    upcoming.take(PageWindow("uid", "d" * 64, "pod", pieces=epochs, at=200.0), 0.0)
    assert len(wanted(upcoming)) == 400
    assert [piece.ino for piece in upcoming.spent(0.0, 0, 1000)] == list(range(150))


def test_what_a_late_loader_has_not_opened_is_not_spent() -> None:
    upcoming = queue_of(0, 4000)
    wanted(upcoming)
    wires = range(0, 1600, 17)
    for number in wires:
        upcoming.wire(number)
    upcoming.opened([number for number in wires if number % 4 != 3], 1.0)
    assert upcoming.passed == 1598
    assert upcoming.spent(1.0, 300 * SIZE, 500) == []
    upcoming.opened([number for number in wires if number % 4 == 3], 1.5)
    assert [piece.number for piece in upcoming.spent(1.5, 300 * SIZE, 500)] == list(range(500))


def test_what_is_far_behind_is_left_to_the_kernel() -> None:
    upcoming = queue_of(0, 5000, at=4000.0)
    wanted(upcoming)
    assert [piece.ino for piece in upcoming.spent(0.0, 100 * SIZE, 500)] == list(range(3200, 3700))


def test_a_file_with_a_wire_is_not_spent_as_it_would_be_opened() -> None:
    upcoming = queued(PageWindow("uid", "d" * 64, "pod", pieces=packed(range(1000)) * 2, at=500.0))
    wanted(upcoming, most=500)
    upcoming.wire(1017)  # the file of piece 17
    assert [piece.ino for piece in upcoming.spent(0.0, 0, 100)] == [*range(17), *range(18, 100)]


def test_what_some_of_several_loaders_have_read_makes_room_for_more() -> None:
    upcoming = queue_of(0, 4000)
    wanted(upcoming, room=1000 * SIZE)
    for number in range(0, 1000, 17):
        upcoming.wire(number)
    upcoming.opened([number for number in range(0, 1000, 17) if number % 4 == 0], 1.0)  # one of four loaders
    assert upcoming.passed == 0
    assert len(wanted(upcoming, 1.0, room=1000 * SIZE)) == pytest.approx(250, abs=17)


@cases(
    "first, room, most, found",
    all_that_comes_too_late=(64, 500, 100, range(52 + 34, 52 + 134)),
    no_more_than_half_of_the_window=(52, 8, 10_000, range(56, 60)),
)
def test_what_readers_will_have_reached_before_it_can_come_is_left_to_them(
    first: int, room: int, most: int, found: range
) -> None:
    upcoming = queue_of(0, 4_000)
    wanted(upcoming, most=first)
    for number in range(0, 68, 17):
        upcoming.wire(number)
    upcoming.opened([0, 17, 34, 51], 0.0)
    assert wanted(upcoming, room=room * SIZE, most=most) == list(found)


def test_half_a_piece_is_left_out() -> None:
    upcoming = queued(PageWindow("uid", "d" * 64, "pod", pieces=packed(range(3)) + b"odd"))
    assert wanted(upcoming) == [0, 1, 2]


def test_it_is_looked_at_again_only_where_time_makes_room() -> None:
    upcoming = queue_of(0, 1000)
    assert upcoming.wait(0.0) is None
    upcoming.take(told(1000, 1000, pace=6400.0), 0.0)
    assert upcoming.wait(0.0) == 0.01
    assert upcoming.wait(1.5) is None


def test_a_file_that_a_late_loader_opens_first_tells_nothing_of_the_next_epoch() -> None:
    upcoming = queued(PageWindow("uid", "d" * 64, "pod", pieces=packed(range(1600)) * 2))
    for number in range(0, 1600, 17):
        upcoming.wire(number)
    upcoming.opened([number for number in range(0, 1600, 17) if number % 4 != 3], 1.0)
    assert not upcoming.tells(1600 + 1003)  # the fourth loader has not opened it
    upcoming.opened([number for number in range(0, 1600, 17) if number % 4 == 3], 1.5)
    assert upcoming.tells(1600 + 1003)


def test_the_opening_of_a_file_that_comes_earlier_too_tells_nothing_of_the_later_piece() -> None:
    upcoming = PrefetchQueue(SIZE)
    epochs = packed(range(1000)) + packed(range(999, -1, -1))
    upcoming.take(PageWindow("uid", "d" * 64, "pod", pieces=epochs), 0.0)
    assert upcoming.tells(999)
    assert not upcoming.tells(1000)  # piece 999 is in the same file
    upcoming.opened([], 0.0)
    upcoming.take(PageWindow("uid", "d" * 64, "pod", 2000, seen=999.5), 0.0)
    assert not upcoming.tells(1000)
    upcoming.take(PageWindow("uid", "d" * 64, "pod", 2000, seen=1000.0), 0.0)
    assert upcoming.tells(1000)


def test_the_place_of_readers_stays_right_where_the_window_is_several_epochs_long() -> None:
    upcoming = PrefetchQueue(SIZE)
    files, epochs = 500, 8
    upcoming.take(PageWindow("uid", "d" * 64, "pod", pace=100.0, at=0.0, pieces=packed(range(files)) * epochs), 0.0)
    wanted(upcoming, room=2 * files * SIZE)
    watched = {piece.ino: piece.number for piece in upcoming.scouts()}
    for number in watched.values():
        upcoming.wire(number)
    upcoming.opened([watched[ino] for ino in range(files) if ino in watched], 1.0)
    assert upcoming.ahead(1.0) == pytest.approx((2 * files - 100) * SIZE)


@given(
    st.lists(st.tuples(st.integers(0, 400), st.floats(0.0, 500.0), st.floats(0.0, 1e4)), min_size=1, max_size=30),
    st.integers(SIZE, 100 * SIZE),
)
def test_pieces_never_come_twice_and_never_beyond_the_room(moves: list[tuple[int, float, float]], room: int) -> None:
    upcoming, first, at, found = PrefetchQueue(SIZE), 0, 0.0, list[int]()
    for number, (count, gone, pace) in enumerate(moves):
        at = min(at + gone, float(first + count))
        upcoming.take(told(first, count, seen=at, pace=pace), float(number))
        first += count
        found += wanted(upcoming, float(number), room, 300)
        assert upcoming.ahead(float(number)) <= room + SIZE
    assert found == sorted(set(found))
