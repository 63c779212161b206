"""Serves local files and pieces to peers: nodes that the plan names for the same Dataset."""

import asyncio
import os
import re
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import AsyncExitStack, contextmanager, suppress
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import NamedTuple, Self

from aiohttp import web

from stoker_sidecar.agent.http.peers.file_response import UploadLimits, Uploads, read_small_files, send_file
from stoker_sidecar.agent.planning.plan import NodePlan
from stoker_sidecar.errors import FetcherUnavailable
from stoker_sidecar.linux.beneath import open_file_beneath
from stoker_sidecar.version.layout import PIECE, VersionPaths, held_of, is_part_name, map_of
from stoker_sidecar.volumes.versions_on_disk import CacheFolders
from stoker_sidecar.wire.config.peer_tls import node_of
from stoker_sidecar.wire.fetcher_protocol import Inventory, InventoryQuery, Reply
from stoker_sidecar.wire.small_files import MOST_FILES, READER, SIZES, TOGETHER, told_sizes

# Seconds for which a request waits for its turn before it is refused. The peer gives up after 5 s of silence.
_TURN = 1.0
# Least bytes per second at which a peer must read. A slower transfer is aborted; the peer gives up at the same rate.
_SLOWEST = 2e6
_DEFAULT = UploadLimits()
# Most requests that wait for a change of the inventory. Further requests get an answer at once.
_MOST_WAITING = 64
_NUMBER = re.compile(r"[0-9]{1,18}")


class WantedSpan(NamedTuple):
    """A request for ``length`` bytes from ``offset`` of a file of ``size`` bytes. ``part``: name of its partial file.

    A length and a size of -1: the whole file.
    """

    path: str
    part: str = ""
    offset: int = 0
    length: int = -1
    size: int = -1

    @classmethod
    def read(cls, query: Mapping[str, str]) -> Self | None:
        """Read a request; None if it is invalid. Without an offset it is for the whole file."""
        if "offset" not in query:
            return cls(query["path"])
        try:
            span = cls(
                query["path"], query.get("part", ""), *(int(query[name]) for name in ("offset", "length", "size"))
            )
        except (KeyError, ValueError):
            return None
        within = span.offset >= 0 and 0 < span.length <= PIECE and span.offset + span.length <= span.size
        return span if within and span.offset % PIECE == 0 else None

    @property
    def piece(self) -> int:
        """Number of the piece."""
        return self.offset // PIECE


class PeerRefusal(StrEnum):
    """Why a peer's request was refused."""

    STRANGER = "Stranger"  # the plan does not name it for this Dataset and version
    BUSY = "Busy"  # all upload slots are in use
    MISSING = "Missing"  # the file or piece is not on this node


