"""The status of a Dataset, from the reports of its nodes."""

from dataclasses import replace
from typing import Any

import pytest

from stoker_api.datasets.dataset import Dataset
from stoker_api.datasets.dataset_status import UNREADABLE, DatasetStatus, Phase, SkippedKeys
from stoker_api.names import ConditionType, Reason
from stoker_api.node_caches.node_dataset_status import ListingResult, NodeError, NodePhase
from stoker_api.node_caches.nodecache import NodeCache
from stoker_operator.core.classes.class_limits import ClassTerms
from stoker_operator.core.plans.listing import new_id
from stoker_operator.core.status.dataset_status import invalid_status
from stoker_operator.core.views.cluster import InvalidDataset
from stoker_operator.core.views.conditions import find
from tests.support.cases import cases
from tests.unit.stoker_operator.builders import (
    IMAGENET,
    NOW,
    SIZE,
    V1,
    V2,
    condition,
    decide_once,
    decided,
    given,
    listed,
    make_cache,
    make_dataset,
    make_holder,
    make_node,
    make_view,
    mount,
    report,
)

LISTED, WARM, READY = ConditionType.LISTED, ConditionType.WARM, ConditionType.READY
DEGRADED = ConditionType.DEGRADED


def status(*parts: Any, note: str = "", now: float = NOW) -> DatasetStatus:
    return decided(*parts, now=now).status("vision/imagenet", note, (), now)


def said(status: DatasetStatus, kind: ConditionType) -> tuple[str, str]:
    found = condition(status, kind)
    return found.status, found.reason


def message(status: DatasetStatus, kind: ConditionType) -> str:
    return condition(status, kind).message


def answering(name: str, dataset: Dataset, **answer: Any) -> NodeCache:
    """Make a node that answered the listing like this."""
    entry = given(dataset, listing_id=new_id(dataset, NOW))
    return make_cache(name, (entry, report(dataset, 0, listing=ListingResult(id=entry.listing_id, **answer))))


def test_with_no_node_it_is_pending_and_says_which_nodes_it_looks_for() -> None:
    found = status(make_dataset(cache={"nodeSelector": {"gpu": "a100"}}), make_node("a"))
    assert (found.phase, said(found, LISTED)) == (Phase.PENDING, ("False", Reason.NO_NODES))
    assert "cache.nodeSelector gpu=a100" in message(found, LISTED)


def test_while_a_node_lists_it_says_which() -> None:
    found = status(make_dataset(), make_node("a"))
    assert (found.phase, message(found, LISTED)) == (Phase.LISTING, "a is listing s3://bucket/")


@pytest.mark.parametrize(("temporary", "phase"), [(True, Phase.DEGRADED), (False, Phase.FAILED)])
def test_a_failed_listing_gives_the_nodes_sentence(temporary: bool, phase: Phase) -> None:
    error = NodeError(reason=Reason.ENDPOINT_UNREACHABLE, message="http://minio refused", temporary=temporary)
    found = status(make_dataset(), make_node("a"), answering("a", make_dataset(), error=error))
    assert (found.phase, said(found, LISTED)) == (phase, ("False", Reason.ENDPOINT_UNREACHABLE))
    assert said(found, READY) == ("False", Reason.ENDPOINT_UNREACHABLE)
    assert message(found, LISTED).startswith("http://minio refused")


def test_keys_that_cannot_be_files_are_counted_in_the_listed_condition() -> None:
    skipped = (SkippedKeys(reason="EmptyName", count=2, example="a//b"), SkippedKeys(reason="TooLong", count=1))
    cache = answering("a", make_dataset(), version=V1, files=1797, bytes=2048, skipped=skipped)
    found = status(make_dataset(), make_node("a"), cache)
    assert message(found, LISTED) == (
        '1,797 files, 2.0 KiB; 3 keys cannot be files and are left out: 2 EmptyName (such as "a//b"), 1 TooLong'
    )
    assert found.skipped == skipped


