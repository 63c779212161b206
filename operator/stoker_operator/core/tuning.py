"""What applies of tuning to a Dataset: what it chooses, what a TrainingJob puts in its place, and what is wrong."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches

from stoker_api.dataset import Dataset
from stoker_api.names import Reason
from stoker_api.trainingjob import TrainingJob
from stoker_api.tuning import NodeTuning, Tuning, TuningLimits
from stoker_operator.core.profiles import ProfileView, builtin_templates
from stoker_operator.core.tuning_limits import limit_tuning

_MOST_NAMES = 10  # that a sentence tells
_KEEPS = "nodes keep the last state of it that they could read, others have the built-in rules alone"


@dataclass(frozen=True, slots=True)
class ClusterTuning:
    """What the cluster has: whether anything is tuned, the profile of Datasets that name none, and all profiles.

    ``environment``: of all profiles that name none, and of the built-in rules.
    """

    enabled: bool = True
    default: str = ""
    environment: str = ""
    profiles: Mapping[str, ProfileView] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TuningDecision:
    """What nodes are told, and why it is not in force as it was chosen: a reason and a sentence, empty where it is."""

    told: NodeTuning
    reason: Reason = Reason.TUNED
    sentence: str = ""


UNTUNED = TuningDecision(NodeTuning())  # what applies where nothing is chosen: the built-in rules


def decide_tuning(tuning: Tuning, limits: TuningLimits, cluster: ClusterTuning) -> TuningDecision:
    """Return what nodes are told of a choice that its class allows."""
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
    """Return a Dataset's choice with that of a TrainingJob in its place, where the job says something.

    A template belongs to its profile: who names one of them names both.
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
    """Tell whether a TrainingJob's choice changes anything."""
    return tuning.asks or "enabled" in tuning.model_fields_set


def first_job(jobs: Iterable[TrainingJob]) -> TrainingJob | None:
    """Return the job whose choice counts, of those that use one Dataset on one node: the oldest that has one."""
    asking = [job for job in jobs if says_something(job.spec.tuning)]
    return min(asking, key=lambda job: (job.metadata.creation_timestamp or "", job.key), default=None)


def job_verdict(
    training: TrainingJob,
    datasets: Mapping[str, Dataset],
    limits: Mapping[str, tuple[str, TuningLimits]],
    cluster: ClusterTuning,
) -> tuple[bool, Reason, str] | None:
    """Return what a TrainingJob's condition Tuned says; None where it asks for nothing.

    ``limits``: the class of each Dataset, by key, and what it allows.
    """
    tuning = training.spec.tuning
    if not tuning.asks:
        return None
    namespace = training.metadata.namespace
    for asked in training.spec.datasets:
        home = asked.namespace or namespace
        if home != namespace:
            sentence = (
                f"not for Dataset {home}/{asked.name}: it is of another namespace, whose own choice counts; leave "
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
    return True, Reason.TUNED, "it counts on the nodes of its workers, before what its Datasets say"


def _problem(tuning: Tuning, name: str, cluster: ClusterTuning) -> tuple[Reason, str]:
    found = cluster.profiles.get(name)
    own: frozenset[str] = frozenset()
    if name and found is None:
        whose = f"TuningProfile {name}" if tuning.profile else f"the cluster's default TuningProfile, {name},"
        there = f"there are: {_some(cluster.profiles)}"
        hint = f"name another one in spec.tuning.profile, or none; {there}" if tuning.profile else there
        return Reason.PROFILE_NOT_FOUND, f"{whose} does not exist, so the built-in rules alone apply: {hint}"
    if found is not None:
        if found.reading.problem:
            sentence = f"TuningProfile {name} cannot be read, an administrator has to mend it; {_KEEPS}"
            return Reason.PROFILE_INVALID, sentence
        own = found.reading.templates
    if tuning.template and tuning.template not in own | builtin_templates():
        known = sorted(own | builtin_templates())
        near = get_close_matches(tuning.template, known, n=1)
        meant = f"did you mean {near[0]}? " if near else ""
        where = f"neither in TuningProfile {name} nor built in" if name else "not built in, and no profile has it"
        sentence = f"template {tuning.template} is {where}, so it is left out: {meant}There are: {_some(known)}"
        return Reason.TEMPLATE_NOT_FOUND, sentence
    return Reason.TUNED, ""


def _some(known: Iterable[str]) -> str:
    names = sorted(known)
    more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
    return (", ".join(names[:_MOST_NAMES]) or "none") + more
