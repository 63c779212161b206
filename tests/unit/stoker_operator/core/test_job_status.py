"""The status of a TrainingJob, from its Job and pods."""

from typing import Any

import pytest

from stoker_api.jobs.trainingjob import JobPhase, TrainingJob, TrainingJobStatus
from stoker_api.names import ConditionType, Reason
from stoker_api.times import parse_time
from stoker_operator.core.fitting.pod_demand import Unmet
from stoker_operator.core.fitting.warmth import WarmthIndex
from stoker_operator.core.jobs.job_facts import JobFacts, PodsByJob, gather
from stoker_operator.core.jobs.job_status import expires_at, roll_up_job
from stoker_operator.core.jobs.job_transitions import job_announcements
from stoker_operator.core.views.cluster import ClusterView, PodView
from tests.support.cases import cases
from tests.unit.stoker_operator.builders import condition
from tests.unit.stoker_operator.clusters import dataset, holding
from tests.unit.stoker_operator.training import ended, job_of, released, training_job, worker

NOW = 2000.0
TRAINING = training_job()
RUNNING = training_job(status={"phase": "Running"})
LAST = {"succeeded": ["pod-uid"]}  # terminated, not counted by the Job controller
MISSING = Unmet(Reason.DATASET_NOT_FOUND, "Dataset vision/imagenet does not exist")


def facts(*pods: PodView, problem: Unmet | None = None, **status: Any) -> JobFacts:
    return JobFacts(job_of(TRAINING, **status), pods, problem=problem)


def followed(first: JobFacts, later: JobFacts) -> tuple[TrainingJobStatus, TrainingJobStatus]:
    """Return the statuses of two passes, a minute apart."""
    before = roll_up_job(TRAINING, first, NOW)
    return before, roll_up_job(TRAINING.model_copy(update={"status": before}), later, NOW + 60)


@cases(
    "training, what, phase",
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
    (RUNNING, facts(released(0, phase="Pending"), released(1, phase="Pending"), active=2), JobPhase.STARTING),
    (RUNNING, facts(released(0), released(1), active=2), JobPhase.RUNNING),
    (RUNNING, facts(released(0, phase="Succeeded"), released(1), active=2), JobPhase.RUNNING),
    (RUNNING, facts(released(0), released(1), succeeded=1, uncountedTerminatedPods=LAST), JobPhase.RUNNING),
    (RUNNING, facts(released(0), released(1), succeeded=2), JobPhase.RUNNING),
    (TRAINING, facts(released(0), released(1), active=1, ready=1, uncountedTerminatedPods=LAST), JobPhase.RUNNING),
    (TRAINING, facts(released(0), released(1), succeeded=2), JobPhase.STARTING),
    (TRAINING, facts(conditions=[ended("Complete")], succeeded=2), JobPhase.SUCCEEDED),
    (TRAINING, facts(conditions=[ended("Failed")], failed=4), JobPhase.FAILED),
    (training_job(suspend=True), facts(), JobPhase.SUSPENDED),
    (TRAINING, JobFacts(job_of(TRAINING, suspend=True)), JobPhase.SUSPENDED),
)
def test_phases(training: TrainingJob, what: JobFacts, phase: JobPhase) -> None:
    assert roll_up_job(training, what, NOW).phase is phase


PODS = (released(0), released(1))
OVER = (released(0, phase="Succeeded"), released(1, phase="Succeeded"))


@cases(
    "steps",
    at_its_end=[
        facts(*PODS, active=2, ready=2),
        facts(*PODS, active=1, ready=1, succeeded=1),
        facts(*PODS, succeeded=1, uncountedTerminatedPods=LAST),
        facts(*PODS, succeeded=2),
        facts(*PODS, succeeded=2, conditions=[ended("Complete")]),
    ],
    within_a_second_as_seen_on_a_cluster=[
        facts(*PODS, active=2, ready=2),
        facts(*PODS, active=2, ready=0),
        facts(*OVER, active=2, ready=0),
        facts(*OVER, succeeded=2, conditions=[ended("Complete")]),
    ],
)
def test_a_job_that_ends_is_not_told_as_starting_or_running_again(steps: list[JobFacts]) -> None:
    training, told = TRAINING, []
    for step in steps:
        status = roll_up_job(training, step, NOW)
        told += [one.reason for one in job_announcements(training.status, status)]
        training = training.model_copy(update={"status": status})
    assert told == [Reason.ACCEPTED, Reason.RELEASED, Reason.RUNNING, Reason.SUCCEEDED]


