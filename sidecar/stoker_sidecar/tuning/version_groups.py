"""Which knobs each file of a version has: its manifest played to the rules, in a thread that lets others run."""

import time
import zlib
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass

from stoker_sidecar.tuning.core.adaptive_numbers import AdaptiveFiles, FreeNumbers
from stoker_sidecar.tuning.core.grouping import FileGrouping
from stoker_sidecar.version.layout import VersionPaths
from stoker_sidecar.version.manifest import Manifest
from stoker_sidecar.wire.fetcher_protocol import MAX_LINE, FileKnobs

# Of versions with more files nobody follows readers either, and a byte an inode of them is more than a line holds.
MOST_FILES = 10_000_000
# CPU that one look at a version may cost; what is left then is treated as without rules. 1,000 rules and a million
# files take 10 s, unless they are regular expressions.
MOST_SECONDS = 30.0
# After so many files (20 ms, where rules are about extensions, sizes and folders) it rests three times as long as it
# worked: a fourth of a core, beside workers that fetch.
_PACE_FILES, _REST = 1024, 3.0
# In base64 it is a third longer.
_MOST_PACKED = MAX_LINE // 2


@dataclass(frozen=True)
class VersionGroups:
    """The groups of a version's files, as in ``Tune``, and how many files each rule applied to, and acted on.

    ``left``: why files were left as without rules, a sentence; empty where none were. ``read_ahead``: bytes of the
    kernel's read-ahead on FUSE mounts of the version; None: as without rules. ``free``: which numbers of each group
    may be found; ``adaptive``: of which files that is so; None: of none.
    """

    knobs: tuple[FileKnobs, ...] = ()
    groups: bytes = b""
    matched: tuple[int, ...] = ()
    acted: tuple[int, ...] = ()
    left: str = ""
    read_ahead: int | None = None
    free: tuple[FreeNumbers, ...] = ()
    adaptive: AdaptiveFiles | None = None


def group_files(
    paths: VersionPaths,
    grouping: FileGrouping,
    ended: Callable[[], bool] = lambda: False,
    cpu: Callable[[], float] = time.thread_time,
    sleep: Callable[[float], None] = time.sleep,
) -> VersionGroups:
    """Sort a version's files into groups. Blocks, without haste. Raises CacheError.

    ``ended``: nobody waits for it any more. ``cpu``: seconds of it that this thread has had.
    """
    with closing(Manifest.open(paths.manifest)) as manifest:
        if manifest.info.files > MOST_FILES:
            return VersionGroups(left=f"it has more than {MOST_FILES:,} files")
        groups = bytearray(manifest.last_ino + 1)
        seen = _sort(manifest, grouping, groups, ended, cpu, sleep)
    packed = zlib.compress(groups, 1)
    if len(packed) > _MOST_PACKED:
        return VersionGroups(left="its files are of too many kinds, one after the other")
    left = f"{grouping.left_as_ever} files: there are too many groups" if grouping.left_as_ever else ""
    if seen < manifest.info.files:
        left = f"{manifest.info.files - seen} files: the rules took {MOST_SECONDS:.0f} s of CPU for the others"
    knobs, (matched, acted) = grouping.knobs, grouping.counts()
    used = len(knobs) > 1
    read_ahead = grouping.read_ahead if seen == manifest.info.files else None  # one that was not seen may want as ever
    sorted_ = (knobs, packed) if used else ((), b"")
    numbers = (grouping.free, grouping.adaptive) if used else ((), None)
    return VersionGroups(*sorted_, tuple(matched), tuple(acted), left, read_ahead, *numbers)


def _sort(
    manifest: Manifest,
    grouping: FileGrouping,
    groups: bytearray,
    ended: Callable[[], bool],
    cpu: Callable[[], float],
    sleep: Callable[[float], None],
) -> int:
    """Note the group of each file; return of how many it was found out."""
    seen, began = 0, cpu()
    last = began
    for path, entry in manifest.walk():
        if entry.is_dir:
            continue
        groups[entry.ino] = grouping.number(path.decode(errors="replace"), entry.size)
        seen += 1
        if seen % _PACE_FILES == 0 or cpu() - last > 0.1:
            if ended() or cpu() - began > MOST_SECONDS:
                break
            sleep(min(1.0, _REST * (cpu() - last)))
            last = cpu()
    return seen
