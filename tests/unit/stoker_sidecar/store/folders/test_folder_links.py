"""Symbolic links in a source folder are followed below the allowed folders, else skipped with a reason."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from stoker_sidecar.errors import AccessDenied, EmptySource, SourceTooLarge
from stoker_sidecar.store.folders.folder_walk import FolderWalk
from stoker_sidecar.store.folders.local import LocalStore
from stoker_sidecar.version.builder import ManifestBuilder
from stoker_sidecar.version.manifest import ManifestInfo
from stoker_sidecar.version.objects import SkipReason
from tests.support.cases import cases
from tests.support.store_contract import content


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Return a source with two files in the folder ``n01``. The folder ``other`` next to it is not allowed."""
    for name in ("source/n01/1.jpg", "source/n01/2.jpg", "other/secret"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(name.encode())
    return tmp_path / "source"


def _walk(root: Path, *allowed: Path, most_linked: int = 1000) -> tuple[set[str], dict[str, SkipReason]]:
    """Return the listed paths, and the skipped paths with their reasons."""
    walk = FolderWalk(root, [str(one) for one in allowed or (root,)], "identity", most_linked)
    found = list(walk.objects())
    listed = {item.path.decode() for item in found if item.skipped is None}
    return listed, {item.path.decode().rstrip("/"): item.skipped for item in found if item.skipped is not None}


_FILES = {"n01/1.jpg", "n01/2.jpg"}


@pytest.mark.parametrize("target", ["n01", "./n01", "../source/n01", "again/../n01", "n01/."])
def test_a_link_to_a_folder_beneath_the_source_is_followed(root: Path, target: str) -> None:
    (root / "again").mkdir()
    (root / "x").symlink_to(target)
    assert _walk(root) == ({*_FILES, "again/", "x/1.jpg", "x/2.jpg"}, {})


def test_an_absolute_link_and_a_link_to_a_link_are_followed(root: Path) -> None:
    (root / "one").symlink_to(root / "n01")
    (root / "two").symlink_to("one")
    listed, left_out = _walk(root)
    assert {"one/1.jpg", "two/1.jpg"} <= listed
    assert not left_out


def test_a_link_to_another_allowed_folder_is_followed(root: Path) -> None:
    (root / "x").symlink_to(root.parent / "other")
    assert _walk(root, root, root.parent / "other") == ({*_FILES, "x/secret"}, {})


def test_a_link_to_a_folder_with_links_is_followed_to_the_end(root: Path) -> None:
    (root / "sub").mkdir()
    (root / "sub" / "deep").symlink_to("../n01")
    (root / "x").symlink_to("sub")
    assert "x/deep/2.jpg" in _walk(root)[0]


@cases(
    "make, reason",
    sister=(lambda root: (root / "x").symlink_to("../other"), SkipReason.LINK_OUTSIDE),
    parent=(lambda root: (root / "x").symlink_to(".."), SkipReason.LINK_OUTSIDE),
    etc=(lambda root: (root / "x").symlink_to("/etc"), SkipReason.LINK_OUTSIDE),
    proc=(lambda root: (root / "x").symlink_to("/proc/self/cwd"), SkipReason.LINK_OUTSIDE),
    itself_above=(lambda root: (root / "x").symlink_to("."), SkipReason.LINK_LOOP),
    itself=(lambda root: (root / "x").symlink_to("x"), SkipReason.LINK_LOOP),
    nothing=(lambda root: (root / "x").symlink_to("nowhere"), SkipReason.BROKEN_LINK),
    below_a_file=(lambda root: (root / "x").symlink_to("n01/1.jpg/below"), SkipReason.BROKEN_LINK),
)
def test_a_link_that_cannot_be_followed_is_left_out_with_its_reason(
    root: Path, make: Callable[[Path], None], reason: SkipReason
) -> None:
    make(root)
    assert _walk(root) == (_FILES, {"x": reason})


def test_a_loop_through_two_folders_ends(root: Path) -> None:
    (root / "a").mkdir()
    (root / "b").mkdir()
    (root / "a" / "to_b").symlink_to("../b")
    (root / "b" / "to_a").symlink_to("../a")
    assert set(_walk(root)[1].values()) == {SkipReason.LINK_LOOP}


def test_folders_full_of_links_to_each_other_end_with_a_sentence(root: Path) -> None:
    names = [f"d{number}" for number in range(12)]
    for name in names:
        (root / name).mkdir()
    for name in names:
        for other in names:
            (root / name / other).symlink_to(f"../{other}")
    with pytest.raises(SourceTooLarge, match=r"symbolic links below .* lead to more than 1,000 folders"):
        _walk(root)


def test_a_folder_that_became_a_link_out_during_the_listing_is_left_out(root: Path) -> None:
    walk = FolderWalk(root, [str(root)], "identity").objects()
    (root / "aa").touch()
    found = [next(walk)]
    for name in ("1.jpg", "2.jpg"):
        (root / "n01" / name).unlink()
    (root / "n01").rmdir()
    (root / "n01").symlink_to("../other")
    found += walk
    assert b"n01/secret" not in {item.path for item in found}


def _info(root: Path) -> ManifestInfo:
    with ManifestBuilder(root.parent / "manifest") as builder:
        builder.add(FolderWalk(root, [str(root)], "identity").objects())
        return builder.finish("file:///root")


def test_a_version_counts_the_links_that_are_left_out(root: Path) -> None:
    (root / "x").symlink_to("/etc")
    (root / "y").symlink_to("../other")
    assert [(row.reason, row.count, row.example) for row in _info(root).skipped] in (
        [("LinkOutside", 2, "x/")],
        [("LinkOutside", 2, "y/")],
    )


def test_a_source_of_nothing_but_links_out_names_one(root: Path) -> None:
    only = root / "only"
    only.mkdir()
    (only / "x").symlink_to("/etc")
    with pytest.raises(EmptySource, match=r"none of the 1 objects .* left out: 1 LinkOutside \(such as x/\)"):
        _info(only)


def test_a_linked_folder_that_is_another_now_is_another_version(root: Path) -> None:
    for name in ("v1", "v2"):
        (root / name).mkdir()
        (root / name / "f").write_bytes(name.encode())
        os.utime(root / name / "f", ns=(0, 0))
    (root / "current").symlink_to("v1")
    before = _info(root).digest
    (root / "current").unlink()
    (root / "current").symlink_to("v2")
    assert _info(root).digest != before


async def test_a_file_below_a_linked_folder_is_read(root: Path) -> None:
    (root / "x").symlink_to("n01")
    store = LocalStore(root, [str(root)])
    (etag,) = {item.etag async for page in store.list() for item in page if item.path == b"x/1.jpg"}
    assert await content(store, "x/1.jpg", 0, 16, etag) == b"source/n01/1.jpg"


async def test_a_linked_folder_that_leads_out_after_the_listing_is_not_read(root: Path) -> None:
    (root / "x").symlink_to("../other")
    with pytest.raises(AccessDenied):
        await content(LocalStore(root, [str(root)]), "x/secret", 0, 1, "")
