"""Cgroups of pods as a kubelet makes them, which identify the pods of readers."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.support.waiting import wait_until

_PREFIX = "kubepods-test-"  # and the PID of the process that owns its pods


def cgroup_root() -> Path:
    """Return the mount point of the cgroup v2 file system."""
    for root in (Path("/sys/fs/cgroup"), Path("/sys/fs/cgroup/unified")):
        if (root / "cgroup.controllers").exists():
            return root
    raise FileNotFoundError("no cgroup v2 file system is mounted at /sys/fs/cgroup")


@contextmanager
def pod_cgroup(pod_uid: str) -> Iterator[Path]:
    """Make a pod's cgroup where a kubelet makes it. Processes in it are killed at the end."""
    _clear_abandoned()
    parent = cgroup_root() / f"{_PREFIX}{os.getpid()}"
    group = parent / f"pod{pod_uid}"
    group.mkdir(parents=True)
    try:
        yield group
    finally:
        _remove(group)


def _clear_abandoned() -> None:
    """Remove groups of killed tests: a pod of the same UID would be found in them."""
    for parent in cgroup_root().glob(f"{_PREFIX}*"):
        if not Path("/proc", parent.name.removeprefix(_PREFIX)).exists():
            for group in parent.glob("pod*"):
                with suppress(FileNotFoundError):  # another process of this run removes it as well
                    _remove(group)


def _remove(group: Path) -> None:
    (group / "cgroup.kill").write_text("1")  # a program of a failed test
    wait_until(lambda: "populated 0" in (group / "cgroup.events").read_text())
    group.rmdir()
    with suppress(OSError):  # other pods of the test are in it
        group.parent.rmdir()
