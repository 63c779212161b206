"""The statistics of shuffles tell a good one from a bad one, and the group shuffle is held to them."""

import json
from pathlib import Path
from statistics import mean

import numpy

from bench.shuffle import (
    BATCH,
    CLASSES,
    RESERVOIR,
    accuracy,
    dispersion,
    measure_shuffles,
    merged,
    order_of,
    show_shuffles,
    together,
)

_SAMPLES = 65_536
_GROUP = 16


def test_groups_merge_at_least_eight_requests_where_a_whole_shuffle_merges_none() -> None:
    whole, groups = (order_of(group, _SAMPLES, seed=1) for group in (1, _GROUP))
    assert merged(groups, _GROUP, 2 * RESERVOIR) >= 8
    assert merged(whole, _GROUP, 2 * RESERVOIR) < 1.3


def test_batches_of_groups_have_the_classes_as_evenly_as_those_of_a_whole_shuffle() -> None:
    def of(group: int) -> float:
        return mean(dispersion(order_of(group, _SAMPLES, seed) * CLASSES // _SAMPLES, BATCH) for seed in range(5))

    assert of(_GROUP) <= of(1) + 0.02
    assert of(0) > 100


def test_digits_are_learned_as_well_in_groups_over_five_seeds() -> None:
    whole, groups = (mean(accuracy(group, seed, 10) for seed in range(5)) for group in (1, _GROUP))
    assert groups >= whole - 0.01
    assert accuracy(0, 0, 2) < 0.5


def test_neighbours_are_found_together_where_they_are() -> None:
    order = numpy.array([0, 1, 4, 2, 3])
    assert together(order, 2) == 0.5


def test_the_table_has_a_row_for_each_order_and_its_figures_are_kept(tmp_path: Path) -> None:
    figures = measure_shuffles(samples=8192, seeds=1, epochs=1)
    lines = show_shuffles(figures, tmp_path / "shuffle.json").splitlines()
    assert len(lines) == 1 + len(figures)
    assert [each["order"] for each in json.loads((tmp_path / "shuffle.json").read_text())][:2] == ["none", "all"]
