"""The file system of a Dataset version, with no kernel."""

import errno
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import trio

from stoker_sidecar.errors import FsError
from stoker_sidecar.fuse.dataset_fs import DatasetFs
from stoker_sidecar.version.manifest import ROOT_INO, Manifest
from stoker_sidecar.wire.fetcher_protocol import ReadDone
from tests.support.versions import MTIME_NS, VersionFolder

_FILES = {
    "train/cat/1.png": b"meow" * 1000,
    "train/cat/2.png": b"purr" * 10,
    "train/dog/1.png": b"woof",
    "empty": b"",
    "caf\u00e9/\u65e5\u672c.txt": "\u65e5\u672c".encode(),
}
_BIG = "train/cat/1.png"


class FakeFetch:
    """Answers with ``bring``, and records the requests."""

    def __init__(self) -> None:
        self.asked: list[tuple[int, int, int]] = []
        self.doubts: list[bool] = []
        self.bring: Callable[[int, int, int], ReadDone] = self._refuse

    @staticmethod
    def _refuse(ino: int, offset: int, length: int) -> ReadDone:
        raise AssertionError(f"the fetcher was asked for inode {ino}")

    async def fetch(self, ino: int, offset: int, length: int, *, doubt: bool = False) -> ReadDone:
        self.asked.append((ino, offset, length))
        self.doubts.append(doubt)
        return self.bring(ino, offset, length)


@pytest.fixture
def version(tmp_path: Path) -> VersionFolder:
    return VersionFolder(tmp_path / "v", _FILES, version_id="v7")


@pytest.fixture
def fetch() -> FakeFetch:
    return FakeFetch()


@pytest.fixture
def fs(version: VersionFolder, fetch: FakeFetch) -> Iterator[DatasetFs]:
    made = DatasetFs(Manifest.open(version.manifest), version.folder, fetch)
    yield made
    made.close()


def _names(fs: DatasetFs, ino: int, after: int = 0) -> list[bytes]:
    return [entry.name for entry in fs.readdir(ino, after)]


def _errno(call: Callable[[], object]) -> int:
    with pytest.raises(FsError) as caught:
        call()
    return caught.value.errno


def test_a_path_is_found_name_by_name(fs: DatasetFs, version: VersionFolder) -> None:
    ino = ROOT_INO
    for name in (b"train", b"dog", b"1.png"):
        entry = fs.lookup(ino, name)
        assert entry is not None
        ino = entry.ino
    assert fs.getattr(ino)[4:6] == (4, MTIME_NS)


def test_a_name_that_is_not_there_is_none(fs: DatasetFs) -> None:
    assert fs.lookup(ROOT_INO, b"nothing") is None


def test_a_name_may_have_255_bytes_and_no_more(fs: DatasetFs) -> None:
    assert fs.lookup(ROOT_INO, b"x" * 255) is None
    assert _errno(lambda: fs.lookup(ROOT_INO, b"x" * 256)) == errno.ENAMETOOLONG


def test_an_inode_of_no_entry_is_enoent(fs: DatasetFs) -> None:
    assert _errno(lambda: fs.getattr(10_000)) == errno.ENOENT


def test_a_folder_lists_every_child_once(fs: DatasetFs) -> None:
    assert sorted(_names(fs, ROOT_INO)) == sorted([b"train", b"empty", "caf\u00e9".encode()])


def test_a_listing_goes_on_behind_any_entry(fs: DatasetFs) -> None:
    entries = list(fs.readdir(ROOT_INO, 0))
    for position, entry in enumerate(entries):
        assert list(fs.readdir(ROOT_INO, entry.ino)) == entries[position + 1 :]


@pytest.mark.parametrize("flags", [os.O_WRONLY, os.O_RDWR, os.O_RDONLY | os.O_TRUNC, os.O_WRONLY | os.O_APPEND])
def test_opening_for_writing_is_erofs(fs: DatasetFs, version: VersionFolder, flags: int) -> None:
    assert _errno(lambda: fs.open(version.ino(_BIG), flags)) == errno.EROFS


def test_a_folder_cannot_be_opened_as_a_file_nor_a_file_as_a_folder(fs: DatasetFs, version: VersionFolder) -> None:
    assert _errno(lambda: fs.open(ROOT_INO, os.O_RDONLY)) == errno.EISDIR
    assert _errno(lambda: fs.opendir(version.ino(_BIG))) == errno.ENOTDIR


def test_handles_are_inodes(fs: DatasetFs, version: VersionFolder) -> None:
    for flags in (os.O_RDONLY, os.O_RDONLY | os.O_APPEND):
        assert fs.open(version.ino(_BIG), flags) == version.ino(_BIG)
    assert fs.opendir(ROOT_INO) == ROOT_INO


def test_a_finished_file_is_read_without_the_fetcher(fs: DatasetFs, version: VersionFolder, fetch: FakeFetch) -> None:
    version.finish(_BIG)
    assert trio.run(fs.read, version.ino(_BIG), 0, 10_000) == _FILES[_BIG]
    assert fetch.asked == []


