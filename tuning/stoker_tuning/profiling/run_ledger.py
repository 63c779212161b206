"""Sums a program's report lines by epoch: seconds waited, computed and passed, and items. Pure, and bounded."""

from dataclasses import dataclass, field

from stoker_tuning.reports.figures import MOST_RANKS, items_done, merged
from stoker_tuning.reports.line import ReportLine
from stoker_tuning.vocabulary import Split

MOST_EPOCHS = 1000  # per rank; later ones are not counted
MOST_MARKS = 64  # per epoch: points of its progress
_NOT_TRAINED = (Split.VALIDATION, Split.TEST)


@dataclass(frozen=True, slots=True)
class EpochTime:
    """One epoch of training, as reported by its ranks, in seconds.

    ``begin`` and ``end``: by the listener's clock. ``waited`` and ``computed``: the mean of the ranks. ``first``: the
    wait for the first batch; 0 if no line reports it separately. ``items``: of all ranks; None: not counted.
    ``progress``: shares of the lowest rank's items, each with the seconds after which it was done, both growing to the
    end.
    """

    begin: float
    end: float
    waited: float
    computed: float
    first: float
    items: int | None
    progress: tuple[tuple[float, float], ...] = ()

    @property
    def seconds(self) -> float:
        """The duration."""
        return self.end - self.begin


@dataclass(slots=True)
class _OpenEpoch:
    """The reports of one rank about an epoch so far."""

    begin: float = 0.0
    end: float = 0.0
    waited: float = 0.0
    computed: float = 0.0
    first: float = 0.0
    lines: int = 0
    items_said: int = 0
    last_batch: int = -1
    batch_size: int = 0
    marks: list[tuple[int, float]] = field(default_factory=list)  # items or batches done, at a time

    def add(self, line: ReportLine, items: int, now: float) -> None:
        """Add the seconds and items of a line that arrived at ``now``."""
        waited, computed = line.wait_seconds or 0.0, line.compute_seconds or 0.0
        if not self.lines:
            self.begin = now - waited - computed
            self.first = waited if line.batch == 0 else 0.0
        self.lines += 1
        self.end = now
        self.waited += waited
        self.computed += computed
        self.items_said += items
        self.last_batch = max(self.last_batch, -1 if line.batch is None else line.batch)
        self.marks.append((self.last_batch + 1 or self.items_said, now))
        if len(self.marks) > MOST_MARKS:
            self.marks = [*self.marks[:-1:2], self.marks[-1]]

    @property
    def progress(self) -> tuple[tuple[float, float], ...]:
        """Shares of the final count, and the seconds since the begin."""
        most = self.marks[-1][0]
        return tuple((done / most, now - self.begin) for done, now in self.marks) if most else ()

    @property
    def items(self) -> int | None:
        """Items by the number of the last batch, if known: the first line may cover many batches."""
        counted = (self.last_batch + 1) * self.batch_size
        return max(counted, self.items_said) or None


class RunLedger:
    """The epochs of one run of a program. ``now``: seconds of one clock."""

    def __init__(self) -> None:
        self._last: dict[int, ReportLine] = {}
        self._epochs: dict[int, list[_OpenEpoch]] = {}

    def take(self, line: ReportLine, now: float) -> None:
        """Take a parsed line.

        The seconds of the first line of a new epoch belong to the epoch before, unless its batch number fell: a program
        with rare lines reports new work together with unreported work.
        """
        before = self._last.get(line.rank)
        if before is None and len(self._last) >= MOST_RANKS:
            return
        epochs = self._epochs.setdefault(line.rank, [_OpenEpoch()])
        items = items_done(before, line)
        self._last[line.rank] = merged(before, line)
        turned = before is not None and None not in (before.epoch, line.epoch) and line.epoch != before.epoch
        anew = turned and _begins_anew(before, line)
        if anew:
            epochs.append(_OpenEpoch())
        if _says_training(line) and len(epochs) <= MOST_EPOCHS:
            epochs[-1].batch_size = self._last[line.rank].batch_size or 0
            epochs[-1].add(line, items, now)
        if turned and not anew:
            epochs.append(_OpenEpoch())

    @property
    def begun(self) -> int:
        """Number of epochs of the lowest rank that have begun."""
        return len(self._epochs[min(self._epochs)]) if self._epochs else 0

    def epochs(self) -> tuple[EpochTime, ...]:
        """Return the epochs with reports, the first one first."""
        ranks = [[one for one in epochs if one.lines] for epochs in self._epochs.values()]
        numbers = max(map(len, ranks), default=0)
        return tuple(_summed([epochs[at] for epochs in ranks if at < len(epochs)]) for at in range(numbers))


def _begins_anew(before: ReportLine | None, line: ReportLine) -> bool:
    return line.batch is not None and before is not None and before.batch is not None and line.batch < before.batch


def _says_training(line: ReportLine) -> bool:
    return line.split not in _NOT_TRAINED and (line.wait_seconds is not None or line.compute_seconds is not None)


def _summed(ranks: list[_OpenEpoch]) -> EpochTime:
    items = [one.items for one in ranks if one.items is not None]
    return EpochTime(
        begin=min(one.begin for one in ranks),
        end=max(one.end for one in ranks),
        waited=sum(one.waited for one in ranks) / len(ranks),
        computed=sum(one.computed for one in ranks) / len(ranks),
        first=sum(one.first for one in ranks) / len(ranks),
        items=sum(items) if items else None,
        progress=ranks[0].progress,
    )
