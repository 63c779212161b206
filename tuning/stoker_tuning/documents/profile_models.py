"""The whole document: a TuningProfile, as a file for `stoker mount --tuning`, a chart value and an object."""

import re
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, field_validator

from stoker_tuning.documents.errors import quoted, suggestion
from stoker_tuning.documents.rule_models import DocumentModel, TuningRule, checked_parameters, words
from stoker_tuning.documents.values import Description, Identifier, PatternBudget, condition_value, refusal, refusal_at
from stoker_tuning.recommend.knobs import KNOB_BY_NAME
from stoker_tuning.rules.properties import property_names, property_of
from stoker_tuning.rules.spec import KnobValue
from stoker_tuning.vocabulary import (
    CachePolicy,
    ConditionOperator,
    ConditionScope,
    OptimizationLevel,
    PrefetchStrategy,
)

API_VERSION = "stoker.dev/v1alpha1"
KIND = "TuningProfile"
MOST_RULES = 1000  # of a document, with those of the templates that it uses
MOST_GROUPS = 50  # templates, frameworks, environments, hardware profiles: of each
MOST_USES = 20
_COMPARISON = re.compile(r"\s*(>=|<=|==|!=|>|<)?\s*(\S+)\s*")
_SIGNS = {
    ">=": ConditionOperator.GREATER_OR_EQUAL,
    "<=": ConditionOperator.LESS_OR_EQUAL,
    "==": ConditionOperator.EQUALS,
    "!=": ConditionOperator.NOT_EQUALS,
    ">": ConditionOperator.GREATER_THAN,
    "<": ConditionOperator.LESS_THAN,
}

Rules = Annotated[tuple[TuningRule, ...], Field(max_length=MOST_RULES, description="Rules.")]


class Comparison(DocumentModel):
    """A comparison of a hardware profile, such as ``>= 8``."""

    operator: ConditionOperator
    value: Any


def _unique(items: tuple[Any, ...], name: str) -> None:
    seen: set[str] = set()
    for number, item in enumerate(items):
        found = getattr(item, name)
        if found in seen:
            raise refusal_at(str(number), f"the {name} {quoted(found)} is here twice: give it another")
        seen.add(found)


class TemplateUse(DocumentModel):
    """A template in use, with values for parameters that its rules leave open."""

    template: Annotated[Identifier, Field(description="The template's id.")]
    parameters: Annotated[dict[str, Any], Field(description="Overrides of the template's parameters.")] = Field(
        default_factory=dict
    )

    @field_validator("parameters", mode="before")
    @classmethod
    def _known(cls, value: object) -> dict[str, KnobValue]:
        return checked_parameters(value, list(KNOB_BY_NAME), "any action")


class RuleGroup(DocumentModel):
    """Rules, written here or taken from templates."""

    rules: Rules = ()
    use: Annotated[tuple[TemplateUse, ...], Field(max_length=MOST_USES, description="Templates in use.")] = ()

    @field_validator("rules")
    @classmethod
    def _unique_ids(cls, rules: tuple[TuningRule, ...]) -> tuple[TuningRule, ...]:
        _unique(rules, "id")
        return rules


class RuleTemplate(DocumentModel):
    """A named list of rules."""

    id: Annotated[Identifier, Field(description="Its name.")]
    category: Annotated[Identifier, Field(description="One word.")] = "general"
    description: Annotated[Description, Field(description="When to use it.")] = ""
    parameters: Annotated[
        dict[str, Any],
        Field(description="Values for parameters that its actions leave out."),
    ] = Field(default_factory=dict)
    rules: Annotated[Rules, Field(min_length=1)]

    @field_validator("parameters", mode="before")
    @classmethod
    def _known(cls, value: object) -> dict[str, KnobValue]:
        return checked_parameters(value, list(KNOB_BY_NAME), "any action")

    @field_validator("rules")
    @classmethod
    def _unique_ids(cls, rules: tuple[TuningRule, ...]) -> tuple[TuningRule, ...]:
        _unique(rules, "id")
        return rules


class TuningSettings(DocumentModel):
    """Values that apply if no rule sets them."""

    level: Annotated[
        OptimizationLevel | None, words(OptimizationLevel), Field(description="Resources spent on prefetch.")
    ] = None
    strategy: Annotated[PrefetchStrategy | None, words(PrefetchStrategy), Field(description="Prefetch distance.")] = (
        None
    )
    cache_policy: Annotated[
        CachePolicy | None, words(CachePolicy), Field(description="Which files a full cache keeps.")
    ] = None
    metrics_collection: Annotated[bool, Field(strict=True, description="Collect figures of rules.")] = True
    auto_tuning: Annotated[
        bool, Field(strict=True, description="No effect. Documents of earlier releases may set it.")
    ] = True
    debug: Annotated[bool, Field(strict=True, description="Log each decision.")] = False


