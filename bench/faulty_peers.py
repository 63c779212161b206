"""Nodes that exchange files over TLS while some of them lie, stall, disconnect and die, and their source."""

import asyncio
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

from bench.rated_source import RatedSource
from e2e.support.forgery import forged
from stoker_api.datasets.dataset_source import Source
from stoker_api.meta import ObjectMeta
from stoker_api.node_caches.node_dataset import NodeDataset
from stoker_api.node_caches.node_dataset_status import NodeDatasetStatus, NodePhase
from stoker_api.node_caches.nodecache import NodeCache, NodeCacheSpec
from stoker_operator.webhook.peer_authority import PeerSigner, renewed_authority
from stoker_sidecar.agent.http.peers.peer_files import PeerFiles
from stoker_sidecar.agent.http.peers.peer_server import PeerIdentity
from stoker_sidecar.agent.planning.plan import NodePlan
from stoker_sidecar.errors import NotYetConfigured, SidecarError
from stoker_sidecar.fetcher.datasets.node_context import NodeDependencies
from stoker_sidecar.fetcher.node.cache_node import CacheNode, CacheSettings
from stoker_sidecar.fetcher.peers.peer_client import PeerClient
from stoker_sidecar.fetcher.peers.tls_peers import Waits, tls_peer_client
from stoker_sidecar.version.manifest import Manifest
from stoker_sidecar.volumes.versions_on_disk import CacheFolders
from stoker_sidecar.wire.config.disk_floor import NO_FLOOR
from stoker_sidecar.wire.config.folders import FolderSpec
from stoker_sidecar.wire.config.peer_tls import PeerTls
from stoker_sidecar.wire.credentials import AmbientCredentials, Credentials
from stoker_sidecar.wire.fetcher_protocol import Configure, Failed, InventoryQuery, Read, Reply
from stoker_sidecar.wire.small_files import SIZES

UID = "bench-faults"
_BYTES = ("wrong bytes", "forged bytes", "too short", "too long", "nothing", "stall", "broken off", "busy")
_NOBODY: Mapping[int, float] = {}
_MAPS = ("has all", "has nothing", "garbage", "no answer", "stall")


