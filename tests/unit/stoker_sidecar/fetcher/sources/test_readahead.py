"""Readahead before a reader requests a file."""

from hypothesis import given
from hypothesis import strategies as st

from stoker_sidecar.fetcher.sources.core.readahead import Readahead

FOLDER, OTHER, FILE = 7, 8, 5


def _readahead(most_chunks: int = 8) -> Readahead:
    return Readahead(most_chunks, lambda: 0.0, lambda: 0.0)


def _count(ahead: Readahead, ino: int, folder: int = FOLDER) -> int | None:
    files = ahead.files(folder, ino)
    return None if files is None else files.number


def test_a_file_that_is_read_from_its_start_doubles_its_window() -> None:
    ahead = _readahead()
    windows = [len(ahead.chunks(FILE, range(chunk, chunk + 1))) for chunk in range(6)]
    assert windows == [1, 2, 4, 8, 8, 8]


def test_more_reads_in_the_same_chunk_ask_for_nothing_new() -> None:
    ahead = _readahead()
    ahead.chunks(FILE, range(0, 1))
    assert not ahead.chunks(FILE, range(0, 1))


def test_a_read_in_the_middle_of_a_file_asks_for_nothing() -> None:
    assert not _readahead().chunks(FILE, range(50, 51))


def test_after_a_seek_the_window_starts_anew() -> None:
    ahead = _readahead()
    for chunk in range(4):
        ahead.chunks(FILE, range(chunk, chunk + 1))
    assert not ahead.chunks(FILE, range(50, 51))
    assert ahead.chunks(FILE, range(51, 52)) == range(52, 53)


def test_two_readers_of_one_file_have_a_window_each() -> None:
    ahead = _readahead()
    for step in range(3):
        first = ahead.chunks(FILE, range(step, step + 1))
        second = ahead.chunks(FILE, range(50 + step, 51 + step))
    assert first == range(3, 7)
    assert second == range(53, 55)


def test_readers_that_go_through_a_folder_in_order_get_more_and_more_of_its_files() -> None:
    ahead, ino, counts = _readahead(), 100, []
    for _ in range(8):
        counts.append(_count(ahead, ino) or 0)
        ahead.fetched(FOLDER, ino + counts[-1])
        ino += counts[-1] + 1  # prefetched files are read without a request
    assert counts == [0, 1, 2, 4, 8, 16, 32, 64]


def test_four_workers_that_go_through_a_folder_together_count_as_in_order() -> None:
    ahead = _readahead()
    counts = [_count(ahead, ino) for ino in (100, 102, 101, 103, 105)]
    assert (counts[-1] or 0) > 1


def test_readers_all_over_a_folder_are_told_from_those_in_order() -> None:
    ahead = _readahead()
    counts = [_count(ahead, ino) for ino in (100, 500, 200, 900, 300, 700)]
    assert counts == [0, None, None, None, None, None]


def test_one_file_of_each_folder_asks_for_nothing() -> None:
    ahead = _readahead()
    assert [_count(ahead, folder * 100, folder) for folder in range(1000)] == [0] * 1000


@given(st.lists(st.integers(1, 2000), min_size=1, max_size=300, unique=True))
def test_what_is_fetched_in_vain_is_about_what_was_asked_for(reads: list[int]) -> None:
    """In any order, an abandoned reader leaves a window that is as long as its reads so far."""
    ahead, here, missed = _readahead(), set[int](), 0
    for ino in reads:
        if ino in here:
            continue
        missed += 1
        here.add(ino)
        most = _count(ahead, ino) or 0
        following = [number for number in range(ino + 1, ino + 200) if number not in here][:most]
        here.update(following)
        if following:
            ahead.fetched(FOLDER, following[-1])
    vain = len(here - set(reads))
    assert vain <= 2 * len(reads) + 8


def test_switched_off_it_asks_for_nothing() -> None:
    ahead = _readahead(0)
    assert not any(ahead.chunks(FILE, range(chunk, chunk + 1)) for chunk in range(5))
    assert not any(_count(ahead, ino) for ino in range(100, 110))
