"""Reads whole versions that are in use again, slowly and while nothing else is to be done; has damage fetched anew."""

import asyncio
import logging
import os
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from enum import Enum
from functools import partial
from pathlib import Path
from struct import Struct
from types import TracebackType
from typing import NamedTuple, Self

from stoker_api.names import Reason
from stoker_sidecar.errors import SidecarError
from stoker_sidecar.fetcher.cached_version import State
from stoker_sidecar.fetcher.core.rates import TokenBucket
from stoker_sidecar.fetcher.dataset import DatasetCache
from stoker_sidecar.fetcher.download.fetching import Fetching
from stoker_sidecar.fetcher.repairs import DamagedFile, Repairs
from stoker_sidecar.fetcher.telemetry import Notices
from stoker_sidecar.linux.files import DirectReader, disk_errors
from stoker_sidecar.store.core.object_checksum import looks_like_md5
from stoker_sidecar.threads import in_thread
from stoker_sidecar.version.manifest import Entry, Manifest
from stoker_sidecar.wire.fetcher_protocol import REPAIRED_FILES, SCRUBBED_BYTES

# The first pass takes the checksums that later ones compare with, so it comes sooner; not at once, since a pod that
# has just been waiting for its data should have the disk for itself.
_FIRST = 1 / 7


class Verdict(Enum):
    """What a scrub makes of one file."""

    GOOD = "good"
    DAMAGED = "damaged"
    UNSURE = "unsure"  # its MD5 is not its ETag, and nothing yet shows whether this source's ETags are MD5s


def judge(etag: str, md5: str, crc: int, noted: int | None, *, proven: bool) -> Verdict:
    """Judge a file that was read again.

    ``noted``: CRC-32 that an earlier pass took, None when there was none; ``proven``: ETags of this source are MD5s.
    """
    if noted is not None:
        return Verdict.GOOD if crc == noted else Verdict.DAMAGED
    if not looks_like_md5(etag) or md5 == etag:
        return Verdict.GOOD
    return Verdict.DAMAGED if proven else Verdict.UNSURE


def is_due(now: float, scrubbed_at: float | None, complete_at: float, interval: float) -> bool:
    """Tell whether a version is due. ``scrubbed_at``: end of the last pass, None when there was none.

    Seconds since 1970. ``interval``: 0 for never.

    A date that lies in the future was written before the clock was put back, and tells nothing.
    """
    if interval <= 0:
        return False
    age, patience = (now - complete_at, interval * _FIRST) if scrubbed_at is None else (now - scrubbed_at, interval)
    return not 0 <= age < patience


_RECORD = Struct("<Q")
# Above the 32 bits of the CRC: tells a noted zero from a hole of the file.
_NOTED = 1 << 32


class ChecksumFile:
    """The file of a version's checksums, 8 bytes an inode; a context manager. Blocks. Raises OSError."""

    def __init__(self, path: Path) -> None:
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def get(self, ino: int) -> int | None:
        """Return the CRC-32 that was noted; None when none was."""
        data = os.pread(self._descriptor, _RECORD.size, ino * _RECORD.size)
        value = _RECORD.unpack(data)[0] if len(data) == _RECORD.size else 0
        return value & (_NOTED - 1) if value & _NOTED else None

    def put(self, ino: int, crc: int) -> None:
        """Note it."""
        os.pwrite(self._descriptor, _RECORD.pack(crc | _NOTED), ino * _RECORD.size)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._descriptor)


_log = logging.getLogger(__name__)
_REPAIR_ATTEMPTS = 2
_PAUSE = 1.0  # seconds until a busy node is asked again whether it is idle
_AFTER_ERROR = 3600.0  # seconds until a version is begun with again whose pass an error ended: others come first


@dataclass(frozen=True)
class ScrubSettings:
    """How often and how fast.

    ``interval``: seconds between two passes over a version, 0 for none; ``rate``: bytes a second.
    """

    interval: float = 7 * 86400.0  # a week: disks scrub themselves at about this rate, and a 1 TB version takes 6 hours
    rate: int = 50 * 1024**2  # a tenth of what the slowest SSDs read, so that pods do not notice


