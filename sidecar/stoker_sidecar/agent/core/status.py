"""Compute a node's NodeCacheStatus from the plan, the fetcher's figures and the pods' mounts. Pure."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from stoker_api.datasets.cache_memory import NodeMemory
from stoker_api.datasets.dataset import MountMode
from stoker_api.datasets.origin import NodeOrigin
from stoker_api.goodput import EndedPod
from stoker_api.meta import Condition, format_bytes, read_bounded, shortened
from stoker_api.names import ConditionType, Reason
from stoker_api.node_caches.node_dataset import NodeDataset
from stoker_api.node_caches.node_dataset_status import NodeDatasetStatus, NodePhase
from stoker_api.node_caches.node_hardware import MOST_DISKS, NodeDisk, NodeHardware
from stoker_api.node_caches.node_storage import CacheFolder, NodeMount
from stoker_api.node_caches.node_workload import NodeWorkload
from stoker_api.node_caches.nodecache_status import NodeCacheStatus, NodeOrderPlugin, NodePlugin
from stoker_api.profiles.tuning import NodeProfile, NodeRuleFigures
from stoker_sidecar.agent.core.disk_figures import DiskFigures
from stoker_sidecar.agent.core.status_room import fitted, told_mounts
from stoker_sidecar.linux.hardware import Machine
from stoker_sidecar.volumes.core.publish import VersionKey
from stoker_sidecar.wire.dataset_texts import with_short_texts


def node_hardware(machine: Machine) -> NodeHardware:
    """Return the hardware section of a NodeCache."""
    return NodeHardware(
        memory_bytes=machine.memory,
        cpus=machine.cpus,
        gpus=machine.gpus,
        network_bytes_per_second=machine.network,
        disks=tuple(NodeDisk(path=path, kind=kind) for path, kind in machine.disks[:MOST_DISKS]),
    )


# Share of the disk. Free space changes with all other use of the disk; smaller changes than this are not worth a write.
_STEADY = 0.01
_FIGURES = {
    "warm_files": 0,
    "warm_bytes": 0,
    "fetched_files": 0,
    "source_bytes": 0,
    "peer_bytes": 0,
    "bytes_per_second": 0,
    "best_source_bytes_per_second": None,
    "source_milliseconds": None,
    "eta_seconds": None,
    "warm_paths": None,
    "pages": None,
    "memory": None,
}

_MOST_SENTENCE = 4096  # characters of a condition
# Most reported Datasets that are on the disk but in no plan, and most versions of each.
_MOST_FOUND, _MOST_RETAINED = 1000, 5

_ORIGIN_FIGURES = {"bytes_per_second": 0, "milli_requests_per_second": 0}
_FOLDER_FIGURES = {"capacity_bytes": 0, "used_bytes": 0, "available_bytes": 0}


@dataclass(frozen=True)
class Facts:
    """Input of a status."""

    generation: int
    plan: tuple[NodeDataset, ...]
    rows: Mapping[str, NodeDatasetStatus]  # the last row of each dataset, by uid
    leftovers: frozenset[str]  # uids on the disk and in no plan
    # Versions on the disk of datasets without a command for the fetcher, by uid: planned ones, and leftovers that stay
    # until a plan decides. Each of these datasets has an entry.
    found: Mapping[str, tuple[str, ...]]
    inventory: bool  # the fetcher has reported the content of the disk
    mounts: tuple[NodeMount, ...]
    profiles: tuple[NodeProfile, ...]  # TuningProfiles of Datasets
    figures: tuple[NodeRuleFigures, ...]  # results of rules
    workloads: tuple[NodeWorkload, ...]  # pods' activity, updated at a limited rate: see node_workloads.py
    disk: DiskFigures
    folders: tuple[CacheFolder, ...]
    modes: tuple[MountMode, ...]
    modes_message: str  # why overlays are unavailable; empty if they work
    confinement: str  # mechanism that confines fetcher and FUSE servers to their files
    observer: str  # mechanism that observes reads of native and overlay mounts
    refused: Mapping[VersionKey, str]  # versions without an overlay on a node that supports overlays, and the reason
    address: str
    version: str
    trouble: str  # why the node is not ready; empty when it is
    now: str  # RFC 3339
    peer_key: str = ""  # public, for the certificate for other nodes
    hardware: NodeHardware = field(default_factory=NodeHardware)
    rates: Mapping[str, float] = field(default_factory=dict)  # best source rates of Datasets, by uid
    plugins: tuple[NodePlugin, ...] = ()  # plug-ins that were called
    order_plugins: tuple[NodeOrderPlugin, ...] = ()  # plug-ins with a known state
    memory: NodeMemory = field(default_factory=NodeMemory)
    cpus: str = ""  # CPUs of the fetcher, and errors of the requested ones
    origins: tuple[NodeOrigin, ...] = ()
    workload_count: int = 0  # pods with known activity, including those not in ``workloads``
    ended: tuple[EndedPod, ...] = ()  # pods that have ended
    ended_left_out: int = 0
    pressure: str = ""  # the node's cgroups and pressure figures


def steady(now: DiskFigures, last: DiskFigures) -> DiskFigures:
    """Return ``now``, with free space and size of ``last`` if they hardly changed. Idle nodes then write nothing."""
    margin = _STEADY * last.capacity
    moved = abs(now.available - last.available) > margin or abs(now.capacity - last.capacity) > margin
    return now if moved else DiskFigures(last.capacity, now.used, last.available)


def steady_folders(now: Iterable[CacheFolder], last: Iterable[CacheFolder]) -> tuple[CacheFolder, ...]:
    """Apply ``steady`` to each cache folder."""
    before = {folder.path: folder for folder in last}
    return tuple(_steady_folder(folder, before.get(folder.path, folder)) for folder in now)


def _steady_folder(now: CacheFolder, last: CacheFolder) -> CacheFolder:
    disk = steady(
        DiskFigures(now.capacity_bytes, now.used_bytes, now.available_bytes),
        DiskFigures(last.capacity_bytes, last.used_bytes, last.available_bytes),
    )
    return now.model_copy(update={"capacity_bytes": disk.capacity, "available_bytes": disk.available})


def node_status(facts: Facts, conditions: Iterable[Condition] = ()) -> NodeCacheStatus:
    """Compute the status, of at most MOST_STATUS bytes.

    ``conditions``: the last written ones, for their transition times.
    """
    return fitted(_whole_status(facts, conditions))


def _whole_status(facts: Facts, conditions: Iterable[Condition]) -> NodeCacheStatus:
    datasets = with_short_texts(dataset_rows(facts, most_found=_MOST_FOUND))
    busy = sum(row.phase in (NodePhase.LISTING, NodePhase.WARMING) for row in datasets)
    return NodeCacheStatus(
        observed_generation=facts.generation,
        conditions=(_ready(facts, conditions), _cache_folders(facts, conditions)),
        address=facts.address,
        sidecar_version=facts.version,
        peer_key=facts.peer_key,
        shared_neighbours=True,
        modes=facts.modes,
        modes_message=facts.modes_message or _refused(facts),
        confinement=facts.confinement,
        observer=facts.observer,
        pressure=facts.pressure,
        plugins=facts.plugins,
        order_plugins=facts.order_plugins,
        hardware=facts.hardware,
        capacity_bytes=facts.disk.capacity,
        used_bytes=facts.disk.used,
        available_bytes=facts.disk.available,
        capacity=format_bytes(facts.disk.capacity),
        used=format_bytes(facts.disk.used),
        cache_folders=facts.folders,
        memory=facts.memory,
        origins=facts.origins,
        cpus=facts.cpus,
        warming=f"{busy}/{len(facts.plan)}",
        dataset_count=len(facts.leftovers | {dataset.uid for dataset in facts.plan}),
        datasets=datasets,
        inventory=facts.inventory,
        mounts=told_mounts(facts.mounts),
        mount_count=len(facts.mounts),
        workloads=facts.workloads,
        workload_count=facts.workload_count,
        ended=facts.ended,
        ended_left_out=facts.ended_left_out,
        tuning_profiles=facts.profiles,
        tuning=facts.figures,
    )


def dataset_rows(facts: Facts, most_found: int | None = None) -> tuple[NodeDatasetStatus, ...]:
    """Return all Datasets of the node. ``most_found``: limit for unplanned ones awaiting a decision; None: no limit."""
    return tuple(_planned(dataset, facts) for dataset in facts.plan) + tuple(_leftovers(facts, most_found))


def is_urgent(old: NodeCacheStatus, new: NodeCacheStatus) -> bool:
    """Return True if a phase, version, error, mount or condition changed, not only figures."""
    return _without_figures(old) != _without_figures(new)


def mode_now(row: NodeDatasetStatus, modes: Collection[MountMode]) -> MountMode | None:
    """Return the mount mode of a pod that mounts now, once its metadata layer is built.

    None while there is no version to mount.
    """
    if not row.version:
        return None
    if row.phase is NodePhase.WARM:
        return MountMode.NATIVE
    return MountMode.OVERLAY if MountMode.OVERLAY in modes else MountMode.FUSE


def _planned(dataset: NodeDataset, facts: Facts) -> NodeDatasetStatus:
    row = facts.rows.get(dataset.uid)
    if row is None:
        # The operator drops a version that no node reports.
        row = read_bounded(
            NodeDatasetStatus,
            {
                "namespace": dataset.namespace,
                "name": dataset.name,
                "uid": dataset.uid,
                "retained": facts.found.get(dataset.uid, ()),
            },
        )
    modes = set(facts.modes) - ({MountMode.OVERLAY} if (dataset.uid, row.version) in facts.refused else set())
    rate = facts.rates.get(dataset.uid)
    return row.model_copy(update={"mode": mode_now(row, modes), "best_source_bytes_per_second": rate and round(rate)})


def _refused(facts: Facts) -> str:
    whys = [
        f"{dataset.namespace}/{dataset.name} gets no overlay now: {why}"
        for dataset in facts.plan
        for (uid, _), why in facts.refused.items()
        if uid == dataset.uid
    ]
    return "; ".join(whys)


def _leftovers(facts: Facts, most_found: int | None) -> Iterable[NodeDatasetStatus]:
    """Yield rows of unplanned datasets.

    Those in ``found`` stay until the operator decides. The rest are being cleaned, and the operator waits until their
    rows are gone.
    """
    left = facts.leftovers - {dataset.uid for dataset in facts.plan}
    for uid in sorted(left & facts.found.keys())[:most_found]:
        row = facts.rows.get(uid) or _unnamed(uid)
        yield row.model_copy(update={"retained": (facts.found[uid] or row.retained)[:_MOST_RETAINED]})
    for uid in sorted(left - facts.found.keys()):
        row = facts.rows.get(uid) or _unnamed(uid)
        yield row.model_copy(update=_FIGURES | {"phase": NodePhase.CLEANING, "mode": None, "error": None})


def _unnamed(uid: str) -> NodeDatasetStatus:
    return read_bounded(NodeDatasetStatus, {"namespace": "", "name": "", "uid": uid})


def _ready(facts: Facts, conditions: Iterable[Condition]) -> Condition:
    if facts.trouble:
        return _condition(facts, conditions, ConditionType.READY, Reason.INTERNAL_ERROR, facts.trouble)
    good = "The sidecar serves datasets on this node."
    return _condition(facts, conditions, ConditionType.READY, Reason.HEALTHY, good)


def _cache_folders(facts: Facts, conditions: Iterable[Condition]) -> Condition:
    """Return the condition of the cache folders. A failed folder takes precedence over a full one."""
    kind, failed = ConditionType.CACHE_FOLDERS, [folder.message for folder in facts.folders if not folder.healthy]
    if failed:
        return _condition(facts, conditions, kind, Reason.CACHE_DISK_FAILED, "; ".join(failed))
    if facts.folders and not any(folder.available_bytes for folder in facts.folders):
        full = "No cache folder has room above the free-space floor: nothing more is cached, and reads continue."
        return _condition(facts, conditions, kind, Reason.DISK_FULL, full)
    return _condition(facts, conditions, kind, Reason.HEALTHY, "All cache folders are in service.")


def _condition(
    facts: Facts, before: Iterable[Condition], kind: ConditionType, reason: Reason, message: str
) -> Condition:
    last = next((one for one in before if one.type == kind), None)
    status: Literal["True", "False"] = "True" if reason is Reason.HEALTHY else "False"
    return Condition(
        type=kind,
        status=status,
        reason=reason,
        message=shortened(message, _MOST_SENTENCE),
        observed_generation=facts.generation,
        last_transition_time=last.last_transition_time if last and last.status == status else facts.now,
    )


def _without_figures(status: NodeCacheStatus) -> NodeCacheStatus:
    """Return the status without figures. Errors keep their reason only, since their message may contain figures."""
    rows = tuple(
        row.model_copy(
            update=_FIGURES
            | {"error": row.error and row.error.model_copy(update={"message": ""})}
            | {"failing_reads": row.failing_reads and row.failing_reads.reason}
            | {"older": tuple(one.model_copy(update={"warm_bytes": 0}) for one in row.older)}
        )
        for row in status.datasets
    )
    folders = tuple(folder.model_copy(update=_FOLDER_FIGURES) for folder in status.cache_folders)
    figures = {
        "used_bytes": 0,
        "available_bytes": 0,
        "used": "",
        "capacity": "",
        "workloads": (),
        "mount_count": 0,
        "left_out": 0,
        "workload_count": 0,
        "ended": (),
        "ended_left_out": 0,
        "tuning": (),
        "memory": NodeMemory(),
        "origins": tuple(row.model_copy(update=_ORIGIN_FIGURES) for row in status.origins),
    }
    return status.model_copy(update={"datasets": rows, "cache_folders": folders} | figures)
