"""Files in the making: large ones that fill chunk by chunk, and those that are only read through. Bytes everywhere.

Names in ``parts`` are never used twice: whoever has one open sees bytes that only grow, never another file's.
"""

import asyncio
import os
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from secrets import token_hex
from time import time_ns

from stoker_sidecar.fetcher.core.givers import Gift
from stoker_sidecar.linux.files import disk_errors
from stoker_sidecar.store.core.object_checksum import joined_crc64nvme
from stoker_sidecar.version.part_files import MAP_SUFFIX, PIECE, held_of, map_of

CHUNK = PIECE
_TEMPORARY_SUFFIX = ".tmp"
_HERE = b"\x01"
_NOBODY = (Gift(), b"")


@dataclass(eq=False)
class PassedPiece:
    """A piece that another node gives, and that is given on meanwhile.

    ``reached``: offset in the file up to which it is written. ``moved`` is set when that grows, and at the end.
    """

    reached: int
    moved: asyncio.Event = field(default_factory=asyncio.Event)

    def reach(self, offset: int) -> None:
        """Note how far it is."""
        self.reached = offset
        self.moved.set()


def is_whole(size: int) -> bool:
    """Tell whether a file of this size is fetched in one piece."""
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
    """A file in the making. ``chunks``: one byte each, 1 when it is here.

    ``kept``: it has a map on disk and is to move into the tree. ``sums``: CRC-64/NVME of chunks that this process saw
    arrive. ``held``: chunks that another node gave: written, and read by nobody until the whole file is proven.
    ``given``: by whom, and their CRCs. ``incoming``: tasks that another node gives a chunk to. ``passing``: chunks that
    others have meanwhile. ``replaced``: of chunks that are doubted, since the file was wrong as a whole, who gave them
    first, and their CRCs. ``doubted``: those that only the source may give, since they were for a second time.
    ``restarts``: times that a chunk began anew: what came before may not have been right.
    """

    path: Path
    ino: int
    size: int
    chunks: bytearray
    kept: bool
    etag_may_be_md5: bool = True
    promoting: bool = False  # one download is moving it into the tree
    taken_back: bool = False  # a chunk that was held is so no more, and comes anew
    sums: dict[int, bytes] = field(default_factory=dict)
    held: set[int] = field(default_factory=set)
    given: dict[int, tuple[Gift, bytes]] = field(default_factory=dict)
    incoming: "dict[int, asyncio.Task[object]]" = field(default_factory=dict)
    passing: dict[int, PassedPiece] = field(default_factory=dict)
    replaced: dict[int, tuple[Gift, bytes]] = field(default_factory=dict)
    doubted: set[int] = field(default_factory=set)
    restarts: Counter[int] = field(default_factory=Counter)

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
        """Tell whether a chunk is here, or held."""
        return bool(self.chunks[chunk]) or chunk in self.held

    def take_back(self, chunk: int) -> None:
        """Hold a chunk no more, since the source is asked for it."""
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
        """Note on disk that a chunk is written that another node gave, for those who ask this one.

        It is ``hold`` that counts here: who starts anew has it given once more. Blocks. Raises DiskFull or
        CacheDiskFailed.
        """
        with disk_errors(self.path.name):
            _note(held_of(self.path), chunk)

    def hold(self, chunk: int, gift: Gift, crc64nvme: bytes) -> None:
        """Take note of a chunk that another node gave, of which nothing proves that it is right."""
        self.held.add(chunk)
        self.given[chunk], self.sums[chunk] = (gift, crc64nvme), crc64nvme

    def doubt(self, gift: Gift) -> None:
        """Hold no more what a node gave so: another may give it once, and then the source. Blocks for a moment."""
        doubted = {chunk for chunk in self.held if self.given[chunk][0] == gift}
        self.doubted |= doubted & self.replaced.keys()
        self.held -= doubted
        self.taken_back = self.taken_back or bool(doubted)
        for chunk in doubted:
            self.replaced.setdefault(chunk, self.given[chunk])
            del self.sums[chunk]
            with suppress(OSError):
                _note(held_of(self.path), chunk, b"\0")

    def found_wrong(self, chunk: int) -> set[Gift]:
        """Return who gave a chunk otherwise than it is, now that it is known to be right; forgets them."""
        gave = {self.replaced.pop(chunk, _NOBODY)}
        if chunk not in self.held:
            gave.add(self.given.pop(chunk, _NOBODY))
        return {gift for gift, crc64nvme in gave if gift.giver and crc64nvme != self.sums[chunk]}

    def drop(self) -> None:
        """Delete it and its maps, as far as the disk lets go of them: a name is never used again. Blocks."""
        for path in (map_of(self.path), held_of(self.path), self.path):
            with suppress(OSError):
                path.unlink()


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
    """Name where a file lies until it is verified."""
    # The moment tells it from leftovers of earlier attempts; to ask the kernel for chance takes a system call.
    return f"{folder}/{ino}.{time_ns():x}{_TEMPORARY_SUFFIX}"


def kept_parts(folder: Path) -> dict[int, PartFile]:
    """Return what an earlier process left that can be gone on with, by inode; delete the rest. Blocks.

    ``size`` of each is not known yet.
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
