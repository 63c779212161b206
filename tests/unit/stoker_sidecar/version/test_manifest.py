"""Manifests: the tree of a listing, its numbers, its digest."""

import sqlite3
from contextlib import closing
from pathlib import Path, PurePosixPath

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stoker_api.datasets.dataset_status import UNREADABLE
from stoker_sidecar.errors import EmptySource, InvalidSource, ManifestInvalid, NoMatch, SourceTooLarge
from stoker_sidecar.version.builder import MOST_OBJECT_BYTES, ManifestBuilder, verify
from stoker_sidecar.version.manifest import ROOT_INO, Manifest, ManifestInfo, Skipped
from stoker_sidecar.version.objects import ListedObject, SkipReason, below_selector, selector
from tests.support.cases import cases

_SEGMENT = st.text("ab-.0/", min_size=1, max_size=3).filter(lambda s: "/" not in s and s not in (".", ".."))
_PATHS = st.lists(st.lists(_SEGMENT, min_size=1, max_size=3).map("/".join), min_size=1, max_size=25, unique=True)
_FOLDER = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)


def _object(path: str, size: int = 3, mtime_ns: int = 5, etag: str = "e") -> ListedObject:
    return ListedObject(path.encode(), size, mtime_ns, etag)


def _build(folder: Path, *objects: ListedObject, include: tuple[str, ...] = ()) -> ManifestInfo:
    with ManifestBuilder(folder / "m.sqlite", selector(include, ())) as builder:
        builder.add(objects)
        return builder.finish("s3://bucket/p")


def _open(folder: Path) -> Manifest:
    return Manifest.open(folder / "m.sqlite")


def _tree(manifest: Manifest, ino: int = ROOT_INO) -> dict[str, bool]:
    """Return True for each folder and False for each file, by path, found through children()."""
    found: dict[str, bool] = {}
    for entry in manifest.children(ino):
        found[manifest.path(entry.ino)] = entry.is_dir
        found |= _tree(manifest, entry.ino) if entry.is_dir else {}
    return found


def _expected(paths: list[str]) -> dict[str, bool]:
    folders = {str(parent) for path in paths for parent in PurePosixPath(path).parents if str(parent) != "."}
    return {path: False for path in paths if path not in folders} | dict.fromkeys(folders, True)


@settings(_FOLDER, max_examples=40)
@given(paths=_PATHS)
def test_the_tree_is_that_of_the_keys_and_a_folder_hides_a_file_of_its_name(tmp_path: Path, paths: list[str]) -> None:
    expected = _expected(paths)
    info = _build(tmp_path, *map(_object, paths))
    assert _tree(_open(tmp_path)) == expected
    assert info.files == sum(not is_dir for is_dir in expected.values())
    assert info.directories == 1 + sum(expected.values())
    assert sum(item.count for item in info.skipped) == len(paths) - info.files


@_FOLDER
@given(paths=_PATHS, data=st.data())
def test_the_order_of_the_listing_changes_nothing(tmp_path: Path, paths: list[str], data: st.DataObject) -> None:
    first = _build(tmp_path, *map(_object, paths))
    numbers = [(entry.ino, entry.name) for entry in _open(tmp_path).entries()]
    second = _build(tmp_path, *map(_object, data.draw(st.permutations(paths))))
    assert first.digest == second.digest
    assert numbers == [(entry.ino, entry.name) for entry in _open(tmp_path).entries()]


@_FOLDER
@given(paths=_PATHS)
def test_numbers_are_dense_and_parents_come_first(tmp_path: Path, paths: list[str]) -> None:
    _build(tmp_path, *map(_object, paths))
    manifest = _open(tmp_path)
    entries = list(manifest.entries())
    assert [entry.ino for entry in entries] == list(range(1, manifest.last_ino + 1))
    assert all(entry.parent < entry.ino for entry in entries[1:])


@_FOLDER
@given(paths=_PATHS)
def test_what_is_found_by_name_number_and_path_is_the_same(tmp_path: Path, paths: list[str]) -> None:
    _build(tmp_path, *map(_object, paths))
    manifest = _open(tmp_path)
    for entry in manifest.files():
        path = manifest.path(entry.ino)
        assert manifest.find(path) == manifest.entry(entry.ino) == manifest.lookup(entry.parent, entry.name) == entry


