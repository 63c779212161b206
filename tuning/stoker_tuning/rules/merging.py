"""Merges the values of the applying rules: the first rule with a value for a knob wins."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from stoker_tuning.rules.compiled import CompiledRule
from stoker_tuning.rules.facts import FileFacts
from stoker_tuning.rules.spec import ActionSpec, KnobValue, RuleSpec
from stoker_tuning.vocabulary import ActionTarget, ModelFileKind


@dataclass(frozen=True, slots=True)
class GivenValue:
    """The value of a knob, with its rule and action."""

    value: KnobValue
    rule: RuleSpec
    action: ActionSpec


def given_values(
    rules: tuple[CompiledRule, ...], applying: Iterable[int], file: FileFacts | None
) -> Mapping[str, GivenValue]:
    """Merge the values of the applying rules for a file, or without a file, for the Dataset and its workload.

    ``applying``: places of the rules, by precedence.
    """
    given: dict[str, GivenValue] = {}
    for place in applying:
        rule = rules[place].spec
        for action in rule.actions:
            if is_for(action.target, file):
                for knob, value in action.parameters.items():
                    given.setdefault(knob, GivenValue(value, rule, action))
    return given


def is_for(target: ActionTarget, file: FileFacts | None) -> bool:
    """Return True if an action with this target applies to a file, or without a file, to the Dataset."""
    if target is ActionTarget.FILE:
        return file is not None
    if target is ActionTarget.MODEL:
        return file is not None and file.type not in (None, ModelFileKind.UNKNOWN)
    return True
