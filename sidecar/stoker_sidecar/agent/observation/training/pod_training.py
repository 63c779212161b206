"""A reader's training activity: a tracker of its accesses on each mounted version."""

from collections import deque
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from stoker_api.node_caches.node_workload import EvidenceSource
from stoker_sidecar.agent.core.observed_training import ObservedTraining, VersionView, observed_training
from stoker_sidecar.agent.observation.training.dataset_layouts import DatasetLayouts
from stoker_sidecar.agent.observation.training.model_heads import ModelHeads
from stoker_sidecar.agent.questions.reading.reading import ObservedTree, ReaderBatch
from stoker_sidecar.volumes.core.publish import VersionKey
from stoker_tuning.training.accesses import AccessSampling, SamplingMethod, SeenAccess
from stoker_tuning.training.layout import DatasetLayout
from stoker_tuning.training.workload import WorkloadTracker
from stoker_tuning.vocabulary import AccessSource, TrainingPhase

_SOURCES = {EvidenceSource.FUSE: AccessSource.FUSE, EvidenceSource.FANOTIFY: AccessSource.FANOTIFY}
# Seconds covered by a share, and the maximum number of batches.
_WINDOW, _MOST = 60.0, 256
_NEARLY_ALL = 0.95
_LEAST_SHARE = 1e-4
# A smaller change of a share is ignored.
_STEADY = 0.2


def seen_accesses(layout: DatasetLayout, source: EvidenceSource, batch: ReaderBatch) -> Iterator[SeenAccess]:
    """Yield the informative accesses of a batch.

    On a FUSE mount, an open counts as a read of the file: the page cache serves opened files without requests. If
    chunks of large files are counted, and in model files, the reads count.
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
    """The observed share of one reader's accesses in the last minute."""

    _batches: "deque[_Share]" = field(default_factory=lambda: deque(maxlen=_MOST))

    def add(self, batch: ReaderBatch, kept: int, *, of_reads: bool) -> None:
        """Record a batch with ``kept`` rows. ``of_reads`` means that these are reads, not opens."""
        whole = batch.reads if of_reads else batch.opens / batch.share if batch.share else 0.0
        self._batches.append(_Share(batch.until, batch.until - batch.since, kept, whole, batch.files))

    def sampling(self, now: float) -> AccessSampling:
        """Return the observed share and the sampling method."""
        recent = [one for one in self._batches if now - one.until <= _WINDOW]
        kept, whole = sum(one.kept for one in recent), sum(one.whole for one in recent)
        files = min((one.files for one in recent if one.files), default=1.0)
        share = min(files, max(_LEAST_SHARE, kept / whole)) if kept and whole else files
        if share < _NEARLY_ALL * files:
            spells = [one.seconds for one in recent if one.seconds]
            return AccessSampling(SamplingMethod.TIME, share, sum(spells) / len(spells) if spells else 0.0)
        return AccessSampling(SamplingMethod.FILES, files) if files < _NEARLY_ALL else AccessSampling()


def is_resampled(before: AccessSampling, after: AccessSampling) -> bool:
    """Return True if a share has changed enough to recompute figures with the new one."""
    moved = abs(after.share - before.share) > _STEADY * before.share
    return after.method is not before.method or moved


# Accesses a second of all pods together: 9 us each, so 1 % of a core.
ACCESSES_A_SECOND = 1000.0
# Seconds of accesses that may arrive at once.
_BURST = 10.0


class FollowBudget:
    """A reader's share of the accesses that the agent examines; ``share`` is 0 to 1 of all readers."""

    def __init__(self, now: float, share: float = 1.0) -> None:
        self._last = now
        self._left = _BURST * ACCESSES_A_SECOND * share
        self.share = share

    def grant(self, now: float, wanted: int) -> int:
        """Return the number of accesses that may be examined, out of ``wanted``."""
        rate = ACCESSES_A_SECOND * self.share
        self._left = min(_BURST * rate, self._left + max(0.0, now - self._last) * rate)
        self._last = now
        granted = min(wanted, int(self._left))
        self._left -= granted
        return granted


# Accesses to one version that wait for its layout: a server may read its model once, and nothing afterward.
_MOST_EARLY = 2000


@dataclass
class EarlyBatches:
    """A reader's accesses before the version's layout is ready: the first ``_MOST_EARLY`` ones."""

    batches: list[tuple[ObservedTree, ReaderBatch]] = field(default_factory=list)
    rows: int = 0

    def add(self, tree: ObservedTree, batch: ReaderBatch) -> None:
        """Keep a batch if there is room for its accesses."""
        if batch.rows and self.rows + len(batch.rows) <= _MOST_EARLY:
            self.batches.append((tree, batch))
            self.rows += len(batch.rows)


