"""A CacheNode over stores in memory, without waits, for tests of its behavior."""

import asyncio
import errno
import os
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from backports import zstd

from stoker_api.backoff import BackoffPolicy
from stoker_api.datasets.dataset_source import Source
from stoker_api.node_caches.node_dataset_status import NodeDatasetStatus, NodePhase
from stoker_sidecar.fetcher.datasets.node_context import NodeDependencies
from stoker_sidecar.fetcher.node.cache_node import CacheNode, CacheSettings
from stoker_sidecar.fetcher.node.pinning import PinSettings
from stoker_sidecar.fetcher.node.scrub import ScrubPass, ScrubSettings
from stoker_sidecar.fetcher.ondisk.parts import CHUNK
from stoker_sidecar.fetcher.pages.core.page_room import MemoryFigures
from stoker_sidecar.fetcher.peers.peer_client import Meet, meet_by_tls
from stoker_sidecar.fetcher.sources.core.bandwidth import TokenBucket
from stoker_sidecar.fetcher.sources.piece_sources import InProcess, PieceFetcher
from stoker_sidecar.fetcher.space.cache_disk import space_of
from stoker_sidecar.store.base import ObjectStore
from stoker_sidecar.version.manifest import Manifest
from stoker_sidecar.wire.config.disk_floor import NO_FLOOR, DiskFloor, DiskSpace
from stoker_sidecar.wire.config.folders import FolderSpec
from stoker_sidecar.wire.credentials import AmbientCredentials, Credentials
from stoker_sidecar.wire.fetcher_protocol import Configure, Read, ReadDone
from tests.fakes.object_store import MemoryStore
from tests.support.waiting import eventually

SMALL = {"train/a": b"alpha", "train/b": b"beta" * 1000, "test/c": b"gamma", "zero": b""}
LARGE = os.urandom(CHUNK) + os.urandom(CHUNK) + b"the end"
UID = "uid-1"
_AT_ONCE = BackoffPolicy(0.001, 0.01)
DATASET: dict[str, Any] = {"namespace": "vision", "name": "digits", "uid": UID, "source": {"uri": "s3://bucket/p"}}


async def at_once(seconds: float) -> None:
    """Sleep for no time, but let other tasks run."""
    await asyncio.sleep(0)


@dataclass
class Clock:
    """A clock that a test advances. Real time counts as well, until it is stopped."""

    ahead: float = 0.0
    stopped_at: float | None = None

    def __call__(self) -> float:
        return (time.monotonic() if self.stopped_at is None else self.stopped_at) + self.ahead

    def stop(self) -> None:
        """Stop the real time."""
        self.stopped_at = time.monotonic()


@dataclass
class CacheNodeUnderTest:
    """A CacheNode with its clock and its ``stores`` for tests: one store for each bucket name."""

    node: CacheNode
    root: Path
    clock: Clock = field(default_factory=Clock)
    stores: dict[str, MemoryStore] = field(default_factory=lambda: {"bucket": MemoryStore()})

    @property
    def store(self) -> MemoryStore:
        return self.stores["bucket"]

    async def configure(self, *, held: tuple[str, ...] = (), **changes: Any) -> None:
        """Send the dataset to the node, with camelCase changes to DATASET."""
        await self.node.configure(Configure(DATASET | changes, AmbientCredentials(), held))

    def status(self, uid: str = UID) -> NodeDatasetStatus:
        """Return the Dataset's status as the agent sees it."""
        statuses = (NodeDatasetStatus.model_validate(dataset) for dataset in self.node.progress().datasets)
        return next(status for status in statuses if status.uid == uid)

    async def reach(self, condition: Callable[[NodeDatasetStatus], bool], uid: str = UID) -> NodeDatasetStatus:
        """Return the status when the condition holds."""
        await eventually(lambda: condition(self.status(uid)))
        return self.status(uid)

    async def list(self, listing_id: str = "1", **changes: Any) -> str:
        """List the source. Return the digest."""
        await self.configure(listingId=listing_id, **changes)
        status = await self.reach(
            lambda s: s.listing is not None and s.listing.id == listing_id and not s.listing.error
        )
        assert status.listing is not None
        return status.listing.version

    async def warm(self, listing_id: str = "1", **changes: Any) -> str:
        """List, and wait until everything is local. Return the digest."""
        digest = await self.list(listing_id, **changes)
        await self.configure(**{"listingId": listing_id, "version": digest, "eager": True, **changes})
        await self.reach(lambda s: s.phase is NodePhase.WARM and s.version == digest)
        return digest

    def folder(self, digest: str) -> Path:
        """Return the folder of a version."""
        return self.root / "datasets" / UID / "versions" / digest

    def chunks_here(self, digest: str) -> int:
        """Return the number of local chunks of incomplete large files."""
        return sum(path.read_bytes().count(1) for path in (self.folder(digest) / "parts").glob("*.map"))

    def copies(self, digest: str) -> dict[int, Path]:
        """Return the compressed copies of the version, by inode."""
        return {int(path.stem): path for path in (self.folder(digest) / "packed").glob("*.zst")}

    def tree(self, digest: str) -> dict[str, bytes]:
        """Return the content of the version's tree by path."""
        tree = self.folder(digest) / "tree"
        return {str(path.relative_to(tree)): path.read_bytes() for path in tree.rglob("*") if path.is_file()}

    async def repair(self, digest: str, path: str) -> None:
        """Repair a file of an open version, as the scrub does with a damaged file."""
        dataset = self.node._datasets[UID]
        fetching = dataset.versions.fetchings[digest]
        entry = fetching.version.manifest.find(path)
        assert entry is not None
        await ScrubPass(dataset, fetching, TokenBucket(1, self.clock()), self.node._scrubber).repair(path, entry)

    def is_open(self, digest: str) -> bool:
        """Return True if a version is open."""
        return UID in self.node._datasets and digest in self.node._datasets[UID].versions.fetchings

    async def read(self, digest: str, ino: int, offset: int, length: int) -> bytes:
        """Read as a file-system server does: ask, then pread. If nothing can be read, ask again with the doubt flag."""
        try:
            found = content(await self.node.read(Read(UID, digest, ino, offset, length)))
        except OSError:
            found = content(await self.node.read(Read(UID, digest, ino, offset, length, doubt=True)))
        return found[offset : offset + length]


