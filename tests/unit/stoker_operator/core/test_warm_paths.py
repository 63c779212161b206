"""A Dataset with only some paths to warm: plan, figures, conditions and waiting pods."""

from typing import Any

from stoker_api.datasets.dataset import Dataset
from stoker_api.datasets.dataset_status import DatasetStatus, Phase
from stoker_api.datasets.warm_paths import WarmPathsStatus, paths_digest
from stoker_api.names import ConditionType, Reason
from stoker_api.node_caches.node_dataset_status import NodePhase
from stoker_api.node_caches.nodecache import NodeCache
from stoker_operator.core.fitting.warmth import WarmthIndex
from stoker_operator.core.placement.node_promises import size_on_node
from stoker_operator.core.plans.entry_room import entry_size
from stoker_operator.core.status.dataset_transitions import dataset_announcements
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

PATHS = ("train/", "val/*.tar")
NAMED, HERE = SIZE // 4, SIZE // 8


def _dataset(paths: tuple[str, ...] = PATHS, **fields: Any) -> Dataset:
    return listed(make_dataset(warm={"paths": list(paths)}, **fields))


def _part(warm_bytes: int = NAMED, paths: tuple[str, ...] = PATHS, **fields: Any) -> WarmPathsStatus:
    return WarmPathsStatus(
        digest=paths_digest(paths), files=10, bytes=NAMED, warm_files=5, warm_bytes=warm_bytes, **fields
    )


def _cache(
    dataset: Dataset, part: WarmPathsStatus | None, phase: NodePhase = NodePhase.PATHS_WARM, warm_bytes: int = NAMED
) -> NodeCache:
    entry = given(dataset, eager=True).model_copy(update={"warm_paths": dataset.spec.warm.paths})
    return make_cache("a", (entry, report(dataset, warm_bytes, phase=phase, warm_paths=part)))


def _status(dataset: Dataset, cache: NodeCache) -> DatasetStatus:
    return decided(dataset, make_node("a"), cache).status("vision/imagenet", "", (), NOW)


def _knowing(dataset: Dataset, part: WarmPathsStatus) -> Dataset:
    return dataset.model_copy(update={"status": dataset.status.model_copy(update={"warm_paths": part})})


def _said(status: DatasetStatus, kind: ConditionType) -> tuple[str, str]:
    found = condition(status, kind)
    return found.status, found.reason


def test_nodes_are_told_the_paths() -> None:
    plans = decided(_dataset(), make_node("a"), make_cache("a")).nodes.writes
    assert [entry.warm_paths for write in plans for entry in write.spec.datasets] == [PATHS]


def test_the_paths_count_to_the_size_of_an_entry() -> None:
    entry = given(_dataset())
    longer = entry.model_copy(update={"warm_paths": ("x" * 1000,) * 10})
    assert entry_size(longer) - entry_size(entry) > 10_000


def test_it_is_ready_when_what_the_paths_name_is_there() -> None:
    status = _status(_dataset(), _cache(_dataset(), _part()))
    assert (status.phase, status.cached_percent, status.warm_nodes) == (Phase.READY, "100%", "1/1")
    assert (status.cached_bytes, status.wanted_bytes, status.bytes) == (NAMED, NAMED, SIZE)
    assert _said(status, ConditionType.WARM) == ("True", Reason.WARM)
    assert _said(status, ConditionType.PATHS_FOUND) == ("True", Reason.PATHS_FOUND)


def test_progress_is_of_what_the_paths_name() -> None:
    status = _status(_dataset(), _cache(_dataset(), _part(HERE), NodePhase.WARMING, SIZE // 2))
    assert (status.phase, status.cached_percent) == (Phase.WARMING, "50%")
    warm = condition(status, ConditionType.WARM)
    assert "of the files in warm.paths" in warm.message


def test_what_a_node_says_of_other_paths_does_not_count() -> None:
    dataset = _dataset(("test/",))
    status = _status(dataset, _cache(dataset, _part()))
    assert _said(status, ConditionType.WARM) == ("False", Reason.WARMING)
    assert status.warm_paths is None


def test_what_a_node_says_of_paths_does_not_count_when_all_is_wanted_again() -> None:
    dataset = _dataset(())
    assert _said(_status(dataset, _cache(dataset, _part())), ConditionType.WARM)[0] == "False"


def test_paths_that_name_nothing_are_told_by_a_condition_and_an_event() -> None:
    dataset = _dataset()
    status = _status(dataset, _cache(dataset, _part(unmatched=5, unmatched_paths=("val/*.tar", "b", "c"))))
    assert _said(status, ConditionType.PATHS_FOUND) == ("False", Reason.PATH_NOT_FOUND)
    assert _said(status, ConditionType.WARM)[0] == "True"
    told = [one for one in dataset_announcements(DatasetStatus(), status) if one.reason == Reason.PATH_NOT_FOUND]
    assert [one.type for one in told] == ["Warning"]
    assert "no files match 'val/*.tar', 'b', 'c' and 2 more in this version" in told[0].message


def test_a_list_that_names_nothing_at_all_is_not_warm() -> None:
    part = _part(0, unmatched=2, unmatched_paths=PATHS).model_copy(update={"files": 0, "bytes": 0, "warm_files": 0})
    status = _status(_dataset(), _cache(_dataset(), part))
    assert _said(status, ConditionType.WARM) == ("False", Reason.PATH_NOT_FOUND)


def test_pods_wait_for_what_the_paths_name() -> None:
    dataset = _dataset()
    warming = WarmthIndex({"a": _cache(dataset, _part(HERE), NodePhase.WARMING)}).of(dataset, "a")
    done = WarmthIndex({"a": _cache(dataset, _part())}).of(dataset, "a")
    stale = WarmthIndex({"a": _cache(dataset, _part(paths=("other",)))}).of(dataset, "a")
    assert (warming.warm, warming.percent, done.warm, stale.warm) == (False, 50, True, False)


def test_room_is_kept_for_what_the_paths_name_once_that_is_known() -> None:
    dataset = _dataset()
    known, other = _knowing(dataset, _part()), _knowing(dataset, _part(paths=("other",)))
    assert (size_on_node(dataset), size_on_node(known), size_on_node(other)) == (SIZE, NAMED, SIZE)


def test_what_was_known_stays_while_no_node_says() -> None:
    dataset = _dataset()
    known = _knowing(dataset, _part())
    status = _status(known, make_cache("a", (given(dataset, eager=True), report(dataset, 0, phase=NodePhase.WARMING))))
    assert status.warm_paths is not None
    assert (status.warm_paths.bytes, status.warm_paths.warm_bytes, status.cached_percent) == (NAMED, 0, "0%")
