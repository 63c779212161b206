"""Pods do not wait for data that is never warmed. Pods that a user released wait for nothing."""

from typing import Any

import pytest

from stoker_api import names
from stoker_api.datasets.dataset import Dataset
from stoker_api.meta import Condition
from stoker_api.names import ConditionType, Reason
from stoker_operator.core.gating.releases import Outcome
from stoker_operator.core.views.cluster import PodView
from tests.support.cases import cases
from tests.unit.stoker_operator.clusters import cluster, dataset, held, holding, node
from tests.unit.stoker_operator.releases import (
    NOW,
    REQUIRE,
    decide_releases,
    decided_by,
    filled,
    only_hold,
    only_release,
    preferred,
)

WARM = ConditionType.WARM


def saying(one: Dataset, status: str, reason: str, message: str = "") -> Dataset:
    """Return a Dataset with this condition Warm."""
    since = "2026-01-01T00:00:00Z"
    said = Condition(type=WARM, status=status, reason=reason, message=message, last_transition_time=since)
    return one.model_copy(update={"status": one.status.model_copy(update={"conditions": (said,)})})


def requested(one: Dataset) -> Dataset:
    """Return a Dataset for which a user ran `stoker warm`."""
    annotations = {names.ANNOTATION_WARM_REQUESTED: "2026-01-01T00:00:00Z"}
    return one.model_copy(update={"metadata": one.metadata.model_copy(update={"annotations": annotations})})


def manual(name: str = "imagenet", **spec: Any) -> Dataset:
    return dataset(name, warm={"policy": "Manual"}, **spec)


def paused(**spec: Any) -> Dataset:
    return dataset(warm={"paused": True}, **spec)


def over_quota(**spec: Any) -> Dataset:
    return saying(dataset(**spec), "False", Reason.NAMESPACE_QUOTA_EXCEEDED, "the quota is used up")


UNWARMED = [
    (
        manual,
        Reason.MANUAL,
        "warm.policy of vision/imagenet is Manual: nothing is fetched until `stoker -n vision warm imagenet`",
    ),
    (paused, Reason.PAUSED, "warming of vision/imagenet is paused: `stoker -n vision resume imagenet`"),
    (over_quota, Reason.NAMESPACE_QUOTA_EXCEEDED, "vision/imagenet: the quota is used up"),
]


@pytest.mark.parametrize(("make", "reason", "sentence"), UNWARMED)
def test_a_pod_that_prefers_warm_nodes_is_released_at_once(make: Any, reason: Reason, sentence: str) -> None:
    release = only_release(decide_releases(cluster(make(), node("a"), holding("a", 0.3), held()), NOW))
    assert (release.reason, preferred(release)) == (reason, [(30, "a")])
    assert release.sentence == f"released before vision/imagenet is warm: {sentence}"


@pytest.mark.parametrize(("make", "reason", "sentence"), UNWARMED)
def test_a_pod_that_requires_them_is_held_with_cause_and_command(make: Any, reason: Reason, sentence: str) -> None:
    why = only_hold(decide_releases(cluster(make(scheduling=REQUIRE), node("a"), held()), NOW)).why
    assert why.reason is reason
    assert why.sentence.startswith(f"waiting for vision/imagenet: {sentence}; scheduling Require holds it")


@pytest.mark.parametrize(("make", "reason", "sentence"), UNWARMED)
def test_a_node_that_is_warm_already_takes_the_pod(make: Any, reason: Reason, sentence: str) -> None:
    release = only_release(decide_releases(cluster(make(), node("a"), node("b"), holding("b"), held()), NOW))
    assert (release.reason, [one.node for one in release.nodes]) == (Reason.RELEASED, ["b"])


@pytest.mark.parametrize(("make", "reason", "sentence"), UNWARMED)
def test_a_warm_node_without_room_is_waited_for(make: Any, reason: Reason, sentence: str) -> None:
    busy = PodView("vision", "busy", node="a", requests=held().requests, phase="Running")
    view = cluster(make(), node("a", slots=1), node("b"), holding("a"), busy, held())
    assert only_hold(decide_releases(view, NOW)).why.reason is Reason.NO_CAPACITY


