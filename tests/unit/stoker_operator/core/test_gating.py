"""Who is released, where to, who waits and why, and where data is wanted."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker_api.dataset import DatasetStatus, SchedulingMode
from stoker_api.meta import ObjectMeta
from stoker_api.names import Reason
from stoker_api.release import ReleaseNode, ReleaseRecord
from stoker_operator.core.affinity import may_run
from stoker_operator.core.explain import Explanation
from stoker_operator.core.gating import MOST_NODES, Hold, Outcome, Release, decide_releases
from stoker_operator.core.views import ClusterView, InvalidDataset, PodView
from tests.unit.stoker_operator.clusters import GIB, cluster, dataset, held, holding, node

NOW = 1060.0
LATE = 1000.0 + 601
REQUIRE = {"mode": "Require", "maxWait": "10m"}


def only_release(outcome: Outcome) -> Release:
    assert not outcome.holds
    (release,) = outcome.releases
    return release


def only_hold(outcome: Outcome) -> Hold:
    assert not outcome.releases
    (hold,) = outcome.holds
    return hold


def required_names(release: Release) -> list[str]:
    assert release.affinity is not None
    required = release.affinity["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    return [one["matchFields"][0]["values"][0] for one in required["nodeSelectorTerms"]]


def preferred(release: Release) -> list[tuple[int, str]]:
    assert release.affinity is not None
    terms = release.affinity["nodeAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"]
    return [(one["weight"], one["preference"]["matchFields"][0]["values"][0]) for one in terms]


def test_a_pod_goes_to_the_warm_node_by_name() -> None:
    view = cluster(dataset(), node("a"), node("b"), holding("a"), holding("b", 0.5), held())
    release = only_release(decide_releases(view, NOW))
    assert (release.reason, required_names(release)) == (Reason.RELEASED, ["a"])


def test_the_record_says_how_warm_each_node_was() -> None:
    release = only_release(decide_releases(cluster(dataset(), node("a"), holding("a"), held()), NOW))
    assert [(one.node, one.warmth.percent, one.warmth.total_bytes) for one in release.nodes] == [("a", 100, 2 * GIB)]


def test_a_cold_pod_is_held_with_numbers() -> None:
    view = cluster(dataset(), node("a"), node("b"), holding("a", 0.625, etaSeconds=40), held())
    why = only_hold(decide_releases(view, NOW)).why
    assert why.reason is Reason.WAITING_FOR_DATA
    assert why.sentence == (
        "waiting for vision/imagenet: 0 of 1 nodes warm enough; a 62 % (1.2 GiB of 2.0 GiB), ETA 40s; "
        "released anyway at 00:26:40 UTC (maxWait 10m)"
    )


def test_the_gist_stays_while_nobody_would_care() -> None:
    def detail_key(share: float) -> str:
        return only_hold(
            decide_releases(cluster(dataset(), node("a"), holding("a", share), held()), NOW)
        ).why.detail_key

    assert detail_key(0.61) == detail_key(0.64)
    assert detail_key(0.61) != detail_key(0.71)


def test_a_paused_dataset_says_how_to_go_on_and_is_worth_an_event() -> None:
    def why(paused: bool) -> Explanation:
        view = cluster(dataset(warm={"paused": paused}), node("a"), holding("a", 0.5), held())
        return only_hold(decide_releases(view, NOW)).why

    assert "warming of vision/imagenet is paused: `stoker -n vision resume imagenet`" in why(True).sentence
    assert "paused" not in why(False).sentence
    assert (why(True).detail_key, why(True).coarse_key) != (why(False).detail_key, why(False).coarse_key)


def test_an_unlisted_dataset_is_said_to_be_so() -> None:
    assert (
        "not listed yet"
        in only_hold(decide_releases(cluster(dataset(listed=False), node("a"), held()), NOW)).why.sentence
    )


def test_an_older_version_does_not_count_as_warm() -> None:
    view = cluster(dataset(), node("a"), holding("a", version="e" * 64), held())
    assert only_hold(decide_releases(view, NOW)).why.reason is Reason.WAITING_FOR_DATA


def test_a_node_that_holds_all_that_its_quota_takes_is_warm_enough() -> None:
    view = cluster(dataset(), node("a"), holding("a", 0.5, phase="Full"), held())
    assert required_names(only_release(decide_releases(view, NOW))) == ["a"]


def test_prefer_lets_go_after_max_wait_to_the_warmest() -> None:
    view = cluster(dataset(), node("a"), node("b"), holding("a", 0.5), holding("b", 0.75), held())
    release = only_release(decide_releases(view, LATE))
    assert release.reason is Reason.MAX_WAIT_PASSED
    assert preferred(release) == [(75, "b"), (50, "a")]


def test_prefer_lets_go_after_max_wait_though_nothing_is_warm() -> None:
    release = only_release(decide_releases(cluster(dataset(), node("a"), held()), LATE))
    assert (release.reason, release.affinity) == (Reason.MAX_WAIT_PASSED, None)


def test_require_goes_on_holding_after_max_wait_and_says_so() -> None:
    view = cluster(dataset(scheduling=REQUIRE), node("a"), holding("a", 0.5), held())
    assert "maxWait 10m passed" in only_hold(decide_releases(view, LATE)).why.sentence


def test_a_full_warm_node_holds_the_pod_for_capacity() -> None:
    busy = PodView("vision", "busy", node="a", requests=held().requests, phase="Running")
    view = cluster(dataset(scheduling=REQUIRE), node("a", slots=1), holding("a"), busy, held())
    why = only_hold(decide_releases(view, NOW)).why
    assert (why.reason, "a warm but without room for 1 cpu" in why.sentence) == (Reason.NO_CAPACITY, True)


def test_finished_pods_take_no_room() -> None:
    done = PodView("vision", "done", node="a", requests=held().requests, phase="Succeeded")
    assert only_release(decide_releases(cluster(dataset(), node("a", slots=1), holding("a"), done, held()), NOW))


def test_a_pod_on_its_way_keeps_its_place() -> None:
    record = ReleaseRecord(
        reason="Released",
        message="",
        held_since="",
        released_at="",
        mode="Prefer",
        nodes=(ReleaseNode(name="a", warm_bytes=1, total_bytes=1),),
    )
    underway = held("underway", gates=(), released=record.model_dump_json(by_alias=True))
    view = cluster(dataset(), node("a", slots=1), holding("a"), underway, held())
    assert only_hold(decide_releases(view, NOW)).why.reason is Reason.NO_CAPACITY


def test_two_pods_that_may_share_two_nodes_both_get_both() -> None:
    nodes = [node("a", slots=1), node("b", slots=1)]
    outcome = decide_releases(cluster(dataset(), *nodes, holding("a"), holding("b"), held("p"), held("q")), NOW)
    assert [sorted(required_names(one)) for one in outcome.releases] == [["a", "b"], ["a", "b"]]


def test_the_older_pod_goes_first() -> None:
    view = cluster(dataset(), node("a", slots=1), holding("a"), held("young", created=1010.0), held("old"))
    assert [one.pod.name for one in decide_releases(view, NOW).releases] == ["old"]


@pytest.mark.parametrize(
    "unusable",
    [{"ready": False}, {"schedulable": False}, {"labels": {"zone": "x"}}],
    ids=["not ready", "cordoned", "not selected by the pod"],
)
def test_a_warm_node_that_the_pod_cannot_use_does_not_count(unusable: dict[str, Any]) -> None:
    pod = held(node_selector={"zone": "a"})
    view = cluster(dataset(), node("a", **({"labels": {"zone": "a"}} | unusable)), holding("a"), pod)
    assert "no ready node" in only_hold(decide_releases(view, NOW)).why.sentence


def test_the_annotation_wins_over_the_dataset() -> None:
    view = cluster(dataset(), node("a"), holding("a", 0.1), held(scheduling="Require", max_wait="1s"))
    assert only_hold(decide_releases(view, LATE)).why.sentence.endswith("scheduling Require goes on holding it")


def test_a_pod_whose_dataset_no_longer_holds_goes_as_it_is() -> None:
    release = only_release(decide_releases(cluster(dataset(scheduling={"mode": "None"}), node("a"), held()), NOW))
    assert (release.mode, release.affinity) == (SchedulingMode.NONE, None)


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"datasets": "gone:/data"}, Reason.DATASET_NOT_FOUND),
        ({"namespace": "other", "datasets": "vision/imagenet:/data"}, Reason.ACCESS_NOT_GRANTED),
        ({"datasets": "imagenet:data"}, Reason.INVALID_SPEC),
    ],
)
def test_what_the_user_must_put_right_holds_the_pod(fields: dict[str, Any], reason: Reason) -> None:
    assert (
        only_hold(decide_releases(cluster(dataset(), node("a"), holding("a"), held(**fields)), LATE)).why.reason
        is reason
    )


def test_two_datasets_must_be_warm_on_one_node() -> None:
    pod = held(datasets="imagenet:/a, coco:/b")
    view = cluster(dataset(), dataset("coco"), node("a"), node("b"), holding("a"), holding("b", name="coco"), pod)
    assert only_hold(decide_releases(view, NOW)).why.reason is Reason.WAITING_FOR_DATA


def worker(name: str, **fields: Any) -> PodView:
    return held(name, gang="job", gang_size=2, **fields)


def test_a_gang_waits_until_all_workers_exist() -> None:
    why = only_hold(decide_releases(cluster(dataset(), node("a"), holding("a"), worker("w0")), LATE)).why
    assert (why.reason, "1 of 2 workers" in why.sentence) == (Reason.WAITING_FOR_GANG, True)


def test_a_gang_goes_when_there_is_room_for_all() -> None:
    view = cluster(dataset(), node("a", slots=2), holding("a"), worker("w0"), worker("w1"))
    assert len(decide_releases(view, NOW).releases) == 2


def test_a_gang_without_room_for_all_leaves_the_room_to_others() -> None:
    view = cluster(dataset(), node("a", slots=1), holding("a"), worker("w0"), worker("w1"), held("z", created=1010.0))
    assert [one.pod.name for one in decide_releases(view, NOW).releases] == ["z"]


def test_a_worker_that_replaces_a_failed_one_goes_by_itself() -> None:
    running = worker("w0", gates=(), phase="Running", node="a")
    failed = worker("w1", gates=(), phase="Failed", node="a")
    view = cluster(dataset(), node("a"), holding("a"), running, failed, worker("w1-again"))
    assert [one.pod.name for one in decide_releases(view, NOW).releases] == ["w1-again"]


def test_data_is_wanted_where_held_pods_could_run() -> None:
    view = cluster(dataset(), node("a", labels={"gpu": "y"}), node("b"), held(node_selector={"gpu": "y"}))
    assert decide_releases(view, NOW).wanted == {"vision/imagenet": frozenset({"a"})}


def test_data_is_wanted_on_as_many_nodes_as_the_pods_need() -> None:
    view = cluster(dataset(), node("a", slots=1), node("b", slots=1), node("c", slots=1), held("p"), held("q"))
    assert decide_releases(view, NOW).wanted == {"vision/imagenet": frozenset({"a", "b"})}


def test_data_is_wanted_where_it_is_warming_already() -> None:
    view = cluster(dataset(), node("a"), node("b"), holding("b", 0.2), held())
    assert decide_releases(view, NOW).wanted == {"vision/imagenet": frozenset({"b"})}


def test_data_is_not_wanted_where_the_dataset_must_not_be() -> None:
    view = cluster(dataset(cache={"nodeSelector": {"disk": "ssd"}}), node("a"), held())
    assert decide_releases(view, NOW).wanted == {}


def test_the_next_deadline_is_that_of_the_first_pod() -> None:
    view = cluster(dataset(), node("a"), held("p"), held("q", max_wait="2m"))
    assert decide_releases(view, NOW).next_deadline(NOW) == 60.0


def test_a_large_choice_is_cut_to_a_window() -> None:
    names = [f"n{index:03}" for index in range(120)]
    parts = [part for name in names for part in (node(name, slots=1), holding(name))]
    outcome = decide_releases(cluster(dataset(), *parts, *(held(f"p{index:03}") for index in range(60))), NOW)
    assert len(outcome.releases) == 60
    assert {len(one.nodes) for one in outcome.releases} == {MOST_NODES}


SHARES = st.sampled_from([0.0, 0.5, 1.0])


@st.composite
def clusters(draw: st.DrawFn) -> ClusterView:
    mode = draw(st.sampled_from(["Prefer", "Require"]))
    parts: list[Any] = [dataset(scheduling={"mode": mode, "maxWait": "10m"})]
    for index, share in enumerate(draw(st.lists(SHARES, max_size=4))):
        labels = {"zone": draw(st.sampled_from("ab"))}
        parts += [node(f"n{index}", slots=draw(st.integers(0, 3)), labels=labels), holding(f"n{index}", share)]
    for index in range(draw(st.integers(0, 5))):
        gang = draw(st.sampled_from(["", "g", "h"]))
        size = draw(st.integers(1, 3)) if gang else 0
        selector = draw(st.sampled_from([{}, {"zone": "a"}]))
        parts.append(held(f"p{index}", gang=gang, gang_size=size, node_selector=selector))
    return cluster(*parts)


TIMES = st.sampled_from([NOW, LATE])


@given(clusters(), TIMES)
def test_every_held_pod_gets_one_decision(view: ClusterView, now: float) -> None:
    outcome = decide_releases(view, now)
    decided = [*(hold.pod.key for hold in outcome.holds), *(release.pod.key for release in outcome.releases)]
    assert sorted(decided) == sorted(view.pods)


@given(clusters(), TIMES)
def test_a_require_pod_only_goes_to_warm_nodes_that_may_take_it(view: ClusterView, now: float) -> None:
    for release in decide_releases(view, now).releases:
        if release.mode is SchedulingMode.REQUIRE:
            assert release.nodes
            for one in release.nodes:
                assert one.warmth.warm
                assert may_run(release.pod, view.nodes[one.node])


@given(clusters(), TIMES)
def test_no_node_is_promised_more_than_it_has(view: ClusterView, now: float) -> None:
    released = [one for one in decide_releases(view, now).releases if one.reason is Reason.RELEASED]
    nodes = {name for one in released for name in required_names(one)}
    slots = sum(view.nodes[name].allocatable.cpu_milli for name in nodes) // 1000
    assert len(released) <= slots


@given(clusters(), TIMES)
def test_a_gang_goes_whole_or_not_at_all(view: ClusterView, now: float) -> None:
    outcome = decide_releases(view, now)
    gone = {one.pod.gang for one in outcome.releases if one.pod.gang}
    stayed = {one.pod.gang for one in outcome.holds if one.pod.gang}
    assert not gone & stayed


@given(clusters())
def test_no_prefer_pod_is_held_past_max_wait_unless_its_gang_is_incomplete(view: ClusterView) -> None:
    if view.datasets["vision/imagenet"].spec.scheduling.mode is SchedulingMode.PREFER:
        for hold in decide_releases(view, LATE).holds:
            assert hold.why.reason is Reason.WAITING_FOR_GANG


@pytest.mark.parametrize("wait", ["99999999h", "9" * 400 + "h"])
def test_a_wait_without_end_holds_the_pod_and_says_so(wait: str) -> None:
    pod = held(max_wait=wait)
    hold = only_hold(decide_releases(cluster(dataset(), node("a"), pod), NOW))
    assert "waiting for vision/imagenet" in hold.why.sentence


def test_a_pod_that_cannot_be_worked_out_is_held_with_a_reason_and_stops_no_other() -> None:
    odd = held("odd", affinity="no affinity")
    outcome = decide_releases(cluster(dataset(), holding("a"), node("a"), odd, held("good")), NOW)
    assert [one.pod.name for one in outcome.releases] == ["good"]
    assert only_hold(Outcome(holds=outcome.holds)).why.reason is Reason.INTERNAL_ERROR


def test_a_pod_whose_dataset_is_not_valid_says_why_to_its_own_namespace() -> None:
    meta = ObjectMeta(namespace="vision", name="imagenet")
    invalid = {"vision/imagenet": InvalidDataset(meta, "source.uri gs://b/ is not supported", DatasetStatus())}
    view = replace(cluster(held(), node("a")), invalid_datasets=invalid)
    assert "gs://b/ is not supported" in only_hold(decide_releases(view, NOW)).why.sentence
    other = held(namespace="team", datasets="vision/imagenet:/data")
    view = replace(cluster(other, node("a")), invalid_datasets=invalid)
    assert "does not exist" in only_hold(decide_releases(view, NOW)).why.sentence
