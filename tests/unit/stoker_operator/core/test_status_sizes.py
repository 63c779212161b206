"""Statuses stay small in clusters of any size, and omitted entries are counted."""

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from stoker_api.datasets.dataset import Dataset
from stoker_api.datasets.dataset_status import MOST_NODE_ROWS, SkippedKeys
from stoker_api.datasets.warm_paths import WarmPathsStatus, paths_digest
from stoker_api.meta import stored_size
from stoker_api.names import ConditionType
from stoker_api.node_caches.node_dataset_status import ListingResult, NodeDatasetStatus, NodeError, NodePhase
from stoker_api.node_caches.nodecache import NodeCache
from stoker_operator.core.views.conditions import ConditionSet
from tests.unit.stoker_operator.builders import (
    NOW,
    SIZE,
    V1,
    decided,
    listed,
    make_cache,
    make_dataset,
    make_node,
    report,
)
from tests.unit.stoker_operator.builders import given as entry

NODES, DATASETS = 500, 5  # ten times as many nodes as rows of a status
MOST = 64 * 1024  # bytes of a status
MOST_STORED = 256 * 1024  # bytes of a status that nodes fill with arbitrary data
LONG = "x" * 1024  # the longest message that a node may send


def cluster(datasets: int, error: NodeError | None = None) -> tuple[list[Dataset], list[Any]]:
    """Return the Datasets, and all objects of a view. Every node has each Dataset, and reports a long message."""
    found = [listed(make_dataset(f"dataset-{number:02}", cache={"replicas": "all"})) for number in range(datasets)]
    rows: list[tuple[Any, NodeDatasetStatus]] = [
        (entry(one), report(one, SIZE // 2 if error else SIZE, error=error, mode="overlay", bytes_per_second=10**9))
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


def test_a_dataset_on_all_of_500_nodes_has_a_small_status_that_counts_them() -> None:
    found, parts = cluster(DATASETS)
    decision = decided(*parts)
    for dataset in found:
        status = decision.status(dataset.key, "", (), NOW)
        assert size(status) < MOST
        assert (len(status.nodes), status.node_counts) == (MOST_NODE_ROWS, {"Warm": NODES})


def test_a_status_stays_small_if_all_nodes_fail_with_long_messages() -> None:
    error = NodeError(reason="EndpointUnreachable", message=LONG)
    found, parts = cluster(1, error)
    decision = decided(*parts)
    status = decision.status(found[0].key, "", tuple(LONG for _ in range(50)), NOW)
    assert size(status) < MOST
    assert status.node_counts == {str(NodePhase.WARMING): NODES}


@settings(max_examples=20)
@given(
    letter=st.sampled_from(["x", "<", "\x01", "\U0001f600", "é"]),
    length=st.sampled_from([1, 300, 100_000]),
    rows=st.sampled_from([1, 30, 500]),
    nodes=st.sampled_from([1, 55]),
    failed=st.booleans(),
)
def test_any_number_of_long_texts_rows_and_nodes_fits_a_status(
    letter: str, length: int, rows: int, nodes: int, failed: bool
) -> None:
    text = letter * length
    dataset = make_dataset(cache={"replicas": "all"}, warm={"paths": ["a/"]})
    status = {"version": V1, "listingId": "id-1", "listingNode": "n0", "bytes": SIZE, "files": 10}
    dataset = dataset.model_copy(update={"status": dataset.status.model_validate(status)})
    error = NodeError.model_construct(reason=text, message=text, temporary=False)
    few = min(rows, 300_000 // length + 1)
    skipped = tuple(SkippedKeys.model_construct(reason=text, count=1, example=text) for _ in range(few))
    listing = ListingResult.model_construct(
        id="id-1", version="" if failed else V1, skipped=skipped, error=error if failed else None
    )
    part = WarmPathsStatus.model_construct(digest=paths_digest(("a/",)), unmatched=few, unmatched_paths=(text,) * few)
    caches = [
        make_cache(
            f"n{number}",
            (
                entry(dataset, listing_id="id-1" if not number else ""),
                report(dataset, 0, error=error, warm_paths=part, listing=None if number else listing),
            ),
        )
        for number in range(nodes)
    ]
    decision = decided(dataset, *caches, *(make_node(f"n{number}") for number in range(nodes)))
    made = decision.status(dataset.key, text, (text,) * few, NOW)
    assert stored_size(made.wire()) < MOST_STORED


@given(letter=st.sampled_from(["x", "<", "\x01", "\U0001f600"]), length=st.sampled_from([10, 4096, 1_000_000]))
def test_all_conditions_together_stay_within_a_status(letter: str, length: int) -> None:
    conditions = ConditionSet((), 1, NOW)
    for kind in ConditionType:
        conditions.set(kind, False, letter * length, letter * length)
    assert sum(stored_size(one.wire()) for one in conditions.result()) < MOST_STORED
