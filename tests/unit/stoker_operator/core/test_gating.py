"""Releases of gated pods, their nodes, reasons to wait, and nodes that need data."""

from dataclasses import replace
from typing import Any

import pytest

from stoker_api.datasets.dataset import Dataset, SchedulingMode
from stoker_api.datasets.dataset_status import DatasetStatus
from stoker_api.datasets.release import ReleaseNode, ReleaseRecord
from stoker_api.meta import Condition, ObjectMeta
from stoker_api.names import ConditionType, Reason
from stoker_operator.core.gating.explain import Explanation
from stoker_operator.core.gating.releases import MOST_NODES, Outcome
from stoker_operator.core.views.cluster import InvalidDataset, PodView
from tests.support.cases import cases
from tests.unit.stoker_operator.clusters import GIB, VERSION, cluster, dataset, held, holding, node
from tests.unit.stoker_operator.releases import (
    LATE,
    NOW,
    REQUIRE,
    decide_releases,
    only_hold,
    only_release,
    preferred,
    required_names,
)


def test_a_pod_that_requires_it_goes_to_the_warm_node_by_name() -> None:
    view = cluster(dataset(scheduling=REQUIRE), node("a"), node("b"), holding("a"), holding("b", 0.5), held())
    release = only_release(decide_releases(view, NOW))
    assert (release.reason, required_names(release)) == (Reason.RELEASED, ["a"])


def test_a_pod_that_prefers_it_may_go_elsewhere_when_no_other_warm_node_has_room() -> None:
    full = PodView("vision", "busy", node="b", requests=held().requests, phase="Running")
    view = cluster(dataset(), node("a"), node("b", slots=1), holding("a"), holding("b"), full, held())
    release = only_release(decide_releases(view, NOW))
    assert (release.reason, preferred(release)) == (Reason.RELEASED, [(100, "a")])
    assert "required" not in str(release.affinity)
    assert release.nominated == "a"
    assert release.sentence.endswith(
        "to be tried on a first, with a preference for a 100 %, since no other warm node has room to spare"
    )


def test_a_pod_that_prefers_it_must_go_to_a_warm_node_while_there_is_one_to_spare() -> None:
    view = cluster(dataset(), node("a"), node("b"), node("c"), holding("a"), holding("b"), held())
    assert sorted(required_names(only_release(decide_releases(view, NOW)))) == ["a", "b"]


@pytest.mark.parametrize("mode", ["Prefer", "Require"])
@cases("fields, word", ({"unweighed": ("its host ports",)}, "its host ports"), ({"claims": ("scratch",)}, "volumes"))
def test_rules_that_are_not_looked_at_leave_the_scheduler_a_way_out(
    fields: dict[str, Any], word: str, mode: str
) -> None:
    pod = held(scheduling=mode, **fields)
    view = cluster(dataset(), node("a"), node("b"), node("c"), holding("a"), holding("b"), pod)
    release = only_release(decide_releases(view, NOW))
    assert ("requiredDuring" in str(release.affinity)) is (mode == "Require")
    assert (word in release.sentence) is (mode == "Prefer")


def test_a_datasets_own_claim_lies_everywhere_and_leads_to_no_doubt() -> None:
    view = cluster(dataset(), node("a"), node("b"), holding("a"), holding("b"), held(claims=("imagenet",)))
    assert required_names(only_release(decide_releases(view, NOW)))


def test_the_record_says_how_warm_each_node_was() -> None:
    release = only_release(decide_releases(cluster(dataset(), node("a"), holding("a"), held()), NOW))
    assert [(one.node, one.warmth.percent, one.warmth.total_bytes) for one in release.nodes] == [("a", 100, 2 * GIB)]


def test_a_cold_pod_is_held_with_a_reason_and_where_its_progress_is_told() -> None:
    view = cluster(dataset(), node("a"), node("b"), holding("a", 0.625, etaSeconds=40), held())
    why = only_hold(decide_releases(view, NOW)).why
    assert why.reason is Reason.WAITING_FOR_DATA
    assert why.sentence == (
        "waiting for vision/imagenet: no node that can run it is warm yet; "
        "released anyway at 00:26:40 UTC (maxWait 10m); progress: `stoker -n vision status imagenet`"
    )


