"""Statuses stay small at any size of the cluster, and what is left out of them is counted."""

import json
from typing import Any

from stoker_api.dataset import Dataset
from stoker_api.dataset_status import MOST_NODE_ROWS
from stoker_api.nodecache import NodeCache, NodeDatasetStatus, NodeError, NodePhase
from tests.unit.stoker_operator.builders import (
    NOW,
    SIZE,
    decided,
    given,
    listed,
    make_cache,
    make_dataset,
    make_node,
    report,
)

NODES, DATASETS = 5000, 20
MOST = 64 * 1024  # bytes of a status
LONG = "x" * 1024  # the longest sentence that a node may say


def cluster(datasets: int, error: NodeError | None = None) -> tuple[list[Dataset], list[Any]]:
    """Return the Datasets, and all that there is; every node has each of them, and says so at length."""
    found = [listed(make_dataset(f"dataset-{number:02}", cache={"replicas": "all"})) for number in range(datasets)]
    rows: list[tuple[Any, NodeDatasetStatus]] = [
        (given(one), report(one, SIZE // 2 if error else SIZE, error=error, mode="overlay", bytes_per_second=10**9))
        for one in found
    ]
    first = make_cache("n0000", *rows)
    names = [f"node-with-a-long-name-{number:05}.cluster.internal" for number in range(NODES)]
    caches = [_named(first, name) for name in names]
    return found, [*found, *caches, *(make_node(name) for name in names)]


def _named(cache: NodeCache, name: str) -> NodeCache:
    return cache.model_copy(update={"metadata": cache.metadata.model_copy(update={"name": name})})


def size(status: Any) -> int:
    return len(json.dumps(status.wire()))


def test_a_dataset_on_all_of_5000_nodes_has_a_small_status_that_counts_them() -> None:
    found, parts = cluster(DATASETS)
    decision = decided(*parts)
    for dataset in found:
        status = decision.status(dataset.key, "", (), NOW)
        assert size(status) < MOST
        assert (len(status.nodes), status.node_counts) == (MOST_NODE_ROWS, {"Warm": NODES})


def test_it_stays_small_where_all_nodes_fail_with_long_sentences() -> None:
    error = NodeError(reason="EndpointUnreachable", message=LONG)
    found, parts = cluster(1, error)
    decision = decided(*parts)
    status = decision.status(found[0].key, "", tuple(LONG for _ in range(50)), NOW)
    assert size(status) < MOST
    assert status.node_counts == {str(NodePhase.WARMING): NODES}
