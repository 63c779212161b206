"""Why a pod waits or was let go.

Sentences, and a detail_key that changes only when something else is true.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from stoker_api.dataset import SchedulingMode
from stoker_api.meta import format_bytes, format_duration
from stoker_api.names import ConditionType, Reason
from stoker_operator.core.pod_demand import PodDemand
from stoker_operator.core.resources import Resources
from stoker_operator.core.warmth import Warmth

TOLD_OF = frozenset({Reason.NAMESPACE_QUOTA_EXCEEDED})  # reasons of a Dataset's conditions that its pods are told of
_SHOWN = 3  # nodes in a sentence; `stoker why` shows all


@dataclass(frozen=True)
class NodeWarmth:
    """One node and how warm it is for the pod."""

    node: str
    warmth: Warmth


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


def waiting(demand: PodDemand, warm: bool, requests: Resources, now: float) -> Explanation:
    """Explain why a pod is held; ``warm``: a node that it may run on is warm, so only room is missing.

    How far warming is changes all the time and is the same for all pods that wait: the Dataset says it, in one place.
    """
    reason = Reason.NO_CAPACITY if warm else Reason.WAITING_FOR_DATA
    overdue = now >= demand.deadline
    unlisted, troubles = _unlisted(demand), hindrances(demand)
    body = f"no node that is warm has room for {describe(requests)}" if warm else "no node that may run it is warm yet"
    parts = [unlisted or body, *troubles, until_when(demand, overdue=overdue), f"progress: {_where(demand)}"]
    key = f"{reason.value} {overdue} {bool(unlisted)} {len(troubles)}"
    return Explanation(reason, f"waiting for {demand.names}: {'; '.join(parts)}", key, key, overdue)


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


def gang(size: int, demand: PodDemand, now: float) -> Explanation:
    """Explain that workers are missing.

    How many exist changes with each that comes, and would be written onto all of them: a TrainingJob says it once.
    """
    overdue = now >= demand.deadline
    sentence = (
        f"waiting for the gang of {size}: not all of its pods exist yet; they are released together; "
        f"{until_when(demand, overdue=overdue)}"
    )
    return Explanation(Reason.WAITING_FOR_GANG, sentence, f"gang {size} {overdue}", "gang")


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
        f"released to be tried on {nodes[0].node} first, with a preference for {shown}{more}, since {way_out}"
        if way_out
        else f"released to {shown}{more}"
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


def _where(demand: PodDemand) -> str:
    """Say where the progress of the first Dataset is; of the others it is in the same place."""
    meta = demand.datasets[0].metadata
    return f"`stoker -n {meta.namespace} status {meta.name}`"


def hindrances(demand: PodDemand) -> list[str]:
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
        if condition.type == ConditionType.DEGRADED and condition.reason in TOLD_OF
    ]


def _node(one: NodeWarmth) -> str:
    warmth = one.warmth
    eta = f", ETA {format_duration(warmth.eta)}" if warmth.eta is not None and not warmth.warm else ""
    error = f" ({warmth.error})" if warmth.error else ""
    amount = f"{format_bytes(warmth.warm_bytes)} of {format_bytes(warmth.total_bytes)}"
    return f"{one.node} {warmth.percent} % ({amount}){eta}{error}"


def _unlisted(demand: PodDemand) -> str:
    return "; ".join(f"{dataset.key} is not listed yet" for dataset in demand.datasets if not dataset.status.version)


def _clock_time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%H:%M:%S")


def until_when(demand: PodDemand, *, overdue: bool) -> str:
    """Say when it is let go although nothing is warm."""
    if demand.mode is not SchedulingMode.REQUIRE:
        return f"released anyway at {_clock_time(demand.deadline)} UTC (maxWait {format_duration(demand.max_wait)})"
    if overdue:
        return f"maxWait {format_duration(demand.max_wait)} passed, and scheduling Require goes on holding it"
    return "scheduling Require holds it until a warm node has room"
