"""The systems under test, by the names that stand in the tables, and how a node shows a version to them."""

from pathlib import Path

from bench.node import Node, Volume
from stoker_api.dataset import MountMode

NATIVE = "native"
IN_MEMORY = "native, all in memory"
# The limit of reading ahead: what the disk brings with so many files asked for at once, and nobody to read them.
MOST_AT_ONCE = 128
DISK_ALONE = f"the disk, asked for {MOST_AT_ONCE} files at once, read by nobody"
S5CMD = "s5cmd"
STOKER = "Stoker"
ORDER_KNOWN = "Stoker, order known"
STOKER_NATIVE = "Stoker native"
STOKER_OVERLAY = "Stoker overlay"
NOBODY_READS = "Stoker, warmed, nobody reads"
TUNED = "Stoker, Adaptive"
STOKER_FUSE = "Stoker FUSE"
LONE_WEBHOOK = "webhook in a process of its own"  # the product's, with nothing else to do
PLAIN_CLIENT = "a plain client"


def whole_ways(node: Node, volume: Volume, target: Path) -> dict[str, Path]:
    """Warm a version; return its path on the cache disk and every way in which the node mounts it. Raises BenchError.

    The pod's volume was published before the version was whole: it ends native, and what it came from lies beneath. All
    read the same files: else it would count, too, where a copy lies on the disk and in memory.
    """
    node.warm(volume)
    node.wait_mode(target, MountMode.NATIVE)
    below = {STOKER_OVERLAY: MountMode.OVERLAY, STOKER_FUSE: MountMode.FUSE}
    layers = {system: node.layer(volume, mode) for system, mode in below.items()}
    return {NATIVE: volume.paths.tree, STOKER_NATIVE: target} | {
        system: root for system, root in layers.items() if root is not None
    }


def cold_volume(node: Node, prefix: str) -> tuple[Volume, Path]:
    """Mount a new dataset with nothing on the node for a pod, in the best way that is possible then."""
    volume = node.list_source(prefix)
    node.offer(volume)
    return volume, cold_mount(node, volume)


def cold_mount(node: Node, volume: Volume) -> Path:
    """Publish a pod's volume; where the node can overlay, wait until it is swapped to that. Raises BenchError."""
    target = node.publish(volume)
    if node.overlays():
        node.wait_mode(target, MountMode.OVERLAY)
    return target
