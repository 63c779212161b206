"""Files that are held but not kept: eviction order, and the limit of unasked downloads."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker_sidecar.fetcher.download.core.next_uses import NextUses
from stoker_sidecar.fetcher.download.core.read_through import Transients, room_to_pass
from stoker_sidecar.fetcher.sources.core.lanes import Lane
from stoker_sidecar.fetcher.space.cache_disk import LEAST_ROOM

NOBODY = frozenset[int]()


def _held(limit: int, *inodes: int, size: int = 10) -> Transients:
    transients = Transients(limit)
    for ino in inodes:
        transients.hold(ino, size, size)
    return transients


def _foresee(transients: Transients, *files: int) -> None:
    uses = transients.uses or NextUses()
    uses.tell("pod", files)
    transients.prefetch(uses)


def test_who_was_used_least_recently_leaves_first() -> None:
    transients = _held(30, 1, 2, 3, 4)
    transients.touch(1, to_end=True)
    assert transients.surplus(NOBODY) == [2]


def test_the_last_used_and_the_busy_stay() -> None:
    assert _held(5, 1, 2, 3).surplus(frozenset({1})) == [2]


def test_a_disk_with_less_room_than_the_limit_holds_less() -> None:
    assert _held(40, 1, 2, 3, 4).surplus(NOBODY, room=20) == [1, 2]


@pytest.mark.parametrize(
    ("available", "held", "room"),
    [
        (0, 0, 0),
        (8_000_000, 0, 4_000_000),
        (2_000_000, 6_000_000, 4_000_000),  # held files count as well
        (0, 8_000_000, 4_000_000),
        (10 * LEAST_ROOM, 0, 9 * LEAST_ROOM),
    ],
)
def test_passing_copies_leave_room_on_the_disk(available: int, held: int, room: int) -> None:
    assert room_to_pass(available, held) == room


def test_what_is_read_next_outlasts_what_was_used_later() -> None:
    transients = _held(30, 1, 2, 3, 4)
    _foresee(transients, 1, 2)
    assert transients.surplus(NOBODY) == [3]


def test_of_what_is_read_next_the_last_leaves_first() -> None:
    transients = _held(40, 1, 2, 3)
    _foresee(transients, 3, 1, 2)
    transients.hold(4, 30, 30)
    assert transients.surplus(NOBODY) == [2, 1]


def test_what_was_read_to_its_end_leaves_before_what_was_not() -> None:
    transients = _held(40, 1, 2, 3)
    _foresee(transients, 1, 2, 3)
    transients.touch(2, to_end=True)
    transients.touch(1, to_end=False)
    transients.hold(4, 20, 20)
    assert transients.surplus(NOBODY) == [2]


def test_nothing_is_fetched_ahead_that_nobody_is_known_to_read() -> None:
    transients = _held(100)
    assert not transients.takes_ahead(1, 10, 0)
    assert not transients.lets_pass(Lane.READAHEAD, 10)
    _foresee(transients, 1)
    assert transients.takes_ahead(1, 10, 0)
    lanes = [lane for lane in Lane if transients.lets_pass(lane, 10)]
    assert lanes == [Lane.DEMAND, Lane.READAHEAD]
    assert not transients.lets_pass(Lane.READAHEAD, 76)


def test_three_quarters_may_be_ahead_on_their_way_or_here() -> None:
    transients = _held(100, 1, 2)
    _foresee(transients, 1, 2, 3)
    assert transients.takes_ahead(3, 10, 45)
    assert not transients.takes_ahead(3, 10, 46)


def test_a_large_file_counts_as_if_it_were_here() -> None:
    transients = Transients(100)
    _foresee(transients, 1, 2)
    transients.hold(1, 10, 70)
    assert transients.takes_ahead(1, 70, 0)
    assert not transients.takes_ahead(2, 10, 0)
    assert not transients.may_hold(76)


def test_reading_makes_room_for_what_comes_behind() -> None:
    transients = _held(100, 1, 2, 3, size=25)
    _foresee(transients, 1, 2, 3, 4)
    assert not transients.takes_ahead(4, 25, 0)
    transients.touch(1, to_end=True)
    assert transients.takes_ahead(4, 25, 0)


def test_what_nobody_asked_for_in_time_is_counted_once() -> None:
    transients = _held(100, 1, 2, 3)
    _foresee(transients, 1, 2, 3)
    transients.touch(2, to_end=False)
    _foresee(transients, 3)
    transients.release(1)
    assert transients.unread_bytes == 10
    transients.release(3)
    assert transients.unread_bytes == 20


def test_where_nobody_asks_for_what_came_no_more_is_fetched_until_somebody_does() -> None:
    transients = Transients(100)
    for ino in range(10):
        _foresee(transients, ino)
        transients.hold(ino, 10, 10)
    _foresee(transients, 50)
    assert not transients.takes_ahead(50, 10, 0)
    transients.touch(9, to_end=True)
    assert transients.takes_ahead(50, 10, 0)


def test_what_is_read_again_much_later_takes_no_room_of_what_is_read_next() -> None:
    """At the end of an epoch, the last files return hundreds of files later."""
    transients = _held(100, 1, 2, 3, 4, 5, 6, 7)
    _foresee(transients, 1, 2, 3, 4, 5, 6, 7, 8, 9, *range(10, 20), 1, 2, 3)
    for ino in (1, 2, 3):
        transients.touch(ino, to_end=True)
    _foresee(transients, 4, 5, 6, 7, 8, 9, *range(10, 20), 1, 2, 3)
    assert transients.takes_ahead(8, 10, 0)
    transients.hold(8, 10, 10)
    assert not transients.takes_ahead(9, 40, 0)


_ACTIONS = st.lists(
    st.one_of(
        st.tuples(st.just("hold"), st.integers(0, 9), st.integers(0, 40)),
        st.tuples(st.just("touch"), st.integers(0, 9), st.booleans()),
        st.tuples(st.just("release"), st.integers(0, 9), st.just(0)),
        st.tuples(st.just("foresee"), st.permutations(range(10)), st.integers(0, 10)),
        st.tuples(st.just("end"), st.just(0), st.just(0)),
        st.tuples(st.just("drop"), st.just(0), st.just(0)),
    ),
    max_size=60,
)


@given(_ACTIONS)
def test_what_is_held_is_counted_right_and_within_its_limit(actions: list[tuple[str, object, object]]) -> None:
    """After any arrivals, reads and hints, each held file is either wanted or not, within the limit."""
    transients, held = Transients(100), dict[int, int]()
    for action, what, how in actions:
        match action, what, how:
            case "hold", int(ino), int(size):
                transients.hold(ino, size, 40)
                held[ino] = size
            case "touch", int(ino), to_end:
                transients.touch(ino, to_end=bool(to_end))
            case "release", int(ino), _:
                transients.release(ino)
                held.pop(ino, None)
            case "foresee", list(order), int(count):
                _foresee(transients, *order[:count])
            case "end", _, _:
                transients.prefetch(None)
            case "drop", _, _:
                before = len(held)
                for ino in transients.surplus(NOBODY):
                    transients.release(ino)
                    del held[ino]
                assert before == 0 or held, "the last one stays"
                assert sum(held.values()) <= 100 or len(held) == 1
        assert transients.total == sum(held.values())
        wanted, others = set(transients._wanted), set(transients._others)
        assert wanted.isdisjoint(others)
        assert wanted | others == set(held)
        assert wanted <= set(transients.uses.files() if transients.uses is not None else ()) | {transients._last}
        assert transients._wanted_bytes == 40 * len(wanted)


def test_the_only_file_is_dropped_as_a_last_resort() -> None:
    assert _held(5, 1).last_resort(NOBODY) == [1]
    assert _held(5, 1, 2).last_resort(NOBODY) == []
    assert _held(5, 1).last_resort(frozenset({1})) == []
