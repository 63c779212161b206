"""What is learned on one node: the changes that are on trial, what came of those before, and whether to try another.

Who turns knobs asks ``begin`` before a change, or ``tune`` for a number that is to be found, sets what ``value`` or
``tuned`` says before each window, and tells ``saw`` of each window that has ended. One change at a time is on trial for
a workload, or for all who read a Dataset: of two at once nobody could say which it was.
"""

from collections import OrderedDict
from collections.abc import Sequence
from typing import NamedTuple

from stoker_tuning.learning.adopted import AdoptedNumbers
from stoker_tuning.learning.changes import Change, ChangeOutcome, ChangeVerdict
from stoker_tuning.learning.experiment import Experiment
from stoker_tuning.learning.knob_tuner import ChangeMaker, KnobTuner
from stoker_tuning.learning.success import SuccessRates, rate_key
from stoker_tuning.learning.windows import FigureWindow
from stoker_tuning.recommend.knobs import Knob
from stoker_tuning.rules.spec import KnobValue

MOST_TRIALS, MOST_REMEMBERED = 64, 1024


class TrialKey(NamedTuple):
    """For whom a change is: a Dataset, and the pod's UID; None: all who read it."""

    dataset: str
    workload: str | None


class _Ended(NamedTuple):
    """What was tried: for whom, what asked for it, and which value of which knob."""

    key: TrialKey
    origin: str
    knob: str
    value: KnobValue


class Learner:
    """The learner of a node. No clock, no I/O; its memory is bounded."""

    def __init__(self) -> None:
        self._trials: dict[TrialKey, Experiment] = {}
        self._tuners: dict[TrialKey, tuple[str, KnobTuner]] = {}
        self._ended: OrderedDict[_Ended, bool] = OrderedDict()  # whether the old value is in force again
        self._adopted = AdoptedNumbers()
        self.rates = SuccessRates()

    def why_not(self, change: Change) -> str:
        """Return why a change is not to be tried now, in a sentence; empty when it may be."""
        return self.against(change) or self._busy(_key(change))

    def kept(self, change: Change) -> bool:
        """Tell whether such a change was tried for it before, and stayed: there is nothing more to find out."""
        return self._ended.get(_ended(change)) is False

    def against(self, change: Change) -> str:
        """Return what was learned against a change, in a sentence; empty where nothing was."""
        if self._ended.get(_ended(change)):
            return f"{change.knob} {change.new} has hurt this workload before."
        rate = self.rates.of(rate_key(change))
        if rate.hopeless:
            return f"{change.origin} hurt {rate.hurt} of {rate.changes} workloads that read in {change.pattern} order."
        return ""

    def _busy(self, key: TrialKey) -> str:
        busy = [*self._trials, *(other for other, (_, tuner) in self._tuners.items() if not tuner.settled)]
        if any(key.dataset == other.dataset and _meet(key, other) for other in busy):
            return "Another change is on trial for it."
        return "" if len(self.on_trial) < MOST_TRIALS else f"{MOST_TRIALS} changes are on trial on this node."

    @property
    def on_trial(self) -> tuple[TrialKey, ...]:
        """For whom changes are on trial, or numbers tuned."""
        return tuple(dict.fromkeys((*self._trials, *self._tuners)))

    @property
    def trials(self) -> tuple[TrialKey, ...]:
        """For whom changes are on trial: numbers that are tuned left out, which have windows of their own."""
        return tuple(self._trials)

    def begin(self, change: Change, before: Sequence[FigureWindow] = (), *, keep_neutral: bool = True) -> bool:
        """Put a change on trial; return whether it is.

        ``before``: the last windows under the old value, for a change that cannot be turned to and fro.
        """
        if self.why_not(change):
            return False
        self._trials[_key(change)] = Experiment(change, before, keep_neutral=keep_neutral)
        return True

    def tune(self, dataset: str, workload: str | None, knob: Knob, start: float, change: ChangeMaker) -> bool:
        """Begin to find the best value of a number, from ``start`` on; return whether it is being looked for.

        ``change`` makes the Change from one value to another. One number at a time is tuned for a workload. What was
        adopted before, from the same ``start`` and within the knob's bounds, is in force at once and looked after.
        """
        key = TrialKey(dataset, workload)
        if key in self._tuners or self._busy(key):
            return False
        known = self._adopted.of(dataset, knob.name, start)
        adopted = known if known is not None and knob.least <= known <= knob.most else None
        self._tuners[key] = knob.name, KnobTuner(knob, start, change, f"{key} {knob.name}", adopted)
        return True

    def tuned(self, dataset: str, workload: str | None, knob: str) -> float | None:
        """Return the value of a number that is tuned, for the next window; None: it is not tuned."""
        name, tuner = self._tuners.get(TrialKey(dataset, workload), ("", None))
        if tuner is None or name != knob:
            return None
        return tuner.adopted if TrialKey(dataset, workload) in self._trials else tuner.value

    def value(self, change: Change) -> KnobValue | None:
        """Return the value to be in force in the next window; None: the change is not on trial."""
        trial = self._trials.get(_key(change))
        return trial.value if trial is not None and trial.change.id == change.id else None

    def saw(self, dataset: str, workload: str | None, window: FigureWindow, at: float) -> list[ChangeOutcome]:
        """Take a window that ended at ``at``, in seconds since the epoch; return what changes came to in it.

        ``workload`` is that of the change: None for one that is for all who read the Dataset, with their figures.
        """
        key = TrialKey(dataset, workload)
        outcomes = self._tried(key, window, at) if key in self._trials else self._went_on(key, window, at)
        for outcome in outcomes:
            self.learn(outcome)
        return outcomes

    def _tried(self, key: TrialKey, window: FigureWindow, at: float) -> list[ChangeOutcome]:
        trial = self._trials[key]
        trial.saw(window)
        outcome = trial.outcome(at)
        if outcome is None:
            return []
        del self._trials[key]
        return [outcome]

    def _went_on(self, key: TrialKey, window: FigureWindow, at: float) -> list[ChangeOutcome]:
        if key not in self._tuners:
            return []
        _, tuner = self._tuners[key]
        tuner.saw(window, at)
        outcomes = list(tuner.outcomes)
        tuner.outcomes.clear()
        return outcomes

    def learn(self, outcome: ChangeOutcome) -> None:
        """Take what came of a change: of a trial, or of one that is in the history, in the order of time."""
        self.rates.add(outcome)
        self._adopted.learn(outcome)
        key = _ended(outcome.change)
        self._ended[key] = outcome.taken_back or outcome.verdict is ChangeVerdict.HURT
        self._ended.move_to_end(key)
        if len(self._ended) > MOST_REMEMBERED:
            self._ended.popitem(last=False)

    def stop_tuning(self, dataset: str, workload: str | None) -> None:
        """Give up the search for a number; what was adopted stays known."""
        self._tuners.pop(TrialKey(dataset, workload), None)

    def forget(self, dataset: str, workload: str | None) -> None:
        """Give up what is tried for a workload that is no more."""
        self._trials.pop(TrialKey(dataset, workload), None)
        self._tuners.pop(TrialKey(dataset, workload), None)


def _key(change: Change) -> TrialKey:
    return TrialKey(change.dataset, change.workload)


def _ended(change: Change) -> _Ended:
    return _Ended(_key(change), change.origin, change.knob, change.new)


def _meet(one: TrialKey, other: TrialKey) -> bool:
    return one.workload is None or other.workload is None or one.workload == other.workload
