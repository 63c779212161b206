"""Objects -> the words of a table; pure."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from stoker_api.dataset import Dataset
from stoker_api.dataset_status import DatasetNode, DatasetStatus, Phase
from stoker_api.meta import format_bytes, format_duration
from stoker_api.names import ConditionType
from stoker_api.node_workload import NodeWorkload
from stoker_api.nodecache import NodeCache, NodeCacheStatus, NodeDatasetStatus
from stoker_api.warm_paths import paths_digest

SETTLED = {Phase.READY, Phase.DEGRADED, Phase.FAILED}
UNKNOWN = "-"
_PATHS_SHOWN = 5


@dataclass(frozen=True)
class WarmProgress:
    """How far a dataset is: ``done`` and ``total`` in bytes over all wanted nodes, ``speed`` in bytes a second."""

    done: int
    total: int
    speed: int
    eta: str

    @property
    def share(self) -> float:
        """0 to 1; an empty dataset is done."""
        return min(1.0, self.done / self.total) if self.total else 0.0


def progress(dataset: Dataset) -> WarmProgress:
    """Return bytes warm on the nodes that should hold the dataset against what they should hold."""
    status = dataset.status
    return WarmProgress(status.cached_bytes, status.wanted_bytes, status.bytes_per_second, status.eta)


def forecast(dataset: Dataset) -> str:
    """Say what is left of warming a Dataset, as the operator works it out."""
    status = dataset.status
    if status.forecast is not None:
        return f"{dataset.key}: {status.forecast.message}."
    if not status.version:
        return f"{dataset.key}: its source is not listed yet. {message(dataset)}"
    warm, part = dataset.spec.warm, status.warm_paths
    if warm.told_paths and (part is None or part.digest != paths_digest(warm.told_paths)):
        named = f"what {warm.part_field} names is not known before a node has looked"
        return f"{dataset.key}: {named}; all of the Dataset is {status.total or UNKNOWN}."
    return f"{dataset.key}: nothing is left to fetch."


def timing_lines(dataset: Dataset) -> list[str]:
    """Say what the deadline comes to, and whether the source asked for less; nothing where there is nothing to say."""
    by_type = {condition.type: condition for condition in dataset.status.conditions}
    timely, slowed = by_type.get(ConditionType.ON_TIME), by_type.get(ConditionType.SOURCE_SLOWED)
    lines = [f"Deadline: {timely.message}."] if timely is not None else []
    return lines + ([f"Source: {slowed.message}."] if slowed is not None and slowed.status == "True" else [])


def settled(dataset: Dataset) -> bool:
    """Tell whether nothing more is expected to happen by itself soon."""
    observed = dataset.status.observed_generation >= dataset.metadata.generation
    return observed and dataset.status.phase in SETTLED


def message(dataset: Dataset) -> str:
    """Return the sentence of the condition that matters most now."""
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
    return "the operator has not looked at it yet: is it running?" if not by_type else ""


def progress_line(dataset: Dataset) -> str:
    """Write one line for a log: phase, share, bytes, speed, ETA; or the sentence when there is nothing to count."""
    now = progress(dataset)
    head = f"{dataset.key}: {dataset.status.phase or Phase.PENDING}"
    if not now.total:
        return f"{head}. {message(dataset)}"
    pace = f", {format_bytes(now.speed)}/s, ETA {now.eta or UNKNOWN}" if now.speed else ""
    return f"{head}, {100 * now.share:.0f} % ({format_bytes(now.done)} of {format_bytes(now.total)}){pace}"


def dataset_row(dataset: Dataset) -> Sequence[str]:
    """Make a row: NAMESPACE, NAME, PHASE, FILES, TOTAL, CACHED%, NODES, SPEED, ETA, CLASS."""
    status = dataset.status
    files = UNKNOWN if status.files is None else f"{status.files:,}"
    shown = (status.total, status.cached_percent, status.warm_nodes, status.speed, status.eta, status.class_name)
    phase = str(status.phase) if status.phase else UNKNOWN
    return (dataset.metadata.namespace, dataset.metadata.name, phase, files, *(word or UNKNOWN for word in shown))


def class_lines(dataset: Dataset) -> list[str]:
    """Say which class a Dataset has, what of its quota it takes, and what it is given less of than it asks for."""
    status = dataset.status
    if not status.class_name:
        lines = []
    elif quota := _quota(status):
        lines = [f"class {status.class_name}: takes {format_bytes(status.charged_bytes)} of its namespace's {quota}"]
    else:
        lines = [f"class {status.class_name}"]
    limited = (c for c in status.conditions if (c.type, c.status) == (ConditionType.LIMITED, "True"))
    return [*lines, *(condition.message for condition in limited)]


def path_lines(dataset: Dataset) -> list[str]:
    """Say what of a Dataset is to be warm, where that is not all of it."""
    warm, part = dataset.spec.warm, dataset.status.warm_paths
    paths = warm.paths if warm.list is None else (warm.list,)
    if not paths:
        return []
    shown = ", ".join(paths[:_PATHS_SHOWN]) + (f" and {len(paths) - _PATHS_SHOWN} more" if paths[_PATHS_SHOWN:] else "")
    if part is None:
        return [f"{warm.part_field}: {shown}; no node has said yet what that names"]
    here = f"{part.warm_files:,} of {part.files:,} files, {format_bytes(part.warm_bytes)} of {format_bytes(part.bytes)}"
    return [f"{warm.part_field}: {shown}: {here} on the node that has least of it"]


_SAID = (ConditionType.NODES_FOUND, ConditionType.PAGES_WARM, ConditionType.MEMORY_PINNED)


def memory_lines(dataset: Dataset) -> list[str]:
    """Say what is in the nodes' memory, and which of the nodes that it names are none, where it asks for these."""
    found = [one for one in dataset.status.conditions if one.type in _SAID]
    return [
        f"{one.type}: {one.message}" for one in found if one.type != ConditionType.NODES_FOUND or one.status == "False"
    ]


