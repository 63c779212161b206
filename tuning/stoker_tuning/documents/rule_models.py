"""The models of rules in documents: conditions, actions, and the rule itself."""

import re
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationInfo, field_validator, model_validator

from stoker_tuning.documents.errors import quoted, suggestion
from stoker_tuning.documents.values import (
    Description,
    Identifier,
    Line,
    PatternBudget,
    condition_value,
    knob_value,
    parse_word,
    refusal,
    refusal_at,
)
from stoker_tuning.recommend.knobs import KNOB_BY_NAME, REMOVED, knob_names
from stoker_tuning.rules.properties import OPERATORS, FactProperty, property_names, property_of
from stoker_tuning.rules.spec import KnobValue, Scalar
from stoker_tuning.vocabulary import ActionTarget, ActionType, ConditionOperator, ConditionScope

MOST_CONDITIONS = 20
MOST_ACTIONS = 10
MOST_PRIORITY = 1000
# Older names of actions, with their present ones.
ACTION_ALIASES = {
    "chunked_streaming": ActionType.STREAM,
    "parallel_load": ActionType.STREAM,
    "intelligent_cache": ActionType.CACHE,
    "persistent_cache": ActionType.CACHE,
    "smart_prefetch": ActionType.PREFETCH,
    "sequential_prefetch": ActionType.PREFETCH,
    "distributed_coordination": ActionType.COORDINATE,
    "compression": ActionType.COMPRESS,
    "prioritization": ActionType.PRIORITIZE,
}


class DocumentModel(BaseModel):
    """Base of all models of a document: unknown fields are errors, and words and numbers are never converted."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


def words(kind: type[Any], aliases: dict[str, Any] | None = None) -> BeforeValidator:
    """Return the check of a word of the vocabulary; its refusal suggests the closest word."""
    known = [str(word) for word in kind]
    name = re.sub(r"(?<!^)(?=[A-Z])", " ", kind.__name__).lower().removesuffix(" type")  # ActionType: action

    def check(value: object) -> Any:
        return (aliases or {}).get(str(value)) or kind(parse_word(value, known, name))

    return BeforeValidator(check)


Number = Annotated[float, Field(strict=True)]


class RuleCondition(DocumentModel):
    """One condition. For an unknown fact, only ``exists: false`` holds."""

    type: Annotated[ConditionScope, words(ConditionScope), Field(description="Source of the fact.")]
    property: Annotated[
        str,
        Field(
            description="The property. Default: `pattern` for access_pattern, `glob` for file_pattern, or `extension` "
            "if the value starts with a dot.",
            validate_default=True,
        ),
    ] = ""
    operator: Annotated[
        ConditionOperator,
        words(ConditionOperator),
        Field(description="The comparison. Default: equals, or in for a list.", validate_default=True),
    ] = ConditionOperator.EQUALS
    value: Annotated[Any, Field(description="The value to compare with.", validate_default=True)] = None
    weight: Annotated[Number, Field(ge=0, le=1, description="Weight among the conditions.")] = 1.0

    @model_validator(mode="before")
    @classmethod
    def _short_forms(cls, data: Any) -> Any:
        if not isinstance(data, dict):
            return data
        data = dict(data)
        if "property" not in data:
            if data.get("type") == ConditionScope.ACCESS_PATTERN:
                data["property"] = "pattern"
            elif data.get("type") == ConditionScope.FILE_PATTERN:
                data["property"] = "extension" if _all_extensions(data.get("value")) else "glob"
        if "operator" not in data and isinstance(data.get("value"), list):
            data["operator"] = ConditionOperator.IN
        return data

    @field_validator("property")
    @classmethod
    def _known_property(cls, name: str, info: ValidationInfo) -> str:
        scope = info.data.get("type")
        if scope is None:
            return name
        found = property_of(scope, name)
        if found is None:
            known = property_names(scope)
            sentence = f"{quoted(name)} is no property of {scope}" if name else f"{scope} needs a property"
            raise refusal(f"{sentence}: {suggestion(name, known)}")
        return found.name

    @field_validator("operator")
    @classmethod
    def _fitting_operator(cls, operator: ConditionOperator, info: ValidationInfo) -> ConditionOperator:
        found = _looked_at(info)
        if found is not None and operator not in OPERATORS[found.kind]:
            raise refusal(f"{operator} does not suit {found.name}: it takes {', '.join(OPERATORS[found.kind])}")
        return operator

    @field_validator("value", mode="before")
    @classmethod
    def _fitting_value(cls, value: object, info: ValidationInfo) -> Scalar | tuple[Scalar, ...] | None:
        found, operator = _looked_at(info), info.data.get("operator")
        if found is None or operator is None:  # reported already
            return None
        budget = info.context if isinstance(info.context, PatternBudget) else PatternBudget()
        return condition_value(found, operator, value, budget)


def _looked_at(info: ValidationInfo) -> FactProperty | None:
    scope, name = info.data.get("type"), info.data.get("property")
    return property_of(scope, name) if scope is not None and name is not None else None


def _all_extensions(value: object) -> bool:
    """Return True if a file_pattern's value is an extension, or a list of extensions."""
    values = value if isinstance(value, list) else [value]
    plain = [isinstance(each, str) and each.startswith(".") and not set(each) & set("*?[/") for each in values]
    return bool(plain) and all(plain)


