"""What becomes of many NodeCaches is worked out in small steps: a review may wait for each of them."""

from stoker_operator.core.held_states import HeldStates
from stoker_operator.core.kept_entries import KeptEntries
from stoker_operator.core.kept_nodes import KeptNodes
from tests.unit.stoker_operator.clusters import cluster, node


def test_few_nodes_are_one_step() -> None:
    states, view = HeldStates(), cluster(*(node(f"n{number}") for number in range(40)))
    steps = list(KeptNodes(states, KeptEntries(states)).update(view, view.nodes, {}))
    assert len(steps) >= 10
