"""The space that scratch layers may reserve."""

from pathlib import Path

import pytest

from stoker_sidecar.errors import MountError
from stoker_sidecar.volumes.layers.scratch.scratch_image import scratch_image, scratch_left
from stoker_sidecar.wire.config.disk_floor import DiskFloor
from tests.support.cases import cases

GIB = 1024**3


@cases(
    "capacity, taken, left",
    all=(100 * GIB, 0, 50 * GIB),
    some=(100 * GIB, 20 * GIB, 30 * GIB),
    none=(100 * GIB, 50 * GIB, 0),
    a_smaller_disk_than_before=(10 * GIB, 20 * GIB, 0),
)
def test_all_layers_take_at_most_half_of_the_disks(capacity: int, taken: int, left: int) -> None:
    assert scratch_left(capacity, taken) == left


def test_a_layer_beyond_the_share_of_all_layers_is_refused(tmp_path: Path) -> None:
    with (
        pytest.raises(MountError, match="and 0 B are left for the scratch of all pods"),
        scratch_image([tmp_path], 64 * 1024**2, DiskFloor(), taken=10**18),
    ):
        pytest.fail("reserved")
