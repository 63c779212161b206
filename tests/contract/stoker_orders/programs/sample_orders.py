"""Prints the orders of PyTorch's and Accelerate's samplers and loaders for the given cases, mostly as digests."""

import hashlib
import json
import sys
from array import array
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch.utils.data import DataLoader, Dataset, DistributedSampler, get_worker_info


class Numbers(Dataset):
    def __init__(self, count: int) -> None:
        self.count = count

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> tuple[int, int]:
        worker = get_worker_info()
        return index, worker.id if worker else 0


def digest(order: Iterable[int]) -> str:
    return hashlib.sha256(array("I", order).tobytes()).hexdigest()


def distributed(count: int, seed: int, epoch: int, ranks: int, rank: int, drop_last: bool) -> str:
    sampler = DistributedSampler(Numbers(count), ranks, rank, shuffle=True, seed=seed, drop_last=drop_last)
    sampler.set_epoch(epoch)
    return digest(sampler)


def sequential(count: int, seed: int, epoch: int, ranks: int, rank: int, drop_last: bool) -> str:
    return digest(DistributedSampler(Numbers(count), ranks, rank, shuffle=False, drop_last=drop_last))


def in_turns(count: int, ranks: int, rank: int, drop_last: bool) -> list[int]:
    """Return a rank's positions of an order."""
    return list(DistributedSampler(Numbers(count), ranks, rank, shuffle=False, drop_last=drop_last))


def seedable(
    count: int, seed: int, epoch: int, ranks: int, rank: int, drop_last: bool, batch: int, **options: bool
) -> str:
    """Return a rank's reads with Accelerate's sampler and a seed. ``batch`` is that of the sharded loader."""
    from accelerate.data_loader import prepare_data_loader

    loader = prepare_data_loader(
        DataLoader(Numbers(count), batch, shuffle=True, drop_last=drop_last),
        num_processes=ranks,
        process_index=rank,
        use_seedable_sampler=True,
        data_seed=seed,
        **options,
    )
    loader.set_epoch(epoch)
    return digest(index for indices in loader.batch_sampler for index in indices)


def seedable_parts(count: int, seed: int, epoch: int, ranks: int, rank: int, drop_last: bool, batch: int) -> str:
    """Do the same with each batch split among the ranks: ``batch`` samples to each."""
    return seedable(count, seed, epoch, ranks, rank, drop_last, batch * ranks, split_batches=True)


def generator(count: int, seed: int, epoch: int, ranks: int, rank: int, drop_last: bool) -> str:
    one = torch.Generator()
    one.manual_seed(seed)
    loader = DataLoader(Numbers(count), batch_size=64, shuffle=True, generator=one)
    for _ in range(epoch):
        list(loader)
    return digest(int(index) for batch, _ in loader for index in batch)


def loaded(count: int, batch: int, loaders: int) -> list[int]:
    """Return the loading process of each sample, in the loader's order."""
    loader = DataLoader(Numbers(count), batch_size=batch, num_workers=loaders)
    return [int(who) for _, workers in loader for who in workers]


KINDS: dict[str, Callable[..., Any]] = {
    "distributed": distributed,
    "sequential": sequential,
    "in_turns": in_turns,
    "seedable": seedable,
    "seedable_parts": seedable_parts,
    "generator": generator,
    "loaded": loaded,
}
print(json.dumps([KINDS[kind](*values) for kind, *values in json.load(sys.stdin)]))
