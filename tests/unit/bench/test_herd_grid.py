"""Neighbours of a grid are few, know each other, and lead everywhere in a few steps."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.herd.grid import MOST_ALONG, MOST_NEIGHBOURS, MOST_NODES, neighbours, row_of

SIZES = st.integers(1, 700)


def _steps(start: int, nodes: int) -> dict[int, int]:
    """Return how many steps each node is away, by walking."""
    found, edge = {start: 0}, [start]
    while edge:
        at = edge.pop(0)
        fresh = [other for other in neighbours(at, nodes) if other not in found]
        found |= dict.fromkeys(fresh, found[at] + 1)
        edge += fresh
    return found


@given(nodes=SIZES, data=st.data())
def test_neighbours_know_each_other(nodes: int, data: st.DataObject) -> None:
    position = data.draw(st.integers(0, nodes - 1))
    assert all(position in neighbours(other, nodes) for other in neighbours(position, nodes))


@given(nodes=SIZES, data=st.data())
def test_every_node_is_reached_in_as_many_steps_as_there_are_dimensions(nodes: int, data: st.DataObject) -> None:
    steps = _steps(data.draw(st.integers(0, nodes - 1)), nodes)
    dimensions = next(count for count in range(1, 5) if MOST_ALONG**count >= nodes)
    assert (len(steps), max(steps.values()) <= dimensions) == (nodes, True)


@pytest.mark.parametrize(("nodes", "most"), [(1, 0), (2, 1), (16, 15), (256, 30), (500, 21), (5_000, 30)])
def test_a_node_has_few_neighbours(nodes: int, most: int) -> None:
    assert max(len(neighbours(position, nodes)) for position in range(nodes)) == most


def test_no_cluster_has_nodes_with_more_neighbours_than_a_plan_has_room_for() -> None:
    assert len(neighbours(0, MOST_NODES)) == MOST_NEIGHBOURS


@given(nodes=SIZES, data=st.data())
def test_the_nodes_of_a_row_are_neighbours(nodes: int, data: st.DataObject) -> None:
    position = data.draw(st.integers(0, nodes - 1))
    row = row_of(position, nodes)
    assert {*range(row.first, row.first + row.width)} <= {*neighbours(position, nodes), position}


@pytest.mark.parametrize("nodes", [0, MOST_NODES + 1])
def test_a_grid_has_room_for_so_many_nodes(nodes: int) -> None:
    with pytest.raises(ValueError, match="divide what is cold"):
        neighbours(0, nodes)
