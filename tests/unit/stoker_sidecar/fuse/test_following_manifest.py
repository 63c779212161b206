"""A manifest of a file system on a failed disk is opened again in the new folder of the version."""

import errno
from pathlib import Path

import pytest

from stoker_sidecar.errors import FetcherUnavailable, FsError
from stoker_sidecar.fuse.following_manifest import FollowingManifest
from stoker_sidecar.version.manifest import ROOT_INO
from tests.support.versions import VersionFolder

NAMES = [b"a", b"b", b"c"]


@pytest.fixture
def moved(tmp_path: Path) -> VersionFolder:
    return VersionFolder(tmp_path / "moved", {name.decode(): b"x" for name in NAMES})


@pytest.fixture
def manifest(tmp_path: Path, moved: VersionFolder) -> FollowingManifest:
    first = VersionFolder(tmp_path / "first", moved.files)
    return FollowingManifest(first.manifest, lambda: moved.manifest)


def _die(manifest: FollowingManifest) -> None:
    """Make all queries fail from now on, as on a failed disk."""
    manifest._manifest.close()


@pytest.mark.expected_logs("the manifest cannot be read")
def test_a_name_is_found_after_the_disk_died(manifest: FollowingManifest) -> None:
    _die(manifest)
    entry = manifest.lookup(ROOT_INO, b"b")
    assert entry is not None
    assert manifest.path(entry.ino) == "b"


@pytest.mark.expected_logs("the manifest cannot be read")
def test_a_listing_goes_on_where_it_was_when_the_disk_dies(manifest: FollowingManifest) -> None:
    children = manifest.children(ROOT_INO)
    seen = [next(children).name]
    _die(manifest)
    assert seen + [entry.name for entry in children] == NAMES


@pytest.mark.expected_logs("cannot be opened")
def test_a_first_manifest_that_is_gone_is_looked_for_elsewhere(tmp_path: Path, moved: VersionFolder) -> None:
    manifest = FollowingManifest(tmp_path / "gone", lambda: moved.manifest)
    assert manifest.info.files == len(NAMES)


@pytest.mark.expected_logs("the manifest cannot be read")
def test_a_manifest_that_is_nowhere_is_eio(manifest: FollowingManifest, tmp_path: Path) -> None:
    def nowhere() -> Path:
        raise FetcherUnavailable("it did not say")

    lost = FollowingManifest(VersionFolder(tmp_path / "v", {"a": b"x"}).manifest, nowhere)
    _die(lost)
    with pytest.raises(FsError) as failed:
        lost.entry(ROOT_INO)
    assert failed.value.errno == errno.EIO
