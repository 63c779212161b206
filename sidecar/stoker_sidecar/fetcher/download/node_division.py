"""What nodes that divide a version know of each other, and of its files, from pass to pass."""

from collections.abc import Iterable
from contextlib import closing
from dataclasses import dataclass, field
from typing import Self

from stoker_sidecar.fetcher.cached_version import CachedVersion
from stoker_sidecar.fetcher.core.division import OWN, DividedFile, PeerProgress, turns
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

    ``upstream``: of those that stand before the source. ``choice``: digest of the list of paths that are warmed; empty:
    all of it is. ``distances``: of ``peers`` and then ``upstream``, as far as they are known; more is farther away.
    """

    digest: str
    peers: tuple[str, ...]
    position: int
    upstream: tuple[str, ...] = ()
    choice: str = ""
    distances: tuple[int, ...] = ()
    progress: PeerProgress = field(default_factory=lambda: PeerProgress(PATIENCE))
    turn_of: bytes = b""

    @property
    def who(self) -> tuple[object, ...]:
        """What is divided, among whom; another one begins anew."""
        return self.digest, self.choice, self.peers, self.position, self.upstream, self.distances

    @property
    def others(self) -> dict[int, str]:
        """The others by their positions."""
        before, after = self.peers[: self.position], self.peers[self.position :]
        return dict(enumerate(before)) | dict(enumerate(after, start=self.position + 1))

    @property
    def distance_of(self) -> dict[str, int]:
        """How far away the others are, of those of whom it is known."""
        return dict(zip((*self.peers, *self.upstream), self.distances, strict=False))

    def after(self, before: Self | None) -> Self:
        """Go on with what is known of the same version, which others divide now."""
        if before is not None and (before.digest, before.choice) == (self.digest, self.choice):
            self.progress, self.turn_of = before.progress, before.turn_of
        return self

    async def prepare(self, version: CachedVersion, tuning: VersionTuning) -> bytes:
        """Return the turn of each inode; those that a rule leaves undivided, or no path names, are each node's own."""
        if not self.turn_of:
            self.turn_of = await in_thread(_turns, version, version.chosen.selection)
        divided = tuning.divided(version.manifest.last_ino)
        turned = int.from_bytes(self.turn_of) | int.from_bytes(divided.translate(bytes([OWN]) + bytes(255)))
        return turned.to_bytes(len(self.turn_of))


def _turns(version: CachedVersion, selection: PathSelection | None) -> bytes:
    """Walk over what is warmed, in its order; blocks. A small file is divided only where its ETag proves what comes."""
    with closing(Manifest.open(version.paths.manifest)) as manifest:
        total = manifest.info.bytes if selection is None else selection.total_bytes
        files = (
            DividedFile(entry.ino, entry.size, not is_whole(entry.size) or version.trust.worth_hashing(entry.etag))
            for entry in _warmed(manifest, selection)
            if not entry.is_dir
        )
        return bytes(turns(files, manifest.last_ino, total))


def _warmed(manifest: Manifest, selection: PathSelection | None) -> Iterable[Entry]:
    if selection is None:
        return manifest.entries()
    return entries_of(manifest, selection.in_order(selection.marks))
