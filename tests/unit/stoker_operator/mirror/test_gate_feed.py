"""Events from the mirror to gating: each change once, and nodes derived from their sidecars' pods."""

from dataclasses import replace
from typing import Any

import pytest

from stoker_operator.core.gating.gating import Gating
from stoker_operator.core.views.cluster import PodView
from stoker_operator.mirror.gate_feed import GateFeed
from stoker_operator.mirror.state import ClusterState
from tests.unit.stoker_operator.builders import make_class, sidecar_pod
from tests.unit.stoker_operator.clusters import dataset, held, node


class Told(Gating):
    """A gating that also records events."""

    def __init__(self) -> None:
        super().__init__()
        self.heard: list[tuple[str, Any]] = []

    def put_dataset(self, key: str, dataset: Any) -> None:
        self.heard.append((key, dataset))
        super().put_dataset(key, dataset)

    def put_node(self, name: str, node: Any, now: float) -> None:
        self.heard.append((name, node))
        super().put_node(name, node, now)

    def put_pod(self, key: str, pod: PodView | None) -> None:
        self.heard.append((key, pod))
        super().put_pod(key, pod)


def sidecar(ready: bool) -> PodView:
    return sidecar_pod(uid="s", ready=ready, not_ready_since=0.0 if ready else 1_760_000_000.0)


class World:
    def __init__(self) -> None:
        self.state = ClusterState("stoker")
        self.feed = GateFeed(self.state, lambda key, pod: pod)

    def told(self) -> dict[str, Any]:
        gating = Told()
        self.feed.drain(gating, 0.0)
        return dict(gating.heard)


@pytest.fixture
def world() -> World:
    return World()


def test_what_was_there_before_is_told() -> None:
    state = ClusterState("stoker")
    state.pods.put("vision/pod", held())
    feed, gating = GateFeed(state, lambda key, pod: pod), Told()
    feed.drain(gating, 0.0)
    assert gating.heard == [("vision/pod", held())]


def test_a_change_is_told_once(world: World) -> None:
    world.state.datasets.put("vision/imagenet", dataset())
    assert world.told() == {"vision/imagenet": dataset()}
    assert world.told() == {}


def test_what_went_is_told(world: World) -> None:
    world.state.pods.put("vision/pod", held(uid="u"))
    world.told()
    world.state.pods.forget("vision/pod", "u")
    assert world.told() == {"vision/pod": None}


def test_a_node_is_ready_for_data_while_its_sidecar_is(world: World) -> None:
    world.state.nodes.put("a", replace(node("a"), sidecar_ready=False))
    assert not world.told()["a"].sidecar_ready
    world.state.pods.put("stoker/s", sidecar(ready=True))
    assert world.told()["a"].sidecar_ready
    world.state.pods.put("stoker/s", sidecar(ready=False))
    silent = world.told()["a"]
    assert not silent.sidecar_ready
    assert silent.sidecar_silent_since == sidecar(ready=False).not_ready_since


def test_no_silence_counts_from_before_the_api_server_answered(world: World) -> None:
    world.state.nodes.put("a", node("a"))
    world.state.pods.put("stoker/s", sidecar(ready=False))
    since = world.told()["a"].sidecar_silent_since
    world.state.heard_since = since + 70.0
    assert world.told()["a"].sidecar_silent_since == since + 70.0


def test_a_class_that_changes_is_a_change_of_the_datasets(world: World) -> None:
    world.state.datasets.put("vision/imagenet", dataset())
    world.told()
    world.state.dataset_classes.put("tenants", make_class(default=True))
    assert "vision/imagenet" in world.told()
