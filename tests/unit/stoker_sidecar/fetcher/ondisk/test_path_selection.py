"""The files that paths and patterns select, compared with a model that tests each path with each pattern."""

import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path, PurePosixPath

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stoker_api.datasets.warm_paths import is_pattern, paths_digest
from stoker_sidecar.errors import PathsTakeTooLong
from stoker_sidecar.fetcher.ondisk.choosing import entries_of
from stoker_sidecar.fetcher.ondisk.path_selection import PathSelection, select_listed
from stoker_sidecar.version.builder import ManifestBuilder
from stoker_sidecar.version.manifest import Manifest
from stoker_sidecar.version.objects import ListedObject, compile_pattern

_FOLDER = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
_NAME = st.sampled_from(["a", "b", "ab", "a.b", "b1", "*"])
_FILES = st.lists(st.lists(_NAME, min_size=1, max_size=4).map("/".join), min_size=1, max_size=25, unique=True)
_SEGMENT = st.sampled_from(["a", "b", "ab", "*", "a*", "*b", "*.b", "?", "[ab]", "[!a]*", "b1"])
_PART = st.one_of(_SEGMENT, st.just("**"))
_PATH = st.lists(_PART, min_size=1, max_size=4).filter(lambda parts: parts.count("**") < 3).map("/".join)
_LIST = ["train/a/1", "train/a/2", "train/b/1", "train/b/2", "val/1", "README"]


@contextmanager
def _manifest(folder: Path, files: Sequence[str]) -> Iterator[Manifest]:
    with ManifestBuilder(folder / "m.sqlite") as builder:
        builder.add(ListedObject(path.encode(), 10 + n, 5, "e") for n, path in enumerate(files))
        builder.finish("s3://bucket/p")
    with closing(Manifest.open(folder / "m.sqlite")) as manifest:
        yield manifest


def _chosen(manifest: Manifest, selection: PathSelection) -> list[str]:
    return [manifest.path(ino) for ino in selection.in_order(b"\1" * len(selection.numbers))]


def _selected(manifest: Manifest, *paths: str) -> PathSelection:
    return select_listed(manifest, paths, paths_digest(paths))


def _select(folder: Path, *paths: str) -> tuple[list[str], PathSelection]:
    with _manifest(folder, _LIST) as manifest:
        selection = _selected(manifest, *paths)
        return _chosen(manifest, selection), selection


def _modelled(everything: Sequence[tuple[str, bool]], paths: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the selected files in order, and the paths that match nothing."""
    order: dict[str, None] = {}
    unmatched = []
    for path in paths:
        here = any(one == path for one, _ in everything)
        test = path.__eq__ if here or not is_pattern(path) else compile_pattern(path).fullmatch
        hits = {one for one, _ in everything if test(one)}
        unmatched += [] if hits else [path]
        for one, is_dir in everything:
            if not is_dir and hits & {one, *map(str, PurePosixPath(one).parents)}:
                order[one] = None
    return list(order), unmatched


@_FOLDER
@given(files=_FILES, paths=st.lists(_PATH, max_size=5))
def test_a_selection_has_the_matches_of_each_path_in_order(tmp_path: Path, files: list[str], paths: list[str]) -> None:
    with _manifest(tmp_path, files) as manifest:
        everything = [(path.decode(), entry.is_dir) for path, entry in manifest.walk()]
        sizes = {path.decode(): entry.size for path, entry in manifest.walk()}
        expected, unmatched = _modelled(everything, paths)
        selection = _selected(manifest, *paths)
        assert list(dict.fromkeys(_chosen(manifest, selection))) == expected
        assert list(selection.unmatched) == unmatched
        assert (selection.files, selection.total_bytes) == (len(expected), sum(sizes[path] for path in expected))
        assert selection.digest == paths_digest(tuple(paths))


def test_paths_are_taken_in_their_order_and_a_folder_is_all_below_it(tmp_path: Path) -> None:
    chosen, _ = _select(tmp_path, "val/", "README", "train/b")
    assert chosen == ["val/1", "README", "train/b/1", "train/b/2"]


def test_a_file_that_two_paths_name_has_the_place_of_the_first(tmp_path: Path) -> None:
    chosen, selection = _select(tmp_path, "train/*/2", "train")
    assert (chosen, selection.files) == (["train/a/2", "train/b/2", "train/a/1", "train/b/1"], 4)


def test_unmatched_paths_are_reported(tmp_path: Path) -> None:
    chosen, selection = _select(tmp_path, "trian", "val", "**/*.jpg")
    assert (chosen, selection.unmatched) == (["val/1"], ("trian", "**/*.jpg"))


def test_of_many_paths_that_name_nothing_the_first_are_said_and_all_are_counted(tmp_path: Path) -> None:
    _, selection = _select(tmp_path, "val", *(f"gone/{n}" for n in range(1000)))
    assert (selection.unmatched_count, len(selection.unmatched), selection.unmatched[0]) == (1000, 100, "gone/0")


def test_a_repeated_path_takes_no_room(tmp_path: Path) -> None:
    chosen, selection = _select(tmp_path, "val/1", *["train/a/", "train/a/2", "val/1"] * 10)
    assert (chosen, len(selection.ranges)) == (["val/1", "train/a/1", "train/a/2"], 2 * 3)


def test_a_selection_that_takes_too_long_is_given_up(tmp_path: Path) -> None:
    with _manifest(tmp_path, _LIST) as manifest, pytest.raises(PathsTakeTooLong, match="begin with a folder"):
        select_listed(manifest, ("**/1",), "", lambda: True)


def test_many_files_are_searched_in_little_time(tmp_path: Path) -> None:
    files = [f"train/{folder:03}/{n:03}.{'jpg' if n % 2 else 'json'}" for folder in range(50) for n in range(400)]
    with _manifest(tmp_path, files) as manifest:
        began = time.process_time()
        selection = _selected(manifest, "train/007/", "**/*.jpg", "train/*/*1?.json")
        # A generous limit: even a busy machine needs a fraction of it.
        assert time.process_time() - began < 0.4
    assert selection.files == 200 + 10_000 + 20 * 49


def test_a_long_list_in_no_order_is_searched_in_little_time(tmp_path: Path) -> None:
    files = [f"train/{folder:03}/{n:03}.jpg" for folder in range(20) for n in range(500)]
    lines = [files[n * 7919 % len(files)] for n in range(4000)]
    with _manifest(tmp_path, files) as manifest:
        began = time.process_time()
        selection = _selected(manifest, *lines)
        found = [entry.ino for entry in entries_of(manifest, selection.in_order(selection.marks))]
        # A generous limit: even a busy machine needs a fraction of it.
        assert time.process_time() - began < 0.8
        assert [manifest.path(ino) for ino in found[:100]] == lines[:100]
    assert len(found) == selection.files == 4000


def test_only_wanted_files_of_a_selection_are_listed(tmp_path: Path) -> None:
    with _manifest(tmp_path, _LIST) as manifest:
        selection = _selected(manifest, "val", "train")
        wanted = bytearray(len(selection.numbers))
        for path in ("train/b/1", "README"):
            found = manifest.find(path)
            assert found is not None
            wanted[found.ino] = 1
        assert [manifest.path(ino) for ino in selection.in_order(bytes(wanted))] == ["train/b/1"]
