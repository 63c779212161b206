"""The API server's refusals by the CRDs, with their messages, and the largest accepted objects. No operator runs."""

import re
from typing import Any

import pytest

from stoker_api import names
from stoker_api.datasets.dataset import Dataset
from stoker_api.datasets.warm_list import LIST_HINT, LIST_OR_PATHS
from stoker_kube.client import KubeClient
from stoker_kube.errors import Invalid
from stoker_kube.resources import DATASET_CLASSES, DATASETS, TUNING_PROFILES
from tests.support.places import RIGHT_PLACES, WRONG_PLACES

KEY = "is not the key of a label or taint: write for example gpu.memory or topology.kubernetes.io/zone"
LIST = "lists/mine.txt"
CACHES = (
    *((place, "spec.cache") for place in WRONG_PLACES),
    *(({"replicas": share}, "cache.replicas must be") for share in ("0%", "101%", "5", "1.5%")),
    ({"replicas": -1}, "cache.replicas must be 0 to 10000, or 'all'"),
    ({"quota": "lots"}, "spec.cache.quota"),
    ({"replicas": "half"}, "cache.replicas must be 0 to 10000, or 'all', or a share of the nodes, 1% to 100%"),
    ({"topologySpread": {"topologyKey": "a zone"}}, f"a zone {KEY}"),
    ({"topologySpread": {"topologyKey": "zone", "maxSkew": 0}}, "should be greater than or equal to 1"),
    ({"topologySpread": {"topologyKey": "zone", "whenUnsatisfiable": "Maybe"}}, 'values: "DoNotSchedule", "Sched'),
    ({"tolerations": [{"key": "-gpu"}]}, f"-gpu {KEY}"),
    ({"memory": {"bytes": "much"}}, "cache.memory.bytes"),
    ({"memory": {"names": "some"}}, "cache.memory.names"),
)
SOURCES = (
    ({"uri": "gs://bucket/data/"}, "is not supported: write s3://bucket/prefix/ or file:///folder"),
    ({"uri": "s3://Bad_Bucket/data/"}, "the bucket in source.uri must have 3 to 63 characters"),
    ({"uri": "s3://ab"}, "the bucket in source.uri must have 3 to 63 characters"),
    ({"uri": "/data"}, "source.uri /data is not supported"),
    (
        {"uri": "s3://bucket/", "credentials": {"secretRef": {"name": "a"}, "serviceAccount": "a"}},
        "credentials takes secretRef or serviceAccount, not both",
    ),
)
WARMS = (
    ({"paths": ["/train"]}, "write train/"),
    ({"deadline": {}}, "takes one of at and daily"),
    ({"deadline": {"at": "2099-01-01T08:00:00Z", "daily": "08:00"}}, "takes one of at and daily"),
    ({"deadline": {"at": "tomorrow"}}, "must be of type date-time"),
    ({"deadline": {"at": "2099-01-01T08:00:00Z", "timeZone": "Europe/Berlin"}}, "timeZone is for daily"),
    ({"deadline": {"daily": "25:00"}}, "25:00 is not a time of day: write for example 08:00"),
    (
        {"deadline": {"daily": "08:00", "timeZone": "../../etc"}},
        "is not the name of a time zone: write for example Europe",
    ),
    ({"list": LIST, "paths": ["train/"]}, LIST_OR_PATHS),
    *(({"list": name}, LIST_HINT) for name in ("/a", "a/", "a//b", "../a", "a/./b")),
    ({"list": ""}, "should be at least 1 chars long"),
    ({"list": "a" * 1025}, "may not be more than 1024"),
    ({"nodes": ["Not A Node"]}, "warm.nodes"),
    ({"nodes": [f"n{number}" for number in range(101)]}, "warm.nodes"),
    ({"nodes": ["a", "a"]}, "warm.nodes"),
    ({"pages": "all"}, "warm.pages"),
)
DATASET_SPECS: tuple[tuple[dict[str, Any], str], ...] = (
    *(({"cache": dict(cache)}, sentence) for cache, sentence in CACHES),
    *(({"warm": warm}, sentence) for warm, sentence in WARMS),
    *(({"source": source}, sentence) for source, sentence in SOURCES),
    ({"refresh": {"interval": "1s"}}, "refresh.interval must be 10s or more"),
    ({"tuning": {"level": "Max"}}, "Basic"),
)
CLASS_SPECS: tuple[dict[str, Any], ...] = (
    {"quota": {"perNamespace": "2000P"}},
    {"priority": {"max": 1001}},
    {"priority": {"max": 1, "default": 2}},
    {"maxReplicas": "some"},
    {"maxReplicas": 10_001},
    {"memory": {"bytes": "much"}},
    {"warm": {"policies": ["Manual"], "default": "Eager"}},
    {"warm": {"policies": []}},
    {"warm": {"peers": []}},
    {"warm": {"peers": ["On"]}},
    {"warm": {"peers": [False]}},
    {"bandwidth": {"max": "fast"}},
    {"endpoints": ["https://*minio.storage"]},
    {"endpoints": ["https://a.b"] * 51},
    {"hostFolders": ["mnt"]},
    {"namespaces": ["Team A"]},
)
PROFILE_SPECS: tuple[Any, ...] = (None, "text", {"rules": "text"}, {"rules": [{"id": 3}]})


