"""Files that are asked for, some at once, and that nobody reads."""

import os
from pathlib import Path

import pytest

from bench.asked_files import asked_rate


@pytest.mark.parametrize("at_once", [1, 2, 100])
def test_every_file_is_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at_once: int) -> None:
    names = [f"f{number}" for number in range(5)]
    for name in names:
        (tmp_path / name).write_bytes(b"1234")
    asked = list[tuple[str, int]]()
    monkeypatch.setattr(
        os,
        "posix_fadvise",
        lambda fd, start, size, kind: asked.append((str(Path(f"/proc/self/fd/{fd}").readlink()), size)),
    )
    assert asked_rate(tmp_path, names, 4, at_once) > 0
    assert asked == [(f"{tmp_path}/{name}", 4) for name in names]


def test_no_file_stays_open_where_one_is_missing(tmp_path: Path) -> None:
    (tmp_path / "here").write_bytes(b"1234")
    before = len(list(Path("/proc/self/fd").iterdir()))
    with pytest.raises(FileNotFoundError):
        asked_rate(tmp_path, ["here", "gone"], 4, 8)
    assert len(list(Path("/proc/self/fd").iterdir())) == before
