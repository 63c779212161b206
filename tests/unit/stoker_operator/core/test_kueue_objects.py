"""Parsing of Kueue's objects, regardless of their author."""

from typing import Any

import pytest

from stoker_api import names
from stoker_api.jobs.pod_annotations import Refusal
from stoker_operator.core.kueue.kueue_objects import WarmTerms, parse_admission_check, parse_workload
from tests.support.cases import cases
from tests.support.present import present
from tests.unit.stoker_operator.builders import NOW
from tests.unit.stoker_operator.kueue import held_back, make_check, make_workload, pod_set


def test_a_check_of_another_controller_is_none_of_ours() -> None:
    assert parse_admission_check(make_check(controller="kueue.x-k8s.io/multikueue")) is None


@pytest.mark.parametrize(("annotations", "seconds"), [({}, 0.0), ({"warm_within": "5m"}, 300.0)])
def test_a_check_says_within_what_time_data_is_to_be_warm(annotations: dict[str, str], seconds: float) -> None:
    check = present(parse_admission_check(make_check(**annotations)))
    assert check.terms == WarmTerms(seconds)


def test_a_check_with_a_wrong_time_says_what_is_wrong() -> None:
    check = present(parse_admission_check(make_check(warm_within="soon")))
    assert isinstance(check.terms, Refusal)
    assert names.ANNOTATION_WARM_WITHIN in check.terms.sentence


def test_a_check_with_a_parameters_object_says_where_parameters_belong() -> None:
    raw = make_check()
    raw["spec"]["parameters"] = {"apiGroup": "stoker.dev", "kind": "Anything", "name": "x"}
    check = present(parse_admission_check(raw))
    assert isinstance(check.terms, Refusal)


def test_the_pods_of_a_workload_are_read_as_they_would_be_made() -> None:
    workload = parse_workload(make_workload(pod_set("worker", 3, "500m", scheduling="Require")))
    (one,) = workload.pod_sets
    assert not isinstance(one.pod, Refusal)
    assert (one.name, one.count) == ("worker", 3)
    assert (one.pod.datasets, one.pod.scheduling, one.pod.requests.cpu_milli) == ("imagenet:/data", "Require", 500)
    assert one.pod.created == NOW


@cases(
    "fields",
    {"conditions": {"Admitted": "True"}},
    {"conditions": {"Finished": "True"}},
    {"spec": {"active": False}},
    {"metadata": {"deletionTimestamp": "2027-01-15T08:00:00Z"}},
    {"status": {"admissionChecks": []}},
)
def test_a_workload_that_waits_for_no_check_is_known_by_its_identity_alone(fields: dict[str, Any]) -> None:
    workload = parse_workload(make_workload(**fields))
    assert (workload.pod_sets, workload.checks, workload.uid) == ((), (), "uid-job-train")


def test_a_template_that_cannot_be_read_is_that_workloads_trouble() -> None:
    broken = pod_set()
    broken["template"]["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "much"}}
    (one,) = parse_workload(make_workload(broken)).pod_sets
    assert isinstance(one.pod, Refusal)
    assert "'main' cannot be read" in one.pod.sentence


@pytest.mark.parametrize("ours", [True, False])
def test_it_is_known_who_holds_a_workload_back(ours: bool) -> None:
    workload = parse_workload(make_workload(**held_back(NOW + 60, ours=ours)))
    assert workload.held_back
    assert workload.requeue_at == NOW + 60
    assert workload.requeue_is_ours is ours
