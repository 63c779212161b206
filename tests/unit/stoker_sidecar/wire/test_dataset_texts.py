"""The texts of many Datasets share one limit, and namespaces share the room."""

import pytest

from stoker_sidecar.wire.dataset_texts import with_short_texts
from stoker_sidecar.wire.fetcher_protocol import MAX_PROGRESS, Progress, encode_reply
from tests.unit.stoker_sidecar.agent.builders import dataset


def test_sentences_of_the_namespace_with_most_of_them_are_shortened() -> None:
    rows = [dataset(number, "many", "x" * 1024)[1] for number in range(1000)] + [dataset(1, "few", "y" * 1024)[1]]
    *many, few = with_short_texts(rows)
    assert few == rows[-1]
    assert {len(row.error.message) for row in many if row.error} == {80}
    assert {(len(row.retained), len(row.older)) for row in many} == {(4, 1)}


def test_sentences_that_are_few_stay_as_they_are() -> None:
    rows = tuple(dataset(number, "a", "x" * 1024)[1] for number in range(30))
    assert with_short_texts(rows) == rows


@pytest.mark.parametrize("namespaces", [1, 200])
def test_what_a_fetcher_says_of_5000_datasets_that_fail_at_length_is_read_by_the_agent(namespaces: int) -> None:
    text = "\U0001f600" * 1024
    rows = [dataset(number, f"namespace-{number % namespaces}", text)[1] for number in range(5000)]
    progress = Progress(tuple(row.wire() for row in with_short_texts(rows, 300_000)))
    assert len(encode_reply(0, progress)) < MAX_PROGRESS
