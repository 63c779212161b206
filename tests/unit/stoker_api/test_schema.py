"""The models become structural schemas, and parse objects from the API server."""

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from pydantic import ValidationError

from stoker_api import names
from stoker_api.datasets.dataset import Dataset
from stoker_api.datasets.datasetclass import DatasetClass
from stoker_api.meta import Resource
from stoker_api.node_caches.nodecache import NodeCache
from stoker_api.profiles.tuning import TEMPLATE_PATTERN
from stoker_api.schema import KINDS, crd, open_api_schema
from stoker_tuning.documents.values import ID_PATTERN
from tests.support.cases import cases
from tests.support.places import RIGHT_PLACES, WRONG_PLACES

# Structural schemas (https://kubernetes.io) allow neither references nor unions of types. An exclusive bound is a
# boolean next to the bound.
FORBIDDEN = {"$ref", "$defs", "anyOf", "oneOf", "const", "title", "exclusiveMaximum", "exclusiveMinimum"}


def nodes(schema: Any) -> Iterator[dict[str, Any]]:
    if isinstance(schema, dict):
        yield schema
        for name, child in schema.items():
            # Names of properties are the users' words, not schema keywords.
            yield from (
                (node for value in child.values() for node in nodes(value)) if name == "properties" else nodes(child)
            )
    elif isinstance(schema, list):
        for child in schema:
            yield from nodes(child)


@pytest.mark.parametrize("kind", KINDS)
def test_schemas_are_structural(kind: type[Resource]) -> None:
    for node in nodes(open_api_schema(kind)):
        assert not FORBIDDEN & node.keys()


@pytest.mark.parametrize("kind", KINDS)
def test_every_field_of_a_spec_that_people_write_is_described(kind: type[Resource]) -> None:
    spec = open_api_schema(kind)["properties"]["spec"]["properties"]
    if kind.SCOPE == "Namespaced":
        assert [name for name, field in spec.items() if not field.get("description")] == []


def test_groups_default_to_an_empty_object_so_that_the_server_fills_their_fields() -> None:
    cache = open_api_schema(Dataset)["properties"]["spec"]["properties"]["cache"]
    assert cache["default"] == {}
    assert cache["properties"]["replicas"]["default"] == 1


def test_what_a_class_has_a_default_for_is_left_absent_by_the_server() -> None:
    warm = open_api_schema(Dataset)["properties"]["spec"]["properties"]["warm"]["properties"]
    assert [name for name in ("policy", "priority", "bandwidthLimit") if "default" in warm[name]] == []


def test_replicas_takes_a_number_all_or_a_share() -> None:
    replicas = open_api_schema(Dataset)["properties"]["spec"]["properties"]["cache"]["properties"]["replicas"]
    assert replicas["x-kubernetes-int-or-string"] is True
    assert "type" not in replicas


def test_every_column_points_at_a_field_of_the_schema() -> None:
    for kind in KINDS:
        status = open_api_schema(kind)["properties"].get("status", {"properties": {}})["properties"]
        paths = [column.json_path for column in kind.COLUMNS if column.json_path.startswith(".status.")]
        assert [path for path in paths if path.split(".")[2].split("[")[0] not in status] == []


def test_every_condition_that_a_column_shows_is_one() -> None:
    paths = [column.json_path for kind in KINDS for column in kind.COLUMNS]
    shown = {named for path in paths for named in re.findall(r'@\.type=="(\w+)"', path)}
    assert {names.ConditionType.ORDER, names.ConditionType.ACCEPTED} <= shown <= set(names.ConditionType)


def test_a_dataset_as_the_api_server_sends_it_is_read() -> None:
    dataset = Dataset.model_validate(
        {
            "apiVersion": "stoker.dev/v1alpha1",
            "kind": "Dataset",
            "metadata": {"name": "a", "namespace": "n", "uid": "u", "managedFields": []},
            "spec": {"source": {"uri": "s3://bucket/p/"}, "cache": {"replicas": "all"}},
        }
    )
    assert (dataset.key, dataset.spec.cache.replicas, dataset.spec.warm.priority) == ("n/a", "all", 0)


def test_the_trainingjob_crd_can_be_scaled() -> None:
    subresources = crd(KINDS[1])["spec"]["versions"][0]["subresources"]
    assert subresources["scale"]["specReplicasPath"] == ".spec.workers"


_BOUNDS = {"string": ("maxLength", "enum", "format"), "array": ("maxItems",), "integer": ("maximum",)}


def unbounded(schema: dict[str, Any], where: str) -> Iterator[str]:
    """Return the fields without a size limit. The API server limits objects whose unknown fields are kept."""
    kind = schema.get("type")
    if schema.get("x-kubernetes-preserve-unknown-fields") and "properties" not in schema:
        return
    if kind in _BOUNDS and not any(word in schema for word in _BOUNDS[kind]):
        yield where
    if "additionalProperties" in schema and "maxProperties" not in schema:
        yield where
    for name, child in schema.get("properties", {}).items():
        yield from unbounded(child, f"{where}.{name}")
    for word in ("items", "additionalProperties"):
        if isinstance(schema.get(word), dict):
            yield from unbounded(schema[word], f"{where}[]")


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind.SCOPE == "Namespaced"])
def test_every_field_that_people_write_has_a_maximum(kind: type[Resource]) -> None:
    assert list(unbounded(open_api_schema(kind)["properties"]["spec"], "spec")) == []


