"""Shows a volume's new layer in containers that mounts do not propagate to. Needs the host's PID namespace.

A program of its own as well (``python -m stoker_sidecar.linux.pod_mounts``): only a process with one thread may change
its mount namespace.
"""

import argparse
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from stoker_sidecar.errors import MountError
from stoker_sidecar.linux import mountinfo
from stoker_sidecar.linux.mount_calls import attach, clone_read_only, enter_mount_namespace, opened
from stoker_sidecar.linux.mountinfo import Mount

_PROC = Path("/proc")
# A program that does five system calls; more means that the node hangs.
_SECONDS = 20.0


class StaleMount(NamedTuple):
    """A container's mount of an old layer: ``mountpoint`` in the container shows ``inside`` of it.

    ``inside`` is empty when all of it is shown; with a subPath only a part is.
    """

    mountpoint: str
    inside: str


def show_in_pod(pod_uid: str, layers: Sequence[Mount], source: Path) -> list[str]:
    """Show ``source`` wherever a container of the pod shows an old one of ``layers`` (the newest last).

    Returns the mount points. Where the new layer is seen already nothing is done. Raises MountError with the first
    refusal, after trying all.
    """
    refused: list[MountError] = []
    shown = []
    for pid, stale in _stale_in_pod(pod_uid, layers):
        try:
            _show(pid, stale, source)
            shown.append(stale.mountpoint)
        except MountError as error:
            refused.append(error)
    if refused:
        raise refused[0]
    return shown


def _stale_in_pod(pod_uid: str, layers: Sequence[Mount]) -> Iterator[tuple[int, StaleMount]]:
    """Find the pod's stale mounts, each with a process that sees it; one of each mount namespace is enough."""
    seen = {_namespace(os.getpid())}
    for pid in (int(entry.name) for entry in _PROC.iterdir() if entry.name.isdigit()):
        with suppress(OSError):  # it ended while we looked
            if not belongs_to(os.fsdecode((_PROC / str(pid) / "cgroup").read_bytes()), pod_uid):
                continue
            namespace = _namespace(pid)
            if namespace not in seen:
                seen.add(namespace)
                yield from ((pid, stale) for stale in stale_mounts(mountinfo.read(pid), layers))


def _namespace(pid: int) -> int:
    return (_PROC / str(pid) / "ns" / "mnt").stat().st_ino


def _show(pid: int, stale: StaleMount, source: Path) -> None:
    command = [sys.executable, "-m", "stoker_sidecar.linux.pod_mounts", "--pid", str(pid)]
    command += ["--source", str(source), "--inside", stale.inside, "--mountpoint", stale.mountpoint]
    try:
        ended = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS, check=False)
    except subprocess.TimeoutExpired as error:
        raise MountError(0, f"showing {source} in process {pid} took more than {_SECONDS:.0f} s") from error
    if ended.returncode != 0:
        raise MountError(0, "".join(ended.stderr.strip().splitlines()[-1:]))


def enter_and_show(pid: int, source: Path, inside: str, mountpoint: str) -> None:
    """Show a folder read-only at ``mountpoint`` of that process's mount namespace, where this process stays.

    It is ``inside`` the volume ``source``, whose files are another user's: no link is followed there.
    """
    what = f"showing {source} at {mountpoint} of process {pid}"
    namespace = os.open(f"/proc/{pid}/ns/mnt", os.O_RDONLY | os.O_CLOEXEC)
    with opened(source / inside, source, what) as folder:
        tree = clone_read_only(folder, what)
    enter_mount_namespace(namespace, what)
    attach(tree, mountpoint, what)


def belongs_to(cgroups: str, pod_uid: str) -> bool:
    """Tell whether /proc/<pid>/cgroup is of that pod; systemd's names have underscores where the UID has hyphens."""
    return bool(pod_uid) and any(f"pod{uid}" in cgroups for uid in (pod_uid, pod_uid.replace("-", "_")))


def stale_mounts(container: Iterable[Mount], layers: Sequence[Mount]) -> list[StaleMount]:
    """Find what shows an old one of ``layers``, the volume's on the node (the newest last). Pure.

    ``container``: all mounts that the container sees.
    """
    if not layers:
        return []
    *old, newest = layers
    tops = {row.target: row for row in container}  # of a stack the last row is what programs see
    found = []
    for target, row in tops.items():
        below = [layer for layer in old if _inside(row, layer) is not None]
        if below and _inside(row, newest) is None:
            found.append(StaleMount(target, _inside(row, below[-1]) or ""))
    return found


def _inside(row: Mount, layer: Mount) -> str | None:
    """Return which part of the layer the row shows; None when it shows something else."""
    if row.device != layer.device:
        return None
    root = layer.root.rstrip("/")
    if row.root != layer.root and not row.root.startswith(root + "/"):
        return None
    return row.root.removeprefix(root).strip("/")


def main(argv: Sequence[str] | None = None) -> int:
    """Show a volume in another process's namespace; returns the exit code, with one sentence on standard error."""
    parser = argparse.ArgumentParser(prog="stoker_sidecar.linux.pod_mounts", description=__doc__)
    parser.add_argument("--pid", type=int, required=True, help="a process of the container")
    parser.add_argument("--source", type=Path, required=True, help="the volume to show, as this process sees it")
    parser.add_argument("--inside", default="", help="the folder within it; empty: all of it")
    parser.add_argument("--mountpoint", required=True, help="where, as the container sees it")
    options = parser.parse_args(argv)
    try:
        enter_and_show(options.pid, options.source, options.inside, options.mountpoint)
    except (MountError, OSError) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
