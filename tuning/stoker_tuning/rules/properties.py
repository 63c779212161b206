"""Which properties a condition can look at, of which kind they are, and how they can be compared."""

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
    """What a property is compared with."""

    TEXT = "text"
    WORD = "word"
    NUMBER = "number"
    BYTES = "bytes"
    GLOB = "glob"


@dataclass(frozen=True)
class FactProperty:
    """One property: where it is looked for, by which name, and which ``words`` it can be, when it is one of some."""

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
    FactProperty(_FILE, "name", _TEXT, "What stands behind the path's last slash."),
    FactProperty(_FILE, "extension", _TEXT, "The name from its last dot, in lower case, such as `.jpg`."),
    FactProperty(_FILE, "size", _BYTES, "The file's size."),
    FactProperty(_FILE, "type", _WORD, "What the file is to a model.", tuple(ModelFileKind)),
    FactProperty(_FILE, "split", _WORD, "Which part of the Dataset the file belongs to.", tuple(Split)),
    FactProperty(_ACCESS, "pattern", _WORD, "In which order bytes are read.", tuple(AccessPattern)),
    FactProperty(_ACCESS, "items_per_second", _NUMBER, "Files, or reported records, that are read in a second."),
    FactProperty(
        _WORKLOAD,
        "framework",
        _TEXT,
        "What it trains with, such as `pytorch`.",
    ),
    FactProperty(_WORKLOAD, "phase", _WORD, "What it does now.", tuple(TrainingPhase)),
    FactProperty(
        _WORKLOAD,
        "batch_size",
        _NUMBER,
        "Items of a batch, as it reports, else as its spec says.",
    ),
    FactProperty(_WORKLOAD, "job", _TEXT, "The name of its TrainingJob, JobSet or other job, or of its pod."),
    FactProperty(_WORKLOAD, "namespace", _TEXT, "Its namespace."),
    FactProperty(_WORKLOAD, "model_kind", _WORD, "Which model files it loads or saves.", tuple(ModelFileKind)),
    FactProperty(_SYSTEM, "memory", _BYTES, "The node's memory."),
    FactProperty(_SYSTEM, "gpu_count", _NUMBER, "The node's GPUs; at least those that the pod asks for."),
    FactProperty(_SYSTEM, "bandwidth", _BYTES, "Bytes a second from the store; until measured: of its network."),
    FactProperty(_SYSTEM, "disk", _BYTES, "What the node's cache folders can hold, warm data included."),
    FactProperty(ConditionScope.FILE_PATTERN, "glob", ValueKind.GLOB, "A pattern such as `*.tar` or `train/**`."),
    FactProperty(ConditionScope.FILE_PATTERN, "extension", _TEXT, "Short for file_context's extension."),
)
_BY_NAME = {(each.scope, each.name): each for each in PROPERTIES}
FACT_PROPERTY_ALIASES = {(_FILE, "kind"): "type"}


def property_of(scope: ConditionScope, name: str) -> FactProperty | None:
    """Return a property by its name or an older one; None when there is none."""
    return _BY_NAME.get((scope, FACT_PROPERTY_ALIASES.get((scope, name), name)))


def property_names(scope: ConditionScope) -> list[str]:
    """Return the names of a scope's properties."""
    return [each.name for each in PROPERTIES if each.scope is scope]
