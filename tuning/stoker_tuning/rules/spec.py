"""Rules as plain, validated values."""

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
    """An action of a rule: values of knobs, by their names in stoker_tuning.recommend.knobs."""

    type: ActionType
    target: ActionTarget
    parameters: dict[str, KnobValue] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RuleOrigin:
    """The origin of a rule: its document, its layer, and its group, such as a template."""

    document: str
    layer: RuleLayer
    group: str = ""

    def __str__(self) -> str:
        return ", ".join(filter(None, (self.document, self.group)))


@dataclass(frozen=True, slots=True)
class RuleSpec:
    """One rule. It applies if the weights of the true conditions reach ``threshold``, a share of all weights.

    All ``gates`` must also be true. They select the framework or hardware of a group of rules.
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
    """Return the rules by precedence: layer, then priority, then place in the document."""
    return sorted(rules, key=lambda rule: (_LAYERS.index(rule.origin.layer), -rule.priority))
