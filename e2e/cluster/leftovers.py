"""Removes every trace of a cluster, after a normal stop or a kill."""

import os
import shutil
from pathlib import Path

from e2e.cluster import cgroups, network
from e2e.cluster.paths import ClusterPaths
from e2e.cluster.processes import kill, owned_by, run
from e2e.cluster.slots import SlotRegistry


def mounts_under(folder: Path, mountinfo: str) -> list[str]:
    """Return the mount points at or under `folder`, deepest first. `mountinfo` is the text of /proc/self/mountinfo."""
    points = [line.split()[4].encode().decode("unicode_escape") for line in mountinfo.splitlines()]
    inside = [point for point in points if Path(point) == folder or folder in Path(point).parents]
    return sorted(inside, key=lambda point: point.count("/"), reverse=True)


def names_on_disk(paths: ClusterPaths) -> list[str]:
    """Return the names of the clusters with a folder, running or not."""
    folders = [paths.state_root / "clusters", paths.data_root]
    return sorted({entry.name for folder in folders if folder.exists() for entry in folder.iterdir() if entry.is_dir()})


def clear(paths: ClusterPaths) -> None:
    """Remove the cluster's processes, network, mounts, groups and folders, and finally its slot.

    Raises NotReadyError if the kernel keeps one of them busy.
    """
    registry = SlotRegistry(paths.slots)
    kill([owned.pid for owned in owned_by(paths.name) if owned.pid != os.getpid()])
    if slot := registry.find(paths.name):
        network.remove_bridge(slot)
    for point in mounts_under(paths.data, Path("/proc/self/mountinfo").read_text()):
        run("umount", "-l", point)
    cgroups.remove(cgroups.group_name(paths.name, "node-"))
    for folder in (paths.data, paths.state):
        if folder.exists():
            shutil.rmtree(folder)
    registry.release(paths.name)
