"""Nodes that leave soon: by taints, or cordoned with evicted pods, and until when."""

from dataclasses import replace
from typing import Any

from stoker_api.node_caches.nodecache import NodeCache
from stoker_operator.core.views.cluster import NodeView, PodView, Taint, parse_pod
from stoker_operator.mirror.leaving_nodes import DRAINED
from stoker_operator.mirror.state import ClusterState
from tests.support.cases import cases

CORDONED = NodeView("a", uid="1", schedulable=False)


def cluster(node: NodeView = CORDONED) -> ClusterState:
    state = ClusterState("stoker", leaving_taints=["going", "state=ending"])
    state.nodes.put("a", node)
    return state


def evict(state: ClusterState, node: str = "a") -> PodView:
    pod = PodView("team", "p", uid="p", node=node, phase="Running", deleting=True, evicted=True)
    state.pods.put(pod.key, pod)
    return pod


def tainted(key: str, value: str = "") -> NodeView:
    return NodeView("a", taints=(Taint(key, value, "NoSchedule"),))


def reason(state: ClusterState) -> str:
    return state.snapshot().nodes["a"].leaving


@cases(
    "node, said",
    by_a_taint_of_the_chart=(tainted("going"), "it has the taint going"),
    by_a_taint_with_a_value_of_the_chart=(
        NodeView("a", taints=(Taint("state", "ending", "PreferNoSchedule"),)),
        "it has the taint state",
    ),
    by_our_taint_as_people_set_it=(tainted("stoker.dev/leaving"), "it has the taint stoker.dev/leaving"),
    not_by_another_taint=(tainted("other"), ""),
    not_by_another_value=(tainted("state", "fine"), ""),
    not_by_a_cordon_alone=(CORDONED, ""),
)
def test_a_node_is_about_to_go(node: NodeView, said: str) -> None:
    assert reason(cluster(node)) == said


def test_a_cordoned_node_whose_pods_are_evicted_is_about_to_go() -> None:
    state = cluster()
    state.snapshot()
    evict(state)
    assert reason(state) == DRAINED


def test_the_order_in_which_cordon_and_eviction_are_heard_of_does_not_matter() -> None:
    state = cluster(NodeView("a", uid="1"))
    evict(state)
    assert not reason(state)
    state.nodes.put("a", CORDONED)
    assert reason(state) == DRAINED


def test_it_is_still_about_to_go_when_the_pods_have_gone() -> None:
    state = cluster()
    state.pods.forget(evict(state).key, "p")
    assert reason(state) == DRAINED


def test_a_pod_that_was_evicted_before_the_node_was_cordoned_says_nothing() -> None:
    state = cluster(NodeView("a", uid="1"))
    state.pods.forget(evict(state).key, "p")
    state.nodes.put("a", CORDONED)
    assert not reason(state)


def test_evictions_on_other_nodes_say_nothing_of_this_one() -> None:
    state = cluster()
    evict(state, "b")
    assert not reason(state)


def test_it_stays_after_all_when_it_takes_pods_again_and_a_later_cordon_is_only_a_cordon() -> None:
    state = cluster()
    state.pods.forget(evict(state).key, "p")
    state.nodes.put("a", replace(CORDONED, schedulable=True))
    assert not reason(state)
    state.nodes.put("a", CORDONED)
    assert not reason(state)


def test_a_record_of_a_drain_that_arrives_after_its_end_is_forgotten_with_the_next_write() -> None:
    state = cluster()
    state.pods.forget(evict(state).key, "p")
    state.nodes.put("a", replace(CORDONED, schedulable=True))
    for version, leaving in enumerate((DRAINED, ""), 1):
        meta = {"name": "a", "uid": "c", "resourceVersion": str(version)}
        state.node_caches.put("a", NodeCache.model_validate({"metadata": meta, "spec": {"leaving": leaving}}))
    state.nodes.put("a", CORDONED)
    assert not reason(state)


def test_another_node_of_its_name_is_another_node() -> None:
    state = cluster()
    state.pods.forget(evict(state).key, "p")
    state.nodes.put("a", replace(CORDONED, uid="2"))
    assert not reason(state)


def test_the_next_leader_knows_it_from_the_node_cache() -> None:
    cache = NodeCache.model_validate({"metadata": {"name": "a"}, "spec": {"leaving": DRAINED}})
    for first in (True, False):
        state = ClusterState("stoker")
        tables: list[tuple[Any, Any]] = [(state.nodes, CORDONED), (state.node_caches, cache)]
        for table, row in tables if first else reversed(tables):
            table.put("a", row)
        assert reason(state) == DRAINED


def test_who_listens_is_told_of_the_node() -> None:
    state, told = cluster(), list[str]()
    state.leaving.listen(told.append)
    evict(state)
    assert told == ["a"]


@cases(
    "condition, evicted",
    ({"status": "True", "reason": "EvictionByEvictionAPI"}, True),
    ({"status": "True", "reason": "PreemptionByScheduler"}, False),
    ({"status": "False", "reason": "EvictionByEvictionAPI"}, False),
)
def test_only_the_eviction_api_evicts(condition: dict[str, str], evicted: bool) -> None:
    raw = {"metadata": {"name": "p"}, "status": {"conditions": [{"type": "DisruptionTarget"} | condition]}}
    assert parse_pod(raw).evicted is evicted
