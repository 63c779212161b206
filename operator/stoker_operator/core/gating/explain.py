"""Messages about why a pod waits or was released, and about Datasets that nothing will warm without a change.

A ``detail_key`` changes only when the facts behind a message change.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from stoker_api import names
from stoker_api.datasets.dataset import Dataset, SchedulingMode, WarmPolicy
from stoker_api.meta import format_bytes, format_duration
from stoker_api.names import ConditionType, Reason
from stoker_operator.core.fitting.pod_demand import PodDemand
from stoker_operator.core.fitting.warmth import Warmth
from stoker_operator.core.views.conditions import find
from stoker_operator.core.views.resources import Resources

# Nodes with one of these reasons for Warm are done without all data.
_INCOMPLETE = frozenset({Reason.QUOTA_EXCEEDED, Reason.QUOTA_TOO_SMALL, Reason.DISK_FULL, Reason.UNREADABLE_OBJECTS})


@dataclass(frozen=True, slots=True)
class Hindrance:
    """Why no data is fetched in advance, with the fix."""

    reason: Reason
    sentence: str


def hindrance(dataset: Dataset) -> Hindrance | None:
    """Return why nothing warms a Dataset. Return None if something does or will."""
    meta, warm = dataset.metadata, dataset.spec.warm
    command = f"stoker -n {meta.namespace} {{}} {meta.name}"
    if warm.paused:
        return Hindrance(Reason.PAUSED, f"warming of {dataset.key} is paused: `{command.format('resume')}`")
    if warm.policy is WarmPolicy.MANUAL and names.ANNOTATION_WARM_REQUESTED not in meta.annotations:
        until = f"nothing is fetched until `{command.format('warm')}`"
        return Hindrance(Reason.MANUAL, f"warm.policy of {dataset.key} is Manual: {until}")
    found = find(dataset.status.conditions, ConditionType.WARM)
    if found is not None and found.status == "False" and found.reason == Reason.NAMESPACE_QUOTA_EXCEEDED:
        return Hindrance(Reason.NAMESPACE_QUOTA_EXCEEDED, f"{dataset.key}: {found.message}")
    return None


def is_settled(dataset: Dataset) -> bool:
    """Return True if a Dataset gets no warmer: it is warm, its nodes are full, or nothing warms it."""
    found = find(dataset.status.conditions, ConditionType.WARM)
    done = found is not None and (found.status == "True" or found.reason in _INCOMPLETE)
    return done or hindrance(dataset) is not None


def futile(demand: PodDemand) -> Sequence[Hindrance]:
    """Return why waiting does not warm a pod's data. Return () while some of it is listed or warmed.

    The caller checks for warm nodes first: a pod may still wait for room on one.
    """
    if demand.versions or not all(dataset.status.version and is_settled(dataset) for dataset in demand.datasets):
        return ()
    return [found for dataset in demand.datasets if (found := hindrance(dataset)) is not None]


TOLD_OF = frozenset({Reason.NAMESPACE_QUOTA_EXCEEDED})  # reasons of a Dataset's conditions that its pods show too
_SHOWN = 3  # nodes in a message; `stoker why` shows all


@dataclass(frozen=True)
class NodeWarmth:
    """One node and its warmth for the pod."""

    node: str
    warmth: Warmth


@dataclass(frozen=True)
class Explanation:
    """Why a pod waits.

    ``detail_key`` changes when the message must be written again. ``coarse_key`` changes when it is worth an event.
    """

    reason: Reason
    sentence: str
    detail_key: str
    coarse_key: str
    overdue: bool = False


def waiting(demand: PodDemand, warm: bool, requests: Resources, now: float) -> Explanation:
    """Explain why a pod is held. ``warm``: a node that it may use is warm, so only room is missing.

    Progress changes often and is equal for all waiting pods, so only the Dataset shows it.
    """
    vain = () if warm else futile(demand)
    reason = Reason.NO_CAPACITY if warm else vain[0].reason if vain else Reason.WAITING_FOR_DATA
    overdue = now >= demand.deadline
    unlisted, troubles = _unlisted(demand), hindrances(demand)
    body = f"no warm node has room for {describe(requests)}" if warm else "no node that can run it is warm yet"
    said = [*troubles] if vain else [unlisted or body, *troubles]
    parts = [*said, until_when(demand, overdue=overdue), f"progress: {_where(demand)}"]
    key = f"{reason.value} {overdue} {bool(unlisted)} {len(troubles)}"
    return Explanation(reason, f"waiting for {demand.names}: {'; '.join(parts)}", key, key, overdue)


def no_node(demand: PodDemand, requests: Resources, shown_at: float) -> Explanation:
    """Explain that no node can take the pod. ``shown_at``: when `Prefer` releases it for autoscalers."""
    until = (
        "scheduling is Require, so the pod stays gated, and autoscalers ignore gated pods: add a node or use Prefer"
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

    The number of existing workers changes with each new one and would be written to all. A TrainingJob shows it once.
    """
    overdue = now >= demand.deadline
    sentence = (
        f"waiting for the gang of {size}: not all of its pods exist yet; they are released together; "
        f"{until_when(demand, overdue=overdue)}"
    )
    return Explanation(Reason.WAITING_FOR_GANG, sentence, f"gang {size} {overdue}", "gang")