def test_while_it_warms_columns_and_sentence_give_the_numbers() -> None:
    dataset = listed(make_dataset(cache={"replicas": 2}))
    half = make_holder("b", dataset, SIZE // 2, bytes_per_second=100, eta_seconds=65)
    found = status(dataset, make_node("a"), make_node("b"), make_holder("a", dataset), half)
    assert (found.phase, found.warm_nodes, found.cached_percent) == (Phase.WARMING, "1/2", "75%")
    assert (found.total, found.cached, found.speed, found.eta) == ("1000 B", "1.5 KiB on 2 nodes", "100 B/s", "1m5s")
    assert (found.cached_bytes, found.wanted_bytes) == (SIZE + SIZE // 2, 2 * SIZE)
    assert message(found, WARM) == "1 of 2 nodes warm, 75% (1.5 KiB of 2.0 KiB), 100 B/s, 1m5s left"
    assert said(found, READY) == ("False", Reason.WARMING)


def test_when_every_wanted_node_is_warm_it_is_ready() -> None:
    found = status(IMAGENET, make_node("a"), make_holder("a", IMAGENET))
    assert (found.phase, found.warm_nodes, said(found, WARM)) == (Phase.READY, "1/1", ("True", Reason.WARM))
    assert said(found, READY) == ("True", Reason.READY)


EMPTY = listed(make_dataset(), size=0)


@cases(
    "dataset, holder, percent",
    of_100_means_all=(IMAGENET, make_holder("a", IMAGENET, SIZE - 1), "99%"),
    of_an_empty_version_is_all=(EMPTY, make_holder("a", EMPTY, 0, bytes=0, files=0, phase=NodePhase.WARM), "100%"),
)
def test_a_percentage(dataset: Dataset, holder: NodeCache, percent: str) -> None:
    assert status(dataset, make_node("a"), holder).cached_percent == percent


def test_too_few_nodes_degrade_it_and_it_is_not_ready() -> None:
    dataset = listed(make_dataset(cache={"replicas": 2}))
    found = status(dataset, make_node("a"), make_holder("a", dataset))
    assert (found.phase, found.warm_nodes) == (Phase.DEGRADED, "1/2")
    assert said(found, DEGRADED) == ("True", Reason.NOT_ENOUGH_NODES)
    assert said(found, READY) == ("False", Reason.NOT_ENOUGH_NODES)


def test_a_quota_that_is_full_is_ready_and_not_warm() -> None:
    found = status(IMAGENET, make_node("a"), make_holder("a", IMAGENET, SIZE // 2, phase=NodePhase.FULL))
    assert (found.phase, said(found, WARM), said(found, READY)[0]) == (
        Phase.READY,
        ("False", Reason.QUOTA_EXCEEDED),
        "True",
    )
    assert message(found, WARM) == "500 B of 1000 B fit on a; the rest is read through"


def test_a_full_dataset_shows_full_and_no_time_left() -> None:
    full = make_holder("a", IMAGENET, SIZE // 2, phase=NodePhase.FULL, eta_seconds=19)
    found = status(IMAGENET, make_node("a"), full)
    assert (found.shown_phase, found.warm_nodes, found.cached_percent, found.eta) == ("Full", "0/1", "50%", "")
    assert found.nodes[0].eta == ""


@pytest.mark.parametrize("policy", ["Eager", "Manual"])
def test_a_paused_dataset_shows_paused_and_neither_speed_nor_time_left(policy: str) -> None:
    dataset = listed(make_dataset(warm={"paused": True, "policy": policy}))
    moving = make_holder("a", dataset, SIZE // 2, bytes_per_second=100, eta_seconds=65)
    found = status(dataset, make_node("a"), moving)
    assert (found.shown_phase, found.speed, found.eta) == ("Paused", "", "")
    assert message(found, WARM).endswith("0 of 1 nodes warm, 50% (500 B of 1000 B)")


def test_a_paused_dataset_that_is_warm_is_ready() -> None:
    dataset = listed(make_dataset(warm={"paused": True}))
    assert status(dataset, make_node("a"), make_holder("a", dataset)).shown_phase == "Ready"


def test_a_dataset_that_nothing_warms_shows_no_time_left() -> None:
    dataset = listed(make_dataset(warm={"policy": "Manual"}))
    read = (given(dataset, eager=False), report(dataset, 10, bytes_per_second=100, eta_seconds=9))
    found = status(dataset, make_node("a"), make_cache("a", read))
    assert (found.speed, found.eta) == ("100 B/s", "")


def test_the_cached_bytes_say_on_how_many_nodes_they_are() -> None:
    dataset = listed(make_dataset(cache={"replicas": 2}))
    nodes = [make_node(name) for name in "ab"]
    both = status(dataset, *nodes, *(make_holder(name, dataset) for name in "ab"))
    assert (both.total, both.cached, both.cached_percent) == ("1000 B", "2.0 KiB on 2 nodes", "100%")


def test_a_warm_node_that_need_not_be_warm_is_counted_apart() -> None:
    dataset = listed(make_dataset(cache={"replicas": 1}))
    nodes = [make_node(name) for name in "ab"]
    found = status(dataset, *nodes, *(make_holder(name, dataset) for name in "ab"))
    assert (found.warm_nodes, found.node_counts) == ("1/1 (+1)", {"Warm": 2})


@pytest.mark.parametrize("policy", ["OnDemand", "Manual"])
def test_what_is_not_warmed_ahead_is_ready_once_it_is_listed(policy: str) -> None:
    dataset = listed(make_dataset(warm={"policy": policy}))
    cache = make_cache("a", (given(dataset, eager=False), report(dataset, 0, phase=NodePhase.IDLE)))
    found = status(dataset, make_node("a"), cache)
    assert (found.phase, said(found, READY)) == (Phase.READY, ("True", policy))
    assert said(found, WARM) == ("False", policy)


def test_a_paused_dataset_says_so() -> None:
    dataset = listed(make_dataset(warm={"paused": True}))
    assert said(status(dataset, make_node("a"), make_holder("a", dataset, 10)), WARM) == ("False", Reason.PAUSED)


def test_an_error_on_a_node_degrades_it_with_the_nodes_sentence() -> None:
    error = NodeError(reason=Reason.ACCESS_DENIED, message="key x may not be read")
    found = status(IMAGENET, make_node("a"), make_holder("a", IMAGENET, 10, error=error))
    assert (found.phase, said(found, DEGRADED)) == (Phase.DEGRADED, ("True", Reason.ACCESS_DENIED))
    assert message(found, DEGRADED) == "a: key x may not be read"


@pytest.mark.parametrize(("temporary", "phase"), [(True, Phase.DEGRADED), (False, Phase.FAILED)])
def test_it_has_failed_when_every_node_has_given_up(temporary: bool, phase: Phase) -> None:
    error = NodeError(reason=Reason.ENDPOINT_UNREACHABLE, message="refused", temporary=temporary)
    failed = make_holder("a", IMAGENET, 10, phase=NodePhase.FAILED, error=error)
    assert status(IMAGENET, make_node("a"), failed).phase is phase


def test_what_nodes_hold_of_an_old_version_does_not_count() -> None:
    dataset = listed(make_dataset(), version=V2)
    old = make_holder("a", dataset, version=V1)
    found = status(dataset, make_node("a"), old)
    assert (found.cached, found.warm_nodes, found.nodes[0].version) == ("0 B", "0/1", V1)


def test_versions_that_pods_still_read_are_told() -> None:
    dataset = listed(make_dataset(), version=V2)
    used = make_holder("a", dataset, mounts=(mount(dataset, version=V1),))
    assert status(dataset, make_node("a"), used).versions_in_use == (V1,)


def test_deletion_names_the_pods_and_then_the_nodes() -> None:
    dataset = listed(make_dataset(deletion_timestamp="2026-11-21T10:00:00Z"))
    mounts = tuple(mount(dataset, pod=f"trainer-{index}") for index in range(7))
    blocked = status(dataset, make_node("a"), make_holder("a", dataset, mounts=mounts))
    assert (blocked.phase, said(blocked, ConditionType.DELETION_BLOCKED)) == (
        Phase.TERMINATING,
        ("True", Reason.IN_USE),
    )
    assert "7 pods: vision/trainer-0 on a," in message(blocked, ConditionType.DELETION_BLOCKED)
    assert "and 2 more" in message(blocked, ConditionType.DELETION_BLOCKED)
    cleaning = status(dataset, make_node("a"), make_holder("a", dataset))
    assert said(cleaning, ConditionType.DELETION_BLOCKED) == ("False", Reason.CLEANING)


def test_the_same_facts_give_the_same_status_so_that_nothing_is_written() -> None:
    parts = make_node("a"), make_holder("a", IMAGENET)
    once = status(IMAGENET, *parts)
    again = status(IMAGENET.model_copy(update={"status": once}), *parts, now=NOW + 100)
    assert again == once


def test_a_transition_time_changes_with_the_status_only() -> None:
    cold = status(IMAGENET, make_node("a"), make_holder("a", IMAGENET, 10))
    colder = IMAGENET.model_copy(update={"status": cold})
    later = status(colder, make_node("a"), make_holder("a", IMAGENET, 20), now=NOW + 5)
    warm = status(colder, make_node("a"), make_holder("a", IMAGENET), now=NOW + 9)
    times = [find(one.conditions, WARM) for one in (cold, later, warm)]
    stamps = [one.last_transition_time for one in times if one]
    assert stamps[0] == stamps[1] != stamps[2]


def test_an_invalid_spec_keeps_what_was_known_and_says_what_is_wrong() -> None:
    good = status(IMAGENET, make_node("a"), make_holder("a", IMAGENET))
    meta = IMAGENET.metadata.model_copy(update={"generation": 2})
    bad = invalid_status(InvalidDataset(meta, "spec.source.uri is missing", good), NOW)
    assert (bad.phase, bad.version, bad.observed_generation) == (Phase.FAILED, V1, 2)
    assert said(bad, ConditionType.ACCEPTED) == ("False", Reason.INVALID_SPEC)
    assert said(bad, WARM) == ("True", Reason.WARM)


def test_of_many_nodes_those_that_need_attention_are_shown_and_all_are_counted() -> None:
    dataset = listed(make_dataset(cache={"replicas": "all"}))
    error = NodeError(reason="DiskFull", message="x" * 1000)
    names = [f"n{number:03}" for number in range(60)]
    caches = [make_holder(name, dataset) for name in names]
    caches[57] = make_holder("n057", dataset, 10)
    caches[59] = make_holder("n059", dataset, 0, phase=NodePhase.FAILED, error=error)
    found = status(dataset, *map(make_node, names), *caches)
    assert found.node_counts == {"Failed": 1, "Warm": 58, "Warming": 1}
    assert [row.name for row in found.nodes] == [*names[:48], "n057", "n059"]
    assert len(found.nodes[-1].last_error) == 256


def test_sums_stay_within_what_the_api_server_counts() -> None:
    dataset = listed(make_dataset(cache={"replicas": 10_000}), size=2**60)
    found = status(dataset, make_node("a"), make_holder("a", dataset, bytes=2**60, warm_bytes=2**60))
    assert found.wanted_bytes == 2**63 - 1


def limited_status(terms: ClassTerms, dataset: Dataset) -> DatasetStatus:
    view = replace(make_view(dataset, make_node("a"), make_holder("a", dataset)), terms={dataset.key: terms})
    return decide_once(view).status(dataset.key, "", (), NOW)


def test_what_its_class_cuts_is_told_and_also_when_it_is_over() -> None:
    cut = limited_status(ClassTerms("tenants", ("warm.priority 7 is changed to 0",)), IMAGENET)
    assert (cut.class_name, said(cut, ConditionType.LIMITED)) == ("tenants", ("True", Reason.LIMITED_BY_CLASS))
    after = limited_status(ClassTerms("tenants"), IMAGENET.model_copy(update={"status": cut}))
    assert said(after, ConditionType.LIMITED) == ("False", Reason.WITHIN_CLASS)
    assert find(limited_status(ClassTerms("tenants"), IMAGENET).conditions, ConditionType.LIMITED) is None


@cases("reason, phase", (Reason.CLASS_NOT_FOUND, Phase.PENDING), (Reason.NOT_ALLOWED_BY_CLASS, Phase.FAILED))
def test_a_dataset_without_its_class_is_not_accepted(reason: Reason, phase: Phase) -> None:
    dataset = make_dataset()
    found = invalid_status(InvalidDataset(dataset.metadata, "name another", dataset.status, reason), NOW)
    assert (found.phase, said(found, ConditionType.ACCEPTED)) == (phase, ("False", reason))


@pytest.mark.parametrize("replicas", ["all", "50%"])
def test_of_all_nodes_where_there_is_none_pods_can_read_it_and_it_says_what_is_missing(replicas: str) -> None:
    dataset = listed(make_dataset(cache={"replicas": replicas, "nodeSelector": {"gpu": "a100"}}))
    found = status(dataset, make_node("a"))
    assert (said(found, WARM), said(found, READY)) == (("False", Reason.NO_NODES), ("True", Reason.ON_DEMAND))
    assert (
        message(found, READY)
        == "pods can read it; no ready node with a running sidecar matches cache.nodeSelector gpu=a100"
    )


def test_on_no_node_at_all_nothing_is_missing() -> None:
    found = status(listed(make_dataset(cache={"replicas": 0})), make_node("a"))
    assert said(found, WARM) == ("False", Reason.ON_DEMAND)


def test_nodes_that_lack_only_unreadable_objects_are_ready_and_degraded() -> None:
    error = {"reason": "UnreadableObjects", "message": "3 of 9 objects cannot be read, such as: m", "temporary": False}
    found = status(IMAGENET, make_node("a"), make_holder("a", IMAGENET, SIZE // 2, phase=NodePhase.FULL, error=error))
    assert (said(found, WARM), said(found, READY)[0]) == (("False", Reason.UNREADABLE_OBJECTS), "True")
    assert said(found, DEGRADED) == ("True", Reason.UNREADABLE_OBJECTS)
    assert message(found, DEGRADED) == "a: 3 of 9 objects cannot be read, such as: m"


def test_folders_that_cannot_be_listed_degrade_the_dataset() -> None:
    skipped = (SkippedKeys(reason=UNREADABLE, count=2, example="m/"), SkippedKeys(reason="EmptySegment", count=1))
    cache = answering("a", make_dataset(), version=V1, files=1797, bytes=2048, skipped=skipped)
    found = status(make_dataset(), make_node("a"), cache)
    counted = '2 folders or files cannot be listed and are left out, such as "m/"'
    assert said(found, DEGRADED) == ("True", Reason.UNREADABLE_OBJECTS)
    assert message(found, DEGRADED).startswith(counted)
    assert f"; 1 key cannot be a file and is left out: 1 EmptySegment; {counted}" in message(found, LISTED)


@cases(
    "listing, shown",
    ("http://minio refused", "a: http://minio refused"),
    ("no such prefix", "listing fails: no such prefix"),
)
def test_a_problem_that_a_node_and_its_listing_have_is_said_once(listing: str, shown: str) -> None:
    dataset = make_dataset()
    node = NodeError(reason=Reason.ENDPOINT_UNREACHABLE, message="http://minio refused", temporary=True)
    entry = given(dataset, listing_id=new_id(dataset, NOW))
    failed = ListingResult(id=entry.listing_id, error=NodeError(**node.model_dump() | {"message": listing}))
    found = status(dataset, make_node("a"), make_cache("a", (entry, report(dataset, 0, listing=failed, error=node))))
    assert message(found, DEGRADED).count(shown) == 1
    assert ("listing fails" in message(found, DEGRADED)) is ("listing fails" in shown)
