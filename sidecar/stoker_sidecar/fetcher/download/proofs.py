"""What proves a file that comes from elsewhere than its source: the source's own word, asked for once a file."""

import asyncio
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial

from stoker_sidecar.errors import SourceError
from stoker_sidecar.fetcher.cached_version import CachedVersion
from stoker_sidecar.fetcher.context import DownloadContext
from stoker_sidecar.fetcher.download.parts import is_whole
from stoker_sidecar.store.core.object_checksum import Checksum
from stoker_sidecar.version.manifest import Entry
from stoker_sidecar.worker.transfer import Piece


@dataclass
class Proofs:
    """The checksums of one version's files. A file's is kept until the file is whole."""

    version: CachedVersion
    context: DownloadContext
    _asked: "dict[int, asyncio.Task[Checksum | None]]" = field(default_factory=dict)

    async def of(self, entry: Entry) -> Checksum | None:
        """Return what a file must have: its ETag where that is a MD5, or what the source states of it.

        None: nothing would prove what another node gives. Small files are not asked about: they are fetched as fast.
        """
        if self.version.trust.worth_hashing(entry.etag):
            return Checksum("md5", bytes.fromhex(entry.etag))
        return await self.stated(entry) if not is_whole(entry.size) else None

    async def stated(self, entry: Entry) -> Checksum | None:
        """Return what a source states of a file. One that refuses or fails counts as one that states nothing."""
        asking = self._asked.get(entry.ino)
        if asking is None:
            asking = self._asked[entry.ino] = asyncio.create_task(self._ask(entry))
        stated: Checksum | None = None
        try:
            stated = await asyncio.shield(asking)
        finally:
            if asking.done() and stated is None:  # who failed may know better the next time
                self.forget(entry)
        return stated

    def forget(self, entry: Entry) -> None:
        """Forget it, once the file is whole or given up."""
        self._asked.pop(entry.ino, None)

    async def close(self) -> None:
        """Ask no more."""
        for asking in self._asked.values():
            asking.cancel()
        await asyncio.gather(*self._asked.values(), return_exceptions=True)
        self._asked.clear()

    async def _ask(self, entry: Entry) -> Checksum | None:
        key = self.version.manifest.path_of(entry)
        piece = Piece(
            key, entry.etag, entry.version_id, 0, entry.size, "", "", entry.size, entry.mtime_ns, hashing=False
        )
        for source in self.context.sources:
            with suppress(SourceError):
                if (stated := await self.context.settings.retry(partial(source.checksum, piece))) is not None:
                    return stated
        return None