@cases(
    "other",
    _object("a", size=4),
    _object("a", mtime_ns=6),
    _object("a", etag="f"),
    _object("b"),
    ListedObject(b"a", 3, 5, "e", "v2"),
)
def test_any_difference_makes_another_version(tmp_path: Path, other: ListedObject) -> None:
    assert _build(tmp_path, _object("a")).digest != _build(tmp_path, other).digest


def test_an_empty_folder_makes_another_version(tmp_path: Path) -> None:
    plain = _build(tmp_path, _object("a"))
    assert _build(tmp_path, _object("a"), _object("d/", size=0)).digest != plain.digest


def test_a_digest_stays_the_same_over_releases(tmp_path: Path) -> None:
    # Nodes of two releases must agree during an upgrade. To change this line, change the format number.
    digest = _build(tmp_path, _object("a/b"), _object("c", 0)).digest
    assert digest == "91bdf471a21f2c258053016d8b5ec8bf974cea41dd993e484534e58635302b8c"


def test_children_go_on_behind_an_inode(tmp_path: Path) -> None:
    _build(tmp_path, *(_object(f"f{index:04}") for index in range(600)))
    manifest = _open(tmp_path)
    whole = list(manifest.children(ROOT_INO))
    assert len(whole) == 600
    assert list(manifest.children(ROOT_INO, after=whole[299].ino)) == whole[300:]


def test_a_folder_is_dated_like_its_newest_file(tmp_path: Path) -> None:
    _build(tmp_path, _object("d/old", mtime_ns=1), _object("d/e/new", mtime_ns=9))
    manifest = _open(tmp_path)
    assert [entry.mtime_ns for path in ("d", "d/e", "") if (entry := manifest.find(path))] == [9, 9, 9]


def test_keys_that_cannot_be_files_are_counted_with_an_example(tmp_path: Path) -> None:
    info = _build(tmp_path, _object("ok"), _object("a//b"), _object("a//c"), ListedObject(b"\xff", 1, 1, "e"))
    assert info.skipped == (Skipped("EmptySegment", 2, "a//b"), Skipped("NotUTF8", 1, "\\xff"))
    assert _open(tmp_path).info == info


def test_a_path_longer_than_any_file_is_counted_before_a_pattern_looks_at_it(tmp_path: Path) -> None:
    looked: list[str] = []

    def selected(path: str) -> bool:
        looked.append(path)
        return True

    with ManifestBuilder(tmp_path / "m.sqlite", selected) as builder:
        builder.add([_object("ok"), _object("a" * 10_000)])
        skipped = builder.finish().skipped
    assert looked == ["ok"]
    assert [(one.reason, one.count, len(one.example)) for one in skipped] == [("PathTooLong", 1, 200)]


@pytest.mark.parametrize("size", [-1, MOST_OBJECT_BYTES + 1, 2**63, 10**30])
def test_an_object_of_a_size_that_no_store_keeps_is_refused(tmp_path: Path, size: int) -> None:
    with pytest.raises(InvalidSource, match=f"is said to have {size} bytes"):
        _build(tmp_path, _object("a", size=size))


def test_sizes_that_add_up_to_more_than_can_be_counted_are_refused(tmp_path: Path) -> None:
    with pytest.raises(SourceTooLarge, match="more than 1048576"):
        _build(tmp_path, *(_object(f"f{index}", size=MOST_OBJECT_BYTES) for index in range(1025)))


def test_a_time_beyond_the_range_of_a_manifest_is_the_last_one(tmp_path: Path) -> None:
    _build(tmp_path, _object("old", mtime_ns=-(10**20)), _object("new", mtime_ns=10**20))
    found = [entry.mtime_ns for entry in _open(tmp_path).files()]
    assert found == [2**63 - 1, -(2**63 - 1)]


def test_the_marker_of_the_source_itself_is_nothing(tmp_path: Path) -> None:
    with pytest.raises(EmptySource, match="holds no object"):
        _build(tmp_path, _object("", size=0))