def test_a_name_that_is_not_ascii_is_read(fs: DatasetFs, version: VersionFolder) -> None:
    path = "caf\u00e9/\u65e5\u672c.txt"
    version.finish(path)
    assert trio.run(fs.read, version.ino(path), 0, 100) == _FILES[path]


def test_an_empty_file_needs_no_file_on_disk(fs: DatasetFs, version: VersionFolder, fetch: FakeFetch) -> None:
    assert trio.run(fs.read, version.ino("empty"), 0, 4096) == b""
    assert fetch.asked == []


def test_reading_behind_the_end_gives_nothing(fs: DatasetFs, version: VersionFolder) -> None:
    assert trio.run(fs.read, version.ino(_BIG), len(_FILES[_BIG]), 4096) == b""


def test_missing_bytes_are_asked_for_exactly_and_read_from_the_part(
    fs: DatasetFs, version: VersionFolder, fetch: FakeFetch
) -> None:
    ino = version.ino(_BIG)
    fetch.bring = lambda _, offset, length: ReadDone("parts", version.put_part(_BIG, offset, length))
    assert trio.run(fs.read, ino, 1000, 500) == _FILES[_BIG][1000:1500]
    assert fetch.asked == [(ino, 1000, 500)]


def test_each_read_of_a_part_is_asked_for_again(fs: DatasetFs, version: VersionFolder, fetch: FakeFetch) -> None:
    fetch.bring = lambda _, offset, length: ReadDone("parts", version.put_part(_BIG, offset, length))
    for offset in (0, 2000):
        assert trio.run(fs.read, version.ino(_BIG), offset, 100) == _FILES[_BIG][offset : offset + 100]
    assert len(fetch.asked) == 2


def test_a_request_beyond_the_end_is_cut_before_it_is_asked(
    fs: DatasetFs, version: VersionFolder, fetch: FakeFetch
) -> None:
    fetch.bring = lambda _, offset, length: ReadDone("parts", version.put_part(_BIG, offset, length))
    assert trio.run(fs.read, version.ino(_BIG), 3990, 4096) == _FILES[_BIG][3990:]
    assert fetch.asked[0][2] == 10


def test_a_file_that_finished_meanwhile_is_read_from_the_tree(
    fs: DatasetFs, version: VersionFolder, fetch: FakeFetch
) -> None:
    def bring(ino: int, offset: int, length: int) -> ReadDone:
        version.finish(_BIG)
        return ReadDone("tree", f"tree/{_BIG}")

    fetch.bring = bring
    assert trio.run(fs.read, version.ino(_BIG), 0, 4096) == _FILES[_BIG]


def test_a_part_that_is_gone_at_open_is_asked_for_again(
    fs: DatasetFs, version: VersionFolder, fetch: FakeFetch
) -> None:
    def bring(ino: int, offset: int, length: int) -> ReadDone:
        if len(fetch.asked) == 1:
            return ReadDone("parts", "parts/gone")
        return ReadDone("parts", version.put_part(_BIG, offset, length))

    fetch.bring = bring
    assert trio.run(fs.read, version.ino(_BIG), 0, 100) == _FILES[_BIG][:100]


def test_a_part_that_was_dropped_while_it_is_open_is_asked_for_again(
    fs: DatasetFs, version: VersionFolder, fetch: FakeFetch
) -> None:
    ino = version.ino(_BIG)
    fetch.bring = lambda _, offset, length: ReadDone("parts", version.put_part(_BIG, offset, length))
    trio.run(fs.read, ino, 0, 100)
    (version.folder / "parts" / str(ino)).unlink()  # like the fetcher before it truncates the file

    def bring(_: int, offset: int, length: int) -> ReadDone:
        if len(fetch.asked) == 2:
            return ReadDone("parts", f"parts/{ino}")
        return ReadDone("parts", version.put_part(_BIG, offset, length))

    fetch.bring = bring
    assert trio.run(fs.read, ino, 2000, 100) == _FILES[_BIG][2000:2100]
    assert len(fetch.asked) == 3


def test_a_part_that_is_always_gone_is_eio_and_not_an_endless_loop(
    fs: DatasetFs, version: VersionFolder, fetch: FakeFetch
) -> None:
    fetch.bring = lambda *_: ReadDone("parts", "parts/gone")
    assert _errno(lambda: trio.run(fs.read, version.ino(_BIG), 0, 100)) == errno.EIO


@pytest.mark.expected_logs("of the cache is damaged")
def test_a_file_that_is_shorter_than_the_manifest_says_is_asked_for_with_doubt(
    fs: DatasetFs, version: VersionFolder, fetch: FakeFetch
) -> None:
    def bring(ino: int, offset: int, length: int) -> ReadDone:
        version.finish(_BIG)
        return ReadDone("tree", f"tree/{_BIG}")

    version.finish(_BIG)
    os.truncate(version.folder / "tree" / _BIG, 100)
    fetch.bring = bring
    assert trio.run(fs.read, version.ino(_BIG), 0, 4096) == _FILES[_BIG]
    assert fetch.doubts == [True]


