"""What is read, held against what was predicted: where in the order the readers are, and whether it is the order."""

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import NamedTuple

from stoker_orders.job_order import EpochOrder, JobOrder
from stoker_orders.loading import Loading, guessed_ranks
from stoker_orders.predictors.dealing import NONE
from stoker_orders.sample_map import SamplePiece

# Reads by which the order is judged; by the last of them it is searched for where it is lost.
AGREEMENT_READS, _LATE, _SOUGHT = 500, 64, 32
# Reads before anything is said, and the share of them that has to agree.
_FEWEST, _AGREE = 32, 0.8
# Epochs that are tried, from the one that was expected on, until the prediction is taken for wrong.
MOST_TRIES = 100
_MOST_RANKS = 512


class OrderState(StrEnum):
    """What is known of a job's order."""

    UNKNOWN = "Unknown"  # nothing, or too little, was read
    KNOWN = "Known"
    WRONG = "Wrong"


class ReadSample(NamedTuple):
    """A read that was seen: the file's number, and from which byte."""

    file: int
    offset: int = 0


@dataclass(frozen=True)
class Difference:
    """The first read that was not as predicted: the ``read``-th, of file ``seen`` where ``expected`` was about due."""

    read: int
    seen: int
    expected: int


class OrderFollower:
    """Follows the readers of one job on one node through its order. Not for threads.

    It says by ``wanted`` which epoch it needs next, and is ``give``n it. When the prediction is ``WRONG`` it has let go
    of everything and stays so.
    """

    def __init__(self, order: JobOrder) -> None:
        self.order = order
        self.loading: Loading = order.loading
        self.state = OrderState.UNKNOWN
        self.difference: Difference | None = None
        self.reads = 0
        self.found_again = 0
        self.step = order.plan.start.position  # that the readers are at
        self._agreed: deque[bool] = deque(maxlen=AGREEMENT_READS)
        self._late: deque[bool] = deque(maxlen=_LATE)
        self._samples: deque[int] = deque(maxlen=_SOUGHT)
        self._unseen = 0.0
        self._epoch: EpochOrder | None = None
        self._next: EpochOrder | None = None
        self._before: EpochOrder | None = None
        self._tried: int | None = None  # the last epoch that was tried since the place was lost
        self._tries = 0  # of the round of all epochs that is under way; 0: none is
        self._began = 0  # reads when that round began
        self._ripe = 0  # reads from which on all that is sought was read after the place was lost
        self._changed = 0  # reads that were of the next epoch

    @property
    def epoch(self) -> int | None:
        """The epoch that is read; None: not known yet."""
        return self._epoch.number if self._epoch is not None else None

    @property
    def known(self) -> tuple[EpochOrder, ...]:
        """The orders that are in memory: of the epoch that is read, and of the next one towards its end."""
        return tuple(one for one in (self._epoch, self._next) if one is not None)

    @property
    def is_searching(self) -> bool:
        """Whether the place of the readers is lost, and looked for."""
        return self._tried is not None and self.state is not OrderState.WRONG

    @property
    def agreement(self) -> int | None:
        """Percent of the last reads that came as predicted; None: too few were seen."""
        seen = len(self._agreed)
        return int(100 * sum(self._agreed) / seen) if seen >= _FEWEST else None

    @property
    def wanted(self) -> int | None:
        """The number of the epoch whose order is needed now."""
        if self.state is OrderState.WRONG:
            return None
        if self._epoch is None:
            return self.order.plan.start.epoch
        if self._tried is not None:
            if not self._tries and self.reads < self._ripe:
                return None
            return self._tried if self.order.is_same_each_epoch else (self._tried + 1) % max(1, self.order.plan.epochs)
        near = self.step + 4 * self.loading.slack >= 0.75 * self.loading.steps
        last = self._epoch.number + 1 >= self.order.plan.epochs
        return self._epoch.number + 1 if near and self._next is None and not last else None

    def give(self, epoch: EpochOrder) -> None:
        """Take an epoch's order that was wanted."""
        if self.state is OrderState.WRONG:
            return
        if self._epoch is None:
            self._epoch, self.loading = epoch, fitted(self.loading, epoch)
        elif self._tried is not None:
            self._try(epoch)
        else:
            self._next = epoch

    def saw(self, reads: Iterable[ReadSample], unseen: float = 0.0) -> None:
        """Take reads in their order; ``unseen``: so many more were made about then."""
        if self.state is OrderState.WRONG or self._epoch is None:
            return
        before = self.reads
        for read in reads:
            sample = self.order.map.sample(read.file, read.offset)
            if sample is not None:
                self._saw(sample, read.file)
        # Where something was seen since, what was not seen before that is in the place that it told.
        left = self._unseen if self.reads == before else 0.0
        self._unseen = left + unseen / max(1, len(self.loading.here))
        self._judge()

    def reckon(self, step: float, before: float) -> None:
        """Take where readers are by other means than what ``saw`` tells: steps over all epochs.

        What is seen of them next was read there, or up to ``before`` steps earlier: it comes late. Nothing is taken
        where any read would be about due by that alone, nor of another epoch than the one that is read; of one so short
        that reads tell neither its place nor its end, it is all that tells, and the next epoch begins with it.
        """
        short = self._is_blurred(0.0)
        if self._epoch is None or self._tried is not None or (self._is_blurred(before) and not short):
            return
        within = int(step - before) - self._epoch.number * self.loading.steps
        following = self._following
        if short and following is not None and self.loading.steps <= within < 2 * self.loading.steps:
            self._begin(following, within - self.loading.steps)
            self._unseen = before
        elif self.step < within < self.loading.steps:
            self.step, self._unseen = within, before

    def ahead(self) -> Iterator[SamplePiece]:
        """Yield what will be read, from about where the readers are, to the end of the next epoch that is known.

        Each batch is whole before the next.
        """
        if self._epoch is None or self.state is OrderState.WRONG or self._tried is not None:
            return
        begin = max(0, self.step - self.loading.stretch)
        yield from self.order.pieces_in_batches(self._epoch, begin, self.loading)
        if self._next is not None:
            yield from self.order.pieces_in_batches(self._next, 0, fitted(self.loading, self._next))

    def _saw(self, sample: int, file: int) -> None:
        self.reads += 1
        self._samples.append(sample)
        agrees = self._takes(sample)
        self._agreed.append(agrees)
        self._late.append(agrees)
        if not agrees and self.difference is None and self._epoch is not None and self._epoch.samples:
            due = self.loading.index(min(self.step, self.loading.steps - 1), (self.loading.here or (0,))[0])
            expected = self.order.map.piece(self._epoch.samples[due % len(self._epoch.samples)]).file
            self.difference = Difference(self.reads, file, expected)

    def _takes(self, sample: int) -> bool:
        """Tell whether a sample is due, and move on to it."""
        if self._epoch is None:
            return False
        step = self._due(self._epoch, sample, self.step)
        if step is not None:
            if step > self.step:
                self._unseen = max(0.0, self._unseen - (step - self.step))
                self.step = step
            return True
        if self._before is not None and self._due(self._before, sample, self.loading.steps) is not None:
            return True  # a loader that is late
        return self._begins_next(sample)

    def _due(self, epoch: EpochOrder, sample: int, at: int) -> int | None:
        """Return the step at which an epoch has a sample, if that is about ``at``."""
        loading, place = fitted(self.loading, epoch), epoch.places[sample]
        slack = loading.slack + self.order.map.spread
        while place < loading.total:  # the first samples come once more at the end, to make up the last round
            step = loading.step(place)
            here = not loading.here or loading.rank(place) in loading.here
            if here and -slack <= step - at <= slack + self._unseen:
                return step
            place += len(epoch.samples)
        return None

    def _begins_next(self, sample: int) -> bool:
        following = self._following
        at_end = self.step + self.loading.slack + self._unseen >= self.loading.steps
        if following is None or self._epoch is None or not at_end:
            return False
        step = self._due(following, sample, 0)
        if step is None:
            return False
        self._changed += 1
        if self._changed > 1:
            self._begin(following, step)
        return True

    @property
    def _following(self) -> EpochOrder | None:
        """The order of the epoch after the one that is read."""
        return self._epoch if self.order.is_same_each_epoch else self._next

    def _begin(self, following: EpochOrder, step: int) -> None:
        """Take the next epoch for the one that is read, from a step of it on."""
        number = self._epoch.number + 1 if self._epoch is not None else following.number
        self._before, self._next, self._changed = self._epoch, None, 0
        self._epoch, self.loading = following.numbered(number), fitted(self.loading, following)
        self.step, self._unseen = step, 0.0

    def _judge(self) -> None:
        if self._before is not None and self.step > 2 * self.loading.slack:
            self._before = None
        if len(self._late) < _FEWEST or self._epoch is None:
            return
        if sum(self._late) >= _AGREE * len(self._late):
            if not self._is_blurred(self._unseen):
                self.state = OrderState.KNOWN
        elif self._is_blurred(0.0):
            # Nothing can be found in so short an epoch, and where one ends some reads seem to be of neither.
            if len(self._agreed) == AGREEMENT_READS and sum(self._agreed) < _AGREE * AGREEMENT_READS:
                self._give_up()
        elif self._tried is None:
            self._tried, self._tries, self._ripe = self._epoch.number, 0, self.reads + _SOUGHT
            self._try(self._epoch)

    def _is_blurred(self, unseen: float) -> bool:
        """Tell whether as much may be out of order as there is, so that any order agrees."""
        return self.loading.steps <= 4 * (self.loading.slack + unseen)

    def _try(self, epoch: EpochOrder) -> None:
        """Look for the last reads in an epoch; where they are not, the next one is wanted, or the prediction wrong.

        It is wrong when all epochs were tried with reads of after the place was lost: those of before, which are among
        the last ones at first, lie elsewhere.
        """
        if not self._tries:
            self._began = self.reads
        found = find_place(epoch, self._samples, self.loading, self.order.map.spread)
        if found is not None:
            self.loading, self.step = found
            self._epoch, self._next, self._before, self._tried = epoch, None, None, None
            self._unseen, self.difference = 0.0, None
            self._late.clear()
            self._agreed.clear()
            self.found_again += 1
            return
        self._tried, self._tries = epoch.number, self._tries + 1
        if not self.order.is_same_each_epoch and self._tries < min(MOST_TRIES, self.order.plan.epochs + 1):
            return
        self._tries = 0
        if self._began >= self._ripe:
            self._give_up()

    def _give_up(self) -> None:
        self.state = OrderState.WRONG
        self._epoch = self._next = self._before = None


