"""When a deleted Dataset may go, and who uses it."""

from typing import Any

from stoker_operator.core.deletion import Deletion
from stoker_operator.core.usage import find_uses
from stoker_operator.core.views import ClusterView, PodView
from tests.unit.stoker_operator.builders import (
    decided,
    given,
    listed,
    make_cache,
    make_dataset,
    make_node,
    make_view,
    mount,
    report,
)

DELETED = listed(make_dataset(deletion_timestamp="2026-11-21T10:00:00Z"))
ROW = (None, report(DELETED))


def deletion(*parts: Any) -> Deletion:
    return decided(DELETED, *parts).deletions[DELETED.key]


def users(view: ClusterView) -> list[str]:
    return [f"{use.namespace}/{use.pod}" for use in find_uses(view).get(DELETED.key, ())]


def test_a_pod_that_names_it_holds_it_until_the_pod_has_ended() -> None:
    by_claim = PodView("vision", "p", claims=("imagenet",))
    by_volume = PodView("other", "q", volumes=("vision/imagenet",))
    ended = PodView("vision", "r", volumes=("vision/imagenet",), phase="Succeeded")
    shared = listed(make_dataset(deletion_timestamp="2026-11-21T10:00:00Z", access={"namespaces": ["oth*"]}))
    assert users(make_view(shared, by_claim, by_volume, ended)) == ["other/q", "vision/p"]
    assert deletion(by_claim).blocked
    assert deletion(ended).done


def test_a_pod_that_names_what_it_may_not_mount_holds_nothing() -> None:
    stranger = PodView("evil", "q", volumes=("vision/imagenet",))
    assert users(make_view(DELETED, stranger)) == []
    assert deletion(stranger).done


def test_the_mount_of_a_stranger_that_waits_on_a_node_holds_nothing() -> None:
    asked = make_cache("a", mounts=(mount(DELETED, version="", phase="Pending") | {"podNamespace": "evil"},))
    assert deletion(make_node("a"), asked).done


def test_what_is_mounted_holds_it_although_the_grant_was_taken_back() -> None:
    used = make_cache("a", ROW, mounts=(mount(DELETED) | {"podNamespace": "other"},))
    assert deletion(make_node("a"), used).blocked


def test_a_claim_of_that_name_in_another_namespace_does_not_hold_it() -> None:
    assert users(make_view(DELETED, PodView("other", "p", claims=("imagenet",)))) == []


def test_a_mount_holds_it_while_its_node_answers() -> None:
    used = make_cache("a", ROW, mounts=(mount(DELETED),))
    assert deletion(make_node("a"), used).blocked
    assert not deletion(make_node("a", ready=False), used).blocked


def test_a_row_of_a_node_that_lost_its_sidecar_holds_it_only_while_the_pod_exists() -> None:
    used, node = make_cache("a", (None, report(DELETED)), mounts=(mount(DELETED),)), make_node("a", sidecar_ready=False)
    assert deletion(node, used).done
    assert deletion(node, used, PodView("vision", "trainer")).blocked


def test_a_mount_on_a_silent_node_holds_it_while_the_pod_exists() -> None:
    used = make_cache("a", ROW, mounts=(mount(DELETED),))
    assert deletion(make_node("a", ready=False), used, PodView("vision", "trainer")).blocked


def test_it_waits_for_the_disks_of_nodes_that_answer() -> None:
    found = deletion(make_node("a"), make_cache("a", ROW))
    assert (found.done, found.cleaning) == (False, ("a",))


def test_nodes_that_do_not_answer_are_named_and_not_waited_for() -> None:
    silent = make_node("b", ready=False)
    found = deletion(make_node("a"), silent, make_cache("b", ROW))
    assert (found.done, found.skipped) == (True, ("b",))
    assert "b cannot be reached" in found.message


def test_a_node_is_waited_for_until_it_was_told() -> None:
    told_nothing = make_cache("a", (given(DELETED), None))
    assert deletion(make_node("a", sidecar_ready=False), told_nothing).cleaning == ("a",)
