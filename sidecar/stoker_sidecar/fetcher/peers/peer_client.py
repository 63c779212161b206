"""Client for other nodes that may have complete files. It works only on a node with a certificate."""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from enum import Enum, auto
from pathlib import Path
from typing import NamedTuple, Protocol

from stoker_sidecar.fetcher.ondisk.piece_maps import PieceMap
from stoker_sidecar.fetcher.peers.core.division import HAD, HELD
from stoker_sidecar.threads import in_thread
from stoker_sidecar.wire.config.peer_tls import left

_NO_PIECES = PieceMap("", b"")
_HAD = (HAD, HELD)


@dataclass(frozen=True)
class Having:
    """Inventory of another node: a byte an inode, 1 where the file is whole, and the number of bytes that have arrived.

    ``pieces``: of large files that are incomplete there, by inode. ``choice``: digest of the list of paths that are
    warmed there; empty means all. ``number``: changes with the inventory; -1 if the node sends none. ``together``: the
    number of small files that it gives in one request; 0 for a release that gives one at a time.
    """

    files: bytes
    arrived: int
    pieces: Mapping[int, PieceMap] = field(default_factory=dict)
    choice: str = ""
    number: int = -1
    together: int = 0

    def is_as(self, other: "Having | None") -> bool:
        """Return True if both inventories offer the same."""
        return other is not None and (self.files, self.pieces, self.choice) == (other.files, other.pieces, other.choice)

    def lacks(self, other: "Having") -> bool:
        """Return True if a file that was whole in the other inventory is missing here."""
        return self.files != other.files and int.from_bytes(other.files) & ~int.from_bytes(self.files) != 0

    def is_whole(self, ino: int) -> bool:
        """Return True if a file is whole there."""
        return self.files[ino : ino + 1] == b"\1"

    def of(self, ino: int, count: int) -> bytes:
        """Return a byte for each of ``count`` pieces of a file: HAD, HELD, COMING or 0."""
        return b"\1" * count if self.is_whole(ino) else self._map(ino).pieces

    def has(self, ino: int, chunk: int | None) -> bool:
        """Return True if a piece of a file is available there. None: the whole file."""
        return self.is_whole(ino) or (chunk is not None and self._said(ino, chunk) in _HAD)

    def vouches(self, ino: int, chunk: int | None) -> bool:
        """Return True if the node has it as the source sent it. Wrong content is then the fault of that node."""
        return self.has(ino, chunk) and (self.is_whole(ino) or chunk is None or self._said(ino, chunk) != HELD)

    def passes_on(self, ino: int, chunk: int) -> bool:
        """Return True if that node has a piece from another node, and nothing proves it yet."""
        return not self.is_whole(ino) and self._said(ino, chunk) == HELD

    def part(self, ino: int) -> str:
        """Return the name of the partial file there; empty if it has none."""
        return self._map(ino).name

    def _said(self, ino: int, chunk: int) -> int:
        pieces = self._map(ino).pieces
        return pieces[chunk] if chunk < len(pieces) else 0

    def _map(self, ino: int) -> PieceMap:
        return self.pieces.get(ino, _NO_PIECES)


# Receives the position of a file in the request, and its bytes. None: the node lacks the file.
Give = Callable[[int, bytes | None], None]


class Came(Enum):
    """The outcome of a request to another node for a file or a piece."""

    WHOLE = auto()  # it is here
    BUSY = auto()  # the node is at its limit now
    ABSENT = auto()  # the node lacks it
    NOTHING = auto()  # it did not come, or only in part
    CUT = auto()  # an earlier file of the same answer did not come
    WRONG = auto()  # its checksum differs from the source's
    USELESS = auto()  # it arrived too late, or nothing can prove it


class Ask(NamedTuple):
    """A request to another node: bytes [offset, offset + length) of the file ``path`` of ``size`` bytes.

    ``part``: the partial file that has them; empty: the node has the whole file. ``reader``: a reader waits.
    """

    path: str
    offset: int
    length: int
    size: int
    part: str = ""
    reader: bool = False


class PeerClient(Protocol):
    """Other nodes with the same version. ``peer``: host:port."""

    async def having(self, peer: str, inodes: int, after: int = -1) -> Having | None:
        """Ask a node for its inventory of a version of ``inodes`` inodes. None: it does not answer.

        ``after``: the number of the last inventory. The node answers once it has more, or after some seconds.
        """
        ...

    async def bring(self, peer: str, ask: Ask, write: Callable[[bytes], None]) -> Came:
        """Pass bytes in order to ``write``, which runs in a thread. Return WHOLE, BUSY, ABSENT or NOTHING.

        Raises the errors of ``write``.
        """
        ...

    async def bring_files(self, peer: str, asks: Sequence[Ask], give: Give) -> Came:
        """Request several small whole files from a node that supports it. Call ``give`` for each as it arrives.

        Return the outcome of the rest: BUSY, ABSENT or NOTHING.
        """
        ...


# Of the folder with this node's certificate, a dataset's UID, a digest, and the nodes' names by host:port.
Meet = Callable[[Path | None, str, str, Mapping[str, str]], AbstractAsyncContextManager[PeerClient | None]]


@asynccontextmanager
async def meet_by_tls(
    folder: Path | None, uid: str, digest: str, names: Mapping[str, str]
) -> AsyncIterator[PeerClient | None]:
    """Yield a client of the peers with a version. Yield None while this node has no certificate.

    ``folder``: the agent leaves the certificate there; None: no node is asked.
    """
    try:
        known = await in_thread(left, folder) if folder is not None else None
        tls = known.client_context() if known is not None else None
    except (OSError, ValueError):  # it is replaced at this moment, or cannot be read: the next pass looks again
        tls = None
    if tls is None:
        yield None
        return
    # A late import. aiohttp takes 0.1 s at each start of a fetcher, and a mount or a single node asks no peers.
    from stoker_sidecar.fetcher.peers.tls_peers import tls_peer_client

    async with tls_peer_client(tls, uid, digest, names) as client:
        yield client
