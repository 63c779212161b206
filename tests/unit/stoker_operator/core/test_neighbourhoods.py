"""Groups of nodes that give each other files: bounded lists, one tree, and little that changes with one node."""

import random
from collections.abc import Iterable, Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stoker_operator.core.neighbourhoods import MOST_TOGETHER, HolderNode, Neighbourhood, neighbourhoods


def _nodes(numbers: Iterable[int], zones: int = 3) -> list[HolderNode]:
    return [HolderNode(f"n{number}", f"10.0.0.1:{number}", f"zone-{number % zones}") for number in numbers]


def _groups(told: Mapping[str, Neighbourhood]) -> dict[str, frozenset[str]]:
    """Return by address who is in the same group."""
    own = {name: f"10.0.0.1:{name[1:]}" for name in told}
    return {own[name]: frozenset({own[name], *one.peers}) for name, one in told.items()}


@settings(max_examples=50)
@given(st.sets(st.integers(1, 60_000), min_size=2, max_size=300))
def test_lists_are_bounded_and_agree_with_each_other(numbers: set[int]) -> None:
    told = neighbourhoods("uid", _nodes(numbers))
    groups = _groups(told)
    for name, one in told.items():
        own = f"10.0.0.1:{name[1:]}"
        assert all(groups[peer] == groups[own] for peer in one.peers)
        assert (*one.peers[: one.position], own, *one.peers[one.position :]) == _order(told, groups[own])
        assert all(own in told[_name(above)].downstream for above in one.upstream)
        assert all(own in told[_name(below)].upstream for below in one.downstream)
        assert (len(one.peers) < MOST_TOGETHER, len(one.upstream) <= 2, len(one.downstream) <= 16) == (True,) * 3
    assert len(numbers) <= MOST_TOGETHER or min(map(len, groups.values())) >= 8


@settings(max_examples=50)
@given(st.sets(st.integers(1, 60_000), min_size=2, max_size=300))
def test_one_group_fetches_from_the_source_and_each_other_one_reaches_it(numbers: set[int]) -> None:
    told = neighbourhoods("uid", _nodes(numbers))
    groups = _groups(told)
    assert len({groups[f"10.0.0.1:{name[1:]}"] for name, one in told.items() if not one.upstream}) == 1
    for name in told:
        at, steps = name, 0
        while told[at].upstream:
            at, steps = _name(told[at].upstream[0]), steps + 1
            assert steps <= len(told)


def _order(told: Mapping[str, Neighbourhood], group: frozenset[str]) -> tuple[str, ...]:
    return tuple(sorted(group, key=lambda address: told[_name(address)].position))


def _name(address: str) -> str:
    return f"n{address.rpartition(':')[2]}"


@pytest.mark.parametrize("count", [100, 1000, 5000])
def test_what_changes_with_one_node_does_not_grow_with_their_number(count: int) -> None:
    chance, numbers = random.Random(7), list(range(1, count + 1))
    before, changed = neighbourhoods("uid", _nodes(numbers)), []
    for _ in range(10):
        gone = chance.choice(numbers)
        left = [number for number in numbers if number != gone]
        after = neighbourhoods("uid", _nodes(left))
        changed.append(sum(after[name] != before[name] for name in after))
    assert sum(changed) / len(changed) <= 100


def test_the_way_to_the_source_is_short_and_few_ask_one_node_of_five_thousand() -> None:
    told = neighbourhoods("uid", _nodes(range(1, 5001)))
    depth: dict[str, int] = {}

    def depth_of(name: str) -> int:
        if name not in depth:
            depth[name] = 1 + depth_of(_name(told[name].upstream[0])) if told[name].upstream else 0
        return depth[name]

    assert max(map(depth_of, told)) <= 25
    assert max(len(one.downstream) for one in told.values()) <= 8


def test_most_of_those_whom_a_node_asks_are_in_its_zone() -> None:
    told = neighbourhoods("uid", _nodes(range(1, 1001)))
    asked = [(name, _name(one)) for name, found in told.items() for one in (*found.peers, *found.upstream)]
    same = sum(int(name[1:]) % 3 == int(one[1:]) % 3 for name, one in asked)
    assert same >= 0.9 * len(asked)


def test_where_racks_are_known_most_of_a_group_stand_in_one() -> None:
    nodes = [one._replace(rack=f"rack-{int(one.name[1:]) // 100}") for one in _nodes(range(1, 1001))]
    site_of = {one.address: (one.zone, one.rack) for one in nodes}
    own = {one.name: one.address for one in nodes}
    told = neighbourhoods("uid", nodes)
    asked = [(own[name], peer) for name, found in told.items() for peer in found.peers]
    assert sum(site_of[one] == site_of[other] for one, other in asked) >= 0.6 * len(asked)


def test_of_another_dataset_other_nodes_come_first() -> None:
    def first(uid: str) -> set[str]:
        return {name for name, one in neighbourhoods(uid, _nodes(range(1, 1001))).items() if not one.upstream}

    assert len({frozenset(first(f"uid-{number}")) for number in range(5)}) > 1


@pytest.mark.parametrize("count", [0, 1])
def test_who_is_alone_is_told_of_nobody(count: int) -> None:
    assert neighbourhoods("uid", _nodes(range(1, 1 + count))) == {}
