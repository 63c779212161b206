"""Folders that `stoker mount` rejects, and the messages."""

from pathlib import Path

import pytest

from stoker_sidecar.errors import MountRefused
from stoker_sidecar.local.mounts.preflight import check_folder, check_others, real_folder

CACHE = Path("/var/cache/stoker")


def refusal(folder: Path, cache: Path = CACHE) -> str:
    with pytest.raises(MountRefused) as refused:
        check_folder(folder, cache, uid=0)
    return str(refused.value)


def test_an_empty_folder_will_do(tmp_path: Path) -> None:
    check_folder(tmp_path, CACHE, uid=0)


def test_a_folder_that_is_missing(tmp_path: Path) -> None:
    assert "does not exist: make it first" in refusal(tmp_path / "none")


def test_a_file(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert "is not a folder" in refusal(tmp_path / "file")


def test_a_folder_with_something_in_it(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert "is not empty" in refusal(tmp_path)


def test_the_root_folder() -> None:
    assert "give an empty folder" in refusal(Path("/"))


def test_a_mount_point() -> None:
    assert "something is mounted at /proc already" in refusal(Path("/proc"))


def test_a_folder_that_would_hide_the_cache(tmp_path: Path) -> None:
    assert "would hide it" in refusal(tmp_path, cache=tmp_path / "cache")


@pytest.mark.parametrize("text", [None, "", "#user_allow_other\nmount_max = 10\n"])
def test_mounting_for_others_needs_roots_word(tmp_path: Path, text: str | None) -> None:
    if text is not None:
        (tmp_path / "fuse.conf").write_text(text)
    with pytest.raises(MountRefused, match="needs a line user_allow_other"):
        check_others(tmp_path / "fuse.conf")


def test_with_roots_word_users_may_mount_for_others(tmp_path: Path) -> None:
    (tmp_path / "fuse.conf").write_text("mount_max = 10\nuser_allow_other\n")
    check_others(tmp_path / "fuse.conf")


def test_links_are_followed_to_where_the_kernel_mounts(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    assert real_folder(tmp_path / "link") == (tmp_path / "real").resolve()
