"""Tuning of a Dataset: its own choice, the override of a TrainingJob, and problems of either."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from fnmatch import fnmatchcase

from stoker_api.datasets.dataset import Dataset
from stoker_api.jobs.trainingjob import TrainingJob
from stoker_api.names import Reason
from stoker_api.profiles.tuning import NodeTuning, Tuning, TuningLimits
from stoker_operator.core.classes.dataset_classes import allowed_by
from stoker_operator.core.classes.profiles import ProfileView, builtin_templates
from stoker_tuning.vocabulary import OptimizationLevel

_LEVELS = tuple(OptimizationLevel)  # lowest first


@dataclass(frozen=True, slots=True)
class LimitedTuning:
    """A tuning choice with the class's limits applied, and messages about the reductions."""

    tuning: Tuning
    sentences: tuple[str, ...] = ()


def limit_tuning(tuning: Tuning, name: str, limits: TuningLimits) -> LimitedTuning:
    """Apply the limits of the class ``name`` to a choice."""
    if not limits.allowed:
        asks = tuning.asks or ("enabled" in tuning.model_fields_set and tuning.enabled)
        sentence = f"tuning is ignored: {allowed_by(name, 'none')}"
        return LimitedTuning(Tuning(enabled=False), (sentence,) if asks else ())
    changes: dict[str, object] = {}
    sentences = []
    if tuning.profile and limits.profiles is not None and not _named(tuning.profile, limits.profiles):
        # Drop the template too, because it belongs to that profile.
        changes |= {"profile": None, "template": None}
        allowed = allowed_by(name, ", ".join(limits.profiles) or "no profile to be named")
        sentences.append(f"tuning.profile {tuning.profile} is ignored: {allowed}")
    # Without a level, Datasets have Balanced. So a limit below it turns nothing off.
    most = max(limits.max_level, OptimizationLevel.BALANCED, key=_LEVELS.index) if limits.max_level else None
    if tuning.level and most and _LEVELS.index(tuning.level) > _LEVELS.index(most):
        changes["level"] = most
        allowed = allowed_by(name, f"{limits.max_level} at most")
        sentences.append(f"tuning.level {tuning.level} is changed to {most}: {allowed}")
    return LimitedTuning(tuning.model_copy(update=changes) if changes else tuning, tuple(sentences))


def _named(profile: str, patterns: tuple[str, ...]) -> bool:
    return any(fnmatchcase(profile, pattern) for pattern in patterns)


_MOST_NAMES = 10  # names in a message
_KEEPS = "nodes keep its last readable state, and new nodes use only the built-in rules"


@dataclass(frozen=True, slots=True)
class ClusterTuning:
    """The cluster's tuning: whether it is on, the default profile, and all profiles.

    ``environment``: for profiles that name none, and for the built-in rules.
    """

    enabled: bool = True
    default: str = ""
    environment: str = ""
    profiles: Mapping[str, ProfileView] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TuningDecision:
    """The tuning for nodes. If the choice is not in force, ``reason`` and ``sentence`` say why."""

    told: NodeTuning
    reason: Reason = Reason.TUNED
    sentence: str = ""


UNTUNED = TuningDecision(NodeTuning())  # without a choice: the built-in rules


def decide_tuning(tuning: Tuning, limits: TuningLimits, cluster: ClusterTuning) -> TuningDecision:
    """Return the tuning for nodes, from a choice that the class allows."""
    if not (cluster.enabled and tuning.enabled and limits.allowed):
        off = NodeTuning(enabled=False)
        if tuning.asks and tuning.enabled and not cluster.enabled:
            sentence = "an administrator has turned tuning off in this cluster (the chart's value tuning.enabled)"
            return TuningDecision(off, Reason.TUNING_OFF, sentence)
        return TuningDecision(off)
    name = tuning.profile or cluster.default
    told = NodeTuning(
        profile=name,
        template=tuning.template or "",
        environment=cluster.environment,
        level=tuning.level,
        most_level=limits.max_level,
    )
    return TuningDecision(told, *_problem(tuning, name, cluster))