def test_every_text_and_every_list_that_a_node_writes_has_a_maximum() -> None:
    schema = open_api_schema(NodeCache)
    found = unbounded(schema["properties"]["status"], "status")
    assert [where for where in found if kind_at(schema, where) != "integer"] == []


def kind_at(schema: dict[str, Any], where: str) -> str:
    """Return the type of a field, as named by ``unbounded``."""
    for name in where.replace("[]", ".[]").split("."):
        schema = schema["items"] if name == "[]" else schema["properties"][name]
    return str(schema["type"])


def described(schema: dict[str, Any], where: str) -> Iterator[str]:
    for name, child in schema.get("properties", {}).items():
        if not child.get("description"):
            yield f"{where}.{name}"
        yield from described(child, f"{where}.{name}")
    if isinstance(schema.get("items"), dict):
        yield from described(schema["items"], f"{where}[]")


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind.SCOPE == "Namespaced"])
def test_every_field_that_people_write_has_a_sentence_at_every_depth(kind: type[Resource]) -> None:
    assert list(described(open_api_schema(kind)["properties"]["spec"], "spec")) == []


@pytest.mark.parametrize("cache", RIGHT_PLACES)
def test_the_models_accept_the_values_of_the_field(cache: dict[str, Any]) -> None:
    Dataset.model_validate({"metadata": {"name": "a"}, "spec": {"source": {"uri": "s3://bucket/"}, "cache": cache}})


