"""If no reachable node is warm, each set of Datasets is wanted on different nodes, and stays there."""

from collections import Counter
from collections.abc import Mapping, Sequence

import pytest

from stoker_operator.core.views.cluster import NodeView, PodView
from stoker_operator.core.views.resources import Resources
from tests.unit.stoker_operator.clusters import cluster, dataset, held, holding, node
from tests.unit.stoker_operator.releases import NOW, decide_releases, decided_by, filled

NODES = [f"node-{number:02}" for number in range(20)]
SETS = [f"set-{number:03}" for number in range(200)]
EVEN = len(SETS) / len(NODES)


def full(name: str) -> tuple[NodeView, PodView]:
    """Make a node that another tenant's pod fills."""
    running = PodView("other", f"on-{name}", uid=f"on-{name}", node=name, requests=Resources(cpu_milli=4000, pods=1))
    return node(name), running


def asked(nodes: Sequence[NodeView | PodView], sets: Sequence[str] = SETS) -> Mapping[str, frozenset[str]]:
    """Return the wanted nodes by key of the Dataset, with one gated pod per Dataset."""
    waiting = [part for name in sets for part in (dataset(name), held(f"for-{name}", datasets=f"{name}:/data"))]
    return decide_releases(cluster(*nodes, *waiting), NOW).wanted.nodes


def roomy(count: int) -> list[NodeView]:
    return [node(name, slots=100) for name in NODES[:count]]


@pytest.mark.parametrize("nodes", [[part for name in NODES for part in full(name)], roomy(len(NODES))])
def test_many_datasets_ask_each_node_for_at_most_two_and_a_half_times_an_even_share(
    nodes: Sequence[NodeView | PodView],
) -> None:
    counts = Counter(one for wanted in asked(nodes).values() for one in wanted)
    assert counts.total() == len(SETS)
    assert max(counts.values()) <= 2.5 * EVEN


def test_a_dataset_asks_for_the_same_node_again() -> None:
    assert asked(roomy(20), SETS[:50]) == asked(roomy(20)[::-1], SETS[:50])


def test_a_node_more_is_asked_for_its_own_share_and_moves_nothing_else() -> None:
    before, after = asked(roomy(19)), asked(roomy(20))
    moved = {key for key in before if after[key] != before[key]}
    assert {name for key in moved for name in after[key]} == {NODES[19]}
    assert len(moved) <= 2.5 * EVEN


def test_a_warmer_node_is_asked_first_wherever_the_choice_begins() -> None:
    for name in SETS[:20]:
        pod, half = held(datasets=f"{name}:/data"), holding(NODES[7], 0.5, name)
        view = cluster(dataset(name), pod, *roomy(20), half)
        assert decide_releases(view, NOW).wanted.nodes == {f"vision/{name}": {NODES[7]}}


def test_a_node_with_room_is_asked_first_wherever_the_choice_begins() -> None:
    nodes = [part for name in NODES for part in ((node(name),) if name == NODES[7] else full(name))]
    for name in SETS[:20]:
        assert asked(nodes, [name]) == {f"vision/{name}": {NODES[7]}}


def test_a_second_node_is_asked_when_the_first_has_room_for_one_pod_less() -> None:
    pods = [held(name, uid=name) for name in ("p0", "p1")]
    nodes = {name: node(name, slots=2) for name in NODES[:2]}
    gating = filled(cluster(dataset(), *nodes.values(), *pods))
    (asked_first,) = decided_by(gating, NOW).wanted.nodes["vision/imagenet"]
    gating.put_node(asked_first, node(asked_first, slots=1), NOW)
    assert decided_by(gating, NOW).wanted.nodes == {"vision/imagenet": nodes.keys()}
    gating.put_node(asked_first, nodes[asked_first], NOW)
    assert decided_by(gating, NOW).wanted.nodes == {"vision/imagenet": {asked_first}}
