"""Accesses as the tracker of a workload takes them: which of them count, and what share of all they are. Pure."""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from stoker_api.node_workload import EvidenceSource
from stoker_sidecar.agent.core.reading import ReaderBatch
from stoker_tuning.training.accesses import AccessSampling, SamplingMethod, SeenAccess
from stoker_tuning.training.layout import DatasetLayout
from stoker_tuning.vocabulary import AccessSource

_SOURCES = {EvidenceSource.FUSE: AccessSource.FUSE, EvidenceSource.FANOTIFY: AccessSource.FANOTIFY}
# Seconds that a share is about, and batches at most.
_WINDOW, _MOST = 60.0, 256
_NEARLY_ALL = 0.95
_LEAST_SHARE = 1e-4
# A share that moved by less is the same one.
_STEADY = 0.2


def seen_accesses(layout: DatasetLayout, source: EvidenceSource, batch: ReaderBatch) -> Iterator[SeenAccess]:
    """Yield the accesses of a batch that tell something.

    Of a FUSE mount, a file is read where it is opened: what the page cache has is opened, and not asked for. Where
    chunks of large files are counted, and in model files, it is the reads that tell.
    """
    by = _SOURCES[source]
    for row in batch.rows:
        reads = source is EvidenceSource.FUSE and (layout.unit_ends is not None or row.ino in layout.model_files)
        if bool(row.length) is reads:
            yield SeenAccess(min(row.seconds, batch.until), row.ino, row.offset, row.length, row.pid, by)


class _Share(NamedTuple):
    until: float
    seconds: float
    kept: float
    whole: float
    files: float


@dataclass
class SeenShare:
    """Which share of one reader's accesses was seen in the last minute."""

    _batches: "deque[_Share]" = field(default_factory=lambda: deque(maxlen=_MOST))

    def add(self, batch: ReaderBatch, kept: int, *, of_reads: bool) -> None:
        """Note a batch of which so many rows were kept; ``of_reads``: these are reads, else opens."""
        whole = batch.reads if of_reads else batch.opens / batch.share if batch.share else 0.0
        self._batches.append(_Share(batch.until, batch.until - batch.since, kept, whole, batch.files))

    def sampling(self, now: float) -> AccessSampling:
        """Return how much is seen, and in which way."""
        recent = [one for one in self._batches if now - one.until <= _WINDOW]
        kept, whole = sum(one.kept for one in recent), sum(one.whole for one in recent)
        files = min((one.files for one in recent if one.files), default=1.0)
        share = min(files, max(_LEAST_SHARE, kept / whole)) if kept and whole else files
        if share < _NEARLY_ALL * files:
            spells = [one.seconds for one in recent if one.seconds]
            return AccessSampling(SamplingMethod.TIME, share, sum(spells) / len(spells) if spells else 0.0)
        return AccessSampling(SamplingMethod.FILES, files) if files < _NEARLY_ALL else AccessSampling()


def is_resampled(before: AccessSampling, after: AccessSampling) -> bool:
    """Tell whether a share has moved by so much that figures should be made with the new one."""
    moved = abs(after.share - before.share) > _STEADY * before.share
    return after.method is not before.method or moved
