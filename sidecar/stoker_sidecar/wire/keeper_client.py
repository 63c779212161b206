"""Asks the keeper to serve and release FUSE file systems: one JSON line each way, over its unix socket."""

import asyncio
from pathlib import Path
from typing import Any

from stoker_sidecar.errors import KeeperUnavailable
from stoker_sidecar.wire import lines

# The keeper gives a server 20 s to start, and then reports the error.
REPLY_SECONDS = 25.0


class KeeperClient:
    """The agent's client of the keeper's socket.

    It connects for each call: calls are rare (first mount and last unmount of a version), and a restarted keeper needs
    no special case.
    """

    def __init__(self, socket: Path, reply_seconds: float = REPLY_SECONDS) -> None:
        self._socket = socket
        self._reply_seconds = reply_seconds

    async def serve(self, uid: str, digest: str, manifest: Path, version_dir: Path, mountpoint: Path) -> None:
        """Return when the version is mounted at ``mountpoint`` and responds. Raises KeeperUnavailable."""
        paths = {"manifest": str(manifest), "version_dir": str(version_dir), "mountpoint": str(mountpoint)}
        await self._ask({"op": "serve", "uid": uid, "digest": digest, **paths})

    async def release(self, uid: str, digest: str) -> None:
        """Return when the version is unmounted and its server ended. Raises KeeperUnavailable."""
        await self._ask({"op": "release", "uid": uid, "digest": digest})

    async def _ask(self, request: dict[str, str]) -> None:
        try:
            async with asyncio.timeout(self._reply_seconds):
                reply = await self._exchange({"id": 1, **request})
        except TimeoutError as error:
            raise KeeperUnavailable(
                f"the keeper did not answer {request['op']!r} on {self._socket} within {self._reply_seconds:.0f} s"
            ) from error
        except (OSError, ValueError) as error:
            raise KeeperUnavailable(f"the keeper cannot be asked on {self._socket}: {error}") from error
        if not reply.get("ok"):
            raise KeeperUnavailable(
                f"the keeper refused {request['op']!r}: {reply.get('message', 'it gave no reason')}"
            )

    async def _exchange(self, request: dict[str, Any]) -> dict[str, Any]:
        reader, writer = await asyncio.open_unix_connection(str(self._socket))
        try:
            writer.write(lines.encode(request))
            await writer.drain()
            return lines.decode_object(await reader.readline())
        finally:
            writer.close()
