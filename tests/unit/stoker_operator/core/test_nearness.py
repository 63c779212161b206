"""The distance between nodes, from their labels."""

from hypothesis import given
from hypothesis import strategies as st

from stoker_operator.core.peers.districts import HolderNode
from stoker_operator.core.peers.peer_groups import (
    Distance,
    NodeSite,
    distance,
    near_peer_groups,
    peer_groups,
    site_by,
    with_distances,
)
from tests.support.cases import cases

ZONE = "topology.kubernetes.io/zone"
SITES = st.builds(NodeSite, st.sampled_from(["", "z1", "z2"]), st.sampled_from(["", "r1", "r2"]))


@cases(
    "one, other, expected",
    (("z1", "r1"), ("z1", "r1"), Distance.SAME_RACK),
    (("z1", "r1"), ("z1", "r2"), Distance.SAME_ZONE),
    (("z1", "r1"), ("z2", "r1"), Distance.ELSEWHERE),
    (("z1", ""), ("z1", ""), Distance.SAME_ZONE),
    (("", "r1"), ("", "r1"), Distance.SAME_RACK),
    (("", ""), ("", ""), Distance.SAME_ZONE),
    (("z1", ""), ("", ""), Distance.ELSEWHERE),
)
def test_a_rack_is_one_of_its_zone(one: tuple[str, str], other: tuple[str, str], expected: Distance) -> None:
    assert distance(NodeSite(*one), NodeSite(*other)) is expected


@given(SITES, SITES)
def test_it_is_as_far_there_as_back(one: NodeSite, other: NodeSite) -> None:
    assert distance(one, other) is distance(other, one)


@cases(
    "labels, rack_label, site",
    by_zone_alone_without_a_label_of_racks=({ZONE: "z1", "rack": "r1", "": "r2"}, "", NodeSite("z1")),
    by_the_label_that_the_administrator_names=(
        {ZONE: "z1", "example.com/rack": "r1"},
        "example.com/rack",
        NodeSite("z1", "r1"),
    ),
    by_values_cut_to_the_length_of_a_label=(
        {ZONE: "z" * 1000, "rack": "r" * 1000},
        "rack",
        NodeSite("z" * 63, "r" * 63),
    ),
)
def test_a_site_is_read(labels: dict[str, str], rack_label: str, site: NodeSite) -> None:
    assert site_by(labels, rack_label) == site


@given(st.lists(SITES, min_size=2, max_size=40))
def test_each_is_told_the_distance_of_all_whom_it_asks_or_that_they_are_alike(sites: list[NodeSite]) -> None:
    nodes = [HolderNode(f"n{at}", f"10.0.0.1:{at + 1}", *site) for at, site in enumerate(sites)]
    site_of = {node.address: site for node, site in zip(nodes, sites, strict=True)}
    for name, group in with_distances(peer_groups(nodes), nodes).items():
        asked = (*group.peers, *group.links)
        far = [distance(sites[int(name[1:])], site_of[one]) for one in asked]
        assert list(group.distances) == (far if len(set(far)) > 1 else [])


def test_where_nothing_is_known_nobody_is_told_anything() -> None:
    nodes = [HolderNode(f"n{at}", f"10.0.0.1:{at + 1}") for at in range(40)]
    told = peer_groups(nodes)
    assert with_distances(told, nodes) is told


def test_datasets_on_the_same_nodes_share_what_these_are_told() -> None:
    nodes = [HolderNode(f"n{at}", f"10.0.0.1:{at + 1}") for at in range(40)]
    assert near_peer_groups(nodes) is near_peer_groups(list(nodes))


def test_a_node_that_has_another_address_is_told_of_anew() -> None:
    nodes = [HolderNode(f"n{at}", f"10.0.0.1:{at + 1}") for at in range(4)]
    moved = [nodes[0]._replace(address="10.0.0.2:1"), *nodes[1:]]
    assert "10.0.0.2:1" in near_peer_groups(moved)["n1"].peers
