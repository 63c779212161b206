"""What is learned on one node: the changes that are on trial, what came of those before, and whether to try another.

Who turns knobs asks ``begin`` before a change, sets what ``value`` says before each window, and tells ``saw`` of each
window that has ended. One change at a time is on trial for a workload, or for all who read a Dataset: of two at once
nobody could say which it was.
"""

from collections import OrderedDict
from collections.abc import Sequence
from typing import NamedTuple

from stoker_tuning.learning.changes import Change, ChangeOutcome, ChangeVerdict
from stoker_tuning.learning.experiment import Experiment
from stoker_tuning.learning.success import SuccessRates, rate_key
from stoker_tuning.learning.windows import FigureWindow
from stoker_tuning.rules.spec import KnobValue

MOST_TRIALS, MOST_REMEMBERED = 64, 256


class TrialKey(NamedTuple):
    """For whom a change is: a Dataset, and the pod's UID; None: all who read it."""

    dataset: str
    workload: str | None


class Learner:
    """The learner of a node. No clock, no I/O; its memory is bounded."""

    def __init__(self) -> None:
        self._trials: dict[TrialKey, Experiment] = {}
        self._hurt: OrderedDict[tuple[TrialKey, str, KnobValue], None] = OrderedDict()
        self.rates = SuccessRates()

    def why_not(self, change: Change) -> str:
        """Return why a change is not to be tried now, in a sentence; empty when it may be."""
        key = _key(change)
        if (key, change.knob, change.new) in self._hurt:
            return f"{change.knob} {change.new} has hurt this workload before."
        rate = self.rates.of(rate_key(change))
        if rate.hopeless:
            return f"{change.origin} hurt {rate.hurt} of {rate.changes} workloads that read in {change.pattern} order."
        if any(key.dataset == other.dataset and _meet(key, other) for other in self._trials):
            return "Another change is on trial for it."
        return "" if len(self._trials) < MOST_TRIALS else f"{MOST_TRIALS} changes are on trial on this node."

    @property
    def on_trial(self) -> tuple[TrialKey, ...]:
        """For whom changes are on trial."""
        return tuple(self._trials)

    def begin(self, change: Change, before: Sequence[FigureWindow] = (), *, keep_neutral: bool = True) -> bool:
        """Put a change on trial; return whether it is.

        ``before``: the last windows under the old value, for a change that cannot be turned to and fro.
        """
        if self.why_not(change):
            return False
        self._trials[_key(change)] = Experiment(change, before, keep_neutral=keep_neutral)
        return True

    def value(self, change: Change) -> KnobValue | None:
        """Return the value to be in force in the next window; None: the change is not on trial."""
        trial = self._trials.get(_key(change))
        return trial.value if trial is not None and trial.change.id == change.id else None

    def saw(self, dataset: str, workload: str | None, window: FigureWindow, at: float) -> ChangeOutcome | None:
        """Take a window that ended at ``at``, in seconds since the epoch; return what a change came to, if it did.

        ``workload`` is that of the change: None for one that is for all who read the Dataset, with their figures.
        """
        key = TrialKey(dataset, workload)
        trial = self._trials.get(key)
        if trial is None:
            return None
        trial.saw(window)
        outcome = trial.outcome(at)
        if outcome is not None:
            del self._trials[key]
            self.learn(outcome)
        return outcome

    def learn(self, outcome: ChangeOutcome) -> None:
        """Take what came of a change: of a trial, or of one that is in the history, in the order of time."""
        self.rates.add(outcome)
        if outcome.verdict is ChangeVerdict.HURT:
            change = outcome.change
            self._hurt[_key(change), change.knob, change.new] = None
            if len(self._hurt) > MOST_REMEMBERED:
                self._hurt.popitem(last=False)

    def forget(self, dataset: str, workload: str | None) -> KnobValue | None:
        """Give up the trial for a workload that is no more; return the value that was in force before it."""
        trial = self._trials.pop(TrialKey(dataset, workload), None)
        return None if trial is None else trial.change.old


def _key(change: Change) -> TrialKey:
    return TrialKey(change.dataset, change.workload)


def _meet(one: TrialKey, other: TrialKey) -> bool:
    return one.workload is None or other.workload is None or one.workload == other.workload
