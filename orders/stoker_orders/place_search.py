"""Where readers are who are not where they were expected: epoch after epoch is held against what they read."""

from bisect import bisect_right
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from stoker_orders.job_order import EpochOrder, JobOrder, fitted
from stoker_orders.loading import Loading, guessed_ranks
from stoker_orders.predictors.dealing import NONE
from stoker_orders.predictors.samplers import sampler_of
from stoker_orders.sampling_plan import SamplingPlan

# Reads that are looked for together, and the share of them that has to lie together.
STRETCH, AGREE = 32, 0.8
# Stretches that have to be found nowhere: one may be of two places, as where an epoch ends.
_STRETCHES = 2
# Samples whose order is computed in one search: 0.4 to 1.3 us each. Epochs that are tried at least and at most, and of
# those whose order costs more, since a plug-in is asked or all epochs before are drawn.
_MOST_COMPUTED = 500_000_000
_LEAST_TRIED, _MOST_TRIED, _DEAR_TRIED = 100, 10_000, 100
# Epochs behind the one that was read in which a restart or a late look is likely.
_SOON = 3
# Blocks of ranks among which an order may be shared: a rank, or those of a pod.
_MOST_BLOCKS = 512


class FoundPlace(NamedTuple):
    """Where readers are: in which epoch, how they share it, and up to which step they have read."""

    epoch: EpochOrder
    loading: Loading
    step: int


class PlaceSearch:
    """One search. Not for threads. ``near``: orders that are in memory, first that of the epoch in which readers were.

    What is looked for are reads of after the place was lost, the same ones in each epoch however long it takes; and the
    ``recent`` ones, which tell a place that is still true. It says by ``wanted`` which epoch it needs next.
    """

    def __init__(self, order: JobOrder, loading: Loading, near: Sequence[EpochOrder]) -> None:
        self._order = order
        self._loading = loading
        self._near = near
        self._stretches: list[list[int]] = []
        self._coming: list[int] = []
        self._looked = False  # near, for all stretches
        self._tried = {one.number for one in near}
        plan, most = order.plan, most_tried(order.plan, len(order.map))
        wanted = epochs_to_try(near[0].number, plan.start.epoch, plan.epochs, most)
        self._waiting = deque(one for one in wanted if one not in self._tried and not order.is_same_each_epoch)
        self._early: list[int] = []  # epochs that were not held against all stretches, which are held once more

    @property
    def tried(self) -> int:
        """Epochs that were held against what is read, so far."""
        return len(self._tried)

    @property
    def wanted(self) -> int | None:
        """The epoch whose order is needed now; None: none, or none before more was read."""
        return self._waiting[0] if self._stretches and self._waiting else None

    @property
    def is_over(self) -> bool:
        """Whether every epoch that is worth it was held against all that is looked for."""
        return self._looked and not self._waiting

    def saw(self, sample: int) -> None:
        """Take a read."""
        if len(self._stretches) == _STRETCHES:
            return
        self._coming.append(sample)
        if len(self._coming) == STRETCH:
            self._stretches.append(self._coming)
            self._coming = []
        if len(self._stretches) == _STRETCHES:
            self._waiting.extend(self._early)

    def look(self, recent: Iterable[int]) -> FoundPlace | None:
        """Look at what is near: readers come back there who were away, or others' reads came in between."""
        stretches = () if self._looked else self._stretches
        self._looked = len(self._stretches) == _STRETCHES
        found = (self._find(epoch, (recent, *stretches)) for epoch in self._near)
        return next((one for one in found if one is not None), None)

    def hold(self, epoch: EpochOrder, recent: Iterable[int]) -> FoundPlace | None:
        """Look in an epoch, which may be one that was wanted."""
        if self._waiting and self._waiting[0] == epoch.number:
            self._waiting.popleft()
            if len(self._stretches) < _STRETCHES:
                self._early.append(epoch.number)
        self._tried.add(epoch.number)
        return self._find(epoch, (recent, *self._stretches))

    def _find(self, epoch: EpochOrder, sought: Iterable[Iterable[int]]) -> FoundPlace | None:
        """Look for some reads after the other: the recent ones first, as readers may be far from the others by now."""
        spread, block = self._order.map.spread, self._order.plan.ranks_here
        for samples in sought:
            found = find_place(epoch, samples, self._loading, spread, block)
            if found is not None:
                return FoundPlace(epoch, *found)
        return None


def most_tried(plan: SamplingPlan, samples: int) -> int:
    """Return how many epochs of so many samples are held against what is read before an order is wrong."""
    if plan.plugin is not None or sampler_of(plan.sampler).stateful:
        return min(_DEAR_TRIED, plan.epochs)
    affordable = _MOST_COMPUTED // max(1, samples)
    return min(max(_LEAST_TRIED, min(_MOST_TRIED, affordable)), plan.epochs)


def epochs_to_try(at: int, start: int, epochs: int, most: int) -> list[int]:
    """Return epochs in which readers may be who were in ``at``, the likely ones first, and then outward.

    ``start``: where the job is said to begin.
    """
    likely = (*range(at, at + 1 + _SOON), start, start + 1, 0, 1)
    outward = (each for away in range(1, most + 1) for each in (at + _SOON + away, at - away))
    inside = dict.fromkeys(one for one in (*likely, *outward) if 0 <= one < epochs)
    return list(inside)[:most]


def find_place(
    epoch: EpochOrder, samples: Iterable[int], loading: Loading, spread: int = 1, block: int = 1
) -> tuple[Loading, int] | None:
    """Find where in an epoch these samples are read together: among how many ranks, and up to which step.

    ``block``: ranks that follow one another wherever they are, such as those of a pod. None: they are read together
    nowhere, or anywhere would do. As the job expects where that is as good as any other.
    """
    sought = [epoch.places[sample] for sample in samples]
    places = [place for place in sought if place != NONE]
    found, most = None, -(-int(AGREE * 100) * len(sought) // 100) - 1
    for one in _loadings(places, fitted(loading, epoch), block) if places else ():
        count, step = _together(places, one, spread)
        if count > most:
            found, most = (one, step), count
    return found


def _together(places: Sequence[int], loading: Loading, spread: int) -> tuple[int, int]:
    """Return how many of these are read together, by the ranks that are here, and up to which step."""
    width = 2 * loading.slack + spread
    if 2 * width >= loading.steps:
        return 0, 0
    steps = sorted(loading.step(one) for one in places if not loading.here or loading.rank(one) in loading.here)
    ends = [bisect_right(steps, first + width) for first in steps]
    count, end = max(((end - begin, end) for begin, end in enumerate(ends)), default=(0, 0))
    return count, steps[end - 1] if count else 0


def _loadings(places: Sequence[int], loading: Loading, block: int) -> Iterator[Loading]:
    """Yield who may read so: those who are expected to, then as many blocks of as many ranks as the reads look like."""
    yield loading
    if loading.own_orders:
        return
    for size in dict.fromkeys((block, 1)):
        if loading.here and not len(loading.here) % size:
            ranks, here = guessed_ranks(places, loading.turn * size, _MOST_BLOCKS, len(loading.here) // size)
            within = tuple(one * size + rank for one in here for rank in range(size))
            if (ranks * size, within) != (loading.ranks, loading.here):
                yield replace(loading, ranks=ranks * size, here=within)
