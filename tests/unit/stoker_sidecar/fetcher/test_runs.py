"""How many chunks come by one request, and how an order is looked ahead into."""

from collections.abc import Iterator

from hypothesis import given
from hypothesis import strategies as st

from stoker_sidecar.fetcher.core.runs import MOST, run_length
from stoker_sidecar.fetcher.download.parts import CHUNK
from stoker_sidecar.fetcher.download.sighted_order import SightedOrder
from stoker_sidecar.version.manifest import Entry


def _entry(ino: int, chunks: int) -> Entry:
    return Entry(ino, 1, b"%d" % ino, False, chunks * CHUNK, 0, "", "")


def _any(ino: int) -> bool:
    return True


def _taken(entries: list[Entry], taken: list[int]) -> Iterator[Entry]:
    for entry in entries:
        taken.append(entry.ino)
        yield entry


def test_runs_are_long_while_much_is_left_and_one_chunk_at_the_end() -> None:
    assert run_length(10_000, 16) == MOST
    assert run_length(16, 16) == 1


def test_entries_that_are_looked_at_stay() -> None:
    entries = [_entry(ino, 1) for ino in range(1, 6)]
    order = SightedOrder(iter(entries), _any, lambda one, other: True)
    assert order.following(3) == entries[:3]
    assert [next(order), *order.following(9)] == entries
    assert list(order) == entries[1:]


@given(st.integers(1, 500), st.integers(1, 64))
def test_nobody_is_left_with_more_than_the_others_take_meanwhile(pieces: int, streams: int) -> None:
    busy_until = [0] * streams
    while pieces:
        length = min(pieces, run_length(pieces, streams))
        first = min(range(streams), key=busy_until.__getitem__)
        busy_until[first] += length
        pieces -= length
    assert max(busy_until) - min(busy_until) <= 2


def test_an_order_is_looked_ahead_into_no_further_than_is_asked() -> None:
    taken: list[int] = []
    order = SightedOrder(_taken([_entry(ino, 4) for ino in range(2, 10)], taken), _any, lambda one, other: True)
    first = next(order)
    assert taken == [2]
    assert order.pieces_left(first, 8) == 8
    assert taken == [2, 3, 4, 5]
    assert [entry.ino for entry in order] == [3, 4, 5, 6, 7, 8, 9]


def test_files_of_another_rank_are_not_counted() -> None:
    order = SightedOrder(iter([_entry(2, 4), _entry(3, 4), _entry(101, 4)]), _any, lambda one, other: other.ino < 100)
    assert order.pieces_left(next(order), 100) == 4
    assert [entry.ino for entry in order] == [3, 101]


def test_what_came_since_it_was_looked_at_is_left_out() -> None:
    came: set[int] = set()
    entries = iter([_entry(2, 4), _entry(3, 4), _entry(4, 4)])
    order = SightedOrder(entries, lambda ino: ino not in came, lambda one, other: True)
    order.pieces_left(next(order), 100)
    came.add(3)
    assert [entry.ino for entry in order] == [4]
