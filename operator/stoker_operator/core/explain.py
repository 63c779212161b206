"""Why a pod waits or was let go.

Sentences with numbers, and a detail_key that changes only when a person would care.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Self

from stoker_api.dataset import Dataset, SchedulingMode
from stoker_api.meta import format_bytes, format_duration
from stoker_api.names import ConditionType, Reason
from stoker_operator.core.pod_demand import PodDemand
from stoker_operator.core.resources import Resources
from stoker_operator.core.warmth import Warmth

_SHOWN = 3  # nodes in a sentence; `stoker why` shows all
_STEP = 5  # per cent: a step that is worth another annotation
_COARSE_STEP = 25  # per cent: a step that is worth another event


@dataclass(frozen=True)
class NodeWarmth:
    """One node and how warm it is for the pod."""

    node: str
    warmth: Warmth


@dataclass(frozen=True)
class WarmthRanking:
    """The nodes that a pod may run on and that hold some of its data, or are asked to; ``cold`` the warmest first."""

    warm: tuple[NodeWarmth, ...]
    cold: tuple[NodeWarmth, ...]

    @classmethod
    def of(cls, nodes: Sequence[NodeWarmth]) -> Self:
        """Rank nodes, once for all pods that are alike."""
        cold = sorted((one for one in nodes if not one.warmth.warm), key=lambda one: -one.warmth.share)
        return cls(tuple(one for one in nodes if one.warmth.warm), tuple(cold))

    def __len__(self) -> int:
        return len(self.warm) + len(self.cold)


@dataclass(frozen=True)
class Explanation:
    """Why a pod waits.

    ``detail_key`` and ``coarse_key`` change when the sentence is worth writing again, and worth an event.
    """

    reason: Reason
    sentence: str
    detail_key: str
    coarse_key: str
    overdue: bool = False


def waiting(demand: PodDemand, ranking: WarmthRanking, requests: Resources, now: float) -> Explanation:
    """Explain why a pod is held."""
    warm = ", ".join(one.node for one in ranking.warm[:_SHOWN])
    reason = Reason.NO_CAPACITY if warm else Reason.WAITING_FOR_DATA
    overdue = now >= demand.deadline
    body = f"{warm} warm but without room for {describe(requests)}; " if warm else ""
    sentence = f"waiting for {demand.names}: {body}{_progress(demand, ranking)}; {_until(demand, overdue)}"
    best = ranking.cold[0].warmth.percent if ranking.cold else 0
    stem = f"{reason.value} {len(ranking.warm)}/{len(ranking)} {overdue} {_unlisted(demand)}"
    hindered = len(_hindrances(demand))
    coarse_key = f"{reason.value} {overdue} {best // _COARSE_STEP} {hindered}"
    return Explanation(reason, sentence, f"{stem} {best // _STEP} {hindered}", coarse_key, overdue)


def no_node(demand: PodDemand, requests: Resources, shown_at: float) -> Explanation:
    """Explain that no node at all could take the pod; ``shown_at``: when `Prefer` lets autoscalers see it."""
    until = (
        "scheduling Require holds it, and autoscalers do not look at held pods: add a node, or let it Prefer"
        if demand.mode is SchedulingMode.REQUIRE
        else f"released at {_clock_time(min(shown_at, demand.deadline))} UTC, so that an autoscaler sees it"
    )
    sentence = (
        f"waiting for {demand.names}: no ready node with Stoker's sidecar fits the pod's node selector, required "
        f"affinity, tolerations and {describe(requests)}; {until}"
    )
    return Explanation(Reason.NO_CAPACITY, sentence, "no node", "no node")


def gang(present: int, size: int, demand: PodDemand, now: float) -> Explanation:
    """Explain that workers are missing."""
    overdue = now >= demand.deadline
    sentence = (
        f"waiting for the gang: {present} of {size} workers exist; they are released together; "
        f"{_until(demand, overdue)}"
    )
    return Explanation(Reason.WAITING_FOR_GANG, sentence, f"gang {present}/{size} {overdue}", "gang")


def other_gates(gates: Sequence[str]) -> Explanation:
    """Explain that other controllers hold the pod, or another one of its gang."""
    shown = ", ".join(gates[:_SHOWN]) + (f" and {len(gates) - _SHOWN} more" if len(gates) > _SHOWN else "")
    sentence = f"waiting for other scheduling gates to be taken off: {shown}; maxWait counts from then"
    return Explanation(Reason.WAITING_FOR_GATES, sentence, sentence, sentence)


def unmet(reason: Reason, sentence: str) -> Explanation:
    """Explain something that the user has to put right."""
    return Explanation(reason, sentence, sentence, sentence)


def released(demand: PodDemand, nodes: Sequence[NodeWarmth], way_out: str = "") -> str:
    """Say where a pod goes that is released to warm nodes; ``way_out``: why other nodes are left to it as well."""
    shown = ", ".join(f"{one.node} {one.warmth.percent} %" for one in nodes[:_SHOWN])
    more = f" and {len(nodes) - _SHOWN} more" if len(nodes) > _SHOWN else ""
    where = (
        f"released with a preference for {shown}{more}, since {way_out}" if way_out else f"released to {shown}{more}"
    )
    return f"warm: {demand.names}; {where}"


def max_wait_passed(demand: PodDemand, nodes: Sequence[NodeWarmth], missing: str = "") -> str:
    """Say why a pod goes although nothing is warm enough; ``missing``: what its gang lacked."""
    shown = ", ".join(_node(one) for one in nodes[:_SHOWN]) or "no node holds any of it"
    what = missing or f"{demand.names} was warm where there is room"
    return f"maxWait {format_duration(demand.max_wait)} passed before {what}: {shown}"


def shown_to_autoscalers(demand: PodDemand, requests: Resources) -> str:
    """Say why a pod goes that no node could take."""
    return (
        f"no node fits the pod's node selector, required affinity, tolerations and {describe(requests)}: released "
        f"before {demand.names} is warm, so that an autoscaler sees it"
    )


def describe(requests: Resources) -> str:
    """Write an amount: ``2 cpu, 4.0 GiB memory, 1 nvidia.com/gpu``."""
    parts = [f"{requests.cpu_milli / 1000:g} cpu"] if requests.cpu_milli else []
    parts += [f"{format_bytes(requests.memory)} memory"] if requests.memory else []
    parts += [f"{count} {name}" for name, count in sorted(requests.extended.items()) if count]
    return ", ".join(parts) or "another pod"


def _progress(demand: PodDemand, ranking: WarmthRanking) -> str:
    unlisted = _unlisted(demand)
    if unlisted:
        return unlisted
    if not len(ranking):
        return "; ".join(["no node that the pod may run on holds any of it yet", *_hindrances(demand)])
    count = f"{len(ranking.warm)} of {len(ranking)} nodes warm enough"
    return "; ".join([count, *(_node(one) for one in ranking.cold[:_SHOWN]), *_hindrances(demand)])


def _hindrances(demand: PodDemand) -> list[str]:
    """Name data that will not come by itself, and what to do."""
    paused = [
        f"warming of {dataset.key} is paused: `stoker -n {dataset.metadata.namespace} resume {dataset.metadata.name}`"
        for dataset in demand.datasets
        if dataset.spec.warm.paused
    ]
    return paused + [
        f"{dataset.key}: {condition.message}"
        for dataset in demand.datasets
        for condition in dataset.status.conditions
        if (condition.type, condition.reason) == (ConditionType.DEGRADED, Reason.NAMESPACE_QUOTA_EXCEEDED)
    ]


def _node(one: NodeWarmth) -> str:
    warmth = one.warmth
    eta = f", ETA {format_duration(warmth.eta)}" if warmth.eta is not None and not warmth.warm else ""
    error = f" ({warmth.error})" if warmth.error else ""
    amount = f"{format_bytes(warmth.warm_bytes)} of {format_bytes(warmth.total_bytes)}"
    return f"{one.node} {warmth.percent} % ({amount}){eta}{error}"


def _unlisted(demand: PodDemand) -> str:
    return "; ".join(_why_unlisted(dataset) for dataset in demand.datasets if not dataset.status.version)


def _why_unlisted(dataset: Dataset) -> str:
    for condition in dataset.status.conditions:
        if condition.type == ConditionType.LISTED and condition.status == "False" and condition.message:
            return f"{dataset.key} is not listed: {condition.message}"
    return f"{dataset.key} is not listed yet"


def _clock_time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%H:%M:%S")


def _until(demand: PodDemand, overdue: bool) -> str:
    if demand.mode is not SchedulingMode.REQUIRE:
        return f"released anyway at {_clock_time(demand.deadline)} UTC (maxWait {format_duration(demand.max_wait)})"
    if overdue:
        return f"maxWait {format_duration(demand.max_wait)} passed, and scheduling Require goes on holding it"
    return "scheduling Require holds it until a warm node has room"