@cases(
    "one",
    Manual_and_asked_for=requested(manual()),
    OnDemand=dataset(warm={"policy": "OnDemand"}),
    not_listed_yet=dataset(listed=False, warm={"policy": "Manual"}),
    warming=saying(dataset(), "False", Reason.WARMING),
)
def test_data_that_comes_is_waited_for(one: Dataset) -> None:
    assert only_hold(decide_releases(cluster(one, node("a"), held()), NOW)).why.reason is Reason.WAITING_FOR_DATA


def of_two(other: Dataset) -> Outcome:
    pod = held(datasets="imagenet:/a, coco:/b")
    return decide_releases(cluster(manual(), other, node("a"), pod), NOW)


def test_a_pod_of_two_datasets_waits_for_the_one_that_is_warmed() -> None:
    why = only_hold(of_two(saying(dataset("coco"), "False", Reason.WARMING))).why
    assert why.reason is Reason.WAITING_FOR_DATA
    assert "warm imagenet" in why.sentence


@pytest.mark.parametrize(("status", "reason"), [("True", Reason.WARM), ("False", Reason.QUOTA_EXCEEDED)])
def test_it_goes_once_that_one_gets_no_warmer(status: str, reason: Reason) -> None:
    assert only_release(of_two(saying(dataset("coco"), status, reason))).reason is Reason.MANUAL


def test_a_gang_goes_together() -> None:
    pods = [held(f"p{number}", gang="g", gang_size=2) for number in range(2)]
    outcome = decide_releases(cluster(manual(), node("a"), *pods), NOW)
    assert [one.reason for one in outcome.releases] == [Reason.MANUAL, Reason.MANUAL]


def test_pods_follow_a_dataset_that_is_paused_later() -> None:
    gating = filled(cluster(dataset(), node("a"), held()))
    assert only_hold(decided_by(gating, NOW)).why.reason is Reason.WAITING_FOR_DATA
    gating.put_dataset("vision/imagenet", paused())
    assert only_release(decided_by(gating, NOW + 1)).reason is Reason.PAUSED


FREED = "None"


@cases(
    "fields",
    cold={},
    of_a_Dataset_that_is_not_there={"datasets": "gone:/data"},
    of_a_gang_that_is_not_whole={"gang": "g", "gang_size": 2},
    held_by_others_too={"gates": ("kueue.x-k8s.io/admission", names.GATE_WARM)},
)
def test_a_pod_that_was_released_by_hand_goes_as_it_is(fields: dict[str, Any]) -> None:
    view = cluster(dataset(scheduling=REQUIRE), node("a"), held(scheduling=FREED, **fields))
    release = only_release(decide_releases(view, NOW))
    assert (release.reason, release.affinity) == (Reason.RELEASED, None)
    assert release.sentence == "stoker.dev/scheduling is None: released at once"


def test_the_rest_of_its_gang_stays() -> None:
    pods = [held("p0", gang="g", gang_size=2, scheduling=FREED), held("p1", gang="g", gang_size=2)]
    outcome = decide_releases(cluster(dataset(), node("a"), *pods), NOW)
    assert [one.pod.name for one in outcome.releases] == ["p0"]
    assert [one.pod.name for one in outcome.holds] == ["p1"]


def test_a_worker_of_a_queued_job_is_never_let_go() -> None:
    pod = held(scheduling=FREED, expected=True, gates=(names.GATE_WARM, "queue"))
    assert not decide_releases(cluster(dataset(), node("a"), pod), NOW).releases


def test_a_full_node_is_described_by_what_it_holds() -> None:
    view = cluster(dataset(), node("a"), holding("a", 0.25, phase="Full"), held())
    release = only_release(decide_releases(view, NOW))
    assert [one.warmth.percent for one in release.nodes] == [25]
