"""The total size of a namespace's Datasets."""

from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from hypothesis import given as for_all
from hypothesis import settings
from hypothesis import strategies as st

from stoker_api.datasets.dataset import Dataset
from stoker_api.datasets.dataset_status import DatasetStatus
from stoker_api.names import ConditionType, Reason
from stoker_api.node_caches.node_dataset_status import ListingResult
from stoker_api.node_caches.nodecache import NodeCache
from stoker_operator.core.incremental.dataset_decision import Decision
from stoker_operator.core.placement.node_roles import Placement, Role
from stoker_operator.core.plans.admission import AdmissionMemory
from stoker_operator.core.views.cluster import ClusterView, InvalidDataset
from tests.unit.stoker_operator.builders import (
    NOW,
    SIZE,
    condition,
    decide_once,
    given,
    listed,
    make_cache,
    make_class,
    make_dataset,
    make_holder,
    make_node,
    mount,
    report,
)

OLD, NEW = "2026-01-01T00:00:00Z", "2026-02-01T00:00:00Z"


def limited(*datasets: Dataset, nodes: str = "ab", caches: tuple[NodeCache, ...] = (), **quota: str) -> ClusterView:
    """Return a view in which the class of all Datasets has that quota."""
    found = make_class("tenants", default=True, quota=quota, allowPinning=True)
    admitted = AdmissionMemory().admit_all({one.key: one for one in datasets}, {"tenants": found})
    return ClusterView(
        datasets=admitted.datasets,
        terms=admitted.terms,
        invalid_datasets=admitted.invalid,
        nodes={name: make_node(name) for name in nodes},
        node_caches={name: make_cache(name) for name in nodes} | {one.key: one for one in caches},
    )


def placed(view: ClusterView) -> Mapping[str, Placement]:
    """Return the placements by name of the Dataset."""
    plans = decide_once(view).plans
    return {key.partition("/")[2]: plan.placement for key, plan in plans.items()}


def dataset(name: str, created: str = OLD, size: int = SIZE, **spec: Any) -> Dataset:
    return listed(make_dataset(name, creationTimestamp=created, **spec), size=size)


def status(decision: Decision, name: str) -> DatasetStatus:
    return decision.status(f"vision/{name}", "", (), NOW)


def test_the_oldest_is_placed_and_the_newest_waits() -> None:
    new, old = dataset("a", NEW), dataset("b", OLD)
    found = placed(limited(new, old, perNamespace="1500"))
    assert (len(found["b"].roles), found["a"].roles) == (1, {})
    assert (found["b"].charged, found["b"].over_quota) == (SIZE, "")


def test_the_message_names_the_largest_datasets_and_a_fix() -> None:
    found = placed(limited(dataset("a", NEW), dataset("b", OLD), perNamespace="1500", perNode="1200"))
    assert found["a"].over_quota == (
        "DatasetClass tenants gives the Datasets of namespace vision 1.5 KiB over all nodes and 1.2 KiB on each node; "
        "1000 B used by b (1000 B); this Dataset needs 1000 B per node: delete a Dataset, lower "
        "cache.replicas or set cache.quota, or ask an administrator for more"
    )


def test_each_replica_counts() -> None:
    found = placed(limited(dataset("a", cache={"replicas": "all"}), nodes="abcd", perNamespace="2Ki"))
    assert (len(found["a"].nodes(Role.REPLICA)), found["a"].desired, found["a"].charged) == (2, 4, 2 * SIZE)


def test_a_node_s_quota_sends_a_dataset_to_another_node() -> None:
    found = placed(limited(dataset("a"), dataset("b"), dataset("c"), perNode="1500"))
    places = [node for name in "abc" for node in found[name].nodes(Role.REPLICA)]
    assert sorted(places) == ["a", "b"]
    assert bool(found["c"].over_quota)


def test_a_tenant_s_quota_is_no_other_s() -> None:
    ours, theirs = dataset("a"), dataset("b", namespace="speech")
    assert all(one.placement.roles for one in decide_once(limited(ours, theirs, perNamespace="1Ki")).plans.values())


def test_present_data_goes_before_older_absent_data() -> None:
    old, new = dataset("a", OLD), dataset("b", NEW)
    cache = make_holder("a", new)
    found = placed(limited(old, new, caches=(cache,), perNamespace="1500"))
    assert (found["a"].roles, found["b"].roles) == ({}, {"a": Role.REPLICA})


