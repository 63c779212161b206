"""Groups of nodes: large enough to lose some, and in one zone if that has enough nodes."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stoker_operator.core.peers.districts import MOST_TOGETHER, HolderNode, node_groups


def _hashed(count: int, seed: int) -> dict[str, int]:
    return {f"n{number}": hash((seed, number)) * 0x9E3779B97F4A7C15 % 2**64 for number in range(count)}


def _nodes(count: int, zones: int) -> list[HolderNode]:
    return [HolderNode(f"n{number}", f"10.0.0.1:{number}", f"zone-{number % zones}") for number in range(count)]


@settings(max_examples=60)
@given(st.integers(17, 400), st.integers(1, 40), st.integers(0, 2**20))
def test_groups_have_eight_to_sixteen_nodes(count: int, zones: int, seed: int) -> None:
    groups = list(node_groups(_nodes(count, zones), _hashed(count, seed)))
    assert {node.name for group in groups for node in group.members} == {f"n{number}" for number in range(count)}
    assert all(8 <= len(group.members) <= MOST_TOGETHER for group in groups)


def test_where_zones_have_enough_nodes_groups_are_of_one() -> None:
    groups = list(node_groups(_nodes(900, 3), _hashed(900, 1)))
    mixed = sum(len({node.zone for node in group.members}) > 1 for group in groups)
    assert mixed <= 0.1 * len(groups)


def test_hashes_that_all_begin_alike_leave_one_district() -> None:
    hashed = {f"n{number}": number for number in range(100)}
    groups = list(node_groups(_nodes(100, 1), hashed))
    parts = [group.width / len(group.members) for group in groups]
    assert max(parts) == pytest.approx(min(parts), rel=1e-6)
