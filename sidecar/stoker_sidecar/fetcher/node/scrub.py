"""Rereads whole versions that are in use, slowly and while the node is idle. Damaged files are fetched again."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from enum import Enum
from functools import partial
from typing import NamedTuple

from stoker_api.names import Reason
from stoker_sidecar.errors import SidecarError
from stoker_sidecar.fetcher.datasets.dataset import DatasetCache
from stoker_sidecar.fetcher.download.fetching import Fetching
from stoker_sidecar.fetcher.ondisk.file_states import State
from stoker_sidecar.fetcher.ondisk.file_sums import ChecksumFile, NotedSum, arrival_of
from stoker_sidecar.fetcher.ondisk.recovery.repairs import DamagedFile, Repairs
from stoker_sidecar.fetcher.ondisk.telemetry import Notices
from stoker_sidecar.fetcher.sources.core.bandwidth import TokenBucket
from stoker_sidecar.linux.files import DirectReader, disk_errors
from stoker_sidecar.store.core.object_checksum import CRC64NVME, looks_like_md5, new_digest
from stoker_sidecar.threads import in_thread
from stoker_sidecar.version.manifest import Entry, Manifest
from stoker_sidecar.wire.fetcher_protocol import REPAIRED_FILES, SCRUBBED_BYTES
from stoker_sidecar.worker.files import file_digest

# The first pass records the checksums for later passes, so it runs sooner. It does not run at once, since a pod that
# waited for its data needs the disk first.
_FIRST = 1 / 7


class Verdict(Enum):
    """The result of a scrub of one file."""

    GOOD = "good"
    DAMAGED = "damaged"
    UNSURE = "unsure"  # its MD5 is not its ETag, and nothing yet shows whether this source's ETags are MD5s
    UNKNOWN = "unknown"  # nothing at hand proves it: the source is asked


class FoundSums(NamedTuple):
    """Checksums of a file that was read. ``md5`` in hexadecimal, ``crc64nvme``; both empty when they were not taken."""

    crc: int
    md5: str = ""
    crc64nvme: bytes = b""

    def match(self, etag: str) -> bool:
        """Return whether the MD5 was taken and is the ETag."""
        return self.md5 != "" and self.md5 == etag


def judge(etag: str, found: FoundSums, noted: NotedSum | None, arrived: bytes | None, *, proven: bool) -> Verdict:
    """Judge a file that was read again.

    ``noted``: by an earlier pass; ``arrived``: CRC-64/NVME at arrival; ``proven``: ETags of this source are MD5s. A
    first look at the disk proves nothing: damage may be older.
    """
    if noted is not None and found.crc != noted.crc:
        return Verdict.DAMAGED
    if (noted is not None and noted.proven) or found.match(etag):
        return Verdict.GOOD
    if arrived is not None:
        return Verdict.GOOD if found.crc64nvme == arrived else Verdict.DAMAGED
    if looks_like_md5(etag):
        return Verdict.DAMAGED if proven else Verdict.UNSURE
    return Verdict.UNKNOWN


def is_due(now: float, scrubbed_at: float | None, complete_at: float, interval: float) -> bool:
    """Return True if a version is due. ``scrubbed_at``: end of the last pass, None without one.

    Seconds since 1970. ``interval``: 0 for never.

    A date in the future was written before the clock was set back, and is ignored.
    """
    if interval <= 0:
        return False
    age, patience = (now - complete_at, interval * _FIRST) if scrubbed_at is None else (now - scrubbed_at, interval)
    return not 0 <= age < patience


_log = logging.getLogger(__name__)
_REPAIR_ATTEMPTS = 2
_PAUSE = 1.0  # seconds until a busy node is asked again whether it is idle
_AFTER_ERROR = 3600.0  # seconds until a version is retried after an error ended its pass


@dataclass(frozen=True)
class ScrubSettings:
    """How often and how fast.

    ``interval``: seconds between two passes over a version, 0 for none; ``rate``: bytes a second.
    """

    interval: float = 7 * 86400.0  # a week: disks scrub themselves at about this rate, and a 1 TB version takes 6 hours
    rate: int = 50 * 1024**2  # a tenth of the rate of the slowest SSDs, so that pods do not notice


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
        """Return True if pods have it mounted, or would get it now."""
        return self.digest == self.dataset.config.version or self.digest in self.dataset.held


@dataclass
class Scrubber:
    """Scrubs the versions that are in use, one at a time.

    ``datasets``: all of the node, by uid. ``now``: seconds since 1970.
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
        """Stop. The pass restarts later."""
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
        while any(dataset.readers or dataset.warming.is_running for dataset in self.datasets.values()):
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
    _unsure: list[tuple[str, Entry, FoundSums]] = field(default_factory=list)

    async def run(self) -> None:
        """Read all files, and repair damaged ones. Raises SidecarError and OSError."""
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
            for path, entry, found in self._unsure:
                if self._proven:
                    await self.repair(path, entry)
                else:
                    await self._ask_source(path, entry, found, sums)
            paths.scrubbed.touch()

    def _goes_on(self) -> bool:
        """Return True if the version is still in use and open in the same folder."""
        target = ScrubTarget(self.dataset, self.fetching.version.paths.folder.name)
        return target.is_in_use and self.dataset.versions.is_open(self.fetching)

    async def _file(self, path: str, entry: Entry, sums: ChecksumFile) -> None:
        self.files += 1
        noted = sums.get(entry.ino)
        is_proven = noted is not None and noted.proven
        arrived = None if is_proven else await in_thread(arrival_of, self.fetching.version.paths, entry.ino)
        md5 = not is_proven and looks_like_md5(entry.etag)
        found = await self._read(entry, md5=md5, crc64nvme=arrived is not None)
        if found is None:
            return await self.repair(path, entry)
        self._proven = self._proven or found.match(entry.etag)
        match judge(entry.etag, found, noted, arrived, proven=self._proven):
            case Verdict.DAMAGED:
                await self.repair(path, entry)
            case Verdict.UNSURE:
                self._unsure.append((path, entry, found))
            case Verdict.UNKNOWN:
                await self._ask_source(path, entry, found, sums)
            case Verdict.GOOD if not is_proven:
                sums.put(entry.ino, found.crc, proven=True)
        return None

    async def _ask_source(self, path: str, entry: Entry, found: FoundSums, sums: ChecksumFile) -> None:
        """Compare a file with the source's current checksum.

        If the source has none, later passes compare with the disk's current content, and ask again.
        """
        stated = await self.fetching.stated(entry)
        if stated is None:
            return sums.put(entry.ino, found.crc, proven=False)
        taken = await in_thread(file_digest, self.fetching.version.tree_path(entry), stated.algorithm)
        if taken != stated.value:
            return await self.repair(path, entry)
        return sums.put(entry.ino, found.crc, proven=True)

    async def _read(self, entry: Entry, *, md5: bool, crc64nvme: bool) -> FoundSums | None:
        """Return the checksums of the file; None when it is not whole or cannot be read."""
        digest = new_digest(CRC64NVME) if crc64nvme else None
        told = digest.update if digest is not None else None
        try:
            path = self.fetching.version.tree_path(entry)
            reader = await in_thread(partial(DirectReader, path, md5=md5, told=told))
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
        if reader.size != entry.size:
            return None
        return FoundSums(reader.crc, reader.md5, digest.digest() if digest is not None else b"")

    async def repair(self, path: str, entry: Entry) -> None:
        """Fetch a damaged file again, so that its readers find the right bytes or none. Raises CacheError."""
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
        """Fetch the file and write it into the old inode as well. Return True if that inode then has the right bytes.

        If a user deletes the new file before the copy, it is fetched again.
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
