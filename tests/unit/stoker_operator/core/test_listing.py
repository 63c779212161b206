"""Which node lists a source, and when it is listed again."""

from typing import Any

from stoker_api import names
from stoker_api.datasets.dataset import Dataset
from stoker_api.node_caches.node_dataset_status import ListingResult, NodeError
from stoker_api.node_caches.nodecache import NodeCache
from stoker_api.times import format_time
from stoker_operator.core.plans.listing import RETRY_FAILED, ListingState, fingerprint, first_fingerprint, new_id
from tests.unit.stoker_operator.builders import (
    NOW,
    V1,
    V2,
    decided,
    given,
    make_cache,
    make_dataset,
    make_holder,
    make_node,
    report,
)


def listing(*parts: Any, now: float = NOW) -> ListingState:
    return decided(*parts, now=now).plans["vision/imagenet"].listing


def asked(dataset: Dataset, node: str, result: ListingResult | None = None, when: float = NOW, **row: Any) -> NodeCache:
    """Make a node that was asked to list at ``when``, with an optional answer."""
    entry = given(dataset, listing_id=new_id(dataset, when))
    answer = result.model_copy(update={"id": entry.listing_id}) if result else None
    return make_cache(node, (entry, report(dataset, listing=answer, **row)))


def taken_over(dataset: Dataset, node: str = "a", when: float = NOW, version: str = V1) -> Dataset:
    """Return the Dataset one second after the listing asked at ``when``, with the answer in its status."""
    status = {
        "listing_id": new_id(dataset, when),
        "listing_node": node,
        "listed_at": format_time(when + 1),
        "version": version,
    }
    return dataset.model_copy(update={"status": dataset.status.model_copy(update=status)})


GOOD = ListingResult(id="", version=V1, files=10, bytes=1000)
BAD = ListingResult(id="", error=NodeError(reason="BucketNotFound", message="no such bucket", temporary=False))


def test_a_new_dataset_is_listed_by_a_node_that_will_hold_it() -> None:
    dataset = make_dataset(cache={"nodeSelector": {"gpu": "yes"}})
    found = listing(dataset, make_node("a"), make_node("b", labels={"gpu": "yes"}))
    assert (found.node, found.id) == ("b", new_id(dataset, NOW))


def test_with_no_node_the_listing_is_blocked() -> None:
    assert listing(make_dataset()).blocked


def test_an_asked_listing_is_waited_for() -> None:
    dataset = make_dataset()
    found = listing(dataset, make_node("a"), make_node("b"), asked(dataset, "b"), now=NOW + 3600)
    assert (found.node, found.id, found.result) == ("b", new_id(dataset, NOW), None)


def revoked(cache: NodeCache) -> NodeCache:
    annotations = {names.ANNOTATION_PEERS: "Off"}
    return cache.model_copy(update={"metadata": cache.metadata.model_copy(update={"annotations": annotations})})


def test_a_revoked_node_lists_nothing() -> None:
    dataset = make_dataset()
    parts = (dataset, make_node("a"), revoked(make_cache("a")))
    assert listing(*parts, make_node("b")).node == "b"
    assert listing(*parts).blocked


def test_the_version_of_a_lister_that_was_revoked_is_listed_by_another_node() -> None:
    dataset = taken_over(make_dataset())
    lister, other = revoked(asked(dataset, "a", GOOD)), make_cache("b")
    again = listing(dataset, make_node("a"), make_node("b"), lister, other, now=NOW + 60)
    assert (again.node, again.version) == ("b", V1)


def test_the_answer_makes_the_version() -> None:
    dataset = make_dataset()
    found = listing(dataset, make_node("a"), asked(dataset, "a", GOOD), now=NOW + 5)
    assert (found.version, found.answered_at, found.holders) == (V1, NOW + 5, ("a",))


def test_a_changed_source_is_listed_again_and_the_old_version_stays_meanwhile() -> None:
    before = make_dataset()
    cache = asked(before, "a", GOOD)
    changed = make_dataset(source={"uri": "s3://other/"})
    changed = changed.model_copy(update={"status": taken_over(before).status})
    found = listing(changed, make_node("a"), cache, now=NOW + 60)
    assert (found.id, found.version, found.result) == (new_id(changed, NOW + 60), V1, None)


def with_secret(name: str) -> Dataset:
    return make_dataset(source={"uri": "s3://bucket/", "credentials": {"secretRef": {"name": name}}})


def test_another_secret_lists_nothing_again() -> None:
    before, after = with_secret("keys"), with_secret("other")
    after = after.model_copy(update={"status": taken_over(before).status})
    found = listing(after, make_node("a"), asked(before, "a", GOOD), now=NOW + 60)
    assert (found.id, found.version) == (new_id(before, NOW), V1)


def of_a_first_release(dataset: Dataset, source: str = "") -> tuple[Dataset, NodeCache]:
    """Return a listed Dataset and its lister as an operator of the first releases left them."""
    old = f"{first_fingerprint(dataset)}-{int(NOW * 1000)}"
    status = taken_over(dataset).status.model_copy(update={"listing_id": old, "listing_source": source})
    answer = GOOD.model_copy(update={"id": old})
    row = given(dataset, listing_id=old), report(dataset, listing=answer)
    return dataset.model_copy(update={"status": status}), make_cache("a", row)


def test_an_upgrade_lists_nothing_again_and_notes_what_was_listed() -> None:
    dataset, cache = of_a_first_release(with_secret("keys"))
    found = listing(dataset, make_node("a"), cache, now=NOW + 60)
    assert (found.id, found.version, found.source) == (dataset.status.listing_id, V1, fingerprint(dataset))


