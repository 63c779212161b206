"""Listens for the pods that the agent names, and tells the agent what they say."""

import asyncio
import logging
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from stoker_sidecar.errors import ProtocolError
from stoker_sidecar.reports.core.allowance import Allowance
from stoker_sidecar.reports.pod_socket import PodSocket, bind_socket
from stoker_sidecar.wire.reports_protocol import MAX_LINE, Heard, decode_listen, encode

_log = logging.getLogger("stoker.reports")
TELL_SECONDS = 1.0  # between two words to the agent
# Of all pods; a line takes some tens of microseconds.
NODE_LINES_PER_SECOND, NODE_LINES_AT_ONCE = 1000.0, 2000.0


def _private_socket(path: Path) -> socket.socket:
    path.unlink(missing_ok=True)
    bound = socket.socket(socket.AF_UNIX)
    bound.bind(str(path))
    path.chmod(0o600)  # its own user's, and root's, who is the agent; nobody can connect before it is listened to
    return bound


class ReportListener:
    """The sockets of a node's pods, below ``root``. All methods run in one event loop. ``clock`` counts seconds."""

    def __init__(self, root: Path, clock: Callable[[], float] = time.monotonic) -> None:
        self._root = root
        self._clock = clock
        self._node = Allowance(NODE_LINES_PER_SECOND, NODE_LINES_AT_ONCE)
        self._pods: dict[str, PodSocket] = {}
        self._untold: set[str] = set()
        self._something = asyncio.Event()

    async def serve(self, path: Path) -> asyncio.Server:
        """Serve the agent on the socket ``path``. Raises OSError."""
        return await asyncio.start_unix_server(self._connected, sock=_private_socket(path), limit=MAX_LINE)

    def close(self) -> None:
        """Stop listening for all pods."""
        self.listen_for(())

    def listen_for(self, pods: tuple[str, ...]) -> None:
        """Listen for these pods and no others; one whose folder is not there is left out until it is named again."""
        for uid in self._pods.keys() - set(pods):
            self._pods.pop(uid).close()
            self._untold.discard(uid)
        for uid in pods:
            if uid not in self._pods:
                self._begin(uid)

    def take_news(self) -> Heard:
        """Return what has been said by pods of which there is news, and count it as told."""
        now, untold, self._untold = self._clock(), self._untold, set()
        return Heard({uid: self._pods[uid].figures.summary(now) for uid in untold})

    def _begin(self, uid: str) -> None:
        try:
            bound = bind_socket(self._root / uid)
        except OSError as error:
            return _log.warning("pod %s cannot report: its socket cannot be made: %s", uid, error)
        self._pods[uid] = PodSocket(bound, self._node, self._clock, lambda: self._note(uid))
        return None

    def _note(self, uid: str) -> None:
        self._untold.add(uid)
        self._something.set()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Converse with one agent; of two, as at a restart, each is told only what the other was not."""
        for uid in self._pods:  # an agent that starts has heard nothing
            self._note(uid)
        telling = asyncio.create_task(self._tell(writer))
        try:
            while line := await reader.readline():
                self.listen_for(decode_listen(line).pods)
        except (OSError, ValueError, ProtocolError) as error:  # ValueError: a line beyond the stream's limit
            _log.warning("the agent's connection is closed: %s", error)
        finally:
            telling.cancel()
            writer.close()

    async def _tell(self, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):  # it hung up, as its reader sees
            while True:
                await self._something.wait()
                self._something.clear()
                writer.write(encode(self.take_news()))
                await writer.drain()
                await asyncio.sleep(TELL_SECONDS)
