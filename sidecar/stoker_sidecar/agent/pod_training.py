"""What one reader does: the tracker of its accesses on each version that it has mounted."""

from collections.abc import Collection
from dataclasses import dataclass, field

from stoker_api.node_workload import EvidenceSource
from stoker_sidecar.agent.core.follow_budget import FollowBudget
from stoker_sidecar.agent.core.observed_training import ObservedTraining, VersionView, observed_training
from stoker_sidecar.agent.core.reading import ObservedTree, ReaderBatch
from stoker_sidecar.agent.core.seen_accesses import SeenShare, is_resampled, seen_accesses
from stoker_sidecar.agent.dataset_layouts import DatasetLayouts
from stoker_sidecar.agent.model_heads import ModelHeads
from stoker_sidecar.volumes.core.publish import VersionKey
from stoker_tuning.training.accesses import AccessSampling
from stoker_tuning.training.layout import DatasetLayout
from stoker_tuning.training.workload import WorkloadTracker


@dataclass
class FollowedVersion:
    """A reader's tracker on one version. ``last``: when it was seen to read of it."""

    layout: DatasetLayout
    tracker: WorkloadTracker
    last: float
    share: SeenShare = field(default_factory=SeenShare)
    sampling: AccessSampling = field(default_factory=AccessSampling)


class PodTraining:
    """What one reader does, which is a pod, or all pods of a version where they cannot be told apart.

    Not for threads; costs what its budget grants. All seconds are of the monotonic clock.
    """

    def __init__(self, layouts: DatasetLayouts, heads: ModelHeads, now: float) -> None:
        self._layouts = layouts
        self._heads = heads
        self.budget = FollowBudget(now)
        self._mounted: dict[VersionKey, tuple[float, EvidenceSource]] = {}
        self._versions: dict[VersionKey, FollowedVersion] = {}

    def mounted(self, tree: ObservedTree, now: float) -> None:
        """Take that the reader has this version mounted, and what sees reads of it."""
        since = self._mounted.get(tree.version, (now, tree.source))[0]
        self._mounted[tree.version] = since, tree.source

    def retain(self, versions: Collection[VersionKey]) -> None:
        """Forget the versions that are not mounted any more."""
        self._mounted = {version: since for version, since in self._mounted.items() if version in versions}
        self._versions = {version: one for version, one in self._versions.items() if version in versions}

    def take(self, tree: ObservedTree, batch: ReaderBatch) -> None:
        """Take what the reader was seen to do; until the version's layout is made, this is lost."""
        followed = self._follow(tree)
        if followed is None:
            return
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
        """Return what the reader does."""
        for version, (_, source) in self._mounted.items():
            self._follow(ObservedTree(*version, source))
        return observed_training(
            [VersionView(one.tracker.at(now), one.layout.only_models, one.last) for one in self._versions.values()]
        )

    @property
    def versions(self) -> tuple[VersionKey, ...]:
        """The versions on which it is followed."""
        return tuple(self._versions)

    def tracker(self, version: VersionKey) -> WorkloadTracker | None:
        """Return the tracker of a version, if there is one."""
        followed = self._versions.get(version)
        return None if followed is None else followed.tracker

    def _follow(self, tree: ObservedTree) -> FollowedVersion | None:
        """Return what follows a version; where chunks were counted and only opens are seen now, it begins anew."""
        by_chunk = tree.source is EvidenceSource.FUSE
        followed = self._versions.get(tree.version)
        if followed is not None and (by_chunk or followed.layout.unit_ends is None):
            return followed
        layout = self._layouts.get(tree.version, by_chunk=by_chunk)
        if layout is None or tree.version not in self._mounted:
            return None
        since, _ = self._mounted[tree.version]
        followed = self._versions[tree.version] = FollowedVersion(layout, WorkloadTracker(layout), since)
        followed.tracker.mounted(since)
        return followed

    def _resample(self, followed: FollowedVersion, now: float) -> None:
        sampling = followed.share.sampling(now)
        if is_resampled(followed.sampling, sampling):
            followed.sampling = sampling
            followed.tracker.resample(sampling)
