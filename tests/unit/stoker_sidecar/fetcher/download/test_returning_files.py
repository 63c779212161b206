"""Eviction on a node that reads another part each epoch, compared with the optimum and with no knowledge."""

import random
import zlib
from collections.abc import Collection, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stoker_sidecar.errors import ProtocolError
from stoker_sidecar.fetcher.download.next_epoch import NEXT, NOW, ReturningFiles
from tests.support.next_use_model import hits_by_next_use, hits_of_recent_use, hits_of_what_came_first

FILES = 400


def marks(now: Collection[int], following: Collection[int]) -> bytes:
    found = bytearray(max([*now, *following], default=0) + 1)
    for mark, files in ((NOW, now), (NEXT, following)):
        for file in files:
            found[file] |= mark
    return zlib.compress(bytes(found))


def told(now: Collection[int], following: Collection[int]) -> ReturningFiles:
    files = ReturningFiles()
    files.tell("pod", marks(now, following))
    return files


def here(*files: int, count: int = 10) -> bytes:
    return bytes(number in files for number in range(count))


class ReturningCache:
    """A cache of files of one size that evicts files like the fetcher. ``left``: the number of evicted files."""

    def __init__(self, kept: Collection[int], room: int) -> None:
        self.kept, self.room, self.left = set(kept), room, 0

    def read(self, epoch: Sequence[int], following: Collection[int], times: int = 4) -> int:
        """Read an epoch, with ``times`` hints about the rest of it. Return its hits."""
        hits, turn = 0, max(1, -(-len(epoch) // times))
        for at, file in enumerate(epoch):
            if at % turn == 0:
                known = told(epoch[at:], following)
                idle = known.idle(bytes(one in self.kept for one in range(max(self.kept, default=0) + 1)))
            if file in self.kept:
                hits += 1
            elif len(self.kept) < self.room:
                self.kept.add(file)
            elif known.comes_twice(file) and (leaver := next(idle, None)) is not None:
                self.kept.remove(leaver)
                self.kept.add(file)
                self.left += 1
        return hits


def hits_of_returning(epochs: Sequence[Sequence[int]], room: int) -> list[int]:
    cache = ReturningCache((), room)
    return [cache.read(epoch, following) for epoch, following in zip(epochs, [*epochs[1:], ()], strict=True)]


def test_a_file_comes_again_when_it_is_read_in_both_epochs() -> None:
    files = told([1, 2], [2, 3])
    assert [ino for ino in range(6) if files.comes_twice(ino)] == [2]


def test_what_is_read_in_neither_epoch_leaves_the_last_one_first() -> None:
    assert list(told([1, 2], [2, 3]).idle(here(1, 3, 5, 7))) == [7, 5]


def test_what_any_reader_reads_stays() -> None:
    files = told([1], [1])
    files.tell("other", marks([7], []))
    assert list(files.idle(here(1, 5, 7))) == [5]
    files.tell("other", b"")
    assert list(files.idle(here(1, 5, 7))) == [7, 5]


def test_where_nobody_told_anything_nothing_leaves() -> None:
    files = told([1], [1])
    files.tell("pod", b"")
    assert list(files.idle(here(1, 5))) == []
    assert not files.comes_twice(1)


@pytest.mark.parametrize("packed", [b"odd", zlib.compress(b"\1" * 100)[:-3], zlib.compress(b"\1") + b"more"])
def test_what_cannot_be_unpacked_is_refused(packed: bytes) -> None:
    with pytest.raises(ProtocolError, match="returning request"):
        told([], []).tell("pod", packed)


def test_no_more_readers_are_held_than_a_node_follows() -> None:
    files = ReturningFiles()
    for number in range(20):
        files.tell(f"pod-{number}", marks([number + 1], []))
    assert list(files.idle(here(*range(1, 21), count=30))) == [4, 3, 2, 1]


_PARTS = st.lists(st.integers(1, 30), unique=True, max_size=20)


@given(now=_PARTS, following=_PARTS, kept=st.sets(st.integers(1, 30), max_size=12))
def test_until_the_end_of_the_next_epoch_it_hits_no_less_than_what_came_first_whatever_is_read(
    now: list[int], following: list[int], kept: set[int]
) -> None:
    cache = ReturningCache(kept, len(kept))
    hits = cache.read(now, following) + sum(file in cache.kept for file in following)
    came_first = sum(file in kept for file in [*now, *following])
    assert hits == came_first + cache.left
    assert hits <= sum(hits_by_next_use([sorted(kept), now, following], len(kept)))
    assert len(cache.kept) == len(kept)


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 2**32), ranks=st.integers(2, 5), share=st.floats(0.1, 0.4))
def test_of_random_parts_it_hits_more_than_who_knows_nothing_and_most_of_what_can_be_hit(
    seed: int, ranks: int, share: float
) -> None:
    chance = random.Random(seed)
    epochs = [chance.sample(range(1, FILES + 1), FILES)[::ranks] for _ in range(10)]
    room = round(share * FILES)
    ours, best = (sum(hits(epochs, room)[2:]) for hits in (hits_of_returning, hits_by_next_use))
    assert ours <= best
    assert ours > sum(hits_of_recent_use(epochs, room)[2:])
    assert ours > sum(hits_of_what_came_first(epochs, room)[2:])
    assert ours >= 0.6 * best


@given(st.integers(0, 2**32))
@settings(max_examples=10, deadline=None)
def test_who_reads_everything_each_epoch_keeps_what_came_first(seed: int) -> None:
    chance = random.Random(seed)
    epochs = [chance.sample(range(1, FILES + 1), FILES) for _ in range(4)]
    assert hits_of_returning(epochs, 100) == hits_of_what_came_first(epochs, 100)
