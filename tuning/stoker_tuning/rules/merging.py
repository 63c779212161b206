"""What the rules that apply say together: the first rule that gives a knob a value has it, later ones fill the rest."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from stoker_tuning.rules.compiled import CompiledRule
from stoker_tuning.rules.facts import FileFacts
from stoker_tuning.rules.spec import ActionSpec, KnobValue, RuleSpec
from stoker_tuning.vocabulary import ActionTarget, ModelFileKind


@dataclass(frozen=True, slots=True)
class GivenValue:
    """A knob's value, and the rule and the action that gave it."""

    value: KnobValue
    rule: RuleSpec
    action: ActionSpec


def given_values(
    rules: tuple[CompiledRule, ...], applying: Iterable[int], file: FileFacts | None
) -> Mapping[str, GivenValue]:
    """Merge what the rules that apply, named by their places in the order in which they count, say of a file.

    Without a file it is what they say of the Dataset and its workload.
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
    """Tell whether an action with this target says something of a file, or of what has no file."""
    if target is ActionTarget.FILE:
        return file is not None
    if target is ActionTarget.MODEL:
        return file is not None and file.type not in (None, ModelFileKind.UNKNOWN)
    return True
