"""Epochs to search for lost readers, and the possible ranks of these readers."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker_orders.loader_schedule import guessed_ranks
from stoker_orders.place_search import epochs_to_try, most_tried
from stoker_orders.predictors.samplers import PluginSampler, SamplerName
from stoker_orders.sampling_plan import SamplingPlan


def plan(sampler: SamplerName | PluginSampler = SamplerName.TORCH_DISTRIBUTED) -> SamplingPlan:
    return SamplingPlan(sampler, epochs=1_000_000)


@given(st.integers(1, 500).flatmap(lambda epochs: st.tuples(st.just(epochs), *[st.integers(0, epochs - 1)] * 2)))
def test_each_epoch_of_a_run_that_can_be_paid_for_is_tried_once(run: tuple[int, int, int]) -> None:
    epochs, start, at = run
    assert sorted(epochs_to_try(at, start, epochs, epochs)) == list(range(epochs))


@given(st.integers(0, 999_999), st.integers(0, 999_999), st.integers(100, 500))
def test_as_many_epochs_as_can_be_paid_for_are_tried_the_likely_ones_first(at: int, start: int, most: int) -> None:
    tried = epochs_to_try(at, start, 1_000_000, most)
    assert len(tried) == len(set(tried)) == most
    assert {at, min(at + 1, 999_999), start, 0} <= set(tried[:8])


@pytest.mark.parametrize(("files", "most"), [(1_000, 10_000), (1_300_000, 384), (2_000_000, 250), (10_000_000, 100)])
def test_the_larger_an_epoch_the_fewer_are_tried(files: int, most: int) -> None:
    assert most_tried(plan(), files) == most


@pytest.mark.parametrize("sampler", [SamplerName.TORCH_RANDOM, PluginSampler("mine")])
def test_of_orders_that_cost_more_a_hundred_epochs_are_tried(sampler: SamplerName | PluginSampler) -> None:
    assert most_tried(plan(sampler), 1_000) == 100


@given(st.integers(2, 128), st.integers(0, 10_000), st.sampled_from([1, 16]), st.data())
def test_reads_tell_among_how_many_ranks_an_order_is_shared(
    ranks: int, first: int, turn: int, data: st.DataObject
) -> None:
    """The guess can be an equivalent multiple of the ranks. It never claims more reads for this node than there are."""
    here = data.draw(st.sets(st.integers(0, ranks - 1), min_size=1, max_size=max(1, min(8, ranks // 2))))
    rounds = range(first, first - (-64 // len(here)))
    indices = [(each * ranks + rank) * turn for each in rounds for rank in sorted(here)]
    found, found_here = guessed_ranks(indices, turn, 512, len(here))
    assert sum(index // turn % found in found_here for index in indices) >= 0.95 * len(indices)
    assert len(found_here) * ranks <= len(here) * found


def test_where_all_ranks_are_here_nothing_is_guessed() -> None:
    assert guessed_ranks(list(range(64)), 1, 512, 4) == (4, (0, 1, 2, 3))
