"""Who uses a folder that is about to be unmounted."""

import mmap
import os
from pathlib import Path

import pytest

from stoker_sidecar.local.preflight import programs_in


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "mnt").mkdir()
    (tmp_path / "mnt" / "a").write_bytes(b"content")
    return tmp_path / "mnt" / "a"


def test_a_folder_that_nobody_uses_has_no_programs(file: Path) -> None:
    assert programs_in(file.parent) == []


def test_a_program_with_an_open_file_is_named_with_its_pid(file: Path) -> None:
    with file.open("rb"):
        (program,) = programs_in(file.parent)
    assert f"({os.getpid()})" in program


def test_a_program_that_has_only_mapped_a_file_counts(file: Path) -> None:
    with file.open("rb") as opened:
        mapped = mmap.mmap(opened.fileno(), 0, prot=mmap.PROT_READ)
    assert len(programs_in(file.parent)) == 1
    mapped.close()


def test_a_program_that_works_in_the_folder_counts(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(file.parent)
    assert len(programs_in(file.parent)) == 1


def test_a_folder_of_a_similar_name_is_another(file: Path) -> None:
    (file.parent.parent / "mnt2").mkdir()
    with (file.parent.parent / "mnt2" / "b").open("wb"):
        assert programs_in(file.parent) == []
