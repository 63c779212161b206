"""The pass over gated pods against the in-memory API server."""

import asyncio
import json
from dataclasses import replace
from typing import Any
from unittest import mock

import pytest

from stoker_api import names
from stoker_kube.api import Object
from stoker_kube.errors import Forbidden, Invalid, KubeError, Unavailable
from stoker_kube.resources import PODS
from stoker_operator.core.views.cluster import parse_pod
from tests.support.cases import cases
from tests.support.present import present
from tests.unit.stoker_operator.clusters import node
from tests.unit.stoker_operator.gate_world import World


@pytest.fixture
def world() -> World:
    return World()


async def test_a_released_pod_loses_our_gate_and_gets_affinity_and_record(world: World) -> None:
    await world.add_pod()
    world.warm()
    await world.step()
    pod = await world.pod()
    assert pod["spec"]["schedulingGates"] == []
    assert "nodeAffinity" in pod["spec"]["affinity"]
    record = json.loads(pod["metadata"]["annotations"][names.ANNOTATION_RELEASED])
    assert (record["reason"], record["nodes"][0]["name"]) == ("Released", "a")


async def test_the_one_warm_node_is_nominated_before_the_gate_is_off(world: World) -> None:
    await world.add_pod()
    world.warm()
    with mock.patch.object(world.kube, "patch", wraps=world.kube.patch) as patch:
        await world.step()
    assert [call.kwargs.get("subresource") for call in patch.await_args_list] == ["status", None]
    assert (await world.pod())["status"]["nominatedNodeName"] == "a"


@pytest.mark.expected_logs("could not be nominated")
async def test_a_pod_goes_although_its_node_may_not_be_nominated(world: World) -> None:
    await world.add_pod()
    world.warm()
    world.kube.fail_next("patch", PODS, Forbidden(403, "Forbidden", "a policy says no"))
    await world.step()
    assert not (await world.pod())["spec"]["schedulingGates"]


async def test_a_pod_of_another_controller_is_marked_waits_for_it_and_then_counts_from_there(world: World) -> None:
    await world.add_pod_with(("other", names.GATE_WARM), **{names.ANNOTATION_MAX_WAIT: "90s"})
    world.warm(0.5)
    world.now += 1000
    await world.step()
    pod = await world.pod()
    assert pod["metadata"]["annotations"][names.ANNOTATION_HELD_SINCE] == ""
    assert "other" in pod["metadata"]["annotations"][names.ANNOTATION_WAITING]

    alone = {"spec": {"schedulingGates": [{"name": names.GATE_WARM}]}}
    world.state.pods.put("vision/p", parse_pod(await world.kube.patch(PODS, "p", alone, "vision")))
    assert await world.step() == 90.0
    world.now += 60
    assert await world.step() == pytest.approx(30.0, abs=1.0)


async def test_a_release_books_its_room_until_the_pod_has_its_node_or_a_minute_is_over(world: World) -> None:
    world.state.nodes.put("a", node("a", slots=1))
    world.warm()
    await world.add_pod("first", cpu="1")
    await world.step()
    await world.add_pod("second", cpu="1")
    await world.step()
    assert (await world.pod("second"))["spec"]["schedulingGates"]
    world.now += 60
    await world.step()
    assert not (await world.pod("second"))["spec"]["schedulingGates"]


async def test_a_released_pod_that_no_node_takes_is_told_once(world: World) -> None:
    await world.add_pod_with((), **{names.ANNOTATION_RELEASED: "{}"})
    pod = await world.pod()
    refused = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no room"}
    pod["status"] = {"conditions": [refused | {"lastTransitionTime": pod["metadata"]["creationTimestamp"]}]}
    world.state.pods.put("vision/p", parse_pod(pod))
    assert await world.step() == 60.0
    world.now += 60
    await world.step()
    await world.step()
    assert world.events.by_name == [("p", "Warning", "Unschedulable")]


async def test_a_held_pod_says_why_in_annotation_and_event(world: World) -> None:
    await world.add_pod()
    world.warm(0.5)
    await world.step()
    assert (
        "no node that can run it is warm yet"
        in (await world.pod())["metadata"]["annotations"][names.ANNOTATION_WAITING]
    )
    assert world.events.by_name == [("p", "Normal", "WaitingForData")]


async def test_release_takes_the_waiting_annotation_off(world: World) -> None:
    await world.add_pod()
    await world.step()
    world.warm()
    await world.step()
    assert names.ANNOTATION_WAITING not in (await world.pod())["metadata"]["annotations"]


async def test_release_takes_off_a_waiting_annotation_that_the_mirror_does_not_have_yet(world: World) -> None:
    await world.add_pod()
    await world.kube.patch(PODS, "p", {"metadata": {"annotations": {names.ANNOTATION_WAITING: "x"}}}, "vision")
    world.warm()
    await world.step()
    annotations = (await world.pod())["metadata"]["annotations"]
    assert names.ANNOTATION_RELEASED in annotations
    assert names.ANNOTATION_WAITING not in annotations


async def test_a_second_pass_writes_nothing(world: World) -> None:
    await world.add_pod("held", **{names.ANNOTATION_SCHEDULING: "Require"})
    await world.add_pod("going")
    world.warm(0.5)
    await world.step()
    before = len(world.kube.requests)
    await world.step()
    assert len(world.kube.requests) == before


async def test_the_pass_asks_to_be_run_again_when_max_wait_passes(world: World) -> None:
    await world.add_pod(**{names.ANNOTATION_MAX_WAIT: "90s"})
    assert await world.step() == 90.0


