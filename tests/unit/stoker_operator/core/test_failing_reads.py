"""Failing reads on nodes: the condition of the Dataset, and events for pods."""

from dataclasses import replace
from typing import Any

import pytest

from stoker_api.datasets.dataset import Dataset
from stoker_api.datasets.dataset_status import DatasetStatus
from stoker_api.meta import Condition
from stoker_api.names import ConditionType, Reason
from stoker_api.node_caches.node_dataset_status import FailingReads, NodeError, NodePhase
from stoker_api.node_caches.nodecache import NodeCache
from stoker_operator.core.status.failing_reads import MOST_PODS, failing_pods
from tests.unit.stoker_operator.builders import (
    NOW,
    V1,
    V2,
    condition,
    decided,
    given,
    listed,
    make_cache,
    make_dataset,
    make_node,
    make_user,
    mount,
    report,
)

SINCE = "2026-11-29T15:04:05Z"
WHY = "s3://bucket/a.jpg refused the credentials (SignatureDoesNotMatch)"
READS = FailingReads(reason=Reason.INVALID_CREDENTIALS, path="a.jpg", message=WHY, since=SINCE, version=V1)
SENTENCE = f"reads of pods fail since {SINCE}, such as of a.jpg: {WHY}"


MANUAL = listed(make_dataset(warm={"policy": "Manual"}))
NODE, USER = make_node("a"), make_user(MANUAL, "a")


def holder(dataset: Dataset, node: str = "a", pods: tuple[str, ...] = ("trainer",), **row: Any) -> NodeCache:
    """Make a node with pods whose reads fail."""
    reads = row.pop("failing_reads", READS)
    error = NodeError(reason=reads.reason, message=reads.sentence("reads of pods"))
    fields = {"phase": NodePhase.IDLE, "error": error, "failing_reads": reads} | row
    mounts = tuple(mount(dataset, pod) for pod in pods)
    return make_cache(node, (given(dataset, eager=False), report(dataset, 0, **fields)), mounts=mounts)


def status(*parts: Any) -> DatasetStatus:
    return decided(*parts).status("vision/imagenet", "", (), NOW)


def degraded(*parts: Any) -> Condition:
    return condition(status(*parts), ConditionType.DEGRADED)


def told(*parts: Any) -> list[str]:
    """Return the messages of the pods' events."""
    decision = decided(*parts)
    plan = decision.plans["vision/imagenet"]
    return [f"{one.pod.name}: {one.sentence}" for one in failing_pods(decision.view, plan, decision.states)]


@pytest.mark.parametrize("policy", ["Manual", "OnDemand", "Eager"])
def test_a_dataset_whose_reads_fail_is_degraded_whatever_its_policy(policy: str) -> None:
    dataset = listed(make_dataset(warm={"policy": policy}))
    found = degraded(dataset, make_node("a"), holder(dataset), make_user(dataset, "a"))
    assert (found.status, found.reason) == ("True", Reason.INVALID_CREDENTIALS)
    assert f"a: {SENTENCE}" in found.message


def test_what_fails_the_warm_up_too_is_said_once() -> None:
    error = NodeError(reason=Reason.INVALID_CREDENTIALS, message=WHY)
    found = degraded(MANUAL, NODE, holder(MANUAL, error=error), USER)
    assert found.message == f"a: {SENTENCE}"


def test_the_last_error_of_the_node_says_it() -> None:
    quota = NodeError(reason=Reason.QUOTA_EXCEEDED, message="cache.quota keeps 3 of 10 files")
    found = status(MANUAL, NODE, holder(MANUAL, error=quota), USER)
    assert [row.last_error for row in found.nodes] == [SENTENCE]


def test_reads_that_wait_for_the_source_are_told_as_such() -> None:
    away = READS.model_copy(update={"reason": str(Reason.ENDPOINT_UNREACHABLE), "temporary": True})
    found = degraded(MANUAL, NODE, holder(MANUAL, failing_reads=away), USER)
    assert "reads of pods wait or fail since" in found.message


def test_the_pod_is_told_what_fails_where_and_since_when() -> None:
    assert told(MANUAL, NODE, holder(MANUAL), USER) == [
        f"trainer: its reads of vision/imagenet on a fail since {SINCE}, such as of a.jpg: {WHY}"
    ]


@pytest.mark.parametrize(
    "change",
    [{"uid": "another"}, {"node": "b"}, {"phase": "Succeeded"}, {"volumes": ()}],
    ids=["another pod of its name", "bound elsewhere", "ended", "names no Dataset"],
)
def test_a_node_tells_no_pod_that_the_operator_does_not_see_there(change: dict[str, Any]) -> None:
    pod = replace(USER, **change)
    assert told(MANUAL, NODE, make_node("b"), holder(MANUAL), pod) == []


def test_a_pod_with_another_version_is_not_told() -> None:
    reads = READS.model_copy(update={"version": V2})
    assert told(MANUAL, NODE, holder(MANUAL, failing_reads=reads), USER) == []


def test_a_node_says_nothing_of_a_dataset_that_is_not_its_own() -> None:
    cache = make_cache("a", (None, report(MANUAL, 0, failing_reads=READS)), mounts=(mount(MANUAL),))
    parts = (MANUAL, NODE, make_node("b"), cache, USER)
    assert told(*parts) == []
    assert "fail since" not in degraded(*parts).message


def test_texts_of_a_node_are_bounded_and_its_reason_is_one_of_ours() -> None:
    said = {"reason": "Any-thing", "path": "p" * 1000, "message": "m" * 1000, "since": "no time"}
    hostile = READS.model_copy(update=said)
    (sentence,) = told(MANUAL, NODE, holder(MANUAL, failing_reads=hostile), USER)
    assert len(sentence) < 1000
    assert "no time" not in sentence
    found = degraded(MANUAL, NODE, holder(MANUAL, failing_reads=hostile), USER)
    assert found.reason == Reason.INTERNAL_ERROR


def test_the_events_of_one_dataset_are_bounded() -> None:
    names = tuple(f"pod-{number}" for number in range(MOST_PODS + 50))
    pods = [make_user(MANUAL, "a", name) for name in names]
    assert len(told(MANUAL, NODE, holder(MANUAL, pods=names), *pods)) == MOST_PODS
