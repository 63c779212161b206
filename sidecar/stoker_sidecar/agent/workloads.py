"""Who reads what on this node: accesses arrive here, are given to the pods that made them, and become figures."""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from stoker_api.dataset import MountMode
from stoker_api.nodecache import Attribution, EvidenceSource, NodeWorkload
from stoker_sidecar.agent.core.openers import Openers
from stoker_sidecar.agent.core.read_rates import RecentOpens, SeenTime, speed
from stoker_sidecar.agent.core.stall import FuseWaits, Stall
from stoker_sidecar.agent.core.workload_rows import observed_row
from stoker_sidecar.agent.readers import OURS, ReaderProcesses
from stoker_sidecar.volumes.core.publish import Published, VersionKey
from stoker_sidecar.wire.access_protocol import AccessBatch, AccessRow

# Seconds after which a workload that reads nothing is none any more.
_FORGET = 120.0
# Datasets whose counters are kept although nobody has them mounted.
_MOST_COUNTS = 2000


class ObservedTree(NamedTuple):
    """What a batch is about: a version, and what saw it."""

    uid: str
    digest: str
    source: EvidenceSource


class ReaderKey(NamedTuple):
    """Who reads: a pod by its UID; where it is empty, all pods of one version together."""

    pod_uid: str
    version: VersionKey | None = None


@dataclass(frozen=True)
class SourceCounts:
    """What one source saw of a Dataset since the agent started. ``opens``: estimated from the sample."""

    opens: float = 0.0
    reads: int = 0
    bytes: int = 0
    lost: int = 0


@dataclass
class Workload:
    """One pod that reads, or all pods of a version together where they cannot be told apart.

    This is where its accesses arrive. ``datasets``: what it reads, by UID. All seconds are of the monotonic clock.
    """

    attribution: Attribution
    datasets: dict[str, str] = field(default_factory=dict)
    reads: float = 0.0
    last: float = 0.0
    source: EvidenceSource = EvidenceSource.FANOTIFY
    recent: RecentOpens[ObservedTree] = field(default_factory=RecentOpens)

    def take(self, tree: ObservedTree, until: float, opens: float, share: float, accesses: Sequence[AccessRow]) -> None:
        """Take what it was seen to do in one batch.

        ``opens``: so many files were seen to be opened, which are ``share`` of all. ``accesses``: those of them that
        the batch has a row for, in order.
        """
        self.reads += opens / share if share else 0.0
        self.recent.add(until, tree, opens)
        if opens or accesses:
            self.last, self.source = until, tree.source