class Faults:
    """Faults in a random ``share`` of a node's answers. ``counts`` has the number of each kind of fault.

    ``objects`` is the content of the source, from which forged bytes with the same CRC are made.
    """

    def __init__(self, seed: int, share: float, objects: Mapping[str, bytes]) -> None:
        self._objects = objects
        self._chance = random.Random(seed)
        self._share = share
        self.counts: Counter[str] = Counter()

    @web.middleware
    async def answer(
        self, request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> web.StreamResponse:
        """Answer as the node does, or with a fault."""
        if self._chance.random() >= self._share:
            return await handler(request)
        about = "path" not in request.query
        kind = self._chance.choice(_MAPS if about else _BYTES)
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
        # Report all pieces as present, also for several files. Faults are in the bytes or in their number.
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
            case "forged bytes":
                offset = int(request.query.get("offset", "0"))
                found = [self._objects[path][offset:][:length] for path in request.query.getall("path")]
                return web.Response(body=b"".join(map(forged, found)), headers=told)
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
    """One node: its cache, its server for peers with its faults, and the reads of its files."""

    cache: CacheNode
    root: Path
    plan: NodePlan
    faults: Faults
    peer: str
    end: Callable[[], Awaitable[None]]  # like a killed process: it stops listening and breaks its transfers off
    dead: bool = False
    failed_reads: list[str] = field(default_factory=list)
    reads: int = 0

    def status(self) -> NodeDatasetStatus | None:
        """Return the Dataset's status, or None if there is none so far."""
        return next((NodeDatasetStatus.model_validate(one) for one in self.cache.progress().datasets), None)

    async def configure(self, **changes: object) -> None:
        """Announce the Dataset to fetcher and agent."""
        row = {"namespace": "bench", "name": "faults", "uid": UID, "source": {"uri": "s3://bucket/faults"}} | changes
        entry = NodeDataset.model_validate(row)
        self.plan.take_node_cache(NodeCache(metadata=ObjectMeta(name="n"), spec=NodeCacheSpec(datasets=(entry,))))
        await self.cache.configure(Configure(row, AmbientCredentials()))

    async def die(self, seconds: float) -> None:
        """Stop the node for good after this number of seconds."""
        await asyncio.sleep(seconds)
        self.dead = True
        self.faults.counts["died"] += 1
        await self.end()

    def files(self, digest: str) -> Path:
        """Return the folder of complete files."""
        return self.root / "datasets" / UID / "versions" / digest / "tree"


@asynccontextmanager
async def faulty_node(
    root: Path, source: RatedSource, tls: PeerTls, faults: Faults, waits: Waits, pace: float
) -> AsyncIterator[FaultyNode]:
    """Open a node whose clock runs ``pace`` times as fast."""

    @asynccontextmanager
    async def meet(folder: Path | None, uid: str, digest: str, names: Mapping[str, str]) -> AsyncIterator[PeerClient]:
        async with tls_peer_client(tls.client_context(), uid, digest, names, waits) as client:
            yield client

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
    # Waits for more bytes use the real clock.
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


async def _answer(cache: CacheNode, request: InventoryQuery, *, waiting: bool) -> Reply:
    try:
        return await cache.have_more(request) if waiting else cache.have(request)
    except NotYetConfigured as error:
        return Failed(error.errno, error.message)


@dataclass(frozen=True)
class FaultyRun:
    """The result of one warm-up by all nodes."""

    seconds: float
    sent: int  # bytes sent by the source
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
    """Warm up one node for each of ``shares`` at once, and read during it. A share is that of the node's wrong answers.

    ``dies`` maps the number of a node to the seconds after which it stops for good. The run waits for all other nodes.
    """
    signer = PeerSigner(renewed_authority(None, datetime.now(UTC)))
    source, waits = RatedSource(objects, rate), Waits(*(seconds / pace for seconds in Waits()))
    async with AsyncExitStack() as stack:
        nodes = []
        for number, share in enumerate(shares):
            name = _name(number)
            faults = Faults(seed * 100 + number, share, objects)
            opening = faulty_node(folder / name, source, _tls(signer, name), faults, waits, pace)
            nodes.append(await stack.enter_async_context(opening))
        digest = await _listed(nodes)
        began = time.monotonic()
        for position, node in enumerate(nodes):
            others = [one.peer for one in nodes if one is not node]
            names = [_name(number) for number in range(len(nodes)) if number != position]
            more = {"position": position, "groups": {"names": names}}
            await node.configure(listingId="1", version=digest, eager=True, peers=others, **more)
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
        return FaultyRun(seconds, source.sent, counts, wrong, failed, sum(node.reads for node in nodes))


def _name(number: int) -> str:
    return f"node-{number}"


def _tls(signer: PeerSigner, name: str) -> PeerTls:
    identity = PeerIdentity()
    found = identity.certified(signer.sign(name, identity.public_key, datetime.now(UTC)))
    assert found is not None
    return found


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
    """Wait until the condition holds for the node's status, or the node has stopped."""
    while not node.dead and ((status := node.status()) is None or not holds(status)):  # noqa: ASYNC110 -- as above
        await asyncio.sleep(0.02)


async def _read(node: FaultyNode, digest: str, objects: Mapping[str, bytes], seed: int) -> None:
    """Read at random places, as pods do, and compare the bytes."""
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
        except FileNotFoundError:  # the file was moved into the tree during the read: file-system servers ask again
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
    """Return the wrong files in a node's tree. Missing files count, unless the node died."""
    tree = node.files(digest)
    there = [path for path in objects if not node.dead or (tree / path).exists()]
    return [path for path in there if (tree / path).read_bytes() != objects[path]]


def some_objects(small: int, size: int, large: Sequence[int], seed: int = 1) -> Mapping[str, bytes]:
    """Make a number of small files of one size, and large ones."""
    chance = random.Random(seed)
    objects = {f"train/{number:05}": chance.randbytes(size) for number in range(small)}
    return objects | {f"shard-{number}": os.urandom(length) for number, length in enumerate(large)}
