"""The models become structural schemas, and read what the API server would send."""

from collections.abc import Iterator
from typing import Any

import pytest

from stoker_api.dataset import Dataset
from stoker_api.meta import Resource
from stoker_api.schema import KINDS, crd, open_api_schema

# https://kubernetes.io: structural schemas allow neither references nor unions of types.
FORBIDDEN = {"$ref", "$defs", "anyOf", "oneOf", "const", "title"}


def nodes(schema: Any) -> Iterator[dict[str, Any]]:
    if isinstance(schema, dict):
        yield schema
        for name, child in schema.items():
            # Names of properties are the users' words, not schema words.
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


def test_replicas_takes_a_number_or_all() -> None:
    replicas = open_api_schema(Dataset)["properties"]["spec"]["properties"]["cache"]["properties"]["replicas"]
    assert replicas["x-kubernetes-int-or-string"] is True
    assert "type" not in replicas


def test_every_column_points_at_a_field_of_the_schema() -> None:
    for kind in KINDS:
        status = open_api_schema(kind)["properties"]["status"]["properties"]
        paths = [column.json_path for column in kind.COLUMNS if column.json_path.startswith(".status.")]
        assert [path for path in paths if path.split(".")[2].split("[")[0] not in status] == []


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
