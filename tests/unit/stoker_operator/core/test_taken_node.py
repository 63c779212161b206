"""The reports of a compromised node gain it nothing: no plan, no Secret, no peers, no version."""

from dataclasses import replace
from typing import Any

import pytest

from stoker_api.node_caches.node_dataset import NodeDataset
from stoker_api.node_caches.node_dataset_status import ListingResult, NodeDatasetStatus, NodePhase
from stoker_operator.core.incremental.dataset_decision import Decision
from stoker_operator.core.incremental.decision import IncrementalDecision
from stoker_operator.core.placement.node_roles import Role
from stoker_operator.core.plans.credentials_rbac import KeptReaders, named_by
from stoker_operator.core.plans.listing import new_id
from stoker_operator.core.views.cluster import PodView, parse_pod
from tests.support.cases import cases
from tests.unit.stoker_operator.builders import (
    NOW,
    SIZE,
    V1,
    V2,
    decided,
    given,
    listed,
    make_cache,
    make_dataset,
    make_holder,
    make_node,
    make_user,
    make_view,
    mount,
    report,
)

EVIL, FORGED = "a-evil", "e" * 64
SOURCE = {"uri": "s3://secret/", "credentials": {"secretRef": {"name": "prod-keys"}}}
JEWELS = listed(make_dataset("jewels", cache={"replicas": 1}, source=SOURCE))
GOOD, TAKEN = make_node("good"), make_node(EVIL)
HOLDER = make_holder("good", JEWELS)
POD = make_user(JEWELS, EVIL)
STRANGER = PodView("evil", "trainer", uid="uid-trainer", node=EVIL, volumes=(JEWELS.key,))


def told(decision: Decision, node: str) -> list[NodeDataset]:
    written = {one.node.name: one.spec for one in decision.nodes.writes}
    return list((written.get(node) or decision.view.node_caches[node].spec).datasets)


def readers(decision: Decision) -> frozenset[str]:
    kept, (named,) = KeptReaders(), named_by("vision", JEWELS.spec.source.credentials)
    kept.update(decision.view, decision.plans, [JEWELS.key])
    return kept.nodes(named)


@pytest.mark.parametrize("phase", ["Pending", "Mounted"])
@cases(
    "row, pods",
    no_pod=({}, ()),
    other_node=({}, (make_user(JEWELS, "good"),)),
    no_node=({}, (make_user(JEWELS, ""),)),
    other_data=({}, (make_user(JEWELS, EVIL, volumes=("vision/other",)),)),
    ended=({}, (make_user(JEWELS, EVIL, phase="Failed"),)),
    no_grant=({"podNamespace": "evil"}, (STRANGER,)),
    other_namespace=({"podNamespace": "vision"}, (STRANGER,)),
)
def test_a_row_that_no_pod_stands_behind_gives_a_node_nothing(
    row: dict[str, Any], pods: tuple[PodView, ...], phase: str
) -> None:
    cache = make_cache(EVIL, mounts=({**mount(JEWELS, phase=phase), **row},))
    decision = decided(JEWELS, GOOD, TAKEN, HOLDER, cache, *pods)
    assert told(decision, EVIL) == []
    assert readers(decision) == {"good"}
    assert [one.peers for one in told(decision, "good")] == [()]


@pytest.mark.parametrize("uid", ["another", ""])
def test_a_row_of_another_pod_of_that_name_is_no_mount(uid: str) -> None:
    cache = make_cache(EVIL, mounts=(mount(JEWELS) | {"podUid": uid},))
    (use,) = decided(JEWELS, TAKEN, cache, replace(POD, uid=uid and "uid-trainer")).plans[JEWELS.key].uses
    assert (use.on_node, use.mounted) == (False, False)


def test_a_static_pod_is_its_kubelets_word_and_gives_its_node_nothing() -> None:
    attributes = {"dataset": "jewels"}
    volume = {"name": "d", "csi": {"driver": "csi.stoker.dev", "volumeAttributes": attributes}}
    meta = {"name": "trainer", "namespace": "vision", "uid": "uid-trainer"}
    spec = {"nodeName": EVIL, "containers": [], "volumes": [volume]}
    mirrored = {"annotations": {"kubernetes.io/config.mirror": "hash"}}
    real, static = (parse_pod({"metadata": meta | extra, "spec": spec}) for extra in ({}, mirrored))
    cache = make_cache(EVIL, mounts=(mount(JEWELS),))
    assert [one.name for one in told(decided(JEWELS, GOOD, TAKEN, HOLDER, cache, real), EVIL)] == ["jewels"]
    assert told(decided(JEWELS, GOOD, TAKEN, HOLDER, cache, static), EVIL) == []


