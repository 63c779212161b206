"""The socket for figures of a mount's readers and tuning: one JSON line each way, bounded."""

import asyncio
import json
import logging
import socket
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stoker_api.node_caches.node_answer import MOST_ASKED, MOST_HISTORY, MOST_TOLD, MountFigures
from stoker_sidecar.threads import in_thread
from stoker_sidecar.wire import lines

if TYPE_CHECKING:
    from stoker_sidecar.agent.learning.tuning_history import TuningHistory

log = logging.getLogger("stoker.mount")
_SECONDS = 10.0  # for a request
_MOST_CLIENTS = 16


class FiguresSocket:
    """Answers the CLI of the user who mounts. ``history`` None means that the mount has no tuning history."""

    def __init__(self, figures: Callable[[], MountFigures], history: "TuningHistory | None") -> None:
        self._figures = figures
        self._history = history
        self._clients = 0

    async def run(self, path: Path) -> None:
        """Serve on ``path``, only for this user, until cancelled. Raises OSError."""
        listener = _private_socket(path)
        async with await asyncio.start_unix_server(self._connected, sock=listener, limit=MOST_ASKED) as server:
            await server.serve_forever()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._clients >= _MOST_CLIENTS:
            writer.close()
            return
        self._clients += 1
        try:
            async with asyncio.timeout(_SECONDS):
                writer.write(await self._answer(await reader.readline()))
                await writer.drain()
        except (TimeoutError, OSError, ValueError) as error:  # ValueError: a line beyond the limit
            log.debug("a question about this mount is not answered: %s", error)
        finally:
            self._clients -= 1
            writer.close()

    async def _answer(self, line: bytes) -> bytes:
        try:
            asked = lines.decode_object(line)
            return self._bounded(await self._told(asked))
        except (ValueError, RecursionError) as error:
            return lines.encode({"error": str(error)[:300]})

    async def _told(self, asked: dict[str, Any]) -> dict[str, Any]:
        match asked:
            case {"show": "workloads"}:
                return self._figures().wire()
            case {"show": "history", "limit": int(limit), "kind": str(kind)} if 1 <= limit <= MOST_HISTORY:
                return {"history": await self._rows(limit, kind)}
        raise ValueError(f"a question shows workloads, or history with a limit of {MOST_HISTORY} and a kind")

    async def _rows(self, limit: int, kind: str) -> list[dict[str, Any]]:
        if self._history is None:
            return []
        from stoker_sidecar.agent.learning.tuning_history import HistoryKind  # late: an unobserved mount has no history

        wanted = HistoryKind(kind) if kind else None
        return [row.wire() for row in await in_thread(self._history.rows, kind=wanted, most=limit)]

    @staticmethod
    def _bounded(answer: dict[str, Any]) -> bytes:
        """Encode an answer. If a history is too long, halve it, keeping the newest rows."""
        while len(text := json.dumps(answer).encode() + b"\n") > MOST_TOLD and answer.get("history"):
            answer = {"history": answer["history"][: len(answer["history"]) // 2]}
        return text


def _private_socket(path: Path) -> socket.socket:
    path.unlink(missing_ok=True)
    bound = socket.socket(socket.AF_UNIX)
    bound.bind(str(path))
    path.chmod(0o600)  # no client can connect before listen(), which comes later
    return bound
