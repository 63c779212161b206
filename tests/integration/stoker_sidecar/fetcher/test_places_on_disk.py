"""The placement of versions on file systems with a hint for it: ext4 spreads them, and the rest is unchanged."""

import subprocess
from pathlib import Path

import pytest

from stoker_sidecar.fetcher.datasets.manifests import install_manifest
from stoker_sidecar.version.layout import VersionPaths
from tests.support.small_disk import small_disk

pytestmark = pytest.mark.root


def _installed(disk: Path, digest: str) -> VersionPaths:
    version = VersionPaths(disk / "datasets" / "uid" / "versions" / digest)
    manifest = disk / "manifest.building"
    manifest.write_bytes(b"rows")
    install_manifest(manifest, version)
    return version


def _attributes(folder: Path) -> str:
    return subprocess.run(["lsattr", "-d", str(folder)], capture_output=True, text=True, check=True).stdout.split()[0]


def test_ext4_is_told_that_versions_need_not_lie_together(tmp_path: Path) -> None:
    with small_disk(tmp_path) as disk:
        version = _installed(disk.path, "a" * 64)
        assert "T" in _attributes(version.folder.parent)
        assert "T" not in _attributes(version.folder)


def test_other_attributes_of_a_folder_stay(tmp_path: Path) -> None:
    with small_disk(tmp_path) as disk:
        versions = _installed(disk.path, "a" * 64).folder.parent
        subprocess.run(["chattr", "+A", str(versions)], check=True)
        _installed(disk.path, "b" * 64)
        assert {"A", "T"} <= set(_attributes(versions))


def test_a_file_system_that_knows_no_such_attribute_has_versions_too(tmp_path: Path) -> None:
    with small_disk(tmp_path, kind="xfs") as disk:
        assert _installed(disk.path, "a" * 64).manifest.read_bytes() == b"rows"
