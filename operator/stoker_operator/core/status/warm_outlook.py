"""Forecast the rest of a Dataset's warm-up, and whether it meets the deadline (docs/guides/origins.md)."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice

from stoker_api.datasets.dataset_status import WarmForecast
from stoker_api.datasets.origin import origin_names
from stoker_api.meta import format_bytes, format_duration
from stoker_api.names import ConditionType, Reason
from stoker_operator.core.origins.origin_ledger import FETCHING
from stoker_operator.core.plans.on_time import WarmOutlook, set_on_time
from stoker_operator.core.plans.plan import DatasetPlan, give_each_other, wants_warming
from stoker_operator.core.status.figures import Figures
from stoker_operator.core.views.cluster import ClusterView
from stoker_operator.core.views.conditions import ConditionSet, find
from stoker_operator.core.views.resources import clamp

CHUNK = 8 * 1024**2  # maximum bytes of one GET, as the sidecar requests large files
_GB = 10**9
_DIGITS = 2  # digits in messages and statuses: more digits would change with each report and are not exact


@dataclass(frozen=True, slots=True)
class WarmWork:
    """The work of a warm-up.

    ``size`` and ``files``: of the version, or of the part in ``warm.paths`` or ``warm.list``. ``here``: its warm bytes
    on each node that should hold it. ``peers``: nodes fetch from each other. ``given``: nodes that serve without a
    place have all of it.
    """

    size: int
    files: int
    here: Sequence[int]
    peers: bool = False
    given: bool = False


@dataclass(frozen=True, slots=True)
class OriginTerms:
    """Limits and prices of a source. None and 0: no cap, no price.

    ``node_rate``: the best measured bytes a second of a node; None: not measured. ``price_per_gb`` and
    ``price_per_1000_requests``: in ``currency``.
    """

    bytes_per_second: float | None = None
    requests_per_second: float | None = None
    node_rate: float | None = None
    price_per_gb: float = 0.0
    price_per_1000_requests: float = 0.0
    currency: str = ""


NO_TERMS = OriginTerms()


def forecast(work: WarmWork, terms: OriginTerms = NO_TERMS) -> WarmForecast:
    """Return the remaining work of a warm-up, rounded up to two digits. A finished one has 0 everywhere.

    Bytes: the sum of each node's missing bytes. With ``peers``, only the missing bytes of the fullest node, because
    peers supply the rest. Requests: at most one GET for each file and for each whole chunk. Seconds: the slowest of the
    source's two caps and of the emptiest node at the measured rate. None if no rate is known, or if peers supply
    everything at an unknown rate.
    """
    lacking = [max(0, work.size - here) for here in work.here]
    most = max(lacking, default=0)
    bytes_left = _from_source(work, lacking)
    requests = _requests(work, bytes_left)
    seconds = _seconds(terms, bytes_left, requests, most)
    cost = bytes_left / _GB * terms.price_per_gb + requests / 1000 * terms.price_per_1000_requests
    priced = terms.price_per_gb > 0 or terms.price_per_1000_requests > 0
    found = WarmForecast(
        origin_bytes=_rounded(bytes_left),
        origin_requests=_rounded(requests),
        seconds=None if seconds is None else _rounded(seconds),
        cost=f"{cost:.2f} {terms.currency}".strip() if priced else "",
    )
    return found.model_copy(update={"message": _sentence(found) if most else "nothing is left to fetch"})


def _from_source(work: WarmWork, lacking: Sequence[int]) -> int:
    if work.given:
        return 0
    return min(lacking, default=0) if work.peers else sum(lacking)


def _sentence(found: WarmForecast) -> str:
    """Format ``12.0 GiB from the source in about 1,600 requests, about 3m20s, about 1.08 USD``."""
    parts = [f"{format_bytes(found.origin_bytes)} from the source in about {found.origin_requests:,} requests"]
    if not found.origin_bytes:
        parts = ["nothing from the source, because peers have all of it"]
    time = "duration unknown until a rate is measured"
    parts.append(time if found.seconds is None else f"about {format_duration(found.seconds)}")
    if found.cost:
        parts.append(f"about {found.cost}")
    return ", ".join(parts)


def _requests(work: WarmWork, bytes_left: int) -> int:
    """Return the maximum number of GETs for ``bytes_left``, at the average file size."""
    if not bytes_left:
        return 0
    return -(-work.files * bytes_left // work.size) + bytes_left // CHUNK


def _seconds(terms: OriginTerms, bytes_left: int, requests: int, lacking_most: int) -> float | None:
    limits = (
        (bytes_left, terms.bytes_per_second),
        (requests, terms.requests_per_second),
        (lacking_most, terms.node_rate),
    )
    if lacking_most and not bytes_left and not terms.node_rate:
        return None
    times = [amount / rate for amount, rate in limits if rate]
    return max(times, default=None)


def _rounded(value: float) -> int:
    """Round up to two digits."""
    whole = clamp(int(-(-value // 1)))
    step = 10 ** max(0, len(str(whole)) - _DIGITS)
    return clamp(-(-whole // step) * step)


# Nodes to check for the best measured rate. More nodes would give about the same value.
_ASKED = 20
_GIVEN_UP = "all nodes send fewer requests, and a tenth more every 15 s until the next refusal"


def forecast_of(view: ClusterView, plan: DatasetPlan, figures: Figures) -> WarmForecast | None:
    """Return the forecast, or None if nothing is left or the size is unknown."""
    size = figures.size_each
    if not figures.desired or figures.all_done or size is None:
        return None
    files = figures.part.files if figures.part is not None else figures.files
    unheard = figures.desired - len(figures.here)  # wanted nodes that are not chosen or have not reported
    together = give_each_other(view, plan)
    work = WarmWork(
        size,
        files or 0,
        (*figures.here, *([0] * unheard)),
        peers=together and figures.desired > 1,
        given=together and plan.givers.whole,
    )
    return forecast(work, _terms(view, plan, figures))


def set_outlook(
    out: ConditionSet, view: ClusterView, plan: DatasetPlan, figures: Figures, left: WarmForecast | None, now: float
) -> None:
    """Set the conditions OnTime and SourceSlowed."""
    eta = figures.eta if figures.speed else None
    paused = plan.dataset.spec.warm.paused or not wants_warming(plan)
    homeless = max(0, figures.desired - len(figures.targets))
    progress = WarmOutlook(figures.all_done, paused, eta, left.seconds if left is not None else None, homeless)
    set_on_time(out, plan.dataset.status.conditions, plan.due, progress, now)
    names = origin_names(plan.dataset.spec.source)
    if names is not None and names.bucket in view.shares.slowed:
        sentence = f"{names.bucket} asked for fewer requests (SlowDown): {_GIVEN_UP}"
        out.set(ConditionType.SOURCE_SLOWED, True, Reason.SLOW_DOWN, sentence)
    elif find(plan.dataset.status.conditions, ConditionType.SOURCE_SLOWED):
        sentence = "requests to its source are back to normal"
        out.set(ConditionType.SOURCE_SLOWED, False, Reason.AT_FULL_SPEED, sentence)


def _terms(view: ClusterView, plan: DatasetPlan, figures: Figures) -> OriginTerms:
    """Return the tightest caps, the prices, and the best measured rate of a node for its source."""
    names = origin_names(plan.dataset.spec.source)
    if names is None:
        return OriginTerms(node_rate=_node_rate(figures))
    policy = view.origin_policy
    size, requests = policy.price_of(names)
    caps = [cap for name in names.all if (cap := policy.by_name.get(name)) is not None]
    return OriginTerms(
        bytes_per_second=_given(cap.bytes_per_second for cap in caps),
        requests_per_second=_given((cap.milli_requests_per_second for cap in caps), 1000),
        node_rate=_node_rate(figures),
        price_per_gb=size,
        price_per_1000_requests=requests,
        currency=policy.currency,
    )


def _given(amounts: Iterable[int | None], parts: int = 1) -> float | None:
    """Return the part of the lowest cap that fetching nodes share. ``parts``: units of an amount per 1."""
    lowest = min((amount for amount in amounts if amount is not None), default=None)
    return None if lowest is None else lowest * FETCHING / (100 * parts)


def _node_rate(figures: Figures) -> float | None:
    """Return the bytes a second of one node: the current maximum, otherwise the best remembered.

    The current rate includes peers. The remembered rate covers the source alone.
    """
    some = [state.reported for state in islice(figures.targets.values(), _ASKED)]
    now = [row.bytes_per_second for row in some if row is not None and row.bytes_per_second]
    best = [row.best_source_bytes_per_second for row in some if row is not None and row.best_source_bytes_per_second]
    return max(now, default=None) or max(best, default=None)
