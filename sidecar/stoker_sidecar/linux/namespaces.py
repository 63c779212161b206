"""Shows a volume's new layer in containers that mounts do not propagate to. Needs the host's PID namespace.

A program of its own as well (``python -m stoker_sidecar.linux.namespaces``): only a process with one thread may change its
mount namespace.
"""

import argparse
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from stoker_sidecar.errors import MountError
from stoker_sidecar.linux import mountinfo
from stoker_sidecar.linux.mount_calls import attach, clone_read_only, enter_mount_namespace
from stoker_sidecar.linux.mountinfo import Mount
from stoker_sidecar.linux.pod_mounts import Stale, belongs_to, stale_mounts

_PROC = Path("/proc")
# A program that does five system calls; more means that the node hangs.
_SECONDS = 20.0


def show_in_pod(pod_uid: str, layers: Sequence[Mount], source: Path) -> list[str]:
    """Show ``source`` wherever a container of the pod shows an old one of ``layers`` (the newest last); the mount points.

    Where the new layer is seen already nothing is done. Raises MountError with the first refusal, after trying all.
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


def _stale_in_pod(pod_uid: str, layers: Sequence[Mount]) -> Iterator[tuple[int, Stale]]:
    """One process of each mount namespace is enough."""
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


def _show(pid: int, stale: Stale, source: Path) -> None:
    command = [sys.executable, "-m", "stoker_sidecar.linux.namespaces", "--pid", str(pid)]
    command += ["--source", str(source / stale.inside), "--mountpoint", stale.mountpoint]
    try:
        ended = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS, check=False)
    except subprocess.TimeoutExpired as error:
        raise MountError(0, f"showing {source} in process {pid} took more than {_SECONDS:.0f} s") from error
    if ended.returncode != 0:
        raise MountError(0, "".join(ended.stderr.strip().splitlines()[-1:]))


def enter_and_show(pid: int, source: str, mountpoint: str) -> None:
    """Attach a read-only clone of ``source`` at ``mountpoint`` of that process's mount namespace, where this process stays."""
    what = f"showing {source} at {mountpoint} of process {pid}"
    namespace = os.open(f"/proc/{pid}/ns/mnt", os.O_RDONLY | os.O_CLOEXEC)
    tree = clone_read_only(source, what)
    enter_mount_namespace(namespace, what)
    attach(tree, mountpoint, what)


def main(argv: Sequence[str] | None = None) -> int:
    """Returns the exit code; what went wrong is on standard error, one sentence."""
    parser = argparse.ArgumentParser(prog="stoker_sidecar.linux.namespaces", description=__doc__)
    parser.add_argument("--pid", type=int, required=True, help="a process of the container")
    parser.add_argument("--source", required=True, help="the folder to show, as this process sees it")
    parser.add_argument("--mountpoint", required=True, help="where, as the container sees it")
    options = parser.parse_args(argv)
    try:
        enter_and_show(options.pid, options.source, options.mountpoint)
    except (MountError, OSError) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
