"""What the webhook knows of a Dataset."""

import pytest

from stoker_operator.core.acceptance import parse_dataset
from stoker_operator.core.catalog import catalog_entry


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
