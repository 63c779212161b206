"""The real reader, started by a real keeper: its user, and its access."""

import asyncio
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from stoker_sidecar.agent.questions.reading.version_reader import VersionReader
from stoker_sidecar.errors import CacheError
from stoker_sidecar.linux.sandbox import landlock
from stoker_sidecar.version.layout import CachePaths, VersionPaths
from stoker_sidecar.wire.reader_protocol import SOCKET
from stoker_tuning.training.layout import DatasetLayout
from tests.fakes.volumes import UID
from tests.support.asked_plugins import with_open_python
from tests.support.csi_driver import write_version
from tests.support.keeper import Keeper
from tests.support.waiting import wait_until

pytestmark = pytest.mark.root
OWNER = 65532
ASLEEP = "sleep 600"  # an idle agent: the test sends the requests


@pytest.fixture
def keeper(tmp_path: Path) -> Iterator[Keeper]:
    tmp_path.chmod(0o755)
    (tmp_path / "python").mkdir()
    within = with_open_python(tmp_path / "python")
    with Keeper(tmp_path / "node", agent=ASLEEP, options=["--run-as", str(OWNER)], within=within) as keeper:
        yield keeper


@pytest.fixture
def version() -> Iterator[Callable[[str], VersionPaths]]:
    def write(name: str) -> VersionPaths:
        folder = Path(open_folder) / name
        info = write_version(folder, {f"train/{name}.jpg": b"1"})
        folder.chmod(0o700)
        for path in (folder, *folder.rglob("*")):
            os.chown(path, OWNER, OWNER)
        return CachePaths(folder).dataset(UID).version(info.digest)

    with TemporaryDirectory() as open_folder:  # other users cannot enter a test's own folder
        Path(open_folder).chmod(0o755)
        yield write


def layout(keeper: Keeper, paths: VersionPaths) -> DatasetLayout:
    return asyncio.run(VersionReader(keeper.run_dir / SOCKET).layout("team", paths, by_chunk=False))


def test_a_reader_reads_a_version_as_the_user_that_owns_it_and_ends(
    keeper: Keeper, version: Callable[[str], VersionPaths]
) -> None:
    assert sum(run.files for run in layout(keeper, version("one")).runs) == 1
    wait_until(lambda: _pid(keeper) is None)


@pytest.mark.skipif(bool(landlock.shortcoming(landlock.abi())), reason="this kernel's Landlock holds nobody")
def test_a_reader_opens_no_other_version_of_its_user(keeper: Keeper, version: Callable[[str], VersionPaths]) -> None:
    one, other = version("one"), version("other")
    one.manifest.unlink()
    one.manifest.symlink_to(other.manifest)
    assert layout(keeper, other).runs
    with pytest.raises(CacheError, match="cannot be opened"):
        layout(keeper, one)


def test_nobody_but_root_has_readers_started(keeper: Keeper) -> None:
    status = (keeper.run_dir / SOCKET).stat()
    assert (status.st_uid, status.st_mode & 0o777) == (0, 0o600)


def _pid(keeper: Keeper) -> int | None:
    rows = keeper.call(op="list")["children"]
    pid: int | None = next(row["pid"] for row in rows if row["name"] == "reader")
    return pid
