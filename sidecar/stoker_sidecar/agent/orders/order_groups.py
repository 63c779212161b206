"""Group the pods of a node that read one order: pods of one job on one version, each with its ranks. Pure."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from types import MappingProxyType

from stoker_api.datasets.dataset import MountMode
from stoker_api.jobs.sampling import parse_sampling_text
from stoker_api.node_caches.node_workload import EvidenceSource, OrderSource
from stoker_orders.following import ReadSample
from stoker_orders.sampling_plan import AT_FIRST, SamplingPlan
from stoker_sidecar.agent.core.workload_rows import chosen_fairly
from stoker_sidecar.agent.questions.reading.reading import ObservedTree, ReaderBatch
from stoker_sidecar.volumes.core.publish import Published, VersionKey

# Orders that a node follows. If there are more, each namespace gets its first before any namespace gets its second.
MOST_ORDERS = 10


OrderKey = tuple[VersionKey, SamplingPlan]
_Members = list[tuple[Published, SamplingPlan]]
# Plans that pods report, by the UIDs of the pod and the Dataset.
ReportedPlans = Mapping[tuple[str, str], SamplingPlan]


@dataclass(frozen=True)
class OrderGroup:
    """Pods that read one order. ``plan``: without any pod's rank. ``alone``: no other pod has the version mounted.

    ``source``: where the order comes from; SPEC if any pod's spec declares it. ``namespace``: of the first pod.
    """

    version: VersionKey
    plan: SamplingPlan
    ranks: tuple[int, ...]
    pods: frozenset[str]
    modes: frozenset[MountMode]
    alone: bool
    source: OrderSource = OrderSource.SPEC
    namespace: str = ""

    @property
    def key(self) -> OrderKey:
        """Identity of the group, independent of its pods and of their start."""
        return self.version, replace(self.plan, start=AT_FIRST)

    def reads(self, tree: ObservedTree, pod_uid: str) -> bool:
        """Return True if reads of this tree belong to the group. FUSE also sees an overlay's reads; skip those."""
        by_fuse = tree.source is EvidenceSource.FUSE
        seen = any((mode is MountMode.FUSE) is by_fuse for mode in self.modes)
        return tree.version == self.version and seen and (pod_uid in self.pods if pod_uid else self.alone)


def order_groups(
    mounted: Iterable[Published], reported: ReportedPlans = MappingProxyType({})
) -> tuple[OrderGroup, ...]:
    """Return the groups of mounted versions: orders from specs first, then by the arrival of their first pods.

    ``reported``: orders of pods whose specs declare none.
    """
    rows = list(mounted)
    users = Counter(key for key, _ in {((row.uid, row.version), row.request.pod_uid) for row in rows})
    found: dict[OrderKey, _Members] = {}
    for source in OrderSource:
        for row in rows:
            plan = _plan_of(row, source, reported)
            if plan is not None:
                key = (row.uid, row.version), replace(plan, rank=0, start=AT_FIRST)
                found.setdefault(key, []).append((row, plan))
    return tuple(
        OrderGroup(
            version,
            replace(plan, start=members[0][1].start),
            tuple(sorted({one.rank + place for _, one in members for place in range(one.ranks_here)})),
            frozenset(row.request.pod_uid for row, _ in members),
            frozenset(row.mode for row, _ in members),
            alone=users[version] == len({row.request.pod_uid for row, _ in members}),
            source=OrderSource.SPEC if any(row.request.sampling for row, _ in members) else OrderSource.REPORT,
            namespace=members[0][0].request.pod_namespace,
        )
        for (version, plan), members in _chosen(found)
    )


def _chosen(found: Mapping[OrderKey, _Members]) -> Iterable[tuple[OrderKey, _Members]]:
    return chosen_fairly(found.items(), lambda item: item[1][0][0].request.pod_namespace, MOST_ORDERS)


def _plan_of(row: Published, source: OrderSource, reported: ReportedPlans) -> SamplingPlan | None:
    if not row.request.pod_uid:
        return None
    if source is OrderSource.REPORT:
        return reported.get((row.request.pod_uid, row.uid))
    return _plan(row.request.sampling) if row.request.sampling else None


@lru_cache(maxsize=256)
def _plan(text: str) -> SamplingPlan | None:
    """Read a validated sampling. None: this release cannot read it, since an agent of another release validated it."""
    try:
        return parse_sampling_text(text).plan()
    except ValueError:
        return None


def read_samples(batch: ReaderBatch, source: EvidenceSource, *, by_offset: bool) -> tuple[list[ReadSample], float]:
    """Return the reads of a batch in order, and the estimated number of reads without a row.

    With one file per sample, an open counts as a read. With samples in a large file (``by_offset``), only reads count.
    """
    if by_offset and source is not EvidenceSource.FUSE:
        return [], 0.0
    reads = [ReadSample(row.ino, row.offset) for row in batch.rows if bool(row.length) is by_offset]
    whole = batch.reads if by_offset else batch.opens / batch.share if batch.share else 0.0
    return reads, max(0.0, whole - len(reads))
