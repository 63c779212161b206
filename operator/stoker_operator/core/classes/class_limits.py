"""Apply a DatasetClass to a Dataset: refuse it, accept it, or reduce its requests and its share of the nodes."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from stoker_api import names
from stoker_api.datasets.cache_memory import CacheMemory, MemoryLimits
from stoker_api.datasets.dataset import Cache, Dataset, PeerProof, Warm, WarmPolicy
from stoker_api.datasets.datasetclass import BandwidthLimits, DatasetClass, DatasetClassSpec
from stoker_api.meta import parse_quantity
from stoker_api.names import Reason
from stoker_api.profiles.tuning import TuningLimits
from stoker_operator.core.classes.dataset_classes import Refused, allowed_by, listed, source_refusal
from stoker_operator.core.classes.tuning import limit_tuning

_SLACK = 10  # percent of the nodes, at least one: this many may join or leave before the number falls


def asks_for_share(cache: Cache) -> bool:
    """Return True if the replicas are a percentage."""
    return isinstance(cache.replicas, str) and cache.replicas != "all"


def share_of(replicas: str, nodes: int) -> int:
    """Return the percentage of ``nodes``, rounded up."""
    return -(-int(replicas.removesuffix("%")) * nodes // 100)


def steady_share(replicas: str, nodes: int, last: int | None) -> int:
    """Return the number of replicas for ``nodes`` nodes.

    It grows at once. It falls below ``last`` (None: unknown) only if ``last`` is too many even with a tenth more nodes.
    So nodes that leave briefly, or join and leave repeatedly, move no data.
    """
    now = share_of(replicas, nodes)
    if last is None or last <= now:
        return now
    slack = max(1, nodes * _SLACK // 100)
    return last if last <= min(nodes, share_of(replicas, nodes + slack)) else now


def share_now(dataset: Dataset, nodes: int) -> int | None:
    """Return a Dataset's share of ``nodes``. Return None if its replicas are no percentage."""
    replicas = dataset.spec.cache.replicas
    if not isinstance(replicas, str) or replicas == "all":
        return None
    return steady_share(replicas, nodes, last_share(dataset))


def last_share(dataset: Dataset) -> int | None:
    """Return the last computed share. Return None if the spec has changed since."""
    status = dataset.status
    return status.share_of_nodes if status.observed_generation == dataset.metadata.generation else None


def limited_sentence(share: int | None, most: int | None, class_name: str) -> str:
    """Return a message if a class reduces the share, otherwise ""."""
    if share is None or most is None or share <= most:
        return ""
    return f"cache.replicas equals {share} and is changed to {most}: DatasetClass {class_name} allows {most} at most"


# The limits without a class: no privileges, and the chart's defaults.
NO_CLASS = DatasetClassSpec()


@dataclass(frozen=True, slots=True)
class ClassTerms:
    """The terms of a Dataset's class, in addition to its effective spec."""

    name: str = ""  # empty: no class
    limits: tuple[str, ...] = ()  # messages about reduced requests
    anonymous: bool = False  # without its own credentials it may not use the node's
    namespace_quota: int | None = None  # bytes for all Datasets of this class in its namespace; None: no limit
    node_quota: int | None = None  # the same on each node
    tuning: TuningLimits = field(default_factory=TuningLimits)
    proof: PeerProof = PeerProof.CRYPTOGRAPHIC  # for bytes from peers
    most_replicas: int | None = None  # upper bound of a share of the nodes; None: no limit


NO_TERMS = ClassTerms()


@dataclass(frozen=True, slots=True)
class Limited:
    """A Dataset with its effective spec."""

    dataset: Dataset
    terms: ClassTerms


