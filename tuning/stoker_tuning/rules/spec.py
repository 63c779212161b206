"""Rules as plain values: what a document's reader makes of them, checked already."""

from dataclasses import dataclass, field

from stoker_tuning.vocabulary import ActionTarget, ActionType, ConditionOperator, ConditionScope, RuleLayer

Scalar = str | float | int | bool
KnobValue = str | float | int | bool


@dataclass(frozen=True, slots=True)
class ConditionSpec:
    """One condition; ``value`` is a tuple for ``in`` and ``not_in``. Bytes are a number, extensions lower case."""

    scope: ConditionScope
    property: str
    operator: ConditionOperator
    value: Scalar | tuple[Scalar, ...]
    weight: float = 1.0

    def __str__(self) -> str:
        value = ", ".join(map(str, self.value)) if isinstance(self.value, tuple) else str(self.value)
        return f"{self.scope} {self.property} {self.operator} {value}"


@dataclass(frozen=True, slots=True)
class ActionSpec:
    """What a rule does: values of knobs, by the names of stoker_tuning.recommend.knobs."""

    type: ActionType
    target: ActionTarget
    parameters: dict[str, KnobValue] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RuleOrigin:
    """Where a rule stands: the document, the layer in which it counts, and the group (such as a template) in it."""

    document: str
    layer: RuleLayer
    group: str = ""

    def __str__(self) -> str:
        return ", ".join(filter(None, (self.document, self.group)))


@dataclass(frozen=True, slots=True)
class RuleSpec:
    """One rule: it applies when the weight of the conditions that hold is ``threshold`` of all weights or more.

    All ``gates`` have to hold besides: they say for which framework or hardware a group of rules is, never of a file.
    """

    id: str
    origin: RuleOrigin
    conditions: tuple[ConditionSpec, ...]
    actions: tuple[ActionSpec, ...]
    priority: int = 0
    threshold: float = 1.0
    gates: tuple[ConditionSpec, ...] = ()
    name: str = ""
    description: str = ""


_LAYERS = tuple(RuleLayer)


def by_precedence(rules: list[RuleSpec]) -> list[RuleSpec]:
    """Return the rules in the order in which they count: by layer, higher priority first, then as they are written."""
    return sorted(rules, key=lambda rule: (_LAYERS.index(rule.origin.layer), -rule.priority))
