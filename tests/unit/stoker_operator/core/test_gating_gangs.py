"""Gangs, pods with gates of other controllers, and pods that wait for an autoscaler."""

from typing import Any

import pytest

from stoker_api.names import Reason
from stoker_operator.core.gating.releases import Hold
from stoker_operator.core.views.cluster import ClusterView, PodView
from tests.support.cases import cases
from tests.unit.stoker_operator.clusters import cluster, dataset, held, holding, node
from tests.unit.stoker_operator.releases import LATE, NOW, REQUIRE, SEEN, decide_releases, only_hold, only_release


def worker(name: str, **fields: Any) -> PodView:
    return held(name, gang="job", gang_size=2, **fields)


@pytest.mark.parametrize(("mode", "now"), [("Prefer", NOW), ("Require", NOW), ("Require", LATE)])
def test_a_gang_waits_until_all_workers_exist(mode: str, now: float) -> None:
    view = cluster(dataset(), node("a"), holding("a"), worker("w0", scheduling=mode))
    why = only_hold(decide_releases(view, now)).why
    assert (why.reason, "the gang of 2" in why.sentence) == (Reason.WAITING_FOR_GANG, True)


def test_what_pods_of_a_gang_are_told_stays_as_more_of_them_come() -> None:
    def told(*names: str) -> set[str]:
        pods = (held(name, gang="job", gang_size=4) for name in names)
        holds = decide_releases(cluster(dataset(), node("a"), holding("a"), *pods), NOW).holds
        return {key for hold in holds for key in (hold.why.sentence, hold.why.detail_key)}

    assert told("w0", "w1", "w2") == told("w0")


def test_max_wait_holds_for_a_gang_that_never_gets_whole() -> None:
    view = cluster(dataset(), node("a"), holding("a"), worker("w0"))
    assert decide_releases(view, NOW).next_deadline(NOW) == LATE - 1 - NOW
    release = only_release(decide_releases(view, LATE))
    assert release.reason is Reason.MAX_WAIT_PASSED
    assert "before all of the gang existed (1 of 2)" in release.sentence


LARGE = held().requests.plus(held().requests)


@cases(
    "parts, now",
    when_one_worker_reaches_its_own_max_wait=(
        (node("a"), holding("a", 0.5), worker("w0"), worker("w1", created=1500.0)),
        LATE,
    ),
    when_one_worker_needs_a_new_node=(
        (node("a", slots=1), holding("a"), worker("w0"), worker("w1", requests=LARGE)),
        SEEN,
    ),
    when_there_is_room_for_all=((node("a", slots=2), holding("a"), worker("w0"), worker("w1")), NOW),
)
def test_a_gang_goes_whole(parts: tuple[Any, ...], now: float) -> None:
    assert len(decide_releases(cluster(dataset(), *parts), now).releases) == 2


OTHER_GATES = ("kueue.x-k8s.io/admission", held().gates[0])


@pytest.mark.parametrize("now", [NOW, LATE])
def test_a_pod_that_another_controller_holds_stays_and_is_warmed_for(now: float) -> None:
    view = cluster(dataset(), node("a"), holding("a"), held(gates=OTHER_GATES))
    outcome = decide_releases(view, now)
    why = only_hold(outcome).why
    assert why.reason is Reason.WAITING_FOR_GATES
    assert "kueue.x-k8s.io/admission" in why.sentence
    assert outcome.wanted.nodes == {"vision/imagenet": frozenset({"a"})}


def test_a_gang_waits_for_the_gates_of_each_of_its_workers() -> None:
    parts = node("a"), holding("a"), worker("w0"), worker("w1", gates=OTHER_GATES)
    assert len(decide_releases(cluster(dataset(), *parts), NOW).holds) == 2


def test_max_wait_counts_from_when_the_last_other_gate_went() -> None:
    def hold(now: float, **fields: Any) -> Hold:
        return only_hold(decide_releases(cluster(dataset(), node("a"), holding("a", 0.5), held(**fields)), now))

    assert hold(LATE, gates=OTHER_GATES).held_since == ""
    assert hold(LATE, gates=OTHER_GATES, held_since=0.0).held_since is None
    alone = hold(LATE, held_since=0.0)
    assert (alone.held_since, alone.deadline) == ("1970-01-01T00:26:41Z", LATE + 600)
    assert hold(LATE + 10, held_since=LATE).deadline == LATE + 600


def test_a_pod_that_waited_for_no_other_gate_is_not_marked() -> None:
    hold = only_hold(decide_releases(cluster(dataset(), node("a"), holding("a", 0.5), held()), NOW))
    assert (hold.held_since, hold.deadline) == (None, 1600.0)


@pytest.mark.parametrize("since", [10.0**12, -5.0, 3.0])
def test_a_mark_that_someone_else_wrote_shifts_the_wait_within_reason(since: float) -> None:
    pod = held(held_since=since)
    hold = only_hold(decide_releases(cluster(dataset(), node("a"), holding("a", 0.5), pod), NOW))
    assert hold.deadline is not None
    assert 1600.0 <= hold.deadline <= NOW + 600


NO_NODE = [cluster(dataset(), held()), cluster(dataset(), node("a", slots=0), holding("a"), held())]


@pytest.mark.parametrize("view", NO_NODE, ids=["no node", "too small a node"])
def test_a_pod_that_no_node_could_take_is_shown_to_autoscalers_after_a_minute(view: ClusterView) -> None:
    hold = only_hold(decide_releases(view, NOW))
    assert (hold.deadline, "so that an autoscaler sees it" in hold.why.sentence) == (SEEN, True)
    release = only_release(decide_releases(view, SEEN))
    assert release.reason is Reason.RELEASED
    assert "so that an autoscaler sees it" in release.sentence
    assert "required" not in str(release.affinity)


def test_a_pod_that_requires_warm_data_is_held_though_no_node_could_take_it_and_says_so() -> None:
    view = cluster(dataset(scheduling=REQUIRE), held())
    assert "autoscalers ignore gated pods" in only_hold(decide_releases(view, LATE)).why.sentence


def test_a_pod_for_which_nodes_are_only_busy_goes_on_waiting_for_a_warm_one() -> None:
    busy = PodView("vision", "busy", node="a", requests=held().requests, phase="Running")
    view = cluster(dataset(), node("a", slots=1), holding("a"), busy, held())
    assert only_hold(decide_releases(view, SEEN)).why.reason is Reason.NO_CAPACITY


def test_a_gang_without_room_for_all_leaves_the_room_to_others() -> None:
    view = cluster(dataset(), node("a", slots=1), holding("a"), worker("w0"), worker("w1"), held("z", created=1010.0))
    assert [one.pod.name for one in decide_releases(view, NOW).releases] == ["z"]


def test_a_worker_that_replaces_a_failed_one_goes_by_itself() -> None:
    running = worker("w0", gates=(), phase="Running", node="a")
    failed = worker("w1", gates=(), phase="Failed", node="a")
    view = cluster(dataset(), node("a"), holding("a"), running, failed, worker("w1-again"))
    assert [one.pod.name for one in decide_releases(view, NOW).releases] == ["w1-again"]
