"""The choice between the three mounts of a volume."""

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker_api.datasets.dataset import MountMode
from stoker_sidecar.volumes.core.publish import (
    Bind,
    VersionOnDisk,
    alone,
    claiming,
    in_user_namespace,
    is_settled,
    layer_is_spent,
    needs_layer,
    published,
    wanted_mode,
)
from tests.fakes.volumes import DIGEST, UID, publish_request

NATIVE, OVERLAY, FUSE = MountMode.NATIVE, MountMode.OVERLAY, MountMode.FUSE
COLD = VersionOnDisk(Path("/cache/v"), files=3, bytes=300, complete=False)
WHOLE = replace(COLD, complete=True)
RECORD = published(publish_request(), Bind(UID, DIGEST, COLD), FUSE)
modes = st.sampled_from([NATIVE, OVERLAY, FUSE])


@pytest.mark.parametrize(
    ("on_disk", "node", "ready", "wanted"),
    [
        (WHOLE, (NATIVE, OVERLAY, FUSE), True, NATIVE),
        (WHOLE, (NATIVE, FUSE), False, NATIVE),
        (COLD, (NATIVE, OVERLAY, FUSE), True, OVERLAY),
        (COLD, (NATIVE, OVERLAY, FUSE), False, FUSE),
        (COLD, (NATIVE, FUSE), True, FUSE),
        (COLD, (NATIVE,), False, FUSE),
    ],
)
def test_the_best_mount_that_version_node_and_layer_allow(
    on_disk: VersionOnDisk, node: tuple[MountMode, ...], ready: bool, wanted: MountMode
) -> None:
    assert wanted_mode(on_disk, node, layer_ready=ready) is wanted


@pytest.mark.parametrize(
    ("mode", "ephemeral", "wanted"),
    [(NATIVE, True, NATIVE), (NATIVE, False, FUSE), (OVERLAY, True, FUSE), (OVERLAY, False, FUSE), (FUSE, True, FUSE)],
)
def test_a_pod_with_a_user_namespace_gets_no_overlay(mode: MountMode, ephemeral: bool, wanted: MountMode) -> None:
    assert in_user_namespace(mode, publish_request(ephemeral=ephemeral)) is wanted


@pytest.mark.parametrize(
    ("on_disk", "node", "ready", "needed"),
    [
        (COLD, (NATIVE, OVERLAY, FUSE), False, True),
        (COLD, (NATIVE, OVERLAY, FUSE), True, False),
        (COLD, (NATIVE, FUSE), False, False),
        (WHOLE, (NATIVE, OVERLAY, FUSE), False, False),
    ],
)
def test_a_layer_is_built_only_where_it_makes_a_mount_better(
    on_disk: VersionOnDisk, node: tuple[MountMode, ...], ready: bool, needed: bool
) -> None:
    assert needs_layer(on_disk, node, layer_ready=ready) is needed


@pytest.mark.parametrize(
    ("mode", "folder", "settled"),
    [(NATIVE, WHOLE.folder, True), (OVERLAY, WHOLE.folder, False), (NATIVE, Path("/other/v"), False)],
)
def test_a_mount_is_settled_when_kind_and_folder_are_right(mode: MountMode, folder: Path, settled: bool) -> None:
    assert is_settled(replace(RECORD, mode=mode, folder=folder), WHOLE, NATIVE) is settled


@given(st.lists(modes, max_size=6))
def test_what_any_layer_of_a_stack_needs_stays_needed(stack: list[MountMode]) -> None:
    record = RECORD
    for mode in stack:
        record = claiming(record, mode)
    assert (record.fuse, record.overlay) == (True, OVERLAY in stack)


@given(st.lists(modes, max_size=3), modes)
def test_over_dead_layers_only_the_new_one_counts(stack: list[MountMode], mode: MountMode) -> None:
    record = RECORD
    for below in stack:
        record = claiming(record, below)
    record = alone(record, WHOLE, mode)
    assert (record.mode, record.fuse, record.overlay) == (mode, mode is not NATIVE, mode is OVERLAY)


@pytest.mark.parametrize(
    ("on_disk", "used", "spent"),
    [(COLD, False, False), (COLD, True, False), (WHOLE, False, True), (WHOLE, True, False), (None, False, True)],
)
def test_a_layer_is_spent_when_no_overlay_uses_it_and_none_will(
    on_disk: VersionOnDisk | None, used: bool, spent: bool
) -> None:
    assert layer_is_spent([replace(RECORD, overlay=used)], (UID, DIGEST), on_disk) is spent
