"""Named sets of values: levels, strategies, cache policies, and cache priorities.

``stoker_tuning.documents.named_sets`` reads them from a document. The code has no other defaults.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from stoker_tuning.rules.spec import KnobValue
from stoker_tuning.vocabulary import OptimizationLevel

# Sets the knobs that rules and other sets leave open.
DEFAULT_LEVEL = OptimizationLevel.BALANCED
# The knobs that name a set, the most specific one first.
NAMING_KNOBS = ("strategy", "cache_priority", "cache_policy", "level")


@dataclass(frozen=True, slots=True)
class NamedSet:
    """The values of one name. ``over_rules``: they precede the rules after the one that names the set."""

    values: Mapping[str, KnobValue]
    over_rules: bool = False
    description: str = ""


NamedSets = Mapping[str, Mapping[str, NamedSet]]  # by knob, then by its value
