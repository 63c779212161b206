"""Shows a volume's new layer in containers without mount propagation. Needs the host's PID namespace.

It is also a program (``python -m stoker_sidecar.linux.mounts.pod_mounts``): only a process with one thread may change
its mount namespace.
"""

import argparse
import os
import select
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple, NoReturn

from stoker_sidecar.errors import MountError
from stoker_sidecar.linux.mounts import mountinfo
from stoker_sidecar.linux.mounts.mount_calls import attach, clone_read_only, enter_mount_namespace, opened
from stoker_sidecar.linux.mounts.mountinfo import Mount

_PROC = Path("/proc")
_SUBPATHS = "volume-subpaths"  # the kubelet's folder in a pod's folder: a bind mount for each subPath of a container
# A program with five system calls; a longer time means that the node hangs.
_SECONDS = 20.0


class StaleMount(NamedTuple):
    """A container's mount of an old layer: ``mountpoint`` in the container shows ``inside`` of it.

    ``inside`` is empty if the whole layer is shown; a subPath shows a part.
    """

    mountpoint: str
    inside: str


def show_in_pod(pod_uid: str, layers: Sequence[Mount], source: Path) -> list[str]:
    """Show ``source`` wherever a container of the pod shows an older one of ``layers`` (the newest last).

    Return the mount points. Containers with the new layer are skipped. Raises MountError with the first refusal, after
    trying all.
    """
    refused: list[MountError] = []
    shown = []
    for pidfd, stale in _stale_in_pod(pod_uid, layers):
        try:
            _show(pidfd, stale, source)
            shown.append(stale.mountpoint)
        except MountError as error:
            refused.append(error)
    if refused:
        raise refused[0]
    return shown


def old_layers(pod_uid: str, layers: Sequence[Mount], target: Path) -> list[Mount]:
    """Return the older ones of ``layers`` that the pod's containers still show and this process can see.

    The containers' mount tables count if their processes are visible (hostPID). Otherwise the kubelet's bind mounts for
    subPath count, because no mount at ``target`` propagates to those.
    """
    tables = [rows for _, rows in _tables_of_pod(pod_uid)]
    if not tables:
        folders = [folder / _SUBPATHS for folder in target.parents if folder.name == pod_uid]
        tables = [mountinfo.below(mountinfo.read(), str(folder)) for folder in folders[:1]]
    tops = (row for table in tables for row in {row.target: row for row in table}.values())
    return [layer for row in tops if (layer := _old_layer(row, layers)) is not None]


def _stale_in_pod(pod_uid: str, layers: Sequence[Mount]) -> Iterator[tuple[int, StaleMount]]:
    """Yield the pod's stale mounts, each with a pidfd of a process that sees it, open until the next one."""
    for pidfd, table in _tables_of_pod(pod_uid):
        yield from ((pidfd, stale) for stale in stale_mounts(table, layers))


def _tables_of_pod(pod_uid: str) -> Iterator[tuple[int, tuple[Mount, ...]]]:
    """Yield the mount tables of the pod's containers, each with an open pidfd of a process that sees it.

    The pidfd stays open until the next one. One process of each mount namespace is enough. A pid may be reused by
    another pod's process during the scan. So data of a pid counts only if the process of its earlier pidfd is still
    alive.
    """
    seen = {_namespace(os.getpid())}
    for pid in (int(entry.name) for entry in _PROC.iterdir() if entry.name.isdigit()):
        with suppress(OSError), _process(pid) as pidfd:  # OSError: it ended during the scan
            if not belongs_to(os.fsdecode((_PROC / str(pid) / "cgroup").read_bytes()), pod_uid):
                continue
            namespace = _namespace(pid)
            if namespace in seen:
                continue
            table = mountinfo.read(pid)
            if _is_alive(pidfd):
                seen.add(namespace)
                yield pidfd, table


@contextmanager
def _process(pid: int) -> Iterator[int]:
    """Open a pidfd, which identifies this process even if its number is reused. Raises OSError."""
    pidfd = os.pidfd_open(pid)
    try:
        yield pidfd
    finally:
        os.close(pidfd)


def _is_alive(pidfd: int) -> bool:
    ended = select.poll()
    ended.register(pidfd, select.POLLIN)
    return not ended.poll(0)


