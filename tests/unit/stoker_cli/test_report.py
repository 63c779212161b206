"""The command `stoker report`."""

import json
from collections.abc import Sequence
from typing import Any

import pytest
from click.testing import CliRunner, Result

from stoker_api.goodput import EndedPod, goodput
from stoker_api.jobs.trainingjob import TrainingJob
from stoker_api.node_caches.nodecache import NodeCache
from stoker_cli.errors import NOT_FOUND, CliError
from stoker_cli.main import main
from stoker_cli.pods import report
from tests.support.cases import cases
from tests.unit.stoker_cli.builders import connect_to, node_cache

ROW = EndedPod(
    pod="vision/resnet-0",
    uid="0000000a-1",
    gpus=8,
    mounted_seconds=3600.0,
    data_bytes=2**30,
    warm_bytes=2**30,
    origin_bytes=0,
    peer_bytes=2**20,
    watched_seconds=1000.0,
    stalled_seconds=12.0,
    stall_source="report",
    saved_seconds=360.0,
)
RELEASE = {
    "reason": "Released",
    "message": "",
    "heldSince": "2026-11-21T10:00:00Z",
    "releasedAt": "2026-11-21T10:00:42Z",
    "mode": "Require",
}


def training_job(phase: str = "Succeeded", **known: Any) -> TrainingJob:
    total = goodput(None, [ROW], [42.0]).model_copy(update={"complete": True} | known)
    spec = {"template": {"spec": {"containers": [{"name": "main"}]}}}
    metadata = {"namespace": "vision", "name": "resnet"}
    status = {"phase": phase, "goodput": total.wire()}
    return TrainingJob.model_validate({"metadata": metadata, "spec": spec, "status": status})


def plain_pod(phase: str = "Succeeded") -> dict[str, Any]:
    annotations = {"stoker.dev/released": json.dumps(RELEASE)}
    metadata = {"namespace": "vision", "name": "prep-0", "uid": ROW.uid, "annotations": annotations}
    return {"metadata": metadata, "spec": {"nodeName": "n1"}, "status": {"phase": phase}}


class ReportedObjects:
    """A cluster with these objects."""

    namespace = "vision"
    node_caches_refused = False

    def __init__(self) -> None:
        self.jobs: dict[str, TrainingJob] = {"resnet": training_job()}
        self.pods: list[dict[str, Any]] = [plain_pod()]
        self.readable = True

    async def training_job(self, name: str) -> TrainingJob:
        if name not in self.jobs:
            raise CliError("no", NOT_FOUND)
        return self.jobs[name]

    async def job(self, name: str) -> dict[str, Any]:
        if name != "prep":
            raise CliError("no", NOT_FOUND)
        return {"status": {"conditions": [{"type": "Complete", "status": "True"}]}}

    async def pod(self, name: str) -> dict[str, Any]:
        found = [pod for pod in self.pods if pod["metadata"]["name"] == name]
        if not found:
            raise CliError("no", NOT_FOUND)
        return found[0]

    async def pods_of_job(self, name: str) -> Sequence[dict[str, Any]]:
        return self.pods

    async def pods_with(self, labels: str) -> Sequence[dict[str, Any]]:
        return self.pods if labels == "ray.io/cluster=tune" else []

    async def node_cache(self, name: str) -> NodeCache | None:
        if not self.readable:
            self.node_caches_refused = True
            return None
        return node_cache(name, ended=[ROW.wire()])


@pytest.fixture(autouse=True)
def objects(monkeypatch: pytest.MonkeyPatch) -> ReportedObjects:
    known = ReportedObjects()

    connect_to(monkeypatch, known, report)
    return known


def stoker(*words: str) -> Result:
    return CliRunner().invoke(main, ["report", *words])


def cells(result: Result) -> dict[str, str]:
    """Return the lines of the table by figure."""
    lines = [line for line in result.stdout.splitlines() if "  " in line]
    return {line.split("  ")[0]: " ".join(line.split("  ")[1:]) for line in lines}


def test_a_training_jobs_figures_are_a_table() -> None:
    shown = cells(stoker("resnet"))
    assert "42s" in shown["held at the gate"]
    assert "100 % (1.0 GiB of 1.0 GiB)" in shown["warm at start"]
    assert "0 B" in shown["from the origin"]
    assert "1.0 MiB" in shown["from peers"]
    assert "1.2 % (12s of 16m40s, by report)" in shown["stalled"]
    assert "about 0.80 GPU-hours (6m of pod time)" in shown["saved"]
    assert "1 of 1" in shown["saved"]


