"""The operator's one-off commands as Helm's hooks run them, on a real API server."""

import asyncio
import contextlib
import os
import sys
from pathlib import Path

import pytest

from stoker_api import names
from stoker_api.schema import KINDS
from stoker_kube.client import KubeClient
from stoker_kube.errors import NotFound
from stoker_kube.resources import DATASETS, NODE_CACHES, PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES
from stoker_operator.core.plans.volumes import persistent_volume_claim
from tests.support.apiserver import ApiServer
from tests.unit.stoker_operator.builders import make_dataset

PROGRAM = Path(sys.executable).parent / "stoker-operator"


async def command(apiserver: ApiServer, *words: str, **environment: str) -> tuple[int, str, str]:
    """Exit code, output and errors."""
    process = await asyncio.create_subprocess_exec(
        PROGRAM,
        *words,
        env=os.environ | {"KUBECONFIG": str(apiserver.kubeconfig)} | environment,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await asyncio.wait_for(process.communicate(), 60)
    return process.returncode or 0, out.decode(), err.decode()


async def install(kube: KubeClient, namespace: str) -> None:
    """Make the remains of an operator: a finalizer, a claim.

    Delete cluster-wide remains of other tests: no sidecar cleans their NodeCaches, and no controller of Kubernetes
    removes the protection of their volumes.
    """
    for cache in (await kube.list(NODE_CACHES)).items:
        await kube.delete(NODE_CACHES, cache["metadata"]["name"])
    for volume in (await kube.list(PERSISTENT_VOLUMES)).items:
        await kube.patch(PERSISTENT_VOLUMES, volume["metadata"]["name"], {"metadata": {"finalizers": None}})
        with contextlib.suppress(NotFound):
            await kube.delete(PERSISTENT_VOLUMES, volume["metadata"]["name"])
    meta = {"name": "imagenet", "namespace": namespace, "finalizers": [names.FINALIZER]}
    made = await kube.create(DATASETS, {"metadata": meta, "spec": {"source": {"uri": "s3://bucket/"}}})
    dataset = make_dataset(namespace=namespace, uid=made["metadata"]["uid"])
    await kube.create(PERSISTENT_VOLUME_CLAIMS, persistent_volume_claim(dataset))


async def test_uninstall_takes_finalizers_and_claims_away(apiserver: ApiServer, namespace: str) -> None:
    async with await apiserver.client() as kube:
        await install(kube, namespace)
        code, out, err = await command(apiserver, "uninstall", "--timeout", "5", POD_NAMESPACE=namespace)
        assert (code, out.splitlines()[-1][:4]) == (0, "done"), err
        assert "finalizers" not in (await kube.get(DATASETS, "imagenet", namespace))["metadata"]
        claims = (await kube.list(PERSISTENT_VOLUME_CLAIMS, namespace)).items
        # The controller that removes the protection finalizer does not run here.
        assert all(claim["metadata"]["deletionTimestamp"] for claim in claims)


async def test_crds_brings_all_kinds_into_use(apiserver: ApiServer) -> None:
    code, out, err = await command(apiserver, "crds", POD_NAMESPACE="stoker")
    assert (code, len(out.splitlines())) == (0, len(KINDS)), err


async def test_a_missing_setting_is_one_sentence_and_exit_code_1(apiserver: ApiServer) -> None:
    code, _, err = await command(apiserver, "run", POD_NAMESPACE="")
    assert code == 1
    assert "POD_NAMESPACE is not set" in err
    assert "Traceback" not in err


@pytest.mark.parametrize("words", [(), ("run",), ("crds",), ("uninstall",)])
async def test_every_command_explains_itself(apiserver: ApiServer, words: tuple[str, ...]) -> None:
    code, out, _ = await command(apiserver, *words, "--help")
    assert (code, out.startswith("Usage:")) == (0, True)