def apply_class(dataset: Dataset, found: DatasetClass | None) -> Limited | Refused:
    """Return the Dataset with its class applied, or the refusal.

    It refuses fields that select the source, because another source holds other data. It reduces amounts,
    priorities and deadlines to the allowed values.
    """
    name, spec = (found.metadata.name, found.spec) if found else ("", NO_CLASS)
    refusal = source_refusal(dataset.spec.source, name, spec)
    if refusal is not None:
        return Refused(Reason.NOT_ALLOWED_BY_CLASS, refusal, closed=True)
    changes: dict[str, Any] = {}
    limits: list[str] = []
    for part, value, sentence in _effective(dataset, name, spec):
        changes.setdefault(part, {}).update(value)
        limits += [sentence] if sentence else []
    effective = _changed(dataset, changes)
    if _asked_by_hand(dataset) and not {WarmPolicy.EAGER, WarmPolicy.MANUAL} & set(spec.warm.policies):
        effective = _without_request(effective)
        limits.append(f"`stoker warm` is ignored: {allowed_by(name, listed(spec.warm.policies))}")
    anonymous = not spec.allow_ambient_credentials
    namespace, node = (
        None if one is None else parse_quantity(one) for one in (spec.quota.per_namespace, spec.quota.per_node)
    )
    most = None if spec.max_replicas == "all" or not asks_for_share(effective.spec.cache) else spec.max_replicas
    return Limited(
        effective, ClassTerms(name, tuple(limits), anonymous, namespace, node, spec.tuning, spec.peers.proof, most)
    )


def _effective(dataset: Dataset, name: str, spec: DatasetClassSpec) -> Iterator[tuple[str, dict[str, Any], str]]:
    """Yield each part of the spec with its new values, and a message if they are less than the request."""
    cache, warm = dataset.spec.cache, dataset.spec.warm
    yield _priority(warm, name, spec)
    yield _policy(warm, name, spec)
    yield _peers(warm, name, spec)
    yield _bandwidth(warm, name, spec.bandwidth)
    yield _replicas(cache, name, spec)
    if cache.pinned and not spec.allow_pinning:
        yield "cache", {"pinned": False}, f"cache.pinned is ignored: {allowed_by(name, 'no pinning')}"
    if warm.deadline is not None and not spec.allow_deadlines:
        yield "warm", {"deadline": None}, f"warm.deadline is ignored: {allowed_by(name, 'no deadlines')}"
    yield _memory(cache.memory, name, spec.memory)
    yield _nodes(warm, name, spec)
    if warm.pages and not spec.memory.pages:
        yield "warm", {"pages": False}, f"warm.pages is ignored: {allowed_by(name, 'no pages in memory')}"
    tuning = limit_tuning(dataset.spec.tuning, name, spec.tuning)
    yield "tuning", dict(tuning.tuning), "; ".join(tuning.sentences)


def _priority(warm: Warm, name: str, spec: DatasetClassSpec) -> tuple[str, dict[str, Any], str]:
    most = spec.priority.max
    if "priority" not in warm.model_fields_set:
        return "warm", {"priority": min(spec.priority.default, most)}, ""
    if warm.priority <= most:
        return "warm", {}, ""
    sentence = f"warm.priority {warm.priority} is changed to {most}: {allowed_by(name, f'{most} at most')}"
    return "warm", {"priority": most}, sentence


def _policy(warm: Warm, name: str, spec: DatasetClassSpec) -> tuple[str, dict[str, Any], str]:
    allowed = spec.warm.policies
    default = spec.warm.default if spec.warm.default in allowed else allowed[0]
    if "policy" not in warm.model_fields_set:
        return "warm", {"policy": default}, ""
    if warm.policy in allowed:
        return "warm", {}, ""
    sentence = f"warm.policy {warm.policy} is changed to {default}: {allowed_by(name, listed(allowed))}"
    return "warm", {"policy": default}, sentence


def _peers(warm: Warm, name: str, spec: DatasetClassSpec) -> tuple[str, dict[str, Any], str]:
    allowed = spec.warm.peers
    if "peers" not in warm.model_fields_set:
        return "warm", {"peers": allowed[0]}, ""
    if warm.peers in allowed:
        return "warm", {}, ""
    sentence = f"warm.peers {warm.peers} is changed to {allowed[0]}: {allowed_by(name, listed(allowed))}"
    return "warm", {"peers": allowed[0]}, sentence


