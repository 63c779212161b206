"""The common base of all samplers: epochs, a share for each rank, and a resumable state."""

from __future__ import annotations

import operator
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sized
from itertools import islice
from typing import Any

from stoker_client.internal.dataset_files import paths_of, warn_if_unsorted
from stoker_client.internal.ranks import known_place, place_in_world

_STATE_VERSION = 1
_PLACE = ("epoch", "world_size", "base", "position")  # keys of a state: the position in the epoch


class EpochSampler(ABC):
    """Yields the indices of one rank for one epoch. They depend only on seed, epoch and world.

    PyTorch accepts it as the sampler of a DataLoader. ``data`` is a dataset or its length. ``rank`` and ``world_size``
    default to those of torch.distributed, or of the variables that torchrun and TrainingJobs set. They are read at each
    use, because Lightning starts its processes after creating the sampler. If the samples do not divide evenly by the
    ranks, some are repeated so that all ranks have the same number. With ``drop_last`` some are left out.
    """

    _kind = ""  # its name in a state
    _sampler = ""  # its name in reported orders; empty: no node can predict its order

    def __init__(
        self,
        data: int | Sized,
        *,
        seed: int = 0,
        rank: int | None = None,
        world_size: int | None = None,
        drop_last: bool = False,
    ) -> None:
        self.length = len(data) if isinstance(data, Sized) else operator.index(data)
        self.seed = operator.index(seed)
        place = place_in_world(rank, world_size)
        self._given = None if rank is None else place
        self.drop_last = bool(drop_last)
        self.epoch = 0
        self._base = 0  # samples of the epoch, over all ranks, handed out to a world of another size
        self._position = 0  # samples handed out to this rank after those
        self._resumed = False
        self._walks = 0  # started iterations and loaded states; only the latest one counts positions
        if self.length < 1:
            raise ValueError(f"there are {self.length} samples: a sampler needs at least one")
        warn_if_unsorted(paths_of(data))

    @property
    def rank(self) -> int:
        """Rank of this process."""
        return self._place[0]

    @property
    def world_size(self) -> int:
        """Number of processes."""
        return self._place[1]

    @property
    def _place(self) -> tuple[int, int]:
        return self._given or place_in_world(None, None)

    def __getstate__(self) -> dict[str, Any]:
        """Store a known place, because the copy may run in a data loader process without a rank.

        An unknown place stays open: Lightning's ddp_spawn copies the sampler into processes that get their place later.
        """
        return {**self.__dict__, "_given": self._given or known_place()}

    def __len__(self) -> int:
        """Return the number of indices of this rank in a whole epoch, also for a resumed one."""
        return self._dealt(self.length)

    def __iter__(self) -> Iterator[int]:
        """Start the epoch; after ``load_state_dict``, continue it.

        A state may also be loaded before the first sample is taken, as torchdata's StatefulDataLoader does.
        """
        self._walks += 1
        if not self._resumed:
            self._base = self._position = 0
        return self._walk()

    def set_epoch(self, epoch: int) -> None:
        """Select the epoch, from 0, and its order. Call it before each epoch. It does not restart a resumed epoch."""
        epoch = operator.index(epoch)
        if epoch < 0:
            raise ValueError(f"epoch is {epoch}: epochs count from 0")
        if epoch != self.epoch:
            self.epoch, self._base, self._position, self._resumed = epoch, 0, 0, False
            self._walks += 1

    def state_dict(self, consumed: int | None = None) -> dict[str, Any]:
        """Return the position in the epoch, in plain values for any checkpoint.

        ``consumed`` is the number of samples that this rank has trained on in the current iteration. Set it for a
        DataLoader with workers, which takes more from its sampler. Default: the samples handed out.
        """
        position = self._position if consumed is None else operator.index(consumed)
        if not 0 <= position <= len(self):
            raise ValueError(f"consumed is {position}: this rank has {len(self)} samples an epoch")
        place = zip(_PLACE, (self.epoch, self.world_size, self._base, position))
        return {"version": _STATE_VERSION, **self._identity(), **dict(place)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from the state of an equal sampler: the next iteration yields the rest of its epoch.

        Raises ValueError with a sentence if the state belongs to another order.
        """
        for name, own in {"version": _STATE_VERSION, **self._identity()}.items():
            if state.get(name) != own:
                raise ValueError(f"the state's {name} is {state.get(name)!r}, this sampler's is {own!r}: make it alike")
        for name in _PLACE:
            if not isinstance(state.get(name), int) or state[name] < 0:
                raise ValueError(f"the state's {name} is {state.get(name)!r}: it is not one that state_dict() made")
        epoch, world, base, position = (state[name] for name in _PLACE)
        if world != self.world_size:
            self._accept_world(world, position)
            base, position = min(self.length, base + position * world), 0
        self.epoch, self._base, self._position, self._resumed = epoch, base, position, True
        self._walks += 1

    def sampling(self) -> dict[str, Any] | None:
        """Return the next iteration's order (docs/guides/known-orders.md), or None if no node can know it."""
        if not self._sampler:
            return None
        place = {"base": self._base, "position": self._position} if self._resumed else {}
        said = {"seed": self.seed, "ranks": self.world_size, "dropLast": self.drop_last, "epoch": self.epoch, **place}
        return {"sampler": self._sampler, **{name: value for name, value in said.items() if value}}

    def _identity(self) -> dict[str, Any]:
        """Return the values that determine the order."""
        return {"sampler": self._kind, "length": self.length, "seed": self.seed, "drop_last": self.drop_last}

    def _accept_world(self, world: int, position: int) -> None:
        """Refuse a state of another world size if the order depends on it. At an epoch's start it does not."""
        if position:
            raise ValueError(
                f"the state belongs to {world} ranks in the middle of an epoch, and the job has {self.world_size}: "
                f"{self._kind} continues with {world} ranks, or from the next epoch"
            )

    def _dealt(self, count: int) -> int:
        """Return each rank's share of ``count`` samples."""
        return count // self.world_size if self.drop_last else -(-count // self.world_size)

    def _walk(self) -> Iterator[int]:
        self._resumed = False
        self._walks += 1
        walk = self._walks
        for index in islice(self._share(), self._position, None):
            if walk == self._walks:
                self._position += 1
            yield index

    @abstractmethod
    def _share(self) -> Iterator[int]:
        """Yield this rank's indices of the epoch, after the base."""
