"""When the finalizer of a deleted Dataset goes, and who uses the Dataset."""

from typing import Any

from stoker_operator.core.plans.deletion import Deletion
from stoker_operator.core.views.cluster import ClusterView, PodView
from tests.support.cases import cases
from tests.unit.stoker_operator.builders import (
    decide_once,
    decided,
    given,
    listed,
    make_cache,
    make_dataset,
    make_node,
    make_user,
    make_view,
    mount,
    report,
)

KNOWN = {"nodes": [{"name": "a"}, {"name": "b"}]}  # nodes that once had the Dataset in their plan
DELETED = listed(make_dataset(deletion_timestamp="2026-11-21T10:00:00Z", status=KNOWN))
ROW, LEFT = (given(DELETED), report(DELETED)), (None, report(DELETED))


def deletion(*parts: Any) -> Deletion:
    return decided(DELETED, *parts).deletions[DELETED.key]


def users(view: ClusterView) -> list[str]:
    return [f"{use.namespace}/{use.pod}" for use in decide_once(view).plans[DELETED.key].uses]


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


MOUNTED = make_cache("a", ROW, mounts=(mount(DELETED),))
WAITING_STRANGER = make_cache("a", mounts=(mount(DELETED, version="", phase="Pending") | {"podNamespace": "evil"},))
READING_STRANGER = make_cache("a", ROW, mounts=(mount(DELETED) | {"podNamespace": "other"},))
SILENT, NO_SIDECAR = make_node("a", ready=False), make_node("a", sidecar_ready=False)


@cases(
    "parts, blocked",
    of_a_stranger_that_waits_does_not=((make_node("a"), WAITING_STRANGER), False),
    whose_grant_was_taken_back_does=((make_node("a"), READING_STRANGER), True),
    on_a_node_that_answers_does=((make_node("a"), MOUNTED), True),
    on_a_silent_node_does_not=((SILENT, MOUNTED), False),
    on_a_silent_node_does_while_the_pod_exists=((SILENT, MOUNTED, make_user(DELETED, "a")), True),
    on_a_node_without_sidecar_does_not=((NO_SIDECAR, MOUNTED), False),
    on_a_node_without_sidecar_does_while_the_pod_exists=((NO_SIDECAR, MOUNTED, make_user(DELETED, "a")), True),
)
def test_whether_a_mount_holds_it(parts: tuple[Any, ...], blocked: bool) -> None:
    assert deletion(*parts).blocked is blocked


def test_a_claim_of_that_name_in_another_namespace_does_not_hold_it() -> None:
    assert users(make_view(DELETED, PodView("other", "p", claims=("imagenet",)))) == []


def test_it_waits_for_the_disks_of_nodes_that_answer() -> None:
    found = deletion(make_node("a"), make_cache("a", LEFT))
    assert (found.done, found.cleaning) == (False, ("a",))


def test_a_node_that_was_never_given_it_holds_up_no_deletion() -> None:
    assert deletion(make_node("c"), make_cache("c", LEFT, mounts=(mount(DELETED),))).done


def test_nodes_that_do_not_answer_are_named_and_not_waited_for() -> None:
    silent = make_node("b", ready=False)
    found = deletion(make_node("a"), silent, make_cache("b", LEFT))
    assert (found.done, found.skipped) == (True, ("b",))
    assert "b cannot be reached" in found.message


def test_a_node_is_waited_for_until_it_was_told() -> None:
    told_nothing = make_cache("a", (given(DELETED), None))
    assert deletion(make_node("a", sidecar_ready=False), told_nothing).cleaning == ("a",)