def _bandwidth(warm: Warm, name: str, limits: BandwidthLimits) -> tuple[str, dict[str, Any], str]:
    most = _bytes(limits.max)
    if warm.bandwidth_limit is None:
        default = _least(limits.default, limits.max)
        return "warm", {"bandwidth_limit": default} if default else {}, ""
    asked = _bytes(warm.bandwidth_limit)
    if most is None or (asked is not None and asked <= most):
        return "warm", {}, ""
    allowed = allowed_by(name, f"{limits.max} at most")
    sentence = f"warm.bandwidthLimit {warm.bandwidth_limit} is changed to {limits.max}: {allowed}"
    return "warm", {"bandwidth_limit": limits.max}, sentence


def _replicas(cache: Cache, name: str, spec: DatasetClassSpec) -> tuple[str, dict[str, Any], str]:
    asked, most = cache.replicas, spec.max_replicas
    if most == "all" or asks_for_share(cache) or (isinstance(asked, int) and asked <= most):
        return "cache", {}, ""  # the class's limit on a share applies when the share is computed
    sentence = f"cache.replicas {asked} is changed to {most}: {allowed_by(name, f'{most} at most')}"
    return "cache", {"replicas": most}, sentence


def _nodes(warm: Warm, name: str, spec: DatasetClassSpec) -> tuple[str, dict[str, Any], str]:
    most = spec.max_replicas
    if most == "all" or len(warm.nodes) <= most:
        return "warm", {}, ""
    sentence = f"only the first {most} of {len(warm.nodes)} warm.nodes are used: {allowed_by(name, f'{most} at most')}"
    return "warm", {"nodes": warm.nodes[:most]}, sentence


def _memory(memory: CacheMemory, name: str, limits: MemoryLimits) -> tuple[str, dict[str, Any], str]:
    most, asked = _bytes(limits.bytes) or 0, _bytes(memory.bytes) or 0
    sentences: list[str] = []
    if memory.names and not limits.names:
        sentences.append(f"cache.memory.names is ignored: {allowed_by(name, 'no names in memory')}")
    if asked > most:
        allowed = allowed_by(name, f"{limits.bytes} at most" if most else "no contents in memory")
        sentences.append(f"cache.memory.bytes {memory.bytes} is changed to {limits.bytes if most else 0}: {allowed}")
    if not sentences:
        return "cache", {}, ""
    kept = memory.bytes if asked <= most else (limits.bytes if most else None)
    return "cache", {"memory": CacheMemory(names=memory.names and limits.names, bytes=kept)}, "; ".join(sentences)


def _changed(dataset: Dataset, changes: dict[str, dict[str, Any]]) -> Dataset:
    parts = {}
    for part, values in changes.items():
        old = getattr(dataset.spec, part)
        if any(getattr(old, field) != value for field, value in values.items()):
            parts[part] = old.model_copy(update=values)
    return dataset.model_copy(update={"spec": dataset.spec.model_copy(update=parts)}) if parts else dataset


def _asked_by_hand(dataset: Dataset) -> bool:
    return names.ANNOTATION_WARM_REQUESTED in dataset.metadata.annotations


def _without_request(dataset: Dataset) -> Dataset:
    rest = {k: v for k, v in dataset.metadata.annotations.items() if k != names.ANNOTATION_WARM_REQUESTED}
    return dataset.model_copy(update={"metadata": dataset.metadata.model_copy(update={"annotations": rest})})


def _bytes(text: str | None) -> int | None:
    """Parse a limit. None: no limit, which 0 means too."""
    return (parse_quantity(text) if text else 0) or None


def _least(*limits: str | None) -> str | None:
    """Return the tightest limit, or None without a limit."""
    return min((one for one in limits if _bytes(one)), key=lambda one: parse_quantity(one or "0"), default=None)
