"""A pass of warming of a version that several nodes are to have: they divide it, and give each other their shares."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager, closing
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from stoker_api.nodecache import NodeDataset
from stoker_sidecar.fetcher.cached_version import CachedVersion
from stoker_sidecar.fetcher.core.division import OWN, DividedFile, PeerProgress, takes, turns, wanted
from stoker_sidecar.fetcher.core.lanes import WarmShare
from stoker_sidecar.fetcher.core.version_tuning import VersionTuning
from stoker_sidecar.fetcher.download.fetching import Fetching
from stoker_sidecar.fetcher.download.neighbours import Meet, Neighbours
from stoker_sidecar.fetcher.download.parts import is_whole
from stoker_sidecar.fetcher.download.warming import AccessOrder, MarkedOrder, WarmLimits, WarmPass
from stoker_sidecar.threads import in_thread
from stoker_sidecar.version.manifest import Entry, Manifest

# Seconds for which a node that does not get on is waited for: so much later, at most, is its share fetched here.
PATIENCE = 10.0
# Seconds in which nothing came at all, after which nobody is waited for any more in this pass.
_STUCK = 3 * PATIENCE
# Seconds between two questions what the others have: an answer about a million files costs each of them some 8 ms.
_LOOK, _LOOK_SELDOM, _LOOK_INODES = 0.5, 3.0, 1_000_000
# Files that a node failed to give, in a row, after which it is asked for no more in this pass.
_FAILURES = 8


@dataclass
class Division:
    """What is known of a version that is divided, from pass to pass. ``peers``: host:port of the others, in order.

    ``position``: of this node among all of them.
    """

    digest: str
    peers: tuple[str, ...]
    position: int
    progress: PeerProgress = field(default_factory=lambda: PeerProgress(PATIENCE))
    turn_of: bytes = b""

    @property
    def who(self) -> tuple[str, tuple[str, ...], int]:
        """What is divided, among whom; another one begins anew."""
        return self.digest, self.peers, self.position

    @property
    def others(self) -> dict[int, str]:
        """The others by their positions."""
        before, after = self.peers[: self.position], self.peers[self.position :]
        return dict(enumerate(before)) | dict(enumerate(after, start=self.position + 1))

    async def prepare(self, version: CachedVersion, tuning: VersionTuning) -> bytes:
        """Return the turn of each inode; those that no rule divides are each node's own."""
        if not self.turn_of:
            self.turn_of = await in_thread(_turns, version, len(self.peers) + 1)
        divided = tuning.divided(version.manifest.last_ino)
        turned = int.from_bytes(self.turn_of) | int.from_bytes(divided.translate(bytes([OWN]) + bytes(255)))
        return turned.to_bytes(len(self.turn_of))


def _turns(version: CachedVersion, nodes: int) -> bytes:
    """Walk over the version; blocks. A small file is divided only where its ETag proves what comes."""
    with closing(Manifest.open(version.paths.manifest)) as manifest:
        files = (
            DividedFile(entry.ino, entry.size, not is_whole(entry.size) or version.trust.worth_hashing(entry.etag))
            for entry in manifest.entries()
            if not entry.is_dir
        )
        return bytes(turns(files, manifest.last_ino, manifest.info.bytes, nodes))


