"""Gives other nodes the files and pieces that are here: to those alone that are to have the same Dataset."""

import asyncio
import os
import re
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import AsyncExitStack, contextmanager, suppress
from enum import StrEnum
from functools import partial
from pathlib import Path

from aiohttp import web

from stoker_sidecar.agent.core.uploads import UploadLimits, Uploads
from stoker_sidecar.agent.core.wanted_span import WantedSpan
from stoker_sidecar.agent.file_response import Pace, send_file
from stoker_sidecar.agent.plan import NodePlan
from stoker_sidecar.agent.relayed_pieces import RelayedPieces
from stoker_sidecar.agent.small_files import read_small_files
from stoker_sidecar.errors import FetcherUnavailable
from stoker_sidecar.linux.beneath import open_file_beneath
from stoker_sidecar.version.layout import VersionPaths
from stoker_sidecar.version.part_files import held_of, is_part_name, map_of
from stoker_sidecar.volumes.versions_on_disk import CacheFolders
from stoker_sidecar.wire.fetcher_protocol import Had, Have, Reach, Reply
from stoker_sidecar.wire.small_files import MOST_FILES, READER, SIZES, TOGETHER, told_sizes

# Seconds that who asks waits for its turn, before it is told to ask later: it gives up after 5 s of silence.
_TURN = 1.0
# Bytes a second at which who asked takes them at least, or the turn is another's: as slow an answer it gives up itself.
_SLOWEST = 2e6
_DEFAULT = UploadLimits()
# Those that wait for more at a time, each of which asks once; who comes then is answered at once.
_MOST_WAITING = 64
_NUMBER = re.compile(r"[0-9]{1,18}")


class PeerRefusal(StrEnum):
    """Why another node was not given what it asked for."""

    STRANGER = "Stranger"  # the operator did not name it for this Dataset and version
    BUSY = "Busy"  # as much is being given as may be
    MISSING = "Missing"  # it is not here, or not any more


class PeerFiles:
    """What a node answers to others about the files of versions.

    ``ask``: has the fetcher answer; raises FetcherUnavailable. ``given``: bytes by UID; ``refused``: answers by why.
    """

    def __init__(
        self,
        plan: NodePlan,
        folders: CacheFolders,
        ask: Callable[[Have | Reach], Awaitable[Reply]],
        limits: UploadLimits = _DEFAULT,
    ) -> None:
        self._plan = plan
        self._folders = folders
        self._ask = ask
        self._limits = limits
        self._uploads = Uploads(limits)
        self._slots = asyncio.Semaphore(limits.served)
        self._warm_turns = asyncio.Semaphore(limits.to_warm), self._slots
        self._relayed = RelayedPieces(ask, limits.relayed)
        self._waiting = 0
        self.given: Counter[str] = Counter()
        self.refused: Counter[PeerRefusal] = Counter()

    def add_to(self, application: web.Application) -> None:
        """Answer there, below ``/files``."""
        application.router.add_get("/files/{uid}/{digest}", self._answer)

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        uid, digest = request.match_info["uid"], request.match_info["digest"]
        if self._limits.at_once == 0 or not self._may_have(request.remote, uid, digest):
            self.refused[PeerRefusal.STRANGER] += 1
            return web.Response(status=403, text="this node is not among those that are to have this version\n")
        if "path" not in request.query:
            return await self._have(uid, digest, request.query.get("after", ""))
        if "together" in request.query:
            return await self._give_together(uid, digest, request.query.getall("path"))
        span = WantedSpan.read(request.query)
        return web.Response(status=400) if span is None else await self._give(request, uid, digest, span)

    def _may_have(self, remote: str | None, uid: str, digest: str) -> bool:
        """Tell whether the operator named who asks: the certificate says only that it is some node."""
        dataset = self._plan.planned.get(uid)
        if dataset is None or digest != dataset.version:
            return False
        return remote in [_host(one) for one in (*dataset.peers, *dataset.links)]

    async def _have(self, uid: str, digest: str, after: str) -> web.Response:
        known = int(after) if self._waiting < _MOST_WAITING and _NUMBER.fullmatch(after) else -1
        self._waiting += 1
        try:
            reply = await self._ask(Have(uid, digest, known))
        except FetcherUnavailable:
            return web.Response(status=503)
        finally:
            self._waiting -= 1
        if not isinstance(reply, Had):
            return web.Response(status=404)
        headers = {"Stoker-Arrived": str(reply.arrived), "Stoker-Pieces": str(len(reply.pieces))}
        headers |= {"Stoker-Choice": reply.choice} if reply.choice else {}
        headers |= {"Stoker-Number": str(reply.number), TOGETHER: str(MOST_FILES)}
        return web.Response(body=reply.files + reply.pieces, headers=headers)

    async def _give(self, request: web.Request, uid: str, digest: str, span: WantedSpan) -> web.StreamResponse:
        turns = (self._slots,) if READER in request.query else self._warm_turns
        return await self._in_turn(uid, digest, lambda paths: self._send(request, uid, digest, paths, span), turns)

    async def _give_together(self, uid: str, digest: str, wanted: list[str]) -> web.StreamResponse:
        """Give several small files by one answer: it takes one turn, and less than a piece does."""
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

    async def _send(
        self, request: web.Request, uid: str, digest: str, paths: VersionPaths, span: WantedSpan
    ) -> web.StreamResponse:
        pace = partial(self._pace, uid)
        descriptor = await asyncio.to_thread(_open, paths, span)
        if descriptor is None:
            return await self._relay(request, Reach(uid, digest, span.part, span.piece), paths, span, pace)
        try:
            offset, length = span.offset, span.length
            return await send_file(request, descriptor, offset=offset, length=length, pace=pace, slowest=_SLOWEST)
        finally:
            os.close(descriptor)

    async def _relay(
        self, request: web.Request, about: Reach, paths: VersionPaths, span: WantedSpan, pace: Pace
    ) -> web.StreamResponse:
        """Give what is not whole here, if it is on its way."""
        if not is_part_name(span.part):
            return self._refuse(PeerRefusal.MISSING, 404)
        if not self._relayed.free:
            return self._refuse(PeerRefusal.BUSY, 503)
        return await self._relayed.send(request, about, paths, span, pace) or self._refuse(PeerRefusal.MISSING, 404)

    def _refuse(self, why: PeerRefusal, status: int) -> web.Response:
        self.refused[why] += 1
        return web.Response(status=status)


def _open(paths: VersionPaths, span: WantedSpan) -> int | None:
    """Open the file that has these bytes: the whole one, or that in the making. Blocks. None: they are not here."""
    with suppress(OSError, ValueError):  # not whole here, no file, or no name
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


def _host(address: str) -> str:
    return address.rpartition(":")[0].strip("[]")
