"""Formats objects as table rows and sentences. Pure."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from stoker_api.datasets.dataset import Dataset
from stoker_api.datasets.dataset_status import DatasetNode, DatasetStatus, Phase
from stoker_api.datasets.warm_paths import paths_digest
from stoker_api.meta import format_bytes, format_duration
from stoker_api.names import ConditionType
from stoker_api.node_caches.node_dataset_status import NodeDatasetStatus
from stoker_api.node_caches.node_workload import NodeWorkload, epoch_from_1
from stoker_api.node_caches.nodecache import NodeCache
from stoker_api.node_caches.nodecache_status import NodeCacheStatus

SETTLED = {Phase.READY, Phase.DEGRADED, Phase.FAILED}  # any ``state`` also counts as settled
UNKNOWN = "-"
_PATHS_SHOWN = 5


@dataclass(frozen=True)
class WarmProgress:
    """Progress of a Dataset: ``done`` and ``total`` in bytes over all its nodes, ``speed`` in bytes per second."""

    done: int
    total: int
    speed: int
    eta: str

    @property
    def share(self) -> float:
        """0 to 1. An empty Dataset has 1."""
        return min(1.0, self.done / self.total) if self.total else 0.0


def progress(dataset: Dataset) -> WarmProgress:
    """Return the progress of a Dataset."""
    status = dataset.status
    return WarmProgress(status.cached_bytes, status.wanted_bytes, status.bytes_per_second, status.eta)


def forecast(dataset: Dataset) -> str:
    """Return the operator's forecast for a Dataset as a sentence."""
    status = dataset.status
    if status.forecast is not None:
        return f"{dataset.key}: {status.forecast.message}."
    if not status.version:
        return f"{dataset.key}: the source is not listed yet. {message(dataset)}"
    warm, part = dataset.spec.warm, status.warm_paths
    if warm.told_paths and (part is None or part.digest != paths_digest(warm.told_paths)):
        matched = f"no node has reported the files of {warm.part_field} yet"
        return f"{dataset.key}: {matched}; the whole Dataset has {status.total or UNKNOWN}."
    return f"{dataset.key}: nothing is left to fetch."


def timing_lines(dataset: Dataset) -> list[str]:
    """Describe the deadline, and whether the source throttles requests."""
    by_type = {condition.type: condition for condition in dataset.status.conditions}
    timely, slowed = by_type.get(ConditionType.ON_TIME), by_type.get(ConditionType.SOURCE_SLOWED)
    lines = [f"Deadline: {timely.message}."] if timely is not None else []
    return lines + ([f"Source: {slowed.message}."] if slowed is not None and slowed.status == "True" else [])


def settled(dataset: Dataset) -> bool:
    """Return True if no change is expected without a new request."""
    observed = dataset.status.observed_generation >= dataset.metadata.generation
    return observed and (dataset.status.state is not None or dataset.status.phase in SETTLED)


def message(dataset: Dataset) -> str:
    """Return the message of the most important condition."""
    order = (
        (ConditionType.DELETION_BLOCKED, "True"),
        (ConditionType.ACCEPTED, "False"),
        (ConditionType.LISTED, "False"),
        (ConditionType.DEGRADED, "True"),
        (ConditionType.PATHS_FOUND, "False"),
        (ConditionType.WARM, "False"),
        (ConditionType.READY, "True"),
    )
    by_type = {condition.type: condition for condition in dataset.status.conditions}
    for kind, status in order:
        condition = by_type.get(kind)
        if condition is not None and condition.status == status:
            return condition.message
    return "No status yet. Check that the operator runs." if not by_type else ""


def what_changed(before: str, dataset: Dataset) -> str:
    """Describe whether a listing found a new version. ``before``: the previous one, or empty."""
    status = dataset.status
    listed = next((each.message for each in status.conditions if each.type == ConditionType.LISTED), "")
    what = "nothing changed" if status.version == before else "new version"
    return f"{dataset.key}: {what}, version {status.version_short}: {listed}."


def progress_line(dataset: Dataset) -> str:
    """Format the progress as a log line, or the message if the size is unknown."""
    now = progress(dataset)
    head = f"{dataset.key}: {dataset.status.shown_phase or Phase.PENDING}"
    if not now.total:
        return f"{head}. {message(dataset)}"
    pace = f", {format_bytes(now.speed)}/s, ETA {now.eta or UNKNOWN}" if now.speed else ""
    return f"{head}, {100 * now.share:.0f} % ({format_bytes(now.done)} of {format_bytes(now.total)}){pace}"


def dataset_row(dataset: Dataset) -> Sequence[str]:
    """Return a row: NAMESPACE, NAME, PHASE, FILES, TOTAL, CACHED%, NODES, SPEED, ETA, CLASS."""
    status = dataset.status
    files = UNKNOWN if status.files is None else f"{status.files:,}"
    shown = (status.total, status.cached_percent, status.warm_nodes, status.speed, status.eta, status.class_name)
    phase = status.shown_phase or UNKNOWN
    return (dataset.metadata.namespace, dataset.metadata.name, phase, files, *(word or UNKNOWN for word in shown))


