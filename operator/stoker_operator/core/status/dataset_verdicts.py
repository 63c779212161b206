"""The verdicts about a Dataset: listed, warm, ready and degraded, each as a status, a reason and a sentence."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from stoker_api.datasets.dataset import WarmPolicy
from stoker_api.datasets.dataset_status import (
    skipped_sentence,
    unreadable_sentence,
)
from stoker_api.datasets.node_selection import UnsatisfiableConstraintAction
from stoker_api.meta import format_bytes
from stoker_api.names import Reason
from stoker_api.node_caches.node_dataset_status import NodeError, NodePhase
from stoker_operator.core.placement.node_roles import Role
from stoker_operator.core.placement.node_rules import selecting
from stoker_operator.core.plans.deletion import Deletion
from stoker_operator.core.plans.plan import DatasetPlan, wants_warming
from stoker_operator.core.status.failing_reads import failing_reads
from stoker_operator.core.status.figures import Figures
from stoker_operator.core.status.warm_conditions import (
    outdated_nodes,
    outdated_sentence,
    unmatched_sentence,
)
from stoker_operator.core.views.cluster import ClusterView
from stoker_operator.core.views.node_states import NodeStates

PROBLEMS_NAMED = 3  # problems in the Degraded message; the rest is only counted
SHORT_DIGEST = 12  # characters of a digest in columns
_LISTING_FAILS = "listing fails"
_UNWANTED = frozenset({Role.IDLE, Role.LEAVING})  # roles whose errors do not matter
_QUOTA_REASONS = frozenset({Reason.QUOTA_EXCEEDED, Reason.QUOTA_TOO_SMALL, Reason.DISK_FULL})
_INCOMPLETE_REASONS = _QUOTA_REASONS | {Reason.UNREADABLE_OBJECTS}  # of nodes that are done without all data

Verdict = tuple[bool, Reason | str, str]  # status, reason, message


@dataclass(frozen=True)
class DatasetFacts:
    """The inputs of the verdicts, and each verdict, made once."""

    view: ClusterView
    plan: DatasetPlan
    states: NodeStates
    figures: Figures
    deletion: Deletion | None

    @property
    def version(self) -> str:
        """The digest of the current version; empty before the first listing."""
        return self.plan.listing.version

    @property
    def on_demand(self) -> bool:
        """True if Ready needs only readable data, not warm data."""
        return self.plan.dataset.spec.warm.policy is not WarmPolicy.EAGER

    @cached_property
    def listing_error(self) -> NodeError | None:
        """The error of the last listing."""
        result = self.plan.listing.result
        if result:
            return result.error
        state = self.states.get(self.plan.dataset.metadata.uid, self.plan.listing.node)
        return state.summary.error if not self.version else None

    @cached_property
    def listed(self) -> Verdict:
        """The verdict of the condition Listed."""
        return _listed(self)

    @cached_property
    def warm(self) -> Verdict:
        """The verdict of the condition Warm."""
        return _warm(self)

    @cached_property
    def ready(self) -> Verdict:
        """The verdict of the condition Ready."""
        return _ready(self)

    @cached_property
    def degraded(self) -> Verdict:
        """The verdict of the condition Degraded."""
        return _degraded(self)


def first_problems(sentences: Sequence[str]) -> str:
    """Join the first PROBLEMS_NAMED sentences, and count the rest."""
    more = f"; and {len(sentences) - PROBLEMS_NAMED} more problems" if len(sentences) > PROBLEMS_NAMED else ""
    return "; ".join(sentences[:PROBLEMS_NAMED]) + more


def has_failed(facts: DatasetFacts, node: str) -> bool:
    """Return True if the node gave up. After a temporary error it retries."""
    report = facts.figures.targets[node].reported
    if report is None or report.phase is not NodePhase.FAILED:
        return False
    # The error is about an earlier list. The node has not read the current one.
    of_another = report.observed_generation < facts.plan.dataset.metadata.generation
    if of_another and report.error is not None and report.error.reason == Reason.WARM_LIST_INVALID:
        return False
    return report.error is None or not report.error.temporary


def _listed(facts: DatasetFacts) -> Verdict:
    listing, figures, error = facts.plan.listing, facts.figures, facts.listing_error
    uri = facts.plan.dataset.spec.source.uri
    if not facts.version:
        if error:
            again = "; trying again" if error.temporary else ""
            return False, error.reason, f"{error.message}{again}"
        if listing.blocked or not listing.node:
            return False, Reason.NO_NODES, f"{_no_nodes(facts)}; a node must list {uri}"
        return False, Reason.LISTING, f"{listing.node} is listing {uri}"
    text = f"{figures.files or 0:,} files, {format_bytes(figures.size or 0)}{skipped_sentence(figures.skipped)}"
    if error:
        text += f"; the last listing failed, so version {facts.version[:SHORT_DIGEST]} stays: {error.message}"
    elif not listing.answered_at:
        text += f"; {listing.node} is listing it again"
    return True, Reason.LISTED, text


def _no_nodes(facts: DatasetFacts) -> str:
    cache = facts.plan.dataset.spec.cache
    labels = ", ".join(f"{key}={value}" for key, value in sorted(cache.node_selector.items()))
    if cache.match_expressions or cache.tolerations is not None:
        return f"no ready node with a running sidecar {selecting(facts.plan.dataset)}"
    where = f" matches cache.nodeSelector {labels}" if labels else " exists"
    return f"no ready node with a running sidecar{where}"


def _warm(facts: DatasetFacts) -> Verdict:
    figures, spec = facts.figures, facts.plan.dataset.spec
    if not facts.version:
        return False, facts.listed[1], "nothing can be fetched before the source is listed"
    if not figures.desired and spec.cache.replicas != 0 and not spec.warm.nodes and facts.deletion is None:
        return False, Reason.NO_NODES, _no_nodes(facts)  # also for replicas "all" or a percentage
    if facts.plan.placement.over_quota and figures.done == len(figures.targets) and not figures.all_done:
        return False, Reason.NAMESPACE_QUOTA_EXCEEDED, facts.plan.placement.over_quota
    if not figures.desired:
        return False, Reason.ON_DEMAND, "no node must hold it: data is fetched when pods read it"
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


def _limited(facts: DatasetFacts) -> Verdict | None:
    """Return the verdict for nodes that are done without all data."""
    full = str(NodePhase.FULL)
    if all(group.summary.phase != full for group in facts.states.groups(facts.plan.dataset.metadata.uid)):
        return None
    for name, state in facts.figures.targets.items():
        report = state.reported if state.summary.phase == full else None
        if report is not None:
            known = report.error if report.error and report.error.reason in _INCOMPLETE_REASONS else None
            here = report.warm_paths or report
            share = f"{format_bytes(here.warm_bytes)} of {format_bytes(here.bytes)} fit"
            message = known.message if known else f"{share} on {name}; the rest is read through"
            return False, known.reason if known else Reason.QUOTA_EXCEEDED, message
    return None


def _too_few(facts: DatasetFacts) -> str:
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


def _ready(facts: DatasetFacts) -> Verdict:
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


def _degraded(facts: DatasetFacts) -> Verdict:
    # A node that lists the source has its listing's error too: say each thing once.
    problems = [one for one in _problems(facts) if not _repeats(facts, one[1])]
    if not problems:
        return False, Reason.HEALTHY, "no problem is known"
    return True, problems[0][0], first_problems([message for _, message in problems])


def _repeats(facts: DatasetFacts, message: str) -> bool:
    """Return True for a listing's problem that a node states as its own error."""
    if facts.listing_error is None or not message.startswith(_LISTING_FAILS):
        return False
    errors = facts.states.errors(facts.plan.dataset.metadata.uid).values()
    return any(error.message == facts.listing_error.message for error in errors)


