"""Properties of every release, in any cluster."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from stoker_api.datasets.dataset import SchedulingMode
from stoker_api.names import Reason
from stoker_operator.core.fitting.affinity import may_run
from stoker_operator.core.views.cluster import ClusterView
from tests.unit.stoker_operator.clusters import cluster, dataset, held, holding, node
from tests.unit.stoker_operator.releases import LATE, NOW, decide_releases

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


@settings(max_examples=50)
@given(clusters(), TIMES)
def test_every_held_pod_gets_one_decision(view: ClusterView, now: float) -> None:
    outcome = decide_releases(view, now)
    decided = [*(hold.pod.key for hold in outcome.holds), *(release.pod.key for release in outcome.releases)]
    assert sorted(decided) == sorted(view.pods)


@settings(max_examples=50)
@given(clusters(), TIMES)
def test_a_require_pod_only_goes_to_warm_nodes_that_may_take_it(view: ClusterView, now: float) -> None:
    for release in decide_releases(view, now).releases:
        if release.mode is SchedulingMode.REQUIRE:
            assert release.nodes
            for one in release.nodes:
                assert one.warmth.warm
                assert may_run(release.pod, view.nodes[one.node])


@settings(max_examples=50)
@given(clusters(), TIMES)
def test_no_node_is_promised_more_than_it_has(view: ClusterView, now: float) -> None:
    released = [one for one in decide_releases(view, now).releases if one.reason is Reason.RELEASED]
    nodes = {each.node for one in released for each in one.nodes}
    slots = sum(view.nodes[name].allocatable.cpu_milli for name in nodes) // 1000
    assert len(released) <= slots


@settings(max_examples=50)
@given(clusters(), TIMES)
def test_a_gang_goes_whole_or_not_at_all(view: ClusterView, now: float) -> None:
    outcome = decide_releases(view, now)
    gone = {one.pod.gang for one in outcome.releases if one.pod.gang}
    stayed = {one.pod.gang for one in outcome.holds if one.pod.gang}
    assert not gone & stayed


@settings(max_examples=50)
@given(clusters())
def test_no_prefer_pod_is_held_past_max_wait(view: ClusterView) -> None:
    if view.datasets["vision/imagenet"].spec.scheduling.mode is SchedulingMode.PREFER:
        assert decide_releases(view, LATE).holds == ()


@settings(max_examples=50)
@given(clusters(), TIMES)
def test_a_prefer_pod_is_pinned_only_where_a_node_is_left_over(view: ClusterView, now: float) -> None:
    outcome = decide_releases(view, now)
    pinned = [one for one in outcome.releases if "requiredDuring" in str(one.affinity)]
    for one in pinned:
        if one.mode is SchedulingMode.PREFER:
            room = sum(view.nodes[each.node].allocatable.cpu_milli // 1000 for each in one.nodes)
            assert len(one.nodes) > 1
            assert room > 1
