"""The reading order of a DataLoader of Hugging Face's Accelerate, which the Trainer of transformers also builds."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from stoker_client.internal.guard import found, is_of_kind

_MOST_SEED = 2**53 - 1  # the largest seed that a node accepts; PyTorch draws larger ones by default


class SeedableOrder:
    """The order of Accelerate's seeded sampler, and how its batches are dealt.

    ``batch`` is the number of samples of one rank. ``is_made_up`` means that the last batches are filled, so that all
    ranks have the same number.
    """

    def __init__(self, sampler: Any, batches: Any, epoch: int) -> None:
        self._sampler, self._epoch = sampler, epoch
        shard = batches if is_shard(batches) else None
        self.rank: int = shard.process_index if shard else 0
        self.world_size: int = shard.num_processes if shard else 1
        # A split batch is dealt like whole batches of the smaller size.
        self._batch = batches.batch_size // (self.world_size if shard and shard.split_batches else 1)
        self._is_made_up = bool(shard and shard.even_batches)
        self._drops = bool(batches.drop_last)

    def sampling(self) -> dict[str, Any] | None:
        """Return the data from which a node computes the same order, or None if it cannot."""
        seed = found(self._sampler, "initial_seed")
        if not isinstance(seed, int) or abs(seed) > _MOST_SEED or not self._is_permutation() or not self._goes_round():
            return None
        said = {"sampler": "accelerate-seedable", "seed": seed, "epoch": self._epoch, "batch": self._batch}
        return {**said, "ranks": self.world_size, **({"dropLast": True} if self._drops else {})}

    def _is_permutation(self) -> bool:
        """Return True if an epoch has each sample once."""
        return not self._sampler.replacement and self._sampler.num_samples == len(self._sampler.data_source)

    def _goes_round(self) -> bool:
        """Return True if the epoch ends as nodes expect it.

        Several ranks must have equal numbers of samples. A single rank has the rest in a short batch. Without
        ``even_batches`` some of several ranks have fewer.
        """
        left = self._sampler.num_samples % (self._batch * self.world_size)
        return self._drops or not left or self._is_made_up == (self.world_size > 1)


def seedable_order(loader: Any, epoch: int | None = None) -> SeedableOrder | None:
    """Return the order of a DataLoader that Accelerate deals from a seeded sampler; None for other loaders.

    ``epoch`` is the loader's epoch for its next iteration; with None the loader counts. Also return None if one process
    reads for all (``dispatch_batches``), because then only that process reads.
    """
    batches = loader.batch_sampler
    inner = batches.batch_sampler if is_shard(batches) else batches
    sampler = found(inner, "sampler")
    is_known = is_of_kind(inner, "BatchSampler", "torch.utils.data")
    if not is_known or not is_of_kind(sampler, "SeedableRandomSampler", "accelerate"):
        return None
    if (found(loader, "state", "num_processes") or 1) > 1:
        return None
    return SeedableOrder(sampler, batches, _next_epoch(loader, sampler, epoch))


def is_shard(batches: Any) -> bool:
    """Return True for the batches of one process of several."""
    return is_of_kind(batches, "BatchSamplerShard", "accelerate")


def _next_epoch(loader: Any, sampler: Any, set_to: int | None) -> int:
    """Return the epoch of the next iteration. Accelerate's loader counts epochs and passes them to the sampler.

    With several ranks, some releases do not pass them. Then the sampler counts its finished iterations.
    """
    counted = found(loader, "iteration") if type(loader).__module__.startswith("accelerate.") else None
    if counted is None or not (found(loader.batch_sampler, "sampler") is sampler or _tells_ranks(type(loader))):
        return int(sampler.epoch)
    return int(counted if set_to is None else set_to)


def _tells_ranks(kind: Any) -> bool:
    """Return True if loaders of this class pass an epoch to a sampler whose batches are dealt among ranks.

    Tested with a stub loader: Accelerate 1.2 does not, 1.15 does.
    """
    told: list[int] = []
    inner = SimpleNamespace(sampler=SimpleNamespace(set_epoch=told.append))
    kind.set_epoch(SimpleNamespace(iteration=0, batch_sampler=SimpleNamespace(batch_sampler=inner)), 1)
    return told == [1]
