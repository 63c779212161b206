"""Roll up NodeCache reports into the status of a Dataset: conditions, phase, columns."""

from collections.abc import Sequence
from dataclasses import dataclass

from stoker_api.datasets.dataset_status import (
    DatasetStatus,
    Phase,
    ShownState,
    WarmForecast,
)
from stoker_api.meta import Condition, format_bytes, format_duration
from stoker_api.names import ConditionType, Reason
from stoker_api.times import format_time
from stoker_operator.core.classes.class_limits import NO_TERMS, ClassTerms
from stoker_operator.core.plans.deletion import Deletion
from stoker_operator.core.plans.plan import DatasetPlan, pages_request, wants_warming
from stoker_operator.core.status.dataset_verdicts import SHORT_DIGEST, DatasetFacts, first_problems, has_failed
from stoker_operator.core.status.figures import add_up, node_counts, node_rows
from stoker_operator.core.status.warm_conditions import (
    set_memory_pinned,
    set_moving,
    set_nodes_found,
    set_pages_warm,
    set_paths_found,
)
from stoker_operator.core.status.warm_outlook import forecast_of, set_outlook
from stoker_operator.core.views.cluster import ClusterView, InvalidDataset
from stoker_operator.core.views.conditions import ConditionSet, find
from stoker_operator.core.views.node_states import NodeStates
from stoker_operator.core.views.resources import clamp

_MOST_VERSIONS = 50  # in status.versionsInUse
_MOST_DIGEST = 64  # characters; versions come from nodes

# Reasons that the Dataset's owner cannot fix.
_OTHERS_TROUBLE = frozenset({Reason.CLASS_NOT_FOUND, Reason.CLASS_INVALID, Reason.INTERNAL_ERROR})
_MORE = "Write what is allowed, or ask an administrator for a class that allows more (spec.className)"


@dataclass(frozen=True, slots=True)
class StatusNotes:
    """The operator's own notes. ``accepted``: added to that condition. ``troubles``: failed writes."""

    accepted: str = ""
    troubles: tuple[str, ...] = ()


def roll_up_dataset(
    view: ClusterView, plan: DatasetPlan, states: NodeStates, deletion: Deletion | None, notes: StatusNotes, now: float
) -> DatasetStatus:
    """Return the new status of a Dataset."""
    facts = DatasetFacts(view, plan, states, add_up(plan, states), deletion)
    dataset, listing, figures = plan.dataset, plan.listing, facts.figures
    left = forecast_of(view, plan, figures)
    terms = view.terms.get(dataset.key, NO_TERMS)
    answered = format_time(listing.answered_at, "milliseconds") if listing.answered_at else dataset.status.listed_at
    phase = _phase(facts)
    return DatasetStatus(
        phase=phase,
        state=_state(facts, phase),
        class_name=terms.name,
        charged_bytes=clamp(plan.placement.charged),
        namespace_quota_bytes=terms.namespace_quota,
        node_quota_bytes=terms.node_quota,
        tuning=plan.tuning.told,
        observed_generation=dataset.metadata.generation,
        conditions=_conditions(facts, notes, left, now),
        version=listing.version[:_MOST_DIGEST],
        version_short=listing.version[:SHORT_DIGEST],
        versions_in_use=tuple(version[:_MOST_DIGEST] for version in sorted(plan.live)[:_MOST_VERSIONS]),
        listed_at=answered,
        listing_id=listing.id,
        listing_node=listing.node,
        listing_source=listing.source,
        files=figures.files,
        bytes=figures.size,
        total=format_bytes(figures.size) if figures.size is not None else "",
        warm_paths=figures.part,
        pages_request=pages_request(dataset),
        wanted_bytes=figures.wanted,
        cached_bytes=figures.cached,
        cached=figures.cached_words(),
        cached_percent=f"{figures.percent}%" if figures.percent is not None else "",
        warm_nodes=f"{figures.warm}/{figures.desired}" + (f" (+{figures.more})" if figures.more else ""),
        forecast=left,
        warm_by=None if plan.due is None else format_time(plan.due),
        share_of_nodes=plan.placement.share,
        bytes_per_second=figures.speed,
        speed=f"{format_bytes(figures.speed)}/s" if figures.speed else "",
        eta=format_duration(figures.eta) if figures.eta else "",
        skipped=figures.skipped,
        node_counts=node_counts(plan, states),
        nodes=node_rows(plan, states),
    )


def invalid_status(invalid: InvalidDataset, now: float) -> DatasetStatus:
    """Return the status of an invalid or refused Dataset: the old status with Accepted=False."""
    old, generation = invalid.status, invalid.metadata.generation
    conditions = ConditionSet(old.conditions, generation, now)
    conditions.set(ConditionType.ACCEPTED, False, invalid.reason, invalid.sentence)
    rest = tuple(c for c in old.conditions if c.type not in (ConditionType.ACCEPTED, ConditionType.READY))
    conditions.set(ConditionType.READY, False, invalid.reason, invalid.sentence)
    phase = Phase.PENDING if invalid.reason in _OTHERS_TROUBLE else Phase.FAILED
    update = {"phase": phase, "conditions": conditions.result() + rest, "observed_generation": generation}
    return old.model_copy(update=update)


