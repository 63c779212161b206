"""PID 1 of the sidecar: holds the FUSE mounts and starts the agent, the fetcher and the FUSE servers again when they end."""

import asyncio
import logging
import os
import signal
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from stoker_sidecar.errors import SidecarError
from stoker_sidecar.keep.arguments import Settings, parse
from stoker_sidecar.keep.children import Child, Reaper
from stoker_sidecar.keep.control import ControlSocket
from stoker_sidecar.keep.device import clear_dead_mounts
from stoker_sidecar.keep.servers import FsServers
from stoker_sidecar.keep.spawn import Start, adopt_orphans

_log = logging.getLogger("stoker.keeper")
# Together below the 30 s that a kubelet grants by default.
_AGENT_GRACE = 12.0
_FETCHER_GRACE = 6.0


@dataclass(frozen=True)
class _Household:
    """Everything that runs."""

    agent: Child | None
    fetcher: Child | None
    servers: FsServers

    def rows(self) -> list[dict[str, object]]:
        return [
            {"name": child.name, "pid": child.pid, "restarts": child.history.restarts}
            for child in (self.agent, self.fetcher, self.servers.nursery.child)
            if child is not None
        ]


def _prepare_folders(settings: Settings) -> None:
    """The sockets' folder is sticky: fetcher and servers may add a socket there, but not replace the keeper's."""
    settings.run_dir.mkdir(parents=True, exist_ok=True)
    settings.run_dir.chmod(0o1770)
    settings.mount_root.mkdir(parents=True, exist_ok=True)  # perhaps someone's own, so its mode stays
    for folder in settings.cache:
        _prepare_cache(Path(folder.path), settings.run_as)
    if settings.run_as is not None:
        os.chown(settings.run_dir, -1, settings.run_as)


def _prepare_cache(folder: Path, owner: int | None) -> None:
    """A folder that cannot be made is no reason to stop: the fetcher reports it and uses the others."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        folder.chmod(0o755)
        if owner is not None:
            os.chown(folder, owner, owner)
    except OSError as error:
        _log.error("the cache folder %s cannot be prepared: %s", folder, error)


def _household(settings: Settings) -> _Household:
    reaper = Reaper()
    reaper.install()
    adopt_orphans()
    options = ["--socket", str(settings.fetcher_socket)]
    options += [word for folder in settings.cache for word in ("--root", str(folder))]
    options += ["--log-level", settings.log_level]
    fetcher = Start([*settings.fetcher_command, *options], settings.run_as)
    agent = Start(settings.agent_command)
    return _Household(
        agent=Child("agent", reaper, lambda: agent) if settings.agent_command else None,
        fetcher=Child("fetcher", reaper, lambda: fetcher) if settings.fetcher_command else None,
        servers=FsServers(reaper, settings.fetcher_socket, settings.run_as, settings.log_level),
    )


async def _stop(household: _Household, settings: Settings) -> None:
    """The agent first, since it uses all others; readers of FUSE mounts last."""
    if household.agent is not None:
        await household.agent.stop(_AGENT_GRACE)
    if household.fetcher is not None:
        await household.fetcher.stop(_FETCHER_GRACE)
    if settings.unmount_on_exit:
        await household.servers.release_all()
    else:
        await household.servers.stop_all()
    await household.servers.nursery.stop()


async def run(settings: Settings) -> None:
    """Until SIGTERM or SIGINT. Raises OSError when the folders or the socket cannot be made."""
    stopping = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopping.set)
    _prepare_folders(settings)
    for target in clear_dead_mounts(settings.mount_root):
        _log.info("cleared the mount %s that an earlier keeper left", target)
    household = _household(settings)
    control = ControlSocket(household.servers, household.rows, settings.mount_root)
    listening = await control.listen(settings.keeper_socket)
    household.servers.nursery.begin()
    for child in (household.fetcher, household.agent):
        if child is not None:
            child.begin()
    await stopping.wait()
    _log.info("asked to stop")
    listening.close()
    await _stop(household, settings)


def main(argv: Sequence[str] | None = None) -> int:
    """The command `stoker-sidecar`. Returns the exit code."""
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
