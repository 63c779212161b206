"""A change leads to decisions about the affected pods only."""

from collections.abc import Iterator
from dataclasses import replace
from unittest import mock

import pytest

from stoker_api.names import Reason
from stoker_operator.core.fitting.pod_demand import read_demand
from stoker_operator.core.gating.gating import Gating
from stoker_operator.core.views.cluster import PodView
from tests.unit.stoker_operator.clusters import cluster, dataset, held, holding, node
from tests.unit.stoker_operator.releases import NOW, REQUIRE, decided_by, filled

BUSY = PodView("vision", "busy", uid="busy", node="a", requests=held().requests, phase="Running")


@pytest.fixture
def looks() -> Iterator[mock.Mock]:
    """Count the lookups of the data that a pod needs."""
    with mock.patch("stoker_operator.core.gating.gating.read_demand", side_effect=read_demand) as counted:
        yield counted


def waiting_for_room(*pods: PodView) -> Gating:
    """Return a gating whose pods wait for the only slot of a warm node."""
    view = cluster(dataset(scheduling=REQUIRE), node("a", slots=1), holding("a"), BUSY, *pods)
    gating = filled(view)
    assert not decided_by(gating, NOW).releases
    return gating


def test_one_of_many_goes_when_there_is_room_for_one_and_no_other_is_looked_at(looks: mock.Mock) -> None:
    gating = waiting_for_room(*(held(f"p{index:02}", uid=str(index)) for index in range(50)))
    looks.reset_mock()
    gating.put_pod(BUSY.key, None)
    assert [one.pod.name for one in decided_by(gating, NOW).releases] == ["p00"]
    assert looks.call_count == 1


def test_a_pod_that_was_told_why_it_waits_before_it_could_go_goes_the_next_time() -> None:
    gating = filled(cluster(dataset(), node("a"), holding("a"), held("p")))
    assert decided_by(gating, NOW).releases
    gating.put_pod(held("p").key, replace(held("p"), waiting="for data"))
    assert [one.pod.waiting for one in decided_by(gating, NOW).releases] == ["for data"]


def test_a_pod_is_asked_again_when_the_free_room_of_a_node_alone_changes() -> None:
    gating = waiting_for_room(held("p"))
    gating.put_node("a", node("a", slots=2), NOW)
    assert [one.pod.name for one in decided_by(gating, NOW).releases] == ["p"]


def test_progress_elsewhere_is_no_reason_to_look_at_any(looks: mock.Mock) -> None:
    gating = waiting_for_room(*(held(f"p{index:02}") for index in range(50)))
    looks.reset_mock()
    gating.put_node("b", node("b"), NOW)
    for share in (0.1, 0.5, 0.9):
        gating.put_cache("b", holding("b", share))
        outcome = decided_by(gating, NOW)
        assert (outcome.holds, outcome.releases) == ((), ())
    assert looks.call_count == 0


def test_a_gang_is_tried_again_when_there_is_room_for_all() -> None:
    pods = [held(name, gang="g", gang_size=2) for name in ("w0", "w1")]
    gating = waiting_for_room(*pods)
    gating.put_node("b", node("b", slots=2), NOW)
    gating.put_cache("b", holding("b"))
    assert [one.pod.name for one in decided_by(gating, NOW).releases] == ["w0", "w1"]


def test_a_gang_is_tried_again_when_a_node_with_room_for_one_of_it_gets_room_for_all() -> None:
    pods = [held(name, gang="g", gang_size=2) for name in ("w0", "w1")]
    gating = filled(cluster(dataset(scheduling=REQUIRE), node("a", slots=2), holding("a"), BUSY, *pods))
    assert not decided_by(gating, NOW).releases
    gating.put_pod(BUSY.key, None)
    assert [one.pod.name for one in decided_by(gating, NOW).releases] == ["w0", "w1"]


def test_a_gang_is_not_tried_again_when_what_is_on_its_way_arrives(looks: mock.Mock) -> None:
    pods = [held(f"w{number}", gang="g", gang_size=4) for number in range(4)]
    coming = replace(BUSY, node="", phase="Pending")
    gating = filled(cluster(dataset(scheduling=REQUIRE), node("a", slots=4), holding("a"), coming, *pods))
    assert not decided_by(gating, NOW, {BUSY.uid: ("a",)}).releases
    gating.put_pod(BUSY.key, BUSY)
    looks.reset_mock()
    assert not decided_by(gating, NOW).releases
    assert looks.call_count == 0


def test_a_gang_is_not_tried_again_while_room_only_gets_less(looks: mock.Mock) -> None:
    pods = [held(name, gang="g", gang_size=2) for name in ("w0", "w1")]
    gating = waiting_for_room(*pods)
    looks.reset_mock()
    gating.put_node("a", replace(node("a", slots=1), schedulable=False), NOW)
    gating.put_cache("a", holding("a", 0.9))
    decided_by(gating, NOW)
    gating.put_pod("vision/more", replace(BUSY, name="more", uid="more"))
    looks.reset_mock()
    assert not decided_by(gating, NOW).releases
    assert looks.call_count == 0


def test_all_who_wait_are_told_when_the_reason_is_another() -> None:
    gating = waiting_for_room(held("p"), held("q"))
    gating.put_cache("a", holding("a", 0.5))
    told = {hold.pod.name: hold.why.reason for hold in decided_by(gating, NOW).holds}
    assert told == {"p": Reason.WAITING_FOR_DATA, "q": Reason.WAITING_FOR_DATA}


def test_a_pod_that_is_gone_is_told_of() -> None:
    gating = waiting_for_room(held("p"))
    gating.put_pod("vision/p", None)
    assert [pod.name for pod in decided_by(gating, NOW).left] == ["p"]


def test_nothing_is_decided_twice() -> None:
    gating = waiting_for_room(held("p"))
    outcome = decided_by(gating, NOW)
    assert (outcome.holds, outcome.releases, outcome.left) == ((), (), ())


def test_constraints_that_make_no_sense_are_looked_at_again_after_a_while() -> None:
    gating = filled(cluster(dataset(), node("a"), held(affinity="no affinity")))
    outcome = decided_by(gating, NOW)
    assert outcome.holds[0].why.reason is Reason.INTERNAL_ERROR
    assert outcome.next_deadline(NOW) == 30.0
