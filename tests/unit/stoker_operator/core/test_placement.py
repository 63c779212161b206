"""Placement of Datasets."""

from collections.abc import Mapping
from typing import Any

from hypothesis import given as for_all
from hypothesis import settings
from hypothesis import strategies as st

from stoker_api.datasets.dataset import Dataset
from stoker_api.node_caches.nodecache import NodeCache
from stoker_operator.core.placement.node_roles import Placement, Role
from stoker_operator.core.plans.plan import NodeCacheWrite
from stoker_operator.core.views.cluster import ClusterView, NodeView, Taint
from stoker_operator.core.views.node_states import NODE_GRACE, SILENCE
from tests.support.cases import cases
from tests.unit.stoker_operator.builders import (
    IMAGENET,
    NOW,
    SIZE,
    decide_once,
    decided,
    given,
    listed,
    make_cache,
    make_dataset,
    make_holder,
    make_node,
    make_user,
    make_view,
    mount,
    report,
)


def placement(*parts: Any, **wanted: frozenset[str]) -> Placement:
    return decided(*parts, wanted=wanted).plans["vision/imagenet"].placement


def test_the_wanted_number_of_replicas_is_on_selected_nodes() -> None:
    dataset = make_dataset(cache={"replicas": 2, "nodeSelector": {"gpu": "a100"}})
    nodes = [make_node(name, labels={"gpu": "a100"}) for name in "bcd"]
    placed = placement(dataset, make_node("a"), *nodes)
    assert len(placed.nodes(Role.REPLICA)) == 2
    assert "a" not in placed.roles


def test_all_means_every_selected_node() -> None:
    placed = placement(make_dataset(cache={"replicas": "all"}), *(make_node(name) for name in "abc"))
    assert placed.nodes(Role.REPLICA) == ("a", "b", "c")


def test_no_replicas_means_only_nodes_with_pods() -> None:
    dataset = listed(make_dataset(cache={"replicas": 0}))
    cache = make_cache("b", mounts=(mount(dataset, phase="Pending"),))
    nodes, user = (make_node("a"), make_node("b")), make_user(dataset, "b")
    assert placement(dataset, *nodes, cache, user).roles == {"b": Role.USER}


NODES = (make_node("a"), make_node("b"))
OF_100 = listed(make_dataset(cache={"quota": "100"}))


@cases(
    "parts, nodes",
    on_no_node_that_is_not_ready_or_cordoned=(
        (
            make_dataset(),
            make_node("a", sidecar_ready=False),
            make_node("b", schedulable=False),
            make_node("c", ready=False),
        ),
        "",
    ),
    where_it_is_warm_while_a_better_node_appears=((IMAGENET, *NODES, make_holder("b", IMAGENET, room=0)), "b"),
    where_it_is_warm_while_the_sidecar_restarts=(
        (IMAGENET, make_node("a"), make_node("b", sidecar_ready=False), make_holder("b", IMAGENET)),
        "b",
    ),
    where_most_of_it_fits_if_it_fits_nowhere=(
        (IMAGENET, *NODES, make_cache("a", room=10), make_cache("b", room=20)),
        "b",
    ),
    where_its_quota_fits=((OF_100, *NODES, make_cache("a", room=SIZE - 1), make_cache("b", room=99)), "a"),
)
def test_a_replica_is(parts: tuple[Any, ...], nodes: str) -> None:
    assert placement(*parts).roles == dict.fromkeys(nodes, Role.REPLICA)


def test_a_replica_moves_when_its_node_was_silent_for_long() -> None:
    held = make_holder("b", IMAGENET)
    silent = make_node("b", ready=False, not_ready_since=NOW - NODE_GRACE - 1)
    briefly = make_node("b", ready=False, not_ready_since=NOW - NODE_GRACE + 1)
    assert placement(IMAGENET, make_node("a"), silent, held).nodes(Role.REPLICA) == ("a",)
    assert placement(IMAGENET, make_node("a"), briefly, held).nodes(Role.REPLICA) == ("b",)


def test_a_node_that_fell_silent_a_moment_ago_has_its_replica_and_no_other_fetches_it_again() -> None:
    whole = make_holder("b", IMAGENET)
    lister = make_cache("a", (given(IMAGENET, eager=False), None))
    briefly = make_node("b", ready=False, not_ready_since=NOW - SILENCE + 1)
    long = make_node("b", ready=False, not_ready_since=NOW - SILENCE)
    assert placement(IMAGENET, make_node("a"), lister, briefly, whole).nodes(Role.REPLICA) == ("b",)
    assert placement(IMAGENET, make_node("a"), lister, long, whole).nodes(Role.REPLICA) == ("a",)


