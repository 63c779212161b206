"""Counts epochs by coverage: an epoch ends when files are read again.

Training reads each file once per epoch, so repeats mark the next epoch. Page's cumulative sum test decides how many
repeats are enough. It compares two hypotheses. Within an epoch, a repeat is an accident: 1 in 200. In the next epoch, a
unit was read before with the probability that the epoch has covered the observed data. So the same test serves a node
that sees everything, one of several nodes that each read a share, and one that samples.
"""

from dataclasses import dataclass, field
from enum import StrEnum
from math import floor, log, sqrt

from stoker_tuning.training.accesses import AccessSampling, SamplingMethod
from stoker_tuning.training.unit_set import UnitSet

# An epoch counts as begun at odds of exp(12), 160,000 to 1: three repeats in a row after a full epoch, and about 20
# units if a node reads a fourth of the data.
_SURE = 12.0
_ACCIDENT = 0.005
# With fewer observed units per epoch, repeats are too few to separate epochs.
_FEWEST = 32
_ALL = 0.95  # share of the units: the last batch may leave some out
# If a node reads a share, an epoch has some accesses before the first repeat.
_UNTIL_REPEATED = 4.0
_ERRORS = 2.0  # standard errors of the reported error: about 95 %


class EpochMethod(StrEnum):
    """How an epoch is counted."""

    COVERAGE = "coverage"  # by the units read in it
    VOLUME = "volume"  # by the amount read: units are drawn with replacement, or too few are observed


@dataclass(frozen=True)
class Epoch:
    """The position of a workload in a split: completed epochs, and the share of this one, with its error."""

    number: int
    progress: float
    error: float
    method: EpochMethod


