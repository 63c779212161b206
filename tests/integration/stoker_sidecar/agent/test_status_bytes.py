"""The effect of tenants on a node's status: a real API server and etcd accept it, with another namespace's row."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

import pytest

from stoker_api import names
from stoker_api.node_caches.nodecache_status import NodeCacheStatus
from stoker_kube.client import KubeClient
from stoker_kube.resources import NODE_CACHES
from stoker_sidecar.agent.core.status import node_status
from stoker_sidecar.agent.csi.pb import csi_pb2
from stoker_sidecar.agent.csi.request import parse_publish
from stoker_sidecar.agent.kube.node_cache import StatusWriter
from stoker_sidecar.errors import VolumeError
from stoker_sidecar.volumes.core.publish import PublishRequest, pending_row
from stoker_sidecar.volumes.synchronization import Changes
from tests.support.apiserver import ApiServer
from tests.unit.stoker_sidecar.agent.builders import context_of, facts, inline, world

NODE = "node-of-tenants"
KUBELET = Path("/var/lib/kubelet")


def asked(pod: str, namespace: str, dataset: str) -> csi_pb2.NodePublishVolumeRequest:
    """Return the kubelet's call for a hand-made inline volume."""
    whose = {names.CSI_POD_NAMESPACE: namespace, names.CSI_POD_NAME: pod, names.CSI_POD_UID: pod}
    return inline(volume_id=f"csi-{pod}", volume_context=context_of(dataset=dataset) | whose)


def taken(*requests: csi_pb2.NodePublishVolumeRequest) -> list[PublishRequest]:
    """Return the calls that the driver accepts."""
    parsed = []
    for request in requests:
        with suppress(VolumeError):
            parsed.append(parse_publish(request, KUBELET))
    return parsed


async def told(kube: KubeClient, status: NodeCacheStatus) -> NodeCacheStatus:
    """Write a status as the agent does. Return the API server's content afterwards."""
    writer = StatusWriter(kube, NODE, Changes(), lambda written: status)
    async with asyncio.timeout(30):
        while await writer.write_if_due() is not None:
            pass
    return NodeCacheStatus.model_validate((await kube.get(NODE_CACHES, NODE))["status"])


@pytest.fixture
async def kube(apiserver: ApiServer) -> AsyncIterator[KubeClient]:
    async with await apiserver.client() as client:
        await client.create(NODE_CACHES, {"metadata": {"name": NODE}, "spec": {}})
        yield client
        await client.delete(NODE_CACHES, NODE)


async def test_volumes_with_names_of_900_000_characters_hide_no_other_pod(kube: KubeClient) -> None:
    calls = [asked(f"evil-{number}", "evil", "a" * 900_000) for number in range(3)]
    calls += [asked(f"long-{number}", "evil", f"a{number}-" + "a" * 240) for number in range(3000)]
    rows = tuple(map(pending_row, taken(*calls, asked("victim", "vision", "imagenet"))))
    seen = await told(kube, node_status(facts(mounts=rows)))
    assert [row.pod for row in seen.mounts if row.pod_namespace == "vision"] == ["victim"]
    assert seen.mount_count == 3001


@pytest.mark.parametrize("character", ["x", "<", "\u2028"])
async def test_the_largest_status_of_tenants_is_taken_at_once(kube: KubeClient, character: str) -> None:
    status = node_status(facts(**world(3000, 230, 1400, 40, character * 5000)))
    assert await told(kube, status) == status


@pytest.mark.expected_logs("cannot be written now")
async def test_beside_a_spec_that_fills_the_object_a_smaller_status_is_written(kube: KubeClient) -> None:
    await kube.patch(NODE_CACHES, NODE, {"spec": {"leaving": "x" * 1_000_000}})
    status = node_status(facts(**world(3000, 230, 1400, 40, "x" * 5000)))
    seen = await told(kube, status)
    assert {row.pod_namespace for row in seen.mounts} >= {f"few-{number}" for number in range(5)}
    assert seen.left_out > status.left_out


async def test_the_longest_values_that_the_previous_release_could_write_are_taken(kube: KubeClient) -> None:
    long = {"namespace": "n" * 63, "name": "d" * 253, "uid": "u" * 36}
    error = {"reason": "EndpointNotAllowed", "message": "m" * 1024, "temporary": True}
    row = long | {
        "version": "e" * 64,
        "error": error,
        "listing": {
            "id": "l" * 64,
            "error": error,
            "skipped": [{"reason": "PathTooLong", "count": 1, "example": "x" * 200}],
        },
        "retained": ["f" * 64] * 100,
        "older": [{"version": "f" * 64, "error": error}] * 20,
        "warmPaths": {"digest": "d" * 16, "unmatchedPaths": ["p" * 80] * 3},
        "pages": {"request": "r" * 64},
    }
    mount = {
        "volumeId": f"{'n' * 63}/{'d' * 253}#{'u' * 36}",
        "datasetNamespace": "n" * 63,
        "dataset": "d" * 253,
        "podNamespace": "n" * 63,
        "pod": "p" * 253,
        "podUid": "u" * 36,
        "version": "e" * 64,
        "phase": "Pending",
    }
    status = {
        "address": "[2001:db8:ffff:ffff:ffff:ffff:ffff:ffff]:8082",
        "datasets": [row] * 10,
        "mounts": [mount] * 400,
    }
    await kube.patch(NODE_CACHES, NODE, {"status": status}, subresource="status")
    stored = (await kube.get(NODE_CACHES, NODE))["status"]
    assert (stored["datasets"], stored["mounts"]) == (status["datasets"], status["mounts"])
