"""Readahead of readers in order, by the distance of their source."""

from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from stoker_sidecar.fetcher.sources.core.readahead import MOST_FILES, Readahead
from tests.support.cases import cases

FOLDER, OTHER, FILE, NEXT = 7, 8, 5, 6


@dataclass
class Reader:
    """A reader of a folder in order, which waits for one delay at each missing file. ``pause``: seconds per file."""

    delay: float
    pause: float
    now: float = 0.0
    windows: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.ahead = Readahead(4, lambda: self.delay, lambda: self.now)

    def read(self, misses: int, ino: int = 100) -> int:
        """Read until so many files were missing. Return the next inode."""
        for _ in range(misses):
            files = self.ahead.files(FOLDER, ino)
            count = files.number if files is not None else 0
            self.ahead.fetched(FOLDER, ino + count)
            self.windows.append(count)
            self.now += self.delay + (count + 1) * self.pause
            ino += count + 1
        return ino


@cases(
    "delay, pause, window",
    (0.0, 0.001, MOST_FILES),  # the source has no figure yet
    (0.001, 0.001, MOST_FILES),
    (0.02, 0.001, 140),
    (0.1, 0.001, 700),
    (0.1, 0.01, 70),
    (0.1, 0.0001, 1024),
    (1e9, 0.01, MOST_FILES),  # the rate of such a source is close to 0
)
def test_a_window_is_seven_delays_of_reading(delay: float, pause: float, window: int) -> None:
    reader = Reader(delay, pause)
    reader.read(40)
    assert abs(reader.windows[-1] - window) <= 0.05 * window


def test_after_a_seek_a_distant_reader_starts_with_one_file() -> None:
    reader = Reader(0.1, 0.001)
    ino = reader.read(20)
    assert reader.windows[-1] > MOST_FILES
    reader.windows.clear()
    reader.read(3, ino + 1000)
    assert reader.windows == [0, 1, 2]


@given(st.floats(0, 1e9), st.lists(st.tuples(st.integers(1, 5000), st.floats(0, 10)), min_size=1, max_size=200))
def test_no_window_is_longer_than_twice_the_files_in_order(delay: float, reads: list[tuple[int, float]]) -> None:
    now = [0.0]
    ahead, in_order, last = Readahead(4, lambda: delay, lambda: now[0]), 0, 0
    for ino, pause in reads:
        now[0] += pause
        files = ahead.files(FOLDER, ino)
        window = files.number if files is not None else 0
        in_order = in_order + ino - last if window else 0
        assert window <= 2 * in_order
        last = ino


def test_a_file_on_its_way_extends_the_window_behind_the_files_on_their_way() -> None:
    reader = Reader(0.0, 0.001)
    ino = reader.read(20) - MOST_FILES  # the second file of the last window
    files = reader.ahead.files(FOLDER, ino, late=True)
    assert files == (ino + MOST_FILES - 1, 1)


def test_a_reader_in_order_gets_a_quarter_of_its_window_from_the_next_folder() -> None:
    reader = Reader(0.0, 0.001)
    ino = reader.read(20)
    assert [number for number in range(100) if reader.ahead.crosses(FOLDER, OTHER, ino + number)] == list(range(16))


def test_a_reader_that_went_to_the_next_folder_keeps_its_window_there() -> None:
    reader = Reader(0.0, 0.001)
    ino = reader.read(20)
    reader.ahead.crosses(FOLDER, OTHER, ino)
    files = reader.ahead.files(OTHER, ino)
    assert files is not None
    assert files.number == MOST_FILES


def test_a_folder_with_other_readers_is_left_to_them() -> None:
    reader = Reader(0.0, 0.001)
    reader.ahead.files(OTHER, 5000)
    assert not reader.ahead.crosses(FOLDER, OTHER, reader.read(20))


def _chunks(ahead: Readahead, ino: int, count: int) -> list[int]:
    return [len(ahead.chunks(ino, range(chunk, chunk + 1))) for chunk in range(count)]


def test_a_large_file_that_follows_continues_with_the_window_of_the_previous_one() -> None:
    ahead = Readahead(4, lambda: 0.0, lambda: 0.0)
    _chunks(ahead, FILE, 8)
    assert ahead.continues(FILE, NEXT, 4) == 2  # a quarter of the chunks so far
    assert _chunks(ahead, NEXT, 2) == [4, 4]
    assert ahead.continues(NEXT, NEXT + 1, 4) == 4


@cases("pause, window", (0.02, 8), (0.03, 6), (1.0, 4))
def test_a_fast_reader_of_a_large_file_has_twice_the_window_of_a_near_source(pause: float, window: int) -> None:
    now = [0.0]
    ahead = Readahead(4, lambda: 0.1, lambda: now[0])
    for chunk in range(50):
        now[0] += pause
        found = ahead.chunks(FILE, range(chunk, chunk + 1))
    assert len(found) == window
