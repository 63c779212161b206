"""Samplers that shuffle single samples: all of them, warm ones first, or a share of them each epoch."""

from __future__ import annotations

import zlib
from array import array
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterator, Mapping, Sequence, Sized
from fractions import Fraction
from itertools import compress
from typing import Any

from stoker_client.internal.dataset_files import paths_of, warn_if_unsorted
from stoker_client.internal.randomness import permutation
from stoker_client.sampler import EpochSampler
from stoker_client.warm_files import WarmFiles

_MOST_DENOMINATOR = 1000  # of a ratio


class GlobalShuffleSampler(EpochSampler):
    """Shuffles all samples in each epoch, and deals them to the ranks in turn.

    Accepts a state of another world size: the rest of the epoch is dealt to the current ranks.
    """

    _kind = "global-shuffle"
    _sampler = "stoker-shuffle"

    def _accept_world(self, world: int, position: int) -> None:
        """Accept any other world, because the order does not depend on it."""

    def _order(self) -> array[int]:
        """Return the epoch's samples for all ranks."""
        return permutation(self.length, "global", self.seed, self.epoch)

    def _share(self) -> Iterator[int]:
        order = self._order()
        first, step = self._base + self.rank, self.world_size
        for turn in range(self._dealt(len(order) - self._base)):
            # Repeat the first samples.
            yield order[(first + turn * step) % len(order)]


class WarmFirstSampler(GlobalShuffleSampler):
    """Deals like a global shuffle. Each rank reads samples that are warm on its node first, then the rest.

    ``warm`` is called for each of the rank's samples when an epoch starts. Both parts keep their shuffled order. By
    default the pod's node answers, for a dataset like torchvision's ImageFolder or for ``paths``, the file of each
    sample. ``dataset`` is the name of the Stoker Dataset, if the pod has several. Without an answer from the node, the
    order is the plain one. Ranks may get different answers: these do not affect the samples of each rank. A state
    stores the answers, so that an epoch continues as it started.
    """

    _kind = "warm-first"

    def __init__(
        self,
        data: int | Sized,
        warm: Callable[[int], bool] | None = None,
        *,
        paths: Sequence[str] | None = None,
        dataset: str = "",
        **options: Any,
    ) -> None:
        super().__init__(data, **options)
        files = paths_of(data) if paths is None else paths
        if paths is not None and len(paths) != self.length:
            raise ValueError(f"there are {len(paths)} paths for {self.length} samples: give the file of each")
        warn_if_unsorted(() if paths is None else paths)
        self._warm = warm
        self._node = WarmFiles(files if len(files) == self.length else (), dataset)
        self._answers = b""  # for the samples of this epoch, a byte each
        self._is_asked = False  # for the next iteration

    def state_dict(self, consumed: int | None = None) -> dict[str, Any]:
        """Return the position in the epoch, with the warm samples at its start."""
        answers = b64encode(zlib.compress(self._answers)).decode() if self._answers else ""
        return {**super().state_dict(consumed), "warm": answers}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue an epoch with the answers from its start."""
        super().load_state_dict(state)
        self._answers = zlib.decompress(b64decode(state["warm"])) if state["warm"] else b""

    def _accept_world(self, world: int, position: int) -> None:
        EpochSampler._accept_world(self, world, position)

    def set_epoch(self, epoch: int) -> None:
        """Select the epoch. Another epoch queries warm samples again."""
        self._is_asked = self._is_asked and epoch == self.epoch
        super().set_epoch(epoch)

    def sampling(self) -> dict[str, Any] | None:
        """Return the order if it is the plain one: no sample is warm, or all are."""
        self._ask(array("Q", super()._share()), begins=not (self._resumed and self._position))
        self._is_asked = True
        return super().sampling() if len(set(self._answers)) < 2 else None

    def _ask(self, share: array[int], *, begins: bool) -> None:
        """Query warm samples when an epoch starts, or if the answers from its start are missing."""
        if begins or (self._warm is not None and len(self._answers) != len(share)):
            warm = self._node.now() if self._warm is None else self._warm
            self._answers = b"" if warm is None else bytes(bool(warm(index)) for index in share)

    def _share(self) -> Iterator[int]:
        share = array("Q", super()._share())
        if not self._is_asked:
            self._ask(share, begins=not self._position)
        self._is_asked = False
        if len(self._answers) != len(share):
            yield from share
            return
        yield from compress(share, self._answers)
        yield from compress(share, (not answer for answer in self._answers))


class QualityRatioSampler(WarmFirstSampler):
    """Reads a share of the samples in each epoch, and another share in the next. Sample counts differ by at most 1.

    ``ratio`` is the share, above 0 and up to 1, as the nearest fraction with a denominator of at most 1,000. Lengths of
    epochs differ by at most the number of ranks, because no sample is repeated to fill one. ``warm`` as in
    WarmFirstSampler: it orders the samples of an epoch, and does not choose them.
    """

    _kind = "quality-ratio"
    _sampler = "stoker-quality-ratio"

    def __init__(
        self, data: int | Sized, ratio: float, warm: Callable[[int], bool] | None = None, **options: Any
    ) -> None:
        super().__init__(data, warm, **options)
        self.ratio = Fraction(ratio).limit_denominator(_MOST_DENOMINATOR)
        if not 0 < self.ratio <= 1:
            raise ValueError(f"ratio is {ratio}: it is above 0 (at least 1/{_MOST_DENOMINATOR}) and at most 1")
        self._span()

    def __len__(self) -> int:
        """Return the number of indices of this rank in this epoch."""
        _, first, last = self._span()
        return (last - first) // self.world_size

    def sampling(self) -> dict[str, Any] | None:
        """Return the order, with the ratio."""
        said = super().sampling()
        return None if said is None else {**said, "ratio": float(self.ratio)}

    def _identity(self) -> dict[str, Any]:
        # Another number of ranks changes the cycle, and samples would no longer come equally often.
        return {**super()._identity(), "ratio": str(self.ratio), "world_size": self.world_size}

    def _span(self) -> tuple[int, int, int]:
        """Return the cycle of this epoch, and the bounds of its share in the repeated order of the cycle.

        A cycle has as many epochs as its shares, each a multiple of the ranks, need to fill whole rounds. Raises
        ValueError if a rank would have no samples.
        """
        if self.ratio * self.length < self.world_size:
            share = f"{float(self.ratio):g} of {self.length} samples"
            raise ValueError(f"{share} is less than one for each of {self.world_size} ranks")
        cycle, epoch = divmod(self.epoch, self.ratio.denominator * self.world_size)
        return cycle, self._cut(epoch), self._cut(epoch + 1)

    def _cut(self, epoch: int) -> int:
        rounds = epoch * self.ratio.numerator * self.length // (self.ratio.denominator * self.world_size)
        return self.world_size * rounds

    def _order(self) -> array[int]:
        cycle, first, last = self._span()
        whole = permutation(self.length, "cycle", self.seed, cycle)
        order = permutation(last - first, "share", self.seed, self.epoch)
        return array(whole.typecode, (whole[(first + place) % self.length] for place in order))
