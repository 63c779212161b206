"""Whom nodes ask: bounded lists that agree with each other, one net, and little that changes with one node."""

import random
from collections.abc import Iterable, Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stoker_operator.core.districts import EVERYTHING, MOST_TOGETHER, HolderNode
from stoker_operator.core.neighbourhoods import Neighbourhood, neighbourhoods

NUMBERS = st.sets(st.integers(1, 60_000), min_size=2, max_size=300)


def _nodes(numbers: Iterable[int], zones: int = 3) -> list[HolderNode]:
    return [HolderNode(f"n{number}", f"10.0.0.1:{number}", f"zone-{number % zones}") for number in numbers]


def _name(address: str) -> str:
    return f"n{address.rpartition(':')[2]}"


def _address(name: str) -> str:
    return f"10.0.0.1:{name[1:]}"


def _group(name: str, one: Neighbourhood) -> tuple[str, ...]:
    return (*one.peers[: one.position], _address(name), *one.peers[one.position :])


@settings(max_examples=50)
@given(NUMBERS)
def test_lists_are_bounded_and_agree_with_each_other(numbers: set[int]) -> None:
    told = neighbourhoods(_nodes(numbers))
    assert told.keys() == {f"n{number}" for number in numbers}
    for name, one in told.items():
        group = _group(name, one)
        assert all(_group(_name(peer), told[_name(peer)]) == group for peer in one.peers)
        assert all(_address(name) in told[_name(link)].links for link in one.links)
        assert not {*one.links} & {*group}
        assert (len(one.peers) < MOST_TOGETHER, len(one.links) <= 12) == (True, True)
        assert all(told[_name(peer)][-2:] == one[-2:] for peer in one.peers)


@settings(max_examples=50)
@given(NUMBERS)
def test_groups_fetch_everything_once(numbers: set[int]) -> None:
    told = neighbourhoods(_nodes(numbers))
    parts = sorted({(one.first, one.width) for one in told.values()})
    ends = [first + width for first, width in parts]
    assert [first for first, _ in parts] == [0, *ends[:-1]]
    assert ends[-1] == EVERYTHING


@settings(max_examples=50)
@given(NUMBERS, st.integers(1, 5))
def test_no_node_fetches_twice_as_much_as_another(numbers: set[int], zones: int) -> None:
    told = neighbourhoods(_nodes(numbers, zones)).values()
    shares = [one.width / (1 + len(one.peers)) for one in told]
    assert max(shares) <= 1.78 * min(shares)


def _steps(told: Mapping[str, Neighbourhood], start: str) -> dict[str, int]:
    found, edge = {start: 0}, [start]
    for name in edge:
        fresh = {_name(one) for one in (*told[name].peers, *told[name].links)} - found.keys()
        found |= dict.fromkeys(fresh, found[name] + 1)
        edge += fresh
    return found


@settings(max_examples=25)
@given(NUMBERS)
def test_every_node_is_reached(numbers: set[int]) -> None:
    told = neighbourhoods(_nodes(numbers))
    assert len(_steps(told, min(told))) == len(numbers)


@pytest.mark.parametrize(("count", "most"), [(500, 4), (5000, 5)])
def test_the_way_from_node_to_node_is_short(count: int, most: int) -> None:
    told = neighbourhoods(_nodes(range(1, count + 1)))
    assert max(_steps(told, "n7").values()) <= most


@pytest.mark.parametrize("zones", [1, 3])
@pytest.mark.parametrize("count", [100, 1000, 5000])
def test_what_changes_with_one_node_does_not_grow_with_their_number(count: int, zones: int) -> None:
    chance, numbers = random.Random(7), list(range(1, count + 1))
    before, changed = neighbourhoods(_nodes(numbers, zones)), []
    for _ in range(10):
        gone = chance.choice(numbers)
        left = [number for number in numbers if number != gone]
        after = neighbourhoods(_nodes(left, zones))
        changed.append(sum(after[name] != before[name] for name in after))
    assert sum(changed) / len(changed) <= 100


def test_most_of_those_whom_a_node_asks_are_in_its_zone() -> None:
    told = neighbourhoods(_nodes(range(1, 1001)))
    asked = [(name, _name(one)) for name, found in told.items() for one in (*found.peers, *found.links)]
    same = sum(int(name[1:]) % 3 == int(one[1:]) % 3 for name, one in asked)
    assert same >= 0.85 * len(asked)


def test_where_racks_are_known_those_of_a_district_are_together() -> None:
    """Of 30 nodes in three racks a group is of one rack and what is left of another."""
    nodes = [one._replace(zone="z", rack=f"rack-{int(one.name[1:]) % 3}") for one in _nodes(range(1, 31))]
    rack_of = {one.address: one.rack for one in nodes}
    told = neighbourhoods(nodes)
    assert all(len({rack_of[one] for one in found.peers}) <= 2 for found in told.values())


def test_up_to_sixteen_nodes_are_one_group_that_fetches_all() -> None:
    told = neighbourhoods(_nodes(range(1, 17)))
    assert {(one.links, one.first, one.width) for one in told.values()} == {((), 0, EVERYTHING)}
    assert {len(one.peers) for one in told.values()} == {15}


@pytest.mark.parametrize("count", [0, 1])
def test_who_is_alone_is_told_of_nobody(count: int) -> None:
    assert neighbourhoods(_nodes(range(1, 1 + count))) == {}
