"""A pod reports its order itself: for its Datasets only, within bounds, after the order in its spec."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker_api.datasets.dataset import MountMode
from stoker_api.node_caches.node_workload import OrderSource
from stoker_orders.predictors.samplers import SamplerName
from stoker_orders.sampling_plan import EpochStart
from stoker_sidecar.agent.orders.order_groups import order_groups
from stoker_sidecar.agent.orders.reported_plans import (
    CHANGE_SECONDS,
    SETTLED_SECONDS,
    ReportedOrder,
    ReportedOrders,
    reported_order,
    reported_plans,
)
from stoker_sidecar.volumes.core.publish import Published
from stoker_tuning.reports.figures import ReportFigures, ReportSummary
from stoker_tuning.reports.line import ReportRefusedError, parse_line
from tests.fakes.volumes import publish_request
from tests.support.cases import cases

FOLDER = Path("/cache")


def mounted(pod: str = "trainer-0", uid: str = "ds", **fields: Any) -> Published:
    return Published(publish_request(pod, **fields), uid, "v1", FOLDER, 10, 10, MountMode.FUSE, True)


def said(**fields: Any) -> str:
    return json.dumps({"sampler": "stoker-shuffle", "seed": 3, **fields})


def heard(*lines: dict[str, Any]) -> ReportSummary:
    figures = ReportFigures()
    for line in lines:
        figures.add(parse_line(json.dumps(line).encode()), 0.0)
    return figures.summary(0.0)


def test_the_ranks_of_a_pod_speak_together() -> None:
    lines = [{"rank": rank, "world_size": 16, "sampling": said(ranks=16)} for rank in (9, 8, 10)]
    order = reported_order(heard(*lines))
    assert order == ReportedOrder(said(ranks=16), 8, 3, 16)
    plans, troubles = reported_plans([mounted()], {"uid-trainer-0": order})
    plan = plans["uid-trainer-0", "ds"]
    assert (plan.sampler, plan.rank, plan.ranks, plan.ranks_here) == (SamplerName.STOKER_SHUFFLE, 8, 16, 3)
    assert troubles == {}


def test_what_is_taken_back_is_no_order() -> None:
    assert reported_order(heard({"sampling": said()}, {"epoch": 1})) is not None
    assert reported_order(heard({"sampling": said()}, {"sampling": ""})) is None


@pytest.mark.parametrize("text", ["seed 3", "[1]", "3", "{" * 300, '{"a": "\\u0000' + "\0" + '"}', "x" * 513])
def test_a_line_whose_sampling_is_no_object_does_not_count(text: str) -> None:
    with pytest.raises(ReportRefusedError, match="sampling"):
        parse_line(json.dumps({"sampling": text}).encode())


@cases(
    "order, sentence",
    (ReportedOrder(said(seeed=3)), "wrong at seeed"),
    (ReportedOrder('{"a\\u001b[31m": 1}'), "wrong at a?[31m"),
    (ReportedOrder('{"sampler": "stoker-quality-ratio", "ratio": NaN}'), "wrong at ratio"),
    (ReportedOrder('{"dataset": "\\ud800"}'), "wrong"),
    (ReportedOrder(said(dataset="others")), "does not have: say one of imagenet"),
    (ReportedOrder(said(ranks=4), rank=4), "rank 4 among 4 ranks"),
    (ReportedOrder(said(epochs=3, epoch=3)), "epoch is 3 of 3"),
    (ReportedOrder(said(sampler="torch-random", epoch=10**6 - 1)), "followed from epoch 100"),
    (ReportedOrder(said(sampler="stoker-group-shuffle")), "groupSize is for stoker-group-shuffle"),
    (ReportedOrder(said(files={"path": "../../etc"})), "must lie in the Dataset"),
    (ReportedOrder("x" * 600), "512 are allowed"),
)
def test_what_cannot_be_followed_is_told_with_a_sentence(order: ReportedOrder, sentence: str) -> None:
    plans, troubles = reported_plans([mounted()], {"uid-trainer-0": order})
    assert plans == {}
    assert sentence in troubles["uid-trainer-0"]


@given(st.text(max_size=600))
def test_no_text_breaks_a_node(text: str) -> None:
    reported_plans([mounted()], {"uid-trainer-0": ReportedOrder(text)})


def test_of_several_datasets_one_has_to_be_named() -> None:
    rows = [mounted(), mounted(uid="other", dataset="coco", volume_id="b")]
    _, troubles = reported_plans(rows, {"uid-trainer-0": ReportedOrder(said())})
    assert "say 'dataset', one of coco, imagenet" in troubles["uid-trainer-0"]
    for name in ("coco", "vision/coco"):
        plans, _ = reported_plans(rows, {"uid-trainer-0": ReportedOrder(said(dataset=name))})
        assert list(plans) == [("uid-trainer-0", "other")]


def test_a_pod_says_nothing_of_what_others_have() -> None:
    plans, troubles = reported_plans([mounted("another")], {"uid-trainer-0": ReportedOrder(said())})
    assert (plans, troubles) == ({}, {})


def test_the_spec_comes_before_the_report() -> None:
    row = mounted(sampling='{"seed": 7}')
    plans, troubles = reported_plans([row], {"uid-trainer-0": ReportedOrder(said())})
    assert (plans, troubles) == ({}, {})
    (group,) = order_groups([row], plans)
    assert (group.plan.seed, group.source) == (7, OrderSource.SPEC)


def test_orders_of_reports_do_not_take_the_place_of_those_of_specs() -> None:
    loud = [mounted(f"p{number}") for number in range(12)]
    reports = {f"uid-p{number}": ReportedOrder(said(seed=number)) for number in range(12)}
    groups = order_groups([*loud, mounted(sampling='{"seed": 7}')], reported_plans(loud, reports)[0])
    assert groups[0].source is OrderSource.SPEC
    assert {group.source for group in groups[1:]} == {OrderSource.REPORT}


def test_pods_of_one_job_are_one_group_wherever_they_began() -> None:
    rows = [mounted("a"), mounted("b")]
    reports = {
        "uid-a": ReportedOrder(said(ranks=2, epoch=4), 0, 1, 2),
        "uid-b": ReportedOrder(said(ranks=2, epoch=4, position=8), 1, 1, 2),
    }
    (group,) = order_groups(rows, reported_plans(rows, reports)[0])
    assert (group.ranks, group.plan.start) == ((0, 1), EpochStart(4))
    assert group.key[1].start == EpochStart()


class Pods:
    """The reports of two pods, and a clock."""

    def __init__(self) -> None:
        self.now, self.changes = 0.0, 0
        self.orders = ReportedOrders(self._note, lambda: self.now)

    def _note(self) -> None:
        self.changes += 1

    def say(self, text: str, ranks: int = 1, after: float = 0.0) -> None:
        self.now += after
        self.orders.take({"a": ReportedOrder(text, 0, ranks)})

    def known(self, after: float = 0.0) -> ReportedOrder | None:
        self.now += after
        return self.orders.known().get("a")


def test_an_order_is_followed_when_all_ranks_have_said_it() -> None:
    pods = Pods()
    pods.say(said())
    assert pods.known() is None
    pods.say(said(), ranks=8, after=1.0)
    assert pods.known(after=SETTLED_SECONDS - 0.1) is None
    order = pods.known(after=0.2)
    assert order is not None
    assert (order.ranks, pods.changes) == (8, 1)


def test_the_next_epoch_is_the_same_order() -> None:
    pods = Pods()
    pods.say(said(epoch=1))
    pods.known(after=SETTLED_SECONDS)
    pods.say(said(epoch=2), after=1.0)
    order = pods.known()
    assert order is not None
    assert '"epoch": 2' in order.text


def test_another_order_waits_its_time_and_one_that_is_taken_back_does_not() -> None:
    pods = Pods()
    pods.say(said())
    first = pods.known(after=SETTLED_SECONDS)
    pods.say(said(seed=9), after=1.0)
    assert pods.known(after=SETTLED_SECONDS) == first
    later = pods.known(after=CHANGE_SECONDS)
    assert later == replace(first or ReportedOrder(""), text=said(seed=9))
    pods.orders.take({})
    assert (pods.known(), pods.changes) == (None, 2)


def test_a_pod_that_says_another_order_each_second_has_none() -> None:
    pods = Pods()
    for number in range(100):
        pods.say(said(seed=number), after=1.0)
        assert pods.known() is None
