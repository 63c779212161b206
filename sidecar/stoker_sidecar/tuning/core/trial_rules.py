"""Which rules can be tried by turning them to and fro, and what is left of one that is turned back. Pure.

That is what a rule says of fetching ahead: it counts from the next read on, and leaves nothing behind. The order
of a pass of warming up, and what is kept, are not tried: a pass would begin anew at each turn, and what is on the disk
stays.
"""

from dataclasses import replace
from typing import NamedTuple

from stoker_tuning.rules.spec import KnobValue, RuleSpec
from stoker_tuning.vocabulary import PrefetchStrategy

# Those that show the most first.
AHEAD_KNOBS = ("prefetch_size", "prefetch_depth", "parallel_streams", "level", "strategy")
# The old value of a change that a rule asks for: whatever other rules, or nothing, make of it.
UNSET = "unset"


class AheadValue(NamedTuple):
    """What a rule says of fetching ahead, as one knob: that which shows the most, with the others in its value."""

    knob: str
    value: KnobValue


def ahead_value(rule: RuleSpec) -> AheadValue | None:
    """Return what a rule says of fetching ahead; None: nothing, and it cannot be tried."""
    said: dict[str, KnobValue] = {}
    for action in rule.actions:
        for knob in AHEAD_KNOBS:
            if knob in action.parameters:
                said.setdefault(knob, action.parameters[knob])
    names = [knob for knob in AHEAD_KNOBS if knob in said]
    if not names:
        return None
    first, *others = names
    beside = " and ".join(f"{knob} {said[knob]}" for knob in others)
    return AheadValue(first, f"{said[first]} with {beside}" if others else said[first])


def without_ahead(rule: RuleSpec) -> RuleSpec:
    """Return a rule that says nothing of fetching ahead, and all the rest that it says."""
    actions = tuple(
        replace(action, parameters={knob: each for knob, each in action.parameters.items() if knob not in AHEAD_KNOBS})
        for action in rule.actions
    )
    return replace(rule, actions=actions)


def names_adaptive(rule: RuleSpec) -> bool:
    """Tell whether a rule asks for numbers that are found: then they are tried, and not the rule."""
    return any(action.parameters.get("strategy") == PrefetchStrategy.ADAPTIVE for action in rule.actions)