def test_a_source_of_folders_only_is_empty(tmp_path: Path) -> None:
    with pytest.raises(EmptySource, match="none of the 1 objects"):
        _build(tmp_path, _object("d/", size=0))


def test_patterns_that_leave_nothing_say_how_much_there_was(tmp_path: Path) -> None:
    with pytest.raises(NoMatch, match="none of the 2 objects under s3://bucket/p"):
        _build(tmp_path, _object("a"), _object("b"), include=("train/**",))


def test_what_patterns_leave_out_is_not_counted_as_skipped(tmp_path: Path) -> None:
    assert _build(tmp_path, _object("train/a"), _object("x//y"), include=("train/**",)).skipped == ()


def test_a_manifest_is_the_version_that_it_is_named_by(tmp_path: Path) -> None:
    info = _build(tmp_path, _object("a/b"), _object("c"))
    assert verify(tmp_path / "m.sqlite", info.digest) == info


@cases(
    "change",
    "UPDATE entry SET etag = 'x' WHERE ino = 3",
    "UPDATE entry SET name = CAST('..' AS BLOB) WHERE ino = 3",
    "UPDATE entry SET name = CAST('x/y' AS BLOB) WHERE ino = 3",
    "UPDATE entry SET parent = 3 WHERE ino = 2",
    "DELETE FROM entry WHERE ino = 4",
    "DELETE FROM info WHERE key = 'files'",
    "PRAGMA user_version = 99",
)
def test_a_manifest_that_was_changed_is_refused(tmp_path: Path, change: str) -> None:
    info = _build(tmp_path, _object("a/b"), _object("c"), _object("d"))
    with sqlite3.connect(tmp_path / "m.sqlite") as connection:
        connection.execute(change)
    connection.close()
    with pytest.raises(ManifestInvalid):
        verify(tmp_path / "m.sqlite", info.digest)


def test_a_file_that_is_no_manifest_is_refused(tmp_path: Path) -> None:
    (tmp_path / "m.sqlite").write_bytes(b"not a database, but long enough to look like something" * 10)
    with pytest.raises(ManifestInvalid):
        _open(tmp_path)


def test_a_build_leaves_nothing_but_the_manifest(tmp_path: Path) -> None:
    _build(tmp_path, _object("a"))
    assert [path.name for path in tmp_path.iterdir()] == ["m.sqlite"]


@_FOLDER
@given(paths=_PATHS, inos=st.lists(st.integers(0, 40), max_size=30))
def test_entries_are_found_together_as_one_by_one(tmp_path: Path, paths: list[str], inos: list[int]) -> None:
    _build(tmp_path, *map(_object, paths))
    with closing(_open(tmp_path)) as manifest:
        expected = {ino: entry for ino in inos if (entry := manifest.entry(ino)) is not None}
        assert manifest.entries_of(inos) == expected


def test_more_entries_than_one_query_takes_are_all_found(tmp_path: Path) -> None:
    _build(tmp_path, *(_object(f"f{number:04d}") for number in range(1000)))
    with closing(_open(tmp_path)) as manifest:
        assert sorted(manifest.entries_of(range(1, 1002))) == list(range(1, 1002))


def _unreadable(path: str) -> ListedObject:
    return ListedObject(path.encode(), 0, 0, "", skipped=SkipReason.UNREADABLE)


def test_what_cannot_be_listed_is_counted_unless_patterns_leave_it_out(tmp_path: Path) -> None:
    exclude = ("private/**",)
    selected, below = selector((), exclude), below_selector((), exclude)
    with ManifestBuilder(tmp_path / "m.sqlite", selected, below) as builder:
        builder.add([_object("a"), _unreadable("m/"), _unreadable("private/"), _unreadable("z/file")])
        assert builder.finish().skipped == (Skipped("Unreadable", 2, "m/"),)


def test_an_example_has_no_character_that_a_terminal_acts_upon(tmp_path: Path) -> None:
    skipped = _build(tmp_path, _object("a"), _object("\x1b[2J\n\u202e//x")).skipped
    assert skipped == (Skipped("EmptySegment", 1, "\\x1b[2J\\n\\u202e//x"),)


def test_the_operator_knows_each_reason_of_skipped_keys() -> None:
    assert SkipReason.UNREADABLE == UNREADABLE