def test_another_secret_after_an_upgrade_lists_nothing_again() -> None:
    before, cache = of_a_first_release(with_secret("keys"), fingerprint(with_secret("keys")))
    after = with_secret("other").model_copy(update={"status": before.status})
    assert listing(after, make_node("a"), cache, now=NOW + 60).id == before.status.listing_id


def test_another_source_after_an_upgrade_is_listed() -> None:
    before, cache = of_a_first_release(make_dataset(), fingerprint(make_dataset()))
    after = make_dataset(source={"uri": "s3://other/"}).model_copy(update={"status": before.status})
    assert listing(after, make_node("a"), cache, now=NOW + 60).id == new_id(after, NOW + 60)


def test_a_refresh_request_asks_once() -> None:
    before = make_dataset()
    refreshed = make_dataset(annotations={names.ANNOTATION_REFRESH_REQUESTED: "2026-11-21T10:00:00Z"})
    refreshed = refreshed.model_copy(update={"status": taken_over(before).status})
    found = listing(refreshed, make_node("a"), asked(before, "a", GOOD), now=NOW + 60)
    assert found.id == new_id(refreshed, NOW + 60)
    again = listing(refreshed, make_node("a"), asked(refreshed, "a", GOOD, when=NOW + 60), now=NOW + 120)
    assert again.id == new_id(refreshed, NOW + 60)


def test_follow_lists_again_after_the_interval_and_pinned_never() -> None:
    follow = taken_over(make_dataset(refresh={"policy": "Follow", "interval": "10m"}))
    pinned = taken_over(make_dataset())
    for dataset, due in ((follow, True), (pinned, False)):
        parts = dataset, make_node("a"), asked(dataset, "a", GOOD)
        assert listing(*parts, now=NOW + 600).id == new_id(dataset, NOW)
        assert (listing(*parts, now=NOW + 602).id != new_id(dataset, NOW)) is due


def test_follow_says_when_it_wants_to_be_looked_at_again() -> None:
    dataset = taken_over(make_dataset(refresh={"policy": "Follow", "interval": "10m"}))
    assert decided(dataset, make_node("a"), asked(dataset, "a", GOOD), now=NOW + 5).look_again == NOW + 601


def test_a_listing_that_failed_for_good_is_asked_again_after_a_minute() -> None:
    dataset = make_dataset()
    parts = dataset, make_node("a"), asked(dataset, "a", BAD)
    assert listing(*parts, now=NOW + RETRY_FAILED - 1).result is not None
    assert listing(*parts, now=NOW + RETRY_FAILED).id == new_id(dataset, NOW + RETRY_FAILED)


def test_an_unanswered_listing_moves_when_its_node_is_gone() -> None:
    dataset = make_dataset()
    status = {"listing_id": new_id(dataset, NOW), "listing_node": "gone"}
    dataset = dataset.model_copy(update={"status": dataset.status.model_copy(update=status)})
    assert listing(dataset, make_node("a"), now=NOW + 5).node == "a"


def test_an_answered_listing_is_not_repeated_when_its_node_is_gone_and_another_has_the_manifest() -> None:
    dataset = taken_over(make_dataset(), node="gone")
    holder = make_holder("a", dataset)
    found = listing(dataset, make_node("a"), holder, now=NOW + 3600)
    assert (found.id, found.holders) == (new_id(dataset, NOW), ("a",))


def test_a_version_that_no_node_has_any_more_is_listed_again() -> None:
    dataset = taken_over(make_dataset(), node="gone", version=V2)
    assert listing(dataset, make_node("a"), now=NOW + 3600).id == new_id(dataset, NOW + 3600)


def test_a_pinned_version_outlives_an_outage_of_its_only_node() -> None:
    dataset = taken_over(make_dataset())
    silent = make_node("a", ready=False, not_ready_since=NOW, sidecar_ready=False)
    found = listing(dataset, silent, asked(dataset, "a", GOOD), now=NOW + 3600)
    assert (found.id, found.version, found.blocked) == (new_id(dataset, NOW), V1, True)


def test_a_deleted_dataset_is_not_listed() -> None:
    assert listing(make_dataset(deletion_timestamp="2026-11-21T10:00:00Z"), make_node("a")).id == ""


def test_a_node_that_was_only_told_of_a_version_cannot_hand_out_its_manifest() -> None:
    dataset = taken_over(make_dataset(cache={"replicas": 2}))
    waiting = report(dataset, 0, files=0, bytes=0, phase="Pending")
    parts = make_node("a"), make_node("b"), asked(dataset, "a", GOOD), make_cache("b", (given(dataset), waiting))
    assert listing(dataset, *parts).holders == ("a",)


def test_a_lister_that_has_just_started_is_not_taken_for_one_that_lost_everything() -> None:
    dataset = taken_over(make_dataset())
    entry = given(dataset, listing_id=new_id(dataset, NOW))
    blank = report(dataset, 0, files=0, version="", phase="Pending")
    found = listing(dataset, make_node("a", sidecar_ready=False), make_cache("a", (entry, blank)), now=NOW + 60)
    assert (found.id, found.version) == (new_id(dataset, NOW), V1)


def test_an_unanswered_listing_moves_when_its_sidecar_is_not_ready_and_another_is() -> None:
    dataset = make_dataset()
    nodes = make_node("a", sidecar_ready=False), make_node("b")
    assert listing(dataset, *nodes, asked(dataset, "a")).node == "b"
