"""The parts of a simulated cluster: what played sidecars say, what metrics say, what is seen of Datasets and pods."""

import json
from typing import Any

import pytest

from bench.simulation import shape
from bench.simulation.operator_process import is_quiet
from bench.simulation.played_node import BYTES, Pace, PlayedNode, nonsense, version_of
from bench.simulation.reviews import review_of
from bench.simulation.samples import Sample, by_label, parse, quantile, total, worst_bucket
from bench.simulation.shape import Temper
from bench.simulation.sightings import SeenDataset, SeenPod, look_at, seen_dataset
from stoker_api import names
from stoker_api.nodecache import NodeCache, NodeCacheStatus, NodeDatasetStatus, NodePhase
from stoker_operator.core.catalog import CatalogEntry
from stoker_operator.webhook.review import Result, review

PACE = Pace(listing=1.0, warming=4.0)
UID = "0f0f"
VERSION = version_of(UID)


def plan(generation: int = 1, **entry: Any) -> NodeCache:
    source = {"uri": "s3://bench/set/"}
    row = {"namespace": "training", "name": "set", "uid": UID, "source": source, "eager": True} | entry
    metadata = {"name": "kwok-00000", "generation": generation}
    return NodeCache.model_validate({"metadata": metadata, "spec": {"datasets": [row]}})


def played(temper: Temper = Temper.HONEST, **entry: Any) -> PlayedNode:
    node = PlayedNode("kwok-00000", temper, PACE)
    node.take(plan(**entry), 100.0)
    return node


def row(node: PlayedNode, now: float) -> NodeDatasetStatus:
    status = node.status(now, None)
    assert status is not None
    return status.datasets[0]


def test_a_listing_is_answered_when_its_time_is_over() -> None:
    node = played(listingId="abc-1")
    assert row(node, 100.9).listing is None
    answer = row(node, 101.0).listing
    assert answer is not None
    assert (answer.id, answer.version) == ("abc-1", VERSION)


