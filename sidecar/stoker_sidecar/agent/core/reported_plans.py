"""Which orders pods say themselves, of which of their Datasets, and what is wrong with what they say. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache

from stoker_api.reported_sampling import ReportedSampling, parse_reported_sampling
from stoker_api.sampling import MOST_RANKS_HERE
from stoker_orders.sampling_plan import SamplingPlan
from stoker_sidecar.volumes.core.publish import Published
from stoker_tuning.reports.figures import ReportSummary


@dataclass(frozen=True)
class ReportedOrder:
    """What a pod says of its order: ``text`` is hostile. ``rank``: the first that said it, and ``ranks`` in a row.

    ``world``: how many ranks it says that there are in all pods; None: it does not.
    """

    text: str
    rank: int = 0
    ranks: int = 1
    world: int | None = None


def reported_order(summary: ReportSummary) -> ReportedOrder | None:
    """Return the order that a pod reports; None: it says none, or takes it back."""
    if not summary.sampling:
        return None
    return ReportedOrder(summary.sampling, summary.sampling_rank, max(1, summary.sampling_ranks), summary.world_size)


def reported_plans(
    mounted: Iterable[Published], reports: Mapping[str, ReportedOrder]
) -> tuple[dict[tuple[str, str], SamplingPlan], dict[str, str]]:
    """Return plans by the UIDs of pod and Dataset, and sentences by the UID of pods whose word cannot be followed.

    A pod speaks of the Datasets that it has itself. What its spec says comes before what it says.
    """
    rows: dict[str, list[Published]] = {}
    for row in mounted:
        if row.request.pod_uid in reports:
            rows.setdefault(row.request.pod_uid, []).append(row)
    plans: dict[tuple[str, str], SamplingPlan] = {}
    troubles: dict[str, str] = {}
    for uid, own in rows.items():
        if any(row.request.sampling for row in own):
            continue
        try:
            said = _read(reports[uid].text)
            plans[uid, _dataset(said.dataset, own)] = plan_of(said, reports[uid])
        except ValueError as error:
            troubles[uid] = str(error)
    return plans, troubles


def plan_of(said: ReportedSampling, report: ReportedOrder) -> SamplingPlan:
    """Return the plan, with ranks as the report's lines have them where it says none. Raises ValueError."""
    rank = report.rank if said.rank is None else said.rank
    here = said.ranks_per_pod if "ranks_per_pod" in said.model_fields_set else min(MOST_RANKS_HERE, report.ranks)
    world = said.ranks or report.world or rank + here
    if rank >= world:
        raise ValueError(f"the report's sampling is of rank {rank} among {world} ranks, which begin at 0")
    return replace(said.plan(), rank=rank, ranks=world, ranks_here=min(here, world - rank))


def _dataset(name: str, rows: list[Published]) -> str:
    """Return the UID of the Dataset that is meant. Raises ValueError."""
    known = {row.uid: row for row in rows}
    named = [uid for uid, row in known.items() if not name or name in (row.request.dataset, row.request.name)]
    if len(named) == 1:
        return named[0]
    choice = ", ".join(sorted(row.request.dataset for row in known.values()))
    if named:
        raise ValueError(f"the report's sampling says not of which Dataset it is: say 'dataset', one of {choice}")
    raise ValueError(f"the report's sampling is of a Dataset that the pod does not have: say one of {choice}")


@lru_cache(maxsize=256)
def _read(text: str) -> ReportedSampling:
    return parse_reported_sampling(text)