def memory_of_nodes(caches: Iterable[NodeCache]) -> list[str]:
    """Return a line for each node that lets Datasets keep something in its memory, and for CPUs that it lacks."""
    lines = []
    for cache in caches:
        name, memory, cpus = cache.metadata.name, cache.status.memory, cache.status.cpus
        if memory.allowed_bytes:
            figures = f"{format_bytes(memory.pinned_bytes)} of {format_bytes(memory.allowed_bytes)}"
            lines.append(f"{name}: {figures} of its memory are pinned")
        if "cannot be used here" in cpus:
            lines.append(f"{name}: {cpus}")
    return lines


def quota_lines(datasets: Iterable[Dataset]) -> list[str]:
    """Say for each namespace and class with a quota how much of it is taken; of all Datasets of those namespaces."""
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
    """Make a row: NODE, PHASE, WARM, SHARE, SPEED, ETA, MODE, LAST ERROR of one node of one dataset."""
    share = f"{100 * node.warm_bytes / total:.0f}%" if total else UNKNOWN
    speed = f"{format_bytes(node.bytes_per_second)}/s" if node.bytes_per_second else UNKNOWN
    words = (node.phase, format_bytes(node.warm_bytes), share, speed, node.eta, node.mode, node.last_error)
    return (node.name, *(word or UNKNOWN for word in words))


def node_row(cache: NodeCache) -> Sequence[str]:
    """Make a row: NODE, READY, DATASETS, USED, CAPACITY, FREE, WARMING, MOUNTS, MODES."""
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
    """Return a line for each node whose NodeCache does not name all that it counts."""
    return [f"{cache.metadata.name}: {', '.join(said)}" for cache in caches if (said := _left_out(cache.status))]


def _left_out(status: NodeCacheStatus) -> list[str]:
    rows = (
        (len(status.datasets), status.dataset_count, "Datasets"),
        (len(status.mounts), status.mount_count, "volumes"),
        (len(status.workloads), status.workload_count, "pods that do something with them"),
    )
    said = [f"{shown:,} of {count:,} {what} are named" for shown, count, what in rows if count > shown]
    ended = status.ended_left_out
    return [*said, f"{ended:,} pods that ended were left out within their hour"] if ended else said


def unconfined(caches: Iterable[NodeCache]) -> list[str]:
    """Return a line for each node on which nothing holds fetcher and FUSE servers to their files, and why."""
    said = ((cache.metadata.name, cache.status.confinement) for cache in caches)
    return [f"{name}: processes are not confined: {why[6:]}" for name, why in said if why.startswith("None: ")]


