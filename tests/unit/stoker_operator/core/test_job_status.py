"""The status of a TrainingJob from what its Job and pods show."""

from typing import Any

import pytest

from stoker_api.meta import Condition
from stoker_api.names import ConditionType, Reason
from stoker_api.times import parse_time
from stoker_api.trainingjob import JobPhase, TrainingJob, TrainingJobStatus
from stoker_operator.core.job_facts import JobFacts, PodsByJob, gather
from stoker_operator.core.job_status import expires_at, roll_up_job
from stoker_operator.core.job_transitions import job_announcements
from stoker_operator.core.pod_demand import Unmet
from stoker_operator.core.views import ClusterView, PodView
from stoker_operator.core.warmth import WarmthIndex
from tests.unit.stoker_operator.clusters import dataset, holding
from tests.unit.stoker_operator.training import ended, job_of, released, training_job, worker

NOW = 2000.0
TRAINING = training_job()
RUNNING = training_job(status={"phase": "Running"})
LAST = {"succeeded": ["pod-uid"]}  # terminated, and not counted yet
MISSING = Unmet(Reason.DATASET_NOT_FOUND, "Dataset vision/imagenet does not exist")


def facts(*pods: PodView, problem: Unmet | None = None, **status: Any) -> JobFacts:
    return JobFacts(job_of(TRAINING, **status), pods, problem=problem)


def condition(status: TrainingJobStatus, kind: ConditionType) -> Condition:
    return next(one for one in status.conditions if one.type == kind)


@pytest.mark.parametrize(
    ("training", "what", "phase"),
    [
        (TRAINING, JobFacts(None), JobPhase.PENDING),
        (TRAINING, JobFacts(None, problem=MISSING), JobPhase.WAITING_FOR_DATA),
        (TRAINING, JobFacts(None, problem=Unmet(Reason.NAME_TAKEN, "x")), JobPhase.PENDING),
        (TRAINING, facts(), JobPhase.PENDING),
        (TRAINING, facts(worker(0), worker(1), active=2), JobPhase.WAITING_FOR_DATA),
        (TRAINING, facts(released(0), released(1), active=2), JobPhase.STARTING),
        (TRAINING, facts(released(0), released(1), active=2, ready=2), JobPhase.RUNNING),
        (TRAINING, facts(released(0), released(1), active=1, ready=1, succeeded=1), JobPhase.RUNNING),
        (TRAINING, facts(released(0), worker(1), active=2, ready=1), JobPhase.STARTING),
        (RUNNING, facts(released(0), worker(1), active=2, ready=1), JobPhase.RUNNING),
        (RUNNING, facts(released(0), released(1), active=2), JobPhase.STARTING),
        (RUNNING, facts(released(0), released(1), succeeded=1, uncountedTerminatedPods=LAST), JobPhase.RUNNING),
        (RUNNING, facts(released(0), released(1), succeeded=2), JobPhase.RUNNING),
        (TRAINING, facts(released(0), released(1), active=1, ready=1, uncountedTerminatedPods=LAST), JobPhase.RUNNING),
        (TRAINING, facts(released(0), released(1), succeeded=2), JobPhase.STARTING),
        (TRAINING, facts(conditions=[ended("Complete")], succeeded=2), JobPhase.SUCCEEDED),
        (TRAINING, facts(conditions=[ended("Failed")], failed=4), JobPhase.FAILED),
        (training_job(suspend=True), facts(), JobPhase.SUSPENDED),
        (TRAINING, JobFacts(job_of(TRAINING, suspend=True)), JobPhase.SUSPENDED),
    ],
)
def test_phases(training: TrainingJob, what: JobFacts, phase: JobPhase) -> None:
    assert roll_up_job(training, what, NOW).phase is phase


def test_a_job_that_comes_to_its_end_is_not_told_as_starting_or_running_again() -> None:
    steps: list[dict[str, Any]] = [
        {"active": 2, "ready": 2},
        {"active": 1, "ready": 1, "succeeded": 1},
        {"succeeded": 1, "uncountedTerminatedPods": LAST},
        {"succeeded": 2},
        {"succeeded": 2, "conditions": [ended("Complete")]},
    ]
    training, told = TRAINING, []
    for step in steps:
        status = roll_up_job(training, facts(released(0), released(1), **step), NOW)
        told += [one.reason for one in job_announcements(training.status, status)]
        training = training.model_copy(update={"status": status})
    assert told == [Reason.ACCEPTED, Reason.RELEASED, Reason.RUNNING, Reason.SUCCEEDED]


def test_a_finished_job_that_was_cleaned_away_keeps_its_status() -> None:
    training = training_job(status={"phase": "Succeeded", "workers": "0/2"})
    assert roll_up_job(training, JobFacts(None), NOW) == training.status


def test_data_is_ready_once_all_workers_were_released() -> None:
    data = condition(roll_up_job(TRAINING, facts(released(0), released(1), active=2), NOW), ConditionType.DATA_READY)
    assert (data.status, data.reason) == ("True", "Released")


def test_held_workers_say_why_in_the_condition() -> None:
    status = roll_up_job(TRAINING, facts(worker(0, waiting="a 50 %"), worker(1), active=2), NOW)
    data = condition(status, ConditionType.DATA_READY)
    assert (data.status, data.reason, data.message) == ("False", "WaitingForData", "a 50 %")


