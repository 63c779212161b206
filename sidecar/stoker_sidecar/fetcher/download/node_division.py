"""What nodes that divide a version know of each other, and of its files, from pass to pass."""

from collections.abc import Callable, Iterable
from contextlib import closing
from dataclasses import dataclass, field
from typing import Self

from stoker_sidecar.fetcher.cached_version import CachedVersion
from stoker_sidecar.fetcher.core.division import OWN, DividedFile, PeerProgress, Sharers, VersionTurns, turns
from stoker_sidecar.fetcher.core.source_share import ShareGrowth, SourceShare
from stoker_sidecar.fetcher.core.version_tuning import VersionTuning
from stoker_sidecar.fetcher.download.chosen_order import entries_of
from stoker_sidecar.fetcher.download.parts import is_whole
from stoker_sidecar.threads import in_thread
from stoker_sidecar.version.manifest import Entry, Manifest
from stoker_sidecar.version.path_selection import PathSelection

# Seconds for which a node that does not get on is waited for: so much later, at most, is its share fetched here.
PATIENCE = 10.0


@dataclass
class Division:
    """A version and who divides it. ``peers``: host:port of the others, in order. ``position``: of this node among all.

    ``links``: of nodes of other groups. ``share``: the part that this group fetches from the source. ``choice``: digest
    of the list of paths that are warmed; empty: all of it is. ``distances``: of ``peers`` and then ``links``, as far as
    they are known; more is farther away.
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
        """What is divided, among whom; another one begins anew."""
        return self.digest, self.choice, self.peers, self.position, self.links, self.share, self.distances

    @property
    def asked(self) -> tuple[str, ...]:
        """All who are asked."""
        return (*self.peers, *self.links)

    @property
    def begin(self) -> float:
        """Where in the version, from 0 to 1, this node begins with what others give."""
        return self.share.begin(self.position, len(self.peers) + 1)

    @property
    def place(self) -> float:
        """Where in the version, from 0 to 1, this node begins so that the others of its group begin elsewhere."""
        return (self.begin + self.position / (len(self.peers) + 1)) % 1.0 if self.share.is_all else self.begin

    @property
    def others(self) -> dict[int, str]:
        """The others by their positions."""
        before, after = self.peers[: self.position], self.peers[self.position :]
        return dict(enumerate(before)) | dict(enumerate(after, start=self.position + 1))

    @property
    def distance_of(self) -> dict[str, int]:
        """How far away the others are, of those of whom it is known."""
        return dict(zip(self.asked, self.distances, strict=False))

    def sharers(self, growth: ShareGrowth, may_ask: Callable[[str], bool], now: float) -> Sharers:
        """Return who fetches from the source; ``may_ask``: whether another node is asked.

        Where nothing comes, whatever the others say of how they get on, they are waited for no more; and who answers
        may be waiting as this one does.
        """
        speaking = {peer for peer in self.asked if may_ask(peer) and self.progress.speaks(peer, now)}
        alone = growth.alone or not speaking
        alive = {
            at
            for at, peer in self.others.items()
            if peer in speaking and not alone and (growth.has_grown or self.progress.gets_on(peer, now))
        }
        return Sharers(self.position, len(self.peers) + 1, frozenset(alive), alone)

    def after(self, before: Self | None) -> Self:
        """Go on with what is known of the same version, which others divide now."""
        if before is not None and (before.digest, before.choice) == (self.digest, self.choice):
            self.progress, self._turns = before.progress, before._turns
        return self

    async def prepare(self, version: CachedVersion, tuning: VersionTuning, share: SourceShare) -> VersionTurns:
        """Return turns where the group fetches this part.

        What a rule leaves undivided, or no path names, is each node's own.
        """
        if self._turns is None or self._turns[0] != share:
            self._turns = share, await in_thread(_turns, version, version.chosen.selection, share)
        found = self._turns[1]
        divided = tuning.divided(version.manifest.last_ino)
        turned = int.from_bytes(found.files) | int.from_bytes(divided.translate(bytes([OWN]) + bytes(255)))
        return found._replace(files=turned.to_bytes(len(found.files)))


def _turns(version: CachedVersion, selection: PathSelection | None, share: SourceShare) -> VersionTurns:
    """Walk over what is warmed, in its order; blocks. A small file is divided only where its ETag proves what comes."""
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
