"""Nodes with their sidecars' reports. Unchanged nodes keep the same object."""

from stoker_operator.core.views.cluster import NodeView
from stoker_operator.mirror.state import ClusterState
from tests.unit.stoker_operator.builders import sidecar_pod


def cluster() -> ClusterState:
    state = ClusterState("stoker")
    for node in "ab":
        state.nodes.put(node, NodeView(node, uid=node))
        state.pods.put(f"stoker/s-{node}", sidecar_pod(node))
    return state


def test_a_snapshot_is_the_same_object_while_nothing_changes() -> None:
    state = cluster()
    before, after = state.snapshot(), state.snapshot()
    assert before.nodes is after.nodes
    assert before.pods is after.pods


def test_a_change_of_one_node_leaves_the_others_the_objects_that_they_were() -> None:
    state = cluster()
    before = state.snapshot().nodes
    state.nodes.put("a", NodeView("a", uid="a", schedulable=False))
    after = state.snapshot().nodes
    assert (after["a"].schedulable, after["a"].sidecar_ready) == (False, True)
    assert after["b"] is before["b"]


def test_a_sidecar_that_is_no_longer_ready_is_told_of_its_node() -> None:
    state = cluster()
    state.snapshot()
    state.pods.put("stoker/s-a", sidecar_pod("a", ready=False, not_ready_since=5.0))
    after = state.snapshot().nodes
    assert (after["a"].sidecar_ready, after["a"].sidecar_silent_since, after["b"].sidecar_ready) == (False, 5.0, True)


def test_a_pod_with_the_sidecars_label_in_another_namespace_is_none() -> None:
    state = ClusterState("stoker")
    state.nodes.put("a", NodeView("a"))
    state.pods.put("team/s-a", sidecar_pod("a", namespace="team"))
    assert not state.snapshot().nodes["a"].sidecar_ready