def of_job(own: Tuning, job: Tuning) -> Tuning:
    """Return a Dataset's choice with a TrainingJob's overrides.

    A template belongs to its profile. A job that sets only the profile clears the template.
    """
    changes: dict[str, object] = {}
    if "enabled" in job.model_fields_set:
        changes["enabled"] = job.enabled
    if job.profile or job.template:
        changes |= {"profile": job.profile or own.profile, "template": job.template}
    if job.level:
        changes["level"] = job.level
    return own.model_copy(update=changes) if changes else own


def says_something(tuning: Tuning) -> bool:
    """Return True if a TrainingJob's choice changes anything."""
    return tuning.asks or "enabled" in tuning.model_fields_set


def first_job(jobs: Iterable[TrainingJob]) -> TrainingJob | None:
    """Return the job whose choice wins on one node of a Dataset: the oldest job with a choice."""
    asking = [job for job in jobs if says_something(job.spec.tuning)]
    return min(asking, key=lambda job: (job.metadata.creation_timestamp or "", job.key), default=None)


def job_verdict(
    training: TrainingJob,
    datasets: Mapping[str, Dataset],
    limits: Mapping[str, tuple[str, TuningLimits]],
    cluster: ClusterTuning,
) -> tuple[bool, Reason, str] | None:
    """Return the condition Tuned of a TrainingJob, or None if it chooses nothing.

    ``limits``: the class's name and tuning limits of each Dataset, by key.
    """
    tuning = training.spec.tuning
    if not tuning.asks:
        return None
    namespace = training.metadata.namespace
    for asked in training.spec.datasets:
        home = asked.namespace or namespace
        if home != namespace:
            sentence = (
                f"not for Dataset {home}/{asked.name}: it belongs to another namespace, whose owner decides; leave "
                "spec.tuning out, or ask its owner"
            )
            return False, Reason.NOT_ALLOWED_BY_CLASS, sentence
        dataset = datasets.get(f"{home}/{asked.name}")
        name, allowed = limits.get(f"{home}/{asked.name}", ("", TuningLimits()))
        cut = limit_tuning(tuning, name, allowed)
        if cut.sentences:
            return False, Reason.LIMITED_BY_CLASS, "; ".join(cut.sentences)
        own = dataset.spec.tuning if dataset is not None else Tuning()
        decision = decide_tuning(of_job(own, cut.tuning), allowed, cluster)
        if decision.sentence:
            return False, decision.reason, decision.sentence
    return True, Reason.TUNED, "it applies on the nodes of its workers and overrides their Datasets"


def _problem(tuning: Tuning, name: str, cluster: ClusterTuning) -> tuple[Reason, str]:
    found = cluster.profiles.get(name)
    own: frozenset[str] = frozenset()
    if name and found is None:
        whose = f"TuningProfile {name}" if tuning.profile else f"the cluster's default TuningProfile, {name},"
        there = f"there are: {_some(cluster.profiles)}"
        hint = f"name another one in spec.tuning.profile, or none; {there}" if tuning.profile else there
        return Reason.PROFILE_NOT_FOUND, f"{whose} does not exist, so only the built-in rules apply: {hint}"
    if found is not None:
        if found.reading.problem:
            sentence = f"TuningProfile {name} is invalid, and an administrator must correct it; {_KEEPS}"
            return Reason.PROFILE_INVALID, sentence
        own = found.reading.templates
    if tuning.template and tuning.template not in own | builtin_templates():
        known = sorted(own | builtin_templates())
        near = get_close_matches(tuning.template, known, n=1)
        meant = f"did you mean {near[0]}? " if near else ""
        where = f"neither in TuningProfile {name} nor built in" if name else "not built in, and no profile has it"
        sentence = f"template {tuning.template} is {where}, so it is ignored: {meant}There are: {_some(known)}"
        return Reason.TEMPLATE_NOT_FOUND, sentence
    return Reason.TUNED, ""


def _some(known: Iterable[str]) -> str:
    names = sorted(known)
    more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
    return (", ".join(names[:_MOST_NAMES]) or "none") + more
