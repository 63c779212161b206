"""The mirror that informers feed."""

from dataclasses import replace
from typing import Any

from stoker_api.node_caches.nodecache import NodeCache
from stoker_operator.core.views.cluster import Owner, PodView
from stoker_operator.mirror.state import ClusterState
from tests.unit.stoker_operator.builders import make_node, sidecar_pod


def cache(version: str, address: str, uid: str = "u") -> NodeCache:
    metadata = {"name": "a", "uid": uid, "resourceVersion": version}
    return NodeCache.model_validate({"metadata": metadata, "status": {"address": address}})


def sidecar(namespace: str = "stoker", **fields: Any) -> PodView:
    return sidecar_pod(namespace=namespace, **{"name": "s"} | fields)


def test_a_node_has_a_ready_sidecar_when_such_a_pod_of_our_namespace_is_ready_on_it() -> None:
    state = ClusterState("stoker")
    state.nodes.put("a", make_node("a", sidecar_ready=False))
    for pod, expected in (
        (sidecar(), True),
        (sidecar(ready=False), False),
        (sidecar("elsewhere"), False),
        (sidecar(node="b"), False),
        (sidecar(deleting=True), False),
        (sidecar(owner=None), False),
        (sidecar(owner=Owner("Job", "copy", "j")), False),
    ):
        state.pods.put("s", pod)
        assert state.snapshot().nodes["a"].sidecar_ready is expected


def test_since_when_a_nodes_sidecar_is_silent_is_known() -> None:
    state = ClusterState("stoker")
    state.nodes.put("a", make_node("a", sidecar_ready=False))
    state.pods.put("old", sidecar(name="old", ready=False, not_ready_since=5.0))
    state.pods.put("new", sidecar(name="new", ready=False, not_ready_since=7.0))
    assert state.snapshot().nodes["a"].sidecar_silent_since == 7.0
    state.pods.put("new", sidecar(name="new"))
    assert state.snapshot().nodes["a"].sidecar_silent_since == 0.0


def test_a_node_answers_where_its_sidecars_pod_does_and_there_still_while_that_is_replaced() -> None:
    state = ClusterState("stoker")
    state.nodes.put("a", make_node("a", address=""))
    seen = [state.snapshot().nodes["a"].address]
    for key, pod in (
        ("new", sidecar(name="new", address="10.0.0.2:8082", ready=False)),
        ("old", sidecar(name="old", address="10.0.0.1:8082")),
        ("old", sidecar(name="old", address="10.0.0.1:8082", deleting=True)),
        ("old", None),
        ("new", None),
        ("evil", sidecar("elsewhere", address="10.0.0.9:8082")),
    ):
        state.pods.put(key, pod)
        seen.append(state.snapshot().nodes["a"].address)
    new, old = "10.0.0.2:8082", "10.0.0.1:8082"
    assert seen == ["", new, old, new, new, new, new]


def test_listeners_hear_of_changes_and_only_of_their_tables() -> None:
    state, heard = ClusterState("stoker"), []
    state.nodes.listen(lambda old, new: heard.append((old, new)))
    node = make_node("a")
    state.nodes.put("a", node)
    state.nodes.put("a", make_node("a"))
    state.pods.put("s", sidecar())
    state.nodes.put("a", None)
    assert heard == [(None, node), (node, None)]


def test_a_state_that_is_told_twice_stays_the_same_object() -> None:
    state = ClusterState("stoker")
    first, again = (replace(sidecar(), uid="u", version=7) for _ in range(2))
    state.pods.put("s", first)
    before = state.pods.snapshot()
    state.pods.put("s", again)
    assert state.pods.snapshot() is before
    assert state.pods.get("s") is first


def test_a_watch_event_that_was_overtaken_by_our_own_write_is_ignored() -> None:
    state = ClusterState("stoker")
    state.node_caches.put("a", cache("11", "new"))
    state.node_caches.put("a", cache("9", "old"))
    assert state.snapshot().node_caches["a"].status.address == "new"


def test_an_object_that_was_made_anew_replaces_the_old_one() -> None:
    state = ClusterState("stoker")
    state.node_caches.put("a", cache("11", "old"))
    state.node_caches.put("a", cache("9", "new", uid="other"))
    assert state.snapshot().node_caches["a"].status.address == "new"


def test_a_snapshot_does_not_change_afterwards() -> None:
    state = ClusterState("stoker")
    before = state.snapshot()
    state.nodes.put("a", make_node("a"))
    assert dict(before.nodes) == {}


def test_the_wish_of_gating_is_told_when_it_differs() -> None:
    state, heard = ClusterState("stoker"), []
    state.listen_wanted(lambda: heard.append(dict(state.wanted)))
    state.set_wanted({"vision/imagenet": frozenset({"a"})})
    state.set_wanted({"vision/imagenet": frozenset({"a"})})
    assert heard == [{"vision/imagenet": frozenset({"a"})}]


def test_who_asks_for_data_replaces_only_what_it_asked_for_itself() -> None:
    state = ClusterState("stoker")
    state.set_wanted({"vision/imagenet": frozenset({"a"})}, {"vision/imagenet": {"a": frozenset({"1"})}})
    state.set_wanted({"vision/imagenet": frozenset({"b"})}, {"vision/imagenet": {"a": frozenset({"2"})}}, "queues")
    assert state.wanted == {"vision/imagenet": frozenset({"a", "b"})}
    assert state.wanted_versions == {"vision/imagenet": {"a": frozenset({"1", "2"})}}
    state.set_wanted({})
    assert state.wanted == {"vision/imagenet": frozenset({"b"})}


def test_a_table_that_was_cleared_takes_the_same_objects_again() -> None:
    state = ClusterState("stoker")
    state.nodes.put("a", make_node("a"))
    state.nodes.clear()
    assert len(state.nodes) == 0
    state.nodes.put("a", make_node("a"))
    assert len(state.nodes) == 1


def test_no_silence_counts_from_before_the_api_server_answered() -> None:
    state = ClusterState("stoker")
    state.nodes.put("a", replace(make_node("a"), ready=False, not_ready_since=1000.0))
    state.pods.put("s", sidecar(ready=False, not_ready_since=1000.0))
    state.heard_since = 1120.0
    node = state.snapshot().nodes["a"]
    assert (node.not_ready_since, node.sidecar_silent_since) == (1120.0, 1120.0)


def test_a_node_that_was_silent_long_before_is_not_taken_for_one_that_could_not_report() -> None:
    state = ClusterState("stoker")
    state.nodes.put("a", replace(make_node("a"), ready=False, not_ready_since=1000.0))
    state.heard_since = 2000.0
    assert state.snapshot().nodes["a"].not_ready_since == 1000.0


def test_a_node_that_falls_silent_afterwards_is_silent_since_then() -> None:
    state = ClusterState("stoker")
    state.nodes.put("a", replace(make_node("a"), ready=False, not_ready_since=1200.0))
    state.heard_since = 1120.0
    assert state.snapshot().nodes["a"].not_ready_since == 1200.0
