"""Lookahead in an order of files."""

from collections.abc import Iterator

from stoker_sidecar.fetcher.ondisk.choosing import PeekableOrder
from stoker_sidecar.version.manifest import Entry


def _entry(ino: int) -> Entry:
    return Entry(ino, 1, b"%d" % ino, False, 1, 0, "", "")


def _any(ino: int) -> bool:
    return True


def test_entries_that_are_looked_at_stay() -> None:
    entries = [_entry(ino) for ino in range(1, 6)]
    order = PeekableOrder(iter(entries), _any)
    assert order.following(3) == entries[:3]
    assert [next(order), *order.following(9)] == entries
    assert list(order) == entries[1:]


def test_an_order_is_looked_ahead_into_no_further_than_requested() -> None:
    taken: list[int] = []

    def entries() -> Iterator[Entry]:
        for ino in range(2, 10):
            taken.append(ino)
            yield _entry(ino)

    order = PeekableOrder(entries(), _any)
    assert len(order.following(3)) == 3
    assert taken == [2, 3, 4]


def test_files_that_came_since_the_look_are_left_out() -> None:
    came: set[int] = set()
    order = PeekableOrder(map(_entry, (2, 3, 4)), lambda ino: ino not in came)
    order.following(3)
    came.add(3)
    assert [entry.ino for entry in order] == [2, 4]
