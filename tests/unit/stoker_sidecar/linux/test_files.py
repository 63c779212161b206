"""Small files that must survive a power failure."""

import os
from errno import ENOSPC
from pathlib import Path

import pytest

from stoker_sidecar.linux.files import replace_durably


def test_a_state_file_and_then_its_name_are_on_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[tuple[str, str]] = []
    file = tmp_path / "state" / "mounts.json"

    def sync(descriptor: int) -> None:
        there = file.read_text() if file.exists() else ""
        synced.append((Path(f"/proc/self/fd/{descriptor}").readlink().name, there))

    monkeypatch.setattr(os, "fsync", sync)
    replace_durably(file, "rows")
    assert synced == [("mounts.json.new", ""), ("state", "rows")]


def test_a_full_disk_leaves_the_file_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "mounts.json"
    replace_durably(file, "before")

    def refuse(_: int) -> None:
        raise OSError(ENOSPC, os.strerror(ENOSPC))

    monkeypatch.setattr(os, "fsync", refuse)
    with pytest.raises(OSError, match="No space left"):
        replace_durably(file, "after")
    assert file.read_text() == "before"
