"""Files are read into the page cache in order, if there is memory and a request."""

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from stoker_sidecar.fetcher.pages import page_cache
from stoker_sidecar.fetcher.pages.core.page_room import MemoryFigures
from stoker_sidecar.fetcher.pages.page_cache import PageCache, PageRange, PageReader, PageWish, windows
from stoker_sidecar.linux.kernel_caches import cached_bytes, drop_pages
from stoker_sidecar.version.layout import VersionPaths
from stoker_sidecar.version.manifest import Manifest
from tests.support.versions import VersionFolder
from tests.support.waiting import eventually, wait_until

MIB = 2**20


def _ranges(folder: Path, count: int) -> Iterator[PageRange]:
    for number in range(count):
        path = folder / str(number)
        path.write_bytes(b"x" * 100)
        yield PageRange(str(path), 0, 100)


def test_a_file_is_divided_into_windows() -> None:
    assert [(one.offset, one.length) for one in windows("f", 20 * MIB)] == [
        (0, 8 * MIB),
        (8 * MIB, 8 * MIB),
        (16 * MIB, 4 * MIB),
    ]


def test_an_empty_file_has_none() -> None:
    assert list(windows("f", 0)) == []


@pytest.mark.parametrize(("room", "brought", "short"), [(1000, 500, False), (250, 200, True), (0, 0, True)])
def test_it_ends_where_there_is_no_room_for_more(tmp_path: Path, room: int, brought: int, short: bool) -> None:
    reader = PageReader(_ranges(tmp_path, 5), lambda taken: room - taken)
    reader.run()
    assert (reader.brought, reader.short) == (brought, short)


def test_what_nobody_wants_any_more_is_not_read(tmp_path: Path) -> None:
    reader = PageReader(_ranges(tmp_path, 5), lambda taken: MIB, lambda: True)
    reader.run()
    assert (reader.brought, reader.short) == (0, False)


def test_a_file_that_is_gone_does_not_stop_the_others(tmp_path: Path) -> None:
    reader = PageReader([PageRange(str(tmp_path / "gone"), 0, 1), *_ranges(tmp_path, 2)], lambda taken: MIB)
    reader.run()
    assert reader.brought == 201


@pytest.mark.parametrize("depth", [0, 1, 7])
def test_files_are_begun_ahead_of_the_one_that_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, depth: int
) -> None:
    under_way: set[str] = set()
    most: list[int] = []

    def begin(one: PageRange) -> int:
        under_way.add(one.path)
        most.append(len(under_way))
        return 0

    monkeypatch.setattr(page_cache, "_begin", begin)
    monkeypatch.setattr(page_cache, "_end", lambda one, fd: under_way.remove(one.path))
    PageReader(_ranges(tmp_path, 5), lambda taken: MIB, streams=1, depth=depth).run()
    assert (max(most), under_way) == (min(5, depth + 1), set())


@pytest.mark.parametrize("depth", [0, 2])
def test_no_file_is_left_open(tmp_path: Path, depth: int) -> None:
    gone = PageRange(str(tmp_path / "gone"), 0, 1)
    open_before = len(list(Path("/proc/self/fd").iterdir()))
    PageReader([gone, *_ranges(tmp_path, 4)], lambda taken: MIB, streams=2, depth=depth).run()
    assert len(list(Path("/proc/self/fd").iterdir())) == open_before


@pytest.mark.parametrize("sure", [True, False])
def test_what_the_kernel_makes_nothing_of_is_read_where_all_is_wanted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sure: bool
) -> None:
    path, size = tmp_path / "f", 3 * MIB + 5
    path.write_bytes(os.urandom(size))
    with path.open("rb") as file:
        os.fsync(file.fileno())
        wait_until(lambda: _dropped(file.fileno()))
        monkeypatch.setattr(os, "posix_fadvise", lambda *advice: None)
        PageReader([PageRange(str(path), 0, size)], lambda taken: size, sure=sure).run()
        assert ((cached_bytes(file.fileno()) or 0) >= size) is sure


def _dropped(descriptor: int) -> bool:
    drop_pages(descriptor)
    if (cached := cached_bytes(descriptor)) is None:
        pytest.skip("this kernel does not tell what is in memory")
    return cached == 0


def test_a_link_is_not_followed(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "link").symlink_to("/etc/hostname")
    with caplog.at_level("DEBUG"):
        PageReader([PageRange(str(tmp_path / "link"), 0, 1)], lambda taken: MIB).run()
    assert "is not read into the page cache" in caplog.text


class PeerRequestQueue:
    """A PageCache on a version of three files of 100 bytes, with a given amount of memory, and the counted bytes."""

    def __init__(self, folder: Path) -> None:
        VersionFolder(folder, dict.fromkeys(("a", "b", "c"), b"x" * 100))
        self.paths = VersionPaths(folder)
        self.mounted = True
        self.counted: list[int] = []
        self.total = MIB
        self.cache = PageCache(lambda: MemoryFigures(self.total, self.total))

    def wish(self, *names: str) -> PageWish:
        manifest = Manifest.open(self.paths.manifest)
        mark = bytearray(manifest.last_ino + 1)
        for path, entry in manifest.walk():
            mark[entry.ino] = path.decode() in names
        manifest.close()
        return PageWish(self.paths, (bytes(mark),), lambda: self.mounted, self.counted.append)

    async def fulfil(self, *names: str) -> list[int]:
        """Request files. Return all counts so far."""
        before = len(self.counted)
        self.cache.want(self.wish(*names))
        await eventually(lambda: len(self.counted) > before)
        return self.counted


@pytest.fixture
def wishes(tmp_path: Path) -> PeerRequestQueue:
    return PeerRequestQueue(tmp_path / "digest")


async def test_files_that_are_marked_are_read(wishes: PeerRequestQueue) -> None:
    assert await wishes.fulfil("a", "c") == [200]


async def test_what_a_version_has_is_not_counted_against_its_next_mount(wishes: PeerRequestQueue) -> None:
    wishes.total = 4 * 250
    await wishes.fulfil("a", "b")
    assert await wishes.fulfil("a", "b") == [200, 200]


async def test_what_is_taken_is_given_back_by_the_last_mount(wishes: PeerRequestQueue) -> None:
    await wishes.fulfil("a", "b")
    await eventually(lambda: wishes.cache.taken == 200)
    wishes.mounted = False
    assert wishes.cache.taken == 0


async def test_all_versions_that_are_mounted_share_the_room(wishes: PeerRequestQueue, tmp_path: Path) -> None:
    other = PeerRequestQueue(tmp_path / "other")
    other.cache, wishes.total = wishes.cache, 4 * 250
    await wishes.fulfil("a", "b")
    first = list(await other.fulfil("a", "b"))
    wishes.mounted = False
    assert (first, await other.fulfil("a", "b")) == ([0], [0, 200])


@pytest.mark.expected_logs("not read into the page cache")
async def test_a_version_that_cannot_be_read_does_not_stop_others(wishes: PeerRequestQueue, tmp_path: Path) -> None:
    wish = wishes.wish("a")
    broken = PageWish(VersionPaths(tmp_path / "nothing"), wish.marks, wish.wanted, wish.count)
    wishes.cache.want(broken)
    assert await wishes.fulfil("a") == [100]


async def test_a_cache_that_is_closed_reads_nothing_more(wishes: PeerRequestQueue) -> None:
    wishes.cache.want(wishes.wish("a"))
    await wishes.cache.close()
    await asyncio.sleep(0)
    assert sum(wishes.counted) == 0