def _namespace(pid: int) -> int:
    return (_PROC / str(pid) / "ns" / "mnt").stat().st_ino


def _show(pidfd: int, stale: StaleMount, source: Path) -> None:
    command = [sys.executable, "-m", "stoker_sidecar.linux.mounts.pod_mounts", "--pidfd", str(pidfd)]
    command += ["--source", str(source), "--inside", stale.inside, "--mountpoint", stale.mountpoint]
    try:
        ended = subprocess.run(
            command, capture_output=True, text=True, timeout=_SECONDS, check=False, pass_fds=(pidfd,)
        )
    except subprocess.TimeoutExpired as error:
        raise MountError(0, f"showing {source} in a container took more than {_SECONDS:.0f} s") from error
    if ended.returncode != 0:
        raise MountError(0, "".join(ended.stderr.strip().splitlines()[-1:]))


def enter_and_show(pidfd: int, source: Path, inside: str, mountpoint: str) -> NoReturn:
    """Mount a folder read-only at ``mountpoint`` in that process's mount namespace, and end this process.

    The folder is ``inside`` the volume ``source``, whose files belong to another user: no link there is followed.
    Raises MountError and OSError before this process enters the namespace. From then on it sees the container's files,
    so it must neither import a module nor print a traceback, which would read some.
    """
    what = f"showing {source} at {mountpoint} of a container"
    with opened(source / inside, source, what) as folder:
        tree = clone_read_only(folder, what)
    code = 1
    try:
        enter_mount_namespace(pidfd, what)
        attach(tree, mountpoint, what)
        code = 0
    except MountError as error:
        os.write(2, f"{error}\n".encode(errors="replace"))
    except BaseException:  # noqa: BLE001 -- a traceback would read files of the container
        os.write(2, b"showing a volume in a container failed\n")
    finally:
        os._exit(code)


def belongs_to(cgroups: str, pod_uid: str) -> bool:
    """Return True if /proc/<pid>/cgroup belongs to the pod.

    In systemd's names, underscores replace the UID's hyphens.
    """
    return bool(pod_uid) and any(f"pod{uid}" in cgroups for uid in (pod_uid, pod_uid.replace("-", "_")))


def stale_mounts(container: Iterable[Mount], layers: Sequence[Mount]) -> list[StaleMount]:
    """Return the container's mounts of older ``layers`` of the volume on the node (the newest last). Pure.

    ``container`` has all mounts that the container sees.
    """
    tops = {row.target: row for row in container}  # the last row of a stack is visible to programs
    shown = ((target, row, _old_layer(row, layers)) for target, row in tops.items())
    return [StaleMount(target, _inside(row, layer) or "") for target, row, layer in shown if layer is not None]


def _old_layer(row: Mount, layers: Sequence[Mount]) -> Mount | None:
    """Return the older one of ``layers`` (the newest last) that a row shows; None for the newest or another mount."""
    if not layers or _inside(row, layers[-1]) is not None:
        return None
    return next((layer for layer in reversed(layers[:-1]) if _inside(row, layer) is not None), None)


def _inside(row: Mount, layer: Mount) -> str | None:
    """Return the part of the layer that the row shows; None for another mount."""
    if row.device != layer.device:
        return None
    root = layer.root.rstrip("/")
    if row.root != layer.root and not row.root.startswith(root + "/"):
        return None
    return row.root.removeprefix(root).strip("/")


def main(argv: Sequence[str] | None = None) -> int:
    """Show a volume in another process's namespace and end. On an error, print one sentence and return 1."""
    parser = argparse.ArgumentParser(prog="stoker_sidecar.linux.mounts.pod_mounts", description=__doc__)
    parser.add_argument("--pidfd", type=int, required=True, help="descriptor of a process of the container")
    parser.add_argument("--source", type=Path, required=True, help="the volume to show, as this process sees it")
    parser.add_argument("--inside", default="", help="the folder within it; empty: all of it")
    parser.add_argument("--mountpoint", required=True, help="where, as the container sees it")
    options = parser.parse_args(argv)
    try:
        enter_and_show(options.pidfd, options.source, options.inside, options.mountpoint)
    except (MountError, OSError) as error:
        sys.stderr.write(f"{error}\n")
        return 1


if __name__ == "__main__":
    sys.exit(main())
