"""The commands `stoker why` and `stoker release` against a real API server."""

import asyncio
import json
from typing import Any

import pytest
from click.testing import CliRunner

from stoker_api import names
from stoker_cli.main import main
from stoker_kube.client import KubeClient
from stoker_kube.resources import JOBS, PODS
from tests.support.apiserver import ApiServer

CONTAINER = {"name": "main", "image": "none"}
ANNOTATED = {names.ANNOTATION_DATASETS: "imagenet:/data"}


async def stoker(*words: str) -> str:
    """Return the program's output, whatever the exit code. It runs in a thread, because it needs a new event loop."""
    result = await asyncio.to_thread(CliRunner().invoke, main, words)
    return result.output


@pytest.fixture(autouse=True)
def kubeconfig(apiserver: ApiServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", str(apiserver.kubeconfig))


async def add_job(kube: KubeClient, namespace: str, gates: tuple[str, ...] = (), pods: int = 1) -> None:
    """Create a Job with the annotation on itself, and its pods, which no controller makes here."""
    template = {"spec": {"containers": [CONTAINER], "restartPolicy": "Never"}}
    body = {"metadata": {"name": "prep", "annotations": ANNOTATED}, "spec": {"template": template}}
    job = await kube.create(JOBS, body, namespace)
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "prep", "uid": job["metadata"]["uid"], "controller": True}
    for number in range(pods):
        meta = {"name": f"prep-{number}", "labels": {"job-name": "prep"}, "ownerReferences": [owner]}
        spec = {"containers": [CONTAINER], "schedulingGates": [{"name": gate} for gate in gates]}
        await kube.create(PODS, {"metadata": meta, "spec": spec}, namespace)


async def test_why_finds_an_annotation_on_the_job_of_a_pod(apiserver: ApiServer, namespace: str) -> None:
    async with await apiserver.client() as kube:
        await add_job(kube, namespace)
    sentence = f"Job {namespace}/prep has the annotation stoker.dev/datasets in its own metadata"
    for name in ("prep-0", "job/prep", "prep"):
        assert sentence in " ".join((await stoker("-n", namespace, "why", name)).split())


async def test_of_a_job_as_many_pods_are_explained_as_help(apiserver: ApiServer, namespace: str) -> None:
    async with await apiserver.client() as kube:
        await add_job(kube, namespace, pods=7)
    output = await stoker("-n", namespace, "why", "job/prep")
    assert f"Job {namespace}/prep: 5 of its 7 pods" in output
    assert output.count(f"pod {namespace}/prep-") == 5


async def test_held_pods_of_a_job_are_released_and_once_more(apiserver: ApiServer, namespace: str) -> None:
    async with await apiserver.client() as kube:
        await add_job(kube, namespace, (names.GATE_WARM,), pods=2)
        for _ in range(2):  # the operator, which does not run here, removes the gate
            assert "Released prep-0, prep-1." in await stoker("-n", namespace, "release", "job/prep")
        pod: dict[str, Any] = await kube.get(PODS, "prep-1", namespace)
    assert pod["metadata"]["annotations"] == {names.ANNOTATION_SCHEDULING: "None"}


def test_the_role_edit_has_the_right_that_release_takes(apiserver: ApiServer) -> None:
    # A controller, which does not run here, fills the role "edit" from this one.
    role = json.loads(apiserver.kubectl("get", "clusterrole", "system:aggregate-to-edit", "-o", "json"))
    verbs = [rule["verbs"] for rule in role["rules"] if "pods" in rule["resources"]]
    assert any("patch" in some for some in verbs)


async def test_a_name_of_nothing_is_told(namespace: str) -> None:
    assert "No pod, Job or TrainingJob gone in namespace" in await stoker("-n", namespace, "release", "gone")


def test_the_version_is_shown() -> None:
    assert CliRunner().invoke(main, ["version"]).output.startswith("stoker, version ")
