"""The source of a Dataset's rules: TuningProfiles on a node, a file for ``stoker mount``, else the built-in rules."""

from dataclasses import dataclass, replace
from functools import cache
from typing import Protocol

from stoker_tuning.rules.spec import RuleSpec
from stoker_tuning.vocabulary import OptimizationLevel


@dataclass(frozen=True, slots=True)
class TuningChoice:
    """The rules and settings of one Dataset.

    ``rules``: of the profile, with those of the Dataset's ``template``, or only the built-in ones. ``profile``,
    ``generation``: of that profile, empty and 0 for the built-in rules. ``level``: of the Dataset. ``off``: no rule
    applies. ``most_level``: the limit of its DatasetClass, or None. ``learns``: experiments are allowed, see
    ``stoker_sidecar.tuning.core.trial_rules``. ``left_out``: ids of rules whose prefetch knobs hurt. ``paused``: ids of
    rules whose prefetch knobs do not apply in this window of an experiment.
    """

    rules: tuple[RuleSpec, ...] = ()
    profile: str = ""
    generation: int = 0
    template: str | None = None
    level: OptimizationLevel | None = None
    off: bool = False
    most_level: OptimizationLevel | None = None
    learns: bool = True
    left_out: frozenset[str] = frozenset()
    paused: frozenset[str] = frozenset()

    @property
    def chosen(self) -> "TuningChoice":
        """The choice without any results of experiments."""
        return replace(self, left_out=frozenset(), paused=frozenset())


class TuningSource(Protocol):
    """Returns the rules and settings of a node's Datasets."""

    def choice(self, dataset_uid: str) -> TuningChoice:
        """Return the choice for a Dataset, without I/O.

        It raises nothing. An unknown Dataset gets the built-in rules. After an error, a Tuner leaves the knobs of that
        Dataset unchanged.
        """


class BuiltInRules:
    """A TuningSource that chooses the built-in rules for every Dataset."""

    def choice(self, dataset_uid: str) -> TuningChoice:
        """Return the same choice for each Dataset."""
        return _built_in()


@cache
def _built_in() -> TuningChoice:
    """Read the documents. Their reader takes 2 MB, so import it only on nodes with something to fetch."""
    from stoker_tuning.documents.assembly import builtin_rules

    return TuningChoice(tuple(builtin_rules()))
