"""Metrics of the files that this node sends to peers, and of those that it refuses."""

from pathlib import Path

from prometheus_client import CollectorRegistry, generate_latest

from stoker_api.meta import ObjectMeta
from stoker_api.node_caches.node_dataset import NodeDataset
from stoker_api.node_caches.nodecache import NodeCache, NodeCacheSpec
from stoker_sidecar.agent.http.observation_metrics import PeerCollector
from stoker_sidecar.agent.http.peers.peer_files import PeerFiles, PeerRefusal
from stoker_sidecar.agent.planning.plan import NodePlan
from stoker_sidecar.volumes.versions_on_disk import CacheFolders
from stoker_sidecar.wire.fetcher_protocol import Failed, InventoryQuery, Reply


async def nothing(_: InventoryQuery) -> Reply:
    return Failed(11, "not open")


def test_bytes_that_were_given_are_counted_by_dataset_and_refusals_by_why(tmp_path: Path) -> None:
    row = NodeDataset.model_validate({"namespace": "v", "name": "d", "uid": "u", "source": {"uri": "s3://b/"}})
    plan = NodePlan()
    plan.take_node_cache(NodeCache(metadata=ObjectMeta(name="n"), spec=NodeCacheSpec(datasets=(row,))))
    files = PeerFiles(plan, CacheFolders([tmp_path]), nothing)
    files.given["u"] += 7
    files.refused[PeerRefusal.BUSY] += 1
    registry = CollectorRegistry()
    registry.register(PeerCollector(plan, files))
    text = generate_latest(registry).decode()
    assert 'stoker_peer_sent_bytes_total{dataset="d",namespace="v"} 7.0' in text
    assert 'stoker_peer_refused_total{reason="Busy"} 1.0' in text
    assert 'stoker_peer_refused_total{reason="Missing"} 0.0' in text
