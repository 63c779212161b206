"""PID 1 of the sidecar: holds the FUSE mounts, and restarts agent, fetcher and FUSE servers when they end."""

import asyncio
import logging
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from stoker_api.log_lines import log_to_stderr
from stoker_sidecar.errors import SidecarError
from stoker_sidecar.keeper.children import Reaper
from stoker_sidecar.keeper.lifecycle import KeeperLifecycle
from stoker_sidecar.keeper.settings import KeeperSettings, parse
from stoker_sidecar.linux.libc import adopt_orphans
from stoker_sidecar.linux.spawn import raise_open_files

_log = logging.getLogger("stoker.keeper")
# For the owner and root: pods see only bound folders, and other users of the node have no access.
_OURS = 0o700
_OWN_CGROUP = Path("/sys/fs/cgroup")  # as a container sees it in its cgroup namespace


def prepare_folders(settings: KeeperSettings) -> None:
    """Create the folders of sockets, mounts and caches.

    The sockets' folder is sticky: fetcher and servers may add a socket there, but not replace the keeper's.
    """
    settings.run_dir.mkdir(parents=True, exist_ok=True)
    settings.run_dir.chmod(0o1770)
    settings.mount_root.mkdir(parents=True, exist_ok=True)
    if settings.state_dir is not None:  # a node's folder; otherwise a person may own it, so its mode stays
        settings.mount_root.chmod(_OURS)
    for folder in settings.cache:
        _prepare_cache(Path(folder.path), settings.run_as)
    if settings.reports_root is not None:
        _prepare_reports(settings.reports_root, settings.run_as)
    if settings.run_as is not None:
        os.chown(settings.run_dir, -1, settings.run_as)


def _prepare_cache(folder: Path, owner: int | None) -> None:
    """Create a cache folder. After an error the keeper continues: the fetcher reports it and uses the other folders."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        folder.chmod(_OURS)
        if owner is not None:
            os.chown(folder, owner, owner)
    except OSError as error:
        _log.error("the cache folder %s cannot be prepared: %s", folder, error)


def _prepare_reports(folder: Path, group: int | None) -> None:
    """Create the parent of the pods' report folders. Only root creates them; the group is the listener's.

    Without it pods run but cannot report.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        folder.chmod(0o711)
        if group is not None:
            os.chown(folder, -1, group)
    except OSError as error:
        _log.error("the folder %s cannot be prepared, and pods cannot report: %s", folder, error)


def end_one_process_at_a_time(cgroup: Path = _OWN_CGROUP) -> None:
    """Make the kernel kill one process, not the whole container with its mounts, at the container's memory limit.

    Since Kubernetes 1.28 the kubelet requests the opposite on cgroup v2 (memory.oom.group), which would also kill the
    keeper. One by one, the largest goes first: a worker, the fetcher or the agent, which is then restarted.
    """
    group = cgroup / "memory.oom.group"
    if not group.exists():  # cgroup v1 has no groups, and the root cgroup, without a container, has no such file
        return
    try:
        group.write_text("0")
    except OSError as error:
        _log.warning("%s: out of memory ends the whole sidecar (%s)", group, error.strerror)


async def run(settings: KeeperSettings) -> None:
    """Serve until SIGTERM or SIGINT. Raises OSError and SidecarError if it cannot serve."""
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
    """Run the command `stoker-sidecar`. Return the exit code."""
    settings = parse(sys.argv[1:] if argv is None else argv)
    log_to_stderr(settings.log_level)
    raise_open_files()
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")  # each child would search all packages for 0.02 s
    try:
        asyncio.run(run(settings))
    except (OSError, SidecarError) as error:
        _log.error("the keeper cannot start: %s", error)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
