"""Starts and ends all that runs under the keeper, in the right order, and keeps what the fetcher knows meanwhile."""

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

from stoker_sidecar.errors import MountError
from stoker_sidecar.keeper.asker import AskerSocket
from stoker_sidecar.keeper.children import Child, Reaper
from stoker_sidecar.keeper.control import ControlSocket
from stoker_sidecar.keeper.fuse_servers import FuseServers, MountInTransfer
from stoker_sidecar.keeper.settings import KeeperSettings
from stoker_sidecar.keeper.watchdog import PROMPT
from stoker_sidecar.keeper.zygotes import FETCHERS, ZygotePair
from stoker_sidecar.linux.fuse_device import clear_dead_mounts, close_mount, open_mount
from stoker_sidecar.linux.memory_locks import grant_limits
from stoker_sidecar.linux.spawn import Spawn, Start

_log = logging.getLogger("stoker.keeper")
# Together below the 30 s that a kubelet grants by default.
_AGENT_GRACE = 12.0
_FETCHER_GRACE = 6.0
# Imports take a second on a quiet machine. What is not ready by then makes the gap of a takeover longer, no more.
_READY_WITHIN = 15.0


class StateMemory:
    """A memory file, ``fd``, in which each fetcher leaves what it was told for the next one, through takeovers, too.

    Never on a disk, as credentials lie in it, and gone with its keepers.
    """

    def __init__(self) -> None:
        self.fd = os.memfd_create("stoker-fetcher")

    def take(self, other: int) -> None:
        """Copy what another one has, which is closed; while no fetcher uses either."""
        try:
            _copy(other, self.fd)
        except OSError as error:  # no memory left: the agent tells the fetcher again
            _log.warning("what the last fetcher knew is not taken over: %s", error)
        finally:
            os.close(other)

    def close(self) -> None:
        """Close the file. Idempotent."""
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1


