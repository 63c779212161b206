"""Samplers warn about paths in the order of a folder listing, and not about the orders of usual datasets."""

import os
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from stoker_client import GlobalShuffleSampler, GroupShuffleSampler, WarmFirstSampler
from stoker_client.internal.dataset_files import unsorted_pair
from stoker_client.sampler import EpochSampler
from tests.support.cases import cases

UNSORTED = ["/data/train/b.jpg", "/data/train/a.jpg"]


class ImageFolder:
    """A dataset like torchvision's."""

    def __init__(self, paths: Sequence[str]) -> None:
        self.samples = [(path, 0) for path in paths]

    def __len__(self) -> int:
        return len(self.samples)


@cases(
    "make",
    (lambda: GlobalShuffleSampler(ImageFolder(UNSORTED))),
    (lambda: GroupShuffleSampler(ImageFolder(UNSORTED), 1)),
    (lambda: WarmFirstSampler(2, paths=UNSORTED)),
)
def test_a_sampler_warns_about_unsorted_paths(make: Callable[[], EpochSampler]) -> None:
    with pytest.warns(UserWarning, match=r"not sorted \('/data/train/b.jpg' comes before .*Sort the paths"):
        make()


@pytest.mark.parametrize("data", [2, "ab", ImageFolder(UNSORTED[::-1])])
def test_a_sampler_of_sorted_or_unknown_paths_warns_of_nothing(data: int | str | ImageFolder) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        GlobalShuffleSampler(data)


@pytest.mark.parametrize(
    "paths",
    [
        ["d/a", "d/b", "e/a"],
        ["d/a", "d/a"],  # several samples per file
        ["d/z", "d/a/b"],  # files of a folder before its subfolders
        ["c/x", "c/sub/x", "c-x/x"],  # by folder name
        ["k/a/f", "k/a-b/f"],
        ["k/a-b/f", "k/a/f"],  # by the strings
        ["a", "b"],
        [],
    ],
)
def test_orders_of_sorted_datasets_are_sorted(paths: list[str]) -> None:
    assert unsorted_pair(paths) is None


@pytest.mark.parametrize(
    ("paths", "pair"),
    [
        (["d/a", "d/c", "d/b"], ("d/c", "d/b")),
        (["e/a", "d/a"], ("e/a", "d/a")),  # folders in the order of os.listdir
        (["d/2/a", "d/1/z"], ("d/2/a", "d/1/z")),
        (["b", "a"], ("b", "a")),
    ],
)
def test_the_first_pair_in_descending_order_is_found(paths: list[str], pair: tuple[str, str]) -> None:
    assert unsorted_pair(paths) == pair


def test_a_walk_with_sorted_names_is_sorted(tmp_path: Path) -> None:
    for name in ("c/2", "c/10", "c/sub/1", "c.d/1", "a/1"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    walk = sorted(os.walk(tmp_path))
    assert unsorted_pair([f"{folder}/{name}" for folder, _, names in walk for name in sorted(names)]) is None
