"""Decides which files stay on the disk, which are only read through, and which are not fetched.

Files that found no room are retried, or cached files are evicted for them.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from stoker_sidecar.fetcher.download.context import DownloadContext
from stoker_sidecar.fetcher.download.next_epoch import NextEpochRoom
from stoker_sidecar.fetcher.download.piece_writer import PieceWriter
from stoker_sidecar.fetcher.download.policy import Download, DownloadKey
from stoker_sidecar.fetcher.ondisk.cached_version import CachedVersion
from stoker_sidecar.fetcher.ondisk.file_states import State
from stoker_sidecar.fetcher.ondisk.parts import CHUNK
from stoker_sidecar.fetcher.ondisk.version_tuning import VersionTuning
from stoker_sidecar.fetcher.sources.core.lanes import Lane
from stoker_sidecar.fetcher.space.budget import VersionSpace
from stoker_sidecar.fetcher.space.partial_eviction import evict_files
from stoker_sidecar.version.manifest import Entry


class Admission:
    """The decisions for one version. ``in_flight``: its downloads."""

    def __init__(
        self, writer: PieceWriter, next_epoch: NextEpochRoom, in_flight: Mapping[DownloadKey, Download]
    ) -> None:
        self._writer = writer
        self._version = writer.version
        self._space = writer.space
        self._next_epoch = next_epoch
        self._in_flight = in_flight
        self._digest = writer.version.paths.folder.name  # asked for several times a file

    @property
    def tuning(self) -> VersionTuning:
        """The tuning of the version's files now."""
        return self._writer.context.tuning.of(self._digest)

    def busy(self) -> set[int]:
        """Return the inodes with downloads. Their parts are not dropped."""
        return {ino for ino, _ in self._in_flight}

    def admits(self, entry: Entry) -> bool:
        """Return True if the file may stay on this disk. If not, warming skips it from now on.

        A file that is repaired may stay: it takes the room of the damaged one.
        """
        repaired = entry.ino in self._version.repairing
        if not (repaired or self.tuning.of(entry.ino).cached):
            self._version.states[entry.ino] = State.UNKEPT
            return False
        part = self._version.parts.get(entry.ino)
        if part is not None and part.kept:
            return True
        fits = repaired or self._space.room().admits(entry.size)
        if not fits or (part is not None and entry.ino in self.busy()) or not self._version.make_folder(entry):
            self._version.states[entry.ino] = State.UNKEPT
            return False
        if part is not None:
            self._writer.drop(part)  # it was only read through; from now on it is kept
        return True

    def whole(self, entry: Entry, lane: Lane) -> bool | None:
        """Decide on a small file: True if it stays, False if it is read through, None if it is not fetched."""
        if self.admits(entry):
            return True
        is_read = lane is not Lane.WARM
        if is_read and self._next_epoch.make_room(entry, self.tuning) and self._version.make_folder(entry):
            return True
        return False if self._writer.transients.lets_pass(lane, entry.size) else None

    def chunk(self, entry: Entry, lane: Lane) -> bool:
        """Return True if a chunk of a large file is fetched. Begin the file's part if it is missing."""
        part = self._version.parts.get(entry.ino)
        if lane is Lane.READAHEAD and part is not None:
            on_their_way = sum(ino == entry.ino for ino, _ in self._in_flight) * CHUNK
            if self._writer.fills_disk(part, on_their_way):
                return False  # else readers find no room, and the part is never idle and dropped
        if part is None or not (part.kept or lane is not Lane.WARM):
            kept = self.admits(entry)
            if not (kept or self._writer.transients.lets_pass(lane, entry.size)):
                return False
            self._writer.new_part(entry, kept=kept)
        return True


# Seconds until files that did not fit are tried again: other datasets may have left, or files that matter less.
_TRY_AGAIN, _AT_ONCE = 60.0, 0.01


@dataclass
class SkippedFiles:
    """The skipped files of one version."""

    version: CachedVersion
    space: VersionSpace
    context: DownloadContext
    _looked: tuple[VersionTuning, float] | None = None  # when way was made last, and under which rules

    @property
    def waiting(self) -> bool:
        """Whether files to be cached did not fit."""
        version, tuning = self.version, self._tuning
        if not tuning.leaves_out:
            return version.states.count(State.UNKEPT) > 0
        return version.states.are(State.UNKEPT, tuning.cached(version.manifest.last_ino))

    @property
    def try_again(self) -> float | None:
        """Seconds until files that found no room should be tried again; None: when something changes."""
        config = self.space.budget.config
        if config.eager or config.paused:
            return self._until_way() if self.waiting and not config.paused else None
        return _TRY_AGAIN if len(self._tuning.keeps) > 1 else None

    async def evict_files(self) -> None:
        """Evict lower-ranked files for files that found no room: at once under new rules, otherwise after a while.

        Raises CacheError.
        """
        if self.waiting and not self.space.budget.config.paused and self._until_way() < _TRY_AGAIN:
            self._looked = self._tuning, self.context.settings.pipeline.clock()
            await evict_files(self.version, self._tuning, self.space)

    @property
    def _tuning(self) -> VersionTuning:
        return self.context.tuning.of(self.version.paths.folder.name)

    def _until_way(self) -> float:
        """Return the seconds until the next eviction. If all files have one rank, until the next retry."""
        if len(self._tuning.keeps) == 1:
            return _TRY_AGAIN
        tuning, looked = self._looked or (None, 0.0)
        since = self.context.settings.pipeline.clock() - looked
        return _AT_ONCE if tuning is not self._tuning or since >= _TRY_AGAIN - 1 else _TRY_AGAIN
