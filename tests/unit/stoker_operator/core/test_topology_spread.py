"""Topology spread of replicas: zones for new replicas, and the choice of surplus replicas."""

from collections import Counter
from typing import Any

from hypothesis import given as for_all
from hypothesis import strategies as st

from stoker_api.datasets.dataset import Dataset
from stoker_operator.core.placement.node_roles import Placement, Role
from stoker_operator.core.placement.topology_spreading import NO_DOMAIN, Candidates, TopologySpreading
from stoker_operator.core.views.cluster import NodeView, PodView
from tests.unit.stoker_operator.builders import (
    SIZE,
    decided,
    listed,
    make_cache,
    make_dataset,
    make_holder,
    make_node,
    make_user,
    mount,
)

KEY = "vision/imagenet"
ZONES = st.lists(st.sampled_from(["a", "b", "c", NO_DOMAIN]), max_size=20)


def spread(replicas: Any, action: str = "DoNotSchedule", skew: int = 1) -> Dataset:
    constraint = {"topologyKey": "zone", "maxSkew": skew, "whenUnsatisfiable": action}
    return listed(make_dataset(cache={"replicas": replicas, "topologySpread": constraint}))


def node(name: str, **fields: Any) -> NodeView:
    """Make a node whose zone is the first letter of its name."""
    return make_node(name, labels={"zone": name[0]}, **fields)


def placed(*parts: Any) -> Placement:
    return decided(*parts).plans[KEY].placement


def zones(placement: Placement) -> Counter[str]:
    return Counter(name[0] for name in placement.nodes(Role.REPLICA))


def chosen(zones_of: list[str], most: int, skew: int, *, strict: bool) -> Counter[str]:
    """Choose among nodes, given by their zones. No node has any data."""
    nodes = {str(number): zone for number, zone in enumerate(zones_of)}
    by_zone = {zone: [name for name in nodes if nodes[name] == zone] for zone in zones_of}
    counts = {zone: 0 for zone in by_zone if zone != NO_DOMAIN}
    candidates = Candidates(by_zone, by_zone.__getitem__, int)
    found = TopologySpreading(counts, skew).choose(candidates, most, strict=strict)
    assert len(set(found)) == len(found)
    return Counter(nodes[name] for name in found)


def skew_of(found: Counter[str], zones_of: list[str]) -> int:
    counts = [found[zone] for zone in set(zones_of) - {NO_DOMAIN}]
    return max(counts, default=0) - min(counts, default=0)


@for_all(ZONES, st.integers(0, 25), st.integers(1, 4))
def test_the_skew_is_never_larger_than_asked_for(zones_of: list[str], most: int, skew: int) -> None:
    found = chosen(zones_of, most, skew, strict=True)
    assert skew_of(found, zones_of) <= skew
    assert not found[NO_DOMAIN]


@for_all(ZONES, st.integers(0, 25), st.integers(1, 4))
def test_as_many_are_chosen_as_the_skew_lets_be(zones_of: list[str], most: int, skew: int) -> None:
    counts = Counter(zone for zone in zones_of if zone != NO_DOMAIN)
    fewest = min(counts.values(), default=0)
    possible = sum(min(count, fewest + skew) for count in counts.values())
    assert chosen(zones_of, most, skew, strict=True).total() == min(most, possible)


@for_all(ZONES, st.integers(0, 25), st.integers(1, 4))
def test_anyway_as_many_are_chosen_as_there_are(zones_of: list[str], most: int, skew: int) -> None:
    assert chosen(zones_of, most, skew, strict=False).total() == min(most, len(zones_of))


def test_each_zone_gets_one_before_any_gets_two() -> None:
    nodes = [node(name) for name in ("a1", "a2", "a3", "b1", "c1")]
    assert zones(placed(spread(3), *nodes)) == {"a": 1, "b": 1, "c": 1}
    assert zones(placed(spread(4), *nodes)) == {"a": 2, "b": 1, "c": 1}


def test_rather_fewer_than_a_larger_skew() -> None:
    placement = placed(spread(4), *(node(name) for name in ("a1", "a2", "a3", "b1")))
    assert zones(placement) == {"a": 2, "b": 1}
    assert placement.desired == 4