def other_gates(gates: Sequence[str]) -> Explanation:
    """Explain that other controllers hold the pod or a pod of its gang."""
    shown = ", ".join(gates[:_SHOWN]) + (f" and {len(gates) - _SHOWN} more" if len(gates) > _SHOWN else "")
    sentence = f"waiting for other scheduling gates to be removed: {shown}; maxWait counts from then"
    return Explanation(Reason.WAITING_FOR_GATES, sentence, sentence, sentence)


def unmet(reason: Reason, sentence: str) -> Explanation:
    """Explain a problem that the user must fix."""
    return Explanation(reason, sentence, sentence, sentence)


def released(demand: PodDemand, nodes: Sequence[NodeWarmth], way_out: str = "") -> str:
    """Describe the target of a pod released to warm nodes. ``way_out``: why it may use other nodes too."""
    shown = ", ".join(f"{one.node} {one.warmth.percent} %" for one in nodes[:_SHOWN])
    more = f" and {len(nodes) - _SHOWN} more" if len(nodes) > _SHOWN else ""
    where = (
        f"released to be tried on {nodes[0].node} first, with a preference for {shown}{more}, since {way_out}"
        if way_out
        else f"released to {shown}{more}"
    )
    return f"warm: {demand.names}; {where}"


def max_wait_passed(demand: PodDemand, nodes: Sequence[NodeWarmth], missing: str = "") -> str:
    """Explain a release without enough warm data. ``missing``: what its gang lacked."""
    shown = ", ".join(_node(one) for one in nodes[:_SHOWN]) or "no node holds any of it"
    what = missing or f"{demand.names} was warm where there is room"
    return f"maxWait {format_duration(demand.max_wait)} passed before {what}: {shown}"


def unwarmed(demand: PodDemand, causes: Sequence[Hindrance]) -> str:
    """Explain a release without warm data, because waiting would not help."""
    return f"released before {demand.names} is warm: {'; '.join(one.sentence for one in causes)}"


def shown_to_autoscalers(demand: PodDemand, requests: Resources) -> str:
    """Explain the release of a pod that no node can take."""
    return (
        f"no node fits the pod's node selector, required affinity, tolerations and {describe(requests)}: released "
        f"before {demand.names} is warm, so that an autoscaler sees it"
    )


def describe(requests: Resources) -> str:
    """Format an amount: ``2 cpu, 4.0 GiB memory, 1 nvidia.com/gpu``."""
    parts = [f"{requests.cpu_milli / 1000:g} cpu"] if requests.cpu_milli else []
    parts += [f"{format_bytes(requests.memory)} memory"] if requests.memory else []
    parts += [f"{count} {name}" for name, count in sorted(requests.extended.items()) if count]
    return ", ".join(parts) or "another pod"


def _where(demand: PodDemand) -> str:
    """Return the command that shows the first Dataset's progress. It works for the rest too."""
    meta = demand.datasets[0].metadata
    return f"`stoker -n {meta.namespace} status {meta.name}`"


def hindrances(demand: PodDemand) -> list[str]:
    """Describe data that will not arrive without a change, and the fix."""
    found = [one.sentence for dataset in demand.datasets if (one := hindrance(dataset)) is not None]
    over = [
        f"{dataset.key}: {condition.message}"
        for dataset in demand.datasets
        for condition in dataset.status.conditions
        if condition.type == ConditionType.DEGRADED and condition.reason in TOLD_OF
    ]
    return list(dict.fromkeys((*found, *over)))


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
    """Describe when the pod is released without warm data."""
    if demand.mode is not SchedulingMode.REQUIRE:
        return f"released anyway at {_clock_time(demand.deadline)} UTC (maxWait {format_duration(demand.max_wait)})"
    if overdue:
        return f"maxWait {format_duration(demand.max_wait)} passed, and scheduling Require still holds it"
    return "scheduling Require holds it until a warm node has room"
