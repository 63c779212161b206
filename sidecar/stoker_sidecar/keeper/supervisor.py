"""Starts and ends all processes under the keeper in the right order, and keeps the fetcher's state between runs."""

import asyncio
import errno
import logging
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from stoker_sidecar.keeper.activation import ActivationSocket, asker_socket, reader_socket
from stoker_sidecar.keeper.children import Child, Reaper
from stoker_sidecar.keeper.control import ControlSocket
from stoker_sidecar.keeper.fuse_servers import FuseServers, MountInTransfer
from stoker_sidecar.keeper.holder_link import HolderLink
from stoker_sidecar.keeper.settings import KeeperSettings
from stoker_sidecar.keeper.watchdog import PROMPT
from stoker_sidecar.keeper.zygotes import FETCHERS, Zygote
from stoker_sidecar.linux.memory_locks import grant_limits
from stoker_sidecar.linux.mounts.fuse_device import clear_dead_mounts, mount_again, open_mount
from stoker_sidecar.linux.spawn import Spawn, Start

_log = logging.getLogger("stoker.keeper")
# Together below the default grace period of a kubelet, 30 s.
_AGENT_GRACE = 12.0
_FETCHER_GRACE = 6.0
# Imports take a second on a quiet machine. A process that is not ready by then only prolongs a takeover.
_READY_WITHIN = 15.0


class StateMemory:
    """A memory file, ``fd``, in which each fetcher leaves its orders for the next one, also across takeovers.

    It is never on a disk, because it contains credentials, and it disappears with its keepers.
    """

    def __init__(self) -> None:
        self.fd = os.memfd_create("stoker-fetcher")

    def take(self, other: int) -> None:
        """Copy another one's content, and close it. Call it while no fetcher uses either."""
        try:
            _copy(other, self.fd)
        except OSError as error:  # no memory left: the agent sends the fetcher its orders again
            _log.warning("the last fetcher's state is lost: %s", error)
        finally:
            os.close(other)

    def close(self) -> None:
        """Close the file. Idempotent."""
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1


class Supervisor:
    """All processes under the keeper during one term of serving the node.

    Call ``make_ready`` optionally, then ``take_over``, ``begin``, and finally ``end``, ``hand_over`` or ``drop``.
    """

    def __init__(self, settings: KeeperSettings, reaper: Reaper) -> None:
        self._settings = settings
        mount = partial(open_mount, allow_other=settings.allow_other)
        folders = tuple(folder.path for folder in settings.cache) if settings.confine else None
        self._servers = FuseServers(
            reaper,
            settings.fetcher_socket,
            settings.run_as,
            settings.log_level,
            mount,
            folders,
            settings.access_socket,
            self._mounts_changed,
            mount_again,
        )
        self._listening: asyncio.Server | None = None
        options = ["--socket", str(settings.fetcher_socket)]
        options += [word for folder in settings.cache for word in ("--root", str(folder))]
        options += ["--log-level", settings.log_level, *([] if settings.confine else ["--confine", "Off"])]
        self._memory = StateMemory()
        self._holder: HolderLink | None = None
        if settings.holder_socket is not None:
            self._holder = HolderLink(settings.holder_socket, self._servers.in_service, self._memory.fd)
        fetcher = Start([*settings.fetcher_command, *options], settings.run_as, {"--memory-fd": self._memory.fd})
        agent = Start(settings.agent_command)
        self._reports = _report_listener(settings, reaper)
        self._agent = Child("agent", reaper, lambda: agent) if settings.agent_command else None
        self._observer = observer_child(settings, reaper, folders)
        self._on_demand = _on_demand(settings, reaper)
        self._fetcher = None
        self._zygotes = [self._servers.zygote]
        if settings.fetcher_command[: len(FETCHERS.program)] == FETCHERS.program:
            zygote = Zygote(FETCHERS, reaper, settings.run_as)
            self._zygotes.append(zygote)
            self._fetcher = Child(
                "fetcher",
                reaper,
                lambda: fetcher,
                PROMPT,
                spawn=_lets_lock(zygote.spawn) if settings.pinned_memory else zygote.spawn,
                until=zygote.until_ready,
            )
        elif settings.fetcher_command:
            self._fetcher = Child("fetcher", reaper, lambda: fetcher, PROMPT)

    async def make_ready(self) -> None:
        """Start processes with long imports and let them wait, so that a takeover causes only a short pause."""
        children = [child for child in (self._agent, self._fetcher, self._reports) if child is not None]
        self._begin_zygotes()
        for child in children:
            child.make_ready()
        waits = [child.ready.wait() for child in children] + [self._servers.zygote.until_ready()]
        with suppress(TimeoutError):
            async with asyncio.timeout(_READY_WITHIN):
                await asyncio.gather(*waits)

    async def take_over(self, mounts: Sequence[MountInTransfer], memory: int | None) -> None:
        """Answer the mounts of the predecessor, or clear the node of dead ones.

        ``memory`` is its fetcher's state; it is closed. Raises OSError and ServeError: then call ``drop``.
        """
        if memory is not None:
            self._memory.take(memory)
        self._begin_zygotes()
        if mounts:  # a process that holds a mount's descriptor must not check if it is dead
            await self._servers.take_over(mounts)
        else:
            for target in clear_dead_mounts(self._settings.mount_root):
                _log.info("cleared the mount %s that an earlier keeper left", target)

    async def begin(self) -> None:
        """Start all other processes. Raises OSError: then call ``drop``."""
        control = ControlSocket(self._servers, self._rows, self._settings.mount_root)
        self._listening = await control.listen(self._settings.keeper_socket)
        for path, activation in self._on_demand.items():
            activation.listen(path)
        if self._agent is not None:
            self._agent.begin()
        if self._observer is not None:
            self._observer.begin()
        if self._fetcher is not None:
            self._fetcher.begin()
        if self._reports is not None:
            self._reports.begin()
        if self._holder is not None:
            self._holder.begin()

    def _mounts_changed(self) -> None:
        if self._holder is not None:
            self._holder.changed()

    def _begin_zygotes(self) -> None:
        for zygote in self._zygotes:
            zygote.begin()

    def _rows(self) -> list[dict[str, Any]]:
        zygotes = [zygote.child for zygote in self._zygotes]
        children = (self._agent, self._fetcher, self._observer, self._reports, *zygotes)
        rows = [
            {"name": child.name, "pid": child.pid, "restarts": child.history.restarts}
            for child in children
            if child is not None
        ]
        return rows + [{"name": one.name, "pid": one.pid, "restarts": 0} for one in self._on_demand.values()]

    async def end(self) -> None:
        """End everything: the agent first, because it uses all other processes; FUSE servers last.

        The holder keeps the mounts for the keeper of the next pod. Without one they are unmounted.
        """
        held = self._holder is not None and self._holder.offer()
        await self._stop_others(mounts_go_on=held)
        if held:
            await self._servers.leave()
        elif self._settings.unmount_on_exit:
            await self._servers.release_all()
        else:
            await self._servers.stop_all()

    async def hand_over(self) -> tuple[list[MountInTransfer], int]:
        """End everything but the mounts, whose readers wait from here on.

        Return the mounts, which the caller must answer or close, and the descriptor of the fetcher's memory, which it
        must close.
        """
        memory = os.dup(self._memory.fd)
        await self._stop_others(mounts_go_on=True)
        return await self._servers.hand_over(), memory

    async def drop(self) -> None:
        """End everything, and leave the mounts to the keeper that also holds them."""
        await self._stop_others(mounts_go_on=True)
        await self._servers.drop_all()

    async def _stop_others(self, *, mounts_go_on: bool) -> None:
        """End all but the FUSE servers. ``mounts_go_on`` means that no further mount is released."""
        if self._holder is not None:
            self._holder.close()
        if mounts_go_on:
            self._stop_listening()
        if self._observer is not None:
            await self._observer.stop(grace=0)  # it has nothing to save
        for activation in self._on_demand.values():
            await activation.stop()
        async with asyncio.TaskGroup() as tasks:
            for zygote in self._zygotes:
                tasks.create_task(zygote.stop())
            if self._agent is not None:
                await self._agent.stop(_AGENT_GRACE)
        self._stop_listening()  # by then an agent that unmounts has released its mounts
        if self._reports is not None:
            await self._reports.stop(0)  # it has nothing to lose
        if self._fetcher is not None:
            await self._fetcher.stop(_FETCHER_GRACE)
        self._memory.close()

    def _stop_listening(self) -> None:
        if self._listening is not None:
            self._listening.close()


