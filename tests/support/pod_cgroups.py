"""Cgroups of pods as a kubelet makes them, so that readers are known by them."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.support.waiting import wait_until


def cgroup_root() -> Path:
    """Return where the cgroup v2 file system is mounted."""
    for root in (Path("/sys/fs/cgroup"), Path("/sys/fs/cgroup/unified")):
        if (root / "cgroup.controllers").exists():
            return root
    raise FileNotFoundError("no cgroup v2 file system is mounted at /sys/fs/cgroup")


@contextmanager
def pod_cgroup(pod_uid: str) -> Iterator[Path]:
    """Make a pod's cgroup where a kubelet makes it; what runs in it is killed at the end."""
    parent = cgroup_root() / f"kubepods-test-{os.getpid()}"
    group = parent / f"pod{pod_uid}"
    group.mkdir(parents=True)
    try:
        yield group
    finally:
        (group / "cgroup.kill").write_text("1")  # a program of a test that failed
        wait_until(lambda: "populated 0" in (group / "cgroup.events").read_text())
        group.rmdir()
        with suppress(OSError):  # other pods of the test are in it
            parent.rmdir()
