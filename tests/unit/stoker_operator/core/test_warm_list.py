"""A Dataset with a warm list in one of its files: plan, figures and conditions."""

from typing import Any

import pytest

from stoker_api.datasets.dataset import Dataset
from stoker_api.datasets.dataset_status import DatasetStatus, Phase
from stoker_api.datasets.warm_paths import WarmPathsStatus, digest_as_paths, paths_digest, told_as_list
from stoker_api.names import ConditionType, Reason
from stoker_api.node_caches.node_dataset_status import NodeError, NodePhase
from stoker_api.node_caches.nodecache import NodeCache
from stoker_operator.core.fitting.warmth import WarmthIndex
from stoker_operator.core.placement.node_promises import size_on_node
from tests.unit.stoker_operator.builders import (
    NOW,
    SIZE,
    condition,
    decided,
    given,
    listed,
    make_cache,
    make_dataset,
    make_node,
    report,
)

NAME = "lists/mine.txt"
TOLD = told_as_list(NAME)
NAMED = SIZE // 4


def _dataset(**fields: Any) -> Dataset:
    return listed(make_dataset(warm={"list": NAME}, **fields))


def _part(warm_bytes: int = NAMED, digest: str = "", **fields: Any) -> WarmPathsStatus:
    return WarmPathsStatus(
        digest=digest or paths_digest(TOLD), files=10, bytes=NAMED, warm_files=5, warm_bytes=warm_bytes, **fields
    )


def _cache(dataset: Dataset, part: WarmPathsStatus | None, phase: NodePhase, **row: Any) -> NodeCache:
    entry = given(dataset, eager=True).model_copy(update={"warm_paths": dataset.spec.warm.told_paths})
    row = {"observed_generation": dataset.metadata.generation} | row
    return make_cache("a", (entry, report(dataset, NAMED, phase=phase, warm_paths=part, **row)))


def _status(dataset: Dataset, part: WarmPathsStatus | None, phase: NodePhase, **row: Any) -> DatasetStatus:
    return decided(dataset, make_node("a"), _cache(dataset, part, phase, **row)).status("vision/imagenet", "", (), NOW)


def _said(status: DatasetStatus, kind: ConditionType) -> tuple[str, str, str]:
    found = condition(status, kind)
    return found.status, found.reason, found.message


def test_nodes_are_told_the_name_of_the_list_alone() -> None:
    plans = decided(_dataset(), make_node("a"), make_cache("a")).nodes.writes
    assert [entry.warm_paths for write in plans for entry in write.spec.datasets] == [TOLD]


def test_it_is_ready_when_what_the_list_names_is_there() -> None:
    status = _status(_dataset(), _part(), NodePhase.PATHS_WARM)
    assert (status.phase, status.cached_percent, status.warm_nodes) == (Phase.READY, "100%", "1/1")
    assert "of the files in warm.list" in _said(status, ConditionType.WARM)[2]
    assert _said(status, ConditionType.PATHS_FOUND) == (
        "True",
        Reason.PATHS_FOUND,
        "every line of warm.list matches files",
    )


def test_lines_that_name_nothing_are_counted_in_a_condition() -> None:
    status = _status(_dataset(), _part(unmatched=9, unmatched_paths=("a", "b", "c")), NodePhase.PATHS_WARM)
    said = _said(status, ConditionType.PATHS_FOUND)
    assert said[:2] == ("False", Reason.PATH_NOT_FOUND)
    assert said[2].startswith("warm.list: no files match 'a', 'b', 'c' and 6 more in this version")


def test_before_a_node_has_read_it_no_size_of_it_is_said() -> None:
    dataset = _dataset()
    status = _status(dataset, None, NodePhase.WARMING)
    assert (status.warm_paths, status.forecast, status.wanted_bytes, status.cached_percent) == (None, None, 0, "")
    assert size_on_node(dataset) == SIZE  # the full size is reserved until the list is known


def test_a_list_that_cannot_be_followed_fails_the_dataset_with_the_nodes_sentence() -> None:
    error = NodeError(reason=Reason.WARM_LIST_INVALID, message="warm.list 'x': line 3 is wrong", temporary=False)
    status = _status(_dataset(), None, NodePhase.FAILED, error=error)
    assert status.phase is Phase.FAILED
    assert _said(status, ConditionType.PATHS_FOUND) == ("False", Reason.WARM_LIST_INVALID, error.message)
    assert _said(status, ConditionType.DEGRADED)[1] == Reason.WARM_LIST_INVALID
    assert _said(status, ConditionType.WARM)[0] == "False"


def test_what_a_node_says_of_the_list_before_does_not_fail_the_dataset() -> None:
    error = NodeError(reason=Reason.WARM_LIST_INVALID, message="warm.list 'old': no such file", temporary=False)
    status = _status(_dataset(generation=2), None, NodePhase.FAILED, error=error, observed_generation=1)
    assert status.phase is not Phase.FAILED


def test_a_sidecar_of_an_earlier_release_is_not_warm_and_named() -> None:
    dataset = _dataset()
    old = _part(digest=digest_as_paths(TOLD))
    status = _status(dataset, old, NodePhase.PATHS_WARM)
    assert (_said(status, ConditionType.WARM)[0], status.warm_nodes, status.warm_paths) == ("False", "0/1", None)
    assert _said(status, ConditionType.DEGRADED)[1:] == (
        Reason.SIDECAR_OUTDATED,
        "a: its sidecar is too old for warm.list and warms nothing: upgrade it",
    )
    assert not WarmthIndex({"a": _cache(dataset, old, NodePhase.PATHS_WARM)}).of(dataset, "a").warm


@pytest.mark.parametrize(("warm_bytes", "warm", "percent"), [(NAMED // 2, False, 50), (NAMED, True, 100)])
def test_pods_wait_for_what_the_list_names(warm_bytes: int, warm: bool, percent: int) -> None:
    dataset, phase = _dataset(), NodePhase.PATHS_WARM if warm else NodePhase.WARMING
    found = WarmthIndex({"a": _cache(dataset, _part(warm_bytes), phase)}).of(dataset, "a")
    assert (found.warm, found.percent) == (warm, percent)
