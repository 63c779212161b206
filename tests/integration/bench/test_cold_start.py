"""The cold start that is measured is one in which nothing is to be written."""

import pytest

from bench.coldstart.measurement import measure_start
from bench.coldstart.start import LOOPS

pytestmark = pytest.mark.timeout(400)  # three processes, one after the other; seconds are not measured here


def test_a_leader_that_finds_a_cluster_at_rest_writes_nothing() -> None:
    found = measure_start(nodes=60, datasets=5, everywhere=2)  # raises where it does
    assert {f"first pass of {loop}" for loop in LOOPS} <= found.at.keys()
