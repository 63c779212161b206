"""Keeps figures of a pod's lines: the last values of each rank, and rates over the last minute. Pure, and bounded."""

import math
from collections import deque
from dataclasses import dataclass, fields, replace

from stoker_tuning.reports.line import ReportLine
from stoker_tuning.vocabulary import ModelFileKind, Split, TrainingPhase

MOST_RANKS = 64  # processes of a pod that report
MOST_LOSSES = 100
WINDOW_SECONDS = 60.0
_SLOT_SECONDS = 5.0
_MOST_SLOTS = 64  # a change of phase starts a new slot
# A rate over less time means nothing: the first line alone would give an infinite one.
_LEAST_SECONDS = 5.0
# The most items between two lines of a rank, for any jump of its step.
_MOST_ITEMS = 1_000_000_000
_MOST_SHOWN = 256  # characters of a checkpoint or a refusal
_NAMES = tuple(field.name for field in fields(ReportLine))
_PHASE_OF_SPLIT = {
    Split.TRAIN: TrainingPhase.TRAINING,
    Split.VALIDATION: TrainingPhase.VALIDATION,
    Split.TEST: TrainingPhase.EVALUATION,
}


@dataclass(frozen=True, slots=True)
class ReportSummary:
    """A pod's reports, for one row of a status. Empty and None: not reported.

    The lowest rank's values are shown. ``items_per_second`` and ``stall_percent`` are of all ranks over the last
    minute, the items of the present phase only. ``loss`` is text, because it may be NaN; ``mean_loss`` is of the last
    100. ``age``: seconds since the last accepted line. ``problem``: the error of the last refused line, or of ignored
    fields. ``sampling``: the order reported by ``sampling_rank``; ``sampling_ranks``: the number of consecutive ranks
    from it on that report one. ``waited``: seconds that all ranks together have waited so far, of ``watched`` seconds
    that their lines cover.
    """

    phase: str = ""
    epoch: int | None = None
    epochs: int | None = None
    step: int | None = None
    batch_size: int | None = None
    items_per_second: float | None = None
    stall_percent: int | None = None
    loss: str = ""
    mean_loss: str = ""
    learning_rate: float | None = None
    checkpoint: str = ""
    framework: str = ""
    ranks: int = 0
    world_size: int | None = None
    lines: int = 0
    refused: int = 0
    problem: str = ""
    age: float = 0.0
    sampling: str = ""
    sampling_rank: int = 0
    sampling_ranks: int = 0
    waited: float = 0.0
    watched: float = 0.0


@dataclass(slots=True)
class _Slot:
    """The reports of one interval of five seconds."""

    start: float
    items: int = 0
    wait: float = 0.0
    compute: float = 0.0
    waits_said: bool = False


