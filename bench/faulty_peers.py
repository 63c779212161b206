"""Nodes that take files from each other over TLS while some of them lie, stall, break off and die, and their source."""

import asyncio
import hashlib
import os
import random
import time
import zlib
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from aiohttp import web

from bench.proxy import Link
from stoker_api.dataset_source import Source
from stoker_api.meta import ObjectMeta
from stoker_api.node_dataset import NodeDataset
from stoker_api.nodecache import (
    NodeCache,
    NodeCacheSpec,
    NodeDatasetStatus,
    NodePhase,
)
from stoker_operator.webhook.certs import renewed_peer
from stoker_sidecar.agent.peer_files import PeerFiles
from stoker_sidecar.agent.plan import NodePlan
from stoker_sidecar.errors import NotYetConfigured, ObjectGone, SidecarError
from stoker_sidecar.fetcher.context import NodeDependencies
from stoker_sidecar.fetcher.download.neighbours import Neighbours
from stoker_sidecar.fetcher.download.tls_neighbours import Waits, tls_neighbours
from stoker_sidecar.fetcher.node import CacheNode, CacheSettings
from stoker_sidecar.store.base import Body, in_chunks
from stoker_sidecar.store.core.object_checksum import Checksum
from stoker_sidecar.version.manifest import Manifest
from stoker_sidecar.version.objects import ListedObject
from stoker_sidecar.volumes.versions_on_disk import CacheFolders
from stoker_sidecar.wire.cache_folder import FolderSpec
from stoker_sidecar.wire.credentials import AmbientCredentials, Credentials
from stoker_sidecar.wire.disk_floor import NO_FLOOR
from stoker_sidecar.wire.fetcher_protocol import Configure, Failed, Have, Reach, Read, Reply
from stoker_sidecar.wire.peer_tls import PeerTls
from stoker_sidecar.wire.small_files import SIZES

UID = "bench-faults"
_BLOCK = 64 * 1024
_BYTES = ("wrong bytes", "too short", "too long", "nothing", "stall", "broken off", "busy")
_NOBODY: Mapping[int, float] = {}
_MAPS = ("has all", "has nothing", "garbage", "no answer", "stall")


def _md5(content: bytes) -> str:
    return hashlib.md5(content, usedforsecurity=False).hexdigest()


class RatedSource:
    """An ObjectStore in memory whose answers share a line of so many bytes a second (0: any), with MD5s as ETags.

    ``sent``: bytes; ``asked``: how often for what, by path and offset.
    """

    def __init__(self, objects: Mapping[str, bytes], rate: float = 0.0) -> None:
        self._objects = objects
        self._etags = {
            path: hashlib.md5(content, usedforsecurity=False).hexdigest() for path, content in objects.items()
        }
        self._line = Link(rate)
        self.sent = 0
        self.asked: Counter[tuple[str, int]] = Counter()

    async def list(self) -> AsyncIterator[Sequence[ListedObject]]:
        """Yield one page of all objects."""
        yield [
            ListedObject(path.encode(), len(content), 10**18, self._etags[path], "")
            for path, content in self._objects.items()
        ]

    @asynccontextmanager
    async def get_range(
        self,
        path: str,
        offset: int,
        length: int,
        *,
        if_match: str,
        version_id: str = "",
        whole: bool = False,
        ahead: int = 0,
    ) -> AsyncIterator[Body]:
        """Give the bytes at the line's pace."""
        if path not in self._objects or if_match != self._etags[path]:
            raise ObjectGone(f"{path} is not in this source")
        self.asked[path, offset] += 1
        yield Body(in_chunks(self._stream(self._objects[path][offset : offset + length])))

    async def checksum(self, path: str, *, if_match: str, version_id: str = "") -> Checksum | None:
        """State none: the ETags prove all."""
        return None

    async def aclose(self) -> None:
        """Do nothing."""

    async def _stream(self, content: bytes) -> AsyncIterator[bytes]:
        for at in range(0, len(content), _BLOCK):
            block = content[at : at + _BLOCK]
            self.sent += len(block)
            if (wait := self._line.wait(len(block), time.monotonic())) > 0:
                await asyncio.sleep(wait)
            yield block


