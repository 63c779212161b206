"""Warm-ups are timed from their first phase to the condition Warm."""

import pytest

from stoker_api.datasets.dataset_status import DatasetStatus, Phase
from stoker_operator.core.status.dataset_transitions import WarmUpTimes
from tests.unit.stoker_operator.core.test_dataset_transitions import make_status

NEW = DatasetStatus()
WARM = make_status(warm=(True, "Warm")).model_copy(update={"phase": Phase.READY})


def cold(phase: Phase) -> DatasetStatus:
    return make_status(warm=(False, "Warming")).model_copy(update={"phase": phase})


@pytest.mark.parametrize(
    ("steps", "seconds"),
    [
        ([(0, NEW), (10, cold(Phase.LISTING)), (12, cold(Phase.WARMING)), (50, WARM)], 40),
        ([(0, WARM), (100, cold(Phase.WARMING)), (107, WARM)], 7),
        ([(0, NEW), (10, cold(Phase.LISTING)), (12, cold(Phase.DEGRADED)), (50, cold(Phase.WARMING)), (60, WARM)], 50),
        ([(0, NEW), (10, cold(Phase.LISTING)), (12, cold(Phase.READY)), (99, WARM)], None),  # OnDemand: warm much later
        ([(0, cold(Phase.WARMING)), (10, cold(Phase.WARMING)), (20, WARM)], None),  # started under another leader
    ],
)
def test_the_time_from_listing_to_warm_is_measured(
    steps: list[tuple[float, DatasetStatus]], seconds: float | None
) -> None:
    times = WarmUpTimes()
    (_, before), *later = steps
    found = None
    for now, status in later:
        found, before = times.note("vision/a", before, status, now), status
    assert found == seconds


def test_a_deleted_dataset_has_no_start() -> None:
    times = WarmUpTimes()
    times.note("vision/a", NEW, cold(Phase.LISTING), 1)
    times.forget("vision/a")
    assert times.note("vision/a", cold(Phase.LISTING), WARM, 9) is None
