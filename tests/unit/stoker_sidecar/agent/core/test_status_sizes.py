"""The status of a node stays small, and omitted rows are counted."""

import json

from stoker_api.datasets.dataset_source import Source
from stoker_api.goodput import MOST_ENDED, EndedPod, LastReport
from stoker_api.node_caches.node_dataset import NodeDataset
from stoker_api.node_caches.node_dataset_status import NodeDatasetStatus, NodeError, NodePhase
from stoker_api.node_caches.node_storage import MOST_MOUNTS, NodeMount
from stoker_api.node_caches.node_workload import MOST_WORKLOADS, NodeWorkload
from stoker_api.node_caches.nodecache import NodeCacheSpec
from stoker_sidecar.agent.core.status import is_urgent, node_status
from tests.unit.stoker_sidecar.agent.builders import facts

UID = "5e1c8f0a-91f4-4f3e-8f5f-0d6e3c{:06d}"
WORD = "w" * 40


def planned(number: int) -> NodeDataset:
    return NodeDataset(
        namespace="a-team-of-the-company",
        name=f"a-dataset-with-a-name-{number:04}",
        uid=UID.format(number),
        generation=12,
        source=Source(uri=f"s3://a-bucket-of-the-company/some/folder/{number:04}/"),
        version=f"{number:064x}",
        eager=True,
    )


def here(plan: NodeDataset, error: NodeError | None = None) -> NodeDatasetStatus:
    return NodeDatasetStatus(
        namespace=plan.namespace,
        name=plan.name,
        uid=plan.uid,
        observed_generation=12,
        phase=NodePhase.FAILED if error else NodePhase.WARM,
        version=plan.version,
        files=1_281_167,
        bytes=147_897_477_120,
        warm_files=1_281_167,
        warm_bytes=147_897_477_120,
        fetched_files=1_281_167,
        best_source_bytes_per_second=1_000_000_000,
        error=error,
    )


def mount(number: int) -> NodeMount:
    return NodeMount(
        volume_id=f"csi-{number:064x}",
        dataset_namespace="a-team-of-the-company",
        dataset=f"a-dataset-with-a-name-{number:04}",
        version="d" * 64,
        pod_namespace="a-team-of-the-company",
        pod=f"a-training-job-with-a-name-{number:04}",
        pod_uid=UID.format(number),
    )


def workload(number: int) -> NodeWorkload:
    return NodeWorkload(
        pod=f"ns/{WORD}-{number}", uid=UID.format(number), phase="Training", problem="p" * 256, loss=WORD
    )


def ended(number: int) -> EndedPod:
    return EndedPod(
        pod=f"a-team-of-the-company/{WORD}-{number}",
        uid=UID.format(number),
        job=WORD,
        gpus=8,
        mounted_at="2026-11-23T10:00:00Z",
        ended_at="2026-11-23T10:00:00Z",
        mounted_seconds=86400.5,
        data_bytes=10**14,
        warm_bytes=10**14,
        origin_bytes=10**14,
        peer_bytes=10**14,
        watched_seconds=86400.5,
        stalled_seconds=86400.25,
        stall_source="consumer",
        saved_seconds=86400.5,
        last=LastReport(phase="SaveCheckpoint", epoch=89, epochs=90, step=10**6, loss="0.3141", checkpoint=WORD),
    )


def sizes(count: int, error: NodeError | None = None, mounts: int = 10_000) -> int:
    """Return the bytes of spec and status of a node with ``count`` Datasets and as many pods as possible."""
    plan = tuple(map(planned, range(count)))
    status = node_status(
        facts(
            plan=plan,
            rows={one.uid: here(one, error) for one in plan},
            mounts=tuple(map(mount, range(mounts))),
            workloads=tuple(map(workload, range(MOST_WORKLOADS))),
            ended=tuple(map(ended, range(MOST_ENDED))),
        )
    )
    return len(json.dumps(status.wire())) + len(json.dumps(NodeCacheSpec(datasets=plan).wire()))


def test_a_node_with_25_datasets_and_many_pods_has_a_small_node_cache() -> None:
    assert sizes(25, mounts=40) < 64 * 1024


def test_a_node_with_1000_datasets_has_one_that_the_api_server_takes() -> None:
    """etcd takes 1.5 MiB. Each Dataset is a row, since the operator decides by these rows."""
    assert sizes(1000) < 2**20


def test_1000_datasets_that_fail_at_length_fit_too() -> None:
    assert sizes(1000, NodeError(reason="EndpointUnreachable", message="x" * 1024)) < 1.25 * 2**20


def test_what_is_left_out_is_counted() -> None:
    found = {f"x{number}": ("d",) for number in range(5000)}
    status = node_status(facts(leftovers=frozenset(found), found=found, workload_count=40, ended_left_out=3))
    assert len(status.datasets) == 1001
    assert (status.dataset_count, status.workload_count, status.ended_left_out) == (5001, 40, 3)


def test_volumes_beyond_the_bound_are_counted_and_are_no_reason_to_hurry() -> None:
    some, more = (node_status(facts(mounts=tuple(map(mount, range(count))))) for count in (501, 502))
    assert (len(more.mounts), more.mount_count) == (MOST_MOUNTS, 502)
    assert not is_urgent(some, more)
