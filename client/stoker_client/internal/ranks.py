"""The rank of this process and the world size, if the program does not pass them."""

from __future__ import annotations

import operator
import os
import sys

_VARIABLES = (("RANK", "WORLD_SIZE"), ("JAX_PROCESS_ID", "JAX_NUM_PROCESSES"))


def place_in_world(rank: int | None, world_size: int | None) -> tuple[int, int]:
    """Return rank and world size: the arguments, else those of torch.distributed, else those of environment variables.

    The variables are RANK and WORLD_SIZE, or JAX_PROCESS_ID and JAX_NUM_PROCESSES, as torchrun and TrainingJobs set
    them. Raises ValueError if only one of both is given, or if they contradict each other.
    """
    if (rank is None) != (world_size is None):
        raise ValueError("rank and world_size belong together: give both, or neither")
    if rank is None or world_size is None:
        rank, world_size = known_place() or (0, 1)
    rank, world_size = operator.index(rank), operator.index(world_size)
    if not 0 <= rank < world_size:
        raise ValueError(f"rank is {rank} of a world of {world_size}: ranks are from 0 to {world_size - 1}")
    return rank, world_size


def known_place() -> tuple[int, int] | None:
    """Return the rank and world size of this process, or None while they are unknown."""
    return _of_torch() or _of_environment()


def _of_torch() -> tuple[int, int] | None:
    """Return torch's rank and world size. Never imports torch."""
    distributed = sys.modules.get("torch.distributed")
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        return None
    return distributed.get_rank(), distributed.get_world_size()


def _of_environment() -> tuple[int, int] | None:
    """Return the variables' values, or None if they are missing or no whole numbers."""
    for rank, world_size in _VARIABLES:
        try:
            return int(os.environ[rank]), int(os.environ[world_size])
        except (KeyError, ValueError):
            continue
    return None
