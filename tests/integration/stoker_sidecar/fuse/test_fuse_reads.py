"""The requests of a FUSE mount to its server and to the fetcher. `calls/` tests the programs' view of each mount."""

import errno
import hashlib
import json
import mmap
import os
import random
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from stoker_sidecar.fuse.operations import XATTR_REQUESTS
from stoker_sidecar.wire.fetcher_protocol import Read, ReadDone
from tests.fakes.read_fetcher import FetcherForReads, fails
from tests.support.keeper import Keeper
from tests.support.versions import MTIME_NS, VersionFolder
from tests.support.waiting import wait_until

pytestmark = pytest.mark.root


def _some_files() -> dict[str, bytes]:
    source = random.Random(4)
    sizes = [0, 1, 4095, 4096, 4097, 131_072, 131_073, 1_048_577, 5_000_000]
    files = {f"train/{size % 7}/{size}.bin": source.randbytes(size) for size in sizes}
    return files | {"caf\u00e9/\u65e5\u672c \\ x.txt": b"\xff\x00"}


@pytest.fixture(scope="module")
def files() -> dict[str, bytes]:
    return _some_files()


@pytest.fixture(scope="module")
def keeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Keeper]:
    with Keeper(tmp_path_factory.mktemp("keeper")) as running:
        yield running


