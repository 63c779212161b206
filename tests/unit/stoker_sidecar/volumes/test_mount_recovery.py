"""Rows of the mount table that are rebuilt from the kernel's mounts."""

import json
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from stoker_api.datasets.dataset import MountMode
from stoker_api.node_caches.node_storage import NodeMount
from stoker_sidecar.linux.mounts.mountinfo import Mount
from stoker_sidecar.version.layout import CachePaths, VersionPaths
from stoker_sidecar.volumes.core.lost_mounts import identified
from stoker_sidecar.volumes.core.publish import Published, PublishRequest, VersionKey, mounted_row
from stoker_sidecar.volumes.mount_recovery import recover_from
from stoker_sidecar.volumes.mount_table import MountTable, UnknownMounts
from tests.fakes.volumes import DIGEST, UID, node_dataset
from tests.support.cases import cases

VERSION = (UID, DIGEST)
OTHER = ("other", "e5" * 32)
MOUNTS = Path("/var/lib/stoker/mnt")
CACHE = CachePaths(Path("/var/lib/stoker/cache"))
EXT4, FUSE_DEVICE, OVERLAY_DEVICE = "8:1", "0:71", "0:72"
TREE = f"/var/lib/stoker/cache/datasets/{UID}/versions/{DIGEST}/tree"


def mount(
    target: Path | str, *, device: str = EXT4, root: str = "/", fs_type: str = "ext4", source: str = "x"
) -> Mount:
    return Mount(1, 0, device, root, str(target), (), shared=True, fs_type=fs_type, source=source)


@dataclass
class FakeVersionsOnDisk:
    """Cache folders with some versions."""

    there: frozenset[VersionKey] = frozenset({VERSION, OTHER})

    def paths(self, uid: str, digest: str) -> VersionPaths | None:
        return CACHE.dataset(uid).version(digest) if (uid, digest) in self.there else None

    def everything(self) -> frozenset[VersionKey]:
        return self.there


@dataclass
class LostNode:
    """A node whose pods have mounts, and whose table may be lost."""

    folder: Path
    rows: list[Mount] = field(default_factory=list)
    versions: FakeVersionsOnDisk = field(default_factory=FakeVersionsOnDisk)

    def __post_init__(self) -> None:
        self.table = MountTable(self.folder / "mounts.json")
        self.rows += [
            mount(MOUNTS / UID / DIGEST, device=FUSE_DEVICE, fs_type="fuse.stoker"),
            mount(MOUNTS / UID / f"{DIGEST}.overlay", device=OVERLAY_DEVICE, fs_type="overlay", source="stoker;0:71;x"),
        ]

    def target(self, pod: str = "uid-a") -> Path:
        return self.folder / "pods" / pod / "volumes" / "kubernetes.io~csi" / "data" / "mount"

    def layer(self, kind: str, pod: str = "uid-a") -> None:
        shown = {
            "native": mount(self.target(pod), root=TREE),
            "fuse": mount(self.target(pod), device=FUSE_DEVICE, fs_type="fuse.stoker"),
            "overlay": mount(self.target(pod), device=OVERLAY_DEVICE, fs_type="overlay", source="stoker;0:71;x"),
            "dead fuse": mount(self.target(pod), device="0:99", fs_type="fuse.stoker"),
            "other": mount(self.target(pod), device="8:9", root="/some/folder"),
            "report": mount(self.target(pod), root=f"/var/lib/stoker/state/reports/{pod}"),
        }
        self.rows.append(shown[kind])

    def noted(self, driver: str = "csi.stoker.dev", pod: str = "uid-a", mode: str = "Ephemeral") -> None:
        note = {"driverName": driver, "volumeHandle": "csi-1", "volumeLifecycleMode": mode}
        folder = self.target(pod).parent
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "vol_data.json").write_text(json.dumps(note))

    def recover(self) -> UnknownMounts:
        return recover_from(self.rows, self.table, self.versions, self.folder / "pods", MOUNTS)


@pytest.fixture
def node(tmp_path: Path) -> LostNode:
    return LostNode(tmp_path)


