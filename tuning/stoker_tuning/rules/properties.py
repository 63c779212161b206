"""The properties of conditions, with their kinds and operators."""

from dataclasses import dataclass
from enum import StrEnum

from stoker_tuning.vocabulary import (
    AccessPattern,
    ConditionOperator,
    ConditionScope,
    ModelFileKind,
    Split,
    TrainingPhase,
)


class ValueKind(StrEnum):
    """The kind of value of a property."""

    TEXT = "text"
    WORD = "word"
    NUMBER = "number"
    BYTES = "bytes"
    GLOB = "glob"


@dataclass(frozen=True)
class FactProperty:
    """One property. ``words``: its possible values, if they are limited."""

    scope: ConditionScope
    name: str
    kind: ValueKind
    about: str
    words: tuple[str, ...] = ()


_EQUAL = (ConditionOperator.EQUALS, ConditionOperator.NOT_EQUALS, ConditionOperator.IN, ConditionOperator.NOT_IN)
_ORDERED = (
    ConditionOperator.GREATER_THAN,
    ConditionOperator.GREATER_OR_EQUAL,
    ConditionOperator.LESS_THAN,
    ConditionOperator.LESS_OR_EQUAL,
)
_EXISTS = (ConditionOperator.EXISTS,)
OPERATORS: dict[ValueKind, tuple[ConditionOperator, ...]] = {
    ValueKind.TEXT: (*_EQUAL, ConditionOperator.CONTAINS, ConditionOperator.MATCHES, *_EXISTS),
    ValueKind.WORD: (*_EQUAL, *_EXISTS),
    ValueKind.NUMBER: (*_EQUAL, *_ORDERED, *_EXISTS),
    ValueKind.BYTES: (*_EQUAL, *_ORDERED, *_EXISTS),
    ValueKind.GLOB: _EQUAL,
}
_FILE, _ACCESS = ConditionScope.FILE_CONTEXT, ConditionScope.ACCESS_PATTERN
_WORKLOAD, _SYSTEM = ConditionScope.WORKLOAD_CONTEXT, ConditionScope.SYSTEM_CONTEXT
_TEXT, _WORD, _NUMBER, _BYTES = ValueKind.TEXT, ValueKind.WORD, ValueKind.NUMBER, ValueKind.BYTES
PROPERTIES: tuple[FactProperty, ...] = (
    FactProperty(_FILE, "path", _TEXT, "The path below the Dataset's folder, such as `train/n01440764/1.JPEG`."),
    FactProperty(_FILE, "name", _TEXT, "The last part of the path."),
    FactProperty(_FILE, "extension", _TEXT, "Such as `.jpg`, in lower case."),
    FactProperty(_FILE, "size", _BYTES, "The file's size."),
    FactProperty(_FILE, "type", _WORD, "The kind of model file.", tuple(ModelFileKind)),
    FactProperty(_FILE, "split", _WORD, "The file's part of the Dataset.", tuple(Split)),
    FactProperty(_ACCESS, "pattern", _WORD, "The read order.", tuple(AccessPattern)),
    FactProperty(_ACCESS, "items_per_second", _NUMBER, "Files, or reported records, read per second."),
    FactProperty(
        _WORKLOAD,
        "framework",
        _TEXT,
        "Such as `pytorch`.",
    ),
    FactProperty(_WORKLOAD, "phase", _WORD, "The current phase.", tuple(TrainingPhase)),
    FactProperty(
        _WORKLOAD,
        "batch_size",
        _NUMBER,
        "Items per batch, from its report or spec.",
    ),
    FactProperty(_WORKLOAD, "job", _TEXT, "Name of its job, or of its pod."),
    FactProperty(_WORKLOAD, "namespace", _TEXT, "Namespace of the pod."),
    FactProperty(_WORKLOAD, "model_kind", _WORD, "Model files that it loads or saves.", tuple(ModelFileKind)),
    FactProperty(_SYSTEM, "memory", _BYTES, "The node's memory."),
    FactProperty(_SYSTEM, "gpu_count", _NUMBER, "The node's GPUs, at least the pod's request."),
    FactProperty(_SYSTEM, "bandwidth", _BYTES, "Bytes per second from the store, or of the network until measured."),
    FactProperty(_SYSTEM, "disk", _BYTES, "Capacity of the node's cache folders."),
    FactProperty(ConditionScope.FILE_PATTERN, "glob", ValueKind.GLOB, "Such as `*.tar` or `train/**`."),
    FactProperty(ConditionScope.FILE_PATTERN, "extension", _TEXT, "Same as file_context's extension."),
)
_BY_NAME = {(each.scope, each.name): each for each in PROPERTIES}
FACT_PROPERTY_ALIASES = {(_FILE, "kind"): "type"}


def property_of(scope: ConditionScope, name: str) -> FactProperty | None:
    """Return a property by its name or an older one; None if there is no such property."""
    return _BY_NAME.get((scope, FACT_PROPERTY_ALIASES.get((scope, name), name)))


def property_names(scope: ConditionScope) -> list[str]:
    """Return the names of a scope's properties."""
    return [each.name for each in PROPERTIES if each.scope is scope]
