"""Tuning in the plans of nodes, and in the statuses of Datasets and TrainingJobs."""

from dataclasses import replace
from typing import Any

from stoker_api import names
from stoker_api.datasets.dataset import Dataset
from stoker_api.datasets.dataset_status import DatasetStatus
from stoker_api.jobs.trainingjob import TrainingJob
from stoker_api.meta import Condition
from stoker_api.names import ConditionType, Reason
from stoker_api.node_caches.nodecache import NodeCache
from stoker_api.profiles.tuning import NodeTuning
from stoker_operator.core.classes.tuning import ClusterTuning
from stoker_operator.core.fitting.warmth import WarmthIndex
from stoker_operator.core.incremental.dataset_decision import Decision
from stoker_operator.core.jobs.job_facts import gather
from stoker_operator.core.jobs.job_status import roll_up_job
from stoker_operator.core.plans.admission import AdmissionMemory
from stoker_operator.core.status.dataset_transitions import dataset_announcements
from stoker_operator.core.views.cluster import ClusterView, PodView
from stoker_operator.core.views.conditions import find
from tests.unit.stoker_operator.builders import (
    NOW,
    condition,
    decide_once,
    given,
    listed,
    make_cache,
    make_class,
    make_dataset,
    make_node,
    make_view,
    mount,
    report,
)
from tests.unit.stoker_operator.profiles import profile
from tests.unit.stoker_operator.training import training_job

CLUSTER = ClusterTuning(profiles={"fast": profile()})


def dataset(**fields: Any) -> Dataset:
    return listed(make_dataset(cache={"replicas": 2}, **fields))


def worker(job: str = "ddp", namespace: str = "vision") -> PodView:
    labels = {names.LABEL_TRAINING_JOB: job}
    return PodView(namespace, "w", node="a", phase="Running", labels=labels, volumes=("vision/imagenet",))


def caches(one: Dataset, namespace: str = "vision") -> tuple[NodeCache, NodeCache]:
    """Return two nodes that hold a Dataset. A worker has it mounted on the first."""
    row = (given(one), report(one))
    mounted = mount(one, "w") | {"podNamespace": namespace}
    return make_cache("a", row, mounts=(mounted,)), make_cache("b", row)


def view(one: Dataset, *jobs: TrainingJob, pod: PodView | None = None, cluster: ClusterTuning = CLUSTER) -> ClusterView:
    pod = pod or worker()
    seen = make_view(one, make_node("a"), make_node("b"), pod, *caches(one, pod.namespace))
    return replace(seen, training_jobs={job.key: job for job in jobs}, tuning=cluster)


def decided(seen: ClusterView) -> Decision:
    return decide_once(seen)


def told(seen: ClusterView) -> dict[str, NodeTuning]:
    """Return the tuning in each node's plan."""
    return {write.node.name: write.spec.datasets[0].tuning for write in decided(seen).nodes.writes}


def status(seen: ClusterView) -> DatasetStatus:
    return decided(seen).status("vision/imagenet", "", (), NOW)


def tuned(conditions: tuple[Condition, ...]) -> tuple[str, str] | None:
    found = find(conditions, ConditionType.TUNED)
    return None if found is None else (found.status, found.reason)


def test_a_dataset_that_says_nothing_has_the_built_in_rules_and_no_condition() -> None:
    seen = view(dataset())
    assert told(seen) == {"a": NodeTuning(), "b": NodeTuning()}
    assert tuned(status(seen).conditions) is None
    assert status(seen).tuning == NodeTuning()


def test_names_reach_all_nodes_of_a_dataset() -> None:
    seen = view(dataset(tuning={"profile": "fast", "level": "Basic"}))
    assert {node: (one.profile, one.level) for node, one in told(seen).items()} == {
        "a": ("fast", "Basic"),
        "b": ("fast", "Basic"),
    }
    assert tuned(status(seen).conditions) == ("True", Reason.TUNED)


def test_a_jobs_choice_counts_on_the_nodes_of_its_workers() -> None:
    seen = view(dataset(), training_job(tuning={"profile": "fast"}))
    assert {node: one.profile for node, one in told(seen).items()} == {"a": "fast", "b": ""}


def test_a_job_that_says_nothing_leaves_the_datasets_choice() -> None:
    seen = view(dataset(tuning={"level": "Basic"}), training_job())
    assert {node: one.level for node, one in told(seen).items()} == {"a": "Basic", "b": "Basic"}


def test_a_job_of_another_namespace_moves_nothing() -> None:
    job = training_job(tuning={"profile": "fast"})
    other = job.model_copy(update={"metadata": job.metadata.model_copy(update={"namespace": "other"})})
    seen = view(dataset(access={"namespaces": ["other"]}), other, pod=worker(namespace="other"))
    assert {node: one.profile for node, one in told(seen).items() if one.profile} == {}


def with_class(one: Dataset, **limits: Any) -> ClusterView:
    """Return the view of a Dataset after its class applies."""
    found = make_class(default=True, tuning=limits)
    admitted = AdmissionMemory().admit_all({one.key: one}, {"tenants": found})
    seen = view(admitted.datasets[one.key], training_job(tuning={"level": "Maximum", "profile": "fast"}))
    return replace(seen, terms=admitted.terms)


def test_a_class_limits_datasets_and_jobs() -> None:
    seen = with_class(dataset(tuning={"level": "Maximum"}), maxLevel="Balanced", profiles=["team-*"])
    assert {(one.level, one.most_level, one.profile) for one in told(seen).values()} == {("Balanced", "Balanced", "")}
    limited = condition(status(seen), ConditionType.LIMITED)
    assert (
        "tuning.level Maximum is changed to Balanced: DatasetClass tenants allows Balanced at most" in limited.message
    )


def test_a_class_without_tuning_turns_it_off_for_jobs_too() -> None:
    assert {one.enabled for one in told(with_class(dataset(), allowed=False)).values()} == {False}


def test_the_cluster_is_turned_off() -> None:
    seen = view(dataset(), training_job(tuning={"profile": "fast"}), cluster=ClusterTuning(enabled=False))
    assert {one.enabled for one in told(seen).values()} == {False}


def test_an_unknown_profile_is_told_and_stops_nothing() -> None:
    now = status(view(dataset(tuning={"profile": "nix"})))
    assert tuned(now.conditions) == ("False", Reason.PROFILE_NOT_FOUND)
    ready = condition(now, ConditionType.READY)
    assert ready.status == "True"
    assert [one.reason for one in dataset_announcements(dataset().status, now)].count(Reason.PROFILE_NOT_FOUND) == 1


def test_that_a_profile_is_there_again_is_told() -> None:
    one = dataset(tuning={"profile": "fast"})
    before = status(view(one, cluster=ClusterTuning()))
    after = status(view(one.model_copy(update={"status": before})))
    assert [told.type for told in dataset_announcements(before, after) if told.reason == Reason.TUNED] == ["Normal"]


def test_a_job_says_whether_its_choice_counts() -> None:
    job = training_job(tuning={"profile": "nix"})
    facts = gather(job, view(dataset(), job), [], WarmthIndex({}), None)
    assert tuned(roll_up_job(job, facts, NOW).conditions) == ("False", Reason.PROFILE_NOT_FOUND)