class Workloads:
    """The workloads of a node. Not for threads.

    ``mounted``: what pods have mounted. ``clock``: the monotonic one, in seconds.
    """

    def __init__(
        self,
        mounted: Callable[[], Iterable[Published]],
        readers: ReaderProcesses,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._mounted = mounted
        self._readers = readers
        self._clock = clock
        self._openers = Openers()
        self._workloads: dict[ReaderKey, Workload] = {}
        self._times: dict[ObservedTree, SeenTime] = {}
        self.counts: dict[tuple[str, EvidenceSource], SourceCounts] = {}
        self.waited: dict[VersionKey, FuseWaits] = {}
        self.stalls: Mapping[str, Stall] = {}  # by UID of the pod

    def take(self, tree: ObservedTree, batch: AccessBatch) -> None:
        """Take a batch: count it, and give it to those who read. What nobody has mounted may be made up."""
        mounted = [row for row in self._mounted() if (row.uid, row.version) == tree[:2]]
        if not mounted:
            return
        users = [row for row in mounted if _reads_by(row, tree.source)]
        by_reader = self._by_reader(tree, batch, users)
        shares = _shares(by_reader)
        self._count(tree, batch, batch.opens * (1.0 - shares.pop(OURS, 0.0)))
        if not users or (batch.since == batch.until and not batch.rows):
            return
        self._times.setdefault(tree, SeenTime()).add(batch.since, batch.until, batch.share)
        for pod_uid, share in shares.items():
            workload = self._workload(pod_uid, users)
            workload.datasets[tree.uid] = users[0].request.name
            workload.take(tree, batch.until, batch.opens * share, batch.share, by_reader[pod_uid])

    def rows(self) -> tuple[NodeWorkload, ...]:
        """Return a row for each pod that reads, in the order in which they mounted; forgets who is gone."""
        now, mounted = self._clock(), tuple(self._mounted())
        self._prune(now, mounted)
        users: dict[ReaderKey, dict[str, Published]] = {}
        for record in mounted:
            key = self._key_of(record)
            if key is not None and record.request.pod_uid:
                users.setdefault(key, {}).setdefault(record.request.pod_uid, record)
        return tuple(
            self._row(self._workloads[key], record, len(pods), now)
            for key, pods in users.items()
            for record in pods.values()
        )

    def alone_by_fuse(self) -> dict[str, VersionKey | None]:
        """Return the pods that mount Datasets, by UID, each with the version that it alone reads by FUSE, if so."""
        rows = tuple(self._mounted())
        users: dict[VersionKey, set[str]] = {}
        for row in rows:
            users.setdefault((row.uid, row.version), set()).add(row.request.pod_uid)
        found: dict[str, VersionKey | None] = {row.request.pod_uid: None for row in rows if row.request.pod_uid}
        for row in rows:
            if row.mode is MountMode.FUSE and len(users[row.uid, row.version]) == 1 and row.request.pod_uid:
                found[row.request.pod_uid] = (row.uid, row.version)
        return found

    def _key_of(self, record: Published) -> ReaderKey | None:
        """Return by which workload a pod's reads are known: its own, or that of all who have the version."""
        keys = (ReaderKey(record.request.pod_uid), ReaderKey("", (record.uid, record.version)))
        return next((key for key in keys if key in self._workloads), None)

    def _prune(self, now: float, records: Sequence[Published]) -> None:
        """Forget who reads no more or is gone, and what is of versions that nobody has mounted."""
        pods, versions = {row.request.pod_uid for row in records}, {(row.uid, row.version) for row in records}
        self._workloads = {
            key: one
            for key, one in self._workloads.items()
            if now - one.last <= _FORGET and (key.pod_uid in pods if key.pod_uid else key.version in versions)
        }
        self._times = {tree: time for tree, time in self._times.items() if tree[:2] in versions}
        self.waited = {version: waits for version, waits in self.waited.items() if version in versions}
        if len(self.counts) > _MOST_COUNTS:
            uids = {uid for uid, _ in versions}
            self.counts = {key: counts for key, counts in self.counts.items() if key[0] in uids}

    def _row(self, one: Workload, record: Published, sharing: int, now: float) -> NodeWorkload:
        """Return the row of a pod, which is one of so many that this workload is of."""
        found = speed(one.recent.lately(now), self._times, now)
        return observed_row(
            record.request,
            source=one.source,
            attribution=one.attribution,
            datasets=sorted(one.datasets.values()),
            items_per_second=found.items / sharing,
            reads=one.reads / sharing,
            sampled=found.share,
            stall=self.stalls.get(record.request.pod_uid),
        )

    def _by_reader(
        self, tree: ObservedTree, batch: AccessBatch, users: Sequence[Published]
    ) -> dict[str, list[AccessRow]]:
        """Return whose the rows of a batch are, by UID of the pod; by the empty one what may be any pod's."""
        pods = {row.request.pod_uid for row in users}
        rows = self._openers.named(tree[:2], batch.rows)
        who = self._readers.who({row.pid for row in rows}, pods)
        nobody = next(iter(pods)) if len(pods) == 1 else ""
        found: dict[str, list[AccessRow]] = {}
        for row in rows:
            found.setdefault(who[row.pid] or nobody, []).append(row)
        return found or {nobody: []}

    def _workload(self, pod_uid: str, users: Sequence[Published]) -> Workload:
        alone = len({row.request.pod_uid for row in users}) == 1
        how = Attribution.VERSION if not pod_uid else Attribution.ONLY_POD if alone else Attribution.PROCESS
        version = (users[0].uid, users[0].version)
        found = self._workloads.setdefault(ReaderKey(pod_uid, None if pod_uid else version), Workload(how))
        found.attribution = how
        return found

    def _count(self, tree: ObservedTree, batch: AccessBatch, opens: float) -> None:
        before = self.counts.get((tree.uid, tree.source), SourceCounts())
        self.counts[tree.uid, tree.source] = replace(
            before,
            opens=before.opens + (opens / batch.share if batch.share else 0.0),
            reads=before.reads + batch.reads,
            bytes=before.bytes + batch.bytes,
            lost=before.lost + batch.lost,
        )
        if tree.source is EvidenceSource.FUSE:
            waited = self.waited.get(tree[:2], FuseWaits(0.0, 0.0))
            self.waited[tree[:2]] = FuseWaits(batch.until, waited.seconds + batch.waited)


def _reads_by(row: Published, source: EvidenceSource) -> bool:
    """Tell whether a volume's opens are seen by that source: FUSE sees an overlay's too, a second time."""
    return (row.mode is MountMode.FUSE) is (source is EvidenceSource.FUSE)


def _shares(by_reader: Mapping[str, Sequence[AccessRow]]) -> dict[str, float]:
    """Return which share of a batch's opens is whose: as many as of the opens that have a row."""
    opens = {reader: sum(not row.length for row in rows) for reader, rows in by_reader.items()}
    total = sum(opens.values())
    return {reader: count / total if total else 1.0 / len(opens) for reader, count in opens.items()}
