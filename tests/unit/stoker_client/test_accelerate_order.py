"""Of batches that Accelerate deals an order is said where a node computes the same, and else none.

tests/integration/clients has the real ones. The objects here have their attributes, for what other versions bring.
"""

import json
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from stoker_client.order_text import order_text, sampler_of

FILES = {"layout": "Shards", "path": "*.bin"}


@dataclass
class SeedableRandomSampler:
    """Accelerate's."""

    data_source: Any = range(43)
    num_samples: int = 43
    replacement: bool = False
    initial_seed: Any = 7
    epoch: int = 2


@dataclass
class BatchSampler:
    """PyTorch's."""

    sampler: Any
    batch_size: int = 4
    drop_last: bool = False


@dataclass
class BatchSamplerShard:
    """Accelerate's."""

    batch_sampler: Any
    sampler: Any = None
    process_index: int = 1
    num_processes: int = 3
    split_batches: bool = False
    even_batches: bool = True
    batch_size: int = 4
    drop_last: bool = False


@dataclass
class DataLoaderShard:
    """Accelerate's."""

    batch_sampler: Any
    iteration: int = 5
    dataset: Any = None
    state: Any = field(default_factory=lambda: SimpleNamespace(num_processes=1))

    def set_epoch(self, epoch: int) -> None:
        self.iteration = epoch
        if hasattr(self.batch_sampler, "sampler") and hasattr(self.batch_sampler.sampler, "set_epoch"):
            self.batch_sampler.sampler.set_epoch(epoch)


class LaterDataLoaderShard(DataLoaderShard):
    """That of version 1.15."""

    def set_epoch(self, epoch: int) -> None:
        DataLoaderShard.set_epoch(self, epoch)
        if hasattr(self.batch_sampler, "batch_sampler"):
            self.batch_sampler.batch_sampler.sampler.set_epoch(epoch)


for _kind in (SeedableRandomSampler, BatchSamplerShard, DataLoaderShard, LaterDataLoaderShard):
    _kind.__module__ = "accelerate.data_loader"
BatchSampler.__module__ = "torch.utils.data.sampler"


def said(loader: Any, place: tuple[int, int] = (0, 1), epoch: int | None = None) -> Any:
    text = order_text(sampler_of(loader, epoch), None, place, files=FILES)
    return json.loads(text) if text else None


def alone(**changed: Any) -> DataLoaderShard:
    return DataLoaderShard(BatchSampler(SeedableRandomSampler(**changed)))


def test_a_loader_of_accelerate_counts_the_epochs() -> None:
    assert said(alone())["epoch"] == 5


def test_of_any_other_loader_the_sampler_does() -> None:
    assert said(SimpleNamespace(batch_sampler=BatchSampler(SeedableRandomSampler())))["epoch"] == 2


def test_the_sampler_does_too_where_the_loader_does_not_tell_it_the_epoch() -> None:
    shard = BatchSamplerShard(BatchSampler(SeedableRandomSampler()))
    assert said(DataLoaderShard(shard), (1, 3))["epoch"] == 2


def test_a_later_loader_tells_the_sampler_of_ranks_as_well() -> None:
    shard = BatchSamplerShard(BatchSampler(SeedableRandomSampler()))
    assert said(LaterDataLoaderShard(shard), (1, 3))["epoch"] == 5


def test_a_loader_that_will_be_set_to_an_epoch_begins_that_one() -> None:
    assert said(alone(), epoch=6)["epoch"] == 6


def test_an_epoch_that_the_sampler_is_not_told_of_does_not_count() -> None:
    shard = BatchSamplerShard(BatchSampler(SeedableRandomSampler()))
    assert said(DataLoaderShard(shard), (1, 3), epoch=6)["epoch"] == 2


@pytest.mark.parametrize("changed", [{}, {"drop_last": True}, {"split_batches": True, "batch_size": 12}])
def test_a_rank_says_the_order_of_all(changed: dict[str, Any]) -> None:
    told = said(DataLoaderShard(BatchSamplerShard(BatchSampler(SeedableRandomSampler()), **changed)), (1, 3))
    assert (told["sampler"], told["seed"], told["ranks"], told["batch"]) == ("accelerate-seedable", 7, 3, 4)
    assert told.get("dropLast", False) is changed.get("drop_last", False)


@pytest.mark.parametrize(
    "changed",
    [
        {"initial_seed": 2**53},  # more than a node takes
        {"initial_seed": None},  # of a version that seeds otherwise
        {"replacement": True},
        {"num_samples": 20},
    ],
)
def test_a_sampler_whose_order_is_another_says_none(changed: dict[str, Any]) -> None:
    assert said(alone(**changed)) is None


def test_processes_for_which_one_reads_say_no_order() -> None:
    loader = alone()
    loader.state.num_processes = 2
    assert said(loader) is None


def test_one_process_whose_last_batch_is_filled_says_no_order() -> None:
    shard = BatchSamplerShard(BatchSampler(SeedableRandomSampler()), process_index=0, num_processes=1)
    assert said(DataLoaderShard(shard)) is None


def test_batches_dealt_to_another_process_than_the_reports_say_no_order() -> None:
    shard = BatchSamplerShard(BatchSampler(SeedableRandomSampler()))
    assert said(DataLoaderShard(shard), (0, 1)) is None
