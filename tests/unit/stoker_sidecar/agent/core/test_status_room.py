"""A node's status has a budget in bytes for any input, and namespaces share it."""

import json
from pathlib import Path

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from stoker_api.meta import Model
from stoker_api.node_caches.node_answer import NodeAnswer
from stoker_api.node_caches.node_storage import NodeMount
from stoker_api.node_caches.nodecache_status import NodeCacheStatus
from stoker_sidecar.agent.core.status import node_status
from stoker_sidecar.agent.core.status_room import MOST_STATUS, fitted, stored_size
from tests.unit.stoker_sidecar.agent.builders import FEW, dataset, facts, world

KUBELET = Path("/var/lib/kubelet")
# Characters that take most bytes in JSON, and plain ones.
CHARACTERS = ["x", "<", "é", "\u2028", "\x01", "\U0001f600"]


def as_stored(status: Model) -> bytes:
    """Encode JSON as Go does."""
    text = json.dumps(status.wire(), ensure_ascii=False, separators=(",", ":"))
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text.encode()


@settings(max_examples=4, suppress_health_check=list(HealthCheck))
@example(requests=3000, length=400, datasets=1400, namespaces=40, character="<", characters=5000)
@example(requests=3000, length=0, datasets=50, namespaces=1, character="\x01", characters=20)
@given(
    requests=st.sampled_from([0, 1, 499, 3000]),
    length=st.integers(0, 400),
    datasets=st.sampled_from([0, 1, 50, 1400]),
    namespaces=st.sampled_from([1, 2, 40]),
    character=st.sampled_from(CHARACTERS),
    characters=st.sampled_from([0, 20, 5000]),
)
def test_a_status_stays_in_its_budget_and_keeps_namespaces_with_few_rows(
    requests: int, length: int, datasets: int, namespaces: int, character: str, characters: int
) -> None:
    status = node_status(facts(**world(requests, length, datasets, namespaces, character * characters)))
    assert len(as_stored(status)) <= MOST_STATUS
    assert NodeCacheStatus.model_validate(status.wire()) == status
    assert {row.pod_namespace for row in status.mounts} >= set(FEW)
    assert {row.namespace for row in status.datasets} >= set(FEW)
    assert status.dataset_count == datasets + len(FEW)


@given(character=st.sampled_from(CHARACTERS), characters=st.integers(0, 1024))
def test_the_measured_size_is_what_the_api_server_stores(character: str, characters: int) -> None:
    status = NodeCacheStatus(modes_message=character * characters)
    assert stored_size(status) == len(as_stored(status))


def test_a_half_character_is_measured_too() -> None:
    assert stored_size(NodeCacheStatus().model_copy(update={"observer": "\udc80"})) > 0


def named(namespace: str, count: int) -> tuple[NodeMount, ...]:
    return tuple(
        NodeMount(volume_id=f"{namespace}-{number}", dataset_namespace=namespace, dataset="d", pod_namespace=namespace)
        for number in range(count)
    )


def test_a_status_that_fits_stays_as_it_is() -> None:
    status = NodeCacheStatus(mounts=named("a", 3))
    assert fitted(status) is status


def test_what_does_not_fit_is_counted_and_the_oldest_rows_stay() -> None:
    status = NodeCacheStatus(mounts=named("a", 100))
    cut = fitted(status, stored_size(status) * 3 // 4)
    assert cut.mounts == status.mounts[: len(cut.mounts)]
    assert cut.left_out == 100 - len(cut.mounts) > 0


def test_one_mount_of_each_dataset_goes_before_rows_of_datasets_and_these_before_further_mounts() -> None:
    _, row = dataset(1, "a", "")
    status = NodeCacheStatus(mounts=named("a", 5), datasets=(row,))
    room = stored_size(NodeCacheStatus()) + stored_size(row) + stored_size(status.mounts[0]) + 30
    cut = fitted(status, room)
    assert (len(cut.mounts), len(cut.datasets)) == (1, 1)


def test_an_answer_of_a_node_is_bounded_in_the_same_way() -> None:
    answer = NodeAnswer(node="n", mounts=named("a", 1000) + named("b", 1))
    cut = fitted(answer, 20_000)
    assert stored_size(cut) <= 20_000
    assert cut.mounts[-1].pod_namespace == "b"
    assert cut.left_out == 1001 - len(cut.mounts)
