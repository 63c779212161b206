"""The document of named sets contains nothing that rules could not set."""

import pytest

from stoker_tuning.documents.builtin_documents import LEVELS, builtin_text
from stoker_tuning.documents.named_sets import named_sets, parse_named_sets


def test_levels_are_read_from_their_document() -> None:
    assert named_sets() == parse_named_sets(builtin_text(LEVELS))
    assert named_sets()["level"]["Basic"].values["kernel_read_ahead"] == 128 * 1024


@pytest.mark.parametrize(
    "text",
    [
        "strategy: {Balanced: {values: {prefetch_depth: 9999}}}",
        "strategy: {Balance: {values: {}}}",
        "strategy: {Balanced: {value: {}}}",
        "strategies: {A: {values: {}}}",
        "strategy: {Balanced: {values: {chunk_size: 1}}}",
    ],
    ids=["bounds", "word", "field", "knob", "removed"],
)
def test_a_wrong_document_is_refused(text: str) -> None:
    with pytest.raises((ValueError, KeyError, TypeError)):
        parse_named_sets(text)
