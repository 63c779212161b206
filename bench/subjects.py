"""Who is measured, by the names that stand in the tables, and how a node shows a version to them."""

from pathlib import Path

from bench.node import Node, Volume
from stoker_api.dataset import MountMode

NATIVE = "native"
S5CMD = "s5cmd"
STOKER = "Stoker"
STOKER_NATIVE = "Stoker native"
STOKER_OVERLAY = "Stoker overlay"
STOKER_FUSE = "Stoker FUSE"


def whole_ways(node: Node, volume: Volume, target: Path) -> dict[str, Path]:
    """A whole version by its path on the cache disk, and in every way that the node mounts it, for a pod whose volume was published
    before it was whole. Such a pod ends native, and what it came from lies beneath. Raises BenchError.

    The same files for all: else it would count, too, where a copy lies on the disk and in memory.
    """
    node.warm(volume)
    node.wait_mode(target, MountMode.NATIVE)
    below = {STOKER_OVERLAY: MountMode.OVERLAY, STOKER_FUSE: MountMode.FUSE}
    layers = {subject: node.layer(volume, mode) for subject, mode in below.items()}
    return {NATIVE: volume.paths.tree, STOKER_NATIVE: target} | {
        subject: root for subject, root in layers.items() if root is not None
    }


def cold_volume(node: Node, prefix: str) -> tuple[Volume, Path]:
    """A new dataset with nothing on the node, mounted for a pod in the best way that is possible then."""
    volume = node.list_source(prefix)
    node.offer(volume)
    return volume, cold_mount(node, volume)


def cold_mount(node: Node, volume: Volume) -> Path:
    """A pod's volume; where the node can overlay, it has been swapped to that. Raises BenchError."""
    target = node.publish(volume)
    if node.overlays():
        node.wait_mode(target, MountMode.OVERLAY)
    return target