def troubled_status(old: DatasetStatus, generation: int, sentence: str, now: float) -> DatasetStatus:
    """Return the status of a Dataset whose new status failed: the old status with the reason."""
    conditions = ConditionSet(old.conditions, generation, now)
    conditions.set(ConditionType.RECONCILED, False, Reason.WRITE_FAILED, sentence)
    rest = tuple(c for c in old.conditions if c.type != ConditionType.RECONCILED)
    update = {"phase": old.phase or Phase.PENDING, "conditions": rest + conditions.result()}
    return old.model_copy(update=update)


def _conditions(
    facts: DatasetFacts, notes: StatusNotes, left: WarmForecast | None, now: float
) -> tuple[Condition, ...]:
    dataset = facts.plan.dataset
    out = ConditionSet(dataset.status.conditions, dataset.metadata.generation, now)
    accepted = f"the spec is valid; {notes.accepted}" if notes.accepted else "the spec is valid"
    out.set(ConditionType.ACCEPTED, True, Reason.ACCEPTED, accepted)
    out.set(ConditionType.LISTED, *facts.listed)
    out.set(ConditionType.WARM, *facts.warm)
    out.set(ConditionType.READY, *facts.ready)
    out.set(ConditionType.DEGRADED, *facts.degraded)
    if facts.deletion:
        reason = Reason.IN_USE if facts.deletion.blocked else Reason.CLEANING
        out.set(ConditionType.DELETION_BLOCKED, facts.deletion.blocked, reason, facts.deletion.message)
    _set_limited(out, dataset.status, facts.view.terms.get(dataset.key, NO_TERMS), facts.plan)
    set_paths_found(out, dataset.spec.warm, facts.figures)
    set_nodes_found(out, facts.view, dataset)
    set_moving(out, facts.view, facts.plan, facts.states, facts.figures)
    set_pages_warm(out, dataset, facts.figures.targets)
    set_memory_pinned(out, dataset, facts.states.of_dataset(dataset.metadata.uid))
    set_outlook(out, facts.view, facts.plan, facts.figures, left, now)
    _set_tuned(out, facts)
    _set_reconciled(out, dataset.status, notes.troubles)
    return out.result()


def _set_limited(out: ConditionSet, old: DatasetStatus, terms: ClassTerms, plan: DatasetPlan) -> None:
    """Set the condition Limited. Write that nothing is reduced only if a reduction was there before."""
    limits = (*terms.limits, plan.placement.share_limit) if plan.placement.share_limit else terms.limits
    if limits:
        sentence = "; ".join(limits)
        out.set(ConditionType.LIMITED, True, Reason.LIMITED_BY_CLASS, f"{sentence}. {_MORE}")
    elif find(old.conditions, ConditionType.LIMITED):
        out.set(ConditionType.LIMITED, False, Reason.WITHIN_CLASS, "no part of its spec is limited")


def _set_tuned(out: ConditionSet, facts: DatasetFacts) -> None:
    """Set the condition Tuned. Set nothing if the Dataset chooses nothing and there is no problem."""
    decision = facts.plan.tuning
    if decision.sentence:
        out.set(ConditionType.TUNED, False, decision.reason, decision.sentence)
    elif facts.plan.dataset.spec.tuning.asks and decision.told.enabled:
        out.set(ConditionType.TUNED, True, Reason.TUNED, "the plans of its nodes contain it")


def _set_reconciled(out: ConditionSet, old: DatasetStatus, troubles: Sequence[str]) -> None:
    """Set the condition Reconciled. Write success only if a failure was there before."""
    if troubles:
        out.set(ConditionType.RECONCILED, False, Reason.WRITE_FAILED, first_problems(troubles))
    elif find(old.conditions, ConditionType.RECONCILED):
        out.set(ConditionType.RECONCILED, True, Reason.RECONCILED, "the API server accepts all writes for it")


def _phase(facts: DatasetFacts) -> Phase:
    if facts.deletion:
        return Phase.TERMINATING
    if not facts.version:
        return _phase_unlisted(facts)
    if facts.figures.targets and all(has_failed(facts, node) for node in facts.figures.targets):
        return Phase.FAILED
    if facts.degraded[0]:
        return Phase.DEGRADED
    if facts.figures.all_done or not wants_warming(facts.plan) or not facts.figures.desired:
        return Phase.READY
    return Phase.WARMING


def _state(facts: DatasetFacts, phase: Phase) -> ShownState | None:
    """Return Full or Paused where the phase hides it: no more data comes, although some is missing."""
    warm, reason, _ = facts.warm
    if phase is Phase.READY and facts.figures.all_done and not warm and reason != Reason.PATH_NOT_FOUND:
        return ShownState.FULL
    waits = phase in (Phase.READY, Phase.WARMING) and facts.figures.desired and not facts.figures.all_done
    return ShownState.PAUSED if waits and facts.plan.dataset.spec.warm.paused else None


def _phase_unlisted(facts: DatasetFacts) -> Phase:
    if facts.plan.listing.blocked or not facts.plan.listing.node:
        return Phase.PENDING
    if facts.listing_error is None:
        return Phase.LISTING
    return Phase.DEGRADED if facts.listing_error.temporary else Phase.FAILED
