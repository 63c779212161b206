"""The webhook's data about a Dataset."""

import pytest

from stoker_api.jobs.pod_annotations import Refusal
from stoker_operator.core.plans.admission import parse_dataset
from stoker_operator.core.views.catalog import CatalogEntry, catalog_entry
from tests.support.cases import cases


def test_a_dataset_becomes_an_entry() -> None:
    raw = {
        "metadata": {"namespace": "vision", "name": "a", "deletionTimestamp": "2026-11-21T10:00:00Z"},
        "spec": {
            "source": {"uri": "s3://bucket/"},
            "scheduling": {"mode": "Require", "maxWait": "90s"},
            "access": {"namespaces": ["team-*"]},
        },
    }
    entry = catalog_entry(parse_dataset(raw))
    assert (entry.key, entry.mode.value, entry.max_wait, entry.deleting) == ("vision/a", "Require", 90.0, True)
    assert [entry.admits(one) for one in ("vision", "team-b", "other")] == [True, True, False]


@pytest.mark.expected_logs("does not parse")
def test_a_dataset_that_does_not_parse_is_open_to_its_own_namespace_only() -> None:
    entry = catalog_entry(
        parse_dataset({"metadata": {"namespace": "vision", "name": "a"}, "spec": {"access": {"namespaces": ["*"]}}})
    )
    assert [entry.admits(one) for one in ("vision", "other")] == [True, False]


ONE, OTHER, CURRENT = "1a" * 32, "1b" * 32, "2c" * 32
VERSIONED = CatalogEntry("vision", "imagenet", version=CURRENT, older=(ONE, OTHER))


@pytest.mark.parametrize("named", [ONE, ONE[:12]])
def test_a_version_is_found_by_its_first_digits(named: str) -> None:
    assert VERSIONED.resolve(named) == ONE


def test_no_version_means_the_current_one() -> None:
    assert (VERSIONED.resolve(""), CatalogEntry("vision", "new").resolve("")) == (CURRENT, "")


@cases("named, sentence", ("1", "has more than one version 1"), ("3d" * 6, "has no version 3d3d3d3d3d3d"))
def test_a_version_that_is_not_kept_is_refused_with_those_that_are(named: str, sentence: str) -> None:
    refusal = VERSIONED.resolve(named)
    assert isinstance(refusal, Refusal)
    assert sentence in refusal.sentence
    assert "name one of 2c2c2c2c2c2c, 1a1a1a1a1a1a, 1b1b1b1b1b1b, or none" in refusal.sentence
