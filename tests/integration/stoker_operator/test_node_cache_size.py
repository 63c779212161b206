"""The size of a NodeCache in the API server's database, including the managed fields."""

import json
from typing import Any

from stoker_api.datasets.dataset import MountMode
from stoker_api.datasets.dataset_source import Source
from stoker_api.node_caches.node_dataset import NodeDataset, PeerLinks
from stoker_api.node_caches.node_dataset_status import NodeDatasetStatus, NodePhase
from stoker_api.node_caches.nodecache import NodeCache, NodeCacheSpec
from stoker_api.node_caches.nodecache_status import NodeCacheStatus
from stoker_kube.resources import NODE_CACHES
from stoker_operator.core.plans.plan import NodeCacheWrite
from stoker_operator.core.views.cluster import NodeView
from stoker_operator.writes.writer import Writer
from tests.support.apiserver import ApiServer

COUNT = 1000
MOST_BYTES = 1_000_000


def _names(number: int) -> dict[str, Any]:
    return {"namespace": "team-vision", "name": f"imagenet-{number}", "uid": f"{number:036}"}


def _entry(number: int) -> NodeDataset:
    source = Source(
        uri=f"s3://training-data/imagenet-{number}/train/",
        endpoint="https://minio.storage.svc:9000",
        region="eu-central-1",
    )
    hosts = tuple(f"10.244.{host}.{number % 255}:8081" for host in range(3))
    return NodeDataset(
        **_names(number), source=source, generation=3, version="d" * 64, manifest_hosts=hosts, eager=True
    )


def _row(number: int) -> NodeDatasetStatus:
    size = {"files": 1_281_167, "bytes": 147_897_477_120, "warm_files": 1_281_167, "warm_bytes": 147_897_477_120}
    return NodeDatasetStatus.model_validate(
        _names(number) | size | {"phase": NodePhase.WARM, "version": "d" * 64, "mode": MountMode.NATIVE}
    )


async def test_a_node_of_a_thousand_datasets_stays_below_a_megabyte(apiserver: ApiServer) -> None:
    node = NodeView("node-with-a-thousand")
    spec = NodeCacheSpec(datasets=tuple(map(_entry, range(COUNT))))
    status = NodeCacheStatus(datasets=tuple(map(_row, range(COUNT))))
    async with await apiserver.client() as kube:
        await Writer(kube).node_cache(NodeCacheWrite(node, spec, create=True))
        await kube.patch(NODE_CACHES, node.name, {"status": status.wire()}, subresource="status")
        stored = await kube.get(NODE_CACHES, node.name, "")
        await kube.delete(NODE_CACHES, node.name)
    assert NodeCache.model_validate(stored).spec == spec
    assert NodeCache.model_validate(stored).status == status
    assert len(json.dumps(stored, separators=(",", ":"))) < MOST_BYTES


async def test_peers_stand_once_for_who_reads_them_so_and_in_each_row_again_for_who_does_not(
    apiserver: ApiServer,
) -> None:
    hosts = [f"10.245.{host}.17:8081" for host in range(27)]
    told = {"peers": tuple(hosts[:15]), "position": 3, "groups": PeerLinks(links=tuple(hosts[15:]))}
    spec = NodeCacheSpec(datasets=tuple(_entry(number).model_copy(update=told) for number in range(20)))
    node = NodeView("node-with-peers")
    async with await apiserver.client() as kube:
        for shared, times in ((False, 20), (True, 1), (False, 20)):
            read = await Writer(kube).node_cache(NodeCacheWrite(node, spec, True, shared))
            stored = await kube.get(NODE_CACHES, node.name, "")
            assert read.spec == NodeCache.model_validate(stored).spec == spec
            assert json.dumps(stored["spec"]).count(hosts[0]) == times
        await kube.delete(NODE_CACHES, node.name)
