"""When compressed copies pay off."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker_sidecar.fetcher.ondisk.packing_decision import (
    SAMPLE_BYTES,
    SAMPLE_FILES,
    PackingTrial,
    Shortage,
    SourceMeter,
    judge_packing,
)

GB = 10**9
TEXT = PackingTrial(20, 4_000_000, 1_000_000, 0.02, 0.005)  # four times smaller; 200 and 800 MB/s
SLOW = 50e6


@pytest.mark.parametrize(
    ("trial", "shortage", "pays"),
    [
        (TEXT, Shortage(10 * GB, 5 * GB, SLOW), True),
        (TEXT, Shortage(10 * GB, 10 * GB, SLOW), False),  # fits uncompressed, and is read natively
        (TEXT, Shortage(10 * GB, 5 * GB, 3e9), False),  # the source is faster than unpacking
        (TEXT, Shortage(10 * GB, 5 * GB, 0.0), False),  # unknown
        (TEXT, Shortage(10 * GB, 0, SLOW), False),  # no room for copies either
        (PackingTrial(20, 4_000_000, 3_900_000, 0.02, 0.005), Shortage(10 * GB, 5 * GB, SLOW), False),
        (PackingTrial(20, 4_000_000, 1_000_000, 2.0, 0.005), Shortage(10 * GB, 5 * GB, SLOW), False),  # 2 MB/s
        (PackingTrial(20, 4_000_000, 1_000_000, 0.02, 2.0), Shortage(10 * GB, 5 * GB, SLOW), False),
    ],
)
def test_copies_pay_where_more_fits_and_unpacking_is_faster_than_the_source(
    trial: PackingTrial, shortage: Shortage, pays: bool
) -> None:
    assert judge_packing(trial, shortage, 1.5).pays is pays


def test_what_was_measured_is_said() -> None:
    why = judge_packing(TEXT, Shortage(10 * GB, 5 * GB, SLOW), 1.5).why
    assert "4.0 times smaller" in why
    assert "in place of 100.0 s" in why


def test_some_files_or_some_bytes_are_enough() -> None:
    assert PackingTrial(SAMPLE_FILES, 10).is_enough
    assert PackingTrial(1, SAMPLE_BYTES).is_enough
    assert not PackingTrial(SAMPLE_FILES - 1, SAMPLE_BYTES - 1).is_enough


@given(
    st.builds(PackingTrial, st.integers(1, 99), st.integers(1, GB), st.integers(0, GB), *[st.floats(0, 100)] * 2),
    st.builds(Shortage, st.integers(0, 10**15), st.integers(0, 10**15), st.floats(0, 1e11)),
    st.floats(1, 100),
)
def test_a_copy_is_never_made_of_what_fits_or_is_not_small_enough(
    trial: PackingTrial, shortage: Shortage, least: float
) -> None:
    if judge_packing(trial, shortage, least).pays:
        assert not shortage.fits
        assert trial.ratio >= least


def test_a_source_counts_as_fast_as_it_was_at_its_best() -> None:
    meter = SourceMeter(began=10.0, fetched=1000)
    assert meter.read(10.5, 900_000) == 0  # its first requests are in flight
    assert meter.read(12.0, 2_001_000) == 1e6
    assert meter.read(12.5, 2_001_000) == 1e6
    assert meter.read(20.0, 2_002_000) == 1e6  # packing delays it
    assert meter.read(21.0, 5_002_000) == 3e6
