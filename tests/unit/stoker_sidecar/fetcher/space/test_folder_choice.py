"""The folder for a version: pure decisions over any set of folders."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker_sidecar.wire.config.folders import FolderRoom, FolderSpec, choose_folder, parse_folders
from tests.support.cases import cases

DISK = FolderRoom("/disk", memory=False, free=100)
LARGE = FolderRoom("/large", memory=False, free=500)
MEMORY = FolderRoom("/memory", memory=True, free=1000)

rooms = st.lists(
    st.builds(FolderRoom, st.sampled_from("abcdef"), st.booleans(), st.integers(0, 1000), st.booleans()),
    unique_by=lambda room: room.path,
    min_size=1,
)


def _chosen(folders: list[FolderRoom], need: int, homes: tuple[str, ...] = ()) -> str | None:
    chosen = choose_folder(folders, need, homes)
    return chosen.path if chosen is not None else None


def test_a_folder_with_another_version_comes_first_if_all_fits() -> None:
    assert _chosen([DISK, LARGE], 50, homes=("/disk",)) == "/disk"


def test_a_folder_with_another_version_is_left_when_it_is_too_small() -> None:
    assert _chosen([DISK, LARGE], 200, homes=("/disk",)) == "/large"


@cases(
    "folders, need, path",
    the_disk_with_most_free_space=([DISK, LARGE, MEMORY], 50, "/large"),
    memory_that_is_listed_first=([MEMORY, DISK, LARGE], 50, "/memory"),
    memory_when_no_disk_has_room=([DISK, LARGE, MEMORY], 600, "/memory"),
    the_disk_that_most_of_it_fits_on=([DISK, LARGE, MEMORY], 5000, "/large"),
)
def test_a_folder_is_chosen(folders: list[FolderRoom], need: int, path: str) -> None:
    assert _chosen(folders, need) == path


def test_with_every_folder_out_of_service_there_is_none() -> None:
    assert _chosen([FolderRoom("/disk", memory=False, free=100, healthy=False)], 1) is None


@given(rooms, st.integers(0, 2000))
def test_a_folder_that_fits_is_found_whenever_there_is_one_and_is_never_out_of_service(
    folders: list[FolderRoom], need: int
) -> None:
    healthy = [folder for folder in folders if folder.healthy]
    chosen = choose_folder(folders, need)
    assert (chosen is None) == (not healthy)
    if chosen is not None:
        assert chosen.healthy
        assert chosen.free >= need or all(folder.free < need for folder in healthy)


@given(rooms, st.integers(0, 2000))
def test_memory_is_never_taken_before_a_disk_that_fits_unless_listed_first(
    folders: list[FolderRoom], need: int
) -> None:
    chosen = choose_folder(folders, need)
    if chosen is not None and chosen.memory and chosen is not folders[0]:
        assert not any(folder.healthy and not folder.memory and folder.free >= need for folder in folders)


def test_folders_are_read_from_one_line() -> None:
    assert parse_folders("/a, memory:/b") == (FolderSpec("/a"), FolderSpec("/b", memory=True))


def test_folders_are_written_as_they_are_read() -> None:
    assert [str(folder) for folder in parse_folders("/a,memory:/b")] == ["/a", "memory:/b"]


@pytest.mark.parametrize("text", ["", "relative", "/a,/a", "memory:b"])
def test_what_is_no_list_of_folders_is_refused_with_a_sentence(text: str) -> None:
    with pytest.raises(ValueError, match="cache folder"):
        parse_folders(text)
