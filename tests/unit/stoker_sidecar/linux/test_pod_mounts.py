"""Which mounts of a container show an old layer of a volume."""

import pytest

from stoker_sidecar.linux import mountinfo
from stoker_sidecar.linux.pod_mounts import StaleMount, belongs_to, stale_mounts

UID = "12ab-34cd"
FUSE = "100 50 0:71 / /pods/u/mount ro - fuse.stoker stoker ro"
OVERLAY = "101 100 0:72 / /pods/u/mount ro - overlay stoker;0:71;1.2;1.3 ro"
NATIVE = "102 101 8:1 /cache/v/tree /pods/u/mount ro - ext4 /dev/sda1 rw"


def stale(container: list[str], node: list[str]) -> list[StaleMount]:
    return stale_mounts(mountinfo.parse("\n".join(container)), mountinfo.parse("\n".join(node)))


def inside(row: str, mountpoint: str, root: str = "/") -> str:
    fields = row.split(" ")
    fields[3:5] = [root, mountpoint]
    return " ".join(fields)


@pytest.mark.parametrize(
    ("container", "node", "expected"),
    [
        ([inside(FUSE, "/data")], [FUSE, OVERLAY], [StaleMount("/data", "")]),
        ([inside(FUSE, "/data")], [FUSE, OVERLAY, NATIVE], [StaleMount("/data", "")]),
        ([inside(OVERLAY, "/data")], [FUSE, OVERLAY, NATIVE], [StaleMount("/data", "")]),
        ([inside(NATIVE, "/data", "/cache/v/tree")], [NATIVE, FUSE], [StaleMount("/data", "")]),
        ([inside(FUSE, "/data"), inside(OVERLAY, "/data")], [FUSE, OVERLAY], []),
        ([inside(FUSE, "/data")], [FUSE], []),
        ([inside(FUSE, "/data")], [], []),
        (["1 0 8:1 / / rw - ext4 /dev/sda1 rw"], [NATIVE, FUSE], []),
        (["1 0 8:1 /cache/v/treetop /x rw - ext4 /dev/sda1 rw"], [NATIVE, FUSE], []),
        ([inside(FUSE, "/data", "/train/a")], [FUSE, NATIVE], [StaleMount("/data", "train/a")]),
        ([inside(FUSE, "/a"), inside(FUSE, "/b")], [FUSE, NATIVE], [StaleMount("/a", ""), StaleMount("/b", "")]),
    ],
)
def test_a_mount_is_stale_when_its_top_is_an_old_layer_of_the_volume(
    container: list[str], node: list[str], expected: list[StaleMount]
) -> None:
    assert stale(container, node) == expected


@pytest.mark.parametrize(
    ("cgroups", "pod_uid", "belongs"),
    [
        (f"0::/kubepods/burstable/pod{UID}/1f", UID, True),
        ("0::/kubepods.slice/kubepods-burstable-pod12ab_34cd.slice/cri-1f.scope", UID, True),
        ("0::/kubepods/burstable/podffff/1f", UID, False),
        ("0::/user.slice", UID, False),
        ("0::/kubepods/pod", "", False),
    ],
)
def test_a_process_belongs_to_the_pod_that_its_cgroup_names(cgroups: str, pod_uid: str, belongs: bool) -> None:
    assert belongs_to(cgroups, pod_uid) is belongs