@cases(
    "spec",
    {"source": {"uri": "s3://bucket/", "endpoint": "http://a_b"}},
    {"source": {"uri": "s3://bucket/", "region": "-"}},
    {"source": {"uri": "s3://bucket/", "include": ["x"] * 51}},
    {"source": {"uri": "s3://bucket/", "exclude": ["x" * 257]}},
    {"source": {"uri": "s3://bucket/"}, "cache": {"replicas": 9 * 10**18}},
    {"source": {"uri": "s3://bucket/"}, "cache": {"replicas": -1}},
    *({"source": {"uri": "s3://bucket/"}, "cache": {"replicas": share}} for share in ("0%", "101%", "half", "1.5%")),
    *({"source": {"uri": "s3://bucket/"}, "cache": cache} for cache in WRONG_PLACES),
    {"source": {"uri": "s3://bucket/"}, "cache": {"quota": "10000P"}},
    {"source": {"uri": "s3://bucket/"}, "cache": {"nodeSelector": {str(n): "" for n in range(33)}}},
    {"source": {"uri": "s3://bucket/"}, "warm": {"bandwidthLimit": "9999999P"}},
    {"source": {"uri": "s3://bucket/"}, "scheduling": {"maxWait": "99999999h"}},
    {"source": {"uri": "s3://bucket/"}, "access": {"namespaces": ["Ünïcode"]}},
)
def test_the_models_hold_the_same_bounds_as_the_crds(spec: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        Dataset.model_validate({"metadata": {"name": "a"}, "spec": spec})


@pytest.mark.parametrize("spelling", ["peers", "neighbours"])
@pytest.mark.parametrize("peers", ["On", False, ["Off"]])
def test_whether_nodes_give_each_other_a_dataset_is_one_of_two_words(spelling: str, peers: object) -> None:
    with pytest.raises(ValidationError):
        Dataset.model_validate(
            {
                "metadata": {"name": "a"},
                "spec": {"source": {"uri": "s3://bucket/"}, "warm": {spelling: peers}},
            }
        )


@pytest.mark.parametrize("spelling", ["peers", "neighbours"])
@pytest.mark.parametrize("peers", [[], ["On"], [False], "Off", ["Auto", "Off", "Auto"]])
def test_a_class_allows_some_of_these_two_words(spelling: str, peers: object) -> None:
    with pytest.raises(ValidationError):
        DatasetClass.model_validate({"metadata": {"name": "a"}, "spec": {"warm": {spelling: peers}}})


@cases(
    "warm, peers",
    ({"peers": "Off"}, "Off"),
    ({"neighbours": "Off"}, "Off"),
    ({"peers": "Off", "neighbours": "Auto"}, "Off"),
)
def test_a_dataset_may_name_peers_as_the_previous_release_does(warm: dict[str, str], peers: str) -> None:
    read = Dataset.model_validate({"metadata": {"name": "a"}, "spec": {"source": {"uri": "s3://b/"}, "warm": warm}})
    assert (read.spec.warm.peers, read.spec.warm.model_fields_set) == (peers, {"peers"})


@cases(
    "warm, peers",
    ({"peers": ["Off"]}, ("Off",)),
    ({"neighbours": ["Off"]}, ("Off",)),
    ({"peers": ["Off"], "neighbours": ["Auto", "Off"]}, ("Off",)),
    ({}, ("Auto", "Off")),
)
def test_a_class_may_name_peers_as_the_previous_release_does(warm: dict[str, Any], peers: tuple[str, ...]) -> None:
    read = DatasetClass.model_validate({"metadata": {"name": "a"}, "spec": {"warm": warm}})
    assert read.spec.warm.peers == peers


@pytest.mark.parametrize("kind", [Dataset, DatasetClass])
def test_the_api_server_stores_both_names_of_peers_and_adds_neither(kind: type[Resource]) -> None:
    fields = open_api_schema(kind)["properties"]["spec"]["properties"]["warm"]["properties"]
    assert all("default" not in fields[name] for name in ("peers", "neighbours"))


@cases(
    "spec, sentence",
    ({"cache": {"topologySpread": {"topologyKey": "a zone"}}}, "'a zone' is not the key of a label or taint"),
    ({"warm": {"deadline": {"daily": "8 am"}}}, "'8 am' is not a time of day: write for example 08:00"),
    ({"warm": {"deadline": {"daily": "08:00", "timeZone": "CET+"}}}, "'CET+' is not a time zone that is known"),
    ({"warm": {"deadline": {"daily": "08:00", "timeZone": ".."}}}, "'..' is not the name of a time zone"),
)
def test_errors_of_wrong_values_name_a_right_one(spec: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValidationError, match=re.escape(sentence)):
        Dataset.model_validate({"metadata": {"name": "a"}, "spec": {"source": {"uri": "s3://bucket/"}} | spec})


def test_a_node_reads_entries_from_before_any_bound() -> None:
    source = {"uri": "x" * 5000, "endpoint": "http://a_b", "region": "?", "include": ["x" * 2000] * 200}
    entry = {"namespace": "n", "name": "d", "uid": "u", "source": source}
    status = {"namespace": "n", "name": "d", "uid": "u", "error": {"reason": "R", "message": "x" * 10**6}}
    cache = NodeCache.model_validate(
        {"metadata": {"name": "a"}, "spec": {"datasets": [entry]}, "status": {"datasets": [status]}}
    )
    assert len(cache.spec.datasets[0].source.include) == 200
    assert cache.status.datasets[0].error is not None
    assert len(cache.status.datasets[0].error.message) == 1024


def test_a_status_from_before_any_bound_is_read_with_its_texts_and_lists_cut() -> None:
    row = {"namespace": "n", "name": "d", "uid": "u", "retained": ["e" * 300] * 1200, "version": "half \udc80"}
    mount = {"volumeId": "v", "datasetNamespace": "n", "dataset": "d" * 900_000}
    status = {"address": "a" * 900, "datasets": [row], "mounts": [mount]}
    read = NodeCache.model_validate({"metadata": {"name": "a"}, "status": status}).status
    assert (len(read.address), len(read.mounts[0].dataset), read.datasets[0].version) == (300, 253, "half ?")
    assert [len(version) for version in read.datasets[0].retained] == [253] * 1000


def test_a_status_that_is_wrong_otherwise_is_refused() -> None:
    with pytest.raises(ValidationError, match="namespace"):
        NodeCache.model_validate({"metadata": {"name": "a"}, "status": {"datasets": [{"name": "d" * 900, "uid": "u"}]}})


def test_a_node_cache_of_a_thousand_datasets_is_less_than_a_megabyte() -> None:
    rows, entries = [], []
    for number in range(1000):
        name = {"namespace": "team-vision", "name": f"imagenet-{number}", "uid": f"{number:036}"}
        source = {
            "uri": f"s3://training-data/imagenet-{number}/train/",
            "endpoint": "https://minio.storage.svc:9000",
            "region": "eu-central-1",
            "credentials": {"secretRef": {"name": "imagenet-keys"}},
        }
        hosts = [f"10.244.{n}.{number % 255}:8081" for n in range(3)]
        entries.append(
            name | {"source": source, "generation": 3, "version": "d" * 64, "manifestHosts": hosts, "eager": True}
        )
        figures = {"files": 1_281_167, "bytes": 147_897_477_120, "warmFiles": 1_281_167, "warmBytes": 147_897_477_120}
        rows.append(
            name | figures | {"phase": "Warm", "version": "d" * 64, "fetchedFiles": 1_281_167, "mode": "native"}
        )
    cache = NodeCache.model_validate(
        {"metadata": {"name": "node"}, "spec": {"datasets": entries}, "status": {"datasets": rows}}
    )
    assert len(json.dumps([cache.spec.wire(), cache.status.wire()], separators=(",", ":"))) < 980_000
    lists = [
        crd(NodeCache)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"][part]
        for part in ("spec", "status")
    ]
    # A map would repeat each field of each row in managedFields.
    assert {part["properties"]["datasets"]["x-kubernetes-list-type"] for part in lists} == {"atomic"}


def test_a_template_is_named_as_documents_name_it() -> None:
    assert TEMPLATE_PATTERN == ID_PATTERN
