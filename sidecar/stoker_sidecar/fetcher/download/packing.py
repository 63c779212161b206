"""Keeps compressed copies instead of files, if a rule allows it and a trial shows a gain.

A file arrives whole and is checked. Then it gets its name in the tree, or it is compressed and deleted. Readable files
stay unchanged: a file in the tree is never compressed.
"""

import asyncio
import logging
import os
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

from stoker_sidecar.fetcher.download.context import DownloadContext
from stoker_sidecar.fetcher.ondisk.cached_version import CachedVersion
from stoker_sidecar.fetcher.ondisk.packing_decision import (
    MOST_HEAD,
    SAMPLE_BYTES,
    PackingTrial,
    PackingVerdict,
    SourceMeter,
    is_compressed,
    judge_packing,
)
from stoker_sidecar.fetcher.space.budget import VersionSpace
from stoker_sidecar.threads import in_thread, to_its_end
from stoker_sidecar.version.manifest import Entry
from stoker_sidecar.version.packed_copy import CopyOrder, write_copy
from stoker_sidecar.version.seekable import FRAME, MOST_SIZE, FramePacker, frame_count, frame_length, unpack
from stoker_sidecar.wire.fetcher_hints import PackingKnobs
from stoker_sidecar.wire.fetcher_protocol import PACKED_BYTES, UNPACKED_BYTES
from stoker_sidecar.worker.files import publish

_log = logging.getLogger(__name__)
# A copy takes at least a block of the disk, so a file of two blocks gains little.
_LEAST_SIZE = 8 * 1024
# Kinds of files, by the ends of their names. Those beyond this number share one trial.
_MOST_KINDS = 64
_LONGEST_SUFFIX = 16
_NOT_YET = PackingVerdict(False, "too few files for a decision")


@dataclass
class _Kind:
    """The trial of one kind of files. ``review``: the number of files at which it is judged again."""

    files: int = 0
    review: int = 0
    trial: PackingTrial = field(default_factory=PackingTrial)
    verdict: PackingVerdict = _NOT_YET


