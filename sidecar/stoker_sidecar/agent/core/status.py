"""What the node says of itself: the plan, the fetcher's figures and the pods' mounts become one NodeCacheStatus.

Pure.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from stoker_api.cache_memory import NodeMemory
from stoker_api.dataset import MountMode
from stoker_api.goodput import EndedPod
from stoker_api.meta import Condition, format_bytes, shortened
from stoker_api.names import ConditionType, Reason
from stoker_api.node_dataset import NodeDataset
from stoker_api.node_hardware import NodeHardware
from stoker_api.node_storage import CacheFolder, NodeMount
from stoker_api.node_workload import NodeWorkload
from stoker_api.nodecache import (
    NodeCacheStatus,
    NodeDatasetStatus,
    NodeError,
    NodeOrderPlugin,
    NodePhase,
    NodePlugin,
)
from stoker_api.origin import NodeOrigin
from stoker_api.tuning import NodeProfile, NodeRuleFigures
from stoker_sidecar.agent.core.mount_rows import told_mounts
from stoker_sidecar.volumes.core.publish import VersionKey

# Share of the disk. Free space moves with everything else on the disk; smaller moves than this are not worth a write.
_STEADY = 0.01
_FIGURES = {
    "warm_files": 0,
    "warm_bytes": 0,
    "fetched_files": 0,
    "source_bytes": 0,
    "peer_bytes": 0,
    "bytes_per_second": 0,
    "best_source_bytes_per_second": None,
    "eta_seconds": None,
    "warm_paths": None,
    "pages": None,
    "memory": None,
}

# Characters of all errors of a status together, of one of them at least and at most; and examples of keys.
_MOST_MESSAGES = 100_000
_SHORTEST, _LONGEST = 80, 1024
_MOST_EXAMPLES = 500
# Datasets that are on the disk and in no plan yet, and versions of each, of which the operator is told.
_MOST_FOUND, _MOST_RETAINED = 1000, 5

_ORIGIN_FIGURES = {"bytes_per_second": 0, "milli_requests_per_second": 0}
_FOLDER_FIGURES = {"capacity_bytes": 0, "used_bytes": 0, "available_bytes": 0}


@dataclass(frozen=True)
class DiskFigures:
    """Bytes of the cache disk, as the fetcher measures them."""

    capacity: int = 0
    used: int = 0
    available: int = 0


@dataclass(frozen=True)
class Facts:
    """All that a status is made of."""

    generation: int
    plan: tuple[NodeDataset, ...]
    rows: Mapping[str, NodeDatasetStatus]  # the last word on each dataset, by uid
    leftovers: frozenset[str]  # uids on the disk and in no plan
    # Versions of what the fetcher was not told of yet, by uid: of the plan, and of leftovers that are kept until they
    # are planned. Each of both has a row here.
    found: Mapping[str, tuple[str, ...]]
    inventory: bool  # the fetcher has said what is on the disk
    mounts: tuple[NodeMount, ...]
    profiles: tuple[NodeProfile, ...]  # TuningProfiles that Datasets have
    figures: tuple[NodeRuleFigures, ...]  # what came of rules
    workloads: tuple[NodeWorkload, ...]  # what pods do, at its own pace: see node_workloads.py
    disk: DiskFigures
    folders: tuple[CacheFolder, ...]
    modes: tuple[MountMode, ...]
    modes_message: str  # why there are no overlays; empty where they work
    confinement: str  # what holds fetcher and FUSE servers to their files
    observer: str  # what sees reads of native and overlay mounts
    refused: Mapping[VersionKey, str]  # versions that get no overlay on a node that has them, and why
    address: str
    version: str
    trouble: str  # why the node is not ready; empty when it is
    now: str  # RFC 3339
    hardware: NodeHardware = field(default_factory=NodeHardware)
    rates: Mapping[str, float] = field(default_factory=dict)  # the best ones of Datasets, by uid
    plugins: tuple[NodePlugin, ...] = ()  # that were asked
    order_plugins: tuple[NodeOrderPlugin, ...] = ()  # of which something is known
    memory: NodeMemory = field(default_factory=NodeMemory)
    cpus: str = ""  # what the fetcher runs on, and what is wrong with those that were asked for
    origins: tuple[NodeOrigin, ...] = ()
    workload_count: int = 0  # pods of which is known what they do, also beyond ``workloads``
    ended: tuple[EndedPod, ...] = ()  # pods that have ended
    ended_left_out: int = 0


def steady(now: DiskFigures, last: DiskFigures) -> DiskFigures:
    """Return ``now``, but with the free space and size of ``last`` where these hardly moved: idle nodes stay silent."""
    margin = _STEADY * last.capacity
    moved = abs(now.available - last.available) > margin or abs(now.capacity - last.capacity) > margin
    return now if moved else DiskFigures(last.capacity, now.used, last.available)


def steady_folders(now: Iterable[CacheFolder], last: Iterable[CacheFolder]) -> tuple[CacheFolder, ...]:
    """Do as ``steady`` for each cache folder."""
    before = {folder.path: folder for folder in last}
    return tuple(_steady_folder(folder, before.get(folder.path, folder)) for folder in now)


def _steady_folder(now: CacheFolder, last: CacheFolder) -> CacheFolder:
    disk = steady(
        DiskFigures(now.capacity_bytes, now.used_bytes, now.available_bytes),
        DiskFigures(last.capacity_bytes, last.used_bytes, last.available_bytes),
    )
    return now.model_copy(update={"capacity_bytes": disk.capacity, "available_bytes": disk.available})


def node_status(facts: Facts, conditions: Iterable[Condition] = ()) -> NodeCacheStatus:
    """Compute the status; ``conditions`` are the ones written last, for their transition times."""
    datasets = within_budget(dataset_rows(facts, most_found=_MOST_FOUND))
    busy = sum(row.phase in (NodePhase.LISTING, NodePhase.WARMING) for row in datasets)
    return NodeCacheStatus(
        observed_generation=facts.generation,
        conditions=(_ready(facts, conditions), _cache_folders(facts, conditions)),
        address=facts.address,
        sidecar_version=facts.version,
        shared_neighbours=True,
        modes=facts.modes,
        modes_message=facts.modes_message or _refused(facts),
        confinement=facts.confinement,
        observer=facts.observer,
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
    """Return all Datasets of the node; ``most_found``: of those that are in no plan yet, None: all."""
    return tuple(_planned(dataset, facts) for dataset in facts.plan) + tuple(_leftovers(facts, most_found))


def is_urgent(old: NodeCacheStatus, new: NodeCacheStatus) -> bool:
    """Return whether more than figures changed: a phase, version, error, mount or condition, which others wait for."""
    return _without_figures(old) != _without_figures(new)


def mode_now(row: NodeDatasetStatus, modes: Collection[MountMode]) -> MountMode | None:
    """Return how a pod that mounts now would read, once its metadata layer is built.

    None while there is nothing to mount.
    """
    if not row.version:
        return None
    if row.phase is NodePhase.WARM:
        return MountMode.NATIVE
    return MountMode.OVERLAY if MountMode.OVERLAY in modes else MountMode.FUSE


def within_budget(rows: tuple[NodeDatasetStatus, ...]) -> tuple[NodeDatasetStatus, ...]:
    """Cut what sources say about a thousand Datasets to what one object of the API server has room for."""
    failed = sum(row.error is not None for row in rows) + sum(bool(row.listing and row.listing.error) for row in rows)
    examples = sum(len(row.listing.skipped) for row in rows if row.listing)
    share = _MOST_MESSAGES // max(failed, 1)
    if share >= _LONGEST and examples <= _MOST_EXAMPLES:
        return rows
    return tuple(_cut(row, max(share, _SHORTEST), examples <= _MOST_EXAMPLES) for row in rows)


def _cut(row: NodeDatasetStatus, most: int, examples: bool) -> NodeDatasetStatus:
    changes: dict[str, Any] = {"error": _cut_error(row.error, most)}
    if row.listing is not None:
        skipped = row.listing.skipped
        if not examples:
            skipped = tuple(one.model_copy(update={"example": ""}) for one in skipped)
        error = _cut_error(row.listing.error, most)
        changes["listing"] = row.listing.model_copy(update={"error": error, "skipped": skipped})
    return row.model_copy(update=changes)


def _cut_error(error: NodeError | None, most: int) -> NodeError | None:
    return error and error.model_copy(update={"message": shortened(error.message, most)})


def _planned(dataset: NodeDataset, facts: Facts) -> NodeDatasetStatus:
    row = facts.rows.get(dataset.uid)
    if row is None:
        row = NodeDatasetStatus(
            namespace=dataset.namespace,
            name=dataset.name,
            uid=dataset.uid,
            retained=facts.found.get(dataset.uid, ()),  # else the operator would have them dropped
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
    """Yield datasets that are being cleaned: the operator waits until their rows are gone.

    Or those that a new plan does not know of yet: the operator decides whether they stay.
    """
    left = facts.leftovers - {dataset.uid for dataset in facts.plan}
    for uid in sorted(left & facts.found.keys())[:most_found]:
        row = facts.rows.get(uid) or NodeDatasetStatus(namespace="", name="", uid=uid)
        yield row.model_copy(update={"retained": (facts.found[uid] or row.retained)[:_MOST_RETAINED]})
    for uid in sorted(left - facts.found.keys()):
        row = facts.rows.get(uid) or NodeDatasetStatus(namespace="", name="", uid=uid)
        yield row.model_copy(update=_FIGURES | {"phase": NodePhase.CLEANING, "mode": None, "error": None})


def _ready(facts: Facts, conditions: Iterable[Condition]) -> Condition:
    if facts.trouble:
        return _condition(facts, conditions, ConditionType.READY, Reason.INTERNAL_ERROR, facts.trouble)
    good = "The sidecar serves datasets on this node."
    return _condition(facts, conditions, ConditionType.READY, Reason.HEALTHY, good)


def _cache_folders(facts: Facts, conditions: Iterable[Condition]) -> Condition:
    """Judge the cache folders; one that failed is graver than a full one."""
    kind, failed = ConditionType.CACHE_FOLDERS, [folder.message for folder in facts.folders if not folder.healthy]
    if failed:
        return _condition(facts, conditions, kind, Reason.CACHE_DISK_FAILED, "; ".join(failed))
    if facts.folders and not any(folder.available_bytes for folder in facts.folders):
        full = "No cache folder has room above the free-space floor: nothing more is kept, reads go on."
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
        message=message,
        observed_generation=facts.generation,
        last_transition_time=last.last_transition_time if last and last.status == status else facts.now,
    )


def _without_figures(status: NodeCacheStatus) -> NodeCacheStatus:
    """Return the status without figures; an error counts by its reason, since its sentence may hold figures too."""
    rows = tuple(
        row.model_copy(
            update=_FIGURES
            | {"error": row.error and row.error.model_copy(update={"message": ""})}
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
        "workload_count": 0,
        "ended": (),
        "ended_left_out": 0,
        "tuning": (),
        "memory": NodeMemory(),
        "origins": tuple(row.model_copy(update=_ORIGIN_FIGURES) for row in status.origins),
    }
    return status.model_copy(update={"datasets": rows, "cache_folders": folders} | figures)
