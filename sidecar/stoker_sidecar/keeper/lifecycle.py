"""The life of one keeper: it waits for the leader lock, serves the node, and hands it over to another pod's keeper."""

import asyncio
import contextlib
import logging
import os
from collections.abc import AsyncIterator

from stoker_sidecar.errors import SidecarError
from stoker_sidecar.keeper.children import Reaper
from stoker_sidecar.keeper.fuse_servers import close_mounts
from stoker_sidecar.keeper.holder_link import take_back
from stoker_sidecar.keeper.settings import KeeperSettings
from stoker_sidecar.keeper.supervisor import Supervisor
from stoker_sidecar.keeper.takeover.leader_lock import LeaderLock
from stoker_sidecar.keeper.takeover.messages import PROTOCOL
from stoker_sidecar.keeper.takeover.predecessor import Successor, TakeoverListener, complete_handoff, send_handoff
from stoker_sidecar.keeper.takeover.successor import Handoff, receive_handoff

_log = logging.getLogger("stoker.keeper")
_ALIVE = "200 OK", "waiting: the sidecar of another pod serves this node\n"
_NOT_READY = "503 Service Unavailable", "another pod's sidecar serves this node\n"
_PROBE_SECONDS = 5.0


class KeeperLifecycle:
    """One keeper from start to end: ``run`` returns after ``stopping`` is set.

    Without a state folder there is no other keeper.
    """

    def __init__(self, settings: KeeperSettings, reaper: Reaper, stopping: asyncio.Event) -> None:
        self._settings = settings
        self._reaper = reaper
        self._stopping = stopping
        self._lock = LeaderLock(settings.state_dir, settings.identity) if settings.state_dir else None

    async def run(self) -> None:
        """Wait and serve, in turns. Raises OSError and SidecarError if it cannot serve, and then holds nothing."""
        supervisor = Supervisor(self._settings, self._reaper)
        if self._lock is not None:
            self._lock.register()
            await supervisor.make_ready()
        while (handoff := await self._leadership()) is not None:
            while handoff is not None:
                handoff = await self._serve(supervisor, handoff)
                supervisor = Supervisor(self._settings, self._reaper)
        await supervisor.drop()

    async def _leadership(self) -> Handoff | None:
        """Wait until this keeper becomes the leader; None if it is stopped before."""
        if self._stopping.is_set():  # send no request: the other keeper would start to give way
            return None
        if self._lock is None:
            return Handoff()
        stopped = asyncio.create_task(self._stopping.wait())
        received = asyncio.create_task(receive_handoff(self._lock))
        async with probes_answered(self._settings.http_port):
            await asyncio.wait((stopped, received), return_when=asyncio.FIRST_COMPLETED)
        stopped.cancel()
        if not received.done() or self._stopping.is_set():
            received.cancel()
            return None
        handoff, holder = received.result(), self._settings.holder_socket
        if handoff.predecessor is None and holder is not None:
            return await take_back(holder, self._settings.identity)
        return handoff

    async def _serve(self, supervisor: Supervisor, handoff: Handoff) -> Handoff | None:
        """Serve until another keeper takes over, or the end.

        Return the mounts to serve again after a failed handover.
        """
        try:
            await supervisor.take_over(handoff.mounts, handoff.memory)
            if self._lock is not None:
                await handoff.complete(self._lock)
            await supervisor.begin()
        except (OSError, SidecarError):
            await supervisor.drop()
            raise
        if self._lock is None:
            await self._stopping.wait()
            await supervisor.end()
            return None
        return await self._serve_until_asked(supervisor, self._lock)

    async def _serve_until_asked(self, supervisor: Supervisor, lock: LeaderLock) -> Handoff | None:
        listener = TakeoverListener(lock)
        stopped = asyncio.create_task(self._stopping.wait())
        await asyncio.wait((stopped, listener.successor), return_when=asyncio.FIRST_COMPLETED)
        stopped.cancel()
        successor = listener.successor.result() if listener.successor.done() else listener.next_waiting()
        try:
            if successor is not None:
                return await self._hand_over(supervisor, lock, successor)
            _log.info("asked to stop")
            await supervisor.end()
        finally:
            listener.close()
        lock.release()
        return None

    async def _hand_over(self, supervisor: Supervisor, lock: LeaderLock, successor: Successor) -> Handoff | None:
        _log.info("another keeper takes over: stopping agent, fetcher and FUSE servers")
        mounts, memory = await supervisor.hand_over()
        if successor.protocol != PROTOCOL:
            _log.warning("it speaks protocol %d, not %d: it must create new mounts", successor.protocol, PROTOCOL)
            close_mounts(mounts)
            mounts = []
        if await send_handoff(successor.connection, mounts, memory):
            os.close(memory)
            complete_handoff(successor.connection, mounts, lock)
            _log.info("handed %d mounts over", len(mounts))
            return None
        if self._stopping.is_set():
            os.close(memory)
            close_mounts(mounts)
            lock.release()
            return None
        return Handoff(mounts, memory=memory)


@contextlib.asynccontextmanager
async def probes_answered(port: int) -> AsyncIterator[None]:
    """Answer the kubelet's probes instead of the agent while this keeper waits: alive, not ready.

    An unavailable port is logged: the kubelet then restarts the container, which is harmless.
    """
    try:
        server = await asyncio.start_server(_answer_probe, port=port)
    except OSError as error:
        _log.warning("the kubelet's probes are not answered while this keeper waits: %s", error)
        yield
        return
    async with server:
        yield


async def _answer_probe(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        async with asyncio.timeout(_PROBE_SECONDS):
            line = await reader.readline()
            while (await reader.readline()).strip():
                pass
            writer.write(probe_reply(line))
            await writer.drain()
    except (OSError, ValueError) as error:  # TimeoutError is an OSError; ValueError: a line beyond the stream's limit
        _log.debug("a probe was not answered: %s", error)
    finally:
        writer.close()


def probe_reply(request_line: bytes) -> bytes:
    """Return the response to one GET: healthy, never ready. Pure."""
    status, body = _ALIVE if request_line.split()[1:2] == [b"/healthz"] else _NOT_READY
    return f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n{body}".encode()
