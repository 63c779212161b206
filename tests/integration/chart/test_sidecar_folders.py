"""The node's folders, disks and accounts that the sidecar uses under the chart's values."""

from collections.abc import Mapping
from typing import Any

import pytest

from stoker_sidecar.agent.core.grants import HostFolder, parse_host_folders
from stoker_sidecar.wire.config.disk_floor import DiskFloor, Floor
from tests.support.chart import FULL_VALUES, render, sidecar_of, variables


def told(values: Mapping[str, Any]) -> dict[str, str]:
    """Return the sidecar's variables."""
    sidecar = sidecar_of(render(values))
    return variables(sidecar)


def test_host_folders_are_read_only() -> None:
    [container] = sidecar_of(render(FULL_VALUES))["spec"]["template"]["spec"]["containers"]
    mounts = {mount["mountPath"]: mount for mount in container["volumeMounts"]}
    assert mounts["/mnt/nfs"]["readOnly"] is True
    assert "readOnly" not in mounts["/mnt/nvme/stoker"]


def test_the_sidecar_is_told_what_of_the_nodes_own_it_may_use_for_whom() -> None:
    found = told(FULL_VALUES)
    assert found["STOKER_HOST_FOLDERS"] == "/mnt/nfs,/srv/data"
    folders = HostFolder("/mnt/nfs", ("*",)), HostFolder("/srv/data", ("a", "b-*"))
    assert parse_host_folders(found["STOKER_HOST_FOLDER_GRANTS"]) == folders
    assert found["STOKER_AMBIENT_NAMESPACES"] == "vision,team-*"
    assert found["STOKER_ENDPOINT_NETWORKS"] == "127.0.0.0/8,fe80::5"
    assert found["STOKER_STS_ENDPOINT"] == "https://minio.example:9000"


@pytest.mark.parametrize(
    ("values", "floor"),
    [
        ({}, DiskFloor()),
        ({"sidecar": {"floor": {"bytes": "50Gi", "inodes": "2.5%"}}}, DiskFloor(Floor(amount=50 << 30), Floor(0.025))),
        ({"sidecar": {"floor": {"bytes": 0}}}, DiskFloor(bytes=Floor())),
    ],
)
def test_the_sidecar_is_told_what_to_leave_free_of_its_disks(values: dict[str, Any], floor: DiskFloor) -> None:
    found = told(values)
    assert DiskFloor(Floor.parse(found["STOKER_FLOOR_BYTES"]), Floor.parse(found["STOKER_FLOOR_INODES"])) == floor


@pytest.mark.parametrize("values", [{}, {"sidecar": {"ambientCredentials": {"namespaces": ["vision"]}}}])
def test_nothing_of_the_nodes_own_is_used_by_default(values: dict[str, Any]) -> None:
    found = told(values)
    assert found["STOKER_HOST_FOLDERS"] == found["STOKER_AMBIENT_NAMESPACES"] == found["STOKER_ENDPOINT_NETWORKS"] == ""
    assert found["STOKER_HOST_FOLDER_GRANTS"] == "[]"


def test_cache_folders_on_disk_and_in_memory_are_named_and_mounted() -> None:
    pod = sidecar_of(render(FULL_VALUES))["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert told(FULL_VALUES)["STOKER_CACHE_ROOT"] == "/mnt/nvme/stoker,memory:/var/lib/stoker-memory/1"
    mounts = {one["mountPath"]: one["name"] for one in container["volumeMounts"]}
    volumes = {one["name"]: one for one in pod["volumes"]}
    assert volumes[mounts["/mnt/nvme/stoker"]]["hostPath"]["path"] == "/mnt/nvme/stoker"
    assert volumes[mounts["/var/lib/stoker-memory/1"]]["emptyDir"] == {"medium": "Memory", "sizeLimit": "8Gi"}
