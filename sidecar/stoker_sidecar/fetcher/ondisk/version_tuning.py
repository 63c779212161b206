"""How the files of a version are treated, as the agent has said: looked up by inode. Nothing here decides."""

import zlib
from collections.abc import Sequence

from stoker_sidecar.errors import ProtocolError
from stoker_sidecar.wire.fetcher_hints import MOST_GROUPS, FileKnobs

# Inodes that can have a group, a byte each: more than any followed version has.
_MOST_INODES = 32 * 1024**2
# Versions of one dataset that are tuned at a time: the current one, and older ones that pods still use.
_MOST_VERSIONS = 16
_AS_EVER = FileKnobs()


class VersionTuning:
    """The knobs of each file of one version; without knobs everything is as without any rule.

    ``groups``: as in ``Tune``. Raises ProtocolError when it cannot be read, is too long, or names knobs there are not.
    """

    def __init__(self, knobs: Sequence[FileKnobs] = (), groups: bytes = b"") -> None:
        self._knobs = tuple(knobs) or (_AS_EVER,)
        self._groups = _unpacked(groups) if groups else b""
        if self._groups.translate(None, delete=bytes(range(min(len(self._knobs), MOST_GROUPS)))):
            raise ProtocolError(f"a tune request names more than its {len(self._knobs)} groups of files")

    def of(self, ino: int) -> FileKnobs:
        """Return the knobs of a file."""
        return self._knobs[self._groups[ino] if ino < len(self._groups) else 0]

    @property
    def turns(self) -> tuple[tuple[int, int], ...]:
        """Rank and weight in warm-up of the files that are treated alike in it, the first rank first."""
        return tuple(sorted({(knobs.warm_rank, knobs.weight) for knobs in self._knobs}))

    @property
    def leaves_out(self) -> bool:
        """Whether some files are not to be cached."""
        return not all(knobs.cached for knobs in self._knobs)

    @property
    def unasked(self) -> bool:
        """Whether some files are fetched before a read, even if the version is not warmed up."""
        return any(knobs.unasked for knobs in self._knobs)

    @property
    def follows_orders(self) -> bool:
        """Whether some files are fetched because a known order predicts them."""
        return any(knobs.ordered for knobs in self._knobs)

    @property
    def divides(self) -> bool:
        """Whether some files are divided among their nodes."""
        return any(knobs.divided for knobs in self._knobs)

    def divided(self, last_ino: int) -> bytes:
        """Return a byte an inode up to ``last_ino``: 1 if it is divided."""
        return self._translated([knobs.divided for knobs in self._knobs], last_ino)

    def numbered(self, last_ino: int) -> bytes:
        """Return a byte an inode up to ``last_ino``: which of ``turns`` it has, by number."""
        turns = self.turns
        return self._translated([turns.index((knobs.warm_rank, knobs.weight)) for knobs in self._knobs], last_ino)

    @property
    def keeps(self) -> tuple[int, ...]:
        """The ranks by which files are kept if not all fit. Files of the first rank leave first."""
        return tuple(sorted({knobs.keep for knobs in self._knobs}))

    def kept_as(self, last_ino: int) -> bytes:
        """Return a byte an inode up to ``last_ino``: the keep rank of a file, or 0 for a file that is not cached."""
        return self._translated([knobs.keep if knobs.cached else 0 for knobs in self._knobs], last_ino)

    def cached(self, last_ino: int) -> bytes:
        """Return a byte an inode up to ``last_ino``: 1 if it is cached."""
        return self._translated([knobs.cached for knobs in self._knobs], last_ino)

    def wanted_unasked(self, last_ino: int) -> bytes:
        """Return a byte an inode up to ``last_ino``: 1 if it is fetched before a read."""
        return self._translated([knobs.unasked for knobs in self._knobs], last_ino)

    @property
    def pages(self) -> bool:
        """Whether some files belong in the page cache."""
        return any(knobs.paged for knobs in self._knobs)

    @property
    def ranks(self) -> tuple[int, ...]:
        """The ranks of warm-up that files may have, the first one first."""
        return tuple(sorted({knobs.warm_rank for knobs in self._knobs}))

    def of_rank(self, rank: int, last_ino: int) -> bytes:
        """Return a byte an inode up to ``last_ino``: 1 if it has this rank."""
        return self._translated([knobs.warm_rank == rank for knobs in self._knobs], last_ino)

    def paged(self, rank: int, last_ino: int) -> bytes:
        """Return a byte an inode up to ``last_ino``: 1 if it has this rank and belongs in the page cache."""
        return self._translated([knobs.paged and knobs.warm_rank == rank for knobs in self._knobs], last_ino)

    def pages_like(self, other: "VersionTuning") -> bool:
        """Return True if both put the same files into the page cache."""
        last_ino = max(len(self._groups), len(other._groups))
        one, two = (tuning._translated([knobs.paged for knobs in tuning._knobs], last_ino) for tuning in (self, other))
        return one == two

    def _translated(self, by_group: Sequence[int], last_ino: int) -> bytes:
        groups = self._groups[: last_ino + 1].ljust(last_ino + 1, b"\0")
        return groups.translate(bytes(by_group).ljust(256, b"\0"))


class DatasetTuning:
    """Tuning of the versions of one dataset, by digest; the latest few."""

    def __init__(self) -> None:
        self._versions: dict[str, VersionTuning] = {}
        self._untuned = VersionTuning()

    def set(self, digest: str, tuning: VersionTuning) -> None:
        """Treat a version so from now on."""
        self._versions.pop(digest, None)
        self._versions[digest] = tuning
        while len(self._versions) > _MOST_VERSIONS:
            del self._versions[next(iter(self._versions))]

    def of(self, digest: str) -> VersionTuning:
        """Return how a version is treated."""
        return self._versions.get(digest, self._untuned)


def _unpacked(packed: bytes) -> bytes:
    unpacking = zlib.decompressobj()
    try:
        groups = unpacking.decompress(packed, _MOST_INODES)
    except zlib.error as error:
        raise ProtocolError(f"the groups of a tune request cannot be unpacked: {error}") from error
    if not unpacking.eof or unpacking.unused_data:
        raise ProtocolError(f"the groups of a tune request are not whole, or more than {_MOST_INODES} inodes")
    return groups
