"""What all samplers have: epochs, a share of each rank, and a state to go on from."""

from __future__ import annotations

import operator
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sized
from itertools import islice
from typing import Any

from stoker_client.ranks import known_place, place_in_world

_STATE_VERSION = 1
_PLACE = ("epoch", "world_size", "base", "position")  # of a state: where the epoch stands


class EpochSampler(ABC):
    """Yields the indices of one rank for one epoch; the same ones whenever seed, epoch and world are the same.

    PyTorch takes it as a sampler of a DataLoader. ``data`` is a dataset, or its length. ``rank`` and ``world_size``:
    left out, those of torch.distributed, or of the variables that torchrun and TrainingJobs set, whenever they are
    asked for: Lightning begins its other processes after the sampler was made. Where the samples do not divide by the
    ranks, some are repeated so that all ranks have as many; with ``drop_last`` some are left out.
    """

    _kind = ""  # its name in a state
    _sampler = ""  # its name where orders are said, if they can be

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
        self._base = 0  # samples of the epoch, of all ranks, that were handed out to a world of another size
        self._position = 0  # what was handed out to this rank after those
        self._resumed = False
        if self.length < 1:
            raise ValueError(f"there are {self.length} samples: a sampler needs at least one")

    @property
    def rank(self) -> int:
        """Which of the processes this is."""
        return self._place[0]

    @property
    def world_size(self) -> int:
        """How many processes there are."""
        return self._place[1]

    @property
    def _place(self) -> tuple[int, int]:
        return self._given or place_in_world(None, None)

    def __getstate__(self) -> dict[str, Any]:
        """Keep a place that is known: it may be copied into a process that loads data and is no rank.

        One that is not known yet is left open: Lightning's ddp_spawn copies the sampler into processes that get theirs.
        """
        return {**self.__dict__, "_given": self._given or known_place()}

    def __len__(self) -> int:
        """Return how many indices this rank has in a whole epoch, also where a part of it is done."""
        return self._dealt(self.length)

    def __iter__(self) -> Iterator[int]:
        """Begin the epoch; after ``load_state_dict``, go on in it."""
        if not self._resumed:
            self._base = self._position = 0
        self._resumed = False
        return self._walk()

    def set_epoch(self, epoch: int) -> None:
        """Choose the epoch, from 0: another order. To be called before each; one that was resumed is not begun anew."""
        epoch = operator.index(epoch)
        if epoch < 0:
            raise ValueError(f"epoch is {epoch}: epochs count from 0")
        if epoch != self.epoch:
            self.epoch, self._base, self._position, self._resumed = epoch, 0, 0, False

    def state_dict(self, consumed: int | None = None) -> dict[str, Any]:
        """Return where the epoch stands, in plain values that any checkpoint takes.

        ``consumed``: the samples that this rank has trained on, of those that it iterates over now. A DataLoader with
        workers takes more from its sampler than was trained on, so say it there; left out, what was handed out.
        """
        position = self._position if consumed is None else operator.index(consumed)
        if not 0 <= position <= len(self):
            raise ValueError(f"consumed is {position}: this rank has {len(self)} samples an epoch")
        place = zip(_PLACE, (self.epoch, self.world_size, self._base, position))
        return {"version": _STATE_VERSION, **self._identity(), **dict(place)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on where a sampler made in the same way was: the next iteration yields what was left of its epoch.

        Raises ValueError with a sentence where the state is of another order.
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

    def sampling(self) -> dict[str, Any] | None:
        """Return the order of the next iteration in the fields of docs/ORDERS.md; None: no node can know it."""
        if not self._sampler:
            return None
        place = {"base": self._base, "position": self._position} if self._resumed else {}
        said = {"seed": self.seed, "ranks": self.world_size, "dropLast": self.drop_last, "epoch": self.epoch, **place}
        return {"sampler": self._sampler, **{name: value for name, value in said.items() if value}}

    def _identity(self) -> dict[str, Any]:
        """Return what decides on the order."""
        return {"sampler": self._kind, "length": self.length, "seed": self.seed, "drop_last": self.drop_last}

    def _accept_world(self, world: int, position: int) -> None:
        """Refuse a state of another world size, where the order depends on that; at an epoch's start it does not."""
        if position:
            raise ValueError(
                f"the state is of {world} ranks in the middle of an epoch, and these are {self.world_size}: "
                f"{self._kind} goes on with as many, or from the next epoch"
            )

    def _dealt(self, count: int) -> int:
        """Return each rank's part of so many samples."""
        return count // self.world_size if self.drop_last else -(-count // self.world_size)

    def _walk(self) -> Iterator[int]:
        for index in islice(self._share(), self._position, None):
            self._position += 1
            yield index

    @abstractmethod
    def _share(self) -> Iterator[int]:
        """Yield this rank's indices of the epoch, after the base."""
