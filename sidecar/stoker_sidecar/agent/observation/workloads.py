"""The workloads of this node: attributes accesses to pods, and computes their figures."""

import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from stoker_api.datasets.dataset import MountMode
from stoker_api.node_caches.node_workload import Attribution, EvidenceSource, NodeWorkload
from stoker_sidecar.agent.core.observed_training import ObservedTraining
from stoker_sidecar.agent.core.stall import FuseWaits, Stall
from stoker_sidecar.agent.core.workload_rows import observed_row
from stoker_sidecar.agent.observation.read_rates import RecentOpens, SeenTime, speed
from stoker_sidecar.agent.observation.readers import OURS, ReaderProcesses
from stoker_sidecar.agent.observation.training.pod_training import PodTraining
from stoker_sidecar.agent.observation.training.training_watch import TrainingWatch, seen_by
from stoker_sidecar.agent.questions.reading.reading import ObservedTree, ReaderBatch, ReaderKey
from stoker_sidecar.volumes.core.publish import Published, VersionKey
from stoker_sidecar.wire.access_protocol import AccessBatch, AccessRow

OnReads = Callable[[ObservedTree, str, ReaderBatch], None]  # the version, the pod's UID, its reads

# Files with a cached opener: some hundred KB.
_MOST = 4096


class Openers:
    """The last process that opened each of the recently opened files."""

    def __init__(self) -> None:
        self._pids: OrderedDict[tuple[VersionKey, int], int] = OrderedDict()

    def named(self, version: VersionKey, rows: Iterable[AccessRow]) -> list[AccessRow]:
        """Record the opens among these rows. Return the rows, with the opener's pid in reads where it is known."""
        return [self._named(version, row) for row in rows]

    def _named(self, version: VersionKey, row: AccessRow) -> AccessRow:
        key = version, row.ino
        if row.length:
            return row if row.pid else row._replace(pid=self._pids.get(key, 0))
        self._pids[key] = row.pid
        self._pids.move_to_end(key)
        if len(self._pids) > _MOST:
            self._pids.popitem(last=False)
        return row


# Seconds without reads after which a workload is forgotten.
_FORGET = 120.0
# Seconds by which a batch may be ahead of the agent's clock. A client that claims more is lying.
_EARLY = 1.0
# Datasets with counters that are kept without a mount.
_MOST_COUNTS = 2000


@dataclass(frozen=True)
class SourceCounts:
    """The observations of a Dataset by one source since the agent started.

    ``opens``: estimated from the sample.
    """

    opens: float = 0.0
    reads: int = 0
    bytes: int = 0
    lost: int = 0


@dataclass
class Workload:
    """One reading pod, or all pods of a version together if their reads cannot be separated.

    It receives its accesses. ``datasets`` are those it reads, by UID. ``training`` follows it in detail, if anything
    does. All seconds are of the monotonic clock.
    """

    attribution: Attribution | None = None  # no reads yet
    datasets: dict[str, str] = field(default_factory=dict)
    reads: float = 0.0
    last: float = 0.0
    source: EvidenceSource = EvidenceSource.FANOTIFY
    recent: RecentOpens[ObservedTree] = field(default_factory=RecentOpens)
    training: PodTraining | None = None

    def take(self, tree: ObservedTree, batch: ReaderBatch) -> None:
        """Process its observed accesses in one batch."""
        self.reads += batch.opens / batch.share if batch.share else 0.0
        self.recent.add(batch.since, batch.until, tree, batch.opens)
        if batch.opens or batch.rows:
            self.last, self.source = batch.until, tree.source
        if self.training is not None:
            self.training.take(tree, batch)


def ignore_reads(_tree: ObservedTree, _pod_uid: str, _batch: ReaderBatch) -> None:
    """Take no reads."""