def test_workers_that_are_replaced_are_no_new_start_for_events() -> None:
    again = facts(released(0, phase="Pending"), released(1, phase="Pending"), active=2)
    running, status = followed(facts(*PODS, active=2, ready=2), again)
    assert status.phase is JobPhase.STARTING
    assert Reason.STARTING not in [one.reason for one in job_announcements(running, status)]


def test_each_transition_is_told_once() -> None:
    end = facts(conditions=[ended("Complete")], succeeded=2)
    running, done = followed(facts(*PODS, active=2, ready=2), end)
    assert [one.reason for one in job_announcements(running, done)] == ["Succeeded"]
    assert list(job_announcements(done, done)) == []


@cases(
    "status, workers",
    ({"active": 2, "ready": 2}, "2/2"),
    ({"active": 2, "ready": 1}, "1/2"),
    ({"active": 1, "ready": 1, "succeeded": 1}, "2/2"),
    ({"succeeded": 1, "uncountedTerminatedPods": LAST}, "2/2"),
    ({"succeeded": 2, "conditions": [ended("Complete")]}, "2/2"),
    ({"succeeded": 1, "failed": 4, "conditions": [ended("Failed")]}, "1/2"),
)
def test_workers_that_succeeded_count(status: dict[str, Any], workers: str) -> None:
    assert roll_up_job(TRAINING, facts(released(0), released(1), **status), NOW).workers == workers


@cases("kind, message", (ConditionType.SUSPENDED, "not suspended"), (ConditionType.ACCEPTED, "the spec is accepted"))
def test_a_job_whose_pods_are_gated_is_not_suspended(kind: ConditionType, message: str) -> None:
    status = roll_up_job(TRAINING, facts(worker(0), worker(1), active=2), NOW)
    assert condition(status, kind).message == message


def test_a_spec_that_is_accepted_is_told_in_an_event() -> None:
    status = roll_up_job(TRAINING, facts(), NOW)
    assert next(one.message for one in job_announcements(TRAINING.status, status)) == "spec generation 1 accepted"


def test_a_finished_job_that_was_cleaned_away_keeps_its_status() -> None:
    training = training_job(status={"phase": "Succeeded", "workers": "0/2"})
    assert roll_up_job(training, JobFacts(None), NOW) == training.status


@cases(
    "what, shown",
    all_workers_were_released=(facts(released(0), released(1), active=2), ("True", "Released")),
    held_workers_say_why=(
        facts(worker(0, waiting="a 50 %"), worker(1), active=2),
        ("False", "WaitingForData", "a 50 %"),
    ),
    missing_workers_are_counted=(
        facts(worker(0, waiting="a gang"), active=1),
        ("False", "WaitingForData", "1 of 2 workers exist; a gang"),
    ),
)
def test_whether_data_is_ready_is_said_of_the_workers(what: JobFacts, shown: tuple[str, ...]) -> None:
    data = condition(roll_up_job(TRAINING, what, NOW), ConditionType.DATA_READY)
    assert (data.status, data.reason, data.message)[: len(shown)] == shown


def test_without_datasets_data_is_ready_at_once() -> None:
    status = roll_up_job(training_job(datasets=[]), facts(active=2), NOW)
    assert condition(status, ConditionType.DATA_READY).status == "True"


@pytest.mark.parametrize("reason", ["MaxWaitPassed", "Manual", "Paused", "NamespaceQuotaExceeded"])
def test_workers_that_went_cold_are_told_of(reason: str) -> None:
    pods = (released(0, reason=reason), released(1, reason=reason))
    data = condition(roll_up_job(TRAINING, facts(*pods, active=2), NOW), ConditionType.DATA_READY)
    assert (data.status, data.reason) == ("False", reason)


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
    before, after = followed(facts(*PODS, active=2), facts(conditions=[ended("Complete")]))
    assert after.nodes == before.nodes


def test_transition_times_are_kept_while_the_status_stays() -> None:
    before, after = followed(*(facts(worker(0), worker(1), active=2) for _ in range(2)))
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


def test_failures_are_warnings() -> None:
    failed = roll_up_job(TRAINING, facts(conditions=[ended("Failed", reason="BackoffLimitExceeded")]), NOW)
    told = {(one.type, one.reason) for one in job_announcements(TRAINING.status, failed)}
    assert ("Warning", "BackoffLimitExceeded") in told


def test_a_first_listing_that_is_awaited_is_no_warning() -> None:
    listing = JobFacts(None, problem=Unmet(Reason.LISTING, "Dataset vision/imagenet is being listed"))
    new = roll_up_job(TRAINING, listing, NOW)
    told = [one for one in job_announcements(TrainingJobStatus(), new) if one.reason == Reason.LISTING]
    assert [one.type for one in told] == ["Normal"]