def test_nodes_that_held_pods_could_run_on_are_taken_first() -> None:
    placed = placement(make_dataset(), make_node("a"), make_node("b"), imagenet=frozenset({"b"}))
    assert placed.roles == {"b": Role.REPLICA}


def test_a_node_with_room_is_preferred_and_tainted_ones_come_late() -> None:
    taint = Taint("dedicated", "db", "NoSchedule")
    full, tainted = make_cache("a", room=SIZE - 1), make_node("b", taints=(taint,))
    assert placement(IMAGENET, make_node("a"), full, tainted, make_node("c")).roles == {"c": Role.REPLICA}
    assert placement(IMAGENET, make_node("a"), full, tainted).roles == {"b": Role.REPLICA}


def test_an_unwritten_replica_stays_if_another_node_becomes_freer() -> None:
    nodes = make_node("a"), make_node("b"), make_cache("a", room=2 * SIZE), make_cache("b", room=SIZE)

    def roles(*parts: Any, chosen: str) -> Mapping[str, Role]:
        decision = decided(IMAGENET, *parts, chosen={IMAGENET.metadata.uid: frozenset(chosen)})
        return decision.plans["vision/imagenet"].placement.roles

    assert roles(*nodes, chosen="") == {"a": Role.REPLICA}
    assert roles(*nodes, chosen="b") == {"b": Role.REPLICA}
    full = make_node("a"), make_node("b"), make_cache("a", room=2 * SIZE), make_cache("b", room=SIZE - 1)
    assert roles(*full, chosen="b") == {"a": Role.REPLICA}
    cordoned = make_node("b", schedulable=False)
    assert roles(make_node("a"), cordoned, make_cache("b"), chosen="b") == {"a": Role.REPLICA}
    fits_none = make_node("a"), make_node("b"), make_cache("a", room=2), make_cache("b", room=1)
    assert roles(*fits_none, chosen="b") == {"b": Role.REPLICA}


def test_idle_warm_data_stays_until_its_room_is_needed() -> None:
    idle = listed(make_dataset("idle", cache={"replicas": 0}))
    wanted = listed(make_dataset("imagenet", cache={"nodeSelector": {}}))
    roomy = make_holder("a", idle, room=SIZE)
    tight = make_holder("a", idle, room=SIZE - 1)
    kept = decided(idle, wanted, make_node("a"), roomy).plans["vision/idle"].placement
    dropped = decided(idle, wanted, make_node("a"), tight).plans["vision/idle"].placement
    assert (kept.roles, dropped.roles) == ({"a": Role.IDLE}, {})


def test_pinned_idle_data_is_never_dropped() -> None:
    idle = listed(make_dataset("idle", cache={"replicas": 0, "pinned": True}))
    tight = make_holder("a", idle, room=0)
    plans = decided(idle, listed(make_dataset()), make_node("a"), tight).plans
    assert plans["vision/idle"].placement.roles == {"a": Role.IDLE}


def test_a_pod_on_a_node_that_the_selector_leaves_out_reads_through() -> None:
    dataset = listed(make_dataset(cache={"nodeSelector": {"gpu": "yes"}}))
    cache = make_cache("a", mounts=(mount(dataset),))
    decision = decided(dataset, make_node("a"), cache, make_user(dataset, "a"))
    assert decision.plans[dataset.key].placement.roles == {"a": Role.GUEST}
    assert [entry.eager for write in decision.nodes.writes for entry in write.spec.datasets] == [False]


def test_a_deleted_dataset_stays_only_where_pods_use_it() -> None:
    dataset = listed(make_dataset(cache={"replicas": 2}, deletion_timestamp="2026-11-21T10:00:00Z"))
    used = make_holder("a", dataset, mounts=(mount(dataset),))
    assert placement(dataset, make_node("a"), make_node("b"), used, make_holder("b", dataset)).roles == {"a": Role.USER}


