"""The vocabulary of training awareness, for users and code. Standard library only."""

from enum import StrEnum


class TrainingPhase(StrEnum):
    """The phase of a workload."""

    UNKNOWN = "Unknown"
    INITIALIZATION = "Initialization"
    TRAINING = "Training"
    VALIDATION = "Validation"
    SAVE_CHECKPOINT = "SaveCheckpoint"
    EVALUATION = "Evaluation"
    INFERENCE = "Inference"
    HYPERPARAM_TUNING = "HyperparamTuning"


class ModelFileKind(StrEnum):
    """The role of a file in a model."""

    WEIGHTS = "Weights"
    ARCHITECTURE = "Architecture"
    OPTIMIZER = "Optimizer"
    CHECKPOINT = "Checkpoint"
    METADATA = "Metadata"
    UNKNOWN = "Unknown"


class OptimizationLevel(StrEnum):
    """The resources spent on prefetch. The document levels.yaml has the values of each level."""

    BASIC = "Basic"
    BALANCED = "Balanced"
    AGGRESSIVE = "Aggressive"
    MAXIMUM = "Maximum"


class PrefetchStrategy(StrEnum):
    """The distance of prefetch ahead of the reader."""

    CONSERVATIVE = "Conservative"
    BALANCED = "Balanced"
    AGGRESSIVE = "Aggressive"
    ADAPTIVE = "Adaptive"


class CachePolicy(StrEnum):
    """The files that a full cache keeps."""

    NONE = "None"
    LRU = "LRU"
    TRAINING_AWARE = "TrainingAware"
    ML = "ML"


class CachePriority(StrEnum):
    """The order of files when space is short."""

    LOW = "Low"
    NORMAL = "Normal"
    HIGH = "High"
    URGENT = "Urgent"


class AccessPattern(StrEnum):
    """The order of reads."""

    UNKNOWN = "unknown"
    SEQUENTIAL = "sequential"
    SHUFFLED = "shuffled"
    STRIDED = "strided"
    RANDOM = "random"  # within a file
    BATCH = "batch"


class Split(StrEnum):
    """The part of a Dataset that a file belongs to."""

    UNKNOWN = "unknown"
    TRAIN = "train"
    VALIDATION = "validation"
    TEST = "test"


class AccessSource(StrEnum):
    """The source of an access: exact requests, sampled opens, or the pod's report."""

    FUSE = "fuse"
    FANOTIFY = "fanotify"
    REPORT = "report"


class ConditionScope(StrEnum):
    """The facts that a condition of a rule tests; the condition's ``type``."""

    FILE_CONTEXT = "file_context"
    ACCESS_PATTERN = "access_pattern"
    WORKLOAD_CONTEXT = "workload_context"
    SYSTEM_CONTEXT = "system_context"
    FILE_PATTERN = "file_pattern"


class ConditionOperator(StrEnum):
    """The comparison of a fact with a condition's value."""

    EQUALS = "equals"
    NOT_EQUALS = "not_equals"
    CONTAINS = "contains"
    MATCHES = "matches"
    GREATER_THAN = "greater_than"
    GREATER_OR_EQUAL = "greater_or_equal"
    LESS_THAN = "less_than"
    LESS_OR_EQUAL = "less_or_equal"
    IN = "in"
    NOT_IN = "not_in"
    EXISTS = "exists"


class ActionType(StrEnum):
    """The effect of a rule's action."""

    CACHE = "cache"
    PREFETCH = "prefetch"
    STREAM = "stream"
    COORDINATE = "coordinate"
    COMPRESS = "compress"
    PRIORITIZE = "prioritize"


class ActionTarget(StrEnum):
    """The object of an action."""

    FILE = "file"
    DATASET = "dataset"
    MODEL = "model"
    WORKLOAD = "workload"


class Compression(StrEnum):
    """Whether a compressed copy is kept; ``auto``: a measured trial decides."""

    ON = "on"
    OFF = "off"
    AUTO = "auto"


class WarmOrder(StrEnum):
    """The position of a file in the warm-up of its Dataset."""

    FIRST = "first"
    EARLY = "early"
    NORMAL = "normal"
    LATE = "late"


class RuleLayer(StrEnum):
    """The source of a rule, in order of precedence: a later layer fills gaps of earlier ones."""

    CUSTOM = "custom"
    ENVIRONMENT = "environment"
    FRAMEWORK = "framework"
    BUILT_IN = "built-in"