class Supervisor:
    """All processes that run under the keeper, while it serves the node once.

    ``make_ready`` or not, ``take_over``, ``begin``, then ``end``, ``hand_over`` or ``drop``.
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
        )
        self._listening: asyncio.Server | None = None
        options = ["--socket", str(settings.fetcher_socket)]
        options += [word for folder in settings.cache for word in ("--root", str(folder))]
        options += ["--log-level", settings.log_level, *([] if settings.confine else ["--confine", "Off"])]
        self._memory = StateMemory()
        fetcher = Start([*settings.fetcher_command, *options], settings.run_as, {"--memory-fd": self._memory.fd})
        agent = Start(settings.agent_command)
        self._reports = _report_listener(settings, reaper)
        self._agent = Child("agent", reaper, lambda: agent) if settings.agent_command else None
        self._observer = observer_child(settings, reaper, folders)
        asker = partial(AskerSocket, reaper, run_as=settings.plugins_run_as, log_level=settings.log_level)
        self._askers: dict[Path, AskerSocket] = {}
        if settings.plugins:
            self._askers[settings.asker_socket] = asker(names=settings.plugins)
        if settings.order_plugins:
            self._askers[settings.order_asker_socket] = asker(names=settings.order_plugins, orders=True)
        self._fetcher = None
        self._zygotes = [self._servers.zygotes]
        if settings.fetcher_command[: len(FETCHERS.program)] == FETCHERS.program:
            zygotes = ZygotePair(FETCHERS, reaper, settings.run_as)
            self._zygotes.append(zygotes)
            self._fetcher = Child(
                "fetcher",
                reaper,
                lambda: fetcher,
                PROMPT,
                spawn=_lets_lock(zygotes.spawn) if settings.pinned_memory else zygotes.spawn,
                until=zygotes.until_ready,
            )
        elif settings.fetcher_command:
            self._fetcher = Child("fetcher", reaper, lambda: fetcher, PROMPT)

    async def make_ready(self) -> None:
        """Start what takes long to import, and let it wait: readers of another keeper then hardly notice the change."""
        children = [child for child in (self._agent, self._fetcher, self._reports) if child is not None]
        self._begin_zygotes()
        for child in children:
            child.make_ready()
        waits = [child.ready.wait() for child in children] + [self._servers.zygotes.until_ready()]
        with suppress(TimeoutError):
            async with asyncio.timeout(_READY_WITHIN):
                await asyncio.gather(*waits)

    async def take_over(self, mounts: Sequence[MountInTransfer], memory: int | None) -> None:
        """Answer the mounts of the predecessor, or clear the node of dead ones.

        ``memory``: what its fetcher knew; it is closed. Raises OSError and ServeError: then ``drop``.
        """
        if memory is not None:
            self._memory.take(memory)
        self._begin_zygotes()
        if mounts:  # of mounts whose descriptor we hold we must not ask whether they are dead
            await self._servers.take_over(mounts)
        else:
            for target in clear_dead_mounts(self._settings.mount_root):
                _log.info("cleared the mount %s that an earlier keeper left", target)

    async def begin(self) -> None:
        """Start everything else. Raises OSError: then ``drop``."""
        control = ControlSocket(self._servers, self._rows, self._settings.mount_root)
        self._listening = await control.listen(self._settings.keeper_socket)
        for path, asker in self._askers.items():
            asker.listen(path)
        if self._agent is not None:
            self._agent.begin()
        if self._observer is not None:
            self._observer.begin()
        if self._fetcher is not None:
            self._fetcher.begin()
        if self._reports is not None:
            self._reports.begin()

    def _begin_zygotes(self) -> None:
        for pair in self._zygotes:
            pair.begin()

    def _rows(self) -> list[dict[str, Any]]:
        zygotes = [child for pair in self._zygotes for child in pair.children]
        children = (self._agent, self._fetcher, self._observer, self._reports, *zygotes)
        rows = [
            {"name": child.name, "pid": child.pid, "restarts": child.history.restarts}
            for child in children
            if child is not None
        ]
        askers = [{"name": one.name, "pid": one.pid, "restarts": 0} for one in self._askers.values()]
        return rows + askers

    async def end(self) -> None:
        """End everything: the agent first, since it uses all others; readers of FUSE mounts last."""
        await self._stop_others()
        if self._settings.unmount_on_exit:
            await self._servers.release_all()
        else:
            await self._servers.stop_all()

    async def hand_over(self) -> tuple[list[MountInTransfer], int]:
        """End everything but the mounts, whose readers wait from here on.

        Returns the mounts, which the caller must answer or close, and the descriptor of the fetcher's memory, which it
        must close.
        """
        memory = os.dup(self._memory.fd)
        await self._stop_others()
        return await self._servers.hand_over(), memory

    async def drop(self) -> None:
        """End everything, and leave the mounts to the keeper that holds them as well."""
        await self._stop_others()
        await self._servers.drop_all()

    async def _stop_others(self) -> None:
        if self._listening is not None:
            self._listening.close()
        if self._observer is not None:
            await self._observer.stop(grace=0)  # it has nothing to save
        for asker in self._askers.values():
            await asker.stop()
        async with asyncio.TaskGroup() as tasks:
            for pair in self._zygotes:
                tasks.create_task(pair.stop())
            if self._agent is not None:
                await self._agent.stop(_AGENT_GRACE)
        if self._reports is not None:
            await self._reports.stop(0)  # it has nothing to lose
        if self._fetcher is not None:
            await self._fetcher.stop(_FETCHER_GRACE)
        self._memory.close()


def _lets_lock(spawn: Spawn) -> Spawn:
    """Return what starts a process and lets it lock memory; no other process of the sidecar may."""

    def started(start: Start) -> int:
        pid = spawn(start)
        grant_limits(pid)
        return pid

    return started


def _report_listener(settings: KeeperSettings, reaper: Reaper) -> Child | None:
    """Return the process that hears what pods report, where that is on: of its own, since they are hostile."""
    if settings.reports_root is None:
        return None
    command = [sys.executable, "-m", "stoker_sidecar.reports.main", "--log-level", settings.log_level]
    command += ["--socket", str(settings.reports_socket), "--root", str(settings.reports_root)]
    start = Start([*command, *([] if settings.confine else ["--confine", "Off"])], settings.run_as)
    return Child("report listener", reaper, lambda: start)


def observer_child(settings: KeeperSettings, reaper: Reaper, folders: Sequence[str] | None) -> Child | None:
    """Return the process that looks at what pods read; None where nobody is to."""
    if settings.access_socket is None or not settings.observe_trees:
        return None
    command = [sys.executable, "-m", "stoker_sidecar.observer.main", "--socket", str(settings.access_socket)]
    command += ["--cpu", settings.observer_cpu, "--log-level", settings.log_level]
    command += [word for folder in folders or () for word in ("--readable", folder)]
    start = Start(command, settings.run_as)
    return Child("observer", reaper, lambda: start)


def close_mounts(mounts: list[MountInTransfer]) -> None:
    """Unmount what nobody serves any more."""
    for row in mounts:
        with suppress(MountError):  # someone else took it away: what we want
            close_mount(row.mount)


def _copy(source: int, target: int) -> None:
    """Copy what lies between the holes, as the file is long and nearly empty."""
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
        return None  # nothing but a hole to the end
