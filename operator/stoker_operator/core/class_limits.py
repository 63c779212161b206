"""What a DatasetClass makes of a Dataset: refused, taken as it is, or taken with less than it asks for."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from stoker_api import names
from stoker_api.cache_memory import CacheMemory, MemoryLimits
from stoker_api.dataset import Cache, Dataset, Warm, WarmPolicy
from stoker_api.datasetclass import BandwidthLimits, DatasetClass, DatasetClassSpec
from stoker_api.meta import parse_quantity
from stoker_api.names import Reason
from stoker_api.tuning import TuningLimits
from stoker_operator.core.class_sources import allowed_by, listed, source_refusal
from stoker_operator.core.dataset_classes import Refused
from stoker_operator.core.replica_share import asks_for_share
from stoker_operator.core.tuning_limits import limit_tuning

# What applies where there is no class: no privilege over others, and all else as the chart has it.
NO_CLASS = DatasetClassSpec()


@dataclass(frozen=True, slots=True)
class ClassTerms:
    """What is to be known of a Dataset's class beside its effective spec."""

    name: str = ""  # empty: no class
    limits: tuple[str, ...] = ()  # what is less than it asks for, in sentences
    anonymous: bool = False  # without credentials of its own it may not use the node's
    namespace_quota: int | None = None  # bytes that its namespace's Datasets of this class may hold; None: no limit
    node_quota: int | None = None  # the same on each node
    tuning: TuningLimits = field(default_factory=TuningLimits)
    most_replicas: int | None = None  # what a share of the nodes comes to at most; None: no limit


NO_TERMS = ClassTerms()


@dataclass(frozen=True, slots=True)
class Limited:
    """A Dataset with its effective spec."""

    dataset: Dataset
    terms: ClassTerms


