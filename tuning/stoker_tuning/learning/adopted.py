"""Which numbers were adopted for whom: made of what came of changes, so that it is known again after a restart."""

from collections import OrderedDict
from typing import NamedTuple

from stoker_tuning.learning.changes import ChangeOutcome, ChangeVerdict

# A Change's ``origin`` where a number was tuned. A rule of this name does no harm: its old value is a word.
NUMBERS_ORIGIN = "Adaptive"
MOST_ADOPTED = 512


class _Adopted(NamedTuple):
    """A value that was adopted, and the one that was in force at first."""

    start: float
    value: float


class AdoptedNumbers:
    """The values of numbers that were adopted for Datasets, by knob: the MOST_ADOPTED that were last heard of."""

    def __init__(self) -> None:
        self._known: OrderedDict[tuple[str, str], _Adopted] = OrderedDict()

    def learn(self, outcome: ChangeOutcome) -> None:
        """Take what came of a change, in the order of time; one that no tuner of numbers made is left out."""
        change = outcome.change
        numbers = isinstance(change.old, int | float) and isinstance(change.new, int | float)
        if change.origin != NUMBERS_ORIGIN or not numbers:
            return
        key, new, old = (change.dataset, change.knob), float(change.new), float(change.old)
        known = self._known.get(key)
        if outcome.verdict is ChangeVerdict.HELPED:
            start = known.start if known is not None and known.value == old else old
            self._known[key] = _Adopted(start, new)
            self._known.move_to_end(key)
            if len(self._known) > MOST_ADOPTED:
                self._known.popitem(last=False)
        elif outcome.taken_back and known is not None and known.value == new:
            del self._known[key]

    def of(self, dataset: str, knob: str, start: float) -> float | None:
        """Return the value that was adopted in place of ``start``; None: none was."""
        known = self._known.get((dataset, knob))
        return known.value if known is not None and known.start == start else None
