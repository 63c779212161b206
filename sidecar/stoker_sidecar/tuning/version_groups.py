"""Sorts the files of a version into groups of equal knobs, in a thread with a low share of CPU."""

import time
import zlib
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass

from stoker_sidecar.tuning.core.grouping import FileGrouping
from stoker_sidecar.version.layout import VersionPaths
from stoker_sidecar.version.manifest import Manifest
from stoker_sidecar.wire.fetcher_hints import FileKnobs
from stoker_sidecar.wire.fetcher_protocol import MAX_LINE

# Larger versions have no observed readers, and a byte per inode exceeds a protocol line.
MOST_FILES = 10_000_000
# CPU limit for one version. Files beyond it have the default knobs. 1,000 rules and a million files take 10 s, without
# regular expressions.
MOST_SECONDS = 30.0
# After this number of files (20 ms with rules about extensions, sizes and folders) it rests three times as long as it
# worked: a quarter of a core.
_PACE_FILES, _REST = 1024, 3.0
# Base64 adds a third.
_MOST_PACKED = MAX_LINE // 2


@dataclass(frozen=True)
class VersionGroups:
    """The groups of a version's files, as in ``Tune``.

    ``matched``, ``acted``: number of files per rule that match it, and that have one of its values. ``left``: why files
    have the default knobs, a sentence, or empty. ``read_ahead``: bytes of the kernel's read-ahead on FUSE mounts of the
    version, or None for the default.
    """

    knobs: tuple[FileKnobs, ...] = ()
    groups: bytes = b""
    matched: tuple[int, ...] = ()
    acted: tuple[int, ...] = ()
    left: str = ""
    read_ahead: int | None = None


def group_files(
    paths: VersionPaths,
    grouping: FileGrouping,
    ended: Callable[[], bool] = lambda: False,
    cpu: Callable[[], float] = time.thread_time,
    sleep: Callable[[float], None] = time.sleep,
) -> VersionGroups:
    """Sort a version's files into groups. Blocks for seconds. Raises CacheError.

    ``ended``: return True to stop. ``cpu``: CPU seconds of this thread.
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
    read_ahead = grouping.read_ahead if seen == manifest.info.files else None  # an unseen file may need the default
    sorted_ = (knobs, packed) if used else ((), b"")
    return VersionGroups(*sorted_, tuple(matched), tuple(acted), left, read_ahead)


def _sort(
    manifest: Manifest,
    grouping: FileGrouping,
    groups: bytearray,
    ended: Callable[[], bool],
    cpu: Callable[[], float],
    sleep: Callable[[float], None],
) -> int:
    """Store the group of each file. Return the number of files with a group."""
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