def test_a_version_warms_in_the_time_that_it_takes() -> None:
    node = played(version=VERSION)
    found = [(row(node, now).phase, row(node, now).warm_bytes) for now in (100.0, 102.0, 104.0)]
    assert found == [(NodePhase.WARMING, 0), (NodePhase.WARMING, BYTES // 2), (NodePhase.WARM, BYTES)]


def test_a_slow_sidecar_takes_five_times_as_long() -> None:
    node = played(Temper.SLOW, version=VERSION)
    assert [row(node, now).phase for now in (104.0, 120.0)] == [NodePhase.WARMING, NodePhase.WARM]


def test_a_silent_sidecar_says_nothing() -> None:
    assert played(Temper.SILENT, version=VERSION).status(104.0, None) is None


def test_a_paused_dataset_does_not_warm_until_it_goes_on() -> None:
    node = played(version=VERSION, paused=True)
    assert row(node, 200.0).phase is NodePhase.IDLE
    node.take(plan(generation=2, version=VERSION), 200.0)
    assert [row(node, now).phase for now in (203.0, 204.0)] == [NodePhase.WARMING, NodePhase.WARM]


def test_another_plan_begins_nothing_anew() -> None:
    node = played(version=VERSION)
    assert node.take(plan(generation=2, version=VERSION, priority=1), 104.0)
    assert row(node, 104.0).phase is NodePhase.WARM


def test_the_same_plan_is_no_change() -> None:
    assert not played(version=VERSION).take(plan(version=VERSION), 101.0)


def test_what_is_lost_is_warm_again_a_second_later() -> None:
    node = played(version=VERSION)
    assert node.lose(110.0)
    assert [row(node, now).phase for now in (110.0, 111.0)] == [NodePhase.WARMING, NodePhase.WARM]


def test_nothing_can_be_lost_before_it_is_there() -> None:
    assert not played(version=VERSION).lose(103.0)


def test_a_disk_has_less_room_and_then_as_much_as_before() -> None:
    node, room = played(version=VERSION), []
    for _ in range(3):
        status = node.status(110.0, None)
        assert status is not None
        room.append(status.available_bytes)
        node.shift(1_000)
    assert room == [room[0], room[0] - 1_000, room[0]]


def test_a_node_is_busy_until_nothing_moves_by_itself() -> None:
    node = played(version=VERSION)
    assert (node.is_busy(103.0), node.settles(103.0)) == (True, 1.0)
    assert (node.is_busy(104.0), node.settles(104.0)) == (False, None)


def test_half_of_the_nonsense_is_no_status_and_the_other_half_is_one() -> None:
    def fits(number: int) -> bool:
        try:
            NodeCacheStatus.model_validate(nonsense(number, "n"))
        except ValueError:
            return False
        return True

    assert [fits(number) for number in range(8)] == [False] * 4 + [True] * 4


def test_of_fifty_nodes_three_behave_badly_one_in_each_way() -> None:
    tempers = [shape.temper(index) for index in range(50)]
    assert [tempers.count(temper) for temper in (Temper.SLOW, Temper.SILENT, Temper.WRONG)] == [1, 1, 1]
    assert shape.honest(50) == 47


def test_a_node_is_known_by_its_name() -> None:
    assert shape.node_index(shape.node_name(4321)) == 4321


def test_a_review_of_the_bench_is_one_that_the_webhook_injects() -> None:
    catalog = {f"{shape.WORK}/set": CatalogEntry(shape.WORK, "set", version=VERSION)}
    assert review(json.dumps(review_of("set")).encode(), catalog).result is Result.INJECTED


METRICS = """\
# HELP wait_seconds Time.
wait_seconds_bucket{clock="cpu",le="0.1"} 5.0
wait_seconds_bucket{clock="cpu",le="0.5"} 6.0
wait_seconds_bucket{clock="cpu",le="+Inf"} 6.0
wait_seconds_bucket{clock="wall",le="+Inf"} 9.0
other_total 3.0
writes_total{kind="Pod",verb="patch"} 2.0
writes_total{kind="Node",verb="patch"} 1e+01
"""


def bucket(edge: str, value: float) -> Sample:
    return Sample("wait_seconds_bucket", {"clock": "cpu", "le": edge}, value)


def test_metrics_are_read_by_their_names() -> None:
    found = parse(METRICS, ("writes_total",))
    assert (len(found), total(found, "writes_total")) == (2, 12.0)
    assert total(found, "writes_total", lambda labels: labels["kind"] == "Pod") == 2.0


def test_values_are_summed_by_what_a_label_says() -> None:
    found = [*parse(METRICS, ("writes_total",)), Sample("writes_total", {"kind": "Pod", "verb": "create"}, 3.0)]
    assert by_label(found, "writes_total", "kind") == {"Pod": 5, "Node": 10}


@pytest.mark.parametrize(
    ("before", "edge"),
    [
        ([], 0.5),
        ([bucket("0.1", 4.0), bucket("0.5", 5.0), bucket("+Inf", 5.0)], 0.1),
        ([bucket("0.1", 5.0), bucket("0.5", 6.0), bucket("+Inf", 6.0)], 0.0),
        ([bucket("0.1", 5.0), bucket("0.5", 6.0), bucket("+Inf", 5.0)], float("inf")),
    ],
    ids=["all of them", "a short one", "none", "a very long one"],
)
def test_the_longest_observation_is_known_by_its_bucket(before: list[Sample], edge: float) -> None:
    after = parse(METRICS, ("wait_seconds_bucket",))
    assert worst_bucket(before, after, "wait_seconds", lambda labels: labels["clock"] == "cpu") == edge


@pytest.mark.parametrize(("share", "value"), [(0.5, 50.0), (0.99, 99.0), (1.0, 100.0), (0.0, 1.0)])
def test_a_quantile_is_one_of_the_values(share: float, value: float) -> None:
    assert quantile([float(number) for number in range(1, 101)], share) == value


def test_nothing_has_no_quantile() -> None:
    with pytest.raises(ValueError, match="nothing"):
        quantile([], 0.5)


@pytest.mark.parametrize(
    ("looks", "quiet"),
    [
        ([(0.0, 0.0), (0.5, 0.0)], False),
        ([(0.0, 0.0), (0.5, 0.0), (1.0, 0.05)], True),
        ([(0.0, 0.0), (0.5, 0.0), (1.0, 0.30)], False),
        ([(0.0, 0.0), (1.0, 0.9), (2.0, 0.95)], True),
    ],
    ids=["too short", "quiet", "busy", "quiet since"],
)
def test_quiet_is_who_took_little_for_a_second(looks: list[tuple[float, float]], quiet: bool) -> None:
    assert is_quiet(looks) is quiet


def test_a_dataset_is_seen_by_its_warm_nodes() -> None:
    nodes = [{"name": "a", "phase": "Warm"}, {"name": "b", "phase": "Warming"}]
    seen = seen_dataset({"status": {"phase": "Warming", "warmNodes": "1/3", "nodes": nodes, "version": VERSION}})
    assert seen == SeenDataset("Warming", 1, frozenset({"a"}), listed=True)


def test_a_dataset_without_a_status_is_nowhere() -> None:
    assert seen_dataset({}) == seen_dataset({"status": {"warmNodes": ""}})


def test_a_pod_is_held_then_released_then_bound() -> None:
    seen = SeenPod()
    held: dict[str, Any] = {"metadata": {}, "spec": {"schedulingGates": [{"name": names.GATE_WARM}]}}
    released: dict[str, Any] = {"metadata": {"annotations": {names.ANNOTATION_RELEASED: "{}"}}, "spec": {}}
    for now, raw in enumerate((held, released, released | {"spec": {"nodeName": "a"}}), start=1):
        look_at(seen, raw, float(now))
    assert seen == SeenPod(injected=True, gated=True, ungated=2.0, released=2.0, bound=3.0, node="a")


def test_a_pod_that_stoker_has_nothing_to_do_with_is_ungated_and_not_released() -> None:
    seen, plain = SeenPod(), shape.gated_pod("plain")
    look_at(seen, plain, 1.0)
    look_at(seen, plain | {"spec": plain["spec"] | {"schedulingGates": None}}, 2.0)
    assert seen == SeenPod(gated=True, ungated=2.0)


def test_a_pod_without_an_answer_of_the_operator_is_not_released() -> None:
    seen = SeenPod()
    look_at(seen, {"metadata": {}, "spec": {"nodeName": "a"}}, 1.0)
    assert (seen.injected, seen.released) == (False, None)
