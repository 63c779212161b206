"""A piece of an object on its way to the disk, and where pieces come from."""

from collections.abc import Callable
from typing import NamedTuple, Protocol

from stoker_api.dataset import Source
from stoker_sidecar.store.base import ObjectStore
from stoker_sidecar.store.core.object_checksum import Checksum
from stoker_sidecar.wire.credentials import Credentials

Arrived = Callable[[int], None]  # is told of bytes as they reach the disk


class Piece(NamedTuple):
    """Bytes [offset, offset + length) of an object, written to the same place of the file ``into``.

    ``target``: the file is whole with this piece, and gets this name, ``size`` checked and ``mtime_ns`` set; empty: it stays
    where it is. ``hashing``: the body's MD5 is wanted, unless the source states a checksum, and when it is not the ETag the
    file does not get its name.
    """

    key: str  # path below the source's folder
    etag: str
    version_id: str
    offset: int
    length: int
    into: str
    target: str
    size: int
    mtime_ns: int
    hashing: bool


class Fetched(NamedTuple):
    """The piece is on the disk. ``published``: and has its name. ``md5``: hexadecimal; empty when it was not taken.

    ``crc64nvme``: hexadecimal, of a piece that is not the whole file; empty for one that is.
    """

    published: bool
    md5: str
    etag_may_be_md5: bool
    crc64nvme: str = ""


class PieceSource(Protocol):
    """Somewhere pieces can be had. A version asks its sources in turn; the object store is the last and has everything.

    Another node's cache would be one more, before it.
    """

    async def fetch(self, piece: Piece, arrived: Arrived) -> Fetched | None:
        """Bring a piece. None: it is not here, ask the next one.

        Raises SourceError, CorruptBody, DiskFull, CacheDiskFailed.
        """
        ...

    async def checksum(self, piece: Piece) -> Checksum | None:
        """Of the whole object that the piece is of, as this source states it; None when it does not. Raises SourceError."""
        ...


class Origin(Protocol):
    """A dataset's connection to its object store: what a worker needs to open one of its own, and this process's own."""

    source: Source
    credentials: Credentials

    async def store(self) -> ObjectStore:
        """Raises SourceError when it cannot be opened."""
        ...


class PieceFetcher(Protocol):
    """Does the work of a fetch, in this process or in others."""

    async def fetch(self, origin: Origin, piece: Piece, arrived: Arrived) -> Fetched:
        """As PieceSource. Cancelled, it returns when no one writes to the file any more."""
        ...

    def forget(self, origin: Origin) -> None:
        """Its connections are not needed any more."""
        ...
