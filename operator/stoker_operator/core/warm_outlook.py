"""What of a Dataset's warm-up is still to come, and whether that will be in time."""

from collections.abc import Iterable
from itertools import islice

from stoker_api.dataset_status import WarmForecast
from stoker_api.names import ConditionType, Reason
from stoker_api.origin import origin_names
from stoker_operator.core.conditions import ConditionSet, find
from stoker_operator.core.figures import Figures
from stoker_operator.core.forecast import OriginTerms, WarmWork, forecast
from stoker_operator.core.on_time import WarmOutlook, set_on_time
from stoker_operator.core.origin_ledger import FETCHING
from stoker_operator.core.plan import DatasetPlan, give_each_other, wants_warming
from stoker_operator.core.views import ClusterView

# Nodes that are asked for the best rate that they measured: thousands would say much the same.
_ASKED = 20
_GIVEN_UP = "all nodes ask it for less, and for a tenth more each 15 s while it does not say so again"


def forecast_of(view: ClusterView, plan: DatasetPlan, figures: Figures) -> WarmForecast | None:
    """Return what is left to fetch; None where that is nothing, or not known yet."""
    size = figures.size_each
    if not figures.desired or figures.all_done or size is None:
        return None
    files = figures.part.files if figures.part is not None else figures.files
    unheard = figures.desired - len(figures.here)  # nodes that are still to be chosen, or have said nothing of it
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
    """Say whether it will be warm in time, and whether its source asked for less."""
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
        sentence = "its source is asked for as much as before again"
        out.set(ConditionType.SOURCE_SLOWED, False, Reason.AT_FULL_SPEED, sentence)


def _terms(view: ClusterView, plan: DatasetPlan, figures: Figures) -> OriginTerms:
    """Gather what is known of its source: the narrowest caps, prices, and the best rate that a node measured."""
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
    """Return what of the lowest cap is given to the nodes that fetch; ``parts``: of one that the amounts are."""
    lowest = min((amount for amount in amounts if amount is not None), default=None)
    return None if lowest is None else lowest * FETCHING / (100 * parts)


def _node_rate(figures: Figures) -> float | None:
    """Return the bytes a second that one node brings: as some measure now, else the best that one remembers.

    What is measured now is of source and neighbours together; what is remembered, of the source alone.
    """
    some = [state.reported for state in islice(figures.targets.values(), _ASKED)]
    now = [row.bytes_per_second for row in some if row is not None and row.bytes_per_second]
    best = [row.best_source_bytes_per_second for row in some if row is not None and row.best_source_bytes_per_second]
    return max(now, default=None) or max(best, default=None)
