"""Pieces that are on their way: what other nodes are told of them, and how much is here to be given on already."""

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass

from stoker_sidecar.fetcher.cached_version import CachedVersion
from stoker_sidecar.fetcher.core.division import COMING, HELD, PASSING
from stoker_sidecar.fetcher.download.download import Download
from stoker_sidecar.fetcher.download.parts import PartFile, PassedPiece, chunk_span
from stoker_sidecar.fetcher.download.policy import DownloadKey
from stoker_sidecar.version.part_files import is_part_name
from stoker_sidecar.wire.fetcher_protocol import Reached

# Bytes that are worth an answer at once; fewer are told after so many seconds; none, after so many.
_STEP, _SOON, _MOST = 2**19, 0.1, 3.0


@dataclass(frozen=True)
class ComingPieces:
    """What comes of one version. ``downloads``: from its sources, by inode and piece."""

    version: CachedVersion
    downloads: Mapping[DownloadKey, Download]

    def told(self, part: PartFile) -> bytes:
        """Return what other nodes are told of a file in the making: a byte a piece: HAD, HELD, COMING, PASSING or 0."""
        found = bytearray(part.chunks)
        for chunk in part.passing:
            found[chunk] = PASSING
        for chunk in part.held:
            found[chunk] = HELD
        for ino, chunk in self.downloads:
            if ino == part.ino and chunk < len(found) and found[chunk] in (0, PASSING):
                found[chunk] = COMING
        return bytes(found)

    async def past(self, name: str, chunk: int, known: int) -> Reached:
        """Say how many bytes of a piece are on the disk, from its front, of the file in the making ``name``.

        Waits for more than are ``known``, for 3 s at most.
        """
        found = await self._waited(name, chunk, known + _STEP, _SOON)
        return found if found.here != known else await self._waited(name, chunk, known + 1, _MOST)

    async def _waited(self, name: str, chunk: int, wanted: int, most: float) -> Reached:
        with suppress(TimeoutError):
            async with asyncio.timeout(most):
                while (one := self._on_its_way(name, chunk)) is not None and self._here(name, chunk) < wanted:
                    one.moved.clear()
                    await one.moved.wait()
        part = self._part(name)
        return Reached(self._here(name, chunk), part.restarts[chunk] if part is not None else 0)

    def _here(self, name: str, chunk: int) -> int:
        part = self._part(name)
        if part is None or chunk >= len(part.chunks):
            return -1
        offset, length = chunk_span(part.size, chunk)
        if part.chunks[chunk] or chunk in part.held:
            return length
        one = self._on_its_way(name, chunk)
        # Not the last one: an attempt that fails at its end has not given all of the piece to anyone.
        return min(max(0, one.reached - offset), length - 1) if one is not None else -1

    def _on_its_way(self, name: str, chunk: int) -> Download | PassedPiece | None:
        """Return a piece that comes to this file and is not all here; None: it does not come."""
        part = self._part(name)
        if part is None or chunk >= len(part.chunks) or part.chunks[chunk] or chunk in part.held:
            return None
        download = self.downloads.get((part.ino, chunk))
        if download is None:
            return part.passing.get(chunk)
        return download if download.into is None or download.into is part else None

    def _part(self, name: str) -> PartFile | None:
        """Find a file in the making that is to stay: others are dropped at any moment, and nobody is told of them."""
        part = self.version.parts.get(int(name.partition(".")[0])) if is_part_name(name) else None
        return part if part is not None and part.kept and part.path.name == name else None
