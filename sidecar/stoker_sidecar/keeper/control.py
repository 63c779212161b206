"""The keeper's socket: one JSON object per line in each direction, in any order; "id" is echoed."""

import asyncio
import logging
import re
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

from stoker_sidecar.errors import ServeError, SidecarError
from stoker_sidecar.keeper.fuse_servers import FuseServers, ServedVersion
from stoker_sidecar.wire import lines

_log = logging.getLogger("stoker.keeper")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,127}")  # uid and digest become folder names
Reply = dict[str, Any]


def parse_version(request: dict[str, Any], mount_root: Path) -> ServedVersion:
    """Parse the version of a `serve` request. Pure. Raises ServeError with the offending value."""
    uid, digest = parse_key(request)
    paths = {name: Path(str(request.get(name, ""))) for name in ("manifest", "version_dir", "mountpoint")}
    for name, path in paths.items():
        if not path.is_absolute() or ".." in path.parts:
            raise ServeError(f"{name} {str(path)!r} must be an absolute path without '..'")
    if mount_root not in paths["mountpoint"].parents:
        raise ServeError(f"mountpoint {paths['mountpoint']} must lie below {mount_root}")
    return ServedVersion(uid, digest, **paths)


def parse_key(request: dict[str, Any]) -> tuple[str, str]:
    """Parse (uid, digest) of a request. Pure. Raises ServeError with the offending value."""
    values = [str(request.get(name, "")) for name in ("uid", "digest")]
    for name, value in zip(("uid", "digest"), values, strict=True):
        if _NAME.fullmatch(value) is None:
            raise ServeError(f"{name} {value!r} must have 1 to 128 letters, digits, '-', '_' or '.'")
    return values[0], values[1]


def _private_socket(path: Path) -> socket.socket:
    path.unlink(missing_ok=True)
    bound = socket.socket(socket.AF_UNIX)
    bound.bind(str(path))
    path.chmod(0o600)  # no client can connect before listen(), which comes later
    return bound


class ControlSocket:
    """The keeper's socket: answers `serve`, `release` and `list` from the pod's agent."""

    def __init__(self, servers: FuseServers, children: Callable[[], list[Reply]], mount_root: Path) -> None:
        self._servers = servers
        self._children = children
        self._mount_root = mount_root
        self._tasks: set[asyncio.Task[None]] = set()

    async def listen(self, path: Path) -> asyncio.Server:
        """Serve on ``path``, only for this user. Raises OSError."""
        return await asyncio.start_unix_server(self._connected, sock=_private_socket(path))

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while line := await reader.readline():
                task = asyncio.create_task(self._answer(line, writer))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)
        except (ConnectionError, ValueError) as error:  # ValueError: a line beyond the stream's limit
            _log.warning("a client of the keeper's socket was dropped: %s", error)
        finally:
            writer.close()

    async def _answer(self, line: bytes, writer: asyncio.StreamWriter) -> None:
        reply = await self._reply(line)
        if not writer.is_closing():
            writer.write(lines.encode(reply))

    async def _reply(self, line: bytes) -> Reply:
        try:
            request = lines.decode_object(line)
        except ValueError:
            return {"ok": False, "message": "a request is one JSON object on one line"}
        head = {"id": request.get("id")}
        try:
            return head | {"ok": True} | await self._do(request)
        except SidecarError as error:
            _log.error("%s: %s", request.get("op"), error)
            return head | {"ok": False, "message": str(error)}

    async def _do(self, request: dict[str, Any]) -> Reply:
        match request.get("op"):
            case "serve":
                await self._servers.serve(parse_version(request, self._mount_root))
                return {}
            case "release":
                await self._servers.release(*parse_key(request))
                return {}
            case "list":
                return {"servers": self._servers.rows(), "children": self._children()}
            case other:
                raise ServeError(f"op {other!r} is not known: use serve, release or list")