@dataclass
class EpochCounter:
    """The epochs of one split.

    ``units``: of the split; ``node_share``: the share that this node's readers are expected to read per epoch. Memory:
    at most three bitmaps of the split's units.
    """

    units: int
    sampling: AccessSampling = field(default_factory=AccessSampling)
    node_share: float = 1.0
    number: int = 0
    seen: UnitSet = field(default_factory=UnitSet)
    _fresh: UnitSet = field(default_factory=UnitSet)
    _score: float = 0.0
    _repeats: int = 0  # since the suspected change
    _touches: int = 0  # since the suspected change
    _strays: int = 0  # repeats that no epoch followed, and those within a suspected new epoch
    _length: int = 0  # units observed in the last complete epoch
    _volume: float = 0.0  # units read since the first epoch, in parts
    method: EpochMethod = field(init=False)
    _started: float | None = None
    _last: float = 0.0

    @property
    def watched(self) -> float:
        """Units whose accesses are observed."""
        return max(1.0, self.units * (self.sampling.share if self.sampling.method is SamplingMethod.FILES else 1.0))

    @property
    def _whole(self) -> float:
        """Expected number of units observed in an epoch."""
        return max(1.0, self.watched * self.sampling.touches * self.node_share)

    @property
    def most_read(self) -> float:
        """Share of the split that was observed in this epoch or the last one, corrected for sampling."""
        return max(len(self.seen), self._length) / max(1.0, self.watched * self.sampling.touches)

    def __post_init__(self) -> None:
        few = self.sampling.method is not SamplingMethod.COMPLETE and self._whole < _FEWEST
        self.method = EpochMethod.VOLUME if few else EpochMethod.COVERAGE

    def read(self, part: float) -> bool:
        """Note a read of ``part`` of a unit, 0 to 1; return True if an epoch begins with it, by volume."""
        self._volume += part
        if self.method is EpochMethod.COVERAGE:
            return False
        number = max(self.number, floor(self._volume / self._whole))
        begun, self.number = number > self.number, number
        return begun

    def touch(self, unit: int, seconds: float) -> bool:
        """Note that a reader begins with a unit; return True if an epoch begins with it, by coverage."""
        self._started = seconds if self._started is None else self._started
        self._last = seconds
        return self.method is EpochMethod.COVERAGE and self._by_coverage(unit, seconds)

    def _by_coverage(self, unit: int, seconds: float) -> bool:
        again = unit in self.seen
        if not self._score:
            if not again:
                self.seen.add(unit)
                return False
            self._repeats = self._touches = 0
        self._touches += 1
        if not self._fresh.add(unit):
            self._strays += 1
            return False
        self._repeats += again
        self._score = max(0.0, self._score + self._weight(again))
        if not self._score:
            self._forget()
        return self._score >= _SURE and self._begin(seconds)

    def _weight(self, again: bool) -> float:
        """Return the log odds that this access belongs to the next epoch."""
        covered = min(0.98, len(self.seen) / self.watched)
        accident = min(_ACCIDENT, covered / 4)
        return log(covered / accident) if again else log((1 - covered) / (1 - accident))

    def _forget(self) -> None:
        """Count the repeats as accidents."""
        self._strays += self._repeats
        self._repeats = 0
        self.seen.update(self._fresh)
        self._fresh = UnitSet()

    def _begin(self, seconds: float) -> bool:
        """Begin an epoch, or find that units are drawn with replacement and repeats mean nothing.

        Of n draws with replacement from N, about n * n / 2N repeat an earlier one. Without replacement, none does
        within an epoch.
        """
        before, self._score = len(self.seen), 0.0
        by_chance = (before * before + self._touches * self._touches) / (2 * self.watched)
        if by_chance >= 3 and self._strays >= 0.3 * by_chance:
            self.method = EpochMethod.VOLUME
            self._forget()
            return False
        self._length, self._strays, self._repeats = before, 0, 0
        self.seen, self._fresh = self._fresh, UnitSet()
        self._started = seconds
        self.number += 1
        return True

    @property
    def at(self) -> Epoch:
        """The present position."""
        if self.method is EpochMethod.VOLUME:
            passed = self._volume / self._whole
            return Epoch(self.number, min(1.0, max(0.0, passed - self.number)), self._volume_error(passed), self.method)
        now = len(self._fresh) if self._score > _SURE / 2 else len(self.seen) + len(self._fresh) - self._repeats
        whole = self._expected()
        progress = min(1.0, now / whole)
        return Epoch(self.number, progress, min(1.0, self._error(progress, now, whole)), self.method)

    def _expected(self) -> float:
        """Return the expected number of observed units in this epoch: that of the last one, once there was one."""
        return float(self._length) if self._length and self.number else self._whole

    def _error(self, progress: float, now: int, whole: float) -> float:
        """Return two standard errors of the progress; 0 if every access is observed and an epoch reads all units."""
        if self.sampling.method is SamplingMethod.COMPLETE:
            covered = whole / self.watched
            return 0.0 if covered > _ALL else _UNTIL_REPEATED / (covered * whole)
        if self.sampling.method is SamplingMethod.FILES:
            unseen = 1 - self.sampling.share
            return _ERRORS * sqrt(max(progress * (1 - progress), 1 / whole) * unseen / whole)
        missed = 1 - self.sampling.share
        parts = 1 / max(1, now) + (1 / whole if self._length else 0.0)
        return _ERRORS * max(progress, 1 / whole) * sqrt(missed * parts) + self._unwatched(now, whole)

    def _unwatched(self, now: int, whole: float) -> float:
        """Return the share of an epoch that may be read between two observed intervals."""
        elapsed = self._last - (self._started or 0.0)
        if not self.sampling.cycle or elapsed <= 0:
            return 0.0
        return min(1.0, now / elapsed * self.sampling.cycle * (1 - self.sampling.share) / whole)

    def _volume_error(self, passed: float) -> float:
        missed = 1 - self.sampling.share
        return min(1.0, _ERRORS * sqrt(max(passed, 1 / self._whole) * missed / self._whole))

    @property
    def memory(self) -> int:
        """Bytes of the bitmaps."""
        return self.seen.memory + self._fresh.memory
