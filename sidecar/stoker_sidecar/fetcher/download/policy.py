"""What the fetcher decides about downloads beside their order.

Who shares one, and what makes room for a file that does not fit.
"""

from collections.abc import Callable
from typing import Protocol

from stoker_sidecar.fetcher.cached_version import CachedVersion
from stoker_sidecar.fetcher.space.budget import VersionSpace

# Inode and number of the chunk: whoever asks for a piece under the same key shares its download.
DownloadKey = tuple[int, int]


class DownloadPolicy(Protocol):
    """The decisions for one version that benchmarks make in another way, to show what the product's are worth."""

    def key(self, ino: int, chunk: int) -> DownloadKey:
        """Return the key under which a piece is downloaded."""

    def make_room(self, size: int) -> bool:
        """Make room for a small file that a reader waits for and that does not fit; return whether it fits now."""

    def stays(self, ino: int) -> None:
        """Take note of a small file that has come and stays."""


PolicyFactory = Callable[[CachedVersion, VersionSpace], DownloadPolicy]


class KeepWhatCame:
    """The product's policy: one download a piece whoever asks, and what came first stays (ADR 7)."""

    def __init__(self, version: CachedVersion, space: VersionSpace) -> None:
        """Need nothing of the version: a policy that evicts would."""

    def key(self, ino: int, chunk: int) -> DownloadKey:
        """Return the same key for all askers of a piece."""
        return ino, chunk

    def make_room(self, size: int) -> bool:
        """Make none."""
        return False

    def stays(self, ino: int) -> None:
        """Take no note."""
