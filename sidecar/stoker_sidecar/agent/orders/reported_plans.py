"""Turn the orders that pods report into plans by pod and Dataset, once stable, or into error messages."""

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Annotated, Self

from pydantic import Field, ValidationError, model_validator

from stoker_api.jobs.sampling import MOST_EPOCHS, MOST_RANKS_HERE, Sampling, wrong_at
from stoker_orders.predictors.samplers import sampler_named, sampler_of
from stoker_orders.sampling_plan import AT_FIRST, EpochStart, SamplingPlan
from stoker_sidecar.volumes.core.publish import Published
from stoker_tuning.reports.figures import ReportSummary

MOST_REPORTED = 512  # characters; docs/guides/reports.md
_MOST_SAMPLES = 2**32
_MOST_BEFORE = 100  # earlier epochs to compute for a stateful sampler, whose order depends on all earlier ones


class ReportedSampling(Sampling, extra="forbid"):
    """A sampling in a line of a report. The number of epochs is optional."""

    epochs: Annotated[int, Field(ge=1, le=MOST_EPOCHS)] = MOST_EPOCHS
    epoch: Annotated[int, Field(description="The epoch that is read.", ge=0, lt=MOST_EPOCHS)] = 0
    base: Annotated[
        int,
        Field(description="Samples of it that another number of ranks has read.", ge=0, le=_MOST_SAMPLES),
    ] = 0
    position: Annotated[
        int, Field(description="Samples of it that each rank has read after those.", ge=0, le=_MOST_SAMPLES)
    ] = 0

    @model_validator(mode="after")
    def _is_in_the_run(self) -> Self:
        if self.epoch >= self.epochs:
            raise ValueError(f"epoch is {self.epoch} of {self.epochs} epochs: the first one is 0")
        if sampler_of(sampler_named(self.sampler)).stateful and self.epoch > _MOST_BEFORE:
            raise ValueError(f"epoch is {self.epoch}: {self.sampler} is followed from epoch {_MOST_BEFORE} on at most")
        return self

    def plan(self) -> SamplingPlan:
        """Return the plan for the library that computes orders."""
        return replace(super().plan(), start=EpochStart(self.epoch, self.base, self.position))


def parse_reported_sampling(text: str) -> ReportedSampling:
    """Read the untrusted field ``sampling`` of a report. Raises ValueError with a sentence."""
    if len(text) > MOST_REPORTED:
        raise ValueError(f"the report's sampling has {len(text)} characters, and {MOST_REPORTED} are allowed")
    try:
        return ReportedSampling.model_validate_json(text)
    except ValidationError as error:
        # Field names come from the pod and appear in a status.
        told = "".join(letter if letter.isprintable() else "?" for letter in wrong_at(error))
        raise ValueError(f"the report's sampling is wrong{told}") from error


@dataclass(frozen=True)
class ReportedOrder:
    """Order in a pod's report. ``text`` is untrusted. ``rank``: the first of the pod's ``ranks`` consecutive ranks.

    ``world``: ranks of all pods together, as reported; None if the report does not contain it.
    """

    text: str
    rank: int = 0
    ranks: int = 1
    world: int | None = None


def reported_order(summary: ReportSummary) -> ReportedOrder | None:
    """Return the order that a pod reports; None if it reports none or withdrew it."""
    if not summary.sampling:
        return None
    return ReportedOrder(summary.sampling, summary.sampling_rank, max(1, summary.sampling_ranks), summary.world_size)


def reported_plans(
    mounted: Iterable[Published], reports: Mapping[str, ReportedOrder]
) -> tuple[dict[tuple[str, str], SamplingPlan], dict[str, str]]:
    """Return plans by the UIDs of pod and Dataset, and error messages by pod UID.

    A pod may report an order only for a Dataset that it mounts. An order in its spec takes precedence.
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
    """Return the plan; ranks missing in the sampling come from the report. Raises ValueError."""
    rank = report.rank if said.rank is None else said.rank
    here = said.ranks_per_pod if "ranks_per_pod" in said.model_fields_set else min(MOST_RANKS_HERE, report.ranks)
    world = said.ranks or report.world or rank + here
    if rank >= world:
        raise ValueError(f"the report's sampling is of rank {rank} among {world} ranks, which begin at 0")
    return replace(said.plan(), rank=rank, ranks=world, ranks_here=min(here, world - rank))


def _dataset(name: str, rows: list[Published]) -> str:
    """Return the UID of the Dataset that ``name`` means; an empty name means the pod's only one. Raises ValueError."""
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


# Seconds until all ranks of a pod have reported, and seconds between two orders of a pod: each one is computed.
SETTLED_SECONDS, CHANGE_SECONDS = 2.0, 60.0


@dataclass
class _PodOrder:
    """Followed order (``taken``, since ``taken_at``) and last report (``said``, since ``said_at``); seconds."""

    said: ReportedOrder
    said_at: float
    taken: ReportedOrder | None = None
    taken_at: float = float("-inf")


class ReportedOrders:
    """Reported orders of a node's pods. Not thread-safe. ``clock``: seconds.

    It calls ``on_change`` when the set of reporting pods changes.
    """

    def __init__(self, on_change: Callable[[], None], clock: Callable[[], float] = time.monotonic) -> None:
        self._on_change = on_change
        self._clock = clock
        self._pods: dict[str, _PodOrder] = {}

    def __len__(self) -> int:
        return len(self._pods)

    def take(self, said: Mapping[str, ReportedOrder]) -> None:
        """Take the last reports of all pods. A pod that is not among them reports no order."""
        now = self._clock()
        pods = {uid: self._pods.get(uid) or _PodOrder(order, now) for uid, order in said.items()}
        for uid, pod in pods.items():
            if not _alike(said[uid], pod.said):
                pod.said_at = now
            pod.said = said[uid]
        came_or_went = self._pods.keys() != pods.keys()
        self._pods = pods
        if came_or_went:  # the caller polls for changed reports of known pods
            self._on_change()

    def known(self) -> dict[str, ReportedOrder]:
        """Return the orders to follow now, by pod UID."""
        now = self._clock()
        for pod in self._pods.values():
            same = pod.taken is not None and _alike(pod.taken, pod.said)
            if same or (now - pod.said_at >= SETTLED_SECONDS and now - pod.taken_at >= CHANGE_SECONDS):
                pod.taken, pod.taken_at = pod.said, pod.taken_at if same else now
        return {uid: pod.taken for uid, pod in self._pods.items() if pod.taken is not None}


def _alike(one: ReportedOrder, other: ReportedOrder) -> bool:
    """Return True if two reports have one order; their starts may differ."""
    return one == other or _order(one) == _order(other)


@lru_cache(maxsize=256)
def _order(said: ReportedOrder) -> SamplingPlan | ReportedOrder:
    try:
        return replace(plan_of(parse_reported_sampling(said.text), said), start=AT_FIRST)
    except ValueError:
        return said
