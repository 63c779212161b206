"""Accelerate's batches have a known order only if a node can compute the same order.

tests/integration/clients tests the real objects. The objects here have their attributes, to cover other versions.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from stoker_client.internal.order_text import order_text, sampler_of
from tests.support.cases import cases

FILES = {"layout": "Shards", "path": "*.bin"}


@dataclass
class SeedableRandomSampler:
    """The sampler of Accelerate."""

    data_source: Any = range(43)
    num_samples: int = 43
    replacement: bool = False
    initial_seed: Any = 7
    epoch: int = 2


@dataclass
class BatchSampler:
    """The batch sampler of PyTorch."""

    sampler: Any
    batch_size: int = 4
    drop_last: bool = False


@dataclass
class BatchSamplerShard:
    """The batch sampler of Accelerate."""

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
    """The DataLoader of Accelerate."""

    batch_sampler: Any
    iteration: int = 5
    dataset: Any = None
    state: Any = field(default_factory=lambda: SimpleNamespace(num_processes=1))

    def set_epoch(self, epoch: int) -> None:
        self.iteration = epoch
        if hasattr(self.batch_sampler, "sampler") and hasattr(self.batch_sampler.sampler, "set_epoch"):
            self.batch_sampler.sampler.set_epoch(epoch)


class LaterDataLoaderShard(DataLoaderShard):
    """The DataLoader of Accelerate 1.15."""

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


def sharded() -> Any:
    return BatchSamplerShard(BatchSampler(SeedableRandomSampler()))


@cases(
    "loader, options, epoch",
    of_the_loader_of_accelerate=(alone, {}, 5),
    of_the_sampler_of_any_other_loader=(
        lambda: SimpleNamespace(batch_sampler=BatchSampler(SeedableRandomSampler())),
        {},
        2,
    ),
    of_the_sampler_that_the_loader_does_not_tell=(lambda: DataLoaderShard(sharded()), {"place": (1, 3)}, 2),
    of_a_later_loader_that_tells_it=(lambda: LaterDataLoaderShard(sharded()), {"place": (1, 3)}, 5),
    that_the_loader_will_be_set_to=(alone, {"epoch": 6}, 6),
    that_the_sampler_is_not_told_of=(lambda: DataLoaderShard(sharded()), {"place": (1, 3), "epoch": 6}, 2),
)
def test_the_epoch_is_the_one(loader: Callable[[], Any], options: dict[str, Any], epoch: int) -> None:
    assert said(loader(), **options)["epoch"] == epoch


@pytest.mark.parametrize("changed", [{}, {"drop_last": True}, {"split_batches": True, "batch_size": 12}])
def test_a_rank_says_the_order_of_all(changed: dict[str, Any]) -> None:
    told = said(DataLoaderShard(BatchSamplerShard(BatchSampler(SeedableRandomSampler()), **changed)), (1, 3))
    assert (told["sampler"], told["seed"], told["ranks"], told["batch"]) == ("accelerate-seedable", 7, 3, 4)
    assert told.get("dropLast", False) is changed.get("drop_last", False)


@pytest.mark.parametrize(
    "changed",
    [
        {"initial_seed": 2**53},  # more than a node accepts
        {"initial_seed": None},  # of a version with another seed rule
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
    assert said(DataLoaderShard(sharded()), (0, 1)) is None
