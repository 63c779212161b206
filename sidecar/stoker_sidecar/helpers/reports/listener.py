"""Listens to the pods that the agent names, and forwards their reports to the agent."""

import asyncio
import logging
import socket
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

from stoker_sidecar.errors import ProtocolError
from stoker_sidecar.helpers.reports.pod_socket import NodeAllowance, PodSocket, bind_socket
from stoker_sidecar.wire.reports_protocol import MAX_LINE, MOST_HEARD, Heard, decode_listen, encode
from stoker_tuning.reports.figures import ReportSummary

_log = logging.getLogger("stoker.reports")
TELL_SECONDS = 0.25  # between two messages to the agent: people see a reported phase within a second
# Limit for all pods. A line takes some tens of microseconds.
NODE_LINES_PER_SECOND, NODE_LINES_AT_ONCE = 1000.0, 2000.0


def _private_socket(path: Path) -> socket.socket:
    path.unlink(missing_ok=True)
    bound = socket.socket(socket.AF_UNIX)
    bound.bind(str(path))
    path.chmod(0o600)  # for its user, and for root, which is the agent; no client can connect before it listens
    return bound


class ReportListener:
    """The sockets of a node's pods, below ``root``. All methods run in one event loop. ``clock`` counts seconds."""

    def __init__(self, root: Path, clock: Callable[[], float] = time.monotonic) -> None:
        self._root = root
        self._clock = clock
        self._node = NodeAllowance(NODE_LINES_PER_SECOND, NODE_LINES_AT_ONCE)
        self._pods: dict[str, PodSocket] = {}
        self._untold: set[str] = set()
        self._final: dict[str, ReportSummary] = {}  # last reports of ended pods, for the agent
        self._something = asyncio.Event()

    async def serve(self, path: Path) -> asyncio.Server:
        """Serve the agent on the socket ``path``. Raises OSError."""
        return await asyncio.start_unix_server(self._connected, sock=_private_socket(path), limit=MAX_LINE)

    def close(self) -> None:
        """Stop listening for all pods."""
        self.listen_for({})

    def listen_for(self, pods: Mapping[str, str]) -> None:
        """Listen for exactly these pods, each with its namespace.

        A pod without a folder is skipped until it is named again.
        """
        self._node.share_among(pods.values())
        for uid in self._pods.keys() - set(pods):
            self._end(uid)
        for uid, namespace in pods.items():
            if uid not in self._pods:
                self._begin(uid, namespace)

    def take_news(self) -> Heard:
        """Return the summaries of pods with news, at most MOST_HEARD, and mark them as sent."""
        now = self._clock()
        final = {uid: self._final.pop(uid) for uid in list(self._final)[:MOST_HEARD]}
        untold = sorted(self._untold)[: MOST_HEARD - len(final)]
        self._untold.difference_update(untold)
        return Heard(final | {uid: self._pods[uid].figures.summary(now) for uid in untold})

    def _end(self, uid: str) -> None:
        """Close a pod's socket, and report its remaining lines to the agent."""
        pod = self._pods.pop(uid)
        pod.read_rest()
        pod.close()
        if uid in self._untold:
            self._untold.discard(uid)
            self._final[uid] = pod.figures.summary(self._clock())
            self._something.set()

    def _begin(self, uid: str, namespace: str) -> None:
        try:
            bound = bind_socket(self._root / uid)
        except OSError as error:
            return _log.warning("pod %s cannot report: its socket cannot be made: %s", uid, error)
        self._pods[uid] = PodSocket(bound, self._node, namespace, self._clock, lambda: self._note(uid))
        return None

    def _note(self, uid: str) -> None:
        self._untold.add(uid)
        self._something.set()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one agent. With two, as at a restart, each gets only news that the first did not take."""
        for uid in self._pods:  # a new agent has no reports yet
            self._note(uid)
        telling = asyncio.create_task(self._tell(writer))
        try:
            while line := await reader.readline():
                self.listen_for(decode_listen(line).by_namespace())
        except (OSError, ValueError, ProtocolError) as error:  # ValueError: a line beyond the stream's limit
            _log.warning("the agent's connection is closed: %s", error)
        finally:
            telling.cancel()
            writer.close()

    async def _tell(self, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):  # the agent hung up, and its reader ends
            while True:
                await self._something.wait()
                self._something.clear()
                while self._untold or self._final:
                    writer.write(encode(self.take_news()))
                    await writer.drain()
                await asyncio.sleep(TELL_SECONDS)
