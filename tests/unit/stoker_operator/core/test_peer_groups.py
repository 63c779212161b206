"""The peers of each node: bounded, consistent and connected lists. One node changes few of them."""

import random
from collections.abc import Iterable, Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stoker_operator.core.peers.districts import EVERYTHING, MOST_TOGETHER, HolderNode
from stoker_operator.core.peers.peer_groups import PeerGroup, peer_groups

NUMBERS = st.sets(st.integers(1, 60_000), min_size=2, max_size=300)


def _nodes(numbers: Iterable[int], zones: int = 3) -> list[HolderNode]:
    return [HolderNode(f"n{number}", f"10.0.0.1:{number}", f"zone-{number % zones}") for number in numbers]


def _name(address: str) -> str:
    return f"n{address.rpartition(':')[2]}"


def _address(name: str) -> str:
    return f"10.0.0.1:{name[1:]}"


def _group(name: str, one: PeerGroup) -> tuple[str, ...]:
    return (*one.peers[: one.position], _address(name), *one.peers[one.position :])


@settings(max_examples=50)
@given(NUMBERS)
def test_lists_are_bounded_and_agree_with_each_other(numbers: set[int]) -> None:
    told = peer_groups(_nodes(numbers))
    assert told.keys() == {f"n{number}" for number in numbers}
    for name, one in told.items():
        group = _group(name, one)
        assert all(_group(_name(peer), told[_name(peer)]) == group for peer in one.peers)
        assert all(_address(name) in told[_name(link)].links for link in one.links)
        assert not {*one.links} & {*group}
        assert (len(one.peers) < MOST_TOGETHER, len(one.links) <= 12) == (True, True)
        assert all(told[_name(peer)][3:5] == one[3:5] for peer in one.peers)
        assert one.names == tuple(map(_name, (*one.peers, *one.links)))


@settings(max_examples=50)
@given(NUMBERS)
def test_groups_fetch_everything_once(numbers: set[int]) -> None:
    told = peer_groups(_nodes(numbers))
    parts = sorted({(one.first, one.width) for one in told.values()})
    ends = [first + width for first, width in parts]
    assert [first for first, _ in parts] == [0, *ends[:-1]]
    assert ends[-1] == EVERYTHING


@settings(max_examples=50)
@given(NUMBERS, st.integers(1, 5))
def test_no_node_fetches_twice_as_much_as_another(numbers: set[int], zones: int) -> None:
    told = peer_groups(_nodes(numbers, zones)).values()
    shares = [one.width / (1 + len(one.peers)) for one in told]
    assert max(shares) <= 1.78 * min(shares)


def _steps(told: Mapping[str, PeerGroup], start: str) -> dict[str, int]:
    found, edge = {start: 0}, [start]
    for name in edge:
        fresh = {_name(one) for one in (*told[name].peers, *told[name].links)} - found.keys()
        found |= dict.fromkeys(fresh, found[name] + 1)
        edge += fresh
    return found


@settings(max_examples=25)
@given(NUMBERS)
def test_every_node_is_reached(numbers: set[int]) -> None:
    told = peer_groups(_nodes(numbers))
    assert len(_steps(told, min(told))) == len(numbers)


@pytest.mark.parametrize(("count", "most"), [(40, 3), (500, 4), (2000, 4)])
def test_paths_between_nodes_are_short(count: int, most: int) -> None:
    groups = peer_groups(_nodes(range(1, count + 1)))
    steps = _steps(groups, "n7")
    assert (len(steps), max(steps.values()) <= most) == (count, True)


@pytest.mark.parametrize(("count", "zones"), [(500, 1), (500, 3), (1500, 3)])
def test_removing_a_node_changes_few_lists_in_clusters_of_any_size(count: int, zones: int) -> None:
    chance, numbers = random.Random(7), list(range(1, count + 1))
    before, changed = peer_groups(_nodes(numbers, zones)), []
    for _ in range(10):
        gone = chance.choice(numbers)
        left = [number for number in numbers if number != gone]
        after = peer_groups(_nodes(left, zones))
        changed.append(sum(after[name] != before[name] for name in after))
    assert sum(changed) / len(changed) <= 100


def test_most_peers_are_in_the_zone_of_a_node() -> None:
    told = peer_groups(_nodes(range(1, 1001)))
    asked = [(name, _name(one)) for name, found in told.items() for one in (*found.peers, *found.links)]
    same = sum(int(name[1:]) % 3 == int(one[1:]) % 3 for name, one in asked)
    assert same >= 0.85 * len(asked)


def test_groups_span_few_racks() -> None:
    """With 30 nodes in three racks, a group spans at most two racks."""
    nodes = [one._replace(zone="z", rack=f"rack-{int(one.name[1:]) % 3}") for one in _nodes(range(1, 31))]
    rack_of = {one.address: one.rack for one in nodes}
    told = peer_groups(nodes)
    assert all(len({rack_of[one] for one in found.peers}) <= 2 for found in told.values())


def test_up_to_sixteen_nodes_are_one_group_that_fetches_all() -> None:
    told = peer_groups(_nodes(range(1, 17)))
    assert {(one.links, one.first, one.width) for one in told.values()} == {((), 0, EVERYTHING)}
    assert {len(one.peers) for one in told.values()} == {15}


@pytest.mark.parametrize("count", [0, 1])
def test_a_single_node_has_no_peers(count: int) -> None:
    assert peer_groups(_nodes(range(1, 1 + count))) == {}