# Random clusters: some nodes and Datasets, some of them with data on nodes.
_FLAGS = st.fixed_dictionaries(
    {"ready": st.booleans(), "schedulable": st.booleans(), "sidecar_ready": st.booleans(), "gpu": st.booleans()}
)
_REPLICAS = st.one_of(st.integers(0, 4), st.just("all"))


@st.composite
def clusters(draw: st.DrawFn) -> ClusterView:
    names = [f"n{index}" for index in range(draw(st.integers(1, 5)))]
    datasets = [_drawn_dataset(draw, index) for index in range(draw(st.integers(1, 4)))]
    nodes = [_drawn_node(name, draw(_FLAGS)) for name in names]
    return make_view(*datasets, *nodes, *(_drawn_cache(draw, name, datasets) for name in names))


def _drawn_dataset(draw: st.DrawFn, index: int) -> Dataset:
    selector = {"gpu": "yes"} if draw(st.booleans()) else {}
    cache = {"replicas": draw(_REPLICAS), "nodeSelector": selector, "pinned": draw(st.booleans())}
    return listed(make_dataset(f"d{index}", cache=cache), size=draw(st.integers(0, 2000)))


def _drawn_node(name: str, flags: dict[str, bool]) -> NodeView:
    labels = {"gpu": "yes"} if flags.pop("gpu") else {}
    return make_node(name, labels=labels, not_ready_since=0.0 if flags["ready"] else 1.0, **flags)


def _drawn_cache(draw: st.DrawFn, name: str, datasets: list[Dataset]) -> NodeCache:
    held = [dataset for dataset in datasets if draw(st.booleans())]
    rows = [(given(one, eager=draw(st.booleans())), report(one, warm=draw(st.integers(0, SIZE)))) for one in held]
    return make_cache(name, *rows, room=draw(st.integers(0, 5000)))


@settings(max_examples=50)
@for_all(clusters())
def test_replicas_are_on_selected_nodes_and_never_above_the_wanted_number(view: ClusterView) -> None:
    for key, plan in decide_once(view).plans.items():
        cache = view.datasets[key].spec.cache
        replicas = plan.placement.nodes(Role.REPLICA)
        assert all(cache.node_selector.items() <= dict(view.nodes[name].labels).items() for name in replicas)
        assert isinstance(cache.replicas, str) or len(replicas) <= cache.replicas


@settings(max_examples=50)
@for_all(clusters())
def test_warm_data_on_a_good_node_is_never_moved_to_a_cold_one(view: ClusterView) -> None:
    for key, plan in decide_once(view).plans.items():
        dataset = view.datasets[key]
        for name in plan.placement.nodes(Role.REPLICA):
            fresh = not _warm(view, name, dataset)
            left_out = [
                n for n in view.nodes if _is_good(view, n, dataset) and n not in plan.placement.nodes(Role.REPLICA)
            ]
            assert not (fresh and left_out and _was_not_given(view, name, dataset)), (key, name, left_out)


def _warm(view: ClusterView, name: str, dataset: Dataset) -> int:
    return sum(r.warm_bytes for r in view.node_caches[name].status.datasets if r.uid == dataset.metadata.uid)


def _was_not_given(view: ClusterView, name: str, dataset: Dataset) -> bool:
    return all(entry.uid != dataset.metadata.uid for entry in view.node_caches[name].spec.datasets)


def _is_good(view: ClusterView, name: str, dataset: Dataset) -> bool:
    """Return True if a node is ready, selected, and has warm data of the Dataset."""
    node = view.nodes[name]
    selected = dataset.spec.cache.node_selector.items() <= dict(node.labels).items()
    return node.ready and selected and _warm(view, name, dataset) > 0


@settings(max_examples=50)
@for_all(clusters())
def test_acting_on_decisions_comes_to_rest(view: ClusterView) -> None:
    for step in range(3):  # changes of one pass can free room or a role for the next pass
        view, writes = _acted_on(view, NOW + step)
    assert [(write.node.name, write.spec) for write in writes] == []


def _acted_on(view: ClusterView, now: float) -> tuple[ClusterView, tuple[NodeCacheWrite, ...]]:
    """Return the view after the writes of one pass, before the nodes react, and the writes."""
    writes = decide_once(view, now=now).nodes.writes
    caches = dict(view.node_caches)
    caches |= {one.node.name: caches[one.node.name].model_copy(update={"spec": one.spec}) for one in writes}
    return ClusterView(datasets=view.datasets, nodes=view.nodes, node_caches=caches), writes