@pytest.fixture(scope="module")
def mounted(keeper: Keeper, files: dict[str, bytes], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Mount a version whose files are all on disk."""
    version = VersionFolder(tmp_path_factory.mktemp("warm") / "v", files)
    version.finish_all()
    return keeper.serve(version)


def _requests(mountpoint: Path) -> Counter[str]:
    return Counter(json.loads(os.getxattr(mountpoint, XATTR_REQUESTS)))


def _walk(folder: Path) -> dict[str, os.stat_result]:
    return {
        str((Path(parent) / name).relative_to(folder)): (Path(parent) / name).stat()
        for parent, _, names in os.walk(folder)
        for name in names
    }


def test_the_whole_tree_has_the_sources_hashes(mounted: Path, files: dict[str, bytes]) -> None:
    seen = {path: hashlib.sha256((mounted / path).read_bytes()).digest() for path in _walk(mounted)}
    assert seen == {path: hashlib.sha256(data).digest() for path, data in files.items()}


def test_attributes_are_the_objects(mounted: Path, files: dict[str, bytes]) -> None:
    for path, stat in _walk(mounted).items():
        assert (stat.st_size, stat.st_mtime_ns, stat.st_mode) == (len(files[path]), MTIME_NS, 0o100444)


def test_random_preads_give_the_right_bytes(mounted: Path, files: dict[str, bytes]) -> None:
    path = max(files, key=lambda name: len(files[name]))
    source = random.Random(7)
    fd = os.open(mounted / path, os.O_RDONLY)
    try:
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        for _ in range(200):
            offset, length = source.randrange(len(files[path]) + 10), source.randrange(1, 300_000)
            assert os.pread(fd, length, offset) == files[path][offset : offset + length]
    finally:
        os.close(fd)


def test_a_second_look_at_names_and_attributes_does_not_reach_the_server(mounted: Path) -> None:
    names = [mounted / path for path in _walk(mounted)]
    before = _requests(mounted)
    for name in names:
        name.stat()
    for _ in range(2):
        assert not (mounted / "train" / "never there").exists()
    after = _requests(mounted)
    assert after["lookup"] - before["lookup"] == 1, "the absent name once, and nothing else"
    assert after["getattr"] == before["getattr"]


def test_a_file_that_was_read_is_read_again_from_the_page_cache(mounted: Path, files: dict[str, bytes]) -> None:
    path = mounted / max(files, key=lambda name: len(files[name]))
    path.read_bytes()
    before = _requests(mounted)["read"]
    path.read_bytes()
    assert _requests(mounted)["read"] == before


def test_missing_bytes_come_from_the_fetcher(keeper: Keeper, files: dict[str, bytes], tmp_path: Path) -> None:
    files = files | {"not mounted by another test": b"1"}
    version = VersionFolder(tmp_path / "v", files)
    by_ino = {version.ino(path): path for path in files}

    def bring(request: Read) -> ReadDone:
        return ReadDone("parts", version.put_part(by_ino[request.ino], request.offset, request.length))

    with FetcherForReads(keeper.run_dir / "fetcher.sock", bring) as fetcher:
        mountpoint = keeper.serve(version)
        try:
            assert {path: (mountpoint / path).read_bytes() for path in files} == files
            assert {request.digest for request in fetcher.asked} == {version.info.digest}
        finally:
            keeper.release(version)


@pytest.mark.parametrize("code", [errno.ESTALE, errno.EIO, errno.ENOENT])
def test_what_the_fetcher_cannot_bring_fails_with_its_errno_and_one_line_in_the_log(
    keeper: Keeper, tmp_path: Path, code: int
) -> None:
    version = VersionFolder(tmp_path / "v", {"a/b": b"content"})
    with FetcherForReads(keeper.run_dir / "fetcher.sock", fails(code, f"no luck with {code}")):
        mountpoint = keeper.serve(version)
        try:
            with pytest.raises(OSError, match=os.strerror(code)) as caught:
                (mountpoint / "a/b").read_bytes()
        finally:
            keeper.release(version)
    assert caught.value.errno == code
    assert f"reading 'a/b': no luck with {code}" in keeper.log.read_text()


def test_a_mapped_page_whose_bytes_cannot_be_had_is_sigbus_as_on_any_disk(keeper: Keeper, tmp_path: Path) -> None:
    version = VersionFolder(tmp_path / "v", {"a": b"content"})
    program = "import mmap, sys; file = open(sys.argv[1]); mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)[0]"
    with FetcherForReads(keeper.run_dir / "fetcher.sock", fails(errno.EIO, "down")):
        mountpoint = keeper.serve(version)
        try:
            done = subprocess.run([sys.executable, "-c", program, str(mountpoint / "a")], check=False, timeout=60)
        finally:
            keeper.release(version)
    assert done.returncode == -signal.SIGBUS


def test_a_repaired_file_is_shown_repaired_to_who_has_it_open_or_mapped(keeper: Keeper, tmp_path: Path) -> None:
    right, damaged = b"r" * 200_000, b"d" * 200_000
    version = VersionFolder(tmp_path / "v", {"a": damaged})
    version.finish_all()
    with FetcherForReads(keeper.run_dir / "fetcher.sock", fails(errno.EIO, "not asked")) as fetcher:
        mountpoint = keeper.serve(version)
        try:
            with (
                (mountpoint / "a").open("rb", buffering=0) as file,
                mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped,
            ):
                assert (file.read(), mapped[:]) == (damaged, damaged)
                version.files["a"] = right
                version.finish_all()
                wait_until(lambda: fetcher.followers == 1)
                fetcher.repaired((mountpoint / "a").stat().st_ino)
                wait_until(lambda: mapped[:] == right)
                assert os.pread(file.fileno(), len(right), 0) == right
            assert (mountpoint / "a").read_bytes() == right
        finally:
            keeper.release(version)


def test_a_failed_read_can_be_repeated_when_the_source_is_back(keeper: Keeper, tmp_path: Path) -> None:
    version = VersionFolder(tmp_path / "v", {"a": b"content"})
    with FetcherForReads(keeper.run_dir / "fetcher.sock", fails(errno.EIO, "down")) as fetcher:
        mountpoint = keeper.serve(version)
        try:
            with pytest.raises(OSError, match="Input/output"):
                (mountpoint / "a").read_bytes()
            fetcher.answer = lambda request: ReadDone("parts", version.put_part("a", request.offset, request.length))
            assert (mountpoint / "a").read_bytes() == b"content"
        finally:
            keeper.release(version)


def test_a_read_waits_for_a_fetcher_that_is_not_there_yet(keeper: Keeper, tmp_path: Path) -> None:
    version = VersionFolder(tmp_path / "v", {"a": b"content"})
    (keeper.run_dir / "fetcher.sock").unlink(missing_ok=True)
    mountpoint = keeper.serve(version)

    def bring(request: Read) -> ReadDone:
        return ReadDone("parts", version.put_part("a", request.offset, request.length))

    with subprocess.Popen(["cat", str(mountpoint / "a")], stdout=subprocess.PIPE) as reader:
        try:
            wait_until(lambda: _waits_for_bytes(reader.pid))
            with FetcherForReads(keeper.run_dir / "fetcher.sock", bring):
                assert reader.communicate(timeout=60)[0] == b"content"
        finally:
            reader.kill()
            keeper.release(version)


def _waits_for_bytes(pid: int) -> bool:
    """Return True if a reader sleeps according to its kernel stack, for FUSE's answer or for the page that it fills."""
    stack = Path(f"/proc/{pid}/stack").read_text()
    return "fuse" in stack or "folio_wait" in stack
