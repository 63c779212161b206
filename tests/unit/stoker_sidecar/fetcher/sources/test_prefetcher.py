"""The pieces that one read starts ahead of its reader."""

from types import SimpleNamespace
from typing import Any

from stoker_sidecar.fetcher.download.policy import Prefetcher
from stoker_sidecar.fetcher.ondisk.file_states import FileStates
from stoker_sidecar.fetcher.ondisk.parts import CHUNK
from stoker_sidecar.fetcher.sources.core.readahead import Readahead
from stoker_sidecar.version.manifest import Entry
from stoker_sidecar.wire.fetcher_hints import FileKnobs

MIB = 1024**2
FOLDER = 1


class Reads:
    """A reader of files of one folder, whose sizes are given. Inode 2 is the first file, and none of them arrive."""

    def __init__(self, *sizes: int, delay: float = 0.0) -> None:
        files = {ino: Entry(ino, FOLDER, b"%d" % ino, False, size, 0, "", "") for ino, size in enumerate(sizes, 2)}
        info = SimpleNamespace(files=len(files), bytes=sum(sizes))
        manifest = SimpleNamespace(info=info, entry=files.get)
        states = FileStates(b"\4\4" + bytes(len(files)))
        version: Any = SimpleNamespace(manifest=manifest, states=states)
        self._files = files
        self._ahead = Prefetcher(version, Readahead(4, lambda: delay, lambda: 0.0), 64 * MIB)

    def of(self, ino: int, chunk: int = 0, on_their_way: Any = None) -> list[tuple[int, int]]:
        """Read a piece. Return the inodes and chunks of the pieces that it starts."""
        missed = self._ahead.missed(
            self._files[ino], range(chunk, chunk + 1), on_their_way or {}, FileKnobs(), late=bool(on_their_way)
        )
        return [(guess.entry.ino, guess.chunk) for guess in missed]

    def whole(self, ino: int, chunks: int) -> list[list[tuple[int, int]]]:
        """Read a large file. Return the pieces of other files that each of its chunks starts."""
        started = [self.of(ino, chunk) for chunk in range(chunks)]
        return [[piece for piece in pieces if piece[0] != ino] for pieces in started]


def test_the_end_of_a_large_file_starts_a_quarter_of_its_chunks_of_the_next_one() -> None:
    reads = Reads(8 * CHUNK, 8 * CHUNK)
    assert reads.whole(2, 8)[-1] == [(3, 0), (3, 1)]


def test_the_end_of_the_second_large_file_in_order_starts_a_window_of_the_third() -> None:
    reads = Reads(8 * CHUNK, 8 * CHUNK, 8 * CHUNK)
    reads.whole(2, 8)
    assert reads.whole(3, 8)[-1] == [(4, chunk) for chunk in range(4)]


def test_a_window_goes_through_several_large_files() -> None:
    reads = Reads(*[2 * CHUNK] * 6)
    for ino in range(2, 5):
        last = reads.whole(ino, 2)[-1]
    assert last == [(5, 0), (5, 1), (6, 0), (6, 1)]


def test_the_last_large_file_starts_nothing_of_small_files() -> None:
    reads = Reads(8 * CHUNK, 100)
    assert not any(reads.whole(2, 8))


def test_small_files_ahead_end_at_half_of_the_budget() -> None:
    reads = Reads(*[8 * MIB] * 40)
    started = [reads.of(ino) for ino in range(2, 12)]
    assert started[-1] == [(ino, 0) for ino in range(12, 16)]


def test_files_on_their_way_count_for_the_budget_and_are_not_started_again() -> None:
    reads = Reads(*[8 * MIB] * 40)
    for ino in range(2, 12):
        reads.of(ino)
    on_their_way = {(ino, 0): SimpleNamespace(ahead=8 * MIB) for ino in range(12, 15)}
    assert reads.of(12, on_their_way=on_their_way) == [(16, 0)]
