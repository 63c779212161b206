"""The systems under test, by their names in the tables, and the ways in which a node mounts a version for them."""

from pathlib import Path

from bench.node import Node, Volume
from stoker_api.datasets.dataset import MountMode
from stoker_api.profiles.tuning import NodeTuning

NATIVE = "native"
# The limit of reading ahead: the disk's rate with this number of concurrent requests, and no readers.
MOST_AT_ONCE = 128
DISK_ALONE = f"the disk, asked for {MOST_AT_ONCE} files at once, read by nobody"
S5CMD = "s5cmd"
STOKER = "Stoker"
ORDER_KNOWN = "Stoker, order known"
STOKER_NATIVE = "Stoker native"
STOKER_OVERLAY = "Stoker overlay"
NOBODY_READS = "Stoker, warmed, nobody reads"
STOKER_FUSE = "Stoker FUSE"
LONE_WEBHOOK = "webhook in a process of its own"  # Stoker's figure without other work
PLAIN_CLIENT = "a plain client"


def whole_volume(node: Node, prefix: str) -> tuple[Volume, Path]:
    """Mount a new dataset for a pod, warm it, and wait until the pod reads it natively. Raises BenchError."""
    volume, target = cold_volume(node, prefix)
    node.warm(volume)
    node.wait_mode(target, MountMode.NATIVE)
    return volume, target


def whole_ways(node: Node, volume: Volume, target: Path) -> dict[str, Path]:
    """Warm a version. Return its path on the cache disk and every mount that the node has of it. Raises BenchError.

    The pod's volume is published before the version is complete, so its native mount replaces an earlier one below it.
    All mounts read the same files. Otherwise the place of a copy on disk and in memory would affect the figures.
    """
    node.warm(volume)
    node.wait_mode(target, MountMode.NATIVE)
    below = {STOKER_OVERLAY: MountMode.OVERLAY, STOKER_FUSE: MountMode.FUSE}
    layers = {system: root for system, mode in below.items() if (root := node.layer(volume, mode)) is not None}
    return {NATIVE: volume.paths.tree, STOKER_NATIVE: target} | layers


def new_mount(
    node: Node,
    prefix: str,
    sampling: str = "",
    *,
    eager: bool = False,
    quota: int | None = None,
    tuning: NodeTuning | None = None,
) -> Path:
    """Mount a new dataset without local files for a pod with this sampling. Reads may start at once.

    ``Node.offer`` explains the other arguments.
    """
    volume = node.list_source(prefix)
    node.offer(volume, eager=eager, quota=quota, tuning=tuning)
    return node.publish(volume, sampling)


def cold_volume(node: Node, prefix: str) -> tuple[Volume, Path]:
    """Mount a new dataset without local files for a pod, in the best way that is possible then."""
    volume = node.list_source(prefix)
    node.offer(volume)
    return volume, cold_mount(node, volume)


def cold_mount(node: Node, volume: Volume) -> Path:
    """Publish a pod's volume. If the node supports overlays, wait until the volume uses one. Raises BenchError."""
    target = node.publish(volume)
    if node.overlays():
        node.wait_mode(target, MountMode.OVERLAY)
    return target
