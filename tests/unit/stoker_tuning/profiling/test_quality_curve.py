"""The client's sampler achieves the curve of quality ratios."""

from fractions import Fraction
from itertools import pairwise
from math import ceil

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker_client import QualityRatioSampler
from stoker_tuning.profiling.quality_curve import RATIOS, coverage_after, quality_curve

SECONDS = st.floats(0.1, 1e5)


@given(st.sampled_from(RATIOS), st.integers(8, 300), st.integers(0, 50))
def test_coverage_is_that_of_the_clients_sampler(ratio: Fraction, samples: int, seed: int) -> None:
    sampler, seen = QualityRatioSampler(samples, float(ratio), seed=seed, rank=0, world_size=1), set()
    for epoch in range(ceil(1 / ratio)):
        sampler.set_epoch(epoch)
        seen |= set(sampler)
        assert len(seen) == pytest.approx(coverage_after(ratio, epoch + 1) * samples, abs=1)
    assert len(seen) == samples


@given(SECONDS, SECONDS)
def test_a_ratio_of_one_is_a_whole_epoch(warm: float, fetch: float) -> None:
    point = quality_curve(warm + fetch, warm)[-1]
    assert (point.ratio, point.epochs_to_all) == (1.0, 1)
    assert point.seconds == pytest.approx((warm + fetch, warm, warm, warm))


@given(SECONDS, SECONDS, st.floats(0, 1), st.floats(0, 1))
def test_less_is_never_slower(warm: float, fetch: float, compute: float, first: float) -> None:
    curve = quality_curve(warm + fetch, warm, compute * warm, first * warm)
    for few, many in pairwise(curve):
        assert few.seconds[0] <= many.seconds[0] * (1 + 1e-9)
        assert few.warm_seconds <= many.warm_seconds * (1 + 1e-9)


@pytest.mark.parametrize(("at", "expected"), [(0, 4), (1, 2), (2, 2), (3, 1)])
def test_all_are_seen_after_so_many_epochs(at: int, expected: int) -> None:
    assert quality_curve(10.0, 5.0)[at].epochs_to_all == expected


def test_a_share_of_a_cold_epoch_takes_what_that_share_took() -> None:
    curve = quality_curve(10.0, 4.0, progress=((0.25, 5.0), (0.5, 8.0), (1.0, 10.0)))
    assert curve[1].seconds == (8.0, 2.0, 2.0, 2.0)
    assert curve[0].seconds == (5.0, 3.0, 1.0, 1.0)


def test_computing_waits_for_the_first_batch_however_few_follow() -> None:
    assert quality_curve(20.0, 10.0, compute=8.0, first=2.0)[0].warm_seconds == 4.0


def test_an_epoch_of_what_was_seen_before_is_warm() -> None:
    half = quality_curve(10.0, 4.0)[1]
    assert half.seconds == (5.0, 5.0, 2.0, 2.0)
    assert (half.warm_seconds, half.seconds_to_all) == (2.0, 10.0)
