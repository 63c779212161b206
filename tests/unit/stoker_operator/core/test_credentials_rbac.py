"""Readers of credentials, and the RBAC objects for them."""

import json
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from stoker_api.datasets.dataset_source import Source
from stoker_api.node_caches.node_dataset import NodeDataset
from stoker_api.node_caches.nodecache import NodeCacheSpec
from stoker_operator.core.plans.credentials_rbac import (
    SHARDS,
    KeptReaders,
    NamedCredentials,
    node_account,
    role,
    role_bindings,
    role_of,
)
from stoker_operator.core.plans.plan import DatasetPlan
from stoker_operator.core.views.cluster import ClusterView, NodeView
from tests.unit.stoker_operator.builders import decided, make_cache, make_dataset, make_node

KEYS = NamedCredentials("vision", "Secret", "keys")
READER = NamedCredentials("vision", "ServiceAccount", "reader")


def view_of(**held: dict[str, Any]) -> ClusterView:
    """Make nodes whose plans each have the Dataset with these credentials."""
    caches = {}
    for name, credentials in held.items():
        source = Source.model_validate({"uri": "s3://bucket/", "credentials": credentials})
        entry = NodeDataset(namespace="vision", name="d", uid="u", source=source)
        caches[name] = make_cache(name).model_copy(update={"spec": NodeCacheSpec(datasets=(entry,))})
    return ClusterView(nodes={name: make_node(name) for name in held}, node_caches=caches)


def updated(
    kept: KeptReaders, view: ClusterView, plans: Mapping[str, DatasetPlan] = MappingProxyType({})
) -> set[NamedCredentials]:
    """Update ``kept``. The plan of any Dataset may have changed."""
    return kept.update(view, plans, {"vision/imagenet", *plans})


def readers(
    *views: ClusterView, plans: Mapping[str, DatasetPlan] = MappingProxyType({})
) -> dict[NamedCredentials, Any]:
    """Return the grants after these views, one after the other."""
    kept = KeptReaders()
    changed = [named for view in views for named in updated(kept, view, plans)]
    return {named: nodes for named in changed if (nodes := kept.nodes(named))}


def test_nodes_read_what_the_datasets_that_they_have_name_and_no_others() -> None:
    view = view_of(a={"secretRef": {"name": "keys"}}, b={"serviceAccount": "reader"}, c={})
    assert readers(view) == {KEYS: frozenset("a"), READER: frozenset("b")}


def test_a_node_that_is_gone_reads_nothing() -> None:
    view = view_of(a={"secretRef": {"name": "keys"}})
    assert readers(view, ClusterView(node_caches=view.node_caches)) == {}


def test_what_a_node_names_follows_its_plan() -> None:
    before, after = view_of(a={"secretRef": {"name": "keys"}}), view_of(a={"serviceAccount": "reader"})
    assert readers(before, after) == {READER: frozenset("a")}


def test_what_is_as_it_was_is_not_looked_at_again() -> None:
    view, kept = view_of(a={"secretRef": {"name": "keys"}}), KeptReaders()
    assert [updated(kept, view) for _ in range(2)] == [{KEYS}, set()]


def test_nodes_that_are_to_have_a_dataset_may_read_for_it_until_they_are_not() -> None:
    dataset = make_dataset(source={"uri": "s3://bucket/", "credentials": {"secretRef": {"name": "keys"}}})
    plans = decided(dataset, make_node("a")).plans
    assert readers(ClusterView(), plans=plans) == {KEYS: frozenset("a")}
    kept = KeptReaders()
    updated(kept, ClusterView(), plans)
    assert (updated(kept, ClusterView()), kept.nodes(KEYS)) == ({KEYS}, frozenset())


def test_a_role_names_one_thing() -> None:
    assert [(rule["resources"], rule["verbs"], rule["resourceNames"]) for rule in role(KEYS)["rules"]] == [
        (["secrets"], ["get"], ["keys"])
    ]
    assert [(rule["resources"], rule["verbs"], rule["resourceNames"]) for rule in role(READER)["rules"]] == [
        (["serviceaccounts"], ["get"], ["reader"]),
        (["serviceaccounts/token"], ["create"], ["reader"]),
    ]


def test_a_role_is_bound_to_the_accounts_of_the_nodes_alone() -> None:
    [binding] = role_bindings(KEYS, ["a"], "stoker-nodes")
    assert binding["roleRef"]["name"] == KEYS.role == role_of(binding["metadata"]["name"])
    assert binding["subjects"] == [{"kind": "ServiceAccount", "name": "a", "namespace": "stoker-nodes"}]


def test_roles_of_different_kinds_have_different_names() -> None:
    assert NamedCredentials("vision", "Secret", "x").role != NamedCredentials("vision", "ServiceAccount", "x").role


def test_five_thousand_nodes_of_long_names_make_no_large_binding() -> None:
    nodes = [f"{number:04}".ljust(253, "n") for number in range(5000)]
    bindings = role_bindings(KEYS, nodes, "stoker-nodes")
    assert len(bindings) == SHARDS
    assert max(len(json.dumps(one)) for one in bindings) < 50_000
    assert sorted(subject["name"] for one in bindings for subject in one["subjects"]) == nodes


def test_one_more_node_changes_one_binding() -> None:
    before, after = (role_bindings(KEYS, [f"n{one}" for one in range(count)], "nodes") for count in (999, 1000))
    assert len([one for one in after if one not in before]) == 1


def test_a_nodes_account_is_named_like_it_and_goes_with_it() -> None:
    account = node_account(NodeView("n" * 253, uid="u1"), "stoker-nodes")
    assert account["metadata"]["name"] == "n" * 253
    assert account["metadata"]["ownerReferences"][0] | {"uid": ""} == {
        "apiVersion": "v1",
        "kind": "Node",
        "name": "n" * 253,
        "uid": "",
    }
