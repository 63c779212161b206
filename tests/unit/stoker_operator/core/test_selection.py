"""Changes of a Dataset that need another listing, and changes that do not."""

import hashlib
import json
from typing import Any

from hypothesis import given as for_all
from hypothesis import strategies as st

from stoker_api import names
from stoker_api.datasets.dataset import Dataset
from stoker_operator.core.plans.listing import fingerprint, first_fingerprint, is_fingerprint
from tests.support.cases import cases
from tests.unit.stoker_operator.builders import make_dataset

PATTERNS = st.lists(st.sampled_from(["a/**", "*.jpg", "b?", "**/c"]), max_size=4)


def of_source(**source: Any) -> str:
    return fingerprint(make_dataset(source={"uri": "s3://bucket/data/"} | source))


@cases(
    "change",
    {"uri": "s3://bucket/other/"},
    {"uri": "s3://bucket/data//"},
    {"endpoint": "https://minio:9000"},
    {"region": "cn-north-1"},
    {"include": ["*.jpg"]},
    {"exclude": ["*.jpg"]},
)
def test_what_selects_bytes_makes_another_listing(change: dict[str, Any]) -> None:
    assert of_source(**change) != of_source()


@cases(
    "change",
    {"credentials": {"secretRef": {"name": "other"}}},
    {"credentials": {"serviceAccount": "trainer"}},
    {"addressingStyle": "Path"},
    {"uri": "s3://bucket/data"},
)
def test_what_only_opens_the_source_makes_none(change: dict[str, Any]) -> None:
    assert of_source(**change) == of_source()


def test_the_region_counts_only_where_it_names_the_endpoint() -> None:
    endpoint = {"endpoint": "https://minio:9000"}
    assert of_source(region="eu-1", **endpoint) == of_source(**endpoint)


@for_all(PATTERNS, PATTERNS)
def test_patterns_are_sets(one: list[str], other: list[str]) -> None:
    assert (of_source(include=one) == of_source(include=other)) is (set(one) == set(other))


def test_a_refresh_makes_another_listing() -> None:
    refreshed = make_dataset(annotations={names.ANNOTATION_REFRESH_REQUESTED: "2026-11-21T10:00:00Z"})
    assert fingerprint(refreshed) != fingerprint(make_dataset())


def test_the_first_fingerprint_is_what_the_first_releases_wrote() -> None:
    source = {
        "uri": "s3://bucket/data/",
        "region": "us-east-1",
        "addressingStyle": "Auto",
        "credentials": {"secretRef": {"name": "keys"}},
        "include": ["b", "a"],
        "exclude": [],
    }
    text = json.dumps([source, ""], sort_keys=True)
    written = hashlib.sha256(text.encode()).hexdigest()[:12]
    assert first_fingerprint(make_dataset(source=source)) == written


def test_a_hash_of_the_first_releases_is_told_from_a_fingerprint() -> None:
    dataset: Dataset = make_dataset()
    assert (is_fingerprint(fingerprint(dataset)), is_fingerprint(first_fingerprint(dataset))) == (True, False)
