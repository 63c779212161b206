import os
from pathlib import Path

import pytest

from stoker_orders.sample_map import ListedFile, NoSamplesError, SamplePiece, make_map
from stoker_orders.sampling_plan import SampleFiles, SampleLayout


def listed(*paths: str, size: int = 10) -> list[ListedFile]:
    """As a manifest has them: depth first, by name, each file and folder with a number."""
    return [ListedFile(number, path.encode(), size) for number, path in enumerate(paths, start=5)]


def test_an_image_folder_is_sorted_as_torchvision_walks_it(tmp_path: Path) -> None:
    paths = ["b/x.jpg", "a-1/z.png", "a/y.jpg", "a/deep/x.jpg", "a/deep-er/x.jpg", "a/b.JPG", "a/notes.txt", "top.jpg"]
    for path in paths:
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).touch()
    walked = [
        str(Path(root, name).relative_to(tmp_path))
        for one in sorted(entry.name for entry in os.scandir(tmp_path) if entry.is_dir())
        for root, _, names in sorted(os.walk(tmp_path / one))
        for name in sorted(names)
        if name.lower().endswith((".jpg", ".png"))
    ]
    files = _depth_first(tmp_path)
    found = make_map(SampleFiles(), files)
    by_number = {file.number: file.path.decode() for file in files}
    assert [by_number[found.piece(sample).file] for sample in range(len(found))] == walked


def _depth_first(folder: Path) -> list[ListedFile]:
    """Names of a folder by their bytes, and what is in a folder right behind it."""
    found: list[str] = []

    def walk(path: Path) -> None:
        for entry in sorted(path.iterdir(), key=lambda one: one.name.encode()):
            if entry.is_dir():
                walk(entry)
            else:
                found.append(str(entry.relative_to(folder)))

    walk(folder)
    return listed(*found)


def test_samples_are_found_from_their_files_again() -> None:
    files = listed("train/b/1.jpg", "train/a/1.jpg", "train/a/2.jpg", "val/a/1.jpg")
    found = make_map(SampleFiles(path="train"), files)
    assert [found.sample(file.number, 0) for file in files] == [2, 0, 1, None]


def test_a_list_gives_the_order_of_its_lines() -> None:
    files = listed("lists/train.txt", "lists/c.bin", "a.bin")
    found = make_map(SampleFiles(SampleLayout.FILE_LIST, "lists/train.txt"), files, b"a.bin\n\nc.bin\r\na.bin\n")
    assert [found.piece(sample).file for sample in range(3)] == [7, 6, 7]


def test_a_list_that_names_what_is_not_there_is_refused() -> None:
    with pytest.raises(NoSamplesError, match=r"'list.txt' names 'b.bin', which the Dataset does not have"):
        make_map(SampleFiles(SampleLayout.FILE_LIST, "list.txt"), listed("a.bin"), b"a.bin\nb.bin")


def test_shards_have_their_samples_one_after_the_other() -> None:
    files = listed("s-0.tar", "s-1.tar", "labels.json")
    found = make_map(SampleFiles(SampleLayout.SHARDS, "*.tar", per_shard=100), files)
    assert len(found) == 200
    assert [found.piece(0), found.piece(99), found.piece(100)] == [SamplePiece(5), SamplePiece(5), SamplePiece(6)]
    assert (found.sample(6, 0), found.sample(7, 0)) == (100, None)


def test_records_are_found_by_where_they_lie() -> None:
    said = SampleFiles(SampleLayout.RECORDS, "all.bin", record_bytes=100, header_bytes=16)
    found = make_map(said, listed("all.bin", size=1_016))
    assert len(found) == 10
    assert found.piece(3) == SamplePiece(5, 316, 100)
    assert [found.sample(5, 316), found.sample(5, 415), found.sample(5, 3), found.sample(6, 316)] == [3, 3, None, None]


@pytest.mark.parametrize(
    ("said", "sentence"),
    [
        (SampleFiles(path="none"), "no sample is found at 'none'"),
        (SampleFiles(SampleLayout.RECORDS, "none.bin", record_bytes=4), "has no file 'none.bin'"),
        (SampleFiles(SampleLayout.SHARDS, "[", per_shard=4), "the pattern '\\[' is wrong"),
    ],
)
def test_what_does_not_fit_the_dataset_is_told(said: SampleFiles, sentence: str) -> None:
    with pytest.raises(NoSamplesError, match=sentence):
        make_map(said, listed("a/1.jpg"))
