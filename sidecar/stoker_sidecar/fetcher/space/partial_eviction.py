"""Evicts files of a version that is too large for its room, so that files of a higher rank fit."""

import asyncio
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from stoker_sidecar.fetcher.ondisk.cached_version import CachedVersion
from stoker_sidecar.fetcher.ondisk.file_states import State
from stoker_sidecar.fetcher.ondisk.version_tuning import VersionTuning
from stoker_sidecar.fetcher.space.budget import VersionSpace
from stoker_sidecar.linux.files import disk_errors
from stoker_sidecar.threads import in_thread
from stoker_sidecar.version.manifest import Manifest

# Maximum number of files that leave in one exchange: 16 MB of memory. A file that needs more evictions stays out.
MOST_LEAVING = 100_000


class SwapCandidate(NamedTuple):
    """A file of a version. ``rank``: files of a higher rank are kept first; ``size``: bytes."""

    ino: int
    size: int
    rank: int


@dataclass
class Swap:
    """The files that leave, and the files that replace them, by inode."""

    leaving: list[SwapCandidate] = field(default_factory=list)
    coming: list[int] = field(default_factory=list)


def exchange(wanted: Iterable[SwapCandidate], kept: Iterable[SwapCandidate], sizes: Counter[int], spare: int) -> Swap:
    """Choose the files to evict so that wanted files fit.

    ``wanted``: files without room, in order of arrival. ``kept``: cached files in order of eviction, by rank.
    ``sizes``: bytes of all cached files, by rank. ``spare``: free bytes; less than 0: the cached files exceed the room.
    A file is evicted only for one of a higher rank, and only if that one then fits.
    """
    found, leavers, left = Swap(), iter(kept), Counter(sizes)
    for file in wanted:
        if spare + sum(size for rank, size in left.items() if rank < file.rank) < file.size:
            continue
        chosen = _until_it_fits(file, spare, leavers, MOST_LEAVING - len(found.leaving))
        spare += sum(leaver.size for leaver in chosen)
        if spare < file.size:  # too many would have to leave, or some that were counted on cannot
            break
        for leaver in chosen:
            left[leaver.rank] -= leaver.size
        found.leaving += chosen
        found.coming.append(file.ino)
        spare -= file.size
    return found


def _until_it_fits(file: SwapCandidate, spare: int, leavers: Iterator[SwapCandidate], most: int) -> list[SwapCandidate]:
    chosen: list[SwapCandidate] = []
    while spare < file.size and len(chosen) < most:
        leaver = next(leavers, None)
        if leaver is None or leaver.rank >= file.rank:
            break
        chosen.append(leaver)
        spare += leaver.size
    return chosen


# Files that leave without a pause: some ms of the event loop.
_AT_ONCE = 64


async def evict_files(version: CachedVersion, tuning: VersionTuning, space: VersionSpace) -> bool:
    """Evict files for waiting files of a higher rank. Return True if any of these may be fetched.

    The waiting files count as missing from then on, and evicted files are read through. Raises CacheError.
    """
    room = space.room()
    spare = room.free if room.quota is None else min(room.free, room.quota - room.used)
    found = await in_thread(_choose, version, bytes(version.states), tuning, spare)
    if not found.coming:
        return False
    with disk_errors("the version"):
        rubbish = space.disk.rubbish()
        for place, file in enumerate(found.leaving, start=1):
            version.give_up(file.ino, rubbish.take)
            if place % _AT_ONCE == 0:
                await asyncio.sleep(0)
    await in_thread(rubbish.delete)
    for ino in found.coming:
        version.want(ino)
    return True


def _choose(version: CachedVersion, states: bytes, tuning: VersionTuning, spare: int) -> Swap:
    """Choose the files to evict, and the files for which they leave. Blocks. Raises ManifestInvalid."""
    ranks = tuning.kept_as(version.manifest.last_ino)
    waiting, here = _ranks_of(states, State.UNKEPT, ranks), _ranks_of(states, State.HERE, ranks)
    if max(waiting) <= min((rank for rank in here if rank), default=0):
        return Swap()
    # Its own connection: the version's belongs to the event loop's thread.
    with closing(Manifest.open(version.paths.manifest)) as manifest:
        sizes: Counter[int] = Counter()
        for entry in manifest.entries():
            if here[entry.ino]:
                sizes[here[entry.ino]] += entry.size
        return exchange(_wanted(manifest, waiting), _leavers(version, manifest, here), sizes, spare)


def _ranks_of(states: bytes, state: State, ranks: bytes) -> bytes:
    """Return a byte an inode: its rank, from 1, if it is in this state; otherwise 0."""
    marks = states.translate(bytes(255 * (one == state) for one in range(256)))
    numbers = ranks.translate(bytes(min(255, rank + 1) for rank in range(256)))
    return (int.from_bytes(marks) & int.from_bytes(numbers)).to_bytes(len(states))


def _wanted(manifest: Manifest, waiting: bytes) -> Iterator[SwapCandidate]:
    """Yield the files without room, the highest rank first, then by name."""
    for rank in range(max(waiting), 1, -1):  # the lowest rank evicts no files
        ino = -1
        while (ino := waiting.find(rank, ino + 1)) > 0:
            if (entry := manifest.entry(ino)) is not None:
                yield SwapCandidate(ino, entry.size, rank)


def _leavers(version: CachedVersion, manifest: Manifest, here: bytes) -> Iterator[SwapCandidate]:
    """Yield cached files, the lowest rank first, then by name from the end: the reverse order of arrival."""
    for rank in range(1, max(here) + 1):
        ino = len(here)
        while (ino := here.rfind(rank, 0, ino)) > 0:
            entry = manifest.entry(ino)
            # A file that another version also holds frees nothing.
            if entry is not None and is_alone(version.paths.tree / manifest.path_of(entry)):
                yield SwapCandidate(ino, entry.size, rank)


def is_alone(path: Path) -> bool:
    """Return True if a file exists with a single name, so that its removal frees its bytes. Blocks briefly."""
    try:
        return path.lstat().st_nlink == 1
    except OSError:
        return False
