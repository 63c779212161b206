"""Rows of a node's answer that become figures of pods, and their reported age."""

from dataclasses import replace
from typing import Any

import pytest

from stoker_api.jobs.pod_figures import PodFigures
from stoker_api.times import format_time
from stoker_operator.core.pod_figures.pod_figures import NodeWord, ReadablePod, pod_figures, readable_pod, word_of

NOW = 1_000_000.0
POD = ReadablePod("vision", "resnet-0", "u1", "node-1")
ROW = {"pod": "vision/resnet-0", "uid": "u1", "phase": "Training", "epoch": 3}
MOUNT = {"volumeId": "v", "datasetNamespace": "vision", "dataset": "d", "podNamespace": "vision", "podUid": "u1"}


def word(*rows: Any, age: float = 0.0, trouble: str = "", **fields: Any) -> NodeWord:
    return replace(word_of({"workloads": list(rows)} | fields), age=age, trouble=trouble)


def shown(word: NodeWord | None, *pods: ReadablePod) -> list[PodFigures]:
    return pod_figures(pods or [POD], {} if word is None else {"node-1": word}, NOW)


def test_a_row_of_a_pod_that_the_node_has_is_shown_with_its_age() -> None:
    (row,) = shown(word(ROW, age=0.64))
    assert (row.metadata.name, row.node, row.workload.phase, row.age_seconds) == ("resnet-0", "node-1", "Training", 0.6)
    assert row.message == ""


@pytest.mark.parametrize(
    "claimed",
    [
        {"pod": "vision/resnet-0", "uid": "u2"},  # the previous pod of that name
        {"pod": "victim/resnet-0", "uid": "u1"},
        {"pod": "vision/other", "uid": "u1"},
    ],
)
def test_a_row_counts_for_the_pod_that_the_api_server_has_on_that_node_and_for_no_other(
    claimed: dict[str, str],
) -> None:
    assert shown(word(ROW | claimed)) == []


def test_a_node_says_nothing_of_pods_of_other_nodes() -> None:
    elsewhere = ReadablePod("vision", "resnet-0", "u1", "node-2")
    assert shown(word(ROW), elsewhere) == []


def test_mounts_are_those_of_the_pod() -> None:
    other = MOUNT | {"podUid": "u2"}
    (row,) = shown(word(ROW, mounts=[MOUNT, other]))
    assert [mount.pod_uid for mount in row.mounts] == ["u1"]


def test_of_a_silent_node_the_last_row_of_its_nodecache_is_shown_with_its_age_and_why() -> None:
    dated = ROW | {"figuresAt": format_time(NOW - 42)}
    (row,) = shown(word(dated, trouble="its sidecar did not answer within 1 s"))
    assert (row.age_seconds, row.message) == (42.0, "node node-1: its sidecar did not answer within 1 s")


@pytest.mark.parametrize("known", [None, word(trouble="it has no sidecar that is ready")])
def test_of_a_node_that_nothing_is_known_of_nothing_is_shown(known: NodeWord | None) -> None:
    assert shown(known) == []


@pytest.mark.parametrize(
    "answer",
    [
        {},
        {"workloads": 7, "mounts": "x", "hardware": []},
        {"workloads": [7, None, [], {"pod": [], "uid": {}}]},
        {"workloads": [ROW | {"epoch": "many"}]},
        {"workloads": [ROW | {"stallPercent": 1000}]},
    ],
)
def test_rows_that_are_none_count_for_nothing(answer: dict[str, Any]) -> None:
    assert shown(word_of(answer)) == []


def test_texts_of_a_node_are_cut_to_their_bounds() -> None:
    (row,) = shown(word(ROW | {"checkpoint": "x" * 100_000}, mounts=[7, {"podUid": "u1"}]))
    assert (len(row.workload.checkpoint), row.mounts) == (256, ())


@pytest.mark.parametrize(
    ("spec", "phase", "read"),
    [({"nodeName": "node-1"}, "Running", POD), ({}, "Pending", None), ({"nodeName": "node-1"}, "Succeeded", None)],
)
def test_pods_without_a_node_and_pods_that_ended_have_no_figures(
    spec: dict[str, str], phase: str, read: ReadablePod | None
) -> None:
    raw = {"metadata": {"namespace": "vision", "name": "resnet-0", "uid": "u1"}, "spec": spec}
    assert readable_pod(raw | {"status": {"phase": phase}}) == read
