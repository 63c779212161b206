"""A node that is silent for a moment does not cause a second download of its data on another node."""

from dataclasses import replace

import pytest

from stoker_operator.core.gating.releases import Outcome
from stoker_operator.core.views.cluster import NodeView, Taint
from stoker_operator.core.views.node_states import SILENCE
from tests.unit.stoker_operator.clusters import cluster, dataset, held, holding, node
from tests.unit.stoker_operator.releases import decide_releases

NOW = 1030.0
FELL_SILENT = NOW - 5.0
UNREACHABLE = tuple(Taint("node.kubernetes.io/unreachable", "", effect) for effect in ("NoSchedule", "NoExecute"))
SILENT = pytest.mark.parametrize(
    "silent",
    [
        replace(node("a"), ready=False, not_ready_since=FELL_SILENT),
        replace(node("a"), ready=False, not_ready_since=FELL_SILENT, taints=UNREACHABLE),
        replace(node("a"), ready_since=FELL_SILENT, taints=UNREACHABLE),
        replace(node("a"), sidecar_ready=False, sidecar_silent_since=FELL_SILENT),
    ],
    ids=["node", "tainted node", "node that is ready and still tainted", "sidecar"],
)


def decided(silent: NodeView, now: float, other: float = 0.0) -> Outcome:
    """Decide about a pod whose data is at 80 % on the silent node, and partly on another."""
    return decide_releases(cluster(dataset(), silent, node("b"), holding("a", 0.8), holding("b", other), held()), now)


@SILENT
def test_a_held_pod_waits_for_the_node_that_has_its_data(silent: NodeView) -> None:
    outcome = decided(silent, NOW)
    assert (outcome.releases, outcome.wanted.nodes) == ((), {"vision/imagenet": frozenset({"a"})})


@SILENT
def test_it_is_looked_at_again_when_the_node_is_given_up(silent: NodeView) -> None:
    assert decided(silent, NOW).next_deadline(NOW) == SILENCE - 5.0


@SILENT
def test_after_that_the_data_is_wanted_elsewhere(silent: NodeView) -> None:
    assert decided(silent, FELL_SILENT + SILENCE).wanted.nodes == {"vision/imagenet": frozenset({"b"})}


@SILENT
def test_a_node_that_has_as_much_is_not_passed_over(silent: NodeView) -> None:
    assert decided(silent, NOW, other=0.8).wanted.nodes == {"vision/imagenet": frozenset({"b"})}


@SILENT
def test_a_node_without_room_for_the_pod_is_not_waited_for(silent: NodeView) -> None:
    busy = [held(f"busy-{number}", gates=(), node="a", phase="Running") for number in range(4)]
    view = cluster(dataset(), silent, node("b"), holding("a", 0.8), held(), *busy)
    assert decide_releases(view, NOW).wanted.nodes == {"vision/imagenet": frozenset({"b"})}


@SILENT
def test_a_node_that_the_dataset_must_not_be_on_is_not_waited_for(silent: NodeView) -> None:
    chosen = dataset(cache={"nodeSelector": {"disk": "ssd"}})
    view = cluster(chosen, silent, node("b", labels={"disk": "ssd"}), holding("a", 0.8), held())
    assert decide_releases(view, NOW).wanted.nodes == {"vision/imagenet": frozenset({"b"})}


def test_a_silent_node_that_is_for_other_pods_is_not_waited_for() -> None:
    taints = (*UNREACHABLE, Taint("dedicated", "db", "NoSchedule"))
    silent = replace(node("a"), ready=False, not_ready_since=FELL_SILENT, taints=taints)
    assert decided(silent, NOW).wanted.nodes == {"vision/imagenet": frozenset({"b"})}
