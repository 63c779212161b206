"""Mounts of a container that show an old layer of a volume."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from stoker_sidecar.linux.mounts import mountinfo, pod_mounts
from stoker_sidecar.linux.mounts.pod_mounts import StaleMount, belongs_to, stale_mounts
from tests.support.cases import cases

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


@cases(
    "container, node, expected",
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
)
def test_a_mount_is_stale_when_its_top_is_an_old_layer_of_the_volume(
    container: list[str], node: list[str], expected: list[StaleMount]
) -> None:
    assert stale(container, node) == expected


@cases("root, old", an_old_layer=("/train", [FUSE]), the_newest_layer=("/cache/v/tree/train", []))
def test_without_the_pods_processes_mounts_with_subpath_say_which_layer_a_pod_shows(
    monkeypatch: pytest.MonkeyPatch, root: str, old: list[str]
) -> None:
    bound = inside(FUSE if old else NATIVE, "/pods/u/volume-subpaths/data/main/0", root)
    monkeypatch.setattr(mountinfo, "read", lambda: mountinfo.parse("\n".join([FUSE, NATIVE, bound])))
    monkeypatch.setattr(pod_mounts, "_tables_of_pod", lambda pod_uid: iter(()))
    layers = mountinfo.parse("\n".join([FUSE, NATIVE]))
    found = pod_mounts.old_layers("u", layers, Path("/pods/u/mount"))
    assert found == list(mountinfo.parse("\n".join(old)))


def test_a_containers_own_mounts_count_where_they_are_visible(
    monkeypatch: pytest.MonkeyPatch, container: subprocess.Popen[bytes]
) -> None:
    look = Look(monkeypatch, container, ends=False)
    assert pod_mounts.old_layers("u1", look.layers, Path("/pods/u1/mount")) == [look.layers[0]]


@cases(
    "cgroups, pod_uid, belongs",
    (f"0::/kubepods/burstable/pod{UID}/1f", UID, True),
    ("0::/kubepods.slice/kubepods-burstable-pod12ab_34cd.slice/cri-1f.scope", UID, True),
    ("0::/kubepods/burstable/podffff/1f", UID, False),
    ("0::/user.slice", UID, False),
    ("0::/kubepods/pod", "", False),
)
def test_a_process_belongs_to_the_pod_that_its_cgroup_names(cgroups: str, pod_uid: str, belongs: bool) -> None:
    assert belongs_to(cgroups, pod_uid) is belongs


@pytest.fixture
def container() -> Iterator[subprocess.Popen[bytes]]:
    """Run a process that acts as the only container process of the node."""
    with subprocess.Popen(["sleep", "60"]) as process:
        yield process
        process.kill()


class Look:
    """The reads of the container's process, as if it had its own mount namespace."""

    def __init__(self, patch: pytest.MonkeyPatch, process: subprocess.Popen[bytes], *, ends: bool) -> None:
        self.layers = mountinfo.parse("\n".join([FUSE, NATIVE]))
        rows = mountinfo.parse(inside(FUSE, "/data"))

        def read(pid: int) -> tuple[mountinfo.Mount, ...]:
            if ends:
                process.kill()
                process.wait()  # its pid is free for a process of another pod
            return rows

        patch.setattr(mountinfo, "read", read)
        patch.setattr(pod_mounts, "_namespace", lambda pid: pid)
        patch.setattr(pod_mounts, "belongs_to", lambda cgroups, pod_uid: True)
        patch.setattr(pod_mounts, "_PROC", Proc(process.pid))

    def found(self) -> list[StaleMount]:
        return [stale for _, stale in pod_mounts._stale_in_pod("u1", self.layers)]


class Proc:
    """The folder /proc with one process."""

    def __init__(self, pid: int) -> None:
        self._pid = pid

    def iterdir(self) -> list[Path]:
        return [Path(f"/proc/{self._pid}")]

    def __truediv__(self, name: str) -> Path:
        return Path("/proc") / name


def test_a_process_that_ends_while_it_is_looked_at_is_not_entered(
    monkeypatch: pytest.MonkeyPatch, container: subprocess.Popen[bytes]
) -> None:
    assert Look(monkeypatch, container, ends=True).found() == []


def test_a_process_that_is_alive_after_the_look_is_entered(
    monkeypatch: pytest.MonkeyPatch, container: subprocess.Popen[bytes]
) -> None:
    assert Look(monkeypatch, container, ends=False).found() == [StaleMount("/data", "")]


AFTER = """
from pathlib import Path
from stoker_sidecar.linux.mounts import pod_mounts
def broken(*_):
    raise KeyError("odd")
pod_mounts.clone_read_only = lambda *_: 0
pod_mounts.enter_mount_namespace = lambda *_: None
pod_mounts.attach = broken
pod_mounts.enter_and_show(0, Path("/"), "", "/data")
"""


def test_an_error_inside_the_container_ends_the_process_without_a_traceback() -> None:
    ended = subprocess.run([sys.executable, "-c", AFTER], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (1, "showing a volume in a container failed\n")
