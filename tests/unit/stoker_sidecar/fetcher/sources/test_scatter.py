"""Prefetching for readers in random order."""

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from stoker_sidecar.fetcher.sources.core.readahead import Scatter

FILES = 2000


class Simulated:
    """A version of one-byte files. At each miss, random files are fetched if there is room."""

    def __init__(self) -> None:
        self.scatter = Scatter(FILES, FILES)
        self.here: set[int] = set()
        self.misses = self.fetched = 0
        self._pool = Random(1).sample(range(FILES), FILES)

    def read(self, file: int) -> None:
        if file in self.here:
            return
        self.misses += 1
        self.here.add(file)
        self.scatter.missed(1, FILES - len(self.here))
        while self.scatter.room > 0 and (other := self._next()) is not None:
            self.here.add(other)
            self.fetched += 1
            self.scatter.started(1)
            self.scatter.landed(1, here=True)

    def _next(self) -> int | None:
        while self._pool:
            if (file := self._pool.pop()) not in self.here:
                return file
        return None


def epoch(seed: int) -> list[int]:
    return Random(seed).sample(range(FILES), FILES)


def test_an_epoch_in_random_order_waits_for_a_fifth_of_its_files_at_most() -> None:
    version = Simulated()
    for file in epoch(2):
        version.read(file)
    assert version.misses < 0.2 * FILES


def test_a_reader_of_few_files_has_about_as_many_fetched_for_it_as_it_has_read() -> None:
    version, few = Simulated(), FILES // 50
    for file in epoch(3)[:few]:
        version.read(file)
    assert version.fetched <= 1.3 * few


def test_a_reader_of_a_tenth_has_twice_as_much_fetched_for_it_in_vain() -> None:
    version, tenth = Simulated(), epoch(4)[: FILES // 10]
    for file in tenth:
        version.read(file)
    assert len(version.here - set(tenth)) <= 2.2 * len(tenth)


@given(st.lists(st.integers(0, FILES - 1), max_size=400, unique=True), st.integers(0, FILES - 1))
def test_whatever_is_read_what_is_fetched_is_bounded_by_the_misses(scattered: list[int], start: int) -> None:
    """The bound holds in any order, even if no fetched file is ever read.

    Fetched files: 1.5 times the misses if few were missed, three times at a tenth.
    """
    version = Simulated()
    for file in [*range(start, min(start + 100, FILES)), *scattered]:
        version.read(file)
    assert version.fetched <= version.misses * (1.5 + 15 * version.misses / FILES)


def test_no_more_is_on_its_way_than_may_be() -> None:
    scatter = Scatter(total=1000, most=10)
    scatter.missed(100, 900)
    scatter.started(7)
    assert scatter.room == 3


def test_what_has_landed_makes_room_for_more() -> None:
    scatter = Scatter(total=1000, most=10)
    scatter.missed(100, 900)
    scatter.started(10)
    scatter.landed(10, here=True)
    assert scatter.room == 10


def test_what_did_not_come_is_not_ahead() -> None:
    scatter = Scatter(total=1000, most=10)
    scatter.missed(5, 900)
    scatter.started(5)
    scatter.landed(5, here=False)
    assert scatter.room == 5


def test_nothing_is_fetched_where_nothing_was_missed() -> None:
    assert Scatter(total=1000, most=1000).room == 0