def apply_class(dataset: Dataset, found: DatasetClass | None) -> Limited | Refused:
    """Return the Dataset as its class lets it be, or why it is refused.

    What decides what is read is refused, since something else would be read; how much, how soon and before whom is cut
    to what is allowed.
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
        limits.append(f"`stoker warm` is not followed: {allowed_by(name, listed(spec.warm.policies))}")
    anonymous = not spec.allow_ambient_credentials
    namespace, node = (
        None if one is None else parse_quantity(one) for one in (spec.quota.per_namespace, spec.quota.per_node)
    )
    most = None if spec.max_replicas == "all" or not asks_for_share(effective.spec.cache) else spec.max_replicas
    return Limited(effective, ClassTerms(name, tuple(limits), anonymous, namespace, node, spec.tuning, most))


def _effective(dataset: Dataset, name: str, spec: DatasetClassSpec) -> Iterator[tuple[str, dict[str, Any], str]]:
    """Return each part of the spec with what becomes of it, and the sentence where that is less than was asked for."""
    cache, warm = dataset.spec.cache, dataset.spec.warm
    yield _priority(warm, name, spec)
    yield _policy(warm, name, spec)
    yield _neighbours(warm, name, spec)
    yield _bandwidth(warm, name, spec.bandwidth)
    yield _replicas(cache, name, spec)
    if cache.pinned and not spec.allow_pinning:
        yield "cache", {"pinned": False}, f"cache.pinned is not followed: {allowed_by(name, 'no pinning')}"
    if warm.deadline is not None and not spec.allow_deadlines:
        yield "warm", {"deadline": None}, f"warm.deadline is not followed: {allowed_by(name, 'no deadlines')}"
    yield _memory(cache.memory, name, spec.memory)
    yield _nodes(warm, name, spec)
    if warm.pages and not spec.memory.pages:
        yield "warm", {"pages": False}, f"warm.pages is not followed: {allowed_by(name, 'no pages in memory')}"
    tuning = limit_tuning(dataset.spec.tuning, name, spec.tuning)
    yield "tuning", dict(tuning.tuning), "; ".join(tuning.sentences)


def _priority(warm: Warm, name: str, spec: DatasetClassSpec) -> tuple[str, dict[str, Any], str]:
    most = spec.priority.max
    if "priority" not in warm.model_fields_set:
        return "warm", {"priority": min(spec.priority.default, most)}, ""
    if warm.priority <= most:
        return "warm", {}, ""
    sentence = f"warm.priority {warm.priority} is taken as {most}: {allowed_by(name, f'{most} at most')}"
    return "warm", {"priority": most}, sentence


def _policy(warm: Warm, name: str, spec: DatasetClassSpec) -> tuple[str, dict[str, Any], str]:
    allowed = spec.warm.policies
    default = spec.warm.default if spec.warm.default in allowed else allowed[0]
    if "policy" not in warm.model_fields_set:
        return "warm", {"policy": default}, ""
    if warm.policy in allowed:
        return "warm", {}, ""
    sentence = f"warm.policy {warm.policy} is taken as {default}: {allowed_by(name, listed(allowed))}"
    return "warm", {"policy": default}, sentence


def _neighbours(warm: Warm, name: str, spec: DatasetClassSpec) -> tuple[str, dict[str, Any], str]:
    allowed = spec.warm.neighbours
    if "neighbours" not in warm.model_fields_set:
        return "warm", {"neighbours": allowed[0]}, ""
    if warm.neighbours in allowed:
        return "warm", {}, ""
    sentence = f"warm.neighbours {warm.neighbours} is taken as {allowed[0]}: {allowed_by(name, listed(allowed))}"
    return "warm", {"neighbours": allowed[0]}, sentence


def _bandwidth(warm: Warm, name: str, limits: BandwidthLimits) -> tuple[str, dict[str, Any], str]:
    most = _bytes(limits.max)
    if warm.bandwidth_limit is None:
        default = _least(limits.default, limits.max)
        return "warm", {"bandwidth_limit": default} if default else {}, ""
    asked = _bytes(warm.bandwidth_limit)
    if most is None or (asked is not None and asked <= most):
        return "warm", {}, ""
    allowed = allowed_by(name, f"{limits.max} at most")
    sentence = f"warm.bandwidthLimit {warm.bandwidth_limit} is taken as {limits.max}: {allowed}"
    return "warm", {"bandwidth_limit": limits.max}, sentence


def _replicas(cache: Cache, name: str, spec: DatasetClassSpec) -> tuple[str, dict[str, Any], str]:
    asked, most = cache.replicas, spec.max_replicas
    if most == "all" or asks_for_share(cache) or (isinstance(asked, int) and asked <= most):
        return "cache", {}, ""  # what a share comes to is limited where that is known
    sentence = f"cache.replicas {asked} is taken as {most}: {allowed_by(name, f'{most} at most')}"
    return "cache", {"replicas": most}, sentence


def _nodes(warm: Warm, name: str, spec: DatasetClassSpec) -> tuple[str, dict[str, Any], str]:
    most = spec.max_replicas
    if most == "all" or len(warm.nodes) <= most:
        return "warm", {}, ""
    sentence = f"of the {len(warm.nodes)} warm.nodes the first {most} are taken: {allowed_by(name, f'{most} at most')}"
    return "warm", {"nodes": warm.nodes[:most]}, sentence


def _memory(memory: CacheMemory, name: str, limits: MemoryLimits) -> tuple[str, dict[str, Any], str]:
    most, asked = _bytes(limits.bytes) or 0, _bytes(memory.bytes) or 0
    sentences: list[str] = []
    if memory.names and not limits.names:
        sentences.append(f"cache.memory.names is not followed: {allowed_by(name, 'no names in memory')}")
    if asked > most:
        allowed = allowed_by(name, f"{limits.bytes} at most" if most else "no contents in memory")
        sentences.append(f"cache.memory.bytes {memory.bytes} is taken as {limits.bytes if most else 0}: {allowed}")
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
    """Read a limit; None for no limit, which 0 says too."""
    return (parse_quantity(text) if text else 0) or None


def _least(*limits: str | None) -> str | None:
    """Return the tightest of the limits, or None when none of them is one."""
    return min((one for one in limits if _bytes(one)), key=lambda one: parse_quantity(one or "0"), default=None)