class ScrubTarget(NamedTuple):
    """A version of a dataset that may be due."""

    dataset: DatasetCache
    digest: str

    @property
    def key(self) -> tuple[str, str]:
        """UID and digest."""
        return self.dataset.uid, self.digest

    @property
    def is_in_use(self) -> bool:
        """Tell whether pods have it mounted, or would get it now."""
        return self.digest == self.dataset.config.version or self.digest in self.dataset.held


@dataclass
class Scrubber:
    """Has one version after the other read again, of those that are in use.

    ``datasets``: all of the node, by uid; ``now``: seconds since 1970.
    """

    settings: ScrubSettings
    datasets: Mapping[str, DatasetCache]
    notices: Notices
    repairs: Repairs
    clock: Callable[[], float]
    sleep: Callable[[float], Awaitable[object]]
    now: Callable[[], float] = time.time
    _task: "asyncio.Task[None] | None" = None
    _bucket: TokenBucket = field(init=False)  # of all passes together
    _put_off: dict[tuple[str, str], float] = field(default_factory=dict)  # by uid and digest, until when; of ``clock``

    def __post_init__(self) -> None:
        self._bucket = TokenBucket(self.settings.rate, self.clock())

    def start_due(self) -> None:
        """Begin a pass over the version that is due and was looked at longest ago, unless one is running."""
        if self._task is not None and not self._task.done():
            return
        now = self.clock()
        self._put_off = {key: until for key, until in self._put_off.items() if now < until}
        due = [(since, target) for target in self._targets() if (since := self._due_since(target)) is not None]
        if due:
            _, target = min(due, key=lambda each: each[0])
            self._task = asyncio.create_task(self._scrub(target))

    def _targets(self) -> Iterator[ScrubTarget]:
        """Yield the versions that are in use, of each dataset the current one first."""
        for dataset in list(self.datasets.values()):
            current = dataset.config.version
            for digest in ([current] if current else []) + sorted(dataset.held - {current}):
                yield ScrubTarget(dataset, digest)

    async def close(self) -> None:
        """Stop; the pass begins anew another time."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    def _due_since(self, target: ScrubTarget) -> float | None:
        """Return when a version was looked at last, or became whole, in seconds since 1970; None: it is not due."""
        if target.key in self._put_off:
            return None
        try:
            paths = target.dataset.versions.whole(target.digest)
            if paths is None:
                return None
            scrubbed = paths.scrubbed.stat().st_mtime if paths.scrubbed.exists() else None
            complete = paths.complete.stat().st_mtime
        except OSError:
            return None  # its folder is failing: no time to scrub
        due = is_due(self.now(), scrubbed, complete, self.settings.interval)
        return (complete if scrubbed is None else scrubbed) if due else None

    async def _scrub(self, target: ScrubTarget) -> None:
        config = target.dataset.config
        try:
            work = ScrubPass(target.dataset, await target.dataset.opened(target.digest), self._bucket, self)
            try:
                await work.run()
            finally:
                self._tell(target, work)
        except (SidecarError, OSError) as error:
            self._put_off[target.key] = self.clock() + _AFTER_ERROR
            _log.warning("a scrub of %s, version %s, ended early: %s", config.name, target.digest[:12], error)

    def _tell(self, target: ScrubTarget, work: "ScrubPass") -> None:
        if not work.damaged:
            return
        dataset, config = target.dataset, target.dataset.config
        older = "" if target.digest == config.version else f" (version {target.digest[:12]})"
        message = (
            f"{len(work.damaged)} of {work.files} files of {config.namespace}/{config.name}{older} were damaged on the "
            f"disk and are fetched again, such as {work.damaged[0]}"
        )
        self.notices.tell(dataset.uid, Reason.REPAIRED, message)
        dataset.telemetry.add(REPAIRED_FILES, len(work.damaged))

    async def idle(self) -> None:
        """Return when no reader waits and nothing is warmed."""
        while any(dataset.readers or dataset.warming is not None for dataset in self.datasets.values()):
            await self.sleep(_PAUSE)


@dataclass
class ScrubPass:
    """One pass over one version. ``damaged``: paths."""

    dataset: DatasetCache
    fetching: Fetching
    bucket: TokenBucket
    scrubber: Scrubber
    files: int = 0
    damaged: list[str] = field(default_factory=list)
    _proven: bool = False
    _unsure: list[tuple[str, Entry, int]] = field(default_factory=list)

    async def run(self) -> None:
        """Read all files, and repair those that are damaged. Raises SidecarError and OSError."""
        paths = self.fetching.version.paths
        with (
            disk_errors("the checksums"),
            ChecksumFile(paths.sums) as sums,
            closing(Manifest.open(paths.manifest)) as manifest,
        ):
            for path, entry in _files(manifest):
                if not self._goes_on():
                    return
                await self._file(path, entry, sums)
            for path, entry, crc in self._unsure:
                if self._proven:
                    await self.repair(path, entry)
                else:
                    sums.put(entry.ino, crc)
            paths.scrubbed.touch()

    def _goes_on(self) -> bool:
        """Tell whether it is in use still, and was not dropped, nor has moved to another folder."""
        target = ScrubTarget(self.dataset, self.fetching.version.paths.folder.name)
        return target.is_in_use and self.dataset.versions.is_open(self.fetching)

    async def _file(self, path: str, entry: Entry, sums: ChecksumFile) -> None:
        self.files += 1
        noted = sums.get(entry.ino)
        found = await self._read(entry, md5=noted is None and looks_like_md5(entry.etag))
        if found is None:
            return await self.repair(path, entry)
        crc, md5 = found
        self._proven = self._proven or md5 == entry.etag
        match judge(entry.etag, md5, crc, noted, proven=self._proven):
            case Verdict.DAMAGED:
                await self.repair(path, entry)
            case Verdict.UNSURE:
                self._unsure.append((path, entry, crc))
            case Verdict.GOOD if noted is None:
                sums.put(entry.ino, crc)
        return None

    async def _read(self, entry: Entry, *, md5: bool) -> tuple[int, str] | None:
        """Return CRC-32 and MD5 of the file; None when it is not whole or cannot be read."""
        try:
            reader = await in_thread(partial(DirectReader, self.fetching.version.tree_path(entry), md5=md5))
        except OSError:
            return None
        try:
            while length := await in_thread(reader.step):
                self.dataset.telemetry.add(SCRUBBED_BYTES, length)
                await self.scrubber.sleep(self.bucket.take(length, self.scrubber.clock()))
                await self.scrubber.idle()
        except OSError:
            return None
        finally:
            reader.close()
        return (reader.crc, reader.md5) if reader.size == entry.size else None

    async def repair(self, path: str, entry: Entry) -> None:
        """Have a damaged file fetched again, and its readers find the right bytes or none. Raises CacheError."""
        _log.error("%s of %s is damaged on the disk: it is fetched again", path, self.dataset.config.name)
        self.damaged.append(path)
        version, versions = self.fetching.version, self.dataset.versions
        inodes = {version.paths.folder.name: entry.ino}
        with await in_thread(DamagedFile, version.paths, version.tree_path(entry), entry) as damaged:
            sharing = await versions.sharing(path, damaged.is_at)
            inodes |= {one.version.paths.folder.name: its.ino for one, its in sharing}
            if not await self._mend(entry, damaged):
                await versions.withdraw(path, damaged.is_at)
                await in_thread(damaged.empty)
        for digest, ino in inodes.items():
            self.scrubber.repairs.add(self.dataset.uid, digest, ino)

    async def _mend(self, entry: Entry, damaged: DamagedFile) -> bool:
        """Fetch the file and write it into the old inode as well; return whether that has the right bytes then.

        What came may be gone again before it is copied, if someone deletes it: then it is fetched once more.
        """
        version = self.fetching.version
        version.repairing.add(entry.ino)
        try:
            for _ in range(_REPAIR_ATTEMPTS):
                await self.fetching.refetch(entry)
                if version.states[entry.ino] != State.HERE or not self.dataset.versions.is_open(self.fetching):
                    return False
                if await in_thread(damaged.heal):
                    return True
            return False
        finally:
            version.repairing.discard(entry.ino)


def _files(manifest: Manifest) -> Iterator[tuple[str, Entry]]:
    return ((path.decode(), entry) for path, entry in manifest.walk() if not entry.is_dir)
