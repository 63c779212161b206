"""Other nodes that may have files whole: asked where this node has the certificate that all sidecars have."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import NamedTuple, Protocol

from stoker_sidecar.threads import in_thread
from stoker_sidecar.wire.peer_tls import left


class Having(NamedTuple):
    """What another node has of a version: a byte an inode, 1 where the file is whole; and bytes that have arrived."""

    files: bytes
    arrived: int


class Neighbours(Protocol):
    """Other nodes that are to have the same version. ``peer``: host:port."""

    async def having(self, peer: str, inodes: int) -> Having | None:
        """Ask what a node has, of a version of so many inodes; None: it does not say."""
        ...

    async def bring(self, peer: str, path: str, size: int, write: Callable[[bytes], None]) -> bool:
        """Hand a file's bytes in order to ``write``, which runs in a thread; False: they did not come.

        Raises what ``write`` raises.
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
