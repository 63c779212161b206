"""Compares reads with the predicted order: the readers' position, and whether they follow the order."""

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from stoker_orders.job_order import EpochOrder, JobOrder, fitted
from stoker_orders.loader_schedule import Loading
from stoker_orders.place_search import AGREE, STRETCH, FoundPlace, PlaceSearch
from stoker_orders.sample_map import SamplePiece

# Reads for judging the order. The late ones show whether the position is lost.
AGREEMENT_READS, _LATE = 500, 64
# Reads before the first verdict.
_FEWEST = 32


class OrderState(StrEnum):
    """The verdict on a job's order."""

    UNKNOWN = "Unknown"  # no reads, or too few
    KNOWN = "Known"
    WRONG = "Wrong"


class ReadSample(NamedTuple):
    """An observed read: the file's number and the first byte."""

    file: int
    offset: int = 0


@dataclass(frozen=True)
class Difference:
    """The first unexpected read: read number ``read``, of file ``seen``, when ``expected`` was about due."""

    read: int
    seen: int
    expected: int


class OrderFollower:
    """Follows the readers of one job on one node through its order. Not thread-safe.

    ``wanted`` returns the epoch that it needs next, and ``give`` supplies it. After the verdict ``WRONG`` it drops all
    orders and stays in that state.
    """

    def __init__(self, order: JobOrder) -> None:
        self.order = order
        self.loading: Loading = order.loading
        self.state = OrderState.UNKNOWN
        self.difference: Difference | None = None
        self.reads = 0
        self.found_again = 0
        self.step = order.plan.start.position  # current step of the readers
        self._agreed: deque[bool] = deque(maxlen=AGREEMENT_READS)
        self._late: deque[bool] = deque(maxlen=_LATE)
        self._samples: deque[int] = deque(maxlen=STRETCH)
        self._unseen = 0.0
        self._epoch: EpochOrder | None = None
        self._next: EpochOrder | None = None
        self._before: EpochOrder | None = None
        self._search: PlaceSearch | None = None  # while the position is lost
        self.tried = 0  # epochs compared in the last search
        self._changed = 0  # reads that belonged to the next epoch

    @property
    def epoch(self) -> int | None:
        """The current epoch; None: unknown."""
        return self._epoch.number if self._epoch is not None else None

    @property
    def known(self) -> tuple[EpochOrder, ...]:
        """The orders in memory: the current epoch's, and the next one's near the end."""
        return tuple(one for one in (self._epoch, self._next) if one is not None)

    @property
    def is_searching(self) -> bool:
        """True while the readers' position is lost and a search runs."""
        return self._search is not None

    @property
    def agreement(self) -> int | None:
        """Percent of the last reads that matched the prediction; None: too few reads."""
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
        """Accept the order of a wanted epoch. ``wanted`` may have changed since."""
        if self.state is OrderState.WRONG:
            return
        if self._epoch is None:
            self._epoch, self.loading = epoch, fitted(self.loading, epoch)
        elif self._search is not None:
            self._sought(self._search.hold(epoch, self._samples))
        elif epoch.number == self._epoch.number + 1:
            self._next = epoch

    def saw(self, reads: Iterable[ReadSample], unseen: float = 0.0) -> None:
        """Process reads in order. ``unseen`` is the number of further reads at about that time."""
        if self.state is OrderState.WRONG or self._epoch is None:
            return
        before = self.reads
        for read in reads:
            sample = self.order.map.sample(read.file, read.offset)
            if sample is not None:
                self._saw(sample, read.file)
        # A read that was seen determines the position, so earlier unseen reads no longer matter.
        left = self._unseen if self.reads == before else 0.0
        self._unseen = left + unseen / max(1, len(self.loading.here))
        self._judge()

    def reckon(self, step: float, before: float) -> None:
        """Set the position from a source other than ``saw``, in steps over all epochs.

        The next reads come from this position or up to ``before`` steps earlier, because they arrive late. Ignore a
        position whose uncertainty makes every read about due, and one in another epoch. An epoch can be so short that
        reads show neither position nor end. Then this is the only source, and it also starts the next epoch.
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
        """Yield upcoming pieces, from about the readers' position to the end of the next known epoch.

        Each batch is complete before the next one.
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
        """Return True if a sample is due, and advance to it."""
        if self._epoch is None:
            return False
        step = self._due(self._epoch, sample, self.step)
        if step is not None:
            if step > self.step:
                self._unseen = max(0.0, self._unseen - (step - self.step))
                self.step = step
            return True
        if self._before is not None and self._due(self._before, sample, self.loading.steps) is not None:
            return True  # a late loader
        return self._begins_next(sample)

    def _due(self, epoch: EpochOrder, sample: int, at: int) -> int | None:
        """Return the step at which an epoch reads a sample, if it is near ``at``."""
        loading, place = fitted(self.loading, epoch), epoch.places[sample]
        slack = loading.slack + self.order.map.spread
        while place < loading.total:  # the first samples repeat at the end to fill the last round
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
        """The order of the epoch after the current one."""
        return self._epoch if self.order.is_same_each_epoch else self._next

    def _begin(self, following: EpochOrder, step: int) -> None:
        """Make the next epoch the current one, at a step."""
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
            # A search cannot succeed in such a short epoch, and at its end some reads match neither epoch.
            if len(self._agreed) == AGREEMENT_READS and sum(self._agreed) < AGREE * AGREEMENT_READS:
                self._give_up()
        else:
            near = [one for one in (self._epoch, self._next) if one is not None]
            self._search = PlaceSearch(self.order, self.loading, near)
            self._sought(self._search.look(self._samples))

    def _is_blurred(self, unseen: float) -> bool:
        """Return True if the possible disorder is as long as the epoch, so that any order matches."""
        return self.loading.steps <= 4 * (self.loading.slack + unseen)

    def _sought(self, found: FoundPlace | None) -> None:
        """Process the search's result so far: the position, or a failed search."""
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
