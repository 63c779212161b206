"""An overlay's view of files without their bytes after a power cut."""

import os
import time
from pathlib import Path

import pytest

from stoker_sidecar.fetcher.space.cache_disk import CacheDisk
from stoker_sidecar.linux.mounts import overlay
from stoker_sidecar.version.layout import CachePaths, VersionPaths
from stoker_sidecar.volumes.layers import metadata_layer
from stoker_sidecar.wire.config.disk_floor import NO_FLOOR
from tests.support.layer_forms import best_form
from tests.support.versions import MTIME_NS, VersionFolder, load_version

pytestmark = pytest.mark.root
RIGHT = b"the right bytes of the object!!!"
FILES = dict.fromkeys(("empty", "hole", "never-came"), RIGHT)


def _leave(file: Path, data: bytes) -> None:
    file.write_bytes(data)
    os.utime(file, ns=(MTIME_NS, MTIME_NS))


def test_an_overlay_that_is_mounted_after_a_power_cut_shows_no_zeros_and_no_empty_file(tmp_path: Path) -> None:
    made = VersionFolder(tmp_path / "cache" / "datasets" / "u1" / "versions" / "d1", FILES)
    # a FUSE server would fetch files that are not in the tree
    paths, fuse = VersionPaths(made.folder), tmp_path / "fuse"
    fuse.mkdir()
    for name, data in FILES.items():
        (fuse / name).write_bytes(data)
    _leave(paths.tree / "empty", b"")
    _leave(paths.tree / "hole", bytes(len(RIGHT)))
    CacheDisk(CachePaths(tmp_path / "cache"), NO_FLOOR, time.monotonic).open()
    load_version(paths).close()
    metadata_layer.build(made.manifest, tmp_path / "layer", form=best_form())
    overlay.mount(overlay.OverlayLayers(tmp_path / "layer", paths.tree, fuse), tmp_path / "seen")
    try:
        assert {name: (tmp_path / "seen" / name).read_bytes() for name in FILES} == FILES
    finally:
        overlay.unmount(tmp_path / "seen")