def held_row(held: NodeDatasetStatus) -> Sequence[str]:
    """Make a row: DATASET, PHASE, WARM, SHARE, SPEED, ETA, CAME FROM of one dataset of one node."""
    share = f"{100 * held.warm_bytes / held.bytes:.0f}%" if held.bytes else UNKNOWN
    speed = f"{format_bytes(held.bytes_per_second)}/s" if held.bytes_per_second else UNKNOWN
    eta = UNKNOWN if held.eta_seconds is None else format_duration(held.eta_seconds)
    name = f"{held.namespace}/{held.name}"
    return (name, held.phase, format_bytes(held.warm_bytes), share, speed, eta, _came_from(held))


def _came_from(held: NodeDatasetStatus) -> str:
    """Write what came from the source, and from other nodes, since the node's fetcher was started."""
    parts = ((held.source_bytes, "source"), (held.peer_bytes, "other nodes"))
    return ", ".join(f"{format_bytes(size)} {where}" for size, where in parts if size) or UNKNOWN


def workload_row(workload: NodeWorkload) -> Sequence[str]:
    """Make a row: POD, TRAINING, EPOCH, ITEMS/S, STALL, ORDER, LOSS, SOURCE of what one pod of one node does."""
    phase = workload.phase if workload.confidence is None else f"{workload.phase} ({workload.confidence:.0%} sure)"
    rate = number_words(workload.items_per_second)
    told = rate, _stall(workload), order_words(workload), workload.mean_loss, _source(workload)
    words = (phase, epoch_words(workload), *told)
    return (workload.pod, *(word or UNKNOWN for word in words))


def _stall(workload: NodeWorkload) -> str:
    """Write the share of its time that it waits, with what counted that; empty where it is not known."""
    if workload.stall_percent is None:
        return ""
    return f"{workload.stall_percent}%" + (f" ({workload.stall_source})" if workload.stall_source else "")


def epoch_words(workload: NodeWorkload) -> str:
    """Write the epoch, of how many, and how far it is; empty where it is not known."""
    epoch = "" if workload.epoch is None else str(workload.epoch)
    of = "" if workload.epochs is None or not epoch else f"/{workload.epochs}"
    return epoch + of + _progress(workload)


def order_words(workload: NodeWorkload) -> str:
    """Write whether it reads in the order that its sampling says: ``Known 100%``; empty where it says none."""
    share = "" if workload.order_agreement is None else f" {workload.order_agreement}%"
    return workload.order + share if workload.order else ""


def number_words(number: float | None) -> str:
    """Write a number with commas; empty where it is not known."""
    return "" if number is None else f"{number:,g}"


def _progress(workload: NodeWorkload) -> str:
    """Say how far an epoch is that reads tell, with its error: ``, 52±4%``."""
    if workload.epoch is None or workload.epoch_progress is None:
        return ""
    error = f"±{100 * workload.epoch_error:.0f}" if workload.epoch_error else ""
    return f", {100 * workload.epoch_progress:.0f}{error}%"


def _source(workload: NodeWorkload) -> str:
    """Say by what this is known: the pod's word, and what sees its reads, with the share that is seen of them."""
    sources = dict.fromkeys(source for source in (workload.source, workload.observed_by) if source is not None)
    sampled = workload.sampled if workload.sampled is not None and workload.observed_by is not None else 1.0
    return ", ".join(sources) + (f" ({sampled:.0%} seen)" if 0 < sampled < 1 else "")


def readers(caches: Iterable[NodeCache], dataset: Dataset) -> list[tuple[str, NodeWorkload]]:
    """Return the pods of which is known that they have a Dataset mounted, each with its node."""
    name = f"{dataset.metadata.namespace}/{dataset.metadata.name}"
    return [(cache.metadata.name, row) for cache in caches for row in cache.status.workloads if name in row.datasets]


def by_name(datasets: Iterable[Dataset]) -> list[Dataset]:
    """Sort as kubectl sorts: by namespace, then name."""
    return sorted(datasets, key=lambda dataset: (dataset.metadata.namespace, dataset.metadata.name))