@dataclass
class DividedPass(WarmPass):
    """A WarmPass that fetches this node's share from the source, and the others' from them, as they have it.

    What nobody else has for ``PATIENCE`` is fetched from the source as well. ``meet`` gives the neighbours.
    """

    division: Division = field(kw_only=True)
    meet: Callable[[], AbstractAsyncContextManager[Neighbours | None]] = field(kw_only=True)
    _neighbours: Neighbours | None = None
    _having: dict[int, bytes] = field(default_factory=dict)
    _failures: dict[int, int] = field(default_factory=dict)
    _refused: set[tuple[int, int]] = field(default_factory=set)
    _copying: dict[int, int] = field(default_factory=dict)  # by inode: who gives it
    _turn_of: bytes = b""
    _landed_at: float = field(init=False)
    _alone: bool = False
    _given: Iterator[Entry] = field(default_factory=lambda: iter(()))

    async def run(self) -> None:
        """Fetch: see WarmPass."""
        version, self._landed_at = self.fetching.version, self.limits.clock()
        self._turn_of = await self.division.prepare(version, self.fetching.tuning)
        async with self.meet() as self._neighbours:
            await self._look()
            looking = asyncio.create_task(self._look_on())
            looking.add_done_callback(lambda _: self._landed.set())
            try:
                while not self._over() and version.missing() > 0 and not looking.done():
                    await self._step()
                await self._until(self._idle)
                if looking.done():
                    looking.result()
            finally:
                looking.cancel()
                await asyncio.wait([looking])
                await self._end_runs()

    async def _step(self) -> None:
        """Start one file of the own share, and one that another node has; wait where there is neither."""
        own, given = next(self._upcoming, None), next(self._given, None)
        if own is not None and (is_whole(own.size) or self.fetching.admits(own)):
            await self._start_all(own)
        if given is not None:
            await self._start_copy(given)
        if own is None and given is None:
            self._landed.clear()
            await self._landed.wait()
        else:
            await asyncio.sleep(0)

    async def _start_copy(self, entry: Entry) -> None:
        await self._until(lambda: self._over() or self._in_flight < self.limits.slots.of(self.limits.uid))
        giver = self._giver(entry.ino)
        if self._over() or giver is None or self._neighbours is None or not self.fetching.version.is_missing(entry.ino):
            return
        if self.limits.bucket is not None:
            await self._pause(self.limits.bucket.take(entry.size, self.limits.clock()))
        self._copying[entry.ino] = giver
        self._in_flight += 1
        bring = partial(self._neighbours.bring, self.division.others[giver])
        self.fetching.start_copy(entry, bring).add_done_callback(partial(self._copied, entry.ino))

    def _giver(self, ino: int) -> int | None:
        """Return who has a file and gives the fewest at this moment."""
        busy = list(self._copying.values())
        able = [
            position
            for position, files in self._having.items()
            if files[ino : ino + 1] == b"\1" and (position, ino) not in self._refused
        ]
        return min(able, key=lambda position: (busy.count(position), position), default=None)

    def _learn(self, ino: int, task: asyncio.Task[None]) -> None:
        super()._learn(ino, task)
        self._landed_at = self.limits.clock()

    def _copied(self, ino: int, task: "asyncio.Task[bool]") -> None:
        self._in_flight -= 1
        self._landed_at = self.limits.clock()
        self._landed.set()
        giver = self._copying.pop(ino)
        if not task.cancelled() and task.exception() is None and task.result():
            self._failures[giver] = 0
            return
        self._refused.add((giver, ino))
        self._failures[giver] = self._failures.get(giver, 0) + 1

    async def _look_on(self) -> None:
        load = len(self._turn_of) * len(self.division.peers) / _LOOK_INODES
        while True:
            await self.limits.sleep(min(_LOOK_SELDOM, _LOOK * max(1.0, load)))
            await self._look()

    async def _look(self) -> None:
        """Ask what the others have, and decide anew what is whose."""
        others = {at: peer for at, peer in self.division.others.items() if self._failures.get(at, 0) < _FAILURES}
        inodes, now = len(self._turn_of), self.limits.clock
        if self._neighbours is not None:
            asked = [self._neighbours.having(peer, inodes) for peer in others.values()]
            for (position, peer), said in zip(others.items(), await asyncio.gather(*asked), strict=True):
                self.division.progress.told(peer, said.arrived if said is not None else -1, now())
                self._having[position] = said.files if said is not None else b""
        self._having = {at: files for at, files in self._having.items() if at in others}
        # Whatever the others say of how they get on: where nothing comes they are not waited for any more.
        self._alone = self._alone or self._neighbours is None or now() - self._landed_at > _STUCK
        alive = () if self._alone else self.division.progress.alive(others, now())
        self._decide(set(alive))
        self._landed.set()

    def _decide(self, alive: set[int]) -> None:
        """Decide what comes from where; what a node failed to give, and what has begun to come, is fetched here."""
        turn_of = bytearray(self._turn_of)
        for ino in {*(ino for _, ino in self._refused), *self.fetching.version.parts}:
            turn_of[ino] = OWN
        nodes = len(self.division.peers) + 1
        decided = wanted(bytes(turn_of), takes(self.division.position, nodes, alive), self._having.values())
        self._upcoming = self._sighted(self._in_order(decided.from_source))
        self._given = self._in_order(decided.from_others)

    def _in_order(self, marks: bytes) -> Iterator[Entry]:
        """Yield those of the marked files that are missing and not under way, by rank."""
        version, tuning = self.fetching.version, self.fetching.tuning
        busy = self.fetching.busy() | {*self._runs.values()}
        for rank in tuning.ranks:
            of_rank = int.from_bytes(tuning.of_rank(rank, version.manifest.last_ino)) & int.from_bytes(marks)
            for entry in MarkedOrder(version, of_rank.to_bytes(len(marks))):
                if entry.ino not in self._copying and entry.ino not in busy:
                    yield entry


class WarmPasses:
    """Makes the passes of warming of one dataset: divided with other nodes, where a rule says so and there are any.

    ``meet`` gives the neighbours, by what the agent leaves in the folder ``meeting``; None: nobody is asked.
    """

    def __init__(self, meet: Meet, meeting: Path | None) -> None:
        self._meet = meet
        self._meeting = meeting
        self._division: Division | None = None

    def make(
        self, fetching: Fetching, order: AccessOrder, limits: WarmLimits, share: WarmShare, config: NodeDataset
    ) -> WarmPass:
        """Make the pass over a version of the dataset ``config``."""
        digest = fetching.version.paths.folder.name
        divides = fetching.tuning.divides and fetching.version.chosen.selection is None
        if not (config.eager and config.peers and digest == config.version and divides):
            return WarmPass(fetching, order, limits, share)
        division = Division(digest, config.peers, min(config.position, len(config.peers)))
        if self._division is None or self._division.who != division.who:
            self._division = division
        met = partial(self._meet, self._meeting, config.uid, digest)
        return DividedPass(fetching, order, limits, share, division=self._division, meet=met)
