"""The command `stoker release`."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from stoker_api import names
from stoker_api.jobs.trainingjob import TrainingJob
from stoker_cli.errors import NOT_FOUND, CliError
from stoker_cli.pods.release_pods import release
from stoker_cli.pods.subject import find_subject
from stoker_kube.errors import Forbidden
from tests.unit.stoker_operator.training import training_job


def pod(name: str, *gates: str) -> dict[str, Any]:
    spec = {"schedulingGates": [{"name": gate} for gate in gates]} if gates else {}
    return {"metadata": {"namespace": "n", "name": name, "uid": f"uid-{name}"}, "spec": spec}


HELD = names.GATE_WARM


class _Cluster:
    """One namespace with a pod "a", a Job "b" and a TrainingJob "c"."""

    namespace = "n"

    def __init__(self, *pods: dict[str, Any], error: Exception | None = None) -> None:
        self.pods = pods
        self.written: list[str] = []
        self._error = error

    async def pod(self, name: str) -> dict[str, Any]:
        self._expect(name, "a")
        return self.pods[0]

    async def job(self, name: str) -> dict[str, Any]:
        failed = {"type": "Failed", "status": "True", "reason": "DeadlineExceeded", "message": "too late"}
        self._expect(name, "b")
        return {"status": {"conditions": [failed]}}

    async def training_job(self, name: str) -> TrainingJob:
        self._expect(name, "c")
        wrong = {
            "type": "Order",
            "status": "False",
            "reason": "OrderWrong",
            "message": "read 1 was b.jpg, a.jpg was due",
        }
        known = {"type": "Complete", "status": "False", "reason": "Running", "message": "1 of 2 workers run"}
        at = {"lastTransitionTime": "2026-11-21T10:00:00Z"}
        return training_job(status={"conditions": [wrong | at, known | at]})

    async def pods_of_job(self, name: str) -> Sequence[dict[str, Any]]:
        return self.pods

    async def pods_with(self, labels: str) -> Sequence[dict[str, Any]]:
        return self.pods

    async def annotate_pod(self, one: Mapping[str, Any], annotations: Mapping[str, str]) -> bool:
        if self._error is not None:
            raise self._error
        assert annotations == {names.ANNOTATION_SCHEDULING: "None"}
        self.written.append(str(one["metadata"]["name"]))
        return True

    def _expect(self, name: str, there: str) -> None:
        if name != there:
            raise CliError("no", NOT_FOUND)


@pytest.mark.parametrize(
    ("text", "kind"),
    [("a", "Pod"), ("b", "Job"), ("c", "TrainingJob"), ("job/b", "Job"), ("trainingjob/c", "TrainingJob")],
)
async def test_a_name_is_that_of_a_pod_or_job(text: str, kind: str) -> None:
    assert (await find_subject(_Cluster(pod("a")), text)).kind == kind


@pytest.mark.parametrize("text", ["job/a", "d"])
async def test_an_unknown_name_is_not_found(text: str) -> None:
    with pytest.raises(CliError) as refused:
        await find_subject(_Cluster(pod("a")), text)
    assert refused.value.exit_code == NOT_FOUND


async def test_an_unknown_kind_is_an_error() -> None:
    with pytest.raises(CliError, match="Use pod/NAME, job/NAME or tj/NAME"):
        await find_subject(_Cluster(), "deployment/a")


async def test_a_job_without_pods_has_its_conditions() -> None:
    assert (await find_subject(_Cluster(), "job/b")).conditions == ["Failed (DeadlineExceeded): too late"]


async def test_a_training_job_with_a_wrong_order_says_so() -> None:
    (shown,) = (await find_subject(_Cluster(), "tj/c")).conditions
    assert shown == "Order is False (OrderWrong): read 1 was b.jpg, a.jpg was due"


async def test_only_held_pods_of_a_job_are_released() -> None:
    cluster = _Cluster(pod("p0", HELD), pod("p1", HELD), pod("p2"))
    assert await release(cluster, "job/b") == "Released p0, p1. Follow with: stoker -n n why p0"
    assert cluster.written == ["p0", "p1"]


async def test_a_release_without_held_pods_succeeds() -> None:
    cluster = _Cluster(pod("a"))
    assert await release(cluster, "a") == "Pod n/a: Stoker holds no pods, so there is nothing to release."
    assert cluster.written == []


async def test_other_scheduling_gates_are_named() -> None:
    said = await release(_Cluster(pod("a", "kueue.x-k8s.io/admission", HELD)), "a")
    assert said.endswith("\nOther scheduling gates still hold: kueue.x-k8s.io/admission.")


async def test_a_trainingjob_release_mentions_new_workers() -> None:
    assert "spec.scheduling.mode is None" in await release(_Cluster(pod("c-0", HELD)), "tj/c")


async def test_a_forbidden_release_names_the_permission() -> None:
    cluster = _Cluster(pod("a", HELD), error=Forbidden(403, "Forbidden", "no"))
    with pytest.raises(
        CliError, match="Ask for the verb patch on pods in namespace n, which the ClusterRole edit includes"
    ):
        await release(cluster, "a")