@dataclass
class VersionPacking:
    """Stores the files of one version, in the tree or as compressed copies."""

    version: CachedVersion
    space: VersionSpace
    context: DownloadContext
    # One copy at a time, so that versions take turns at the node's packers regardless of their demand.
    _turn: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(1))
    _digest: str = field(init=False)
    _meter: SourceMeter | None = None
    _kinds: dict[tuple[str, PackingKnobs], _Kind] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._digest = self.version.paths.folder.name

    def wanted(self, entry: Entry) -> PackingKnobs | None:
        """Return the settings of a compressed copy. None: the file goes into the tree.

        A version that fits uncompressed has no copies, so that pods can read it natively.
        """
        knobs = self.context.tuning.of(self._digest).of(entry.ino).packing
        if entry.ino in self.version.repairing:  # readers of the damaged one get it from the tree
            return None
        if knobs is None or self.version.complete or not _LEAST_SIZE <= entry.size <= MOST_SIZE:
            return None
        if self.space.shortage(0.0).fits:
            return None
        if self._meter is None:
            self._meter = SourceMeter(self.context.settings.pipeline.clock(), self.context.telemetry.fetched_bytes)
        return knobs

    async def keep(self, entry: Entry, source: str, target: str, knobs: PackingKnobs | None) -> int:
        """Give a whole, checked file its name ``target``. Or make a compressed copy; the caller then deletes the file.

        Return the bytes of the copy for ``note``, or 0 without a copy. ``knobs``: as ``wanted`` returned. Raises
        DiskFull or CacheDiskFailed.
        """
        size = 0
        if knobs is not None:
            async with self._turn, self.context.settings.packers:
                if await self._pays(entry, source, knobs):
                    size = await self._copy(entry, Path(source), knobs)
        if not size:
            await in_thread(publish, source, target, entry)
        return size

    async def note(self, entry: Entry, size: int) -> None:
        """Note that a file is in the tree, or as a copy of ``size`` bytes. Raises DiskFull or CacheDiskFailed."""
        if size:
            self.context.telemetry.add(UNPACKED_BYTES, entry.size)
            self.context.telemetry.add(PACKED_BYTES, size)
            self.version.mark_packed(entry, size)
            return
        if entry.ino in self.version.packed:  # the version fits by now
            await in_thread(self.version.drop_copy, entry.ino)
        self.version.mark_here(entry)

    async def _pays(self, entry: Entry, source: str, knobs: PackingKnobs) -> bool:
        if not knobs.tried:
            return True
        kind = self._kind(entry, knobs)
        kind.files += 1
        if not kind.trial.is_enough:
            kind.trial += await in_thread(measure, Path(source), entry.size, knobs.level)
        if kind.trial.is_enough and kind.files >= kind.review and (speed := self._source_speed()) > 0:
            kind.review = 2 * kind.files
            self._judge(entry, kind, knobs, speed)
        return kind.verdict.pays

    def _source_speed(self) -> float:
        """Return bytes a second, 0 while that is not known."""
        if self._meter is None:
            return 0.0
        return self._meter.read(self.context.settings.pipeline.clock(), self.context.telemetry.fetched_bytes)

    def _judge(self, entry: Entry, kind: _Kind, knobs: PackingKnobs, speed: float) -> None:
        verdict = judge_packing(kind.trial, self.space.shortage(speed), knobs.least_ratio)
        if verdict.pays != kind.verdict.pays or kind.verdict is _NOT_YET:
            name, word = self.version.manifest.path_of(entry), "pay" if verdict.pays else "do not pay"
            _log.info("compressed copies of files such as %s %s: %s", name, word, verdict.why)
        kind.verdict = verdict

    def _kind(self, entry: Entry, knobs: PackingKnobs) -> _Kind:
        suffix = os.path.splitext(entry.name)[1].lower().decode(errors="replace")[:_LONGEST_SUFFIX]  # noqa: PTH122 -- bytes
        key = suffix, knobs
        if key not in self._kinds and len(self._kinds) >= _MOST_KINDS:
            key = "", knobs
        return self._kinds.setdefault(key, _Kind())

    async def _copy(self, entry: Entry, source: Path, knobs: PackingKnobs) -> int:
        """Make the copy. Return its size, or 0 without a copy."""
        ended = threading.Event()
        order = CopyOrder(knobs.level, knobs.least_ratio, ended.is_set)
        target = Path(self.version.paths.packed_copy(entry.ino))
        work = asyncio.to_thread(_copy_uncompressed, source, target, entry, order)
        try:
            return await to_its_end(asyncio.ensure_future(work), hurry=ended.set)
        except OSError as error:  # the file itself is whole, and goes into the tree
            _log.debug("no compressed copy of %s: %s", source.name, error)
            return 0


def _copy_uncompressed(source: Path, target: Path, entry: Entry, order: CopyOrder) -> int:
    with source.open("rb", buffering=0) as file:
        if is_compressed(file.read(MOST_HEAD)):
            return 0
    return write_copy(source, target, entry, order)


def measure(source: Path, size: int, level: int) -> PackingTrial:
    """Pack and unpack frames that are spread over a file, in memory; the time is that of this thread on a core. Blocks.

    Raises OSError.
    """
    with source.open("rb", buffering=0) as file:
        if is_compressed(file.read(MOST_HEAD)):
            return PackingTrial(1, size, size)
        count = frame_count(size)
        step = max(1, count * FRAME // SAMPLE_BYTES)
        trials = [_measure_frame(file.fileno(), frame, size, level) for frame in range(0, count, step)]
    one = PackingTrial(1)
    for trial in trials:
        one += trial
    return one


def _measure_frame(descriptor: int, frame: int, size: int, level: int) -> PackingTrial:
    data = os.pread(descriptor, frame_length(size, frame), frame * FRAME)
    packer = FramePacker(level)
    began = time.thread_time()
    packed = packer.pack(data)
    between = time.thread_time()
    unpack(packed, len(data))
    return PackingTrial(0, len(data), len(packed), between - began, time.thread_time() - between)
