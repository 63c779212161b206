"""Knowledge that the nodes of a divided version keep of each other and of its files, from pass to pass."""

from collections.abc import Callable, Iterable
from contextlib import closing
from dataclasses import dataclass, field
from typing import Self

from stoker_sidecar.fetcher.ondisk.cached_version import CachedVersion
from stoker_sidecar.fetcher.ondisk.choosing import entries_of
from stoker_sidecar.fetcher.ondisk.parts import is_whole
from stoker_sidecar.fetcher.ondisk.path_selection import PathSelection
from stoker_sidecar.fetcher.ondisk.version_tuning import VersionTuning
from stoker_sidecar.fetcher.peers.core.division import OWN, DividedFile, PeerProgress, PeerSet, VersionTurns, turns
from stoker_sidecar.fetcher.peers.core.source_share import ShareGrowth, SourceShare
from stoker_sidecar.threads import in_thread
from stoker_sidecar.version.manifest import Entry, Manifest

# Seconds that this node waits for a node without progress. After that, it fetches that node's share.
PATIENCE = 10.0


@dataclass
class Division:
    """A version and the nodes that divide it.

    ``peers``: host:port of the other nodes of the group, in order. ``position``: of this node among all. ``links``:
    nodes of other groups. ``share``: the part that this group fetches from the source. ``choice``: digest of the list
    of warmed paths; empty means all. ``distances``: of ``peers`` and then ``links``, where they are known; a larger
    number is farther away.
    """

    digest: str
    peers: tuple[str, ...]
    position: int
    links: tuple[str, ...] = ()
    share: SourceShare = field(default_factory=SourceShare)
    choice: str = ""
    distances: tuple[int, ...] = ()
    progress: PeerProgress = field(default_factory=lambda: PeerProgress(PATIENCE))
    _turns: tuple[SourceShare, VersionTurns] | None = None

    @property
    def who(self) -> tuple[object, ...]:
        """The identity of the division. A change starts the pass again."""
        return self.digest, self.choice, self.peers, self.position, self.links, self.share, self.distances

    @property
    def asked(self) -> tuple[str, ...]:
        """All nodes that this node asks."""
        return (*self.peers, *self.links)

    @property
    def begin(self) -> float:
        """Position in the version, from 0 to 1, where this node begins with the items that peers give."""
        return self.share.begin(self.position, len(self.peers) + 1)

    @property
    def place(self) -> float:
        """Position in the version, from 0 to 1, where this node begins. It differs from its group's positions."""
        return (self.begin + self.position / (len(self.peers) + 1)) % 1.0 if self.share.is_all else self.begin

    @property
    def others(self) -> dict[int, str]:
        """The peers by their positions."""
        before, after = self.peers[: self.position], self.peers[self.position :]
        return dict(enumerate(before)) | dict(enumerate(after, start=self.position + 1))

    @property
    def distance_of(self) -> dict[str, int]:
        """Known distances of the peers."""
        return dict(zip(self.asked, self.distances, strict=False))

    def sharers(self, growth: ShareGrowth, may_ask: Callable[[str], bool], now: float) -> PeerSet:
        """Return the nodes that fetch from the source. ``may_ask``: returns True if a node may be asked.

        If nothing comes, this node stops waiting for its peers, even if they report progress. A node that answers may
        itself be waiting.
        """
        speaking = {peer for peer in self.asked if may_ask(peer) and self.progress.speaks(peer, now)}
        alone = growth.alone or not speaking
        alive = {
            at
            for at, peer in self.others.items()
            if peer in speaking and not alone and (growth.has_grown or self.progress.gets_on(peer, now))
        }
        return PeerSet(self.position, len(self.peers) + 1, frozenset(alive), alone)

    def after(self, before: Self | None) -> Self:
        """Take over what is known of the same version from the division before."""
        if before is not None and (before.digest, before.choice) == (self.digest, self.choice):
            self.progress, self._turns = before.progress, before._turns
        return self

    async def prepare(self, version: CachedVersion, tuning: VersionTuning, share: SourceShare) -> VersionTurns:
        """Return the turns for the part that the group fetches.

        Each node itself fetches the undivided files: those that a rule leaves undivided, or that no path names.
        """
        if self._turns is None or self._turns[0] != share:
            self._turns = share, await in_thread(_turns, version, version.chosen.selection, share)
        found = self._turns[1]
        divided = tuning.divided(version.manifest.last_ino)
        turned = int.from_bytes(found.files) | int.from_bytes(divided.translate(bytes([OWN]) + bytes(255)))
        return found._replace(files=turned.to_bytes(len(found.files)))


def _turns(version: CachedVersion, selection: PathSelection | None, share: SourceShare) -> VersionTurns:
    """Assign turns to the files to warm, in order. Blocks. A small file is divided only if its ETag proves it."""
    with closing(Manifest.open(version.paths.manifest)) as manifest:
        total = manifest.info.bytes if selection is None else selection.total_bytes
        files = (
            DividedFile(entry.ino, entry.size, not is_whole(entry.size) or version.trust.worth_hashing(entry.etag))
            for entry in _warmed(manifest, selection)
            if not entry.is_dir
        )
        return turns(files, manifest.last_ino, total, share)


def _warmed(manifest: Manifest, selection: PathSelection | None) -> Iterable[Entry]:
    if selection is None:
        return manifest.entries()
    return entries_of(manifest, selection.in_order(selection.marks))