@pytest.mark.expected_logs("of the cache is damaged")
def test_a_file_that_stays_damaged_is_eio(fs: DatasetFs, version: VersionFolder, fetch: FakeFetch) -> None:
    version.finish(_BIG)
    os.truncate(version.folder / "tree" / _BIG, 100)
    fetch.bring = lambda ino, offset, length: ReadDone("tree", f"tree/{_BIG}")
    assert _errno(lambda: trio.run(fs.read, version.ino(_BIG), 0, 4096)) == errno.EIO


def test_a_version_that_moved_is_read_from_its_new_folder_without_further_questions(
    fs: DatasetFs, version: VersionFolder, fetch: FakeFetch, tmp_path: Path
) -> None:
    moved = tmp_path / "moved"
    moved.write_bytes(_FILES[_BIG])
    fetch.bring = lambda ino, offset, length: ReadDone("tree", str(moved))
    for _ in range(2):
        assert trio.run(fs.read, version.ino(_BIG), 0, 4096) == _FILES[_BIG]
    assert len(fetch.asked) == 1


@pytest.mark.parametrize("code", [errno.ESTALE, errno.EIO, errno.ENOENT])
def test_the_fetchers_errno_is_the_readers_and_the_sentence_names_the_file(
    fs: DatasetFs, version: VersionFolder, fetch: FakeFetch, code: int
) -> None:
    def bring(ino: int, offset: int, length: int) -> ReadDone:
        raise FsError(code, "the object changed")

    fetch.bring = bring
    with pytest.raises(FsError, match=r"train/cat/1.png.*the object changed") as caught:
        trio.run(fs.read, version.ino(_BIG), 0, 4096)
    assert caught.value.errno == code


def test_few_descriptors_serve_many_files(version: VersionFolder, fetch: FakeFetch) -> None:
    version.finish_all()
    fs = DatasetFs(Manifest.open(version.manifest), version.folder, fetch, descriptors=1)
    for path in [*_FILES, *reversed(_FILES)]:
        assert trio.run(fs.read, version.ino(path), 0, 10_000) == _FILES[path]
    fs.close()


def test_totals_count_files_folders_and_bytes(fs: DatasetFs) -> None:
    assert fs.totals() == (5 + 5, sum(map(len, _FILES.values())))


def test_a_file_tells_its_key_etag_and_version(fs: DatasetFs, version: VersionFolder) -> None:
    ino = version.ino(_BIG)
    values = {name: fs.getxattr(ino, name) for name in fs.listxattr(ino)}
    assert values == {
        b"user.stoker.key": _BIG.encode(),
        b"user.stoker.etag": f"etag-of-{_BIG}".encode(),
        b"user.stoker.version": b"v7",
    }


def test_a_folder_has_no_attributes_and_an_unknown_one_is_enodata(fs: DatasetFs, version: VersionFolder) -> None:
    assert fs.listxattr(ROOT_INO) == ()
    assert _errno(lambda: fs.getxattr(version.ino(_BIG), b"security.capability")) == errno.ENODATA


def test_a_compressed_copy_is_read_without_the_fetcher(fs: DatasetFs, version: VersionFolder, fetch: FakeFetch) -> None:
    version.pack(_BIG)
    for offset, length in ((0, 10_000), (3, 100), (3999, 5)):
        assert trio.run(fs.read, version.ino(_BIG), offset, length) == _FILES[_BIG][offset : offset + length]
    assert fetch.asked == []


@pytest.mark.expected_logs("of the cache is damaged")
def test_a_damaged_copy_is_asked_for_with_doubt_and_the_new_one_is_read(
    fs: DatasetFs, version: VersionFolder, fetch: FakeFetch
) -> None:
    def bring(ino: int, offset: int, length: int) -> ReadDone:
        version.copy(_BIG).unlink()
        version.pack(_BIG)
        return ReadDone("packed", str(version.copy(_BIG)))

    version.pack(_BIG)
    copy = version.copy(_BIG)
    copy.chmod(0o644)
    copy.write_bytes(copy.read_bytes()[:20] + b"spoilt" + copy.read_bytes()[26:])
    fetch.bring = bring
    assert trio.run(fs.read, version.ino(_BIG), 0, 10_000) == _FILES[_BIG]
    assert fetch.doubts == [True]


def test_a_file_in_the_tree_comes_before_its_copy(fs: DatasetFs, version: VersionFolder) -> None:
    version.finish(_BIG)
    version.copy(_BIG).parent.mkdir()
    version.copy(_BIG).write_bytes(b"left over")
    assert trio.run(fs.read, version.ino(_BIG), 0, 10_000) == _FILES[_BIG]