def test_a_row_that_comes_before_its_pod_counts_when_the_pod_is_seen() -> None:
    cache = make_cache(EVIL, mounts=(mount(JEWELS, version="", phase="Pending"),))
    parts, kept = (JEWELS, GOOD, TAKEN, HOLDER, cache), IncrementalDecision()
    assert told(kept.decide(make_view(*parts), {}, NOW), EVIL) == []
    assert [one.name for one in told(kept.decide(make_view(*parts, POD), {}, NOW), EVIL)] == ["jewels"]


@pytest.mark.parametrize("phase", ["Mounted", "Pending"])
def test_what_was_given_stays_while_it_is_mounted_although_the_pod_is_gone(phase: str) -> None:
    idle = listed(make_dataset("jewels", cache={"replicas": 0}))
    cache = make_cache(EVIL, (given(idle), report(idle, warm=0)), mounts=(mount(idle, phase=phase),))
    roles = decided(idle, TAKEN, cache).plans[idle.key].placement.roles
    assert roles == ({EVIL: Role.USER} if phase == "Mounted" else {})


def test_a_mount_of_an_earlier_dataset_of_that_name_keeps_nothing() -> None:
    old, new = make_dataset("jewels", uid="old"), listed(make_dataset("jewels", cache={"replicas": 0}))
    cache = make_cache(EVIL, (given(old), None), mounts=(mount(new),))
    assert decided(new, TAKEN, cache).plans[new.key].placement.roles == {}


def test_a_row_with_the_name_of_another_nodes_pod_moves_no_use_away_from_there() -> None:
    idle = listed(make_dataset("jewels", cache={"replicas": 0}))
    liar = make_holder("z-evil", idle, mounts=(mount(idle),))
    decision = decided(idle, GOOD, make_node("z-evil"), make_holder("good", idle), liar, make_user(idle, "good"))
    assert decision.plans[idle.key].placement.roles["good"] is Role.USER


def test_a_version_that_is_no_digest_is_in_use_nowhere() -> None:
    cache = make_holder(EVIL, JEWELS, mounts=(mount(JEWELS, version="anything"),))
    assert decided(JEWELS, TAKEN, cache).plans[JEWELS.key].live == frozenset()


@pytest.mark.parametrize("phase", list(NodePhase))
def test_a_report_about_a_dataset_of_other_nodes_counts_nowhere(phase: NodePhase) -> None:
    error = {"reason": "DiskFull", "message": "forged"}
    forged = report(JEWELS, 2**60, phase=phase, retained=(V1, V2), error=error)
    two = listed(make_dataset("jewels", cache={"replicas": 2}, source=SOURCE), V1)
    for dataset in (JEWELS, two):
        nodes = (GOOD, make_node("other"), make_node(EVIL, schedulable=False))
        honest, lying = (decided(dataset, *nodes, HOLDER, cache) for cache in (make_cache(EVIL), _saying(forged)))
        assert [told(lying, one.name) for one in nodes] == [told(honest, one.name) for one in nodes]
        assert lying.status(dataset.key, "", (), NOW) == honest.status(dataset.key, "", (), NOW)


def _saying(row: NodeDatasetStatus) -> Any:
    return make_cache(EVIL, (None, row))


# Listings.


ASKED = new_id(make_dataset("jewels"), NOW - 1)


def answer(version: str) -> dict[str, Any]:
    return {"listing": ListingResult(id=ASKED, version=version, files=10, bytes=SIZE)}


def asked_dataset(**status: Any) -> Any:
    return make_dataset("jewels", status={"listingId": ASKED, "listingNode": "good"} | status)


def lister(dataset: Any, version: str, listing_id: str = ASKED) -> Any:
    row = report(dataset, 0, version="", files=0, phase=NodePhase.PENDING, **answer(version))
    return make_cache("good", (given(dataset, listing_id=listing_id), row))


def version_of(*parts: Any) -> str:
    dataset = next(one for one in parts if getattr(one, "KIND", "") == "Dataset")
    return decided(*parts).plans[dataset.key].listing.version