def test_progress_changes_nothing_that_is_said_about_a_pod() -> None:
    def why(share: float) -> Explanation:
        view = cluster(dataset(), node("a"), holding("a", share), held())
        return only_hold(decide_releases(view, NOW)).why

    assert why(0.1) == why(0.9)


def test_a_paused_dataset_says_how_to_go_on_and_is_worth_an_event() -> None:
    def why(paused: bool) -> Explanation:
        warm = {"paused": paused}
        view = cluster(dataset(warm=warm, scheduling=REQUIRE), node("a"), holding("a", 0.5), held())
        return only_hold(decide_releases(view, NOW)).why

    assert "warming of vision/imagenet is paused: `stoker -n vision resume imagenet`" in why(True).sentence
    assert "paused" not in why(False).sentence
    assert (why(True).detail_key, why(True).coarse_key) != (why(False).detail_key, why(False).coarse_key)


def over_quota() -> Dataset:
    """Make a Dataset whose status says that the quota of its namespace is exhausted."""
    degraded = {
        "type": ConditionType.DEGRADED,
        "status": "True",
        "reason": Reason.NAMESPACE_QUOTA_EXCEEDED,
        "message": "the quota is taken",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    found = dataset()
    status = found.status.model_copy(update={"conditions": (Condition.model_validate(degraded),)})
    return found.model_copy(update={"status": status})


A_YEAR = "is longer than a year: write 8760h or less"


@cases(
    "parts, now, words",
    that_its_dataset_is_not_listed_yet=((dataset(listed=False), node("a"), held()), NOW, "not listed yet"),
    that_the_quota_of_its_namespace_is_taken=(
        (over_quota(), node("a"), held()),
        NOW,
        "vision/imagenet: the quota is taken",
    ),
    that_max_wait_passed=(
        (dataset(scheduling=REQUIRE), node("a"), holding("a", 0.5), held()),
        LATE,
        "maxWait 10m passed",
    ),
    that_its_annotation_wins_over_the_dataset=(
        (dataset(), node("a"), holding("a", 0.1), held(scheduling="Require", max_wait="1s")),
        LATE,
        "scheduling Require still holds it",
    ),
    that_it_waits_for_too_many_hours=((dataset(), node("a"), held(max_wait="99999999h")), NOW, A_YEAR),
    that_it_waits_for_too_many_digits=((dataset(), node("a"), held(max_wait="9" * 400 + "h")), NOW, A_YEAR),
)
def test_a_held_pod_says(parts: tuple[Any, ...], now: float, words: str) -> None:
    assert words in only_hold(decide_releases(cluster(*parts), now)).why.sentence


def test_a_pod_whose_dataset_is_refused_by_its_class_says_why() -> None:
    meta = ObjectMeta(namespace="vision", name="imagenet")
    refused = InvalidDataset(meta, "DatasetClass x does not exist", DatasetStatus(), Reason.CLASS_NOT_FOUND)
    view = replace(cluster(held(), node("a")), invalid_datasets={"vision/imagenet": refused})
    why = only_hold(decide_releases(view, NOW)).why
    assert (why.reason, why.sentence) == (
        Reason.CLASS_NOT_FOUND,
        "Dataset vision/imagenet is not accepted: DatasetClass x does not exist",
    )


def test_an_older_version_does_not_count_as_warm() -> None:
    view = cluster(dataset(), node("a"), holding("a", version="e" * 64), held())
    assert only_hold(decide_releases(view, NOW)).why.reason is Reason.WAITING_FOR_DATA


def test_a_node_that_holds_all_that_its_quota_takes_is_warm_enough() -> None:
    view = cluster(dataset(), node("a"), holding("a", 0.5, phase="Full"), held())
    assert [one.node for one in only_release(decide_releases(view, NOW)).nodes] == ["a"]


def test_prefer_lets_go_after_max_wait_to_the_warmest() -> None:
    view = cluster(dataset(), node("a"), node("b"), holding("a", 0.5), holding("b", 0.75), held())
    release = only_release(decide_releases(view, LATE))
    assert release.reason is Reason.MAX_WAIT_PASSED
    assert preferred(release) == [(75, "b"), (50, "a")]


def test_prefer_lets_go_after_max_wait_though_nothing_is_warm() -> None:
    release = only_release(decide_releases(cluster(dataset(), node("a"), held()), LATE))
    assert (release.reason, release.affinity) == (Reason.MAX_WAIT_PASSED, None)


def test_a_full_warm_node_holds_the_pod_for_capacity() -> None:
    busy = PodView("vision", "busy", node="a", requests=held().requests, phase="Running")
    view = cluster(dataset(scheduling=REQUIRE), node("a", slots=1), holding("a"), busy, held())
    why = only_hold(decide_releases(view, NOW)).why
    assert (why.reason, "no warm node has room for 1 cpu" in why.sentence) == (Reason.NO_CAPACITY, True)


BUSY = PodView("vision", "busy", node="a", requests=held().requests, phase="Running")


@cases(
    "parts, names",
    where_held_pods_could_run=(
        (dataset(), node("a", labels={"gpu": "y"}), node("b"), held(node_selector={"gpu": "y"})),
        {"a"},
    ),
    where_it_is_warming_already=((dataset(), node("a"), node("b"), holding("b", 0.2), held()), {"b"}),
    not_where_the_dataset_must_not_be=((dataset(cache={"nodeSelector": {"disk": "ssd"}}), node("a"), held()), set()),
    where_the_job_before_it_computes_still=(
        (dataset(scheduling=REQUIRE), node("a", slots=1), holding("a", 0.0), BUSY, held()),
        {"a"},
    ),
)
def test_data_is_wanted(parts: tuple[Any, ...], names: set[str]) -> None:
    assert decide_releases(cluster(*parts), NOW).wanted.nodes == ({"vision/imagenet": names} if names else {})


def test_finished_pods_take_no_room() -> None:
    done = PodView("vision", "done", node="a", requests=held().requests, phase="Succeeded")
    assert only_release(decide_releases(cluster(dataset(), node("a", slots=1), holding("a"), done, held()), NOW))


def underway() -> PodView:
    record = ReleaseRecord(
        reason="Released",
        message="",
        held_since="",
        released_at="",
        mode="Prefer",
        nodes=(ReleaseNode(name="a", warm_bytes=1, total_bytes=1),),
    )
    return held("underway", uid="u", gates=(), released=record.model_dump_json(by_alias=True))


def test_a_pod_on_its_way_keeps_its_place() -> None:
    view = cluster(dataset(), node("a", slots=1), holding("a"), underway(), held())
    assert only_hold(decide_releases(view, NOW, {"u": ("a",)})).why.reason is Reason.NO_CAPACITY


def test_what_a_pod_says_of_itself_books_nothing() -> None:
    view = cluster(dataset(), node("a", slots=1), holding("a"), underway(), held())
    assert only_release(decide_releases(view, NOW))


def test_two_pods_that_may_share_two_nodes_both_get_both() -> None:
    nodes = [node("a", slots=1), node("b", slots=1)]
    parts = holding("a"), holding("b"), held("p"), held("q")
    outcome = decide_releases(cluster(dataset(scheduling=REQUIRE), *nodes, *parts), NOW)
    assert [sorted(required_names(one)) for one in outcome.releases] == [["a", "b"], ["a", "b"]]


def test_the_older_pod_goes_first() -> None:
    view = cluster(dataset(), node("a", slots=1), holding("a"), held("young", created=1010.0), held("old"))
    assert [one.pod.name for one in decide_releases(view, NOW).releases] == ["old"]


@cases(
    "unusable",
    not_ready={"ready": False},
    cordoned={"schedulable": False},
    not_selected_by_the_pod={"labels": {"zone": "x"}},
)
def test_a_warm_node_that_the_pod_cannot_use_does_not_count(unusable: dict[str, Any]) -> None:
    pod = held(node_selector={"zone": "a"})
    view = cluster(dataset(), node("a", **({"labels": {"zone": "a"}} | unusable)), holding("a"), pod)
    assert "no ready node" in only_hold(decide_releases(view, NOW)).why.sentence


def test_a_pod_whose_dataset_no_longer_holds_goes_as_it_is() -> None:
    release = only_release(decide_releases(cluster(dataset(scheduling={"mode": "None"}), node("a"), held()), NOW))
    assert (release.mode, release.affinity) == (SchedulingMode.NONE, None)


@cases(
    "fields, reason",
    ({"datasets": "gone:/data"}, Reason.DATASET_NOT_FOUND),
    ({"namespace": "other", "datasets": "vision/imagenet:/data"}, Reason.ACCESS_NOT_GRANTED),
    ({"datasets": "imagenet:data"}, Reason.INVALID_SPEC),
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


def test_data_is_wanted_on_as_many_nodes_as_the_pods_need() -> None:
    view = cluster(dataset(), node("a", slots=1), node("b", slots=1), node("c", slots=1), held("p"), held("q"))
    assert len(decide_releases(view, NOW).wanted.nodes["vision/imagenet"]) == 2


def test_the_next_deadline_is_that_of_the_first_pod() -> None:
    view = cluster(dataset(), node("a"), held("p"), held("q", max_wait="2m"))
    assert decide_releases(view, NOW).next_deadline(NOW) == 90.0


def test_a_large_choice_is_cut_to_a_window() -> None:
    names = [f"n{index:03}" for index in range(120)]
    parts = [part for name in names for part in (node(name, slots=1), holding(name))]
    pods = [held(f"p{index:03}", uid=f"u{index}") for index in range(60)]
    outcome = decide_releases(cluster(dataset(scheduling=REQUIRE), *parts, *pods), NOW)
    assert len(outcome.releases) == 60
    assert {len(one.nodes) for one in outcome.releases} == {MOST_NODES}


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


OLD = "0" * 64
OLDER_POD: dict[str, Any] = {"versions": {"vision/imagenet": OLD}}


def older_row(share: float) -> dict[str, Any]:
    phase = "Warm" if share == 1.0 else "Warming"
    return {"version": OLD, "phase": phase, "bytes": 2 * GIB, "warmBytes": int(share * 2 * GIB)}


def test_a_pod_goes_to_nodes_that_are_warm_for_its_version() -> None:
    view = cluster(
        dataset(), node("a"), node("b"), holding("a"), holding("b", older=[older_row(1.0)]), held(**OLDER_POD)
    )
    release = only_release(decide_releases(view, NOW))
    assert preferred(release) == [(100, "b")]
    assert release.sentence.startswith("warm: vision/imagenet@000000000000; ")


def test_a_node_whose_current_version_is_still_the_pods_is_warm_for_it() -> None:
    view = cluster(dataset(), node("a"), holding("a", version=OLD), held(**OLDER_POD))
    assert preferred(only_release(decide_releases(view, NOW))) == [(100, "a")]


def test_a_pod_whose_version_is_warm_nowhere_is_held_and_asks_for_it() -> None:
    view = cluster(dataset(), node("a"), holding("a", older=[older_row(0.5)]), held(**OLDER_POD))
    outcome = decide_releases(view, NOW)
    assert only_hold(outcome).why.reason is Reason.WAITING_FOR_DATA
    assert outcome.wanted.versions == {"vision/imagenet": {"a": frozenset({OLD})}}


def test_pods_of_the_current_version_ask_for_none_by_name() -> None:
    view = cluster(dataset(), node("a"), holding("a", 0.5), held(versions={"vision/imagenet": VERSION}))
    assert decide_releases(view, NOW).wanted.versions == {}
