"""Rules of the CRDs in the API server: names of TrainingJobs, and the columns of `kubectl get`."""

import asyncio
from typing import Any

import pytest

from stoker_api.jobs.trainingjob import TrainingJob
from stoker_api.schema import crd
from stoker_kube.client import KubeClient
from stoker_kube.errors import Invalid
from stoker_kube.resources import CRDS, DATASETS, TRAINING_JOBS
from tests.support.apiserver import ApiServer
from tests.support.waiting import eventually_async

SECONDS = 60.0
LABEL = "must be a DNS label that begins with a letter"


def training_job(name: str, workers: int = 1) -> dict[str, Any]:
    template = {"spec": {"containers": [{"name": "trainer", "image": "none"}]}}
    return {"metadata": {"name": name}, "spec": {"workers": workers, "template": template}}


@pytest.mark.parametrize(
    ("name", "workers", "sentence"),
    [
        ("llama-3.1-8b", 1, LABEL),
        ("7b-sft", 1, LABEL),
        ("a" * 64, 1, "too long"),
        ("a" * 62, 1, "too long"),
        ("a" * 61, 11, "too long"),
    ],
)
async def test_a_name_that_no_service_can_have_is_refused(
    kube: KubeClient, namespace: str, name: str, workers: int, sentence: str
) -> None:
    with pytest.raises(Invalid, match=sentence):
        await kube.create(TRAINING_JOBS, training_job(name, workers), namespace)


@pytest.mark.parametrize(("name", "workers"), [("llama-3-1-8b", 2), ("a", 1), ("a" * 61, 10)])
async def test_a_name_that_a_service_can_have_is_taken(
    kube: KubeClient, namespace: str, name: str, workers: int
) -> None:
    await kube.create(TRAINING_JOBS, training_job(name, workers), namespace)


async def test_one_that_was_there_before_the_rule_goes_on(
    kube: KubeClient, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(TrainingJob, "RULES", ())
        without = crd(TrainingJob)
    await _serve(kube, without)
    try:
        await eventually_async(lambda: _is_made(kube, namespace, "old.name"), SECONDS)
        status = {"status": {"phase": "Pending"}}
        await kube.patch(TRAINING_JOBS, "old.name", status, namespace, subresource="status")
    finally:
        await _serve(kube, crd(TrainingJob))

    async def refused() -> bool:
        return not await _is_made(kube, namespace, f"new.name-{asyncio.get_running_loop().time():.0f}")

    await eventually_async(refused, SECONDS)
    await kube.patch(TRAINING_JOBS, "old.name", {"spec": {"suspend": True}}, namespace)
    await kube.patch(TRAINING_JOBS, "old.name", {"status": {"phase": "Failed"}}, namespace, subresource="status")


async def _serve(kube: KubeClient, definition: dict[str, Any]) -> None:
    """Replace the CRD's schema, because an apply would keep fields of another manager."""
    await kube.patch(CRDS, definition["metadata"]["name"], {"spec": {"versions": definition["spec"]["versions"]}})


async def _is_made(kube: KubeClient, namespace: str, name: str) -> bool:
    try:
        await kube.create(TRAINING_JOBS, training_job(name), namespace)
    except Invalid:
        return False
    return True


@pytest.mark.parametrize(
    ("status", "shown"), [({"phase": "Ready"}, "Ready"), ({"phase": "Ready", "state": "Full"}, "Full")]
)
async def test_the_column_phase_shows_the_state_where_there_is_one(
    apiserver: ApiServer, kube: KubeClient, namespace: str, status: dict[str, str], shown: str
) -> None:
    spec = {"source": {"uri": "s3://bucket/"}}
    await kube.create(DATASETS, {"metadata": {"name": "d"}, "spec": spec}, namespace)
    await kube.patch(DATASETS, "d", {"status": status}, namespace, subresource="status")
    row = apiserver.kubectl("get", "dataset", "d", "-n", namespace, "--no-headers").split()
    assert row[1] == shown