def test_where_a_quota_shrinks_the_newest_goes() -> None:
    old, new = dataset("a", OLD), dataset("b", NEW, warm={"priority": 0})
    cache = make_cache("a", (given(old), report(old)), (given(new), report(new)))
    found = placed(limited(old, new, caches=(cache,), perNamespace="1500"))
    assert (found["a"].roles, found["b"].roles) == ({"a": Role.REPLICA}, {})


def test_what_a_pod_has_mounted_stays_and_is_read_through() -> None:
    old, new = dataset("a", OLD), dataset("b", NEW)
    cache = make_cache("a", (given(old), report(old)), (given(new), report(new, warm=300)), mounts=(mount(new),))
    view = limited(old, new, nodes="a", caches=(cache,), perNamespace="1200")
    decision = decide_once(view)
    assert decision.plans["vision/b"].placement.roles == {"a": Role.GUEST}
    entry = next(one for write in decision.nodes.writes for one in write.spec.datasets if one.name == "b")
    assert (entry.eager, entry.quota_bytes) == (False, 0)
    assert status(decision, "b").charged_bytes == 300


def test_a_pod_that_lands_past_the_quota_reads_through_too() -> None:
    old, new = dataset("a", OLD), dataset("b", NEW)
    cache = make_holder("a", old)
    view = limited(old, new, nodes="a", caches=(cache,), perNode="1Ki")
    placement = decide_once(view, {"vision/b": frozenset("a")}).plans["vision/b"].placement
    assert placement.roles == {"a": Role.GUEST}
    assert placement.starved == {"a"}


def test_a_node_that_the_selector_leaves_out_is_no_way_around_the_quota() -> None:
    odd = dataset("a", size=5000, cache={"nodeSelector": {"no": "node"}})
    cache = make_cache("a", (given(odd), None), mounts=(mount(odd),))
    assert placed(limited(odd, nodes="a", caches=(cache,), perNamespace="1Ki"))["a"].starved == {"a"}


def test_idle_data_makes_room_in_the_quota_for_wanted_data() -> None:
    idle, wanted = dataset("a", OLD, cache={"replicas": 0}), dataset("b", NEW)
    cache = make_holder("a", idle)
    roomy = placed(limited(idle, wanted, nodes="a", caches=(cache,), perNamespace="2000"))
    tight = placed(limited(idle, wanted, nodes="a", caches=(cache,), perNamespace="1500"))
    assert (roomy["a"].roles, roomy["a"].charged) == ({"a": Role.IDLE}, SIZE)
    assert (tight["a"].roles, tight["b"].roles) == ({}, {"a": Role.REPLICA})


def test_a_dataset_that_is_being_deleted_counts_until_it_is_gone() -> None:
    leaving = dataset("a", OLD, deletion_timestamp=NEW)
    cache = make_holder("a", leaving, mounts=(mount(leaving),))
    assert placed(limited(leaving, dataset("b", NEW), caches=(cache,), perNamespace="1500"))["b"].roles == {}


def test_what_a_refused_dataset_holds_counts() -> None:
    refused, new = dataset("a", OLD, source={"uri": "file:///etc"}), dataset("b", NEW)
    cache = make_holder("a", refused)
    view = limited(new, caches=(cache,), perNamespace="1500")
    status = refused.status.model_copy(update={"class_name": "tenants"})
    invalid = {refused.key: InvalidDataset(refused.metadata, "no", status, Reason.NOT_ALLOWED_BY_CLASS)}
    plans = decide_once(ClusterView(view.datasets, view.terms, invalid, view.node_caches, view.nodes)).plans
    assert plans["vision/b"].placement.roles == {}


def test_what_was_listed_a_moment_ago_counts_before_the_status_says_it() -> None:
    fresh = make_dataset("a", creationTimestamp=OLD)
    answer = ListingResult(id="x", version="1" * 64, bytes=5000)
    cache = make_cache("a", (given(fresh, listing_id="x"), report(fresh, warm=0, listing=answer)))
    assert placed(limited(fresh, nodes="a", caches=(cache,), perNamespace="1Ki"))["a"].over_quota


def test_the_node_that_listed_it_is_not_taken_to_hold_it() -> None:
    old, fresh = dataset("a", OLD), make_dataset("b", creationTimestamp=NEW)
    answer = ListingResult(id="x", version="1" * 64, bytes=SIZE)
    manifest = report(fresh, 0, version="", files=0, bytes=0, listing=answer, retained=("1" * 64,))
    cache = make_cache("a", (given(old), report(old)), (given(fresh, listing_id="x"), manifest))
    found = placed(limited(old, fresh, nodes="a", caches=(cache,), perNode="1500"))["b"]
    assert (found.charged, "by a (1000 B); this Dataset" in found.over_quota) == (0, True)