def test_while_workers_are_missing_the_condition_counts_them() -> None:
    data = condition(roll_up_job(TRAINING, facts(worker(0, waiting="a gang"), active=1), NOW), ConditionType.DATA_READY)
    assert data.message == "1 of 2 workers exist; a gang"


def test_workers_that_went_cold_are_told_of() -> None:
    pods = (released(0, reason="MaxWaitPassed"), released(1, reason="MaxWaitPassed"))
    data = condition(roll_up_job(TRAINING, facts(*pods, active=2), NOW), ConditionType.DATA_READY)
    assert (data.status, data.reason) == ("False", "MaxWaitPassed")


def test_without_datasets_data_is_ready_at_once() -> None:
    status = roll_up_job(training_job(datasets=[]), facts(active=2), NOW)
    assert condition(status, ConditionType.DATA_READY).status == "True"


def test_a_refused_template_is_not_accepted() -> None:
    status = roll_up_job(TRAINING, JobFacts(None, problem=Unmet(Reason.INVALID_SPEC, "no image")), NOW)
    accepted = condition(status, ConditionType.ACCEPTED)
    assert (accepted.status, accepted.reason, accepted.message) == ("False", "InvalidSpec", "no image")


def test_the_jobs_own_reason_of_failure_is_shown() -> None:
    what = facts(conditions=[ended("Failed", reason="BackoffLimitExceeded", message="reached")], failed=4)
    failed = condition(roll_up_job(TRAINING, what, NOW), ConditionType.FAILED)
    assert (failed.status, failed.reason) == ("True", "BackoffLimitExceeded")
    assert "4 pods failed" in failed.message


def test_nodes_show_how_warm_each_was_at_release() -> None:
    status = roll_up_job(TRAINING, facts(released(0, "a"), released(1, "b", share=0.5), active=2), NOW)
    assert [(one.name, one.workers, one.warm_percent) for one in status.nodes] == [("a", 1, 100), ("b", 1, 50)]


def test_nodes_stay_when_the_pods_are_gone() -> None:
    before = roll_up_job(TRAINING, facts(released(0), released(1), active=2), NOW)
    after = roll_up_job(TRAINING.model_copy(update={"status": before}), facts(conditions=[ended("Complete")]), NOW)
    assert after.nodes == before.nodes


def test_transition_times_are_kept_while_the_status_stays() -> None:
    before = roll_up_job(TRAINING, facts(worker(0), worker(1), active=2), NOW)
    after = roll_up_job(TRAINING.model_copy(update={"status": before}), facts(worker(0), worker(1), active=2), NOW + 60)
    assert after == before


def test_pods_of_a_failed_try_are_left_out() -> None:
    view = ClusterView(jobs={"vision/ddp": job_of(TRAINING)})
    pods = [released(0, phase="Failed"), worker(0), released(1, deleting=True)]
    assert gather(TRAINING, view, pods, WarmthIndex({}), None).pods == (worker(0),)


@pytest.mark.parametrize(("pods", "data"), [((), "50%"), ((released(0, "b"), released(1, "b")), "25%")])
def test_data_is_the_warm_share_where_workers_are_or_would_go(pods: tuple[PodView, ...], data: str) -> None:
    caches = {"a": holding("a", 0.5), "b": holding("b", 0.25)}
    view = ClusterView(datasets={"vision/imagenet": dataset()}, jobs={"vision/ddp": job_of(TRAINING)})
    assert gather(TRAINING, view, pods, WarmthIndex(caches), None).data == data


def test_pods_are_found_by_namespace_and_label() -> None:
    pods = PodsByJob([worker(0), worker(1, namespace="other")])
    assert [one.key for one in pods.of("vision/ddp")] == ["vision/ddp-0"]


def test_pods_are_found_as_they_are_now() -> None:
    pods = PodsByJob([worker(0), worker(1)])
    pods.note(worker(0), released(0))
    pods.note(worker(1), None)
    assert pods.of("vision/ddp") == [released(0)]
    pods.note(released(0), None)
    assert pods.of("vision/ddp") == []


def test_time_to_live_counts_from_the_end() -> None:
    training = training_job(ttlSecondsAfterFinished=60)
    status = roll_up_job(training, facts(conditions=[ended("Complete")], completionTime="2026-11-21T10:00:00Z"), NOW)
    assert expires_at(training, status) == parse_time("2026-11-21T10:01:00Z")


def test_what_runs_or_is_kept_does_not_expire() -> None:
    running = roll_up_job(TRAINING, facts(released(0), active=2), NOW)
    done = roll_up_job(TRAINING, facts(conditions=[ended("Complete")]), NOW)
    assert expires_at(training_job(ttlSecondsAfterFinished=60), running) is None
    assert expires_at(TRAINING, done) is None


def test_each_transition_is_told_once() -> None:
    running = roll_up_job(TRAINING, facts(released(0), released(1), active=2, ready=2), NOW)
    done = roll_up_job(
        TRAINING.model_copy(update={"status": running}), facts(conditions=[ended("Complete")], succeeded=2), NOW
    )
    assert [one.reason for one in job_announcements(running, done)] == ["Succeeded"]
    assert list(job_announcements(done, done)) == []


def test_failures_are_warnings() -> None:
    failed = roll_up_job(TRAINING, facts(conditions=[ended("Failed", reason="BackoffLimitExceeded")]), NOW)
    told = {(one.type, one.reason) for one in job_announcements(TRAINING.status, failed)}
    assert ("Warning", "BackoffLimitExceeded") in told
