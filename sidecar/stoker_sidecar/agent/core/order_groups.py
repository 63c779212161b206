"""Which pods of a node read one order together: those of one job on one version, each with its ranks. Pure."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from types import MappingProxyType

from stoker_api.dataset import MountMode
from stoker_api.node_workload import EvidenceSource, OrderSource
from stoker_api.sampling import parse_sampling_text
from stoker_orders.following import ReadSample
from stoker_orders.sampling_plan import AT_FIRST, SamplingPlan
from stoker_sidecar.agent.core.reading import ObservedTree, ReaderBatch
from stoker_sidecar.volumes.core.publish import Published, VersionKey

# Orders that a node follows; of more, the first ones.
MOST_ORDERS = 10


OrderKey = tuple[VersionKey, SamplingPlan]
# What pods say themselves, by the UIDs of the pod and of the Dataset that it is of.
ReportedPlans = Mapping[tuple[str, str], SamplingPlan]


@dataclass(frozen=True)
class OrderGroup:
    """Pods that read one order. ``plan``: without any pod's rank. ``alone``: nobody else has the version mounted.

    ``source``: who said the order; its spec, where one of the pods has it from there.
    """

    version: VersionKey
    plan: SamplingPlan
    ranks: tuple[int, ...]
    pods: frozenset[str]
    modes: frozenset[MountMode]
    alone: bool
    source: OrderSource = OrderSource.SPEC

    @property
    def key(self) -> OrderKey:
        """What makes it one group, whichever pods are in it, and wherever they began."""
        return self.version, replace(self.plan, start=AT_FIRST)

    def reads(self, tree: ObservedTree, pod_uid: str) -> bool:
        """Tell whether what was seen there was read by this group: an overlay's reads are seen by FUSE once more."""
        by_fuse = tree.source is EvidenceSource.FUSE
        seen = any((mode is MountMode.FUSE) is by_fuse for mode in self.modes)
        return tree.version == self.version and seen and (pod_uid in self.pods if pod_uid else self.alone)


def order_groups(
    mounted: Iterable[Published], reported: ReportedPlans = MappingProxyType({})
) -> tuple[OrderGroup, ...]:
    """Return the groups of what is mounted, in the order in which their first pods came; first those of specs.

    ``reported``: orders of pods whose spec says none.
    """
    rows = list(mounted)
    users = Counter(key for key, _ in {((row.uid, row.version), row.request.pod_uid) for row in rows})
    found: dict[OrderKey, list[tuple[Published, SamplingPlan]]] = {}
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
        )
        for (version, plan), members in list(found.items())[:MOST_ORDERS]
    )


def _plan_of(row: Published, source: OrderSource, reported: ReportedPlans) -> SamplingPlan | None:
    if not row.request.pod_uid:
        return None
    if source is OrderSource.REPORT:
        return reported.get((row.request.pod_uid, row.uid))
    return _plan(row.request.sampling) if row.request.sampling else None


@lru_cache(maxsize=256)
def _plan(text: str) -> SamplingPlan | None:
    """Read a sampling that was checked at the door, perhaps by an agent of another version; None: it is none here."""
    try:
        return parse_sampling_text(text).plan()
    except ValueError:
        return None


def read_samples(batch: ReaderBatch, source: EvidenceSource, *, by_offset: bool) -> tuple[list[ReadSample], float]:
    """Return the reads of a batch in their order, and how many more there were that it has no row for.

    Files are read where they are opened; of one large file it is the reads that tell, and its opening tells nothing.
    """
    if by_offset and source is not EvidenceSource.FUSE:
        return [], 0.0
    reads = [ReadSample(row.ino, row.offset) for row in batch.rows if bool(row.length) is by_offset]
    whole = batch.reads if by_offset else batch.opens / batch.share if batch.share else 0.0
    return reads, max(0.0, whole - len(reads))
