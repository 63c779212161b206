"""Replays a trace through the trackers of the sidecar. Pure."""

import itertools
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from stoker_cli.tuning.trace import Ended, Mounted, Trace, TraceEvent, Truth
from stoker_tuning.training.accesses import ModelFileUse, SeenAccess, SelfReport
from stoker_tuning.training.sweeps import SweepWatch
from stoker_tuning.training.workload import WorkloadTracker, WorkloadView
from stoker_tuning.vocabulary import TrainingPhase

NOTICED_WITHIN = 10.0  # seconds; limit for noticing a change of phase


@dataclass(frozen=True)
class Moment:
    """The state of a workload when its phase or epoch changes, or when it ends."""

    seconds: float
    workload: str
    view: WorkloadView
    ended: bool = False


@dataclass
class Replay:
    """The moments of a trace in order, and the log of the training code."""

    moments: list[Moment] = field(default_factory=list)
    truth: dict[str, list[Truth]] = field(default_factory=dict)


def replay(trace: Trace, window: int) -> Replay:
    """Play a trace to its end."""
    return _Player(trace, window).play()


class _Player:
    """A tracker for each workload of the trace."""

    def __init__(self, trace: Trace, window: int) -> None:
        self._trace = trace
        self._window = window
        self._trackers: dict[str, WorkloadTracker] = {}
        self._shown: dict[str, tuple[TrainingPhase, int]] = {}
        self._ended: set[str] = set()
        self._sweeps = SweepWatch[str]()
        self._replay = Replay()

    def play(self) -> Replay:
        seconds = 0.0
        for name, event in self._trace.events:
            seconds = event.seconds
            if isinstance(event, Truth):
                self._replay.truth.setdefault(name, []).append(event)
                continue
            if name in self._ended:
                continue  # an access that arrived late
            if name not in self._trackers:
                layout, sampling = self._trace.layout, self._trace.sampling
                self._trackers[name] = WorkloadTracker(layout, sampling, window=self._window)
            self._take(name, event)
            self._sweeps.look(self._trackers)
        for name in list(self._trackers):
            self._end(name, seconds)
        return self._replay

    def _take(self, name: str, event: TraceEvent) -> None:
        tracker = self._trackers[name]
        match event:
            case SeenAccess():
                tracker.saw(event)
            case ModelFileUse():
                tracker.used(event)
            case SelfReport():
                tracker.reported(event)
            case Mounted():
                tracker.mounted(event.seconds)
            case Ended():
                self._end(name, event.seconds)
                return
        now = (tracker.phase.phase, tracker.epoch_number)
        if now != self._shown.get(name):
            self._shown[name] = now
            self._replay.moments.append(Moment(event.seconds, name, tracker.at(event.seconds)))

    def _end(self, name: str, seconds: float) -> None:
        tracker = self._trackers.pop(name)
        self._ended.add(name)
        self._shown.pop(name, None)
        self._replay.moments.append(Moment(seconds, name, tracker.at(seconds), ended=True))


@dataclass(frozen=True)
class ReplayVerdict:
    """The accuracy of a replay for one workload, compared with the log of its code.

    ``phases``, ``epochs``: shares of time with the right value. ``delays``: seconds until each change of phase was
    noticed; ``missed``: changes that were never noticed.
    """

    phases: float
    epochs: float
    delays: tuple[float, ...]
    missed: int

    @property
    def longest_delay(self) -> float:
        """The longest delay of a noticed change in seconds."""
        return max(self.delays, default=0.0)


def verdicts(replayed: Replay) -> Mapping[str, ReplayVerdict]:
    """Compare a replay with the truth in its trace, for each workload with truth."""
    return {
        name: _verdict(truth, [moment for moment in replayed.moments if moment.workload == name])
        for name, truth in replayed.truth.items()
    }


def _verdict(truth: list[Truth], moments: list[Moment]) -> ReplayVerdict:
    total = phases = epochs = counted = 0.0
    delays: list[float] = []
    missed = 0
    for before, after in itertools.pairwise(truth):
        spans = list(_spans(moments, before.seconds, after.seconds))
        right = [span for span in spans if span[2].phase.phase is before.phase]
        total += after.seconds - before.seconds
        phases += sum(end - start for start, end, _ in right)
        if right:
            delays.append(right[0][0] - before.seconds)
        missed += not right
        if before.epoch is not None:
            counted += after.seconds - before.seconds
            epochs += sum(end - start for start, end, view in spans if view.epoch.number == before.epoch)
    return ReplayVerdict(phases / total if total else 1.0, epochs / counted if counted else 1.0, tuple(delays), missed)


def _spans(moments: Iterable[Moment], start: float, end: float) -> Iterator[tuple[float, float, WorkloadView]]:
    """Yield start, end and view of each span between two times."""
    ordered = list(moments)
    for moment, following in zip(ordered, [*ordered[1:], None], strict=True):
        until = following.seconds if following else end
        since = max(start, moment.seconds)
        if since < min(end, until):
            yield since, min(end, until), moment.view
