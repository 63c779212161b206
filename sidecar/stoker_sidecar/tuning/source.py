"""Where the rules of a Dataset come from: what both agents ask, and who watches profiles or reads a file answers."""

from dataclasses import dataclass, replace
from typing import Protocol

from stoker_tuning.rules.spec import RuleSpec
from stoker_tuning.vocabulary import OptimizationLevel


@dataclass(frozen=True, slots=True)
class TuningChoice:
    """What is chosen for one Dataset.

    ``rules``: of the profile, or the built-in ones alone; those of ``template``, which the Dataset names, are among
    them. ``profile``, ``generation``: which profile, and which state of it; empty and 0 for the built-in rules alone.
    ``level``: that the Dataset names. ``off``: nothing is turned for it. ``most_level``: what its DatasetClass allows
    at most; None: everything. ``learns``: whether rules may be tried, see ``stoker_sidecar.tuning.core.trial_rules``.
    ``adapts``: whether numbers may be found where the strategy Adaptive is in force, see ``adaptive_numbers`` there.
    ``left_out``: ids of rules that say nothing of fetching ahead, since that hurt; ``paused``: of those that do not in
    this window of a trial. ``numbers``: those that were found, or are tried in this window, by the knob's name.
    """

    rules: tuple[RuleSpec, ...] = ()
    profile: str = ""
    generation: int = 0
    template: str | None = None
    level: OptimizationLevel | None = None
    off: bool = False
    most_level: OptimizationLevel | None = None
    learns: bool = True
    adapts: bool = True
    left_out: frozenset[str] = frozenset()
    paused: frozenset[str] = frozenset()
    numbers: tuple[tuple[str, float], ...] = ()

    @property
    def chosen(self) -> "TuningChoice":
        """What was chosen, before anything was tried."""
        return replace(self, left_out=frozenset(), paused=frozenset(), numbers=())

    @property
    def ruled(self) -> "TuningChoice":
        """What rules come to, before any number was found."""
        return replace(self, numbers=()) if self.numbers else self

    @property
    def finds_numbers(self) -> bool:
        """Whether numbers are tuned at all."""
        return self.learns and self.adapts and not self.off


class TuningSource(Protocol):
    """Who knows what is chosen for the Datasets of a node."""

    def choice(self, dataset_uid: str) -> TuningChoice:
        """Return what is chosen for a Dataset. It is asked often: it answers from memory, and with equal values.

        It raises nothing: where nothing is known, the built-in rules are chosen. A Tuner takes an error for trouble of
        that Dataset alone, whose knobs stay as they are.
        """
