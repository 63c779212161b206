"""Partial files: large ones that fill chunk by chunk, and files that are only read through. Sizes are bytes.

Names in ``parts`` are never reused: a reader of an open one sees bytes that only grow, and never those of a second
file.
"""

import asyncio
import hashlib
import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from secrets import token_hex
from time import time_ns

from stoker_sidecar.fetcher.ondisk.piece_maps import Gift
from stoker_sidecar.linux.files import disk_errors
from stoker_sidecar.store.core.object_checksum import joined_crc64nvme
from stoker_sidecar.version.layout import MAP_SUFFIX, PIECE, held_of, map_of


class Arrivals:
    """A number that changes whenever a file or a piece arrives. One event loop uses it."""

    def __init__(self) -> None:
        # The start value avoids numbers that an earlier process reported.
        self.number = time_ns() // 1_000_000
        self._next = asyncio.Event()

    def came(self) -> None:
        """Note that there is more."""
        self.number += 1
        self._next.set()
        self._next = asyncio.Event()

    async def past(self, number: int, most: float) -> None:
        """Wait until the number changes, for ``most`` seconds at most."""
        with suppress(TimeoutError):
            async with asyncio.timeout(most):
                while self.number == number:
                    await self._next.wait()


CHUNK = PIECE
_TEMPORARY_SUFFIX = ".tmp"
_HERE = b"\x01"
_READ = 2**20  # bytes
_NOBODY = (Gift(), b"")


def is_whole(size: int) -> bool:
    """Return True if a file of this size is fetched in one piece."""
    return size <= CHUNK