@pytest.mark.expected_logs("rebuilt from mountinfo")
@cases(
    "layers, mode, fuse, overlay",
    (["native"], MountMode.NATIVE, False, False),
    (["fuse"], MountMode.FUSE, True, False),
    (["overlay"], MountMode.OVERLAY, True, True),
    (["fuse", "overlay", "native"], MountMode.NATIVE, True, True),
    (["dead fuse", "overlay"], MountMode.OVERLAY, True, True),
)
def test_a_mount_without_a_row_gets_one(
    node: LostNode, layers: list[str], mode: MountMode, fuse: bool, overlay: bool
) -> None:
    node.noted()
    for layer in layers:
        node.layer(layer)
    unknown = node.recover()
    request = PublishRequest("csi-1", node.target(), "", "", "", "", "uid-a", ephemeral=True)
    folder = CACHE.dataset(UID).version(DIGEST).folder
    rebuilt = Published(request, UID, DIGEST, folder, 0, 0, mode, fuse, overlay)
    assert (MountTable(node.folder / "mounts.json").all(), bool(unknown)) == ((rebuilt,), False)


@pytest.mark.expected_logs("rebuilt from mountinfo")
def test_a_row_that_was_read_stays_as_it_is(node: LostNode) -> None:
    node.noted()
    node.layer("native")
    node.recover()
    known = replace(node.table.all()[0], files=7)
    node.table.put(known)
    node.recover()
    assert node.table.all() == (known,)


@pytest.mark.parametrize(("kind", "driver"), [("other", "csi.other.dev"), ("native", "csi.other.dev")])
def test_volumes_of_other_drivers_are_left_alone(node: LostNode, kind: str, driver: str) -> None:
    node.noted(driver)
    node.layer(kind)
    unknown = node.recover()
    assert (node.table.all(), bool(unknown)) == ((), False)


def test_a_report_volume_is_no_mount_of_a_version(node: LostNode) -> None:
    node.noted()
    node.layer("report")
    assert not node.recover()


@pytest.mark.expected_logs("do not tell their version")
@pytest.mark.parametrize("kind", ["dead fuse", "other"])
def test_every_version_is_held_while_a_mount_does_not_tell_which_it_shows(node: LostNode, kind: str) -> None:
    node.noted()
    node.layer(kind)
    unknown = node.recover()
    held = unknown.held()
    unknown.gone(node.target())
    assert (held, unknown.held()) == (frozenset({VERSION, OTHER}), frozenset())


@pytest.mark.expected_logs("do not tell their version")
def test_a_mount_of_a_version_that_is_not_on_the_disk_holds_the_others(node: LostNode) -> None:
    node.versions.there = frozenset({OTHER})
    node.noted()
    node.layer("native")
    assert node.recover().held() == {OTHER}


@pytest.mark.expected_logs("rebuilt from mountinfo", "cannot be written yet")
def test_rebuilt_rows_count_although_the_disk_is_full(node: LostNode) -> None:
    node.noted()
    node.layer("native")
    (node.folder / "mounts.json.new").mkdir()  # prevents a file of this name
    node.recover()
    assert [record.version for record in node.table.all()] == [DIGEST]


@pytest.mark.expected_logs("rebuilt from mountinfo")
@pytest.mark.parametrize("mode", ["Ephemeral", "Persistent"])
def test_the_last_status_names_dataset_and_pod(node: LostNode, mode: str) -> None:
    node.noted(mode=mode)
    node.layer("native")
    node.recover()
    record = node.table.all()[0]
    named = replace(record.request, dataset_namespace="vision", dataset="imagenet", pod_namespace="vision", pod="a")
    told = mounted_row(replace(record, request=named))
    assert identified(record, [told], None).request == named


@pytest.mark.expected_logs("rebuilt from mountinfo")
def test_without_a_status_the_plan_names_the_dataset(node: LostNode) -> None:
    node.noted()
    node.layer("native")
    node.recover()
    other = NodeMount(volume_id="csi-9", dataset_namespace="x", dataset="y", version=DIGEST)
    assert identified(node.table.all()[0], [other], node_dataset()).request.name == "vision/imagenet"
