"""Runs the experiments of one node and remembers their outcomes.

The caller asks ``begin`` before a change, applies ``value`` in each window, and passes each ended window to ``saw``.
A workload, or all readers of a Dataset, has one trial at a time, so that the cause of an effect is clear.
"""

from collections import OrderedDict
from typing import NamedTuple

from stoker_tuning.learning.changes import Change, ChangeOutcome, ChangeVerdict
from stoker_tuning.learning.experiment import Experiment, FigureWindow
from stoker_tuning.learning.success import SuccessRates, rate_key
from stoker_tuning.rules.spec import KnobValue

MOST_TRIALS, MOST_REMEMBERED = 64, 1024


class TrialKey(NamedTuple):
    """The target of a change: a Dataset, and the pod's UID. None stands for all readers."""

    dataset: str
    workload: str | None


class _Ended(NamedTuple):
    """A finished experiment: its target, its rule, and the value of the knob."""

    key: TrialKey
    origin: str
    knob: str
    value: KnobValue


class Learner:
    """The learner of a node. It has no clock, no I/O, and bounded memory."""

    def __init__(self) -> None:
        self._trials: dict[TrialKey, Experiment] = {}
        self._ended: OrderedDict[_Ended, ChangeOutcome] = OrderedDict()
        self.rates = SuccessRates()

    def why_not(self, change: Change) -> str:
        """Return in a sentence why a change cannot start now. Empty if it can."""
        return self.against(change) or self._busy(_key(change))

    def kept(self, change: Change) -> bool:
        """Return True if an experiment with this value ended before, and the value stayed."""
        outcome = self._ended.get(_ended(change))
        return outcome is not None and not _is_against(outcome)

    def helped(self, change: Change) -> bool:
        """Return True if the last experiment with this value showed that it helps, also one in the history."""
        outcome = self._ended.get(_ended(change))
        return outcome is not None and outcome.verdict is ChangeVerdict.HELPED

    def against(self, change: Change) -> str:
        """Return the evidence against a change, in a sentence. Empty without evidence."""
        outcome = self._ended.get(_ended(change))
        if outcome is not None and _is_against(outcome):
            return f"{change.knob} {change.new} has hurt this workload before."
        rate = self.rates.of(rate_key(change))
        if rate.hopeless:
            return f"{change.origin} hurt {rate.hurt} of {rate.changes} workloads that read in {change.pattern} order."
        return ""

    def _busy(self, key: TrialKey) -> str:
        if any(key.dataset == other.dataset and _meet(key, other) for other in self._trials):
            return "Another change is on trial for it."
        return "" if len(self._trials) < MOST_TRIALS else f"{MOST_TRIALS} changes are on trial on this node."

    @property
    def trials(self) -> tuple[TrialKey, ...]:
        """The workloads and Datasets with a change on trial."""
        return tuple(self._trials)

    def begin(self, change: Change) -> bool:
        """Start the experiment of a change. Return False if ``why_not`` has a reason."""
        if self.why_not(change):
            return False
        self._trials[_key(change)] = Experiment(change)
        return True

    def value(self, change: Change) -> KnobValue | None:
        """Return the value for the next window. None if the change is not on trial."""
        trial = self._trials.get(_key(change))
        return trial.value if trial is not None and trial.change.id == change.id else None

    def saw(self, dataset: str, workload: str | None, window: FigureWindow, at: float) -> ChangeOutcome | None:
        """Add a window that ended at ``at``, in seconds since the epoch. Return the outcome if the trial ends.

        ``workload`` is that of the change. None stands for all readers, with their total figures.
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
        """Add an outcome of a trial or of the history, in chronological order."""
        self.rates.add(outcome)
        key = _ended(outcome.change)
        self._ended[key] = outcome
        self._ended.move_to_end(key)
        if len(self._ended) > MOST_REMEMBERED:
            self._ended.popitem(last=False)

    def forget(self, dataset: str, workload: str | None) -> None:
        """Drop the trial of a workload that is gone."""
        self._trials.pop(TrialKey(dataset, workload), None)


def _key(change: Change) -> TrialKey:
    return TrialKey(change.dataset, change.workload)


def _ended(change: Change) -> _Ended:
    return _Ended(_key(change), change.origin, change.knob, change.new)


def _is_against(outcome: ChangeOutcome) -> bool:
    """Return True if the old value applies again."""
    return outcome.taken_back or outcome.verdict is ChangeVerdict.HURT


def _meet(one: TrialKey, other: TrialKey) -> bool:
    return one.workload is None or other.workload is None or one.workload == other.workload
