"""Searches for readers that left their expected position, by comparing epoch after epoch with their reads."""

from bisect import bisect_right
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from stoker_orders.job_order import EpochOrder, JobOrder, fitted
from stoker_orders.loader_schedule import Loading, guessed_ranks
from stoker_orders.predictors.interleave import NONE
from stoker_orders.predictors.samplers import sampler_of
from stoker_orders.sampling_plan import SamplingPlan

# Number of reads to find together, and the share of them that must match.
STRETCH, AGREE = 32, 0.8
# Stretches that must all fail: a stretch may span two positions, as at the end of an epoch.
_STRETCHES = 2
# Samples to compute in one search: 0.4 to 1.3 us each. Minimum and maximum number of epochs to try. The last number
# limits expensive orders, which a plug-in computes or which depend on all epochs before.
_MOST_COMPUTED = 500_000_000
_LEAST_TRIED, _MOST_TRIED, _DEAR_TRIED = 100, 10_000, 100
# Epochs after the last one, in which a restart or a late observation is likely.
_SOON = 3
# Blocks of ranks that may share an order: one rank, or the ranks of a pod.
_MOST_BLOCKS = 512


class FoundPlace(NamedTuple):
    """The readers' position: the epoch, how ranks share it, and the last step read."""

    epoch: EpochOrder
    loading: Loading
    step: int


class PlaceSearch:
    """One search. Not thread-safe. ``near`` are orders in memory, first the order of the last known epoch.

    It looks for fixed stretches of reads from after the loss, the same ones in each epoch. It also looks for the
    ``recent`` reads, which give a current position. ``wanted`` returns the epoch that it needs next.
    """

    def __init__(self, order: JobOrder, loading: Loading, near: Sequence[EpochOrder]) -> None:
        self._order = order
        self._loading = loading
        self._near = near
        self._stretches: list[list[int]] = []
        self._coming: list[int] = []
        self._looked = False  # True once all stretches were compared with near orders
        self._tried = {one.number for one in near}
        plan, most = order.plan, most_tried(order.plan, len(order.map))
        wanted = epochs_to_try(near[0].number, plan.start.epoch, plan.epochs, most)
        self._waiting = deque(one for one in wanted if one not in self._tried and not order.is_same_each_epoch)
        self._early: list[int] = []  # epochs that were compared with some stretches, and that are compared once more

    @property
    def tried(self) -> int:
        """Number of epochs compared so far."""
        return len(self._tried)

    @property
    def wanted(self) -> int | None:
        """The epoch whose order is needed now; None: none, or none before further reads."""
        return self._waiting[0] if self._stretches and self._waiting else None

    @property
    def is_over(self) -> bool:
        """True if all candidate epochs were compared with all stretches."""
        return self._looked and not self._waiting

    def saw(self, sample: int) -> None:
        """Record a read."""
        if len(self._stretches) == _STRETCHES:
            return
        self._coming.append(sample)
        if len(self._coming) == STRETCH:
            self._stretches.append(self._coming)
            self._coming = []
        if len(self._stretches) == _STRETCHES:
            self._waiting.extend(self._early)

    def look(self, recent: Iterable[int]) -> FoundPlace | None:
        """Search the near orders: readers may return there, or foreign reads came in between."""
        stretches = () if self._looked else self._stretches
        self._looked = len(self._stretches) == _STRETCHES
        found = (self._find(epoch, (recent, *stretches)) for epoch in self._near)
        return next((one for one in found if one is not None), None)

    def hold(self, epoch: EpochOrder, recent: Iterable[int]) -> FoundPlace | None:
        """Search an epoch, for example a wanted one."""
        if self._waiting and self._waiting[0] == epoch.number:
            self._waiting.popleft()
            if len(self._stretches) < _STRETCHES:
                self._early.append(epoch.number)
        self._tried.add(epoch.number)
        return self._find(epoch, (recent, *self._stretches))

    def _find(self, epoch: EpochOrder, sought: Iterable[Iterable[int]]) -> FoundPlace | None:
        """Search stretch after stretch. The recent reads come first, since readers may have moved on."""
        spread, block = self._order.map.spread, self._order.plan.ranks_here
        for samples in sought:
            found = find_place(epoch, samples, self._loading, spread, block)
            if found is not None:
                return FoundPlace(epoch, *found)
        return None


def most_tried(plan: SamplingPlan, samples: int) -> int:
    """Return the number of epochs to compare before an order counts as wrong."""
    if plan.plugin is not None or sampler_of(plan.sampler).stateful:
        return min(_DEAR_TRIED, plan.epochs)
    affordable = _MOST_COMPUTED // max(1, samples)
    return min(max(_LEAST_TRIED, min(_MOST_TRIED, affordable)), plan.epochs)


def epochs_to_try(at: int, start: int, epochs: int, most: int) -> list[int]:
    """Return candidate epochs after a loss in ``at``, likely ones first, then outward.

    ``start`` is the epoch in which the job starts.
    """
    likely = (*range(at, at + 1 + _SOON), start, start + 1, 0, 1)
    outward = (each for away in range(1, most + 1) for each in (at + _SOON + away, at - away))
    inside = dict.fromkeys(one for one in (*likely, *outward) if 0 <= one < epochs)
    return list(inside)[:most]


def find_place(
    epoch: EpochOrder, samples: Iterable[int], loading: Loading, spread: int = 1, block: int = 1
) -> tuple[Loading, int] | None:
    """Find the position in an epoch where these samples are read together: the ranks, and the last step.

    ``block`` is the number of adjacent ranks that stay together, such as those of a pod. Return None if no position
    matches, or if every position would. The expected loading wins a tie.
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
    """Return how many of these samples the local ranks read together, and the last step."""
    width = 2 * loading.slack + spread
    if 2 * width >= loading.steps:
        return 0, 0
    steps = sorted(loading.step(one) for one in places if not loading.here or loading.rank(one) in loading.here)
    ends = [bisect_right(steps, first + width) for first in steps]
    count, end = max(((end - begin, end) for begin, end in enumerate(ends)), default=(0, 0))
    return count, steps[end - 1] if count else 0


def _loadings(places: Sequence[int], loading: Loading, block: int) -> Iterator[Loading]:
    """Yield candidate loadings.

    The expected one comes first, then one for each block size with the ranks that the reads suggest.
    """
    yield loading
    if loading.own_orders:
        return
    for size in dict.fromkeys((block, 1)):
        if loading.here and not len(loading.here) % size:
            ranks, here = guessed_ranks(places, loading.turn * size, _MOST_BLOCKS, len(loading.here) // size)
            within = tuple(one * size + rank for one in here for rank in range(size))
            if (ranks * size, within) != (loading.ranks, loading.here):
                yield replace(loading, ranks=ranks * size, here=within)
