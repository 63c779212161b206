"""Leftovers of a killed run are recognized."""

from pathlib import Path

from e2e.cluster.leftovers import mounts_under, names_on_disk
from e2e.cluster.paths import ClusterPaths

MOUNTINFO = """\
22 1 254:0 / / rw - ext4 /dev/vda rw
40 22 0:30 / /data/demo/nodes/node-1/rootfs rw - tmpfs t rw
41 40 0:31 / /data/demo/nodes/node-1/rootfs/var\\040x rw - tmpfs t rw
42 22 0:32 / /data/demo-2/x rw - tmpfs t rw
"""


def test_mounts_of_a_cluster_come_deepest_first_and_unescaped() -> None:
    root = "/data/demo/nodes/node-1/rootfs"
    assert mounts_under(Path("/data/demo"), MOUNTINFO) == [f"{root}/var x", root]


def test_a_cluster_is_known_by_either_of_its_folders(tmp_path: Path) -> None:
    paths = ClusterPaths("any", state_root=tmp_path / "run", data_root=tmp_path / "lib")
    (tmp_path / "run/clusters/one").mkdir(parents=True)
    (tmp_path / "lib/two").mkdir(parents=True)
    assert names_on_disk(paths) == ["one", "two"]