class Faults:
    """What goes wrong with a ``share`` of the answers of a node, by chance; ``counts``: how often what did."""

    def __init__(self, seed: int, share: float, kinds: Sequence[str] = _BYTES) -> None:
        self._chance = random.Random(seed)
        self._share = share
        self._kinds = kinds
        self.counts: Counter[str] = Counter()

    @property
    def total(self) -> int:
        """Faults so far."""
        return sum(self.counts.values())

    @web.middleware
    async def answer(
        self, request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> web.StreamResponse:
        """Answer as the node does, or wrongly."""
        if self._chance.random() >= self._share:
            return await handler(request)
        about = "path" not in request.query
        kind = self._chance.choice(_MAPS if about else self._kinds)
        self.counts[kind] += 1
        return await (self._lie_about(request, kind) if about else self._give(request, kind))

    async def _lie_about(self, request: web.Request, kind: str) -> web.StreamResponse:
        if kind == "no answer":
            return web.Response(status=404)
        if kind == "stall":
            await self._stall(request)
        files = {"has all": b"\1" * 100_000, "has nothing": b""}.get(kind)
        body = zlib.compress(files) if files is not None else self._chance.randbytes(50)
        pieces = str(self._chance.choice((0, 0, 7, 10**9, -1))) if kind == "garbage" else "0"
        headers = {"Stoker-Arrived": str(self._chance.randrange(10**9)), "Stoker-Pieces": pieces}
        return web.Response(body=body, headers=headers)

    async def _give(self, request: web.Request, kind: str) -> web.StreamResponse:
        count = len(request.query.getall("path"))
        length = int(request.query.get("length", f"{10_000 * count}"))
        # Of several files, too, all is said to be there: what is wrong is in the bytes, or how many they are.
        told = {SIZES: ",".join(["10000"] * count)}
        match kind:
            case "nothing":
                return web.Response(status=404)
            case "busy":
                return web.Response(status=503)
            case "too short" | "too long":
                return web.Response(body=bytes(max(0, length - 1) if kind == "too short" else length + 1), headers=told)
            case "wrong bytes":
                return web.Response(body=self._chance.randbytes(length), headers=told)
        response = web.StreamResponse(headers={"Content-Length": str(length)} | told)
        await response.prepare(request)
        await response.write(bytes(length // 2))
        if kind == "stall":
            await self._stall(request)
        if request.transport is not None:
            request.transport.abort()
        return response

    async def _stall(self, request: web.Request) -> None:
        while request.transport is not None and not request.transport.is_closing():  # noqa: ASYNC110 -- no event tells
            await asyncio.sleep(0.05)


@dataclass
class FaultyNode:
    """One node: its cache, its server for the others with its faults, and what was read of it."""

    cache: CacheNode
    root: Path
    plan: NodePlan
    faults: Faults
    peer: str
    end: Callable[[], Awaitable[None]]  # as a process that is killed: nobody listens, what it gives breaks off
    dead: bool = False
    failed_reads: list[str] = field(default_factory=list)
    reads: int = 0

    def status(self) -> NodeDatasetStatus | None:
        """Return the Dataset's status; None before there is one."""
        return next((NodeDatasetStatus.model_validate(one) for one in self.cache.progress().datasets), None)

    async def configure(self, **changes: object) -> None:
        """Tell fetcher and agent about the Dataset."""
        row = {"namespace": "bench", "name": "faults", "uid": UID, "source": {"uri": "s3://bucket/faults"}} | changes
        entry = NodeDataset.model_validate(row)
        self.plan.take_node_cache(NodeCache(metadata=ObjectMeta(name="n"), spec=NodeCacheSpec(datasets=(entry,))))
        await self.cache.configure(Configure(row, AmbientCredentials()))

    async def die(self, seconds: float) -> None:
        """Be gone for good after so many seconds."""
        await asyncio.sleep(seconds)
        self.dead = True
        self.faults.counts["died"] += 1
        await self.end()

    def files(self, digest: str) -> Path:
        """Return where whole files lie."""
        return self.root / "datasets" / UID / "versions" / digest / "tree"


@asynccontextmanager
async def faulty_node(
    root: Path, source: RatedSource, tls: PeerTls, faults: Faults, waits: Waits, pace: float
) -> AsyncIterator[FaultyNode]:
    """Open a node whose time goes ``pace`` times as fast."""

    @asynccontextmanager
    async def meet(folder: Path | None, uid: str, digest: str) -> AsyncIterator[Neighbours]:
        async with tls_neighbours(tls.client_context(), uid, digest, waits) as neighbours:
            yield neighbours

    async def open_store(_: Source, __: Credentials) -> RatedSource:
        return source

    outside = NodeDependencies(
        clock=lambda: time.monotonic() * pace,
        sleep=lambda seconds: asyncio.sleep(seconds / pace),
        open_store=open_store,
        meet=meet,
    )
    cache = CacheNode(CacheSettings((FolderSpec(str(root)),), floor=NO_FLOOR, memory_floor=NO_FLOOR), outside)
    await cache.open()
    plan, application = NodePlan(), web.Application(middlewares=[faults.answer])
    # One that waits until there is more does so by the real clock.
    answer = partial(_answer, cache, waiting=pace == 1.0)
    PeerFiles(plan, CacheFolders([root]), answer).add_to(application)
    runner = web.AppRunner(application, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls.server_context())
    await site.start()
    port = runner.addresses[0][1]

    async def end() -> None:
        await site.stop()
        for connection in runner.server.connections if runner.server is not None else ():
            if connection.transport is not None:
                connection.transport.abort()
        await cache.close()

    node = FaultyNode(cache, root, plan, faults, f"127.0.0.1:{port}", end)
    try:
        yield node
    finally:
        if not node.dead:
            await cache.close()
        await runner.cleanup()


async def _answer(cache: CacheNode, request: Have | Reach, *, waiting: bool) -> Reply:
    try:
        if isinstance(request, Reach):
            return await cache.reach(request)
        return await cache.have_more(request) if waiting else cache.have(request)
    except NotYetConfigured as error:
        return Failed(error.errno, error.message)


@dataclass(frozen=True)
class FaultyRun:
    """What came of one warm-up by all nodes."""

    seconds: float
    sent: int  # bytes, by the source
    again: int  # files and pieces that the source was asked for more than once: by readers, too
    faults: Counter[str]
    wrong_files: list[str]
    failed_reads: list[str]
    reads: int


async def run_faulty(
    folder: Path,
    objects: Mapping[str, bytes],
    shares: Sequence[float],
    *,
    seed: int,
    rate: float = 0.0,
    pace: float = 1.0,
    dies: Mapping[int, float] = _NOBODY,
) -> FaultyRun:
    """Have as many nodes as ``shares`` warm up at once, each of which answers wrongly so often, and read meanwhile.

    ``dies``: after how many seconds a node, by its number, is gone for good. The others are waited for.
    """
    material = renewed_peer(None, datetime.now(UTC))
    tls = PeerTls(*(text.decode() for text in (material.authorities, material.certificate, material.key)))
    source, waits = RatedSource(objects, rate), Waits(*(seconds / pace for seconds in Waits()))
    async with AsyncExitStack() as stack:
        nodes = []
        for number, share in enumerate(shares):
            faults = Faults(seed * 100 + number, share)
            opening = faulty_node(folder / f"node-{number}", source, tls, faults, waits, pace)
            nodes.append(await stack.enter_async_context(opening))
        digest = await _listed(nodes)
        began = time.monotonic()
        for position, node in enumerate(nodes):
            others = [one.peer for one in nodes if one is not node]
            await node.configure(listingId="1", version=digest, eager=True, peers=others, position=position)
        readers = [asyncio.create_task(_read(node, digest, objects, seed)) for node in nodes]
        dying = [asyncio.create_task(nodes[number].die(after)) for number, after in dies.items()]
        for node in nodes:
            await _until(node, lambda status: status.phase is NodePhase.WARM)
        seconds = time.monotonic() - began
        for task in (*readers, *(task for number, task in zip(dies, dying, strict=True) if not nodes[number].dead)):
            task.cancel()
        await asyncio.gather(*readers, *dying, return_exceptions=True)
        wrong = [f"{node.peer}: {path}" for node in nodes for path in _wrong_files(node, digest, objects)]
        counts = sum((node.faults.counts for node in nodes), Counter())
        failed = [sentence for node in nodes for sentence in node.failed_reads]
        again = sum(times > 1 for times in source.asked.values())
        return FaultyRun(seconds, source.sent, again, counts, wrong, failed, sum(node.reads for node in nodes))


async def _listed(nodes: Sequence[FaultyNode]) -> str:
    for node in nodes:
        await node.configure(listingId="1")
    digests = set()
    for node in nodes:
        await _until(node, lambda status: status.listing is not None and status.listing.version != "")
        status = node.status()
        assert status is not None
        assert status.listing is not None
        digests.add(status.listing.version)
    (digest,) = digests
    for node in nodes:
        await node.configure(listingId="1", version=digest)
        await _until(node, lambda status: status.phase is NodePhase.IDLE)
    return digest


async def _until(node: FaultyNode, holds: Callable[[NodeDatasetStatus], bool]) -> None:
    """Wait until it holds for the node's status, or the node is gone."""
    while not node.dead and ((status := node.status()) is None or not holds(status)):  # noqa: ASYNC110 -- as above
        await asyncio.sleep(0.02)


async def _read(node: FaultyNode, digest: str, objects: Mapping[str, bytes], seed: int) -> None:
    """Read as pods do, at random, and compare."""
    chance, paths = random.Random(seed), sorted(objects)
    manifest = Manifest.open(node.files(digest).parent / "manifest.sqlite")
    inodes = {path: entry.ino for path in paths if (entry := manifest.find(path)) is not None}
    manifest.close()
    while not node.dead:
        path = chance.choice(paths)
        offset = chance.randrange(max(1, len(objects[path])))
        node.reads += 1
        try:
            done = await node.cache.read(Read(UID, digest, inodes[path], offset, 4096))
            found = await asyncio.to_thread(_bytes_of, Path(done.file), offset, min(4096, len(objects[path]) - offset))
        except FileNotFoundError:  # moved into the tree meanwhile: file-system servers ask again
            continue
        except SidecarError as error:
            if node.dead:
                return
            node.failed_reads.append(f"{path}: {error.message}")
            continue
        if found != objects[path][offset : offset + 4096]:
            node.failed_reads.append(f"{path}: wrong bytes at {offset}")
        await asyncio.sleep(0.02)


def _bytes_of(path: Path, offset: int, length: int) -> bytes:
    with path.open("rb") as file:
        file.seek(offset)
        return file.read(length)


def _wrong_files(node: FaultyNode, digest: str, objects: Mapping[str, bytes]) -> list[str]:
    """Name the files in a node's tree that are wrong, or missing, which only one that died may have."""
    tree = node.files(digest)
    there = [path for path in objects if not node.dead or (tree / path).exists()]
    return [path for path in there if (tree / path).read_bytes() != objects[path]]


def some_objects(small: int, size: int, large: Sequence[int], seed: int = 1) -> Mapping[str, bytes]:
    """Make so many small files of a size, and large ones."""
    chance = random.Random(seed)
    objects = {f"train/{number:05}": chance.randbytes(size) for number in range(small)}
    return objects | {f"shard-{number}": os.urandom(length) for number, length in enumerate(large)}
