"""Files of a version that is too large for its room: those that matter less make way for those that matter more."""

import asyncio
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from stoker_sidecar.fetcher.cached_version import CachedVersion, State
from stoker_sidecar.fetcher.core.exchange import Exchange, Ranked, exchange
from stoker_sidecar.fetcher.core.version_tuning import VersionTuning
from stoker_sidecar.fetcher.space.budget import VersionSpace
from stoker_sidecar.linux.files import disk_errors
from stoker_sidecar.threads import in_thread
from stoker_sidecar.version.manifest import Manifest

# Files that leave without a pause: some ms of the event loop.
_AT_ONCE = 64


async def make_way(version: CachedVersion, tuning: VersionTuning, space: VersionSpace) -> bool:
    """Take files out of the tree for others that found no room and are of a higher rank; return whether any may come.

    Those that are to come are missing from then on, and those that left are read through. Raises CacheError.
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


def _choose(version: CachedVersion, states: bytes, tuning: VersionTuning, spare: int) -> Exchange:
    """Choose who makes way for whom. Blocks. Raises ManifestInvalid."""
    ranks = tuning.kept_as(version.manifest.last_ino)
    waiting, here = _ranks_of(states, State.UNKEPT, ranks), _ranks_of(states, State.HERE, ranks)
    if max(waiting) <= min((rank for rank in here if rank), default=0):
        return Exchange()
    # Its own connection: the version's belongs to the event loop's thread.
    with closing(Manifest.open(version.paths.manifest)) as manifest:
        sizes: Counter[int] = Counter()
        for entry in manifest.entries():
            if here[entry.ino]:
                sizes[here[entry.ino]] += entry.size
        return exchange(_wanted(manifest, waiting), _leavers(version, manifest, here), sizes, spare)


def _ranks_of(states: bytes, state: State, ranks: bytes) -> bytes:
    """Return a byte an inode: its rank, from 1, where it is in this state; else 0."""
    marks = states.translate(bytes(255 * (one == state) for one in range(256)))
    numbers = ranks.translate(bytes(min(255, rank + 1) for rank in range(256)))
    return (int.from_bytes(marks) & int.from_bytes(numbers)).to_bytes(len(states))


def _wanted(manifest: Manifest, waiting: bytes) -> Iterator[Ranked]:
    """Yield what found no room, the highest rank first, then by name."""
    for rank in range(max(waiting), 1, -1):  # nobody makes way for the lowest
        ino = -1
        while (ino := waiting.find(rank, ino + 1)) > 0:
            if (entry := manifest.entry(ino)) is not None:
                yield Ranked(ino, entry.size, rank)


def _leavers(version: CachedVersion, manifest: Manifest, here: bytes) -> Iterator[Ranked]:
    """Yield what is here, the lowest rank first, then by name from the end: the way back of what came."""
    for rank in range(1, max(here) + 1):
        ino = len(here)
        while (ino := here.rfind(rank, 0, ino)) > 0:
            entry = manifest.entry(ino)
            # What another version holds too would free nothing.
            if entry is not None and is_alone(version.paths.tree / manifest.path_of(entry)):
                yield Ranked(ino, entry.size, rank)


def is_alone(path: Path) -> bool:
    """Tell whether a file is there and has no other name, so that its bytes are free when it leaves. Blocks briefly."""
    try:
        return path.lstat().st_nlink == 1
    except OSError:
        return False
