"""A metadata layer whose build failed is built later, automatically."""

from pathlib import Path

import pytest

from stoker_sidecar.volumes.layers.overlays import Overlays
from tests.fakes.volumes import UID
from tests.support.versions import VersionFolder
from tests.support.waiting import eventually

pytestmark = pytest.mark.root


async def test_a_layer_that_failed_is_built_when_its_cause_is_gone(tmp_path: Path) -> None:
    on_disk = VersionFolder(tmp_path / "v", {"a": b"1"})
    version = (UID, on_disk.info.digest)
    causes: list[str] = []

    def changed() -> None:  # like the publisher, which starts needed builds at every change
        causes.extend(overlays.refused.values())
        if not overlays.is_ready(version):
            overlays.begin(version, on_disk.manifest if causes else tmp_path / "absent")

    overlays = Overlays(tmp_path / "meta", tmp_path / "mnt", changed, try_again=0.1)
    changed()
    await eventually(lambda: overlays.is_ready(version))
    assert (len(causes), dict(overlays.refused)) == (1, {})
