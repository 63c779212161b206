"""Other nodes that may have files whole: asked where this node has the certificate that all sidecars have."""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from enum import Enum, auto
from pathlib import Path
from typing import NamedTuple, Protocol

from stoker_sidecar.fetcher.core.division import COMING, HAD, HELD, PASSING
from stoker_sidecar.threads import in_thread
from stoker_sidecar.version.piece_maps import PieceMap
from stoker_sidecar.wire.peer_tls import left

_NO_PIECES = PieceMap("", b"")
_HAD = (HAD, HELD)


@dataclass(frozen=True)
class Having:
    """What another node has of a version: a byte an inode, 1 where the file is whole; and bytes that have arrived.

    ``pieces``: of large files that are not whole there, by inode. ``choice``: digest of the list of paths that are
    warmed there; empty: all is. ``number``: changes with what it has; -1: it does not say. ``together``: so many small
    files it gives by one request; 0: it is of a release that gives one at a time.
    """

    files: bytes
    arrived: int
    pieces: Mapping[int, PieceMap] = field(default_factory=dict)
    choice: str = ""
    number: int = -1
    together: int = 0

    def is_as(self, other: "Having | None") -> bool:
        """Tell whether the same can be had as is said there."""
        return other is not None and (self.files, self.pieces, self.choice) == (other.files, other.pieces, other.choice)

    def lacks(self, other: "Having") -> bool:
        """Tell whether a file that was whole there is so no more."""
        return self.files != other.files and int.from_bytes(other.files) & ~int.from_bytes(self.files) != 0

    def is_whole(self, ino: int) -> bool:
        """Tell whether a file is whole there."""
        return self.files[ino : ino + 1] == b"\1"

    def of(self, ino: int, count: int) -> bytes:
        """Return a byte for each of ``count`` pieces of a file: HAD or HELD where it can be had, or on its way."""
        return b"\1" * count if self.is_whole(ino) else self._map(ino).pieces

    def has(self, ino: int, chunk: int | None) -> bool:
        """Tell whether a piece of a file can be had; None: the whole file."""
        return self.is_whole(ino) or (chunk is not None and self._said(ino, chunk) in _HAD)

    def vouches(self, ino: int, chunk: int | None) -> bool:
        """Tell whether it can be had as the source sent it, so that what is wrong with it is that node's doing."""
        return self.has(ino, chunk) and (self.is_whole(ino) or chunk is None or self._said(ino, chunk) != HELD)

    def passes_on(self, ino: int, chunk: int) -> bool:
        """Tell whether another node gave that one a piece, or is giving it."""
        return not self.is_whole(ino) and self._said(ino, chunk) in (HELD, PASSING)

    def relays(self, ino: int, chunk: int) -> bool:
        """Tell whether a piece comes there, and can be had meanwhile."""
        return self._said(ino, chunk) in (COMING, PASSING)

    def part(self, ino: int) -> str:
        """Return the name of the file in the making there; empty where there is none."""
        return self._map(ino).name

    def _said(self, ino: int, chunk: int) -> int:
        pieces = self._map(ino).pieces
        return pieces[chunk] if chunk < len(pieces) else 0

    def _map(self, ino: int) -> PieceMap:
        return self.pieces.get(ino, _NO_PIECES)


# Is told the place of a file among those that were asked for, and its bytes; None: the node has it not.
Give = Callable[[int, bytes | None], None]


class Came(Enum):
    """What became of a file or a piece that another node was asked for."""

    WHOLE = auto()  # it is here
    BUSY = auto()  # the node gives as much as it may at this moment: ask later, or another one
    ABSENT = auto()  # the node says that it has it not
    NOTHING = auto()  # it did not come, or not all of it
    CUT = auto()  # it was to come behind another one that did not, in the same answer
    WRONG = auto()  # it is not what the source says it is
    USELESS = auto()  # it was not needed any more, or nothing would prove it


class Ask(NamedTuple):
    """What another node is asked for: bytes [offset, offset + length) of the file ``path`` of ``size`` bytes.

    ``part``: where it has them although it has not the whole file; empty: it has. ``passing``: others have them from
    here meanwhile. ``reader``: somebody waits for them.
    """

    path: str
    offset: int
    length: int
    size: int
    part: str = ""
    passing: bool = False
    reader: bool = False


class Neighbours(Protocol):
    """Other nodes that are to have the same version. ``peer``: host:port."""

    async def having(self, peer: str, inodes: int, after: int = -1) -> Having | None:
        """Ask what a node has, of a version of so many inodes; None: it does not say.

        ``after``: the number of what it had; it answers once it has more, or after some seconds.
        """
        ...

    async def bring(self, peer: str, ask: Ask, write: Callable[[bytes], None]) -> Came:
        """Hand bytes in order to ``write``, which runs in a thread: WHOLE, BUSY, ABSENT or NOTHING.

        Raises what ``write`` raises.
        """
        ...

    async def bring_files(self, peer: str, asks: Sequence[Ask], give: Give) -> Came:
        """Ask for small whole files by one request, of a node that gives some together, and ``give`` each as it comes.

        Return what became of those that were not given: BUSY, ABSENT or NOTHING.
        """
        ...


# Of the folder with this node's certificate, a dataset's UID and a digest.
Meet = Callable[[Path | None, str, str], AbstractAsyncContextManager[Neighbours | None]]


@asynccontextmanager
async def meet_by_tls(folder: Path | None, uid: str, digest: str) -> AsyncIterator[Neighbours | None]:
    """Give the neighbours for a version while inside; None while this node has no certificate to show.

    ``folder``: where the agent leaves it; None: nobody is asked.
    """
    try:
        known = await in_thread(left, folder) if folder is not None else None
        tls = known.client_context() if known is not None else None
    except (OSError, ValueError):  # it is replaced at this moment, or cannot be read: the next pass looks again
        tls = None
    if tls is None:
        yield None
        return
    # Late: aiohttp takes a tenth of a second at each start of a fetcher, and a mount or a lone node asks nobody.
    from stoker_sidecar.fetcher.download.tls_neighbours import tls_neighbours

    async with tls_neighbours(tls, uid, digest) as neighbours:
        yield neighbours