def class_lines(dataset: Dataset) -> list[str]:
    """Describe the class of a Dataset, its share of the quota, and limits in force."""
    status = dataset.status
    if not status.class_name:
        lines = []
    elif quota := _quota(status):
        lines = [f"class {status.class_name}: uses {format_bytes(status.charged_bytes)} of the namespace's {quota}"]
    else:
        lines = [f"class {status.class_name}"]
    limited = (c for c in status.conditions if (c.type, c.status) == (ConditionType.LIMITED, "True"))
    return [*lines, *(condition.message for condition in limited)]


def path_lines(dataset: Dataset) -> list[str]:
    """Describe the selected paths of a Dataset. Empty if all of it is selected."""
    warm, part = dataset.spec.warm, dataset.status.warm_paths
    paths = warm.paths if warm.list is None else (warm.list,)
    if not paths:
        return []
    shown = ", ".join(paths[:_PATHS_SHOWN]) + (f" and {len(paths) - _PATHS_SHOWN} more" if paths[_PATHS_SHOWN:] else "")
    if part is None:
        return [f"{warm.part_field}: {shown}; no node has reported matching files yet"]
    here = f"{part.warm_files:,} of {part.files:,} files, {format_bytes(part.warm_bytes)} of {format_bytes(part.bytes)}"
    return [f"{warm.part_field}: {shown}: {here} on the least warm node"]


_MEMORY_CONDITIONS = (ConditionType.NODES_FOUND, ConditionType.PAGES_WARM, ConditionType.MEMORY_PINNED)


def memory_lines(dataset: Dataset) -> list[str]:
    """Describe what is in memory, and named nodes that do not exist."""
    return [
        f"{each.type}: {each.message}"
        for each in dataset.status.conditions
        if each.type in _MEMORY_CONDITIONS and (each.type != ConditionType.NODES_FOUND or each.status == "False")
    ]


def memory_of_nodes(caches: Iterable[NodeCache]) -> list[str]:
    """Return a line for each node that pins data in memory, and for each node with unusable CPUs."""
    lines = []
    for cache in caches:
        name, memory, cpus = cache.metadata.name, cache.status.memory, cache.status.cpus
        if memory.allowed_bytes:
            figures = f"{format_bytes(memory.pinned_bytes)} of {format_bytes(memory.allowed_bytes)}"
            lines.append(f"{name}: {figures} of memory pinned")
        if "cannot be used here" in cpus:
            lines.append(f"{name}: {cpus}")
    return lines


def quota_lines(datasets: Iterable[Dataset]) -> list[str]:
    """Return the used quota of each namespace and class."""
    taken: Counter[tuple[str, str, str]] = Counter()
    for dataset in by_name(datasets):
        status = dataset.status
        if quota := _quota(status):
            taken[dataset.metadata.namespace, status.class_name, quota] += status.charged_bytes
    return [
        f"namespace {namespace}, class {name}: {format_bytes(amount)} of {quota}"
        for (namespace, name, quota), amount in taken.items()
    ]


def _quota(status: DatasetStatus) -> str:
    amounts = ((status.namespace_quota_bytes, "over all nodes"), (status.node_quota_bytes, "on each node"))
    return " and ".join(f"{format_bytes(amount)} {where}" for amount, where in amounts if amount is not None)


def node_detail_row(node: DatasetNode, total: int) -> Sequence[str]:
    """Return a row of a Dataset on a node: NODE, PHASE, WARM, SHARE, SPEED, ETA, MODE, LAST ERROR."""
    share = f"{100 * node.warm_bytes / total:.0f}%" if total else UNKNOWN
    speed = f"{format_bytes(node.bytes_per_second)}/s" if node.bytes_per_second else UNKNOWN
    words = (node.phase, format_bytes(node.warm_bytes), share, speed, node.eta, node.mode, node.last_error)
    return (node.name, *(word or UNKNOWN for word in words))


def node_row(cache: NodeCache) -> Sequence[str]:
    """Return a row: NODE, READY, DATASETS, USED, CAPACITY, FREE, WARMING, MOUNTS, MODES."""
    status = cache.status
    ready = next((c.status for c in status.conditions if c.type == ConditionType.READY), "Unknown")
    return (
        cache.metadata.name,
        ready,
        str(max(status.dataset_count, len(status.datasets))),
        format_bytes(status.used_bytes),
        format_bytes(status.capacity_bytes),
        format_bytes(status.available_bytes),
        status.warming or UNKNOWN,
        str(max(status.mount_count, len(status.mounts))),
        ",".join(status.modes) or UNKNOWN,
    )


def left_out(caches: Iterable[NodeCache]) -> list[str]:
    """Return a line for each node whose NodeCache lists fewer objects than it counts."""
    return [f"{cache.metadata.name}: {', '.join(parts)}" for cache in caches if (parts := _left_out(cache.status))]