class PeerFiles:
    """Answers peers' requests for inventories and files of versions.

    ``ask`` sends a query to the fetcher and raises FetcherUnavailable. ``given``: sent bytes by UID. ``refused``:
    number of refusals by reason.
    """

    def __init__(
        self,
        plan: NodePlan,
        folders: CacheFolders,
        ask: Callable[[InventoryQuery], Awaitable[Reply]],
        limits: UploadLimits = _DEFAULT,
    ) -> None:
        self._plan = plan
        self._folders = folders
        self._ask = ask
        self._limits = limits
        self._uploads = Uploads(limits)
        self._slots = asyncio.Semaphore(limits.served)
        self._warm_turns = asyncio.Semaphore(limits.to_warm), self._slots
        self._waiting = 0
        self.given: Counter[str] = Counter()
        self.refused: Counter[PeerRefusal] = Counter()

    def add_to(self, application: web.Application) -> None:
        """Add the routes, below ``/files``."""
        application.router.add_get("/files/{uid}/{digest}", self._answer)

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        uid, digest = request.match_info["uid"], request.match_info["digest"]
        node = node_of(request.get_extra_info("peercert"))
        if self._limits.at_once == 0 or not self._may_have(node, uid, digest):
            self.refused[PeerRefusal.STRANGER] += 1
            return web.Response(status=403, text="this node is not among those that are to have this version\n")
        if "path" not in request.query:
            return await self._have(uid, digest, request.query.get("after", ""))
        if "together" in request.query:
            return await self._give_together(uid, digest, request.query.getall("path"))
        span = WantedSpan.read(request.query)
        return web.Response(status=400) if span is None else await self._give(request, uid, digest, span)

    def _may_have(self, node: str | None, uid: str, digest: str) -> bool:
        """Return True if the plan names the node for this version. The node's certificate proves its name."""
        dataset = self._plan.planned.get(uid)
        return dataset is not None and digest == dataset.version and node in dataset.groups.names

    async def _have(self, uid: str, digest: str, after: str) -> web.Response:
        known = int(after) if self._waiting < _MOST_WAITING and _NUMBER.fullmatch(after) else -1
        self._waiting += 1
        try:
            reply = await self._ask(InventoryQuery(uid, digest, known))
        except FetcherUnavailable:
            return web.Response(status=503)
        finally:
            self._waiting -= 1
        if not isinstance(reply, Inventory):
            return web.Response(status=404)
        headers = {"Stoker-Arrived": str(reply.arrived), "Stoker-Pieces": str(len(reply.pieces))}
        headers |= {"Stoker-Choice": reply.choice} if reply.choice else {}
        headers |= {"Stoker-Number": str(reply.number), TOGETHER: str(MOST_FILES)}
        return web.Response(body=reply.files + reply.pieces, headers=headers)

    async def _give(self, request: web.Request, uid: str, digest: str, span: WantedSpan) -> web.StreamResponse:
        turns = (self._slots,) if READER in request.query else self._warm_turns
        return await self._in_turn(uid, digest, lambda paths: self._send(request, uid, paths, span), turns)

    async def _give_together(self, uid: str, digest: str, wanted: list[str]) -> web.StreamResponse:
        """Send several small files in one response. It takes one turn and less time than a piece."""
        if len(wanted) > MOST_FILES:
            return web.Response(status=400, text=f"a node gives {MOST_FILES} files by one answer at most: ask again\n")

        async def send(paths: VersionPaths) -> web.StreamResponse:
            found = await asyncio.to_thread(read_small_files, paths, wanted)
            self.refused[PeerRefusal.MISSING] += found.count(None)
            body = b"".join(one for one in found if one is not None)
            await self._pace(uid, len(body))
            sizes = told_sizes([None if one is None else len(one) for one in found])
            return web.Response(body=body, headers={SIZES: sizes})

        return await self._in_turn(uid, digest, send, self._warm_turns)

    async def _in_turn(
        self,
        uid: str,
        digest: str,
        send: Callable[[VersionPaths], Awaitable[web.StreamResponse]],
        turns: Iterable[asyncio.Semaphore],
    ) -> web.StreamResponse:
        paths = self._folders.paths(uid, digest)
        if paths is None:
            return self._refuse(PeerRefusal.MISSING, 404)
        async with AsyncExitStack() as taken:
            try:
                async with asyncio.timeout(_TURN):
                    for turn in turns:
                        await taken.enter_async_context(turn)
            except TimeoutError:
                return self._refuse(PeerRefusal.BUSY, 503)
            return await send(paths)

    async def _pace(self, uid: str, size: int) -> None:
        self.given[uid] += size
        if (pause := self._uploads.pause(size, asyncio.get_running_loop().time())) > 0:
            await asyncio.sleep(pause)

    async def _send(self, request: web.Request, uid: str, paths: VersionPaths, span: WantedSpan) -> web.StreamResponse:
        pace = partial(self._pace, uid)
        descriptor = await asyncio.to_thread(_open, paths, span)
        if descriptor is None:
            return self._refuse(PeerRefusal.MISSING, 404)
        try:
            offset, length = span.offset, span.length
            return await send_file(request, descriptor, offset=offset, length=length, pace=pace, slowest=_SLOWEST)
        finally:
            os.close(descriptor)

    def _refuse(self, why: PeerRefusal, status: int) -> web.Response:
        self.refused[why] += 1
        return web.Response(status=status)


def _open(paths: VersionPaths, span: WantedSpan) -> int | None:
    """Open the file with these bytes: the complete file or the partial one. None if the bytes are missing. Blocks."""
    with suppress(OSError, ValueError):  # not complete here, not a file, or an invalid name
        descriptor = open_file_beneath(paths.root, paths.tree / span.path)
        if span.size in (-1, os.fstat(descriptor).st_size):
            return descriptor
        os.close(descriptor)
    if not is_part_name(span.part):
        return None
    with suppress(OSError):
        part = paths.parts / span.part
        if any(_marks(paths.root, marks, span.piece) for marks in (map_of(part), held_of(part))):
            return open_file_beneath(paths.root, part)
    return None


def _marks(root: Path, path: Path, piece: int) -> bool:
    with suppress(FileNotFoundError), _opened(root, path) as descriptor:
        return os.pread(descriptor, 1, piece) == b"\1"
    return False


@contextmanager
def _opened(root: Path, path: Path) -> Iterator[int]:
    descriptor = open_file_beneath(root, path)
    try:
        yield descriptor
    finally:
        os.close(descriptor)
