"""Decide whether a Workload of Kueue may start: whether its data is warm where its pods may run, or when it will be."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum, auto

from stoker_api.datasets.dataset import SchedulingMode
from stoker_api.datasets.dataset_status import WarmForecast
from stoker_api.jobs.pod_annotations import DatasetRequest, Refusal, format_datasets
from stoker_api.meta import format_bytes, format_duration
from stoker_operator.core.fitting.pod_demand import PodDemand, Unmet, read_demand, read_request
from stoker_operator.core.gating import explain
from stoker_operator.core.gating.explain import futile
from stoker_operator.core.gating.releases import SHOWN_AFTER
from stoker_operator.core.kueue.kueue_objects import PodSetView, QueuedWorkload, WarmTerms
from stoker_operator.core.kueue.warm_supply import MissingData, PodNeed, Seats, WarmSupply, missing_data
from stoker_operator.core.views.catalog import CatalogEntry
from stoker_operator.core.views.cluster import ClusterView, PodView

_SHOWN = 3  # nodes in a message


class Outlook(Enum):
    """The answer for a Workload."""

    READY = auto()
    WAIT = auto()
    REFUSED = auto()  # the API server's webhook would refuse its pods, even with warm data


@dataclass(frozen=True)
class StartVerdict:
    """The answer for a Workload, and the reason.

    ``wanted``: nodes that need its data, by Dataset key. ``versions``: older versions on those nodes. ``annotate``: the
    value of the pods' annotation stoker.dev/datasets, by pod set. ``waiting``: pod sets that are held for data and have
    no annotation about their wait. ``cold``: the Workload starts before its data is warm.
    """

    outlook: Outlook
    sentence: str
    wanted: Mapping[str, frozenset[str]] = field(default_factory=dict)
    versions: Mapping[str, Mapping[str, frozenset[str]]] = field(default_factory=dict)
    annotate: Mapping[str, str] = field(default_factory=dict)
    waiting: tuple[str, ...] = ()
    cold: bool = False


def judge(
    workload: QueuedWorkload, terms: WarmTerms, view: ClusterView, supply: WarmSupply, now: float
) -> StartVerdict:
    """Judge one Workload."""
    needs = _needs(workload, view, now)
    if isinstance(needs, StartVerdict):
        return needs
    seats = supply.seats([one for one in needs if one.demand.mode is not SchedulingMode.NONE])
    outlook, sentence, cold = _outlook(seats, terms, now)
    wanted: dict[str, set[str]] = {}
    versions: dict[str, dict[str, frozenset[str]]] = {}
    for one in seats:
        for dataset in one.need.demand.datasets:
            nodes = {choice.node for choice in one.choices}
            wanted.setdefault(dataset.key, set()).update(nodes)
            if older := one.need.demand.versions.get(dataset.key, ""):
                of = versions.setdefault(dataset.key, {})
                of.update({node: of.get(node, frozenset()) | {older} for node in nodes})
    return StartVerdict(
        outlook,
        sentence,
        wanted={key: frozenset(nodes) for key, nodes in wanted.items()},
        versions=versions,
        annotate=_annotate(workload, view),
        waiting=_waiting(workload, seats),
        cold=cold,
    )


def _needs(workload: QueuedWorkload, view: ClusterView, now: float) -> list[PodNeed] | StartVerdict:
    """Return the needs of its pods, or a verdict if they cannot be determined."""
    needs: list[PodNeed] = []
    for one in workload.pod_sets:
        if isinstance(one.pod, Refusal):
            return StartVerdict(Outlook.WAIT, one.pod.sentence)
        text = one.pod.datasets or _by_volumes(one.pod, view)
        if not text or not one.count:
            continue
        need = _need(one, replace(one.pod, datasets=text), view, now)
        if isinstance(need, StartVerdict):
            return need
        needs.append(need)
    return needs


def _need(one: PodSetView, pod: PodView, view: ClusterView, now: float) -> PodNeed | StartVerdict:
    request = read_request(pod) if one.gang_problem is None else one.gang_problem
    if isinstance(request, Refusal):
        return StartVerdict(Outlook.REFUSED, f"pods {one.name!r}: {request.sentence}")
    demand = read_demand(pod, view, now)
    if isinstance(demand, Unmet):
        return StartVerdict(Outlook.WAIT, f"pods {one.name!r}: {demand.sentence}")
    versions = dict(demand.versions)
    for asked in request.datasets:
        dataset = view.datasets[asked.key]
        version = CatalogEntry.of(dataset).resolve(asked.version)
        if isinstance(version, Refusal):
            return StartVerdict(Outlook.WAIT, f"pods {one.name!r}: {version.sentence}")
        if asked.version and version != dataset.status.version:
            versions[asked.key] = version
    return PodNeed(one.name, pod, replace(demand, versions=versions), one.count)


def _by_volumes(pod: PodView, view: ClusterView) -> str:
    """Return a pod's volumes with Datasets, in the format of the annotation."""
    claims = (f"{pod.namespace}/{claim}" for claim in pod.claims)
    keys = dict.fromkeys((*pod.volumes, *(key for key in claims if key in view.datasets)))
    requests = [DatasetRequest(*key.split("/", 1)) for key in keys]
    return format_datasets(requests)


