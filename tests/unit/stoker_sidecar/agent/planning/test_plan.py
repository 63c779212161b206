"""What a starting agent knows of its Datasets, whether the fetcher or the API server answers first."""

from stoker_api.datasets.dataset_source import Source
from stoker_api.meta import ObjectMeta
from stoker_api.node_caches.node_dataset import NodeDataset
from stoker_api.node_caches.node_dataset_status import NodeDatasetStatus, NodePhase
from stoker_api.node_caches.nodecache import NodeCache, NodeCacheSpec
from stoker_api.node_caches.nodecache_status import NodeCacheStatus
from stoker_sidecar.agent.planning.plan import NodePlan
from stoker_sidecar.wire.fetcher_protocol import Progress

DIGITS = NodeDataset(namespace="vision", name="digits", uid="u1", source=Source(uri="s3://bucket"), version="d2")
WRITTEN = NodeDatasetStatus(
    namespace="vision", name="digits", uid="u1", phase=NodePhase.WARM, version="d2", files=3, retained=("d1",)
)
CACHE = NodeCache(
    metadata=ObjectMeta(name="node-1", generation=1),
    spec=NodeCacheSpec(datasets=(DIGITS,)),
    status=NodeCacheStatus(datasets=(WRITTEN,)),
)
FOUND = Progress(datasets=(), orphans={"u1": ("d1", "d2")})  # before the fetcher receives its configuration


def heard(*words: NodeCache | Progress) -> NodePlan:
    plan = NodePlan()
    for one in words:
        if isinstance(one, Progress):
            plan.take_progress(one)
        else:
            plan.take_node_cache(one)
            plan.set_synced()
    return plan


def test_the_last_status_stands_until_the_fetcher_says_more() -> None:
    assert heard(CACHE, FOUND).rows == {"u1": WRITTEN}


def test_the_last_status_stands_though_the_fetcher_was_quicker_than_the_api_server() -> None:
    assert heard(FOUND, CACHE).rows == {"u1": WRITTEN}


def test_what_is_not_on_the_disk_has_no_row() -> None:
    assert heard(Progress(datasets=()), CACHE).rows == {}


def test_the_fetchers_own_word_is_newer_than_the_last_status() -> None:
    row = WRITTEN.model_copy(update={"retained": ()})
    assert heard(Progress(datasets=(row.wire(),)), CACHE).rows == {"u1": row}


def test_what_was_removed_does_not_come_back_with_the_next_plan() -> None:
    plan = heard(FOUND, CACHE)
    plan.forget("u1")
    plan.take_node_cache(CACHE)
    assert plan.rows == {}
