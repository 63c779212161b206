"""The rows of volumes in a node's status if not all of them fit."""

from stoker_api.node_caches.node_storage import MountPhase, NodeMount
from stoker_sidecar.agent.core.status_room import told_mounts


def volume(number: int, namespace: str = "a", dataset: str = "d", version: str = "v") -> NodeMount:
    return NodeMount(
        volume_id=f"{namespace}-{number}",
        dataset_namespace="data",
        dataset=dataset,
        version=version,
        pod_namespace=namespace,
        phase=MountPhase.MOUNTED,
    )


def test_all_are_told_in_their_order_while_there_is_room() -> None:
    rows = [volume(number) for number in range(3)]
    assert told_mounts(rows, most=3) == tuple(rows)


def test_one_of_each_version_comes_before_a_second_of_any() -> None:
    rows = [*(volume(number) for number in range(100)), volume(100, version="w"), volume(101, dataset="e")]
    assert {(row.dataset, row.version) for row in told_mounts(rows, most=3)} == {("d", "v"), ("d", "w"), ("e", "v")}


def test_a_question_is_told_beside_what_is_mounted() -> None:
    asks = volume(100).model_copy(update={"phase": MountPhase.PENDING})
    assert asks in told_mounts([*(volume(number) for number in range(100)), asks], most=2)


def test_a_namespace_with_thousands_of_versions_leaves_room_for_others() -> None:
    rows = [*(volume(number, version=str(number)) for number in range(1000)), volume(0, namespace="b")]
    assert sum(row.pod_namespace == "b" for row in told_mounts(rows, most=10)) == 1