def _annotate(workload: QueuedWorkload, view: ClusterView) -> dict[str, str]:
    """Return the pods without the annotation. With it, the webhook holds them for warm nodes like all other pods."""
    return {
        one.name: text
        for one in workload.pod_sets
        if not isinstance(one.pod, Refusal) and not one.pod.datasets and (text := _by_volumes(one.pod, view))
    }


def _waiting(workload: QueuedWorkload, seats: Sequence[Seats]) -> tuple[str, ...]:
    """Return the pod sets that are held for data. Kueue accepts no second value for a set that has the annotation."""
    held = {one.need.name for one in seats}
    return tuple(one.name for one in workload.pod_sets if one.name in held and not one.says_wait)


def _outlook(seats: Sequence[Seats], terms: WarmTerms, now: float) -> tuple[Outlook, str, bool]:
    """Return whether the Workload may start, why, and whether it would start with cold data."""
    if not seats:
        return Outlook.READY, "its pods wait for no Dataset", False
    missing, whole = missing_data(seats), all(one.choices for one in seats)
    demands = [one.need.demand for one in seats]
    progress = _describe(missing, demands)
    data = " and ".join(dict.fromkeys(demand.names for demand in demands))
    if whole and missing.is_warm:
        return Outlook.READY, f"warm: {data}; {_where(seats)}", False
    if whole and missing.within(terms.within):
        within = format_duration(terms.within)
        return Outlook.READY, f"{data} will be warm within {within}: {progress}", False
    patient = any(demand.mode is SchedulingMode.REQUIRE for demand in demands)
    vain = next((found for demand in demands if (found := futile(demand))), ())
    if vain and not patient:
        return Outlook.READY, explain.unwarmed(demands[0], vain), True
    overdue = any(now >= demand.deadline for demand in demands)
    shown = not whole and any(now >= demand.since + SHOWN_AFTER for demand in demands)
    if not patient and overdue:
        return Outlook.READY, f"maxWait passed before {data} was warm: {progress}", True
    if not patient and shown:
        why = f"no node fits its pods: released before {data} is warm, so that an autoscaler sees them"
        return Outlook.READY, why, True
    hindrances = [text for demand in demands for text in (*_unlisted(demand), *explain.hindrances(demand))]
    what = progress if whole else "no ready node with Stoker's sidecar fits its pods and may hold the data"
    until = explain.until_when(demands[0], overdue=overdue)
    parts = [what, *dict.fromkeys(hindrances), "its quota stays free for other workloads", until]
    return Outlook.WAIT, f"waiting for {data}: {'; '.join(parts)}", False


def _unlisted(demand: PodDemand) -> list[str]:
    return [f"{dataset.key} is not listed yet" for dataset in demand.datasets if not dataset.status.version]


def _describe(missing: MissingData, demands: Sequence[PodDemand]) -> str:
    eta = _foreseen(demands) if missing.eta is None else f"{format_duration(missing.eta)} at the current rate"
    done = f"{missing.warm} of {missing.nodes} nodes that its pods need are warm"
    return f"{done}; {format_bytes(missing.left_bytes)} left, {_from_source(demands)}{eta}"


def _forecasts(demands: Sequence[PodDemand]) -> list[WarmForecast]:
    """Return the forecasts of the Datasets that have one."""
    datasets = {dataset.key: dataset for demand in demands for dataset in demand.datasets}
    return [one.status.forecast for one in datasets.values() if one.status.forecast is not None]


def _from_source(demands: Sequence[PodDemand]) -> str:
    """Describe the bytes from the source and their price, if known. Return "" if there are none."""
    some = _forecasts(demands)
    size, costs = sum(one.origin_bytes for one in some), [one.cost for one in some if one.cost]
    price = f" for about {' and '.join(costs)}" if costs else ""
    return f"{format_bytes(size)} of it from the source{price}, " if size else ""


def _foreseen(demands: Sequence[PodDemand]) -> str:
    """Describe the time from the Datasets' forecasts, for data that does not move yet."""
    some = _forecasts(demands)
    seconds = [one.seconds for one in some if one.seconds is not None]
    if not seconds or len(seconds) < len(some):
        return "the time is not known yet"
    return f"about {format_duration(max(seconds))} by the forecast"


def _where(seats: Sequence[Seats]) -> str:
    nodes = list(dict.fromkeys(choice.node for one in seats for choice in one.choices))
    more = f" and {len(nodes) - _SHOWN} more" if len(nodes) > _SHOWN else ""
    return f"on {', '.join(nodes[:_SHOWN])}{more}"
