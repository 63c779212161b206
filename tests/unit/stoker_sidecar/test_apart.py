"""Folders that get a region of the disk of their own."""

import os
import sys
from pathlib import Path

import pytest

from stoker_sidecar.cache.apart import make_apart


def _names(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()]


def test_the_folder_is_made_under_its_name_alone(tmp_path: Path) -> None:
    make_apart(tmp_path / "parts")
    assert _names(tmp_path) == ["parts"]


def test_a_folder_that_is_there_keeps_what_it_holds(tmp_path: Path) -> None:
    make_apart(tmp_path / "parts")
    (tmp_path / "parts" / "file").write_text("x")
    make_apart(tmp_path / "parts")
    assert _names(tmp_path / "parts") == ["file"]


def test_a_parent_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        make_apart(tmp_path / "gone" / "parts")


def test_a_file_system_without_regions_does_as_well() -> None:
    folder = Path("/dev/shm") / f"apart-{os.getpid()}"
    folder.mkdir()
    try:
        make_apart(folder / "parts")
        assert _names(folder) == ["parts"]
    finally:
        (folder / "parts").rmdir()
        folder.rmdir()


def test_ext4_is_told_that_what_is_in_the_parent_does_not_belong_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[int] = []

    def ioctl(descriptor: int, request: int, flags: bytes) -> bytes:
        told.append(int.from_bytes(flags[:4], sys.byteorder))
        return (0x80000).to_bytes(8, sys.byteorder)  # EXT4_EXTENTS_FL, which is to stay

    monkeypatch.setattr("fcntl.ioctl", ioctl)
    make_apart(tmp_path / "parts")
    assert told == [0, 0xA0000]  # asked with nothing; then told both
