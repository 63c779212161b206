"""For jobs that wait in a queue, data goes to nodes with room for their workers."""

from typing import Any

import pytest

from stoker_api.jobs.trainingjob import TrainingJob
from stoker_operator.core.gating.gating import Gating
from stoker_operator.core.gating.releases import Outcome
from stoker_operator.core.kueue import kueue_objects as module
from stoker_operator.core.kueue.kueue_objects import MOST_EXPECTED, expected_pods, worker_of
from stoker_operator.mirror.gate_feed import GateFeed
from stoker_operator.mirror.state import ClusterState
from tests.unit.stoker_operator.clusters import cluster, dataset, held, holding, node
from tests.unit.stoker_operator.releases import NOW, decided_by, filled
from tests.unit.stoker_operator.training import training_job

KEY = "vision/imagenet"
ONE_CORE = {"containers": [{"name": "t", "image": "x", "resources": {"requests": {"cpu": "1"}}}]}


def queued(workers: int = 2, template: dict[str, Any] | None = None, **fields: Any) -> TrainingJob:
    status = {"phase": "Suspended"} | fields.pop("status", {})
    return training_job(workers=workers, template={"spec": template or ONE_CORE}, status=status, **fields)


def decided(gating: Gating, *jobs: TrainingJob) -> Outcome:
    for key, pod in expected_pods(jobs).items():
        gating.put_pod(key, pod)
    return decided_by(gating, NOW)


def test_data_is_wanted_on_as_many_nodes_as_its_workers_need() -> None:
    gating = filled(cluster(dataset(), holding("a"), *(node(name, slots=1) for name in "abcd")))
    asked = decided(gating, queued(3)).wanted.nodes[KEY]
    assert "a" in asked
    assert len(asked) == 3


def test_nodes_that_the_workers_may_not_run_on_are_left_out() -> None:
    template = ONE_CORE | {"nodeSelector": {"gpu": "a100"}}
    gating = filled(cluster(dataset(), node("a"), node("b", labels={"gpu": "a100"})))
    assert decided(gating, queued(2, template)).wanted.nodes == {KEY: frozenset({"b"})}


def test_pods_that_may_go_next_are_given_nodes_before_them() -> None:
    gating = filled(cluster(dataset(), node("a", slots=1), node("b", slots=1), held("p", created=5000.0)))
    assert decided(gating, queued(1)).wanted.nodes == {KEY: frozenset({"a", "b"})}
    alone = filled(cluster(dataset(), node("a", slots=1), held("p", created=5000.0)))
    assert decided(alone, queued(1)).wanted.nodes == {KEY: frozenset({"a"})}


def test_nobody_is_told_of_them_and_none_is_let_go() -> None:
    gating = filled(cluster(dataset(), node("a"), holding("a")))
    outcome = decided(gating, queued(2))
    assert (outcome.holds, outcome.releases, outcome.left) == ((), (), ())


def test_a_job_that_is_let_go_wants_nothing_more_in_this_way() -> None:
    gating = filled(cluster(dataset(), node("a")))
    decided(gating, queued(1))
    for key in expected_pods([queued(1)]):
        gating.put_pod(key, None)
    assert decided_by(gating, NOW).wanted.nodes == {}


def test_a_job_that_runs_or_that_a_person_suspended_expects_none() -> None:
    assert expected_pods([queued(status={"phase": "Running"}), queued(suspend=True)]) == {}


def test_the_workers_want_the_versions_that_their_job_settled_for() -> None:
    row = {"namespace": "vision", "name": "imagenet", "version": "e" * 64}
    gating = filled(cluster(dataset(), node("a")))
    outcome = decided(gating, queued(1, status={"datasets": [row]}))
    assert outcome.wanted.versions == {KEY: {"a": frozenset({"e" * 64})}}


def test_no_more_are_expected_than_the_bound(monkeypatch: Any) -> None:
    monkeypatch.setattr(module, "MOST_EXPECTED", 3)
    assert len(expected_pods([queued(1000)])) == 3
    assert MOST_EXPECTED == 1000


@pytest.mark.parametrize("template", [{"containers": [{"name": "t", "resources": 5}]}, ONE_CORE | {"nodeSelector": 7}])
def test_a_template_that_makes_no_sense_expects_none(template: dict[str, Any]) -> None:
    assert worker_of(queued(1, template)) is None


def test_the_mirror_tells_of_them_when_a_queue_takes_the_job_and_when_it_lets_go() -> None:
    state = ClusterState("stoker")
    feed, gating = GateFeed(state, lambda key, pod: pod), filled(cluster(dataset(), node("a")))
    state.datasets.put(KEY, dataset())
    for job, wanted in ((queued(1), {KEY: frozenset({"a"})}), (queued(1, status={"phase": "Running"}), {})):
        state.training_jobs.put(job.key, job)
        feed.drain(gating, NOW)
        assert decided_by(gating, NOW).wanted.nodes == wanted
