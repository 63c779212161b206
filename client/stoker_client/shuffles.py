"""Samplers that shuffle single samples: all of them, the warm ones first, or a share of them each epoch."""

from __future__ import annotations

import zlib
from array import array
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterator, Mapping, Sequence, Sized
from fractions import Fraction
from itertools import compress
from typing import Any

from stoker_client.randomness import permutation
from stoker_client.sampler import EpochSampler
from stoker_client.warm_files import WarmFiles, paths_of

_MOST_DENOMINATOR = 1000  # of a ratio


class GlobalShuffleSampler(EpochSampler):
    """Shuffles all samples anew in each epoch, and deals them to the ranks in turn.

    A state of another world size is taken too: what was left of the epoch is dealt to the ranks that there are now.
    """

    _kind = "global-shuffle"
    _sampler = "stoker-shuffle"

    def _accept_world(self, world: int, position: int) -> None:
        """Take every other world: the order does not depend on it."""

    def _order(self) -> array[int]:
        """Return the epoch's samples of all ranks."""
        return permutation(self.length, "global", self.seed, self.epoch)

    def _share(self) -> Iterator[int]:
        order = self._order()
        first, step = self._base + self.rank, self.world_size
        for turn in range(self._dealt(len(order) - self._base)):
            # What is repeated is what came first.
            yield order[(first + turn * step) % len(order)]


class WarmFirstSampler(GlobalShuffleSampler):
    """Deals as a global shuffle does; each rank reads first what is warm where it runs, then the rest.

    ``warm`` is asked of each of the rank's samples when an epoch begins; both parts stay in their shuffled order. Left
    out, the pod's node is asked, of a dataset like torchvision's ImageFolder or of ``paths``, the file of each sample;
    ``dataset`` is the name of the Dataset of Stoker, where the pod has several. Where no node answers the order is the
    plain one. Ranks may have different answers: which samples are whose does not depend on
    them. A state holds the answers, so that an epoch goes on as it began.
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
        self._warm = warm
        self._node = WarmFiles(files if len(files) == self.length else (), dataset)
        self._answers = b""  # of the samples of this epoch, a byte each
        self._is_asked = False  # for the iteration that comes next

    def state_dict(self, consumed: int | None = None) -> dict[str, Any]:
        """Return where the epoch stands, with what was warm when it began."""
        answers = b64encode(zlib.compress(self._answers)).decode() if self._answers else ""
        return {**super().state_dict(consumed), "warm": answers}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on in an epoch with the answers that it began with."""
        super().load_state_dict(state)
        self._answers = zlib.decompress(b64decode(state["warm"])) if state["warm"] else b""

    def _accept_world(self, world: int, position: int) -> None:
        EpochSampler._accept_world(self, world, position)

    def set_epoch(self, epoch: int) -> None:
        """Choose the epoch; what is warm is asked anew for another one."""
        self._is_asked = self._is_asked and epoch == self.epoch
        super().set_epoch(epoch)

    def sampling(self) -> dict[str, Any] | None:
        """Return the order where it is the plain one: nothing is warm, or everything."""
        self._ask(array("Q", super()._share()), begins=not (self._resumed and self._position))
        self._is_asked = True
        return super().sampling() if len(set(self._answers)) < 2 else None

    def _ask(self, share: array[int], *, begins: bool) -> None:
        """Ask what is warm when an epoch begins, and where the answers of its begin are not known."""
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
    """Reads a share of the samples an epoch, and another one in the next: each sample equally often, give or take 1.

    ``ratio``: the share, above 0 and up to 1, as the nearest fraction whose denominator is at most 1,000. Epochs of a
    run differ in length by the number of ranks at most; no sample is repeated to fill one up. ``warm`` as in
    WarmFirstSampler: it orders what an epoch has, and does not choose it.
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
        """Return how many indices this rank has in this epoch."""
        _, first, last = self._span()
        return (last - first) // self.world_size

    def sampling(self) -> dict[str, Any] | None:
        """Return the order, with the ratio."""
        said = super().sampling()
        return None if said is None else {**said, "ratio": float(self.ratio)}

    def _identity(self) -> dict[str, Any]:
        # With other ranks a cycle is another one, and samples would no longer come equally often.
        return {**super()._identity(), "ratio": str(self.ratio), "world_size": self.world_size}

    def _span(self) -> tuple[int, int, int]:
        """Return the cycle of this epoch, and from where to where its share is when the cycle's order is gone round.

        A cycle is so many epochs that all shares of it, each a multiple of the ranks, go round a whole number of times.
        Raises ValueError where a rank would have nothing to read.
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