def test_anyway_is_more_than_the_skew() -> None:
    nodes = [node(name) for name in ("a1", "a2", "a3", "b1")]
    assert zones(placed(spread(4, "ScheduleAnyway"), *nodes)) == {"a": 3, "b": 1}


def test_anyway_prefers_room_to_another_zone() -> None:
    full = make_cache("b1", room=SIZE - 1)
    nodes = [node(name) for name in ("a1", "a2", "b1")]
    assert zones(placed(spread(2, "ScheduleAnyway"), *nodes, full)) == {"a": 2}
    assert zones(placed(spread(2), *nodes, full)) == {"a": 1, "b": 1}


def test_a_node_without_the_label_is_the_last_choice_or_none() -> None:
    nodes = make_node("x"), node("a1")
    assert placed(spread(2), *nodes).nodes(Role.REPLICA) == ("a1",)
    assert placed(spread(2, "ScheduleAnyway"), *nodes).nodes(Role.REPLICA) == ("a1", "x")


def test_nodes_where_pods_use_it_come_first_within_their_zone() -> None:
    dataset = spread(2)
    users = [make_cache(name, mounts=(mount(dataset, name),)) for name in ("a2", "a3")]
    pods = [make_user(dataset, name, name) for name in ("a2", "a3")]
    nodes = [node(name) for name in ("a1", "a2", "a3", "b1")]
    roles = placed(dataset, *nodes, *users, *pods).roles
    assert roles == {"a2": Role.REPLICA, "a3": Role.USER, "b1": Role.REPLICA}


def test_what_is_there_is_not_moved_for_a_zone_that_comes_later() -> None:
    dataset = spread(2)
    placement = placed(
        dataset, node("a1"), node("a2"), node("b1"), make_holder("a1", dataset), make_holder("a2", dataset)
    )
    assert placement.nodes(Role.REPLICA) == ("a1", "a2")


def test_the_last_copy_of_a_zone_stays_when_replicas_are_lowered() -> None:
    dataset = spread(2)
    parts = [*map(node, ("a1", "a2", "b1")), *(make_holder(name, dataset) for name in ("a1", "a2", "b1"))]
    assert placed(dataset, *parts).roles == {"a1": Role.REPLICA, "a2": Role.IDLE, "b1": Role.REPLICA}


def test_a_copy_with_mounts_stays_when_replicas_are_lowered() -> None:
    dataset = listed(make_dataset(cache={"replicas": 1}))
    mounted = make_holder("a2", dataset, mounts=(mount(dataset),))
    parts = [node("a1"), node("a2"), make_holder("a1", dataset), mounted, PodView("vision", "trainer", node="a2")]
    assert placed(dataset, *parts).roles == {"a1": Role.IDLE, "a2": Role.REPLICA}


def test_a_copy_with_mounts_stays_within_its_zone_too() -> None:
    dataset = spread(2)
    mounted = make_holder("a2", dataset, mounts=(mount(dataset),))
    pod = PodView("vision", "trainer", node="a2")
    parts = [*map(node, ("a1", "a2", "b1")), make_holder("a1", dataset), mounted, make_holder("b1", dataset), pod]
    assert placed(dataset, *parts).roles == {"a1": Role.IDLE, "a2": Role.REPLICA, "b1": Role.REPLICA}


def test_the_zone_of_a_node_that_is_about_to_go_gets_the_one_that_takes_its_place() -> None:
    dataset = spread(2)
    parts = [node("a1", leaving="soon"), *map(node, ("a2", "b1", "b2"))]
    placement = placed(dataset, *parts, make_holder("a1", dataset), make_holder("b1", dataset))
    assert placement.nodes(Role.REPLICA) == ("a2", "b1")


def test_what_is_asked_for_and_cannot_be_is_said() -> None:
    dataset = spread(4)
    nodes = [node(name) for name in ("a1", "a2", "a3", "b1")]
    caches = [make_holder(name, dataset) for name in ("a1", "a2", "b1")]
    status = decided(dataset, *nodes, *caches).status(KEY, "", (), 0.0)
    degraded = next(one for one in status.conditions if one.type == "Degraded")
    assert degraded.reason == "NotEnoughNodes"
    assert "cache.topologySpread leaves no other node" in degraded.message