def test_only_the_node_that_was_asked_says_what_the_version_is() -> None:
    dataset = asked_dataset()
    forged = report(dataset, SIZE, version=FORGED, phase=NodePhase.WARM, **answer(FORGED))
    for entry in (None, given(dataset)):
        assert version_of(dataset, GOOD, TAKEN, lister(dataset, V1), make_cache(EVIL, (entry, forged))) == V1
        assert version_of(dataset, GOOD, TAKEN, make_cache(EVIL, (entry, forged))) == ""


def test_an_answer_counts_only_while_the_nodes_spec_asks_for_it() -> None:
    dataset = asked_dataset()
    assert version_of(dataset, GOOD, lister(dataset, V1, listing_id="")) == ""


def test_an_answer_is_taken_once() -> None:
    said = {"version": V1, "listedAt": "2027-01-15T08:00:00.000Z", "files": 10, "bytes": SIZE}
    dataset = asked_dataset(**said)
    holder = make_holder("other", dataset)
    parts = (dataset, GOOD, make_node("other"), lister(dataset, FORGED), holder)
    plan = decided(*parts).plans[dataset.key]
    assert (plan.listing.version, plan.listing.id, plan.listing.result) == (V1, ASKED, None)


def test_a_lister_that_lost_the_manifest_is_told_who_has_it() -> None:
    said = {"version": V1, "listedAt": "2027-01-15T08:00:00.000Z", "files": 10, "bytes": SIZE}
    dataset = asked_dataset(**said)
    lost, nodes = lister(dataset, V2), (GOOD, make_node("other"))
    (there,) = [
        one.manifest_hosts for one in told(decided(dataset, *nodes, lost, make_holder("other", dataset)), "good")
    ]
    assert there == ("other:8081",)


def test_an_answer_is_taken_once_before_the_status_says_so() -> None:
    dataset, kept = asked_dataset(), IncrementalDecision()
    versions = []
    for version in (V1, FORGED):
        view = make_view(
            dataset, GOOD, make_node("other"), lister(dataset, version), make_holder("other", listed(dataset))
        )
        versions.append(kept.decide(view, {}, NOW).plans[dataset.key].listing.version)
    assert versions == [V1, V1]


def test_what_a_lister_lost_and_lists_otherwise_is_listed_again_by_another_id() -> None:
    said = {"version": V1, "listedAt": "2027-01-15T08:00:00.000Z"}
    dataset = asked_dataset(**said)
    listing = decided(dataset, GOOD, lister(dataset, V2), now=NOW + 120).plans[dataset.key].listing
    assert (listing.asked_now, listing.version) == (True, V1)


# Data on the disk of a node whose NodeCache is new.


def blind(cache: Any) -> Any:
    return cache.model_copy(update={"spec": cache.spec.model_copy(update={"keep_unlisted": True})})


def test_what_a_new_node_cache_finds_stays_without_credentials_and_peers_until_a_pod_comes() -> None:
    found = blind(_saying(report(JEWELS)))
    parts = (JEWELS, GOOD, TAKEN, HOLDER)
    first = decided(*parts, found)
    (entry,) = told(first, EVIL)
    assert (entry.adopted, entry.source.credentials, entry.peers, entry.eager) == (True, None, (), False)
    assert readers(first) == {"good"}
    assert [one.peers for one in told(first, "good")] == [()]
    adopted = make_cache(EVIL, (entry, report(JEWELS)))
    assert told(decided(*parts, adopted), EVIL) == [entry]
    later = decided(*parts, adopted, POD)
    (placed,) = told(later, EVIL)
    assert (placed.adopted, placed.eager) == (False, True)
    assert readers(later) == {"good", EVIL}


def test_what_is_found_takes_no_replica_from_a_node_that_was_given_it() -> None:
    partial = make_holder("good", JEWELS, 1)
    roles = decided(JEWELS, GOOD, TAKEN, partial, blind(_saying(report(JEWELS)))).plans[JEWELS.key].placement.roles
    assert roles == {"good": Role.REPLICA, EVIL: Role.IDLE}


def test_what_is_found_becomes_the_replica_that_is_missing() -> None:
    decision = decided(JEWELS, GOOD, TAKEN, blind(_saying(report(JEWELS))))
    assert decision.plans[JEWELS.key].placement.roles == {EVIL: Role.REPLICA}
    assert readers(decision) >= {EVIL}