def find_place(
    epoch: EpochOrder, samples: Iterable[int], loading: Loading, spread: int = 1
) -> tuple[Loading, int] | None:
    """Find where in an epoch these samples are read together: among how many ranks, and up to which step.

    None: nowhere, or anywhere would do.
    """
    sought = [epoch.places[sample] for sample in samples]
    places = [place for place in sought if place != NONE]
    if not places:
        return None
    for one in _loadings(places, fitted(loading, epoch)):
        width = 2 * one.slack + spread
        if 2 * width >= one.steps:
            continue
        steps = sorted(one.step(place) for place in places if not one.here or one.rank(place) in one.here)
        need = -(-int(_AGREE * 100) * len(sought) // 100)
        for first in range(len(steps) - need + 1):
            if steps[first + need - 1] - steps[first] <= width:
                last = max(step for step in steps if step - steps[first] <= width)
                return one, last
    return None


def fitted(loading: Loading, epoch: EpochOrder) -> Loading:
    """Return it for an epoch, which may have more or fewer samples than another one."""
    count = len(epoch.samples)
    return loading if loading.samples == count else replace(loading, samples=count)


def _loadings(places: list[int], loading: Loading) -> Iterator[Loading]:
    """Yield who may read so: those who are expected to, then one rank of as many as the reads look like."""
    yield loading
    if loading.own_orders:
        return
    ranks = guessed_ranks(places, loading.turn, _MOST_RANKS)
    if len(loading.here) == 1:
        mine = [place // loading.turn % ranks for place in places]
        rank = max(set(mine), key=mine.count)
        if (ranks, rank) != (loading.ranks, loading.here[0]):
            yield replace(loading, ranks=ranks, here=(rank,))
