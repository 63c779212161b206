"""A control group for each node's pods, in every hierarchy of the machine, v1 or v2."""

import time
from pathlib import Path

from e2e.cluster.errors import NotReadyError

ROOT = Path("/sys/fs/cgroup")
V2_CONTROLLERS = ("cpuset", "cpu", "io", "memory", "pids", "hugetlb")
CPUSET_FILES = ("cpuset.cpus", "cpuset.mems")


def group_name(cluster: str, node: str) -> str:
    """Return the kubelet's cgroupRoot for a node: flat, so that v1's cpuset has one parent to copy from."""
    return f"stoker-e2e.{cluster}.{node}"


def is_v2(root: Path = ROOT) -> bool:
    return (root / "cgroup.controllers").exists()


def hierarchies(root: Path = ROOT) -> list[Path]:
    """Return the top folder of each hierarchy: one under v2, one per controller (without symlinks) under v1."""
    if is_v2(root):
        return [root]
    return sorted(folder for folder in root.iterdir() if folder.is_dir() and not folder.is_symlink())


def make(name: str, root: Path = ROOT) -> None:
    """Make the group in every hierarchy."""
    for top in hierarchies(root):
        folder = top / name
        folder.mkdir(exist_ok=True)
        if is_v2(root):
            _delegate(top)
            _delegate(folder)
        for file in CPUSET_FILES if (folder / CPUSET_FILES[0]).exists() and not is_v2(root) else ():
            (folder / file).write_text((top / file).read_text())


def _delegate(folder: Path) -> None:
    """Let children of a v2 group use the controllers that the group itself has."""
    available = (folder / "cgroup.controllers").read_text().split()
    wanted = [controller for controller in V2_CONTROLLERS if controller in available]
    (folder / "cgroup.subtree_control").write_text(" ".join(f"+{controller}" for controller in wanted))


def remove(prefix: str, root: Path = ROOT, seconds: float = 10.0) -> None:
    """Remove every group whose name starts with `prefix`, children first. Raises NotReadyError if one stays busy."""
    deadline = time.monotonic() + seconds
    while left := [group for top in hierarchies(root) for group in top.glob(f"{prefix}*")]:
        for group in left:
            _remove_tree(group)
        if not any(group.exists() for group in left):
            return
        if time.monotonic() > deadline:
            raise NotReadyError(f"These control groups still hold processes and cannot be removed: {left}")
        time.sleep(0.1)  # a killed task stays in its group briefly after it has left /proc


def _remove_tree(group: Path) -> None:
    folders = [path for path in group.rglob("*") if path.is_dir()]
    for folder in [*sorted(folders, key=lambda path: len(path.parts), reverse=True), group]:
        try:
            folder.rmdir()
        except OSError:
            continue  # still busy: the caller retries until its deadline
