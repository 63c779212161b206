import os
from pathlib import Path

import pytest

from stoker_orders.sample_index import NoSamplesError
from stoker_orders.sample_map import ListedFile, SamplePiece, make_map
from stoker_orders.sampling_plan import SampleFiles, SampleLayout
from tests.support.cases import cases


def listed(*paths: str, size: int = 10) -> list[ListedFile]:
    """List files as in a manifest: depth first, sorted by name, with a number for each file and folder."""
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
    """List a folder in byte order of the names. The content of a subfolder follows its name."""
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


@cases("index", b"a 0.tar 3\nb.tar\t2\r\n\nother.tar 9\n", b'{"a 0.tar": 3, "b.tar": 2, "other.tar": 9}')
@pytest.mark.parametrize("path", ["train/*.tar", ""])
def test_an_index_says_how_many_samples_each_shard_has(index: bytes, path: str) -> None:
    files = listed("train/a 0.tar", "train/b.tar", "train/sizes", "val/c.tar")
    found = make_map(SampleFiles(SampleLayout.SHARDS, path, index="train/sizes"), files, index)
    assert [found.piece(sample).file for sample in range(len(found))] == [5, 5, 5, 6, 6]
    assert [found.sample(file, 0) for file in (5, 6, 7)] == [0, 3, None]


def test_a_shard_that_the_index_leaves_out_is_told() -> None:
    said = SampleFiles(SampleLayout.SHARDS, "*.tar", index="sizes")
    with pytest.raises(NoSamplesError, match=r"the index 'sizes' does not say how many samples 'b.tar' has"):
        make_map(said, listed("a.tar", "b.tar"), b"a.tar 3")


@pytest.mark.parametrize("index", [b"16\n40\n50\n", b"16 24\n40 10\n50 50\n"])
def test_an_index_says_where_records_begin(index: bytes) -> None:
    said = SampleFiles(SampleLayout.RECORDS, "all.tfrecord", index="all.idx")
    found = make_map(said, listed("all.idx", "all.tfrecord", size=100), index)
    assert [found.piece(sample) for sample in range(len(found))] == [
        SamplePiece(6, 16, 24),
        SamplePiece(6, 40, 10),
        SamplePiece(6, 50, 50),
    ]
    assert [found.sample(6, at) for at in (15, 16, 39, 40, 99, 100)] == [None, 0, 0, 1, 2, None]
    assert found.sample(5, 16) is None


def test_what_lies_between_the_records_of_an_index_is_none() -> None:
    said = SampleFiles(SampleLayout.RECORDS, "all.bin", index="all.idx")
    found = make_map(said, listed("all.bin", size=100), b"0 10\n20 10\n")
    assert [found.sample(5, at) for at in (9, 10, 19, 20, 30)] == [0, None, None, 1, None]


@cases(
    "layout, index, sentence",
    (SampleLayout.SHARDS, b"s.bin\n", "line 1 of the index 'i' is 's.bin': write the name of a shard"),
    (SampleLayout.SHARDS, b"s.bin -3\n", "line 1 of the index 'i' is 's.bin -3'"),
    (SampleLayout.SHARDS, b'{"s.bin": "3"}', "the index 'i' has no count for 's.bin'"),
    (SampleLayout.SHARDS, b'{"s.bin": 3', "the index 'i' starts like JSON but is invalid"),
    (SampleLayout.SHARDS, b"s.bin %d" % 2**65, "line 1 of the index 'i'"),
    (SampleLayout.SHARDS, b'{"s.bin": %d}' % 2**65, "has no count for 's.bin'"),
    (SampleLayout.RECORDS, b"9" * 5000, "line 1 of the index 'i'"),
    (SampleLayout.SHARDS, b"s.bin 0", "no sample is found at 's.bin'"),
    (SampleLayout.RECORDS, b"", "no sample is found at 's.bin'"),
    (SampleLayout.RECORDS, b"0\n\n7 3\n", "line 3 of the index 'i' is '7 3': write OFFSET, or OFFSET LENGTH"),
    (SampleLayout.RECORDS, b"0 3\n7\n", "line 2 of the index 'i' is '7': write OFFSET, or OFFSET LENGTH"),
    (SampleLayout.RECORDS, b"0 1 2\n", "line 1 of the index 'i'"),
    (SampleLayout.RECORDS, b"\xff\n", "line 1 of the index 'i'"),
    (SampleLayout.RECORDS, b"5\n5\n", "line 2 of the index 'i' is '5': records follow one another within 10"),
    (SampleLayout.RECORDS, b"10\n", "records follow one another within 10 bytes"),
    (SampleLayout.RECORDS, b"5 6\n", "records follow one another within 10 bytes"),
)
def test_an_index_that_says_nothing_is_told_with_its_line(layout: SampleLayout, index: bytes, sentence: str) -> None:
    with pytest.raises(NoSamplesError, match=sentence):
        make_map(SampleFiles(layout, "s.bin", index="i"), listed("s.bin"), index)


@cases(
    "said, sentence",
    (SampleFiles(path="none"), "no sample is found at 'none'"),
    (SampleFiles(SampleLayout.RECORDS, "none.bin", record_bytes=4), "has no file 'none.bin'"),
    (SampleFiles(SampleLayout.SHARDS, "[", per_shard=4), "the pattern '\\[' is wrong"),
)
def test_what_does_not_fit_the_dataset_is_told(said: SampleFiles, sentence: str) -> None:
    with pytest.raises(NoSamplesError, match=sentence):
        make_map(said, listed("a/1.jpg"))