def _much() -> MemoryFigures:
    return MemoryFigures(total=2**40, available=2**40)


@asynccontextmanager
async def open_cache_node(
    root: Path,
    stores: dict[str, MemoryStore] | None = None,
    transient: int = 2**28,
    folders: tuple[FolderSpec, ...] = (),
    capacity: int | None = None,
    inodes: int = 0,
    floor: DiskFloor | None = None,
    scrub_interval: float = 0.0,
    fetcher: PieceFetcher | None = None,
    meet: Meet = meet_by_tls,
    pinning: PinSettings | None = None,
    last_files: bool = True,
    passing: bool = False,
) -> AsyncIterator[CacheNodeUnderTest]:
    """Open one on the cache folder ``root``, or on several ``folders``. It is closed at exit, and the disk stays.

    ``capacity`` is the bytes for the files of each tree, and ``inodes`` their number (0: unlimited). The default is
    that of the machine. ``floor`` is the free part, by default nothing. ``scrub_interval`` is in seconds, 0 for never.
    ``fetcher`` downloads pieces, by default this process. ``meet`` returns peers. ``pinning`` limits the pinned memory
    of Datasets, by default nothing. ``last_files`` enables the unrequested completion pass. With ``passing``, the clock
    stands still except in the node's sleeps.
    """
    found = stores if stores is not None else {"bucket": MemoryStore()}

    async def open_store(source: Source, credentials: Credentials) -> ObjectStore:
        return found[source.uri.removeprefix("s3://").partition("/")[0]]

    clock = Clock()
    if passing:
        clock.stop()

    async def pass_by(seconds: float) -> None:
        clock.ahead += seconds
        await asyncio.sleep(0)

    space = space_of if capacity is None else partial(_space_left, capacity, inodes)
    world = NodeDependencies(
        clock,
        pass_by if passing else at_once,
        backoff=_AT_ONCE,
        open_store=open_store,
        fetcher=fetcher or InProcess(),
        space=space,
        memory=_much,
        meet=meet,
    )
    settings = CacheSettings(
        folders or (FolderSpec(str(root)),),
        floor=NO_FLOOR if floor is None else floor,
        memory_floor=NO_FLOOR,
        transient_limit=transient,
        scrub=ScrubSettings(scrub_interval),
        pinning=pinning or PinSettings(),
        last_files=last_files,
    )
    node = CacheNode(settings, world)
    await node.open()
    try:
        yield CacheNodeUnderTest(node, root, clock, found)
    finally:
        await node.close()


def _space_left(capacity: int, inodes: int, root: Path) -> DiskSpace:
    files = {
        path.stat().st_ino: path.stat().st_size
        for path in root.glob("datasets/*/versions/*/tree/**/*")
        if path.is_file()
    }
    return DiskSpace(capacity - sum(files.values()), capacity, inodes - len(files), inodes)


def content(answer: ReadDone) -> bytes:
    """Return the content of the file that the fetcher names. Raises OSError, also for a damaged compressed copy."""
    found = Path(answer.file).read_bytes()
    if answer.place != "packed":
        return found
    try:
        return zstd.decompress(found)
    except zstd.ZstdError as error:
        raise OSError(errno.EIO, str(error)) from error


def fill(store: MemoryStore, content: dict[str, bytes]) -> None:
    """Put objects of one date."""
    for path, data in content.items():
        store.put(path, data, mtime_ns=1_700_000_000_000_000_000)


def inode(cache_node: CacheNodeUnderTest, digest: str, path: str) -> int:
    """Return the inode of a path of a version."""
    manifest = Manifest.open(cache_node.folder(digest) / "manifest.sqlite")
    entry = manifest.find(path)
    manifest.close()
    assert entry is not None
    return entry.ino


def flip_a_bit(path: Path) -> None:
    """Flip one bit of a file of the tree without notice. Size and date stay."""
    before = path.stat()
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.chmod(0o644)
    path.write_bytes(data)
    path.chmod(0o444)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
