"""What nodes that divide a version know of each other, and of its files, from pass to pass."""

from contextlib import closing
from dataclasses import dataclass, field
from typing import Self

from stoker_sidecar.fetcher.cached_version import CachedVersion
from stoker_sidecar.fetcher.core.division import OWN, DividedFile, PeerProgress, turns
from stoker_sidecar.fetcher.core.version_tuning import VersionTuning
from stoker_sidecar.fetcher.download.parts import is_whole
from stoker_sidecar.threads import in_thread
from stoker_sidecar.version.manifest import Manifest

# Seconds for which a node that does not get on is waited for: so much later, at most, is its share fetched here.
PATIENCE = 10.0


@dataclass
class Division:
    """A version and who divides it. ``peers``: host:port of the others, in order. ``position``: of this node among all.

    ``upstream``: of those that stand before the source.
    """

    digest: str
    peers: tuple[str, ...]
    position: int
    upstream: tuple[str, ...] = ()
    progress: PeerProgress = field(default_factory=lambda: PeerProgress(PATIENCE))
    turn_of: bytes = b""

    @property
    def who(self) -> tuple[str, tuple[str, ...], int, tuple[str, ...]]:
        """What is divided, among whom; another one begins anew."""
        return self.digest, self.peers, self.position, self.upstream

    @property
    def others(self) -> dict[int, str]:
        """The others by their positions."""
        before, after = self.peers[: self.position], self.peers[self.position :]
        return dict(enumerate(before)) | dict(enumerate(after, start=self.position + 1))

    def after(self, before: Self | None) -> Self:
        """Go on with what is known of the same version, which others divide now."""
        if before is not None and before.digest == self.digest:
            self.progress, self.turn_of = before.progress, before.turn_of
        return self

    async def prepare(self, version: CachedVersion, tuning: VersionTuning) -> bytes:
        """Return the turn of each inode; those that a rule leaves undivided, or nobody chose, are each node's own."""
        if not self.turn_of:
            self.turn_of = await in_thread(_turns, version)
        divided = tuning.divided(version.manifest.last_ino)
        turned = int.from_bytes(self.turn_of) | int.from_bytes(divided.translate(bytes([OWN]) + bytes(255)))
        return turned.to_bytes(len(self.turn_of))


def _turns(version: CachedVersion) -> bytes:
    """Walk over the version; blocks. A small file is divided only where its ETag proves what comes."""
    with closing(Manifest.open(version.paths.manifest)) as manifest:
        files = (
            DividedFile(entry.ino, entry.size, not is_whole(entry.size) or version.trust.worth_hashing(entry.etag))
            for entry in manifest.entries()
            if not entry.is_dir
        )
        return bytes(turns(files, manifest.last_ino, manifest.info.bytes))
