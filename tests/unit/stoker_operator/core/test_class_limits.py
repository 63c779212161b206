"""The effect of a DatasetClass on Datasets."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker_api.datasets.dataset import Dataset, PeerPolicy, WarmPolicy
from stoker_api.datasets.datasetclass import DatasetClass
from stoker_api.meta import parse_quantity
from stoker_api.names import Reason
from stoker_operator.core.classes.class_limits import Limited, apply_class
from stoker_operator.core.classes.dataset_classes import Refused, endpoint_matches
from tests.support.cases import cases
from tests.unit.stoker_operator.builders import WARM_REQUEST, make_class, make_dataset


def limited(dataset: Dataset, found: DatasetClass | None) -> Limited:
    taken = apply_class(dataset, found)
    assert isinstance(taken, Limited)
    return taken


def refusal(dataset: Dataset, found: DatasetClass | None) -> str:
    taken = apply_class(dataset, found)
    assert isinstance(taken, Refused)
    assert (taken.reason, taken.closed) == (Reason.NOT_ALLOWED_BY_CLASS, True)
    return taken.sentence


def test_a_priority_above_the_maximum_is_the_maximum_and_told() -> None:
    taken = limited(make_dataset(warm={"priority": 1000}), make_class("tenants", priority={"max": 10}))
    assert taken.dataset.spec.warm.priority == 10
    assert taken.terms.limits == ("warm.priority 1000 is changed to 10: DatasetClass tenants allows 10 at most",)


def test_without_a_class_nobody_goes_before_others() -> None:
    taken = limited(make_dataset(warm={"priority": 1}, cache={"pinned": True, "replicas": "all"}), None)
    assert (taken.dataset.spec.warm.priority, taken.dataset.spec.cache.pinned) == (0, False)
    assert taken.dataset.spec.cache.replicas == "all"
    assert len(taken.terms.limits) == 2


def test_what_asks_for_nothing_special_stays_the_very_same_without_a_class() -> None:
    dataset = make_dataset()
    assert limited(dataset, None).dataset is dataset


@pytest.mark.parametrize(("most", "given"), [(None, None), ("0", None), ("10Gi", "10Gi"), ("1Ti", "20Gi")])
def test_memory_of_nodes_is_given_as_far_as_the_class_allows_it(most: str | None, given: str | None) -> None:
    asked = make_dataset(cache={"memory": {"names": True, "bytes": "20Gi"}})
    taken = limited(asked, make_class("tenants", memory={"bytes": most}))
    assert (taken.dataset.spec.cache.memory.names, taken.dataset.spec.cache.memory.bytes) == (False, given)
    assert "cache.memory.names is ignored: DatasetClass tenants allows no names in memory" in taken.terms.limits[0]
    assert ("cache.memory.bytes 20Gi is changed to" in taken.terms.limits[0]) == (given != "20Gi")


DEFAULTS: dict[str, Any] = {
    "priority": {"default": 5, "max": 9},
    "warm": {"default": "OnDemand"},
    "bandwidth": {"default": "10Mi"},
}


def test_what_is_left_out_is_as_the_class_says() -> None:
    taken = limited(make_dataset(), make_class(**DEFAULTS))
    warm = taken.dataset.spec.warm
    assert (warm.priority, warm.policy, warm.bandwidth_limit) == (5, WarmPolicy.ON_DEMAND, "10Mi")
    assert taken.terms.limits == ()


def test_what_is_written_wins_over_the_defaults() -> None:
    asked = {"priority": -3, "policy": "Eager", "bandwidthLimit": "1Gi"}
    warm = limited(make_dataset(warm=asked), make_class(**DEFAULTS)).dataset.spec.warm
    assert (warm.priority, warm.policy, warm.bandwidth_limit) == (-3, WarmPolicy.EAGER, "1Gi")


@cases(
    "asked, allowed, given",
    (None, ["Auto", "Off"], "Auto"),
    (None, ["Off", "Auto"], "Off"),
    (None, ["Off"], "Off"),
    ("Off", ["Auto", "Off"], "Off"),
    ("Auto", ["Off", "Auto"], "Auto"),
    ("Auto", ["Off"], "Off"),
    ("Off", ["Auto"], "Auto"),
)
def test_peers_may_be_forbidden_or_forced(asked: str | None, allowed: list[str], given: str) -> None:
    dataset = make_dataset(warm={"peers": asked} if asked else {})
    taken = limited(dataset, make_class("tenants", warm={"peers": allowed}))
    assert taken.dataset.spec.warm.peers is PeerPolicy(given)
    sentence = f"warm.peers {asked} is changed to {given}: DatasetClass tenants allows {given}"
    assert taken.terms.limits == ((sentence,) if asked not in (None, given) else ())


@pytest.mark.parametrize(("asked", "given"), [("all", 3), (7, 3), (3, 3), (0, 0)])
def test_replicas_end_at_the_maximum(asked: int | str, given: int) -> None:
    taken = limited(make_dataset(cache={"replicas": asked}), make_class(maxReplicas=3))
    assert taken.dataset.spec.cache.replicas == given
    assert bool(taken.terms.limits) == (asked != given)


@pytest.mark.parametrize(("asked", "given"), [("1Gi", "100Mi"), ("0", "100Mi"), ("50Mi", "50Mi"), (None, "100Mi")])
def test_bandwidth_ends_at_the_maximum_and_no_limit_is_more_than_any(asked: str | None, given: str) -> None:
    taken = limited(make_dataset(warm={"bandwidthLimit": asked}), make_class(bandwidth={"max": "100Mi"}))
    assert taken.dataset.spec.warm.bandwidth_limit == given
    assert bool(taken.terms.limits) == (asked not in (None, given))


def test_a_policy_that_is_not_allowed_becomes_the_default() -> None:
    found = make_class(warm={"policies": ["Manual", "OnDemand"], "default": "OnDemand"})
    taken = limited(make_dataset(warm={"policy": "Eager"}), found)
    assert taken.dataset.spec.warm.policy is WarmPolicy.ON_DEMAND
    assert "allows Manual, OnDemand" in taken.terms.limits[0]


def test_warming_by_hand_is_no_way_around_the_policies() -> None:
    asked = make_dataset(annotations=WARM_REQUEST)
    assert limited(asked, make_class(warm={"policies": ["OnDemand"]})).dataset.metadata.annotations == {}
    assert limited(asked, make_class(warm={"policies": ["Manual"]})).dataset.metadata.annotations == WARM_REQUEST


def test_a_server_that_is_not_named_is_refused_with_what_to_do() -> None:
    found = make_class("tenants", endpoints=["https://minio.storage:9000"])
    source = {"uri": "s3://bucket/", "endpoint": "http://10.0.0.1"}
    assert refusal(make_dataset(source=source), found) == (
        "source.endpoint http://10.0.0.1 is not allowed: DatasetClass tenants allows https://minio.storage:9000; write "
        "one of these, name another class in spec.className, or ask an administrator to add it to the class's "
        "spec.endpoints"
    )


def test_amazon_is_a_server_like_others() -> None:
    dataset = make_dataset(source={"uri": "s3://bucket/", "region": "eu-central-1"})
    assert "s3.eu-central-1.amazonaws.com" in refusal(dataset, make_class(endpoints=[]))
    assert limited(dataset, make_class(endpoints=["https://s3.*.amazonaws.com"]))


@cases(
    "endpoint, pattern, same",
    ("https://minio.storage:9000", "https://minio.storage:9000/", True),
    ("https://MINIO.storage", "https://minio.storage:443", True),
    ("http://minio.storage", "https://minio.storage", False),
    ("https://minio.storage:9000", "https://minio.storage", False),
    ("https://a.storage", "https://*.storage", True),
    ("https://a.b.storage", "https://*.storage", False),
    ("https://minio.storage.evil.example", "https://minio.storage", False),
    ("https://xminio.storage", "https://*minio.storage", False),
    ("http://[fd00::1]:9000", "http://[fd00::1]:9000", True),
)
def test_a_pattern_names_scheme_host_and_port(endpoint: str, pattern: str, same: bool) -> None:
    assert endpoint_matches(endpoint, pattern) is same


@cases(
    "uri",
    "file:///mnt/nfs/private",
    "file:///mnt/nfs/publicity",
    "file:///mnt/nfs/public%2f..%2fprivate",
    "file:///mnt/nfs/public#/../private",
    "file:///mnt/nfs",
    "file:////mnt/nfs/public",
)
def test_a_folder_beneath_none_of_those_named_is_refused(uri: str) -> None:
    assert "spec.hostFolders" in refusal(make_dataset(source={"uri": uri}), make_class(hostFolders=["/mnt/nfs/public"]))


def test_a_folder_beneath_one_that_is_named_is_taken() -> None:
    found = make_class(hostFolders=["/mnt/nfs/public"], endpoints=[])
    assert limited(make_dataset(source={"uri": "file:///mnt/nfs/public/images"}), found)


def test_the_nodes_own_credentials_can_be_withheld() -> None:
    assert limited(make_dataset(), make_class(allowAmbientCredentials=False)).terms.anonymous
    assert not limited(make_dataset(), None).terms.anonymous


_PRIORITIES = st.integers(-1000, 1000)
_BANDWIDTHS = st.none() | st.sampled_from(["0", "1Ki", "10Mi", "1Gi", "2T"])
_REPLICAS = st.just("all") | st.integers(0, 50)
_POLICIES = st.sampled_from([str(policy) for policy in WarmPolicy])


@st.composite
def classes(draw: st.DrawFn) -> DatasetClass:
    highest = draw(_PRIORITIES)
    policies = draw(st.lists(_POLICIES, min_size=1, unique=True))
    return make_class(
        priority={"max": highest, "default": draw(st.integers(-1000, highest))},
        maxReplicas=draw(_REPLICAS),
        allowPinning=draw(st.booleans()),
        memory={"names": draw(st.booleans()), "bytes": draw(_BANDWIDTHS)},
        warm={"policies": policies, "default": draw(st.none() | st.sampled_from(policies))},
        bandwidth={"max": draw(_BANDWIDTHS), "default": draw(_BANDWIDTHS)},
    )


@st.composite
def datasets(draw: st.DrawFn) -> Dataset:
    warm: dict[str, Any] = {"priority": draw(_PRIORITIES), "policy": draw(_POLICIES)}
    warm = {key: value for key, value in warm.items() if draw(st.booleans())}
    warm |= {"bandwidthLimit": draw(_BANDWIDTHS)}
    memory = {"names": draw(st.booleans()), "bytes": draw(_BANDWIDTHS)}
    return make_dataset(warm=warm, cache={"replicas": draw(_REPLICAS), "pinned": draw(st.booleans()), "memory": memory})


@given(dataset=datasets(), found=classes())
def test_nothing_exceeds_the_class(dataset: Dataset, found: DatasetClass) -> None:
    spec, limits = limited(dataset, found).dataset.spec, found.spec
    assert spec.warm.priority <= limits.priority.max
    assert limits.max_replicas == "all" or int(spec.cache.replicas) <= limits.max_replicas
    assert limits.allow_pinning or not spec.cache.pinned
    assert limits.memory.names or not spec.cache.memory.names
    assert parse_quantity(spec.cache.memory.bytes or "0") <= parse_quantity(limits.memory.bytes or "0")
    assert spec.warm.policy in limits.warm.policies
    fastest = parse_quantity(limits.bandwidth.max or "0")
    assert not fastest or 0 < parse_quantity(spec.warm.bandwidth_limit or "0") <= fastest


@given(dataset=datasets(), found=classes())
def test_what_was_limited_once_is_not_limited_again(dataset: Dataset, found: DatasetClass) -> None:
    once = limited(dataset, found).dataset
    again = limited(once, found)
    assert (again.dataset, again.terms.limits) == (once, ())


@given(dataset=datasets(), found=classes())
def test_nobody_is_given_more_than_they_ask_for(dataset: Dataset, found: DatasetClass) -> None:
    asked, got = dataset.spec, limited(dataset, found).dataset.spec
    assert got.warm.priority <= asked.warm.priority or "priority" not in asked.warm.model_fields_set
    assert (
        got.cache.replicas == asked.cache.replicas
        or isinstance(asked.cache.replicas, str)
        or (int(got.cache.replicas) < asked.cache.replicas)
    )
    assert asked.cache.pinned or not got.cache.pinned