async def create_dataset(kube: KubeClient, namespace: str, name: str, **spec: Any) -> Dataset:
    """Create a Dataset, delete it again, and return it as it was accepted."""
    body = {"metadata": {"name": name}, "spec": {"source": {"uri": "s3://bucket/"}} | spec}
    dataset = Dataset.model_validate(await kube.create(DATASETS, body, namespace))
    await kube.delete(DATASETS, name, namespace)  # else an operator of a later test on this API server would take it
    return dataset


@pytest.mark.parametrize(("spec", "sentence"), DATASET_SPECS, ids=lambda value: f"{value}"[:60])
async def test_a_dataset_that_makes_no_sense_is_refused_with_a_sentence(
    kube: KubeClient, shared_namespace: str, spec: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(Invalid, match=re.escape(sentence)):
        await create_dataset(kube, shared_namespace, "wrong", **spec)


async def test_a_dataset_may_name_every_right_place(kube: KubeClient, namespace: str) -> None:
    for number, cache in enumerate(RIGHT_PLACES):
        await create_dataset(kube, namespace, f"right-{number}", cache=dict(cache))


async def test_a_dataset_may_name_a_hundred_nodes_of_the_longest_names(kube: KubeClient, namespace: str) -> None:
    nodes = [f"{'n' * 240}-{number}" for number in range(100)]
    warm, cache = {"nodes": nodes, "pages": True}, {"memory": {"names": True, "bytes": "1Pi"}}
    dataset = await create_dataset(kube, namespace, "much", warm=warm, cache=cache)
    assert dataset.spec.warm.nodes == tuple(nodes)
    assert names.ANNOTATION_WARM_REQUESTED not in dataset.metadata.annotations


@pytest.mark.parametrize("spec", CLASS_SPECS, ids=lambda spec: f"{spec}"[:60])
async def test_a_class_that_makes_no_sense_is_refused(
    kube: KubeClient, shared_namespace: str, spec: dict[str, Any]
) -> None:
    body = {"metadata": {"name": shared_namespace}, "spec": {"namespaces": [shared_namespace]} | spec}
    with pytest.raises(Invalid):
        await kube.create(DATASET_CLASSES, body)


@pytest.mark.parametrize("spec", PROFILE_SPECS)
async def test_a_profile_of_another_shape_is_refused(kube: KubeClient, shared_namespace: str, spec: Any) -> None:
    with pytest.raises(Invalid):
        await kube.create(TUNING_PROFILES, {"metadata": {"name": shared_namespace}, "spec": spec})
