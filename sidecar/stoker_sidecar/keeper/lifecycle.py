"""A keeper's time: it waits for its turn, serves the node, and gives way to a younger one, or to an elder one at its end."""

import asyncio
import logging
import os

from stoker_sidecar.errors import SidecarError
from stoker_sidecar.keeper.children import Reaper
from stoker_sidecar.keeper.probes import answering
from stoker_sidecar.keeper.settings import Settings
from stoker_sidecar.keeper.supervisor import Household, close_mounts
from stoker_sidecar.keeper.takeover.handoff import Inheritance, confirm, give, inherit
from stoker_sidecar.keeper.takeover.leader_lock import Succession
from stoker_sidecar.keeper.takeover.listener import Door, Successor
from stoker_sidecar.keeper.takeover.messages import PROTOCOL

_log = logging.getLogger("stoker.keeper")


class Reign:
    """``run`` returns when ``stopping`` is set. Without a state folder there is no other keeper."""

    def __init__(self, settings: Settings, reaper: Reaper, stopping: asyncio.Event) -> None:
        self._settings = settings
        self._reaper = reaper
        self._stopping = stopping
        self._succession = Succession(settings.state_dir, settings.identity) if settings.state_dir else None

    async def run(self) -> None:
        """Raises OSError and SidecarError when it cannot serve, and then holds nothing."""
        household = Household(self._settings, self._reaper)
        if self._succession is not None:
            self._succession.enter()
            await household.make_ready()
        while (inheritance := await self._my_turn()) is not None:
            while inheritance is not None:
                inheritance = await self._serve(household, inheritance)
                household = Household(self._settings, self._reaper)
        await household.drop()

    async def _my_turn(self) -> Inheritance | None:
        """None: stopped before it came."""
        if self._stopping.is_set():  # not even asked: the other keeper would begin to give way
            return None
        if self._succession is None:
            return Inheritance()
        stopped = asyncio.create_task(self._stopping.wait())
        mine = asyncio.create_task(inherit(self._succession))
        async with answering(self._settings.http_port):
            await asyncio.wait((stopped, mine), return_when=asyncio.FIRST_COMPLETED)
        stopped.cancel()
        if mine.done() and not self._stopping.is_set():
            return mine.result()
        mine.cancel()
        return None

    async def _serve(self, household: Household, inheritance: Inheritance) -> Inheritance | None:
        """Until someone else's turn, or the end. Returns what is to be served again when nobody took it."""
        try:
            await household.take_over(inheritance.mounts, inheritance.memory)
            if self._succession is not None:
                await inheritance.claim(self._succession)
            await household.begin()
        except (OSError, SidecarError):
            await household.drop()
            raise
        if self._succession is None:
            await self._stopping.wait()
            await household.end()
            return None
        return await self._serve_until_asked(household, self._succession)

    async def _serve_until_asked(self, household: Household, succession: Succession) -> Inheritance | None:
        door = Door(succession)
        stopped = asyncio.create_task(self._stopping.wait())
        await asyncio.wait((stopped, door.younger), return_when=asyncio.FIRST_COMPLETED)
        stopped.cancel()
        successor = door.younger.result() if door.younger.done() else door.heir()
        try:
            if successor is not None:
                return await self._give_way(household, succession, successor)
            _log.info("asked to stop")
            await household.end()
        finally:
            door.close()
        succession.let_go()
        return None

    async def _give_way(self, household: Household, succession: Succession, successor: Successor) -> Inheritance | None:
        _log.info("another keeper takes over: stopping agent, fetcher and FUSE servers")
        mounts, memory = await household.give_up()
        if successor.protocol != PROTOCOL:
            _log.warning("it speaks protocol %d, not %d: it has to mount anew", successor.protocol, PROTOCOL)
            close_mounts(mounts)
            mounts = []
        if await give(successor.connection, mounts, memory):
            os.close(memory)
            confirm(successor.connection, mounts, succession)
            _log.info("handed %d mounts over", len(mounts))
            return None
        if self._stopping.is_set():
            os.close(memory)
            close_mounts(mounts)
            succession.let_go()
            return None
        return Inheritance(mounts, memory=memory)