class Workloads:
    """The workloads of a node. Not thread-safe.

    ``mounted`` returns the mounted volumes. ``watch`` follows some pods in detail; None: it follows none. ``clock`` is
    monotonic, in seconds. ``on_reads`` gets each pod's reads; an empty UID means several pods.
    """

    def __init__(
        self,
        mounted: Callable[[], Iterable[Published]],
        readers: ReaderProcesses,
        clock: Callable[[], float] = time.monotonic,
        watch: TrainingWatch | None = None,
        on_reads: OnReads = ignore_reads,
    ) -> None:
        self._mounted = mounted
        self._readers = readers
        self._watch = watch
        self._on_reads = on_reads
        self._clock = clock
        self._openers = Openers()
        self._workloads: dict[ReaderKey, Workload] = {}
        self._times: dict[ObservedTree, SeenTime] = {}
        self.counts: dict[tuple[str, EvidenceSource], SourceCounts] = {}
        self.waited: dict[VersionKey, FuseWaits] = {}
        self.stalls: Mapping[str, Stall] = {}  # by UID of the pod
        self.frameworks: Mapping[str, str] = {}  # also by UID of the pod

    def take(self, tree: ObservedTree, batch: AccessBatch) -> None:
        """Count a batch, and attribute it to its readers. A batch about an unmounted version may be forged."""
        mounted = [row for row in self._mounted() if (row.uid, row.version) == tree.version]
        if not mounted or batch.until > self._clock() + _EARLY:
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
            reads = _of_reader(batch, share, by_reader[pod_uid])
            workload.take(tree, reads)
            self._on_reads(tree, pod_uid, reads)
        if self._watch is not None:
            self._watch.look_for_sweeps(tree.version)

    def follow(self) -> None:
        """Follow pods with mounts before their first read. Call this after each change of mounts."""
        if self._watch is None:
            return
        mounted = tuple(self._mounted())
        self._watch.choose(mounted)
        followed = self._watch.pods()
        for row in mounted:
            key = ReaderKey(row.request.pod_uid)
            if key.pod_uid in followed and key not in self._workloads:
                self._workloads[key] = Workload(source=seen_by(row), last=self._clock())
            if key.pod_uid in followed:
                self._workloads[key].datasets[row.uid] = row.request.name
        for key, workload in self._workloads.items():
            workload.training = self._watch.of(key)
        for version in {(row.uid, row.version) for row in mounted}:
            self._watch.look_for_sweeps(version)

    def followed(self) -> tuple[str, ...]:
        """Return the UIDs of the pods that are followed in detail."""
        return self._watch.pods() if self._watch is not None else ()

    def phases(self) -> dict[str, object]:
        """Return a value per followed pod that changes with its phase or epoch, by UID. Takes some microseconds."""
        known = {uid: self._workloads.get(ReaderKey(uid)) for uid in self.followed()}
        return {uid: one.training.phases() for uid, one in known.items() if one is not None and one.training}

    def rows(self) -> tuple[NodeWorkload, ...]:
        """Return a row for each reading pod, in mount order. Forget pods that are gone."""
        now, mounted = self._clock(), tuple(self._mounted())
        self._prune(now, mounted)
        records = {row.request.pod_uid: row for row in reversed(mounted) if row.request.pod_uid}
        known = {uid: key for uid in reversed(records) if (key := self._key_of(uid, mounted)) is not None}
        pods = Counter(known.values())
        return tuple(self._row(self._workloads[key], records[uid], pods[key], now) for uid, key in known.items())

    def opened(self) -> dict[str, float]:
        """Return the files that each pod has opened so far by its UID, estimated from a sample."""
        mounted = tuple(self._mounted())
        uids = {row.request.pod_uid for row in mounted if row.request.pod_uid}
        known = {uid: key for uid in uids if (key := self._key_of(uid, mounted)) is not None}
        pods = Counter(known.values())
        return {uid: self._workloads[key].reads / pods[key] for uid, key in known.items()}

    def alone_by_fuse(self) -> dict[str, VersionKey | None]:
        """Return the pods with Datasets by UID, each with the version that it alone reads by FUSE, or None."""
        rows = tuple(self._mounted())
        users: dict[VersionKey, set[str]] = {}
        for row in rows:
            users.setdefault((row.uid, row.version), set()).add(row.request.pod_uid)
        found: dict[str, VersionKey | None] = {row.request.pod_uid: None for row in rows if row.request.pod_uid}
        for row in rows:
            if row.mode is MountMode.FUSE and len(users[row.uid, row.version]) == 1 and row.request.pod_uid:
                found[row.request.pod_uid] = (row.uid, row.version)
        return found

    def _key_of(self, pod_uid: str, mounted: Sequence[Published]) -> ReaderKey | None:
        """Return the workload of a pod's reads: the pod's, or that of all pods with one of its versions."""
        shared = (ReaderKey("", (row.uid, row.version)) for row in mounted if row.request.pod_uid == pod_uid)
        known = [key for key in (ReaderKey(pod_uid), *shared) if key in self._workloads]
        return max(known, key=lambda key: self._workloads[key].reads > 0, default=None)

    def _prune(self, now: float, records: Sequence[Published]) -> None:
        """Forget pods that stopped reading or are gone, and data of unmounted versions."""
        pods, versions = {row.request.pod_uid for row in records}, {(row.uid, row.version) for row in records}
        self._workloads = {
            key: one
            for key, one in self._workloads.items()
            if (key.pod_uid in pods if key.pod_uid else key.version in versions)
            and (one.training is not None or now - one.last <= _FORGET)
        }
        self._times = {tree: time for tree, time in self._times.items() if tree.version in versions}
        self.waited = {version: waits for version, waits in self.waited.items() if version in versions}
        if len(self.counts) > _MOST_COUNTS:
            uids = {uid for uid, _ in versions}
            self.counts = {key: counts for key, counts in self.counts.items() if key[0] in uids}

    def _row(self, one: Workload, record: Published, sharing: int, now: float) -> NodeWorkload:
        """Return the row of a pod, one of ``sharing`` pods of this workload."""
        training = one.training.training(now) if one.training else ObservedTraining()
        found = speed(one.recent, self._times, now, training.since)
        return observed_row(
            record.request,
            source=one.source,
            attribution=one.attribution,
            datasets=sorted(one.datasets.values()),
            items_per_second=None if found.items is None else found.items / sharing,
            reads=one.reads / sharing,
            sampled=found.share,
            stall=self.stalls.get(record.request.pod_uid),
            training=training,
            framework=self.frameworks.get(record.request.pod_uid, ""),
        )

    def _by_reader(
        self, tree: ObservedTree, batch: AccessBatch, users: Sequence[Published]
    ) -> dict[str, list[AccessRow]]:
        """Return the rows of a batch by UID of the pod. The empty UID has rows that may be any pod's."""
        pods = {row.request.pod_uid for row in users}
        rows = self._openers.named(tree.version, batch.rows)
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
        key = ReaderKey(pod_uid, None if pod_uid else version)
        found = self._workloads.setdefault(key, Workload())
        found.attribution = how
        found.training = self._watch.of(key) if self._watch else None
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
            waited = self.waited.get(tree.version, FuseWaits(0.0, 0.0))
            self.waited[tree.version] = FuseWaits(batch.until, waited.seconds + batch.waited)


def _reads_by(row: Published, source: EvidenceSource) -> bool:
    """Return True if that source sees a volume's opens. FUSE sees an overlay's too, a second time."""
    return (row.mode is MountMode.FUSE) is (source is EvidenceSource.FUSE)


def _shares(by_reader: Mapping[str, Sequence[AccessRow]]) -> dict[str, float]:
    """Return each reader's share of a batch: its share of the opens with a row, or else of the reads."""
    opens = {reader: sum(not row.length for row in rows) for reader, rows in by_reader.items()}
    counts = opens if any(opens.values()) else {reader: len(rows) for reader, rows in by_reader.items()}
    total = sum(counts.values())
    return {reader: count / total if total else 1.0 / len(counts) for reader, count in counts.items()}


def _of_reader(batch: AccessBatch, share: float, rows: Sequence[AccessRow]) -> ReaderBatch:
    """Return the part of a batch of one reader with this ``share``."""
    return ReaderBatch(
        batch.since, batch.until, batch.opens * share, batch.share, batch.reads * share, batch.files, rows
    )
