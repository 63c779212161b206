"""The specs of NodeCaches."""

from dataclasses import replace
from typing import Any

from hypothesis import given as for_all
from hypothesis import strategies as st

from stoker_api.datasets.dataset import Dataset
from stoker_api.datasets.dataset_status import DatasetStatus
from stoker_api.meta import ObjectMeta
from stoker_api.names import Reason
from stoker_api.node_caches.node_dataset import NodeDataset
from stoker_api.node_caches.node_dataset_status import NodeDatasetStatus, NodePhase
from stoker_api.node_caches.nodecache import NodeCache, NodeCacheSpec
from stoker_operator.core.classes.class_limits import ClassTerms
from stoker_operator.core.plans.plan import NodeCacheWrite
from stoker_operator.core.views.cluster import ClusterView, InvalidDataset, PodView
from tests.support.cases import cases
from tests.support.present import present
from tests.unit.stoker_operator.builders import (
    IMAGENET,
    ROOM,
    V1,
    V2,
    WARM_REQUEST,
    decide_once,
    decided,
    entry,
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
from tests.unit.stoker_operator.training import training_job


def writes(*parts: Any) -> dict[str, NodeCacheWrite]:
    return {write.node.name: write for write in decided(*parts).nodes.writes}


def test_a_node_with_a_sidecar_and_no_cache_gets_one_and_others_do_not() -> None:
    view = ClusterView(nodes={"a": make_node("a"), "b": make_node("b", sidecar_ready=False)})
    made = decide_once(view).nodes.writes
    assert [(write.node.name, write.create) for write in made] == [("a", True)]


def make_new_cache(name: str, *found: NodeDatasetStatus, inventory: bool = True) -> NodeCache:
    """Make a NodeCache that was just created, on a node that has these from before."""
    cache = make_cache(name, *((None, row) for row in found))
    status = cache.status.model_copy(update={"inventory": inventory})
    return cache.model_copy(update={"spec": NodeCacheSpec(keep_unlisted=True), "status": status})


def found_row(dataset: Dataset, *versions: str) -> NodeDatasetStatus:
    return NodeDatasetStatus(namespace="", name="", uid=dataset.metadata.uid, retained=versions)


def test_a_new_node_cache_has_nothing_cleaned_until_the_node_has_said_what_it_has() -> None:
    view = ClusterView(nodes={"a": make_node("a")})
    (made,) = decide_once(view).nodes.writes
    silent = make_new_cache("a", inventory=False)
    assert made.spec.keep_unlisted
    assert writes(make_node("a"), silent) == {}
    assert not writes(make_node("a"), make_new_cache("a"))["a"].spec.keep_unlisted


def test_what_a_node_came_back_with_is_in_its_plan() -> None:
    dataset = listed(make_dataset(cache={"replicas": 1}))
    other = make_holder("b", dataset)
    spec = writes(dataset, make_node("a"), make_node("b"), other, make_new_cache("a", found_row(dataset, V1)))["a"].spec
    assert ([one.uid for one in spec.datasets], spec.keep_unlisted) == (["uid-imagenet"], False)


def test_a_node_that_came_back_is_the_replica_where_there_is_no_other() -> None:
    wish = entry("a", IMAGENET, make_node("a"), make_node("b"), make_new_cache("a", found_row(IMAGENET, V1)))
    assert (wish.eager, wish.version) == (True, V1)


def test_what_a_full_node_came_back_with_stays_there() -> None:
    dataset = listed(make_dataset(), size=10 * ROOM)
    wish = entry("a", dataset, make_node("a"), make_new_cache("a", found_row(dataset, V1)))
    assert wish.eager


def test_what_a_node_came_back_with_stays_while_the_node_looks_at_it() -> None:
    other = make_holder("b", IMAGENET)
    looking = report(IMAGENET, 0, files=0, bytes=0, phase="Pending", retained=(V1,))
    back = make_cache("a", (given(IMAGENET, eager=False), looking))
    assert entry("a", IMAGENET, make_node("a"), make_node("b"), other, back).version == V1


def test_what_a_node_found_of_a_deleted_dataset_is_cleaned() -> None:
    gone = make_dataset(deletion_timestamp="2026-11-21T10:00:00Z")
    spec = writes(gone, make_node("a"), make_new_cache("a", found_row(gone, V1)))["a"].spec
    assert spec == NodeCacheSpec()


def test_what_was_found_of_a_dataset_that_does_not_parse_waits_for_it() -> None:
    cache = make_new_cache("a", found_row(make_dataset(), V1))
    meta = ObjectMeta(namespace="vision", name="imagenet", uid="uid-imagenet", generation=2)
    invalid = InvalidDataset(meta, "spec.source is missing", DatasetStatus())
    view = make_view(make_node("a"), cache)
    broken = ClusterView(nodes=view.nodes, node_caches=view.node_caches, invalid_datasets={"vision/imagenet": invalid})
    (write,) = decide_once(broken).nodes.writes
    assert write.spec == NodeCacheSpec(keep=("uid-imagenet",))
    kept = cache.model_copy(update={"spec": write.spec})
    again = ClusterView(nodes=view.nodes, node_caches={"a": kept}, invalid_datasets=broken.invalid_datasets)
    assert decide_once(again).nodes.writes == ()


@for_all(
    st.lists(st.integers(0, 3), min_size=1, max_size=4, unique=True), st.integers(0, 2), st.integers(1, 3), st.data()
)
def test_nothing_that_a_node_found_of_a_living_dataset_is_cleaned(
    found: list[int], replicas: int, nodes: int, data: st.DataObject
) -> None:
    datasets = [listed(make_dataset(f"d{number}", cache={"replicas": replicas})) for number in range(4)]
    size = data.draw(st.integers(1, 3 * ROOM))
    datasets = [listed(one, size=size) for one in datasets]
    back = make_new_cache(
        "n0", *(found_row(datasets[number], data.draw(st.sampled_from([V1, V2]))) for number in found)
    )
    decision = decided(*datasets, *(make_node(f"n{number}") for number in range(nodes)), back)
    (spec,) = (write.spec for write in decision.nodes.writes if write.node.name == "n0")
    assert {f"uid-d{number}" for number in found} <= {one.uid for one in spec.datasets}


def test_nothing_is_written_when_nothing_differs() -> None:
    settled = decided(IMAGENET, make_node("a"), make_cache("a")).nodes.writes[0]
    cache = make_cache("a").model_copy(update={"spec": settled.spec})
    assert writes(IMAGENET, make_node("a"), cache) == {}


def test_an_entry_whose_dataset_is_gone_is_taken_out() -> None:
    gone = make_dataset("gone")
    assert writes(make_node("a"), make_holder("a", gone))["a"].spec.datasets == ()


def test_a_dataset_that_no_longer_parses_stays_as_it_is_on_its_nodes() -> None:
    view = make_view(make_node("a"), make_holder("a", IMAGENET))
    meta = ObjectMeta(namespace="vision", name="imagenet", uid="uid-imagenet", generation=2)
    invalid = InvalidDataset(meta, "spec.source is missing", DatasetStatus())
    broken = ClusterView(nodes=view.nodes, node_caches=view.node_caches, invalid_datasets={IMAGENET.key: invalid})
    assert decide_once(broken).nodes.writes == ()


def test_only_the_lister_is_asked_to_list() -> None:
    decision = decided(make_dataset(cache={"replicas": 2}), make_node("a"), make_node("b"))
    ids = [one.listing_id for write in decision.nodes.writes for one in write.spec.datasets]
    assert sorted(bool(listing_id) for listing_id in ids) == [False, True]


def test_until_a_dataset_for_all_nodes_is_listed_only_the_lister_is_told_of_it() -> None:
    decision = decided(make_dataset(cache={"replicas": "all"}), make_node("a"), make_node("b"))
    told = [one.listing_id for write in decision.nodes.writes for one in write.spec.datasets]
    assert len(told) == 1
    assert told[0]


def test_a_node_with_a_pod_is_told_of_a_dataset_for_all_nodes_that_is_not_listed() -> None:
    dataset = make_dataset(cache={"replicas": "all"})
    nodes = make_node("a"), make_node("b")
    lister = next(name for name, write in writes(dataset, *nodes).items() if write.spec.datasets)
    other = "b" if lister == "a" else "a"
    pod = PodView("vision", "p", node=other, volumes=(dataset.key,))
    assert [one.name for one in writes(dataset, *nodes, pod)[other].spec.datasets] == [dataset.metadata.name]


def test_a_dataset_without_replicas_is_listed_all_the_same() -> None:
    assert entry("a", make_dataset(cache={"replicas": 0}), make_node("a")).listing_id


def test_other_nodes_fetch_the_manifest_from_nodes_that_have_it() -> None:
    dataset = listed(make_dataset(cache={"replicas": 2}))
    held = make_holder("a", dataset)
    wish = entry("b", dataset, make_node("a"), make_node("b"), held)
    assert wish.manifest_hosts == ("a:8081",)


def told_anew(hosts: tuple[str, ...], **row: Any) -> tuple[str, ...] | None:
    """Return the new manifest hosts for a node with ``hosts``, if a, b and c have the manifest. None: no change."""
    dataset = listed(make_dataset(cache={"replicas": "all"}))
    parts = (dataset, *map(make_node, "abcd"), *(make_holder(name, dataset) for name in "abc"))
    known = entry("d", *parts).model_copy(update={"manifest_hosts": hosts})
    write = writes(*parts, make_cache("d", (known, report(dataset, 0, **row)))).get("d")
    return write.spec.datasets[0].manifest_hosts if write is not None else None


def test_who_has_the_manifest_is_not_told_that_others_come_first_now() -> None:
    assert told_anew(("z:8081",)) is None


def test_who_waits_for_the_manifest_is_told_who_has_it_unless_two_that_it_knows_still_do() -> None:
    waits = {"files": 0, "phase": NodePhase.PENDING}
    assert told_anew(("c:8081", "b:8081", "z:8081"), **waits) is None
    assert told_anew(("c:8081", "z:8081"), **waits) == ("a:8081", "b:8081", "c:8081")


def test_an_address_that_leads_elsewhere_is_told_to_nobody() -> None:
    dataset = listed(make_dataset(cache={"replicas": 2}))
    odd = make_node("a", address="169.254.169.254/latest?")
    assert entry("b", dataset, odd, make_node("b"), make_holder("a", dataset)).manifest_hosts == ()


def test_where_a_node_says_that_it_answers_is_told_to_nobody() -> None:
    dataset = listed(make_dataset(cache={"replicas": 2}))
    held = make_holder("a", dataset)
    held = held.model_copy(update={"status": held.status.model_copy(update={"address": "evil.example.com:443"})})
    told = entry("b", dataset, make_node("a"), make_node("b"), held)
    assert (told.manifest_hosts, told.peers) == (("a:8081",), ("a:8081",))


def test_patterns_are_told_to_the_lister_alone() -> None:
    source = {"uri": "s3://bucket/", "include": ["train/**"], "exclude": ["*.tmp"]}
    decision = decided(make_dataset(source=source, cache={"replicas": 2}), make_node("a"), make_node("b"))
    told = {bool(one.listing_id): one.source for write in decision.nodes.writes for one in write.spec.datasets}
    assert (told[True].include, told[True].exclude) == (("train/**",), ("*.tmp",))
    assert (told[False].include, told[False].exclude) == ((), ())


def test_a_dataset_for_which_a_node_cache_has_no_room_says_so() -> None:
    node, cache = make_node("a"), make_cache("a")
    patterns = [f"{number:x>63}" for number in range(100)]
    crowd = [listed(make_dataset(f"d-{number}", access={"namespaces": patterns})) for number in range(120)]
    left_out = decided(*crowd, node, cache).nodes.left_out
    assert 0 < len(left_out) < len(crowd)
    assert set(map(tuple, left_out.values())) == {("a",)}


@cases(
    "policy, requested, used, eager",
    ("Eager", False, False, True),
    ("OnDemand", False, False, False),
    ("OnDemand", False, True, True),
    ("OnDemand", True, False, True),
    ("Manual", False, True, False),
    ("Manual", True, False, True),
)
def test_the_warm_policy_says_when_bytes_are_fetched(policy: str, requested: bool, used: bool, eager: bool) -> None:
    dataset = listed(make_dataset(warm={"policy": policy}, annotations=WARM_REQUEST if requested else {}))
    pods = (make_user(dataset, "a"),) if used else ()
    assert entry("a", dataset, make_node("a"), make_cache("a", mounts=(mount(dataset),)), *pods).eager is eager


def test_a_held_pod_makes_an_on_demand_dataset_warm_where_the_pod_could_go() -> None:
    dataset = listed(make_dataset(warm={"policy": "OnDemand"}, cache={"replicas": 0}))
    assert entry("b", dataset, make_node("a"), make_node("b"), imagenet=frozenset({"b"})).eager


@cases(
    "namespace, job, eager",
    a_queue_holds_it=("vision", {"status": {"phase": "Suspended"}}, True),
    a_person_holds_it=("vision", {"status": {"phase": "Suspended"}, "suspend": True}, False),
    it_has_ended=("vision", {"status": {"phase": "Succeeded"}}, False),
    it_is_not_admitted=("evil", {"status": {"phase": "Suspended"}}, False),
)
def test_a_job_that_a_queue_holds_makes_an_on_demand_dataset_warm(
    namespace: str, job: dict[str, Any], eager: bool
) -> None:
    dataset = listed(make_dataset(warm={"policy": "OnDemand"}))
    training = training_job(**job, datasets=[{"namespace": "vision", "name": "imagenet", "mountPath": "/data"}])
    training = training.model_copy(update={"metadata": training.metadata.model_copy(update={"namespace": namespace})})
    assert entry("a", dataset, make_node("a"), make_cache("a"), training).eager is eager


def test_a_pod_of_a_namespace_that_is_not_admitted_warms_no_node() -> None:
    dataset = listed(make_dataset(warm={"policy": "OnDemand"}, cache={"replicas": 0}))
    stranger = PodView("evil", "loot", node="a", volumes=(dataset.key,))
    asked = make_cache(
        "a", mounts=(mount(dataset, pod="loot", version="", phase="Pending") | {"podNamespace": "evil"},)
    )
    decision = decided(dataset, make_node("a"), asked, stranger)
    assert decision.plans[dataset.key].placement.roles == {}
    assert not any(entry.eager for write in decision.nodes.writes for entry in write.spec.datasets)


def test_limits_and_switches_reach_the_node() -> None:
    dataset = listed(
        make_dataset(
            warm={"priority": 7, "paused": True, "bandwidthLimit": "1Mi"},
            cache={"quota": "2Ki", "pinned": True},
            access={"namespaces": ["research-*"]},
            observe="Off",
        )
    )
    wish = entry("a", dataset, make_node("a"))
    assert (wish.priority, wish.paused, wish.bytes_per_second) == (7, True, 2**20)
    assert (wish.quota_bytes, wish.pinned, wish.allowed_namespaces) == (2048, True, ("research-*",))
    assert wish.observe == "Off"


def test_a_deleted_and_unused_dataset_is_taken_from_every_node() -> None:
    dataset = listed(make_dataset(deletion_timestamp="2026-11-21T10:00:00Z"))
    assert writes(dataset, make_node("a"), make_holder("a", dataset))["a"].spec.datasets == ()


def refused(reason: Reason, *, closed: bool = False, **entry: Any) -> NodeDataset | None:
    """Return the changed plan entry of a Dataset that is no longer accepted."""
    view = make_view(make_node("a"), make_cache("a", (given(IMAGENET, **entry), report(IMAGENET))))
    invalid = {
        IMAGENET.key: InvalidDataset(IMAGENET.metadata, "ask for another class", IMAGENET.status, reason, closed)
    }
    writes = decide_once(replace(view, invalid_datasets=invalid)).nodes.writes
    return writes[0].spec.datasets[0] if writes else None


def test_without_its_class_a_dataset_keeps_its_bytes_and_no_privilege() -> None:
    entry = present(refused(Reason.CLASS_NOT_FOUND, priority=100, pinned=True, listing_id="x", eager=True))
    assert (entry.version, entry.eager, entry.priority, entry.pinned, entry.listing_id) == (V1, False, 0, False, "")
    assert entry.refused == ""


def test_whose_source_is_not_allowed_any_more_is_mounted_no_more() -> None:
    entry = present(refused(Reason.NOT_ALLOWED_BY_CLASS, closed=True))
    assert (entry.version, entry.refused) == (V1, "ask for another class")


def test_a_slip_in_a_spec_changes_nothing_on_nodes() -> None:
    assert refused(Reason.INVALID_SPEC, priority=100, pinned=True) is None


def test_a_node_is_told_whether_its_own_credentials_may_be_used() -> None:
    view = replace(make_view(IMAGENET, make_node("a")), terms={IMAGENET.key: ClassTerms(anonymous=True)})
    [write] = decide_once(view).nodes.writes
    assert write.spec.datasets[0].anonymous
