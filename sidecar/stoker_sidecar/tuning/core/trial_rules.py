"""The part of a rule that an experiment can turn on and off: its prefetch knobs. Pure.

A prefetch knob takes effect with the next read and leaves no state. Warm order and cache choices are not tested: a
warm-up would restart at each turn, and files on the disk stay.
"""

from dataclasses import replace
from typing import NamedTuple

from stoker_tuning.rules.spec import KnobValue, RuleSpec
from stoker_tuning.vocabulary import OptimizationLevel

# The strongest effect first.
AHEAD_KNOBS = ("prefetch_size", "prefetch_depth", "parallel_streams", "level", "strategy")
# The old value of a rule's change: the result of the other rules.
UNSET = "unset"


class AheadValue(NamedTuple):
    """The prefetch knobs of a rule as one knob: the strongest one, with the rest in its value."""

    knob: str
    value: KnobValue


def ahead_value(rule: RuleSpec) -> AheadValue | None:
    """Return the prefetch knobs of a rule. None if it has none, or turns prefetch off, and cannot be tested."""
    said: dict[str, KnobValue] = {}
    for action in rule.actions:
        for knob in AHEAD_KNOBS:
            if knob in action.parameters:
                said.setdefault(knob, action.parameters[knob])
    names = [knob for knob in AHEAD_KNOBS if knob in said]
    if not names or said.get("level") == OptimizationLevel.BASIC:
        return None
    first, *others = names
    beside = " and ".join(f"{knob} {said[knob]}" for knob in others)
    return AheadValue(first, f"{said[first]} with {beside}" if others else said[first])


def without_ahead(rule: RuleSpec) -> RuleSpec:
    """Return a rule without its prefetch knobs."""
    actions = tuple(
        replace(action, parameters={knob: each for knob, each in action.parameters.items() if knob not in AHEAD_KNOBS})
        for action in rule.actions
    )
    return replace(rule, actions=actions)