def _problems(facts: DatasetFacts) -> Iterator[tuple[str, str]]:
    """Yield each problem as (reason, message), most severe first."""
    plan, figures = facts.plan, facts.figures
    if plan.placement.over_quota:
        yield Reason.NAMESPACE_QUOTA_EXCEEDED, plan.placement.over_quota
    for name, error in sorted(facts.states.errors(plan.dataset.metadata.uid).items()):
        reads = failing_reads(facts.states.get(plan.dataset.metadata.uid, name))
        if reads is not None:
            yield reads.reason, f"{name}: {reads.sentence('reads of pods')}"
        if reads is not None and error.reason == reads.reason:
            continue
        if plan.placement.roles.get(name, Role.IDLE) in _UNWANTED or error.reason == Reason.QUOTA_EXCEEDED:
            continue
        if name not in plan.placement.starved or error.reason not in _QUOTA_REASONS:
            yield error.reason, f"{name}: {error.message}"
    for name in outdated_nodes(plan.dataset.spec.warm, figures):
        yield Reason.SIDECAR_OUTDATED, outdated_sentence(name)
    for name in sorted(name for name in facts.view.not_ready() if name in figures.targets):
        yield Reason.NODE_NOT_READY, f"{name} is not ready"
    if facts.listing_error and (facts.version or facts.listing_error.temporary):
        yield facts.listing_error.reason, f"{_LISTING_FAILS}: {facts.listing_error.message}"
    if unlisted := unreadable_sentence(figures.skipped):
        yield Reason.UNREADABLE_OBJECTS, unlisted
    if plan.placement.over_quota:
        return
    if facts.version and 0 < len(figures.targets) < figures.desired:
        yield Reason.NOT_ENOUGH_NODES, _too_few(facts)
    if facts.version and figures.desired and not figures.targets:
        yield Reason.NO_NODES, _no_nodes(facts)
