"""Node selection in the terms of a pod's spec: match expressions, tolerations, topology spread."""

import re
from enum import StrEnum
from typing import Annotated, Self

from pydantic import AfterValidator, ConfigDict, Field, model_validator

from stoker_api.meta import Model, cel_rule

MOST_EXPRESSIONS = 16
MOST_VALUES = 50  # of one expression
MOST_TOLERATIONS = 16
MOST_SKEW = 1000
# As in corev1: an optional DNS subdomain as prefix, and a name of 63 characters.
QUALIFIED_NAME = r"^([a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$"
_INTEGER = r"^-?[0-9]{1,18}$"
_EXPRESSION_HINT = "In and NotIn take values, Exists and DoesNotExist none, Gt and Lt one integer"
_TOLERATION_HINT = "a toleration without key must have the operator Exists, and one with Exists has no value"
LabelValue = Annotated[str, Field(max_length=63)]
_KEY_HINT = "is not the key of a label or taint: write for example gpu.memory or topology.kubernetes.io/zone"


def _checked_key(text: str) -> str:
    if re.fullmatch(QUALIFIED_NAME, text) is None:
        raise ValueError(f"{text!r} {_KEY_HINT}")
    return text


# A rule instead of the pattern, because the API server shows users the raw pattern.
_KEY_RULE = cel_rule(f"self.matches('{QUALIFIED_NAME}')", f"it {_KEY_HINT}", f"self + ' {_KEY_HINT}'")
LabelKey = Annotated[
    str,
    Field(min_length=1, max_length=317, json_schema_extra={"x-kubernetes-validations": [_KEY_RULE]}),
    AfterValidator(_checked_key),
]


class NodeSelectorOperator(StrEnum):
    """How a node's label is compared, as in corev1."""

    IN = "In"
    NOT_IN = "NotIn"
    EXISTS = "Exists"
    DOES_NOT_EXIST = "DoesNotExist"
    GT = "Gt"
    LT = "Lt"


_WITH_VALUES = frozenset({NodeSelectorOperator.IN, NodeSelectorOperator.NOT_IN})
_WITH_NUMBER = frozenset({NodeSelectorOperator.GT, NodeSelectorOperator.LT})


class NodeSelectorRequirement(Model):
    """A requirement on a node's label, as corev1.NodeSelectorRequirement."""

    model_config = ConfigDict(
        json_schema_extra={
            "x-kubernetes-validations": [
                cel_rule(
                    "self.operator in ['In', 'NotIn'] ? has(self.values) && size(self.values) > 0 : "
                    "self.operator in ['Gt', 'Lt'] ? has(self.values) && size(self.values) == 1 && "
                    f"self.values[0].matches('{_INTEGER}') : !has(self.values) || size(self.values) == 0",
                    _EXPRESSION_HINT,
                )
            ]
        }
    )
    key: Annotated[LabelKey, Field(description="The label.")]
    operator: Annotated[NodeSelectorOperator, Field(description="How it is compared with the values.")]
    values: Annotated[
        tuple[LabelValue, ...],
        Field(
            description=f"{_EXPRESSION_HINT}.",
            max_length=MOST_VALUES,
            json_schema_extra={"x-kubernetes-list-type": "atomic"},
        ),
    ] = ()

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.operator in _WITH_VALUES:
            fine = bool(self.values)
        elif self.operator in _WITH_NUMBER:
            fine = len(self.values) == 1 and re.fullmatch(_INTEGER, self.values[0]) is not None
        else:
            fine = not self.values
        if not fine:
            raise ValueError(_EXPRESSION_HINT)
        return self


class TolerationOperator(StrEnum):
    """How a taint's value is compared, as in corev1."""

    EXISTS = "Exists"
    EQUAL = "Equal"


class TaintEffect(StrEnum):
    """The effect of a taint, as in corev1."""

    NO_SCHEDULE = "NoSchedule"
    PREFER_NO_SCHEDULE = "PreferNoSchedule"
    NO_EXECUTE = "NoExecute"


class Toleration(Model):
    """A tolerated taint, as corev1.Toleration without times."""

    model_config = ConfigDict(
        json_schema_extra={
            "x-kubernetes-validations": [
                cel_rule(
                    "has(self.operator) && self.operator == 'Exists' ? !has(self.value) || self.value == '' : "
                    "has(self.key)",
                    _TOLERATION_HINT,
                )
            ]
        }
    )
    key: Annotated[LabelKey | None, Field(description="The taint's key. Absent, with Exists: every taint.")] = None
    operator: Annotated[
        TolerationOperator, Field(description="Exists: any value of the taint matches. Equal: this value matches.")
    ] = TolerationOperator.EQUAL
    value: Annotated[LabelValue, Field(description="The taint's value.")] = ""
    effect: Annotated[TaintEffect | None, Field(description="The taint's effect. Absent: every effect.")] = None

    @model_validator(mode="after")
    def _check(self) -> Self:
        exists = self.operator is TolerationOperator.EXISTS
        if (exists and self.value) or (not exists and self.key is None):
            raise ValueError(_TOLERATION_HINT)
        return self


class UnsatisfiableConstraintAction(StrEnum):
    """The action when replicas cannot be spread as requested, as in corev1."""

    DO_NOT_SCHEDULE = "DoNotSchedule"
    SCHEDULE_ANYWAY = "ScheduleAnyway"


class TopologySpreadConstraint(Model):
    """Spread of replicas over zones, racks and other domains; a subset of corev1.TopologySpreadConstraint."""

    topology_key: Annotated[
        LabelKey, Field(description="The label whose values are the domains, such as topology.kubernetes.io/zone.")
    ]
    max_skew: Annotated[
        int,
        Field(
            description="Maximum difference in replicas between a domain and the emptiest domain.", ge=1, le=MOST_SKEW
        ),
    ] = 1
    when_unsatisfiable: Annotated[
        UnsatisfiableConstraintAction,
        Field(
            description="DoNotSchedule: fewer replicas rather than a larger skew. ScheduleAnyway: a larger skew if no "
            "other node has room."
        ),
    ] = UnsatisfiableConstraintAction.DO_NOT_SCHEDULE