async def test_max_wait_releases_with_a_warning_event(world: World) -> None:
    await world.add_pod(**{names.ANNOTATION_MAX_WAIT: "90s"})
    world.now += 91
    await world.step()
    assert world.events.by_name == [("p", "Warning", "MaxWaitPassed")]


async def test_a_require_pod_held_past_max_wait_is_told_so_once(world: World) -> None:
    await world.add_pod(**{names.ANNOTATION_SCHEDULING: "Require", names.ANNOTATION_MAX_WAIT: "90s"})
    await world.step()
    world.now += 91
    await world.step()
    await world.step()
    assert world.events.reasons == ["WaitingForData", "MaxWaitPassed"]


async def test_the_placement_hears_where_data_is_wanted(world: World) -> None:
    await world.add_pod()
    await world.step()
    assert world.state.wanted == {"vision/imagenet": frozenset({"a"})}


async def test_a_pod_that_vanished_is_no_error(world: World) -> None:
    await world.add_pod()
    world.warm()
    await world.kube.delete(PODS, "p", "vision")
    assert await world.step() is None


@cases(
    "error",
    Invalid(422, "Invalid", "no"),
    Forbidden(403, "Forbidden", "a policy says no"),
    Unavailable(500, "InternalError", "failed calling webhook"),
)
@pytest.mark.expected_logs("release of pod vision/p failed, trying again", "could not be nominated")
async def test_a_pod_that_cannot_be_released_is_told_and_keeps_no_room_from_others(
    world: World, error: KubeError
) -> None:
    world.state.nodes.put("a", node("a", slots=1))
    await world.add_pod()
    world.warm()
    world.kube.refuse("patch", PODS, error)
    again = present(await world.step())
    assert 0 < again <= 2.0
    assert ("p", "Warning", "WriteFailed") in world.events.by_name
    world.kube.allow("patch", PODS)
    await world.add_pod("later", cpu="1")
    await world.step()
    assert "schedulingGates" in (await world.pod())["spec"]
    assert names.ANNOTATION_RELEASED in (await world.pod("later"))["metadata"]["annotations"]


async def test_room_is_not_given_away_again_while_a_release_is_under_way(world: World) -> None:
    world.state.nodes.put("a", node("a", slots=1))
    for name in ("p", "q"):
        await world.add_pod(name, cpu="1")
    world.warm()
    await world.decide()
    await asyncio.sleep(0)
    await world.decide()
    await world.gate.work.settled()
    released = [pod for pod in world.kube.objects(PODS) if names.ANNOTATION_RELEASED in pod["metadata"]["annotations"]]
    assert [pod["metadata"]["name"] for pod in released] == ["p"]


async def test_a_pod_that_is_told_why_it_waits_before_its_turn_comes_goes_all_the_same(world: World) -> None:
    await world.add_pod()
    world.warm()
    await world.decide()
    told = await world.kube.patch(PODS, "p", {"metadata": {"annotations": {names.ANNOTATION_WAITING: "x"}}}, "vision")
    world.state.pods.put("vision/p", parse_pod(told))
    await world.gate.work.settled()
    await world.step()
    assert names.ANNOTATION_RELEASED in (await world.pod())["metadata"]["annotations"]


async def test_many_releases_at_once_are_a_crowd_until_they_are_written(world: World) -> None:
    answered, patch = asyncio.Event(), world.kube.patch

    async def patch_later(*words: Any, **more: Any) -> Object:
        await answered.wait()
        return await patch(*words, **more)

    for number in range(8):
        await world.add_pod(f"p{number}")
    world.warm()
    with mock.patch.object(world.kube, "patch", patch_later):
        await world.decide()
        assert world.gate.crowded
        answered.set()
        await world.gate.work.settled()
    assert not world.gate.crowded


async def test_progress_is_no_reason_to_write_onto_a_held_pod(world: World) -> None:
    await world.add_pod()
    world.warm(0.1)
    await world.step()
    before = len(world.kube.requests)
    for share in (0.3, 0.6, 0.9):
        world.now += 60
        world.warm(share)
        await world.step()
    assert len(world.kube.requests) == before


async def test_a_pod_whose_node_went_before_its_turn_is_decided_on_anew(world: World) -> None:
    await world.add_pod()
    world.warm()
    await world.decide()
    world.state.nodes.put("a", replace(node("a"), ready=False))
    await world.gate.work.settled()
    await world.step()
    pod = await world.pod()
    assert pod["spec"]["schedulingGates"]
    assert names.ANNOTATION_WAITING in pod["metadata"]["annotations"]


async def test_a_pod_that_was_made_anew_before_its_turn_is_decided_on_anew(world: World) -> None:
    await world.add_pod()
    world.warm()
    await world.decide()
    await world.kube.delete(PODS, "p", "vision")
    await world.add_pod()
    await world.gate.work.settled()
    await world.step()
    assert names.ANNOTATION_RELEASED in (await world.pod())["metadata"]["annotations"]


async def test_a_pass_that_fails_forgets_nothing(world: World) -> None:
    await world.add_pod()
    world.warm()
    odd = mock.patch("stoker_operator.core.gating.gating.find_wanted", side_effect=ArithmeticError("odd"))
    with odd, pytest.raises(ArithmeticError):
        await world.step()
    await world.step()
    assert names.ANNOTATION_RELEASED in (await world.pod())["metadata"]["annotations"]


@pytest.mark.expected_logs("reason of pod vision/p failed, trying again")
async def test_a_reason_that_could_not_be_written_is_written_later(world: World) -> None:
    await world.add_pod()
    world.kube.fail_next("patch", PODS, Unavailable(500, "InternalError", "failed calling webhook"))
    await world.step()
    world.now += 10
    await world.step()
    assert names.ANNOTATION_WAITING in (await world.pod())["metadata"]["annotations"]