def checked_parameters(value: object, known: list[str], of: str) -> dict[str, KnobValue]:
    """Read parameters, and leave out removed ones. Raises a refusal that names the key."""
    if not isinstance(value, dict):
        raise refusal("parameters are a mapping: write name: value")
    present = {name: each for name, each in value.items() if ("parameters", name) not in REMOVED}
    for name in present:
        if name not in known:
            raise refusal_at(str(name), f"{quoted(name)} is no parameter of {of}: {suggestion(name, known)}")
    return {name: knob_value(KNOB_BY_NAME[name], each) for name, each in present.items()}


class RuleAction(DocumentModel):
    """An action with its target and values for knobs."""

    type: Annotated[ActionType, words(ActionType, ACTION_ALIASES), Field(description="The action.")]
    target: Annotated[ActionTarget, words(ActionTarget), Field(description="What it applies to.")] = ActionTarget.FILE
    parameters: Annotated[dict[str, Any], Field(description="Values by parameter name.")] = Field(default_factory=dict)

    @field_validator("parameters", mode="before")
    @classmethod
    def _known_parameters(cls, value: object, info: ValidationInfo) -> dict[str, KnobValue]:
        action = info.data.get("type")
        return {} if action is None else checked_parameters(value, knob_names(action), action)


class TuningRule(DocumentModel):
    """One rule: its actions apply if enough of its conditions hold."""

    id: Annotated[Identifier, Field(description="Its name, unique in its list.")]
    name: Annotated[Line, Field(description="A short title.")] = ""
    description: Annotated[Description, Field(description="Its purpose.")] = ""
    priority: Annotated[
        int,
        Field(ge=0, le=MOST_PRIORITY, strict=True, description="The rule with the higher priority sets a value."),
    ] = 0
    threshold: Annotated[
        Number,
        Field(gt=0, le=1, description="Share of the conditions' weights that must hold. 1: all."),
    ] = 1.0
    conditions: Annotated[
        tuple[RuleCondition, ...],
        Field(max_length=MOST_CONDITIONS, description="When it applies. None: always."),
    ] = ()
    actions: Annotated[
        tuple[RuleAction, ...], Field(min_length=1, max_length=MOST_ACTIONS, description="What it sets.")
    ]

    @field_validator("conditions")
    @classmethod
    def _some_weight(cls, conditions: tuple[RuleCondition, ...]) -> tuple[RuleCondition, ...]:
        if conditions and not any(each.weight for each in conditions):
            raise refusal("all weights are 0: give one of the conditions a weight above 0")
        return conditions