def test_a_missing_figure_is_null_in_json_and_not_measured_in_the_table(objects: ReportedObjects) -> None:
    empty = goodput(None, [EndedPod(pod="vision/resnet-0", uid="1")])
    job = objects.jobs["resnet"]
    objects.jobs["resnet"] = job.model_copy(update={"status": job.status.model_copy(update={"goodput": empty})})
    assert "not measured" in cells(stoker("resnet"))["from the origin"]
    told = json.loads(stoker("resnet", "-o", "json").stdout)["goodput"]
    assert [told[name] for name in ("originBytes", "stallShare", "savedGpuHours", "warmShare")] == [None] * 4


def test_the_json_has_the_figures_and_the_shares() -> None:
    told = json.loads(stoker("tj/resnet", "-o", "json").stdout)
    assert (told["kind"], told["namespace"], told["name"], told["phase"]) == (
        "TrainingJob",
        "vision",
        "resnet",
        "Succeeded",
    )
    assert (told["goodput"]["savedGpuHours"], told["goodput"]["stallShare"], told["goodput"]["warmShare"]) == (
        0.8,
        0.012,
        1.0,
    )
    assert "counted" not in told["goodput"]


@pytest.mark.parametrize("name", ["prep", "job/prep", "prep-0", "pod/prep-0"])
def test_reports_of_jobs_and_pods_come_from_annotations_and_nodecaches(name: str) -> None:
    shown = cells(stoker(name))
    assert "42s" in shown["held at the gate"]
    assert "100 %" in shown["warm at start"]


def test_without_access_to_nodecaches_the_report_has_the_figures_of_the_pod(objects: ReportedObjects) -> None:
    objects.readable = False
    result = stoker("prep")
    shown = cells(result)
    assert "42s" in shown["held at the gate"]
    assert "not readable" in shown["warm at start"]
    assert ("not measured" in result.stdout, "0 of 1" in result.stdout) == (False, False)
    assert "ClusterRole stoker-node-view" in result.stdout


def test_a_running_job_has_figures_so_far(objects: ReportedObjects) -> None:
    objects.jobs["resnet"] = training_job("Running", complete=False)
    assert "So far" in stoker("resnet").stdout


def test_unreported_pods_are_counted(objects: ReportedObjects) -> None:
    objects.jobs["resnet"] = training_job(missed=2)
    assert "No node reported 2 of its pods" in stoker("resnet").stdout


def test_a_missing_job_is_an_error_with_the_namespace() -> None:
    result = stoker("nothing")
    assert result.exit_code == NOT_FOUND
    assert "No pod, Job or TrainingJob nothing in namespace vision" in result.stderr


def test_an_unknown_kind_in_a_report_is_an_error() -> None:
    assert "Use pod/NAME, job/NAME or tj/NAME" in stoker("deployment/x").stderr


def test_explain_has_the_formula_without_a_cluster() -> None:
    assert "best rate from the source" in stoker("--explain").stdout


def test_help_has_the_formula_of_saved_time() -> None:
    assert "best rate from the source x GPUs" in " ".join(stoker("--help").stdout.split())


def test_pods_selected_by_a_label_have_one_report(objects: ReportedObjects) -> None:
    objects.pods.append(plain_pod() | {"metadata": {"namespace": "vision", "name": "worker", "uid": "0000000b-1"}})

    result = stoker("-l", "ray.io/cluster=tune")

    assert result.output.startswith("Pods vision/ray.io/cluster=tune: Succeeded. held 42s, 100 % warm at start")
    assert cells(result)["GPU-hours"].split() == ["8.00", "1", "of", "2"]


@cases(
    "phases, phase",
    (["Succeeded", "Failed"], "Failed"),
    (["Succeeded", "Pending"], "Running"),
    (["Pending", "Pending"], "Pending"),
    (["Running"], "Running"),
)
def test_selected_pods_run_as_long_as_one_runs(objects: ReportedObjects, phases: list[str], phase: str) -> None:
    objects.pods[:] = [plain_pod(one) for one in phases]

    assert json.loads(stoker("-l", "ray.io/cluster=tune", "-o", "json").stdout)["phase"] == phase


def test_labels_without_pods_are_an_error() -> None:
    result = stoker("-l", "ray.io/cluster=none")

    assert result.exit_code == NOT_FOUND
    assert "No pod with ray.io/cluster=none and a Dataset in namespace vision" in " ".join(result.output.split())


@pytest.mark.parametrize("words", [(), ("resnet", "-l", "a=b")])
def test_a_job_and_labels_exclude_each_other(words: tuple[str, ...]) -> None:
    assert "Use one of JOB, -l LABEL=VALUE or --explain" in stoker(*words).output
