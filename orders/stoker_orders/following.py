"""What is read, held against what was predicted: where in the order the readers are, and whether it is the order."""

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from stoker_orders.job_order import EpochOrder, JobOrder, fitted
from stoker_orders.loading import Loading
from stoker_orders.place_search import AGREE, STRETCH, FoundPlace, PlaceSearch
from stoker_orders.sample_map import SamplePiece

# Reads by which the order is judged, of which the late ones tell whether the place is lost.
AGREEMENT_READS, _LATE = 500, 64
# Reads before anything is said.
_FEWEST = 32


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
        self._samples: deque[int] = deque(maxlen=STRETCH)
        self._unseen = 0.0
        self._epoch: EpochOrder | None = None
        self._next: EpochOrder | None = None
        self._before: EpochOrder | None = None
        self._search: PlaceSearch | None = None  # since the place was lost
        self.tried = 0  # epochs that were held against what is read, in the last search
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
        return self._search is not None

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
        if self._search is not None:
            return self._search.wanted
        near = self.step + 4 * self.loading.slack >= 0.75 * self.loading.steps
        last = self._epoch.number + 1 >= self.order.plan.epochs
        return self._epoch.number + 1 if near and self._next is None and not last else None

    def give(self, epoch: EpochOrder) -> None:
        """Take an epoch's order that was wanted, perhaps before something else was."""
        if self.state is OrderState.WRONG:
            return
        if self._epoch is None:
            self._epoch, self.loading = epoch, fitted(self.loading, epoch)
        elif self._search is not None:
            self._sought(self._search.hold(epoch, self._samples))
        elif epoch.number == self._epoch.number + 1:
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
        if self._epoch is None or self._search is not None or (self._is_blurred(before) and not short):
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
        if self._epoch is None or self.state is OrderState.WRONG or self._search is not None:
            return
        begin = max(0, self.step - self.loading.stretch)
        yield from self.order.pieces_in_batches(self._epoch, begin, self.loading)
        if self._next is not None:
            yield from self.order.pieces_in_batches(self._next, 0, fitted(self.loading, self._next))

    def _saw(self, sample: int, file: int) -> None:
        self.reads += 1
        self._samples.append(sample)
        if self._search is not None:
            self._search.saw(sample)
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
        if self._search is not None:
            self._sought(self._search.look(self._samples))
        elif sum(self._late) >= AGREE * len(self._late):
            if not self._is_blurred(self._unseen):
                self.state = OrderState.KNOWN
        elif self._is_blurred(0.0):
            # Nothing can be found in so short an epoch, and where one ends some reads seem to be of neither.
            if len(self._agreed) == AGREEMENT_READS and sum(self._agreed) < AGREE * AGREEMENT_READS:
                self._give_up()
        else:
            near = [one for one in (self._epoch, self._next) if one is not None]
            self._search = PlaceSearch(self.order, self.loading, near)
            self._sought(self._search.look(self._samples))

    def _is_blurred(self, unseen: float) -> bool:
        """Tell whether as much may be out of order as there is, so that any order agrees."""
        return self.loading.steps <= 4 * (self.loading.slack + unseen)

    def _sought(self, found: FoundPlace | None) -> None:
        """Take what came of the search so far: the place, or that it is nowhere."""
        if self._search is None:
            return
        self.tried = self._search.tried
        if found is not None:
            self._epoch, self.loading, self.step = found
            self._next = self._before = self._search = self.difference = None
            self._unseen = 0.0
            self._late.clear()
            self._agreed.clear()
            self.found_again += 1
        elif self._search.is_over:
            self._give_up()

    def _give_up(self) -> None:
        self.state = OrderState.WRONG
        self._epoch = self._next = self._before = self._search = None
