"""The Service and Job of a TrainingJob, and actions on the Job."""

from typing import Any

from stoker_api import names
from stoker_api.names import Reason
from stoker_operator.core.jobs.jobs import (
    QUEUE_LABEL,
    Step,
    is_owned,
    make_job,
    make_service,
    missing_dataset,
    next_step,
    outdated_scheduling,
)
from stoker_operator.core.views.cluster import ClusterView
from tests.support.cases import cases
from tests.support.present import present
from tests.unit.stoker_operator.clusters import cluster, dataset
from tests.unit.stoker_operator.training import ended, job_of, released, training_job, worker

QUEUED = {QUEUE_LABEL: "team-a"}


def template(**spec: Any) -> dict[str, Any]:
    found: dict[str, Any] = make_job(training_job(**spec))["spec"]["template"]
    return found


def test_the_service_is_headless_and_names_workers_that_are_not_ready_yet() -> None:
    spec = make_service(training_job())["spec"]
    assert (spec["clusterIP"], spec["publishNotReadyAddresses"]) == ("None", True)
    assert spec["selector"] == {names.LABEL_TRAINING_JOB: "ddp"}


def test_the_job_is_indexed_with_one_completion_a_worker() -> None:
    spec = make_job(training_job(workers=3, backoffLimit=7))["spec"]
    assert (spec["completionMode"], spec["completions"], spec["parallelism"], spec["backoffLimit"]) == (
        "Indexed",
        3,
        3,
        7,
    )


def test_children_belong_to_the_training_job_and_carry_its_labels() -> None:
    training = training_job(labels=QUEUED)
    for child in (make_service(training), make_job(training)):
        assert is_owned(child, training)
        assert child["metadata"]["labels"][QUEUE_LABEL] == "team-a"


def test_workers_ask_for_their_datasets_by_annotation() -> None:
    annotations = template(scheduling={"mode": "Require", "maxWait": "5m"})["metadata"]["annotations"]
    assert annotations == {
        names.ANNOTATION_DATASETS: "vision/imagenet:/data",
        names.ANNOTATION_SCHEDULING: "Require",
        names.ANNOTATION_MAX_WAIT: "5m",
        names.ANNOTATION_GANG_SIZE: "2",
    }


def test_without_gang_workers_go_one_by_one() -> None:
    metadata = template(scheduling={"gang": False})["metadata"]
    assert names.LABEL_GANG not in metadata["labels"]
    assert names.ANNOTATION_GANG_SIZE not in metadata["annotations"]


def test_workers_find_each_other_below_the_service() -> None:
    spec = template()["spec"]
    assert spec["subdomain"] == "ddp"
    variables = {one["name"]: one.get("value") for one in spec["containers"][0]["env"]}
    assert variables["MASTER_ADDR"] == "ddp-0.ddp.vision.svc"


def test_the_users_template_is_kept() -> None:
    given = {
        "metadata": {"labels": {"app": "x"}, "annotations": {"note": "y"}},
        "spec": {
            "containers": [{"name": "t", "env": [{"name": "A", "value": "1"}]}],
            "hostIPC": True,
            "restartPolicy": "OnFailure",
        },
    }
    made = template(template=given)
    assert made["metadata"]["labels"]["app"] == "x"
    assert made["metadata"]["annotations"]["note"] == "y"
    assert (made["spec"]["hostIPC"], made["spec"]["restartPolicy"]) == (True, "OnFailure")
    assert made["spec"]["containers"][0]["env"][-1] == {"name": "A", "value": "1"}


def test_disruptions_do_not_count_as_failures() -> None:
    (rule,) = make_job(training_job())["spec"]["podFailurePolicy"]["rules"]
    assert (rule["action"], rule["onPodConditions"][0]["type"]) == ("Ignore", "DisruptionTarget")


def test_workers_that_restart_in_place_have_no_failure_policy() -> None:
    # The API server allows one only with restartPolicy Never.
    spec = {"containers": [{"name": "t"}], "restartPolicy": "OnFailure"}
    assert "podFailurePolicy" not in make_job(training_job(template={"spec": spec}))["spec"]


PLAIN, HELD = training_job(), training_job(suspend=True)


@cases(
    "training, job, step",
    new=(PLAIN, None, Step.CREATE),
    new_and_held=(HELD, None, Step.CREATE),
    held_before_a_queue=(training_job(suspend=True, labels=QUEUED), None, Step.NOTHING),
    running=(PLAIN, job_of(PLAIN), Step.NOTHING),
    to_be_held=(HELD, job_of(PLAIN), Step.SUSPEND),
    held=(HELD, job_of(HELD), Step.NOTHING),
    to_go_on=(PLAIN, job_of(HELD), Step.RESUME),
    held_by_its_queue=(training_job(labels=QUEUED), job_of(training_job(labels=QUEUED), suspend=True), Step.NOTHING),
    to_be_held_before_a_queue=(
        training_job(labels=QUEUED, suspend=True),
        job_of(training_job(labels=QUEUED)),
        Step.DELETE,
    ),
    changed_while_held=(training_job(workers=3, suspend=True), job_of(HELD), Step.DELETE),
    changed_while_running=(training_job(workers=3), job_of(PLAIN), Step.NOTHING),
    complete=(PLAIN, job_of(PLAIN, conditions=[ended("Complete")]), Step.NOTHING),
    failed=(HELD, job_of(PLAIN, conditions=[ended("Failed")]), Step.NOTHING),
    its_Job_was_cleaned_away=(training_job(status={"phase": "Succeeded"}), None, Step.NOTHING),
)
def test_what_is_done_about_the_job(training: Any, job: Any, step: Step) -> None:
    assert next_step(training, job) is step


def test_a_job_of_an_earlier_training_job_of_this_name_is_not_its_own() -> None:
    job = job_of(PLAIN)
    job["metadata"]["ownerReferences"][0]["uid"] = "older"
    assert not is_owned(job, PLAIN)


def test_a_missing_dataset_is_found_before_the_job_is_made() -> None:
    missing = present(missing_dataset(PLAIN, ClusterView()))
    assert missing.reason is Reason.DATASET_NOT_FOUND
    assert missing_dataset(PLAIN, cluster(dataset())) is None


PREFERRED: dict[str, Any] = {"scheduling": "Prefer", "max_wait": "30m"}


@cases(
    "scheduling, pod, annotations",
    as_it_was=({}, worker(0, **PREFERRED), {}),
    let_go=({"mode": "None"}, worker(0, **PREFERRED), {names.ANNOTATION_SCHEDULING: "None"}),
    stricter=({"mode": "Require"}, worker(0, **PREFERRED), {names.ANNOTATION_SCHEDULING: "Require"}),
    shorter=({"maxWait": "1m"}, worker(0, **PREFERRED), {names.ANNOTATION_MAX_WAIT: "1m"}),
    released_by_hand=({"mode": "Require"}, worker(0, scheduling="None", max_wait="30m"), {}),
    not_held=({"mode": "None"}, released(0, **PREFERRED), {}),
)
def test_held_workers_follow_a_changed_scheduling(scheduling: Any, pod: Any, annotations: dict[str, str]) -> None:
    assert outdated_scheduling(training_job(scheduling=scheduling), pod) == annotations


def test_workers_without_data_are_left_alone() -> None:
    assert outdated_scheduling(training_job(datasets=[], scheduling={"mode": "None"}), worker(0, **PREFERRED)) == {}
