"""Finds in a container's mountinfo the mounts that show an old layer of a volume though a newer one lies over it on the node. Pure."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from stoker_sidecar.linux.mountinfo import Mount


class Stale(NamedTuple):
    """``mountpoint`` in the container shows ``inside`` (empty: all) of an old layer; with a subPath only a part is shown."""

    mountpoint: str
    inside: str


def belongs_to(cgroups: str, pod_uid: str) -> bool:
    """Whether /proc/<pid>/cgroup is of that pod; systemd's names have underscores where the UID has hyphens."""
    return bool(pod_uid) and any(f"pod{uid}" in cgroups for uid in (pod_uid, pod_uid.replace("-", "_")))


def stale_mounts(container: Iterable[Mount], layers: Sequence[Mount]) -> list[Stale]:
    """Find what shows an old one of ``layers``, the volume's on the node, the newest last; ``container``: all of its mounts."""
    if not layers:
        return []
    *old, newest = layers
    tops = {row.target: row for row in container}  # of a stack the last row is what programs see
    found = []
    for target, row in tops.items():
        below = [layer for layer in old if _inside(row, layer) is not None]
        if below and _inside(row, newest) is None:
            found.append(Stale(target, _inside(row, below[-1]) or ""))
    return found


def _inside(row: Mount, layer: Mount) -> str | None:
    """Which part of the layer the row shows; None when it shows something else."""
    if row.device != layer.device:
        return None
    root = layer.root.rstrip("/")
    if row.root != layer.root and not row.root.startswith(root + "/"):
        return None
    return row.root.removeprefix(root).strip("/")
