"""Hints from the webhook to a node: the node reads exactly what the webhook writes."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker_api import names
from stoker_api.jobs.pod_hints import hint_attributes, read_hints
from stoker_tuning.frameworks.answers import is_framework_name
from stoker_tuning.frameworks.pod_hints import (
    HINTED_SOURCES,
    MOST_BATCH,
    MOST_GPUS,
    NO_HINTS,
    FrameworkSource,
    PodHints,
)
from stoker_tuning.frameworks.pod_signs import is_job_name

FRAMEWORKS = st.sampled_from(["pytorch", "jax"])
HINTS = st.builds(
    lambda named, batch, gpus, job: PodHints(named[0], named[1], batch, gpus, job),
    st.just(("", None)) | st.tuples(FRAMEWORKS, st.sampled_from(HINTED_SOURCES)),
    st.integers(0, MOST_BATCH),
    st.integers(0, MOST_GPUS),
    st.sampled_from(["", "resnet", "a" * 253, "A.b_c-d"]),
)
ATTRIBUTES = [
    names.CSI_ATTRIBUTE_HINT_FRAMEWORK,
    names.CSI_ATTRIBUTE_HINT_FRAMEWORK_SOURCE,
    names.CSI_ATTRIBUTE_HINT_BATCH_SIZE,
    names.CSI_ATTRIBUTE_HINT_GPUS,
    names.CSI_ATTRIBUTE_HINT_JOB,
]


@given(HINTS)
def test_what_is_written_is_read(hints: PodHints) -> None:
    assert read_hints(hint_attributes(hints)) == hints


def test_of_a_pod_that_hints_at_nothing_nothing_is_written() -> None:
    assert hint_attributes(NO_HINTS) == {}


@given(st.dictionaries(st.sampled_from(ATTRIBUTES), st.text(max_size=300) | st.sampled_from(["image", "5", "report"])))
def test_whatever_is_written_by_hand_its_hints_are_bounded(attributes: dict[str, str]) -> None:
    found = read_hints(attributes)
    assert 0 <= found.batch_size <= MOST_BATCH
    assert 0 <= found.gpus <= MOST_GPUS
    assert not found.job or is_job_name(found.job)
    assert (found.framework_source in HINTED_SOURCES) is is_framework_name(found.framework)


def test_a_pod_cannot_say_by_its_spec_that_it_reports() -> None:
    claimed = PodHints("pytorch", FrameworkSource.REPORT)
    assert read_hints(hint_attributes(claimed)) == NO_HINTS


@pytest.mark.parametrize("attributes", [None, [], "x", {names.CSI_ATTRIBUTE_HINT_GPUS: 8}])
def test_what_a_damaged_table_holds_tells_nothing(attributes: Any) -> None:
    assert read_hints(attributes) == NO_HINTS