def _left_out(status: NodeCacheStatus) -> list[str]:
    rows = (
        (len(status.datasets), status.dataset_count, "Datasets"),
        (len(status.mounts), status.mount_count, "volumes"),
        (len(status.workloads), status.workload_count, "active pods"),
    )
    parts = [f"{shown:,} of {count:,} {what} shown" for shown, count, what in rows if count > shown]
    ended = status.ended_left_out
    return [*parts, f"{ended:,} pods that ended in the last hour omitted"] if ended else parts


def unconfined(caches: Iterable[NodeCache]) -> list[str]:
    """Return a line for each node that does not confine its fetcher and FUSE servers, with the reason."""
    states = ((cache.metadata.name, cache.status.confinement) for cache in caches)
    return [f"{name}: processes are not confined: {why[6:]}" for name, why in states if why.startswith("None: ")]


def held_row(held: NodeDatasetStatus) -> Sequence[str]:
    """Return a row of a Dataset on a node: DATASET, PHASE, WARM, SHARE, SPEED, ETA, CAME FROM."""
    share = f"{100 * held.warm_bytes / held.bytes:.0f}%" if held.bytes else UNKNOWN
    speed = f"{format_bytes(held.bytes_per_second)}/s" if held.bytes_per_second else UNKNOWN
    eta = UNKNOWN if held.eta_seconds is None else format_duration(held.eta_seconds)
    name = f"{held.namespace}/{held.name}"
    return (name, held.phase, format_bytes(held.warm_bytes), share, speed, eta, _came_from(held))


def _came_from(held: NodeDatasetStatus) -> str:
    """Format the bytes from the source and from peers since the start of the fetcher, which may be younger."""
    parts = ((held.source_bytes, "source"), (held.peer_bytes, "peers"))
    came = ", ".join(f"{format_bytes(size)} {where}" for size, where in parts if size)
    return came or ("already on disk" if held.warm_bytes else UNKNOWN)


def workload_row(workload: NodeWorkload) -> Sequence[str]:
    """Return a row of a pod: POD, TRAINING, EPOCH, ITEMS/S, STALL, ORDER, LOSS, SOURCE."""
    phase = workload.phase if workload.confidence is None else f"{workload.phase} ({workload.confidence:.0%} sure)"
    rate = number_words(workload.items_per_second)
    figures = rate, _stall(workload), order_words(workload), workload.mean_loss, _source(workload)
    words = (phase, epoch_words(workload, fresh=False), *figures)  # a NodeCache may be a minute old
    return (workload.pod, *(word or UNKNOWN for word in words))


def _stall(workload: NodeWorkload) -> str:
    """Format the share of time spent waiting and its source, empty if unknown."""
    if workload.stall_percent is None:
        return ""
    return f"{workload.stall_percent}%" + (f" ({workload.stall_source})" if workload.stall_source else "")


def epoch_words(workload: NodeWorkload, *, fresh: bool) -> str:
    """Format the epoch from 1, the number of epochs, and the progress. Empty if unknown.

    ``fresh``: the figures are recent, so the error of the progress is shown.
    """
    if workload.epoch is None:
        return ""
    return epoch_from_1(workload.epoch, workload.epochs) + _progress(workload, fresh=fresh)


def order_words(workload: NodeWorkload) -> str:
    """Format how well reads match the known order, such as ``Known 100%``. Empty without a known order."""
    share = "" if workload.order_agreement is None else f" {workload.order_agreement}%"
    return workload.order + share if workload.order else ""


def number_words(number: float | None) -> str:
    """Format a number with commas, empty if unknown."""
    return "" if number is None else f"{number:,g}"


def _progress(workload: NodeWorkload, *, fresh: bool) -> str:
    """Format the progress of an epoch: ``, 52±4%``, or ``, ~52%`` for old figures."""
    if workload.epoch is None or workload.epoch_progress is None:
        return ""
    if not fresh:
        return f", ~{100 * workload.epoch_progress:.0f}%"
    error = f"±{100 * workload.epoch_error:.0f}" if workload.epoch_error else ""
    return f", {100 * workload.epoch_progress:.0f}{error}%"


def _source(workload: NodeWorkload) -> str:
    """Format the sources of the figures: reports, and the observer with its share of reads."""
    sources = dict.fromkeys(source for source in (workload.source, workload.observed_by) if source is not None)
    sampled = workload.sampled if workload.sampled is not None and workload.observed_by is not None else 1.0
    return ", ".join(sources) + (f" ({sampled:.0%} seen)" if 0 < sampled < 1 else "")


def readers(caches: Iterable[NodeCache], dataset: Dataset) -> list[tuple[str, NodeWorkload]]:
    """Return the known pods that mount a Dataset, with their nodes."""
    name = f"{dataset.metadata.namespace}/{dataset.metadata.name}"
    return [(cache.metadata.name, row) for cache in caches for row in cache.status.workloads if name in row.datasets]


def by_name(datasets: Iterable[Dataset]) -> list[Dataset]:
    """Sort by namespace and name, like kubectl."""
    return sorted(datasets, key=lambda dataset: (dataset.metadata.namespace, dataset.metadata.name))
