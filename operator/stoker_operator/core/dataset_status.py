"""NodeCache reports -> the status of a Dataset: conditions, phase, columns."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from stoker_api.dataset import WarmPolicy
from stoker_api.dataset_status import DatasetStatus, Phase, SkippedKeys, WarmForecast
from stoker_api.meta import Condition, format_bytes, format_duration
from stoker_api.names import ConditionType, Reason
from stoker_api.node_selection import UnsatisfiableConstraintAction
from stoker_api.nodecache import NodeError, NodePhase
from stoker_api.times import format_time
from stoker_operator.core.class_limits import NO_TERMS, ClassTerms
from stoker_operator.core.conditions import ConditionSet, find
from stoker_operator.core.deletion import Deletion
from stoker_operator.core.figures import Figures, add_up, node_counts, node_rows
from stoker_operator.core.int64 import clamp
from stoker_operator.core.moving import set_moving
from stoker_operator.core.node_roles import Role
from stoker_operator.core.node_states import NodeStates
from stoker_operator.core.paths_found import outdated_nodes, outdated_sentence, set_paths_found, unmatched_sentence
from stoker_operator.core.plan import DatasetPlan, pages_request, wants_warming
from stoker_operator.core.views import ClusterView, InvalidDataset
from stoker_operator.core.warm_conditions import set_memory_pinned, set_nodes_found, set_pages_warm
from stoker_operator.core.warm_nodes import selecting
from stoker_operator.core.warm_outlook import forecast_of, set_outlook

PROBLEMS_NAMED = 3  # problems that the Degraded message spells out before it only counts
_MOST_VERSIONS = 50  # in status.versionsInUse
_SHORT = 12  # characters of a digest in columns
_UNWANTED = frozenset({Role.IDLE, Role.LEAVING})  # roles of which errors matter to nobody
_QUOTA_REASONS = frozenset({Reason.QUOTA_EXCEEDED, Reason.QUOTA_TOO_SMALL, Reason.DISK_FULL})

# What its owner may do nothing about: it waits.
_OTHERS_TROUBLE = frozenset({Reason.CLASS_NOT_FOUND, Reason.CLASS_INVALID, Reason.INTERNAL_ERROR})
_MORE = "Write what is allowed, or ask an administrator for a class that allows more (spec.className)"

Verdict = tuple[bool, Reason | str, str]  # status, reason, message


@dataclass(frozen=True, slots=True)
class StatusNotes:
    """What the operator itself has to say: ``accepted`` goes with that condition, ``troubles`` could not be written."""

    accepted: str = ""
    troubles: tuple[str, ...] = ()


def roll_up_dataset(
    view: ClusterView, plan: DatasetPlan, states: NodeStates, deletion: Deletion | None, notes: StatusNotes, now: float
) -> DatasetStatus:
    """Return the status that the Dataset should have."""
    facts = _Facts(view, plan, states, add_up(plan, states), deletion)
    dataset, listing, figures = plan.dataset, plan.listing, facts.figures
    left = forecast_of(view, plan, figures)
    terms = view.terms.get(dataset.key, NO_TERMS)
    answered = format_time(listing.answered_at, "milliseconds") if listing.answered_at else dataset.status.listed_at
    return DatasetStatus(
        phase=_phase(facts),
        class_name=terms.name,
        charged_bytes=clamp(plan.placement.charged),
        namespace_quota_bytes=terms.namespace_quota,
        node_quota_bytes=terms.node_quota,
        tuning=plan.tuning.told,
        observed_generation=dataset.metadata.generation,
        conditions=_conditions(facts, notes, left, now),
        version=listing.version,
        version_short=listing.version[:_SHORT],
        versions_in_use=tuple(sorted(plan.live))[:_MOST_VERSIONS],
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
        cached=format_bytes(figures.cached) if figures.size_each is not None else "",
        cached_percent=f"{figures.percent}%" if figures.percent is not None else "",
        warm_nodes=f"{figures.done}/{figures.desired}",
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
    """Return the status of a Dataset that does not parse or is refused: what it was, with Accepted=False."""
    old, generation = invalid.status, invalid.metadata.generation
    conditions = ConditionSet(old.conditions, generation, now)
    conditions.set(ConditionType.ACCEPTED, False, invalid.reason, invalid.sentence)
    rest = tuple(c for c in old.conditions if c.type not in (ConditionType.ACCEPTED, ConditionType.READY))
    conditions.set(ConditionType.READY, False, invalid.reason, invalid.sentence)
    phase = Phase.PENDING if invalid.reason in _OTHERS_TROUBLE else Phase.FAILED
    update = {"phase": phase, "conditions": conditions.result() + rest, "observed_generation": generation}
    return old.model_copy(update=update)


def troubled_status(old: DatasetStatus, generation: int, sentence: str, now: float) -> DatasetStatus:
    """Return the status of a Dataset whose own cannot be worked out, or is not taken: what it was, and why."""
    conditions = ConditionSet(old.conditions, generation, now)
    conditions.set(ConditionType.RECONCILED, False, Reason.WRITE_FAILED, sentence)
    rest = tuple(c for c in old.conditions if c.type != ConditionType.RECONCILED)
    update = {"phase": old.phase or Phase.PENDING, "conditions": rest + conditions.result()}
    return old.model_copy(update=update)


@dataclass(frozen=True)
class _Facts:
    """What the verdicts below are taken from."""

    view: ClusterView
    plan: DatasetPlan
    states: NodeStates
    figures: Figures
    deletion: Deletion | None

    @property
    def version(self) -> str:
        return self.plan.listing.version

    @property
    def on_demand(self) -> bool:
        """True when readable is as good as it is meant to be: nothing has to be warm for Ready."""
        return self.plan.dataset.spec.warm.policy is not WarmPolicy.EAGER

    @cached_property
    def listing_error(self) -> NodeError | None:
        result = self.plan.listing.result
        if result:
            return result.error
        report = self.states.get(self.plan.dataset.metadata.uid, self.plan.listing.node).reported
        return report.error if report and not self.version else None

    @cached_property
    def listed(self) -> Verdict:
        return _listed(self)

    @cached_property
    def warm(self) -> Verdict:
        return _warm(self)

    @cached_property
    def ready(self) -> Verdict:
        return _ready(self)

    @cached_property
    def degraded(self) -> Verdict:
        return _degraded(self)


def _conditions(facts: _Facts, notes: StatusNotes, left: WarmForecast | None, now: float) -> tuple[Condition, ...]:
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
    """Say what it is given less of than it asks for; that it is given all only where it was not before."""
    limits = (*terms.limits, plan.placement.share_limit) if plan.placement.share_limit else terms.limits
    if limits:
        sentence = "; ".join(limits)
        out.set(ConditionType.LIMITED, True, Reason.LIMITED_BY_CLASS, f"{sentence}. {_MORE}")
    elif find(old.conditions, ConditionType.LIMITED):
        out.set(ConditionType.LIMITED, False, Reason.WITHIN_CLASS, "it is given all that it asks for")


def _set_tuned(out: ConditionSet, facts: _Facts) -> None:
    """Say whether what it has of tuning is in force; nothing where it asks for nothing and all is well."""
    decision = facts.plan.tuning
    if decision.sentence:
        out.set(ConditionType.TUNED, False, decision.reason, decision.sentence)
    elif facts.plan.dataset.spec.tuning.asks and decision.told.enabled:
        out.set(ConditionType.TUNED, True, Reason.TUNED, "the nodes that hold it are told of it")


def _set_reconciled(out: ConditionSet, old: DatasetStatus, troubles: Sequence[str]) -> None:
    """Say what could not be written; that all is well only where it was not before."""
    if troubles:
        out.set(ConditionType.RECONCILED, False, Reason.WRITE_FAILED, _listed_first(troubles))
    elif find(old.conditions, ConditionType.RECONCILED):
        out.set(ConditionType.RECONCILED, True, Reason.RECONCILED, "all that the operator writes for it is taken")


def _listed_first(sentences: Sequence[str]) -> str:
    more = f"; and {len(sentences) - PROBLEMS_NAMED} more problems" if len(sentences) > PROBLEMS_NAMED else ""
    return "; ".join(sentences[:PROBLEMS_NAMED]) + more


def _phase(facts: _Facts) -> Phase:
    if facts.deletion:
        return Phase.TERMINATING
    if not facts.version:
        return _phase_unlisted(facts)
    if facts.figures.targets and all(_failed(facts, node) for node in facts.figures.targets):
        return Phase.FAILED
    if facts.degraded[0]:
        return Phase.DEGRADED
    if facts.figures.all_done or not wants_warming(facts.plan) or not facts.figures.desired:
        return Phase.READY
    return Phase.WARMING


def _phase_unlisted(facts: _Facts) -> Phase:
    if facts.plan.listing.blocked or not facts.plan.listing.node:
        return Phase.PENDING
    if facts.listing_error is None:
        return Phase.LISTING
    return Phase.DEGRADED if facts.listing_error.temporary else Phase.FAILED


def _failed(facts: _Facts, node: str) -> bool:
    """Tell whether the node has given up; with a temporary error it goes on trying."""
    report = facts.figures.targets[node].reported
    if report is None or report.phase is not NodePhase.FAILED:
        return False
    # Of a list that was named before: the node has not looked at the one that is named now.
    of_another = report.observed_generation < facts.plan.dataset.metadata.generation
    if of_another and report.error is not None and report.error.reason == Reason.WARM_LIST_INVALID:
        return False
    return report.error is None or not report.error.temporary


def _listed(facts: _Facts) -> Verdict:
    listing, figures, error = facts.plan.listing, facts.figures, facts.listing_error
    uri = facts.plan.dataset.spec.source.uri
    if not facts.version:
        if error:
            again = "; trying again" if error.temporary else ""
            return False, error.reason, f"{error.message}{again}"
        if listing.blocked or not listing.node:
            return False, Reason.NO_NODES, f"{_no_nodes(facts)}; one has to list {uri}"
        return False, Reason.LISTING, f"{listing.node} is listing {uri}"
    text = f"{figures.files or 0:,} files, {format_bytes(figures.size or 0)}{skipped_sentence(figures.skipped)}"
    if error:
        text += f"; the last listing failed, so version {facts.version[:_SHORT]} stays: {error.message}"
    elif not listing.answered_at:
        text += f"; {listing.node} is listing it again"
    return True, Reason.LISTED, text


def skipped_sentence(skipped: tuple[SkippedKeys, ...]) -> str:
    """Write ``; 3 keys cannot be files: 2 EmptyName (such as "a//b"), 1 TooLong (such as ...)``, or nothing."""
    if not skipped:
        return ""
    parts = [f"{row.count:,} {row.reason}" + (f' (such as "{row.example}")' if row.example else "") for row in skipped]
    return f"; {sum(row.count for row in skipped):,} keys cannot be files and are left out: {', '.join(parts)}"


def _no_nodes(facts: _Facts) -> str:
    cache = facts.plan.dataset.spec.cache
    labels = ", ".join(f"{key}={value}" for key, value in sorted(cache.node_selector.items()))
    if cache.match_expressions or cache.tolerations is not None:
        return f"no ready node with a running sidecar {selecting(facts.plan.dataset)}"
    where = f" matches cache.nodeSelector {labels}" if labels else " exists"
    return f"no ready node with a running sidecar{where}"


def _warm(facts: _Facts) -> Verdict:
    figures, spec = facts.figures, facts.plan.dataset.spec
    if not facts.version:
        return False, facts.listed[1], "nothing can be fetched before the source is listed"
    if not figures.desired and spec.cache.replicas != 0 and not spec.warm.nodes and facts.deletion is None:
        return False, Reason.NO_NODES, _no_nodes(facts)  # of all nodes, or of a share of them
    if not figures.desired:
        return False, Reason.ON_DEMAND, "no node has to hold it: bytes come when pods read them"
    if facts.plan.placement.over_quota and len(figures.targets) < figures.desired:
        return False, Reason.NAMESPACE_QUOTA_EXCEEDED, facts.plan.placement.over_quota
    if not figures.targets:
        return False, Reason.NO_NODES, _no_nodes(facts)
    if figures.all_done and figures.part is not None and figures.part.unmatched and not figures.part.files:
        return False, Reason.PATH_NOT_FOUND, unmatched_sentence(spec.warm, figures.part)
    if figures.all_done:
        return _limited(facts) or (True, Reason.WARM, f"{figures.progress()}")
    if len(figures.targets) == figures.done:
        return False, Reason.NOT_ENOUGH_NODES, _too_few(facts)
    if not wants_warming(facts.plan):
        reason = Reason.MANUAL if spec.warm.policy is WarmPolicy.MANUAL else Reason.ON_DEMAND
        waits = "`stoker warm`" if reason is Reason.MANUAL else "the first pod"
        return False, reason, f"waits for {waits}: {figures.progress()}"
    reason = Reason.PAUSED if spec.warm.paused else Reason.WARMING
    return False, reason, figures.progress()


def _limited(facts: _Facts) -> Verdict | None:
    """Return the verdict when nodes are done without having all of it."""
    full = str(NodePhase.FULL)
    if all(group.summary.phase != full for group in facts.states.groups(facts.plan.dataset.metadata.uid)):
        return None
    for name, state in facts.figures.targets.items():
        report = state.reported if state.summary.phase == full else None
        if report is not None:
            known = report.error if report.error and report.error.reason in _QUOTA_REASONS else None
            here = report.warm_paths or report
            share = f"{format_bytes(here.warm_bytes)} of {format_bytes(here.bytes)} fit"
            message = known.message if known else f"{share} on {name}; the rest is read through"
            return False, known.reason if known else Reason.QUOTA_EXCEEDED, message
    return None


def _too_few(facts: _Facts) -> str:
    have, want = len(facts.figures.targets), facts.figures.desired
    eligible, spread = facts.plan.placement.eligible, facts.plan.dataset.spec.cache.topology_spread
    strict = UnsatisfiableConstraintAction.DO_NOT_SCHEDULE
    if spread is not None and spread.when_unsatisfiable is strict and eligible > have:
        key = spread.topology_key
        return (
            f"{have} of {want} nodes hold it: cache.topologySpread leaves no other node, with a skew of "
            f"{spread.max_skew} over {key}: add nodes where it has fewest replicas, or let it ScheduleAnyway"
        )
    return f"{have} of {want} nodes hold it: only {eligible} ready nodes {selecting(facts.plan.dataset)}"


def _ready(facts: _Facts) -> Verdict:
    if facts.deletion:
        return False, Reason.CLEANING, "it is being deleted"
    if not facts.version:
        return False, facts.listed[1], facts.listed[2]
    if facts.on_demand or not facts.figures.desired:
        manual = facts.plan.dataset.spec.warm.policy is WarmPolicy.MANUAL
        return True, Reason.MANUAL if manual else Reason.ON_DEMAND, f"pods can read it; {facts.warm[2]}"
    if facts.figures.all_done:
        return True, Reason.READY, facts.warm[2]
    return False, facts.warm[1], facts.warm[2]


def _degraded(facts: _Facts) -> Verdict:
    problems = list(_problems(facts))
    if not problems:
        return False, Reason.HEALTHY, "no problem is known"
    return True, problems[0][0], _listed_first([message for _, message in problems])


def _problems(facts: _Facts) -> Iterator[tuple[str, str]]:
    """Return each problem as (reason, sentence), the gravest kind first."""
    plan, figures = facts.plan, facts.figures
    if plan.placement.over_quota:
        yield Reason.NAMESPACE_QUOTA_EXCEEDED, plan.placement.over_quota
    for name, error in sorted(facts.states.errors(plan.dataset.metadata.uid).items()):
        if plan.placement.roles.get(name, Role.IDLE) in _UNWANTED or error.reason == Reason.QUOTA_EXCEEDED:
            continue
        if name not in plan.placement.starved or error.reason not in _QUOTA_REASONS:
            yield error.reason, f"{name}: {error.message}"
    for name in outdated_nodes(plan.dataset.spec.warm, figures):
        yield Reason.SIDECAR_OUTDATED, outdated_sentence(name)
    for name in sorted(name for name in facts.view.not_ready() if name in figures.targets):
        yield Reason.NODE_NOT_READY, f"{name} is not ready"
    if facts.listing_error and (facts.version or facts.listing_error.temporary):
        yield facts.listing_error.reason, f"listing fails: {facts.listing_error.message}"
    if plan.placement.over_quota:
        return
    if facts.version and 0 < len(figures.targets) < figures.desired:
        yield Reason.NOT_ENOUGH_NODES, _too_few(facts)
    if facts.version and figures.desired and not figures.targets:
        yield Reason.NO_NODES, _no_nodes(facts)
