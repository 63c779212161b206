"""Accepted Datasets, and the messages for rejected ones."""

from typing import Any

import pytest

from stoker_api.datasets.dataset import Dataset
from stoker_operator.core.plans.admission import parse_dataset
from stoker_operator.core.views.cluster import InvalidDataset
from tests.support.cases import cases


def raw(uri: str = "s3://bucket/", **meta: Any) -> dict[str, Any]:
    metadata = {"namespace": "vision", "name": "imagenet", "uid": "u", "generation": 3} | meta
    return {"metadata": metadata, "spec": {"source": {"uri": uri}}, "status": {"version": "v"}}


@pytest.mark.parametrize("uri", ["s3://bucket", "s3://my.bucket-1/a/b/", "file:///data", "file:///data/x"])
def test_good_sources_are_accepted(uri: str) -> None:
    assert isinstance(parse_dataset(raw(uri)), Dataset)


@cases(
    "uri, sentence",
    ("gs://bucket/", "source.uri gs://bucket/ is not supported: write s3://bucket/prefix/ or file:///folder"),
    ("s3://Bad_Bucket/", "the bucket 'Bad_Bucket' in source.uri must have 3 to 63 characters"),
    ("file://server/share", "source.uri file://server/share must have three slashes: file:///folder"),
    ("s3://bucket/a/../b", "source.uri s3://bucket/a/../b must not contain '..'"),
    ("s3://[bucket/", "source.uri s3://[bucket/ cannot be read"),
)
def test_bad_sources_are_refused_with_the_sentence(uri: str, sentence: str) -> None:
    found = parse_dataset(raw(uri))
    assert isinstance(found, InvalidDataset)
    assert found.sentence.startswith(sentence)
    assert (found.metadata.generation, found.status.version) == (3, "v")


def test_a_spec_that_does_not_fit_the_model_names_the_field() -> None:
    bad = raw()
    bad["spec"]["cache"] = {"quota": "many"}
    found = parse_dataset(bad)
    assert isinstance(found, InvalidDataset)
    assert found.sentence.startswith("spec.cache.quota: ")


def test_a_status_of_a_later_release_costs_only_what_cannot_be_read() -> None:
    later = raw()
    later["status"] |= {"phase": "Frozen", "files": 3}
    found = parse_dataset(later)
    assert isinstance(found, Dataset)
    assert (found.status.phase, found.status.version, found.status.files) == (None, "v", 3)


def test_a_bad_one_that_is_being_deleted_says_so() -> None:
    found = parse_dataset(raw("gs://bucket/", deletionTimestamp="2026-11-21T10:00:00Z"))
    assert found.metadata.deletion_timestamp