def chunk_count(size: int) -> int:
    """Count the chunks of a file; an empty one has none."""
    return -(-size // CHUNK)


def chunk_span(size: int, chunk: int) -> tuple[int, int]:
    """Return offset and length of a chunk."""
    offset = chunk * CHUNK
    return offset, min(CHUNK, size - offset)


def chunks_of(offset: int, length: int, size: int) -> range:
    """Return the chunks that hold [offset, offset + length), cut at the file's end."""
    end = min(offset + length, size)
    return range(offset // CHUNK, -(-end // CHUNK)) if offset < end else range(0)


@dataclass
class PartFile:
    """A partial file. ``chunks``: one byte each, 1 when it is here.

    ``kept``: it has a map on disk and is to move into the tree. ``sums``: CRC-64/NVME of chunks that this process saw
    arrive. ``held``: chunks that another node gave: written, and hidden from readers until the whole file is proven.
    ``given``: their givers and CRCs. ``incoming``: tasks that take a chunk from another node. ``replaced``: the first
    giver and the SHA-256 of each chunk that is doubted because the whole file was wrong. A CRC is not enough: a
    malicious node can make other bytes with the same one. ``doubted``: chunks that were doubted twice. Only the source
    may give them. ``lease``: until then a reader may still open the file by its name, in seconds of the event loop.
    """

    path: Path
    ino: int
    size: int
    chunks: bytearray
    kept: bool
    etag_may_be_md5: bool = True
    promoting: bool = False  # one download is moving it into the tree
    taken_back: bool = False  # a held chunk was withdrawn and is fetched again
    sums: dict[int, bytes] = field(default_factory=dict)
    held: set[int] = field(default_factory=set)
    given: dict[int, tuple[Gift, bytes]] = field(default_factory=dict)
    incoming: "dict[int, asyncio.Task[object]]" = field(default_factory=dict)
    replaced: dict[int, tuple[Gift, bytes]] = field(default_factory=dict)
    doubted: set[int] = field(default_factory=set)
    lease: float = 0.0

    @property
    def complete(self) -> bool:
        """Every chunk is here, be it held."""
        return self.chunks.count(0) == len(self.held)

    @property
    def there(self) -> bytes:
        """A byte a chunk: 1 where it is here, or held."""
        found = bytearray(self.chunks)
        for chunk in self.held:
            found[chunk] = 1
        return bytes(found)

    def has(self, chunk: int) -> bool:
        """Return True if a chunk is here, or held."""
        return bool(self.chunks[chunk]) or chunk in self.held

    def take_back(self, chunk: int) -> None:
        """Withdraw a held chunk, since it is requested from the source."""
        self.taken_back = self.taken_back or chunk in self.held
        self.held.discard(chunk)

    @property
    def bytes_here(self) -> int:
        """Bytes on the disk."""
        return sum(chunk_span(self.size, index)[1] for index, here in enumerate(self.chunks) if here)

    @property
    def bytes_held(self) -> int:
        """Bytes on the disk that nothing proves yet."""
        return sum(chunk_span(self.size, chunk)[1] for chunk in self.held)

    def crc64nvme(self) -> bytes | None:
        """Join the checksums of the whole file, as it arrived; None when an earlier process saw some of it arrive."""
        if len(self.sums) < len(self.chunks):
            return None
        spans = (chunk_span(self.size, chunk) for chunk in range(len(self.chunks)))
        return joined_crc64nvme((self.sums[chunk], length) for chunk, (_, length) in enumerate(spans))

    def mark(self, chunk: int) -> None:
        """Note that a chunk is written, on disk too when kept. Blocks. Raises DiskFull or CacheDiskFailed."""
        if self.kept:
            with disk_errors(self.path.name):
                _note(map_of(self.path), chunk)
        self.chunks[chunk] = 1

    def note_held(self, chunk: int) -> None:
        """Note on disk that a chunk from another node is written, for the peers that ask this node.

        Only ``hold`` counts in this process: after a restart the chunk is fetched again. Blocks. Raises DiskFull or
        CacheDiskFailed.
        """
        with disk_errors(self.path.name):
            _note(held_of(self.path), chunk)

    def hold(self, chunk: int, gift: Gift, crc64nvme: bytes) -> None:
        """Hold a chunk that another node gave and that is unproven."""
        self.held.add(chunk)
        self.given[chunk], self.sums[chunk] = (gift, crc64nvme), crc64nvme

    def held_from(self, gift: Gift) -> list[int]:
        """Return the held chunks that a node gave so."""
        return [chunk for chunk in self.held if self.given[chunk][0] == gift]

    def sha256_of(self, chunks: Iterable[int]) -> dict[int, bytes]:
        """Return the SHA-256 of chunks as they are on the disk. Blocks. Raises CacheDiskFailed."""
        with disk_errors(self.path.name), self.path.open("rb", buffering=0) as file:
            return {chunk: _sha256(file.fileno(), *chunk_span(self.size, chunk)) for chunk in chunks}

    def doubt(self, gift: Gift, sums: Mapping[int, bytes]) -> None:
        """Withdraw the held chunks of a giver. One more node may give each, and then only the source. Blocks briefly.

        ``sums``: the SHA-256 of these chunks.
        """
        doubted = set(self.held_from(gift)) & sums.keys()
        self.doubted |= doubted & self.replaced.keys()
        self.held -= doubted
        self.taken_back = self.taken_back or bool(doubted)
        for chunk in doubted:
            self.replaced.setdefault(chunk, (gift, sums[chunk]))
            del self.sums[chunk]
            with suppress(OSError):
                _note(held_of(self.path), chunk, b"\0")

    def found_wrong(self, chunk: int) -> set[Gift]:
        """Return the nodes that gave wrong bytes of a chunk, now that it is proven. Forget its givers.

        Blocks to read a chunk that was doubted. Raises CacheDiskFailed.
        """
        wrong: set[Gift] = set()
        if chunk not in self.held:
            gift, crc64nvme = self.given.pop(chunk, _NOBODY)
            wrong |= {gift} if crc64nvme != self.sums[chunk] else set()
        if chunk in self.replaced:
            gift, sha256 = self.replaced.pop(chunk)
            wrong |= {gift} if sha256 != self.sha256_of([chunk])[chunk] else set()
        return {gift for gift in wrong if gift.giver}

    def drop(self) -> None:
        """Delete the file and its maps, and ignore errors of the disk: a name is never reused. Blocks.

        FUSE servers keep files open. A file that was only read through is emptied as well, or its room stays taken.
        """
        for path in (map_of(self.path), held_of(self.path)):
            with suppress(OSError):
                path.unlink()
        with suppress(OSError):
            self._delete()

    def _delete(self) -> None:
        if self.kept:
            self.path.unlink()
            return
        descriptor = os.open(self.path, os.O_WRONLY | os.O_CLOEXEC)
        try:
            self.path.unlink()  # first: its link count shows a reader that the content is void
            os.ftruncate(descriptor, 0)
        finally:
            os.close(descriptor)


def _sha256(descriptor: int, offset: int, length: int) -> bytes:
    digest, end = hashlib.sha256(usedforsecurity=False), offset + length
    while offset < end and (block := os.pread(descriptor, min(_READ, end - offset), offset)):
        digest.update(block)
        offset += len(block)
    return digest.digest()


def _note(path: Path, chunk: int, here: bytes = _HERE) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        os.pwrite(descriptor, here, chunk)
    finally:
        os.close(descriptor)


def new_part(folder: Path, ino: int, size: int, *, kept: bool) -> PartFile:
    """Make a part with nothing in it. Blocks for a moment. Raises DiskFull or CacheDiskFailed."""
    path = folder / f"{ino}.{token_hex(4)}"
    with disk_errors(path.name):
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    return PartFile(path, ino, size, bytearray(max(1, chunk_count(size))), kept)


def temporary_name(folder: str, ino: int) -> str:
    """Return a path for a file until it is verified."""
    # The time separates it from leftovers of earlier attempts. Random bytes of the kernel take a system call.
    return f"{folder}/{ino}.{time_ns():x}{_TEMPORARY_SUFFIX}"


def kept_parts(folder: Path) -> dict[int, PartFile]:
    """Return the usable parts of an earlier process, by inode. Delete the rest. Blocks.

    The ``size`` of each is still unknown.
    """
    found: dict[int, PartFile] = {}
    for path in sorted(folder.iterdir()):
        if path.suffix == MAP_SUFFIX:
            continue
        map_path = map_of(path)
        ino = int(path.name.partition(".")[0])
        if map_path.exists() and ino not in found:
            found[ino] = PartFile(path, ino, 0, bytearray(map_path.read_bytes()), kept=True)
        else:
            path.unlink()
    for path in folder.glob(f"*{MAP_SUFFIX}"):
        if not path.with_suffix("").exists():
            path.unlink()
    return found
