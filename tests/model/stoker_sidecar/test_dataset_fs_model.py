"""Random operations on the file system of a version against a plain dictionary.

A fetcher moves, drops and fails in parallel.
"""

import errno
import os
import shutil
import tempfile
from pathlib import Path

import pytest
import trio
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from stoker_sidecar.errors import FsError
from stoker_sidecar.fuse.dataset_fs import DatasetFs
from stoker_sidecar.version.manifest import ROOT_INO, Manifest
from stoker_sidecar.wire.fetcher_protocol import ReadDone
from tests.support.versions import VersionFolder

pytestmark = pytest.mark.expected_logs("of the cache is damaged")  # of the rule that damages copies

_NAMES = st.sampled_from(["a", "b", "c.bin", "\u00e9", "with space"])
_PATHS = st.lists(_NAMES, min_size=1, max_size=3).map("/".join)
_CONTENT = st.binary(max_size=50).flatmap(lambda seed: st.integers(0, 400).map(lambda times: seed * times))


def _without_clashes(files: dict[str, bytes]) -> dict[str, bytes]:
    """Drop names that would be both a file and a folder. The manifest's own rule for that is tested elsewhere."""
    return {path: data for path, data in files.items() if not any(other.startswith(path + "/") for other in files)}


_TREES = st.dictionaries(_PATHS, _CONTENT, min_size=1, max_size=8).map(_without_clashes)


class _Fetcher:
    """Fetches requested bytes into a part or, if set, finishes the file. It may also fail."""

    def __init__(self, version: VersionFolder) -> None:
        self.version = version
        self.failure: int | None = None
        self.finishes = self.packs = False
        self.paths = {version.ino(path): path for path in version.files}

    async def fetch(self, ino: int, offset: int, length: int, *, doubt: bool = False) -> ReadDone:
        if self.failure is not None:
            raise FsError(self.failure, "told to fail")
        path = self.paths[ino]
        if self.packs:
            self.version.pack(path)
            return ReadDone("packed", str(self.version.copy(path)))
        if self.finishes:
            self.version.finish(path)
            return ReadDone("tree", f"tree/{path}")
        return ReadDone("parts", self.version.put_part(path, offset, length))


class DatasetFsMachine(RuleBasedStateMachine):
    """A mount against ``files``: in any state of the disk, a read returns their bytes or the fetcher's errno."""

    @initialize(files=_TREES, descriptors=st.integers(1, 3))
    def begin(self, files: dict[str, bytes], descriptors: int) -> None:
        self.folder = Path(tempfile.mkdtemp())
        self.files = files
        self.version = VersionFolder(self.folder / "v", files)
        self.fetcher = _Fetcher(self.version)
        self.inodes = {path: ino for ino, path in self.fetcher.paths.items()}
        self.descriptors = descriptors
        self.fs = self._open()

    def _open(self) -> DatasetFs:
        manifest = Manifest.open(self.version.manifest)
        return DatasetFs(manifest, self.version.folder, self.fetcher, descriptors=self.descriptors)

    def _path(self, pick: int) -> str:
        return sorted(self.files)[pick % len(self.files)]

    @rule(pick=st.integers(0, 7), offset=st.integers(0, 21_000), length=st.integers(1, 21_000))
    def read(self, pick: int, offset: int, length: int) -> None:
        path = self._path(pick)
        got = self._read(path, offset, length)
        assert got in (self.files[path][offset : offset + length], self.fetcher.failure)

    def _read(self, path: str, offset: int, length: int) -> bytes | int:
        """Read, and return the bytes or the errno."""
        try:
            return trio.run(self.fs.read, self.inodes[path], offset, length)
        except FsError as error:
            return error.errno

    @rule(path=_PATHS)
    def look_up(self, path: str) -> None:
        ino: int | None = ROOT_INO
        for name in path.split("/"):
            entry = self.fs.lookup(ino, name.encode()) if ino is not None else None
            ino = entry.ino if entry is not None else None
        folders = {parent for file in self.files for parent in _parents(file)}
        assert (ino is not None) == (path in self.files or path in folders)

    @rule(take=st.integers(0, 5))
    def list_in_two_steps(self, take: int) -> None:
        first = [entry for entry, _ in zip(self.fs.readdir(ROOT_INO, 0), range(take), strict=False)]
        rest = list(self.fs.readdir(ROOT_INO, first[-1].ino if first else 0))
        assert sorted(entry.name.decode() for entry in first + rest) == sorted({f.split("/")[0] for f in self.files})

    @rule(pick=st.integers(0, 7))
    def finish(self, pick: int) -> None:
        self.version.finish(self._path(pick))

    @rule(pick=st.integers(0, 7))
    def pack(self, pick: int) -> None:
        """Put a compressed copy in place of the file, as after a fetch."""
        path = self._path(pick)
        (self.version.folder / "tree" / path).unlink(missing_ok=True)
        self.version.pack(path)

    @rule(pick=st.integers(0, 7), place=st.integers(0, 500), other=st.binary(max_size=30), cut=st.booleans())
    def damage_a_copy(self, pick: int, place: int, other: bytes, cut: bool) -> None:
        copy = self.version.copy(self._path(pick))
        if copy.exists():
            data = copy.read_bytes()
            rest = b"" if cut else data[place + len(other) :]
            temporary = copy.with_suffix(".damaged")
            temporary.write_bytes(data[:place] + other + rest)
            temporary.rename(copy)

    @rule(pick=st.integers(0, 7))
    def take_a_copy_away(self, pick: int) -> None:
        self.version.copy(self._path(pick)).unlink(missing_ok=True)

    @rule(
        code=st.sampled_from([None, errno.EIO, errno.ESTALE, errno.ENOENT]), finishes=st.booleans(), packs=st.booleans()
    )
    def change_the_fetcher(self, code: int | None, finishes: bool, packs: bool) -> None:
        self.fetcher.failure, self.fetcher.finishes, self.fetcher.packs = code, finishes, packs

    @rule(pick=st.integers(0, 7), flags=st.sampled_from([os.O_RDONLY, os.O_RDWR, os.O_WRONLY | os.O_TRUNC]))
    def open(self, pick: int, flags: int) -> None:
        ino = self.inodes[self._path(pick)]
        if flags == os.O_RDONLY:
            assert self.fs.open(ino, flags) == ino
            return
        with pytest.raises(FsError) as caught:
            self.fs.open(ino, flags)
        assert caught.value.errno == errno.EROFS

    @rule()
    def restart(self) -> None:
        """Start another server: inodes, and so handles, must be the same."""
        before = [entry.ino for entry in self.fs.readdir(ROOT_INO, 0)]
        self.fs.close()
        self.fs = self._open()
        assert [entry.ino for entry in self.fs.readdir(ROOT_INO, 0)] == before

    @invariant()
    def totals_are_the_models(self) -> None:
        if hasattr(self, "fs"):
            assert self.fs.totals().size == sum(map(len, self.files.values()))

    def teardown(self) -> None:
        if hasattr(self, "fs"):
            self.fs.close()
            shutil.rmtree(self.folder)


def _parents(path: str) -> set[str]:
    return {str(parent) for parent in Path(path).parents} - {"."}


TestDatasetFsModel = DatasetFsMachine.TestCase
TestDatasetFsModel.settings = settings(max_examples=40, stateful_step_count=25, deadline=None)