@dataclass
class FollowedVersion:
    """A reader's tracker on one version. ``last`` is the time of its last observed read."""

    layout: DatasetLayout
    tracker: WorkloadTracker
    last: float
    share: SeenShare = field(default_factory=SeenShare)
    sampling: AccessSampling = field(default_factory=AccessSampling)


class PodTraining:
    """The activity of one reader: a pod, or all pods of a version if their reads cannot be separated.

    Not thread-safe. Its cost is limited by its budget. All seconds are of the monotonic clock.
    """

    def __init__(self, layouts: DatasetLayouts, heads: ModelHeads, now: float) -> None:
        self._layouts = layouts
        self._heads = heads
        self.budget = FollowBudget(now)
        self._mounted: dict[VersionKey, tuple[float, EvidenceSource]] = {}
        self._versions: dict[VersionKey, FollowedVersion] = {}
        self._early: dict[VersionKey, EarlyBatches] = {}

    def mounted(self, tree: ObservedTree, now: float) -> None:
        """Record that the reader mounts this version, and the source of its observed reads."""
        since = self._mounted.get(tree.version, (now, tree.source))[0]
        self._mounted[tree.version] = since, tree.source

    def retain(self, versions: Collection[VersionKey]) -> None:
        """Forget versions that are not mounted."""
        self._mounted = {version: since for version, since in self._mounted.items() if version in versions}
        self._versions = {version: one for version, one in self._versions.items() if version in versions}
        self._early = {version: one for version, one in self._early.items() if version in versions}

    def take(self, tree: ObservedTree, batch: ReaderBatch) -> None:
        """Process the reader's observed accesses.

        Until the version's layout is ready, the first accesses wait for it.
        """
        followed = self._follow(tree)
        if followed is not None:
            self._take(followed, tree, batch)
        elif tree.version in self._mounted and self._layouts.is_made_now(tree.version, by_chunk=_by_chunk(tree)):
            self._early.setdefault(tree.version, EarlyBatches()).add(tree, batch)

    def _take(self, followed: FollowedVersion, tree: ObservedTree, batch: ReaderBatch) -> None:
        accesses = list(seen_accesses(followed.layout, tree.source, batch))
        granted = accesses[: self.budget.grant(batch.until, len(accesses))]
        of_reads = tree.source is EvidenceSource.FUSE and followed.layout.unit_ends is not None
        kept = sum(access.file not in followed.layout.model_files for access in granted)
        followed.share.add(batch, kept, of_reads=of_reads)
        self._resample(followed, batch.until)
        for access in granted:
            followed.last = access.seconds
            self._heads.opened(tree.version, followed.layout, access.file)
            followed.tracker.saw(access)

    def training(self, now: float) -> ObservedTraining:
        """Return the reader's training activity."""
        self._follow_mounted()
        return observed_training(
            [VersionView(one.tracker.at(now), one.layout.only_models, one.last) for one in self._versions.values()]
        )

    def phases(self) -> tuple[tuple[VersionKey, TrainingPhase, int], ...]:
        """Return phase and epoch on each version."""
        self._follow_mounted()
        known = ((version, one.tracker) for version, one in self._versions.items())
        return tuple((version, tracker.phase.phase, tracker.epoch_number) for version, tracker in known)

    @property
    def versions(self) -> tuple[VersionKey, ...]:
        """The followed versions."""
        return tuple(self._versions)

    def tracker(self, version: VersionKey) -> WorkloadTracker | None:
        """Return the tracker of a version, or None."""
        followed = self._versions.get(version)
        return None if followed is None else followed.tracker

    def _follow_mounted(self) -> None:
        for version, (_, source) in self._mounted.items():
            self._follow(ObservedTree(*version, source))

    def _follow(self, tree: ObservedTree) -> FollowedVersion | None:
        """Return the state of a version. It restarts if chunks were counted and now only opens are observed."""
        by_chunk = _by_chunk(tree)
        followed = self._versions.get(tree.version)
        if followed is not None and (by_chunk or followed.layout.unit_ends is None):
            return followed
        layout = self._layouts.get(tree.version, by_chunk=by_chunk)
        if layout is None or tree.version not in self._mounted:
            return None
        since, _ = self._mounted[tree.version]
        followed = self._versions[tree.version] = FollowedVersion(layout, WorkloadTracker(layout), since)
        followed.tracker.mounted(since)
        for early in self._early.pop(tree.version, EarlyBatches()).batches:
            self._take(followed, *early)
        return followed

    def _resample(self, followed: FollowedVersion, now: float) -> None:
        sampling = followed.share.sampling(now)
        if is_resampled(followed.sampling, sampling):
            followed.sampling = sampling
            followed.tracker.resample(sampling)


def _by_chunk(tree: ObservedTree) -> bool:
    """Return True if chunks of large files may be the units, because a FUSE server reports them."""
    return tree.source is EvidenceSource.FUSE