class ReportFigures:
    """The figures of one pod: some kilobytes, for any input. ``now`` is always seconds of one clock."""

    def __init__(self) -> None:
        self._ranks: dict[int, ReportLine] = {}
        self._slots: deque[_Slot] = deque()
        self._losses: deque[float] = deque(maxlen=MOST_LOSSES)
        self._checkpoint = ""
        self._lines = self._refused = 0
        self._problem = ""
        self._last = 0.0
        self._waits_until: dict[int, float] = {}  # by rank, the end of the time that its waits cover
        self._waited = self._watched = 0.0
        self._since = float("-inf")  # start of the phase

    @property
    def losses(self) -> tuple[float, ...]:
        """The last reported losses, at most 100, the oldest first."""
        return tuple(self._losses)

    def add(self, line: ReportLine, now: float) -> None:
        """Take a parsed line."""
        before = self._ranks.get(line.rank)
        if before is None and len(self._ranks) >= MOST_RANKS:
            return self.refuse(f"this pod reports of more than {MOST_RANKS} ranks: let one rank report for all")
        self._lines, self._last = self._lines + 1, now
        if line.unknown:
            self._problem = f"unknown fields were left out: {', '.join(line.unknown)}"[:_MOST_SHOWN]
        self._sum_waits(line, now)
        self._ranks[line.rank] = merged(before, line)
        if before is not None and line.rank == min(self._ranks) and before.phase != self._ranks[line.rank].phase:
            self._begin_phase(now)
        self._count(line, items_done(before, line), now)
        if line.loss is not None:
            self._losses.append(line.loss)
        self._note_checkpoint(line)
        return None

    def refuse(self, sentence: str) -> None:
        """Count a refused line, and remember the reason."""
        self._refused += 1
        self._problem = sentence[:_MOST_SHOWN]

    def summary(self, now: float) -> ReportSummary:
        """Return the present figures."""
        items, stall = self._rates(now)
        last = self._ranks[min(self._ranks)] if self._ranks else ReportLine()
        sampled = sorted(rank for rank, line in self._ranks.items() if line.sampling)
        first = sampled[0] if sampled else 0
        return ReportSummary(
            phase=last.phase or "",
            epoch=last.epoch,
            epochs=last.epochs,
            step=last.step,
            batch_size=last.batch_size,
            items_per_second=items,
            stall_percent=stall,
            loss="" if last.loss is None else f"{last.loss:.4g}",
            mean_loss=f"{_mean(self._losses):.4g}" if self._losses else "",
            learning_rate=last.learning_rate,
            checkpoint=self._checkpoint,
            framework=last.framework or "",
            ranks=len(self._ranks),
            world_size=last.world_size,
            lines=self._lines,
            refused=self._refused,
            problem=self._problem,
            age=max(0.0, now - self._last) if self._lines else 0.0,
            sampling=(self._ranks[first].sampling or "") if sampled else "",
            sampling_rank=first,
            sampling_ranks=sum(rank - first == place for place, rank in enumerate(sampled)),
            waited=round(self._waited, 3),
            watched=round(self._watched, 3),
        )

    def _note_checkpoint(self, line: ReportLine) -> None:
        kind = "" if line.kind in (None, ModelFileKind.UNKNOWN) else f" ({line.kind})"
        for verb, path in (("loaded", line.loaded), ("saved", line.saved)):
            if path is not None:
                self._checkpoint = f"{verb} {path}"[: _MOST_SHOWN - len(kind)] + kind

    def _begin_phase(self, now: float) -> None:
        self._since = now
        if len(self._slots) < _MOST_SLOTS:
            self._slots.append(_Slot(now))

    def _count(self, line: ReportLine, items: int, now: float) -> None:
        if not self._slots or now >= self._slots[-1].start + _SLOT_SECONDS:
            self._slots.append(_Slot(now))
        self._forget(now)
        slot = self._slots[-1]
        slot.items += items
        slot.wait += line.wait_seconds or 0.0
        slot.compute += line.compute_seconds or 0.0
        slot.waits_said |= line.wait_seconds is not None

    def _sum_waits(self, line: ReportLine, now: float) -> None:
        """Add a rank's wait. Without compute time, the time since its last reported wait is covered."""
        since = self._waits_until.setdefault(line.rank, now)
        if line.wait_seconds is None:
            return
        self._waits_until[line.rank] = now
        whole = now - since if line.compute_seconds is None else line.wait_seconds + line.compute_seconds
        self._waited += line.wait_seconds
        self._watched += max(line.wait_seconds, whole)

    def _forget(self, now: float) -> None:
        while self._slots and self._slots[0].start <= now - WINDOW_SECONDS:
            self._slots.popleft()

    def _rates(self, now: float) -> tuple[float | None, int | None]:
        self._forget(now)
        span = now - self._slots[0].start if self._slots else 0.0
        if span < _LEAST_SECONDS:
            return None, None
        begun = max(self._since, self._slots[0].start)
        items = sum(slot.items for slot in self._slots if slot.start >= begun)
        wait = sum(slot.wait for slot in self._slots)
        compute = sum(slot.compute for slot in self._slots)
        said = any(slot.waits_said for slot in self._slots)
        whole = wait + compute if compute else span * max(1, len(self._ranks))
        stall = min(100, round(100 * wait / whole)) if said else None
        rate = round_to(items / (now - begun)) if items and now - begun >= _LEAST_SECONDS else None
        return rate, stall


def merged(before: ReportLine | None, line: ReportLine) -> ReportLine:
    """Return a rank's values so far: those of its new line, and the previous ones for gaps."""
    known = {} if before is None else {name: getattr(before, name) for name in _NAMES if getattr(line, name) is None}
    return replace(line, **known | {"phase": _phase(before, line)})


def _phase(before: ReportLine | None, line: ReportLine) -> TrainingPhase | None:
    """Return the named phase, else the split's, else the last one; a line with only counts means training."""
    if line.phase is not None:
        return line.phase
    if line.split in _PHASE_OF_SPLIT:
        return _PHASE_OF_SPLIT[line.split]
    if before is not None and before.phase is not None:
        return before.phase
    counted = (line.step, line.batch, line.items, line.loss)
    return None if all(one is None for one in counted) else TrainingPhase.TRAINING


def items_done(before: ReportLine | None, line: ReportLine) -> int:
    """Return the items since the rank's previous line: as reported, else by batch size and progress."""
    if line.items is not None:
        return line.items
    size = line.batch_size or (before.batch_size if before is not None else None)
    if size is None or (line.step, line.batch, line.batch_size) == (None, None, None):
        return 0
    return min(_MOST_ITEMS, size * _batches(before, line))


def _batches(before: ReportLine | None, line: ReportLine) -> int:
    if before is not None and line.step is not None and before.step is not None:
        return max(0, line.step - before.step)
    if before is not None and line.batch is not None and before.batch is not None:
        return line.batch - before.batch if line.batch >= before.batch else line.batch  # an epoch begins at 0
    return 1


def round_to(value: float, digits: int = 3) -> float:
    """Round to ``digits`` significant digits, so that shown figures change rarely."""
    if value == 0 or not math.isfinite(value):
        return value
    return round(value, digits - 1 - math.floor(math.log10(abs(value))))


def _mean(losses: "deque[float]") -> float:
    return sum(losses) / len(losses)
