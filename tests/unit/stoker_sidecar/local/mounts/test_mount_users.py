"""The users of a folder that is about to be unmounted."""

import mmap
import os
import subprocess
from pathlib import Path

import pytest

from stoker_sidecar.linux.mounts.mountinfo import Mount
from stoker_sidecar.local.mounts.mount_users import MountUsers, is_part
from tests.support.cases import cases


def programs_in(folder: Path) -> list[str]:
    return MountUsers(str(folder)).programs()


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


def _row(device: str = "0:50", root: str = "/", target: str = "/data") -> Mount:
    return Mount(1, 0, device, root, target, (), shared=False, fs_type="fuse", source="stoker")


@cases(
    "row, layer, is_shown",
    (_row(), _row(target="/mnt"), True),
    (_row(root="/train"), _row(), True),
    (_row(device="0:51"), _row(), False),
    (_row("8:1", "/cache/tree/train"), _row("8:1", "/cache/tree"), True),
    (_row("8:1", "/cache/tree2"), _row("8:1", "/cache/tree"), False),
    (_row("8:1", "/"), _row("8:1", "/cache/tree"), False),
)
def test_a_mount_shows_another_one_or_a_part_of_it(row: Mount, layer: Mount, is_shown: bool) -> None:
    assert is_part(row, layer) is is_shown


def test_processes_of_the_mounts_own_session_do_not_count(file: Path) -> None:
    with file.open("ab") as output:
        # Not the tests' session: its number is 0 if its leader is outside this PID namespace.
        keeper = subprocess.Popen("cat", stdin=subprocess.PIPE, stdout=output, start_new_session=True)
    with keeper:
        assert programs_in(file.parent) == [f"cat ({keeper.pid})"]
        assert MountUsers(str(file.parent), session=keeper.pid).programs() == []