class FrameworkProfile(RuleGroup):
    """Rules for workloads of one framework."""

    name: Annotated[Identifier, Field(description="The framework's name in `workload_context`.")]
    description: Annotated[Description, Field(description="Its purpose.")] = ""


class EnvironmentProfile(RuleGroup):
    """Rules and settings for one environment, such as production."""

    name: Annotated[Identifier, Field(description="Its name.")]
    description: Annotated[Description, Field(description="Its purpose.")] = ""
    settings: Annotated[TuningSettings, Field(description="Override the built-in settings.")] = TuningSettings()


def _comparisons(value: object) -> dict[str, Comparison]:
    known = property_names(ConditionScope.SYSTEM_CONTEXT)
    if not isinstance(value, dict) or not value:
        raise refusal('conditions are a mapping: write gpu_count: ">= 8"')
    found = {}
    for name, each in value.items():
        fact = property_of(ConditionScope.SYSTEM_CONTEXT, str(name))
        if fact is None:
            raise refusal_at(str(name), f"{quoted(name)} is no property of hardware: {suggestion(name, known)}")
        match = _COMPARISON.fullmatch(str(each)) if len(str(each)) <= 60 and not isinstance(each, bool) else None
        if match is None:
            raise refusal_at(str(name), f'{quoted(each)} is no comparison: write for example ">= 8" or "< 64Gi"')
        operator = _SIGNS[match[1] or "=="]
        try:
            number = float(match[2]) if fact.name == "gpu_count" else match[2]
            found[fact.name] = Comparison(
                operator=operator, value=condition_value(fact, operator, number, PatternBudget())
            )
        except ValueError as error:
            raise refusal_at(str(name), f'{quoted(each)} is no comparison: write for example ">= 8"') from error
    return found


class HardwareProfile(RuleGroup):
    """Rules and settings for nodes of one kind."""

    name: Annotated[Identifier, Field(description="Its name.")]
    description: Annotated[Description, Field(description="Its purpose.")] = ""
    conditions: Annotated[
        dict[str, Comparison],
        BeforeValidator(_comparisons),
        Field(description='Comparisons of `system_context`, such as `gpu_count: ">= 8"`. All must hold.'),
    ]
    settings: Annotated[TuningSettings, Field(description="Override the built-in settings.")] = TuningSettings()


class TuningSpec(RuleGroup):
    """The content of a profile."""

    environment: Annotated[
        Identifier | None,
        Field(description="The environment in force. Default: the chart's tuning.environment."),
    ] = None
    settings: Annotated[TuningSettings, Field(description="Values that apply if no rule sets them.")] = TuningSettings()
    templates: Annotated[tuple[RuleTemplate, ...], Field(max_length=MOST_GROUPS, description="Custom templates.")] = ()
    frameworks: Annotated[
        tuple[FrameworkProfile, ...], Field(max_length=MOST_GROUPS, description="Rules by framework.")
    ] = ()
    environments: Annotated[
        tuple[EnvironmentProfile, ...], Field(max_length=MOST_GROUPS, description="Rules by environment.")
    ] = ()
    hardware_profiles: Annotated[
        tuple[HardwareProfile, ...], Field(max_length=MOST_GROUPS, description="Rules by kind of node.")
    ] = ()

    @field_validator("templates")
    @classmethod
    def _unique_templates(cls, items: tuple[RuleTemplate, ...]) -> tuple[RuleTemplate, ...]:
        _unique(items, "id")
        return items

    @field_validator("frameworks", "environments", "hardware_profiles")
    @classmethod
    def _unique_names(cls, items: tuple[Any, ...]) -> tuple[Any, ...]:
        _unique(items, "name")
        return items


class ProfileMetadata(DocumentModel):
    """The object's metadata; the API server's own fields are left to it."""

    name: Annotated[
        str,
        Field(
            pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$",
            max_length=253,
            description="The profile's name.",
        ),
    ]
    labels: Annotated[dict[str, str], Field(max_length=64, description="As of any object.")] = Field(
        default_factory=dict
    )
    annotations: Annotated[dict[str, str], Field(max_length=64, description="As of any object.")] = Field(
        default_factory=dict
    )


class TuningDocument(DocumentModel):
    """A tuning document."""

    api_version: Annotated[Literal["stoker.dev/v1alpha1"], Field(alias="apiVersion", description="Format version.")]
    kind: Annotated[Literal["TuningProfile"], Field(description="Kind of the object.")]
    metadata: Annotated[ProfileMetadata, Field(description="Its name.")]
    spec: Annotated[TuningSpec, Field(description="The content.")]