def test_the_status_says_that_the_quota_is_why() -> None:
    decision = decide_once(limited(dataset("a", OLD), dataset("b", NEW), perNamespace="1500", perNode="1Mi"))
    found = status(decision, "b")
    for kind, word in ((ConditionType.WARM, "False"), (ConditionType.READY, "False"), (ConditionType.DEGRADED, "True")):
        one = condition(found, kind)
        assert (one.status, one.reason) == (word, Reason.NAMESPACE_QUOTA_EXCEEDED)
    assert (found.class_name, found.namespace_quota_bytes, found.node_quota_bytes) == ("tenants", 1500, 1 << 20)
    assert status(decision, "a").charged_bytes == SIZE


_SIZES = st.integers(0, 2000)


@st.composite
def clusters(draw: st.DrawFn) -> ClusterView:
    """Draw Datasets of two namespaces under a quota. Nodes hold or use some of them."""
    names = [f"n{index}" for index in range(draw(st.integers(1, 4)))]
    datasets = [_drawn(draw, index) for index in range(draw(st.integers(1, 4)))]
    quota = {kind: str(draw(st.integers(0, 5000))) for kind in ("perNamespace", "perNode") if draw(st.booleans())}
    caches = tuple(_drawn_cache(draw, name, datasets) for name in names)
    return limited(*datasets, nodes="", caches=caches, **quota)


def _drawn(draw: st.DrawFn, index: int) -> Dataset:
    cache = {"replicas": draw(st.integers(0, 3) | st.just("all")), "pinned": draw(st.booleans())}
    namespace = draw(st.sampled_from(["vision", "speech"]))
    return dataset(f"d{index}", draw(st.sampled_from([OLD, NEW])), draw(_SIZES), cache=cache, namespace=namespace)


def _drawn_cache(draw: st.DrawFn, name: str, datasets: list[Dataset]) -> NodeCache:
    held = [one for one in datasets if draw(st.booleans())]
    rows = [(given(one), report(one, warm=draw(st.integers(0, one.status.bytes or 0)))) for one in held]
    mounts = tuple(mount(one, f"{name}-{one.metadata.name}") for one in held if draw(st.booleans()))
    return make_cache(name, *rows, room=draw(st.integers(0, 5000)), mounts=mounts)


def with_nodes(view: ClusterView) -> ClusterView:
    nodes = {name: make_node(name) for name in view.node_caches}
    return ClusterView(view.datasets, view.terms, view.invalid_datasets, view.node_caches, nodes)


@settings(max_examples=50)
@for_all(clusters())
def test_what_nodes_may_keep_is_within_the_quotas(view: ClusterView) -> None:
    view = with_nodes(view)
    totals: dict[tuple[str, str], int] = defaultdict(int)
    terms = next(iter(view.terms.values()))
    for plan in decide_once(view).plans.values():
        namespace = plan.dataset.metadata.namespace
        for node, role in plan.placement.roles.items():
            if node not in plan.placement.starved and role is not Role.IDLE:
                totals[namespace, node] += plan.dataset.status.bytes or 0
                totals[namespace, ""] += plan.dataset.status.bytes or 0
    for (_, node), amount in totals.items():
        limit = terms.node_quota if node else terms.namespace_quota
        assert limit is None or amount <= limit


@settings(max_examples=50)
@for_all(clusters())
def test_what_pods_have_mounted_never_goes(view: ClusterView) -> None:
    plans = decide_once(with_nodes(view)).plans
    for node, cache in view.node_caches.items():
        for row in cache.status.mounts:
            assert node in plans[f"{row.dataset_namespace}/{row.dataset}"].placement.roles


@settings(max_examples=50)
@for_all(clusters())
def test_acting_under_quotas_comes_to_rest(view: ClusterView) -> None:
    view = with_nodes(view)
    for step in range(4):
        writes = decide_once(view, now=NOW + step).nodes.writes
        caches = dict(view.node_caches)
        caches |= {one.node.name: caches[one.node.name].model_copy(update={"spec": one.spec}) for one in writes}
        view = ClusterView(view.datasets, view.terms, view.invalid_datasets, caches, view.nodes)
    assert [(write.node.name, write.spec) for write in writes] == []
