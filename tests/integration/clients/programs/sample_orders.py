"""Prints what PyTorch's own samplers and loader make of the cases that it is given: a digest of each order."""

import hashlib
import json
import sys
from array import array

import torch
from torch.utils.data import DataLoader, Dataset, DistributedSampler, RandomSampler, get_worker_info


class Numbers(Dataset):
    def __init__(self, count):
        self.count = count

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        worker = get_worker_info()
        return index, worker.id if worker else 0


def digest(order):
    return hashlib.sha256(array("I", order).tobytes()).hexdigest()


def distributed(count, seed, epoch, ranks, rank, drop_last):
    sampler = DistributedSampler(Numbers(count), ranks, rank, shuffle=True, seed=seed, drop_last=drop_last)
    sampler.set_epoch(epoch)
    return digest(sampler)


def sequential(count, seed, epoch, ranks, rank, drop_last):
    return digest(DistributedSampler(Numbers(count), ranks, rank, shuffle=False, drop_last=drop_last))


def seedable(count, seed, epoch, ranks, rank, drop_last):
    """Accelerate's SeedableRandomSampler: PyTorch's RandomSampler over a generator seeded for each epoch."""
    generator = torch.Generator()
    generator.manual_seed(seed + epoch)
    return digest(RandomSampler(Numbers(count), generator=generator))


def generator(count, seed, epoch, ranks, rank, drop_last):
    one = torch.Generator()
    one.manual_seed(seed)
    loader = DataLoader(Numbers(count), batch_size=64, shuffle=True, generator=one)
    for _ in range(epoch):
        list(loader)
    return digest(int(index) for batch, _ in loader for index in batch)


def loaded(count, batch, loaders):
    """By which loading process each sample was read, in the loader's order."""
    return [
        int(who) for _, workers in DataLoader(Numbers(count), batch_size=batch, num_workers=loaders) for who in workers
    ]


KINDS = {f.__name__: f for f in (distributed, sequential, seedable, generator, loaded)}
print(json.dumps([KINDS[kind](*values) for kind, *values in json.load(sys.stdin)]))
