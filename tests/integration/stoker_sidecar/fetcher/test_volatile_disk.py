"""The simulated disk behaves like a real one: a synced file survives a power cut, an unsynced one may not."""

import os
from pathlib import Path

import pytest

from tests.support.volatile_disk import volatile_disk

pytestmark = pytest.mark.root
DATA = os.urandom(300_000)


def _write(path: Path, *, synced: bool) -> None:
    with path.open("wb") as file:
        file.write(DATA)
        file.flush()
        if synced:
            os.fsync(file.fileno())


@pytest.mark.parametrize("kind", ["ext4", "xfs"])
def test_a_synced_file_survives_a_cut_and_an_unsynced_one_does_not(tmp_path: Path, kind: str) -> None:
    with volatile_disk(tmp_path, kind) as disk:
        _write(disk.path / "synced", synced=True)
        _write(disk.path / "unsynced", synced=False)
        disk.cut(1, kept=0.0)
        disk.switch_off()
        disk.switch_on()
        assert (disk.path / "synced").read_bytes() == DATA
        unsynced = disk.path / "unsynced"
        assert not unsynced.exists() or unsynced.read_bytes() != DATA


def test_a_cut_leaves_zeros_under_a_name_of_the_right_size(tmp_path: Path) -> None:
    with volatile_disk(tmp_path, "ext4", "data=writeback,nodelalloc") as disk:
        _write(disk.path / "file", synced=False)
        _write(disk.path / "other", synced=True)  # its journal commit writes the name of the first, and its size
        disk.cut(1, kept=0.0)
        disk.switch_off()
        disk.switch_on()
        assert (disk.path / "file").stat().st_size == len(DATA)
        assert (disk.path / "file").read_bytes() != DATA