def _lets_lock(spawn: Spawn) -> Spawn:
    """Wrap a spawn function so that the process may lock memory. No other process of the sidecar may."""

    def started(start: Start) -> int:
        pid = spawn(start)
        grant_limits(pid)
        return pid

    return started


def _on_demand(settings: KeeperSettings, reaper: Reaper) -> dict[Path, ActivationSocket]:
    """Return what the agent may have started, by the paths of the sockets."""
    found: dict[Path, ActivationSocket] = {}
    if settings.agent_command:
        reader = reader_socket(reaper, settings.run_as, settings.log_level, confine=settings.confine)
        found[settings.reader_socket] = reader
    if settings.plugins or settings.order_plugins:
        found[settings.asker_socket] = asker_socket(
            reaper, settings.plugins, settings.order_plugins, settings.plugins_run_as, settings.log_level
        )
    return found


def _report_listener(settings: KeeperSettings, reaper: Reaper) -> Child | None:
    """Return the process that receives pods' reports, if enabled. It is separate because pods may be hostile."""
    if settings.reports_root is None:
        return None
    command = [sys.executable, "-m", "stoker_sidecar.helpers.reports.main", "--log-level", settings.log_level]
    command += ["--socket", str(settings.reports_socket), "--root", str(settings.reports_root)]
    start = Start([*command, *([] if settings.confine else ["--confine", "Off"])], settings.run_as)
    return Child("report listener", reaper, lambda: start)


def observer_child(settings: KeeperSettings, reaper: Reaper, folders: Sequence[str] | None) -> Child | None:
    """Return the process that observes pods' reads, or None if it is disabled."""
    if settings.access_socket is None:
        return None
    command = [sys.executable, "-m", "stoker_sidecar.helpers.observer.main", "--socket", str(settings.access_socket)]
    command += ["--cpu", settings.observer_cpu, "--log-level", settings.log_level]
    command += [word for folder in folders or () for word in ("--readable", folder)]
    start = Start(command, settings.run_as)
    return Child("observer", reaper, lambda: start)


def _copy(source: int, target: int) -> None:
    """Copy only the data between holes, because the file is long and nearly empty."""
    end = 0
    while (start := _next_data(source, end)) is not None:
        end = os.lseek(source, start, os.SEEK_HOLE)
        while start < end:
            start += os.pwrite(target, os.pread(source, end - start, start), start)


def _next_data(fd: int, offset: int) -> int | None:
    try:
        return os.lseek(fd, offset, os.SEEK_DATA)
    except OSError as error:
        if error.errno != errno.ENXIO:
            raise
        return None  # only a hole to the end
