"""PID 1 of the sidecar: holds the FUSE mounts, and starts agent, fetcher and FUSE servers again when they end."""

import asyncio
import logging
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from stoker_sidecar.errors import SidecarError
from stoker_sidecar.keeper.children import Reaper
from stoker_sidecar.keeper.lifecycle import KeeperLifecycle
from stoker_sidecar.keeper.settings import KeeperSettings, parse
from stoker_sidecar.linux.libc import adopt_orphans

_log = logging.getLogger("stoker.keeper")
# For the owner, and root: pods see what is bound for them, and no other user of the node has a way in.
_OURS = 0o700
_OWN_CGROUP = Path("/sys/fs/cgroup")  # as a container sees it, in a cgroup namespace of its own


def prepare_folders(settings: KeeperSettings) -> None:
    """Make the folders of sockets, mounts and caches.

    That of the sockets is sticky: fetcher and servers may add a socket there, but not replace the keeper's.
    """
    settings.run_dir.mkdir(parents=True, exist_ok=True)
    settings.run_dir.chmod(0o1770)
    settings.mount_root.mkdir(parents=True, exist_ok=True)
    if settings.state_dir is not None:  # a node's; else it is perhaps someone's own, so its mode stays
        settings.mount_root.chmod(_OURS)
    for folder in settings.cache:
        _prepare_cache(Path(folder.path), settings.run_as)
    if settings.reports_root is not None:
        _prepare_reports(settings.reports_root, settings.run_as)
    if settings.run_as is not None:
        os.chown(settings.run_dir, -1, settings.run_as)


def _prepare_cache(folder: Path, owner: int | None) -> None:
    """Make a cache folder. One that cannot be made is no reason to stop: the fetcher reports it and uses the others."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        folder.chmod(_OURS)
        if owner is not None:
            os.chown(folder, owner, owner)
    except OSError as error:
        _log.error("the cache folder %s cannot be prepared: %s", folder, error)


def _prepare_reports(folder: Path, group: int | None) -> None:
    """Make the folder of the pods' report folders, in which only root makes any; its group is the listener's.

    Without it pods run and do not report.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        folder.chmod(0o711)
        if group is not None:
            os.chown(folder, -1, group)
    except OSError as error:
        _log.error("the folder %s cannot be prepared, and pods cannot report: %s", folder, error)


def end_one_process_at_a_time(cgroup: Path = _OWN_CGROUP) -> None:
    """Have the kernel end one process, not the whole container with its mounts, when the container's memory is used up.

    Since Kubernetes 1.28 the kubelet asks for the opposite on cgroup v2 (memory.oom.group), which would take the keeper
    too. One by one the largest goes first: a worker, the fetcher or the agent, each of which is started again.
    """
    group = cgroup / "memory.oom.group"
    if not group.exists():  # cgroup v1 knows no groups; the root, where no container is, has no such file
        return
    try:
        group.write_text("0")
    except OSError as error:
        _log.warning("%s: out of memory ends the whole sidecar (%s)", group, error.strerror)


async def run(settings: KeeperSettings) -> None:
    """Serve until SIGTERM or SIGINT. Raises OSError and SidecarError when it cannot serve."""
    stopping = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopping.set)
    prepare_folders(settings)
    end_one_process_at_a_time()
    reaper = Reaper()
    reaper.install()
    adopt_orphans()
    await KeeperLifecycle(settings, reaper, stopping).run()


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command `stoker-sidecar`; returns the exit code."""
    settings = parse(sys.argv[1:] if argv is None else argv)
    logging.basicConfig(level=settings.log_level.upper(), format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    try:
        asyncio.run(run(settings))
    except (OSError, SidecarError) as error:
        _log.error("the keeper cannot start: %s", error)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
